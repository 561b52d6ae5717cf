"""What is longer than float64 is compared as float64, and nothing is called equal that is not."""

from __future__ import annotations

import numpy as np
import pytest

import troubleshooter_nb as tnb

pytestmark = pytest.mark.filterwarnings("error")
ONE = np.longdouble(1)
CASES = {
    # left, right, verdict, max |d|
    "one bit beyond float64": ([1.5, 2], [1.5, 2 * (ONE + ONE / 2**60)], "pass", 0.0),
    "a difference of float64": ([1.5, 2], [1.5, 2.5], "differs", 0.5),
    "finite, beyond float64": ([ONE * 1e300 * 1e300, 1], [ONE * 2e300 * 1e300, 1], "nan", 0.0),
    "the same, beyond float64": (
        [ONE * 1e300 * 1e300, 1],
        [ONE * 1e300 * 1e300, 1],
        "identical",
        0.0,
    ),
    "NaN on one side": ([np.nan, 1], [1, 1], "nan", 0.0),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("order", ["=", "S"])
def test_long_doubles(case, order):
    left, right, verdict, largest = CASES[case]
    dtype = np.dtype(np.longdouble).newbyteorder(order)
    sides = ({"a": np.array(side, dtype)} for side in (left, right))
    row = tnb.compare(*sides, progress=False).result.isel(pair=0)
    assert row["verdict"].item() == verdict
    assert row["max_abs_error"].item() == largest


def test_the_distance_of_two_extremes_is_beyond_float64_and_the_mean_is_not():
    row = tnb.compare({"a": [1e308, 1.0, 2.0]}, {"a": [-1e308, -1.0, -2.0]}, progress=False)
    row = row.result.isel(pair=0)
    assert row["max_abs_error"].item() == np.inf
    assert row["rel_l2_error"].item() == 2.0
    assert row["cosine"].item() == -1.0
    assert row["mean_abs_error"].item() == pytest.approx(1e308 / 3 * 2)
