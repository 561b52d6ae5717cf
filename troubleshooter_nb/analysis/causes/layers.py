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
    gains,
    pooling,
    products,
    recurrent,
    reductions,
    resizing,
    softmax,
)
from troubleshooter_nb.analysis.causes.searches import (
    attention,
    convolution,
    normalisation,
    rotary,
    rotary_tables,
)

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
    *rotary_tables.SEARCHES,
    *reductions.LAWS,
    *gains.LAWS,
    *recurrent.LAWS,
)


def _by_word(direction: Direction) -> dict[str, Law | Search]:
    of = [layer for layer in LAYERS if layer.direction == direction]
    return {word: layer for layer in of for word in layer.words}


# Of a backward call: how its input's gradient came ("backward"), and that of its weight.
_LAYERS: dict[str, dict[str, Law | Search]] = {
    name: _by_word(name) for name in ("forward", "backward", "weight")
}
FITTERS: dict[str, Fitter] = {word: one.fit for word, one in _LAYERS["forward"].items()}
BACKWARD_FITTERS: dict[str, Fitter] = {word: one.fit for word, one in _LAYERS["backward"].items()}


def layer_of(word: str, direction: str) -> Law | Search | None:
    """What explains a layer of that name in a direction."""
    return _LAYERS[direction].get(word)


def cause_of(word: str, settings: Sequence[str], fits: tuple[Fit, Fit]) -> tuple[str, str] | None:
    """The cause that differing settings of a layer mean, and the setting: see `cause_in`."""
    causes = {k: v for layer in LAYERS if word in layer.words for k, v in layer.causes.items()}
    return cause_in(causes, settings, fits)
