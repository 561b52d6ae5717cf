"""What a small npy file costs to open and to compare: 30,000 of 256 floats a side.

Opening stands beside opening and reading the first bytes of each; comparing, of what is open,
beside the reading of all. Exits 1 when a bar is missed. ``--quick`` takes a thirtieth.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import numpy as np
from measuring import alternating, fewest_cpu
from measuring.bars import BY_HAND, DEFAULT, FLOOR, OLD, PLAIN, Bar, Case, concluded
from measuring.byhand import npy_pairs, only_read, plain_numpy, troubleshooter
from measuring.material import noisy_pair

import troubleshooter_nb as tnb

FILES, QUICK_FILES = 30_000, 1_000
LENGTH = 256
HEAD_BYTES = 128
ROUNDS, ROUNDS_BY_HAND = 2, 1
OPEN_BAR = 100.0  # CPU microseconds a file, at most
COMPARE_BAR = 100.0  # CPU microseconds a pair above reading it, at most


def write(left: Path, right: Path, files: int) -> None:
    """Two folders of vectors under the names of parameters."""
    both = [side.reshape(files, LENGTH) for side in noisy_pair(files * LENGTH)]
    for folder, values in zip((left, right), both, strict=True):
        folder.mkdir()
        for n in range(files):
            np.save(folder / f"layers.{n // 6}.{'qkvoud'[n % 6]}.weight.npy", values[n])


def only_heads(folder: Path) -> None:
    """The header of each file, as bytes."""
    for name in sorted(os.listdir(folder)):
        descriptor = os.open(f"{folder}/{name}", os.O_RDONLY)
        os.read(descriptor, HEAD_BYTES)
        os.close(descriptor)


def opening(folder: Path, files: int) -> Case:
    """One folder; the other ways have nothing like it."""
    ways = {DEFAULT: lambda: tnb.open_dump(folder), FLOOR: lambda: only_heads(folder)}
    cpu = fewest_cpu(alternating(ways, ROUNDS))
    bar = Bar("a file", cpu[DEFAULT] / files * 1e6, most=OPEN_BAR, unit="us")
    return Case(f"open {files:,} npy of {LENGTH} floats", cpu, (bar,))


def comparing(left: Path, right: Path, files: int) -> Case:
    """Both folders, opened before."""

    def compare(diagnose: bool) -> None:
        tnb.compare(*dumps.pop(), diagnose=diagnose, progress=False)

    # A dump of its own for each: what one comparison has opened must not help the next.
    dumps = [(tnb.open_dump(left), tnb.open_dump(right)) for _ in range(2 * ROUNDS)]
    ways = {
        DEFAULT: lambda: compare(True),
        PLAIN: lambda: compare(False),
        BY_HAND: lambda: plain_numpy(npy_pairs(left, right)),
        OLD: lambda: troubleshooter(npy_pairs(left, right)),
        FLOOR: lambda: only_read(left, right),
    }
    rounds = dict.fromkeys(ways, ROUNDS) | {BY_HAND: ROUNDS_BY_HAND, OLD: ROUNDS_BY_HAND}
    cpu = fewest_cpu(alternating(ways, rounds))
    above = (cpu[DEFAULT] - cpu[FLOOR]) / files * 1e6
    bar = Bar("a pair by default, above reading it", above, most=COMPARE_BAR, unit="us")
    return Case(f"compare {files:,} x npy of {LENGTH} floats, opened", cpu, (bar,))


def main() -> int:
    """Print the table; 0 when the bars are met."""
    files = QUICK_FILES if "--quick" in sys.argv[1:] else FILES
    with tempfile.TemporaryDirectory() as folder:
        left, right = Path(folder, "left"), Path(folder, "right")
        write(left, right, files)
        only_read(left, right)  # fills the page cache
        return concluded([opening(left, files), comparing(left, right, files)])


if __name__ == "__main__":
    sys.exit(main())
