"""MindSpore's PyNative mode as a recorder sees it: what `frameworks.recording` asks for."""

from __future__ import annotations

import inspect
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from types import FrameType
from typing import Any

import mindspore
import numpy as np
from mindspore import mint, nn, ops
from mindspore.ops.primitive import constexpr

from troubleshooter_nb.errors import ArgumentError, NotOfferedError
from troubleshooter_nb.frameworks import mindspore_, mindspore_graph, named_operators
from troubleshooter_nb.frameworks.mindspore_named import operators_of_cells, watch_named
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
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming import BUFFER_LEAVES, Role

try:
    from mindspore.graph.api import _no_grad, _pynative_executor
except ImportError:  # before MindSpore 2.10
    from contextlib import nullcontext as _no_grad  # where no gradient is read

    from mindspore.common.api import _pynative_executor
try:
    from mindspore.utils import MsDispatchMode
except ImportError:  # before MindSpore 2.9
    MsDispatchMode = None
try:
    from mindspore._c_expression.amp import get_curr_amp_strategy
except ImportError:
    get_curr_amp_strategy = None

__all__ = ["operators_of_cells", "watch_named"]

NAME = mindspore_.NAME
MODULE_WORD = "Cell"
# An input, and what is made of it before the first parameter, looks like everything else.
KNOWS_WHAT_NEEDS_GRADIENTS = False
GIVES_OWN_PARTS = False

# Frames that tell where Python stands: in the call of a cell, or called by a backward pass.
_CALL = nn.Cell.__call__.__code__
_BACKWARD = type(_pynative_executor).grad.__code__
# What MindSpore's wrapper of a jit function asks, each time, before it compiles or runs compiled.
_JIT_SWITCH = "MS_JIT"
_ALWAYS = (
    {"always_call": True}  # since MindSpore 2.10
    if "always_call" in inspect.signature(nn.Cell.register_forward_hook).parameters
    else {}
)
_NEVER_CALLED = (nn.Cell.construct, nn.CellList.construct, nn.CellDict.construct)

# What `amp.auto_mixed_precision` puts around a network.
_WRAPPER = "_OutputTo32"

is_tensor = mindspore_.is_tensor


def lacks() -> list[Message]:
    """What an older MindSpore cannot tell."""
    found = [] if _ALWAYS else [Message("single_file.no_end")]
    return found if MsDispatchMode is not None else [*found, Message("single_file.no_operators")]


def check_mode(operators: bool = False, compiled: Compiled = "boundary") -> None:
    """Refuse what no hook can see, and what this version cannot do.

    Raises
    ------
    NotImplementedError
        In GRAPH_MODE and in ``jit(capture_mode="trace")``; for operators before MindSpore 2.9.
    """
    if mindspore.get_context("mode") == mindspore.GRAPH_MODE:
        raise NotOfferedError(Message("frameworks.graph_mode"))
    mindspore_.refuse_in_trace()
    if operators:
        _check_operators()


def _check_operators() -> None:
    if MsDispatchMode is None:
        version = mindspore.__version__
        raise NotOfferedError(Message("frameworks.no_operators", version=version))


def layers(net: Any, compiled: Compiled) -> tuple[list[SeenLayer], list[Unseen]]:
    """Every cell of a network that can be watched, and the parts that cannot.

    A cell whose `construct` is a jit function is watched itself; the cells in it are not among the
    layers, except with ``compiled="eager"`` where `eager` reaches it. Before MindSpore 2.10, calls
    of a cell with a `bprop` of its own are seen to begin, but not to end.
    """
    paths: dict[Any, list[str]] = {}
    hidden: dict[Any, str] = {}
    for path, cell in _reachable("", net, compiled, hidden):
        paths.setdefault(cell, []).append(path)
    unseen = [Unseen("compiled", path) for path in hidden.values()]
    if not _ALWAYS:
        unseen += [Unseen("bprop", first) for cell, (first, *_) in paths.items() if cell.has_bprop]
    return [_seen(cell, first, others) for cell, (first, *others) in paths.items()], unseen


