"""Weights that the target holds as one of several of the source, proved by the values."""

from __future__ import annotations

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.convert.merged import batch_norms


def drawn(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype("f4")


def beside():
    return {f"blocks.{k}.fc.weight": drawn(90 + k, 12, 10 + k) for k in range(4)}


def batch_norm(name, seed, count):
    return {
        f"{name}.weight": 1 + 0.3 * drawn(seed, count),
        f"{name}.bias": drawn(seed + 1, count),
        f"{name}.running_mean": drawn(seed + 2, count),
        f"{name}.running_var": np.abs(drawn(seed + 3, count)) + np.float32(0.1),
    }


def folded(weight, norm, eps, bias=0.0):
    gamma, beta, mean, variance = (one.astype("f8") for one in norm.values())
    factor = gamma / np.sqrt(variance + eps)
    made = weight * factor.reshape(-1, *[1] * (weight.ndim - 1))
    return made.astype("f4"), (beta + (bias - mean) * factor).astype("f4")


def test_the_counter_of_a_folded_batch_norm_is_dropped(tmp_path):
    weight, norm = drawn(0, 8, 4, 3, 3), batch_norm("bn", 10, 8)
    made, shift = folded(weight, norm, 1e-5)
    counter = {"bn.num_batches_tracked": np.array(7)}
    drafted = tnb.draft_weight_map(
        {**beside(), "conv.weight": weight, **norm, **counter},
        {**beside(), "conv.weight": made, "conv.bias": shift},
    ).accept()
    assert drafted.doubts() == []
    source = {**beside(), "conv.weight": weight, **norm, **counter}
    proof = tnb.convert_weights(source, tmp_path / "out.pth", drafted)
    assert proof.passed
    assert any("bn.num_batches_tracked" in note for note in proof.notes)  # dropped, and said


@pytest.mark.parametrize("eps", [1e-5, 1e-3])
@pytest.mark.parametrize("with_bias", [False, True])
def test_a_folded_batch_norm_is_found_suggested_and_converted(eps, with_bias, tmp_path):
    weight, norm = drawn(0, 8, 4, 3, 3), batch_norm("layers.0.bn1", 10, 8)
    other = batch_norm("layers.0.bn2", 20, 8)
    bias = drawn(5, 8) if with_bias else 0.0
    source = {**beside(), "layers.0.conv1.weight": weight, **norm, **other}
    source |= {"layers.0.conv1.bias": bias} if with_bias else {}
    made, shift = folded(weight, norm, eps, bias)
    target = {**beside(), "layers.0.conv1.weight": made, "layers.0.conv1.bias": shift, **other}
    drafted = tnb.draft_weight_map(source, target)
    (suggested,) = drafted.suggestions
    assert str(suggested.transform) == f"fold_batch_norm({eps})"
    assert suggested.sources[1:5] == tuple(norm)
    assert suggested.targets == ("layers.0.conv1.weight", "layers.0.conv1.bias")
    assert "folds a BatchNorm" in drafted["layers.0.conv1.weight"].note
    assert [said.id for said in drafted.doubts()] != []
    accepted = drafted.accept()
    assert accepted.doubts() == []
    proof = tnb.convert_weights(source, tmp_path / "out.safetensors", accepted)
    assert proof.passed
    assert tnb.compare(tmp_path / "out.safetensors", target, rtol=1e-5, atol=1e-6).passed


@pytest.mark.parametrize("factor", [2.0, 0.25, 1.0])
@pytest.mark.parametrize(
    "names", [("q.lora_A.weight", "q.lora_B.weight"), ("one.down", "another.up")]
)
def test_merged_factors_are_found_suggested_and_converted(factor, names, tmp_path):
    weight, down, up = drawn(0, 16, 12), drawn(1, 2, 12), drawn(2, 16, 2)
    source = {**beside(), "q.weight": weight, names[0]: down, names[1]: up}
    source["q2.lora_A.weight"] = drawn(3, 2, 12)
    merged = (weight + factor * (up.astype("f8") @ down)).astype("f4")
    drafted = tnb.draft_weight_map(source, {**beside(), "q.weight": merged})
    (suggested,) = drafted.suggestions
    assert suggested.sources == ("q.weight", *names)
    assert str(suggested.transform) == f"lora({factor})"
    assert not any("correlated" in note or "unrelated" in note for note in drafted.notes)
    accepted = drafted.accept()
    assert accepted.unmatched_sources == ["q2.lora_A.weight"]
    assert "1 tensor of the source" in accepted.doubts()[0]
    accepted = accepted.drop(*accepted.unmatched_sources)
    assert accepted.doubts() == []
    proof = tnb.convert_weights(source, tmp_path / "out.ckpt", accepted)
    assert proof.passed
    np.testing.assert_allclose(tnb.open_dump(tmp_path / "out.ckpt")["q.weight"].load(), merged)


def test_what_only_looks_like_it_is_not_claimed():
    weight, norm = drawn(0, 8, 4, 3, 3), batch_norm("bn", 10, 8)
    made, shift = folded(weight, norm, 1e-5)
    for spoilt in (made + 1e-2 * drawn(7, 8, 4, 3, 3), made[::-1].copy()):
        target = {**beside(), "conv.weight": spoilt, "conv.bias": shift}
        drafted = tnb.draft_weight_map({**beside(), "conv.weight": weight, **norm}, target)
        assert not any("fold" in str(row.transform) for row in drafted.suggestions)
    target = {**beside(), "conv.weight": made, "conv.bias": shift + 1}
    drafted = tnb.draft_weight_map({**beside(), "conv.weight": weight, **norm}, target)
    assert not any("fold" in str(row.transform) for row in drafted.suggestions)
    source = {**beside(), "q.weight": drawn(0, 16, 12), "a": drawn(1, 2, 12), "b": drawn(2, 16, 2)}
    tuned = {**beside(), "q.weight": source["q.weight"] + drawn(8, 16, 2) @ source["a"]}
    assert tnb.draft_weight_map(source, tuned).suggestions == ()


def test_batch_norms_are_known_by_four_names_of_either_framework():
    names = [*batch_norm("a.bn", 0, 2), "b.gamma", "b.beta", "b.moving_mean", "b.moving_variance"]
    names += ["c.weight", "c.bias", "weight", "bias", "running_mean", "running_var"]
    assert [norm.gamma for norm in batch_norms(names)] == ["a.bn.weight", "b.gamma", "weight"]
