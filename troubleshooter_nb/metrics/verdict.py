"""The one truth table: figures, tolerance and noise bound in, verdict out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.float_formats import COMPUTE_FORMATS
from troubleshooter_nb.metrics.floats import (
    are_exact,
    is_number,
    same_dtype,
    significand_bits,
    unit_roundoff,
)
from troubleshooter_nb.metrics.noise import TYPICAL_LENGTH, noise_bound

VerdictName = Literal[
    "identical",
    "pass",
    "rounding",
    "padded",
    "grown_rounding",
    "no_effect",
    "reduced",
    "differs",
    "unrelated",
    "nan",
    "shape",
    "missing",
    "unreadable",
    "undecidable",
]

# verdict -> (counts as passed, when)
TRUTH_TABLE: Mapping[VerdictName, tuple[bool, str]] = {
    "identical": (True, "bit-equal"),
    "pass": (True, "within the asked tolerance, not bit-equal"),
    "rounding": (True, "outside the asked tolerance, inside the noise bound of its dtype"),
    "padded": (True, "differs in tokens alone that a recorded mask says are padding"),
    "grown_rounding": (True, "nothing created it: rounding that grew on its way, by the diagnosis"),
    "no_effect": (True, "whatever uses it agrees all the same, by the diagnosis"),
    "reduced": (False, "of the size and pattern of a narrower floating-point format"),
    "differs": (False, "anything else"),
    "unrelated": (False, "no correlation beyond chance"),
    "nan": (False, "NaN or Inf are not at the same places"),
    "shape": (False, "shapes differ"),
    "missing": (False, "no partner; passed when a mapping or rule expects it"),
    "unreadable": (False, "an entry could not be read"),
    "undecidable": (False, "equal statistics cannot prove equal values; counted apart"),
}


def is_open(verdicts: np.ndarray) -> bool:
    """Whether nothing follows from verdicts: more pairs are undecidable than are decided.

    Parameters
    ----------
    verdicts : ndarray of str, shape (n,)
        ``missing`` counts for neither.
    """
    undecidable = np.count_nonzero(verdicts == "undecidable")
    decided = np.count_nonzero(np.isin(verdicts, ("missing", "undecidable"), invert=True))
    return not decided or undecidable > decided


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The asked tolerance: ``|left - right| <= atol + rtol * |right|`` for every element.

    Parameters
    ----------
    rtol : float, >= 0, dimensionless
    atol : float, >= 0, in the tensor's unit
    equal_nan : bool
        Two NaN at the same place are equal.
    integer_tolerance : float, >= 0
        What integers and bool may be apart instead, see `metrics.floats.are_exact`. By default
        they are exact: no id of a token is nearly another one.

    Raises
    ------
    ValueError
        For a negative, infinite or NaN tolerance.
    """

    rtol: float = 1e-4
    atol: float = 1e-4
    equal_nan: bool = False
    integer_tolerance: float = 0.0

    def __post_init__(self) -> None:
        for name in ("rtol", "atol", "integer_tolerance"):
            value = getattr(self, name)
            if not is_number(value):
                raise ArgumentError(Message("arguments.no_number", name=name, value=repr(value)))
            if not 0 <= value < np.inf:
                raise ArgumentError(Message("arguments.tolerance", name=name, value=repr(value)))

    def of(self, left: np.dtype, right: np.dtype) -> tuple[float, float]:
        """`rtol` and `atol` that hold for two tensors of these dtypes."""
        return (0.0, self.integer_tolerance) if are_exact(left, right) else (self.rtol, self.atol)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict, whether it counts as passed, and the id and detail of its reason.

    `reason` is a key of ``messages.verdicts``; `detail` fills its gap, for example the name of a
    format, or is `of_both` where the two sides are to be told.
    """

    name: VerdictName
    passed: bool
    reason: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Verdicts:
    """Verdicts of many pairs as columns, shape (n,) each: text, but `passed`, which is bool.

    The name of a pair that has no verdict yet is empty.
    """

    name: np.ndarray
    passed: np.ndarray
    reason: np.ndarray
    detail: np.ndarray

    @classmethod
    def empty(cls, count: int) -> Verdicts:
        """No verdicts of so many pairs."""
        texts = [np.full(count, "", object) for _ in range(3)]
        return cls(texts[0], np.zeros(count, bool), texts[1], texts[2])

    def copy(self) -> Verdicts:
        """The same verdicts, to be changed."""
        return Verdicts(*(getattr(self, name).copy() for name in self.__slots__))

    def put(self, rows: Any, one: Verdict) -> None:
        """Give the pairs that an index or a mask means this verdict."""
        self.name[rows], self.passed[rows] = one.name, one.passed
        self.reason[rows], self.detail[rows] = one.reason, one.detail

    def put_rows(self, rows: np.ndarray, others: Verdicts) -> None:
        """Give the pairs of these numbers the verdicts of others, one each."""
        self.name[rows], self.passed[rows] = others.name, others.passed
        self.reason[rows], self.detail[rows] = others.reason, others.detail


def verdict(name: VerdictName, reason: str = "", detail: str = "") -> Verdict:
    """The verdict with the `passed` of the truth table."""
    return Verdict(name, TRUTH_TABLE[name][0], reason, detail)


def of_both(left: str, right: str) -> Message:
    """The detail ``left / right`` of a verdict, which knows both."""
    return Message("verdicts.of_both", left=left, right=right)


def expected_missing() -> Verdict:
    """The verdict of an entry whose missing partner a mapping or a rule declares expected."""
    return Verdict("missing", True, "missing_expected")


def judge(
    figures: Mapping[str, float],
    tolerance: Tolerance,
    left_dtype: np.dtype,
    right_dtype: np.dtype,
    *,
    size: int,
    length: int | None = None,
) -> Verdict:
    """Verdict of two tensors of equal shape whose values were compared.

    Parameters
    ----------
    figures : mapping
        From `metrics.pairwise.pair_figures`.
    tolerance : Tolerance
        The one the figures were made with.
    left_dtype, right_dtype : numpy dtype
        Stored dtypes.
    size : int
        Number of elements.
    length : int, optional
        Accumulated length where the operator is known, see `metrics.noise.noise_bound`.
    """
    nonfinite = figures["left_nan_count"] + figures["left_inf_count"]
    if figures["identical"]:
        return verdict("identical", "identical_nonfinite" if nonfinite else "")
    if figures["nan_mismatch_count"] or figures["inf_mismatch_count"]:
        return verdict("nan", "nan_mismatch")
    shared_nan = figures["left_nan_count"]
    if shared_nan and not tolerance.equal_nan:
        return verdict("nan", "nan_shared")
    finite = size - int(nonfinite)
    if are_exact(left_dtype, right_dtype):
        return _judge_exact(figures, tolerance, left_dtype, right_dtype, finite)
    bound = noise_bound(left_dtype, right_dtype, length=length)
    if figures["allclose"]:
        return _passed(figures, tolerance, left_dtype, right_dtype, bound.rel_l2)
    fill = _fill_of(figures, finite)
    if fill and _errs_beside(figures, bound.rel_l2, finite):
        return verdict("differs", "differs_beside_fill", f"{fill:g}")
    inside = bound.explains(figures["rel_l2_error"], figures["max_abs_error"] / _scale(figures))
    if inside and not _is_systematic(figures, left_dtype, right_dtype, finite):
        return verdict("rounding", "rounding")
    if is_unrelated(figures, finite):
        return verdict("unrelated", "unrelated")
    if narrower := narrower_format(figures, left_dtype, right_dtype, finite):
        return verdict("reduced", "reduced", narrower)
    return verdict("differs", "differs")


def judge_all(
    figures: Mapping[str, np.ndarray],
    tolerance: Tolerance,
    left_dtypes: Sequence[np.dtype],
    right_dtypes: Sequence[np.dtype],
    sizes: np.ndarray,
) -> Verdicts:
    """`judge` of many pairs: the verdicts that most have, by columns, and the others one by one.

    Parameters
    ----------
    figures : mapping of str to ndarray, shape (n,)
        From `metrics.pairwise.figures_of`.
    tolerance : Tolerance
    left_dtypes, right_dtypes : sequence of n numpy dtypes
    sizes : ndarray of int64, shape (n,), elements
    """
    found = Verdicts.empty(len(sizes))
    identical = figures["identical"]
    nonfinite = figures["left_nan_count"] + figures["left_inf_count"] > 0
    found.put(identical & ~nonfinite, verdict("identical"))
    mismatches = figures["nan_mismatch_count"] + figures["inf_mismatch_count"] > 0
    shared_nan = (figures["left_nan_count"] > 0) & (not tolerance.equal_nan)
    passed = figures["allclose"] & ~identical & ~mismatches & ~shared_nan
    limits = _plain_limits(tolerance, left_dtypes, right_dtypes)
    # As in `_passed`: a relative error that is nan is not above the limit.
    found.put(passed & (limits >= 0) & ~(figures["rel_l2_error"] > limits), verdict("pass"))
    rest = np.flatnonzero(found.name == "")
    table = {name: column[rest].tolist() for name, column in figures.items()}
    for at, row in enumerate(rest.tolist()):
        own = {name: column[at] for name, column in table.items()}
        dtypes = left_dtypes[row], right_dtypes[row]
        found.put(row, judge(own, tolerance, *dtypes, size=int(sizes[row])))
    return found


def _plain_limits(
    tolerance: Tolerance, left_dtypes: Sequence[np.dtype], right_dtypes: Sequence[np.dtype]
) -> np.ndarray:
    """The largest relative error with which an allclose pair passes without a word, shape (n,).

    -1 where the dtypes differ, which is always told, and of integers that may differ.
    """
    pairs = list(zip(left_dtypes, right_dtypes, strict=True))
    limits = {
        (left, right): max(_blind(tolerance), noise_bound(left, right).rel_l2)
        if same_dtype(left, right) and not (tolerance.integer_tolerance and are_exact(left, right))
        else -1.0
        for left, right in set(pairs)
    }
    return np.array([limits[pair] for pair in pairs], np.float64)


def judge_statistics(
    left: Mapping[str, float],
    right: Mapping[str, float],
    tolerance: Tolerance,
    *,
    size: int,
    dtypes: tuple[np.dtype, np.dtype] | None = None,
) -> Verdict:
    """Verdict where at least one side has only statistics: they can refute, never prove.

    Parameters
    ----------
    left, right : mapping
        Any of min, max, mean, l2, nan_count, inf_count; what is missing or nan on a side is not
        compared.
    tolerance : Tolerance
        The one every element would have to satisfy.
    size : int
        Number of elements.
    dtypes : tuple of two numpy dtypes, optional
        Stored dtypes of both sides: what their rounding explains refutes nothing. Integers and
        bool are exact. Default: the tolerance alone counts.

    Notes
    -----
    A statistic refutes only when it is further off than elements within the tolerance can make
    it: each of `size` elements may be off by `atol`, and a mean near zero by cancellation may be
    off by `rtol` times values that are not near zero. Nor does it when elements inside
    `metrics.noise.noise_bound` can: an extreme may be off by its peak, the norm and the mean by
    its norm, which for the sum of all elements is that of their number.
    """
    if (found := _nonfinite(left, right)) is not None:
        return found
    largest = max((abs(right[name]) for name in ("min", "max") if name in right), default=0.0)
    noise = _noise_of_statistics(right, size, dtypes)
    exact = dtypes is not None and are_exact(*dtypes)
    for name in ("min", "max", "mean", "l2"):
        a, b = float(left.get(name, np.nan)), float(right.get(name, np.nan))
        if np.isnan(a) or np.isnan(b) or a == b:
            continue
        if np.isinf(a) or np.isinf(b):
            # An infinity on one side is never close: its own allowance would be infinite.
            if _is_told(name, a, left) and _is_told(name, b, right):
                return verdict("differs", "statistics_differ", name)
            continue
        atol = tolerance.atol * (size**0.5 if name == "l2" else 1.0)
        reach = max(abs(b), largest) if name == "mean" else abs(b)
        allowed = max(atol + tolerance.rtol * reach, noise[name])
        if exact and name in ("min", "max"):
            # These are elements; tools compute the norm and the mean of integers in floats.
            allowed = tolerance.integer_tolerance
        if abs(a - b) > allowed:
            return verdict("differs", "statistics_differ", name)
    return _undecided(left, right, tolerance, size)


def estimated_relative(apart: float, norm: float) -> float:
    """A distance by fingerprints over the norm of the right side; inf of any over none."""
    return apart / norm if norm > 0 else (math.inf if apart else 0.0)


def judge_fingerprints(
    apart: float,
    norm: float,
    tolerance: Tolerance,
    *,
    size: int,
    dtypes: tuple[np.dtype, np.dtype],
    has_fill: bool = False,
) -> Verdict:
    """Verdict by the distance that fingerprints tell: of the tensors as a whole, not by element.

    Parameters
    ----------
    apart : float
        From `metrics.sketches.estimated_l2`.
    norm : float
        Norm of the right side, in the same unit.
    tolerance : Tolerance
        `rtol` times the norm is within it, as is what no single element could exceed `atol` by.
    size : int
        Number of elements.
    dtypes : tuple of two numpy dtypes
        Stored dtypes. Of integers and bool any distance is a difference.
    has_fill : bool
        Whether the norm is that of a fill, see `fill_of`: nothing is small beside it then.

    Notes
    -----
    An estimate passes when the largest distance behind it is within the tolerance, and differs when
    the smallest one is out of reach of elements that all are; between them nothing is decided.
    """
    relative = estimated_relative(apart, norm)
    largest = thresholds.FINGERPRINT_BELOW * apart
    least = apart / thresholds.FINGERPRINT_ABOVE
    rtol, atol = tolerance.of(*dtypes)
    if has_fill and largest > atol:
        return verdict("undecidable", "fingerprints_fill")
    noise = 0.0 if are_exact(*dtypes) else noise_bound(*dtypes).rel_l2
    floor = 0.0 if are_exact(*dtypes) else thresholds.FINGERPRINT_FLOOR
    if largest <= rtol * norm or largest <= atol:
        return verdict("pass", "fingerprints_agree")
    if relative <= floor or largest <= noise * norm:
        return verdict("rounding", "fingerprints_rounding")
    if least > max(rtol * norm + atol * size**0.5, noise * norm):
        return verdict("differs", "fingerprints_differ")
    return verdict("undecidable", "fingerprints_between")


def _nonfinite(left: Mapping[str, float], right: Mapping[str, float]) -> Verdict | None:
    """The verdict of NaN or infinities that are not alike; None where nothing says so."""
    for name, word in (("nan_count", "NaN"), ("inf_count", "Inf")):
        # A recorded 1 may stand for at least one, a nan for unknown.
        a, b = left.get(name, -1), right.get(name, -1)
        if not (a >= 0 and b >= 0 and a != b and min(a, b) != 1):
            continue
        if min(a, b):
            return verdict(
                "nan", "statistics_counts", of_both(*(f"{x:,.0f} {word}" for x in (a, b)))
            )
        return verdict("nan", f"statistics_only_{'left' if a else 'right'}", word)
    mine, theirs = _infinities(left), _infinities(right)
    if mine and theirs and mine != theirs:
        return verdict("nan", "statistics_opposite", of_both(mine, theirs))
    return None


def _infinities(side: Mapping[str, float]) -> str:
    """``-Inf``, ``Inf`` or both, where the extremes hold such values; empty where they do not."""
    low, high = (float(side.get(name, np.nan)) for name in ("min", "max"))
    if np.isnan(low) or np.isnan(high):
        return ""
    found = [word for word, sign in (("-Inf", -np.inf), ("+Inf", np.inf)) if sign in (low, high)]
    return ", ".join(found)


def _is_told(name: str, value: float, side: Mapping[str, float]) -> bool:
    """Whether a side's statistic is that of its values, where one of the two is infinite.

    Computed ones are those of the finite values; a norm or a mean beside finite extremes is
    infinite because the tool that recorded it ran over.
    """
    finite = all(np.isfinite(side.get(extreme, np.nan)) for extreme in ("min", "max"))
    if np.isinf(value):
        return name in ("min", "max") or not finite
    return not (finite and side.get("inf_count", -1) > 0)


def _noise_of_statistics(
    right: Mapping[str, float], size: int, dtypes: tuple[np.dtype, np.dtype] | None
) -> dict[str, float]:
    """How far apart rounding may put each statistic of the same values."""
    if dtypes is None:
        return dict.fromkeys(("min", "max", "mean", "l2"), 0.0)
    known = {name: abs(value) for name, value in right.items() if np.isfinite(value)}
    largest = max(known.get("min", 0.0), known.get("max", 0.0))
    typical = known["l2"] / size**0.5 if "l2" in known and size > 0 else largest
    elements = noise_bound(*dtypes)
    summed = noise_bound(*dtypes, length=max(size, TYPICAL_LENGTH)).rel_l2
    extreme = elements.peak * largest
    return {
        "min": extreme,
        "max": extreme,
        "mean": summed * typical,
        "l2": summed * known.get("l2", 0.0),
    }


def _undecided(
    left: Mapping[str, float], right: Mapping[str, float], tolerance: Tolerance, size: int
) -> Verdict:
    """The verdict where no statistic refutes; NaN and infinities on both sides are said."""
    counts = {
        word: [side.get(name, -1) for side in (left, right)]
        for name, word in (("nan_count", "NaN"), ("inf_count", "Inf"))
    }
    both = [word for word, found in counts.items() if min(found) > 0]
    if tolerance.equal_nan and 0 < size <= min(counts["NaN"]):
        return verdict("pass", "statistics_all_nan")
    if both:
        # Tensors of the same bits, NaN included, would be identical.
        return verdict("undecidable", "statistics_both", ", ".join(both))
    return verdict("undecidable", "undecidable")


def is_unrelated(figures: Mapping[str, float], finite: int) -> bool:
    """Whether two tensors correlate no more than chance and differ as a whole."""
    # In small tensors chance reaches so far that real relations lie inside: they only differ.
    chance = (
        min(thresholds.CHANCE_SIGMAS / finite**0.5, thresholds.MOST_CHANCE)
        if finite >= thresholds.FEWEST_TO_CORRELATE
        else 0.0
    )
    return (
        figures["rel_l2_error"] > thresholds.UNRELATED_ERROR
        and abs(figures["correlation"]) < chance
    )


def narrower_format(
    figures: Mapping[str, float], left_dtype: np.dtype, right_dtype: np.dtype, finite: int
) -> str:
    """The narrower format whose rounding explains the error, or "".

    Two proofs are accepted. Stored: one side's values fit the narrower format and the other's do
    not, and they differ by its rounding. Computed: the relative error has the size that rounding
    the factors of a matrix product to that format gives. Either way the error is noise, that is
    it neither leans to one sign nor follows the reference, unless each stored value is a
    neighbour of the other side's in the narrower format.

    Notes
    -----
    Measured on products of normal and rectified matrices: 0.60 roundoffs for every format and
    length; 0.42 for values that were only stored. With 1,024 values, 1 in 6 products of rectified
    matrices is not recognised, and 1 in 30 pairs of tanh and exact GELU is taken for HF32 noise;
    with 4,096, 1 in 10 and none.
    """
    own_bits = min(significand_bits(left_dtype), significand_bits(right_dtype))
    error = figures["rel_l2_error"]
    formats = sorted({bits for bits in COMPUTE_FORMATS.values() if bits < own_bits})
    if not formats or not 0 < error < 1:
        return ""
    found = _stored_format(figures, formats, finite) or _computed_format(figures, formats, finite)
    if figures["max_abs_error"] > thresholds.FARTHEST_ROUNDOFFS * 2.0**-found * _scale(figures):
        return ""
    return "/".join(name for name, bits in COMPUTE_FORMATS.items() if bits == found)


def _stored_format(figures: Mapping[str, float], formats: list[int], finite: int) -> int:
    used = sorted((figures["left_significand_bits"], figures["right_significand_bits"]))
    bits = next((bits for bits in formats if used[0] <= bits < used[1]), 0)
    roundoff = 2.0**-bits
    least, most = (many * roundoff for many in thresholds.STORED_ROUNDOFFS)
    size_fits = least <= figures["rel_l2_error"] <= most
    if not bits or finite < thresholds.FEWEST_STORED or not size_fits:
        return 0
    # Rounding to nearest or towards 0 explains every element; scaling alone would not vary.
    largest = figures["max_rel_error"]
    neighbours = largest <= 2 * roundoff and figures["rel_l2_error"] <= thresholds.VARYING * largest
    return bits if neighbours or _is_noise(figures, finite) else 0


def _computed_format(figures: Mapping[str, float], formats: list[int], finite: int) -> int:
    error_bits = -np.log2(figures["rel_l2_error"] / thresholds.PRODUCT_OVER_ROUNDOFF)
    bits = min(formats, key=lambda bits: abs(bits - error_bits))
    least, most = thresholds.COMPUTED_ROUNDOFFS
    size_fits = least <= figures["rel_l2_error"] * 2.0**bits <= most
    enough = finite >= thresholds.FEWEST_COMPUTED
    return bits if enough and size_fits and _is_noise(figures, finite) else 0


def _judge_exact(
    figures: Mapping[str, float],
    tolerance: Tolerance,
    left_dtype: np.dtype,
    right_dtype: np.dtype,
    finite: int,
) -> Verdict:
    """Verdict of integers, of which rounding explains nothing."""
    asked = f"{tolerance.integer_tolerance:g}"
    if figures["allclose"] and figures["unequal_count"]:
        return verdict("pass", "pass_integers", asked)
    if figures["allclose"]:
        return verdict("pass", "" if same_dtype(left_dtype, right_dtype) else "pass_dtypes")
    if is_unrelated(figures, finite):
        return verdict("unrelated", "unrelated")
    if tolerance.integer_tolerance:
        return verdict("differs", "differs_integers", asked)
    return verdict("differs", "differs_exact")


def _passed(
    figures: Mapping[str, float],
    tolerance: Tolerance,
    left_dtype: np.dtype,
    right_dtype: np.dtype,
    noise: float,
) -> Verdict:
    # Values smaller than atol pass whatever they are; say so when the tensor as a whole differs.
    if figures["rel_l2_error"] > max(_blind(tolerance), noise):
        return verdict("pass", "pass_blind")
    if not same_dtype(left_dtype, right_dtype):
        return verdict("pass", "pass_dtypes")
    return verdict("pass")


def _blind(tolerance: Tolerance) -> float:
    """Relative error of a whole tensor beyond which passing says little."""
    return thresholds.BLIND_TOLERANCES * tolerance.rtol


def _scale(figures: Mapping[str, float]) -> float:
    largest = max(abs(figures["right_max"]), abs(figures["right_min"]))
    return largest if largest > 0 else np.inf if figures["max_abs_error"] == 0 else 5e-324


def fill_of(left: Mapping[str, float], right: Mapping[str, float], most: float) -> float:
    """The number that both sides hold for "none", as masked scores do; 0 where there is none.

    The norm is that of `most` equal elements at the most, all of one magnitude that no value of a
    network has, so that an error of all others does not show in it.

    Parameters
    ----------
    left, right : mapping
        ``min``, ``max``; of the right side ``l2``.
    """
    ends = [[float(side.get(name, np.nan)) for name in ("min", "max")] for side in (left, right)]
    fill = max(ends[1], key=abs)
    norm = float(right.get("l2", np.nan))
    if not abs(fill) >= -thresholds.MASKED_SCORE or fill not in ends[0] or not np.isfinite(norm):
        return 0.0
    count = (norm / abs(fill)) ** 2
    is_whole = abs(count - round(count)) <= thresholds.LEFT_OF_FILL
    return fill if 1 <= round(count) <= most and is_whole else 0.0


def _fill_of(figures: Mapping[str, float], finite: int) -> float:
    left, right = (
        {name: figures[f"{side}_{name}"] for name in ("min", "max", "l2")}
        for side in ("left", "right")
    )
    return fill_of(left, right, finite - figures["unequal_count"])


def _errs_beside(figures: Mapping[str, float], noise: float, finite: int) -> bool:
    """Whether the elements that differ do so by more than their own rounding, on average."""
    error = figures["mean_rel_error"] * finite / max(figures["unequal_count"], 1)
    return not error <= thresholds.ROUNDED_BESIDE_FILL * noise


def _is_systematic(
    figures: Mapping[str, float], left_dtype: np.dtype, right_dtype: np.dtype, finite: int
) -> bool:
    """Whether an error as small as rounding leans or follows the reference, as rounding does not.

    An error of a few roundoffs is left alone: the largest values alone may decide where it leans.
    """
    roundoff = max(unit_roundoff(left_dtype), unit_roundoff(right_dtype))
    enough = (
        finite >= thresholds.FEWEST_STORED
        and figures["rel_l2_error"] > thresholds.SYSTEMATIC_ROUNDOFFS * roundoff
    )
    return enough and abs(_follows(figures)) > thresholds.FOLLOWING


def _is_noise(figures: Mapping[str, float], finite: int) -> bool:
    allowed = thresholds.NOISE_LEAN + thresholds.NOISE_SIGMAS / finite**0.5
    mean_error = figures["mean_abs_error"]
    lean = abs(figures["left_mean"] - figures["right_mean"]) / mean_error if mean_error else 1.0
    return bool(lean < allowed and abs(_follows(figures)) < allowed)


def _follows(figures: Mapping[str, float]) -> float:
    """Cosine between the error and the reference, from the figures already known."""
    # error . right = left . right - right . right
    left, right = figures["left_l2"], figures["right_l2"]
    return float((figures["cosine"] * left - right) / (figures["rel_l2_error"] * right))
