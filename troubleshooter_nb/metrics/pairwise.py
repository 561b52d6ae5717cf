"""Figures of two tensors against each other, in one pass over their blocks.

The second tensor, the benchmark, is the reference of every relative figure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.compiled import Kernel, measure_float32
from troubleshooter_nb.metrics.floats import (
    arithmetic_of,
    computable,
    native_order,
    same_dtype,
)
from troubleshooter_nb.metrics.partial import (
    EXPONENTS,
    Partial,
    bins_of_fields,
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
    scaled,
    side_figures,
    summarise_block,
    sums,
    used_significand_bits,
)
from troubleshooter_nb.thresholds import FIGURES_BLOCK, FIRST_VALUES

# name -> (dtype, unit, meaning, value for empty tensors)
PAIR_FIGURES = {
    "identical": ("bool", "", "same dtype and bits everywhere, whatever the byte order", "True"),
    "allclose": ("bool", "", "|left - right| <= atol + rtol |right| everywhere", "True"),
    "allclose_ratio": ("float64", "share", "share of elements that satisfy allclose", "1"),
    "smallest_passing_tolerance": (
        "float64",
        "",
        "smallest t for which rtol = atol = t passes; inf when none does, as with NaN",
        "0",
    ),
    "cosine": ("float64", "", "cosine of the angle; 1 if both all zero, nan if one is", "nan"),
    "correlation": (
        "float64",
        "",
        "Pearson correlation, nan if one side is constant; of complex values the cosine",
        "nan",
    ),
    "rmse": ("float64", "tensor", "root of the mean squared error", "0"),
    "mape": ("float64", "percent", "100 times mean_rel_error", "0"),
    "max_abs_error": ("float64", "tensor", "largest |left - right|", "0"),
    "mean_abs_error": ("float64", "tensor", "mean |left - right| over all elements", "0"),
    "max_rel_error": ("float64", "", "largest |left - right| / |right| where right is not 0", "0"),
    "mean_rel_error": ("float64", "", "mean |left - right| / |right| where right is not 0", "0"),
    "rel_l2_error": ("float64", "", "norm of the error / norm of right", "0"),
    "nan_mismatch_count": ("int64", "elements", "NaN on one side only", "0"),
    "inf_mismatch_count": (
        "int64",
        "elements",
        "not the same infinity on both sides; NaN against Inf counts as NaN mismatch",
        "0",
    ),
    "unequal_count": ("int64", "elements", "elements whose values differ", "0"),
    "zero_reference_count": (
        "int64",
        "elements",
        "right is 0: left out of relative figures",
        "0",
    ),
    "max_abs_index": ("int64", "flat index", "where max_abs_error is; -1 if nowhere", "-1"),
    "left_significand_bits": ("int64", "bits", "precision the stored left values use", "0"),
    "right_significand_bits": ("int64", "bits", "precision the stored right values use", "0"),
}
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
    actual, benchmark = native_order(actual), native_order(benchmark)
    masks = np.array([bits_seen(actual), bits_seen(benchmark)], np.uint64)
    figures = _Figures({}, {}, {}, np.zeros(len(EXPONENTS), np.int64))
    # What leaves float64's range is inf on purpose, and a signalling NaN may warn anywhere.
    with np.errstate(all="ignore"):
        compiled = kernel is not None and _measure_compiled(
            figures, kernel, actual, benchmark, start, rtol, atol
        )
        if len(actual) and not compiled:
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
    if kernel is not None and len(actual) > FIGURES_BLOCK and actual.dtype == np.float32:
        _check(actual, benchmark)
        figures = _Figures({}, {}, {}, np.zeros(len(EXPONENTS), np.int64))
        wanted = {name: tolerance[name] for name in ("rtol", "atol")}
        if _measure_compiled(figures, kernel, actual, benchmark, start, **wanted):
            return figures.pack(np.array([bits_seen(actual), bits_seen(benchmark)], np.uint64))
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


def pair_figures(partial: Partial, left_dtype: np.dtype, right_dtype: np.dtype) -> dict[str, float]:
    """Every figure of `PAIR_FIGURES`, and `SUMMARY_FIGURES` with ``left_`` and ``right_``.

    Notes
    -----
    Figures over positions finite on both sides are nan where there is none in a tensor that is
    not empty, and so are those relative to single elements where all of them are relative to 0,
    unless nothing differs. A figure beyond float64's range is inf.
    """
    known = _Known(partial)
    figures = _error_figures(known, left_dtype, right_dtype)
    for side in ("left", "right"):
        figures |= _side_figures(known, side)
    return figures


class _Known:
    """A `Partial` as Python's numbers under their names: numpy's scalars cost ten times as much."""

    def __init__(self, partial: Partial) -> None:
        self.counts = dict(zip(_COUNTS, partial.counts.tolist(), strict=True))
        sums = zip(partial.mantissas.tolist(), partial.exponents.tolist(), strict=True)
        self.sums: dict[str, tuple[float, int]] = dict(zip(_SUMS, sums, strict=True))
        self.maxima: dict[str, float] = dict(zip(_MAXIMA, partial.maxima.tolist(), strict=True))
        self.error_index = int(partial.positions[_MAXIMA.index("error")])
        self.masks = partial.masks.tolist()

    def value(self, name: str, exponent: int = 0) -> float:
        """A sum divided by ``2**exponent``."""
        mantissa, own = self.sums[name]
        return scaled(mantissa, own - exponent)

    def norm_exponent(self, name: str) -> int:
        """Power of two to divide a side by, so that its sum of squares is between 1/4 and 1."""
        mantissa, exponent = self.sums[f"{name}_square"]
        return (math.frexp(mantissa)[1] + exponent + 1) // 2

    def maximum(self, name: str) -> float:
        return max(self.maxima[name], 0.0)


def _error_figures(known: _Known, left_dtype: np.dtype, right_dtype: np.dtype) -> dict[str, float]:
    n = known.counts
    count, finite = n["count"], n["finite"]
    none = float("nan") if count and not finite else 0.0
    error = known.maximum("error") if finite else none
    relative_count = finite - n["zero_reference"]
    relative_none = float("nan") if error else none
    relative_mean = known.value("relative") / relative_count if relative_count else relative_none
    cosine = _cosine(known, finite)
    is_complex = "c" in (left_dtype.kind, right_dtype.kind)
    return {
        "identical": n["different_bits"] == 0 and same_dtype(left_dtype, right_dtype),
        "allclose": n["close"] == count,
        "allclose_ratio": n["close"] / count if count else 1.0,
        # Rounded up a little, so that it does pass.
        "smallest_passing_tolerance": known.maximum("tolerance") * (1.0 + 2.0**-50),
        "cosine": cosine,
        # A mean of moduli centres no complex numbers.
        "correlation": cosine if is_complex else _correlation(known, finite),
        "rmse": _root_mean(known, finite) if finite else none,
        "mape": 100.0 * relative_mean,
        "max_abs_error": error,
        "mean_abs_error": _mean(known, finite) if finite else none,
        "max_rel_error": known.maximum("relative") if relative_count else relative_none,
        "mean_rel_error": relative_mean,
        "rel_l2_error": _relative_l2(known) if finite else none,
        "nan_mismatch_count": n["nan_mismatch"],
        "inf_mismatch_count": n["inf_mismatch"],
        "unequal_count": n["different_values"],
        "zero_reference_count": n["zero_reference"],
        "max_abs_index": known.error_index,
        "left_significand_bits": used_significand_bits(known.masks[0], left_dtype),
        "right_significand_bits": used_significand_bits(known.masks[1], right_dtype),
    }


def _side_figures(known: _Known, side: str) -> dict[str, float]:
    nan, inf, zero = (known.counts[f"{side}_{name}"] for name in ("nan", "inf", "zero"))
    sums = known.sums[side], known.sums[f"{side}_square"]
    extremes = known.maxima[f"{side}_max"], known.maxima[f"{side}_min"]
    named = side_figures(known.counts["count"], nan, inf, zero, *sums, *extremes)
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


def _measure_compiled(
    figures: _Figures,
    kernel: Kernel,
    left: np.ndarray,
    right: np.ndarray,
    start: int,
    rtol: float,
    atol: float,
) -> bool:
    """Do what `_measure` does for ordinary blocks of float32; False leaves the block to it."""
    if not (left.dtype == right.dtype == np.float32 and left.flags.c_contiguous):
        return False
    if not right.flags.c_contiguous or not len(left):
        return False
    found = measure_float32(kernel, left, right, rtol, atol)
    if found is None:
        return False
    sums, maxima, counts, fields = found
    size, zeros = len(left), int(fields[0])  # a float32 difference is never subnormal in float64
    fields[0] = 0
    # Nor do squares of float32 leave float64's range, so every scale is 0.
    for side in ("left", "right"):
        summary = BlockSummary(
            count=size,
            nan=0,
            inf=0,
            zero=counts[f"{side}_zero"],
            total=sums[side],
            square=sums[f"{side}_square"],
            exponent=0,
            largest=maxima[f"{side}_max"] + 0.0,
            smallest=0.0 - maxima[f"{side}_min"],
        )
        figures.add_side(side, summary)
        figures.add_sums(f"both_{side}", summary.total, summary.square, 0)
    figures.add_sums("error", sums["error"], sums["error_square"], 0)
    figures.sums["relative"] = (sums["relative"], 0)
    figures.sums["product"] = (sums["product"], 0)
    figures.histogram = bins_of_fields(fields)
    same_bits = not maxima["error"] and _same_bits(left, right)
    figures.counts |= {"count": size, "finite": size, "different_bits": int(not same_bits)}
    figures.counts |= {"different_values": size - zeros, "zero_reference": counts["right_zero"]}
    figures.counts["close"] = counts["close"] if maxima["error"] > atol else size
    if not same_bits:
        figures.maxima |= {name: (maxima[name], -1) for name in ("relative", "tolerance")}
    if maxima["error"]:
        figures.maxima["error"] = (maxima["error"], start + counts["error_index"])
    return True


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


def _mean(known: _Known, finite: int) -> float:
    mantissa, exponent = known.sums["error"]
    return scaled(mantissa / finite, exponent)


def _root_mean(known: _Known, finite: int) -> float:
    mantissa, exponent = known.sums["error_square"]
    return root(mantissa / finite, exponent)


def _relative_l2(known: _Known) -> float:
    i, j = known.norm_exponent("error"), known.norm_exponent("both_right")
    error = known.value("error_square", 2 * i)
    reference = known.value("both_right_square", 2 * j)
    if error == 0.0:
        return 0.0
    if reference == 0.0:
        return float("inf")
    return root(error / reference, 2 * (i - j))


def _cosine(known: _Known, finite: int) -> float:
    i, j = known.norm_exponent("both_left"), known.norm_exponent("both_right")
    left = known.value("both_left_square", 2 * i)
    right = known.value("both_right_square", 2 * j)
    if not finite or (left == 0.0) != (right == 0.0):
        return float("nan")
    if left == 0.0:
        return 1.0
    return _clipped(known.value("product", i + j) / math.sqrt(left * right))


def _correlation(known: _Known, finite: int) -> float:
    if finite < 2:
        return float("nan")
    i, j = known.norm_exponent("both_left"), known.norm_exponent("both_right")
    left, right = known.value("both_left", i), known.value("both_right", j)
    left_square = known.value("both_left_square", 2 * i)
    right_square = known.value("both_right_square", 2 * j)
    left_spread = left_square - left * left / finite
    right_spread = right_square - right * right / finite
    # Below this the spread is only the rounding of the sums: the side is constant.
    if not (left_spread > 1e-13 * left_square and right_spread > 1e-13 * right_square):
        return float("nan")
    covariance = known.value("product", i + j) - left * right / finite
    return _clipped(covariance / math.sqrt(left_spread * right_spread))


def _clipped(cosine: float) -> float:
    """Without what rounding put beyond 1; nan stays."""
    return cosine if math.isnan(cosine) else min(max(cosine, -1.0), 1.0)
