"""The events of a recorder as msprobe's folders: a view of what `record` records, too."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from troubleshooter_nb.capture.plan import Event
from troubleshooter_nb.compat.msprobe.indented import indented
from troubleshooter_nb.compat.msprobe.operators import harmless_operators
from troubleshooter_nb.compat.msprobe.selection import EVERYTHING, Selection, Wanted
from troubleshooter_nb.compat.msprobe.tensors import StepTensors, TensorFacts
from troubleshooter_nb.compat.msprobe.trees import Plain, Tensor, mapped, tensors_in
from troubleshooter_nb.errors import WriteError
from troubleshooter_nb.formats.msprobe_layout import CONSTRUCT, DOCUMENTS, STACK
from troubleshooter_nb.formats.msprobe_records import frames_of, shared_stacks
from troubleshooter_nb.formats.msprobe_tensors import FOLDER
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming import BUFFER_LEAVES, MsprobeCall, format_msprobe_call

_Numbers = Mapping[str, int]
_PRIMITIVE = "Primitive."


@dataclass(frozen=True)
class Sought:
    """What is written, and how.

    Attributes
    ----------
    task, level : str
        As msprobe calls them.
    facts : TensorFacts
    wanted : Wanted
    module_word : str
        ``Module`` or ``Cell``.
    roots : frozenset of str
        Paths of the networks themselves, which are not written.
    leaves_out_harmless : bool
    extra_info : bool
        Whether stacks and the construction are written.
    overflows : int
        Of the task ``overflow_check``: how many calls are written, -1 for all.
    """

    task: str
    level: str
    facts: TensorFacts
    wanted: Wanted = EVERYTHING
    module_word: str = "Module"
    roots: frozenset[str] = frozenset()
    leaves_out_harmless: bool = False
    extra_info: bool = True
    overflows: int = 0


@dataclass(eq=False)
class _OpenCall:
    """A call, and what has arrived for its entries."""

    number: int
    parts: MsprobeCall
    kind: str
    path: str
    parent: _OpenCall | None
    is_wanted: bool = True  # unless the configuration leaves it and its backward call out
    is_written: bool = True
    args: list[Any] = field(default_factory=list)
    keywords: dict[str, Any] = field(default_factory=dict)
    inputs: _Numbers = field(default_factory=dict)
    output: Any = None
    outputs: _Numbers = field(default_factory=dict)
    parameters: dict[str, tuple[int, bool]] = field(default_factory=dict)  # and who needs gradients
    arrived: dict[str, int] = field(default_factory=dict)
    given: dict[str, int] = field(default_factory=dict)
    with_gradient: bool = True  # of a save point
    gradient: str = ""  # what its entry is called

    @cached_property
    def name(self) -> str:
        return format_msprobe_call(self.parts)

    @cached_property
    def backward(self) -> str:
        return format_msprobe_call(replace(self.parts, event="backward"))

    @property
    def waits(self) -> bool:
        """Whether an argument needs a gradient, or it is not known."""
        places = [one for one in self.args if isinstance(one, Tensor)]
        return any(place.requires_grad is not False for place in places)

    def within(self, other: _OpenCall) -> bool:
        """Whether it is another call, or runs inside it."""
        call: _OpenCall | None = self
        while call is not None and call is not other:
            call = call.parent
        return call is not None


class StepWriter:
    """Takes the events of one step and writes the folder of it; a sink of a recorder.

    Parameters
    ----------
    folder : Path
        Of the step and the rank.
    sought : Sought
    stacks : dict
        Texts of stacks by number, of this step and those before; texts are added.
    forget : callable
        Has the recorder meet all values anew, where none can be kept for later.
    """

    def __init__(
        self, folder: Path, sought: Sought, stacks: dict[int, str], forget: Callable[[], None]
    ) -> None:
        self.folder, self._sought, self._forget = folder, sought, forget
        is_debug = sought.level == "debug"
        self._tensors = StepTensors(folder, sought.facts, saves=is_debug)
        self._roots = set(sought.roots)
        self._selection = Selection(sought.wanted)
        # Else tensors are stored of some calls, of which it is known when they end.
        chooses = sought.overflows or sought.wanted.stored
        self._stores_all = sought.facts.stores and not chooses
        self._calls: dict[int, _OpenCall] = {}
        self._calls_of: dict[str, list[_OpenCall]] = defaultdict(list)  # of modules, by path
        self._made_by: dict[int, list[tuple[_OpenCall, str]]] = defaultdict(list)
        self._visits: Counter[tuple[str, str, str]] = Counter()
        self._owned: dict[str, dict[str, tuple[int, bool]]] = defaultdict(dict)
        self._stacks = stacks
        self._stack_of: dict[str, str] = {}
        self._construct: dict[str, _OpenCall] = {}
        self._data: dict[str, Callable[[], Any]] = {}
        self._saved: dict[str, Callable[[], Any]] = {}
        self._pending: list[_OpenCall] = []
        self._gradients: dict[str, dict[str, tuple[int, str]]] = {}
        self._overflows = 0
        self.has_backward = False
        self.expects_backward = False  # something that was seen needs a gradient
        self.saves_gradient = True  # of the save point that comes next

    @property
    def in_vain(self) -> list[str]:
        """Names of some calls, if there were any, but names and scope ask for none of them."""
        is_asked = self._sought.wanted.is_all or self._sought.overflows or self._data
        if is_asked or self._saved or self._sought.task == "structure":
            return []
        return [call.name for call in self._calls.values() if call.is_wanted][:3]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not (self._calls or self._data or self._saved)

    def add_roots(self, paths: Iterable[str]) -> None:
        """Have the paths of further networks, which are not written."""
        self._roots.update(paths)

    # Events

    def put(self, event: Event, array: np.ndarray | None = None) -> None:
        """Take an event, and the values that belong to it."""
        if "value" in event:
            self._tensors.take(event, array)
        if "call" in event and "kind" in event:
            self._begin(event)
        elif "ended" in event:
            self._end(event)
        elif "owner" in event:
            self._own(event)
        elif "stack" in event:
            self._stacks[event["stack"]] = event["text"]
        elif "node_gradient" in event:
            self._take_node(event)
        elif "own_gradient" in event:
            self._take_own(event)
        elif "gradient_of" in event:
            self._take_gradient(event)
        elif "gradient_of_parameter" in event:
            self._take_parameter_gradient(event)

    # Forward

    def _begin(self, event: Event) -> None:
        call = self._call_of(event)
        if call is None:
            return
        self._flush_pending(call)
        self._calls[call.number] = call
        if call.kind == "module":
            self._calls_of[call.path].append(call)
        call.is_wanted = self._is_wanted(call)
        call.is_written = self._is_asked(call) and call.is_wanted
        call.args, call.keywords = event.get("tree", ([], {}))
        call.inputs = {slot: one["value"] for slot, one in event["args"] if "value" in one}
        if self._stacks.get(event.get("stack", -1)):
            self._stack_of[call.name] = self._stacks[event["stack"]]
        if call.is_written and self._stores(call):
            self._store(call.name, "input", call.args, call.inputs)
            self._store(call.name, "kwargs", call.keywords, call.inputs)

    def _call_of(self, event: Event) -> _OpenCall | None:
        """The call that an event begins; None for a network itself, and what is computed again."""
        kind, path = event["kind"], event["path"]
        if event.get("recompute") or (kind == "module" and path in self._roots):
            return None
        layer = str(event.get("layer", ""))
        visit = self._visits[kind, path, layer]
        self._visits[kind, path, layer] += 1
        if kind == "module":
            parts = MsprobeCall(self._sought.module_word, path, layer, "forward", visit)
        elif kind == "debug":
            parts = MsprobeCall("", path, "", "debug", visit)
        else:
            prefix, _, name = path.partition(".")
            parts = MsprobeCall(prefix, name, layer, "forward", visit)
        parent = self._calls.get(event["parent"]) if event.get("parent") is not None else None
        return _OpenCall(event["call"], parts, kind, path, parent)

    def _is_wanted(self, call: _OpenCall) -> bool:
        """Whether the level has such calls, and the list the operator."""
        if call.kind == "module" and self._sought.level == "L1":
            return False
        has_own_choice = not self._sought.wanted.is_all
        is_harmless = call.path in harmless_operators(self._sought.facts.framework)
        return has_own_choice or not (self._sought.leaves_out_harmless and is_harmless)

    def _is_asked(self, call: _OpenCall) -> bool:
        """Whether names and scope ask for a call that begins."""
        if call.kind == "debug":
            call.with_gradient = self.saves_gradient
            return True
        around = []
        outer = call.parent
        while outer is not None:
            around.append(outer.name)
            outer = outer.parent
        return self._selection.begins(call.name, around)

    def _stores(self, call: _OpenCall) -> bool:
        """Whether the tensors of a call are written now; of those that may overflow, later."""
        return self._stores_all or self._sought.wanted.stores(call.name)

    def _store(self, entry: str, section: str, tree: Any, numbers: _Numbers) -> None:
        for place, tensor in tensors_in(tree):
            if tensor.slot in numbers:
                self._tensors.store(numbers[tensor.slot], _joined(entry, section, place))

    def _own(self, event: Event) -> None:
        call = self._calls.get(event["call"])
        is_wanted = event.get("role") == "parameter" or (
            not self._sought.facts.is_torch and event["leaf"] in BUFFER_LEAVES
        )
        if call is not None and is_wanted:
            needs = bool(event.get("requires_grad"))
            self._owned[call.path][event["leaf"]] = event["owner"], needs

    def _end(self, event: Event) -> None:
        call = self._calls.get(event["ended"])
        if call is None:
            return
        self._selection.ends(call.name)
        if event["status"] != "ok":
            return
        call.output = event.get("tree")
        needs = (place.requires_grad for _, place in tensors_in(call.output))
        self.expects_backward = self.expects_backward or any(needs)
        call.outputs = {slot: one["value"] for slot, one in event["out"] if "value" in one}
        if call.kind == "module":
            call.parameters = dict(self._owned[call.path])
        if call.kind == "debug":
            self._save(call)
            return
        self._construct[call.name] = call
        if call.kind == "module":
            for slot, number in call.outputs.items():
                self._made_by[number].append((call, slot))
        if call.is_written and self._sought.overflows:
            self._check(call)
        elif call.is_written and "forward" in self._sought.wanted.directions:
            self._list(call)
        if self._sought.facts.stores and not self._stores_all and call.parent is None:
            self._tensors.drop_unnamed()
            self._forget()

    def _list(self, call: _OpenCall) -> None:
        """Give a call its entry."""
        if self._stores(call):
            self._store(call.name, "output", _listed(call.output), call.outputs)
            self._store_parameters(call)
        self._data[call.name] = lambda: self._forward_entry(call)
        if call.kind == "module" and not self._sought.facts.generation.counts_gradients:
            self._announce_gradients(call)

    def _store_parameters(self, call: _OpenCall) -> None:
        for leaf, (number, _) in call.parameters.items():
            self._tensors.store(number, _joined(call.name, "parameters", leaf))

    def _forward_entry(self, call: _OpenCall) -> dict[str, Any]:
        sections, is_stored = self._sought.wanted.sections, self._is_stored(call)
        made: dict[str, Any] = {}
        if "input" in sections:
            made["input_args"] = self._written(
                call.name, "input", call.args, call.inputs, is_stored
            )
            keywords = self._written(call.name, "kwargs", call.keywords, call.inputs, is_stored)
            made["input_kwargs"] = keywords
        says = self._sought.facts.generation.says_recompute and self._sought.facts.is_torch
        if says and call.kind == "api":
            made["is_recompute"] = False
        if "output" in sections:
            listed = _listed(call.output)
            made["output"] = self._written(call.name, "output", listed, call.outputs, is_stored)
        if call.kind == "module" and "input" in sections:
            made["parameters"] = {
                leaf: self._leaf(number, needs, call.name, f"parameters.{leaf}", is_stored)
                for leaf, (number, needs) in call.parameters.items()
            }
        if says and call.kind == "module":
            made["is_recompute"] = False
        return made

    def _is_stored(self, call: _OpenCall) -> bool:
        return bool(self._sought.overflows) or self._stores(call)

    def _written(
        self, entry: str, section: str, tree: Any, numbers: _Numbers, is_stored: bool
    ) -> Any:
        """A tree with the records of its tensors."""

        def change(place: str, tensor: Tensor) -> Any:
            number = numbers.get(tensor.slot)
            below = _joined(section, place)
            return self._leaf(number, tensor.requires_grad, entry, below, is_stored)

        return mapped(tree, change)

    def _leaf(
        self, number: int | None, needs: bool | None, entry: str, below: str, is_stored: bool
    ) -> Any:
        file = self._tensors.file_of(number, _joined(entry, below)) if is_stored else ""
        return self._tensors.leaf(number, needs, file)

    # Backward

    def _take_node(self, event: Event) -> None:
        """Gradients of a call of an operator: the order of the graph, or that of arguments."""
        call = self._calls.get(event["node_gradient"])
        self.has_backward = True
        if call is None:
            return
        self._flush_pending(call)
        arrived, given = event["arrived"], event["given"]
        if not self._sought.facts.is_torch:
            arrived, given = _as_mindspore(call, arrived, given)
        sections = {"input": _numbers_of(arrived), "output": _numbers_of(given)}
        self._construct[call.backward] = call
        if self._sought.overflows:
            self._check_backward(call, sections)
        elif self._is_asked_backward(call):
            self._list_backward(call, sections)

    def _is_asked_backward(self, call: _OpenCall) -> bool:
        is_named = self._selection.backward(call.backward, call.name)
        return call.is_wanted and is_named and "backward" in self._sought.wanted.directions

    def _list_backward(self, call: _OpenCall, sections: Mapping[str, list[int | None]]) -> None:
        name, is_stored = call.backward, self._is_stored(call)
        kept = {key: each for key, each in sections.items() if key in self._sought.wanted.sections}
        if is_stored:
            for section, numbers in kept.items():
                for place, number in enumerate(numbers):
                    if number is not None:
                        self._tensors.store(number, _joined(name, section, str(place)))

        def entry() -> dict[str, Any]:
            return {
                section: [
                    self._leaf(number, False, name, f"{section}.{place}", is_stored)
                    for place, number in enumerate(numbers)
                ]
                for section, numbers in kept.items()
            }

        self._data[name] = entry

    def _take_gradient(self, event: Event) -> None:
        """The whole gradient of a result of modules or of a save point."""
        self.has_backward = True
        # The result of a module may be that of one inside it, which comes after it.
        for call, slot in reversed(self._made_by.get(event["gradient_of"], ())):
            if call.kind == "debug":
                self._take_saved_gradient(call, slot, event["value"])
                continue
            call.arrived[slot] = event["value"]
            self._flush_pending(call)
            self._note_backward(call)
            if not call.waits:
                self._flush(call)
            self._store_part(call, "input", self._arrived_places(call), slot, event["value"])

    def _take_own(self, event: Event) -> None:
        """What a call of a module adds to the gradient of an argument."""
        call = self._calls.get(event["own_gradient"])
        if call is not None and "." not in event["slot"] and event["slot"].isdecimal():
            call.given[event["slot"]] = event["value"]
            self._note_backward(call)
            self._store_part(
                call, "output", self._given_places(call), event["slot"], event["value"]
            )

    def _store_part(self, call: _OpenCall, section: str, tree: Any, slot: str, number: int) -> None:
        if self._is_asked_backward(call) and self._stores(call):
            self._store(call.backward, section, tree, {slot: number})

    def _note_backward(self, call: _OpenCall) -> None:
        if call.backward not in self._construct:
            self._construct[call.backward] = call
            self._pending.append(call)

    def _flush_pending(self, call: _OpenCall | None) -> None:
        """Give their entries to modules that are left behind: the call now is not inside them."""
        for one in [p for p in reversed(self._pending) if call is None or not call.within(p)]:
            self._flush(one)

    def _flush(self, call: _OpenCall) -> None:
        if call not in self._pending:
            return
        self._pending.remove(call)
        if self._sought.overflows:
            sections: dict[str, list[int | None]] = {
                "input": [*call.arrived.values()],
                "output": [*call.given.values()],
            }
            if self._may_overflow(sections["output"]):
                self._list_backward(call, sections)
        elif self._is_asked_backward(call):
            self._data[call.backward] = lambda: self._module_backward_entry(call)

    def _module_backward_entry(self, call: _OpenCall) -> dict[str, Any]:
        name, is_stored = call.backward, self._is_stored(call)
        made: dict[str, Any] = {}
        if "input" in self._sought.wanted.sections:
            places = self._arrived_places(call)
            made["input"] = self._written(name, "input", places, call.arrived, is_stored)
        if "output" in self._sought.wanted.sections:
            given = self._written(name, "output", self._given_places(call), call.given, is_stored)
            made["output"] = [] if self._leaves_out_given(call) else given
        return made

    def _arrived_places(self, call: _OpenCall) -> Any:
        """Places of what a module's results get; those of torch are tensors alone, however nested.

        A table keeps its keys.
        """
        if self._sought.facts.is_torch and not isinstance(call.output, Mapping):
            tensors = tensors_in(_listed(call.output))
            return [Tensor(tensor.slot, False) for _, tensor in tensors]
        return _of_gradients(_listed(call.output))

    def _given_places(self, call: _OpenCall) -> list[Any]:
        """Places of what a call gives its arguments; those of MindSpore are tensors alone."""
        is_torch = self._sought.facts.is_torch
        tensors = [part for part in call.args if is_torch or isinstance(part, Tensor)]
        return [Tensor(p.slot, False) if isinstance(p, Tensor) else None for p in tensors]

    def _leaves_out_given(self, call: _OpenCall) -> bool:
        """Whether no gradient of an argument is listed, not even that there is none."""
        return self._sought.facts.generation.empty_without_input_gradient and not call.waits

    # Gradients of parameters

    def _announce_gradients(self, call: _OpenCall) -> None:
        """List the gradients of a layer's parameters behind its first call, before they come."""
        name = self._gradient_name(call.path, call.parts.layer, 0)
        leaves = [leaf for leaf, (_, needs) in call.parameters.items() if needs]
        if name not in self._gradients and leaves:
            self._gradients[name] = {}
            self._data[name] = lambda: self._gradient_entry(name, leaves)

    def _is_gradient_asked(self, name: str, call: _OpenCall) -> bool:
        is_named = self._selection.gradients(name, call.backward, call.name)
        return call.is_wanted and is_named and "backward" in self._sought.wanted.directions

    def _gradient_name(self, path: str, layer: str, turn: int) -> str:
        count = turn if self._sought.facts.generation.counts_gradients else None
        word = self._sought.module_word
        return format_msprobe_call(MsprobeCall(word, path, layer, "parameters_grad", count))

    def _take_parameter_gradient(self, event: Event) -> None:
        self.has_backward = True
        path, leaf = event["layer_path"], event["leaf"]
        if self._sought.level == "L1" or path in self._roots:
            return
        for one in [p for p in reversed(self._pending) if not _is_below(path, p.path)]:
            self._flush(one)
        name = self._gradient_name(path, str(event.get("layer", "")), event.get("pass", 0))
        if not any(self._is_gradient_asked(name, call) for call in self._calls_of[path]):
            return
        if self._sought.overflows and not self._may_overflow([event["value"]]):
            return
        if name not in self._gradients:
            self._gradients[name] = {}
            self._data[name] = lambda: self._gradient_entry(name, [])
        elif self._sought.facts.generation.counts_gradients and not self._sought.facts.is_torch:
            # MindSpore's stand where the last of them came.
            self._data[name] = self._data.pop(name)
        stores = self._stores_all or self._sought.overflows or self._sought.wanted.stores(name)
        file = self._tensors.store(event["value"], f"{name}.{leaf}") if stores else ""
        self._gradients[name][leaf] = event["value"], file

    def _gradient_entry(self, name: str, leaves: Sequence[str]) -> dict[str, Any]:
        found = self._gradients[name]
        made: dict[str, Any] = {}
        for leaf in dict.fromkeys((*leaves, *found)):
            number, file = found.get(leaf, (None, ""))
            made[leaf] = [self._tensors.leaf(number, False, file)]
        return made

    # Save points

    def _save(self, call: _OpenCall) -> None:
        """Give a save point its entries: the value, and the gradient that may come."""
        parts = call.parts
        while call.name in self._saved:  # by the gradient of another name
            call.parts = replace(parts, call=(call.parts.call or 0) + 1)
            del call.name
        if self._stores(call):
            self._store(call.name, "", call.output, call.outputs)
        is_stored = self._is_stored(call)
        self._saved[call.name] = lambda: self._written(
            call.name, "", call.output, call.outputs, is_stored
        )
        if not call.with_gradient:
            return
        for slot, number in call.outputs.items():
            self._made_by[number].append((call, slot))
        count = call.parts.call or 0
        while (gradient := f"{parts.path}_grad.{count}.debug") in self._saved:
            count += 1
        call.gradient = gradient
        self._saved[gradient] = lambda: self._written(
            gradient, "", _of_gradients(call.output), call.arrived, is_stored
        )

    def _take_saved_gradient(self, call: _OpenCall, slot: str, number: int) -> None:
        call.arrived[slot] = number
        if self._stores(call):
            self._store(call.gradient, "", call.output, {slot: number})

    # Overflow

    def _may_overflow(self, numbers: Sequence[int | None]) -> bool:
        if 0 < self._sought.overflows <= self._overflows:
            return False
        hit = any(not self._tensors.is_finite(number) for number in numbers if number is not None)
        self._overflows += hit
        return hit

    def _check(self, call: _OpenCall) -> None:
        """Write a call if what it gives is not finite."""
        if not self._may_overflow([*call.outputs.values()]):
            return
        self._store(call.name, "input", call.args, call.inputs)
        self._store(call.name, "kwargs", call.keywords, call.inputs)
        self._store(call.name, "output", _listed(call.output), call.outputs)
        self._store_parameters(call)
        self._data[call.name] = lambda: self._forward_entry(call)

    def _check_backward(self, call: _OpenCall, sections: Mapping[str, list[int | None]]) -> None:
        if self._may_overflow(sections["output"]):
            self._list_backward(call, sections)

    # Writing

    def write(self) -> None:
        """Write the json files of the step.

        Raises
        ------
        WriteError
            If they cannot be written.
        """
        self._flush_pending(None)
        self._tensors.drop_unnamed()
        try:
            self._tensors.clear()
            dump, debug = DOCUMENTS
            own = [debug] if self._sought.level == "debug" else [dump, STACK, CONSTRUCT]
            for name in own:  # of an earlier run
                (self.folder / name).unlink(missing_ok=True)
            self.folder.mkdir(parents=True, exist_ok=True)
            self._write_files()
            self._tensors.drop_unsaid()
        except OSError as error:
            raise WriteError(
                Message("debugger.not_written", file=str(self.folder), why=error)
            ) from error

    def _write_files(self) -> None:
        has_files = (
            self._sought.facts.stores or self._sought.overflows or self._sought.wanted.stored
        )
        head = {
            "task": self._sought.task,
            "level": self._sought.level,
            "framework": self._sought.facts.framework,
            "dump_data_dir": os.path.abspath(self.folder / FOLDER) if has_files else None,
        }
        dump, debug = DOCUMENTS
        if self._saved:
            data = {name: entry() for name, entry in self._saved.items()}
            self._write_json(debug, {**head, "level": "debug", "data": data})
        if self._sought.level == "debug":
            return
        is_structure = self._sought.task == "structure"
        data = {} if is_structure else {name: entry() for name, entry in self._data.items()}
        self._write_json(dump, {**head, "data": data})
        if self._sought.extra_info:
            self._write_json(STACK, self._stack_table())
            self._write_json(CONSTRUCT, self._construct_table())

    def _stack_table(self) -> dict[str, Any]:
        listed = self._construct if self._sought.task == "structure" else self._data
        stacks = {name: text for name, text in self._stack_of.items() if name in listed}
        if self._sought.facts.generation.shares_stacks:
            return shared_stacks(stacks)
        return {name: frames_of(text) for name, text in stacks.items()}

    def _construct_table(self) -> dict[str, str | None]:
        if self._sought.level == "L1":
            return {}
        made: dict[str, str | None] = {}
        for name, call in self._construct.items():
            if call.kind == "module" or self._sought.level != "L0":
                made[name] = self._parent_of(name, call)
        return made

    def _parent_of(self, name: str, call: _OpenCall) -> str | None:
        """The call that one runs in, forward or backward."""
        parent = call.parent
        while parent is not None and parent.kind != "module":
            parent = parent.parent
        if parent is None:
            return None
        if name == call.name:
            return parent.name
        return parent.backward if parent.backward in self._construct else None

    def _write_json(self, file: str, content: Any) -> None:
        text = indented(content)
        (self.folder / file).write_bytes(text.encode(errors="backslashreplace"))


