"""Which law or search explains which layer, and which cause a differing setting means."""

from __future__ import annotations

from collections.abc import Sequence

from troubleshooter_nb.analysis.causes.case import Fit, Fitter
from troubleshooter_nb.analysis.causes.law import Direction, Law, Search, cause_in
from troubleshooter_nb.analysis.causes.laws import (
    activations,
    dropout,
    elementwise,
    embedding,
    pooling,
    products,
    recurrent,
    reductions,
    resizing,
    softmax,
)
from troubleshooter_nb.analysis.causes.searches import attention, convolution, normalisation, rotary

LAYERS: tuple[Law | Search, ...] = (
    *elementwise.LAWS,
    *normalisation.SEARCHES,
    *activations.LAWS,
    *softmax.LAWS,
    *dropout.LAWS,
    *products.LAWS,
    *convolution.SEARCHES,
    *pooling.LAWS,
    *resizing.LAWS,
    *embedding.LAWS,
    *attention.SEARCHES,
    *rotary.SEARCHES,
    *reductions.LAWS,
    *recurrent.LAWS,
)


def _fitters(direction: Direction) -> dict[str, Fitter]:
    of = [layer for layer in LAYERS if layer.direction == direction]
    return {word: layer.fit for layer in of for word in layer.words}


FITTERS = _fitters("forward")
# Of a backward call: how its input's gradient came, and that of its weight.
BACKWARD_FITTERS = _fitters("backward")
WEIGHT_FITTERS = _fitters("weight")
# Layers whose plainest ways are a small part of all that are tried.
PLAIN_FIRST = frozenset(word for layer in LAYERS if layer.plain_first for word in layer.words)
# Whose output rows are each computed from the same row of every input, and from parameters.
ROWWISE = frozenset(word for layer in LAYERS if layer.is_rowwise for word in layer.words)


def cause_of(word: str, settings: Sequence[str], fits: tuple[Fit, Fit]) -> tuple[str, str] | None:
    """The cause that differing settings of a layer mean, and the setting: see `cause_in`."""
    causes = {k: v for layer in LAYERS if word in layer.words for k, v in layer.causes.items()}
    return cause_in(causes, settings, fits)
