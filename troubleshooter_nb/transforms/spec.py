"""Shape and dtype of a tensor that need not be there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from troubleshooter_nb.messages import Message
from troubleshooter_nb.shapes import Shape, shape_text


class Spec(NamedTuple):
    """Shape and dtype of a tensor that need not be there."""

    shape: Shape
    dtype: np.dtype

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


def shapes_said(specs: Sequence[Spec]) -> list[str]:
    """The shapes as they stand in a sentence."""
    return [shape_text(s.shape) if s.shape else Message("transforms.scalar") for s in specs]
