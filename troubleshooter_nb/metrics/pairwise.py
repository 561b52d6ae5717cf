"""Figures of two tensors against each other, in one pass over their blocks.

The second tensor, the benchmark, is the reference of every relative figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.compiled import Kernel, measure
from troubleshooter_nb.metrics.floats import (
    arithmetic_of,
    computable,
    native_order,
    same_dtype,
)
from troubleshooter_nb.metrics.partial import (
    EXPONENTS,
    Partial,
    Partials,
    exponent_histogram,
    merge_tree,
    pairwise_sum,
    workspace,
)
from troubleshooter_nb.metrics.summary import (
    SUMMARY_FIGURES,
    BlockSummary,
    bits_seen,
    magnitudes,
    root,
    side_figures,
    summarise_block,
    sums,
    used_significand_bits,
)
from troubleshooter_nb.thresholds import FIGURES_BLOCK, FIRST_VALUES

HISTOGRAM = "error_histogram"

_COUNTS = [
    "count",
    "finite",
    "close",
    "different_bits",
    "different_values",
    "nan_mismatch",
    "inf_mismatch",
    "zero_reference",
    "left_nan",
    "left_inf",
    "left_zero",
    "right_nan",
    "right_inf",
    "right_zero",
]
_NOT_ORDINARY = ("nan", "inf", "zero")
_SUMS = [
    "left",
    "left_square",
    "right",
    "right_square",
    "both_left",
    "both_left_square",
    "both_right",
    "both_right_square",
    "product",
    "error",
    "error_square",
    "relative",
]
_MAXIMA = ["left_max", "left_min", "right_max", "right_min", "error", "relative", "tolerance"]


def pair_partial(
    actual: np.ndarray,
    benchmark: np.ndarray,
    start: int = 0,
    *,
    rtol: float = 1e-4,
    atol: float = 1e-4,
    equal_nan: bool = False,
    kernel: Kernel | None = None,
) -> Partial:
    """`Partial` of one block of two tensors.

    Parameters
    ----------
    actual, benchmark : ndarray, shape (n,), any bool, integer, float or complex dtype
        Stored values of the same flat range. Real floats, and integers of up to 32 bits, are
        measured in float64, which holds them exactly; two 64-bit integers are subtracted exactly,
        one against a float only after rounding to float64; complex differences are moduli.
    start : int
        Flat index of the first element.
    rtol, atol, equal_nan
        Closeness is ``|actual - benchmark| <= atol + rtol * |benchmark|``, equal infinities are
        close, two NaN are if `equal_nan`.
    kernel : callable, optional
        `metrics.compiled.kernel`; gives the same bits sooner where it applies.

    Raises
    ------
    ValueError
        If the lengths differ or a dtype holds no numbers.
    """
    _check(actual, benchmark)
    if kernel is not None:
        found, done = measure(kernel, [actual], [benchmark], start, rtol=rtol, atol=atol)
        if done[0]:
            return found.at(0)
    actual, benchmark = native_order(actual), native_order(benchmark)
    masks = np.array([bits_seen(actual), bits_seen(benchmark)], np.uint64)
    figures = _Figures({}, {}, {}, np.zeros(len(EXPONENTS), np.int64))
    # What leaves float64's range is inf on purpose, and a signalling NaN may warn anywhere.
    with np.errstate(all="ignore"):
        if len(actual):
            _measure(figures, actual, benchmark, start, rtol, atol, equal_nan)
    return figures.pack(masks)


def pair_run(
    actual: np.ndarray,
    benchmark: np.ndarray,
    start: int,
    kernel: Kernel | None,
    **tolerance: Any,
) -> Partial:
    """`Partial` of a run of blocks: one call of the compiled loop, or the blocks one by one.

    Runs of `FIGURES_BLOCK` times a power of two may be merged with `merge_tree`; the last may be
    shorter.
    """
    if kernel is not None:
        _check(actual, benchmark)
        wanted = {name: tolerance[name] for name in ("rtol", "atol")}
        found, done = measure(kernel, [actual], [benchmark], start, **wanted)
        if done[0]:
            return found.at(0)
        if len(actual) <= FIGURES_BLOCK:
            kernel = None
    spans = range(0, max(len(actual), 1), FIGURES_BLOCK)
    return merge_tree(
        pair_partial(
            actual[i : i + FIGURES_BLOCK],
            benchmark[i : i + FIGURES_BLOCK],
            start + i,
            kernel=kernel,
            **tolerance,
        )
        for i in spans
    )


def measure_many(
    lefts: Sequence[np.ndarray],
    rights: Sequence[np.ndarray],
    kernel: Kernel | None,
    *,
    rtol: float,
    atol: float,
    equal_nan: bool,
) -> Partials:
    """`pair_partial` of many whole pairs, each of at most `FIGURES_BLOCK` elements: a row for each.

    One call of the compiled loop measures what it can, and numpy the rest, one by one.

    Raises
    ------
    ValueError
        If the lengths of a pair differ or a dtype holds no numbers.
    """
    if kernel is None:
        found, done = Partials.empty(len(lefts)), np.zeros(len(lefts), np.bool_)
    else:
        found, done = measure(kernel, lefts, rights, rtol=rtol, atol=atol)
    tolerance: dict[str, Any] = {"rtol": rtol, "atol": atol, "equal_nan": equal_nan}
    for row in np.flatnonzero(~done).tolist():
        found.put(row, pair_partial(lefts[row], rights[row], **tolerance))
    return found


def pair_figures(partial: Partial, left_dtype: np.dtype, right_dtype: np.dtype) -> dict[str, float]:
    """The row of `figures_of` for one pair, as Python's numbers."""
    partials = Partials.empty(1)
    partials.put(0, partial)
    figures = figures_of(partials, [left_dtype], [right_dtype])
    return {name: column[0].item() for name, column in figures.items()}


