"""torch as a recorder sees it; see `frameworks.recording.Recording`."""

from __future__ import annotations

import functools
import itertools
import sys
import threading
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import FrameType
from typing import Any, cast

import numpy as np
import torch
from torch._compile import _disable_dynamo
from torch.jit._trace import TopLevelTracedModule, TracedModule
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.optim import optimizer
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils import checkpoint
from torch.utils._python_dispatch import _disable_current_modes

from troubleshooter_nb.errors import ArgumentError, NotOfferedError
from troubleshooter_nb.frameworks import named_operators, torch_, torch_statistics
from troubleshooter_nb.frameworks.named_operators import NamedOperator, Watch
from troubleshooter_nb.frameworks.recording import (
    After,
    ApiCall,
    Before,
    Compiled,
    Handle,
    Owned,
    SeenLayer,
    Slotted,
    Unseen,
    ValueFacts,
)
from troubleshooter_nb.frameworks.settings import settings_of
from troubleshooter_nb.frameworks.shared_state import SharedState
from troubleshooter_nb.frameworks.torch_statistics import read_measured
from troubleshooter_nb.frameworks.torch_versions import (
    autocast_dtype,
    can_ask_compiling,
    can_force_eager,
    devices,
    has_autocast,
    is_compiling,
    may_use_fast_paths,
    set_autocast,
)
from troubleshooter_nb.messages import Message

__all__ = ["read_measured"]

NAME = "torch"
MODULE_WORD = "Module"
KNOWS_WHAT_NEEDS_GRADIENTS = True
GIVES_OWN_PARTS = True

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


def lacks() -> list[Message]:
    """What an older torch cannot do."""
    found = [] if can_force_eager else [Message("single_file.no_eager")]
    return found if can_ask_compiling else [*found, Message("single_file.no_compiled")]


def check_mode(operators: bool = False, compiled: Compiled = "boundary") -> None:
    """Refuse what this version cannot do; whatever torch compiles can be told by the module.

    Raises
    ------
    NotImplementedError
        For ``compiled="eager"`` before torch 2.6.
    """
    if compiled == "eager":
        _check_eager()


def _check_eager() -> None:
    if not can_force_eager:
        raise NotOfferedError(Message("single_file.no_eager"))


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
    if isinstance(module, DistributedDataParallel) and module.process_group.size() > 1:
        unseen.append(Unseen("local_gradients", path))
    if inner is not None and not (_is_optimized(module) and compiled == "boundary"):
        _walk(inner, path, compiled, found, unseen, above | {id(module)})
        return
    found[module].append(path)
    kind = _closed(module, compiled)
    if kind:
        unseen.append(Unseen(kind, path))
        return
    if _is_read_whole(module):
        return
    for name, child in module._modules.items():
        if child is not None:
            below = f"{path}.{name}" if path else name
            _walk(child, below, compiled, found, unseen, above | {id(module)})


def _wrapped(module: torch.nn.Module) -> torch.nn.Module | None:
    """The module that a wrapper hands its calls to; None for what is no wrapper."""
    if _is_optimized(module):
        inner: Any = module._orig_mod
        return cast("torch.nn.Module", inner)
    return module.module if isinstance(module, _WRAPPERS) else None


def _is_optimized(module: torch.nn.Module) -> bool:
    """Whether it is what ``torch.compile`` makes of a module."""
    return _is_of("torch._dynamo.eval_frame", "OptimizedModule", module)


