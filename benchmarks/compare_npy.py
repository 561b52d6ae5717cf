"""How long `troubleshooter_nb.compare` takes on two folders of npy files, next to plain numpy.

Plain numpy loads each pair whole and takes allclose, the share of close elements and the cosine.
The ways alternate in one process, over files in the page cache; medians over rounds are compared,
and the memory that each way adds to what is there after the imports is sampled while it runs.
Exits 1 when a bar is missed. ``--quick`` takes fewer pairs.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
from measuring import anonymous_mib, timed

import troubleshooter_nb as tnb

PAIRS, QUICK_PAIRS = 32, 6
SHAPE = (64, 64, 32, 32)  # 16 MiB of float32
ROUNDS = 5
FASTEST_BAR = 3.0  # plain numpy's time over ours, at least
MEMORY_BAR = 150.0  # MiB of anonymous memory over the imports, at most


def write(left: Path, right: Path, pairs: int) -> None:
    """Two folders of tensors that differ by noise of 1e-5."""
    for folder in (left, right):
        folder.mkdir()
    random = np.random.default_rng(0)
    for i in range(pairs):
        reference = random.standard_normal(SHAPE, np.float32)
        noisy = reference + np.float32(1e-5) * random.standard_normal(SHAPE, np.float32)
        np.save(left / f"layer_{i}.npy", noisy)
        np.save(right / f"layer_{i}.npy", reference)


def ours(left: Path, right: Path) -> None:
    """Every figure and verdict of all pairs."""
    tnb.compare(left, right, progress=False)


def plain_numpy(left: Path, right: Path) -> None:
    """What a notebook does by hand."""
    for file in sorted(left.iterdir()):
        actual, benchmark = np.load(file), np.load(right / file.name)
        np.allclose(actual, benchmark, rtol=1e-4, atol=1e-4)
        np.isclose(actual, benchmark, rtol=1e-4, atol=1e-4).mean()
        wide, reference = actual.astype(np.float64).ravel(), benchmark.astype(np.float64).ravel()
        wide @ reference / (np.linalg.norm(wide) * np.linalg.norm(reference))


def only_read(left: Path, right: Path) -> None:
    """The bytes of all files, as fast as they come."""
    buffer = bytearray(1 << 20)
    for folder in (left, right):
        for file in folder.iterdir():
            with open(file, "rb", buffering=0) as stream:
                while stream.readinto(buffer):
                    pass


def main() -> int:
    """Print seconds, ratios and memory; 0 when both bars are met."""
    pairs = QUICK_PAIRS if "--quick" in sys.argv[1:] else PAIRS
    before = anonymous_mib()
    with tempfile.TemporaryDirectory() as folder:
        left, right = Path(folder, "left"), Path(folder, "right")
        write(left, right, pairs)
        ways = {"ours": ours, "plain numpy": plain_numpy, "only reading": only_read}
        only_read(left, right)  # fills the page cache
        rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, way in ways.items():
                rounds[name].append(timed(lambda way=way: way(left, right)))
    seconds = {name: statistics.median(s for s, _ in taken) for name, taken in rounds.items()}
    memory = {name: max(peak for _, peak in taken) - before for name, taken in rounds.items()}
    elements = pairs * int(np.prod(SHAPE))
    print(f"{pairs} pairs of {SHAPE} float32, median of {ROUNDS} rounds")
    for name in ways:
        print(
            f"{name:13} {seconds[name]:7.3f} s {seconds[name] / elements * 1e9:6.1f} ns/element "
            f"{memory[name]:6.0f} MiB over import"
        )
    # Rounds are paired: what slows the machine slows both ways of a round.
    faster = statistics.median(
        plain / own
        for (own, _), (plain, _) in zip(rounds["ours"], rounds["plain numpy"], strict=True)
    )
    print(f"ours is {faster:.1f} times faster than plain numpy (bar {FASTEST_BAR})")
    print(f"ours takes {memory['ours']:.0f} MiB over import (bar {MEMORY_BAR:.0f})")
    return 0 if faster >= FASTEST_BAR and memory["ours"] <= MEMORY_BAR else 1


if __name__ == "__main__":
    sys.exit(main())
