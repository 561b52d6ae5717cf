"""What a call costs: CPU seconds, seconds on the clock, and memory."""

from __future__ import annotations

import gc
import statistics
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

SAMPLE_SECONDS = 0.01


class Cost(NamedTuple):
    """Of one call: CPU seconds of all its threads, seconds on the clock, memory in MiB.

    `peak` is the most anonymous memory of the process seen meanwhile, `added` the part of it that
    was not there before.
    """

    cpu: float
    seconds: float
    peak: float
    added: float


def anonymous_mib() -> float:
    """Memory of this process that no file backs."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return float("nan")


def timed(work: Callable[[], object]) -> Cost:
    """Run a call and say what it took."""
    done = threading.Event()
    samples = [anonymous_mib()]

    def sample() -> None:
        while not done.wait(SAMPLE_SECONDS):
            samples.append(anonymous_mib())

    thread = threading.Thread(target=sample)
    thread.start()
    start, cpu = time.perf_counter(), time.process_time()
    try:
        work()
    finally:
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        done.set()
        thread.join()
    return Cost(cpu, seconds, max(samples), max(samples) - samples[0])


def alternating(
    ways: Mapping[str, Callable[[], object]], rounds: int | Mapping[str, int]
) -> dict[str, list[Cost]]:
    """Costs of each way, which take turns, so that a slow moment of the machine meets all.

    Parameters
    ----------
    ways : dict of str to callable
    rounds : int or dict of str to int
        How often each way has its turn; those in short supply come first.
    """
    wanted = {way: rounds if isinstance(rounds, int) else rounds[way] for way in ways}
    costs: dict[str, list[Cost]] = {way: [] for way in ways}
    for number in range(max(wanted.values())):
        for way, work in ways.items():
            if number < wanted[way]:
                gc.collect()  # what the way before has left is not this one's
                costs[way].append(timed(work))
    return costs


def fewest_cpu(costs: Mapping[str, list[Cost]]) -> dict[str, float]:
    """CPU seconds of each way in its best round: other work on the machine only ever adds."""
    return {way: min(cost.cpu for cost in taken) for way, taken in costs.items()}


def middle_seconds(costs: Mapping[str, list[Cost]]) -> dict[str, float]:
    """Seconds on the clock of each way, median over its rounds."""
    return {way: statistics.median(cost.seconds for cost in of) for way, of in costs.items()}
