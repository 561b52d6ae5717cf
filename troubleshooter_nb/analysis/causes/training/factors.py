"""What a factor between two runs is likely to be."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from troubleshooter_nb.messages import Message
from troubleshooter_nb.thresholds import SMALLEST_LOSS_SCALE

UNNAMED = "no number that is known"
_LOSS_SCALE = Message("evidence_words.loss scale")

# key of the context -> cause, what it is called; the more specific first.
_HINTS = (
    ("loss_scale", "loss_scale_left", _LOSS_SCALE),
    ("accumulation", "loss_reduction", Message("evidence_words.accumulation steps")),
    ("world_size", "world_size_scale", Message("evidence_words.world size")),
    ("tokens", "loss_reduction", Message("evidence_words.token count")),
    ("batch", "loss_reduction", Message("evidence_words.batch size")),
    ("sequence", "loss_reduction", Message("evidence_words.sequence length")),
)


@dataclass(frozen=True)
class Name:
    """A cause that makes such a factor, what the number is called, and more facts."""

    cause: str
    name: str
    facts: Mapping[str, Any] = field(default_factory=dict)


def usual_number(value: float, tolerance: float) -> float | None:
    """One of the round numbers that people choose, where a positive value is that of them."""
    decade = 10.0 ** math.floor(math.log10(value)) if value > 0 else 0.0
    digits = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 8.0, 10.0)
    for number in (digit * decade for digit in digits):
        if number > 0 and abs(value - number) <= tolerance * number:
            return float(f"{number:.6g}")
    return None


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
    hinted = [hint for hint in _hinted(context) if abs(size / hint[0] - 1) <= near]
    found = dict.fromkeys((cause, Message(id, **values)) for _, cause, id, values in hinted)
    names = [Name(cause, text) for cause, text in found]
    whole = round(size)
    is_whole = whole >= 2 and abs(size / whole - 1) <= near and near * whole < 0.05
    power = math.log2(size)
    near_power = abs(power - round(power)) * math.log(2) <= near
    if near_power and size >= SMALLEST_LOSS_SCALE:
        said = Message("evidence.quantity_power", what=_LOSS_SCALE, power=round(power))
        scale = Name("loss_scale_left", said)
        if all(name.cause != "loss_scale_left" for name in names):
            names.append(scale)
    if is_whole and not any(name.cause == "loss_reduction" for name in names):
        names.append(Name("loss_reduction", Message("evidence.count_of", count=whole)))
    if not names:
        fraction = Fraction(size).limit_denominator(64)
        near_fraction = abs(size / float(fraction) - 1) <= near < 1e-5
        first, second = fraction.numerator, fraction.denominator
        counts = Message("evidence.counts_as", first=first, second=second)
        names.append(Name("loss_reduction", counts if near_fraction else UNNAMED))
    return names


def _hinted(context: Mapping[str, Any]) -> Iterator[tuple[float, str, str, dict[str, Any]]]:
    """Numbers the context leads one to expect: the hints, their products and quotients.

    Each with its cause, and the id and the values of what is said of it.
    """
    hints = [
        (float(value), cause, text)
        for key, cause, text in _HINTS
        for value in _numbers(context.get(key))
    ]
    for value, cause, text in hints:
        if value > 1:
            yield value, cause, "evidence.quantity", {"what": text, "value": value}
    for place, (value, cause, text) in enumerate(hints):
        for other, other_cause, other_text in hints[place + 1 :]:
            if value <= 0 or other <= 0 or "loss_scale_left" in (cause, other_cause):
                continue
            said = {"what": text, "value": value, "other": other}
            if text == other_text:
                quotient = max(value / other, other / value)
                if quotient > 1:
                    yield quotient, cause, "evidence.quantity_against", said
            elif value > 1 and other > 1:
                both = "loss_reduction" if "loss_reduction" in (cause, other_cause) else cause
                said["with_what"] = other_text
                yield value * other, both, "evidence.quantity_times", said


def _numbers(value: Any) -> list[float]:
    if value is None:
        return []
    return [float(one) for one in np.atleast_1d(np.asarray(value, float)).ravel()[:8]]