def _reachable(
    path: str, cell: Any, compiled: Compiled, hidden: dict[Any, str]
) -> Iterator[tuple[str, Any]]:
    """Every cell under every path but for those inside compiled ones, which go to `hidden`."""
    if type(cell).__name__ == _WRAPPER:
        cell = cell._cells["_backbone"]
    yield path, cell
    if _is_jitted(cell) and (compiled == "boundary" or not _asks_switch(cell)):
        hidden.setdefault(cell, path)
        return
    for name, inner in cell._cells.items():
        if inner is not None and name not in mindspore_.HELPERS:
            yield from _reachable(f"{path}.{name}" if path else name, inner, compiled, hidden)


def _is_jitted(cell: Any) -> bool:
    return bool(getattr(cell.construct, "__wrapped_by_jit__", False))


def _asks_switch(cell: Any) -> bool:
    """Whether a jit function can be told to run as written; those of other capture modes cannot."""
    function = getattr(cell.construct, "__func__", cell.construct)
    return _JIT_SWITCH in function.__code__.co_consts


def _seen(cell: Any, path: str, aliases: Sequence[str]) -> SeenLayer:
    settings = settings_of(mindspore_.kind_of(cell), mindspore_.settings_of_cell(cell), NAME)
    return SeenLayer(
        path,
        cell,
        type(cell).__name__,
        settings | {"training": bool(cell.training)},
        tuple(aliases),
        type(cell).construct not in _NEVER_CALLED,
    )


def _switch_off() -> Callable[[], None]:
    before = os.environ.get(_JIT_SWITCH)
    os.environ[_JIT_SWITCH] = "0"

    def restore() -> None:
        if before is None:
            os.environ.pop(_JIT_SWITCH, None)
        else:
            os.environ[_JIT_SWITCH] = before

    return restore


_eager = SharedState(_switch_off)


def eager() -> AbstractContextManager[Any]:
    """A context in which jit functions run as they are written, those outside of cells too."""
    return _eager()


def watch_calls(layer: SeenLayer, before: Before, after: After) -> list[Handle]:
    """Have the two called around each call of a cell.

    `after` is not called for what is no ``Exception`` and, before MindSpore 2.10, for no exception
    and not where a cell has a `bprop`.
    """
    if not layer.has_forward:
        return []

    # A jit function that calls a hooked cell has the hooks compiled, without keywords: these then
    # do nothing, and are no lambdas, which the compiler cannot read.
    def begin(cell: Any, args: Any, kwargs: Any = None) -> None:
        if kwargs is not None:
            before(args, kwargs, _call_frame())

    def end(cell: Any, args: Any, kwargs: Any, *output: Any) -> None:
        if len(output) > 0:
            after(args, kwargs, output[0], _is_raised_here())

    cell = layer.module
    return [cell.register_forward_pre_hook(begin, with_kwargs=True), _register_after(cell, end)]


def _register_after(cell: Any, hook: Callable[..., None]) -> Handle:
    """Register a hook for after the call of a cell, also of one that has a `bprop`.

    MindSpore registers none there, without a word, though it would run it as any other.
    """
    had = cell.has_bprop
    cell.has_bprop = had and not _ALWAYS
    try:
        handle: Handle = cell.register_forward_hook(hook, with_kwargs=True, **_ALWAYS)
    finally:
        cell.has_bprop = had
    return handle


