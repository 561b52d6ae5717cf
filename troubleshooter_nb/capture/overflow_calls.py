"""The calls of one step as `overflow.classify` takes them, from the events of a recorder."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from troubleshooter_nb.capture.overflow import SEEN_FORWARD
from troubleshooter_nb.capture.plan import Event
from troubleshooter_nb.formats.record_layout import describes_value
from troubleshooter_nb.metrics.float_formats import FORMATS

EntryFigures = dict[str, Any]
_READ = ("min", "max", "nan_count", "inf_count")


class _Arrived(NamedTuple):
    """A gradient: of which slot, in which backward pass, and the number of its value."""

    slot: str
    turn: int
    value: int


@dataclass(eq=False)
class _CheckedCall:
    """A call as its events tell, with the calls in it."""

    event: Event
    parent: _CheckedCall | None
    inner: list[_CheckedCall] = field(default_factory=list)
    owned: dict[str, int] = field(default_factory=dict)
    outputs: list[tuple[str, int]] = field(default_factory=list)
    own_gradients: list[_Arrived] = field(default_factory=list)

    @property
    def number(self) -> int:
        return int(self.event["call"])

    @property
    def path(self) -> str:
        return str(self.event["path"])

    @property
    def inputs(self) -> list[tuple[str, int]]:
        return [(slot, said["value"]) for slot, said in self.event["args"] if "value" in said]

    def within(self) -> Iterator[_CheckedCall]:
        """The call and all in it."""
        yield self
        for call in self.inner:
            yield from call.within()

    def around(self) -> Iterator[_CheckedCall]:
        """The calls around it."""
        if self.parent is not None:
            yield self.parent
            yield from self.parent.around()


class StepCalls:
    """Takes the events of one step, and gives its calls.

    Where a framework does not say what a call alone adds to the gradients of its inputs, their
    whole gradients stand for it, and what else read those inputs counts as given to the call.
    """

    def __init__(self, rank: int = 0) -> None:
        self.rank = rank
        self._stacks: dict[int, str] = {}  # of all steps: each is told once
        self.clear()

    def clear(self) -> None:
        """Forget the step."""
        self._values: dict[int, EntryFigures] = {}
        self._calls: dict[int, _CheckedCall] = {}
        self._ended: list[_CheckedCall] = []
        self._owned: dict[str, dict[str, int]] = defaultdict(dict)
        self._totals: dict[int, list[_Arrived]] = defaultdict(list)
        self._of_parameters: dict[tuple[str, str], list[_Arrived]] = defaultdict(list)

    def __len__(self) -> int:
        """Number of calls that began."""
        return len(self._calls)

    @property
    def count_of_values(self) -> int:
        """Number of values and gradients."""
        return len(self._values)

    def put(self, event: Event, array: np.ndarray | None = None) -> None:
        """Take an event, in the order in which they are written."""
        if "pass" in event and describes_value(event):
            self._take_value(event)
        for kind, take in _KINDS.items():
            if kind in event:
                take(self, event)
                return

    def _take_call(self, event: Event) -> None:
        if event.get("recompute"):
            return
        call = _CheckedCall(event, self._calls.get(event["parent"]))
        if call.parent is not None:
            call.parent.inner.append(call)
        self._calls[call.number] = call

    def _take_end(self, event: Event) -> None:
        call = self._calls.get(event["ended"])
        if call is None:
            return
        # Not at the beginning: its parameters are read after that, and only where they changed.
        call.owned = {**self._owned[call.path]} if call.event.get("kind") == "module" else {}
        call.outputs = [(slot, said["value"]) for slot, said in event["out"] if "value" in said]
        self._ended.append(call)

    def _take_value(self, event: Event) -> None:
        known = self._values.setdefault(event["value"], {"value": event["value"]})
        if "dtype" in event:
            known |= {"dtype": event["dtype"], "size": math.prod(event["shape"])}
        if "statistics" in event:
            known |= {name: event["statistics"].get(name) for name in _READ}

    def _take_owner(self, event: Event) -> None:
        call = self._calls.get(event["call"])
        if call is not None:
            self._owned[call.path][event["leaf"]] = event["owner"]

    def _take_total(self, event: Event) -> None:
        self._totals[event["gradient_of"]].append(_Arrived("", event["pass"], event["value"]))

    def _take_own(self, event: Event) -> None:
        call = self._calls.get(event["own_gradient"])
        if call is not None:
            call.own_gradients.append(_Arrived(event["slot"], event["pass"], event["value"]))

    def _take_of_parameter(self, event: Event) -> None:
        leaf = event["leaf"]
        arrived = _Arrived(leaf, event["pass"], event["value"])
        self._of_parameters[event["layer_path"], leaf].append(arrived)

    def _take_stack(self, event: Event) -> None:
        self._stacks[event["stack"]] = str(event.get("text", ""))

    # As calls

    def calls(self) -> list[dict[str, Any]]:
        """All calls so far: forward as they began, then backward as the pass goes through them."""
        return [*map(self.forward, self._calls.values()), *self._backward()]

    def ended(self, number: int) -> dict[str, Any] | None:
        """The forward call of a number, if it is one that ended."""
        call = self._calls.get(number)
        return None if call is None else self.forward(call)

    def is_outermost(self, number: int) -> bool:
        """Whether a call lies in no other."""
        return number in self._calls and self._calls[number].parent is None

    def is_suspect(self, number: int, near: float) -> bool:
        """Whether a value is not finite, or near the limit of its dtype."""
        known = self._values.get(number, {})
        if not _is_finite(known):
            return True
        limit = FORMATS[known["dtype"]].largest if known.get("dtype") in FORMATS else math.inf
        sides = (known.get("min"), known.get("max"))
        return any(side is not None and abs(side) >= near * limit for side in sides)

    def inner_of(self, number: int) -> list[int]:
        """Numbers of the calls directly in one."""
        return [call.number for call in self._calls[number].inner]

    def module_around(self, number: int) -> str:
        """Path of the module around an operator; empty for modules."""
        call = self._calls[number]
        if call.event.get("kind") == "module":
            return ""
        around = (each for each in call.around() if each.event.get("kind") == "module")
        return next((each.path for each in around), "")

    def made_between(self, number: int) -> str | None:
        """Path of the open call whose own code made what a call in it was given; None if none did.

        What was given is not finite, and no recorded call made it.
        """
        around = self._calls[number].parent
        if around is None or around.event.get("kind") != "module":
            return None
        said = self.forward(around)
        is_given = any(not _is_finite(one) for one in [*said["inputs"], *said["parameters"]])
        return None if is_given else around.path

    def forward(self, call: _CheckedCall) -> dict[str, Any]:
        """A call as `classify` takes it; what the calls in it own counts as its own."""
        said = self._named(call, "forward")
        said["inputs"] = self._figures(call.inputs)
        said["parameters"] = self._figures(self._owned_within(call))
        said["outputs"] = self._figures(call.outputs)
        said["plain"] = [_number(given) for _, given in call.event["args"] if "plain" in given]
        return said

    def _named(self, call: _CheckedCall, direction: str) -> dict[str, Any]:
        event = call.event
        return {
            **{name: event.get(name, "") for name in ("call", "kind", "path", "layer")},
            **{"step": event.get("step", 0), "rank": self.rank, "run": event.get("run", 0)},
            "direction": direction,
            "parent": None if call.parent is None else call.parent.number,
            "stack": self._stacks.get(event.get("stack", -1), ""),
        }

    def _figures(self, slots: Iterable[tuple[str, int]], before: str = "") -> list[EntryFigures]:
        known = ((slot, self._values.get(number)) for slot, number in slots)
        return [{**figures, "slot": before + slot} for slot, figures in known if figures]

    @staticmethod
    def _owned_within(call: _CheckedCall) -> list[tuple[str, int]]:
        """Parameters and buffers of a call and those in it, by name; each once."""
        found: dict[int, str] = {}
        for each in call.within():
            for leaf, number in each.owned.items():
                found.setdefault(number, _below(call, each, leaf))
        return [(name, number) for number, name in found.items()]

    # Backward

    def _backward(self) -> Iterator[dict[str, Any]]:
        totals = (arrived.turn for many in self._totals.values() for arrived in many)
        owned = (arrived.turn for many in self._of_parameters.values() for arrived in many)
        own = (arrived.turn for call in self._ended for arrived in call.own_gradients)
        turns = sorted({*totals, *owned, *own})
        if not turns:
            return
        holders, readers = self._holders(), self._readers()
        for turn in turns:
            # What ended last is gone through first, and around what ended before it.
            for call in reversed(self._ended):
                if call.event.get("kind") == "module":
                    said = self._backward_of(call, turn, holders, readers)
                    if said["inputs"] or said["outputs"]:
                        said["inputs"] += self._seen_forward(call)
                        yield said

    def _holders(self) -> dict[int, list[_CheckedCall]]:
        """By number of a parameter, the calls that used it as their own, as they ended."""
        found: dict[int, list[_CheckedCall]] = defaultdict(list)
        for call in self._ended:
            for number in call.owned.values():
                found[number].append(call)
        return found

    def _readers(self) -> dict[int, list[_CheckedCall]] | None:
        """By number of a value, the calls that read it; None where their own parts are known."""
        if any(call.own_gradients for call in self._ended):
            return None
        found: dict[int, list[_CheckedCall]] = defaultdict(list)
        for call in self._ended:
            for _, number in call.inputs:
                found[number].append(call)
        return found

    def _backward_of(
        self,
        call: _CheckedCall,
        turn: int,
        holders: Mapping[int, Sequence[_CheckedCall]],
        readers: Mapping[int, Sequence[_CheckedCall]] | None,
    ) -> dict[str, Any]:
        said = self._named(call, "backward") | {"pass": turn}
        given = self._arrived_at_outputs(call, turn)
        left = [(a.slot, a.value) for a in call.own_gradients if a.turn == turn]
        others: set[_CheckedCall] = set()
        if readers is not None:
            left = [
                (slot, a.value)
                for slot, number in call.inputs
                for a in self._totals.get(number, ())
                if a.turn == turn
            ]
            others |= {each for _, number in call.inputs for each in readers[number]}
        for each in call.within():
            for leaf, number in each.owned.items():
                users = holders[number]
                # A gradient that several calls add to is told of the last one that does.
                if users[0] is not each:
                    continue
                arrived = self._of_parameters.get((each.path, leaf), ())
                name = f"parameters_grad.{_below(call, each, leaf)}"
                left += [(name, a.value) for a in arrived if a.turn == turn]
                others |= {*users}
        for each in others - {*call.within()}:
            given += self._arrived_at_outputs(each, turn)
        said["inputs"], said["outputs"] = self._figures(given), self._figures(left)
        return said

    def _arrived_at_outputs(self, call: _CheckedCall, turn: int) -> list[tuple[str, int]]:
        return [
            (slot, arrived.value)
            for slot, number in call.outputs
            for arrived in self._totals.get(number, ())
            if arrived.turn == turn
        ]

    def _seen_forward(self, call: _CheckedCall) -> list[EntryFigures]:
        """What the forward pass left: what was not finite there is not so in backward either."""
        own = [*call.inputs, *call.outputs, *call.owned.items()]
        found = self._figures(own, SEEN_FORWARD)
        for each in call.inner:
            slots = [(_below(call, e, slot), n) for e in each.within() for slot, n in e.outputs]
            found += [one for one in self._figures(slots, SEEN_FORWARD) if not _is_finite(one)]
        return found


_KINDS: Mapping[str, Callable[[StepCalls, Event], None]] = {
    "ended": StepCalls._take_end,
    "own_gradient": StepCalls._take_own,
    "gradient_of": StepCalls._take_total,
    "gradient_of_parameter": StepCalls._take_of_parameter,
    "owner": StepCalls._take_owner,
    # After what also says a value, a call or a stack.
    "value": StepCalls._take_value,
    "call": StepCalls._take_call,
    "stack": StepCalls._take_stack,
}


def _is_finite(figures: EntryFigures) -> bool:
    return not (figures.get("nan_count") or figures.get("inf_count"))


def _below(outer: _CheckedCall, inner: _CheckedCall, leaf: str) -> str:
    """The name of what a call holds as the call around it would say it."""
    if inner is outer:
        return leaf
    path = inner.path.removeprefix(f"{outer.path}.") if outer.path else inner.path
    return f"{path}.{leaf}"


def _number(given: Mapping[str, Any]) -> Any:
    """A plain argument; JSON has no words for infinities."""
    return float(given["plain"]) if given.get("type") == "float" else given["plain"]
