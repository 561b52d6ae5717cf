"""Python's collector of reference cycles, and work that it only disturbs."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Run without the collector, which is on again afterwards if it was.

    Opening, pairing and importing make a million objects and no cycles worth mentioning. The
    collector looks through all of them again and again for nothing, which takes half of the time
    for a large dump, a quarter of that of an import, and more per object the more there are; in a
    kernel it looks through all else that was imported as well.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
