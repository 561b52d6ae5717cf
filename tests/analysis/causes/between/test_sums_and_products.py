import numpy as np
import pytest

from troubleshooter_nb.analysis.causes.between.attention_between import attention_fits
from troubleshooter_nb.analysis.causes.between.attention_scores import score_fits
from troubleshooter_nb.analysis.causes.between.earlier_values import EarlierValues, Source
from troubleshooter_nb.analysis.causes.between.rotary_angles import angle_fits
from troubleshooter_nb.analysis.causes.between.sums_and_products import term_fits

FLOOR = 2.0**-23


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def side_of(target, masks=(), word="", **sources):
    named = tuple(Source(name, n, "linear", v) for n, (name, v) in enumerate(sources.items()))
    hidden = tuple(Source(f"mask {n}", n, "", v) for n, v in enumerate(masks))
    return EarlierValues(target, named, hidden, FLOOR, FLOOR / 2, word)


def softmax(x, axis=-1):
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def attention(packed, heads, scale, causal=True, inside=False, axis=-1, shared=lambda s: s):
    """Written out over a packed projection (items, rows, 3 * width)."""
    items, rows, width = packed.shape
    axes = (heads, 3) if inside else (3, heads)
    laid = packed.reshape(items, rows, *axes, width // (3 * heads)).astype(np.float64)
    q, k, v = laid.transpose((3, 0, 2, 1, 4) if inside else (2, 0, 3, 1, 4))
    scores = scale * (q @ k.swapaxes(-1, -2))
    if causal:
        scores = np.where(np.tril(np.ones((rows, rows), bool)), scores, -1e4)
    mixed = shared(softmax(shared(scores), axis)) @ v
    return mixed.swapaxes(1, 2).reshape(items, rows, -1).astype(np.float32)


def test_the_two_terms_of_a_residual_are_told():
    x, y, other = normal(2, 5, 16), normal(2, 5, 16, seed=1), normal(2, 5, 16, seed=2)
    best = term_fits(side_of(x + y, x=x, other=other, y=y))[0]
    assert best.settings["sources"] == ("x", "y")
    assert best.settings["first_factor"] == best.settings["second_factor"] == 1.0


def test_a_sum_of_nothing_that_is_known_has_no_fit():
    assert term_fits(side_of(normal(2, 5, 16), x=normal(2, 5, 16, seed=1))) == []


def test_a_factor_is_the_root_of_the_width():
    x = normal(2, 5, 16)
    assert term_fits(side_of(x * np.float32(4.0), x=x))[0].settings["factor"] == 4.0


@pytest.mark.parametrize(("axes", "order"), [((0, 1, 2, 3), "first"), ((0, 2, 3, 1), "last")])
def test_the_order_of_flattened_features_is_told(axes, order):
    x = normal(3, 6, 2, 2)
    best = term_fits(side_of(x.transpose(axes).reshape(3, -1), x=x))[0]
    assert best.settings["orders"] == (f"channels {order}",)


def test_the_gate_of_a_packed_product_is_told():
    x = normal(2, 5, 32)
    best = term_fits(side_of(x[..., 16:], packed=x))[0]
    assert best.settings["orders"] == ("part 1 of 2",)


@pytest.mark.parametrize("scale", [0.5, 1.0, 0.25])
def test_the_scale_of_attention_is_told(scale):
    packed = normal(2, 10, 96)
    best = attention_fits(side_of(attention(packed, 2, scale), packed=packed))[0]
    assert best.residual < 1e-6
    assert best.settings["scale"] == pytest.approx(scale, rel=1e-4)
    assert best.settings["causal"]


def test_attention_without_a_mask_is_told():
    packed = normal(2, 10, 96)
    best = attention_fits(side_of(attention(packed, 2, 0.25, causal=False), packed=packed))[0]
    assert best.settings["causal"] is False


@pytest.mark.parametrize(("inside", "word"), [(True, "heads of parts"), (False, "parts of heads")])
def test_the_packing_of_a_projection_is_told(inside, word):
    packed = normal(2, 10, 96)
    target = attention(packed, 2, 0.25, inside=inside)
    best = attention_fits(side_of(target, packed=packed))[0]
    assert best.settings["packing"] == f"{word}, qkv"
    assert best.settings["heads"] == 2


def test_scores_say_the_mask_and_its_value():
    earlier = normal(2, 2, 8, 8)
    masked = np.where(np.tril(np.ones((8, 8), bool)), earlier * np.float32(0.5), -1e4)
    best = score_fits(side_of(masked.astype(np.float32), word="softmax", earlier=earlier))[0]
    assert best.settings["mask"] == "causal"
    assert best.settings["mask_value"] == "-1e+04"
    assert best.settings["scale"] == 0.5


def test_the_base_of_angles_is_told():
    rates = np.float32(5e5) ** (-np.arange(0, 16, 2, dtype=np.float32) / 16)
    target = np.outer(np.arange(3, 13, dtype=np.float32), rates).astype(np.float32)
    best = angle_fits(side_of(target))[0]
    assert best.settings["theta"] == pytest.approx(5e5, rel=1e-4)
    assert best.settings["position_offset"] == 3


@pytest.mark.parametrize(("axis", "name"), [(-1, "keys"), (-2, "queries"), (-3, "heads")])
@pytest.mark.parametrize("causal", [True, False])
def test_the_axis_of_the_softmax_is_told(axis, name, causal):
    packed = normal(2, 11, 96)
    target = attention(packed, 4, 8**-0.5, causal, axis=axis)
    best = attention_fits(side_of(target, qkv=packed))[0]
    assert best.settings["axis"] == name
    assert best.settings["causal"] is causal
    assert best.residual < FLOOR


def test_attention_with_nothing_of_its_sources_has_no_axis():
    assert not any(
        fit.residual < 0.1
        for fit in attention_fits(side_of(normal(2, 11, 32, seed=1), qkv=normal(2, 11, 96)))
    )


def to_bfloat16(x):
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("seed", range(4))
def test_a_softmax_in_bfloat16_is_told_from_another_scale(seed):
    packed = normal(2, 13, 96, seed=seed)
    target = attention(packed, 4, 8**-0.5, shared=to_bfloat16)
    best = attention_fits(side_of(target, qkv=packed))[0].settings
    assert (best["score_dtype"], best["probability_dtype"]) == ("bfloat16", "bfloat16")
    assert best["scale"] == pytest.approx(8**-0.5)


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("beside", [True, False])
def test_halves_of_heads_and_pairs_in_heads_are_told(part, beside):
    x = normal(2, 7, 32)
    heads = x.reshape(2, 7, 4, 8).swapaxes(1, 2)
    target = heads[..., part::2] if beside else heads[..., 4 * part : 4 * part + 4]
    best = term_fits(side_of(np.ascontiguousarray(target), x=x))[0]
    word = f"heads, every 2 from {part}" if beside else f"heads, part {part} of 2"
    assert best.settings["orders"] == (word,)


@pytest.mark.parametrize("cap", [2.0, 30.0, 87.5])
def test_the_soft_cap_of_scores_is_fitted(cap):
    earlier = 3 * normal(2, 2, 8, 8)
    bent = (cap * np.tanh(earlier / np.float32(cap))).astype(np.float32)
    best = score_fits(side_of(bent, word="maskedfill", earlier=earlier))[0]
    assert best.settings["softcap"] == pytest.approx(cap, rel=0.01)
    assert best.residual < 4 * FLOOR


def test_a_factor_without_a_name_is_as_exact_as_the_values():
    earlier = normal(2, 2, 9, 9)
    target = earlier * np.float32(1 / np.sqrt(13.0))
    for fits in (term_fits, score_fits):
        best = fits(side_of(target, word="mul", earlier=earlier))[0]
        assert best.residual < FLOOR
