"""What the diagnosis adds to a comparison in which nothing differs, and one where much does.

Exits 1 when the bar is missed, which stands where nothing differs. ``--quick`` takes a tenth.
"""

from __future__ import annotations

import math
import statistics
import sys

import numpy as np
from measuring import alternating, fewest_cpu
from measuring.bars import DEFAULT, PLAIN, Bar, Case, concluded

import troubleshooter_nb as tnb
from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.naming import Site

_LAYERS, _QUICK_LAYERS, _WIDTH, _ROWS = 100, 10, 256, 512
_ROUNDS = 5
_BAR = 2.0


def run(layers: int, *, seed: int, rounding: bool, fault_at: int = -1) -> Dump:
    """A chain of dense layers with inputs, outputs and parameters, as a module hook records it."""
    random = np.random.default_rng(0)
    noise = np.random.default_rng(seed)
    entries: list[Entry] = []

    def add(layer: int, role: str, slot: str, values: np.ndarray) -> None:
        path = f"layers.{layer}.fc"
        name = f"Module.{path}.Linear.forward.0.{role}.{slot}"
        site = Site("module", path, 0, "forward", role, slot)
        entries.append(Entry(name, site, ArrayInMemory(values), order=len(entries), layer="Linear"))

    x = random.standard_normal((_ROWS, _WIDTH)).astype(np.float32)
    for layer in range(layers):
        weight = random.standard_normal((_WIDTH, _WIDTH)).astype(np.float32) / np.sqrt(_WIDTH)
        add(layer, "input", "0", x)
        add(layer, "parameter", "weight", weight)
        x = (x @ weight.T).astype(np.float32)
        if layer == fault_at:
            x[:, 7] *= 1.5
        if rounding:
            x = (x * (1 + 2.0**-25 * noise.standard_normal(x.shape))).astype(np.float32)
        add(layer, "output", "0", x)
    return Dump.from_entries(entries)


def cost(name: str, left: Dump, right: Dump, *, counts: bool) -> Case:
    """Of one comparison, with diagnosis and without."""
    ways = {
        DEFAULT: lambda: tnb.compare(left, right, progress=False),
        PLAIN: lambda: tnb.compare(left, right, diagnose=False, progress=False),
    }
    costs = alternating(ways, _ROUNDS)
    # Rounds are paired: what slows the machine slows both ways of a round.
    ratio = statistics.median(
        ours.cpu / plain.cpu for ours, plain in zip(costs[DEFAULT], costs[PLAIN], strict=True)
    )
    bar = Bar("default over diagnose=False", ratio, most=_BAR if counts else math.inf)
    return Case(f"compare {name}", fewest_cpu(costs), (bar,))


def main() -> int:
    """Print the ratios; 1 if the bar is missed."""
    layers = _QUICK_LAYERS if "--quick" in sys.argv[1:] else _LAYERS
    reference = run(layers, seed=1, rounding=False)
    cases = {
        f"{layers} dense layers, bit-equal": (run(layers, seed=2, rounding=False), True),
        f"{layers} dense layers, rounding only": (run(layers, seed=2, rounding=True), True),
        f"{layers} dense layers, half of them wrong": (
            run(layers, seed=2, rounding=True, fault_at=layers // 2),
            False,
        ),
    }
    return concluded(
        [cost(name, left, reference, counts=counts) for name, (left, counts) in cases.items()]
    )


if __name__ == "__main__":
    sys.exit(main())
