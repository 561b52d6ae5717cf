"""Findings and checks are tuples that show themselves."""

from __future__ import annotations

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.findings import Checks, Findings


@pytest.fixture(scope="module")
def cmp():
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(16, 16)).astype(np.float32)
    x = rng.normal(size=(8, 16)).astype(np.float32)
    right = {"fc.input": x, "fc.weight": weight, "fc.output": x @ weight.T}
    left = {**right, "fc.weight": weight.T.copy(), "fc.output": x @ weight}
    return tnb.compare(left, right, progress=False)


def test_findings_are_a_tuple_that_shows_figures_and_evidence(cmp):
    assert isinstance(cmp.findings, tuple)
    assert cmp.findings[0].cause == "linear_transposed"
    shown = repr(cmp.findings)
    assert "(linear_transposed, " in shown
    assert "best other explanation" in shown
    assert "linear_transposed" in cmp.findings._repr_html_()


def test_checks_are_a_tuple_that_says_what_holds(cmp):
    lines = repr(cmp.preflight).splitlines()
    assert len(lines) == len(cmp.preflight)
    assert lines[0] == "✓ inputs equal (1)"
    assert "✗ parameters differ, 0 of 1 equal: fc.weight" in repr(cmp.preflight)
    with tnb.option_context(ascii=True):
        assert repr(cmp.preflight).isascii()
    with tnb.option_context(language="zh"):
        assert "输入" in repr(cmp.preflight)
    assert "inputs equal" in cmp.preflight._repr_html_()


def test_nothing_found_and_nothing_checked_are_said():
    assert repr(Findings()) == "No cause was proved."
    assert "No cause was proved." in Findings()._repr_html_()
    assert repr(Checks()) == "Not checked."


def test_rows_around_the_first_difference_mark_it(cmp):
    rows = cmp.around(rows=1)
    assert rows.to_dataframe()["left"].tolist() == ["fc.input", "fc.weight", "fc.output"]
    assert "created" in repr(rows).splitlines()[2]
    assert len(cmp.around("fc.input", rows=0)) == 1
    assert rows._repr_html_().count("<tr") == 4
    assert max(map(len, repr(rows).splitlines())) <= 100
    with pytest.raises(tnb.EntryNotFoundError):
        cmp.around("fc.bias")


def test_pairs_are_counted_by_the_values_of_columns(cmp):
    counted = cmp.by("role")
    assert counted.loc["parameter", ["pairs", "passed", "failed"]].tolist() == [1, 0, 1]
    assert counted.loc["parameter", "largest_rel_l2"] > 1.0
    assert counted["pairs"].sum() == len(cmp)
    assert cmp.by("role", "verdict")["pairs"].sum() == len(cmp)
    with pytest.raises(tnb.EntryNotFoundError, match="no column 'rol'"):
        cmp.by("rol")
    with pytest.raises(tnb.ArgumentError, match="one column or more"):
        cmp.by()
