import ml_dtypes
import numpy as np
import pytest

from troubleshooter_nb.dump import ArrayInMemory
from troubleshooter_nb.metrics.fingerprints import candidates, fingerprint, fingerprint_of


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


LAYERS = {f"layers.{i}.weight": normal(24, 16, seed=i) for i in range(40)}
LEFT = {name: fingerprint(values) for name, values in LAYERS.items()}


def found(right, **options):
    """Left name of the best candidate of each right one."""
    pairs = candidates(LEFT, {name: fingerprint(v) for name, v in right.items()}, **options)
    best = {}
    for left, name, _ in pairs:
        best.setdefault(name, left)
    return best


def test_layers_loaded_in_text_order_are_found_under_their_true_names():
    names = sorted(LAYERS)
    right = {f"h.{i}": LAYERS[name] for i, name in enumerate(names)}
    assert found(right) == {f"h.{i}": name for i, name in enumerate(names)}


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values.T,
        lambda values: values[::-1],
        lambda values: np.random.default_rng(1).permutation(values, axis=1),
        lambda values: values + np.float32(1e-3) * normal(24, 16, seed=99),
        lambda values: values.astype(ml_dtypes.bfloat16),
        lambda values: values.reshape(2, 12, 4, 4),
    ],
    ids=["transposed", "flipped", "permuted", "noisy", "bfloat16", "reshaped"],
)
def test_a_changed_layer_still_has_its_source_first(change):
    right = {f"new {name}": change(values) for name, values in LAYERS.items()}
    assert found(right) == {f"new {name}": name for name in LAYERS}


def test_unrelated_other_sized_and_constant_tensors_have_no_candidate():
    unrelated = {"a": normal(24, 16, seed=1000), "b": normal(24, 17), "c": np.zeros((24, 16))}
    # Only by the sample: two unrelated draws may agree in mean and extremes to 1 per cent.
    assert found(unrelated, tolerance=1e-4) == {}
    assert candidates({}, LEFT) == []
    zeros = {"zeros": fingerprint(np.zeros(4))}
    assert candidates(zeros, zeros) == []


def test_candidates_are_limited_and_sorted_by_distance():
    near = {"near": fingerprint(LAYERS["layers.3.weight"])}
    pairs = candidates(LEFT, near, tolerance=10.0, limit=5)
    assert len(pairs) == 5
    assert pairs[0] == ("layers.3.weight", "near", 0.0)
    assert [d for _, _, d in pairs] == sorted(d for _, _, d in pairs)


def test_figures_by_hand():
    got = fingerprint(np.array([[3.0, -1.0], [3.0, -1.0]], np.float16))
    assert got.shape == (2, 2)
    assert got.size == 4
    assert got.norm == pytest.approx(20**0.5)
    # mean, deviation, skewness, kurtosis, smallest, largest
    assert got.invariants == pytest.approx((1.0, 2.0, 0.0, 1.0, -1.0, 3.0))
    assert got.sample == (3.0, -1.0, 3.0, -1.0)


@pytest.mark.parametrize(
    "values",
    [
        np.zeros((0, 3)),
        np.float32(2.0),
        np.array([True, False]),
        np.array([1, 2, 3], np.int8),
        np.array([1 + 2j, 3 - 1j]),
        np.array([np.nan, np.inf, 1.0]),
        np.array([1e300, -1e300, 1e299]),
    ],
    ids=["empty", "0-d", "bool", "int8", "complex", "not finite", "huge"],
)
def test_any_numbers_have_a_finite_fingerprint(values):
    got = fingerprint(np.asarray(values))
    assert np.isfinite([got.norm, *got.invariants, *got.sample]).all()
    assert got == fingerprint(np.asarray(values).copy())


def test_text_has_no_fingerprint():
    with pytest.raises(ValueError, match="cannot relate values of dtype <U1"):
        fingerprint(np.array(["a"]))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "complex64"])
def test_a_tensor_in_blocks_has_the_fingerprint_of_the_whole(dtype, monkeypatch):
    values = (100 * np.random.default_rng(0).normal(size=(50, 70))).astype(dtype)
    values.reshape(-1)[5] = 0
    whole = fingerprint(values)
    monkeypatch.setattr("troubleshooter_nb.metrics.streamed.SIGNATURES_BLOCK", 512)
    monkeypatch.setattr("troubleshooter_nb.metrics.ranges.LARGEST_HELD", 0)
    parts = fingerprint_of(ArrayInMemory(values))
    assert (parts.shape, parts.sample, parts.digest) == (whole.shape, whole.sample, whole.digest)
    # Sums of other blocks round otherwise.
    assert (parts.norm, *parts.invariants) == pytest.approx((whole.norm, *whole.invariants))
