"""Judge pairs of which a side has no values to read: statistics, digests, and what is no tensor."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from troubleshooter_nb.metrics.floats import arithmetic_of, dtype_from_token, unit_roundoff
from troubleshooter_nb.metrics.noise import noise_bound
from troubleshooter_nb.metrics.sketches import estimated_l2
from troubleshooter_nb.metrics.summary import bits_seen, used_significand_bits
from troubleshooter_nb.metrics.verdict import (
    Tolerance,
    Verdict,
    fill_of,
    judge_fingerprints,
    judge_statistics,
    of_both,
    verdict,
)
from troubleshooter_nb.naming import is_process_group
from troubleshooter_nb.shapes import Shape, shape_text
from troubleshooter_nb.thresholds import FEWEST_SYSTEMATIC, SYSTEMATIC_ROUNDOFFS

_WORDS = ("nan", "inf")


@dataclass(frozen=True)
class Recorded:
    """What a dump says about one entry beside its values.

    `value` is the JSON text of what is no tensor; `statistics` holds what is known of min, max,
    mean, l2, nan_count, inf_count; `crc32` is -1 and `size` -1 where unknown. `fingerprint` has the
    17 numbers of `metrics.sketches`; it is empty where unknown.
    """

    value: str = ""
    dtype: str = ""
    shape: Shape | None = None
    size: int = -1
    crc32: int = -1
    digest: str = ""
    statistics: Mapping[str, float] = field(default_factory=dict)
    fingerprint: Sequence[float] = ()

    @property
    def constant(self) -> float | None:
        """The value of every element, where minimum and maximum say that it is one; else None."""
        low, high = self.statistics.get("min", math.nan), self.statistics.get("max", math.nan)
        finite = not (self.statistics.get("nan_count", -1) or self.statistics.get("inf_count", -1))
        return low if low == high and finite else None

    @property
    def significand_bits(self) -> int:
        """What the extremes use, which are two of the values; 0 where they do not tell."""
        try:
            dtype = dtype_from_token(self.dtype)
        except ValueError:
            return 0
        ends = [self.statistics.get(name, math.nan) for name in ("min", "max")]
        if arithmetic_of(dtype) != "float" or not all(map(math.isfinite, ends)):
            return 0
        return used_significand_bits(bits_seen(np.array(ends).astype(dtype)), dtype)


def over_all_values(computed: Mapping[str, Any]) -> dict[str, Any]:
    """Computed statistics as a tool records them: of all values, infinities included.

    Parameters
    ----------
    computed : mapping
        Figures over the finite values, see `metrics.summary`; ``negative_inf_count`` where there
        are infinities. NaN do not count, as no extreme of theirs says anything.
    """
    found = dict(computed)
    below = found.pop("negative_inf_count", 0)
    above = found.get("inf_count", 0) - below
    if below:
        found |= {"min": -math.inf, "mean": -math.inf, "l2": math.inf}
        found["max"] = found["max"] if not math.isnan(found["max"]) else -math.inf
    if above:
        found |= {"max": math.inf, "mean": math.nan if below else math.inf, "l2": math.inf}
        found["min"] = found["min"] if not math.isnan(found["min"]) else math.inf
    return found


def judge_recorded(left: Recorded, right: Recorded, tolerance: Tolerance) -> Verdict:
    """Verdict of two entries, at least one of which has no values.

    Notes
    -----
    A checksum proves equality (two of CRC-32 agree by chance once in 4e9), statistics only
    difference; of tensors whose minimum is their maximum they say everything. Fingerprints tell
    how far the tensors are apart as a whole. What rounding in the dtype of the tensors explains is
    no difference.
    """
    if left.value or right.value:
        return _judge_values(left, right, tolerance)
    if left.shape != right.shape and None not in (left.shape, right.shape):
        return verdict("shape", "shape")
    same_bits = _same_bits(left, right)
    if same_bits:
        return verdict("identical", "digest_same")
    dtypes = _dtypes(left, right)
    if left.constant is not None and right.constant is not None:
        return _judge_constants(left.constant, right.constant, tolerance, left.size, dtypes)
    size = max(left.size, right.size)
    found = judge_statistics(left.statistics, right.statistics, tolerance, size=size, dtypes=dtypes)
    if found.name != "undecidable":
        return found
    if found.reason == "undecidable" and dtypes is not None and same_bits is None:
        apart, norm = fingerprint_distance(left, right)
        if not math.isnan(apart):
            has_fill = fill_of(left.statistics, right.statistics, most=size) != 0.0
            return judge_fingerprints(
                apart, norm, tolerance, size=size, dtypes=dtypes, has_fill=has_fill
            )
    if found.reason == "statistics_both":
        other_bits = same_bits is False and "NaN" in found.detail and not tolerance.equal_nan
        return verdict("nan", "digest_differs_nan") if other_bits else found
    if _shared(left, right):
        # Other bits may be rounding: the statistics agree within the tolerance.
        return found if same_bits is None else verdict("undecidable", "digest_differs")
    if same_bits is False:
        return verdict("differs", "digest_differs")
    kinds = _digest_kinds(left, right)
    return verdict("undecidable", "digest_kinds" if kinds else "nothing_shared", kinds)


def fingerprint_distance(left: Recorded, right: Recorded) -> tuple[float, float]:
    """How far two tensors are apart by their fingerprints, and the norm of the right one.

    nan where a side has none, holds NaN or infinities, or its norm is not known, and of tensors of
    other shapes.
    """
    norm = right.statistics.get("l2", math.nan)
    known = bool(left.fingerprint) and bool(right.fingerprint) and math.isfinite(norm)
    known = known and (left.shape == right.shape or None in (left.shape, right.shape))
    counts = (side.statistics.get(f"{word}_count", 0) for side in (left, right) for word in _WORDS)
    if not known or any(count > 0 for count in counts):
        return math.nan, norm
    return estimated_l2(np.array(left.fingerprint), np.array(right.fingerprint)), norm


def _dtypes(left: Recorded, right: Recorded) -> tuple[np.dtype, np.dtype] | None:
    """The dtypes of two tensors; None where one is not known."""
    try:
        return dtype_from_token(left.dtype), dtype_from_token(right.dtype)
    except ValueError:
        return None


def _shared(left: Recorded, right: Recorded) -> bool:
    """Whether one statistic at least is known of both."""
    return any(
        not math.isnan(value) and not math.isnan(right.statistics.get(name, math.nan))
        for name, value in left.statistics.items()
        if name in ("min", "max", "mean", "l2")
    )


def _same_bits(left: Recorded, right: Recorded) -> bool | None:
    """Whether checksums are equal; None where the two cannot be compared."""
    if left.dtype != right.dtype:
        return None
    if left.crc32 >= 0 and right.crc32 >= 0:
        return left.crc32 == right.crc32
    kinds = [side.digest.partition(":")[0] for side in (left, right)]
    if not kinds[0] or kinds[0] != kinds[1]:
        return None
    return left.digest == right.digest


def _digest_kinds(left: Recorded, right: Recorded) -> str:
    """``crc32 / xor``: the kinds of digests of both sides, where these have none in common."""
    kinds = [
        {side.digest.partition(":")[0], "crc32" if side.crc32 >= 0 else ""} - {""}
        for side in (left, right)
    ]
    if not all(kinds) or kinds[0] & kinds[1]:
        return ""
    return of_both(*(", ".join(sorted(side)) for side in kinds))


def _judge_values(left: Recorded, right: Recorded, tolerance: Tolerance) -> Verdict:
    if left.value == right.value:
        return verdict("identical", "value_same", _shown(left.value))
    a, b = _number(left), _number(right)
    if a is not None and b is not None:
        # What a call was given, such as an axis, is another number at once.
        exact = Tolerance(0.0, 0.0, tolerance.equal_nan)
        own = exact if _is_integer(left) or _is_integer(right) else tolerance
        return _judge_numbers(a, b, own, "values")
    shown = (_shown(s.value) or shape_text(s.shape) or s.dtype for s in (left, right))
    both = of_both(*shown)
    if is_process_group(left.dtype) != is_process_group(right.dtype):
        return verdict("undecidable", "groups_of_processes", both)
    if left.value and right.value:
        return verdict("differs", "values_differ", both)
    return verdict("shape", "no_tensor", both)


def _judge_constants(
    a: float,
    b: float,
    tolerance: Tolerance,
    size: int,
    dtypes: tuple[np.dtype, np.dtype] | None,
) -> Verdict:
    """Verdict of two tensors whose elements all are one number, of known dtypes."""
    if dtypes is not None:
        rtol, atol = tolerance.of(*dtypes)
        tolerance = replace(tolerance, rtol=rtol, atol=atol)
    found = _judge_numbers(a, b, tolerance, "constants")
    if found.name != "differs" or dtypes is None:
        return found
    allowed = noise_bound(*dtypes).rel_l2
    if size >= FEWEST_SYSTEMATIC:
        allowed = min(allowed, SYSTEMATIC_ROUNDOFFS * max(map(unit_roundoff, dtypes)))
    if abs(a - b) <= allowed * abs(b):
        return verdict("rounding", "constants_rounding", found.detail)
    return found


def _judge_numbers(a: float, b: float, tolerance: Tolerance, what: str) -> Verdict:
    """Verdict of two single numbers: of their values, as their bits are not there."""
    both = of_both(repr(a), repr(b))
    close = a == b or abs(a - b) <= tolerance.atol + tolerance.rtol * abs(b)
    if math.isnan(a) or math.isnan(b):
        same = math.isnan(a) and math.isnan(b)
        return verdict("pass" if same and tolerance.equal_nan else "nan", f"{what}_differ", both)
    if close:
        return verdict("pass", f"{what}_close", both)
    return verdict("differs", f"{what}_differ", both)


def _number(side: Recorded) -> float | None:
    """The one number of an entry, None for anything else."""
    if not side.value:
        return side.constant if side.size == 1 else None
    value: Any = json.loads(side.value)
    return float(value) if isinstance(value, int | float) else None


def _is_integer(side: Recorded) -> bool:
    """Whether an entry that is no tensor is an integer or a boolean."""
    return bool(side.value) and isinstance(json.loads(side.value), int)


def _shown(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
