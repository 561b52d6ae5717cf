"""torch as a recorder sees it; see `frameworks.recording.Recording`."""

from __future__ import annotations

import functools
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch._compile import _disable_dynamo
from torch._dynamo.eval_frame import OptimizedModule
from torch.jit._trace import TopLevelTracedModule, TracedModule
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.optim import optimizer
from torch.overrides import TorchFunctionMode, resolve_name

from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.frameworks import torch_
from troubleshooter_nb.frameworks.recording import (
    After,
    ApiCall,
    Before,
    Compiled,
    Handle,
    Owned,
    SeenLayer,
    Unseen,
    ValueFacts,
)
from troubleshooter_nb.frameworks.settings import settings_of
from troubleshooter_nb.frameworks.torch_statistics import measured, read_measured
from troubleshooter_nb.messages import Message

__all__ = ["measured", "read_measured"]

NAME = "torch"
MODULE_WORD = "Module"

# Modules that hand their one child's calls on: what they wrap has the path of the network.
_WRAPPERS = (DataParallel, DistributedDataParallel)
_WITHOUT_FORWARD = torch.nn.Module.forward
# Functions that give no numbers of the network, whatever they return.
_NOT_SEEN = frozenset(
    "backward detach detach_ requires_grad_ retain_grad register_hook grad is_same_size "
    "__repr__ __format__ __hash__ __reduce_ex__ __deepcopy__ data_ptr untyped_storage "
    "numpy share_memory_ pin_memory __array__ __dlpack__ set_".split()
)
_WRITES_FIRST = ("__setitem__",)
_MOST_NODES = 4000  # of a graph that are searched for the inputs of one call


def check_mode() -> None:
    """Nothing to refuse: whatever torch compiles can be told by the module."""


def layers(net: Any, compiled: Compiled) -> tuple[list[SeenLayer], list[Unseen]]:
    """The modules that can be watched, and compiled, scripted and traced parts."""
    found: dict[torch.nn.Module, list[str]] = defaultdict(list)
    unseen: list[Unseen] = []
    _walk(net, "", compiled, found, unseen, set())
    seen = [_seen(module, *paths) for module, paths in found.items()]
    return seen, list(dict.fromkeys(unseen))


def _walk(
    module: torch.nn.Module,
    path: str,
    compiled: Compiled,
    found: dict[torch.nn.Module, list[str]],
    unseen: list[Unseen],
    above: set[int],
) -> None:
    if id(module) in above:  # a module that holds itself
        return
    inner = _wrapped(module)
    if inner is not None and not (isinstance(module, OptimizedModule) and compiled == "boundary"):
        _walk(inner, path, compiled, found, unseen, above | {id(module)})
        return
    found[module].append(path)
    kind = _closed(module, compiled)
    if kind:
        unseen.append(Unseen(kind, path))
        return
    for name, child in module._modules.items():
        if child is not None:
            below = f"{path}.{name}" if path else name
            _walk(child, below, compiled, found, unseen, above | {id(module)})


def _wrapped(module: torch.nn.Module) -> torch.nn.Module | None:
    """The module that a wrapper hands its calls to; None for what is no wrapper."""
    if isinstance(module, OptimizedModule):
        inner: torch.nn.Module = module._orig_mod
        return inner
    return module.module if isinstance(module, _WRAPPERS) else None


def _closed(module: torch.nn.Module, compiled: Compiled) -> str:
    """Why what is inside a module cannot be watched; "" where it can."""
    if isinstance(module, TracedModule | TopLevelTracedModule):
        return "traced"
    if isinstance(module, torch.jit.ScriptModule):
        return "scripted"
    is_compiled = isinstance(module, OptimizedModule) or module._compiled_call_impl is not None
    return "compiled" if is_compiled and compiled == "boundary" else ""