def _call_frame() -> FrameType | None:
    """The frame of the call of the cell whose hook runs now."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code is not _CALL:
        frame = frame.f_back
    return frame


def _is_raised_here() -> bool:
    """Whether the call whose hook runs now has raised what is being handled.

    The innermost frame that caught it is then one between the hook and the call; an exception that
    the user handles around the call was caught outside.
    """
    error = sys.exc_info()[1]
    if error is None or error.__traceback__ is None:
        return False
    catching = error.__traceback__.tb_frame
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code is not _CALL:
        if frame is catching:
            return True
        frame = frame.f_back
    return False


@contextmanager
def undisturbed(
    layers: Sequence[SeenLayer], operators: bool, miss: Callable[[str, str], None]
) -> Iterator[None]:
    """A context that has nothing to do: MindSpore chooses its kernels whatever is watched."""
    yield


class _Local(threading.local):
    quiet = 0
    is_ending = False  # an operator, whose outputs are in no graph yet, or in one that is replaced

    def __init__(self) -> None:
        self.modes: list[Any] = []  # ours, the last one sees an operator first


_local = _Local()


@contextmanager
def quiet() -> Iterator[None]:
    """A context for the recorder's own operations, which are then not seen.

    Values are read by ``asnumpy()`` alone, which is no operation: nothing else is needed.
    """
    _local.quiet += 1
    named_operators.enter_silence()
    try:
        yield
    finally:
        named_operators.leave_silence()
        _local.quiet -= 1


def recover(grad: bool) -> None:
    """Undo what `quiet` leaves behind where an interrupt came while it began or ended."""
    _local.quiet = 0
    named_operators.recover()


def abandon() -> None:
    """Drop the graph of a step that was broken off: the next backward would read of it."""
    _pynative_executor.clear_res()


_Begin = Callable[[ApiCall, tuple[Any, ...], Mapping[str, Any]], Any]
_End = Callable[[Any, Any, bool], None]
# Primitives that have given no tensor, such as `typeof`.
_gives_none: set[str] = set()


@contextmanager
def watch_functions(begin: _Begin, end: _End) -> Iterator[None]:
    """A context in which the primitives that this thread runs forward are seen.

    Raises
    ------
    NotImplementedError
        Before MindSpore 2.9.
    """
    _check_operators()
    mode = _mode(begin, end)
    mode.__enter__()
    _local.modes.append(mode)
    try:
        yield
    finally:
        _leave(mode)


def _leave(mode: Any) -> None:
    """Take a mode away; MindSpore takes the last one, whichever is told to go."""
    mode.is_left = True
    if mode not in _local.modes:  # of another thread
        return
    at = _local.modes.index(mode)
    above = _local.modes[at + 1 :]
    for each in reversed(_local.modes[at:]):
        each.__exit__(None, None, None)
    for each in above:
        each.__enter__()
    _local.modes.remove(mode)


def _mode(begin: _Begin, end: _End) -> Any:
    class Mode(MsDispatchMode):  # type: ignore[misc]
        is_left = False

        def __ms_dispatch__(self, func: Any, args: Any, kwargs: Any = None) -> Any:
            # The kernels of a backward pass are called by it; what it recomputes, by a cell.
            caller = sys._getframe(1).f_code
            is_seen = not (self.is_left or _local.quiet or func.name in _gives_none)
            if not is_seen or caller is _BACKWARD:
                return func(*args)
            return _dispatched(func, args, begin, end)

    return Mode()


# How many outputs of a primitive are values; the others are memory that its backward pass uses, in
# which anything may stand on CPU, also NaN.
_SET = {"BatchNorm": 1, "LSTM": 3}


def _dispatched(func: Any, args: tuple[Any, ...], begin: _Begin, end: _End) -> Any:
    token = begin(api_call(func.name), _given(func.name, args), {})
    if token is None:
        return func(*args)
    try:
        output = func(*args)
    except BaseException:
        end(token, None, True)
        raise
    if not _holds_tensor(output):
        _gives_none.add(func.name)
    _local.is_ending = True
    try:
        end(token, output[: _SET.get(func.name)] if isinstance(output, tuple) else output, False)
    finally:
        _local.is_ending = False
    return output


# Primitives of mint that do not end in Ext; those of a tensor and a number first.
_WITH_NUMBER = {"Muls": "Mul", "Divs": "Div"}
_OF_MINT = _WITH_NUMBER | {"Dense": "Linear", "GatherD": "Gather"}
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def _spellings(home: Any) -> dict[str, str]:
    """Functions of a module by their names without underscores."""
    names = (name for name, value in vars(home).items() if name.islower() and callable(value))
    return {name.replace("_", ""): name for name in names if name == name.strip("_")}


_FUNCTIONS = _spellings(ops)
_MINT = {"MintFunctional": _spellings(mint.nn.functional), "Mint": _spellings(mint)}


def api_call(name: str) -> ApiCall:
    """What a primitive is called.

    Those that mint was given beside the older ones have the arguments of the function of mint, and
    its name: ``Mint.add`` for AddExt, ``MintFunctional.layer_norm`` for LayerNormExt. The others
    are ``Primitive.bias_add`` of layer ``BiasAdd``.
    """
    stem = _OF_MINT.get(name) or re.sub(r"(Ext)?(View)?$", "", name)
    if stem != name:
        for category, known in _MINT.items():
            if stem.lower() in known:
                return ApiCall(f"{category}.{known[stem.lower()]}")
    word = _FUNCTIONS.get(name.lower()) or _WORD.sub("_", name).lower()
    return ApiCall(f"Primitive.{word}", name)


def _given(name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments up to the last tensor.

    What follows are numbers of the primitive's own, such as those of dtypes, and defaults.
    """
    # Older primitives arrive as themselves, their name and all arguments.
    if len(args) == 3 and args[1] == name and isinstance(args[2], tuple):
        args = args[2]
    if name in _WITH_NUMBER:
        return args
    last = max((i for i, value in enumerate(args) if _holds_tensor(value)), default=-1)
    return args[: last + 1]


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_holds_tensor, value))
    return is_tensor(value)


