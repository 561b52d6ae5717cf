"""What is said of each cause: title, proof and repair, in English and Chinese."""

from __future__ import annotations

from collections.abc import Mapping

from troubleshooter_nb.render.causes import layers, operators, tensors, training
from troubleshooter_nb.render.causes.wording import CauseWords

WORDS: Mapping[str, CauseWords] = {
    **layers.WORDS,
    **operators.WORDS,
    **tensors.WORDS,
    **training.WORDS,
}
