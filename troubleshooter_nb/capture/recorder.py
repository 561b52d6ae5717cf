"""Turns what a framework's hooks tell into the events of a recording."""

from __future__ import annotations

import inspect
import itertools
import json
import math
import threading
import weakref
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from types import FrameType, MappingProxyType
from typing import Any

from troubleshooter_nb.capture.leaves import leaves_of, leaves_of_output
from troubleshooter_nb.capture.nesting import nesting_of
from troubleshooter_nb.capture.plan import Event, Plan, Sink
from troubleshooter_nb.capture.stacks import Stacks
from troubleshooter_nb.capture.values import Values
from troubleshooter_nb.formats.record_layout import LONGEST_TEXT
from troubleshooter_nb.frameworks.recording import (
    ApiCall,
    Handle,
    Owned,
    Recording,
    SeenLayer,
    Slotted,
)
from troubleshooter_nb.naming import Role, Site


@dataclass(slots=True, eq=False)
class _BegunCall:
    """A call that began."""

    number: int
    path: str
    kind: str
    site: Site
    is_recorded: bool
    frame: FrameType | None = None
    recomputes: _BegunCall | None = None
    is_recompute: bool = False
    segment: int = 0  # that is checkpointed, from 1
    run: int = -1  # the backward pass that computes it again
    writes: bool = False  # into its arguments, unseen
    origins: list[tuple[str, Any]] = field(default_factory=list)
    inputs: list[tuple[str, int]] = field(default_factory=list)
    outputs: list[tuple[str, int]] = field(default_factory=list)


@dataclass(slots=True)
class _Watched:
    """A value whose gradient is waited for."""

    tensor: Any  # a weak reference
    version: int | None
    is_view: bool
    where: str
    run: int  # of a cell


