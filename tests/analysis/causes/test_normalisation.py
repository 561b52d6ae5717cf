import numpy as np
import pytest

from tests.analysis.causes.decided import Tried, cause
from troubleshooter_nb.analysis.causes.case import Operands
from troubleshooter_nb.analysis.causes.fits import settings_apart
from troubleshooter_nb.analysis.causes.layers import BACKWARD_FITTERS, FITTERS, cause_of
from troubleshooter_nb.analysis.causes.searches import normalisation
from troubleshooter_nb.metrics.float_formats import in_format
from troubleshooter_nb.metrics.operators.normalisation import normalise

SINGLE, HALF, BRAIN = 2.0**-24, 2.0**-11, 2.0**-8


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def layer(x, eps, *, axes=(-1,), weight=None, bias=None, centred=True, dtype=np.float32):
    gain = 1.0 if weight is None else weight.astype(np.float64)
    offset = 0.0 if bias is None else bias.astype(np.float64)
    return normalise(x, axes, eps, gain, offset, centred=centred).astype(dtype)


def fit(word, x, output, roundoff=SINGLE, known=None, **parameters):
    return Tried(FITTERS, word, Operands([x], parameters, output, roundoff, known or {}))


W, B = normal(48, seed=1), normal(48, seed=2)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("shape", [(6, 48), (2, 3, 30, 48)])
@pytest.mark.parametrize(("left", "right"), [(1e-5, 1e-7), (1e-5, 1e-6), (1e-3, 1e-12)])
def test_two_eps_are_fitted_and_named(left, right, shape, seed):
    x = 0.2 * normal(*shape, seed=seed)
    fits = [fit("layernorm", x, layer(x, eps, weight=W, bias=B), weight=W, bias=B)
            for eps in (left, right)]  # fmt: skip
    assert cause(*fits) == "norm_eps"
    assert fits[0][0].settings["eps"] == left
    assert abs(fits[1][0].settings["eps"] - right) <= fits[1][0].uncertainty["eps"]
    assert max(side[0].residual for side in fits) < 2 * SINGLE


@pytest.mark.parametrize("roundoff", [HALF, BRAIN])
def test_eps_is_told_below_the_rounding_of_the_output(roundoff):
    # The outputs differ by 1e-3 of themselves; bfloat16 rounds them by 2e-3 each.
    name = {HALF: "float16", BRAIN: "bfloat16"}[roundoff]
    x = in_format(0.05 * normal(64, 48).astype(np.float64), name)
    fits = []
    for eps in (1e-5, 1e-6):
        output = in_format(normalise(x, (1,), eps, W), name)
        fits.append(fit("layernorm", x, output, roundoff, weight=W))
    assert cause(*fits) == "norm_eps"
    assert fits[0][0].settings["eps"] == 1e-5


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("word", ["layernorm", "rmsnorm"])
@pytest.mark.parametrize("roundoff", [SINGLE, HALF, BRAIN])
def test_equal_settings_on_other_inputs_are_no_cause(word, roundoff, seed):
    name = {HALF: "float16", BRAIN: "bfloat16"}.get(roundoff)
    fits = []
    for side in (0, 1):
        x = normal(7, 11, 48, seed=10 * seed + side).astype(np.float64)
        x = in_format(x, name) if name else x
        output = normalise(x, (2,), 1e-6, W, centred=word == "layernorm")
        output = in_format(output, name) if name else output.astype(np.float32)
        fits.append(fit(word, x, output, roundoff, weight=W))
    assert cause(*fits) is None


def test_unrelated_values_are_fitted_badly():
    found = fit("layernorm", normal(32, 48), normal(32, 48, seed=5), weight=W, bias=B)
    assert found[0].residual > 0.5


@pytest.mark.parametrize(
    ("changed", "expected", "setting"),
    [
        ({"axes": (-2, -1)}, "normalised_axes", "axes"),
        ({"axes": (1,)}, "normalised_axes", "axes"),
        ({"centred": False}, "normalised_axes", "centred"),
        ({"weight": None}, "bn_gamma_ignored", "weight"),
        ({"weight": W + 1}, "norm_weight_plus_one", "weight_offset"),
        ({"bias": None}, "bias_missing", "bias"),
    ],
)
def test_what_one_side_does_otherwise(changed, expected, setting):
    x = normal(5, 9, 48) + 0.3
    usual = {"weight": W, "bias": B}
    fits = [fit("layernorm", x, layer(x, 1e-5, **kind), weight=W, bias=B)
            for kind in (usual, usual | changed)]  # fmt: skip
    assert settings_apart(fits[0][0], fits[1][0])[0] == setting
    assert cause(*fits) == expected
    assert fits[1][0].residual < 2 * SINGLE


