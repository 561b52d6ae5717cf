"""The events of a recording as a dump: one entry per value of each call."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from troubleshooter_nb.dump import ArraySource, CallState, Dump, Entry
from troubleshooter_nb.formats.record_layout import LONGEST_TEXT, describes_value, figures_of
from troubleshooter_nb.messages import Foreign, Message
from troubleshooter_nb.metrics.sketches import NUMBERS
from troubleshooter_nb.naming import Site
from troubleshooter_nb.naming.hooks import RECORDED_SAMPLE
from troubleshooter_nb.naming.msprobe import (
    MsprobeCall,
    RowName,
    format_msprobe_call,
    format_row_name,
    site_of_msprobe,
)
from troubleshooter_nb.ranges import Starts, Strided, read_rows
from troubleshooter_nb.render.missing_words import missing_rows, note_of
from troubleshooter_nb.run_card import RunCard

NAME = "tnb_record"
# The whole gradient of an argument that no call made, for which msprobe has no word.
TOTAL = "total"

_STATISTICS = ("min", "max", "mean", "l2", "nan_count", "inf_count", "zero_count")
Event = Mapping[str, Any]


class Recorded(Protocol):
    """The events of one rank and where their values are."""

    @property
    def rank(self) -> int:
        """The process that it is of."""

    @property
    def header(self) -> Event:
        """With which framework, versions and options."""

    @property
    def events(self) -> Sequence[Event]:
        """All others, in the order in which they were written."""

    @property
    def complete(self) -> bool:
        """Whether the recording was ended, not broken off."""

    @property
    def notes(self) -> Sequence[str]:
        """What reading them gave to say."""

    def source_of(self, number: int) -> ArraySource | None:
        """Where the values of this number are; None where none were kept."""


@dataclass(frozen=True)
class BroadcastSource:
    """An `ArraySource` over values that are stored once along some of their axes.

    Attributes
    ----------
    source : ArraySource
        Of the same number of axes, of length 1 where the values repeat.
    shape : tuple of int
    """

    source: ArraySource
    shape: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype:
        """Stored dtype."""
        return self.source.dtype

    @property
    def size_bytes(self) -> int:
        """Bytes of the values as they are read."""
        return math.prod(self.shape) * self.dtype.itemsize

    def files(self) -> tuple[str, ...]:
        """Files of the stored values."""
        return self.source.files()

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """Values of the flat C-order range; see `ArraySource.read`."""
        values = self._order.range(partial(read_rows, self.source), self.dtype, start, stop)
        if into is None:
            return values
        into[:] = values
        return into

    def read_rows(self, starts: Starts, length: int) -> np.ndarray:
        """Values of flat ranges; see `troubleshooter_nb.dump.read_rows`."""
        stored = partial(read_rows, self.source)
        return self._order.rows(stored, self.dtype, starts, length)

    @property
    def _order(self) -> Strided:
        """The stored values along all axes: a step along those that repeat leads nowhere."""
        stored = self.source.shape
        steps = [math.prod(stored[axis + 1 :]) for axis in range(len(stored))]
        repeats = zip(steps, stored, strict=True)
        return Strided(self.shape, tuple(step * (length > 1) for step, length in repeats))


@dataclass
class _RecordedCall:
    """A call as its events tell."""

    event: Event
    number: int = 0
    ended: Event | None = None

    @property
    def kind(self) -> str:
        return str(self.event.get("kind", "module"))


class _Value(NamedTuple):
    """A value as its events tell."""

    facts: Event
    figures: dict[str, Any]


def dump_of(recorded: Sequence[Recorded], label: str, notes: Iterable[str] = ()) -> Dump:
    """The dump of the events of one or several ranks.

    Names of entries are in the words of msprobe: ``Module.fc1.Linear.forward.0.input.0``. In a
    backward call, ``input`` is the gradient of a result, whole; ``output`` is what this call alone
    adds to the gradient of an argument, where the framework tells; ``total`` is the whole gradient
    of an argument that no recorded call made.

    Parameters
    ----------
    recorded : sequence of Recorded
        One per rank.
    label : str
    notes : iterable of str
        What is to be said besides what the events say.
    """
    entries: list[Entry] = []
    settings: dict[str, Mapping[str, Any]] = {}
    calls: dict[tuple[int, int, str], CallState] = {}
    said: list[str] = [*notes]
    card = RunCard()
    for part in recorded:
        rank = _Rank(part)
        entries += rank.entries()
        calls |= rank.states()
        for path, values in rank.settings.items():
            settings.setdefault(path, values)
        said += [note for note in (*part.notes, *rank.notes()) if note not in said]
        card = card or rank.card
    return Dump.from_entries(
        entries, label=label, format=NAME, card=card, notes=said, settings=settings, calls=calls
    )


class _Rank:
    """The events of one rank, by what they are about."""

    def __init__(self, recorded: Recorded) -> None:
        self.recorded = recorded
        self.calls: dict[int, _RecordedCall] = {}
        self.values: dict[int, _Value] = {}
        self.stacks: dict[int, str] = {}
        self.settings: dict[str, Mapping[str, Any]] = {}
        self.rank, header = recorded.rank, recorded.header
        word, card = header.get("module_word"), header.get("card")
        self.word = word if isinstance(word, str) else "Module"
        self.card = RunCard.from_dict(card) if isinstance(card, dict) else RunCard()
        # What is listed, in the order of the events, with what kind of event it is.
        self._listed: list[tuple[str, Event]] = []
        self._missing: dict[tuple[str, str], int] = {}
        self._replaced = {e["replaced"] for e in recorded.events if "replaced" in e}
        self._samples: dict[int, list[Event]] = defaultdict(list)
        for event in recorded.events:
            self._take(event)
        self._number_calls()

    def _take(self, event: Event) -> None:
        """Put one event where it belongs."""
        for kind in _KINDS:
            if kind in event:
                if kind != "value" and describes_value(event):
                    self._take_value(event)  # met first as a gradient
                _KINDS[kind](self, event)
                return

    def _take_call(self, event: Event) -> None:
        if event.get("run", 0) in self._replaced or event.get("recompute"):
            return
        self.calls[event["call"]] = _RecordedCall(event)
        self._listed.append(("call", event))

    def _take_end(self, event: Event) -> None:
        call = self.calls.get(event["ended"])
        if call is not None and call.ended is None:
            call.ended = event
            self._listed.append(("ended", event))

    def _take_value(self, event: Event) -> None:
        number = event["value"]
        known = self.values.get(number)
        if "sample_of" in event:
            self._samples[event["sample_of"]].append(event)
        if known is None:
            known = self.values[number] = _Value(event, {})
        known.figures.update(figures_of(event))
        for name in ("crc32", "reason"):
            if name in event:
                known.figures[name] = event[name]

    def _take_owner(self, event: Event) -> None:
        if event.get("call", -1) in self.calls:
            self._listed.append(("owner", event))

    def _take_gradient(self, event: Event) -> None:
        if event.get("run", 0) not in self._replaced:
            self._listed.append(("gradient", event))

    def _take_stack(self, event: Event) -> None:
        self.stacks[event["stack"]] = str(event.get("text", ""))

    def _take_settings(self, event: Event) -> None:
        self.settings.setdefault(event["settings"], event.get("values", {}))

    def _take_missing(self, event: Event) -> None:
        said = event["missing"]
        for where in said.get("where") or ("",):
            self._missing[said.get("kind", ""), where] = said.get("count", 1)
            if not said.get("count", 1):  # of a cell that was run again
                del self._missing[said.get("kind", ""), where]

    def _number_calls(self) -> None:
        """Count the visits of each place within its step, as they began."""
        counts: dict[tuple[Any, ...], int] = defaultdict(int)
        for call in self.calls.values():
            key = (call.event.get("step", 0), call.kind, call.event["path"])
            call.number = counts[key]
            counts[key] += 1

    # Entries

    def entries(self) -> list[Entry]:
        """One per value of each call, in the order in which they were read."""
        self.found: list[Entry] = []
        self._slots: dict[int, list[tuple[_RecordedCall, str, str]]] = defaultdict(list)
        self._makers: dict[int, str] = {}  # empty for what was met before a call gave it
        self._steps_of_names: set[tuple[int, str]] = set()
        for kind, event in self._listed:
            if kind == "call":
                call = self.calls[event["call"]]
                keywords = set(event.get("keywords", ()))
                for slot, said in event.get("args", ()):
                    section = "kwargs" if slot.partition(".")[0] in keywords else "input"
                    self._add(call, "forward", section, slot, said)
            elif kind == "ended":
                call = self.calls[event["ended"]]
                for slot, said in event.get("out", ()):
                    self._add(call, "forward", "output", slot, said)
            elif kind == "owner":
                call = self.calls[event["call"]]
                said = {"value": event["owner"], "role": event.get("role", "parameter")}
                self._add(call, "forward", "parameters", event["leaf"], said)
            else:
                self._add_gradient(event)
        return self.found

    def _add_gradient(self, event: Event) -> None:
        turn = f".pass{event['pass']}" if event.get("pass") else ""
        said = {"value": event["value"]}
        if "own_gradient" in event:
            call = self.calls.get(event["own_gradient"])
            if call is not None:
                self._add(call, "backward", "output", f"{event['slot']}{turn}", said)
        elif "gradient_of_parameter" in event:
            self._add_parameter_gradient(event, said)
        else:
            number = event["gradient_of"]
            slots = self._slots.get(number, ())
            is_made = any(section == "output" for _, section, _ in slots)
            for call, section, slot in slots:
                if section == "output":
                    self._add(call, "backward", "input", f"{slot}{turn}", said)
                elif not is_made and section in ("input", "kwargs"):
                    self._add(call, "backward", TOTAL, f"{slot}{turn}", said)

    def _add_parameter_gradient(self, event: Event, said: Event) -> None:
        path, layer = event["layer_path"], event.get("layer", "")
        name = MsprobeCall(self.word, path, layer, "parameters_grad", event.get("pass", 0))
        row = format_row_name(RowName(format_msprobe_call(name), "", event["leaf"]))
        site = site_of_msprobe(name, "", event["leaf"])
        self._append(row, site, said["value"], event.get("step", 0), layer, "", "")

    def _add(self, call: _RecordedCall, way: str, section: str, slot: str, said: Event) -> None:
        """Add the entry of one slot of a call."""
        name = self._row(call, way, section, slot)
        site = self._site(call, way, section, slot)
        if section == "parameters" and said.get("role") == "buffer":
            site = Site(site.kind, site.path, site.call, site.direction, "buffer", site.slot)
        parent = self._parent(call)
        stack = self.stacks.get(call.event.get("stack", -1), "") if way == "forward" else ""
        step, layer = call.event.get("step", 0), str(call.event.get("layer", ""))
        if "value" not in said:
            self._append_plain(name, site, said, step, layer, parent, stack)
            return
        number = said["value"]
        producer = ""
        if way == "forward":
            self._slots[number].append((call, section, slot))
            maker = self._makers.setdefault(number, name if section == "output" else "")
            producer = maker if maker != name else ""
        self._append(name, site, number, step, layer, parent, stack, producer)

    def _append(
        self,
        name: str,
        site: Site,
        number: int,
        step: int,
        layer: str,
        parent: str,
        stack: str,
        producer: str = "",
    ) -> None:
        if (step, name) in self._steps_of_names:
            return  # the same gradient, that reached it twice
        self._steps_of_names.add((step, name))
        value = self.values.get(number, _Value({}, {}))
        stored = self.recorded.source_of(number)
        source = _source(stored, value.facts)
        statistics = _statistics(value.figures)
        shape = value.facts.get("shape")
        reason = "" if source or statistics else value.figures.get("reason", "")
        if reason and not isinstance(reason, Message):
            reason = Foreign(reason)  # as the file says it
        if source is None and not statistics and not reason:
            reason = Message("recorder.value_lost" if stored is None else "records.no_place")
        entry = Entry(
            name,
            site,
            source,
            step,
            self.rank,
            len(self.found),
            producer,
            reason,
            statistics,
            str(value.facts.get("dtype", "")),
            None if shape is None else tuple(shape),
            layer=layer,
            parent=parent,
            stack=stack,
            fingerprint=_fingerprint(value.figures),
        )
        self.found.append(entry)
        for sample in self._samples.get(number, ()):
            own = replace(site, slot=site.slot + RECORDED_SAMPLE)
            taken = self.recorded.source_of(sample["value"])
            self.found.append(
                entry._replace(
                    name=name + RECORDED_SAMPLE,
                    site=own,
                    source=taken,
                    order=len(self.found),
                    statistics={},
                    fingerprint=(),
                    producer=producer and producer + RECORDED_SAMPLE,
                )
            )

    def _append_plain(
        self, name: str, site: Site, said: Event, step: int, layer: str, parent: str, stack: str
    ) -> None:
        """Add what is no tensor, if JSON can say it."""
        if "plain" not in said or (step, name) in self._steps_of_names:
            return
        self._steps_of_names.add((step, name))
        value = said["plain"]
        entry = Entry(
            name,
            site,
            step=step,
            rank=self.rank,
            order=len(self.found),
            dtype=str(said.get("type", type(value).__name__)),
            value=json.dumps(value),
            layer=layer,
            parent=parent,
            stack=stack,
        )
        self.found.append(entry)

    # What calls ran with

    def states(self) -> dict[tuple[int, int, str], CallState]:
        """Of the calls of modules, by step, rank and name."""
        return {
            (call.event.get("step", 0), self.rank, self._called(call)): self._state(call.event)
            for call in self.calls.values()
            if call.kind == "module"
        }

    def _called(self, call: _RecordedCall) -> str:
        return format_msprobe_call(self._name(call, "forward"))

    def _state(self, event: Event) -> CallState:
        strides, lost = {}, {}
        for slot, said in event.get("args", ()):
            if "value" in said:
                facts = self.values.get(said["value"], _Value({}, {})).facts
                if facts.get("strides"):
                    strides[slot] = tuple(facts["strides"])
            elif "plain" not in said or len(str(said["plain"])) >= LONGEST_TEXT:
                lost[slot] = str(said.get("type", "str"))
        random = event.get("random")
        return CallState(
            event.get("training"),
            event.get("grad"),
            event.get("autocast"),
            None if random is None else self.recorded.source_of(random),
            event.get("nesting") or "",
            strides,
            lost,
        )

    # Names

    def _name(self, call: _RecordedCall, way: str) -> MsprobeCall:
        path, layer = call.event["path"], call.event.get("layer", "")
        return name_of_call(call.kind, path, layer, call.number, way, self.word)

    def _row(self, call: _RecordedCall, way: str, section: str, slot: str) -> str:
        name = format_msprobe_call(self._name(call, way))
        return format_row_name(RowName(name, "" if call.kind == "debug" else section, slot))

    def _site(self, call: _RecordedCall, way: str, section: str, slot: str) -> Site:
        name = self._name(call, way)
        if section != TOTAL:
            return site_of_msprobe(name, section, slot)
        site = site_of_msprobe(name, "input", slot)
        # Shown behind the path: another gradient is called input, that of a result.
        whole = f"whole input {slot}"
        return Site(site.kind, site.path, site.call, "backward", "gradient", whole)

    def _parent(self, call: _RecordedCall) -> str:
        around = self.calls.get(call.event.get("parent", -1))
        return format_msprobe_call(self._name(around, "forward")) if around is not None else ""

    def notes(self) -> list[str]:
        """What could not be recorded, in words: one for each kind, and what to do about it."""
        missing = dict(self._missing)
        for call in self.calls.values():
            if call.ended is None:
                # Where the recording was ended it says so itself, and of calls that it saw alone.
                missing.setdefault(("open", call.event["path"]), 1)
        return [note_of(row) for row in missing_rows(missing)]


def name_of_call(kind: str, path: str, layer: str, number: int, way: str, word: str) -> MsprobeCall:
    """What a recorded call is named in a dump; modules begin with `word`."""
    if kind == "debug":
        return MsprobeCall("", path if way == "forward" else f"{path}_grad", "", "debug", number)
    direction: Any = way
    if kind == "api":
        prefix, _, rest = path.partition(".")
        return MsprobeCall(prefix, rest, layer, direction, number)
    return MsprobeCall(word, path, layer, direction, number)


_OF_GRADIENTS = ("own_gradient", "gradient_of", "gradient_of_parameter")
_KINDS: Mapping[str, Callable[[_Rank, Event], None]] = {
    "ended": _Rank._take_end,
    **dict.fromkeys(_OF_GRADIENTS, _Rank._take_gradient),
    "owner": _Rank._take_owner,
    # After what also says a value or a call.
    "settings": _Rank._take_settings,
    "missing": _Rank._take_missing,
    "value": _Rank._take_value,
    "call": _Rank._take_call,
    "stack": _Rank._take_stack,
}


def _source(source: ArraySource | None, facts: Event) -> ArraySource | None:
    """The source of the values in the shape the tensor had; None where they do not fit it."""
    if source is None or "shape" not in facts or source.shape == tuple(facts["shape"]):
        return source
    shape = tuple(facts["shape"])
    if len(source.shape) != len(shape):
        return None
    fits = (n in (1, whole) for n, whole in zip(source.shape, shape, strict=True))
    return BroadcastSource(source, shape) if all(fits) else None


def _fingerprint(figures: Mapping[str, Any]) -> tuple[float, ...]:
    """The fingerprint of a value; empty where there is none."""
    found = tuple(figures.get("fingerprint", ()))
    return found if len(found) == NUMBERS else ()


def _statistics(figures: Mapping[str, Any]) -> dict[str, float]:
    said = figures.get("statistics", {})
    found = {name: said[name] for name in _STATISTICS if said.get(name) is not None}
    if "crc32" in figures:
        found["crc32"] = figures["crc32"]
    return found
