"""What rotary position encoding did: theta, layout, rotated part, positions, norms."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.axes import Axes
from troubleshooter_nb.analysis.causes.case import Call, Fit, Operands
from troubleshooter_nb.analysis.causes.fits import misfit, ranked
from troubleshooter_nb.analysis.causes.law import Search
from troubleshooter_nb.analysis.causes.sampling import energies, is_seen, places, spread
from troubleshooter_nb.metrics.float_formats import in_format
from troubleshooter_nb.metrics.operators.rotary import (
    LAYOUTS,
    angles,
    as_pairs,
    frequencies,
    pair_factors,
    turning_rates,
)
from troubleshooter_nb.thresholds import (
    FEWEST_POSITIONS,
    LEAST_TURN,
    ROTARY_COUNTED,
    ROTARY_HEADS,
    ROTARY_POSITIONS,
    ROTARY_REST,
    TURNED_LENGTH,
    UNLIKE,
)

_PARTS = (1.0, 0.75, 0.5, 0.4, 0.25)
_USUAL = 10000.0
_USUAL_THETAS = (_USUAL, 500000.0, 1000000.0)
# Before the first position: those that are tried where a short format counted.
COUNTED_OFFSETS = np.arange(-64, 8192)
_LOW_PRECISIONS = tuple(
    f"{name} {what}"
    for name in ("bfloat16", "float16")
    for what in ("positions", "frequencies", "angles")
)


@dataclass(frozen=True)
class _Case:
    """Pairs (positions, rest, pairs) before and after, of one item; what is beside them."""

    before: np.ndarray
    after: np.ndarray
    beside: float
    size: int
    settings: dict[str, Any]
    roundoff: float


def fit_rotary(operands: Operands) -> list[Fit]:
    """How a rotary position encoding turned its input.

    Parameters
    ----------
    operands : Operands
        First input and output alike: (items, heads, positions, size) or (items, positions,
        heads, size), three axes without heads.

    Returns
    -------
    list of Fit
        Settings: ``norm`` ("kept", "not kept"), ``theta``, ``layout`` ("halves",
        "interleaved"), ``rotated`` (dimensions), ``position_offset``, ``frequency_scale``,
        ``direction``, ``magnitude``, ``angle_precision``, ``position_axis``.
    """
    x = operands.inputs[0] if operands.inputs else None
    if x is None or x.shape != operands.output.shape or x.ndim not in (3, 4) or x.shape[-1] % 2:
        return []
    fits: list[Fit] = []
    for case in _cases(x, operands):
        fits += _case_fits(case)
    return ranked(fits)


def _cases(x: np.ndarray, operands: Operands) -> Iterator[_Case]:
    """Both layouts, several parts, every axis that may be that of the positions."""
    size = x.shape[-1]
    parts = sorted({2 * round(size * part / 2) for part in _PARTS}, reverse=True)
    axes = (1, 2) if x.ndim == 4 else (1, 0)
    # Heads are fewer than positions, but for short texts.
    longest = max(x.shape[axis] for axis in axes)
    for axis in axes:
        if x.shape[axis] < max(FEWEST_POSITIONS, min(longest, ROTARY_HEADS) // 4):
            continue
        sample = _by_position(x, operands, axis)
        if sample is None:
            continue
        before, after = sample
        if not np.any(before) or not np.any(after) or not np.isfinite(after).all():
            continue
        for rotated in [part for part in parts if part >= 2]:
            beside = float(np.linalg.norm(after[..., rotated:] - before[..., rotated:]))
            if beside > 1e-2 * float(np.linalg.norm(after)):
                continue
            for layout in LAYOUTS:
                said = {"layout": layout, "rotated": rotated, "position_axis": axis}
                pairs = [as_pairs(v[..., :rotated], layout) for v in (before, after)]
                yield _Case(pairs[0], pairs[1], beside, rotated, said, operands.roundoff)


def _by_position(
    x: np.ndarray, operands: Operands, axis: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Input and output (positions, rest, size) of the item furthest apart; None if unlike others.

    Turns are measured from one position to the next: the first ones have to stand for all.
    """
    distance4 = operands.distance4
    arrays = [x, operands.output, *([] if distance4 is None else [distance4])]
    if x.ndim == 4:
        energy = energies(distance4, x.shape)
        item = 0 if energy is None else int(np.argmax(energy))
        arrays = [values[item] for values in arrays]
    arrays = [np.moveaxis(values, axis - (x.ndim == 4), 0) for values in arrays]
    if distance4 is not None and not is_seen(arrays[2], (slice(ROTARY_POSITIONS),)):
        return None
    energy = None if distance4 is None else energies(arrays[2], arrays[2].shape, 1)
    chosen = places(arrays[0].shape[1], ROTARY_REST, energy)
    before, after = (np.asarray(v[:ROTARY_POSITIONS, chosen], np.float64) for v in arrays[:2])
    return before, after