def figures_of(
    partials: Partials, left_dtypes: Sequence[np.dtype], right_dtypes: Sequence[np.dtype]
) -> dict[str, np.ndarray]:
    """All `columns.pairs.PAIR_FIGURES`, and `SUMMARY_FIGURES` with ``left_`` and ``right_``.

    Parameters
    ----------
    partials : Partials
        Of n pairs.
    left_dtypes, right_dtypes : sequence of dtype
        What the two sides of each are stored as.

    Returns
    -------
    dict
        A column of shape (n,) for each, of the dtype that those tables name.

    Notes
    -----
    Figures over positions finite on both sides are nan where there is none in a tensor that is
    not empty, and so are those relative to single elements where all of them are relative to 0,
    unless nothing differs. A figure beyond float64's range is inf.
    """
    known = _Known(partials)
    # Rows for which a quotient has no meaning are replaced afterwards.
    with np.errstate(all="ignore"):
        figures = _error_figures(known, left_dtypes, right_dtypes)
        for side in ("left", "right"):
            figures |= _side_figures(known, side)
    return figures


class _Known:
    """The columns of `Partials` under their names."""

    def __init__(self, partials: Partials) -> None:
        self.counts = dict(zip(_COUNTS, partials.counts.T, strict=True))
        sums = zip(partials.mantissas.T, partials.exponents.T, strict=True)
        self.sums: dict[str, tuple[np.ndarray, np.ndarray]] = dict(zip(_SUMS, sums, strict=True))
        self.maxima = dict(zip(_MAXIMA, partials.maxima.T, strict=True))
        self.error_index = partials.positions[:, _MAXIMA.index("error")]
        self.masks = partials.masks.T

    def value(self, name: str, exponent: np.ndarray | int = 0) -> np.ndarray:
        """A sum divided by ``2**exponent``; inf beyond float64's range."""
        mantissa, own = self.sums[name]
        return np.asarray(np.ldexp(mantissa, own - exponent))

    def norm_exponent(self, name: str) -> np.ndarray:
        """Power of two to divide a side by, so that its sum of squares is between 1/4 and 1."""
        mantissa, exponent = self.sums[f"{name}_square"]
        return np.asarray((np.frexp(mantissa)[1] + exponent + 1) // 2)

    def maximum(self, name: str) -> np.ndarray:
        return np.asarray(np.maximum(self.maxima[name], 0.0))


def _error_figures(
    known: _Known, left_dtypes: Sequence[np.dtype], right_dtypes: Sequence[np.dtype]
) -> dict[str, np.ndarray]:
    n = known.counts
    count, finite = n["count"], n["finite"]
    some = finite > 0
    none = np.where((count > 0) & ~some, np.nan, 0.0)
    error = np.where(some, known.maximum("error"), none)
    relative_count = finite - n["zero_reference"]
    relative_none = np.where(error == 0.0, none, np.nan)
    any_relative = relative_count > 0
    mean = np.where(any_relative, known.value("relative") / relative_count, relative_none)
    cosine = _cosine(known, finite)
    dtypes = list(zip(left_dtypes, right_dtypes, strict=True))
    is_complex = np.array(["c" in (left.kind, right.kind) for left, right in dtypes], np.bool_)
    same = np.array([left is right or same_dtype(left, right) for left, right in dtypes], np.bool_)
    return {
        "identical": (n["different_bits"] == 0) & same,
        "allclose": n["close"] == count,
        "allclose_ratio": np.where(count > 0, n["close"] / count, 1.0),
        # Rounded up a little, so that it does pass.
        "smallest_passing_tolerance": known.maximum("tolerance") * (1.0 + 2.0**-50),
        "cosine": cosine,
        # A mean of moduli centres no complex numbers.
        "correlation": np.where(is_complex, cosine, _correlation(known, finite)),
        "rmse": np.where(some, _root_mean(known, finite), none),
        "mape": 100.0 * mean,
        "max_abs_error": error,
        "mean_abs_error": np.where(some, _mean(known, "error", finite), none),
        "max_rel_error": np.where(any_relative, known.maximum("relative"), relative_none),
        "mean_rel_error": mean,
        "rel_l2_error": np.where(some, _relative_l2(known), none),
        "nan_mismatch_count": n["nan_mismatch"],
        "inf_mismatch_count": n["inf_mismatch"],
        "unequal_count": n["different_values"],
        "zero_reference_count": n["zero_reference"],
        "max_abs_index": known.error_index,
        "left_significand_bits": _used_bits(known.masks[0], left_dtypes),
        "right_significand_bits": _used_bits(known.masks[1], right_dtypes),
    }


def _used_bits(masks: np.ndarray, dtypes: Sequence[np.dtype]) -> np.ndarray:
    return np.array(list(map(used_significand_bits, masks.tolist(), dtypes)), np.int64)


def _side_figures(known: _Known, side: str) -> dict[str, np.ndarray]:
    counts = [known.counts[name] for name in ("count", *(f"{side}_{n}" for n in _NOT_ORDINARY))]
    extremes = [known.maxima[f"{side}_{name}"] for name in ("max", "min")]
    named = side_figures(counts, known.sums[side], known.sums[f"{side}_square"], extremes)
    return {f"{side}_{name}": named[name] for name in SUMMARY_FIGURES}


def _check(actual: np.ndarray, benchmark: np.ndarray) -> None:
    if actual.ndim != 1 or actual.shape != benchmark.shape:
        shapes = {"one": actual.shape, "other": benchmark.shape}
        raise ArgumentError(Message("arguments.flat_lengths", **shapes))
    for values in (actual, benchmark):
        if arithmetic_of(values.dtype) == "unsupported":
            raise ArgumentError(Message("arguments.dtype_not_compared", dtype=values.dtype))


def _same_bits(actual: np.ndarray, benchmark: np.ndarray) -> bool:
    width = actual.dtype.itemsize
    unsigned = f"u{width}" if width in (1, 2, 4) else "u8"
    left = np.ascontiguousarray(actual).view(unsigned)
    right = np.ascontiguousarray(benchmark).view(unsigned)
    # Most tensors that differ do so in their first values.
    return (
        not np.not_equal(left[:FIRST_VALUES], right[:FIRST_VALUES]).any()
        and not (left != right).any()
    )


@dataclass
class _Figures:
    """The figures of one block under their names, before they are packed."""

    counts: dict[str, int]
    sums: dict[str, tuple[float, int]]  # value divided by 2**exponent, exponent
    maxima: dict[str, tuple[float, int]]  # value, flat index or -1
    histogram: np.ndarray

    def pack(self, masks: np.ndarray) -> Partial:
        sums = [self.sums.get(name, (0.0, 0)) for name in _SUMS]
        maxima = [self.maxima.get(name, (-np.inf, -1)) for name in _MAXIMA]
        return Partial(
            counts=np.array([self.counts.get(name, 0) for name in _COUNTS]),
            mantissas=np.array([mantissa for mantissa, _ in sums]),
            exponents=np.array([exponent for _, exponent in sums]),
            maxima=np.array([value for value, _ in maxima]),
            positions=np.array([position for _, position in maxima]),
            masks=masks,
            histogram=self.histogram,
        )

    def add_side(self, side: str, summary: BlockSummary) -> None:
        self.counts |= {
            f"{side}_nan": summary.nan,
            f"{side}_inf": summary.inf,
            f"{side}_zero": summary.zero,
        }
        self.maxima[f"{side}_max"] = (summary.largest, -1)
        self.maxima[f"{side}_min"] = (-summary.smallest, -1)
        self.add_sums(side, summary.total, summary.square, summary.exponent)

    def add_sums(self, name: str, total: float, square: float, exponent: int) -> None:
        self.sums[name] = (total, exponent)
        self.sums[f"{name}_square"] = (square, 2 * exponent)


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two blocks in a dtype numpy computes with, and as `metrics.summary.magnitudes` of them."""

    left: np.ndarray
    right: np.ndarray
    wide_left: np.ndarray
    wide_right: np.ndarray

    def at(self, index: np.ndarray) -> _Pair:
        return _Pair(
            self.left[index], self.right[index], self.wide_left[index], self.wide_right[index]
        )

    def halved(self) -> _Pair:
        return _Pair(self.left / 2, self.right / 2, self.wide_left / 2, self.wide_right / 2)

    def summaries(self, *, same: bool, scratch: np.ndarray) -> tuple[BlockSummary, BlockSummary]:
        left = summarise_block(self.wide_left, self.left, scratch)
        return left, left if same else summarise_block(self.wide_right, self.right, scratch)

    def errors(self, out: np.ndarray | None = None) -> np.ndarray:
        return absolute_errors(self.left, self.right, self.wide_left, self.wide_right, out)


def _measure(
    figures: _Figures,
    actual: np.ndarray,
    benchmark: np.ndarray,
    start: int,
    rtol: float,
    atol: float,
    equal_nan: bool,
) -> None:
    work = workspace(5, len(actual))
    same_bits = actual.dtype == benchmark.dtype and _same_bits(actual, benchmark)
    left, right = computable(actual), computable(benchmark)
    wide_left = magnitudes(left, work[0])
    wide_right = wide_left if same_bits else magnitudes(right, work[1])
    pair = _Pair(left, right, wide_left, wide_right)
    summaries = pair.summaries(same=same_bits, scratch=work[4])
    figures.counts |= {"count": len(left), "different_bits": int(not same_bits)}
    figures.counts |= {"close": 0, "different_values": 0}
    for side, summary in zip(("left", "right"), summaries, strict=True):
        figures.add_side(side, summary)

    kept = None
    if any(summary.nan + summary.inf for summary in summaries):
        finite = np.isfinite(wide_left) & np.isfinite(wide_right)
        _add_nonfinite(figures, left[~finite], right[~finite], equal_nan)
        kept = np.flatnonzero(finite)
        if not len(kept):
            return
        pair, work = pair.at(kept), work[:, : len(kept)]
        summaries = pair.summaries(same=same_bits, scratch=work[4])
    figures.counts |= {"finite": len(pair.left), "zero_reference": summaries[1].zero}
    for side, summary in zip(("both_left", "both_right"), summaries, strict=True):
        figures.add_sums(side, summary.total, summary.square, summary.exponent)
    if same_bits:
        figures.counts["close"] += len(pair.left)
        figures.sums["product"] = figures.sums["both_left_square"]
        return

    errors = pair.errors(work[2])
    worst = int(errors.argmax())
    if errors[worst]:
        index = start + int(worst if kept is None else kept[worst])
        figures.maxima["error"] = (float(errors[worst]), index)
    figures.histogram, equal = exponent_histogram(errors, work[4])
    figures.counts["different_values"] += len(errors) - equal
    _add_errors(figures, pair, errors, rtol, atol, work[3:])
    figures.sums["product"] = _product(figures, pair, work[4])


def _add_nonfinite(figures: _Figures, left: np.ndarray, right: np.ndarray, equal_nan: bool) -> None:
    """Count elements where a side is not finite."""
    left_nan, right_nan = np.isnan(left), np.isnan(right)
    nan_mismatch = int(np.count_nonzero(left_nan != right_nan))
    both_nan = int(np.count_nonzero(left_nan & right_nan))
    same = int(np.count_nonzero(left == right))
    close = same + (both_nan if equal_nan else 0)
    figures.counts |= {
        "nan_mismatch": nan_mismatch,
        "inf_mismatch": len(left) - nan_mismatch - both_nan - same,
        "close": close,
        "different_values": len(left) - both_nan - same,
    }
    if close < len(left):
        figures.maxima["tolerance"] = (np.inf, -1)


def absolute_errors(
    left: np.ndarray,
    right: np.ndarray,
    wide_left: np.ndarray,
    wide_right: np.ndarray,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """|left - right| as float64, exact before the one rounding to it; of complex, the modulus.

    Parameters
    ----------
    left, right : ndarray, shape (n,)
        Values in a dtype numpy computes with (`metrics.floats.computable`).
    wide_left, wide_right : ndarray of float64, shape (n,)
        The same values, as `metrics.summary.magnitudes` gives them.
    out : ndarray of float64, shape (n,), optional
        Memory to overwrite.
    """
    if "c" in (left.dtype.kind, right.dtype.kind):
        errors = left.astype(np.complex128) - right.astype(np.complex128)
        return np.asarray(np.abs(errors, out=out))
    errors = np.subtract(wide_left, wide_right, out=out)
    np.abs(errors, out=errors)
    integers = left.dtype.kind in "biu" and right.dtype.kind in "biu"
    if integers and max(left.dtype.itemsize, right.dtype.itemsize) == 8:
        # Modulo 2**64 the difference is exact; read as signed it is right below 2**63, where the
        # rounded one says so. Further apart the rounded one is within 2**-52 of it.
        difference = (left.astype(np.uint64) - right.astype(np.uint64)).view(np.int64)
        np.copyto(errors, np.abs(difference.astype(np.float64)), where=errors < 2.0**63)
    return errors


def _product_of_norms(left: float, right: float, error: float) -> float | None:
    """Inner product from sums of squares: |x - y|**2 = |x|**2 + |y|**2 - 2 xy.

    None where norms are so unlike that this would cancel.
    """
    if not right * 2.0**-20 < left < right * 2.0**20:
        return None
    return (left + right - error) / 2.0


def _product(figures: _Figures, pair: _Pair, scratch: np.ndarray) -> tuple[float, int]:
    """Inner product, scaled like the two sides; of complex numbers, its real part."""
    (x, i), (y, j) = figures.sums["both_left_square"], figures.sums["both_right_square"]
    error, k = figures.sums["error_square"]
    if not (i or j or k):
        product = _product_of_norms(float(x), float(y), float(error))
        if product is not None:
            return product, 0
    parts = [(pair.wide_left, pair.wide_right)]
    if "c" in (pair.left.dtype.kind, pair.right.dtype.kind):
        left, right = pair.left.astype(np.complex128), pair.right.astype(np.complex128)
        parts = [(left.real, right.real), (left.imag, right.imag)]
    if i or j:
        parts = [(np.ldexp(x, -i // 2), np.ldexp(y, -j // 2)) for x, y in parts]
    total = sum(pairwise_sum(np.multiply(x, y, out=scratch)) for x, y in parts)
    return total, (i + j) // 2


def _add_errors(
    figures: _Figures,
    pair: _Pair,
    errors: np.ndarray,
    rtol: float,
    atol: float,
    work: np.ndarray,
) -> None:
    """Add what is computed from |error| and |reference|."""
    largest, _ = figures.maxima.get("error", (0.0, -1))
    reference, halvings = pair.wide_right, 0
    if np.isinf(largest):  # the distance of two float64 extremes: go on with halves
        pair, halvings = pair.halved(), 1
        errors, reference = pair.errors(), pair.wide_right
        largest, atol = float(errors.max()), atol / 2
    total, square, exponent = sums(errors, largest, work[1])
    figures.add_sums("error", total, square, exponent + halvings)
    reference = np.abs(reference, out=work[0])
    close = len(errors)
    if largest > atol:
        limits = np.multiply(reference, rtol, out=work[1])
        limits += atol
        close = int(np.count_nonzero(errors <= limits))
    figures.counts["close"] += close
    if "tolerance" not in figures.maxima:
        tolerances = np.add(reference, 0.5**halvings, out=work[1])
        np.divide(errors, tolerances, out=tolerances)
        figures.maxima["tolerance"] = (float(np.maximum.reduce(tolerances)), -1)
    if figures.counts["zero_reference"]:
        # Masked operations are slower than this: 0 / 1 where the reference is 0.
        zero = reference == 0.0
        errors = np.multiply(errors, ~zero, out=work[1])
        reference += zero
    relative = np.divide(errors, reference, out=work[1])
    figures.sums["relative"] = (pairwise_sum(relative), 0)
    figures.maxima["relative"] = (float(np.maximum.reduce(relative)), -1)


def _mean(known: _Known, name: str, finite: np.ndarray) -> np.ndarray:
    mantissa, exponent = known.sums[name]
    return np.asarray(np.ldexp(mantissa / finite, exponent))


def _root_mean(known: _Known, finite: np.ndarray) -> np.ndarray:
    mantissa, exponent = known.sums["error_square"]
    return root(mantissa / finite, exponent)


def _relative_l2(known: _Known) -> np.ndarray:
    i, j = known.norm_exponent("error"), known.norm_exponent("both_right")
    error = known.value("error_square", 2 * i)
    reference = known.value("both_right_square", 2 * j)
    found = np.where(reference == 0.0, np.inf, root(error / reference, 2 * (i - j)))
    return np.where(error == 0.0, 0.0, found)


def _cosine(known: _Known, finite: np.ndarray) -> np.ndarray:
    i, j = known.norm_exponent("both_left"), known.norm_exponent("both_right")
    left = known.value("both_left_square", 2 * i)
    right = known.value("both_right_square", 2 * j)
    cosine = np.clip(known.value("product", i + j) / np.sqrt(left * right), -1.0, 1.0)
    both_zero = np.where((left == 0.0) & (right == 0.0), 1.0, cosine)
    return np.where((finite == 0) | ((left == 0.0) != (right == 0.0)), np.nan, both_zero)


def _correlation(known: _Known, finite: np.ndarray) -> np.ndarray:
    i, j = known.norm_exponent("both_left"), known.norm_exponent("both_right")
    left, right = known.value("both_left", i), known.value("both_right", j)
    left_square = known.value("both_left_square", 2 * i)
    right_square = known.value("both_right_square", 2 * j)
    left_spread = left_square - left * left / finite
    right_spread = right_square - right * right / finite
    # Below this the spread is only the rounding of the sums: the side is constant.
    varied = (left_spread > 1e-13 * left_square) & (right_spread > 1e-13 * right_square)
    covariance = known.value("product", i + j) - left * right / finite
    correlation = np.clip(covariance / np.sqrt(left_spread * right_spread), -1.0, 1.0)
    return np.where((finite >= 2) & varied, correlation, np.nan)
