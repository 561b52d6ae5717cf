"""How the ways a layer may have computed an output are held against it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Fit, Operands
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.float_formats import (
    FLOAT32,
    FORMATS,
    HALF_FORMATS,
    UNIT_FORMATS,
    as_stored,
    in_format,
)
from troubleshooter_nb.thresholds import SHARE_SEEN, SHORT_ROUNDOFF, UNLIKE

_FLOAT32, _FLOAT16 = FLOAT32.unit_roundoff, FORMATS["float16"].unit_roundoff


def spread(size: int, count: int) -> np.ndarray:
    """At most `count` places out of `size`, evenly spread, both ends among them."""
    return np.unique(np.linspace(0, size - 1, min(size, count)).round().astype(np.intp))


def places(size: int, count: int, energy: np.ndarray | None = None) -> np.ndarray:
    """At most `count` places out of `size`: those of most energy, the others evenly spread.

    Parameters
    ----------
    size, count : int
    energy : ndarray, shape (size,), optional
        Of the difference of the two sides, as `energies` gives it. None or zero: evenly spread.

    Returns
    -------
    ndarray of intp
        Sorted, each once. A third are chosen by their energy.
    """
    if energy is None or size <= count or not energy.any():
        return spread(size, count)
    loud = max(count // 3, 1)
    chosen = np.argpartition(energy, size - loud)[size - loud :]
    return np.union1d(chosen[energy[chosen] > 0], spread(size, count - loud))


def energies(apart: np.ndarray | None, shape: Sequence[int], axis: int = 0) -> np.ndarray | None:
    """Energy of the difference at each place along an axis of the output in this shape.

    Parameters
    ----------
    apart : ndarray or None
        As of `Operands`.
    shape : sequence of int
        To which the output is reshaped.
    axis : int

    Returns
    -------
    ndarray of float64, shape (shape[axis],), or None
        Sums over the other axes; None without `apart`.
    """
    if apart is None:
        return None
    whole = apart.reshape(shape)
    others = tuple(other for other in range(whole.ndim) if other != axis % whole.ndim)
    return np.asarray(whole.sum(axis=others, dtype=np.float64))


def is_seen(apart: np.ndarray | None, part: tuple[slice, ...]) -> bool:
    """Whether a part of the output stands for all of it: the sides are no further apart elsewhere.

    For layers of which only the first places can be computed again.
    """
    if apart is None:
        return True
    seen = float(apart[part].mean(dtype=np.float64)) if apart[part].size else 0.0
    return seen >= SHARE_SEEN * float(apart.mean(dtype=np.float64))


def misfit(output: np.ndarray, formula: np.ndarray, roundoff: float = 0.0) -> float:
    """Norm of the error over the norm of the output, over its finite elements; inf without any.

    Of an output stored in 16 bits the formula is rounded likewise: where it is the right one,
    nearly all elements become equal, and much smaller faults than the rounding stand out.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(output)
        scale = float(np.linalg.norm(output[finite]))
        if not finite.any() or scale == 0 or not np.isfinite(formula[finite]).all():
            return math.inf
        target, guess = output[finite], formula[finite]
        left = float(np.linalg.norm(target - guess)) / scale
        if roundoff > SHORT_ROUNDOFF:
            rounded = as_stored(guess, roundoff)
            left = min(left, float(np.linalg.norm(target - rounded)) / scale)
    return left


def tells_apart(first: np.ndarray, second: np.ndarray, roundoff: float) -> bool:
    """Whether two formulas differ by more than the output's rounding could hide."""
    with np.errstate(invalid="ignore"):
        gap, scale = np.linalg.norm(first - second), np.linalg.norm(second)
    # Systematic differences show far below the rounding of a single element.
    return not gap <= scale * max(roundoff / 32, 2 * _FLOAT32)


def noise(operands: Operands, terms: int) -> float:
    """Residual that a correct layer may leave which sums so many products in float32."""
    return 2 * operands.roundoff + 4 * _FLOAT32 * (1 + 0.3 * math.sqrt(max(terms, 1)))


def ranked(fits: Iterable[Fit], limit: float = UNLIKE) -> list[Fit]:
    """The best first, one of each settings; empty where the best is none."""
    best: dict[str, Fit] = {}
    for fit in sorted(fits, key=lambda fit: fit.residual):
        best.setdefault(repr(sorted(fit.settings.items(), key=lambda item: item[0])), fit)
    found = list(best.values())
    return found if found and found[0].residual <= limit else []


def coefficient(values: np.ndarray, direction: np.ndarray) -> float:
    """The factor of `direction` in `values` by least squares; nan where there is none."""
    finite = np.isfinite(values) & np.isfinite(direction)
    values, direction = values[finite], direction[finite]
    power = float(np.vdot(direction, direction))
    return float(np.vdot(direction, values)) / power if power > 0 else math.nan