def _case_fits(case: _Case) -> list[Fit]:
    factors = pair_factors(case.before, case.after)
    if not np.isfinite(factors).all():
        return []
    linear = _left(case, factors)
    if linear > 0.1:
        # What another layout, or rotated part, leaves over.
        return [Fit(case.settings, linear)]
    sizes = np.abs(factors)
    magnitude = float(np.median(sizes))
    spread_ = float(np.percentile(np.abs(sizes / magnitude - 1), 90)) if magnitude else math.inf
    kept = spread_ <= max(TURNED_LENGTH, 8 * case.roundoff, 4 * linear)
    said = {"norm": "kept" if kept else "not kept", **case.settings}
    if not kept:
        # With one value per pair and position any factor fits; several must share one.
        return [Fit(said, linear)] if case.before.shape[1] > 1 else []
    return _turned_fits(case, factors, magnitude, said)


def _turned_fits(
    case: _Case, factors: np.ndarray, magnitude: float, said: dict[str, Any]
) -> list[Fit]:
    rates = turning_rates(factors)
    turning = np.abs(rates) * len(factors) > LEAST_TURN
    if turning.sum() < 2 or not turning[0]:
        return _counted_fits(case, factors, said)
    sign = 1.0 if float(np.median(rates[turning])) > 0 else -1.0
    theta, scale, width = _geometric(np.abs(rates), turning, case)
    width = max(width, theta * _doubt(_left(case, factors)))
    size = 1.0 if abs(magnitude - 1) < 2e-3 else float(f"{magnitude:.5g}")
    known = {**said, "direction": "forward" if sign > 0 else "backward", "magnitude": size}
    fits: list[Fit] = []
    offset = _offset(factors, sign * scale * frequencies(theta, case.size))
    for value in _likely_thetas(theta, width):
        # The offset is the one that suits the fitted theta.
        steps = scale * frequencies(value, case.size)
        turn = {"theta": value, "frequency_scale": scale, "position_offset": offset}
        # Another layout or direction fits other numbers: it decides.
        tried = {"norm": "kept", **known, **turn}
        fits += _precise_fits(case, sign * steps, offset, size, tried, width)
    if min(fit.residual for fit in fits) > UNLIKE:
        fits += _counted_fits(case, factors, said)
    return fits


def _counted_fits(case: _Case, factors: np.ndarray, said: dict[str, Any]) -> list[Fit]:
    """Positions that a short format counts: some come twice, so that no rate is seen."""
    fits: list[Fit] = []
    if np.abs(factors - factors[0]).max() < LEAST_TURN:
        return fits  # nothing turns
    some, pairs = spread(len(factors), ROTARY_COUNTED), spread(factors.shape[1], ROTARY_COUNTED)
    unit = factors[np.ix_(some, pairs)]
    for theta, name in itertools.product(_USUAL_THETAS, ("bfloat16", "float16")):
        steps = frequencies(theta, case.size)
        counted = in_format(COUNTED_OFFSETS[:, None] + some.astype(np.float64), name)
        turned = np.exp(-1j * counted[:, :, None] * steps[pairs])
        offset = int(COUNTED_OFFSETS[np.argmax(np.real(np.einsum("opk,pk->o", turned, unit)))])
        positions = np.arange(len(factors), dtype=np.float64) + offset
        formula = np.exp(1j * angles(positions, steps, f"{name} positions"))
        turn = {"direction": "forward", "magnitude": 1.0, "theta": theta, "frequency_scale": 1.0}
        turn |= {"position_offset": offset, "angle_precision": f"{name} positions"}
        fits.append(Fit({**said, **turn}, _left(case, formula)))
    return fits


def _precise_fits(
    case: _Case,
    steps: np.ndarray,
    offset: int,
    magnitude: float,
    said: dict[str, Any],
    width: float,
) -> Iterator[Fit]:
    """The turn in every precision of the angles; 32 and 64 bits are one setting.

    `width` is half that of theta.
    """
    positions = np.arange(len(case.before), dtype=np.float64) + offset

    def left(precision: str) -> float:
        turned = angles(positions, steps, precision)
        return _left(case, magnitude * np.exp(1j * turned))

    def fit(precision: str, residual: float) -> Fit:
        doubt = max(width, said["theta"] * _doubt(residual))
        return Fit({**said, "angle_precision": precision}, residual, {"theta": doubt})

    best = min(left("float64"), left("float32"))
    yield fit("float32", best)
    if best > 1e-6 and (said["theta"] != _USUAL or best < 0.5):
        for precision in _LOW_PRECISIONS:
            yield fit(precision, left(precision))


