"""Every case is put twice: as small tensors, and as tensors too large to be read whole."""

from __future__ import annotations

import math
import sys

import pytest

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.case import TensorPair

LIMITS = {"LARGEST_READ": 3, "LARGE_BLOCK": 512, "LARGE_RUN": 16, "SCREENED_FROM": 1 << 40}
# A distribution, or an image, is not told from a thousand values.
NEED_MANY = (
    "test_two_draws_are_told_by_their_distributions",
    "test_default_initialisers_of_both_frameworks",
    "test_another_resize_of_one_image_is_a_low_suspicion",
)


def in_parts(monkeypatch: pytest.MonkeyPatch, sample: int = 1 << 18) -> None:
    """Make every tensor too large: blocks of 512 elements, and a sample of so many."""
    for name, value in (LIMITS | {"LARGE_SAMPLE": sample}).items():
        monkeypatch.setattr(thresholds, name, value)
    whole = TensorPair._values

    def values(self: TensorPair, side: int):
        source, asks = self.sources[side], sys._getframe(2).f_globals["__name__"]
        size = math.prod(source.shape) if source is not None else 0
        if source is None or size <= thresholds.LARGEST_READ:
            return whole(self, side)
        if asks.startswith("troubleshooter_nb"):
            pytest.fail("a large tensor was read whole")
        return source.read(0, size).reshape(source.shape)

    monkeypatch.setattr(TensorPair, "_values", values)


@pytest.fixture(autouse=True, params=["whole", "in parts", "sampled"])
def manner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How tensors are read: whole, or as large ones are."""
    if request.param == "in parts":
        in_parts(monkeypatch)
    if request.param == "sampled":
        test = request.node.originalname
        in_parts(monkeypatch, 1 << 15 if test in NEED_MANY else 1024)
    return request.param