def half_width(value: float, residual: float, roundoff: float) -> float:
    """How far a factor may move before the residual grows by the output's rounding."""
    small = max(roundoff, _FLOAT32)
    return abs(value) * math.sqrt(2 * residual * small + small * small)


def named_factor(value: float, size: int, tolerance: float) -> tuple[float, str]:
    """The likely exact value of a fitted factor, and its name; as it is and "" where unknown.

    Parameters
    ----------
    value : float
    size : int
        Features or head size that factors come from.
    tolerance : float
        Largest relative distance of a name.
    """
    root = math.sqrt(size)
    names = {
        "1": 1.0,
        f"sqrt({size})": root,
        f"1/sqrt({size})": 1 / root,
        f"1/{size}": 1 / size,
        **{str(n): float(n) for n in (2, 3, 4, 8, 16, 32, 64)},
        **{f"1/{n}": 1 / n for n in (2, 3, 4, 8, 16, 32, 64)},
        _in_format(f"sqrt({size})", "bfloat16"): float(in_format(np.array(root), "bfloat16")),
        _in_format(f"sqrt({size})", "float16"): float(in_format(np.array(root), "float16")),
    }
    name = min(names, key=lambda name: abs(names[name] - value))
    near = abs(names[name] - value) <= tolerance * abs(names[name])
    return (names[name], name) if near else (float(f"{value:.6g}"), "")


def _in_format(number: str, name: str) -> str:
    return Message("evidence.in_format", number=number, format=name)


@dataclass(frozen=True)
class Sums:
    """The outputs of a layer that sums products and adds a bias, at sampled places.

    `products` gives them for a format of the operands; `bias` and `output` have their shape. Where
    not `thorough`, the operands are tried as they are stored.
    """

    products: Callable[[str], np.ndarray]
    output: np.ndarray
    bias: np.ndarray | None
    roundoff: float
    terms: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    thorough: bool = True


def sum_fits(sums: Sums) -> Iterator[Fit]:
    """Every format of the operands, and the bias as often as the output holds it."""
    exact = sums.products("exact")
    yield from _bias_fits(sums, exact, {"product_format": "exact", "operand_dtype": "as stored"})
    tried = [exact]
    for name in formats_for(sums.roundoff) if sums.thorough else ():
        rounded = sums.products(name)
        if not all(tells_apart(rounded, other, sums.roundoff) for other in tried):
            continue
        tried.append(rounded)
        unit = name in UNIT_FORMATS
        known = {"product_format": name.partition(" ")[0] if unit else "exact"}
        known |= {"operand_dtype": "as stored" if unit else name}
        yield from _bias_fits(sums, rounded, known)


def formats_for(roundoff: float) -> tuple[str, ...]:
    """Formats of operands, the likelier first: in range, float16 rounds as TF32 does.

    An output stored in float16 comes of float16 operands, one in float32 or bfloat16 of TF32.
    """
    half, stored = roundoff == _FLOAT16, HALF_FORMATS.values()
    return (*stored, *UNIT_FORMATS) if half else (*UNIT_FORMATS, *stored)


_NO_BIAS = {"bias": False, "bias_times": 1.0}


def _bias_fits(sums: Sums, product: np.ndarray, settings: Mapping[str, Any]) -> Iterator[Fit]:
    settings = {**sums.settings, **settings}
    if sums.bias is None:
        yield Fit({**_NO_BIAS, **settings}, misfit(sums.output, product, sums.roundoff))
        return
    bias = np.broadcast_to(np.asarray(sums.bias, np.float64), product.shape)
    if not tells_apart(product + bias, product, sums.roundoff):
        # Both, as equal explanations: nobody can say whether it was added.
        residual = misfit(sums.output, product + bias, sums.roundoff)
        yield Fit({"bias": True, "bias_times": 1.0, **settings}, residual)
        yield Fit({**_NO_BIAS, **settings}, residual)
        return
    for times in {0.0, 1.0, *_more_times(sums.output - product, bias)}:
        residual = misfit(sums.output, product + times * bias, sums.roundoff)
        held = {"bias": times != 0, "bias_times": times if times else 1.0}
        yield Fit({**held, **settings}, residual)


def _more_times(rest: np.ndarray, bias: np.ndarray) -> list[float]:
    """How often the rest holds the bias, where that is a whole number or its inverse."""
    times = coefficient(rest, bias)
    if not math.isfinite(times) or not 1e-3 < times < 5000:
        return []
    whole = round(times) if times > 1 else 1 / round(1 / times)
    return [float(whole)] if abs(times - whole) < 0.02 * whole else []
