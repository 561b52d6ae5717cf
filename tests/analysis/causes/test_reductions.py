import numpy as np
import pytest

from troubleshooter_nb.analysis.causes.case import Operands
from troubleshooter_nb.analysis.causes.layers import FITTERS, cause_of

SINGLE = 2.0**-24


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def fit(word, x, output):
    return FITTERS[word](Operands([x], {}, np.asarray(output, np.float32), SINGLE))


X = normal(4, 6, 6)


@pytest.mark.parametrize("word", ["mean", "sum", "amax", "amin", "var", "std"])
@pytest.mark.parametrize("axes", [(1,), (2,), (1, 2)])
@pytest.mark.parametrize("keepdims", [True, False])
def test_the_reduced_axes_are_found(word, axes, keepdims):
    wide = X.astype(np.float64)
    found = fit(word, X, getattr(np, word)(wide, axis=axes, keepdims=keepdims))
    said = [axis - 3 for axis in axes]
    assert said in found[0].settings.values()
    assert found[0].residual < 1e-6


def test_means_of_squares_along_other_axes_are_another_normalisation():
    squares = np.square(X)
    left = fit("mean", squares, squares.mean((1, 2), keepdims=True))[0]
    right = fit("mean", squares, squares.mean(2, keepdims=True))[0]
    assert (left.settings, right.settings) == ({"norm_axes": [-2, -1]}, {"norm_axes": [-1]})
    assert cause_of("mean", list(left.settings), (left, left)) == ("normalised_axes", "norm_axes")


def test_plain_sums_along_other_axes_are_a_reduction_over_another_axis():
    found = fit("sum", X, X.sum(1))[0]
    assert found.settings == {"reduced_axes": [-2]}
    assert cause_of("sum", list(found.settings), (found, found)) == ("softmax_axis", "reduced_axes")


def test_the_divisor_of_a_variance_is_no_axis():
    biased, unbiased = (fit("var", X, X.var(2, ddof=ddof))[0] for ddof in (0, 1))
    assert [one.settings["divisor"] for one in (biased, unbiased)] == ["n", "n - 1"]
    assert biased.settings["norm_axes"] == unbiased.settings["norm_axes"] == [-1]
    assert cause_of("var", ["divisor"], (biased, unbiased)) is None


def test_what_is_no_reduction_of_the_input_fits_nothing():
    assert fit("mean", X, normal(4, 6, seed=1)) == []
    assert fit("mean", X, X) == []
    assert fit("mean", X, normal(5, 6)) == []
    assert FITTERS["mean"](Operands([None], {}, X, SINGLE)) == []
