"""The old tool's figures: every number as it printed it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from troubleshooter_nb.compat.troubleshooter.kernels import Figures, measure

DATA = Path(__file__).parents[2] / "data/compat/troubleshooter"
CASES = json.loads((DATA / "metric_cases.json").read_text())["metric_cases"]


def array_of(stored) -> np.ndarray | None:
    """The array of a stored case; its nan and inf are texts."""
    if stored is None:
        return None
    values = np.array(stored["data"], dtype=object)
    if stored["dtype"].startswith(("float", "complex")):
        values = values.astype(float)
    return values.astype(stored["dtype"]).reshape(stored["shape"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_row_is_printed_as_the_old_tool_printed_it(case):
    figures = measure(
        array_of(case["orig"]),
        array_of(case["target"]),
        rtol=case["rtol"],
        atol=case["atol"],
        equal_nan=case["equal_nan"],
    )
    assert figures.cells() == case["peer_printed"]


def test_all_38_cases_are_there():
    assert len(CASES) == 38


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (0.99999999, "0.99999"),  # truncated, where rounding gives 1
        (-0.000009, "0.00000"),
        (1e304, f"{1e304:.5f}"),  # times 10**5 it is inf: the old tool raised OverflowError
        (math.inf, "inf"),
    ],
)
def test_figures_are_truncated(value, printed):
    assert Figures(result=True, ratio=1.0, cosine=value).cells()[2] == printed


def test_a_complex_array_loses_its_imaginary_part():
    # The old tool calls these identical; our own engine does not (acceptance case 12).
    assert measure(np.array([1 + 1j]), np.array([1 + 2j])).result is True


def test_bfloat16_is_compared_in_float64():
    import ml_dtypes

    orig, target = (np.array(v, ml_dtypes.bfloat16) for v in ([1.0, 256.0], [1.0, 258.0]))
    assert measure(orig, target).cells() == ["False", "50.00%", "0.99999", "2.00000, 2.00000"]


def test_measuring_changes_no_error_state():
    before = np.geterr()
    measure(np.float16([6e4, 1]), np.float16([-6e4, 2]))
    assert np.geterr() == before


def test_the_verdict_is_a_plain_bool():
    assert measure(np.ones(2), np.array([1.0, 1.00001])).result is True
    assert measure(np.ones(2), np.zeros(2)).result is False
