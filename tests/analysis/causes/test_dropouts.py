import numpy as np
import pytest

from tests.analysis.causes.decided import Tried, cause, decided
from troubleshooter_nb.analysis.causes.case import Operands
from troubleshooter_nb.analysis.causes.layers import FITTERS
from troubleshooter_nb.metrics.float_formats import in_format

SINGLE, BRAIN = 2.0**-24, 2.0**-8


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def dropped(x, p, *, seed=0, channels=False, scaled=True):
    shape = (*x.shape[:2], *[1] * (x.ndim - 2)) if channels else x.shape
    kept = np.random.default_rng(seed).random(shape) >= p
    return (x * kept / (1.0 - p if scaled else 1.0)).astype(np.float32)


def fit(x, output, roundoff=SINGLE, **known):
    return Tried(FITTERS, "dropout", Operands([x], {}, output, roundoff, known))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("p", [0.1, 0.33, 0.5, 0.9])
@pytest.mark.parametrize("shape", [(500,), (8, 40, 30)])
def test_p_is_fitted_from_the_scale(shape, p, seed):
    x = normal(*shape, seed=seed)
    found = fit(x, dropped(x, p, seed=seed))
    assert found[0].settings["active"] is True
    assert found[0].settings["p"] == pytest.approx(p, abs=1e-6)
    assert found[0].residual < 2 * SINGLE


def test_keep_prob_taken_for_p():
    x = normal(40, 30)
    fits = [fit(x, dropped(x, p)) for p in (0.1, 0.9)]
    assert cause(*fits) == "dropout_keep_prob"


def test_equal_settings_are_no_cause_but_other_masks_of_equal_inputs():
    x = normal(40, 30)
    right = fit(x, dropped(x, 0.5, seed=7))
    assert cause(fit(x, dropped(x, 0.5)), right) == "rng_differs"
    other = normal(40, 30, seed=3)
    assert cause(fit(other, dropped(other, 0.5)), right) is None


def test_a_rest_that_is_not_scaled():
    x = normal(40, 30)
    fits = [fit(x, dropped(x, 0.3, scaled=scaled)) for scaled in (True, False)]
    assert [side[0].settings["scale"] for side in fits][1] == 1.0
    assert fits[1][0].settings["p"] == pytest.approx(0.3, abs=fits[1][0].uncertainty["p"])
    assert cause(*fits) == "dropout_keep_prob"


def test_training_and_evaluation():
    x = normal(40, 30)
    assert cause(fit(x, dropped(x, 0.1)), fit(x, x)) == "eval_train_mode"
    # Recorded to evaluate, the layer is random although it should not.
    recorded = [fit(x, y, training=False) for y in (dropped(x, 0.1), x)]
    assert cause(*recorded) == "random_in_eval"


def test_whole_channels():
    x = normal(16, 12, 5, 5)
    found = fit(x, dropped(x, 0.2, channels=True))
    assert found[0].settings["p"] == 0.2


@pytest.mark.parametrize("scale", [1 / 0.9, 1.109375])  # as it is, and as bfloat16 holds it
@pytest.mark.parametrize("size", [40, 3000])
def test_p_under_the_rounding_of_bfloat16(size, scale):
    fits = []
    for seed in (0, 1):
        x = in_format(normal(size, seed=seed), "bfloat16")
        kept = np.random.default_rng(seed).random(size) >= 0.1
        fits.append(fit(x, in_format(x * kept * scale, "bfloat16"), BRAIN))
    assert [side[0].settings["p"] for side in fits] == [0.1, 0.1]
    found = decided(*fits)
    assert (found.outcome, found.suspicion) == ("same", None)
    assert max(found.left_over) < 3.0


@pytest.mark.parametrize("function", [lambda x: np.maximum(x, 0), lambda x: np.minimum(x, 0)])
def test_a_rectifier_is_no_dropout(function):
    x = normal(40, 30)
    assert not any(found.settings["active"] for found in fit(x, function(x)))


def test_nothing_is_fitted_to_nothing():
    assert fit(np.zeros((8, 8), np.float32), np.zeros((8, 8), np.float32)) == []
    assert fit(normal(10), normal(10)) == []
    x, y = normal(40, 30), normal(40, 30, seed=4)
    assert fit(x, y)[0].residual > 0.5
    assert fit(x, dropped(y, 0.3))[0].residual > 0.5


@pytest.mark.torch
@pytest.mark.mindspore
def test_the_first_argument_of_the_two_frameworks():
    import mindspore
    import torch

    x = normal(64, 40)
    left = mindspore.nn.Dropout(0.9).set_train()(mindspore.Tensor(x)).asnumpy()
    right = torch.nn.Dropout(0.9)(torch.tensor(x)).numpy()
    fits = fit(x, left), fit(x, right)
    assert cause(*fits) == "dropout_keep_prob"
    assert [side[0].settings["p"] for side in fits] == [0.1, 0.9]
