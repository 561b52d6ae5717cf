"""Which layers a call of unknown class may be, by the shapes and values of its tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from troubleshooter_nb.analysis.causes.case import Call, TensorPair
from troubleshooter_nb.shapes import Shape
from troubleshooter_nb.thresholds import (
    FEWEST_TO_FIT,
    LAST_AXES,
    LAYER_SAMPLE,
    NORMALISED_HEIGHT,
    SOFTMAX_SUM,
)

# Whichever it is called, all functions are tried.
_ACTIVATION = "gelu"
_POOLS = ("maxpool2d", "avgpool2d")
_OF_CHANNELS = ("batchnorm2d", "groupnorm", "instancenorm")
_OF_FEATURES = ("layernorm", "rmsnorm")
_OF_NUMBERS = ("mul", "add")
_OF_TWO = ("add", "sub", "mul", "div")
# Axes of images and of signals: items, channels, places.
_SPATIAL = (3, 4)


def likely_layers(call: Call) -> Iterator[str]:
    """Words of layers that a forward call may be, the likelier first.

    A weight of more than two axes is that of a convolution; running statistics are those of a batch
    norm; without parameters, fewer places are pooled and more are resized, and what sums to one
    along an axis is a softmax. Two inputs are summed, multiplied, or a product of matrices; of
    three the last are keys and values. Values are looked at where they are no larger than a sample.
    """
    inputs = [tensor for tensor in call.inputs if _shape(tensor) is not None]
    if call.direction == "backward" or not inputs or not call.outputs:
        return
    given, made = _shape(inputs[0]), _shape(call.outputs[0])
    if not given or not made:
        return
    sizes = {name: _shape(tensor) for name, tensor in call.parameters.items()}
    known = {name: shape for name, shape in sizes.items() if shape is not None}
    if any(len(shape) > 1 for shape in known.values()):
        yield from dict.fromkeys(_weighted(given, made, known))
        return
    found: list[str] = []
    if any(_kind(one) in "iu" and _is_table_of(made, _shape(one)) for one in inputs):
        found.append("rotarytable")
    if len(inputs) > 1:
        found += _of_several(inputs, made)
    elif given == made:
        found += _of_equal_shape(call, given, known)
    elif not known:
        found += _of_other_places(given, made)
    yield from dict.fromkeys(found)


def _is_table_of(made: Shape, positions: Shape | None) -> bool:
    """Whether there is a row for each position."""
    rows = tuple(size for size in made[:-1] if size > 1)
    return bool(positions) and rows == tuple(size for size in positions or () if size > 1)


def _weighted(given: Shape, made: Shape, known: dict[str, Shape]) -> Iterator[str]:
    """Layers with a weight of several axes."""
    if "weight_ih_l0" in known:
        yield from ("gru", "lstm")
        return
    if "in_proj_weight" in known:
        yield "multiheadattention"
        return
    weight = known.get("weight", next(shape for shape in known.values() if len(shape) > 1))
    if len(weight) in _SPATIAL and len(weight) == len(given) == len(made):
        rank = len(weight) - 2
        # MindSpore keeps a kernel of one axis in two; channels may be last, and are then no axis 1.
        yield from (f"conv{rank}d", f"convtranspose{rank}d")[:: 1 if weight[0] in made else -1]
    elif len(weight) == 4 and len(given) == len(made) == 3:
        yield "conv1d"
    if len(weight) == 2 and made == (*given, weight[1]):
        yield "embedding"
    elif len(weight) == 2 and {given[-1], made[-1]} == {*weight}:
        yield "linear"
    if given == made and 1 < len(weight) < len(given) and weight == given[-len(weight) :]:
        yield "layernorm"
    if given == made and len(given) > 1 and _has_row_of_each(weight, given):
        yield "positionadd"


def _has_row_of_each(table: Shape, given: Shape) -> bool:
    """Whether a table has a row of all features for every position."""
    rows = tuple(size for size in table if size > 1)
    return len(rows) == 2 and rows[1] == given[-1] and rows[0] >= given[-2]


def _of_equal_shape(call: Call, shape: Shape, known: dict[str, Shape]) -> Iterator[str]:
    """Layers whose output is as large as their only input."""
    sizes = {math.prod(one) for one in known.values()}
    if {"running_mean", "running_var"} & known.keys():
        yield "batchnorm2d"
    if known:
        if sizes <= {shape[-1], shape[min(1, len(shape) - 1)]}:
            yield "gain"
        features = _OF_FEATURES if "bias" in known else _OF_FEATURES[::-1]
        if sizes == {shape[-1]}:
            yield from features
        if len(shape) > 1 and sizes == {shape[1]}:
            yield from _OF_CHANNELS
        if len(shape) > 1 and sizes == {1}:
            yield "prelu"
        return
    _, output = _values(call)
    if output is not None and _sums_to_one(output):
        yield "softmax"
    if output is not None and np.all(output <= 0) and _sums_to_one(np.exp(output)):
        yield "logsoftmax"
    yield _ACTIVATION
    if len(shape) in _SPATIAL and shape[-1] % 2 == 0:
        yield "rotary"
    yield "maskedfill"
    yield from _OF_NUMBERS
    if output is None or _is_normalised(output):
        yield from _OF_FEATURES
        yield from _OF_CHANNELS if len(shape) in _SPATIAL else ()
    if len(shape) in _SPATIAL:
        yield from _POOLS


def _of_other_places(given: Shape, made: Shape) -> Iterator[str]:
    """Layers without parameters whose output has another shape."""
    if len(given) == len(made) and len(given) in _SPATIAL and given[:2] == made[:2]:
        if all(a >= b for a, b in zip(given, made, strict=True)):
            yield from _POOLS
        yield "interpolate"
    elif len(made) <= len(given) and math.prod(made) < math.prod(given):
        yield from ("mean", "amax", "sum")


def _of_several(inputs: Sequence[TensorPair], made: Shape) -> Iterator[str]:
    """Layers of two or three inputs."""
    shapes = [_shape(tensor) or () for tensor in inputs]
    first, second = shapes[:2]
    kinds = [_kind(tensor) for tensor in inputs]
    if kinds[0] in "iu" and len(second) == 2 and made == (*first, second[1]):
        yield "embedding"
        return
    if len(shapes) > 2 and len(first) == len(second) == len(shapes[2]) == len(made) > 2:
        yield "scaleddotproductattention"
    if kinds[1] == "b" and first == made:
        yield "maskedfill"
    if _broadcast(first, second) == made:
        yield from _OF_TWO
    if len(first) > 1 and len(second) > 1 and first[-1] == second[-2]:
        yield "matmul"


def _values(call: Call) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Some rows of the outputs of left and right, where they are no larger than a sample."""
    output = call.outputs[0]
    if output.size > LAYER_SAMPLE:
        return None, None
    return output.left, output.right


def _sums_to_one(values: np.ndarray) -> bool:
    """Whether positive values sum to one along one of the last axes."""
    wide = np.asarray(values, np.float64)
    if not np.isfinite(wide).all() or wide.min() < 0:
        return False
    sums = (wide.sum(axis=-1 - axis) for axis in range(min(wide.ndim, LAST_AXES)))
    return any(bool(np.all(np.abs(one - 1.0) <= SOFTMAX_SUM)) for one in sums)


def _is_normalised(values: np.ndarray) -> bool:
    """Whether the root mean square is that of a norm without a weight; a large eps lowers it."""
    wide = np.asarray(values, np.float64)
    finite = wide[np.isfinite(wide)]
    if finite.size < FEWEST_TO_FIT:
        return False
    low, high = NORMALISED_HEIGHT
    return low <= math.sqrt(float(np.square(finite).mean())) <= high


def _broadcast(first: Shape, second: Shape) -> Shape | None:
    try:
        return np.broadcast_shapes(first, second)
    except ValueError:
        return None


def _kind(tensor: TensorPair) -> str:
    dtype = tensor.dtypes[1]
    return dtype.kind if dtype is not None else ""


def _shape(tensor: TensorPair) -> Shape | None:
    return tensor.shapes[1]
