"""What a factor is likely to be: the number that was meant, and what it is called."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.float_formats import HALF_FORMATS, in_format
from troubleshooter_nb.thresholds import LARGEST_NAMED_COUNT, SAME_FACTOR

_DROPS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
_POWERS = (2, 3, 4, 8, 16, 32, 64)


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
    found = next(
        (n for value, n in _either_way(hints or {}) if abs(size / value - 1.0) <= near), ""
    )
    return f"-{found}" if found and factor < 0 else found


def named_size(factor: float, size: int, near: float) -> tuple[float, str]:
    """The likely exact value of a fitted factor, and its name; as it is and "" where unknown.

    Parameters
    ----------
    factor : float
    size : int
        Features or head size that factors come from; 0 for none.
    near : float
        Largest relative distance of a power of the size or a small number; of any other number
        that has a name, `SAME_FACTOR` at most.
    """
    names = {"1": 1.0}
    if size:
        root = math.sqrt(size)
        names |= {f"sqrt({size})": root, f"1/sqrt({size})": 1 / root, f"1/{size}": 1 / size}
        for form in HALF_FORMATS.values():
            rounded = Message("evidence.in_format", number=f"sqrt({size})", format=form)
            names[rounded] = float(in_format(np.array(root), form))
        names |= {str(n): float(n) for n in _POWERS} | {f"1/{n}": 1 / n for n in _POWERS}
    name = min(names, key=lambda name: abs(names[name] - factor))
    if abs(names[name] - factor) <= near * abs(names[name]):
        return names[name], name
    name = named_factor(factor, near=min(near, SAME_FACTOR)) if size else ""
    return float(f"{factor:.7g}"), name


def _either_way(hints: Mapping[str, float]) -> Iterator[tuple[float, str]]:
    """Numbers and their inverses by name, the simplest first."""
    for value, name in _candidates(hints):
        yield value, name
        if not name.startswith(("1/", "1-")):
            yield 1.0 / value, f"1/{name}"


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
        yield 1.0 / (1.0 - share), f"1/(1-{share:g})"
        yield 1.0 - share, f"1-{share:g}"
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
