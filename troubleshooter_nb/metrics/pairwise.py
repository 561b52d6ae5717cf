"""Figures of two tensors against each other, in one pass over their blocks.

The second tensor, the benchmark, is the reference of every relative figure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from troubleshooter_nb.metrics.floats import arithmetic_of, computable
from troubleshooter_nb.metrics.partial import (
    EXPONENTS,
    Partial,
    exponent_histogram,
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

# name -> (dtype, unit, meaning, value for empty tensors)
PAIR_FIGURES = {
    "identical": ("bool", "", "same dtype and the same bits everywhere", "True"),
    "allclose": ("bool", "", "|left - right| <= atol + rtol |right| everywhere", "True"),
    "allclose_ratio": ("float64", "share", "share of elements that satisfy allclose", "1"),
    "smallest_passing_tolerance": (
        "float64",
        "",
        "smallest t for which rtol = atol = t passes; inf when NaN or Inf differ",
        "0",
    ),
    "cosine": ("float64", "", "cosine of the angle; 1 if both all zero, nan if one is", "nan"),
    "correlation": ("float64", "", "Pearson correlation; nan if one side is constant", "nan"),
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
_C = {name: i for i, name in enumerate(_COUNTS)}
_S = {name: i for i, name in enumerate(_SUMS)}
_M = {name: i for i, name in enumerate(_MAXIMA)}


def pair_partial(
    actual: np.ndarray,
    benchmark: np.ndarray,
    start: int = 0,
    *,
    rtol: float = 1e-4,
    atol: float = 1e-4,
    equal_nan: bool = False,
) -> Partial:
    """`Partial` of one block of two tensors.

    Parameters
    ----------
    actual, benchmark : ndarray, shape (n,), any bool, integer, float or complex dtype
        Stored values of the same flat range. Real floats, and integers of up to 32 bits, are
        measured in float64, which holds them exactly; 64-bit integers are subtracted exactly;
        complex differences are moduli.
    start : int
        Flat index of the first element.
    rtol, atol, equal_nan
        Closeness is ``|actual - benchmark| <= atol + rtol * |benchmark|``, equal infinities are
        close, two NaN are if `equal_nan`.

    Raises
    ------
    ValueError
        If the lengths differ or a dtype holds no numbers.
    """
    _check(actual, benchmark)
    masks = np.concatenate([bits_seen(actual), bits_seen(benchmark)])
    if not len(actual):
        return _pack({}, {}, {}, masks, np.zeros(len(EXPONENTS), np.int64))
    same_bits = actual.dtype == benchmark.dtype and _same_bits(actual, benchmark)
    left, right = computable(actual), computable(benchmark)
    wide_left, wide_right = magnitudes(left), magnitudes(right)
    summary_left = summarise_block(wide_left, left)
    summary_right = summary_left if same_bits else summarise_block(wide_right, right)
    counts = _side_counts(summary_left, summary_right)
    counts["different_bits"] = 0 if same_bits else 1
    scaled = _side_sums(summary_left, summary_right)
    maxima = _side_maxima(summary_left, summary_right)

    kept = None
    if summary_left.nan + summary_left.inf + summary_right.nan + summary_right.inf:
        finite = np.isfinite(wide_left) & np.isfinite(wide_right)
        counts |= _nonfinite_counts(left, right, finite, equal_nan)
        kept = np.flatnonzero(finite)
        left, right = left[kept], right[kept]
        wide_left, wide_right = wide_left[kept], wide_right[kept]
        if not len(kept):
            return _pack(counts, scaled, maxima, masks, np.zeros(len(EXPONENTS), np.int64))
        summary_left, summary_right = summarise_block(wide_left), summarise_block(wide_right)
    counts["finite"] = len(wide_left)
    for side, summary in (("both_left", summary_left), ("both_right", summary_right)):
        scaled[side] = (summary.total, summary.exponent)
        scaled[f"{side}_square"] = (summary.square, 2 * summary.exponent)

    if same_bits:
        counts["close"] = counts.get("close", 0) + len(wide_left)
        counts["zero_reference"] = summary_right.zero
        scaled["product"] = scaled["both_left_square"]
        maxima |= {"error": (0.0, -1), "relative": (0.0, -1), "tolerance": (0.0, -1)}
        histogram = np.zeros(len(EXPONENTS), np.int64)
        return _pack(counts, scaled, maxima, masks, histogram)

    errors = absolute_errors(left, right, wide_left, wide_right)
    parts = [(wide_left, wide_right)]
    if "c" in (left.dtype.kind, right.dtype.kind):
        left, right = left.astype(np.complex128), right.astype(np.complex128)
        parts = [(left.real, right.real), (left.imag, right.imag)]
    scaled["product"] = _product(parts, summary_left.exponent, summary_right.exponent)
    histogram, equal = exponent_histogram(errors)
    counts["different_values"] = counts.get("different_values", 0) + len(errors) - equal
    _add_errors(counts, scaled, maxima, errors, wide_right, summary_right.zero, rtol, atol)
    largest, position = maxima["error"]
    if position >= 0:
        maxima["error"] = (largest, start + int(kept[position] if kept is not None else position))
    return _pack(counts, scaled, maxima, masks, histogram)


def pair_blocks(
    actual: np.ndarray, benchmark: np.ndarray, *, block: int, **tolerance: Any
) -> Iterator[Partial]:
    """`pair_partial` of every block of two arrays in memory, at least one."""
    actual, benchmark = actual.reshape(-1), benchmark.reshape(-1)
    for start in range(0, max(len(actual), 1), block):
        stop = start + block
        yield pair_partial(actual[start:stop], benchmark[start:stop], start, **tolerance)


def pair_figures(partial: Partial, left_dtype: np.dtype, right_dtype: np.dtype) -> dict[str, float]:
    """Every figure of `PAIR_FIGURES`, and `SUMMARY_FIGURES` with ``left_`` and ``right_``."""
    n = {name: int(partial.counts[i]) for name, i in _C.items()}
    count, finite = n["count"], n["finite"]
    mismatch = n["nan_mismatch"] + n["inf_mismatch"]
    relative_count = finite - n["zero_reference"]
    error = _maximum(partial, "error") if finite else (float("nan") if count else 0.0)
    relative_mean = _value(partial, "relative") / relative_count if relative_count else 0.0
    figures: dict[str, float] = {
        "identical": n["different_bits"] == 0 and left_dtype == right_dtype,
        "allclose": n["close"] == count,
        "allclose_ratio": n["close"] / count if count else 1.0,
        "smallest_passing_tolerance": np.inf if mismatch else _maximum(partial, "tolerance"),
        "cosine": _cosine(partial, finite),
        "correlation": _correlation(partial, finite),
        "rmse": _root_mean(partial, "error_square", finite, count),
        "mape": 100.0 * relative_mean,
        "max_abs_error": error,
        "mean_abs_error": _mean(partial, "error", finite, count),
        "max_rel_error": _maximum(partial, "relative"),
        "mean_rel_error": relative_mean,
        "rel_l2_error": _relative_l2(partial, finite, count),
        "nan_mismatch_count": n["nan_mismatch"],
        "inf_mismatch_count": n["inf_mismatch"],
        "unequal_count": n["different_values"],
        "zero_reference_count": n["zero_reference"],
        "max_abs_index": int(partial.positions[_M["error"]]),
        "left_significand_bits": used_significand_bits(int(partial.masks[0]), left_dtype),
        "right_significand_bits": used_significand_bits(int(partial.masks[1]), right_dtype),
    }
    for side in ("left", "right"):
        at = _S[side]
        named = side_figures(
            count,
            n[f"{side}_nan"],
            n[f"{side}_inf"],
            n[f"{side}_zero"],
            partial.mantissas[at : at + 2],
            partial.exponents[at : at + 2],
            partial.maxima[_M[f"{side}_max"] :][:2],
        )
        figures |= {f"{side}_{name}": named[name] for name in SUMMARY_FIGURES}
    return figures


def _check(actual: np.ndarray, benchmark: np.ndarray) -> None:
    if actual.ndim != 1 or actual.shape != benchmark.shape:
        msg = f"pair_partial needs equal flat lengths, got {actual.shape} and {benchmark.shape}"
        raise ValueError(msg)
    for values in (actual, benchmark):
        if arithmetic_of(values.dtype) == "unsupported":
            msg = f"cannot compare values of dtype {values.dtype}"
            raise ValueError(msg)


def _same_bits(actual: np.ndarray, benchmark: np.ndarray) -> bool:
    width = actual.dtype.itemsize
    unsigned = f"u{width}" if width in (1, 2, 4, 8) else "u1"
    return bool(
        np.array_equal(
            np.ascontiguousarray(actual).view(unsigned),
            np.ascontiguousarray(benchmark).view(unsigned),
        )
    )


def _side_counts(left: BlockSummary, right: BlockSummary) -> dict[str, int]:
    return {
        "count": left.count,
        "left_nan": left.nan,
        "left_inf": left.inf,
        "left_zero": left.zero,
        "right_nan": right.nan,
        "right_inf": right.inf,
        "right_zero": right.zero,
    }


def _side_sums(left: BlockSummary, right: BlockSummary) -> dict[str, tuple[float, int]]:
    return {
        "left": (left.total, left.exponent),
        "left_square": (left.square, 2 * left.exponent),
        "right": (right.total, right.exponent),
        "right_square": (right.square, 2 * right.exponent),
    }


def _side_maxima(left: BlockSummary, right: BlockSummary) -> dict[str, tuple[float, int]]:
    return {
        "left_max": (left.largest, -1),
        "left_min": (-left.smallest, -1),
        "right_max": (right.largest, -1),
        "right_min": (-right.smallest, -1),
    }


def _nonfinite_counts(
    left: np.ndarray, right: np.ndarray, finite: np.ndarray, equal_nan: bool
) -> dict[str, int]:
    rest = ~finite
    left, right = left[rest], right[rest]
    left_nan, right_nan = np.isnan(left), np.isnan(right)
    nan_mismatch = int(np.count_nonzero(left_nan != right_nan))
    both_nan = int(np.count_nonzero(left_nan & right_nan))
    same_inf = int(np.count_nonzero((left == right) & np.isinf(left) & np.isinf(right)))
    return {
        "nan_mismatch": nan_mismatch,
        "inf_mismatch": len(left) - nan_mismatch - both_nan - same_inf,
        "close": same_inf + (both_nan if equal_nan else 0),
        "different_values": len(left) - both_nan - same_inf,
    }


def absolute_errors(
    left: np.ndarray, right: np.ndarray, wide_left: np.ndarray, wide_right: np.ndarray
) -> np.ndarray:
    """|left - right| as float64, exact before the one rounding to it; of complex, the modulus.

    Parameters
    ----------
    left, right : ndarray, shape (n,)
        Values in a dtype numpy computes with (`metrics.floats.computable`).
    wide_left, wide_right : ndarray of float64, shape (n,)
        The same values, as `metrics.summary.magnitudes` gives them.
    """
    if "c" in (left.dtype.kind, right.dtype.kind):
        errors = np.abs(left.astype(np.complex128) - right.astype(np.complex128))
        return np.asarray(errors)
    integers = left.dtype.kind in "biu" and right.dtype.kind in "biu"
    if not integers or max(left.dtype.itemsize, right.dtype.itemsize) <= 4:
        errors = wide_left - wide_right
        np.abs(errors, out=errors)
        return np.asarray(errors)
    left_is_larger = left > right
    larger, smaller = np.where(left_is_larger, left, right), np.where(left_is_larger, right, left)
    if larger.dtype.kind == "f":  # int64 against uint64: numpy promotes to float64
        larger = np.where(left_is_larger, left.astype(np.uint64), right.astype(np.uint64))
        smaller = np.where(left_is_larger, right.astype(np.uint64), left.astype(np.uint64))
    # Modulo 2**64 the larger minus the smaller value is their distance, unless it needs 65 bits.
    errors = (larger.astype(np.uint64) - smaller.astype(np.uint64)).astype(np.float64)
    rough = np.abs(wide_left - wide_right)
    return np.where(rough < 2.0**63, errors, rough)


def _product(
    parts: list[tuple[np.ndarray, np.ndarray]], left_exponent: int, right_exponent: int
) -> tuple[float, int]:
    """Inner product, scaled like the two sides; of complex numbers, its real part."""
    if left_exponent or right_exponent:
        parts = [(np.ldexp(x, -left_exponent), np.ldexp(y, -right_exponent)) for x, y in parts]
    return float(sum(np.add.reduce(x * y) for x, y in parts)), left_exponent + right_exponent


def _add_errors(
    counts: dict[str, int],
    scaled: dict[str, tuple[float, int]],
    maxima: dict[str, tuple[float, int]],
    errors: np.ndarray,
    reference: np.ndarray,
    zero_reference: int,
    rtol: float,
    atol: float,
) -> None:
    worst = int(errors.argmax())
    largest = float(errors[worst])
    total, square, exponent = sums(errors, largest)
    scaled["error"] = (total, exponent)
    scaled["error_square"] = (square, 2 * exponent)
    reference = np.abs(reference)
    close = errors <= atol + rtol * reference if largest > atol else None
    counts["close"] = counts.get("close", 0) + (
        len(errors) if close is None else int(np.count_nonzero(close))
    )
    counts["zero_reference"] = zero_reference
    maxima["error"] = (largest, worst if largest else -1)
    maxima["tolerance"] = (float((errors / (1.0 + reference)).max()), -1)
    if zero_reference:
        nonzero = reference != 0.0
        errors, reference = errors[nonzero], reference[nonzero]
    if len(errors):
        with np.errstate(over="ignore"):
            relative = errors / reference
        scaled["relative"] = (float(np.add.reduce(relative)), 0)
        maxima["relative"] = (float(relative.max()), -1)


def _pack(
    counts: dict[str, int],
    scaled: dict[str, tuple[float, int]],
    maxima: dict[str, tuple[float, int]],
    masks: np.ndarray,
    histogram: np.ndarray,
) -> Partial:
    return Partial(
        counts=np.array([counts.get(name, 0) for name in _COUNTS]),
        mantissas=np.array([scaled.get(name, (0.0, 0))[0] for name in _SUMS]),
        exponents=np.array([scaled.get(name, (0.0, 0))[1] for name in _SUMS]),
        maxima=np.array([maxima.get(name, (-np.inf, -1))[0] for name in _MAXIMA]),
        positions=np.array([maxima.get(name, (-np.inf, -1))[1] for name in _MAXIMA]),
        masks=masks,
        histogram=histogram,
    )


def _value(partial: Partial, name: str) -> float:
    i = _S[name]
    return float(np.ldexp(partial.mantissas[i], partial.exponents[i]))


def _maximum(partial: Partial, name: str) -> float:
    return max(float(partial.maxima[_M[name]]), 0.0)


def _mean(partial: Partial, name: str, finite: int, count: int) -> float:
    if not finite:
        return float("nan") if count else 0.0
    i = _S[name]
    return float(np.ldexp(partial.mantissas[i] / finite, partial.exponents[i]))


def _root_mean(partial: Partial, name: str, finite: int, count: int) -> float:
    if not finite:
        return float("nan") if count else 0.0
    i = _S[name]
    return root(partial.mantissas[i] / finite, partial.exponents[i])


def _relative_l2(partial: Partial, finite: int, count: int) -> float:
    if not finite:
        return float("nan") if count else 0.0
    i, j = _S["error_square"], _S["both_right_square"]
    error, reference = partial.mantissas[i], partial.mantissas[j]
    if error == 0.0:
        return 0.0
    if reference == 0.0:
        return float("inf")
    return root(error / reference, partial.exponents[i] - partial.exponents[j])


def _cosine(partial: Partial, finite: int) -> float:
    if not finite:
        return float("nan")
    left, right, product = (
        partial.mantissas[_S[name]] for name in ("both_left_square", "both_right_square", "product")
    )
    if left == 0.0 and right == 0.0:
        return 1.0
    if left == 0.0 or right == 0.0:
        return float("nan")
    # The product of two sums of squares may overflow: only their mantissas are multiplied.
    (left, e), (right, f) = np.frexp(left), np.frexp(right)
    odd = (e + f) & 1
    # The scale of the product is that of both sides, so only the powers of frexp are left.
    cosine = np.ldexp(product / np.sqrt(left * right * (1 + odd)), -((e + f - odd) // 2))
    return float(np.clip(cosine, -1.0, 1.0))


def _correlation(partial: Partial, finite: int) -> float:
    if finite < 2:
        return float("nan")
    left, right = _value(partial, "both_left"), _value(partial, "both_right")
    left_square, right_square = (
        _value(partial, "both_left_square"),
        _value(partial, "both_right_square"),
    )
    with np.errstate(over="ignore", invalid="ignore"):
        spread = (left_square - left * left / finite) * (right_square - right * right / finite)
        # Below this the spread is only the rounding of the sums: the side is constant.
        if not spread > (1e-13 * left_square) * (1e-13 * right_square):
            return float("nan")
        covariance = _value(partial, "product") - left * right / finite
        return float(np.clip(covariance / np.sqrt(spread), -1.0, 1.0))
