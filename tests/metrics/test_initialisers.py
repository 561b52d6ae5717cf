import math

import ml_dtypes
import numpy as np
import pytest

from troubleshooter_nb.dump import ArrayInMemory
from troubleshooter_nb.metrics.initialisers import initialiser_of, initialiser_of_stored


def uniform(bound, *shape, seed=0):
    return np.random.default_rng(seed).uniform(-bound, bound, shape).astype(np.float32)


def normal(std, *shape, seed=0):
    return (std * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.zeros((3, 4)), "zeros"),
        (np.ones(5, np.int32), "ones"),
        (np.ones(5, bool), "ones"),
        (np.full(4, 0.1, np.float16), "constant"),
        (np.full(4, 1j), "constant"),
        (np.float32(0.0), "zeros"),
        (np.float32(0.3), None),
        (np.zeros((0, 2)), None),
        (np.full(3, np.nan), None),
        (np.arange(1000), None),
    ],
)
def test_constants_by_hand(values, expected):
    assert initialiser_of(np.asarray(values)) == expected


@pytest.mark.parametrize(
    ("shape", "bound", "name"),
    [
        ((64, 100), 0.1, "= 1/sqrt(fan_in)"),
        ((32, 16, 3, 3), 1 / 12, "= 1/sqrt(fan_in)"),
        ((16, 32, 3, 3), 1 / 12, "= 1/sqrt(fan_in) of the transposed layout"),
        ((256, 30), 1 / 8, "= 1/sqrt(hidden) with 4 gates"),
        ((100, 96), 1 / 4, "He"),
        ((100, 48), 1 / 4, "LeCun"),
        ((90, 60), 0.2, "Xavier"),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_uniform_bounds_of_known_initialisers_are_named(shape, bound, name, dtype):
    got = initialiser_of(uniform(bound, *shape).astype(dtype))
    assert got is not None
    assert got.startswith(f"uniform, bound {bound:.4g}")
    assert name in got


def test_a_bias_is_judged_with_the_fan_of_its_layer():
    bias = uniform(0.05, 300)
    assert initialiser_of(bias) is None
    assert initialiser_of(bias, fan_in=400) == "uniform, bound 0.05 = 1/sqrt(fan_in)"


@pytest.mark.parametrize("seed", [287, 1106, 3765, 4436])
def test_draws_that_lie_unevenly_by_chance_are_named(seed):
    """The four of 6,000 whose Kolmogorov statistic is the largest, 2.1 to 2.4."""
    bias = uniform(200**-0.5, 300, seed=seed)
    assert initialiser_of(bias, fan_in=200) == "uniform, bound 0.07071 = 1/sqrt(fan_in)"


@pytest.mark.parametrize(
    ("std", "name"),
    [(1.0, "std 1,"), (0.02, "std 0.02"), (math.sqrt(2 / 300), "He"), (300**-0.5, "LeCun")],
)
def test_normal_deviations_are_named(std, name):
    got = initialiser_of(normal(std, 200, 300))
    assert got is not None
    assert got.startswith("normal, std ")
    assert name in got


def test_a_normal_draw_cut_at_two_deviations_is_named():
    values = normal(0.02, 400, 300)
    values = values[np.abs(values) <= 0.04][:90_000].reshape(300, 300)
    assert initialiser_of(values) == "normal, std 0.02"


@pytest.mark.parametrize("seed", range(20))
def test_values_that_were_trained_or_belong_to_nothing_are_not_named(seed):
    random = np.random.default_rng(seed)
    drawn = uniform(0.1, 64, 100, seed=seed)
    assert initialiser_of(drawn + normal(0.01, 64, 100, seed=seed + 50)) is None
    assert initialiser_of(0.9 * drawn) is None
    assert initialiser_of(1.02 * drawn) is None
    rows = np.exp(0.3 * random.standard_normal((300, 1)))
    assert initialiser_of(normal(0.02, 300, 300, seed=seed) * rows) is None
    assert initialiser_of(normal(0.023, 300, 300, seed=seed)) is None


def test_few_elements_and_values_that_are_not_finite_are_not_judged():
    assert initialiser_of(uniform(0.5, 8, 4)) is None
    assert initialiser_of(normal(1.0, 64)) is None
    spoiled = uniform(0.1, 64, 100)
    spoiled[0, 0] = np.inf
    assert initialiser_of(spoiled) is None
    assert initialiser_of(np.full(300, 1e300) * np.linspace(-1, 1, 300)) is None


@pytest.mark.parametrize("late", ["", "trained", "nan", "other"])
def test_a_draw_is_told_by_all_blocks_of_a_tensor(late, monkeypatch):
    monkeypatch.setattr("troubleshooter_nb.metrics.streamed.SIGNATURES_BLOCK", 30_000)
    values = normal(0.02, 400, 300)
    values[-40:] += {"": 0.0, "trained": 0.01, "nan": np.nan, "other": 0.0}[late]
    values[-40:] *= 3 if late == "other" else 1
    found = initialiser_of_stored(ArrayInMemory(values))
    assert found == ("normal, std 0.02" if not late else None)
    assert initialiser_of_stored(ArrayInMemory(uniform(0.05, 300, 400))) is not None
    assert initialiser_of_stored(ArrayInMemory(np.zeros(100_000, np.float32))) == "zeros"
    ones = np.ones(100_000, np.float32)
    assert initialiser_of_stored(ArrayInMemory(ones)) == "ones"
    ones[-1] = 2
    assert initialiser_of_stored(ArrayInMemory(ones)) is None
