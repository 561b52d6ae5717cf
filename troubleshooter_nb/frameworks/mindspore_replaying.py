"""MindSpore's PyNative mode as a replay sees it; see `frameworks.replaying.Replaying`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import mindspore
import numpy as np

from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.frameworks import mindspore_, mindspore_seeds
from troubleshooter_nb.frameworks.replaying import Called, Conditions
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import dtype_from_token

try:
    from mindspore.train import amp
except ImportError:
    amp = None


def inside(layer: Any) -> Sequence[Any]:
    """A cell and all cells in it, each once."""
    found: dict[int, Any] = {}
    for _, cell in mindspore_._cells("", layer):
        found.setdefault(id(cell), cell)
    return list(found.values())


def _own_values(layer: Any) -> Mapping[str, Any]:
    """Parameters of a cell itself, and tensors among its attributes."""
    held = {leaf: tensor for leaf, tensor in layer._params.items() if tensor is not None}
    kept = {**getattr(layer, "_buffers", {}), **vars(layer)}
    return {leaf: one for leaf, one in kept.items() if mindspore_.is_tensor(one)} | held


def lead_dtype(layer: Any) -> str:
    """Dtype of the first floating-point parameter; "" without any."""
    kinds = (mindspore_.dtype_name(tensor.dtype) for tensor in layer.get_parameters())
    return next((kind for kind in kinds if "float" in kind), "")


def tensor_like(layer: Any, array: np.ndarray, strides: Sequence[int] = (), dtype: str = "") -> Any:
    """A tensor in C order: no other can be made from values."""
    if dtype and _is_float(array.dtype):
        array = array.astype(dtype_from_token(dtype))
    return mindspore_._tensor_of(array)


def _is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or dtype.isbuiltin == 2


def plain_value(kind: str, text: str) -> Any:
    """A dtype, slice or ellipsis.

    Raises
    ------
    ValueError
        For any other.
    """
    if kind == "ellipsis":
        return ...
    if kind == "slice":
        found = re.fullmatch(r"slice\((None|-?\d+), (None|-?\d+), (None|-?\d+)\)", text)
        if found:
            return slice(*(None if part == "None" else int(part) for part in found.groups()))
    name = text.rpartition(".")[2].lower()
    dtype = getattr(mindspore, {"bool": "bool_"}.get(name, name), None)
    if kind == "dtype" and dtype is not None and not callable(dtype):
        return dtype
    raise ArgumentError(Message("replays.no_such_value", kind=kind, text=text))


def call(
    layer: Any,
    given: Callable[[], tuple[Sequence[Any], Mapping[str, Any]]],
    conditions: Conditions,
) -> Called:
    """Call a cell; the values of its parameters are put back afterwards."""
    generators = mindspore_seeds.generators()
    with ExitStack() as undo:
        for facet in generators.values():
            undo.callback(facet.write, facet.read())
        for cell in inside(layer):
            undo.enter_context(_restored(cell))
        _lend(layer, conditions)
        undo.enter_context(_autocast(conditions))
        args, keywords = given()
        if conditions.random is not None and conditions.random.size:
            bits = np.array(conditions.random, np.uint8)
            mindspore.set_rng_state(mindspore.Tensor(bits))
        state = getattr(mindspore, "get_rng_state", None)
        before = None if state is None else state().asnumpy().tobytes()
        output = layer(*args, **keywords)
        drew = state is not None and state().asnumpy().tobytes() != before
        return Called(output, drew)


@contextmanager
def _restored(cell: Any) -> Iterator[None]:
    """Have the attributes, the mode and the values of a cell as they were."""
    attributes, held = dict(vars(cell)), dict(cell._params)
    values = {
        name: mindspore.Tensor(np.array(_bits(one)), one.dtype)
        for name, one in _own_values(cell).items()
    }
    training, phase = cell.training, cell.phase
    try:
        yield
    finally:
        now = vars(cell)
        for name in now.keys() - attributes.keys():
            del now[name]
        now.update(
            {name: value for name, value in attributes.items() if now.get(name) is not value}
        )
        cell._params.update(held)
        for name, tensor in _own_values(cell).items():
            if name in values and not _equal(tensor, values[name]):
                _write(tensor, values[name])
        if cell.training != training:
            cell.add_flags(training=training)
        cell.phase = phase


def _bits(tensor: Any) -> np.ndarray:
    array = mindspore_.to_numpy(tensor)
    return array.astype(np.float32) if array.dtype.isbuiltin == 2 else array


def _equal(one: Any, other: Any) -> bool:
    return mindspore_.to_numpy(one).tobytes() == mindspore_.to_numpy(other).tobytes()


def _write(tensor: Any, values: Any) -> None:
    if isinstance(tensor, mindspore.Parameter):
        tensor.set_data(values)
    else:
        tensor.assign_value(values)


def _lend(layer: Any, conditions: Conditions) -> None:
    """Put in the values and modes of the conditions."""
    for cell in inside(layer):
        training = conditions.training.get(id(cell), cell.training)
        if cell.training != training:
            cell.add_flags(training=training)
        for leaf, tensor in _own_values(cell).items():
            array = conditions.values.get(id(tensor))
            is_parameter = isinstance(tensor, mindspore.Parameter)
            if conditions.dtype and "Float" in str(tensor.dtype):
                array = mindspore_.to_numpy(tensor) if array is None else array
                wide = mindspore_._tensor_of(array.astype(conditions.dtype))
                if is_parameter:
                    wide = mindspore.Parameter(wide, tensor.name, tensor.requires_grad)
                (cell._params if is_parameter else vars(cell))[leaf] = wide
            elif array is not None:
                made = mindspore_._tensor_of(array.reshape(tuple(tensor.shape)), tensor.dtype)
                if is_parameter:
                    tensor.set_data(made)
                else:
                    vars(cell)[leaf] = made


def _autocast(conditions: Conditions) -> AbstractContextManager[Any]:
    """Automatic mixed precision of the level ``auto``, the one that a framework tells of."""
    if amp is None or conditions.dtype or not conditions.autocast:
        return nullcontext()
    dtype = getattr(mindspore, conditions.autocast)
    lists = amp.AMP_AUTO_WHITE_LIST, amp.AMP_AUTO_BLACK_LIST
    made: AbstractContextManager[Any] = amp.AmpDecorator(amp.AmpLevel.AmpAuto, dtype, *lists)
    return made
