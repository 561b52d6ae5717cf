"""What disks, networks and people do to files: each changes a bytearray in place."""

from __future__ import annotations

import time
import tracemalloc
import warnings
from contextlib import contextmanager

SLOWEST = 2.0  # seconds of processor time, for whatever a reader does with one damaged file
MOST_MEMORY = 200 * 1024**2  # bytes over the size of the file


@contextmanager
def bounded(size, what):
    """A file of `size` bytes, damaged, is done with in bounded time and memory, unwarned."""
    tracemalloc.start()
    started = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield
        took = time.process_time() - started
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert took < SLOWEST, what
    assert peak < size + MOST_MEMORY, (what, peak)


def flipped(data, rng):
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def truncated(data, rng):
    del data[rng.randrange(len(data)) :]


def inserted(data, rng):
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.randbytes(rng.randint(1, 40))


def deleted(data, rng):
    at = rng.randrange(len(data))
    del data[at : at + rng.randint(1, 40)]


def repeated(data, rng):
    at = rng.randrange(len(data))
    data[at:at] = bytes(data[at : at + rng.randint(1, 200)]) * rng.randint(1, 3)


def blanked(data, rng):
    at = rng.randrange(len(data))
    length = len(data[at : at + rng.randint(1, 16)])
    data[at : at + length] = bytes([rng.choice([0, 255])]) * length


def filled(data, rng):
    """0xFF over a few bytes, mostly near the ends, where lengths and places are."""
    near = min(len(data), 400)
    at = rng.choice([rng.randrange(near), len(data) - rng.randint(1, near)])
    count = min(rng.randint(1, 9), len(data) - at)
    data[at : at + count] = b"\xff" * count


ACCIDENTS = (flipped, truncated, inserted, deleted, repeated, blanked, filled)
