"""What a large dump of many ranks takes to open, pair and compare: time per entry, and memory.

Two statistics dumps in msprobe's form, 8 ranks, with 5,000 and with 50,000 entries on each side;
the right one's values are noisy. Each size runs in fresh processes, whose peak memory is that of
everything, the imports included. Exits 1 when a bar is missed. ``--quick`` takes a tenth.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from measuring.bars import Bar, Case, concluded

RANKS = 8
SIZES = (5_000, 50_000)
LEAVES = 5  # of each call: two inputs, weight, bias, output
ROUNDS = 3
GROWTH_BAR = 1.5  # time per entry of the large dump over that of the small one, at most
MEMORY_BAR = 1024.0  # MiB, at most

_RUN = """
import resource, sys, time
import troubleshooter_nb as tnb
start = time.process_time()
left, right = (tnb.open_dump(path) for path in sys.argv[1:])
opened = time.process_time()
pairing = tnb.pair_dumps(left, right)
paired = time.process_time()
result = tnb.compare(left, right, pairing=pairing, progress=False)
done = time.process_time()
assert pairing.matched == len(left) == len(right), (pairing.matched, len(left))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(len(left), opened - start, paired - opened, done - paired, peak)
"""


def leaf(rng: np.random.Generator, shape: list[int], noise: float) -> dict[str, object]:
    """A tensor as msprobe describes it."""
    largest, smallest, mean = rng.normal(size=3)
    return {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": shape,
        "Max": 3.0 + largest * 0.1 + noise,
        "Min": -3.0 + smallest * 0.1 + noise,
        "Mean": mean * 0.01 + noise,
        "Norm": 40.0 + noise,
        "requires_grad": True,
    }


def write(root: Path, entries: int, noise: float) -> None:
    """One dump: linear layers of transformer blocks, forward, on every rank."""
    for rank in range(RANKS):
        folder = root / "step0" / f"rank{rank}"
        folder.mkdir(parents=True)
        rng = np.random.default_rng(rank)
        data = {}
        for i in range(entries // RANKS // LEAVES):
            name = f"Module.layers.{i // 6}.{'qkvoud'[i % 6]}.Linear.forward.0"
            data[name] = {
                "input_args": [leaf(rng, [4, 64], noise), leaf(rng, [4, 64], 0.0)],
                "input_kwargs": {},
                "parameters": {
                    "weight": leaf(rng, [64, 64], 0.0),
                    "bias": leaf(rng, [64], 0.0),
                },
                "output": [leaf(rng, [4, 64], noise)],
            }
        dump = {"task": "statistics", "level": "L0", "framework": "pytorch"}
        dump |= {"dump_data_dir": None, "data": data}
        (folder / "dump.json").write_text(json.dumps(dump, indent=1))


def measure(left: Path, right: Path) -> tuple[float, ...]:
    """Entries, seconds to open, pair and compare, and peak memory in MiB."""
    command = [sys.executable, "-c", _RUN, str(left), str(right)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return tuple(float(figure) for figure in done.stdout.split())


def main() -> int:
    """Print the figures; 0 when the bars are met."""
    share = 10 if "--quick" in sys.argv else 1
    per_entry, peak = {}, 0.0
    with tempfile.TemporaryDirectory() as folder:
        places = {}
        for size in SIZES:
            places[size] = Path(folder) / f"left{size}", Path(folder) / f"right{size}"
            for place, noise in zip(places[size], (1e-2, 0.0), strict=True):
                write(place, size // share, noise)
        rounds = {size: [] for size in SIZES}
        for _ in range(ROUNDS):
            for size in SIZES:
                rounds[size].append(measure(*places[size]))
        for size in SIZES:
            entries, *seconds, memory = (
                statistics.median(f) for f in zip(*rounds[size], strict=True)
            )
            per_entry[size], peak = sum(seconds) / entries, max(peak, memory)
            parts = ", ".join(
                f"{what} {s:.2f} s"
                for what, s in zip(("open", "pair", "compare"), seconds, strict=True)
            )
            print(f"{entries:7,.0f} entries a side: {parts}; {per_entry[size] * 1e6:.0f} us each")
    growth = per_entry[SIZES[1]] / per_entry[SIZES[0]]
    few, many = (f"{size // share:,}" for size in SIZES)
    bars = (
        Bar(f"time per entry, over that of {few}", growth, most=GROWTH_BAR),
        Bar("peak memory", peak, most=MEMORY_BAR, unit="MiB"),
    )
    return concluded([Case(f"open, pair, compare {many} statistics a side", bars=bars)])


if __name__ == "__main__":
    sys.exit(main())
