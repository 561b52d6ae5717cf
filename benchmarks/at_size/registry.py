"""What a case is: a fault, the causes that name it, and the row it is planted in."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from at_size.dumps import Pair

# Plants the fault and tells the row that holds it, or what the names of rows begin with any of
# which may be said to; empty where nothing is wrong.
Plant = Callable[[Pair], str]


@dataclass(frozen=True)
class Case:
    """One fault.

    Attributes
    ----------
    name : str
    causes : frozenset of str
        Ids of which the first finding has to be one; empty where none is true.
    plant : callable
    hints : bool
        Whether the layers are called as people call them. A third are called by numbers alone.
    outside : bool
        Whether the catalogue has no cause for it: its place counts, and silence about the rest.
    observed : str
        What is to be observed of the values all the same: ``scale`` or ``place``.
    """

    name: str
    causes: frozenset[str]
    plant: Plant
    hints: bool
    outside: bool = False
    observed: str = ""


CASES: dict[str, Case] = {}


def case(
    *causes: str, hints: bool = True, outside: bool = False, observed: str = ""
) -> Callable[[Plant], Plant]:
    """Register a planting function under its name."""

    def register(plant: Plant) -> Plant:
        name = plant.__name__
        CASES[name] = Case(name, frozenset(causes), plant, hints, outside, observed)
        return plant

    return register


def rows(elements: int, most: int = 4096) -> tuple[int, int]:
    """Shape (rows, columns) of about so many elements, columns a power of two."""
    columns = min(1 << max((elements.bit_length() - 1) // 2, 3), most)
    return max(elements // columns, 1), columns


def matrix(elements: int, ratio: float = 1.0, multiple: int = 8) -> tuple[int, int]:
    """Shape of a weight (out, in) with ``out = ratio * in``."""
    columns = round(math.sqrt(elements / ratio) / multiple) * multiple
    return round(ratio * columns / multiple) * multiple, columns


def planes(elements: int, channels: int | None = None) -> tuple[int, int, int, int]:
    """Shape (items, channels, height, width) of images or what became of them."""
    side = 16 if elements < 1 << 18 else 64
    channels = channels or (4 if elements < 1 << 18 else 32)
    return max(elements // (channels * side * side), 2), channels, side, side


def heads(elements: int) -> tuple[int, int, int, int]:
    """Shape (items, heads, positions, head size) of queries."""
    size, positions = (16, 32) if elements < 1 << 18 else (64, 128)
    many = 4 if elements < 1 << 18 else 16
    return max(elements // (many * positions * size), 1), many, positions, size
