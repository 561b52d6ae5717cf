"""Small networks judged as large ones are: thresholds forced down, so that samples have to do."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from troubleshooter_nb import thresholds

# Elements that stand for the largest tensor that is read whole: half of what the networks here
# record is larger.
BASE = 1 << 10
# What decides whether a tensor or call is read in part, and how much of it, as multiples of the
# base. A constant of `thresholds` that says the like belongs here; those that bound how much is
# tried or looked at of a sample do not.
FORCED: Mapping[str, float] = {
    "LARGEST_READ": 1.0,  # larger operands are not read whole
    "PART_ELEMENTS": 0.5,  # what is read of them instead
    "LARGEST_HELD": 1.0,  # larger tensors are gone through in blocks
    "LARGE_BLOCK": 0.5,  # of so many elements
    "LARGE_SAMPLE": 1.0,  # and recognised by so many
    "LARGE_RUN": 0.125,  # in runs of so many
    "SCREENED_FROM": 0.5,  # larger pairs are judged from a sample
    "SCREEN_SAMPLE": 0.5,  # what the sample has
    "SCREEN_RUN": 0.125,  # and one run of it
    "THINNED_FROM": 0.5,  # larger calls are computed again in some rows
    "LAYER_SAMPLE": 0.5,  # what these rows have
    "ROWS_IN_A_RUN": 2 / BASE,  # and how many lie side by side: two
    "TENSOR_SAMPLE": 1.0,  # what is looked at of tensors that are larger
    "DENSE_COLUMNS": 16 / BASE,  # columns of a dense layer whose weight is larger
    "LOOKED_UP_IDS": 24 / BASE,  # ids of an embedding whose table is larger
}


@contextmanager
def forced(base: int = BASE) -> Iterator[Mapping[str, int]]:
    """Thresholds as if tensors of so many elements were the largest that may be read whole.

    Parameters
    ----------
    base : int

    Yields
    ------
    mapping of str to int
        What each of `FORCED` is meanwhile.
    """
    own = {name: getattr(thresholds, name) for name in FORCED}
    small = {name: max(round(times * base), 1) for name, times in FORCED.items()}
    _put(small, own)
    try:
        yield small
    finally:
        _put(own, small)


def _put(new: Mapping[str, int], old: Mapping[str, int]) -> None:
    """Set them in `thresholds`, from which modules still to come copy them, and in all that did."""
    loaded = [m for name, m in [*sys.modules.items()] if name.startswith("troubleshooter_nb")]
    for module in loaded:
        held = vars(module)
        for name, value in new.items():
            if held.get(name) == old[name]:
                setattr(module, name, value)
