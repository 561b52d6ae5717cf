"""Which function fits which layer, and which cause a differing setting means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from troubleshooter_nb.analysis.causes.case import Fitter
from troubleshooter_nb.analysis.causes.layers import (
    activations,
    argument_order,
    attention,
    convolution,
    dropouts,
    elementwise,
    embedding,
    normalisation,
    pooling,
    products,
    recurrent,
    reductions,
    resizing,
    rotary,
    softmaxes,
)

_Table = Mapping[str, Fitter]
_FAMILIES: tuple[tuple[_Table, _Table, Mapping[tuple[str, str], str]], ...] = (
    (argument_order.FITTERS, {}, argument_order.CAUSES),
    (elementwise.FITTERS, elementwise.BACKWARD_FITTERS, elementwise.CAUSES),
    (normalisation.FITTERS, normalisation.BACKWARD_FITTERS, normalisation.CAUSES),
    (activations.FITTERS, activations.BACKWARD_FITTERS, activations.CAUSES),
    (softmaxes.FITTERS, softmaxes.BACKWARD_FITTERS, softmaxes.CAUSES),
    (dropouts.FITTERS, dropouts.BACKWARD_FITTERS, dropouts.CAUSES),
    (products.FITTERS, products.BACKWARD_FITTERS, products.CAUSES),
    (convolution.FITTERS, convolution.BACKWARD_FITTERS, convolution.CAUSES),
    (pooling.FITTERS, pooling.BACKWARD_FITTERS, pooling.CAUSES),
    (resizing.FITTERS, resizing.BACKWARD_FITTERS, resizing.CAUSES),
    (embedding.FITTERS, embedding.BACKWARD_FITTERS, embedding.CAUSES),
    (attention.FITTERS, attention.BACKWARD_FITTERS, attention.CAUSES),
    (rotary.FITTERS, rotary.BACKWARD_FITTERS, rotary.CAUSES),
    (reductions.FITTERS, reductions.BACKWARD_FITTERS, reductions.CAUSES),
    (recurrent.FITTERS, recurrent.BACKWARD_FITTERS, recurrent.CAUSES),
)
FITTERS: dict[str, Fitter] = {}
# Of a backward call: how its input's gradient came, and that of its weight.
BACKWARD_FITTERS: dict[str, Fitter] = {}
WEIGHT_FITTERS: dict[str, Fitter] = {**products.WEIGHT_FITTERS, **embedding.WEIGHT_FITTERS}
CAUSES: dict[tuple[str, str], str] = {}
# Layers whose plainest ways are a small part of all that are tried.
PLAIN_FIRST = frozenset(
    word
    for family in (products, convolution, attention, activations)
    for word in (*family.FITTERS, *family.BACKWARD_FITTERS)
)
for _forward, _backward, _causes in _FAMILIES:
    FITTERS |= _forward
    BACKWARD_FITTERS |= _backward
    # What a setting means holds for the layers of its family: "weight" is not one thing.
    for _word in {*_forward, *_backward}:
        CAUSES |= {(_word, key[1]): cause for key, cause in _causes.items() if not key[0]}
        CAUSES |= {key: cause for key, cause in _causes.items() if key[0] == _word}


def cause_of(word: str, settings: Sequence[str]) -> tuple[str, str] | None:
    """The cause that the first known of these differing settings means, and that setting."""
    return next(((CAUSES[word, s], s) for s in settings if (word, s) in CAUSES), None)
