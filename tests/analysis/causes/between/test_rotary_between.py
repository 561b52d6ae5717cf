"""Rotations between recorded calls, over the layouts of what they may have turned."""

import numpy as np
import pytest

from troubleshooter_nb.analysis.causes.between.earlier_values import EarlierValues, Source
from troubleshooter_nb.analysis.causes.between.rotary_between import rotary_fits

FLOOR = 2.0**-23


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def turned(x, theta, beside):
    """Rotated heads (items, heads, rows, size)."""
    rows, size = x.shape[2:]
    angles = np.arange(rows)[:, None] * theta ** (-np.arange(size // 2) * 2 / size)
    halves = slice(None, size // 2), slice(size // 2, None)
    first, second = (slice(0, None, 2), slice(1, None, 2)) if beside else halves
    made = np.empty(x.shape)
    a, b = x[..., first].astype(np.float64), x[..., second].astype(np.float64)
    made[..., first] = a * np.cos(angles) - b * np.sin(angles)
    made[..., second] = a * np.sin(angles) + b * np.cos(angles)
    return made.astype(np.float32)


def fits(target, **sources):
    named = tuple(Source(name, n, "linear", v) for n, (name, v) in enumerate(sources.items()))
    return rotary_fits(EarlierValues(target, named, (), FLOOR, FLOOR / 2))


@pytest.mark.parametrize("theta", [1e4, 5e5])
@pytest.mark.parametrize("beside", [True, False])
def test_the_source_and_the_base_of_a_rotation_are_told(theta, beside):
    q, k = normal(2, 9, 64), normal(2, 9, 64, seed=1)
    target = turned(k.reshape(2, 9, 4, 16).swapaxes(1, 2), theta, beside)
    best = fits(target, q=q, k=k)[0]
    assert best.settings["sources"] == ("k",)
    assert best.settings["orders"] == ("heads",)
    assert best.settings["theta"] == pytest.approx(theta, rel=1e-3)
    assert best.residual < 8 * FLOOR


def test_both_ways_to_pair_are_apart():
    k = normal(2, 9, 64)
    heads = k.reshape(2, 9, 4, 16).swapaxes(1, 2)
    ways = [fits(turned(heads, 1e4, beside), k=k)[0].settings for beside in (True, False)]
    assert {key for key in ways[0] if ways[0][key] != ways[1].get(key)} != set()


@pytest.mark.parametrize(
    "target", [normal(2, 4, 9, 16), normal(9, 64), np.full((2, 4, 9, 16), np.nan)]
)
def test_what_no_rotation_made_has_no_good_fit(target):
    assert not [f for f in fits(target, k=normal(2, 9, 64, seed=1)) if f.residual < 0.1]
