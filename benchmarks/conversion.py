"""How long a `.pth` takes to become a `.ckpt` and back, next to both frameworks by hand.

A checkpoint of 200 float32 tensors and 400 MB, from the page cache. Every call runs in a process of
its own, whose imports are not counted; ways alternate, medians over rounds are compared, and the
memory a call adds to the imports is sampled while it runs. Ours reads back what it wrote and
compares it with the source; by hand nothing is proved. The same with the rows of every tensor in
another order: blocks, halves of heads, and any order. Exits 1 when a bar is missed. ``--quick``
takes 40 MB.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from measuring import Cost, fewest_cpu, middle_seconds, timed
from measuring.bars import BY_HAND, DEFAULT, Bar, Case, concluded

import troubleshooter_nb as tnb

TENSORS, LENGTH, QUICK_LENGTH = 200, 500_000, 50_000
ROUNDS, QUICK_ROUNDS = 3, 1
TIME_BAR = 1.0  # time of ours over that of both frameworks, at most
MEMORY_BAR = 1 / 3  # of the size of the file, at most
# The same with rows in another order: twice the 0.6 that it took without when the bar was set, so
# that a faster plain conversion, 0.4 since, is no reason to miss it.
ORDER_BAR = 1.2
ORDERED = "in another order"


def write(path: Path, length: int) -> None:
    """One checkpoint, tensor by tensor."""
    random = np.random.default_rng(0)
    names = (f"layers.{i}.weight" for i in range(TENSORS))
    arrays = {n: random.standard_normal(length, np.float32).reshape(-1, 100) for n in names}
    tnb.save_dump(arrays, path)


def ours(source: Path, destination: Path) -> Callable[[], None]:
    """Convert by a map that is there, and prove."""
    return proved(source, destination, drafted(source, destination))


def drafted(source: Path, destination: Path) -> tnb.WeightMap:
    """The map for the framework that loads such files."""
    return tnb.draft_weight_map(source, "mindspore" if destination.suffix == ".ckpt" else "torch")


def proved(source: Path, destination: Path, weight_map: tnb.WeightMap) -> Callable[[], None]:
    """A conversion by a map that is there."""

    def work() -> None:
        proof = tnb.convert_weights(source, destination, weight_map, progress=False)
        if not proof.passed:
            msg = f"{destination.name} is not {source.name}"
            raise AssertionError(msg)

    return work


def ours_ordered(source: Path, destination: Path) -> Callable[[], None]:
    """The same with every tensor's rows in another order."""
    weight_map = drafted(source, destination)
    rows = next(iter(weight_map.source.values())).shape[0]
    order = np.random.default_rng(0).permutation(rows)
    orders = (
        "blocks(0, 0, 2, 1, 3)",
        f"reshape(-1, 2, 25, 100) | permute(0, 2, 1, 3) | reshape({rows}, 100)",
        f"take(0, {', '.join(map(str, order))})",
        f"take(0, {rows // 2}:{rows}, 0:{rows // 2})",
    )
    for number in range(len(weight_map)):
        weight_map = weight_map.transform(number, orders[number % len(orders)])
    return proved(source, destination, weight_map)


def both_frameworks(source: Path, destination: Path) -> Callable[[], None]:
    """What one has to write without us, once both frameworks are imported and have been used."""
    import mindspore
    import torch

    torch.zeros(1) + 1
    mindspore.Parameter(mindspore.Tensor(np.zeros(1, np.float32)), name="a").asnumpy()
    return lambda: by_hand(source, destination)


def by_hand(source: Path, destination: Path) -> None:
    """Load with one framework and save with the other; nothing is proved."""
    import mindspore
    import torch

    if destination.suffix == ".ckpt":
        state = torch.load(source, map_location="cpu", weights_only=True)
        parameters = [
            {"name": name, "data": mindspore.Parameter(mindspore.Tensor(tensor.numpy()), name=name)}
            for name, tensor in state.items()
        ]
        mindspore.save_checkpoint(parameters, str(destination))
    else:
        loaded = mindspore.load_checkpoint(str(source))
        torch.save({n: torch.from_numpy(p.asnumpy()) for n, p in loaded.items()}, destination)


WAYS = {DEFAULT: ours, ORDERED: ours_ordered, BY_HAND: both_frameworks}


def one(way: str, source: Path, destination: Path) -> None:
    """Run one way in this process and print what it took as json."""
    print(json.dumps(timed(WAYS[way](source, destination))))


def measure(way: str, source: Path, destination: Path) -> Cost:
    """What one way takes, in a fresh process."""
    destination.unlink(missing_ok=True)
    command = [sys.executable, __file__, "--one", way, str(source), str(destination)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return Cost(*json.loads(done.stdout.splitlines()[-1]))


def converted(source: Path, made: Path, rounds: int) -> Case:
    """Both ways of one direction."""
    costs: dict[str, list[Cost]] = {way: [] for way in WAYS}
    for number in range(rounds + 1):
        for way in WAYS:
            cost = measure(way, source, made)
            if number:  # the first fills caches
                costs[way].append(cost)
    seconds, size = middle_seconds(costs), source.stat().st_size / 2**20
    share = max(cost.added for cost in costs[DEFAULT]) / size
    bars = (
        Bar("seconds over those of both frameworks", seconds[DEFAULT] / seconds[BY_HAND], TIME_BAR),
        Bar("memory over the size of the file", share, MEMORY_BAR),
        Bar("with rows in another order", seconds[ORDERED] / seconds[BY_HAND], ORDER_BAR),
        Bar("that over seconds without", seconds[ORDERED] / seconds[DEFAULT]),
        Bar("memory then", max(cost.added for cost in costs[ORDERED]) / size, MEMORY_BAR),
    )
    name = f"convert {size:.0f} MiB {source.suffix} to {made.suffix}; by hand: both frameworks"
    shown = {way: cost for way, cost in fewest_cpu(costs).items() if way != ORDERED}
    return Case(name, shown, bars)


def main() -> int:
    """Print the figures; 0 when the bars are met."""
    os.environ.setdefault("GLOG_v", "4")
    if "--one" in sys.argv:
        way, source, destination = sys.argv[2:]
        one(way, Path(source), Path(destination))
        return 0
    quick = "--quick" in sys.argv
    with tempfile.TemporaryDirectory() as folder:
        pth, ckpt = Path(folder) / "given.pth", Path(folder) / "given.ckpt"
        for path in (pth, ckpt):
            write(path, QUICK_LENGTH if quick else LENGTH)
        return concluded(
            [
                converted(source, Path(folder) / f"made{suffix}", QUICK_ROUNDS if quick else ROUNDS)
                for source, suffix in ((pth, ".ckpt"), (ckpt, ".pth"))
            ]
        )


if __name__ == "__main__":
    sys.exit(main())
