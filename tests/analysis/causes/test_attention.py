import numpy as np
import pytest

from tests.analysis.causes.decided import Tried, cause
from troubleshooter_nb.analysis.causes.case import Operands
from troubleshooter_nb.analysis.causes.layers import FITTERS
from troubleshooter_nb.analysis.causes.searches.attention import fit_attention, fit_attention_module

ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def side(inputs, output, parameters=None, dtype="float32"):
    return Operands(inputs, parameters or {}, output, ROUNDOFF[dtype])


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


Q, K, V = normal(2, 4, 40, 32), normal(2, 4, 40, 32, seed=1), normal(2, 4, 40, 32, seed=2)
MASK = np.random.default_rng(3).random((2, 1, 40, 40)) < 0.7


def attend(q=Q, k=K, v=V, *, scale=32**-0.5, added=0.0, cap=None):
    scores = (q @ k.swapaxes(-1, -2) * np.float32(scale)).astype(np.float32)
    scores = scores if cap is None else cap * np.tanh(scores / cap)
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores + added - (scores + added).max(axis=-1, keepdims=True))
    return (powers / powers.sum(axis=-1, keepdims=True) @ v).astype(np.float32)


def best_of(inputs, output, dtype="float32"):
    best = fit_attention(side(inputs, output, dtype=dtype))[0]
    assert best.residual < 2e-6 or dtype != "float32"
    return best.settings


HIDDEN = np.where(MASK, 0.0, -np.inf).astype(np.float32)
CAUSAL = np.where(np.tril(np.ones((40, 40))), 0.0, -np.inf)


@pytest.mark.parametrize(
    ("scale", "name"),
    [(32**-0.5, "1/sqrt(32)"), (1 / 32, "1/32"), (1.0, "1"), (0.2345, "")],
)
def test_scales_are_found(scale, name):
    found = best_of([Q, K, V], attend(scale=scale))
    assert found["scale"] == pytest.approx(scale, rel=1e-3)
    assert found["scale_name"] == name
    assert (found["causal"], found["softcap"]) == (False, "none")


def test_causal_masks_given_or_meant_are_one():
    assert best_of([Q, K, V], attend(added=CAUSAL))["causal"] is True
    fits = fit_attention(side([Q, K, V, CAUSAL[None, None]], attend(added=CAUSAL)))
    good = [fit.settings for fit in fits if fit.residual < 2e-6]
    assert {(said["mask"], said["causal"]) for said in good} == {("used", False), ("ignored", True)}


@pytest.mark.parametrize(
    ("mask", "added", "expected"),
    [
        (MASK, HIDDEN, ("used", "true is kept")),
        (~MASK, HIDDEN, ("used", "true is dropped")),
        (HIDDEN, HIDDEN, ("used", "added")),
        (MASK, 0.0, ("ignored", None)),
        (np.zeros_like(HIDDEN), 0.0, ("ignored", None)),
    ],
)
def test_the_use_of_the_mask_is_found(mask, added, expected):
    found = best_of([Q, K, V, mask], attend(added=added))
    assert (found["mask"], found.get("mask_meaning")) == expected


def test_a_transposed_mask_is_seen():
    found = best_of([Q, K, V, MASK], attend(added=HIDDEN.swapaxes(-1, -2)))
    assert found["mask_form"] == "transposed"


@pytest.mark.parametrize(
    ("written", "said"),
    [(np.nan, "nan"), (0.0, "zero"), ("mean", "uniform"), ("plain", "as if unmasked")],
)
def test_rows_without_keys_say_what_they_hold(written, said):
    mask = MASK.copy()
    mask[:, :, 5] = False
    output = attend(added=np.where(mask, 0.0, -np.inf))
    rows = {"mean": V.mean(axis=2), "plain": attend()[:, :, 5]}
    output[:, :, 5] = rows.get(written, written)
    assert best_of([Q, K, V, mask], output)["fully_masked"] == said


