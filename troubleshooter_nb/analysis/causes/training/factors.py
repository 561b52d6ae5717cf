"""What a factor between two runs is likely to be."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from troubleshooter_nb.thresholds import SMALLEST_LOSS_SCALE

# key of the context -> cause, what it is called; the more specific first.
_HINTS = (
    ("loss_scale", "loss_scale_left", "loss scale"),
    ("accumulation", "loss_reduction", "accumulation steps"),
    ("world_size", "world_size_scale", "world size"),
    ("tokens", "loss_reduction", "token count"),
    ("batch", "loss_reduction", "batch size"),
    ("sequence", "loss_reduction", "sequence length"),
)


@dataclass(frozen=True)
class Name:
    """A cause that makes such a factor, what the number is called, and more facts."""

    cause: str
    name: str
    facts: Mapping[str, Any] = field(default_factory=dict)


def names_of(factor: float, precision: float, context: Mapping[str, Any]) -> list[Name]:
    """Every likely name of a factor, the most specific first; never empty.

    Parameters
    ----------
    factor : float
        Not 0; its inverse means the same with the sides exchanged.
    precision : float
        Relative half width within which it is known.
    context : mapping
        As `detect_gradients` takes it.
    """
    size = max(abs(factor), 1.0 / abs(factor))
    near = max(4.0 * precision, 1e-9)
    hinted = [name for value, name in _hinted(context) if abs(size / value - 1) <= near]
    found = list(dict.fromkeys((name.cause, name.name) for name in hinted))
    names = [Name(cause, text) for cause, text in found]
    whole = round(size)
    is_whole = whole >= 2 and abs(size / whole - 1) <= near and near * whole < 0.05
    power = math.log2(size)
    near_power = abs(power - round(power)) * math.log(2) <= near
    if near_power and size >= SMALLEST_LOSS_SCALE:
        scale = Name("loss_scale_left", f"loss scale 2^{round(power)}")
        if all(name.cause != "loss_scale_left" for name in names):
            names.append(scale)
    if is_whole and not any(name.cause == "loss_reduction" for name in names):
        text = f"a count of {whole}: samples, tokens, accumulation steps or processes"
        names.append(Name("loss_reduction", text))
    if not names:
        fraction = Fraction(size).limit_denominator(64)
        near_fraction = abs(size / float(fraction) - 1) <= near < 1e-5
        text = f"two counts as {fraction.numerator} to {fraction.denominator}"
        names.append(Name("loss_reduction", text if near_fraction else "no number that is known"))
    return names


def _hinted(context: Mapping[str, Any]) -> Iterator[tuple[float, Name]]:
    """Numbers the context leads one to expect: the hints, their products and quotients."""
    hints = [
        (float(value), cause, text)
        for key, cause, text in _HINTS
        for value in _numbers(context.get(key))
    ]
    for value, cause, text in hints:
        if value > 1:
            yield value, Name(cause, f"{text} {value:g}")
    for place, (value, cause, text) in enumerate(hints):
        for other, other_cause, other_text in hints[place + 1 :]:
            if value <= 0 or other <= 0 or "loss_scale_left" in (cause, other_cause):
                continue
            if text == other_text:
                quotient = max(value / other, other / value)
                if quotient > 1:
                    yield quotient, Name(cause, f"{text} {value:g} against {other:g}")
            elif value > 1 and other > 1:
                both = "loss_reduction" if "loss_reduction" in (cause, other_cause) else cause
                yield value * other, Name(both, f"{text} {value:g} times {other_text} {other:g}")


def _numbers(value: Any) -> list[float]:
    if value is None:
        return []
    return [float(one) for one in np.atleast_1d(np.asarray(value, float)).ravel()[:8]]
