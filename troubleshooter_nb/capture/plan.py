"""What a recording is to hold, and where its events go."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from troubleshooter_nb.capture.selection import Choice, Kept
from troubleshooter_nb.frameworks.recording import Compiled
from troubleshooter_nb.naming import Site

if TYPE_CHECKING:
    from troubleshooter_nb.frameworks.named_operators import NamedOperator

Level = Literal["module", "api", "both"]
Event = dict[str, Any]


class Trees(Protocol):
    """Makes of arguments and results what an event says of their nesting, and of what is no tensor.

    It stands under ``tree`` in the event.
    """

    def of_arguments(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """Of what a call is given, as it is before the call."""

    def of_result(self, output: Any) -> Any:
        """Of what a call gives."""


class Sink(Protocol):
    """Where the events of a recording go."""

    def put(self, event: Event, array: np.ndarray | None = None) -> None:
        """Take an event, and the values that belong to it."""


class Store(Sink, Protocol):
    """Where the events of a recording stay.

    Attributes
    ----------
    is_failed : bool
        Whether nothing can be kept any more.
    """

    is_failed: bool

    def forget(self, run: int) -> int:
        """Drop what only this run of a cell told; bytes of the values."""

    def flush(self, *, to_disk: bool = True) -> None:
        """Have everything so far where it stays."""

    def close(self, *, complete: bool) -> None:
        """Write the end."""


@dataclass(frozen=True)
class Plan:
    """What is recorded; see `record`."""

    level: Level = "module"
    inputs: bool = True
    outputs: bool = True
    gradients: bool = True
    parameters: bool = True
    names: Choice | None = None
    keep: Kept | Callable[[Site], Kept | None] = "tensor"
    compiled: Compiled = "boundary"
    replayable: bool = False
    limit: float = math.inf
    # Whether to look for what one call alone adds to the gradients of its inputs, which costs as
    # much as all statistics; None: where values are kept, from which a layer is computed again.
    own_parts: bool | None = None
    fingerprints: bool = True
    # What the recorders of old tell of; their files are made of it.
    operator_names: Sequence[NamedOperator] = ()  # which are seen, instead of all
    nested: bool = False  # whether those that another one calls are seen too
    # Of which values, besides those of parameters; "results" are those of modules and marks.
    whole_gradients: Literal["all", "results", "none"] = "all"
    accumulated: bool = False  # gradients of parameters with what was in them before
    node_gradients: bool = False  # what the graph gives and gets where an operator's result is made
    trees: Trees | None = None
    # Whether the sink has done with the values that it is given when `put` returns, so that they
    # need not be copied.
    borrows: bool = False
    keeps_all: bool = False  # operators that give no tensor, too
    # Told of each value that is met, with a host copy of it, whatever is kept; see `Values`.
    see: Callable[[int, Callable[[], np.ndarray]], None] | None = None

    @property
    def modules(self) -> bool:
        """Whether values of modules are kept."""
        return self.level != "api"

    @property
    def operators(self) -> bool:
        """Whether operators are seen."""
        return self.level != "module"

    @property
    def has_own_parts(self) -> bool:
        """Whether to record what each call of a module adds to the gradients of its inputs."""
        asked = self.own_parts
        return self.gradients and (
            self.keep not in ("statistics", "digest") if asked is None else asked
        )

    def waits_for_gradient(self, kind: str, role: Any) -> bool:
        """Whether the whole gradient of a value that a call of this kind has is waited for."""
        if self.whole_gradients == "results":
            return self.gradients and kind != "api" and role == "output"
        return self.gradients and self.whole_gradients == "all"

    def kept(self, site: Site, role: Any, slot: str, between: bool = False) -> Kept | None:
        """What is kept of a value that was met at a site in this role and slot.

        Gradients `between` operators have no fingerprints: they would cost more than all others.
        """
        if not callable(self.keep):
            is_short = not self.fingerprints or (between and self.level == "api")
            return "summary" if self.keep == "statistics" and is_short else self.keep
        way: Any = "backward" if role == "gradient" else "forward"
        return self.keep(Site(site.kind, site.path, site.call, way, role, slot))
