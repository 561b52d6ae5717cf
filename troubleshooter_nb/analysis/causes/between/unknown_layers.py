"""Layers of classes that are not known, tried as what their operands look like."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from troubleshooter_nb.analysis.causes.between.image_scales import image_scales
from troubleshooter_nb.analysis.causes.between.likely_layers import likely_layers
from troubleshooter_nb.analysis.causes.case import Call, Suspicion, TensorPair
from troubleshooter_nb.analysis.causes.layers import layer_of
from troubleshooter_nb.analysis.causes.recomputed import (
    Outcome,
    Recomputation,
    floor_of,
    recompute,
)
from troubleshooter_nb.analysis.layer_kinds import class_name
from troubleshooter_nb.dump import ArrayInMemory, ArraySource
from troubleshooter_nb.metrics.floats import unit_roundoff
from troubleshooter_nb.naming import readings_of_parameter
from troubleshooter_nb.ranges import read_copy
from troubleshooter_nb.thresholds import (
    FORMULA_FLOORS,
    OTHER_CLASS_SHARE,
    OTHER_LAYER_FLOORS,
    PART_ELEMENTS,
)


@dataclass(frozen=True)
class Attempt:
    """What came of computing a call of unknown class again.

    Attributes
    ----------
    outcome : str
        That of the layer that explains both sides; else of one that explains a side.
    suspicions : list of Suspicion
    missed : mapping of str to (float, float)
        The words that were tried, with what each leaves of the left and the right side, over what
        rounding leaves.
    """

    outcome: Outcome = "unknown"
    suspicions: list[Suspicion] = field(default_factory=list)
    missed: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def unknown_layer(call: Call, typical: float = 0.0) -> Attempt:
    """Compute a call of unknown class again as the layers that its shapes and values allow.

    Parameters
    ----------
    call : Call
        One that contains no others; what its word says, which may be that of its name, is tried
        first.
    typical : float
        As `recompute` takes it.

    Notes
    -----
    A layer counts that explains both sides to within rounding: of a class that is only guessed,
    what is explained equally badly may be another one. Where two layers explain a side each, the
    sides have other layers at this place.
    """
    if call.direction == "backward" or not call.inputs or not call.outputs:
        return Attempt()
    call = _with_torch_names(call)
    if _is_small(call):
        call = _in_memory(call)
    if images := image_scales(call):
        return Attempt("different", images)
    found: dict[str, Recomputation] = {}
    uncaused: Recomputation | None = None
    named = (call.word,) if layer_of(call.word, call.direction) is not None else ()
    for word in dict.fromkeys((*named, *likely_layers(call))):
        found[word] = one = recompute(replace(call, word=word), typical)
        if one.outcome in ("same", "different") and max(one.left_over) <= FORMULA_FLOORS:
            if one.outcome == "same" or one.suspicion is not None:
                return _attempt(one, found)
            # Of another layer what differs may be a cause.
            uncaused = one
    if uncaused is not None:
        return _attempt(uncaused, found)
    if (other := other_layer(call, typical, found)) is not None:
        return _attempt(Recomputation("different", other), found)
    near = [one for one in found.values() if one.outcome == "one_side"]
    best = min(near, key=lambda one: min(one.left_over), default=Recomputation("unknown"))
    return _attempt(best, found)


def _attempt(one: Recomputation, found: Mapping[str, Recomputation]) -> Attempt:
    """What computing it as one layer showed, with what all that were tried leave."""
    missed = {word: other.left_over for word, other in found.items()}
    return Attempt(one.outcome, [one.suspicion] if one.suspicion else [], missed)


def other_layer(call: Call, typical: float, found: dict[str, Recomputation]) -> Suspicion | None:
    """The sides computed two layers, where one explains the left and another one the right.

    Parameters
    ----------
    call : Call
    typical : float
        As `recompute` takes it.
    found : dict of str to Recomputation
        What computing it as each layer showed, by their words.
    """
    # The likeliest of those that explain a side.
    own = [next((word for word in found if _explains(found[word], side)), "") for side in (0, 1)]
    if not all(own) or own[0] == own[1] or _does_nothing(found):
        return None
    left_over = [found[word].left_over[side] for side, word in enumerate(own)]
    crossed = [found[word].left_over[1 - side] for side, word in enumerate(own)]
    if min(crossed) <= OTHER_LAYER_FLOORS * max(*left_over, 1.0):
        return None
    classes = _class(own[0], found, 0), _class(own[1], found, 1)
    return _suspicion(call, typical, classes, (left_over[0], left_over[1]))


def _does_nothing(found: Mapping[str, Recomputation]) -> bool:
    """Whether the output of a side is its input."""
    return any(
        one.settings[side].get("function") == "identity" and one.left_over[side] <= FORMULA_FLOORS
        for one in found.values()
        for side in (0, 1)
    )


def _explains(one: Recomputation, side: int) -> bool:
    """Whether a layer explains a side; any numbers may be the stored statistics of a norm."""
    return one.left_over[side] <= FORMULA_FLOORS and "slopes" not in one.settings[side]


def _class(word: str, found: Mapping[str, Recomputation], side: int) -> str:
    """What to call a layer: an activation by its function."""
    return class_name(str(found[word].settings[side].get("function", word)))


def of_two_classes(
    call: Call,
    typical: float,
    found: tuple[Recomputation, Recomputation],
    classes: tuple[str, str],
) -> Suspicion:
    """That the sides recorded two classes of layers; surer where values prove it.

    Parameters
    ----------
    call : Call
    typical : float
        As `recompute` takes it.
    found : tuple of Recomputation
        Of the call as the layer of the left side, and as that of the right.
    classes : tuple of str
        As recorded.
    """
    left_over = found[0].left_over[0], found[1].left_over[1]
    return _suspicion(call, typical, classes, left_over)


def _suspicion(
    call: Call, typical: float, classes: tuple[str, str], left_over: tuple[float, float]
) -> Suspicion:
    output = call.outputs[0]
    roundoffs = [unit_roundoff(dtype) for dtype in output.dtypes if dtype is not None]
    floors = [floor_of(roundoff, typical) for roundoff in roundoffs]
    evidence = {"layer": call.path, "left_class": classes[0], "right_class": classes[1]}
    is_proved = max(left_over) <= FORMULA_FLOORS
    return Suspicion(
        cause="other_layer",
        before=output.rel_l2,
        residual=max(map(math.prod, zip(left_over, floors, strict=True)))
        if is_proved
        else max(floors),
        rival=output.rel_l2,
        floor=max(floors),
        evidence=evidence,
        pair=output.pair,
        independent=output.size,
        share=1.0 if is_proved else OTHER_CLASS_SHARE,
    )


def _with_torch_names(call: Call) -> Call:
    """The call with parameters by what their names mean, and a single one as the weight."""
    named: dict[str, TensorPair] = {}
    for name, tensor in call.parameters.items():
        words = [leaf for path, leaf in readings_of_parameter(f"layer.{name}") if path == "layer"]
        only = "weight" if len(call.parameters) == 1 else name
        named.setdefault(words[0] if words else only, tensor)
    return replace(call, parameters=named)


def _is_small(call: Call) -> bool:
    """Whether all of the call may be kept while layers are tried; of others parts are read."""
    tensors = (*call.inputs, *call.outputs[:1], *call.parameters.values())
    shapes = (shape for tensor in tensors for shape in tensor.shapes if shape is not None)
    return sum(map(math.prod, shapes)) <= PART_ELEMENTS


def _in_memory(call: Call) -> Call:
    """The call with its tensors read once: every layer that is tried asks for them."""
    return replace(
        call,
        inputs=tuple(map(_held, call.inputs)),
        outputs=(*map(_held, call.outputs[:1]), *call.outputs[1:]),
        parameters={name: _held(tensor) for name, tensor in call.parameters.items()},
    )


def _held(tensor: TensorPair) -> TensorPair:
    """As stored, in memory; reading it again is free."""
    found: list[ArraySource | None] = []
    for source in tensor.sources:
        if source is not None:
            size = math.prod(source.shape)
            if tensor.budget is not None:
                tensor.budget.charge(size)
            source = ArrayInMemory(read_copy(source, 0, size).reshape(source.shape))
        found.append(source)
    return replace(tensor, sources=(found[0], found[1]), budget=None)