def _is_of(module: str, name: str, value: Any) -> bool:
    """Whether a value is of a class of a module that takes long to load: who has one has it."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, getattr(loaded, name))


def _closed(module: torch.nn.Module, compiled: Compiled) -> str:
    """Why what is inside a module cannot be watched; "" where it can."""
    if isinstance(module, TracedModule | TopLevelTracedModule):
        return "traced"
    if isinstance(module, torch.jit.ScriptModule):
        return "scripted"
    is_compiled = _is_optimized(module) or module._compiled_call_impl is not None
    return "compiled" if is_compiled and compiled == "boundary" else ""


def _seen(module: torch.nn.Module, path: str, *aliases: str) -> SeenLayer:
    own = _wrapped(module) or module
    layer = getattr(own, "original_name", "") or type(own).__name__
    own_settings = settings_of(torch_._kind(own), torch_._settings(own), NAME)
    settings = {**own_settings, "training": own.training}
    has_forward = getattr(type(own), "forward", None) is not _WITHOUT_FORWARD
    return SeenLayer(path, module, layer, settings, aliases, has_forward)


def _force_eager() -> Callable[[], Any]:
    stance = torch.compiler.set_stance("force_eager")
    return functools.partial(stance.__exit__, None, None, None)


_eager = SharedState(_force_eager)


def eager() -> AbstractContextManager[Any]:
    """What is compiled runs as it is written, and nothing is compiled again later.

    Raises
    ------
    NotImplementedError
        Before torch 2.6.
    """
    _check_eager()
    return _eager()


class _Hook:
    """A hook of ours; in a copy of the module, and in a pickled one, it does nothing."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[..., None]) -> None:
        self.call = call

    def __call__(self, *args: Any) -> None:
        if not is_compiling():  # what is compiled around it has no hook
            self.call(*args)

    def __reduce__(self) -> Any:
        return _Hook, (_nothing,)


def _nothing(*_: Any) -> None:
    """What is left of a hook in a copy."""


def _as_function(hook: Callable[..., None]) -> Callable[..., None]:
    def function(*args: Any) -> None:
        hook(*args)

    return function


