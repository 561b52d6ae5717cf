"""The events of a recording, put together to what the files of old hold of one call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from troubleshooter_nb.capture.plan import Event, Plan
from troubleshooter_nb.capture.recorder import Recorder
from troubleshooter_nb.capture.selection import Keep
from troubleshooter_nb.compat.torch_npu.hooks.operators import label_of, operators
from troubleshooter_nb.compat.torch_npu.hooks.tensors import SeenTensor
from troubleshooter_nb.frameworks import named_operators
from troubleshooter_nb.frameworks.recording import Recording
from troubleshooter_nb.naming import Site


class Leaf(NamedTuple):
    """A part of what a call is given or gives.

    `position` is a dot and a number per level of lists and tuples, "" for a result that is one
    tensor. `value` is a tensor, or what is none and JSON can hold.
    """

    position: str
    value: Any

    @property
    def level(self) -> int:
        """How many lists and tuples it is in, the arguments themselves among them."""
        return self.position.count(".")


class Passed(NamedTuple):
    """One pass through an operator, forward or backward, which is over.

    `label` is the operator with the direction: ``Functional_linear_forward``. Backward, the inputs
    are the gradients of what the operator's result was made from, and the outputs the gradients
    that arrived; both are as the graph has them. `named` are the values given by a name that are no
    tensors; no file has them.
    """

    label: str
    is_backward: bool
    inputs: Sequence[Leaf]
    outputs: Sequence[Leaf]
    named: Sequence[Any] = ()


class Writer(Protocol):
    """Who writes passes down."""

    def write(self, passed: Passed) -> None:
        """Take a pass right after it; what this raises reaches the user's call."""


class Calls:
    """A sink that hands each pass to a writer, and then forgets all about it.

    Nobody has to say when a step is over, or when all is.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._tensors: dict[int, SeenTensor] = {}
        self._facts: dict[int, Event] = {}  # of values that come later
        self._calls: dict[int, Event] = {}
        self.recorder: Recorder | None = None

    def put(self, event: Event, array: np.ndarray | None = None) -> None:
        """Take an event of the recorder."""
        if "call" in event:
            self._calls[event["call"]] = event
        elif "ended" in event:
            self._end(event)
        elif "node_gradient" in event:
            self._take_gradients(event)
        elif "value" in event:
            self._take_tensor(event, array)

    def _take_tensor(self, event: Event, array: np.ndarray | None) -> None:
        """Keep a value; what repeats along an axis comes after what is known of it."""
        number = event["value"]
        facts = self._facts.pop(number, event)
        if array is None:
            self._facts[number] = facts
            return
        strides = facts.get("strides", ())
        self._tensors[number] = SeenTensor(array, facts["dtype"], facts["shape"], strides)

    def _end(self, event: Event) -> None:
        call = self._calls.pop(event["ended"], None)
        try:
            if call is not None and event["status"] == "ok":
                inputs = [*self._leaves(call["args"])]
                outputs = [*self._leaves(event["out"], is_nested=event["tree"])]
                label = f"{label_of(call['path'])}_forward"
                self._writer.write(Passed(label, False, inputs, outputs, _named(call["args"])))
        finally:
            self._forget(running=1)  # it is over when its event has been taken

    def _take_gradients(self, event: Event) -> None:
        given, arrived = (self._leaves(event[which]) for which in ("given", "arrived"))
        label = f"{label_of(event['path'])}_backward"
        try:
            self._writer.write(Passed(label, True, [*given], [*arrived]))
        finally:
            self._forget(running=0)

    def _leaves(self, said: Sequence[Any], *, is_nested: bool = True) -> Iterator[Leaf]:
        """What stands by its place; not what stands by a name."""
        for slot, what in said:
            if not _is_place(slot):
                continue
            position = f".{slot}" if is_nested else ""
            if what is not None and "value" in what:
                if what["value"] in self._tensors:  # else it has no values
                    yield Leaf(position, self._tensors[what["value"]])
            elif what is not None:
                yield Leaf(position, _plain(what))

    def _forget(self, *, running: int) -> None:
        """Keep nothing of calls that are over, unless more run that may name it."""
        if self.recorder is not None and named_operators.running() <= running:
            self._tensors.clear()
            self._facts.clear()
            self.recorder.forget_calls()


def recorder_of(adapter: Recording, writer: Writer) -> Recorder:
    """A recorder that tells a writer of every pass through the operators of the old tool."""
    plan = Plan(
        "api",
        parameters=False,
        keep=_kept,
        # A compiler would trace what is called instead of the operators.
        compiled="eager",
        own_parts=False,
        operator_names=operators(),
        nested=True,
        whole_gradients="none",
        node_gradients=True,
        trees=_Nesting(adapter),
        keeps_all=True,
    )
    calls = Calls(writer)
    recorder = calls.recorder = Recorder(adapter, {}, plan, calls)
    return recorder


def _kept(site: Site) -> Keep | None:
    """All of what is given by its place; what is given by its name was not dumped."""
    return "tensor" if _is_place(site.slot) else None


def _named(said: Sequence[Any]) -> list[Any]:
    """Of arguments, what is no tensor and stands by a name."""
    return [_plain(what) for slot, what in said if not _is_place(slot) and "value" not in what]


def _plain(what: Mapping[str, Any]) -> Any:
    """What is no tensor, or its text."""
    if what.get("type") == "float":  # of which JSON has no word: NaN and infinities
        return float(what["plain"])
    return what.get("plain", what.get("type"))


def _is_place(slot: str) -> bool:
    return slot.replace(".", "").isdecimal()


class _Nesting:
    """Says of a result whether it is one tensor or a list or tuple, perhaps of one."""

    def __init__(self, adapter: Recording) -> None:
        self._is_tensor = adapter.is_tensor

    def of_arguments(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
        """Nothing: their places say it."""

    def of_result(self, output: Any) -> bool:
        """Whether it is no tensor itself."""
        return not self._is_tensor(output)
