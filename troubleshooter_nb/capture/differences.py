"""What a run that was compared while it ran does otherwise than its reference."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Literal

import pandas as pd

from troubleshooter_nb.options import get_options
from troubleshooter_nb.render.differences_view import (
    differences_headline,
    differences_html,
    differences_text,
)

Origin = Literal["created", "carried", "contains", "unknown"]


@dataclass(frozen=True)
class Difference:
    """A call that differs from its partner in the reference.

    Attributes
    ----------
    call : str
        As the dump names it, such as ``Module.fc1.Linear.forward.0``.
    path, layer : str
        Its place in the network and class.
    number : int
        Of its calls in the step, from 0.
    step : int
    direction : {"forward", "backward"}
    origin : {"created", "carried", "contains", "unknown"}
        It made the difference, as what it was given agrees; or passes on what it was given; or a
        call inside it differs; or that cannot be told.
    slot : str
        What differs most: ``output 0``, ``weight``, ``gradient of output 0``.
    verdict : str
        As in `Comparison.result`.
    rel_l2_error, max_abs_error : float
        nan where they are not known.
    basis : {"values", "fingerprint", "statistics"}
        What was compared; by a fingerprint `rel_l2_error` is an estimate.
    parameters : tuple of str
        Those of its own that differ.
    partner : str
        The entry of the reference that `slot` was held against.
    stack : str
        Where the call stands in the user's code, innermost first.
    """

    call: str
    path: str
    layer: str
    number: int
    step: int
    direction: Literal["forward", "backward"]
    origin: Origin
    slot: str
    verdict: str
    rel_l2_error: float = math.nan
    max_abs_error: float = math.nan
    basis: str = ""
    parameters: tuple[str, ...] = ()
    partner: str = ""
    stack: str = ""

    @property
    def stack_line(self) -> str:
        """The innermost line of the user's code, on one line; empty where it is not known."""
        first, _, rest = self.stack.partition("\n")
        return f"{first.rstrip(', ')}: {rest.partition(chr(10))[0].strip()}" if first else ""


@dataclass(frozen=True, repr=False)
class Differences:
    """The calls that differ from a reference, in the order in which they ended; see `record`.

    Attributes
    ----------
    rows : tuple of Difference
    reference : str
        Label of the reference.
    compared : int
        Calls of which something was compared.
    gradients : int
        Gradients that were compared.
    undecided : int
        Calls and gradients of which something is open: statistics alone agree, values cannot be
        read, a difference hides below `atol`, or the call ended by an exception.
    alone : tuple of str
        Calls of the run without a partner in the reference, and what has none of others: gradients
        by their backward, parameters.
    unmet : tuple of str
        Calls of the reference that the run did not make, and of the others those of whose backward
        a gradient did not come. Of what still runs, or was stopped, in the steps that it began.
    is_stopped : bool
        Whether the run was stopped at the last of `rows`.
    is_running : bool
    """

    rows: tuple[Difference, ...] = ()
    reference: str = ""
    compared: int = 0
    gradients: int = 0
    undecided: int = 0
    alone: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()
    is_stopped: bool = False
    is_running: bool = False

    def __iter__(self) -> Iterator[Difference]:
        """The calls that differ."""
        return iter(self.rows)

    def __len__(self) -> int:
        """Number of calls that differ."""
        return len(self.rows)

    def __getitem__(self, number: int) -> Difference:
        """A call that differs."""
        return self.rows[number]

    @property
    def passed(self) -> bool:
        """Whether all was compared and nothing differs, as `Comparison.passed`."""
        total = self.compared + self.gradients
        return total > 2 * self.undecided and not (self.rows or self.alone or self.unmet)

    @property
    def first(self) -> Difference | None:
        """The first call that created a difference, else the first that differs."""
        created = (row for row in self.rows if row.origin == "created")
        return next(created, self.rows[0] if self.rows else None)

    @property
    def headline(self) -> str:
        """How many differ and which first, in one line."""
        return differences_headline(self._facts())

    def to_dataframe(self) -> pd.DataFrame:
        """One row per call that differs, with the attributes of `Difference` as columns."""
        names = [field.name for field in fields(Difference)]
        rows = [[getattr(row, name) for name in names] for row in self.rows]
        return pd.DataFrame(rows, columns=names)

    def __repr__(self) -> str:
        """The calls that differ, what has no partner and what to do, at most 25 lines."""
        return differences_text(self._facts())

    def _repr_html_(self) -> str:
        return differences_html(self._facts())

    def _facts(self) -> dict[str, Any]:
        facts = {field.name: getattr(self, field.name) for field in fields(self)}
        facts["rows"] = [
            {**{f.name: getattr(row, f.name) for f in fields(row)}, "stack_line": row.stack_line}
            for row in self.rows
        ]
        first = self.first
        facts["first"] = None if first is None else self.rows.index(first)
        return {**facts, "passed": self.passed, **get_options()}