def watch_calls(layer: SeenLayer, before: Before, after: After) -> list[Handle]:
    """Hooks of the module itself; none on scripted ones, which take no hooks."""
    running: list[Any] = []

    def enter(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        running.append(sys.exc_info()[1])
        before(args, kwargs, sys._getframe(2))

    def leave(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        # A hook that is always called is told of an exception by nothing but this.
        earlier = running.pop() if running else None
        error = sys.exc_info()[1]
        after(args, kwargs, output, error is not None and error is not earlier)

    first: Callable[..., None] = _Hook(enter)
    last: Callable[..., None] = _Hook(leave)
    if layer.module._compiled_call_impl is not None and not _is_optimized(layer.module):
        # Part of what is compiled: a hook that the compiler read would be compiled with it.
        first, last = (_disable_dynamo(_as_function(hook)) for hook in (first, last))
    handles: list[Handle] = []
    try:
        handles.append(layer.module.register_forward_pre_hook(first, with_kwargs=True))
        handles.append(layer.module.register_forward_hook(last, with_kwargs=True, always_call=True))
    except BaseException as error:
        for handle in handles:
            handle.remove()
        if isinstance(error, RuntimeError):  # a scripted module
            return []
        raise
    return handles


_FAST = (torch.nn.TransformerEncoder, torch.nn.TransformerEncoderLayer, torch.nn.MultiheadAttention)


@contextmanager
def undisturbed(
    layers: Sequence[SeenLayer], operators: bool, miss: Callable[[str, str], None]
) -> Iterator[None]:
    """A context in which torch takes the fast paths of its transformers as if nothing watched.

    They are left when a module inside has a hook, or when operators are seen, and give other
    bits. So while one may be taken, what is inside has no hooks of ours, and is missing.
    """
    with ExitStack() as undo:
        for layer in layers:
            module: Any = layer.module
            kinds = _FAST if operators else _FAST[1:2]
            own = getattr(type(module), "forward", None)
            is_whole = module._compiled_call_impl is None
            if is_whole and own in [kind.forward for kind in kinds]:
                undo.callback(_replace_forward(module, layer.path, miss))
        yield


class _Forward:
    """Stands in front of a module's `forward` while recordings watch it."""

    def __init__(self, module: Any) -> None:
        self.module, self.earlier = module, vars(module).get("forward")
        self.forward = module.forward
        self.told: list[Callable[[str], None]] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not _may_be_fast(self.module):
            return self.forward(*args, **kwargs)
        for tell in self.told:
            tell("fast_path")
        with _unwatched(self.module):
            return self.forward(*args, **kwargs)

    def __reduce__(self) -> Any:
        return _forward_of, (self.module,)


def _forward_of(module: Any) -> Any:
    """What a copy of a watched module has in that place: its own `forward`."""
    return type(module).forward.__get__(module)


def _replace_forward(
    module: Any, path: str, miss: Callable[[str, str], None]
) -> Callable[[], None]:
    found = vars(module).get("forward")
    front = found if isinstance(found, _Forward) else _Forward(module)
    module.forward = front

    def tell(kind: str) -> None:
        miss(kind, path)

    def restore() -> None:
        front.told.remove(tell)
        if front.told or vars(module).get("forward") is not front:
            return
        if front.earlier is None:
            del module.forward
        else:
            module.forward = front.earlier

    front.told.append(tell)
    return restore


def _may_be_fast(module: Any) -> bool:
    """Whether torch might choose the fast path, for which module and arguments decide."""
    if module.training or not may_use_fast_paths():
        return False
    if torch.is_autocast_enabled() or is_compiling():
        return False
    return not (torch.is_grad_enabled() and any(p.requires_grad for p in module.parameters()))


@contextmanager
def _unwatched(module: torch.nn.Module) -> Iterator[None]:
    """Without our hooks in a module, and without our modes if there are no others."""
    hooked: list[tuple[Any, str, Any]] = []
    for inner in module.modules():
        for kind in ("_forward_pre_hooks", "_forward_hooks"):
            hooks = getattr(inner, kind)
            left = OrderedDict(h for h in hooks.items() if not isinstance(h[1], _Hook))
            if len(left) < len(hooks):
                hooked.append((inner, kind, hooks))
                setattr(inner, kind, left)
    modes = [torch._C._get_function_stack_at(i) for i in range(_modes())]
    taken = modes if all(isinstance(mode, _Functions) for mode in modes) else []
    for _ in taken:
        torch._C._pop_torch_function_stack()
    try:
        yield
    finally:
        for mode in taken:
            torch._C._push_on_torch_function_stack(mode)
        for inner, kind, hooks in hooked:
            setattr(inner, kind, hooks)


def _modes() -> int:
    return torch._C._len_torch_function_stack()


class _Functions(TorchFunctionMode):
    """Tells of every call of an operator in this thread."""

    def __init__(self, begin: Callable[..., Any], end: Callable[..., Any]) -> None:
        super().__init__()
        self.begin, self.end = begin, end
        self.known: dict[Any, ApiCall | None] = {}
        self.home, self.is_left = 0, False

    def __enter__(self) -> Any:
        self.home, self.is_left = threading.get_ident(), False
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.is_left:
            return func(*args, **kwargs)
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
            if not self.is_left and not self.end(token, written, raised) and not raised:
                self.known[func] = None
        return output

    def __exit__(self, *error: Any) -> None:
        """Leave, whatever other modes were entered since: theirs stay as they are.

        While it runs a call, and from another thread, it cannot be taken away: it waits.
        """
        self.is_left = True
        if not self.take() or threading.get_ident() != self.home:
            _left.add(self)

    def take(self) -> bool:
        """Take it from among the modes of this thread; whether it was there."""
        above: list[Any] = []
        is_found = False
        while _modes() and not is_found:
            mode = torch._C._pop_torch_function_stack()
            is_found = mode is self
            if not is_found:
                above.append(mode)
        for mode in reversed(above):
            torch._C._push_on_torch_function_stack(mode)
        return is_found


# Modes that were left where they could not be taken away; they do nothing any more.
_left: weakref.WeakSet[_Functions] = weakref.WeakSet()


def remove_waiting() -> None:
    """Take away the modes of this thread that were left while they ran, unless they still do."""
    for mode in list(_left):
        if mode.home == threading.get_ident() and mode.take():
            _left.discard(mode)


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
    remove_waiting()
    return _Functions(begin, end)


def watch_named(
    operators: Iterable[NamedOperator],
    nested: bool,
    begin: Callable[[ApiCall, tuple[Any, ...], Mapping[str, Any]], Any],
    end: Callable[[Any, Any, bool], Any],
) -> Watch:
    """See `named_operators.watch_named`; what prints a tensor is not told of.

    What is scripted meanwhile is compiled as if nobody watched: the compiler reads the functions.
    """
    watch = named_operators.watch_named(operators, nested, begin, end)
    watch.add(named_operators.Within(torch._tensor_str, "_str", named_operators.silent))
    watch.add(named_operators.Within(torch.jit, "script", watch.suspended))
    return watch


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


def is_parameter(tensor: torch.Tensor) -> bool:
    """Whether a tensor is one that training writes, perhaps without raising its version."""
    return isinstance(tensor, torch.nn.Parameter)


def identity(tensor: torch.Tensor) -> Any:
    """The tensor itself: torch hands on the same Python object."""
    return tensor


@functools.cache
def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def facts(tensor: torch.Tensor) -> ValueFacts:
    """Dtype, shape, device and, where the values are not in C order, strides."""
    shape = tuple(tensor.shape) if not tensor.is_nested else ()
    plain = tensor.layout == torch.strided and not tensor.is_nested
    strides = tensor.stride() if plain and not tensor.is_contiguous() else ()
    return ValueFacts(_dtype_name(tensor.dtype), shape, strides, _device_name(tensor.device))


@functools.cache
def _device_name(device: torch.device) -> str:
    return str(device)


def contents(tensor: torch.Tensor) -> Any:
    """Where the values lie, how many and which, as of this version of the memory."""
    if tensor.layout != torch.strided or tensor.is_inference() or tensor.is_nested:
        return None
    if tensor.is_conj() or tensor.is_neg() or not tensor.is_contiguous():
        return None
    try:
        address = tensor.data_ptr()
    except RuntimeError:  # no memory of its own: functorch, fake
        return None
    return (address, tensor.numel(), tensor.dtype, tensor._version) if address else None


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
    """Modes, gradients and autocast off; the caller's states come back."""

    __slots__ = ("autocast", "dispatch", "grad", "mode", "trace")

    def __enter__(self) -> None:
        named_operators.enter_silence()
        self.mode = torch._C.DisableTorchFunction()
        self.mode.__enter__()
        # Modes of the user's, such as one that counts operations or makes fake tensors.
        self.dispatch = _disable_current_modes() if torch._C._len_torch_dispatch_stack() else None
        if self.dispatch is not None:
            self.dispatch.__enter__()
        self.trace = torch._C._get_tracing_state()  # of torch.jit.trace
        if self.trace is not None:
            torch._C._set_tracing_state(None)  # type: ignore[attr-defined]
        self.grad = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)
        self.autocast = []
        if torch._C._is_any_autocast_enabled():
            for device in devices():
                if has_autocast(device):
                    self.autocast.append(device)
                    set_autocast(device, False)

    def __exit__(self, *error: Any) -> None:
        for device in self.autocast:
            set_autocast(device, True)
        torch._C._set_grad_enabled(self.grad)
        if self.trace is not None:
            torch._C._set_tracing_state(self.trace)  # type: ignore[attr-defined]
        if self.dispatch is not None:
            self.dispatch.__exit__(*error)
        self.mode.__exit__(*error)
        named_operators.leave_silence()


def _refuse_without_values(tensor: torch.Tensor) -> None:
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        raise ArgumentError(Message("frameworks.functorch_tensor"))
    if _is_of("torch._subclasses.fake_tensor", "FakeTensor", tensor) or tensor.is_meta:
        raise ArgumentError(Message("frameworks.meta_tensor"))
    if tensor.is_nested:
        raise ArgumentError(Message("frameworks.ragged_tensor"))


class _refusing:
    """Makes a reason of what a tensor of somebody's own class raises when it is looked at."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        is_own = type(self.tensor) in (torch.Tensor, torch.nn.Parameter)
        if isinstance(error, RuntimeError | TypeError) and not is_own:
            name = _dtype_name(self.tensor.dtype)
            raise ArgumentError(Message("frameworks.no_array", dtype=name, why=error)) from error


def measured(tensor: torch.Tensor, fingerprint: bool) -> Any:
    """Statistics that were begun, of sparse and quantized tensors as of their plain values."""
    _refuse_without_values(tensor)
    with _refusing(tensor):
        plain = tensor.detach()
        if plain.is_quantized:
            plain = plain.dequantize()
        if plain.layout != torch.strided:
            plain = plain.to_dense()
        return torch_statistics.measured(plain, fingerprint)


def copied(tensor: torch.Tensor) -> np.ndarray:
    """Values on the host; what was expanded is stored once and expanded again by its strides."""
    _refuse_without_values(tensor)
    with _refusing(tensor):
        return _copied(tensor)


def shown(tensor: torch.Tensor) -> np.ndarray:
    """Values of the memory of the tensor itself, where numpy can look at it."""
    _refuse_without_values(tensor)
    with _refusing(tensor):
        return torch_.to_numpy(tensor, copy=False)


def _copied(tensor: torch.Tensor) -> np.ndarray:
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
    if not tensor.requires_grad or _is_cut_off(tensor):
        return None

    def hook(gradient: torch.Tensor) -> None:
        receive(gradient)

    handle: Handle = tensor.register_hook(hook)  # type: ignore[no-untyped-call]
    return handle


def watch_accumulated(parameter: torch.Tensor, receive: Callable[[Any], None]) -> Handle | None:
    """Have `receive` called with what is in ``.grad`` after each backward pass."""
    if not parameter.requires_grad or not parameter.is_leaf:
        return watch_gradient(parameter, receive)

    def hook(changed: torch.Tensor) -> None:
        receive(changed.grad)

    handle: Handle = parameter.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]
    return handle


def _is_cut_off(tensor: torch.Tensor) -> bool:
    """Whether it is a view that was written in a way that leaves it no gradient.

    To ask for its node is an error then, but to have such a view is none.
    """
    if not tensor._is_view():
        return False
    try:
        _ = tensor.grad_fn
    except RuntimeError:
        return True
    return False


def watch_node(
    origins: Slotted, outputs: Slotted, receive: Callable[[Slotted, Slotted], None]
) -> Handle | None:
    """A hook of the node that made the first result."""
    first = outputs[0][1]
    node = None if _is_cut_off(first) else first.grad_fn
    if node is None:
        return None

    def hook(given: Any, arrived: Any) -> None:
        receive(_numbered(given), _numbered(arrived))

    handle: Handle = node.register_hook(hook)
    return handle


def _numbered(gradients: Iterable[Any]) -> Slotted:
    return [(str(number), gradient) for number, gradient in enumerate(gradients)]


def origin(tensor: torch.Tensor) -> Any:
    """The node and the number of its output that the tensor is, as the graph knows it."""
    if not tensor.requires_grad or _is_cut_off(tensor):
        return None
    if tensor.grad_fn is not None:
        return tensor.grad_fn, tensor.output_nr
    with torch.enable_grad():
        node = tensor.view_as(tensor).grad_fn
    if node is None:  # inside torch.func, which has graphs of its own
        return None
    return node.next_functions[0]


def watch_own_parts(
    origins: list[tuple[str, Any]],
    outputs: Iterable[torch.Tensor],
    receive: Callable[[str, Any], None],
) -> list[Handle] | None:
    """Hooks of the nodes inside the call that lead to its inputs; None if it has too many."""
    slots: dict[Any, list[str]] = defaultdict(list)
    for slot, edge in origins:
        slots[edge].append(slot)
    edges = _edges_to(slots, outputs)
    if edges is None:
        return None
    handles: list[Handle] = []
    sums = _Sums([edge for _, found in edges for _, edge in found], slots, receive)
    for node, found in edges:

        def hook(to_inputs: Any, of_outputs: Any, found: list[tuple[int, Any]] = found) -> None:
            for number, edge in found:
                sums.add(edge, to_inputs[number] if number < len(to_inputs) else None)

        handles.append(node.register_hook(hook))
    return handles


class _Sums:
    """Adds up what the nodes inside a call give to each of its inputs, in each backward pass."""

    def __init__(
        self, edges: list[Any], slots: Mapping[Any, list[str]], receive: Callable[[str, Any], None]
    ) -> None:
        self._slots, self._receive = slots, receive
        self._counts: dict[Any, int] = defaultdict(int)
        for edge in edges:
            self._counts[edge] += 1
        # By the backward pass: what is still to come, and the sums so far.
        self._passes: dict[int, tuple[dict[Any, int], dict[Any, Any]]] = {}

    def add(self, edge: Any, gradient: Any) -> None:
        """Take what one node gives."""
        if self._counts[edge] == 1:
            self._give(edge, gradient)
            return
        run = torch._C._current_graph_task_id()
        if run not in self._passes:
            self._passes[run] = dict(self._counts), {}
            # A node that this pass does not reach gives nothing: the end tells.
            engine: Any = torch.autograd.Variable._execution_engine
            engine.queue_callback(functools.partial(self._finish, run))
        left, sums = self._passes[run]
        left[edge] -= 1
        earlier = sums.pop(edge, None)
        if earlier is not None and gradient is not None:
            # In the order in which the engine itself adds them up.
            with quiet():
                gradient = earlier + gradient
        elif gradient is None:
            gradient = earlier
        if left[edge]:
            sums[edge] = gradient
        else:
            self._give(edge, gradient)

    def _finish(self, run: int) -> None:
        _, sums = self._passes.pop(run, ({}, {}))
        for edge, gradient in sums.items():
            self._give(edge, gradient)

    def _give(self, edge: Any, gradient: Any) -> None:
        if gradient is not None:
            for slot in self._slots[edge]:
                self._receive(slot, gradient)


def _edges_to(
    wanted: Mapping[Any, Any], outputs: Iterable[torch.Tensor]
) -> list[tuple[Any, list[tuple[int, Any]]]] | None:
    """Nodes of a call's graph with the numbers of their edges to its inputs; None if too many."""
    nodes = [t.grad_fn for t in outputs if not _is_cut_off(t) and t.grad_fn is not None]
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


_segments: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_count_of_segments = itertools.count(1)
_CHECKPOINT = vars(checkpoint)


def segment(frame: FrameType | None, until: FrameType | None) -> tuple[int, int] | None:
    """Number of the checkpointed segment that runs, and of the backward pass or -1.

    The first run of a segment and those that compute it again hold one object in common.
    """
    while frame is not None and frame is not until:
        if frame.f_globals is _CHECKPOINT:
            names = frame.f_locals
            generator = names.get("gen")
            if generator is not None and generator.gi_frame is not None:
                names = generator.gi_frame.f_locals
            for name in ("ctx", "new_frame", "frame"):
                if name in names:
                    number = _segments.get(names[name]) or next(_count_of_segments)
                    _segments[names[name]] = number
                    return number, torch._C._current_graph_task_id()
        frame = frame.f_back
    return None


def owned(layer: SeenLayer) -> list[Owned]:
    """Parameters and buffers of the module itself; of what is compiled, of all inside."""
    own = _wrapped(layer.module) or layer.module
    recurse = _is_read_whole(own) or (
        bool(_closed(layer.module, "boundary")) and layer.module is not own
    )
    found = [
        Owned(leaf, torch_._joined(layer.path, leaf), tensor, "parameter")
        for leaf, tensor in own.named_parameters(recurse=recurse, remove_duplicate=False)
    ]
    found += [
        Owned(leaf, torch_._joined(layer.path, leaf), tensor, "buffer")
        for leaf, tensor in own.named_buffers(recurse=recurse, remove_duplicate=False)
    ]
    return [entry for entry in found if not torch.nn.parameter.is_lazy(entry.tensor)]


def _is_read_whole(module: torch.nn.Module) -> bool:
    """Whether a module reads the weights of those inside without calling them."""
    return isinstance(module, torch.nn.MultiheadAttention)


def state() -> tuple[bool, str]:
    """Whether gradients are on, and the dtype of autocast on the first device that has it."""
    autocast = ""
    if torch._C._is_any_autocast_enabled():
        on = (device for device in devices() if has_autocast(device))
        autocast = next((_dtype_name(autocast_dtype(device)) for device in on), "")
    return torch.is_grad_enabled(), autocast


def random_state() -> np.ndarray:
    """State of the generator of the host."""
    return torch.get_rng_state().numpy()


def recover(grad: bool) -> None:
    """Undo what `quiet` leaves behind where an interrupt came while it began or ended."""
    internals: Any = torch._C  # whose stubs lack these
    internals._set_torch_function_state(internals._TorchFunctionState.ENABLED)
    torch._C._set_grad_enabled(grad)
    named_operators.recover()


def abandon() -> None:
    """Nothing: graphs of torch belong to their tensors."""
