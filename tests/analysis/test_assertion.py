"""What a test is told where two runs are not the same."""

from __future__ import annotations

import numpy as np
import pytest

import troubleshooter_nb as tnb

VALUES = {"fc.weight": np.arange(12.0).reshape(3, 4), "fc.bias": np.ones(3)}


def test_equal_runs_pass_and_give_the_comparison():
    found = tnb.assert_same(VALUES, {**VALUES, "fc.bias": np.ones(3) + 1e-6})
    assert found.passed
    assert len(found.result["pair"]) == 2


def test_a_difference_is_an_assertion_error_with_verdict_place_and_rows():
    other = {**VALUES, "fc.weight": VALUES["fc.weight"] * 2}
    with pytest.raises(AssertionError, match=r"(?s)not the same\n.*1 of 2 pairs differ") as caught:
        tnb.assert_same(other, VALUES)
    assert isinstance(caught.value, tnb.NotSameError)
    said = str(caught.value)
    assert said.count("\n") > 4
    assert "first at fc.weight" in said
    tnb.assert_same(other, VALUES, rtol=1.0)


def test_what_has_no_partner_fails_unless_it_is_declared():
    less = {"fc.weight": VALUES["fc.weight"]}
    with pytest.raises(tnb.NotSameError, match=r"without a partner: fc\.bias"):
        tnb.assert_same(less, VALUES)
    tnb.assert_same(less, VALUES, mapping=[(None, "fc.bias")])


def test_what_cannot_be_read_fails(tmp_path):
    for side in ("left", "right"):
        (tmp_path / side).mkdir()
        for name, values in VALUES.items():
            np.save(tmp_path / side / f"{name}.npy", values)
    cut = tmp_path / "left" / "fc.bias.npy"
    cut.write_bytes(cut.read_bytes()[:-4])
    with pytest.raises(tnb.NotSameError, match=r"cannot be read: .*fc\.bias"):
        tnb.assert_same(tmp_path / "left", tmp_path / "right")


def test_the_text_is_in_the_language_in_force():
    with tnb.option_context(language="zh"), pytest.raises(tnb.NotSameError, match="两者不一致"):
        tnb.assert_same(VALUES, {**VALUES, "fc.bias": np.zeros(3)})