class _OptimizerCalls:
    """Stands in front of the calls of the optimizers of one base class while they are watched."""

    def __init__(self, base: Any) -> None:
        self.base, self.own = base, vars(base).get("__call__")
        self.watches: list[_OptimizerWatch] = []
        inner = base.__call__

        def call(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            with ExitStack() as stack:
                for watch in tuple(self.watches):
                    watch.enter()
                    stack.callback(watch.leave)
                return inner(optimizer, *args, **kwargs)

        self.call = call
        base.__call__ = call

    @property
    def is_first(self) -> bool:
        """Whether nobody else has put anything in front of it."""
        return vars(self.base).get("__call__") is self.call

    def restore(self) -> None:
        """Have the class as it was; what others have put in front stays, and this does nothing."""
        if not self.is_first:
            return
        if self.own is None:
            del self.base.__call__
        else:
            self.base.__call__ = self.own


_optimizer_calls: dict[Any, _OptimizerCalls] = {}


class _OptimizerWatch:
    """The two functions around each call of the optimizers of one base class."""

    def __init__(self, base: Any, enter: Callable[[], None], leave: Callable[[], None]) -> None:
        self.enter, self.leave = enter, leave
        calls = _optimizer_calls.get(base)
        if calls is None or not calls.is_first:
            calls = _optimizer_calls[base] = _OptimizerCalls(base)
        self.calls = calls
        calls.watches.append(self)

    def remove(self) -> None:
        """Take it away, and the last one what stands in front of the calls."""
        if self in self.calls.watches:
            self.calls.watches.remove(self)
            if not self.calls.watches:
                self.calls.restore()


def watch_optimizers(enter: Callable[[], None], leave: Callable[[], None]) -> list[Handle]:
    """Have the two called around each step of an optimizer in PyNative mode."""
    bases = [nn.Optimizer]
    with suppress(ImportError):
        from mindspore.experimental.optim import Optimizer

        bases.append(Optimizer)
    return [_OptimizerWatch(base, enter, leave) for base in bases]


def facts(tensor: Any) -> ValueFacts:
    """What a tensor is; works for tensors without values too."""
    shape = tuple(int(length) for length in tensor.shape)
    try:
        in_order = tensor.is_contiguous()
        strides = () if in_order else tuple(int(step) for step in tensor.stride())
    except (AttributeError, TypeError, ValueError, RuntimeError):  # of unknown lengths
        strides = ()
    device = getattr(tensor, "device", None) or mindspore.get_context("device_target")
    return ValueFacts(mindspore_.dtype_name(tensor.dtype), shape, strides, str(device).lower())


def version(tensor: Any) -> int | None:
    """None: MindSpore's counter stays where it is at most of what changes values in place."""
    return None


_MARK = "troubleshooter_nb"


class _Mark:
    """What is put on a tensor to know it again."""

    __slots__ = ("__weakref__",)


def is_parameter(tensor: Any) -> bool:
    """Whether a tensor is one that training writes, perhaps without raising its version."""
    return isinstance(tensor, mindspore.Parameter)


def identity(tensor: Any) -> Any:
    """An object that stands for a tensor as long as it lives, for weak references too.

    One tensor has several Python objects: an operator is given other ones than the user has.
    """
    if not hasattr(tensor, "_get_user_data"):  # older versions
        return tensor
    mark = tensor._get_user_data(_MARK)
    if mark is None:
        mark = _Mark()
        tensor._set_user_data(_MARK, mark)
    return mark


def view_of(tensor: Any) -> Any:
    """The address of the memory a tensor lies in, which tells views while that tensor lives."""
    try:
        return tensor.untyped_storage().data_ptr() or None
    except (AttributeError, TypeError, ValueError, RuntimeError):  # older versions; no memory yet
        return None


def contents(tensor: Any) -> Any:
    """None: nothing tells whether the memory was written since."""
    return None


def copied(tensor: Any) -> np.ndarray:
    """Values in memory of their own, in C order; bfloat16 and float8 of ml_dtypes.

    An operation that failed before this, and says so only now, is the user's error and passes.

    Raises
    ------
    ValueError
        If the tensor has no values yet, or numpy has nothing for its dtype.
    """
    return np.array(_host(tensor), order="C")


def shown(tensor: Any) -> np.ndarray:
    """Values of the memory of the tensor itself."""
    return _host(tensor)


def _host(tensor: Any) -> np.ndarray:
    try:
        return mindspore_.to_numpy(tensor, copy=False)
    except ArgumentError:
        raise
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            Message("frameworks.no_values", dtype=mindspore_.dtype_name(tensor.dtype), why=error)
        ) from error


