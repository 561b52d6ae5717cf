"""The calls of layers that a dump holds, with what each was given, held and gave."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from troubleshooter_nb.dump import CallState, Dump
from troubleshooter_nb.naming.hooks import RECORDED_SAMPLE
from troubleshooter_nb.naming.msprobe import RowName, parse_row_name

Place = tuple[int, int]  # step, rank


@dataclass
class RecordedCall:
    """One call of a layer.

    Attributes
    ----------
    name : str
        Of the call in the dump, ``Module.fc.Linear.forward.0``.
    place : (int, int)
        Step and rank.
    path, layer : str
        Where in the network, and the class.
    number : int
        Visits of the path within the step, from 0.
    began, ended : int
        Orders of its first and last entry.
    arguments, outputs, read : dict of str to int
        Rows of the dump by slot; `read` are the parameters and buffers that were read before it,
        the first time and after a change.
    keywords : set of str
        Slots, or their beginnings, that were given by keyword.
    state : CallState
    """

    name: str
    place: Place
    path: str
    layer: str
    number: int
    began: int
    ended: int
    state: CallState
    arguments: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=dict)
    keywords: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class RecordedCalls:
    """The calls of layers of a dump, and the parameters and buffers they had.

    Attributes
    ----------
    calls : list of RecordedCall
        In the order in which they began.
    """

    calls: list[RecordedCall]
    _of_paths: Mapping[tuple[Place, str], list[RecordedCall]]
    # By place and name: number of the call, order and row of each time they were read.
    _values: Mapping[tuple[Place, str], list[tuple[int, int, int]]]
    _owners: Mapping[tuple[Place, str], str]

    def inside(self, path: str, call: RecordedCall) -> RecordedCall | None:
        """The first call of a path within another call, or that call itself."""
        if path == call.path:
            return call
        for inner in self._of_paths.get((call.place, path), ()):
            if call.began <= inner.began and inner.ended <= call.ended:
                return inner
        return None

    def held(self, call: RecordedCall) -> dict[str, int]:
        """Rows of the parameters and buffers of a layer itself, as they were for a call."""
        found = {}
        for (place, name), path in self._owners.items():
            if place == call.place and path == call.path:
                row = self.value(name, call)
                if row is not None:
                    found[name[len(path) + 1 :] if path else name] = row
        return found

    def value(self, name: str, call: RecordedCall) -> int | None:
        """The row of a parameter or buffer, such as ``fc.weight``, as it was for a call."""
        key = call.place, name
        if key not in self._values:
            return None
        read = self._values[key]
        inner = self.inside(self._owners[key], call)
        if inner is not None:
            rows = [row for number, _, row in read if number <= inner.number]
        else:
            rows = [row for _, order, row in read if order <= call.began]
        return rows[-1] if rows else read[0][2]


def calls_of(dump: Dump) -> RecordedCalls:
    """The calls of layers, with the rows of the dump that belong to each."""
    columns = dump.columns
    calls: dict[tuple[Place, str, int], RecordedCall] = {}
    values: dict[tuple[Place, str], list[tuple[int, int, int]]] = defaultdict(list)
    owners: dict[tuple[Place, str], str] = {}
    is_call = (columns["kind"] == "module") & (columns["direction"] == "forward")
    for row in np.flatnonzero(is_call).tolist():
        place = int(columns["step"][row]), int(columns["rank"][row])
        path, number = str(columns["path"][row]), int(columns["call"][row])
        order, slot = int(columns["order"][row]), str(columns["slot"][row])
        name = str(columns["name"][row])
        role = str(columns["role"][row])
        parsed = parse_row_name(name) or RowName(f"{path}.{number}", "", slot)
        key = place, path, number
        call = calls.get(key)
        if call is None:
            state = dump.calls.get((*place, parsed.entry), _by_settings(dump, path))
            layer = str(columns["layer"][row])
            call = RecordedCall(parsed.entry, place, path, layer, number, order, order, state)
            calls[key] = call
        call.began, call.ended = min(call.began, order), max(call.ended, order)
        if slot.endswith(RECORDED_SAMPLE):
            continue
        if role == "input":
            call.arguments[slot] = row
            if parsed.section == "kwargs" or not slot[:1].isdigit():
                call.keywords.add(slot.partition(".")[0])
        elif role == "output":
            call.outputs[slot] = row
        elif role in ("parameter", "buffer"):
            of = place, f"{path}.{slot}" if path else slot
            call.read[slot] = row
            values[of].append((number, order, row))
            owners[of] = path
    found = sorted(calls.values(), key=lambda call: (call.place, call.began))
    of_paths: dict[tuple[Place, str], list[RecordedCall]] = defaultdict(list)
    for call in found:
        of_paths[call.place, call.path].append(call)
    return RecordedCalls(found, of_paths, values, owners)


def _by_settings(dump: Dump, path: str) -> CallState:
    """What the settings of a layer say of its calls."""
    training = dump.settings.get(path, {}).get("training")
    return CallState(training if isinstance(training, bool) else None)