@pytest.mark.parametrize("cap", [20.0, 50.0])
def test_soft_caps_are_found(cap):
    found = best_of([4 * Q, 4 * K, V], attend(4 * Q, 4 * K, cap=cap))
    assert found["softcap"] == cap
    assert found["scale_name"] == "1/sqrt(32)"


@pytest.mark.parametrize(
    ("spread", "said"),
    [
        (lambda x: np.repeat(x, 2, axis=1), "neighbours share one"),
        (lambda x: np.tile(x, (1, 2, 1, 1)), "taken in turn"),
    ],
)
def test_shared_heads_are_found(spread, said):
    k, v = K[:, :2], V[:, :2]
    assert best_of([Q, k, v], attend(Q, spread(k), spread(v)))["kv_heads"] == said


def test_other_layouts_are_found():
    turned = [values.swapaxes(1, 2) for values in (Q, K, V, attend())]
    assert best_of(turned[:3], turned[3])["layout"] == "rows first"


def banded(width, is_causal, keys=40):
    apart = np.arange(keys)[:, None] - np.arange(keys)
    seen = (apart < width) & ((apart >= 0) if is_causal else (apart > -width))
    return np.where(seen, 0.0, -np.inf).astype(np.float32)


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("width", [1, 2, 7, 8, 30])
def test_windows_are_found(width, is_causal):
    found = best_of([Q, K, V], attend(added=banded(width, is_causal)))
    is_seen = width > 1  # of one key nothing tells which others would be seen
    assert (found["window"], found["scale_name"] if is_seen else "") == (
        width,
        "1/sqrt(32)" if is_seen else "",
    )
    assert found["causal"] is is_causal or not is_seen


def test_a_window_beside_a_mask_and_in_short_formats_is_found():
    own = np.eye(40, dtype=bool)  # every query sees its own key
    hidden = np.where(MASK | own, 0.0, -1e9).astype(np.float32)
    found = best_of([Q, K, V, hidden], attend(added=np.maximum(banded(9, True), -1e9) + hidden))
    assert (found["window"], found["mask"]) == (9, "used")
    short = [values.astype(np.float16) for values in (Q, K, V)]
    output = attend(*[one.astype(np.float32) for one in short], added=banded(9, True))
    assert best_of(short, output.astype(np.float16), "float16")["window"] == 9


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ((5, True), (40, True), "attention_window"),
        ((5, True), (6, True), "attention_window"),
        ((5, False), (6, False), "attention_window"),
        ((40, True), (40, False), "mask_missing"),
        ((6, True), (6, True), None),
    ],
)
def test_other_windows_are_told(ours, theirs, expected):
    assert cause(*(tried(attend(added=banded(*one))) for one in (ours, theirs))) == expected
    assert cause(*(tried(attend(added=banded(*one))) for one in (theirs, ours))) == expected


def tried(output):
    return Tried(FITTERS, "scaleddotproductattention", side([Q, K, V], output))


def dropped(p, seed=0, *, added=CAUSAL, is_scaled=True):
    scores = Q @ K.swapaxes(-1, -2) * np.float32(32**-0.5) + added
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares = powers / powers.sum(axis=-1, keepdims=True)
    kept = np.random.default_rng(seed).random(shares.shape) >= p
    shares = shares * kept / np.float32(1 - p if is_scaled else 1)
    return (shares @ V).astype(np.float32)


@pytest.mark.parametrize("p", [0.1, 0.25, 0.5])
def test_dropout_of_shares_is_found(p):
    found = best_of([Q, K, V], dropped(p))
    assert (found["drops"], found["causal"]) == ("dropout", True)
    assert found["drop_share"] == pytest.approx(p, abs=1e-3)
    assert found["kept_times"] == pytest.approx(1 / (1 - p), rel=1e-4)
    assert best_of([Q, K, V], dropped(p, is_scaled=False))["kept_times"] == 1.0


