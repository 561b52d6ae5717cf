"""Run every layer of a network alone, on the inputs that a record has of it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from troubleshooter_nb.analysis.engine import compare_pairing
from troubleshooter_nb.capture.leaves import leaves_of_output
from troubleshooter_nb.capture.selection import Names, check_found, choice_of
from troubleshooter_nb.comparison import Comparison
from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.errors import ArgumentError, TroubleshooterError
from troubleshooter_nb.formats import DumpLike, as_dump
from troubleshooter_nb.frameworks import recording_of, replaying_of
from troubleshooter_nb.frameworks.replaying import Conditions
from troubleshooter_nb.messages import Foreign, Message, joined, message_of, messages_in
from troubleshooter_nb.metrics.floats import computable
from troubleshooter_nb.metrics.verdict import Tolerance
from troubleshooter_nb.naming import Role, Site
from troubleshooter_nb.naming.msprobe import RowName, format_row_name, parse_row_name
from troubleshooter_nb.pairing import Match, Pairing
from troubleshooter_nb.ranges import whole
from troubleshooter_nb.replaying.arguments import Arguments, Leaf, arguments_of
from troubleshooter_nb.replaying.networks import (
    Network,
    framework_of,
    leaf_rule,
    needs_none,
    recorded_paths,
)
from troubleshooter_nb.replaying.recorded_calls import RecordedCall, RecordedCalls, calls_of
from troubleshooter_nb.run_card import RunCard
from troubleshooter_nb.table import taken

_REFEREE = "float64"
_TOLERANCE = 1e-4  # both of `compare`, which takes other ones with this pairing
# What a record lacks of one call, and the note that says of which layers it does.
_OF_LAYERS = {
    "replays.lacks_parameter": "replays.lacks_parameter_of",
    "replays.lacks_buffer": "replays.lacks_buffer_of",
    "replays.lacks_random": "replays.lacks_random_of",
    "replays.lacks_training": "replays.lacks_training_of",
    "replays.lacks_autocast": "replays.lacks_autocast_of",
    "replays.unsteady": "replays.unsteady_of",
}


def replay(
    net: Any,
    dump: DumpLike,
    *,
    names: Names = None,
    dtype: Literal["float64"] | None = None,
    mapping: Mapping[str, str] | None = None,
) -> Comparison:
    """Run every layer of a network alone, on recorded inputs, and compare what it gives.

    Each call of the record is made again with the inputs that the record has of it, so that no
    error travels from layer to layer: a layer that differs computes otherwise itself. The record
    may be of the other framework, device or version::

        cmp = tnb.replay(torch_net, "mindspore_run")
        cmp.first_divergence

    The network stays as it is: weights, buffers, modes, gradients, attributes and random generators
    come back, also when a layer raises. Hooks of the user's run, as in any call.

    Parameters
    ----------
    net : torch.nn.Module or mindspore.nn.Cell
        In PyNative mode.
    dump : Dump, path, or mapping of str to array
        A recording of values, best one of `record` with ``replayable=True``.
    names : str, list of str or function, optional
        Paths of the network to replay, as those of `record`. Default: all that the record has.
    dtype : {None, "float64"}
        "float64": each call is also computed in float64, as a referee. The columns
        ``left_float64_error`` and ``right_float64_error`` of the result have the relative L2
        distance of each side from that, and the notes say which is nearer. What draws random
        numbers has no referee.
    mapping : dict of str to str, optional
        Paths of the network and those of the record that mean the same; what lies below follows.
        Default: equal paths, else as `pair_dumps` finds them.

    Returns
    -------
    Comparison
        Left what was computed now, right what was recorded, a row for each output of each call,
        behind those of what it was given and held, which are the record's on both sides. As they
        are equal, a difference is explained where it is made, however many there are. What could
        not be replayed is ``unreadable``, with the reason; what the record lacks of a call is in
        the notes and in the note of its row of the pairing.

    Raises
    ------
    TypeError
        If `net` is no network, or a mapping or names are none.
    ValueError
        For another dtype, and a record without calls of layers.
    EntryNotFoundError
        If `names` or `mapping` mean no layer; the message has the closest.
    NotImplementedError
        In MindSpore's GRAPH_MODE.

    Notes
    -----
    Parameters and buffers are those of the record as they were before the call, brought into the
    network's names, layouts and dtypes; where the record has none that fit, the network's own.
    Containers are replayed as any layer: theirs is what their layers give one after another. In
    MindSpore nn.Dropout draws from a state that nobody can read, which is said where it matters.
    """
    if dtype not in (None, _REFEREE):
        raise ArgumentError(Message("replays.dtype", given=repr(dtype)))
    network = Network.of(net)
    recorded = as_dump(dump, "right")
    calls = calls_of(recorded)
    if not calls.calls:
        raise ArgumentError(Message("replays.no_calls", label=recorded.label))
    choice = choice_of(names)
    wanted = [path for path in network.layers if choice is None or choice(Site("module", path))]
    check_found(names, len(wanted), network.layers)
    paths = recorded_paths(network, recorded, mapping, {call.path for call in calls.calls})
    run = _Run(network, recorded, calls, {path: paths[path] for path in wanted if path in paths})
    run.with_referee = dtype == _REFEREE
    run.replay()
    return run.comparison(is_whole=choice is None)


class _Replayed(NamedTuple):
    """What a call gave: arrays by slot, or why there are none, and what the record lacked."""

    outputs: dict[str, np.ndarray]
    reason: str = ""
    lacks: tuple[Message, ...] = ()
    referee: Mapping[str, np.ndarray] = MappingProxyType({})
    no_referee: str = ""


@dataclass
class _Run:
    """One replay under way."""

    network: Network
    dump: Dump
    calls: RecordedCalls
    paths: Mapping[str, str]  # of the record, by path of the network
    with_referee: bool = False
    replayed: list[tuple[str, RecordedCall, _Replayed]] = field(default_factory=list)

    def replay(self) -> None:
        """Replay the calls in the order of the record."""
        own = {theirs: path for path, theirs in self.paths.items()}
        for call in self.calls.calls:
            if call.path in own and call.outputs:
                path = own[call.path]
                self.replayed.append((path, call, self._replay(path, call)))

    # One call

    def _replay(self, path: str, call: RecordedCall) -> _Replayed:
        try:
            given = arguments_of(call, self.dump)
            values, lacks, dtypes = self._values(path, call)
            is_own = framework_of(call, self.network.adapter.NAME) == self.network.adapter.NAME
            random = call.state.random if is_own else None
            state = None if random is None else whole(random).view(np.uint8)
        except (TroubleshooterError, ValueError) as error:
            return _Replayed({}, message_of(error))
        conditions = Conditions(
            self._modes(path, call),
            values,
            call.state.gradients,
            call.state.autocast,
            state,
        )
        try:
            found, drew = self._call(path, given, conditions, dtypes)
        except Exception as error:  # of the layer, or of what it is given
            return _Replayed({}, _raised(error), tuple(lacks))
        lacks += self._lacking(path, call, given, conditions, dtypes, found, drew)
        is_drawn = drew or any(lack.id == "replays.unsteady" for lack in lacks)
        referee, why = self._refereed(path, given, conditions, is_drawn)
        return _Replayed(found, "", tuple(lacks), referee, why)

    def _call(
        self,
        path: str,
        given: Arguments,
        conditions: Conditions,
        dtypes: Mapping[str, str],
    ) -> tuple[dict[str, np.ndarray], bool]:
        """Arrays by slot, and whether random numbers were drawn."""
        adapter = replaying_of(self.network.adapter)
        recording = recording_of(self.network.adapter)
        module = self.network.layers[path].module

        def make(one: Any) -> Any:
            if not isinstance(one, Leaf):
                return adapter.plain_value(one.kind, one.text)
            dtype = conditions.dtype or dtypes.get(one.array.dtype.name, "")
            return adapter.tensor_like(module, one.array, one.strides, dtype)

        called = adapter.call(module, lambda: given.made(make), conditions)
        leaves = leaves_of_output(called.output, recording.is_tensor)
        found = {slot: one for slot, one in leaves if recording.is_tensor(one)}
        return {slot: recording.copied(one) for slot, one in found.items()}, called.drew

    def _modes(self, path: str, call: RecordedCall) -> dict[int, bool]:
        """Modes of a layer and of those in it, as far as the record says."""
        found = {}
        for inner in self.network.inside(path):
            place = self.paths.get(inner, inner)
            seen = self.calls.inside(place, call)
            training = None if seen is None else seen.state.training
            if training is None:
                training = self.dump.settings.get(place, {}).get("training")
            if isinstance(training, bool):
                found[id(self.network.layers[inner].module)] = training
        return found

    def _values(
        self, path: str, call: RecordedCall
    ) -> tuple[dict[int, np.ndarray], list[Message], dict[str, str]]:
        """Recorded values by tensor, what is lacking, and which dtypes stand for which here."""
        values: dict[int, np.ndarray] = {}
        dtypes: dict[str, str] = {}
        lacking: dict[str, list[str]] = defaultdict(list)
        facts = recording_of(self.network.adapter).facts
        for inner in self.network.inside(path):
            for owned in self.network.owned[inner]:
                if id(owned.tensor) in values:
                    continue
                array = self._value(inner, owned.leaf, call)
                own = facts(owned.tensor)
                if array is None and needs_none(self.network, owned.leaf, call):
                    continue
                if array is None or array.shape != own.shape:
                    lacking[owned.role].append(owned.name)
                    continue
                values[id(owned.tensor)] = array
                if array.dtype.name != own.dtype and "float" in array.dtype.name:
                    dtypes.setdefault(array.dtype.name, own.dtype)
        said = [
            Message(f"replays.lacks_{role}", names=names)
            for role, names in lacking.items()
            if role in ("parameter", "buffer")
        ]
        return values, said, dtypes

    def _value(self, inner: str, leaf: str, call: RecordedCall) -> np.ndarray | None:
        """A parameter as the record has it for a call, in the layout of the network."""
        place = self.paths.get(inner, inner)
        seen = self.calls.inside(place, call) or call
        known = leaf_rule(self.network, inner, seen, leaf) if seen.path == place else None
        source = leaf if known is None else known[0]
        row = self.calls.value(f"{place}.{source}" if place else source, call)
        stored = None if row is None else self.dump.sources[row]
        if stored is None:
            return None
        array = whole(stored)
        return array if known is None else known[1].apply(array)

    # What the record lacks besides

    def _lacking(
        self,
        path: str,
        call: RecordedCall,
        given: Arguments,
        conditions: Conditions,
        dtypes: Mapping[str, str],
        found: Mapping[str, np.ndarray],
        drew: bool,
    ) -> list[Message]:
        """What the record does not say of a call although the outputs depend on it."""
        said: list[Message] = []
        if drew and conditions.random is None:
            said.append(Message("replays.lacks_random"))
        if call.state.autocast is None and self._has_other_dtypes(call, found):
            said.append(Message("replays.lacks_autocast"))
        module = self.network.layers[path].module
        if id(module) not in conditions.training:
            other = {id(module): not bool(getattr(module, "training", False))}
            changed = replace(conditions, training={**conditions.training, **other})
            if not self._gives_again(path, given, changed, dtypes, found):
                said.append(Message("replays.lacks_training"))
        is_doubtful = not said and not drew and not self._is_recorded(call, found)
        if is_doubtful and not self._gives_again(path, given, conditions, dtypes, found):
            said.append(Message("replays.unsteady"))
        return said

    def _has_other_dtypes(self, call: RecordedCall, found: Mapping[str, np.ndarray]) -> bool:
        names = self.dump.columns["dtype"]
        pairs = ((str(names[row]), found.get(slot)) for slot, row in call.outputs.items())
        return any(one is not None and one.dtype.name != name for name, one in pairs)

    def _is_recorded(self, call: RecordedCall, found: Mapping[str, np.ndarray]) -> bool:
        """Whether a call gave the recorded bits."""
        for slot, row in call.outputs.items():
            source = self.dump.sources[row]
            if slot not in found or source is None or not _same(found[slot], whole(source)):
                return False
        return True

    def _gives_again(
        self,
        path: str,
        given: Arguments,
        conditions: Conditions,
        dtypes: Mapping[str, str],
        found: Mapping[str, np.ndarray],
    ) -> bool:
        """Whether a call gives the same bits once more."""
        try:
            again, _ = self._call(path, given, conditions, dtypes)
        except Exception:  # of the layer, under conditions that it may not know
            return False
        return again.keys() == found.keys() and all(_same(again[k], found[k]) for k in found)

    # The referee

    def _refereed(
        self, path: str, given: Arguments, conditions: Conditions, drew: bool
    ) -> tuple[dict[str, np.ndarray], str]:
        if not self.with_referee:
            return {}, ""
        if drew:
            return {}, Message("replays.no_referee_random")
        wide = replace(conditions, dtype=_REFEREE, autocast=None)
        try:
            found, _ = self._call(path, given, wide, {})
        except Exception as error:  # of the layer: not every kernel takes float64
            return {}, Message("replays.no_referee", why=_raised(error))
        return found, ""

    # What came of it

    def comparison(self, is_whole: bool) -> Comparison:
        """Left what was computed, right what was recorded; `is_whole`: nothing was left out."""
        table = _Rows(self.dump)
        for path, call, one in self.replayed:
            name = self.network.name_of(path, call)
            method = "name" if name == call.name else "site"
            if not one.reason:
                for given in (*call.arguments.values(), *call.read.values()):
                    table.add(self._given(path, call, name, given), given, method)
            for own, theirs in _paired_slots(one, call):
                row = None if theirs is None else call.outputs[theirs]
                at = call.outputs.get(theirs or own or "")
                entry = None if own is None else self._made(path, call, name, own, one, at)
                near = self._distances(one, own, theirs, call)
                why = one.no_referee if not one.reason else ""
                note = joined([*one.lacks, why or _nearer(*near)])
                table.add(entry, row, method, note, near)
        if is_whole:
            for call in self.calls.calls:
                if call.path not in self.paths.values():
                    said = Message("replays.no_layer", path=call.path)
                    for alone in call.outputs.values():
                        table.add(None, alone, "unmatched", said)
        pairing = table.pairing(self._left(table.entries))
        found = compare_pairing(pairing, Tolerance(_TOLERANCE, _TOLERANCE), diagnose=True)
        found = replace(found, notes=(*self._notes(is_whole), *found.notes))
        return _with_distances(found, table.distances) if self.with_referee else found

    def _left(self, entries: Sequence[Entry]) -> Dump:
        """What was computed, as a dump of the network with the modes of the record."""
        settings = {}
        for path, layer in self.network.layers.items():
            theirs = self.dump.settings.get(self.paths.get(path, path), {})
            mode = {"training": theirs["training"]} if "training" in theirs else {}
            settings[path] = json.loads(json.dumps({**layer.settings, **mode}, default=str))
        return Dump.from_entries(
            entries,
            label=type(self.network.net).__name__,
            format=self.dump.format,
            card=RunCard.current(self.network.adapter.NAME),
            settings=settings,
        )

    def _given(self, path: str, call: RecordedCall, name: str, row: int) -> Entry:
        """What a call was given, or held, as the record has it."""
        columns, source = self.dump.columns, self.dump.sources[row]
        parsed = parse_row_name(str(columns["name"][row]))
        slot, role = str(columns["slot"][row]), str(columns["role"][row])
        site = Site("module", path, call.number, "forward", cast("Role", role), slot)
        return Entry(
            format_row_name(RowName(name, parsed.section if parsed else role, slot)),
            site,
            source,
            step=call.place[0],
            rank=call.place[1],
            order=int(columns["order"][row]),
            dtype="" if source is not None else str(columns["dtype"][row]),
            value=str(columns["value"][row]),
            layer=self.network.layers[path].layer,
        )

    def _made(
        self,
        path: str,
        call: RecordedCall,
        name: str,
        slot: str,
        one: _Replayed,
        row: int | None,
    ) -> Entry:
        """What a call gave in one slot, or why nothing; layers before what they are in."""
        step, rank = call.place
        array = one.outputs.get(slot)
        columns = self.dump.columns
        is_told = array is None and row is not None
        shape: Any = columns["shape"][row] if is_told else None
        return Entry(
            format_row_name(RowName(name, "output", slot)),
            Site("module", path, call.number, "forward", "output", slot),
            None if array is None else ArrayInMemory(array),
            step=step,
            rank=rank,
            order=call.ended if row is None else int(columns["order"][row]),
            reason=one.reason if array is None else "",
            layer=self.network.layers[path].layer,
            dtype=str(columns["dtype"][row]) if is_told else "",
            shape=shape,
        )

    def _distances(
        self, one: _Replayed, own: str | None, theirs: str | None, call: RecordedCall
    ) -> tuple[float, float]:
        """How far both sides are from the referee."""
        truth = one.referee.get(own or "")
        if truth is None or own is None or theirs is None:
            return np.nan, np.nan
        source = self.dump.sources[call.outputs[theirs]]
        recorded = None if source is None else whole(source)
        return _distance(one.outputs.get(own), truth), _distance(recorded, truth)

    def _notes(self, is_whole: bool) -> list[str]:
        """What the record lacked, by kind, and which layers it has no call of."""
        of_kind: dict[str, list[str]] = defaultdict(list)
        raised: list[str] = []
        for path, call, one in self.replayed:
            for lack in one.lacks:
                of_kind[lack.id].append(path or call.layer)
            if one.reason:
                raised.append(path or call.layer)
        renamed = {own: theirs for own, theirs in self.paths.items() if own != theirs}
        notes: list[str] = []
        if renamed:
            pairs = [Message("replays.pair", own=own, theirs=one) for own, one in renamed.items()]
            notes.append(Message("replays.renamed", pairs=pairs))
        notes += [
            Message(_OF_LAYERS[kind], names=list(dict.fromkeys(names)))
            for kind, names in sorted(of_kind.items())
        ]
        if raised:
            notes.append(Message("replays.not_replayed", names=list(dict.fromkeys(raised))))
        called, own = {path for path, _, _ in self.replayed}, set(self.paths.values())
        layers = self.network.layers.items()
        mute = [c.path or c.layer for c in self.calls.calls if c.path in own and not c.outputs]
        if mute:
            notes.append(Message("replays.no_outputs", names=list(dict.fromkeys(mute))))
        never = [path for path, one in layers if one.has_forward and path not in called and path]
        if never and is_whole:
            notes.append(Message("replays.never_called", names=never))
        return notes


class _Rows:
    """The rows of a replay: entries of the left side beside rows of the record."""

    def __init__(self, dump: Dump) -> None:
        self._dump = dump
        self.entries: list[Entry] = []
        self.distances: dict[tuple[int, int], tuple[float, float]] = {}
        self._rows: list[int] = []
        self._matches: list[Match] = []

    def add(
        self,
        entry: Entry | None,
        row: int | None,
        method: str,
        note: str = "",
        near: tuple[float, float] = (np.nan, np.nan),
    ) -> None:
        """Take a pair, or one side of it alone."""
        left = right = -1
        if entry is not None:
            left = len(self.entries)
            self.entries.append(entry)
        if row is not None:
            right = len(self._rows)
            self._rows.append(row)
        is_pair = left >= 0 and right >= 0
        confidence = 1.0 if is_pair else np.nan
        way = method if is_pair else "unmatched"
        self._matches.append(Match(left, right, way, confidence, note))
        self.distances[left, right] = near

    def pairing(self, left: Dump) -> Pairing:
        """The pairs, with what of the record was compared."""
        at = np.array(self._rows, np.intp)
        sources = tuple(self._dump.sources[row] for row in self._rows)
        index = taken(self._dump.index, "entry", at)
        notes = tuple(note for note in self._dump.notes if not _is_of_gradients(note))
        right = replace(self._dump, index=index, sources=sources, notes=notes)
        return Pairing.from_matches(left, right, self._matches)


def _is_of_gradients(note: str) -> bool:
    """Whether a note of a record is about gradients alone, which nobody replays."""
    ids = [message.id for message in messages_in(note)]
    return any(id.startswith("recording.") and ("gradient" in id or "backward" in id) for id in ids)


def _raised(error: Exception) -> Message:
    # MindSpore puts the stack of C++ behind it.
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")[:300]
    return Message("replays.raised", kind=type(error).__name__, what=Foreign(text))


def _paired_slots(
    one: _Replayed, call: RecordedCall
) -> list[tuple[str, str] | tuple[str, None] | tuple[None, str]]:
    """Slots of both sides: equal ones, else in their order where both give as many."""
    theirs = [*call.outputs]
    own = [*one.outputs] if not one.reason else theirs
    if own != theirs and len(own) == len(theirs):
        return [*zip(own, theirs, strict=True)]
    found: list[Any] = [(slot, slot) for slot in theirs if slot in own]
    found += [(None, slot) for slot in theirs if slot not in own]
    return found + [(slot, None) for slot in own if slot not in theirs]


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return (
        one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    )


def _distance(array: np.ndarray | None, truth: np.ndarray) -> float:
    """Relative L2 distance from the truth; nan where there is none."""
    if array is None or array.shape != truth.shape or truth.dtype.kind not in "fc":
        return np.nan
    with np.errstate(invalid="ignore", over="ignore"):
        error = computable(array).astype(truth.dtype) - truth
        size, rest = np.linalg.norm(truth.ravel()), np.linalg.norm(error.ravel())
    return float(rest / size) if size else float(0.0 if not rest else np.inf)


def _nearer(left: float, right: float) -> str:
    """Which side is nearer to the referee; nothing where there is none."""
    if np.isnan(left) or np.isnan(right):
        return ""
    side = "none" if left == right else "left" if left < right else "right"
    return Message(f"replays.nearer_{side}", left=left, right=right)


def _with_distances(
    found: Comparison, distances: Mapping[tuple[int, int], tuple[float, float]]
) -> Comparison:
    """The comparison with the columns and the note of the referee."""
    columns = found.columns
    pairs = zip(columns["left_entry"].tolist(), columns["right_entry"].tolist(), strict=True)
    nowhere = (np.nan, np.nan)
    near = np.array([distances.get(pair, nowhere) for pair in pairs], float).reshape(-1, 2)
    result = found.result.assign(
        left_float64_error=("pair", near[:, 0]), right_float64_error=("pair", near[:, 1])
    )
    known = ~np.isnan(near).any(axis=1)
    if not known.any():
        return replace(found, result=result)
    row, side = np.unravel_index(np.argmax(np.where(known[:, None], near, -1.0)), near.shape)
    said = Message(
        "replays.referee_counts",
        count=int(known.sum()),
        left=int((near[known, 0] < near[known, 1]).sum()),
        right=int((near[known, 0] > near[known, 1]).sum()),
        side=Message(f"replays.side_{('left', 'right')[side]}"),
        where=str(columns["left_display"][row]),
        distance=float(near[row, side]),
    )
    return replace(found, result=result, notes=(said, *found.notes))
