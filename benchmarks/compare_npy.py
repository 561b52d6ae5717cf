"""How long `troubleshooter_nb.compare` takes on 32 pairs of 16 MiB that all pass.

As people call it, and without diagnosis; next to plain numpy, the arithmetic of TroubleShooter and
the mere reading of both. The same npy files are named as parameters, as outputs of calls, as
gradients and so that nothing is known of them: nothing differs, so no name may cost. The same
values as safetensors, in float32 and bfloat16. Exits 1 when a bar is missed. ``--quick`` takes 2
pairs.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from measuring import alternating, anonymous_mib, fewest_cpu
from measuring.bars import BY_HAND, DEFAULT, FLOOR, OLD, PLAIN, Bar, Case, concluded
from measuring.byhand import npy_pairs, only_read, plain_numpy, safetensors_pairs, troubleshooter
from measuring.material import (
    BLOCK,
    noisy_pair,
    renamed,
    rounded_pair,
    write_npy,
    write_safetensors,
)

import troubleshooter_nb as tnb

PAIRS, QUICK_PAIRS = 32, 2
SHAPE = (4096, 1024)
ROUNDS, QUICK_ROUNDS, ROUNDS_BY_HAND = 4, 1, 2
NAMES = {
    "parameters": "layers.{}.fc.weight",
    "outputs": "layers.{}.fc.output",
    "gradients": "layers.{}.fc.weight_grad",
    "nothing": "tensor_{}",
}
DIAGNOSIS_BAR = 1.5  # time by default over that without diagnosis, at most
READING_BAR = 5.0  # time without diagnosis over that of reading both, at most
DEFAULT_BAR, PLAIN_BAR = 3.0, 4.0  # plain numpy's time over ours, at least
MEMORY_BAR = 150.0  # MiB of anonymous memory over the imports, at most
HALF_BAR = 0.4  # elements a second in bfloat16 over those in float32, at least


def as_npy(folder: Path, pairs: int, rounds: int, imported: float) -> list[Case]:
    """A case for each naming of the same files."""
    left, right = folder / "left", folder / "right"
    write_npy(left, right, (NAMES["parameters"].format(n) for n in range(pairs)), SHAPE)
    only_read(left, right)  # fills the page cache
    return [
        _named(
            f"compare {pairs} x 16 MiB npy, named as {what}",
            *(renamed(side, folder / f"{side.name}_{what}", name.format) for side in (left, right)),
            rounds,
            imported,
        )
        for what, name in NAMES.items()
    ]


def _named(name: str, left: Path, right: Path, rounds: int, imported: float) -> Case:
    ways = {
        DEFAULT: lambda: tnb.compare(left, right, progress=False),
        PLAIN: lambda: tnb.compare(left, right, diagnose=False, progress=False),
        BY_HAND: lambda: plain_numpy(npy_pairs(left, right)),
        OLD: lambda: troubleshooter(npy_pairs(left, right)),
        FLOOR: lambda: only_read(left, right),
    }
    turns = dict.fromkeys(ways, rounds) | dict.fromkeys((BY_HAND, OLD), ROUNDS_BY_HAND)
    costs = alternating(ways, turns)
    cpu = fewest_cpu(costs)
    peak = max(cost.peak for cost in costs[DEFAULT]) - imported
    bars = (
        Bar("default over diagnose=False", cpu[DEFAULT] / cpu[PLAIN], most=DIAGNOSIS_BAR),
        Bar("diagnose=False over reading both", cpu[PLAIN] / cpu[FLOOR], most=READING_BAR),
        Bar("plain numpy over default", cpu[BY_HAND] / cpu[DEFAULT], least=DEFAULT_BAR),
        Bar("plain numpy over diagnose=False", cpu[BY_HAND] / cpu[PLAIN], least=PLAIN_BAR),
        Bar("memory by default, over import", peak, most=MEMORY_BAR, unit="MiB"),
    )
    return Case(name, cpu, bars)


def as_safetensors(folder: Path, pairs: int, rounds: int) -> list[Case]:
    """Float32 and bfloat16: as many elements, so half as many bytes."""
    ways = {}
    names = [NAMES["parameters"].format(n) for n in range(pairs)]
    for dtype, values in (("F32", noisy_pair(BLOCK)), ("BF16", rounded_pair(BLOCK))):
        places = folder / f"left{dtype}.safetensors", folder / f"right{dtype}.safetensors"
        for place, side in zip(places, values, strict=True):
            write_safetensors(place, dtype, names, SHAPE, side)
        ways |= {
            (dtype, DEFAULT): lambda p=places: tnb.compare(*p, progress=False),
            (dtype, PLAIN): lambda p=places: tnb.compare(*p, diagnose=False, progress=False),
            (dtype, BY_HAND): lambda p=places: plain_numpy(safetensors_pairs(*p)),
            (dtype, OLD): lambda p=places: troubleshooter(safetensors_pairs(*p)),
            (dtype, FLOOR): lambda p=places: only_read(*p),
        }
    turns = {way: 1 if way[1] in (BY_HAND, OLD) else rounds for way in ways}
    cpu = fewest_cpu(alternating(ways, turns))
    rates = tuple(
        Bar(
            f"elements a second over float32's, {way}",
            cpu["F32", way] / cpu["BF16", way],
            least=HALF_BAR,
        )
        for way in (DEFAULT, PLAIN)
    )
    bars = {"F32": (), "BF16": rates}
    return [
        Case(
            f"compare {pairs} x 4M elements safetensors, {word}",
            {way: seconds for (of, way), seconds in cpu.items() if of == dtype},
            bars[dtype],
        )
        for dtype, word in (("F32", "float32"), ("BF16", "bfloat16"))
    ]


def main() -> int:
    """Print the table; 0 when all bars are met."""
    quick = "--quick" in sys.argv[1:]
    pairs, rounds = (QUICK_PAIRS, QUICK_ROUNDS) if quick else (PAIRS, ROUNDS)
    imported = anonymous_mib()
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        cases += as_npy(Path(folder), pairs, rounds, imported)
    with tempfile.TemporaryDirectory() as folder:
        cases += as_safetensors(Path(folder), pairs, rounds)
    return concluded(cases)


if __name__ == "__main__":
    sys.exit(main())
