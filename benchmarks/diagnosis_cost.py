"""What the diagnosis adds to a comparison in which nothing differs, and one where much does."""

from __future__ import annotations

import statistics
import sys
import time

import numpy as np

import troubleshooter_nb as tnb
from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.naming import Site

_LAYERS, _WIDTH, _ROWS = 100, 256, 512
_REPEATS = 5
_BAR = 2.0


def run(*, seed: int, rounding: bool, fault_at: int = -1) -> Dump:
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
    for layer in range(_LAYERS):
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


def seconds(left: Dump, right: Dump, *, diagnose: bool) -> float:
    """Of one comparison."""
    start = time.perf_counter()
    tnb.compare(left, right, diagnose=diagnose, progress=False)
    return time.perf_counter() - start


def main() -> int:
    """Print the ratios; 1 if the bar is missed."""
    reference = run(seed=1, rounding=False)
    cases = {
        "bit-equal": (run(seed=2, rounding=False), True),
        "rounding only": (run(seed=2, rounding=True), True),
        "a fault at layer 50": (run(seed=2, rounding=True, fault_at=50), False),
    }
    missed = False
    for name, (left, counts) in cases.items():
        ratios = []
        for _ in range(_REPEATS):
            plain = seconds(left, reference, diagnose=False)
            ratios.append(seconds(left, reference, diagnose=True) / plain)
        ratio = statistics.median(ratios)
        bar = f", at most {_BAR}" if counts else ""
        print(f"{name:22} {ratio:5.2f} times the comparison without diagnosis{bar}")
        missed |= counts and ratio > _BAR
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
