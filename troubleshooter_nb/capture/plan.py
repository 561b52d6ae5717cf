"""What a recording is to hold, and where its events go."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from troubleshooter_nb.capture.selection import Choice, Keep
from troubleshooter_nb.frameworks.recording import Compiled
from troubleshooter_nb.naming import Site

Level = Literal["module", "api", "both"]
Event = dict[str, Any]


class Sink(Protocol):
    """Where the events of a recording go."""

    def put(self, event: Event, array: np.ndarray | None = None) -> None:
        """Take an event, and the values that belong to it."""


@dataclass(frozen=True)
class Plan:
    """What is recorded; see `record`."""

    level: Level = "module"
    inputs: bool = True
    outputs: bool = True
    gradients: bool = True
    parameters: bool = True
    names: Choice | None = None
    keep: Keep | Callable[[Site], Keep | None] = "tensor"
    compiled: Compiled = "boundary"
    replayable: bool = False
    limit: float = math.inf

    @property
    def modules(self) -> bool:
        """Whether values of modules are kept."""
        return self.level != "api"

    @property
    def operators(self) -> bool:
        """Whether operators are seen."""
        return self.level != "module"

    def kept(self, site: Site, role: Any, slot: str) -> Keep | None:
        """What is kept of a value that was met at a site in this role and slot."""
        if not callable(self.keep):
            return self.keep
        way: Any = "backward" if role == "gradient" else "forward"
        return self.keep(Site(site.kind, site.path, site.call, way, role, slot))
