"""The six figures, by hand: cases 17 to 27."""

import numpy as np
import pytest

from troubleshooter_nb.compat.msprobe.compare.metrics import measure
from troubleshooter_nb.dump import ArrayInMemory

NAN, INF = np.nan, np.inf


def figures(target, golden, *, squeezes=True, own_step=True, dtype=np.float32):
    sides = [ArrayInMemory(np.asarray(one, dtype)) for one in (target, golden)]
    return measure(*sides, squeezes=squeezes, own_step=own_step)


@pytest.mark.parametrize(
    ("target", "golden", "expected"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], (1, 0, 0, 0, 1, 1)),
        ([0, 0], [0, 0], (1, 0, 0, 0, 1, 1)),
        ([0, 0, 0, 0], [1, 2, 3, 4], ("Nan", 30**0.5, 4, 1, 0, 0)),
        ([1, 2, 3, 4], [0, 0, 0, 0], ("Nan", 30**0.5, 4, 4 * 2**23, 0, 0)),
        ([1, NAN, 3, 4], [1, NAN, 3, 5], (0.994490316198, 1, 1, 0.2, 0.75, 0.75)),
        ([1, NAN, 3, 4], [1, 2, NAN, 4], ("N/A",) * 6),
        ([1, INF, 3], [1, 2, 3], ("N/A",) * 6),
        ([1, INF, 3], [1, INF, 3], (1, 0, 0, 0, 1, 1)),
        ([1, INF, 3], [1, -INF, 3], ("N/A",) * 6),  # here they differ, in msprobe they do not
        ([], [], ("unsupported",) * 6),
        ([1, 2], [1, 2, 3], ("shape unmatched",) * 6),
        (
            3.5,
            3.0,
            ("unsupported", "unsupported", 0.5, 0.166666666667, "unsupported", "unsupported"),
        ),
        ([[1, 2]], [1, 2], (1, 0, 0, 0, 1, 1)),
        ([1e-20, 2e-20], [1e-20, 3e-20], (1, 1e-20, 0, 1 / 3, 0.5, 0.5)),
    ],
)
def test_figures_by_hand(target, golden, expected):
    found = figures(target, golden).cells
    for cell, wanted in zip(found, expected, strict=True):
        if isinstance(wanted, str):
            assert cell == wanted
        else:
            assert cell == pytest.approx(wanted, rel=1e-6)


def test_a_golden_zero_gets_the_step_of_its_dtype_or_that_of_float64():
    pair = [1, 0.001, 3, 0], [1, 0, 3, 0]
    assert figures(*pair).cells[3] == pytest.approx(0.001 / 2**-23, rel=1e-6)
    assert figures(*pair, own_step=False).cells[3] == pytest.approx(0.001 / 2**-52, rel=1e-6)
    assert figures(*pair, dtype=np.float16).cells[3] == pytest.approx(0.001 / 2**-10, rel=1e-3)


def test_one_element_is_a_vector_only_for_the_older_releases():
    assert figures([2.5], [2.0]).cells[:3] == ("unsupported", "unsupported", 0.5)
    old = figures([2.5], [2.0], squeezes=False).cells
    assert old == ("unsupported", 0.5, 0.5, 0.25, 0, 0)


def test_blocks_do_not_change_the_figures(monkeypatch):
    rng = np.random.default_rng(3)
    golden = rng.standard_normal(5000).astype(np.float32)
    target = golden * np.float32(1.002)
    target[4000], golden[4000] = NAN, NAN
    whole = figures(target, golden).cells
    monkeypatch.setattr("troubleshooter_nb.compat.msprobe.compare.metrics._BLOCK", 7)
    assert figures(target, golden).cells == pytest.approx(whole, rel=1e-9)


@pytest.mark.parametrize("dtype", [bool, np.int32, np.int64, np.uint8, np.complex64])
def test_other_dtypes_are_measured(dtype):
    target, golden = np.array([1, 0, 1, 1], dtype), np.array([1, 0, 0, 1], dtype)
    cells = measure(
        ArrayInMemory(target), ArrayInMemory(golden), squeezes=True, own_step=False
    ).cells
    assert cells[0] == pytest.approx(2 / 6**0.5, rel=1e-9)
    assert cells[2:] == pytest.approx((1, 2.0**52, 0.75, 0.75), rel=1e-6)