def _seen(module: torch.nn.Module, path: str, *aliases: str) -> SeenLayer:
    own = _wrapped(module) or module
    layer = getattr(own, "original_name", "") or type(own).__name__
    own_settings = settings_of(torch_._kind(own), torch_._settings(own), NAME)
    settings = {**own_settings, "training": own.training}
    has_forward = getattr(type(own), "forward", None) is not _WITHOUT_FORWARD
    return SeenLayer(path, module, layer, settings, aliases, has_forward)


def eager() -> AbstractContextManager[Any]:
    """What is compiled runs as it is written, and nothing is compiled again later."""
    stance: AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return stance


def watch_calls(layer: SeenLayer, before: Before, after: After) -> list[Handle]:
    """Hooks of the module itself; none on scripted ones, which take no hooks."""
    running: list[Any] = []

    def enter(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        running.append(sys.exc_info()[1])
        before(args, kwargs, sys._getframe(1))

    def leave(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        # A hook that is always called is told of an exception by nothing but this.
        earlier = running.pop() if running else None
        error = sys.exc_info()[1]
        after(args, kwargs, output, error is not None and error is not earlier)

    if layer.module._compiled_call_impl is not None and not isinstance(
        layer.module, OptimizedModule
    ):
        # Part of what is compiled: a hook that the compiler read would be compiled with it.
        enter, leave = (_disable_dynamo(hook) for hook in (enter, leave))
    handles: list[Handle] = []
    try:
        handles.append(layer.module.register_forward_pre_hook(enter, with_kwargs=True))
        handles.append(
            layer.module.register_forward_hook(leave, with_kwargs=True, always_call=True)
        )
    except RuntimeError:  # a scripted module
        for handle in handles:
            handle.remove()
        return []
    return handles


class _Functions(TorchFunctionMode):
    """Tells of every call of an operator in this thread."""

    def __init__(self, begin: Callable[..., Any], end: Callable[..., Any]) -> None:
        super().__init__()
        self.begin, self.end = begin, end
        self.known: dict[Any, ApiCall | None] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        try:
            call = self.known[func]
        except KeyError:
            call = self.known[func] = _api_call(func)
        token = None if call is None else self.begin(call, args, kwargs)
        if token is None:
            return func(*args, **kwargs)
        output, raised = None, True
        try:
            output = func(*args, **kwargs)
            raised = False
        finally:
            written = args[0] if call and call.path.endswith(_WRITES_FIRST) and args else output
            if not self.end(token, written, raised) and not raised:
                self.known[func] = None
        return output

    def __exit__(self, *error: Any) -> None:
        """Leave, whatever other modes were entered since: theirs stay as they are."""
        if not torch._C._len_torch_function_stack():
            return
        above = []
        while (mode := torch._C._pop_torch_function_stack()) is not self:
            above.append(mode)
            if not torch._C._len_torch_function_stack():
                break
        for mode in reversed(above):
            torch._C._push_on_torch_function_stack(mode)


def _api_call(func: Any) -> ApiCall | None:
    """What an operator is called in dumps; None for what is none."""
    full = resolve_name(func) or getattr(func, "__name__", "")
    name = full.rpartition(".")[2]
    if not full or name in ("__get__", "__set__", "__delete__") or name in _NOT_SEEN:
        return None
    if full.startswith("torch.optim") or ".autograd" in full:
        return None
    return ApiCall(f"{_prefix(full)}.{name}")


def _prefix(full: str) -> str:
    if ".functional." in full or "._nn." in full:
        return "Functional"
    if ".Tensor." in full or ".TensorBase." in full or "." not in full:
        return "Tensor"
    return "Torch"


def watch_functions(
    begin: Callable[[ApiCall, tuple[Any, ...], Mapping[str, Any]], Any],
    end: Callable[[Any, Any, bool], Any],
) -> AbstractContextManager[Any]:
    """A mode of this thread; nothing is patched."""
    return _Functions(begin, end)


def watch_optimizers(enter: Callable[[], None], leave: Callable[[], None]) -> list[Handle]:
    """Hooks of all optimizers of the process."""

    def begins(*_: Any) -> None:
        enter()

    def ends(*_: Any) -> None:
        leave()

    return [
        optimizer.register_optimizer_step_pre_hook(begins),
        optimizer.register_optimizer_step_post_hook(ends),
    ]


def is_tensor(value: Any) -> bool:
    """Whether a value is a torch tensor."""
    return isinstance(value, torch.Tensor)


def identity(tensor: torch.Tensor) -> Any:
    """The tensor itself: torch hands on the same Python object."""
    return tensor


@functools.cache
def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def facts(tensor: torch.Tensor) -> ValueFacts:
    """Dtype, shape, strides and device."""
    shape = tuple(tensor.shape) if not tensor.is_nested else ()
    plain = tensor.layout == torch.strided and not tensor.is_nested
    strides = tensor.stride() if plain else ()
    return ValueFacts(_dtype_name(tensor.dtype), shape, strides, str(tensor.device))


def version(tensor: torch.Tensor) -> int | None:
    """The counter of changes in place, which views share; none in inference mode."""
    return None if tensor.is_inference() else tensor._version


def view_of(tensor: torch.Tensor) -> Any:
    """A key of the memory the tensor lies in."""
    try:
        return tensor.untyped_storage()._cdata
    except (RuntimeError, NotImplementedError):  # sparse, functorch
        return None


class quiet:
    """Function mode, gradients and autocast off; the caller's states come back."""

    __slots__ = ("autocast", "grad", "mode")

    def __enter__(self) -> None:
        self.mode = torch._C.DisableTorchFunction()
        self.mode.__enter__()
        self.grad = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)
        self.autocast = []
        if torch._C._is_any_autocast_enabled():
            for device in _devices():
                if torch.is_autocast_enabled(device):
                    self.autocast.append(device)
                    torch.set_autocast_enabled(device, False)

    def __exit__(self, *error: Any) -> None:
        for device in self.autocast:
            torch.set_autocast_enabled(device, True)
        torch._C._set_grad_enabled(self.grad)
        self.mode.__exit__(*error)


@functools.cache
def _devices() -> tuple[str, ...]:
    accelerator = torch.accelerator.current_accelerator()
    return ("cpu",) if accelerator is None else ("cpu", accelerator.type)


def copied(tensor: torch.Tensor) -> np.ndarray:
    """Values on the host; what was expanded is stored once and expanded again by its strides."""
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        raise ArgumentError(Message("frameworks.functorch_tensor"))
    expanded = _expanded(tensor)
    if not expanded:
        return np.ascontiguousarray(torch_.to_numpy(tensor)).reshape(tuple(tensor.shape))
    once = tensor[
        tuple(slice(0, 1) if axis in expanded else slice(None) for axis in range(tensor.dim()))
    ]
    return np.broadcast_to(np.ascontiguousarray(torch_.to_numpy(once)), tuple(tensor.shape))


def _expanded(tensor: torch.Tensor) -> list[int]:
    """Axes along which one and the same value lies in memory."""
    if tensor.layout != torch.strided or tensor.is_nested or tensor.is_meta:
        return []
    strides = tensor.stride()
    if 0 not in strides:
        return []
    return [axis for axis, step in enumerate(strides) if step == 0 and tensor.shape[axis] > 1]


def watch_gradient(tensor: torch.Tensor, receive: Callable[[Any], None]) -> Handle | None:
    """A hook of the tensor as it is now; one that is changed in place later has another."""
    if not tensor.requires_grad:
        return None

    def hook(gradient: torch.Tensor) -> None:
        receive(gradient)

    handle: Handle = tensor.register_hook(hook)  # type: ignore[no-untyped-call]
    return handle


def is_gradient_due(tensor: torch.Tensor) -> bool:
    """Always: what requires a gradient was asked for one."""
    return True


def origin(tensor: torch.Tensor) -> Any:
    """The node and the number of its output that the tensor is, as the graph knows it."""
    if not tensor.requires_grad:
        return None
    if tensor.grad_fn is not None:
        return tensor.grad_fn, tensor.output_nr
    with torch.enable_grad():
        edge = torch.autograd.graph.get_gradient_edge(tensor)
    return edge.node, edge.output_nr


def watch_own_parts(
    origins: list[tuple[str, Any]],
    outputs: Iterable[torch.Tensor],
    receive: Callable[[str, Any], None],
) -> list[Handle]:
    """Hooks of the nodes inside the call that lead to its inputs."""
    slots: dict[Any, list[str]] = defaultdict(list)
    for slot, edge in origins:
        slots[edge].append(slot)
    edges = _edges_to(slots, outputs)
    if edges is None:
        return []
    handles: list[Handle] = []
    counts: dict[Any, int] = defaultdict(int)
    for _, found in edges:
        for _, edge in found:
            counts[edge] += 1
    sums: dict[Any, Any] = {}

    def arrived(edge: Any, gradient: Any) -> None:
        counts[edge] -= 1
        earlier = sums.pop(edge, None)
        if earlier is not None and gradient is not None:
            # In the order in which the engine itself adds them up.
            with quiet():
                gradient = earlier + gradient
        elif gradient is None:
            gradient = earlier
        if counts[edge]:
            sums[edge] = gradient
        elif gradient is not None:
            for slot in slots[edge]:
                receive(slot, gradient)

    for node, found in edges:

        def hook(to_inputs: Any, of_outputs: Any, found: list[tuple[int, Any]] = found) -> None:
            for number, edge in found:
                arrived(edge, to_inputs[number] if number < len(to_inputs) else None)

        handles.append(node.register_hook(hook))
    return handles


def _edges_to(
    wanted: Mapping[Any, Any], outputs: Iterable[torch.Tensor]
) -> list[tuple[Any, list[tuple[int, Any]]]] | None:
    """Nodes of a call's graph with the numbers of their edges to its inputs; None if too many."""
    nodes = [t.grad_fn for t in outputs if t.grad_fn is not None]
    stops = {node for node, _ in wanted}
    seen: set[Any] = set()
    edges = []
    while nodes:
        node = nodes.pop()
        if node in seen or node in stops:
            continue
        seen.add(node)
        if len(seen) > _MOST_NODES:
            return None
        found = [(i, edge) for i, edge in enumerate(node.next_functions) if edge in wanted]
        if found:
            edges.append((node, found))
        nodes += [child for child, _ in node.next_functions if child is not None]
    return edges


def is_view(tensor: torch.Tensor) -> bool:
    """Whether autograd knows it as a view of another tensor."""
    return tensor._is_view()


def is_recomputing(again: bool) -> bool:
    """Whether a backward pass of this thread is running."""
    return torch._C._current_graph_task_id() != -1


def owned(layer: SeenLayer) -> list[Owned]:
    """Parameters and buffers of the module itself; of what is compiled, of all inside."""
    own = _wrapped(layer.module) or layer.module
    recurse = bool(_closed(layer.module, "boundary")) and layer.module is not own
    found = [
        Owned(leaf, torch_._joined(layer.path, leaf), tensor, "parameter")
        for leaf, tensor in own.named_parameters(recurse=recurse, remove_duplicate=False)
    ]
    found += [
        Owned(leaf, torch_._joined(layer.path, leaf), tensor, "buffer")
        for leaf, tensor in own.named_buffers(recurse=recurse, remove_duplicate=False)
    ]
    return [entry for entry in found if not torch.nn.parameter.is_lazy(entry.tensor)]


def state() -> tuple[bool, str]:
    """Whether gradients are on, and the dtype of autocast on the first device that has it."""
    autocast = ""
    if torch._C._is_any_autocast_enabled():
        on = (d for d in _devices() if torch.is_autocast_enabled(d))
        autocast = next((_dtype_name(torch.get_autocast_dtype(d)) for d in on), "")
    return torch.is_grad_enabled(), autocast


def random_state() -> np.ndarray:
    """State of the generator of the host."""
    return np.array(torch.get_rng_state())
