"""Holds what a run records against a reference while it runs, call by call."""

from __future__ import annotations

import math
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.align import MappingLike
from troubleshooter_nb.capture.differences import Difference, Differences, Origin
from troubleshooter_nb.capture.judging import Judge, Judged
from troubleshooter_nb.capture.partners import Layer, Partners, Place
from troubleshooter_nb.capture.plan import Event, Plan, Sink
from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import ArgumentError, ArgumentTypeError, NotOfferedError
from troubleshooter_nb.formats import DumpLike, as_dump
from troubleshooter_nb.formats.mapping_file import is_weight_map
from troubleshooter_nb.formats.record_entries import name_of_call
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.verdict import Tolerance
from troubleshooter_nb.naming.msprobe import format_msprobe_call
from troubleshooter_nb.weight_map import WeightMap

# Bytes of values that wait for the call that reads them; what is older is copied again. So few
# that the system need not find new pages for those that come.
_MOST_HELD = 64 << 20
_NONE = Judged("missing")


class StopRecording(BaseException):
    """Ends the block of a recording that was to stop at a difference.

    It is no ``Exception``, so that what a network catches lets it pass; the context of the
    recording ends it.
    """


@dataclass(frozen=True)
class Reference:
    """What a run is compared with while it runs; see `record`."""

    dump: Dump
    mapping: MappingLike | None
    tolerance: Tolerance
    stop_after: int | None

    @classmethod
    def of(
        cls,
        against: DumpLike,
        mapping: MappingLike | None,
        tolerance: Tolerance,
        stop_after: int | None,
        to: Path | None,
    ) -> Reference:
        """Open and check what `record` was given.

        Raises
        ------
        TypeError
            If `stop_after` is no number.
        ValueError
            If it is below 1, the reference holds no calls, or would be overwritten.
        NotImplementedError
            For a weight map.
        """
        if stop_after is not None:
            if not isinstance(stop_after, int) or isinstance(stop_after, bool):
                raise ArgumentTypeError(Message("against.stop_kind", given=repr(stop_after)))
            if stop_after < 1:
                raise ArgumentError(Message("against.stop_range", given=stop_after))
        if isinstance(mapping, WeightMap) or (
            isinstance(mapping, str | Path) and is_weight_map(mapping)
        ):
            raise NotOfferedError(Message("against.weight_map"))
        if to is not None and isinstance(against, str | Path):
            here, there = to.resolve(), Path(against).resolve()
            if here == there or here in there.parents or there in here.parents:
                raise ArgumentError(Message("against.same_folder", folder=to.name))
        dump = as_dump(against, "right")
        if not any(kind in ("module", "api", "debug") for kind in dump.columns["kind"]):
            raise ArgumentError(Message("against.no_calls", label=dump.label, format=dump.format))
        return cls(dump, mapping, tolerance, stop_after)


@dataclass(eq=False)
class _Call:
    """A call of the run, and what was found of it."""

    place: Place
    layer: str
    step: int
    run: int
    parent: int | None
    stack: int | None
    inputs: list[tuple[str, int]]
    outputs: list[tuple[str, int]] = field(default_factory=list)
    has_partner: bool = False
    given: dict[int, np.ndarray] = field(default_factory=dict)
    parameters: dict[str, Judged] = field(default_factory=dict)
    owned: list[int] = field(default_factory=list)
    partner_of_leaf: dict[str, int] = field(default_factory=dict)
    differs: bool = False
    differs_inside: bool = False
    gradient: Judged = _NONE  # of its results, the worst


