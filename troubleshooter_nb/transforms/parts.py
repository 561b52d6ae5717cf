"""Transforms that make one tensor of several, or several of one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.float_formats import stored_as
from troubleshooter_nb.shapes import Shape
from troubleshooter_nb.transforms.kind import (
    SEVERAL,
    Argument,
    Arguments,
    Kind,
    MisfitError,
    Proposals,
    Sources,
    Targets,
    as_weights,
    axis_of,
    without,
)
from troubleshooter_nb.transforms.spec import Spec


def _split(sources: Sequence[Spec], axis: int, sizes: tuple[int, ...]) -> list[Spec]:
    shape, dtype = sources[0]
    at = axis_of(axis, len(shape))
    if sum(sizes) != shape[at] or min(sizes, default=0) < 1:
        raise MisfitError(Message("transforms.sizes_differ", sizes=str([*sizes]), axis=axis))
    return [Spec(without(shape, at, size), dtype) for size in sizes]


def _divided(sources: Sequence[Spec], targets: Targets) -> Proposals:
    """The lengths of the targets along each axis, equal ones where they are not known."""
    shape, known = sources[0].shape, [target for target in targets if target is not None]
    for axis, length in enumerate(shape) if len(targets) > 1 else ():
        sizes = [length // len(targets)] * len(targets)
        if known:
            sizes = [target[axis] for target in known if len(target) == len(shape)]
        yield (axis, *sizes)


SPLIT = Kind(
    name="split",
    gradients=as_weights,
    words=lambda axis, sizes: Message("transforms.split", axis=axis, sizes=[*sizes]),
    examples={"split(0, 2, 3, 1)": [(6, 2)], "split(1, 1, 1)": [(6, 2)], "split(-1, 2)": [(6, 2)]},
    arguments=(Argument("axis"), Argument("sizes", several=True)),
    targets=lambda axis, sizes: len(sizes),
    specs=_split,
    gives="views",
    forward=lambda arrays, axis, sizes: np.split(arrays[0], np.cumsum(sizes)[:-1], axis),
    inverse=lambda _, axis, sizes: ("concat", (axis,)) if len(sizes) > 1 else ("copy", ()),
    proposals=_divided,
)


def _concatenated(sources: Sequence[Spec], axis: int) -> list[Spec]:
    shape, dtype = sources[0]
    at = axis_of(axis, len(shape))
    if len({source.dtype for source in sources}) > 1:
        raise MisfitError(_several_dtypes(sources))
    rest = {without(source.shape, at) for source in sources}
    if len(rest) > 1 or len({len(source.shape) for source in sources}) > 1:
        raise MisfitError(Message("transforms.concat_unlike", axis=axis))
    return [Spec(without(shape, at, sum(source.shape[at] for source in sources)), dtype)]


def _several_dtypes(sources: Sequence[Spec]) -> Message:
    dtypes = list(dict.fromkeys(source.dtype.name for source in sources))
    return Message("transforms.one_dtype", dtypes=dtypes)


def _parts(sources: Sequence[Spec], axis: int) -> tuple[str, Arguments]:
    at = axis_of(axis, len(sources[0].shape))
    return "split", (at, *(source.shape[at] for source in sources))


def _along_each_axis(sources: Sequence[Spec], _: Targets) -> Proposals:
    for axis in range(len(sources[0].shape)):
        yield (axis,)


CONCAT = Kind(
    name="concat",
    gradients=as_weights,
    words=lambda axis: Message("transforms.concat", axis=axis),
    examples={"concat(0)": [(2, 3), (4, 3)], "concat(-1)": [(2, 3), (2, 1), (2, 2)]},
    arguments=(Argument("axis"),),
    sources=SEVERAL,
    specs=_concatenated,
    gives="joined",
    forward=lambda arrays, axis: [np.concatenate(arrays, axis)],
    inverse=_parts,
    proposals=_along_each_axis,
    blind=((0,),),
)


def _stacked(sources: Sequence[Spec], axis: int) -> list[Spec]:
    shape, dtype = sources[0]
    at = axis_of(axis, len(shape) + 1)
    if len({source.dtype for source in sources}) > 1:
        raise MisfitError(_several_dtypes(sources))
    if len({source.shape for source in sources}) > 1:
        raise MisfitError(Message("transforms.add_unlike"))
    return [Spec((*shape[:at], len(sources), *shape[at:]), dtype)]


def _new_axes(sources: Sequence[Spec], targets: Targets) -> Proposals:
    for axis in range(len(sources[0].shape) + 1):
        # Where nothing is known of the target, experts and layers lie in front.
        if targets[0] is not None or not axis:
            yield (axis,)


STACK = Kind(
    name="stack",
    gradients=as_weights,
    words=lambda axis: Message("transforms.stack", axis=axis),
    examples={"stack(0)": [(2, 3), (2, 3), (2, 3)], "stack(-1)": [(2,), (2,)]},
    arguments=(Argument("axis"),),
    sources=SEVERAL,
    specs=_stacked,
    gives="stacked",
    forward=lambda arrays, axis: [np.stack(arrays, axis)],
    inverse=lambda sources, axis: (
        "unstack",
        (axis_of(axis, len(sources[0].shape) + 1), len(sources)),
    ),
    proposals=_new_axes,
)


def _unstacked(sources: Sequence[Spec], axis: int, count: int) -> list[Spec]:
    shape, dtype = sources[0]
    at = axis_of(axis, len(shape))
    if count < 1 or shape[at] != count:
        raise MisfitError(Message("transforms.sizes_differ", sizes=str(count), axis=axis))
    return [Spec(without(shape, at), dtype)] * count


def _axes_of_so_many(sources: Sequence[Spec], targets: Targets) -> Proposals:
    for axis, length in enumerate(sources[0].shape):
        if length == len(targets) > 1:
            yield axis, length


UNSTACK = Kind(
    name="unstack",
    gradients=as_weights,
    words=lambda axis, count: Message("transforms.unstack", axis=axis, count=count),
    examples={"unstack(0, 3)": [(3, 2, 2)], "unstack(-1, 2)": [(3, 2)]},
    arguments=(Argument("axis"), Argument("count")),
    targets=lambda axis, count: max(count, 0),
    specs=_unstacked,
    gives="views",
    forward=lambda arrays, axis, count: [
        np.moveaxis(arrays[0], axis, 0)[number, ...] for number in range(count)
    ],
    inverse=lambda _, axis, count: ("stack", (axis,)) if count > 1 else ("expand_dims", (axis,)),
    proposals=_axes_of_so_many,
)


def _added(sources: Sequence[Spec]) -> list[Spec]:
    if len({source.shape for source in sources}) > 1:
        raise MisfitError(Message("transforms.add_unlike"))
    return [Spec(sources[0].shape, _of_sum([source.dtype for source in sources]))]


def _of_sum(dtypes: Sequence[np.dtype]) -> np.dtype:
    """The dtype of a sum; float32 of two that only newer ml_dtypes know one for, and then this."""
    try:
        return np.result_type(*dtypes)
    except TypeError:  # as of float16 and bfloat16
        return np.dtype(np.float32)


def _sum(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    dtype = _of_sum([array.dtype for array in arrays])
    total = arrays[0].astype(dtype, copy=False)
    for array in arrays[1:]:
        total = total + array.astype(dtype, copy=False)
    return [np.asarray(total)]


def _of_one_dtype(sources: Sequence[Spec], _: Targets) -> Proposals:
    if len({source.dtype for source in sources}) == 1:
        yield ()


ADD = Kind(
    name="add",
    words=lambda: Message("transforms.add"),
    examples={"add": [(4,), (4,), (4,)]},
    sources=SEVERAL,
    specs=_added,
    gives="values",
    forward=_sum,
    proposals=_of_one_dtype,
)


def norm_axes(g: Shape, v: Shape) -> list[int]:
    """The axes of v that keep their norm where g has it, as torch counts them: -1 for none."""
    if not g:
        return [-1]
    if len(g) != len(v):
        return []
    return [d for d in range(len(v)) if g == tuple(n if i == d else 1 for i, n in enumerate(v))]


def _normed(sources: Sequence[Spec], dim: int, axis: int | None) -> list[Spec]:
    g, v = sources
    if dim not in norm_axes(g.shape, v.shape):
        raise MisfitError(Message("transforms.no_norm", dim=dim))
    if axis is None:
        return [v]
    if not 0 <= axis <= len(v.shape):
        raise MisfitError(Message("transforms.axis_beyond", axis=axis, rank=len(v.shape) + 1))
    return [Spec((*v.shape[:axis], 1, *v.shape[axis:]), v.dtype)]


def _weight(arrays: Sequence[np.ndarray], dim: int, axis: int | None) -> list[np.ndarray]:
    """A weight of the parts of its norm, computed in float64 and rounded once."""
    g, v = (array.astype(np.float64) for array in arrays)
    others = tuple(at for at in range(v.ndim) if at != dim)
    with np.errstate(all="ignore"):
        norm = np.sqrt(np.square(v).sum(axis=others, keepdims=True))
        weight = stored_as(g * v / norm, arrays[1].dtype)
    return [weight if axis is None else np.expand_dims(weight, axis)]


def _norms(sources: Sequence[Spec], targets: Targets) -> Proposals:
    g, v = sources
    # One axis alone has no norm but that of each value.
    for dim in norm_axes(g.shape, v.shape) if len(v.shape) > 1 else ():
        yield (dim,)
        for axis, length in enumerate(targets[0] or ()):
            if length == 1:
                yield (dim, axis)


def _norm_words(dim: int, axis: int | None) -> Message:
    over = Message("transforms.all_axes")
    if dim != -1:
        over = Message("transforms.all_axes_but", dim=dim)
    weight = Message("transforms.weight_norm", over=over)
    if axis is None:
        return weight
    expanded = Message("transforms.expand_dims", axis=axis)
    return Message("transforms.and_then", first=weight, second=expanded)


WEIGHT_NORM = Kind(
    name="weight_norm",
    words=_norm_words,
    examples={
        "weight_norm(0)": [(4, 1, 1), (4, 2, 3)],
        "weight_norm(-1)": [(), (4, 2)],
        "weight_norm(0, 2)": [(4, 1, 1), (4, 2, 3)],
    },
    arguments=(Argument("dim"), Argument("axis", optional=True)),
    sources=Sources(2, 2, ("g", "v")),
    specs=_normed,
    forward=_weight,
    proposals=_norms,
    takes_parts=True,
)
