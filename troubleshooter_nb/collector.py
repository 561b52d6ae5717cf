"""Python's collector of reference cycles, and work that it only disturbs."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Run without the collector, which is on again afterwards if it was.

    Opening and pairing make a million objects and no cycles worth mentioning. The collector looks
    through all of them again and again for nothing, which takes half of the time for a large dump,
    and more per entry the larger it is; in a kernel it looks through all else that was imported as
    well.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