class Against:
    """A sink that passes events on, and holds each call that ends against the reference.

    Parameters
    ----------
    reference : Reference
    layers : iterable of Layer
    word : str
        How names of modules begin.
    plan : Plan
    rank : int
    is_recorded : callable
        Whether a step of the run is among those that are recorded.
    kept : Sink
        Where events go; it gets the values of a call that differs as well, whatever is kept.
    """

    def __init__(
        self,
        reference: Reference,
        layers: Iterable[Layer],
        word: str,
        plan: Plan,
        rank: int,
        is_recorded: Callable[[int], bool],
        kept: Sink,
    ) -> None:
        self._reference, self._plan, self._kept, self._word = reference, plan, kept, word
        self._is_recorded = is_recorded
        self._partners = Partners(reference.dump, layers, word, reference.mapping, rank)
        self._judge = Judge(reference.dump, reference.tolerance)
        # Told before the block is ended, and of bytes that are kept besides.
        self.stop: Callable[[], None] = lambda: None
        self.grow: Callable[[int], None] = lambda count: None
        self.stopped_by: StopRecording | None = None
        # Whether there is a block to end; of what runs between `start` and `stop` the rest runs on.
        self.ends_block = True
        self._step, self._first_step = 0, -1
        self._held: OrderedDict[int, np.ndarray] = OrderedDict()
        self._held_bytes = 0
        self._stored: set[int] = set()
        self._stacks: dict[int, str] = {}
        self._rows: list[tuple[int, Difference]] = []  # with the run of a cell
        self._alone: dict[str, int] = {}
        self._compared: dict[int, int] = defaultdict(int)  # by run
        self._gradients: dict[int, int] = defaultdict(int)
        self._undecided: dict[int, int] = defaultdict(int)
        self._met: dict[tuple[int, Place], int] = {}
        self._met_gradients: dict[int, int] = {}
        self._steps: set[int] = set()
        self._begin_step()

    def _begin_step(self) -> None:
        """Forget the values of a step: those of the next have other numbers."""
        self._calls: dict[int, _Call] = {}
        self._counts: dict[tuple[str, str], list[int]] = defaultdict(list)  # runs of the visits
        self._made: dict[int, list[tuple[_Call, str]]] = defaultdict(list)
        self._used: dict[int, list[_Call]] = defaultdict(list)
        self._of_paths: dict[str, list[_Call]] = defaultdict(list)
        self._held.clear()
        self._held_bytes = 0
        self._stored.clear()
        self._judge.forget()

    # What comes

    def see(self, number: int, read: Callable[[], np.ndarray]) -> None:
        """Hold a value that is met until it was compared."""
        if number in self._held:
            self._held.move_to_end(number)
            return
        try:
            values = read()
        except ValueError:
            return  # it has none, and the recorder says so
        self._held[number] = values
        self._held_bytes += values.nbytes
        while self._held_bytes > _MOST_HELD and len(self._held) > 1:
            self._held_bytes -= self._held.popitem(last=False)[1].nbytes

    def put(self, event: Event, array: np.ndarray | None = None) -> None:
        """Pass an event on, and compare what it ends.

        Raises
        ------
        StopRecording
            After the difference at which the run was to stop.
        """
        self._kept.put(event, array)
        if array is not None:
            self._stored.add(event["value"])
        if "statistics" in event:
            self._judge.note(event["value"], event)
        if self.stopped_by is not None:
            return
        for name, take in _TAKEN.items():
            if name in event:
                take(self, event)
                return

    def _take_stack(self, event: Event) -> None:
        self._stacks[event["stack"]] = event["text"]

    def _take_replaced(self, event: Event) -> None:
        """A cell runs again: what it gave before is void."""
        run = event["replaced"]
        self._rows = [row for row in self._rows if row[0] != run]
        self._alone = {name: of for name, of in self._alone.items() if of != run}
        self._met = {key: of for key, of in self._met.items() if of != run}
        self._met_gradients = {r: of for r, of in self._met_gradients.items() if of != run}
        for counted in (self._compared, self._gradients, self._undecided):
            counted.pop(run, None)
        for visits in self._counts.values():
            visits[:] = [of for of in visits if of != run]

    def _take_call(self, event: Event) -> None:
        if event.get("recompute") or "path" not in event:
            return
        step, run = event["step"], event["run"]
        if step != self._step:
            self._step = step
            self._begin_step()
        visits = self._counts[event["kind"], event["path"]]
        place = Place(event["kind"], event["path"], len(visits))
        visits.append(run)
        if self._first_step < 0:
            self._first_step = step
        inputs = [(slot, said["value"]) for slot, said in event["args"] if "value" in said]
        call = _Call(
            place, event.get("layer", ""), step, run, event["parent"], event.get("stack"), inputs
        )
        call.given = {n: self._held[n] for _, n in inputs if n in self._held}
        self._calls[event["call"]] = call
        self._of_paths[place.path].append(call)
        for _, number in inputs:
            self._used[number].append(call)
        if "stack" not in event:
            return  # not among those that are recorded
        self._steps.add(step)
        call.has_partner = self._partners.has(self._there(step), place)
        if call.has_partner:
            self._met[self._there(step), self._partners.place_of(place)] = run
        elif place not in self._partners.expected:
            self._leave_alone(call, self._name(call, "forward"))

    def _take_owner(self, event: Event) -> None:
        """A parameter of a call, which is compared at once."""
        call, number = self._calls.get(event["call"]), event["owner"]
        if call is None:
            return
        call.owned.append(number)
        leaf, role = event["leaf"], event["role"]
        row = self._partners.row_of_parameter(
            self._there(call.step), call.place, "forward", role, leaf
        )
        if row < 0:
            if role == "parameter" and self._partners.has_parameters and call.has_partner:
                name = f"{self._name(call, 'forward')}.parameters.{leaf}"
                self._leave_alone(call, name)
            return
        found = self._judge.of(number, self._held.get(number), row)
        call.parameters[leaf] = found
        call.partner_of_leaf[leaf] = row
        if number in self._held and found.differs:
            call.given[number] = self._held[number]

    def _take_end(self, event: Event) -> None:
        call = self._calls.get(event["ended"])
        if call is None:
            return
        if event["status"] != "ok":
            self._undecided[call.run] += call.has_partner  # it gave nothing to compare
            return
        call.outputs = [(slot, said["value"]) for slot, said in event["out"] if "value" in said]
        for slot, number in call.outputs:
            self._made[number].append((call, slot))
        if call.has_partner:
            self._compare(call)
        call.given = {}

    def _take_gradient(self, event: Event) -> None:
        made = self._made.get(event["gradient_of"], ())
        turn = f".pass{event['pass']}" if event.get("pass") else ""
        users = self._users_of(event["gradient_of"])
        for at, (call, slot) in enumerate(made):
            rows = self._partners.rows_of(
                self._there(call.step), call.place, "backward", "input", [slot + turn]
            )
            if rows[0] < 0:
                self._miss_gradient(call)
                continue
            self._met_gradients[rows[0]] = call.run
            found = self._judge.of(event["value"], self._held.get(event["value"]), rows[0])
            call.gradient = _worst([call.gradient, found])
            if at:
                continue
            maker, said = call, ("output", slot)
            if len(users) == 1:  # whose backward made it
                maker = users[0]
                said = "input", next(s for s, n in maker.inputs if n == event["gradient_of"])
            self._note_gradient(maker, event, found, users, said, rows[0], call.differs)

    def _users_of(self, number: int) -> list[_Call]:
        """The calls that read a value and gave something else, the innermost of nested ones."""
        made = [call for call, _ in self._made.get(number, ())]
        users = [u for u in self._used.get(number, ()) if u.outputs and u not in made]
        around = {id(outer) for user in users for outer in self._around(user)}
        return [user for user in users if id(user) not in around]

    def _around(self, call: _Call) -> Iterator[_Call]:
        outer = self._calls.get(call.parent) if call.parent is not None else None
        while outer is not None:
            yield outer
            outer = self._calls.get(outer.parent) if outer.parent is not None else None

    def _take_parameter_gradient(self, event: Event) -> None:
        path, leaf, number = event["layer_path"], event["leaf"], event.get("pass", 0)
        calls = self._of_paths.get(path, [])
        place = Place("module", path, number)
        row = self._partners.row_of_parameter(
            self._there(event["step"]), place, "backward", "parameter", leaf
        )
        if not calls:
            return
        if row < 0:
            self._miss_gradient(calls[0])
            return
        self._met_gradients[row] = calls[0].run
        found = self._judge.of(event["value"], self._held.get(event["value"]), row)
        self._note_gradient(calls[0], event, found, calls, ("", leaf), row)

    def _miss_gradient(self, call: _Call) -> None:
        """Note a gradient without a partner, unless its call has none either and is noted."""
        if call.has_partner:
            self._leave_alone(call, self._name(call, "backward"))

    # What is found

    def _compare(self, call: _Call) -> None:
        """Hold what a call gives, and what it holds, against the reference."""
        step = self._there(call.step)
        direction = "" if call.place.kind == "debug" else "forward"
        results = call.outputs or call.inputs
        role = "" if call.place.kind == "debug" else "output" if call.outputs else "input"
        rows = self._partners.rows_of(step, call.place, direction, role, [s for s, _ in results])
        found = [
            ((role or "output", slot), self._judged(call, n, row), row)
            for (slot, n), row in zip(results, rows, strict=True)
        ]
        owned = call.parameters.items()
        found += [(("", leaf), judged, call.partner_of_leaf[leaf]) for leaf, judged in owned]
        self._count(call.run, [judged for _, judged, _ in found], self._compared)
        if not any(judged.differs for _, judged, _ in found):
            return
        call.differs = True
        parent = self._calls.get(call.parent) if call.parent is not None else None
        if parent is not None:
            parent.differs_inside = True
        what, worst, row = max(
            (one for one in found if one[1].differs), key=lambda one: _rank(one[1])
        )
        self._keep(call)
        own = tuple(leaf for leaf, judged in call.parameters.items() if judged.differs)
        self._note(call, "forward", self._origin(call), _said(*what), worst, row, own)

    def _judged(self, call: _Call, number: int, row: int) -> Judged:
        if row < 0:
            return _NONE
        values = call.given.get(number, self._held.get(number))
        return self._judge.of(number, values, row)

    def _origin(self, call: _Call) -> Origin:
        """Whether a call made the difference of what it gives."""
        step = self._there(call.step)
        slots = [slot for slot, _ in call.inputs]
        rows = self._partners.rows_of(step, call.place, "forward", "input", slots)
        given = [self._judged(call, n, row) for (_, n), row in zip(call.inputs, rows, strict=True)]
        if any(judged.differs for judged in given):
            return "carried"
        if call.differs_inside:
            return "contains"
        if any(judged.is_open for judged in given) or (not given and not self._plan.inputs):
            return "unknown"
        return "created"

    def _count(self, run: int, found: list[Judged], counted: dict[int, int]) -> None:
        counted[run] += any(not judged.is_open for judged in found)
        self._undecided[run] += any(judged.is_open for judged in found)

    def _note_gradient(
        self,
        call: _Call,
        event: Event,
        found: Judged,
        users: Sequence[_Call],
        what: tuple[str, str],
        row: int,
        is_carried: bool = False,
    ) -> None:
        """Note a gradient; `users` are the calls whose backward made it."""
        self._count(call.run, [found], self._gradients)
        if not found.differs:
            return
        origin: Origin = "created"
        if is_carried or any(user.differs or user.gradient.differs for user in users):
            origin = "carried"
        elif all(user.gradient.is_open for user in users):
            origin = "unknown"
        self._keep_values([event["value"]])
        for user in users if origin == "created" else ():
            self._keep(user)
        said = Message("against.gradient_of", what=_said(*what))
        self._note(call, "backward", origin, said, found, row, ())

    def _note(
        self,
        call: _Call,
        direction: Any,
        origin: Origin,
        what: str,
        worst: Judged,
        row: int,
        parameters: tuple[str, ...],
    ) -> None:
        difference = Difference(
            self._name(call, direction),
            call.place.path,
            call.layer,
            call.place.call,
            call.step,
            direction,
            origin,
            what,
            worst.verdict,
            worst.rel_l2_error,
            worst.max_abs_error,
            worst.basis,
            parameters,
            self._partners.name_of(row),
            self._stacks.get(call.stack, "") if call.stack is not None else "",
        )
        self._rows.append((call.run, difference))
        wanted, found = self._reference.stop_after, [row for _, row in self._rows]
        if wanted and sum(one.origin != "contains" for one in found) >= wanted:
            self.stopped_by = StopRecording(Message("against.stopped", call=difference.call))
            self.stop()
            if self.ends_block:
                raise self.stopped_by

    def _keep(self, call: _Call) -> None:
        """Have the values of a call in the recording, whatever it keeps."""
        numbers = [n for _, n in (*call.inputs, *call.outputs)] + call.owned
        self._keep_values(numbers, call.given)

    def _keep_values(
        self, numbers: Iterable[int], given: Mapping[int, np.ndarray] | None = None
    ) -> None:
        for number in numbers:
            values = (given or {}).get(number, self._held.get(number))
            if values is not None and number not in self._stored:
                self._stored.add(number)
                self._kept.put({"value": number}, values)
                self.grow(values.nbytes)

    def _there(self, step: int) -> int:
        return self._partners.step_of(step, self._first_step)

    def _name(self, call: _Call, way: str) -> str:
        kind, path, number = call.place
        return format_msprobe_call(name_of_call(kind, path, call.layer, number, way, self._word))

    def _leave_alone(self, call: _Call, name: str) -> None:
        """Note what has no partner, with its step behind the first."""
        is_first = call.step == self._first_step
        said = name if is_first else Message("against.at_step", where=name, step=call.step)
        self._alone[said] = call.run

    def differences(self, *, is_running: bool) -> Differences:
        """What was found so far."""
        return Differences(
            tuple(row for _, row in self._rows),
            self._reference.dump.label,
            sum(self._compared.values()),
            sum(self._gradients.values()),
            sum(self._undecided.values()),
            tuple(self._alone),
            tuple(self._unmet() if is_running or self.stopped_by else self._unmet_of_all()),
            self.stopped_by is not None,
            is_running,
        )

    def _unmet_of_all(self) -> list[str]:
        """Also the calls of the steps that the run was to record and never came to."""
        steps, found = {self._there(step) for step in self._steps}, self._unmet()
        for step in self._partners.steps:
            if step not in steps and self._is_recorded(step):
                titles = [self._partners.title_of(step, place) for place in self._asked(step)]
                found += [Message("against.at_step", where=one, step=step) for one in titles]
        return found

    def _asked(self, step: int) -> Iterator[Place]:
        """Calls of a step of the reference that the run is expected to make."""
        kinds = ["debug", *["module"] * self._plan.modules, *["api"] * self._plan.operators]
        for place in self._partners.calls(step, kinds):
            if place not in self._partners.unexpected and self._is_asked(place):
                yield place

    def _unmet(self) -> list[str]:
        """Calls of the reference, in the steps of the run, that the run did not make.

        Of those that it made, the gradients that did not come.
        """
        found, partners = [], self._partners
        for step in sorted({self._there(step) for step in self._steps}):
            for place in self._asked(step):
                if (step, place) not in self._met:
                    found.append(partners.title_of(step, place))
                elif self._plan.gradients:
                    rows = partners.gradients_of(step, place)
                    missed = (row for row in rows if row not in self._met_gradients)
                    found += [partners.entry_of(row) for row in missed]
        return [*dict.fromkeys(found)]

    def _is_asked(self, place: Place) -> bool:
        """Whether a call of the reference would be recorded, were it made."""
        if self._plan.names is None or place.kind == "debug":
            return True
        return self._plan.names(self._partners.site_of(place))


def _said(section: str, slot: str) -> str:
    """``output 0``, ``input mask``; of what a layer holds, its name."""
    return Message(f"against.{section}", slot=slot) if section else slot


def _worst(found: Iterable[Judged]) -> Judged:
    return max(found, key=_rank)


def _rank(judged: Judged) -> tuple[bool, bool, float]:
    error = judged.rel_l2_error
    return judged.differs, not judged.is_open, math.inf if math.isnan(error) else error


# What events say, in the order in which it is asked: one of a gradient may also be of a value.
_TAKEN: Mapping[str, Callable[[Against, Event], None]] = {
    "ended": Against._take_end,
    "owner": Against._take_owner,
    "gradient_of": Against._take_gradient,
    "gradient_of_parameter": Against._take_parameter_gradient,
    "replaced": Against._take_replaced,
    "call": Against._take_call,
    "text": Against._take_stack,
}
