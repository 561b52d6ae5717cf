"""What is said of how the difference of two curves grows."""

from __future__ import annotations

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.render.series_view import series_text


def said(rate, *, steps=200, language="en"):
    """The text about two curves whose difference is multiplied by exp(rate) at every step."""
    right = np.linspace(3.0, 1.0, steps)
    found = tnb.compare_series(right + 1e-2 * np.exp(rate * np.arange(steps)), right)
    facts = {**found._facts(), "growth_kind": "exponential", "growth": rate, "language": language}
    return series_text(found.table, facts)


@pytest.mark.parametrize("rate", [0.0, 1e-6, 2e-4])
def test_a_difference_that_does_not_grow_is_not_said_to_grow(rate):
    assert "then the difference stays as large" in said(rate)
    assert "factor" not in said(rate)
    assert "此后差值大致不变" in said(rate, language="zh")


@pytest.mark.parametrize(
    ("rate", "factor"), [(4e-3, "1.004"), (0.05, "1.05"), (4.3e-4, "1.00043"), (0.02, "1.02")]
)
def test_a_factor_has_as_many_digits_as_tell_it_from_one(rate, factor):
    assert f"grows by the factor {factor} per step" in said(rate)
