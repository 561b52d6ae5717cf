import numpy as np
import pytest

from tests.analysis.causes.decided import Tried, cause, decided
from troubleshooter_nb.analysis.causes.case import Operands
from troubleshooter_nb.analysis.causes.confidence import confidence
from troubleshooter_nb.analysis.causes.layers import BACKWARD_FITTERS, FITTERS
from troubleshooter_nb.metrics.float_formats import in_format
from troubleshooter_nb.metrics.operators.softmaxes import (
    narrow_softmax,
    softmax,
    softmax_backward,
)

SINGLE, HALF, BRAIN = 2.0**-24, 2.0**-11, 2.0**-8
FORMATS = {SINGLE: "", HALF: "float16", BRAIN: "bfloat16"}


def stored(x, roundoff=SINGLE):
    return in_format(x, FORMATS[roundoff]) if FORMATS[roundoff] else x.astype(np.float32)


def normal(*shape, seed=0, roundoff=SINGLE):
    return stored(2.0 * np.random.default_rng(seed).standard_normal(shape), roundoff)


def fit(x, output, roundoff=SINGLE, word="softmax"):
    return Tried(FITTERS, word, Operands([x], {}, output, roundoff))


@pytest.mark.parametrize("roundoff", FORMATS)
@pytest.mark.parametrize("shape", [(12, 16), (2, 3, 16, 16), (40, 7)])
@pytest.mark.parametrize("log", [False, True])
def test_the_axis_is_found(shape, log, roundoff):
    x = normal(*shape, roundoff=roundoff)
    word = "logsoftmax" if log else "softmax"
    fits = [fit(x, stored(softmax(x, axis, log=log), roundoff), roundoff, word)
            for axis in (-1, -2)]  # fmt: skip
    assert [side[0].settings["axis"] for side in fits] == [-1, -2]
    assert all(side[0].settings["scale"] == 1.0 for side in fits)
    assert all(side[0].settings["log"] is log for side in fits)
    assert cause(*fits) == "softmax_axis"


@pytest.mark.parametrize("roundoff", FORMATS)
def test_a_scale_in_front_is_fitted(roundoff):
    x = normal(8, 16, 16, roundoff=roundoff)
    fits = [fit(x, stored(softmax(x, -1, s), roundoff), roundoff) for s in (1.0, 0.125)]
    assert fits[1][0].settings["scale"] == pytest.approx(0.125, abs=fits[1][0].uncertainty["scale"])
    assert fits[1][0].uncertainty["scale"] < 0.02
    assert cause(*fits) == "attention_scale"


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("scale", [0.9, 0.125])
@pytest.mark.parametrize("roundoff", FORMATS)
def test_a_scale_is_told_as_surely_in_16_bits(roundoff, scale, log):
    word, x = "logsoftmax" if log else "softmax", normal(4, 32, 32, roundoff=roundoff)
    fits = [fit(x, stored(softmax(x, -1, s, log=log), roundoff), roundoff, word)
            for s in (scale, 1.0)]  # fmt: skip
    found = decided(*fits)
    assert found.suspicion.cause == "attention_scale"
    assert confidence(found.suspicion) > 0.94
    assert max(found.left_over) < 3.0


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("roundoff", FORMATS)
@pytest.mark.parametrize("shape", [(9, 33), (2, 2, 8, 8)])
def test_equal_settings_on_other_inputs_are_no_cause(shape, roundoff, seed):
    fits = []
    for side in (0, 1):
        x = normal(*shape, seed=10 * seed + side, roundoff=roundoff)
        fits.append(fit(x, stored(softmax(x), roundoff), roundoff))
    found = decided(*fits)
    # Of few elements, one or two that round otherwise are already some floors of 16 bits.
    assert (found.outcome, found.suspicion) == ("same", None)
    assert max(found.left_over) < 3.0
    assert fits[0][0].settings["precision"] == "full"


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("path", ["input", "output", "input and output", "inside"])
def test_a_narrow_path_is_recognised(path, name):
    x = normal(16, 32)
    narrow = fit(x, narrow_softmax(x, -1, 1.0, name, path).astype(np.float32))
    assert narrow[0].settings["precision"] == f"{name} {path}"
    assert cause(narrow, fit(x, stored(softmax(x)))) == "softmax_precision_path"


@pytest.mark.parametrize("roundoff", [HALF, BRAIN])
def test_of_a_stored_16_bit_output_the_arithmetic_inside_is_asked(roundoff):
    name = FORMATS[roundoff]
    x = normal(16, 64, roundoff=roundoff)
    inside = fit(x, narrow_softmax(x, -1, 1.0, name, "inside"), roundoff)
    cast = fit(x, stored(softmax(x), roundoff), roundoff)
    assert inside[0].settings["precision"] == f"{name} inside"
    assert cause(inside, cast) == "softmax_precision_path"