@pytest.mark.parametrize("weight", [np.ones(48, np.float32), None])
def test_a_weight_of_ones_is_not_said_to_be_ignored(weight):
    x = normal(5, 48)
    given = {} if weight is None else {"weight": weight}
    found = fit("layernorm", x, layer(x, 1e-5), **given)
    assert found[0].settings.get("weight", "applied") == "applied"


def test_the_weight_meets_the_values_before_or_after_the_cast():
    x = in_format(normal(16, 48).astype(np.float64), "bfloat16")
    weight = in_format(W.astype(np.float64), "bfloat16")
    plain = normalise(x, (1,), 1e-6, centred=False)
    outputs = [
        in_format(plain * weight, "bfloat16"),
        in_format(in_format(plain, "bfloat16") * weight, "bfloat16"),
    ]
    fits = [fit("rmsnorm", x, output, BRAIN, weight=weight) for output in outputs]
    assert [side[0].settings["weight_cast"] for side in fits] == ["before", "after"]
    assert cause(*fits) == "norm_weight_cast_order"
    # In float32 nothing is cast, and nothing is said.
    assert "weight_cast" not in fit("rmsnorm", x, layer(x, 1e-6, weight=W), weight=W)[0].settings


def test_constant_rows_without_eps_are_told_from_rows_that_are_not_finite_otherwise():
    x = in_format(normal(40, 48).astype(np.float64), "float16")
    x[[3, 17]] = 2.0
    right = in_format(normalise(x, (1,), 1e-5, W), "float16")
    left = right.copy()
    left[[3, 17]] = np.nan
    fits = [fit("layernorm", x, output, HALF, weight=W) for output in (left, right)]
    assert cause(*fits) == "eps_underflow"
    assert [side[0].settings["constant_rows"] for side in fits] == ["not finite", "finite"]
    left[5] = np.inf
    assert fit("layernorm", x, left, HALF, weight=W) == []


@pytest.mark.parametrize("shape", [(8, 16), (6, 16, 9), (4, 16, 5, 7), (2, 16, 3, 4, 5)])
def test_batch_normalisation_in_both_modes(shape):
    x = normal(*shape) * np.exp(normal(16, seed=8)).reshape(16, *[1] * (len(shape) - 2))
    stored = {"running_mean": normal(16, seed=3), "running_var": normal(16, seed=4) ** 2 + 0.1}
    named = {"weight": normal(16, seed=5), "bias": normal(16, seed=6)} | stored
    form = (1, 16) + (1,) * (len(shape) - 2)
    w, b, m, v = (named[k].astype(np.float64).reshape(form) for k in ("weight", "bias", *stored))
    axes = (0, *range(2, len(shape)))
    from troubleshooter_nb.metrics.operators.normalisation import Moments

    outputs = [
        normalise(x, axes, 1e-3, w, b).astype(np.float32),
        normalise(x, axes, 1e-3, w, b, statistics=Moments(m, v)).astype(np.float32),
        normalise(x, axes, 1e-5, w, b, statistics=Moments(m, v)).astype(np.float32),
        normalise(x, axes, 1e-5, 1.0, b, statistics=Moments(m, v)).astype(np.float32),
    ]
    word = f"batchnorm{max(len(shape) - 2, 1)}d"
    train, evaluation, other, plain = [fit(word, x, output, **named) for output in outputs]
    assert cause(train, evaluation) == "eval_train_mode"
    assert train[0].settings["statistics"] == "batch"
    assert cause(evaluation, other) == "bn_eps"
    assert [side[0].settings["eps"] for side in (train, evaluation, other)] == [1e-3, 1e-3, 1e-5]
    assert cause(other, plain) == "bn_gamma_ignored"
    assert cause(other, other) is None


def stored(x, seed, weight, bias=0.0):
    """A batch normalisation by statistics of other batches."""
    random = np.random.default_rng(seed)
    shape = (1, -1, 1, 1)
    mean = x.mean((0, 2, 3), keepdims=True) + random.normal(0, 0.1, (1, x.shape[1], 1, 1))
    variance = x.var((0, 2, 3)).reshape(shape) * random.uniform(0.5, 2, (1, x.shape[1], 1, 1))
    return ((x - mean) / np.sqrt(variance + 1e-5) * weight.reshape(shape) + bias).astype(np.float32)


