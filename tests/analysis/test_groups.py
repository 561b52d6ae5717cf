"""Groups of layers that compute the same in another way are one pair."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from troubleshooter_nb import compare, record, save_dump


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def folded(*, is_folded: bool, calls: bool, factor: float = 1.0) -> dict[str, np.ndarray]:
    """What a dense layer, a norm of fixed statistics and an activation give, or the first two."""
    x, w, b = draw(16, 6), draw(6, 5, seed=1), draw(5, seed=2)
    mean, scale = draw(5, seed=3), np.abs(draw(5, seed=4)) + np.float32(0.5)
    dense = x @ w + b
    normed = (dense - mean) * scale
    act = np.maximum(normed, 0) * np.float32(factor)
    if is_folded:
        dense = (x @ (w * scale) + (b - mean) * scale).astype(np.float32)
        rows = [("fc", x, dense), ("act", dense, np.maximum(dense, 0))]
    else:
        rows = [("fc", x, dense), ("bn", dense, normed), ("act", normed, act)]
    if not calls:
        return {name: out for name, _, out in rows}
    return {f"{name}.{way}": v for name, *vs in rows for way, v in zip(("input", "output"), vs)}  # noqa: B905


@pytest.mark.parametrize("calls", [True, False])
@pytest.mark.parametrize("turned", [False, True])
def test_a_norm_folded_into_the_layer_before_it_is_one_pair_with_both(tmp_path, calls, turned):
    sides = []
    for name, is_folded in (("folded", True), ("plain", False)):
        save_dump(folded(is_folded=is_folded, calls=calls), tmp_path / name)
        sides.append(tmp_path / name)
    found = compare(*(sides[::-1] if turned else sides))
    assert found.passed
    assert found.exit_code == 0
    columns = found.pairing.columns
    by_values = np.flatnonzero(columns["method"] == "values")
    names = {columns[side][by_values[0]].split("_float")[0] for side in ("left", "right")}
    assert names == ({"fc.output", "bn.output"} if calls else {"fc", "bn"})


def test_behind_a_folded_norm_a_difference_is_found_where_it_is(tmp_path):
    save_dump(folded(is_folded=True, calls=True), tmp_path / "left")
    save_dump(folded(is_folded=False, calls=True, factor=1.1), tmp_path / "right")
    found = compare(tmp_path / "left", tmp_path / "right")
    row = found.first_divergence.row
    assert str(row["left_display"].values).startswith("act.output")
    assert row["origin"].values == "created"


@pytest.mark.torch
def test_a_recorded_norm_folded_into_a_convolution():
    import torch

    torch.manual_seed(0)
    conv, bn = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)
    bn.running_mean.normal_()
    bn.running_var.uniform_(0.5, 2)
    plain = torch.nn.Sequential(conv, bn, torch.nn.ReLU()).eval()
    fused = torch.nn.utils.fuse_conv_bn_eval(conv.eval(), bn)
    other = torch.nn.Sequential()
    other.add_module("0", fused)
    other.add_module("2", torch.nn.ReLU())
    x = torch.tensor(draw(2, 3, 8, 8, seed=7))
    dumps = []
    for net in (other.eval(), plain):
        with record(net) as recording:
            net(x)
        dumps.append(recording.dump)
    found = compare(*dumps)
    columns = found.columns
    outputs = np.flatnonzero((columns["role"] == "output") & (columns["verdict"] != "missing"))
    assert columns["passed"][outputs].all()
    missing = columns["verdict"] == "missing"
    assert columns["passed"][missing].all()


def attention(*, is_joined: bool, wrong: bool = False) -> dict[str, np.ndarray]:
    """Projections of queries, keys and values with their parameters, and what comes of them."""
    x = draw(10, 8)
    weights = {name: draw(8, 8, seed=k + 1) for k, name in enumerate("qkv")}
    biases = {name: draw(8, seed=k + 11) for k, name in enumerate("qkv")}
    parts = {name: x @ weights[name].T + biases[name] for name in "qkv"}
    if wrong:
        parts["k"] = parts["k"] * np.float32(1.2)
    out = np.tanh(parts["q"] + parts["k"]) * parts["v"]
    if not is_joined:
        found = {f"{name}.weight": value for name, value in weights.items()}
        found |= {f"{name}.bias": value for name, value in biases.items()}
        return found | {f"{name}_out": value for name, value in parts.items()} | {"mixed": out}
    return {
        "qkv.weight": np.concatenate([*weights.values()]),
        "qkv.bias": np.concatenate([*biases.values()]),
        "qkv_out": np.concatenate([*parts.values()], -1),
        "mixed": out,
    }


@pytest.mark.parametrize("turned", [False, True])
def test_queries_keys_and_values_in_one_tensor_need_no_partner(tmp_path: Path, turned):
    save_dump(attention(is_joined=True), tmp_path / "joined")
    save_dump(attention(is_joined=False), tmp_path / "apart")
    sides = [tmp_path / "joined", tmp_path / "apart"]
    found = compare(*(sides[::-1] if turned else sides))
    assert found.passed
    assert found.exit_code == 0
    notes = " ".join(map(str, found.pairing.columns["note"].tolist()))
    assert "behind each other" in notes
    assert "a part of qkv_out" in notes


def test_a_joined_tensor_of_other_values_is_not_taken_for_the_same(tmp_path):
    save_dump(attention(is_joined=True, wrong=True), tmp_path / "joined")
    save_dump(attention(is_joined=False), tmp_path / "apart")
    found = compare(tmp_path / "joined", tmp_path / "apart")
    assert not found.passed
    assert "mixed" in str(found.first_divergence.row["left_display"].values)
