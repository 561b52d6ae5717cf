"""What the package needs from MindSpore."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from os import PathLike
from typing import Any

import mindspore
import numpy as np
from mindspore import mint, nn, ops
from mindspore.communication import GlobalComm, get_group_size, get_rank

from troubleshooter_nb.errors import (
    ArgumentError,
    ArgumentTypeError,
    NoGradientError,
    NotOfferedError,
)
from troubleshooter_nb.frameworks import (
    LayerEntry,
    LayerFacts,
    Named,
    is_plain,
    mindspore_seeds,
    parts_of,
)
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import name_of, small_float
from troubleshooter_nb.naming import BUFFER_LEAVES

try:
    from mindspore.graph.jit_context import jit_context
except ImportError:  # before MindSpore 2.10
    from mindspore.common.jit_context import jit_context

NAME = "mindspore"

# MindSpore's name of a dtype -> integers of its size, and what the same bits mean to ml_dtypes.
_BITS: dict[str, tuple[Any, Any]] = {
    "BFloat16": (np.uint16, small_float("bfloat16")),
    "Float8E4M3FN": (np.uint8, small_float("float8_e4m3fn")),
    "Float8E5M2": (np.uint8, small_float("float8_e5m2")),
}


def is_tensor(value: Any) -> bool:
    """Whether the value is a MindSpore tensor, parameters included."""
    return isinstance(value, mindspore.Tensor)


def to_numpy(value: Any, *, copy: bool = True) -> np.ndarray:
    """Host copy with the same values; bfloat16 and float8 as ml_dtypes, bit for bit.

    Without `copy` it is what ``asnumpy()`` gives, which may share the memory of the tensor.

    Raises
    ------
    ValueError
        If numpy has nothing for its dtype (hifloat8).
    NotImplementedError
        In ``jit(capture_mode="trace")``, where Python sees the values of the first call only.
    """
    refuse_in_trace()
    array = _standard(value.asnumpy(), value.dtype)
    return np.array(array) if copy else array


def is_network(value: Any) -> bool:
    """Whether the value is a MindSpore cell."""
    return isinstance(value, nn.Cell)


def layers(net: Any) -> list[LayerFacts]:
    """Every cell of a network, containers and the network itself included, parents first.

    A parameter has one name, under which it is saved once, also where cells share it; MindSpore
    takes that name from the path set last. Buffers of `register_buffer` are not saved and not
    listed.
    """
    paths = defaultdict(list)
    for path, cell in _cells("", net):
        paths[cell].append(path)
    return [
        LayerFacts(first, kind_of(cell), _entries(cell), settings_of_cell(cell), tuple(others))
        for cell, (first, *others) in paths.items()
    ]


HELPERS = ("_recompute_cell",)  # what MindSpore puts into a cell, which has no parameters


def _cells(path: str, cell: Any) -> Iterator[tuple[str, Any]]:
    """Every cell under every path; what is public in Cell gives a shared one only once."""
    yield path, cell
    for name, inner in cell._cells.items():
        if inner is not None and name not in HELPERS:
            yield from _cells(f"{path}.{name}" if path else name, inner)


_KINDS = {
    kind: f"nn.{name}"
    for name, kind in vars(nn).items()
    if isinstance(kind, type) and issubclass(kind, nn.Cell) and kind is not nn.Cell
}
for _name, _kind_of_mint in vars(mint.nn).items():
    # What both offer is called as in nn, but for the layers made for mint: XyzExt, and Linear.
    if _kind_of_mint is mint.nn.Linear or (
        isinstance(_kind_of_mint, type)
        and issubclass(_kind_of_mint, nn.Cell)
        and _kind_of_mint is not nn.Cell
        and _KINDS.get(_kind_of_mint, "Ext").endswith("Ext")
    ):
        _KINDS[_kind_of_mint] = f"mint.nn.{_name}"


def kind_of(cell: Any) -> str:
    """The class of a cell as `LayerFacts.kind` gives it."""
    known = (_KINDS[base] for base in type(cell).__mro__ if base in _KINDS)
    return next(known, type(cell).__name__)


def _entries(cell: Any) -> tuple[LayerEntry, ...]:
    return tuple(
        LayerEntry(
            leaf,
            parameter.name,
            tuple(parameter.shape),
            dtype_name(parameter.dtype),
            "buffer" if leaf in BUFFER_LEAVES else "parameter",
        )
        for leaf, parameter in cell.parameters_and_names(expand=False)
    )


def dtype_name(dtype: Any) -> str:
    """A dtype as numpy or ml_dtypes spells it."""
    if str(dtype) in _BITS:
        return name_of(_BITS[str(dtype)][1])
    return str(dtype).lower()


_OWN_TO_CELLS = set(vars(nn.Cell()))
_ONE_AXIS = ("nn.Conv1d", "nn.Conv1dTranspose", "nn.MaxPool1d", "nn.AvgPool1d")
_KEEPS_AXIS = {"nn.Softmax": "softmax", "nn.LogSoftmax": "log_softmax"}
_MOMENTUM_OF_OLD = ("nn.BatchNorm1d", "nn.BatchNorm2d", "nn.SyncBatchNorm")
# What a cell computes with is in its primitive, whatever its attributes say.
_IN_PRIMITIVE = {
    "nn.LayerNorm": ("layer_norm", {"epsilon": "epsilon"}),
    "nn.Conv2d": ("conv2d", {"pad_mode": "pad_mode", "padding": "pad"}),
    **dict.fromkeys(_MOMENTUM_OF_OLD, ("bn_train", {"eps": "epsilon"})),
    "nn.ELU": ("elu", {"alpha": "alpha"}),
    "nn.CELU": ("celu", {"alpha": "alpha"}),
}


def settings_of_cell(cell: Any) -> dict[str, Any]:
    """The plain attributes, put back into what the constructor was given."""
    kind = kind_of(cell)
    if kind == "nn.BatchNorm3d":
        return settings_of_cell(cell.bn2d)
    settings = {
        name: value
        for name, value in vars(cell).items()
        if not name.startswith("_") and name not in _OWN_TO_CELLS and is_plain(value)
    }
    settings |= _settings_of_primitive(cell, kind)
    if kind in _ONE_AXIS:  # they compute as the 2-D layer, with an axis of size 1 in front
        for name, value in settings.items():
            settings[name] = value[len(value) // 2 :] if isinstance(value, tuple) else value
    if isinstance(settings.get("pad_mode"), str):
        settings["pad_mode"] = settings["pad_mode"].lower()
    if kind in _MOMENTUM_OF_OLD:  # they keep the weight of the new statistics
        settings["momentum"] = _rest(settings.get("momentum"))
    if kind.startswith("mint.") and hasattr(cell, "bias"):
        settings["bias"] = cell.bias is not None
    if kind == "nn.GELU":
        settings["approximate"] = settings.get("approximate") in (True, "tanh")
    if kind == "nn.Dropout":  # has no effect where p is given
        keep = settings.pop("keep_prob", None)
        settings["p"] = _rest(keep) if settings.get("p") is None else settings["p"]
    if kind in _KEEPS_AXIS:
        axis = getattr(getattr(cell, _KEEPS_AXIS[kind], None), "axis", None)
        settings["axis"] = axis[0] if isinstance(axis, tuple) and len(axis) == 1 else axis
    return settings


def _settings_of_primitive(cell: Any, kind: str) -> dict[str, Any]:
    name, words = _IN_PRIMITIVE.get(kind, ("", {}))
    if name == "bn_train":
        of_batch = cell.use_batch_statistics
        name = "bn_train" if (cell.training if of_batch is None else of_batch) else "bn_infer"
    primitive = getattr(cell, name, None)
    found = {word: getattr(primitive, its, None) for word, its in words.items()}
    return {word: value for word, value in found.items() if is_plain(value) and value is not None}


def _rest(share: float | None) -> float | None:
    """1 - share as one would write it: 0.1, not 0.09999999999999998."""
    return None if share is None else round(1 - share, 12)


def load_checkpoint(net: Any, file: str | PathLike[str]) -> tuple[list[str], list[str]]:
    """Names of the network without a value, and of the file without a place."""
    missing, left = mindspore.load_param_into_net(net, mindspore.load_checkpoint(os.fspath(file)))
    return list(missing), list(left)


def save_checkpoint(net: Any, file: str | PathLike[str]) -> None:
    """Write the parameters; MindSpore adds ``.ckpt`` where it is missing."""
    mindspore.save_checkpoint(net, os.fspath(file))


def tensors(net: Any) -> dict[str, Any]:
    """The parameters themselves, by the names they are saved under."""
    return dict(net.parameters_dict())


def write(tensor: Any, array: np.ndarray) -> None:
    """Put values into a parameter in its own dtype."""
    tensor.set_data(_tensor_of(array.reshape(tuple(tensor.shape)), tensor.dtype))


def _tensor_of(array: np.ndarray, dtype: Any = None) -> Any:
    """A tensor of these values; MindSpore takes no ml_dtypes, float32 holds them exactly."""
    is_own = array.dtype.isbuiltin == 2  # those of ml_dtypes have one order only
    native = array.dtype if is_own else array.dtype.newbyteorder("=")
    plain = np.array(array, dtype=native, order="C")
    for name, (_, bits) in _BITS.items():
        if plain.dtype == bits:
            plain, dtype = plain.astype(np.float32), dtype or getattr(mindspore, name.lower())
    return mindspore.Tensor(plain) if dtype is None else mindspore.Tensor(plain, dtype)


def is_training(net: Any) -> bool:
    """Whether a network, at its root, is set to train."""
    return bool(net.training)


def outputs(net: Any, *args: np.ndarray, **kwargs: np.ndarray) -> list[Named]:
    """Names and values of what a network gives, evaluating and without gradients."""
    kinds = (tensor.dtype for tensor in tensors(net).values())
    lead = next((kind for kind in kinds if "Float" in str(kind)), mindspore.float32)

    def given(array: np.ndarray) -> Any:
        is_float = array.dtype.kind == "f" or array.dtype.isbuiltin == 2
        return _tensor_of(array, lead if is_float else None)

    modes = [(cell, cell.training, cell.phase) for _, cell in net.cells_and_names()]
    try:
        net.set_train(False)
        made = net(*map(given, args), **{name: given(array) for name, array in kwargs.items()})
        return [(name, to_numpy(tensor)) for name, tensor in parts_of(made, is_tensor)]
    finally:
        for cell, training, phase in modes:
            cell.add_flags(training=training)
            cell.phase = phase


def describe() -> dict[str, Any]:
    """Device, mode and the flags that change numbers."""
    graph = mindspore.get_context("mode") == mindspore.GRAPH_MODE
    return {
        "device": str(mindspore.get_context("device_target")).lower(),
        "mode": "graph" if graph else "pynative",
        "deterministic": mindspore.get_context("deterministic") == "ON",
        **mindspore_seeds.facts(),
    }


def refuse_in_trace() -> None:
    """Raise where Python runs only while the graph is traced."""
    if jit_context() is not None:
        raise NotOfferedError(Message("frameworks.trace"))


def _standard(array: np.ndarray, dtype: Any) -> np.ndarray:
    """The array where bfloat16 and float8 are those of ml_dtypes, not dtypes nothing else knows."""
    if str(dtype) in _BITS:
        carrier, known = _BITS[str(dtype)]
        bits: np.ndarray = array.view(carrier)
        return bits.view(known)
    if array.dtype.kind == "V":
        raise ArgumentError(Message("frameworks.no_dtype", dtype=dtype))
    return array


def rank_and_size() -> tuple[int, int]:
    """Rank of this process and number of processes; (0, 1) in a run that is not distributed."""
    # Before init(), get_rank() answers 0 as if it knew.
    return (get_rank(), get_group_size()) if GlobalComm.INITED else (0, 1)


# Hooks that have reported. Removing one inside its own call ends the process (MindSpore 2.10).
_reported: list[Any] = []


def watch_gradient(tensor: Any, receive: Callable[[np.ndarray], None]) -> None:
    """Have `receive` called with the gradient of a tensor when it first arrives.

    Outside `mindspore.grad` nothing arrives; a network's input or parameter then reports at the
    next time it does.

    Raises
    ------
    RuntimeError
        If the tensor holds no floating-point numbers.
    NotImplementedError
        In ``jit(capture_mode="trace")``, where Python sees no gradient.
    """
    refuse_in_trace()
    _check_differentiable(tensor.dtype)
    while _reported:
        _reported.pop().remove()
    done: list[bool] = []

    def hook(gradient: Any) -> None:
        if not done:
            done.append(True)
            _reported.append(handle)
            receive(to_numpy(gradient))

    handle = tensor.register_hook(hook)


def _check_differentiable(dtype: Any) -> None:
    if not any(kind in str(dtype) for kind in ("Float", "Complex")):
        raise NoGradientError(Message("frameworks.not_differentiable", dtype=str(dtype)))


# What follows is read by MindSpore's compiler. An object of a class with `jit_class` is made by
# Python while the graph is built, from constants only, and the body of a method called on it
# becomes a part of the graph. A tensor leaves the graph through `ops.Custom`, which calls Python
# with its array; `side_effect_io` keeps such a node although nobody uses its result, and keeps all
# of them in the order of the program. Gradients come in any order: their number is taken on the
# way forward and travels to them as a tensor.

_WAYS = Message("frameworks.ways")


def shown(array: np.ndarray) -> str:
    """A tensor of these values as MindSpore prints it."""
    if array.dtype.isbuiltin == 1:
        return str(mindspore.Tensor(array))
    dtype = next(name for name, (_, bits) in _BITS.items() if array.dtype == bits)
    return str(mindspore.Tensor(array.astype(np.float32), getattr(mindspore, dtype.lower())))


def compiled_save(sink: Any, *, as_text: bool) -> Any:
    """A callable for compiled code, which hands each tensor of a nested value to `sink`."""
    return _Walk(sink, as_text)


def compiled_save_grad(sink: Any, *, as_text: bool) -> Any:
    """A callable for compiled code, an identity that hands the gradient of it to `sink`.

    Its result must be used: only what flows through it has a gradient there.
    """
    return _GradientIdentity(sink, as_text)


def _in_graph(function: Any) -> Any:
    """Have the compiler read a function even where MS_JIT_IGNORE_MODULES names this package."""
    function.__jit_function__ = True
    return function


@mindspore.jit_class
class _Walk:
    """Gives away every tensor and number of a nested value, in order."""

    def __init__(self, sink: Any, as_text: bool) -> None:
        self.sink, self.as_text, self.joint = sink, as_text, sink.joint

    @_in_graph
    def __call__(self, data: Any) -> None:
        self.walk("", data)

    @_in_graph
    def walk(self, keys: str, data: Any) -> None:
        if isinstance(data, dict):
            for key in data.keys():  # noqa: SIM118 - all that the compiler takes
                self.walk(keys + self.joint + str(key), data[key])
        elif isinstance(data, (list, tuple)):
            for index in range(len(data)):
                self.walk(keys + self.joint + str(index), data[index])
        elif isinstance(data, np.ndarray):
            self.walk(keys, mindspore.Tensor(data))
        elif isinstance(data, mindspore.Tensor):
            way = _way_of_tensor(self, keys, data)
            way.give(ops.stop_gradient(data), way.number(data))
        elif isinstance(data, (bool, int, float)):
            way = _way_out(self, keys, (), None)
            way.give(data, way.number(data))
        elif data is not None:
            _Refusal(self, keys)


@mindspore.jit_class
class _GradientIdentity:
    """Returns a tensor and gives away the gradient that comes back through the result."""

    def __init__(self, sink: Any, as_text: bool) -> None:
        self.sink, self.as_text = sink, as_text

    @_in_graph
    def __call__(self, tensor: Any) -> Any:
        if isinstance(tensor, mindspore.Tensor):
            _DifferentiableCheck(tensor.dtype)
            way = _way_of_tensor(self, "", tensor)
            return _Watched(way).identity(tensor, way.number(tensor))
        _Refusal(self, "")
        return tensor


@mindspore.jit_class
class _Watched:
    """An identity with a backward function of its own.

    Not a Cell with `bprop`: where only the forward function is compiled, MindSpore 2.10 gives two
    calls of one such Cell the same gradient, in training too.
    """

    def __init__(self, way: Any) -> None:
        @_in_graph
        def forward(tensor: Any, number: Any) -> Any:
            return tensor

        @_in_graph
        def backward(tensor: Any, number: Any, out: Any, gradient: Any) -> Any:
            # depend: the gradient waits for the node, so the node stays in the graph.
            return ops.depend(gradient, way.give(gradient, number)), ops.zeros_like(number)

        def first(tensor: Any, number: Any) -> Any:
            return tensor

        try:
            self.identity = ops.Morph(forward, first, first, backward)
        except TypeError as error:
            version = mindspore.__version__
            raise NotOfferedError(Message("frameworks.old_mindspore", version=version)) from error


@_in_graph
def _way_of_tensor(owner: Any, keys: str, tensor: Any) -> Any:
    if ops.isconstant(tensor.shape):
        return _way_out(owner, keys, tensor.shape, tensor.dtype)
    return _way_out(owner, keys, None, tensor.dtype)


@_in_graph
def _way_out(owner: Any, keys: str, shape: Any, dtype: Any) -> Any:
    """The object for one tensor or number, which gets what it must know as constants."""
    if owner.as_text:
        return _Print(owner, keys, shape, dtype)
    return _Delivery(owner, keys, shape, dtype)


@mindspore.jit_class
class _Delivery:
    """One tensor of the graph, or number if `dtype` is None, on its way to Python."""

    def __init__(self, owner: Any, keys: str, shape: tuple[int, ...] | None, dtype: Any) -> None:
        sink, stem = owner.sink, owner.sink.stem(keys)
        if shape is None:
            raise NotOfferedError(Message("frameworks.dynamic_shape", name=stem, ways=_WAYS))
        if mindspore.get_context("device_target") != "CPU":
            raise NotOfferedError(Message("frameworks.cpu_only", name=stem, ways=_WAYS))
        self.is_empty = 0 in shape
        # A tensor without axes would arrive as a Python float.
        self.lacks_axes = shape == () and dtype is not None
        self.nothing = mindspore.Tensor(np.zeros(1, np.int64))

        def reserve(nothing: np.ndarray) -> np.ndarray:
            return np.array([sink.reserve(keys)], np.int64)

        def receive(array: Any, number: np.ndarray) -> np.ndarray:
            if 0 in shape:  # no empty tensor can be passed, so this is a stand-in
                array = np.zeros(shape, mindspore.dtype_to_nptype(dtype))
            array = np.reshape(array, shape)
            sink.receive(int(number[0]), keys, array if dtype is None else _standard(array, dtype))
            return number

        self.reserve, self.receive = _python_node(reserve), _python_node(receive)

    @_in_graph
    def number(self, value: Any) -> Any:
        return self.reserve(self.nothing)

    @_in_graph
    def give(self, value: Any, number: Any) -> Any:
        if self.is_empty:
            return self.receive(self.nothing, number)
        if self.lacks_axes:
            return self.receive(ops.reshape(value, (1,)), number)
        return self.receive(value, number)


@mindspore.jit_class
class _Print:
    """One tensor of the graph, or number if `dtype` is None, on its way to the screen."""

    def __init__(self, owner: Any, keys: str, shape: tuple[int, ...] | None, dtype: Any) -> None:
        self.name = f"_TS_SAVE_NAME:{owner.sink.stem(keys)}"
        self.is_empty = shape is not None and 0 in shape
        self.empty = f"Tensor(shape={list(shape or ())}, dtype={dtype}, value=[])"
        self.lacks_axes = shape == () and dtype is not None
        self.is_bfloat16 = dtype == mindspore.bfloat16
        self.print = ops.Print()

    @_in_graph
    def number(self, value: Any) -> Any:
        """No number, but something that is known only while the graph runs."""
        return ops.stop_gradient(value)

    @_in_graph
    def give(self, value: Any, number: Any) -> Any:
        if self.is_empty:
            return self.print(self.name, self.empty)
        value = ops.depend(value, number)  # a constant would print as a tuple
        if self.is_bfloat16:  # Print refuses it
            value = ops.cast(value, mindspore.float32)
        if self.lacks_axes:  # Print would give six digits and no dtype
            return self.print(self.name, ops.reshape(value, (1,)), "(0-d)")
        return self.print(self.name, value)


def _python_node(function: Callable[..., np.ndarray]) -> Any:
    """A graph node that calls a function with arrays; it returns an int64 array of shape (1,)."""
    node = ops.Custom(function, (1,), mindspore.int64, func_type="pyfunc")
    node.add_prim_attr("side_effect_io", True)
    return node


@mindspore.jit_class
class _Refusal:
    """The error for what is no tensor, raised while the graph is built."""

    def __init__(self, owner: Any, keys: str) -> None:
        raise ArgumentTypeError(Message("frameworks.not_saved", name=owner.sink.stem(keys)))


@mindspore.jit_class
class _DifferentiableCheck:
    def __init__(self, dtype: Any) -> None:
        _check_differentiable(dtype)
