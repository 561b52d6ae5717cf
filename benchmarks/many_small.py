"""What a pair costs when it is one of many small ones: 20,000 of 256 floats, in memory.

All passing, and with one wrong, which must not make the others dear. The floor is the compiled loop
with the reading of both sides, in numpy where it is not compiled. Then what a notebook shows of the
result, and how both grow from 5,000 pairs to 20,000. Exits 1 when a bar is missed. ``--quick``
takes a twentieth.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import numpy as np
from measuring import alternating, fewest_cpu
from measuring.bars import BY_HAND, DEFAULT, FLOOR, OLD, PLAIN, Bar, Case, concluded
from measuring.byhand import plain_numpy, troubleshooter
from measuring.material import noisy_pair

import troubleshooter_nb as tnb
from troubleshooter_nb.metrics.compiled import kernel
from troubleshooter_nb.metrics.pairwise import measure_many

FEW, MANY, QUICK_SHARE = 5_000, 20_000, 20
LENGTH, BATCH = 256, 512
ROUNDS = 3
DIAGNOSIS_BAR = 1.3  # time by default over that without diagnosis, at most
PAIR_BAR = 100.0  # CPU microseconds a pair by default, at most, or ...
FLOOR_BAR = 12.0  # ... so many times the compiled loop with its two reads
GROWTH_BAR = 1.5  # time per pair of many over that of few, at most
Arrays = dict[str, np.ndarray]


def sides(pairs: int, *, one_wrong: bool) -> tuple[Arrays, Arrays]:
    """Vectors of 256 floats under the names of parameters."""
    names = [f"layers.{n // 6}.{'qkvoud'[n % 6]}.weight" for n in range(pairs)]
    left, right = (
        dict(zip(names, values.reshape(pairs, LENGTH), strict=True))
        for values in noisy_pair(pairs * LENGTH)
    )
    if one_wrong:
        left[names[pairs // 2]] = left[names[pairs // 2]][::-1].copy()
    return left, right


def loop_with_reads(left: Arrays, right: Arrays) -> None:
    """Both sides into a buffer, some pairs at a time, and the compiled loop over them."""
    buffers = np.empty((2, BATCH, LENGTH), np.float32)
    arrays = [[*side] for side in buffers]
    names = [*left]
    for start in range(0, len(names), BATCH):
        batch = names[start : start + BATCH]
        for number, name in enumerate(batch):
            np.copyto(arrays[0][number], left[name])
            np.copyto(arrays[1][number], right[name])
        lefts, rights = (side[: len(batch)] for side in arrays)
        measure_many(lefts, rights, kernel(), rtol=1e-4, atol=1e-4, equal_nan=False)


def compared(pairs: int, *, one_wrong: bool) -> Case:
    """All ways over so many pairs."""
    left, right = sides(pairs, one_wrong=one_wrong)
    both = [(values, right[name]) for name, values in left.items()]
    ways = {
        DEFAULT: lambda: tnb.compare(left, right, progress=False),
        PLAIN: lambda: tnb.compare(left, right, diagnose=False, progress=False),
        BY_HAND: lambda: plain_numpy(both),
        OLD: lambda: troubleshooter(both),
        FLOOR: lambda: loop_with_reads(left, right),
    }
    cpu = fewest_cpu(alternating(ways, ROUNDS))
    most = max(PAIR_BAR, FLOOR_BAR * cpu[FLOOR] / pairs * 1e6)
    bars = (
        Bar("default over diagnose=False", cpu[DEFAULT] / cpu[PLAIN], most=DIAGNOSIS_BAR),
        Bar("a pair by default", cpu[DEFAULT] / pairs * 1e6, most=most, unit="us"),
    )
    what = "one of them wrong" if one_wrong else "all passing"
    return Case(f"compare {pairs:,} x {LENGTH} floats in memory, {what}", cpu, bars)


def shown(pairs: int) -> Mapping[str, float]:
    """CPU seconds of what a notebook shows, and of the comparison that it shows."""
    left, right = sides(pairs, one_wrong=True)
    comparison = tnb.compare(left, right, diagnose=False, progress=False)
    ways = {
        DEFAULT: lambda: (comparison._repr_html_(), repr(comparison)),
        FLOOR: lambda: tnb.compare(left, right, diagnose=False, progress=False),
    }
    return fewest_cpu(alternating(ways, ROUNDS))


def growth(few: int, many: int) -> list[Case]:
    """Of comparing, which takes as long for each pair, and of showing."""
    left, right = sides(few, one_wrong=True)
    ways = {DEFAULT: lambda: tnb.compare(left, right, progress=False)}
    compared_few = fewest_cpu(alternating(ways, ROUNDS))[DEFAULT]
    passing, wrong = compared(many, one_wrong=False), compared(many, one_wrong=True)
    per_pair = (wrong.cpu[DEFAULT] / many) / (compared_few / few)
    shown_few, shown_many = shown(few), shown(many)
    bar = Bar(f"time by default per pair, over that of {few:,} pairs", per_pair, most=GROWTH_BAR)
    showing = shown_many[DEFAULT] / many / (shown_few[DEFAULT] / few)
    return [
        passing,
        Case(wrong.name, wrong.cpu, (*wrong.bars, bar)),
        Case(
            f"html and text of {many:,} pairs; floor: comparing",
            shown_many,
            (Bar(f"time per pair, over that of {few:,} pairs", showing, most=GROWTH_BAR),),
        ),
    ]


def main() -> int:
    """Print the table; 0 when the bars are met."""
    share = QUICK_SHARE if "--quick" in sys.argv[1:] else 1
    return concluded(growth(FEW // share, MANY // share))


if __name__ == "__main__":
    sys.exit(main())
