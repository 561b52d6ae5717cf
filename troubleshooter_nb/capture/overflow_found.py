"""What a watch for overflow found: the first row of each kind and place, counted over the steps."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from troubleshooter_nb.capture.overflow import NONFINITE, Row
from troubleshooter_nb.columns.overflows import OVERFLOW_COLUMNS
from troubleshooter_nb.options import get_options
from troubleshooter_nb.render.missing_words import MissingRow
from troubleshooter_nb.render.overflow_view import first_row, overflow_html, overflow_text


@dataclass(frozen=True, repr=False)
class Overflow:
    """Where values of a network stop being finite, or come near to it; false where they do not.

    Attributes
    ----------
    rows : tuple of dict
        In order of execution, one per kind, place and direction: ``step, rank, call, path, layer,
        direction`` ("forward", "backward"), ``kind`` ("starts", "passed_on", "recovered",
        "saturated", "near_limit"), ``slot, dtype, nan_count, inf_count, size, max_abs,
        share_of_limit, source, inside, unmeasured, meant, stack`` of the first time (near the
        limit: of the worst), how many ``times`` it was so in all, and in which ``last_step``.
    calls, values : int
        How many were looked at, values with gradients.
    steps, nonfinite_steps : tuple of int
        Steps that were looked at, and those of them in which something was not finite.
    missing : tuple of MissingRow
        What could not be looked at, as `Recording.missing` tells it.
    state : str
        Of the watch: ``not started``, ``running``, ``paused``, ``stopped`` or ``broken``.
    """

    rows: tuple[Row, ...] = ()
    calls: int = 0
    values: int = 0
    steps: tuple[int, ...] = ()
    nonfinite_steps: tuple[int, ...] = ()
    missing: tuple[MissingRow, ...] = ()
    state: str = "stopped"

    @property
    def first(self) -> Row | None:
        """The row to look at: the first start, else what came in, else what is near the limit."""
        found = first_row(self.rows)
        return None if found is None else dict(found)

    def __iter__(self) -> Iterator[Row]:
        """The rows."""
        return iter(self.rows)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.rows)

    def __bool__(self) -> bool:
        """Whether anything was found."""
        return bool(self.rows)

    def to_dataframe(self) -> pd.DataFrame:
        """One row per kind, place and direction, the columns as in `rows`."""
        rows = [[one[name] for name in OVERFLOW_COLUMNS] for one in self.rows]
        return pd.DataFrame(rows, columns=list(OVERFLOW_COLUMNS))

    def __repr__(self) -> str:
        """Where it starts, what else was seen and what was looked at, at most 25 lines."""
        return overflow_text(self.rows, self._facts())

    def _repr_html_(self) -> str:
        return overflow_html(self.rows, self._facts())

    def _facts(self) -> dict[str, Any]:
        names = ("calls", "values", "steps", "nonfinite_steps", "missing", "state")
        return {name: getattr(self, name) for name in names} | get_options()


@dataclass
class Findings:
    """Collects the rows of steps; as many stay as there are kinds and places.

    What belongs to one run of a notebook's cell can be taken away again.
    """

    rows: dict[tuple[Any, ...], Row] = field(default_factory=dict)
    calls: Counter[int] = field(default_factory=Counter)
    values: Counter[int] = field(default_factory=Counter)
    steps: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    bad_steps: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def add(self, rows: Sequence[Row], calls: Sequence[Mapping[str, Any]], values: int) -> None:
        """Add what was found in the calls of one step."""
        runs = {call["call"]: call["run"] for call in calls}
        for call in calls:
            _put_once(self.steps[call["run"]], call["step"])
            self.calls[call["run"]] += call["direction"] == "forward"
        if calls:
            self.values[calls[0]["run"]] += values
        for row in rows:
            if row["kind"] in NONFINITE:
                _put_once(self.bad_steps[runs[row["call"]]], row["step"])
            self._add_row(row, runs[row["call"]])

    def _add_row(self, row: Row, run: int) -> None:
        key = (run, *(row[name] for name in ("rank", "kind", "direction", "path", "inside")))
        known = self.rows.get(key)
        if known is None:
            self.rows[key] = {**row, "times": 1, "last_step": row["step"]}
            return
        times = {"times": known["times"] + 1, "last_step": row["step"]}
        is_worse = (
            row["kind"] in ("saturated", "near_limit")
            and row["share_of_limit"] > known["share_of_limit"]
        )
        self.rows[key] = {**(row if is_worse else known), **times}

    def forget_run(self, run: int) -> None:
        """Take away what a run of a cell gave."""
        self.rows = {key: row for key, row in self.rows.items() if key[0] != run}
        for kept in (self.calls, self.values, self.steps, self.bad_steps):
            kept.pop(run, None)

    def copy(self) -> Findings:
        """Another one, which can be added to."""
        steps, bad = (
            defaultdict(list, {run: [*kept] for run, kept in given.items()})
            for given in (self.steps, self.bad_steps)
        )
        return Findings({**self.rows}, Counter(self.calls), Counter(self.values), steps, bad)

    def overflow(self, missing: Sequence[MissingRow], state: str) -> Overflow:
        """What was found, in order of execution."""
        place = {"forward": 0, "backward": 1}
        ranked = sorted(
            enumerate(self.rows.values()),
            key=lambda one: (one[1]["step"], place.get(one[1]["direction"], 0), one[0]),
        )
        steps, bad = (
            tuple(sorted({step for kept in given.values() for step in kept}))
            for given in (self.steps, self.bad_steps)
        )
        counts = self.calls.total(), self.values.total()
        rows = tuple(row for _, row in ranked)
        return Overflow(rows, *counts, steps, bad, tuple(missing), state)


def _put_once(steps: list[int], step: int) -> None:
    if not steps or steps[-1] != step:
        steps.append(step)
