"""Entry points: a root tensor among the others, and any pair."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from troubleshooter_nb.analysis.causes.case import Suspicion, TensorPair, plain
from troubleshooter_nb.analysis.causes.tensors.distributions import (
    detect_initial,
    detect_random,
    detect_uninitialised,
)
from troubleshooter_nb.analysis.causes.tensors.frequencies import detect_frequencies
from troubleshooter_nb.analysis.causes.tensors.ids import detect_shifted_ids
from troubleshooter_nb.analysis.causes.tensors.inputs import (
    detect_data_order,
    detect_positions,
    detect_resize,
)
from troubleshooter_nb.analysis.causes.tensors.large import sides_of_any_size
from troubleshooter_nb.analysis.causes.tensors.layouts import (
    detect_layout,
    detect_reordered,
    observed_derivation,
    observed_relation,
)
from troubleshooter_nb.analysis.causes.tensors.limits import (
    detect_overflow,
    detect_saturation,
    detect_swallowed,
    detect_underflow,
)
from troubleshooter_nb.analysis.causes.tensors.low_rank import (
    detect_low_rank,
    may_differ_by_low_rank,
)
from troubleshooter_nb.analysis.causes.tensors.measure import Sides
from troubleshooter_nb.analysis.causes.tensors.neighbours import (
    alike_elsewhere,
    detect_summed_bias,
    detect_tied,
    detect_wrong_layer,
    may_be_tied,
)
from troubleshooter_nb.analysis.causes.tensors.overwritten import detect_inplace
from troubleshooter_nb.analysis.causes.tensors.padding import detect_padding_row
from troubleshooter_nb.analysis.causes.tensors.places import (
    KnownAxes,
    detect_corruption,
    detect_vocabulary,
    observed_place,
)
from troubleshooter_nb.analysis.causes.tensors.rounding import (
    detect_cast,
    detect_narrowing,
    detect_reduction,
)
from troubleshooter_nb.analysis.causes.tensors.scales import (
    detect_input_scale,
    detect_plus_one,
    observed_scale,
)
from troubleshooter_nb.analysis.causes.tensors.screening import sample_of
from troubleshooter_nb.analysis.causes.tensors.shifts import (
    observed_moments,
    observed_order,
    observed_shift,
)

Detector = Callable[[Sides], list[Suspicion]]

_LIMITS: tuple[Detector, ...] = (
    detect_swallowed,
    detect_overflow,
    detect_saturation,
    detect_underflow,
)
_VALUES: tuple[Detector, ...] = (
    detect_uninitialised,
    detect_narrowing,
    detect_cast,
    detect_corruption,
    detect_inplace,
    detect_reordered,
)
_ALONE: tuple[Detector, ...] = (
    detect_uninitialised,
    detect_plus_one,
    detect_frequencies,
    detect_padding_row,
    detect_vocabulary,
    detect_narrowing,
    detect_swallowed,
    # Of values that were rounded and overflowed, the second is the graver one.
    detect_overflow,
    detect_cast,
    detect_saturation,
    detect_underflow,
    detect_corruption,
)
# What the same rows of both sides show, where values lie where they belong.
_SAMPLED: tuple[Detector, ...] = (
    detect_uninitialised,
    detect_plus_one,
    detect_cast,
    detect_corruption,
    detect_inplace,
    detect_input_scale,
)
_INPUTS: tuple[Detector, ...] = (
    detect_positions,
    detect_data_order,
    detect_shifted_ids,
    detect_layout,
    detect_input_scale,
    detect_random,
    detect_resize,
)


def detect_root(
    tensor: TensorPair,
    others: Sequence[TensorPair] = (),
    near: Sequence[TensorPair] | None = None,
    weights: Sequence[TensorPair] = (),
) -> list[Suspicion]:
    """Causes of a root tensor that differs: an input, a parameter or a buffer.

    Parameters
    ----------
    tensor : TensorPair
        Shapes may differ.
    others : sequence of TensorPair
        The other root tensors of both sides, with sources on one side only where the other lacks
        them; `tensor` itself is passed over.
    near : sequence of TensorPair, optional
        Those of them that may hold the same values, see `Peers.near`; default all.
    weights : sequence of TensorPair
        Of a buffer: the parameters, where they are not among the others.

    Returns
    -------
    list of Suspicion
        Most specific first; empty where nothing differs beyond rounding or nothing explains it.
    """
    sample = sample_of(tensor)
    if sample is not None and _holds_no_cause(sample, others, others if near is None else near):
        return []
    sides = sides_of_any_size(tensor)
    if sides is None or not _differs(sides):
        return []
    found = _first(_ALONE, sides)
    if found:
        return found
    if tensor.role == "input":
        return detect_wrong_layer(sides, others, near) or _first(_INPUTS, sides)
    found = detect_tied(sides, others) or detect_wrong_layer(sides, others, near)
    found = found or detect_summed_bias(sides, others) or detect_low_rank(sides, others)
    return found or detect_layout(sides) or detect_initial(sides, others, weights)


def detect_values(tensor: TensorPair) -> list[Suspicion]:
    """Causes that the values of any pair give away, of outputs and gradients too.

    Returns
    -------
    list of Suspicion
        `reduction_order` is for informing only: what is left is within rounding.
    """
    sample = sample_of(tensor)
    if sample is not None and not _first(_SAMPLED, sample):
        return detect_reduction(sample)
    sides = sides_of_any_size(tensor)
    if sides is None or sides.before == 0.0 or not sides.same_shape:
        return []
    found = _first(_LIMITS, sides)
    if found or not _differs(sides):
        return found or detect_reduction(sides)
    return _first(_VALUES, sides) or detect_reduction(sides)


def observations(
    tensor: TensorPair,
    hints: Mapping[str, float] | None = None,
    known: KnownAxes | None = None,
) -> dict[str, Any]:
    """What the values of a pair show that is no cause by itself, JSON-able.

    Parameters
    ----------
    tensor : TensorPair
    hints : mapping of str to float, optional
        Numbers that a factor may be made of; see `factors.named_factor`.
    known : KnownAxes, optional
        What the axes are, and which elements count.

    Returns
    -------
    dict
        Those that apply of: ``scale`` (form, axis, scale, offset, factor_name, residual),
        ``relation`` (text of an order in which left's values lie on the right, residual), ``place``
        (see `observed_place`), ``shift`` (axis, lag, residual), ``order`` (residual of both sides
        sorted), ``moments`` (of a large pair: equal mean, deviation, smallest and largest value).
    """
    sample = sample_of(tensor)
    if sample is not None and _shows_nothing(sample, hints):
        return {}
    sides = sides_of_any_size(tensor)
    if sides is None:
        return {}
    if not sides.same_shape:
        relation = observed_derivation(sides)
        return {"relation": plain(relation)} if relation else {}
    if not _differs(sides):
        return {}
    seen = {
        "scale": observed_scale(sides, hints),
        "relation": observed_relation(sides),
        "place": observed_place(sides, known or KnownAxes()),
        "shift": observed_shift(sides),
    }
    if not seen["relation"] and not seen["shift"]:
        seen |= {"order": observed_order(sides), "moments": observed_moments(sides)}
    found: dict[str, Any] = plain({key: value for key, value in seen.items() if value})
    return found


def _holds_no_cause(
    sample: Sides, others: Sequence[TensorPair], near: Sequence[TensorPair]
) -> bool:
    """Whether a root that differs little everywhere need not be read whole."""
    tensor = sample.tensor
    return (
        not _first(_SAMPLED, sample)
        and not observed_place(sample)
        and not may_be_tied(tensor, others)
        and not alike_elsewhere(tensor, near)
        and not may_differ_by_low_rank(tensor)
    )


def _shows_nothing(sample: Sides, hints: Mapping[str, float] | None) -> bool:
    return (
        not observed_scale(sample, hints)
        and not observed_place(sample)
        and not observed_shift(sample)
    )


def _first(detectors: Sequence[Detector], sides: Sides) -> list[Suspicion]:
    for detect in detectors:
        if found := detect(sides):
            return found
    return []


def _differs(sides: Sides) -> bool:
    """Whether the sides are further apart than rounding to what they are stored in explains."""
    if sides.integers:
        return sides.before > 0.0
    if math.isfinite(sides.tensor.rel_l2) and math.isfinite(sides.before):
        return sides.tensor.differs
    return sides.before > sides.floor
