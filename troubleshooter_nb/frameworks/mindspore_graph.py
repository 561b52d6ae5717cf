"""What a call is in the graph that MindSpore's backward passes go through.

Nodes are hooked and nothing is added to the graph, so that no gradient is computed otherwise. The
graph can be read since MindSpore 2.10; before, it tells nothing.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from troubleshooter_nb.frameworks.recording import Handle, Slotted

try:
    from mindspore.graph.api import _pynative_executor
except ImportError:  # before MindSpore 2.10
    from mindspore.common.api import _pynative_executor

# The number of a node, and which of its results.
Edge = tuple[int, int]
_Edges = Sequence[tuple[int, Edge]]  # of one node, each with its number
_MOST_NODES = 4000  # of a graph that are searched for the inputs of one call, as in torch


class Origin(NamedTuple):
    """What made a tensor. The node is held: when it is gone its number is used again."""

    node: Any
    edge: Edge


def origin_of(tensor: Any) -> Origin | None:
    """What made a tensor; None for integers and for what is in no graph."""
    node = getattr(tensor, "_grad_node", None)
    if node is None or not any(kind in str(tensor.dtype) for kind in ("Float", "Complex")):
        return None
    return Origin(node, (node._unique_id(), tensor._output_index))


class Gradients(Protocol):
    """What is done with gradients besides reading them."""

    def add(self, one: Any, other: Any) -> Any:
        """Add two, unseen."""

    def watch(self, tensor: Any, receive: Callable[[Any], None]) -> Handle:
        """Have `receive` called with the gradients of a tensor that no node made."""


Receive = Callable[[Slotted, Slotted], None]


def watch_call(
    inputs: Sequence[tuple[str, Origin]],
    outputs: Sequence[tuple[str, Any]],
    receive: Receive,
    gradients: Gradients,
) -> WatchedCall | None:
    """Hooks of the nodes of one call; None if it has too many.

    Parameters
    ----------
    inputs : sequence of (str, Origin)
        Slots of what the call was given, with what made that before the call.
    outputs : sequence of (str, tensor)
        What it gave.
    receive : callable
        ``receive(given, arrived)``, once in each backward pass that reaches the call, when all of
        its nodes have run: by slots what the call alone adds to the gradients of `inputs`, and the
        whole gradients of `outputs`; None where there is none.
    gradients : Gradients

    Notes
    -----
    A call that gives back what it was given has no node for that: what other calls add to it is
    then part of both. A tensor in two slots has one gradient, the sum, in both, except where one
    node took it twice.
    """
    made = [origin_of(tensor) for _, tensor in outputs]
    ends = _ends([origin for _, origin in inputs], [one.node for one in made if one is not None])
    if ends is None:
        return None
    results = [(s, tensor, one) for (s, tensor), one in zip(outputs, made, strict=True)]
    return WatchedCall(inputs, results, ends, receive, gradients)


class WatchedCall:
    """Hooks of the nodes of one call: of those that made its results and those at its `ends`."""

    _count = itertools.count()

    def __init__(
        self,
        inputs: Sequence[tuple[str, Origin]],
        results: Sequence[tuple[str, Any, Origin | None]],
        ends: Sequence[tuple[Any, _Edges]],
        receive: Receive,
        gradients: Gradients,
    ) -> None:
        self.number = next(self._count)
        self.receive: Receive | None = receive
        self.gradients = gradients
        # Edges only: a node that is held here would hold itself, by its hook.
        self.inputs = [(slot, origin.edge) for slot, origin in inputs]
        self.outputs = [(slot, made and made.edge) for slot, _, made in results]
        nodes = {made.edge[0]: made.node for _, _, made in results if made is not None}
        nodes |= {_key(node): node for node, _ in ends}
        edges = {_key(node): of_node for node, of_node in ends}
        self.nodes = frozenset(nodes)
        self.lowest = min((node._sequence_nr() for node in nodes.values()), default=0)
        leaves = {made.edge[0]: tensor for _, tensor, made in results if made and _is_leaf(made)}
        self.handles: list[Any] = [
            self._hook(node, edges.get(key, ())) for key, node in nodes.items() if key not in leaves
        ]
        self.handles += [self._hook_leaf(key, tensor) for key, tensor in leaves.items()]

    def _hook(self, node: Any, edges: _Edges) -> Any:
        key, place = _key(node), node._sequence_nr()

        def hook(given: Any, arrived: Any) -> None:
            if self.receive is not None:
                _current_pass().take(self, place, key, edges, given, arrived)

        return node.register_hook(hook)

    def _hook_leaf(self, key: int, tensor: Any) -> Handle:
        """A hook of a tensor that is in the graph, but was made by none of it; nodes have none."""
        place = tensor._grad_node._sequence_nr()  # behind all others

        def receive(gradient: Any) -> None:
            if self.receive is not None:
                _current_pass().take(self, place, key, (), (), (gradient,))

        return self.gradients.watch(tensor, receive)

    def remove(self) -> None:
        """Take the hooks away; nothing is received from here on."""
        self.receive = None
        for handle in self.handles:
            handle.remove()
        self.handles = []


def _key(node: Any) -> int:
    return int(node._unique_id())


def _is_leaf(origin: Origin) -> bool:
    return bool(origin.node.is_leaf())


def _ends(inputs: Iterable[Origin], results: Iterable[Any]) -> list[tuple[Any, _Edges]] | None:
    """Nodes of a call that lead to its inputs, with those of their edges that do."""
    wanted = {origin.edge for origin in inputs}
    stops = {key for key, _ in wanted}
    # What was there before the last of the inputs is none of the call's.
    there = [origin.node._sequence_nr() for origin in inputs if not _is_leaf(origin)]
    latest = max(there, default=-1)
    left, seen = [*results], set()
    found: list[tuple[Any, _Edges]] = []
    while left:
        node = left.pop()
        key = _key(node)
        if key in seen or key in stops or node.is_leaf() or node._sequence_nr() <= latest:
            continue
        seen.add(key)
        if len(seen) > _MOST_NODES:
            return None
        following = [*enumerate(node.next_functions)]
        edges = [(i, (_key(child), result)) for i, (child, result) in following if child]
        edges = [(i, edge) for i, edge in edges if edge in wanted]
        if edges:
            found.append((node, edges))
        left += [child for _, (child, _) in following if child is not None]
    return found


class _Run:
    """What a backward pass has brought one call so far."""

    def __init__(self, call: WatchedCall) -> None:
        self.call = call
        self.left = set(call.nodes)
        self.arrived: dict[Edge, Any] = {}
        self.given: dict[Edge, list[tuple[int, Any]]] = defaultdict(list)  # with the node

    def take(self, key: int, edges: _Edges, given: Any, arrived: Any) -> None:
        """Note what a node got, and what it gives along the edges that leave the call."""
        for number, gradient in enumerate(arrived):
            self.arrived[key, number] = gradient
        for number, edge in edges:
            gradient = given[number] if number < len(given) else None
            self.given[edge].append((key, gradient))
        self.left.discard(key)

    def deliver(self) -> None:
        """Tell of it."""
        if self.call.receive is None:
            return
        slots: dict[Edge, list[str]] = defaultdict(list)
        for slot, edge in self.call.inputs:
            slots[edge].append(slot)
        given: dict[str, Any] = {}
        for edge, of_edge in slots.items():
            given.update(zip(of_edge, self._shares(edge, len(of_edge)), strict=True))
        arrived = [(s, self.arrived.get(edge) if edge else None) for s, edge in self.call.outputs]
        self.call.receive([(slot, given[slot]) for slot, _ in self.call.inputs], arrived)

    def _shares(self, edge: Edge, count: int) -> list[Any]:
        """What the slots get that one tensor stands in."""
        parts = [*self.given[edge]]
        if any(edge == of_output for _, of_output in self.call.outputs):
            parts.append((edge[0], self.arrived.get(edge)))
        if len(parts) == count and len({key for key, _ in parts}) == 1:
            return [gradient for _, gradient in parts]
        total = None
        for _, gradient in parts:  # in the order in which the pass itself adds them
            if total is None or gradient is None:
                total = gradient if total is None else total
            else:
                total = self.call.gradients.add(total, gradient)
        return [total] * count


class _Pass:
    """A backward pass that has reached a call, and has not told all of it."""

    def __init__(self) -> None:
        self.runs: dict[int, _Run] = {}

    def take(
        self,
        call: WatchedCall,
        place: int,
        key: int,
        edges: _Edges,
        given: Any,
        arrived: Any,
    ) -> None:
        """Note what a node of a call got and gives, and tell of the calls that are through.

        Nodes run in the reverse order of their making, those whose results have no part in the
        loss not at all: a call is through when all have run, or an older one does.
        """
        self._tell(lambda run: run.call.lowest > place)
        run = self.runs.setdefault(call.number, _Run(call))
        run.take(key, edges, given, arrived)
        self._tell(lambda run: not run.left)

    def end(self) -> None:
        """Tell of what is left."""
        self._tell(lambda run: True)

    def _tell(self, is_through: Callable[[_Run], bool]) -> None:
        through = [run for run in self.runs.values() if is_through(run)]
        # Later ones first, of those that begin with the same node the inner one, which ended first.
        for run in sorted(through, key=lambda run: (-run.call.lowest, run.call.number)):
            del self.runs[run.call.number]
            run.deliver()


_passes: dict[int, _Pass] = {}


def _current_pass() -> _Pass:
    number = _pynative_executor.get_current_autodiff_engine_id()
    if number not in _passes:
        _passes[number] = _Pass()
        _pynative_executor.queue_backward_final_callback(_end_pass)
    return _passes[number]


# A function of the module: MindSpore 2.10 ends the process where it is the last to hold a callback
# of a pass that breaks off.
def _end_pass() -> None:
    ended = _passes.pop(_pynative_executor.get_current_autodiff_engine_id(), None)
    if ended is not None:
        ended.end()


def forget_passes() -> None:
    """Forget backward passes that were broken off, unless one runs."""
    if _passes and _pynative_executor.get_current_autodiff_engine_id() == -1:
        _passes.clear()