def measured(tensor: Any, fingerprint: bool) -> Any:
    """Statistics of a tensor; MindSpore's values are read at once.

    Raises
    ------
    ValueError
        As `copied`.
    """
    from troubleshooter_nb.metrics.sketches import statistics_of

    return statistics_of(np.asarray(_host(tensor), order="C"), fingerprint)


def read_measured(measured: Sequence[Any]) -> list[Mapping[str, Any]]:
    """The statistics, as they are."""
    return list(measured)


# A hook that is removed inside its own call ends the process (MindSpore 2.10), so those that are
# to go while any runs wait for the next time none does.
_waiting: list[Any] = []


class _Running(threading.local):
    count = 0


_running = _Running()


@constexpr(check=False)  # type: ignore[untyped-decorator]
def _is_none(function: Any) -> bool:
    return function is None


def _seen_by_python() -> None:
    """What the compiler hands to a `constexpr` as None."""


class _Receiver:
    """What a gradient hook calls."""

    def __init__(self, receive: Callable[[Any], None]) -> None:
        self.receive: Callable[[Any], None] | None = receive

    def deliver(self, gradient: Any) -> None:
        if self.receive is None:
            return
        _running.count += 1
        try:
            self.receive(gradient)
        finally:
            _running.count -= 1


class _Watched:
    """A gradient hook. A leaf keeps its hooks beyond the step: it is held until they are gone."""

    def __init__(self, tensor: Any, receive: Callable[[Any], None]) -> None:
        self.receiver = receiver = _Receiver(receive)
        self.leaf = tensor if getattr(tensor, "_is_leaf", True) else None

        # A jit function has the hooks of what it is given compiled, and they must do nothing there.
        # A function called here would be read by the compiler, the attribute of an object is not.
        def hook(gradient: Any) -> None:
            if not _is_none(_seen_by_python):
                receiver.deliver(gradient)

        self.handle: Any = tensor.register_hook(hook)

    def remove(self) -> None:
        """Take it away, later if a hook runs now; nothing is received from here on."""
        self.receiver.receive = None
        if self.handle is not None:
            _waiting.append((self.handle, self.leaf))
            self.handle = self.leaf = None
        remove_waiting()


def remove_waiting() -> None:
    """Take away what was removed while a hook ran, unless one runs now."""
    while _waiting and not _running.count:
        _waiting.pop()[0].remove()


def watch_gradient(tensor: Any, receive: Callable[[Any], None]) -> Handle | None:
    """Have `receive` called with each gradient of a tensor, the total of all its uses.

    None for integers, for what no `value_and_grad` under way can reach, and for what an operator
    gave until it has returned; a parameter can be watched at any time. Nothing is received after
    the handle was removed.
    """
    remove_waiting()
    kinds = ("Float", "Complex")
    if not any(kind in str(tensor.dtype) for kind in kinds):
        return None
    if isinstance(tensor, mindspore.Parameter):
        return _Watched(tensor, receive) if tensor.requires_grad else None
    if _local.is_ending or not _pynative_executor.requires_grad():
        return None
    needs = getattr(tensor, "_requires_grad", None)  # None also before MindSpore 2.10
    if needs is not None and not needs:
        return None
    return _Watched(tensor, receive)


