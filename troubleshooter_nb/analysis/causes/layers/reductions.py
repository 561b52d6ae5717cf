"""Over which axes means, sums and variances were taken."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from troubleshooter_nb.analysis.causes.case import Fit, Fitter, Operands
from troubleshooter_nb.analysis.causes.layers.trials import misfit, ranked
from troubleshooter_nb.thresholds import LAST_AXES

_REDUCTIONS: dict[str, Callable[..., np.ndarray]] = {
    **dict.fromkeys(("mean", "reducemean"), np.mean),
    **dict.fromkeys(("sum", "reducesum"), np.sum),
    **dict.fromkeys(("amax", "reducemax"), np.max),
    **dict.fromkeys(("amin", "reducemin"), np.min),
    "var": np.var,
    "std": np.std,
}
_SPREADS = ("var", "std")


def fit_reduction(operands: Operands, word: str) -> list[Fit]:
    """The axes over which an operator reduced its first input.

    Parameters
    ----------
    operands : Operands
        The output may have kept the reduced axes, of size 1.
    word : str
        What the operator is called, see `_REDUCTIONS`.

    Returns
    -------
    list of Fit
        A list of axes, counted from the last: ``norm_axes`` of a variance, and of a mean of
        squares that keeps its axes, as in a normalisation; else ``reduced_axes``. Of a variance
        also ``divisor`` ("n", "n - 1"). Empty where no axes give the output's shape.
    """
    x, output = (operands.inputs[0] if operands.inputs else None), operands.output
    if x is None or x.dtype.kind not in "fiub" or output.dtype.kind not in "fiub":
        return []
    if not 0 < output.size < x.size:
        return []
    values, wanted = x.astype(np.float64), output.astype(np.float64)
    is_mean_of_squares = word.endswith("mean") and x.ndim == output.ndim and np.all(values >= 0)
    name = "norm_axes" if is_mean_of_squares or word in _SPREADS else "reduced_axes"
    fits = []
    for axes in _ways(x.shape, output.shape):
        said = {name: [axis - x.ndim for axis in axes]}
        for more, reduction in _reductions(word):
            with np.errstate(all="ignore"):
                formula = reduction(values, axis=axes, keepdims=True).reshape(output.shape)
            fits.append(Fit({**said, **more}, misfit(wanted, formula, operands.roundoff)))
    return ranked(fits)


def _reductions(word: str) -> Iterator[tuple[dict[str, str], Callable[..., np.ndarray]]]:
    if word in _SPREADS:
        yield {"divisor": "n - 1"}, partial(_REDUCTIONS[word], ddof=1)
        yield {"divisor": "n"}, _REDUCTIONS[word]
    else:
        yield {}, _REDUCTIONS[word]


def _ways(given: tuple[int, ...], made: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Sets of axes that give this shape, kept with size 1 or left out; fewer axes first."""
    last = range(max(len(given) - LAST_AXES, 0), len(given))
    for count in range(1, len(last) + 1):
        for axes in itertools.combinations(last, count):
            kept = tuple(1 if axis in axes else size for axis, size in enumerate(given))
            if made in (kept, tuple(s for axis, s in enumerate(given) if axis not in axes)):
                yield axes


FITTERS: dict[str, Fitter] = {word: partial(fit_reduction, word=word) for word in _REDUCTIONS}
BACKWARD_FITTERS: dict[str, Fitter] = {}
CAUSES: dict[tuple[str, str], str] = {
    ("", "norm_axes"): "normalised_axes",
    ("", "reduced_axes"): "softmax_axis",
}
