"""Whether two runs can be compared: what is equal, what only rounds, and what is named."""

from __future__ import annotations

import numpy as np
import pytest

import troubleshooter_nb as tnb


def check_of(what, left, right):
    found = tnb.compare(left, right).preflight
    return next((check for check in found if check.what == what), None)


def weights(count, dtype="float32"):
    rng = np.random.default_rng(0)
    return {f"fc{n}.weight": rng.standard_normal(64).astype(dtype) for n in range(count)}


def test_equal_parameters_are_counted():
    check = check_of("parameters", weights(5), weights(5))
    assert (check.status, check.values["count"], check.values["equal"]) == ("ok", 5, 5)


def test_parameters_that_differ_are_counted_and_the_first_are_named():
    right = weights(6)
    left = right | {name: right[name] * 2 for name in list(right)[1:]}
    check = check_of("parameters", left, right)
    assert (check.status, check.values["count"], check.values["equal"]) == ("bad", 6, 1)
    assert str(check.values["names"]) == "fc1.weight, fc2.weight, fc3.weight, … (5)"


# float64 as well: a save through float32 is what was asked of the coarser of both.
@pytest.mark.parametrize(("fine", "coarse"), [("float32", "float16"), ("float64", "float32")])
def test_a_save_in_the_coarser_dtype_is_a_note(fine, coarse):
    right = weights(3, fine)
    left = {name: values.astype(coarse) for name, values in right.items()}
    check = check_of("parameters", left, right)
    assert (check.status, check.values["count"], check.values["equal"]) == ("note", 3, 0)


def test_a_saved_parameter_counts_as_equal_beside_one_that_differs():
    right = weights(3)
    left = {name: values.astype("float16") for name, values in right.items()}
    left["fc1.weight"] = right["fc1.weight"] * 2
    check = check_of("parameters", left, right)
    assert (check.status, check.values["equal"]) == ("bad", 2)
    assert str(check.values["names"]) == "fc1.weight"


def test_parameters_of_later_steps_are_no_conditions(tmp_path):
    for side, factor in (("left", 2), ("right", 1)):
        for step in (0, 1):
            arrays = {name: one * factor**step for name, one in weights(2).items()}
            tnb.save_dump(arrays, tmp_path / side / f"step{step}")
    check = check_of("parameters", tmp_path / "left", tmp_path / "right")
    assert (check.status, check.values["count"]) == ("ok", 2)
