"""Means, sums, extremes and variances: over which axes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.axes import Axes
from troubleshooter_nb.analysis.causes.case import Call, Operands
from troubleshooter_nb.analysis.causes.law import Cause, Choice, Law
from troubleshooter_nb.analysis.causes.sampling import Sample, whole
from troubleshooter_nb.thresholds import LAST_AXES

_CAUSES: dict[str, Cause] = {"norm_axes": "normalised_axes", "reduced_axes": "softmax_axis"}


def _all(operands: Operands, is_spread: bool, is_mean: bool) -> Iterator[Sample]:
    """The whole input and output; a mean of squares that keeps its axes is that of a norm."""
    taken = whole(operands, operands.inputs[:1])
    if taken is None or len(taken) < 2 or not 0 < taken[1].size < taken[0].size:
        return
    x, output = taken[0].astype(np.float64), taken[1]
    of_norm = is_spread or (is_mean and x.ndim == output.ndim and bool(np.all(x >= 0)))
    yield Sample.of(operands, (x,), output, name="norm_axes" if of_norm else "reduced_axes")


def _axes(sample: Sample) -> Iterator[tuple[Mapping[str, Any], tuple[int, ...]]]:
    """Sets of axes that give the output's shape, kept or left out; fewer axes first."""
    given, made = sample.given[0].shape, sample.output.shape
    last = range(max(len(given) - LAST_AXES, 0), len(given))
    for count in range(1, len(last) + 1):
        for axes in itertools.combinations(last, count):
            kept = tuple(1 if axis in axes else size for axis, size in enumerate(given))
            if made in (kept, tuple(s for axis, s in enumerate(given) if axis not in axes)):
                yield {sample.facts["name"]: [axis - len(given) for axis in axes]}, axes


def _reduced(sample: Sample, chosen: Mapping[str, Any], how: Any) -> np.ndarray:
    more = {"ddof": 1} if chosen.get("divisor") == "n - 1" else {}
    made = how(sample.given[0], axis=chosen["axes"], keepdims=True, **more)
    return np.asarray(made).reshape(sample.output.shape)


def _kept(call: Call) -> Iterable[Axes]:
    """Axes that are left; where several sizes are equal, all that may be."""
    given, made = call.inputs[0].shapes[1] or (), call.outputs[0].shapes[1] or ()
    names = ("items", "rows", "channels", "columns", "features")[: len(given)]
    if len(names) < len(given):
        return
    for left in itertools.combinations(range(len(given)), len([n for n in made if n > 1])):
        kept = [(names[axis], given[axis]) for axis in left]
        if [n for _, n in kept] != [n for n in made if n > 1]:
            continue
        found = iter(kept)
        output = " ".join(next(found)[0] if n > 1 else "1" for n in made)
        x = " ".join(names[axis] if axis in left else f"over{axis}" for axis in range(len(given)))
        yield Axes.of(f"{x} -> {output}", **dict.fromkeys((name for name, _ in kept), 0))


def _law(words: tuple[str, ...], how: Any) -> Law:
    is_spread = how in (np.var, np.std)
    divisors = (Choice("divisor", ("n - 1", "n")),) if is_spread else ()
    return Law(
        words=words,
        samples=partial(_all, is_spread=is_spread, is_mean=how is np.mean),
        causes=_CAUSES,
        choices=(Choice("axes", _axes), *divisors),
        formula=partial(_reduced, how=how),
        axes=(_kept,),
    )


LAWS = (
    _law(("mean", "reducemean"), np.mean),
    _law(("sum", "reducesum"), np.sum),
    _law(("amax", "reducemax"), np.max),
    _law(("amin", "reducemin"), np.min),
    _law(("var",), np.var),
    _law(("std",), np.std),
)
