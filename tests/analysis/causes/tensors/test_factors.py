"""Names of factors."""

from __future__ import annotations

import math

import pytest

from troubleshooter_nb.analysis.causes.factors import named_factor


@pytest.mark.parametrize(
    ("factor", "name"),
    [
        (255.0, "255"),
        (1 / 255, "1/255"),
        (8.0, "8"),
        (0.125, "1/8"),
        (65536.0, "2^16"),
        (math.sqrt(768), "sqrt(768)"),
        (1 / math.sqrt(64), "1/8"),
        (1 / 0.9, "1/(1-0.1)"),
        (0.9, "1-0.1"),
        (-2.0, "-2"),
        (1.0, ""),
        (1.00001, ""),
        (math.pi, ""),
        (0.0, ""),
        (math.nan, ""),
        (math.inf, ""),
    ],
)
def test_factors_are_named_without_hints(factor, name):
    assert named_factor(factor) == name


@pytest.mark.parametrize(
    ("factor", "hints", "name"),
    [
        (8.0, {"world size": 8}, "world size (8)"),
        (1 / math.sqrt(96), {"head size": 96}, "1/sqrt(head size) (sqrt(96))"),
        (1 / 0.7, {"p": 0.3}, "(1/(1-p)) (p 0.3)"),
        (32 / 31, {"batch": 32}, "(batch/(batch-1)) (batch 32)"),
        (5.5, {"batch": 32}, ""),
        (3.0, {"bad": math.nan, "zero": 0.0, "negative": -3.0}, "3"),
    ],
)
def test_hints_come_first(factor, hints, name):
    assert named_factor(factor, hints) == name


def test_the_uncertainty_of_the_fit_widens_the_search():
    assert named_factor(2.01) == ""
    assert named_factor(2.01, near=1e-2) == "2"