def test_dropout_against_none_and_other_rates_are_told():
    plain = tried(attend(added=CAUSAL))
    assert cause(tried(dropped(0.1)), plain) == "eval_train_mode"
    assert cause(plain, tried(dropped(0.3))) == "eval_train_mode"
    assert cause(tried(dropped(0.1)), tried(dropped(0.3))) == "dropout_keep_prob"


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_torchs_fused_attention_is_the_standard_one(dtype):
    import torch

    arrays = [torch.tensor(values).to(getattr(torch, dtype)) for values in (Q, K, V)]
    output = torch.nn.functional.scaled_dot_product_attention(*arrays, is_causal=True)
    found = best_of([a.float().numpy() for a in arrays], output.float().numpy(), dtype)
    assert (found["scale_name"], found["causal"]) == ("1/sqrt(32)", True)


@pytest.mark.torch
def test_scores_and_probabilities_in_bfloat16_are_seen():
    import torch

    q, k, v = (torch.tensor(values).bfloat16() for values in (Q, K, V))
    shares = ((q @ k.mT).float() / 32**0.5).softmax(-1).bfloat16()
    inputs = [values.float().numpy() for values in (q, k, v)]
    found = best_of(inputs, (shares @ v).float().numpy(), "bfloat16")
    assert (found["score_dtype"], found["probability_dtype"]) == ("bfloat16", "bfloat16")


@pytest.mark.torch
@pytest.mark.parametrize("first", [True, False])
def test_a_whole_module_is_taken_apart_where_its_parameters_are_known(first):
    import torch

    torch.manual_seed(0)

    layer = torch.nn.MultiheadAttention(32, 4, batch_first=first)
    x = torch.randn(3, 20, 32)
    output = layer(x, x, x)[0].detach().numpy()
    known = {name: value.detach().numpy() for name, value in layer.named_parameters()}
    fits = fit_attention_module(side([x.numpy()] * 3, output, known))
    assert fits[0].settings["heads"] == 4
    assert fits[0].settings["layout"] == ("items first" if first else "rows first")
    assert fit_attention_module(side([x.numpy()] * 3, output)) == []


def test_unrelated_values_fit_nothing():
    assert fit_attention(side([Q, K, V], normal(2, 4, 40, 32, seed=7))) == []
    assert fit_attention(side([Q, K, None], attend())) == []
    assert fit_attention(side([Q, K, V], np.zeros_like(Q))) == []


def test_a_module_that_gives_nothing_but_zeros_is_no_error():
    parameters = {"in_proj_weight": normal(48, 16), "out_proj.weight": np.eye(16)}
    x, output = normal(2, 5, 16), np.zeros((2, 5, 16), np.float32)
    for fit in fit_attention_module(side([x], output, parameters)):
        assert not fit.residual <= 1e-3


def test_other_heads_are_told_before_the_scale_that_follows_from_them():
    import troubleshooter_nb as tnb

    random = np.random.default_rng(0)
    x, packed, last = random.normal(size=(2, 5, 16)), random.normal(size=(48, 16)), np.eye(16)

    def made(heads):
        q, k, v = (
            np.split(x @ packed.T / 4, 3, -1)[n].reshape(2, 5, heads, -1).swapaxes(1, 2)
            for n in range(3)
        )
        mixed = attend(q, k, v, scale=(16 / heads) ** -0.5)
        return mixed.swapaxes(1, 2).reshape(2, 5, 16)

    sides = [
        {
            "att.input": x,
            "att.output": made(heads),
            "att.in_proj_weight": packed / 4,
            "att.out_proj.weight": last,
        }
        for heads in (2, 4)
    ]
    sides = [{name: one.astype(np.float32) for name, one in side.items()} for side in sides]
    found = tnb.compare(*sides, progress=False)
    assert [one.cause for one in found.findings] == ["argument_order"]
    assert "2" in str(found.explain())
