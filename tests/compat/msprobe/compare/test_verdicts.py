"""The verdicts of both kinds, by hand."""

import pytest

from troubleshooter_nb.compat.msprobe.compare.advice import advice_text
from troubleshooter_nb.compat.msprobe.compare.differences import difference_cells
from troubleshooter_nb.compat.msprobe.compare.values import Value
from troubleshooter_nb.compat.msprobe.compare.verdicts import tensor_verdict

NAN, INF = float("nan"), float("inf")


def value(*figures):
    return Value("x", "x", None, "output", "0", "torch.float32", "[4]", figures, is_tensor=True)


@pytest.mark.parametrize(
    ("cosine", "largest", "verdict"),
    [
        (0.995, 0.217, "Yes"),
        (0.98, 4.5e-05, "Yes"),
        (0.98, 0.45, "No"),
        (0.89, 1.1e-04, "No"),
        (0.9999, 1.5, "No"),
        ("Nan", 4.0, "No"),
        ("Nan", 0.5, "Yes"),
        ("N/A", "N/A", "No"),
        ("unsupported", 0.5, "None"),
        ("shape unmatched", "shape unmatched", "Unmatched"),
    ],
)
def test_the_classic_verdict_of_two_tensors(cosine, largest, verdict):
    """Case 29."""
    assert tensor_verdict(cosine, largest) == verdict


@pytest.mark.parametrize(
    ("target", "golden", "is_classic", "first", "share"),
    [
        (3.0, 2.0, False, 1.0, "50.0%"),
        (2.0, 2.0, False, 0, 0),
        (INF, INF, False, 0, 0),
        (NAN, NAN, False, 0, 0),
        (NAN, 1.0, False, "Nan", "Nan"),
        (1.0, 0, False, 1.0, "inf"),
        (INF, 1.0, False, INF, "inf"),
        (True, False, False, "Diff", "Diff"),
        (None, None, False, 0, 0),
        (3.0, 2.0, True, 1.0, "50.0%"),
        (2.0, 2.0, True, 0.0, "0.0%"),
        (1.0, 0, True, 1.0, "N/A"),
        (True, False, True, "N/A", "N/A"),
        (INF, INF, True, "Nan", "Nan"),
    ],
)
def test_a_difference_and_its_percentage(target, golden, is_classic, first, share):
    sides = value(target, 0, 0, 0), value(golden, 0, 0, 0)
    cells = difference_cells(*sides, is_classic=is_classic)
    assert (cells[0], cells[4]) == (first, share)


def test_a_missing_side_has_no_differences():
    assert difference_cells(value(1, 2, 3, 4), None, is_classic=True) == ["N/A"] * 8


def test_mindspore_divides_by_a_golden_zero_in_the_old_tables():
    zeros, ones = value(0, 0, 0, 0), value(1, 1, 1, 1)
    assert difference_cells(zeros, zeros, is_classic=True, is_torch=False)[4] == "Nan"
    assert difference_cells(ones, zeros, is_classic=True, is_torch=False)[4] == "inf"


@pytest.mark.parametrize(
    ("kind", "id"),
    [
        (("linear", "forward", True), "advice_forward_input"),
        (("linear", "forward", False), "advice_forward_output"),
        (("linear", "backward", True), "advice_backward_input"),
        (("linear", "backward", False), "advice_backward_output"),
        (("matmul", "forward", False), "advice_varying"),
        (("conv2d", "backward", True), "advice_varying"),
        (("matmul", "forward", True), "advice_forward_input"),
        (("batch_norm", "forward", True), "advice_norm"),
    ],
)
def test_advice_is_by_kind(kind, id):
    assert advice_text(*kind).id == f"msprobe_compare.{id}"
