"""A call is acquitted only where its outputs are furthest apart, not at places picked blindly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.case import Call, TensorPair
from troubleshooter_nb.analysis.causes.laws import activations, dropout, elementwise, embedding
from troubleshooter_nb.analysis.causes.laws import softmax as softmaxes
from troubleshooter_nb.analysis.causes.operands import operands
from troubleshooter_nb.analysis.causes.recomputed import recompute
from troubleshooter_nb.analysis.causes.sampling import energies, is_seen, places
from troubleshooter_nb.analysis.causes.searches import groups
from troubleshooter_nb.dump import ArrayInMemory
from troubleshooter_nb.metrics.operators.activations import gelu_tanh
from troubleshooter_nb.metrics.operators.attention import probabilities as shares_of
from troubleshooter_nb.metrics.operators.embedding import look_up
from troubleshooter_nb.metrics.operators.pooling import max_pool as pooled
from troubleshooter_nb.metrics.operators.recurrent import Gates, gru
from troubleshooter_nb.metrics.operators.resizing import linear_matrix, resized
from troubleshooter_nb.metrics.operators.rotary import frequencies
from troubleshooter_nb.metrics.operators.softmaxes import softmax

TYPICAL = 3e-7


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def tensor(left, right, name="", role="input"):
    gap = np.linalg.norm((left.astype(np.float64) - right).ravel())
    error = float(gap / np.linalg.norm(right.astype(np.float64).ravel()))
    sources = ArrayInMemory(np.ascontiguousarray(left)), ArrayInMemory(np.ascontiguousarray(right))
    apart = np.nan_to_num(np.abs(left.astype(np.float64) - right))
    figures = {"max_abs_index": int(apart.argmax())}
    return TensorPair(
        0, name, role, "forward", sources=sources, rel_l2=error, noise=1e-6, figures=figures
    )


def call(word, inputs, parameters, left, right):
    given = tuple(tensor(x, x) for x in inputs)
    known = {name: tensor(v, v, name, "parameter") for name, v in parameters.items()}
    return Call(word, word, "forward", given, (tensor(left, right, role="output"),), known)


def dense():
    x, weight = normal(300, 64), normal(300, 64, seed=1)
    return [x], {"weight": weight}, x @ weight.T


def product():
    a, b = normal(30, 40, 16), normal(30, 16, 40, seed=1)
    return [a, b], {}, a @ b


def total():
    a, b = normal(60, 60), normal(60, 60, seed=1)
    return [a, b], {}, a + b


def gelu():
    x = normal(60, 60)
    return [x], {}, gelu_tanh(x.astype(np.float64))


def probabilities():
    x = normal(120, 40)
    return [x], {}, softmax(x.astype(np.float64))


def table():
    ids, weight = np.random.default_rng(2).integers(0, 50, 500), normal(50, 4)
    return [ids], {"weight": weight}, look_up(weight, ids)


def pool():
    x = normal(4, 12, 10, 10)
    windows = ((2, 2), (2, 2), (0, 0), (5, 5))
    return [x], {}, pooled(x.reshape(48, 10, 10), *windows).reshape(4, 12, 5, 5)


def normed():
    x, weight = normal(400, 16), normal(16, seed=1)
    wide = x.astype(np.float64)
    spread = wide - wide.mean(1, keepdims=True)
    scale = np.sqrt(np.square(spread).mean(1, keepdims=True) + 1e-5)
    return [x], {"weight": weight}, spread / scale * weight


def attended():
    query, key, value = (normal(4, 8, 60, 16, seed=n) for n in range(3))
    shares = shares_of(query @ key.swapaxes(-1, -2) / 4.0)
    return [query, key, value], {}, shares @ value


def remembered():
    x, given, seen = normal(60, 12, 5), normal(24, 5, seed=1), normal(24, 8, seed=2)
    gates = Gates(*(v.astype(np.float64) for v in (given, seen, np.zeros(24), np.zeros(24))))
    weights = {"weight_ih_l0": given, "weight_hh_l0": seen}
    return [x], weights, gru(x.astype(np.float64), np.zeros((12, 8)), gates)


def enlarged():
    x = normal(5, 8, 6, 6)
    matrix = linear_matrix(6, 12, "half_pixel", antialias=False)
    planes = resized(x.reshape(40, 6, 6).astype(np.float64), matrix, matrix)
    return [x], {}, planes.reshape(5, 8, 12, 12)


def turned():
    x = normal(3, 12, 40, 16)
    turn = np.exp(1j * np.arange(40)[:, None] * frequencies(10000.0, 16))
    pairs = (x[..., :8] + 1j * x[..., 8:]) * turn
    return [x], {}, np.concatenate([pairs.real, pairs.imag], -1)


def difference():
    a, b = normal(60, 60), normal(60, 60, seed=1)
    return [a, b], {}, a - b


def kept():
    x = normal(120, 60)
    return [x], {}, x


# Of every family that samples its output: one element in a place that even samples miss.
LAYERS = {
    "linear": (dense, (101, 7)),
    "matmul": (product, (13, 17, 3)),
    "add": (total, (11, 41)),
    "gelu": (gelu, (11, 41)),
    "softmax": (probabilities, (11, 31)),
    "embedding": (table, (234, 1)),
    "maxpool2d": (pool, (1, 7, 2, 2)),
    "layernorm": (normed, (237, 3)),
    "scaleddotproductattention": (attended, (1, 3, 17, 4)),
    "gru": (remembered, (55, 2, 3)),
    "interpolate": (enlarged, (1, 5, 4, 4)),
    "rotary": (turned, (1, 5, 17, 3)),
    "sub": (difference, (11, 41)),
    "dropout": (kept, (112, 41)),
}


@pytest.fixture
def small_samples(monkeypatch):
    """Samples that small arrays exceed."""
    for module, name, size in (
        (elementwise, "ELEMENTWISE_SAMPLE", 256),
        (activations, "ACTIVATION_SAMPLE", 256),
        (softmaxes, "LAYER_SAMPLE", 800),
        (embedding, "EMBEDDING_IDS", 64),
        (groups, "GROUP_ROWS", 32),
        (elementwise, "LAYER_SAMPLE", 256),
        (dropout, "DROPOUT_SAMPLE", 1 << 11),
    ):
        # Some files take the numbers from their module, others by name.
        monkeypatch.setattr(module if hasattr(module, name) else thresholds, name, size)


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("word", LAYERS)
def test_one_wrong_element_is_never_overlooked(word):
    make, place = LAYERS[word]
    inputs, parameters, made = make()
    right = made.astype(np.float32)
    left = right * (1 + np.float32(2e-8) * normal(*right.shape, seed=9))
    assert recompute(call(word, inputs, parameters, left, right), TYPICAL).outcome == "same"
    left[place] = left[place] * 1.5 + np.abs(right).mean()
    assert recompute(call(word, inputs, parameters, left, right), TYPICAL).outcome != "same"


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    "part",
    [np.s_[:, 7], np.s_[101], np.s_[96:128, 32:64], np.s_[5, 3:40], np.s_[::17, ::19]],
    ids=["channel", "row", "tile", "block", "here and there"],
)
def test_a_local_fault_convicts_the_call(part, side):
    inputs, parameters, right = dense()
    both = [right.copy(), right.copy()]
    both[side][part] *= 1.5
    found = recompute(call("linear", inputs, parameters, *both), TYPICAL)
    assert (found.outcome, found.suspicion) == ("one_side", None)


@pytest.mark.parametrize(
    ("make", "word", "part"),
    [(normed, "layernorm", np.s_[237]), (gelu, "gelu", np.s_[3, 5:40])],
)
def test_a_local_fault_convicts_calls_that_are_no_products(make, word, part):
    inputs, parameters, made = make()
    right = made.astype(np.float32)
    left = right.copy()
    left[part] = 3.0
    found = recompute(call(word, inputs, parameters, left, right), TYPICAL)
    assert (found.outcome, found.suspicion) == ("one_side", None)


def test_a_wrong_input_row_is_carried_by_the_call():
    inputs, parameters, right = dense()
    wrong = inputs[0].copy()
    wrong[101] *= 3
    left = wrong @ parameters["weight"].T
    plain = call("linear", inputs, parameters, left, right)
    given = Call(
        "linear", "", "forward", (tensor(wrong, inputs[0]),), plain.outputs, plain.parameters
    )
    assert recompute(given, TYPICAL).outcome == "same"


def test_a_bias_that_one_side_lacks_is_found_beside_the_loudest_places():
    inputs, parameters, right = dense()
    bias = normal(300, seed=4)
    bias[7] = 40.0
    parameters |= {"bias": bias}
    found = recompute(call("linear", inputs, parameters, right, right + bias), TYPICAL)
    assert found.suspicion is not None
    assert found.suspicion.cause == "bias_missing"


def test_noise_of_which_some_is_loud_on_both_sides_is_no_local_fault():
    inputs, parameters, right = dense()
    both = [right.copy(), right.copy()]
    for seed, one in enumerate(both):
        one[:, 7] *= 1 + 2e-5 * normal(300, seed=seed)
    assert recompute(call("linear", inputs, parameters, *both), TYPICAL).outcome == "same"


@pytest.mark.parametrize("count", [1, 2, 3, 8, 64])
def test_places_hold_the_loudest_and_are_spread_elsewhere(count):
    energy = np.zeros(1000)
    energy[777] = 1.0
    found = places(1000, count, energy)
    assert 777 in found
    assert len(found) <= count
    assert (np.diff(found) > 0).all()
    if count >= 8:
        assert {0, 999} <= set(found.tolist())
        assert np.diff(found).max() < 2000 / (2 * count // 3)


def test_places_are_even_where_nothing_is_louder():
    np.testing.assert_array_equal(places(9, 3, np.zeros(9)), [0, 4, 8])
    np.testing.assert_array_equal(places(9, 3), [0, 4, 8])
    np.testing.assert_array_equal(places(3, 8, np.ones(3)), [0, 1, 2])


def test_a_single_element_stands_out_among_long_noisy_rows():
    right = normal(64, 4096)
    left = right + 1e-3 * normal(64, 4096, seed=1)
    left[40, 9] += 1e-2
    both = operands(call("linear", [right], {}, left, right))
    assert both is not None
    assert int(np.argmax(energies(both[0].distance4, right.shape, 0))) == 40
    assert int(np.argmax(energies(both[0].distance4, right.shape, 1))) == 9


def test_distances_that_are_no_numbers_count_as_none():
    right = normal(4, 8)
    left = right.copy()
    left[0, 0], left[1, 1], left[2, 2] = np.nan, np.inf, 9.0
    both = operands(call("linear", [right], {}, left, right))
    assert both is not None
    assert np.flatnonzero(both[0].distance4).tolist() == [18]
    assert both[1].distance4 is both[0].distance4


@pytest.mark.parametrize("dtype", [bool, np.int64, np.float16, np.complex64])
def test_values_of_every_kind_have_a_distance(dtype):
    left, right = np.array([1, 0, 1], dtype), np.array([1, 1, 1], dtype)
    for one, other in ((left, right), (left[1], right[1])):
        both = operands(call("linear", [right], {}, np.asarray(one), np.asarray(other)))
        assert both is not None
        assert np.asarray(both[0].distance4).max() == 1.0


def test_other_shapes_and_equal_values_have_no_distance():
    x = normal(4, 8)
    plain = call("linear", [x], {}, x, x)
    other = tensor(x, x)
    other = replace(other, sources=(other.sources[0], ArrayInMemory(x[:2])))
    for one in (plain, replace(plain, outputs=(other,))):
        both = operands(one)
        assert both is not None
        assert both[0].distance4 is None


def test_a_part_stands_for_the_whole_unless_the_sides_are_further_apart_elsewhere():
    distance4 = np.ones((8, 4), np.float32)
    assert is_seen(distance4, (slice(2),))
    assert is_seen(None, (slice(2),))
    distance4[6] = 100.0
    assert not is_seen(distance4, (slice(2),))