class Recorder:
    """Records what runs between `install` and `remove`.

    Parameters
    ----------
    adapter : Recording
    networks : mapping of str to object
        By the name in front of their paths, "" for none. May be empty.
    plan : Plan
    sink : Sink
    """

    def __init__(
        self, adapter: Recording, networks: Mapping[str, Any], plan: Plan, sink: Sink
    ) -> None:
        self.adapter, self.networks, self.plan, self.sink = adapter, networks, plan, sink
        self.step = 0
        self.run = 0
        self.is_paused = False
        self._is_gone = self._has_given_up = False
        self.missing: Counter[tuple[str, str]] = Counter()
        self.calls_of_steps: Counter[int] = Counter()
        self._lock = threading.RLock()
        self._numbers = itertools.count()
        self.values = Values(
            adapter, sink, plan.limit, self.miss, borrows=plan.borrows, see=plan.see
        )
        self._threads: dict[int, int] = {}
        self._open: dict[int, list[_BegunCall]] = defaultdict(list)
        self._parameters: dict[int, Owned] = {}
        self._met: set[tuple[int, str]] = set()
        self._trained: set[str] = set()  # paths of layers with trained parameters, and around them
        self._watched: dict[int, _Watched] = {}
        self._hooked: set[int] = set()
        self._passes: dict[Any, list[int]] = defaultdict(list)  # runs in which each came
        self._calls: dict[str, list[_BegunCall]] = defaultdict(list)
        self._recomputed: set[int] = set()
        self._turns: Counter[tuple[int, int, str]] = Counter()
        self._begun_anew: dict[int, int] = {}
        self._hooked_again: set[int] = set()
        self._owned: dict[tuple[str, str], int] = {}
        self._stacks = Stacks()
        self._settings: dict[str, bool] = {}
        self._handles: list[Handle] = []
        self._of_parameters: list[Handle] = []
        self._of_step: list[Handle] = []
        self._contexts = ExitStack()
        self._named: AbstractContextManager[Any] | None = None
        self._called: Counter[str] = Counter()
        self._layers: list[SeenLayer] = []
        self._ever: dict[str, SeenLayer] = {}  # by path, all that were watched at any time
        self._operators: set[str] = set()  # paths of those that were seen
        self._home = threading.get_ident()
        self._kinds: dict[str, str] = {}
        self._may_have_gradients = self._any_gradient = False
        self._visits: Counter[tuple[str, str]] = Counter()
        self._stepping: set[int] = set()  # threads in which an optimizer steps
        self._had_gradients = False
        self._is_after_gradients = False

    # Installing and removing

    @property
    def is_installed(self) -> bool:
        """Whether hooks are registered."""
        return bool(self._handles or self._layers or self._of_parameters)

    def find_layers(self) -> list[SeenLayer]:
        """Layers of all networks that can be watched; notes those that cannot."""
        found: list[SeenLayer] = []
        at: dict[int, int] = {}
        for prefix, network in self.networks.items():
            layers, unseen = self.adapter.layers(network, self.plan.compiled)
            for layer in layers:
                path = _joined(prefix, layer.path)
                known = at.setdefault(id(layer.module), len(found))
                if known < len(found):  # of another network too
                    first = found[known]
                    found[known] = first._replace(aliases=(*first.aliases, path))
                else:
                    aliases = tuple(_joined(prefix, alias) for alias in layer.aliases)
                    found.append(layer._replace(path=path, aliases=aliases))
            for part in unseen:
                place = _joined(prefix, part.path)
                if not self.missing[part.kind, place]:  # once, however often hooks are registered
                    self.miss(part.kind, place)
        self._ever |= {layer.path: layer for layer in found}
        return found

    def install(self) -> None:
        """Register everything; if a part fails, what was registered before is taken away."""
        with ExitStack() as undo, self.adapter.quiet():
            undo.callback(self.remove)
            self._is_gone = False
            self.leave_parameters()  # of a time before
            self._home = threading.get_ident()
            self._layers = self.find_layers()
            if self.plan.compiled == "eager":
                self._contexts.enter_context(self.adapter.eager())
            for layer in self._layers:
                self._install_layer(layer)
            if self.plan.operators:
                self._handles += self.adapter.watch_optimizers(
                    self._enter_optimizer, self._leave_optimizer
                )
                self._contexts.enter_context(self._watch_operators())
            self._contexts.enter_context(
                self.adapter.undisturbed(self._layers, self.plan.operators, self.miss)
            )
            undo.pop_all()

    def _watch_operators(self) -> AbstractContextManager[Any]:
        begin, end = self._begin_operator, self._end_operator
        if not self.plan.operator_names:
            return self.adapter.watch_functions(begin, end)
        if self._named is None:  # to replace a thousand functions takes a while
            names = self.plan.operator_names
            self._named = self.adapter.watch_named(names, self.plan.nested, begin, end)
        return self._named

    def _install_layer(self, layer: SeenLayer) -> None:
        self._kinds[layer.path] = layer.layer
        site = Site("module", layer.path)
        is_wanted = self.plan.names is None or self.plan.names(site)
        if layer.has_forward and (is_wanted or self.plan.operators):
            handles = self.adapter.watch_calls(layer, *self._hooks(layer, is_wanted))
            self._handles += handles
            if not handles:
                self.miss("unhookable", layer.path)
                self._called[layer.path] += 1  # for all that can be known
        for owned in self.adapter.owned(layer):
            self._meet_owned(layer, owned, is_wanted)

    def _meet_owned(self, layer: SeenLayer, owned: Owned, is_wanted: bool) -> None:
        key = id(self.adapter.identity(owned.tensor))
        self._parameters.setdefault(key, owned)
        self._met.add((key, layer.path))
        if owned.role == "parameter" and owned.tensor.requires_grad:
            for path in (layer.path, *layer.aliases):
                self._trained |= _around(path)
        if is_wanted and owned.role == "parameter" and self.plan.gradients:
            self._watch_parameter(layer, owned)

    def stop_calls(self) -> None:
        """See no further calls; those that are open are closed as broken off.

        Gradients of what was seen still arrive, until `remove`.
        """
        try:
            with self._lock:
                for calls in self._open.values():
                    while calls:
                        self._close(calls.pop(), "open")
                self._contexts.close()
        finally:
            for handle in self._handles:
                handle.remove()
            self._handles, self._layers = [], []

    def remove(self) -> None:
        """Take everything away; calls that are open are closed as broken off."""
        try:
            self.stop_calls()
        finally:
            self._is_gone = True
            self.leave_parameters()
            for handle in self._of_step:
                handle.remove()
            self._of_step = []
            self._parameters.clear()
            self._met.clear()

    def leave_parameters(self) -> None:
        """Wait for gradients of parameters no more, until they are hooked again."""
        for handle in self._of_parameters:
            handle.remove()
        self._of_parameters = []

    def leave(self) -> None:
        """Leave the contexts of this thread; hooks stay until `remove`."""
        self._contexts.close()

    def give_up(self) -> None:
        """Record nothing more; what is open, or was not called yet, is not missing."""
        self.is_paused = self._has_given_up = True
        self._had_gradients = False

    def forget_step(self) -> None:
        """Read what is pending, say what is missing, and begin anew with the next step."""
        with self._lock, self.adapter.quiet():
            self.values.drain()
            self._miss_gradients()
        for handle in self._of_step:
            handle.remove()
        self._of_step = []
        self._forget()
        self._stepping.clear()
        self._had_gradients = self._is_after_gradients = False

    def forget_calls(self) -> None:
        """Forget what was seen so far, but let the gradients of it arrive.

        For who records without an end: what is met again is another value.
        """
        with self._lock, self.adapter.quiet():
            self.values.drain()
        self._of_step = []  # they go with the graphs that they belong to
        self._forget()

    def _forget(self) -> None:
        self.values.forget()
        self._watched.clear()
        self._hooked.clear()
        self._passes.clear()
        self._calls.clear()
        self._recomputed.clear()
        self._turns.clear()
        self._begun_anew.clear()
        self._hooked_again.clear()
        self._owned.clear()
        self._visits.clear()

    def follow(self, earlier: Recorder) -> None:
        """Number calls, values and stacks along with another recorder of the same sink."""
        self._numbers, self._stacks = earlier._numbers, earlier._stacks
        self.values.follow(earlier.values)

    @property
    def layers(self) -> list[SeenLayer]:
        """The layers that are watched."""
        return self._layers

    def called_layers(self) -> list[tuple[str, str, int]]:
        """Path, class and number of calls of the layers that were called, in this order."""
        return [(path, self._kinds.get(path, ""), count) for path, count in self._called.items()]

    def begin_run(self, replaced: int | None) -> None:
        """What comes belongs to another run of a cell; what an earlier run gave is void."""
        with self._lock:
            for calls in self._open.values():
                while calls:
                    self._close(calls.pop(), "raised")
            if replaced is not None:
                self._void(replaced)
                self.sink.put({"replaced": replaced})

    def _void(self, run: int) -> None:
        """Forget what a run of a cell gave; what others watch stays watched."""
        with self.adapter.quiet():
            self.values.drain()
        self.values.forget()
        self._owned.clear()
        for runs in self._passes.values():
            runs[:] = [each for each in runs if each != run]
        self._watched = {n: w for n, w in self._watched.items() if w.run != run}

    def miss(self, kind: str, where: str) -> None:
        """Note what could not be recorded."""
        self.missing[kind, where] += 1

    def drain(self) -> None:
        """Read the statistics that were begun."""
        with self._lock, self.adapter.quiet():
            self.values.drain()

    def never_called(self) -> None:
        """Note the layers that were not called in the whole recording."""
        if self._has_given_up:
            return
        layers = self._ever.values()
        called = self._called.keys() | {alias for layer in layers for alias in layer.aliases}
        for layer in layers:
            is_wanted = self.plan.names is None or self.plan.names(Site("module", layer.path))
            if layer.has_forward and is_wanted and layer.path not in called:
                self.miss("not_called", layer.path)
        if not self.calls_of_steps:
            self.miss("no_calls", "")
        elif self._may_have_gradients and not self._any_gradient:
            self.miss("no_backward", "")
        if self.plan.names is not None:
            for text in self.plan.names.unmatched(self._ever.keys() | self._operators):
                self.miss("names_unmatched", text)

    # Calls of modules

    def _hooks(self, layer: SeenLayer, is_wanted: bool) -> tuple[Any, Any]:
        path, module, keeps = layer.path, layer.module, is_wanted and self.plan.modules
        site = Site("module", path)

        def before(
            args: tuple[Any, ...], keywords: Mapping[str, Any], frame: FrameType | None
        ) -> None:
            if self.is_paused:
                return
            state = self.adapter.state()
            with self._lock, self.adapter.quiet():
                stack = self._stack(frame)
                if not stack:
                    self._stepping.discard(threading.get_ident())
                call = _BegunCall(self._next(), path, "module", site, keeps, frame)
                self._note_recompute(call, stack)
                self._number_visit(call)
                self._called[path] += not call.is_recompute
                if self.plan.operators and threading.get_ident() != self._home:
                    self.miss("other_thread", path)
                self._put_settings(layer)
                facts = {"layer": layer.layer, "training": bool(getattr(module, "training", False))}
                self._put_call(self._begin(call, stack, facts, state, args, keywords))
                if not call.is_recompute:
                    self._read_owned(layer, call, is_wanted)
                stack.append(call)

        def after(
            args: tuple[Any, ...], keywords: Mapping[str, Any], output: Any, raised: bool
        ) -> None:
            with self._lock, self.adapter.quiet():
                stack = self._open[threading.get_ident()]
                if not any(call.path == path for call in stack):
                    return  # it began before the recording did
                while (call := stack.pop()).path != path or call.kind != "module":
                    self._close(call, "raised")
                if raised:
                    self._close(call, "raised")
                elif inspect.isgenerator(output) or inspect.isasyncgen(output):
                    self.miss("generator", path)
                    self._close(call, "generator")
                else:
                    self._end(call, leaves_of_output(output, self.adapter.is_tensor), output)

        return before, after

    def _number_visit(self, call: _BegunCall) -> None:
        """Say in the site which visit of its place a call is, where a function asks for it."""
        if callable(self.plan.keep) and not call.is_recompute:
            place = call.kind, call.path
            call.site = replace(call.site, call=self._visits[place])
            self._visits[place] += 1

    def _stack(self, frame: FrameType | None) -> list[_BegunCall]:
        """The open calls of this thread, without those that an exception left open."""
        stack = self._open[threading.get_ident()]
        while stack and stack[-1].frame is not None and not _runs(stack[-1].frame, frame):
            self._close(stack.pop(), "raised")
        return stack

    def _begin(
        self,
        call: _BegunCall,
        stack: list[_BegunCall],
        facts: Mapping[str, Any],
        state: tuple[bool, str],
        args: tuple[Any, ...],
        keywords: Mapping[str, Any],
    ) -> Event:
        """Read what a call is given; the event that it begins."""
        with_gradients, autocast = state
        if with_gradients and self.plan.gradients and call.path in self._trained:
            self._may_have_gradients = True
        event: Event = {
            "call": call.number,
            "kind": call.kind,
            "path": call.path,
            **facts,
            "step": self.step,
            "run": self.run,
            "thread": self._thread(),
            "parent": next((c.number for c in reversed(stack) if not c.is_recompute), None),
            "grad": with_gradients,
            "autocast": autocast,
        }
        if call.is_recompute:
            if call.recomputes is not None and with_gradients and self._has_own_parts:
                self._note_origins(call, leaves_of(args, keywords, self.adapter.is_tensor))
            return {**event, "recompute": True, "args": []}
        event["args"] = []
        if self.plan.trees is not None:
            event["tree"] = self.plan.trees.of_arguments(args, keywords)
        if call.is_recorded:
            number, text = self._stacks.number(call.frame)
            if text is not None:
                self.sink.put({"stack": number, "text": text})
            event["stack"] = number
            if keywords:
                event["keywords"] = [*keywords]
            leaves = leaves_of(args, keywords, self.adapter.is_tensor)
            if self.plan.inputs:
                event["args"] = self._read(leaves, call, "input")
                call.inputs = [
                    (slot, said["value"]) for slot, said in event["args"] if "value" in said
                ]
            if with_gradients and self._has_origins(call):
                self._note_origins(call, leaves)
            if self.plan.replayable:
                event["random"] = self.values.random_state()
                event["nesting"] = nesting_of(args, keywords, self.adapter.is_tensor)
        return event

    def _put_call(self, event: Event) -> None:
        if not event.get("recompute", False):
            self.calls_of_steps[self.step] += 1
        self.sink.put(event)

    @property
    def _has_own_parts(self) -> bool:
        """Whether to record what each call of a module adds to the gradients of its inputs."""
        if self.plan.own_parts is None and not self.adapter.GIVES_OWN_PARTS:
            return False
        return self.plan.has_own_parts

    def _has_origins(self, call: _BegunCall) -> bool:
        """Whether it has to be known what a call's arguments were made by."""
        return self._has_own_parts if call.kind == "module" else self.plan.node_gradients

    def _note_origins(self, call: _BegunCall, leaves: list[tuple[str, Any]]) -> None:
        for slot, leaf in leaves:
            if self.adapter.is_tensor(leaf):
                made = self.adapter.origin(leaf)
                if made is not None:
                    call.origins.append((slot, made))

    def _end(self, call: _BegunCall, leaves: list[tuple[str, Any]], output: Any) -> None:
        """Read what a call gives and write that it ended."""
        original = call.recomputes if call.is_recompute else call
        if original is None or not original.is_recorded:
            leaves = []
        if call.is_recompute:
            self._watch_again(call, leaves)
        said: list[Any] = []
        if call is original and self.plan.outputs:
            said = self._read(leaves, call, "output")
            call.outputs = [(slot, s["value"]) for slot, s in said if "value" in s]
        if original is not None and call.origins and call.kind == "module":
            self._watch_own_parts(call, original, leaves)
        trees = self.plan.trees
        tree = {} if trees is None else {"tree": trees.of_result(output)}
        self._close(call, "ok", said, tree)

    def _close(
        self,
        call: _BegunCall,
        status: str,
        out: list[Any] | None = None,
        more: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        call.frame = None
        if call.kind == "module":
            call.origins = []
        if status in ("raised", "open") and not (call.is_recompute or self._has_given_up):
            self.miss(status, call.path)
        if not call.is_recompute:
            self._calls[call.path].append(call)
        if status != "open":
            self.sink.put({"ended": call.number, "status": status, "out": out or [], **more})

    def _note_recompute(self, call: _BegunCall, stack: list[_BegunCall]) -> None:
        """Find the call that this one computes again for a backward pass."""
        found = self.adapter.segment(call.frame, stack[-1].frame if stack else None)
        call.segment = found[0] if found else stack[-1].segment if stack else 0
        if stack:
            call.is_recompute = stack[-1].is_recompute
        else:
            is_root = call.path in self.networks
            again = not is_root and self._is_after_gradients and bool(self._calls[call.path])
            call.is_recompute = self.adapter.is_recomputing(again)
            if is_root and not call.is_recompute:
                self._is_after_gradients = False
        if call.is_recompute:
            call.run = found[1] if found else stack[-1].run if stack else -1
            call.recomputes = self._first_of(call)

    def _first_of(self, call: _BegunCall) -> _BegunCall | None:
        """The call that one computes again."""
        earlier = self._calls[call.path]
        if call.segment:
            # Within a segment they come in the order in which they came first.
            segment = self._first_segment(call, earlier)
            same = [each for each in earlier if each.segment == segment]
            key = call.run, call.segment, call.path
            turn = self._turns[key]
            self._turns[key] += 1
            return same[turn] if turn < len(same) else None
        # Where nothing tells of segments: they are computed again from the last to the first.
        left = [each for each in earlier if each.number not in self._recomputed]
        if not left:
            return None
        self._recomputed.add(left[-1].number)
        return left[-1]

    def _first_segment(self, call: _BegunCall, earlier: list[_BegunCall]) -> int:
        """The segment as it ran first: one inside another is begun anew with the outer one."""
        known = {each.segment for each in earlier}
        if call.segment in known or call.segment in self._begun_anew:
            return self._begun_anew.get(call.segment, call.segment)
        inner = known - {0}
        if len(inner) != 1:
            if inner:
                self.miss("recomputed_ambiguous", call.path)
            return -1
        return self._begun_anew.setdefault(call.segment, inner.pop())

    # Operators

    def _enter_optimizer(self) -> None:
        self._stepping.add(threading.get_ident())

    def _leave_optimizer(self) -> None:
        self._stepping.discard(threading.get_ident())

    def _begin_operator(
        self, name: ApiCall, args: tuple[Any, ...], keywords: Mapping[str, Any]
    ) -> Any:
        # Of a step that is given a closure, what the network does in it is recorded.
        thread = threading.get_ident()
        if self.is_paused or (thread in self._stepping and not self._open[thread]):
            return None
        state = self.adapter.state()
        with self._lock, self.adapter.quiet():
            stack = self._open[threading.get_ident()]
            if stack and stack[-1].is_recompute:
                return None
            if not stack and self.adapter.is_recomputing(self._is_after_gradients):
                return None
            site = Site("api", name.path)
            names = self.plan.names
            self._operators.add(name.path)
            if names is not None and not names.operator(site, (call.site for call in stack)):
                return None
            call = _BegunCall(self._next(), name.path, "api", site, True, inspect.currentframe())
            self._number_visit(call)
            call.writes = name.writes
            facts = {"layer": name.layer}
            return call, self._begin(call, stack, facts, state, args, keywords)

    def _end_operator(self, token: Any, output: Any, raised: bool) -> bool:
        """Whether the operator gave a tensor, so that it is worth seeing again."""
        call, event = token
        with self._lock, self.adapter.quiet():
            leaves = [] if raised else leaves_of_output(output, self.adapter.is_tensor)
            gives_tensor = any(self.adapter.is_tensor(leaf) for _, leaf in leaves)
            if not (raised or gives_tensor or self.plan.keeps_all):
                return False
            if call.writes:
                self.values.forget_tensors(leaf for _, leaf in leaves)
            # Written now: a call that gives no tensor is none.
            self._put_call(event)
            if raised:
                self._close(call, "raised")
            else:
                self._end(call, leaves, output)
                if self.plan.node_gradients and event["grad"]:
                    self._watch_node(call, leaves)
                    call.origins = []
            return True

    # Values

    def mark(self, name: str, value: Any) -> None:
        """Record a value by a name of the user's own."""
        state = self.adapter.state()
        with self._lock, self.adapter.quiet():
            stack = self._open[threading.get_ident()]
            site = Site("debug", name)
            call = _BegunCall(self._next(), name, "debug", site, True, inspect.currentframe())
            self._put_call(self._begin(call, stack, {"layer": ""}, state, (), {}))
            self._end(call, leaves_of_output(value, self.adapter.is_tensor), value)

    def _where(self, site: Site, slot: str) -> str:
        """A slot of a call, or of a layer, as what is missing names it."""
        return f"{site.path or self._kinds.get(site.path, '')}.{slot}"

    def _read(self, leaves: list[tuple[str, Any]], call: _BegunCall, role: Role) -> list[list[Any]]:
        """Slots with the numbers of their values, or what is plain."""
        said: list[list[Any]] = []
        for slot, leaf in leaves:
            if self.adapter.is_tensor(leaf):
                number = self._value(leaf, call, role, slot)
                if number is not None:
                    said.append([slot, {"value": number}])
            elif role == "input":
                said.append([slot, _plain(leaf)])
        return said

    def _value(self, tensor: Any, call: _BegunCall, role: Role, slot: str) -> int | None:
        """Number of the value a tensor holds now, which is kept when it is met first."""
        keep = self.plan.kept(call.site, role, slot)
        if keep is None:
            return None
        owned = self._parameters.get(id(self.adapter.identity(tensor)))
        own_role = owned.role if owned else ""
        number = self.values.number(tensor, keep, self._where(call.site, slot), role, own_role)
        if number not in self._hooked and self.plan.waits_for_gradient(call.kind, role):
            self._watch(tensor, number, call.site, slot)
        return number

    # Gradients

    def _watch(self, tensor: Any, number: int, site: Site, slot: str) -> None:
        """Wait for the gradient of a value; of parameters others do."""
        self._hooked.add(number)
        if id(self.adapter.identity(tensor)) in self._parameters:
            return

        def receive(gradient: Any) -> None:
            self._watched.pop(number, None)
            self._receive(gradient, site, slot, {"gradient_of": number}, number)

        handle = self.adapter.watch_gradient(tensor, receive)
        if handle is None:
            self._hooked.discard(number)  # it may come to need one when it is computed again
            return
        self._of_step.append(handle)
        view = self.adapter.is_view(tensor)
        version = self.adapter.version(tensor)
        place = self._where(site, slot)
        watched = _Watched(weakref.ref(tensor), version, view, place, self.run)
        self._watched[number] = watched

    def _watch_again(self, call: _BegunCall, leaves: list[tuple[str, Any]]) -> None:
        """Wait for the gradients of what a backward pass computes again, if nobody does yet."""
        original = call.recomputes
        if original is None or not self.plan.gradients:
            return
        numbers = dict(original.outputs)
        for slot, leaf in leaves:
            number = numbers.get(slot)
            if number is None or not self.adapter.is_tensor(leaf):
                continue
            # Each time it is computed again it is in a new graph.
            if number not in self._hooked or number in self._hooked_again:
                self._hooked_again.add(number)
                self._watch(leaf, number, original.site, slot)

    def _watch_own_parts(
        self, call: _BegunCall, original: _BegunCall, leaves: list[tuple[str, Any]]
    ) -> None:
        outputs = [leaf for _, leaf in leaves if self.adapter.is_tensor(leaf)]
        number, site = original.number, original.site

        def receive(slot: str, gradient: Any) -> None:
            said = {"own_gradient": number, "slot": slot}
            self._receive(gradient, site, slot, said, (number, slot))

        handles = self.adapter.watch_own_parts(call.origins, outputs, receive)
        if handles is None:
            self.miss("graph_too_large", site.path)
        self._of_step += handles or []

    def _watch_node(self, call: _BegunCall, leaves: list[tuple[str, Any]]) -> None:
        """Wait for what the graph gets and gives where the results of an operator were made."""

        def receive(given: Slotted, arrived: Slotted) -> None:
            self._receive_node(call, given, arrived)

        outputs = [(slot, leaf) for slot, leaf in leaves if self.adapter.is_tensor(leaf)]
        handle = self.adapter.watch_node(call.origins, outputs, receive) if outputs else None
        if handle is not None:
            self._of_step.append(handle)

    def _receive_node(self, call: _BegunCall, given: Slotted, arrived: Slotted) -> None:
        if self.is_paused or self._is_gone:
            return
        with self._lock, self.adapter.quiet():
            self._had_gradients = self._is_after_gradients = self._any_gradient = True
            key = "node", call.number
            turn = {"pass": len(self._passes[key]), "step": self.step, "run": self.run}
            self._passes[key].append(self.run)
            said = {
                "arrived": self._read_gradients(call, arrived, "input"),
                "given": self._read_gradients(call, given, "output"),
            }
            self.sink.put({"node_gradient": call.number, "path": call.path, **said, **turn})

    def _read_gradients(
        self, call: _BegunCall, gradients: Slotted, section: str
    ) -> list[list[Any]]:
        """Slots with the numbers of their values, or None where there is no gradient."""
        said: list[list[Any]] = []
        for slot, gradient in gradients:
            keep = self.plan.kept(call.site, "gradient", slot, between=True)
            if gradient is None or keep is None:
                said.append([slot, None])
                continue
            place = self._where(call.site, f"{section}.{slot}")
            said.append([slot, {"value": self.values.number(gradient, keep, place, "gradient")}])
        return said

    def _watch_parameter(self, layer: SeenLayer, owned: Owned) -> None:
        said = {"gradient_of_parameter": owned.name, "layer_path": layer.path, "leaf": owned.leaf}
        site = Site("module", layer.path)

        def receive(gradient: Any) -> None:
            facts = {**said, "layer": layer.layer}
            self._receive(gradient, site, owned.leaf, facts, owned.name)

        plain, whole = self.adapter.watch_gradient, self.adapter.watch_accumulated
        handle = (whole if self.plan.accumulated else plain)(owned.tensor, receive)
        if handle is not None:
            self._of_parameters.append(handle)

    def _receive(
        self, gradient: Any, site: Site, slot: str, said: Mapping[str, Any], key: Any
    ) -> None:
        """Keep a gradient that arrived."""
        if gradient is None or self.is_paused or self._is_gone:
            return
        with self._lock, self.adapter.quiet():
            self._had_gradients = self._is_after_gradients = self._any_gradient = True
            between = "gradient_of_parameter" not in said
            keep = self.plan.kept(site, "gradient", slot, between)
            if keep is None:
                return
            turn = {"pass": len(self._passes[key]), "step": self.step, "run": self.run}
            self._passes[key].append(self.run)
            place = self._where(site, slot)
            self.values.number(gradient, keep, place, "gradient", said={**said, **turn})

    def _miss_gradients(self) -> None:
        """Note the values whose gradient did not arrive although others did."""
        if not self._had_gradients:
            return
        owed = self._owed()
        for number, watched in self._watched.items():
            if number not in owed:
                continue
            tensor = watched.tensor()
            is_written = (
                watched.is_view
                and tensor is not None
                and self.adapter.version(tensor) != watched.version
            )
            kind = "gradient_lost_in_place" if is_written else "gradient_not_arrived"
            self.miss(kind, watched.where)

    def _owed(self) -> set[int]:
        """Values that need a gradient for sure.

        Where the framework does not tell, these are what layers with trained parameters made.
        """
        if self.adapter.KNOWS_WHAT_NEEDS_GRADIENTS:
            return set(self._watched)
        calls = [call for calls in self._calls.values() for call in calls if call.kind == "module"]
        return {
            number
            for call in calls
            if call.path in self._trained
            for number in {n for _, n in call.outputs} - {n for _, n in call.inputs}
        }

    # What belongs to a layer

    def _read_owned(self, layer: SeenLayer, call: _BegunCall, is_wanted: bool) -> None:
        """Read a layer's parameters and buffers as they are before the call."""
        for owned in self.adapter.owned(layer):
            key = id(self.adapter.identity(owned.tensor))
            if owned.role == "parameter" and (key, layer.path) not in self._met:
                self._meet_owned(layer, owned, is_wanted)  # it was lazy, or another one before
            if not call.is_recorded or not self.plan.parameters:
                continue
            keep = self.plan.kept(call.site, owned.role, owned.leaf)
            if keep is None:
                continue
            role = owned.role
            number = self.values.number(owned.tensor, keep, owned.name, role, role)
            if self._owned.get((layer.path, owned.leaf)) == number:
                continue
            self._owned[layer.path, owned.leaf] = number
            said = {"owner": number, "call": call.number, "name": owned.name}
            needs = bool(getattr(owned.tensor, "requires_grad", False))
            facts = {"leaf": owned.leaf, "role": owned.role, "requires_grad": needs}
            self.sink.put({**said, **facts})

    def _put_settings(self, layer: SeenLayer) -> None:
        """Write what a layer was made with, when it is called first and when that changed."""
        training = bool(getattr(layer.module, "training", False))
        if self._settings.get(layer.path) is not training:
            self._settings[layer.path] = training
            text = json.dumps({**layer.settings, "training": training}, default=str)
            values = json.loads(text)
            self.sink.put({"settings": layer.path, "values": values, "step": self.step})

    def _next(self) -> int:
        return next(self._numbers)

    def _thread(self) -> int:
        return self._threads.setdefault(threading.get_ident(), len(self._threads))


def _runs(frame: FrameType, inside: FrameType | None) -> bool:
    """Whether a frame is one of those that the inner one was called from."""
    while inside is not None:
        if inside is frame:
            return True
        inside = inside.f_back
    return False


def _around(path: str) -> set[str]:
    """A path and those of all that it lies in."""
    parts = path.split(".")
    return {".".join(parts[:count]) for count in range(len(parts) + 1)}


def _joined(prefix: str, path: str) -> str:
    return ".".join(part for part in (prefix, path) if part)


def _plain(value: Any) -> dict[str, Any]:
    """What is no tensor, as JSON can say it; of other things the name of their class."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"plain": str(value), "type": "float"}
    if value is None or type(value) in (bool, int, float):
        return {"plain": value}
    if isinstance(value, str):
        return {"plain": value[:LONGEST_TEXT]}
    kind = type(value)
    if kind.__module__ in ("torch", "builtins", "mindspore") and kind.__name__ in _NAMED:
        return {"plain": str(value)[:LONGEST_TEXT], "type": kind.__name__}
    return {"type": kind.__name__}


_NAMED = ("dtype", "device", "slice", "ellipsis", "memory_format", "layout", "Size")
