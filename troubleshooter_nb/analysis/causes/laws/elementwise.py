"""Sums, products and quotients of two tensors, masks and powers: factors, order, masked value."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.axes import elements_of
from troubleshooter_nb.analysis.causes.case import Fit, Operands
from troubleshooter_nb.analysis.causes.factors import named_size
from troubleshooter_nb.analysis.causes.fits import misfit
from troubleshooter_nb.analysis.causes.law import Cause, Choice, Factor, Law, Rather, Way
from troubleshooter_nb.analysis.causes.sampling import Sample, elements
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.float_formats import as_stored
from troubleshooter_nb.metrics.operators.attention import causal, window_of
from troubleshooter_nb.metrics.operators.elementwise import combined, weights_of
from troubleshooter_nb.thresholds import (
    ELEMENTWISE_SAMPLE,
    FEWEST_OUTPUTS,
    FEWEST_TO_FIT,
    LAYER_SAMPLE,
    SAME_FACTOR,
)

NO_MASK = "none"


def _has_none(left: Fit, right: Fit) -> bool:
    return NO_MASK in (left.settings.get("mask_value"), right.settings.get("mask_value"))


_CAUSES: dict[str, Cause] = {
    "mask_value": Rather("mask_missing", when=_has_none, usual="mask_value"),
    "masked": "mask_value",
    "causal": "mask_missing",
    "window": "attention_window",
    "position_offset": "position_offset",
    "arguments": "argument_order",
    **dict.fromkeys(("scale", "constant"), "constant_differs"),
}


def _pair(operands: Operands) -> Iterator[Sample]:
    """Some elements of the first two inputs, spread to the output's shape."""
    given = [values for values in operands.inputs[:2] if values is not None]
    taken = elements(operands, given, ELEMENTWISE_SAMPLE) if len(given) == 2 else None
    if taken is not None and operands.output.size >= FEWEST_OUTPUTS:
        yield Sample.of(operands, *taken, size=_size(operands.output))


def _size(values: np.ndarray) -> int:
    """Features, which factors are named after."""
    return values.shape[-1] if values.ndim else 1


def _sums(operands: Operands) -> Iterator[Sample]:
    """As `_pair`; or one input beside a number: all of whole numbers, some of others."""
    if sum(values is not None for values in operands.inputs) > 1:
        yield from _pair(operands)
        return
    x, output = next(iter(operands.inputs), None), operands.output
    if x is None or x.shape != output.shape or x.size < 2:
        return
    if x.dtype.kind in "iu" and output.dtype.kind in "iu":
        shift = output.astype(np.int64) - x.astype(np.int64)
        counts = np.diff(x.astype(np.int64), axis=-1)
        is_counting = bool(counts.size and (counts == 1).all())
        if shift.min() == shift.max():
            yield Sample.of(operands, (), shift, is_counting=is_counting)
    elif output.size >= FEWEST_OUTPUTS:
        taken = elements(operands, [x], ELEMENTWISE_SAMPLE)
        if taken is not None:
            yield Sample.of(operands, *taken)


def _weighted(sample: Sample, sign: float) -> Iterator[Way | Fit]:
    """Factors of both terms: 1, those that suit best, and of a difference the other order.

    Of whole numbers the number added to them: ``position_offset`` where these count on by one.
    """
    if not sample.given:
        name = "position_offset" if sample.facts["is_counting"] else "offset"
        yield Fit({name: int(sample.output.flat[0])}, 0.0)
        return
    if len(sample.given) == 1:
        yield from _added(sample, sign)
        return
    first, second = sample.given
    order = {"arguments": "in order"} if sign < 0 else {}
    said = {"first_factor": 1.0, "second_factor": 1.0}
    yield Way({**order, **said}, combined("add", first, sign * second))
    if sign < 0:
        yield Way({"arguments": "swapped", **said}, combined("add", second, -first))
    weights = weights_of([first, sign * second], sample.output)
    if np.isfinite(weights).all():
        likely = [named_size(float(one), sample.facts["size"], SAME_FACTOR)[0] for one in weights]
        if likely != [-1.0, -1.0]:
            said = {"first_factor": likely[0], "second_factor": likely[1]}
            terms = likely[0] * first, sign * likely[1] * second
            yield Way({**order, **said}, combined("add", *terms))


def _added(sample: Sample, sign: float) -> Iterator[Fit]:
    """One number that is added to all elements, or taken from them."""
    (x,), output = sample.given, sample.output
    usable = np.isfinite(x) & np.isfinite(output)
    if np.count_nonzero(usable) < FEWEST_OUTPUTS or np.ptp(x[usable]) == 0:
        return
    value = float((output[usable] - x[usable]).mean())
    # Each element is rounded by itself.
    width = max(sample.roundoff, 2.0**-24) * float(np.abs(output[usable]).max())
    short = float(f"{value:.6g}")
    value = short if abs(short - value) <= width else value
    yield Fit(
        {"constant": sign * value},
        misfit(output, x + value, sample.roundoff),
        {"constant": width},
    )


def _factors(operands: Operands) -> Iterator[Sample]:
    """Two tensors, or one beside a number."""
    given = [values for values in operands.inputs if values is not None and values.size > 1][:2]
    taken = elements(operands, given, ELEMENTWISE_SAMPLE) if given else None
    if taken is not None and operands.output.size >= FEWEST_OUTPUTS:
        yield Sample.of(operands, *taken, size=_size(given[0]))


