"""The step at which two curves part is found against their self-noise."""

from __future__ import annotations

import re

import numpy as np
import pytest

from troubleshooter_nb import option_context
from troubleshooter_nb.analysis.series import compare_series
from troubleshooter_nb.errors import FormatError


def curve(seed, steps=200, noise=0.1):
    rng = np.random.default_rng(seed)
    return 2 * np.exp(-np.arange(steps) / 80) + noise * rng.normal(size=steps)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("at", [0, 30, 120])
def test_runs_on_the_same_batches_part_where_the_fault_begins(seed, at):
    right = curve(seed)
    left = right.copy()
    left[at:] += 1e-4 * np.arange(1, 201 - at) ** 1.5
    found = compare_series(left, right)
    assert found.first_step == at
    assert found.growth_kind == "power"
    assert found.growth == pytest.approx(1.5, abs=0.05)


def test_exponential_growth_is_told_from_a_power():
    right = curve(0)
    left = right + np.where(np.arange(200) < 50, 0, 1e-4 * np.exp(0.05 * (np.arange(200) - 50)))
    found = compare_series(left, right)
    assert found.first_step == 50
    assert found.growth_kind == "exponential"
    assert found.growth == pytest.approx(0.05, rel=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_rounding_and_other_batches_do_not_part(seed):
    right = curve(seed)
    assert compare_series(right, right).passed
    assert compare_series((right * (1 + 1e-7)).astype(np.float32), right).passed
    assert compare_series(curve(seed + 100), right).passed


@pytest.mark.parametrize("seed", range(3))
def test_a_jump_leaves_the_noise_of_runs_on_other_batches(seed):
    left = curve(seed + 100)
    left[100:] += 1.0
    assert compare_series(left, curve(seed)).first_step == 100


def test_a_repeated_run_says_what_the_noise_is():
    right = curve(0)
    drift = np.cumsum(np.full(200, 1e-3))
    assert compare_series(right + drift, right).first_step == 0
    assert compare_series(right + drift, right, right + drift).passed
    assert compare_series(right + drift, right, 0.05).first_step == pytest.approx(50, abs=1)


def test_a_single_outlier_is_no_parting_and_nan_is_one():
    right = curve(0)
    left = right.copy()
    left[50] += 1
    assert compare_series(left, right).passed
    left[150:] = np.nan
    assert compare_series(left, right).first_step == 150


def test_steps_are_matched_and_those_of_one_side_are_noted():
    found = compare_series({1: 2.0, 2: 1.5, 4: 1.0}, {2: 1.5, 4: 0.5, 6: 1.0})
    assert found.table["step"].values.tolist() == [2, 4]
    assert found.first_step == 4
    with pytest.raises(FormatError, match="no step"):
        compare_series({1: 2.0}, {2: 1.5})
    with pytest.raises(FormatError, match="no measure"):
        compare_series({"a": [1.0]}, {"b": [1.0]})


def test_reprs_are_static_bounded_and_say_the_step():
    right = curve(0)
    left = right + np.where(np.arange(200) < 60, 0, 0.5)
    found = compare_series({"loss": left}, {"loss": right})
    html = found._repr_html_()
    assert html == compare_series({"loss": left}, {"loss": right})._repr_html_()
    assert not re.search(r"<script|<svg| id=", html)
    assert len(html) < 60_000
    for text in (html, repr(found)):
        assert "step 60" in text
    lines = repr(found).splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 100
    with option_context(language="zh"):
        assert "第 60 步" in found._repr_html_()
    with option_context(ascii=True):
        assert repr(found).isascii()


def test_the_picture_has_both_curves():
    axes = compare_series(curve(0), curve(1)).plot()
    assert len(axes.lines) == 2
    assert axes.get_xlabel() == "step"