def _joined(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def _is_below(path: str, above: str) -> bool:
    return path == above or path.startswith(f"{above}.")


def _listed(output: Any) -> list[Any]:
    """A result as a list of its parts."""
    return output if isinstance(output, list) else [output]


def _of_gradients(tree: Any) -> Any:
    """A tree of gradients: they need none themselves, and what is no tensor has none."""
    if isinstance(tree, Tensor):
        return Tensor(tree.slot, False)
    if isinstance(tree, list):
        return [_of_gradients(part) for part in tree]
    if isinstance(tree, Mapping) and not isinstance(tree, Plain):
        return {key: _of_gradients(part) for key, part in tree.items()}
    return None


def _numbers_of(slotted: Sequence[Sequence[Any]]) -> list[int | None]:
    return [None if said is None else said["value"] for _, said in slotted]


def _as_mindspore(
    call: _OpenCall, arrived: Sequence[Sequence[Any]], given: Sequence[Sequence[Any]]
) -> tuple[list[Any], list[Any]]:
    """Gradients of a call as MindSpore's hooks list them.

    Those of primitives come from the last argument to the first, without those that are none; of
    all others by the places of arguments.
    """
    of_results, of_arguments = (dict(map(tuple, each)) for each in (arrived, given))
    results = [*_by_place(_listed(call.output), of_results)]
    arguments = [*_by_place(call.args, of_arguments)]
    if call.path.startswith(_PRIMITIVE):
        results = [one for one in reversed(results) if one[1] is not None]
        arguments = [one for one in reversed(arguments) if one[1] is not None]
    return results, arguments


def _by_place(tree: Sequence[Any], said: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    tensors = [part for part in tree if isinstance(part, Tensor)]
    for number, part in enumerate(tensors):
        yield str(number), said.get(part.slot)