def _doubt(left: float) -> float:
    """Relative half width of theta where so much is left over.

    Values rounded on the way, whatever they are stored in, say less of the angles.
    """
    return 4 * left


def _left(case: _Case, factors: np.ndarray) -> float:
    """Residual over turned and other dimensions."""
    formula = case.before * factors[:, None]
    residual = misfit(
        np.concatenate([case.after.real, case.after.imag]),
        np.concatenate([formula.real, formula.imag]),
        case.roundoff,
    )
    return math.hypot(residual, case.beside / float(np.linalg.norm(case.after)))


def _geometric(rates: np.ndarray, turning: np.ndarray, case: _Case) -> tuple[float, float, float]:
    """Theta, the common factor of all rates, and half a width of theta."""
    place = 2 * np.arange(len(rates)) / case.size
    # A rate is known to a fixed angle: its logarithm the better the faster it turns.
    weight = rates[turning]
    matrix = np.stack([np.ones(int(turning.sum())), place[turning]], axis=1) * weight[:, None]
    level, slope = np.linalg.lstsq(matrix, np.log(rates[turning]) * weight, rcond=None)[0]
    scale = math.exp(level)
    if abs(scale - 1) < 2e-3:
        scale = 1.0
        top = float(np.sum(weight**2 * place[turning] * np.log(rates[turning])))
        slope = top / max(float(np.sum((weight * place[turning]) ** 2)), 1e-300)
    error = np.log(rates[turning]) - math.log(scale) - slope * place[turning]
    spread_ = math.sqrt(float(np.average(error**2, weights=weight**2)))
    theta = math.exp(min(-slope, 60.0))
    return theta, float(f"{scale:.5g}"), theta * max(3 * spread_, 1e-6)


def _likely_thetas(theta: float, width: float) -> list[float]:
    """The fitted value, and the roundest number inside its uncertainty."""
    values = [float(f"{theta:.7g}")]
    for digits in range(1, 5):
        rounder = float(f"{theta:.{digits}g}")
        if abs(rounder - theta) <= max(3 * width, 2e-3 * theta):
            values.insert(0, rounder)
            break
    # The usual theta too, as the rival.
    return list(dict.fromkeys([*values, _USUAL]))


def _offset(factors: np.ndarray, steps: np.ndarray) -> int:
    """The whole number of positions before the first, that agrees best with all pairs."""
    some = spread(len(factors), 16)
    unit = factors[some] / np.abs(factors[some])
    start = np.sum(unit * np.exp(-1j * some[:, None] * steps), axis=0)
    agreement = np.real(np.exp(-1j * COUNTED_OFFSETS[:, None] * steps) @ start)
    best = float(agreement.max())
    near = np.flatnonzero(agreement >= best - 1e-6 * abs(best))
    # Of offsets that agree as well, the smallest.
    return int(COUNTED_OFFSETS[near[np.argmin(np.abs(COUNTED_OFFSETS[near]))]])


def _heads(call: Call) -> Iterator[Axes]:
    """Items, and of one with many heads some of these: they are fewer than positions."""
    inputs, _ = call.taken
    shape = inputs[0].shapes[1] or ()
    if len(shape) == 4:
        order = "heads positions" if shape[1] < shape[2] else "positions heads"
        yield Axes.of(f"items {order} size -> items {order} size", items=0, heads=0)


ROTARY = Search(
    words=(
        *("rope", "rotary", "rotaryembedding", "rotarypositionembedding", "rotaryposemb"),
        *("applyrotaryposemb", "applyrotaryemb", "npurotarymul", "rotarymul"),
    ),
    fit=fit_rotary,
    causes={
        "norm": "rope_kernel_fault",
        "layout": "rope_interleave",
        "rotated": "rope_theta",
        "direction": "rope_kernel_fault",
        "magnitude": "rope_theta",
        "theta": "rope_theta",
        "frequency_scale": "rope_theta",
        "position_offset": "position_offset",
        "angle_precision": "position_low_precision",
    },
    axes=(_heads,),
)
SEARCHES = (ROTARY,)