def _orders(sample: Sample) -> tuple[Any, ...]:
    return ("in order", "swapped") if len(sample.given) == 2 else (({}, "in order"),)


def _masked(operands: Operands) -> Iterator[Sample]:
    """The places left alone, where a mask is set to one value: inputs x and the mask.

    Without a recorded mask it is where the output is something else than the input.
    """
    given = [value for value in operands.inputs[:2] if value is not None]
    if len(given) == 1 and given[0].shape == operands.output.shape:
        yield from _masked_itself(operands, given[0])
        return
    if len(given) < 2 or given[0].shape != operands.output.shape:
        return
    taken = elements(operands, given, ELEMENTWISE_SAMPLE)
    if taken is None or operands.output.size < FEWEST_OUTPUTS:
        return
    (x, mask), output = taken
    is_set = mask != 0
    for word, filled in (("where true", is_set), ("where false", ~is_set)):
        values = np.unique(output[filled])
        if values.size == 1 and not filled.all():
            known = {"mask_value": _filling(values[0], operands.roundoff), "masked": word}
            yield Sample.of(operands, (x[~filled],), output[~filled], known)


def _masked_itself(operands: Operands, whole: np.ndarray) -> Iterator[Sample]:
    taken = elements(operands, [whole], ELEMENTWISE_SAMPLE)
    if taken is None or operands.output.size < FEWEST_OUTPUTS:
        return
    (x,), output = taken
    filled = output != x
    if not filled.any():
        yield Sample.of(operands, (x,), output, {"mask_value": NO_MASK})
        return
    values = np.unique(output[filled])
    if values.size == 1 and np.count_nonzero(~filled) >= FEWEST_OUTPUTS and filled.sum() > 1:
        said = _filling(values[0], operands.roundoff)
        known = {"mask_value": said, **_hidden(operands.output != whole)}
        yield Sample.of(operands, (x[~filled],), output[~filled], known)


def _filling(value: float, roundoff: float) -> float | str:
    """The number that places are filled with: a round one that is stored as this is."""
    number = float(value)
    if not math.isfinite(number):
        return str(number)
    rounder = float(f"{number:.1g}")
    return rounder if float(as_stored(np.array(rounder), roundoff)) == number else number


def _hidden(filled: np.ndarray) -> dict[str, Any]:
    """Where something was filled in: later keys of each query, those behind a window, others."""
    checksum = f"{zlib.crc32(np.packbits(filled).tobytes()):08x}"
    places = Message("evidence.places", count=int(filled.sum()), checksum=checksum)
    if filled.ndim < 2:
        return {"hidden": places}
    rows, keys = filled.shape[-2:]
    later = ~causal(np.arange(rows), rows, keys, "top left")
    is_causal = bool(later.any() and filled[..., later].all())
    window = window_of(filled, is_causal=is_causal)
    return {"causal": is_causal, "window": window or "all", "hidden": places}


def _ordered(operands: Operands) -> Iterator[Sample]:
    given = [value for value in operands.inputs if value is not None][:2]
    taken = elements(operands, given, LAYER_SAMPLE) if len(given) == 2 else None
    if taken is not None and operands.output.size >= FEWEST_TO_FIT:
        yield Sample.of(operands, *taken)


def _operated(
    sample: Sample,
    chosen: Mapping[str, Any],
    operation: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """The two tensors, in one order or the other; one alone stands beside a number."""
    if len(sample.given) == 1:
        return sample.given[0]
    first, second = sample.given
    is_swapped = chosen.get("arguments") == "swapped"
    return operation(second, first) if is_swapped else operation(first, second)


def _factor_law(words: tuple[str, ...], operator: str) -> Law:
    return Law(
        words=words,
        samples=_factors,
        causes=_CAUSES,
        choices=(Choice("arguments", _orders),) if operator == "div" else (),
        formula=partial(_operated, operation=partial(combined, operator)),
        factor=Factor("scale", size=lambda sample: sample.facts["size"]),
        is_rowwise=True,
        axes=(elements_of,),
    )


ADD, SUB = (
    Law(
        words=(word,),
        samples=_sums,
        causes=_CAUSES,
        ways=partial(_weighted, sign=sign),
        is_rowwise=True,
        axes=(elements_of,),
    )
    for word, sign in (("add", 1.0), ("sub", -1.0))
)
MUL = _factor_law(("mul",), "mul")
DIV = _factor_law(("div", "truediv", "realdiv"), "div")
MASKED_FILL = Law(
    words=("maskedfill",),
    samples=_masked,
    causes=_CAUSES,
    formula=lambda sample, _: sample.given[0],
    is_rowwise=True,
    axes=(elements_of,),
)
# Of sub and div factors are asked as well.
_OPERATIONS: dict[tuple[str, ...], Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    ("subtract",): np.subtract,
    ("divide", "truedivide"): np.divide,
    ("pow",): np.power,
    ("atan2",): np.arctan2,
}
LAWS = (
    *(ADD, SUB, MUL, DIV, MASKED_FILL),
    *(
        Law(
            words=words,
            samples=_ordered,
            causes=_CAUSES,
            choices=(Choice("arguments", ("in order", "swapped")),),
            formula=partial(_operated, operation=operation),
            limit=math.inf,
            axes=(elements_of,),
        )
        for words, operation in _OPERATIONS.items()
    ),
)
