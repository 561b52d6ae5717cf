"""Time and memory of one call."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

SAMPLE_SECONDS = 0.01


def anonymous_mib() -> float:
    """Memory of this process that no file backs."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return float("nan")


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Seconds a call takes and the most anonymous memory in MiB seen meanwhile."""
    done = threading.Event()
    samples = [anonymous_mib()]

    def sample() -> None:
        while not done.wait(SAMPLE_SECONDS):
            samples.append(anonymous_mib())

    thread = threading.Thread(target=sample)
    thread.start()
    start = time.perf_counter()
    try:
        work()
    finally:
        seconds = time.perf_counter() - start
        done.set()
        thread.join()
    return seconds, max(samples)
