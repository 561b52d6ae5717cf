"""How the time of `troubleshooter_nb.compare` grows with the size of a pair: 1 KiB to 1 GiB a side.

Safetensors in float32 and bfloat16, pairs that all pass; as people call it, without diagnosis,
plain numpy, the arithmetic of TroubleShooter and the mere reading of both. At last one large pair
that differs, whose first and worst elements are looked for. Exits 1 when a bar is missed.
``--quick`` takes few pairs of at most 1 MiB.
"""

from __future__ import annotations

import math
import sys
import tempfile
from pathlib import Path

from measuring import alternating, fewest_cpu
from measuring.bars import BY_HAND, DEFAULT, FLOOR, OLD, PLAIN, Bar, Case, concluded
from measuring.byhand import only_read, plain_numpy, safetensors_pairs, troubleshooter
from measuring.material import BLOCK, noisy_pair, rounded_pair, write_safetensors

import troubleshooter_nb as tnb

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
COUNTS = {KIB: 4_000, 64 * KIB: 1_000, MIB: 128, 16 * MIB: 16, 256 * MIB: 1, GIB: 1}
QUICK_COUNTS = {KIB: 100, 64 * KIB: 20, MIB: 4}
ITEM_BYTES = {"F32": 4, "BF16": 2}
WORDS = {"F32": "float32", "BF16": "bfloat16"}
COLUMNS = 256
ROUNDS, LARGE_ROUNDS = 3, 2
# In float64, as the cosine needs it, a pair of more elements takes more than 16 GiB by hand.
MOST_BY_HAND = 1 << 28
GROWTH_FROM = 16 * MIB
GROWTH_BAR = 1.5  # time per element of the largest over that of 16 MiB, at most


def size_text(size: int) -> str:
    """A size as it is written."""
    for unit, word in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size // unit} {word}"
    return f"{size} B"


def measured(
    folder: Path, dtype: str, size: int, count: int, *, differing: bool = False
) -> dict[str, float]:
    """CPU seconds of each way for so many pairs of one size."""
    elements = size // ITEM_BYTES[dtype]
    names = [f"layers.{n}.fc.weight" for n in range(count)]
    places = folder / "left.safetensors", folder / "right.safetensors"
    left, right = rounded_pair(BLOCK) if dtype == "BF16" else noisy_pair(BLOCK)
    if differing:
        left *= left.dtype.type(1.01)
    for place, values in zip(places, (left, right), strict=True):
        write_safetensors(place, dtype, names, (elements // COLUMNS, COLUMNS), values)
    only_read(*places)  # fills the page cache
    ways = {
        DEFAULT: lambda: tnb.compare(*places, progress=False),
        PLAIN: lambda: tnb.compare(*places, diagnose=False, progress=False),
        BY_HAND: lambda: plain_numpy(safetensors_pairs(*places)),
        OLD: lambda: troubleshooter(safetensors_pairs(*places)),
        FLOOR: lambda: only_read(*places),
    }
    if elements > MOST_BY_HAND:
        del ways[BY_HAND], ways[OLD]
    is_large = size >= 256 * MIB
    rounds = dict.fromkeys(ways, LARGE_ROUNDS if is_large else ROUNDS)
    rounds |= {way: 1 for way in (BY_HAND, OLD) if way in ways}
    return fewest_cpu(alternating(ways, rounds))


def passing(dtype: str, counts: dict[int, int]) -> list[Case]:
    """A case for each size, the last with what its elements cost beside those of 16 MiB."""
    cases, per_element = [], {}
    for size, count in counts.items():
        with tempfile.TemporaryDirectory() as folder:
            cpu = measured(Path(folder), dtype, size, count)
        per_element[size] = cpu[DEFAULT] / (count * size)
        bars = ()
        if size == max(counts):
            growth = per_element[size] / per_element.get(GROWTH_FROM, math.nan)
            what = f"time per element over that of {size_text(GROWTH_FROM)}"
            bars = (Bar(what, growth, most=GROWTH_BAR),) if GROWTH_FROM in counts else ()
        name = f"compare {count:,} x {size_text(size)}, {WORDS[dtype]}"
        cases.append(Case(name, cpu, bars))
    return cases


def differing(size: int) -> Case:
    """One pair of which nearly every element is off."""
    with tempfile.TemporaryDirectory() as folder:
        cpu = measured(Path(folder), "F32", size, 1, differing=True)
    return Case(f"compare 1 x {size_text(size)} that differs, float32", cpu)


def main() -> int:
    """Print the table; 0 when the bars are met."""
    counts = QUICK_COUNTS if "--quick" in sys.argv[1:] else COUNTS
    cases = [case for dtype in WORDS for case in passing(dtype, counts)]
    cases.append(differing(sorted(counts)[-2]))
    return concluded(cases)


if __name__ == "__main__":
    sys.exit(main())