def test_the_mode_is_told_where_running_statistics_were_not_recorded():
    x, weight = 1 + 0.5 * normal(6, 16, 5, 7), normal(16, seed=1)
    shaped = weight.reshape(1, -1, 1, 1)
    outputs = layer(x, 1e-5, axes=(0, 2, 3), weight=shaped), stored(x, 1, weight)
    fits = [fit("batchnorm2d", x, output, weight=weight) for output in outputs]
    assert [found[0].settings["statistics"] for found in fits] == ["batch", "running"]
    assert cause(*fits) == "eval_train_mode"


def test_unknown_running_statistics_are_held_against_each_other():
    x, weight = 1 + 0.5 * normal(6, 16, 5, 7), normal(16, seed=1)
    noisy = x * (1 + 1e-3 * normal(*x.shape, seed=5))
    scale = (1 + np.arange(16.0)).reshape(1, -1, 1, 1) / 7
    same = [fit("batchnorm2d", one, (one * scale + 2).astype(np.float32), weight=weight)[0]
            for one in (x, noisy)]  # fmt: skip
    assert settings_apart(*same) == []
    other = fit("batchnorm2d", x, stored(x, 2, weight), weight=weight)[0]
    distance4 = settings_apart(same[0], other)
    assert distance4
    assert cause_of("batchnorm2d", distance4, (same[0], other)) is None


@pytest.mark.parametrize("word", ["batchnorm2d", "layernorm"])
def test_a_layer_that_passes_all_on_is_no_normalisation_with_a_large_eps(word):
    x, gradient = 0.1 * normal(6, 16, 5, 7), normal(6, 16, 5, 7, seed=1)
    operands = Operands([gradient, x], {}, gradient, SINGLE, {})
    assert all(one.residual > 0.03 for one in BACKWARD_FITTERS[word](operands))


def test_batch_statistics_with_something_else_are_no_running_ones():
    x, weight, bias = normal(6, 16, 5, 7), normal(16, seed=1), normal(16, seed=2)
    twice = layer(x, 1e-5, axes=(0, 2, 3), weight=weight.reshape(1, -1, 1, 1)) * 2
    shifted = layer(x, 1e-5, axes=(0, 2, 3)) * weight.reshape(1, -1, 1, 1)
    shifted = shifted + 2 * bias.reshape(1, -1, 1, 1)
    for output in (twice, shifted):
        fits = fit("batchnorm2d", x, output, weight=weight, bias=bias)
        assert not any(one.settings["statistics"] == "running" for one in fits)


def test_channels_last_are_found_by_the_parameters():
    x = normal(4, 5, 6, 16)
    output = normalise(x, (0, 1, 2), 1e-3, W[:16]).astype(np.float32)
    found = fit("batchnorm2d", x, output, weight=W[:16])
    assert found[0].settings["eps"] == 1e-3
    assert found[0].residual < 2 * SINGLE


def test_numbers_of_groups():
    x = normal(3, 16, 6, 5)
    weight = W[:16].reshape(1, 16, 1, 1)
    fits = []
    for groups in (4, 8):
        parts = x.reshape(3, groups, -1, 6, 5)
        plain = normalise(parts, (2, 3, 4), 1e-5).reshape(x.shape)
        fits.append(fit("groupnorm", x, (plain * weight).astype(np.float32), weight=W[:16]))
    assert [side[0].settings["groups"] for side in fits] == [4, 8]
    assert cause(*fits) == "normalised_axes"


def test_parameters_may_come_as_inputs():
    x = normal(7, 48)
    output = layer(x, 1e-6, weight=W, bias=B)
    found = FITTERS["layernorm"](Operands([x, None, W, B], {}, output, SINGLE))
    assert found[0].residual < 2 * SINGLE


@pytest.mark.parametrize("x", [np.ones((6, 8), np.float32), np.zeros((2, 2), np.float32)])
def test_nothing_is_fitted_to_nothing(x):
    assert fit("layernorm", x, np.zeros_like(x)) == []
    assert FITTERS["layernorm"](Operands([None], {}, x, SINGLE)) == []


def test_a_large_tensor_is_sampled_and_its_special_rows_are_seen():
    x = normal(60000, 48)
    x[59_998] = 1.0
    output = layer(x, 1e-5)
    output[59_998] = np.nan
    found = fit("layernorm", x, output)
    assert found[0].settings["constant_rows"] == "not finite"


