"""A process that compares the two sides of a case: what it finds, and what finding it costs.

``python -m at_size.measured LEFT RIGHT ROUNDS`` prints one line of json. A process of its own, so
that the memory of a case is not that of the cases before.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measuring.byhand import only_read, read_tensors

import troubleshooter_nb as tnb


def seen(comparison: Any) -> dict[str, Any]:
    """Place and findings of a comparison, plain values only."""
    first = comparison.first_divergence
    names = dict(
        zip(
            comparison.result["order"].values.tolist(),
            comparison.result["left"].values.tolist(),
            strict=True,
        )
    )
    return {
        "place": "" if first is None else str(first.row["left"].item()),
        "observed": [*comparison.observed],
        "findings": [
            {
                "cause": str(one.cause),
                "confidence": float(one.confidence),
                "row": str(names.get(int(one.pair), "")),
                "sampled": str(one.evidence.get("sampled", "")),
            }
            for one in comparison.findings
        ],
    }


def counters() -> tuple[int, int]:
    """Largest memory of this process so far in KiB, and bytes that it asked files for."""
    status, io = (Path(f"/proc/self/{name}").read_text() for name in ("status", "io"))
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    read = next(line for line in io.splitlines() if line.startswith("rchar:"))
    return int(peak.split()[1]), int(read.split()[1])


def spent(work: Callable[[], object]) -> tuple[float, float]:
    """CPU seconds of all threads, and seconds on the clock."""
    start, cpu = time.perf_counter(), time.process_time()
    work()
    return time.process_time() - cpu, time.perf_counter() - start


def warm() -> None:
    """Load what a diagnosis loads, by one small difference."""
    with tempfile.TemporaryDirectory() as folder:
        weight = np.random.default_rng(0).standard_normal((24, 16))
        for name, values in (("left", weight.T), ("right", weight)):
            Path(folder, name).mkdir()
            np.save(Path(folder, name, "fc.weight.npy"), values)
        tnb.compare(Path(folder, "left"), Path(folder, "right"), progress=False)


def measured(left: Path, right: Path, rounds: int) -> dict[str, Any]:
    """What is found, and what finding it costs beside comparing alone.

    Seconds are those of the best round: ``cpu`` and ``seconds`` of the diagnosis, ``plain_cpu`` of
    the comparison, ``reading_...`` of reading every tensor of both sides once. ``mib`` and
    ``bytes`` are memory and what was read, of the diagnosis as well.
    """
    found: list[Any] = []
    ways: dict[str, Callable[[], object]] = {
        "plain": lambda: tnb.compare(left, right, diagnose=False, progress=False),
        "default": lambda: found.append(tnb.compare(left, right, progress=False)),
        "reading": lambda: read_tensors(left, right),
    }
    warm()
    only_read(left, right)  # fills the page cache
    # The largest memory only ever grows, so that what the diagnosis adds is seen the first time.
    marks = [counters()]
    costs: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for way in ("plain", "default"):
        costs[way].append(spent(ways[way]))
        marks.append(counters())
    answer = seen(found.pop())
    for _ in range(rounds - 1):
        for way in ("plain", "default"):
            costs[way].append(spent(ways[way]))
        found.clear()
    costs["reading"] = [spent(ways["reading"]) for _ in range(3)]
    (_, start), (plain_peak, plain), (peak, end) = marks
    best = {way: [min(one[k] for one in of) for k in (0, 1)] for way, of in costs.items()}
    return {
        **answer,
        "cpu": best["default"][0] - best["plain"][0],
        "seconds": best["default"][1] - best["plain"][1],
        "plain_cpu": best["plain"][0],
        "reading_cpu": best["reading"][0],
        "reading_seconds": best["reading"][1],
        "mib": (peak - plain_peak) / 1024,
        "bytes": (end - plain) - (plain - start),
    }


def main() -> None:
    """Print the figures of one case."""
    left, right, rounds = sys.argv[1:]
    sys.stdout.flush()
    print(json.dumps(measured(Path(left), Path(right), int(rounds)), default=str), flush=True)
    os._exit(0)  # nothing is left to be done, and threads of libraries take their time


if __name__ == "__main__":
    main()