watch_accumulated = watch_gradient  # no gradient is kept from pass to pass


def origin(tensor: Any) -> Any:
    """What made a tensor, as the graph knows it; None before MindSpore 2.10."""
    return mindspore_graph.origin_of(tensor)


def watch_own_parts(
    origins: Sequence[tuple[str, Any]],
    outputs: Iterable[Any],
    receive: Callable[[str, Any], None],
) -> list[Handle] | None:
    """Hooks of the nodes inside the call that lead to its inputs; None if it has too many."""

    def receive_parts(given: Slotted, arrived: Slotted) -> None:
        for slot, gradient in given:
            if gradient is not None:
                receive(slot, gradient)

    call = _watch_call(origins, [("", output) for output in outputs], receive_parts)
    if call is None:
        return None
    return [call] if call.nodes else []


def watch_node(
    origins: Slotted, outputs: Slotted, receive: Callable[[Slotted, Slotted], None]
) -> Handle | None:
    """Hooks of the nodes of the whole call; None where it has none, or too many."""
    call = _watch_call(origins, outputs, receive)
    return call if call is not None and call.nodes else None


def _watch_call(
    origins: Slotted, outputs: Slotted, receive: Callable[[Slotted, Slotted], None]
) -> mindspore_graph.WatchedCall | None:
    mindspore_graph.forget_passes()
    return mindspore_graph.watch_call(origins, outputs, receive, _GRADIENTS)


class _Gradients:
    """What `mindspore_graph` does with gradients."""

    def add(self, one: Any, other: Any) -> Any:
        """Add two, unseen."""
        with quiet(), _no_grad():
            return one + other

    def watch(self, tensor: Any, receive: Callable[[Any], None]) -> Handle:
        """Have the gradients of a tensor received."""
        return _Watched(tensor, receive)


_GRADIENTS = _Gradients()


def is_view(tensor: Any) -> bool:
    """False: MindSpore does not tell."""
    return False


def is_recomputing(again: bool = False) -> bool:
    """Whether what runs now was called by a backward pass, which the frames of Python tell."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is _BACKWARD:
            return True
        frame = frame.f_back
    return False


def segment(frame: FrameType | None, until: FrameType | None) -> tuple[int, int] | None:
    """None: MindSpore does not tell segments apart."""
    return None


def owned(layer: SeenLayer) -> list[Owned]:
    """Parameters and buffers of a cell itself; of one that runs compiled now, of all inside.

    A tensor among the attributes of a cell of the user's own, such as a mask, is a buffer in all
    but name: torch knows no other way to keep it.
    """
    cell = layer.module
    is_written = _asks_switch(cell) and os.environ.get(_JIT_SWITCH) == "0"
    inside = cell.parameters_and_names(expand=_is_jitted(cell) and not is_written)
    found = [Owned(leaf, parameter.name, parameter, _role(leaf)) for leaf, parameter in inside]
    kept = dict(getattr(cell, "_buffers", {}))  # which no checkpoint holds
    if "." not in mindspore_.kind_of(cell):  # those of nn keep what no call reads
        kept |= vars(cell)
    for leaf, tensor in kept.items():
        if is_tensor(tensor) and not isinstance(tensor, mindspore.Parameter):
            name = f"{layer.path}.{leaf}" if layer.path else leaf
            found.append(Owned(leaf, name, tensor, "buffer"))
    return found


def _role(leaf: str) -> Role:
    return "buffer" if leaf.rpartition(".")[2] in BUFFER_LEAVES else "parameter"


def state() -> tuple[bool, str]:
    """Whether gradients are recorded, and the dtype of automatic mixed precision or ""."""
    strategy = get_curr_amp_strategy() if get_curr_amp_strategy is not None else None
    dtype = getattr(strategy, "get_amp_dtype", None)
    precision = mindspore_.dtype_name(dtype()) if dtype is not None else ""
    return bool(_pynative_executor.requires_grad()), precision


def random_state() -> np.ndarray:
    """The state of MindSpore's generator, as bytes; empty before MindSpore 2.3."""
    if not hasattr(mindspore, "get_rng_state"):
        return np.zeros(0, np.uint8)
    return np.array(mindspore.get_rng_state().asnumpy()).view(np.uint8)