@pytest.mark.torch
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("eps", [1e-3, 1e-5])
def test_gradients_of_batch_normalisation_of_torch(training, eps):
    import torch

    net = torch.nn.BatchNorm2d(12, eps=eps).train(training)
    with torch.no_grad():
        for seed, name in enumerate(("weight", "bias", "running_mean", "running_var")):
            getattr(net, name).copy_(torch.tensor(np.abs(normal(12, seed=seed)) + 0.1))
    named = {k: v.numpy().copy() for k, v in net.state_dict().items() if v.ndim}
    x = torch.tensor(0.1 * normal(6, 12, 5, 4), requires_grad=True)
    gradient = torch.tensor(normal(6, 12, 5, 4, seed=9))
    net(x).backward(gradient)
    operands = Operands([gradient.numpy(), x.detach().numpy()], named, x.grad.numpy(), SINGLE)
    found = BACKWARD_FITTERS["batchnorm2d"](operands)
    assert found[0].settings["statistics"] == ("batch" if training else "running")
    assert found[0].settings["eps"] == eps
    assert found[0].settings.get("through_statistics", True)
    assert found[0].residual < 8 * SINGLE


@pytest.mark.parametrize("word", ["layernorm", "rmsnorm"])
def test_detached_statistics_are_seen_in_the_gradient_alone(word):
    x, gradient = normal(30, 48), normal(30, 48, seed=3)
    centred = word == "rmsnorm"
    variance = (x.astype(np.float64) ** 2).mean(1, keepdims=True)
    if word == "layernorm":
        variance = x.astype(np.float64).var(1, keepdims=True)
    output = (gradient * W / np.sqrt(variance + 1e-5)).astype(np.float32)
    found = BACKWARD_FITTERS[word](Operands([gradient, x], {"weight": W}, output, SINGLE))
    assert found[0].settings["through_statistics"] is False
    assert found[0].residual < 2 * SINGLE
    assert centred == (word == "rmsnorm")


@pytest.mark.torch
@pytest.mark.mindspore
@pytest.mark.parametrize("scale", [1.0, 1e-2])
def test_the_defaults_of_layer_normalisation_of_the_two_frameworks(scale):
    import mindspore
    import torch

    x = scale * normal(32, 48)
    left = mindspore.nn.LayerNorm((48,))(mindspore.Tensor(x)).asnumpy()
    right = torch.nn.LayerNorm(48)(torch.tensor(x)).detach().numpy()
    ones, zeros = np.ones(48, np.float32), np.zeros(48, np.float32)
    fits = [fit("layernorm", x, output, weight=ones, bias=zeros) for output in (left, right)]
    assert cause(*fits) == "norm_eps"
    assert fits[0][0].settings["eps"] == pytest.approx(1e-7, abs=fits[0][0].uncertainty["eps"])
    assert fits[1][0].settings["eps"] == 1e-5


@pytest.mark.torch
@pytest.mark.mindspore
def test_a_new_batch_normalisation_of_mindspore_evaluates():
    import mindspore
    import torch

    x = normal(4, 6, 5, 5) + 0.5
    left = mindspore.nn.BatchNorm2d(6)
    right = torch.nn.BatchNorm2d(6)
    named = {k: v.numpy().copy() for k, v in right.state_dict().items() if v.ndim}
    outputs = left(mindspore.Tensor(x)).asnumpy(), right(torch.tensor(x)).detach().numpy()
    fits = [fit("batchnorm2d", x, output, **named) for output in outputs]
    assert cause(*fits) == "eval_train_mode"
    assert [side[0].settings["statistics"] for side in fits] == ["running", "batch"]
    left.set_train()
    again = fit("batchnorm2d", x, left(mindspore.Tensor(x)).asnumpy(), **named)
    assert cause(again, fits[1]) is None


def test_every_cause_is_of_a_setting_that_fits_have():
    said = {name for search in normalisation.SEARCHES for name in search.causes}
    assert said == {
        *("constant_rows", "statistics", "axes", "centred", "groups", "weight", "weight_offset"),
        *("bias", "weight_cast", "through_statistics", "eps"),
    }
    words = {
        direction: {
            word
            for one in normalisation.SEARCHES
            if one.direction == direction
            for word in one.words
        }
        for direction in ("forward", "backward")
    }
    assert words["backward"] == words["forward"]


@pytest.mark.parametrize("word", ["batchnorm2d", "layernorm", "groupnorm"])
def test_rounding_becomes_large_where_a_large_mean_is_taken_away(word):
    x = np.random.default_rng(0).standard_normal((4, 8, 6, 6))
    assert normalisation.cancellation(Operands([x], {}, x, SINGLE), word) == pytest.approx(
        1, rel=0.15
    )
    far = Operands([x + 300], {}, x, SINGLE)
    assert normalisation.cancellation(far, word) == pytest.approx(300, rel=0.15)
    assert normalisation.cancellation(far, "rmsnorm") == 1.0
    assert normalisation.cancellation(far, "linear") == 1.0
