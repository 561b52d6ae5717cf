"""How `metrics.relations.relation_between` grows with the size of a tensor: 1M to 64M elements.

Pairs of npy files: CPU time over one reading of both from the page cache, and the anonymous memory
that the search adds. Exits 1 when a bar is missed. ``--quick`` takes 1M elements.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from measuring import Cost, alternating
from measuring.bars import DEFAULT, FLOOR, Bar, Case, concluded

from troubleshooter_nb import open_dump
from troubleshooter_nb.dump import ArraySource
from troubleshooter_nb.metrics.relations import Relation, relation_between
from troubleshooter_nb.ranges import reading

SIDES = {1: 1024, 16: 4096, 64: 8192}  # millions of elements, and rows
BLOCK, ROUNDS = 1 << 20, 2
MEMORY_BAR = 150  # MiB, at most
GROWTH_BAR = 2.0  # time per element of the largest over that of 1M, at most
Planted = Callable[[np.ndarray, np.random.Generator], np.ndarray]
CASES: dict[str, Planted] = {
    "transpose": lambda left, _: left.T,
    "row_permutation": lambda left, random: left[random.permutation(len(left))],
    "blocks": lambda left, _: np.roll(left, len(left) // 4, axis=0),
    "slice": lambda left, _: left[5:-70],
    "close": lambda left, random: left + np.float32(1e-3) * drawn(random, left.shape),
    "nothing": lambda left, random: drawn(random, left.shape),
}


def drawn(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Normal values."""
    return random.standard_normal(shape, np.float32)


def read(sides: Sequence[ArraySource]) -> None:
    """Read both, in blocks."""
    for source in sides:
        size = math.prod(source.shape)
        with reading(source) as opened:
            for start in range(0, size, BLOCK):
                opened.read(start, min(start + BLOCK, size))


def measured(size: int, kind: str) -> tuple[str, Cost, Cost]:
    """What was found, and what reading and relating cost."""
    random = np.random.default_rng(size)
    left = drawn(random, (SIDES[size], SIDES[size]))
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder, "left.npy"), left)
        np.save(Path(folder, "right.npy"), np.ascontiguousarray(CASES[kind](left, random)))
        del left
        sides = [source for source in open_dump(folder).sources if source is not None]
        found: list[Relation | None] = []
        ways = {FLOOR: lambda: read(sides), DEFAULT: lambda: found.append(relation_between(*sides))}
        costs = alternating(ways, ROUNDS)
    best = [min(costs[way], key=lambda cost: cost.cpu) for way in (FLOOR, DEFAULT)]
    related = found[-1]
    return related.kind if related else "nothing", best[0], best[1]


def cases(sizes: list[int]) -> list[Case]:
    """A case for each kind and size."""
    made = []
    for kind in CASES:
        first = math.nan
        for size in sizes:
            found, floor, cost = measured(size, kind)
            first = cost.cpu / size if math.isnan(first) else first
            bars = (
                Bar("named right", int(found == kind), least=1),
                Bar("memory", cost.added, most=MEMORY_BAR, unit="MiB"),
                Bar("time per element over that of 1M", cost.cpu / size / first, most=GROWTH_BAR),
            )
            made.append(
                Case(f"{kind}, {size}M elements", {DEFAULT: cost.cpu, FLOOR: floor.cpu}, bars)
            )
    return made


def main() -> int:
    """Print the table; 0 when the bars are met."""
    return concluded(cases([1] if "--quick" in sys.argv[1:] else [*SIDES]))


if __name__ == "__main__":
    sys.exit(main())
