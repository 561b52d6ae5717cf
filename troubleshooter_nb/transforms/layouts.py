"""Transforms of one tensor whose values stay, in another order or shape."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from troubleshooter_nb.messages import Message
from troubleshooter_nb.transforms.kind import (
    Argument,
    Arguments,
    Kind,
    MisfitError,
    Proposals,
    Targets,
    as_weights,
    axis_of,
    without,
)
from troubleshooter_nb.transforms.spec import Spec

_MOST_AXES = 32  # of an array in the oldest numpy
_MOST_PERMUTED = 5  # axes; all their orders are tried
# What TroubleShooter's maps name for the weight of a Conv1d. Its own reader imported and called
# whatever function a map named.
_CONV1D = "troubleshooter.migrator.mapping_relation.weight_adapter.trans_conv1d_weight_value"


def _copied(sources: Sequence[Spec], targets: Targets) -> Proposals:
    if targets[0] in (None, sources[0].shape):
        yield ()


COPY = Kind(
    name="copy",
    gradients=as_weights,
    words=lambda: Message("transforms.copy"),
    examples={"copy": [(2, 3)]},
    specs=lambda sources: sources,
    forward=lambda arrays: arrays,
    inverse=lambda _: ("copy", ()),
    proposals=_copied,
    blind=((),),
    keeps_order=True,
    troubleshooter={(): ""},
)


def _reversed(sources: Sequence[Spec], targets: Targets) -> Proposals:
    shape, target = sources[0].shape, targets[0]
    if target == shape[::-1] and (target != shape or len(shape) == 2):
        yield ()


TRANSPOSE = Kind(
    name="transpose",
    gradients=as_weights,
    words=lambda: Message("transforms.transpose"),
    examples={"transpose": [(2, 3, 4)]},
    specs=lambda sources: [Spec(sources[0].shape[::-1], sources[0].dtype)],
    gives="views",
    forward=lambda arrays: [arrays[0].T],
    inverse=lambda _: ("transpose", ()),
    proposals=_reversed,
)


def _permuted(sources: Sequence[Spec], axes: tuple[int, ...]) -> list[Spec]:
    shape, dtype = sources[0]
    if len(axes) != len(shape):
        raise MisfitError(Message("transforms.axes_miscounted"))
    if len({axis_of(axis, len(shape)) for axis in axes}) < len(shape):
        raise MisfitError(Message("transforms.axis_twice"))
    return [Spec(tuple(shape[axis] for axis in axes), dtype)]


def _orders(sources: Sequence[Spec], targets: Targets) -> Proposals:
    shape, target = sources[0].shape, targets[0]
    alike = target is not None and target != shape and sorted(target) == sorted(shape)
    if not alike or len(shape) > _MOST_PERMUTED:
        return
    for axes in itertools.permutations(range(len(shape))):
        # All of them reversed is a transpose.
        if axes != tuple(range(len(shape)))[::-1]:
            yield axes


PERMUTE = Kind(
    name="permute",
    gradients=as_weights,
    words=lambda axes: Message("transforms.permute", axes=axes),
    examples={"permute(2, 0, 1)": [(2, 3, 4)], "permute(0, -1, 1)": [(2, 3, 4)]},
    arguments=(Argument("axes", several=True),),
    specs=_permuted,
    gives="views",
    forward=lambda arrays, axes: [arrays[0].transpose(axes)],
    inverse=lambda sources, axes: (
        "permute",
        np.argsort([axis % len(axes) for axis in axes]).tolist(),
    ),
    proposals=_orders,
)


def _with_axis(sources: Sequence[Spec], axis: int) -> list[Spec]:
    shape, dtype = sources[0]
    at = axis_of(axis, len(shape) + 1)
    _check_rank(len(shape) + 1)
    return [Spec((*shape[:at], 1, *shape[at:]), dtype)]


def _ones_more(sources: Sequence[Spec], targets: Targets) -> Proposals:
    target = targets[0] or ()
    for axis, length in enumerate(target):
        if length == 1 and without(target, axis) == sources[0].shape:
            yield (axis,)


EXPAND_DIMS = Kind(
    name="expand_dims",
    gradients=as_weights,
    words=lambda axis: Message("transforms.expand_dims", axis=axis),
    examples={"expand_dims(2)": [(2, 3, 4)], "expand_dims(-1)": [(2, 3)]},
    arguments=(Argument("axis"),),
    specs=_with_axis,
    forward=lambda arrays, axis: [np.expand_dims(arrays[0], axis)],
    inverse=lambda _, axis: ("squeeze", (axis,)),
    proposals=_ones_more,
    keeps_order=True,
    troubleshooter={(2,): _CONV1D},
)


def _without_axis(sources: Sequence[Spec], axis: int) -> list[Spec]:
    shape, dtype = sources[0]
    at = axis_of(axis, len(shape))
    if shape[at] != 1:
        raise MisfitError(Message("transforms.axis_is_longer"))
    return [Spec(without(shape, at), dtype)]


def _ones_less(sources: Sequence[Spec], targets: Targets) -> Proposals:
    shape = sources[0].shape
    for axis, length in enumerate(shape):
        if length == 1 and without(shape, axis) == targets[0]:
            yield (axis,)


SQUEEZE = Kind(
    name="squeeze",
    gradients=as_weights,
    words=lambda axis: Message("transforms.squeeze", axis=axis),
    examples={"squeeze(1)": [(2, 1, 4)], "squeeze(-1)": [(2, 1)]},
    arguments=(Argument("axis"),),
    specs=_without_axis,
    forward=lambda arrays, axis: [np.squeeze(arrays[0], axis)],
    inverse=lambda _, axis: ("expand_dims", (axis,)),
    proposals=_ones_less,
    keeps_order=True,
)


def _reshaped(sources: Sequence[Spec], shape: tuple[int, ...]) -> list[Spec]:
    size, known = sources[0].size, math.prod(n for n in shape if n >= 0)
    unknown = sum(n < 0 for n in shape)
    if unknown > 1:
        raise MisfitError(Message("transforms.two_unknown"))
    if (size % known if known else 1) if unknown else size != known:
        raise MisfitError(Message("transforms.not_reshaped", size=size, shape=shape))
    _check_rank(max(len(shape), len(sources[0].shape)))
    return [Spec(tuple(size // known if n < 0 else n for n in shape), sources[0].dtype)]


def _of_size(sources: Sequence[Spec], targets: Targets) -> Proposals:
    if targets[0] not in (None, sources[0].shape):
        yield tuple(targets[0] or ())


def _as_before(sources: Sequence[Spec], _: tuple[int, ...]) -> tuple[str, Arguments] | None:
    """The shape of the sources, where several have one but for the length of an axis."""
    ranks = {len(source.shape) for source in sources}
    if len(ranks) > 1:
        return None
    lengths = [set(along) for along in zip(*(source.shape for source in sources), strict=True)]
    if sum(len(one) > 1 for one in lengths) > 1:
        return None
    return "reshape", tuple(one.pop() if len(one) == 1 else -1 for one in lengths)


RESHAPE = Kind(
    name="reshape",
    gradients=as_weights,
    words=lambda shape: Message("transforms.reshape", shape=shape),
    examples={"reshape(3, 2)": [(2, 3)], "reshape(-1)": [(2, 3)], "reshape": [(1,)]},
    arguments=(Argument("shape", several=True),),
    specs=_reshaped,
    forward=lambda arrays, shape: [arrays[0].reshape(shape)],
    inverse=_as_before,
    proposals=_of_size,
    keeps_order=True,
)


def _check_rank(rank: int) -> None:
    if rank > _MOST_AXES:
        raise MisfitError(Message("transforms.too_many_axes", most=_MOST_AXES))
