"""The events and values of a recording that is kept in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from troubleshooter_nb.capture.plan import Event
from troubleshooter_nb.dump import ArrayInMemory, ArraySource
from troubleshooter_nb.formats.record_layout import describes_value

# What an event says of a gradient besides its values.
_OF_RUN = ("gradient_of", "own_gradient", "gradient_of_parameter", "pass", "run", "step")


class InMemory:
    """Events and values in memory; what a dump is made of."""

    is_failed = False

    def __init__(self, header: Mapping[str, Any], rank: int = 0) -> None:
        self.header, self.rank = header, rank
        self.events: list[Event] = []
        self.arrays: dict[int, np.ndarray] = {}
        self.complete = False
        self.notes: Sequence[str] = ()

    def put(self, event: Event, array: np.ndarray | None = None) -> None:
        """Keep an event, and its values."""
        self.events.append(event)
        if array is not None:
            self.arrays[event["value"]] = array

    def source_of(self, number: int) -> ArraySource | None:
        """The values of a number, as they are in memory."""
        array = self.arrays.get(number)
        if array is None:
            return None
        array.flags.writeable = False
        return ArrayInMemory(array)

    def forget(self, run: int) -> int:
        """Drop what only this run of a cell told; bytes of the values."""
        gone = {e["call"] for e in self.events if "kind" in e and e.get("run") == run}
        # A value that was met first as a gradient stays where a later run meets it again.
        left = [_of_value(e) if _is_of(e, run, gone) else e for e in self.events]
        used = {number for event in left for number in _used(event)}
        used |= {e["value"] for e in left if e.get("sample_of") in used}
        self.events = [e for e in left if e and (not _is_value(e) or e["value"] in used)]
        void = [number for number in self.arrays if number not in used]
        return sum(self.arrays.pop(number).nbytes for number in void)

    def flush(self, *, to_disk: bool = True) -> None:
        """Nothing is on its way."""

    def close(self, *, complete: bool) -> None:
        """Write the end."""
        self.complete = complete
        self.events.append({"end": {"complete": complete}})


def _is_value(event: Event) -> bool:
    """Whether an event only describes a value; states of generators are described once for all."""
    is_said = "value" in event and "run" not in event and "own_gradient" not in event
    return is_said and event.get("role") != "random_state"


def _of_value(event: Event) -> Event:
    """What an event of a run says of a value; nothing where it says nothing of it."""
    if not describes_value(event):
        return {}
    return {name: said for name, said in event.items() if name not in _OF_RUN}


def _is_of(event: Event, run: int, calls: set[int]) -> bool:
    """Whether an event belongs to a run, which made these calls."""
    numbers = (event.get("call"), event.get("ended"), event.get("own_gradient"))
    return event.get("run") == run or any(number in calls for number in numbers)


def _used(event: Event) -> Iterator[int]:
    """Values that an event speaks of, itself not one of a value."""
    for _, said in (*event.get("args", ()), *event.get("out", ())):
        if "value" in said:
            yield said["value"]
    if "owner" in event:
        yield event["owner"]
    if "value" in event and not _is_value(event):
        yield event["value"]