def test_noise_of_narrow_size_is_not_a_narrow_path():
    x = normal(16, 32)
    noise = 1.0 + 2.0**-9 * np.random.default_rng(3).standard_normal((16, 32))
    found = fit(x, (softmax(x) * noise).astype(np.float32))
    assert found[0].settings["precision"] == "full"


def test_masked_places_and_rows_without_any_are_borne():
    x = normal(6, 8, 8)
    x[..., np.triu(np.ones((8, 8), bool), 1)] = -np.inf
    x[0, 0] = -np.inf
    found = fit(x, softmax(x).astype(np.float32))
    assert found[0].settings["axis"] == -1
    assert found[0].residual < 2 * SINGLE


@pytest.mark.parametrize("log", [False, True])
def test_the_axis_is_found_from_a_gradient(log):
    x, gradient = normal(3, 12, 16), normal(3, 12, 16, seed=1)
    word = "logsoftmax" if log else "softmax"
    for axis in (-1, -2):
        output = softmax_backward(gradient, softmax(x, axis, log=log), axis, log=log)
        operands = Operands([gradient, x], {}, output.astype(np.float32), SINGLE)
        found = BACKWARD_FITTERS[word](operands)
        assert found[0].settings["axis"] == axis
        assert found[0].settings["scale"] == 1.0
        assert found[0].residual < 2 * SINGLE


def test_unrelated_values_fit_nothing():
    x, y = normal(20, 30), normal(20, 30, seed=4)
    assert not any(found.residual < 0.5 for found in fit(x, y))
    assert fit(x, np.zeros_like(y)) == []
    assert fit(x, y[:5]) == []


@pytest.mark.torch
@pytest.mark.mindspore
def test_the_softmax_of_the_two_frameworks_is_one():
    import mindspore
    import torch

    x = normal(4, 12, 64)
    left = mindspore.nn.Softmax()(mindspore.Tensor(x)).asnumpy()
    right = torch.softmax(torch.tensor(x), -1).numpy()
    other = torch.softmax(torch.tensor(x), 1).numpy()
    assert cause(fit(x, left), fit(x, right)) is None
    assert cause(fit(x, left), fit(x, other)) == "softmax_axis"


def causes_of_scales(left, right, roundoff=SINGLE):
    x = normal(8, 16, 16, roundoff=roundoff)
    fits = [fit(x, stored(softmax(x, -1, one), roundoff), roundoff) for one in (left, right)]
    return {cause(*fits), cause(*reversed(fits))}


@pytest.mark.parametrize("size", [24, 64, 80])
def test_a_scale_that_acts_twice_is_told(size):
    assert causes_of_scales(size**-0.5, 1 / size) == {"softmax_scale_twice"}


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1.0, 0.125),
        (0.125, 0.7 * 0.125),
        (8**-0.5, 0.125),  # heads of 64, whose count of eight was taken for their size
        (0.25, 0.0625),  # heads of 16 or of 256
        (0.5, 0.25),
        (1.01, 1.02),  # 1.02 is nearly the square
        (0.999, 0.998),
        (2.0, 4.0),
    ],
)
def test_a_scale_that_need_not_act_twice_is_another_scale(left, right):
    assert causes_of_scales(left, right) == {"attention_scale"}


def test_a_scale_that_16_bits_leave_open_is_not_told_to_act_twice():
    assert causes_of_scales(0.125, 0.015625, BRAIN) == {"attention_scale"}


def attended(scales):
    given = [normal(2, 3, 12, 16, seed=n) for n in range(3)]
    query, key, value = (one.astype(np.float64) for one in given)
    outputs = [softmax(query @ key.swapaxes(-1, -2), scale=scale) @ value for scale in scales]
    return [Tried(FITTERS, "scaleddotproductattention", Operands(given, {}, stored(one), SINGLE))
            for one in outputs]  # fmt: skip


def test_attention_knows_the_head_size_that_a_scale_is_of():
    assert cause(*attended([0.25, 0.0625])) == "softmax_scale_twice"
    # The square is the right scale of heads of 16.
    assert cause(*attended([0.5, 0.25])) == "attention_scale"


def test_a_factor_of_a_plain_product_never_acts_twice():
    given = [normal(4, 8, 16), normal(4, 16, 8, seed=1)]
    outputs = [stored(scale * (given[0] @ given[1])) for scale in (0.125, 0.015625)]
    fits = [Tried(FITTERS, "matmul", Operands(given, {}, output, SINGLE)) for output in outputs]
    assert cause(*fits) == "attention_scale"
