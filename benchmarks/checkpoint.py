"""How long `.ckpt` files take, next to MindSpore and to just reading them.

Two checkpoints of 200 float32 tensors and 400 MB each, from the page cache. The ways alternate in
one process; medians over rounds are compared, and the memory each adds is sampled while it runs.
Exits 1 when a bar is missed. ``--quick`` takes 40 MB.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
from measuring import alternating, fewest_cpu, middle_seconds
from measuring.bars import BY_HAND, DEFAULT, FLOOR, PLAIN, Bar, Case, concluded

import troubleshooter_nb as tnb

TENSORS, LENGTH, QUICK_LENGTH = 200, 500_000, 50_000
ROUNDS = 5
STRUCTURE_BAR = 50.0  # mindspore.load_checkpoint's time over ours, at least
STRUCTURE_MEMORY_BAR = 64.0  # MiB of anonymous memory over the imports, at most
DIFF_BAR = 0.4  # time of just reading both files over that of the diff without causes, at least


def write(path: Path, length: int, noise: float) -> None:
    """One checkpoint, tensor by tensor."""
    random = np.random.default_rng(0)
    arrays = {}
    for i in range(TENSORS):
        values = random.standard_normal(length, np.float32)
        values += np.float32(noise) * random.standard_normal(length, np.float32)
        arrays[f"layers.{i}.weight"] = values.reshape(-1, 100)
    tnb.save_dump(arrays, path)


def structure(path: Path) -> None:
    """Names, shapes and dtypes of a checkpoint."""
    assert len(tnb.open_dump(path)) == TENSORS


def load(path: Path) -> None:
    """What one has to do with MindSpore to see the same."""
    import mindspore

    assert len(mindspore.load_checkpoint(str(path))) == TENSORS


def read_both(left: Path, right: Path) -> None:
    """Every tensor of both files as a numpy array, one after the other."""
    for path in (left, right):
        dump = tnb.open_dump(path)
        for source in dump.sources:
            source.read(0, math.prod(source.shape))


def diff(left: Path, right: Path, *, diagnose: bool = True) -> None:
    """Every figure and verdict, grouped; and the causes."""
    tnb.diff_checkpoints(left, right, diagnose=diagnose, progress=False)


def main() -> int:
    """Print the figures; 0 when the bars are met."""
    os.environ.setdefault("GLOG_v", "4")
    length = QUICK_LENGTH if "--quick" in sys.argv else LENGTH
    with tempfile.TemporaryDirectory() as folder:
        left, right = Path(folder) / "left.ckpt", Path(folder) / "right.ckpt"
        write(left, length, 1e-3)
        write(right, length, 0.0)
        ways = {
            "structure": lambda: structure(left),
            "mindspore.load_checkpoint": lambda: load(left),
            "read both": lambda: read_both(left, right),
            "diff": lambda: diff(left, right),
            "diff without causes": lambda: diff(left, right, diagnose=False),
        }
        for work in ways.values():
            work()
        costs = alternating(ways, ROUNDS)
    seconds, cpu = middle_seconds(costs), fewest_cpu(costs)
    memory = max(cost.added for cost in costs["structure"])
    faster = seconds["mindspore.load_checkpoint"] / seconds["structure"]
    rate = seconds["read both"] / seconds["diff without causes"]
    megabytes = TENSORS * length * 4 // 10**6
    return concluded(
        [
            Case(
                f"open {megabytes} MB ckpt; by hand: load_checkpoint",
                {DEFAULT: cpu["structure"], BY_HAND: cpu["mindspore.load_checkpoint"]},
                (
                    Bar("seconds of MindSpore over ours", faster, least=STRUCTURE_BAR),
                    Bar("memory", memory, most=STRUCTURE_MEMORY_BAR, unit="MiB"),
                ),
            ),
            Case(
                f"diff two {megabytes} MB ckpt; floor: reading each tensor",
                {
                    DEFAULT: cpu["diff"],
                    PLAIN: cpu["diff without causes"],
                    FLOOR: cpu["read both"],
                },
                (Bar("seconds of reading both over ours", rate, least=DIFF_BAR),),
            ),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
