"""What a factor between two tensors is likely to be."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from troubleshooter_nb.thresholds import LARGEST_NAMED_COUNT, SAME_FACTOR

_DROPS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)


def named_factor(
    factor: float, hints: Mapping[str, float] | None = None, *, near: float = SAME_FACTOR
) -> str:
    """A name for a factor, or "" where none is near.

    Parameters
    ----------
    factor : float
        Positive or negative; of a negative one the size is named, with a minus sign.
    hints : mapping of str to float, optional
        Numbers of the case by name, likeliest first: ``{"world size": 8, "hidden": 768}``. The
        number itself, its square root and their reciprocals are tried, and ``1/(1-p)`` of one
        between 0 and 1.
    near : float
        Largest relative distance from the named number: the uncertainty of the fit.

    Returns
    -------
    str
        ``"world size (8)"``, ``"1/sqrt(hidden) (1/sqrt(768))"``, ``"1/255"``, ``"2^16"``,
        ``"sqrt(64)"``, ``"1/(1-0.1)"``, ``"3"``. Simpler names come first.
    """
    size = abs(factor)
    if not math.isfinite(factor) or size < 1e-30 or size > 1e30 or abs(size - 1.0) <= near:
        return ""
    sign = "-" if factor < 0 else ""
    for value, name in _candidates(hints or {}):
        if abs(size / value - 1.0) <= near:
            return sign + name
        if abs(size * value - 1.0) <= near:
            return f"{sign}1/{name}"
    return ""


def _candidates(hints: Mapping[str, float]) -> Iterator[tuple[float, str]]:
    yield from _hinted(hints)
    yield 255.0, "255"
    for count in range(2, 17):
        yield float(count), str(count)
    for power in range(4, 33):
        yield 2.0**power, f"2^{power}"
    # A square root near a whole number was named above.
    for width in (*(2**k for k in range(1, 18)), *(3 * 2**k for k in range(4, 13)), 80, 96, 10):
        yield math.sqrt(width), f"sqrt({width})"
    for share in _DROPS:
        yield 1.0 / (1.0 - share), f"(1/(1-{share:g}))"
    for count in range(17, LARGEST_NAMED_COUNT + 1):
        yield float(count), str(count)
    for count in (100, 128, 1000, 1024):
        yield float(count), str(count)
    yield 256.0 / 255.0, "(256/255)"


def _hinted(hints: Mapping[str, float]) -> Iterator[tuple[float, str]]:
    for name, value in hints.items():
        if not (math.isfinite(value) and value > 0.0):
            continue
        if value < 1.0:
            yield 1.0 / (1.0 - value), f"(1/(1-{name})) ({name} {value:g})"
        if value != 1.0:
            yield value, f"{name} ({value:g})"
            yield math.sqrt(value), f"sqrt({name}) (sqrt({value:g}))"
        if value > 2.0:
            yield value / (value - 1.0), f"({name}/({name}-1)) ({name} {value:g})"
