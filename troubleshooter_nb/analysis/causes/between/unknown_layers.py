"""Layers of the user's own classes, tried as what their operands look like."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from troubleshooter_nb.analysis.causes.case import Call, Suspicion
from troubleshooter_nb.analysis.causes.recomputed import Outcome, Recomputation, recompute

_ACTIVATIONS = ("gelu", "silu", "relu", "leakyrelu", "tanh", "sigmoid")


def unknown_layer_suspicions(call: Call, typical: float = 0.0) -> tuple[Outcome, list[Suspicion]]:
    """Compute a call again of unknown class as the layers that its shapes allow.

    Parameters
    ----------
    call : Call
        Without a word; one that contains no others.
    typical : float
        As `recompute` takes it.

    Returns
    -------
    outcome : str
        That of the layer that explains both sides; else of one that explains a side.
    suspicions : list of Suspicion
    """
    best = Recomputation("unknown")
    for word in _words(call):
        found = recompute(replace(call, word=word), typical)
        if found.outcome in ("same", "different"):
            return found.outcome, [found.suspicion] if found.suspicion else []
        if found.outcome == "one_side" and best.outcome == "unknown":
            best = found
    return best.outcome, [best.suspicion] if best.suspicion else []


def _words(call: Call) -> Iterator[str]:
    if call.direction == "backward" or not call.inputs or not call.outputs:
        return
    given, made = _shape(call, "input"), _shape(call, "output")
    weight = call.parameters.get("weight")
    if weight is not None and weight.sources[1] is not None:
        shape = tuple(weight.sources[1].shape)
        if len(shape) == 1 and given == made and given and given[-1] == shape[0]:
            yield "layernorm" if "bias" in call.parameters else "rmsnorm"
            yield "rmsnorm" if "bias" in call.parameters else "layernorm"
        elif len(shape) == 2 and given and made and made[-1] == shape[0] and given[-1] == shape[1]:
            yield "linear"
        elif len(shape) == 2 and made == (*given, shape[1]):
            yield "embedding"
        return
    if any(len(t.sources[1].shape) > 1 for t in call.parameters.values() if t.sources[1]):
        return
    if given == made and len(given) in (3, 4) and given[-1] % 2 == 0:
        yield "rotary"
    if given == made and not call.parameters and len(call.inputs) == 1:
        yield from _ACTIVATIONS


def _shape(call: Call, role: str) -> tuple[int, ...]:
    tensor = (call.inputs if role == "input" else call.outputs)[0]
    source = tensor.sources[1]
    return tuple(source.shape) if source is not None else ()
