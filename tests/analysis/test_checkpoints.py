"""Differences of two checkpoints: structure, renames, what training changed, and how much."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from troubleshooter_nb import (
    compare,
    diff_checkpoints,
    export,
    open_dump,
    option_context,
    save_dump,
)
from troubleshooter_nb.analysis import measuring
from troubleshooter_nb.checkpoint_diff import CheckpointDiff
from troubleshooter_nb.columns.checkpoints import DIFF_COLUMNS
from troubleshooter_nb.messages import Message

RNG = np.random.default_rng(0)
TORCH = {
    "conv.weight": RNG.normal(size=(4, 3)).astype("f4"),
    "bn.weight": np.ones(4, "f4"),
    "bn.bias": np.zeros(4, "f4"),
    "bn.running_mean": RNG.normal(size=4).astype("f4"),
    "bn.running_var": np.ones(4, "f4"),
    "bn.num_batches_tracked": np.int64(3),
    "fc.parametrizations.weight.original0": np.ones((2, 1), "f4"),
    "fc.parametrizations.weight.original1": RNG.normal(size=(2, 4)).astype("f4"),
}
SPELLINGS = {
    "bn.weight": "bn.gamma",
    "bn.bias": "bn.beta",
    "bn.running_mean": "bn.moving_mean",
    "bn.running_var": "bn.moving_variance",
    "fc.parametrizations.weight.original0": "fc.weight_g",
    "fc.parametrizations.weight.original1": "fc.weight_v",
}
MINDSPORE = {
    SPELLINGS.get(name, name): array
    for name, array in TORCH.items()
    if not name.endswith("tracked")
}


def files(tmp_path, left, right, suffixes=(".ckpt", ".pth")):
    return [
        save_dump(arrays, tmp_path / f"{side}{suffix}")
        for side, arrays, suffix in zip(("left", "right"), (left, right), suffixes, strict=True)
    ]


def structure(diff: CheckpointDiff) -> dict[str, str]:
    table = diff.to_dataframe()
    names = table["left"].where(table["left"] != "", table["right"])
    return dict(zip(names, table["structure"], strict=True))


def test_the_same_weights_in_both_spellings_are_the_same(tmp_path):
    diff = diff_checkpoints(*files(tmp_path, MINDSPORE, TORCH))
    assert diff.passed
    assert diff.same_structure
    assert diff.changed == []
    assert len(diff.untouched) == 7
    assert diff.relative_change == 0.0
    assert set(structure(diff).values()) == {"same", "renamed", "right_only"}
    row = diff.to_dataframe().query("expected").iloc[0]
    assert (row["right"], row["structure"]) == ("bn.num_batches_tracked", "right_only")
    assert diff.renames() == {
        "gamma -> weight": 1,
        "beta -> bias": 1,
        "moving_mean -> running_mean": 1,
        "moving_variance -> running_var": 1,
        "weight_g -> parametrizations.weight.original0": 1,
        "weight_v -> parametrizations.weight.original1": 1,
    }
    assert "✓ 7 of 7 pairs agree" in repr(diff)
    assert "· all 7 compared tensors are bit-equal" in repr(diff)
    assert "1 alone as expected" in repr(diff)


def test_headers_alone_tell_the_structure(tmp_path, monkeypatch):
    left = MINDSPORE | {
        "conv.weight": np.ones((4, 5), "f4"),
        "bn.gamma": np.ones(4, "f2"),
        "new.weight": np.ones((7, 7, 7), "f4"),
    }
    del left["bn.beta"]
    paths = files(tmp_path, left, TORCH)
    monkeypatch.setattr(measuring, "measure_batch", None)
    diff = diff_checkpoints(*paths, values=False)
    found = structure(diff)
    assert found["conv.weight"] == "shape"
    assert found["bn.gamma"] == "dtype"
    assert found["new.weight"] == "left_only"
    assert found["bn.bias"] == "right_only"
    assert not diff.same_structure
    assert not diff.passed
    assert diff.comparison is None
    assert np.isnan(diff.relative_change)
    text = repr(diff)
    assert "the structure differs" in text
    assert "values were not compared" in text
    assert "conv.weight  4×5 → 4×3" in text
    assert "changed" not in text


def test_a_pair_that_names_do_not_prove_is_a_guess(tmp_path):
    left = {"a.weight": np.ones((2, 3)), "stem.kernel": np.ones((5, 7))}
    right = {"a.weight": np.ones((2, 3)), "other.tensor": np.ones((5, 7))}
    diff = diff_checkpoints(*files(tmp_path, left, right, (".ckpt", ".ckpt")))
    assert structure(diff) == {"a.weight": "same", "stem.kernel": "guessed"}
    assert "1 paired by a guess" in repr(diff)


def trained(rate: float) -> dict[str, np.ndarray]:
    after = {name: array.copy() for name, array in TORCH.items()}
    after["conv.weight"] = TORCH["conv.weight"] + np.float32(rate)
    after["bn.running_mean"] = TORCH["bn.running_mean"] * np.float32(0.5)
    return after


@pytest.mark.parametrize("given", [False, True])
def test_changes_are_measured_by_size_and_by_learning_rate(tmp_path, given):
    rate = 0.125
    after = trained(2 * rate) | ({} if given else {"learning_rate": np.float32(rate)})
    before = TORCH if given else TORCH | {"learning_rate": np.float32(rate)}
    diff = diff_checkpoints(
        *files(tmp_path, after, before, (".pth", ".pth")), learning_rate=rate if given else None
    )
    assert diff.learning_rate == rate
    assert diff.changed == ["conv.weight", "bn.running_mean"]
    assert "bn.num_batches_tracked" in diff.untouched
    blocks = diff.blocks().set_index(["block", "role"])
    conv = blocks.loc[("conv", "parameter")]
    moved, size = np.float64(after["conv.weight"]) - before["conv.weight"], before["conv.weight"]
    # Float32 arithmetic makes the change exact to 1e-6.
    assert conv["relative_change"] == pytest.approx(
        np.linalg.norm(moved) / np.linalg.norm(np.float64(size)), rel=1e-6
    )
    assert conv["rms_per_learning_rate"] == pytest.approx(2.0, rel=1e-6)
    statistics = blocks.loc[("bn", "buffer")]
    assert (statistics["changed"], statistics["untouched"], statistics["tensors"]) == (1, 2, 3)
    assert np.isnan(statistics["rms_per_learning_rate"])
    parameters = [n for n in TORCH if "running" not in n and "tracked" not in n]
    whole = np.sqrt(sum((np.float64(TORCH[n]) ** 2).sum() for n in parameters))
    assert diff.relative_change == pytest.approx(np.linalg.norm(moved) / whole, rel=1e-6)
    assert "learning rate 0.125" in repr(diff)


def test_two_learning_rates_are_no_learning_rate(tmp_path):
    rates = {"learning_rate_0": np.float32(0.1), "learning_rate_1": np.float32(0.2)}
    diff = diff_checkpoints(*files(tmp_path, TORCH | rates, TORCH, (".ckpt", ".ckpt")))
    assert np.isnan(diff.learning_rate)


@pytest.mark.parametrize("rate", [0, -0.1, float("nan"), True, "a"])
def test_what_is_no_learning_rate_is_refused_before_anything_is_read(rate):
    with pytest.raises(ValueError, match="learning_rate must be a number larger than 0"):
        diff_checkpoints("nowhere", "nowhere", learning_rate=rate)


def test_training_state_of_one_side_is_expected(tmp_path):
    state = {"global_step": np.int32(2), "beta1_power": np.float32(0.9)}
    state |= {f"moment1.{name}": np.zeros_like(MINDSPORE[name]) for name in ("conv.weight",)}
    diff = diff_checkpoints(*files(tmp_path, MINDSPORE | state, MINDSPORE, (".ckpt", ".ckpt")))
    assert diff.passed
    alone = diff.to_dataframe().query("structure == 'left_only'")
    assert set(alone["left"]) == set(state)
    assert alone["expected"].all()


def test_an_optimizers_state_is_paired_by_its_parameter_not_with_it(tmp_path):
    shape = (3, 3)
    left = {"a.weight": np.ones(shape), "moment1.a.weight": np.zeros(shape)}
    left |= {"b.weight": np.ones(shape), "moment1.b.weight": np.full(shape, 2.0)}
    right = {name.replace("moment1", "exp_avg"): array for name, array in left.items()}
    diff = diff_checkpoints(*files(tmp_path, left, right, (".ckpt", ".ckpt")))
    assert diff.passed
    assert diff.renames() == {"moment1 -> exp_avg": 2}
    without = {name: array for name, array in right.items() if not name.startswith("exp")}
    without["c.weight"] = without.pop("b.weight")
    diff = diff_checkpoints(*files(tmp_path, left, without, (".ckpt", ".ckpt")))
    pairs = diff.to_dataframe()
    assert pairs.query("left == 'moment1.b.weight'")["right"].item() == ""


@pytest.mark.torch
def test_tied_tensors_are_named(tmp_path):
    import torch

    weight = torch.ones(4, 2)
    torch.save({"embed.weight": weight, "head.weight": weight}, tmp_path / "tied.pth")
    diff = diff_checkpoints(tmp_path / "tied.pth", tmp_path / "tied.pth")
    assert dict(zip(diff.table["left"].values, diff.table["tied_to"].values, strict=True)) == {
        "embed.weight": "",
        "head.weight": "embed.weight",
    }
    assert "tied to another name" in diff._repr_html_()


def test_memory_does_not_grow_with_the_checkpoints(tmp_path):
    arrays = {f"w{i}.weight": np.full(500_000, i + 1.0, np.float32) for i in range(40)}
    paths = files(tmp_path, arrays, arrays, (".ckpt", ".ckpt"))
    del arrays
    diff_checkpoints(*paths)  # imports and caches
    tracemalloc.start()
    diff = diff_checkpoints(*paths, progress=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert diff.passed
    # A few blocks of both sides for each thread; the two files are 160 MB.
    assert peak < 40e6


def test_the_documented_columns_are_the_columns(tmp_path):
    diff = diff_checkpoints(*files(tmp_path, MINDSPORE, TORCH))
    assert list(diff.table.data_vars) == list(DIFF_COLUMNS)
    documented = CheckpointDiff.__doc__
    assert all(name in documented for name in DIFF_COLUMNS)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_reprs_are_bounded_escaped_and_reproducible(tmp_path, language):
    left = {f"layers.{i}.<b>weight</b>": np.full((2, 2), i, "f4") for i in range(600)}
    right = {name: array + 1 for name, array in left.items()}
    paths = files(tmp_path, left, right, (".ckpt", ".ckpt"))
    with option_context(language=language):
        first, second = (diff_checkpoints(*paths, progress=False) for _ in range(2))
        assert first._repr_html_() == second._repr_html_()
        assert len(first._repr_html_()) < 150_000
        assert "<b>weight" not in first._repr_html_()
        assert len(repr(first).splitlines()) <= 25
        assert max(map(len, repr(first).splitlines())) <= 100


@pytest.mark.parametrize("suffix", [".html", ".txt", ".csv", ".json", ".md"])
def test_it_can_be_exported(tmp_path, suffix):
    diff = diff_checkpoints(*files(tmp_path, MINDSPORE, TORCH))
    text = export(diff, tmp_path / f"record{suffix}").read_text("utf-8")
    assert "conv" in text


def test_empty_and_unreadable_tensors_do_not_stop_it(tmp_path):
    left = {"w": np.ones(2), "e": np.zeros((0, 3))}
    right = {"w": np.ones(2), "e": np.zeros((0, 3)), "t": ["text"]}
    diff = diff_checkpoints(left, right | {"x": ["text"]})
    assert structure(diff) == {"w": "same", "e": "same", "t": "right_only", "x": "right_only"}
    assert not diff.passed
    empty = diff_checkpoints({}, {})
    assert len(empty) == 0
    assert "0 of 0 entries paired" in repr(empty)
    assert empty._repr_html_()


W = np.ones((3, 3), "f4")


def test_values_gone_nan_are_a_change_and_not_identical():
    left, right = {"a.weight": W, "b.weight": W * np.nan}, {"a.weight": W, "b.weight": W}
    diff = diff_checkpoints(left, right)
    assert diff.changed == ["b.weight"]
    assert diff.untouched == ["a.weight"]
    blocks = diff.blocks().set_index("block")
    assert (blocks.loc["b", "changed"], blocks.loc["b", "failed"]) == (1, 1)
    assert np.isnan(blocks.loc["b", "relative_change"])
    assert "tensors: 1 changed, 1 untouched" in repr(diff)
    assert "9 NaN not alike on both sides" in repr(diff)
    same = diff_checkpoints(left, left)
    assert same.changed == []
    assert (same.blocks()["changed"] >= 0).all()


def test_what_could_not_be_compared_is_not_called_equal():
    diff = diff_checkpoints({"a.weight": W[:2], "b.weight": W}, {"a.weight": W, "b.weight": W})
    assert "· all 1 compared tensor is bit-equal" in repr(diff)
    assert "✗ 1 of 2 pairs differ" in repr(diff)
    assert "? no tensor could be compared" in repr(diff_checkpoints({"a": W}, {"b": W[:2, 0]}))


def test_integers_do_not_hide_what_parameters_did():
    ids = {"emb.position_ids": np.arange(512)}
    diff = diff_checkpoints({"w.weight": W, **ids}, {"w.weight": 2 * W, **ids})
    assert diff.relative_change == 0.5
    assert diff.to_dataframe().set_index("left").loc["emb.position_ids", "role"] == "buffer"


def test_a_mapping_has_the_roles_of_a_file(tmp_path):
    after = trained(0.25)
    saved = save_dump(after, tmp_path / "after.pth")
    by_file = diff_checkpoints(saved, save_dump(TORCH, tmp_path / "before.pth"), learning_rate=0.5)
    by_mapping = diff_checkpoints(saved, TORCH, learning_rate=0.5)
    assert by_mapping.blocks().equals(by_file.blocks())
    assert by_mapping.relative_change == by_file.relative_change


def test_one_change_in_every_layer_is_one_rename(tmp_path):
    left = {f"enc.layers.{i}.block.weight": W * i for i in range(12)}
    right = {f"layers.{i}.blk.weight": W * i for i in range(12)}
    diff = diff_checkpoints(left, right, values=False)
    assert diff.renames() == {"enc.layers.#.block -> layers.#.blk": 12}


@pytest.mark.torch
def test_a_tie_that_is_broken_on_one_side_is_said(tmp_path):
    import torch

    weight = torch.ones(4, 2)
    torch.save({"embed.weight": weight, "head.weight": weight}, tmp_path / "tied.pth")
    torch.save({"embed.weight": weight, "head.weight": weight.clone()}, tmp_path / "two.pth")
    diff = diff_checkpoints(tmp_path / "tied.pth", tmp_path / "two.pth")
    assert diff.notes == ("tied on the left only: embed.weight, head.weight",)
    assert diff_checkpoints(tmp_path / "tied.pth", tmp_path / "tied.pth").notes == ()


def test_the_largest_values_warn_of_nothing():
    huge = {"b.weight": np.full(3, 1e200)}
    diff = diff_checkpoints(huge, {"b.weight": -huge["b.weight"]})
    assert diff.changed == ["b.weight"]
    assert "b.weight" in diff._repr_html_()


@pytest.mark.torch
@pytest.mark.parametrize("suffix", [".pth", ".ckpt", ".safetensors"])
def test_a_training_checkpoint_saved_again_is_the_same(tmp_path, suffix):
    import torch

    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    optimizer = torch.optim.AdamW(net.parameters(), 0.125)
    net(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    states = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
    torch.save(states, tmp_path / "full.pth")
    first = open_dump(tmp_path / "full.pth")
    diff = diff_checkpoints(save_dump(first, tmp_path / f"again{suffix}"), first)
    assert diff.passed
    assert diff.learning_rate == 0.125
    assert set(structure(diff).values()) == {"same"}
    roles = {
        dump.index["role"].values.tolist().count("optimizer_state")
        for dump in (diff.pairing.left, diff.pairing.right)
    }
    assert roles == {12}


@pytest.mark.torch
def test_states_of_several_groups_are_not_given_to_the_wrong_parameters(tmp_path):
    import torch

    net = torch.nn.Sequential(*[torch.nn.Linear(3, 3, bias=False) for _ in range(3)])
    groups = [{"params": [net[2].weight]}, {"params": [net[0].weight, net[1].weight]}]
    optimizer = torch.optim.AdamW(groups, 1e-3)
    net(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    states = {"model": net.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(states, tmp_path / "groups.pth")
    assert "optimizer.state.0.exp_avg" in open_dump(tmp_path / "groups.pth").names


def test_what_is_known_without_values_is_not_unreadable():
    """Statistics alone, and values that are no tensors, have a structure like any other."""
    folder = Path(__file__).parents[1] / "data/msprobe/v26_2_0/torch"
    same = diff_checkpoints(*[folder / "t_mlp_mix_tensor"] * 2)
    assert set(structure(same).values()) == {"same"}
    assert same.passed
    other = diff_checkpoints(folder / "t_mlp_mix_statistics", folder / "t_mlp_mix_statisticsB")
    assert set(structure(other).values()) == {"same"}
    assert not other.passed


def network(seed: int = 0) -> dict[str, np.ndarray]:
    """Weights as trained, of a convolution with its norm and of two linear layers."""
    rng = np.random.default_rng(seed)
    shapes = {"conv": (16, 3, 3, 3), "fc": (24, 64), "head": (10, 24)}
    found = {}
    for name, shape in shapes.items():
        found[f"{name}.weight"] = rng.laplace(size=shape) * 0.1
        found[f"{name}.bias"] = rng.normal(size=shape[0]) * 0.1
    found |= {"bn.weight": rng.uniform(0.5, 1.5, 16), "bn.bias": rng.normal(size=16)}
    found |= {"bn.running_mean": rng.normal(size=16), "bn.running_var": rng.uniform(0.5, 2, 16)}
    counters = {"bn.num_batches_tracked": np.int64(100)}
    return {name: values.astype("f4") for name, values in found.items()} | counters


def transposed(weights):
    return weights | {"fc.weight": weights["fc.weight"].T.copy()}


def folded(weights):
    norm = {name: np.float64(weights[f"bn.{name}"]) for name in ("weight", "bias")}
    mean, var = (np.float64(weights[f"bn.running_{name}"]) for name in ("mean", "var"))
    factor = norm["weight"] / np.sqrt(var + 1e-5)
    conv = np.float64(weights["conv.weight"]) * factor[:, None, None, None]
    bias = (weights["conv.bias"] - mean) * factor + norm["bias"]
    return weights | {"conv.weight": np.float32(conv), "conv.bias": np.float32(bias)}


def rounded(weights):
    return {
        name: one.astype("f2").astype("f4") if one.dtype == np.float32 else one
        for name, one in weights.items()
    }


def not_loaded(weights):
    return weights | {"bn.bias": np.zeros(16, "f4")}


@pytest.mark.parametrize("fault", [transposed, folded, rounded, not_loaded])
def test_it_finds_what_compare_finds_and_says_it_in_the_same_words(tmp_path, fault):
    weights = network()
    paths = files(tmp_path, fault(weights), weights, (".pth", ".safetensors"))
    diff, comparison = diff_checkpoints(*paths), compare(*paths)
    assert diff.findings
    assert diff.findings[0].confidence > 0.5
    assert diff.findings == comparison.findings
    assert diff.verdict == comparison.verdict
    assert (diff.exit_code, diff.passed) == (comparison.exit_code, False)
    assert str(diff.explain()) == str(comparison.explain())
    cause = str(comparison.explain()).split("Why\n")[1].splitlines()[0].strip()
    for shown in (repr(diff), repr(comparison)):
        assert cause[:60] in shown
        assert comparison.verdict.split(" · ")[0] in shown
    title = cause.split(": ", 1)[1].split(".")[0]
    assert title in diff._repr_html_()
    assert title in comparison._repr_html_()


def test_what_is_found_is_in_every_export(tmp_path):
    diff = diff_checkpoints(transposed(network()), network())
    kept = json.loads(export(diff, tmp_path / "a.json").read_text("utf-8"))
    assert kept["findings"][0]["cause"] == "linear_transposed"
    assert (kept["verdict"], len(kept["tensors"])) == (diff.verdict, len(diff))
    for suffix in (".md", ".txt", ".html"):
        text = export(diff, tmp_path / f"a{suffix}").read_text("utf-8")
        assert "Linear weight transposed" in text
    pytest.importorskip("openpyxl")
    sheets = pd.read_excel(export(diff, tmp_path / "a.xlsx"), sheet_name=None)
    assert sheets["findings"]["cause"].tolist() == ["linear_transposed"]
    assert len(sheets["tensors"]) == len(diff)


def test_no_cause_is_asked_for_where_that_is_not_wanted():
    diff = diff_checkpoints(transposed(network()), network(), diagnose=False)
    assert diff.findings == ()
    assert "diff_checkpoints(..., diagnose=True)" in str(diff.explain())
    diff = diff_checkpoints(transposed(network()), network(), values=False)
    assert diff.findings == ()
    assert "? values were not compared" in str(diff.explain())
    assert "the same" not in str(diff.explain())
    assert diff.verdict == "▲ the structure differs: 11 of 11 entries paired, 1 of other shape"


@pytest.mark.parametrize("given", [{"budget": -1}, {"noise": 3}])
def test_a_diagnosis_that_cannot_be_asked_for_is_refused_before_anything_is_read(given):
    with pytest.raises((TypeError, ValueError), match=r"budget|noise"):
        diff_checkpoints("nowhere", "nowhere", **given)


def test_another_shape_is_no_change_within_the_tolerance():
    left = network() | {"fc.weight": np.zeros((24, 65), "f4")}
    left["head.weight"] = left["head.weight"] + np.float32(1e-6)
    diff = diff_checkpoints(left, network())
    text = repr(diff)
    assert "✗ 1 of 11 pairs differ" in text
    assert "· tensors: 1 changed, 9 untouched, 1 not compared" in text
    assert "✓ tensors" not in text
    blocks = diff.blocks().set_index(["block", "role"])
    assert blocks.loc[("fc", "parameter"), "other"] == 1
    assert "not compared" in diff._repr_html_()


def test_counters_are_in_no_relative_change():
    left = network() | {"bn.num_batches_tracked": np.int64(900)}
    left["bn.running_mean"] = left["bn.running_mean"] * np.float32(1.01)
    right = network()
    diff = diff_checkpoints(left, right)
    buffers = diff.blocks().set_index(["block", "role"]).loc[("bn", "buffer")]
    norms = [np.linalg.norm(np.float64(right[f"bn.running_{name}"])) for name in ("mean", "var")]
    assert buffers["changed"] == 2
    # Float32 makes the factor exact to 1e-5 of the change.
    expected = 0.01 * norms[0] / np.hypot(*norms)
    assert buffers["relative_change"] == pytest.approx(expected, rel=1e-4)
    largest = diff._repr_html_().split("Largest changes")[1].split("</table>")[0]
    assert "running_mean" in largest
    assert "num_batches_tracked" not in largest


def test_other_steps_of_one_training_are_said_and_have_no_cause():
    rng = np.random.default_rng(1)

    def drawn(fan_in, *shape):
        bound = fan_in**-0.5
        return rng.uniform(-bound, bound, shape).astype("f4")

    before = {f"l{i}.weight": drawn(48, 48, 48) for i in range(4)}
    before |= {f"l{i}.bias": np.zeros(48, "f4") for i in range(4)}
    before |= {"n.weight": np.ones(48, "f4"), "n.bias": np.zeros(48, "f4")}
    before |= {"n.running_mean": np.zeros(48, "f4"), "n.running_var": np.ones(48, "f4")}
    after = {
        name: one + np.float32(0.02) * rng.normal(size=one.shape).astype("f4")
        for name, one in before.items()
    }
    counted = [{"n.num_batches_tracked": np.int64(count)} for count in (100, 0)]
    diff = diff_checkpoints(after | counted[0], before | counted[1])
    assert [f.cause for f in diff.findings if f.confidence > 0.5] == []
    assert "saved at different steps of training: n.num_batches_tracked is 100 on" in repr(diff)
    # A tensor that the other side was not trained from was not loaded.
    diff = diff_checkpoints(after, after | {"l2.bias": np.zeros(48, "f4")})
    assert diff.findings[0].cause == "tensor_not_loaded"
    assert "different steps" not in repr(diff)
    # Nor is a counter that was left behind another step.
    assert "different steps" not in repr(diff_checkpoints(after | counted[0], after | counted[1]))


def test_what_did_not_change_is_no_row_of_zeros():
    state = {f"moment1.l{i}.weight": np.ones((8, 8), "f4") for i in range(12)}
    weights = {f"l{i}.weight": np.full((8, 8), i + 1.0, "f4") for i in range(12)}
    left = weights | state | {"l3.weight": np.full((8, 8), 8.0, "f4")}
    diff = diff_checkpoints(left, weights | state)
    lines = repr(diff).splitlines()
    rows = [line.split() for line in lines if line.split()[:1] == ["l3"]]
    assert rows == [["l3", "parameter", "1", "1", "1", "1", "4"]]
    assert not any("optimizer_state" in line for line in lines)
    assert "untouched, 12 groups of tensors: l0, l1, l2, l4, l5, l6 and 6 more" in lines[-1]
    moved = {name: one * 2 for name, one in state.items()}
    text = repr(diff_checkpoints(weights | moved, weights | state))
    assert sum("optimizer_state" in line for line in text.splitlines()) == 1
    assert "all blocks  optimizer_state" in text


def test_what_was_not_opened_keeps_a_diff_from_passing(tmp_path):
    dump = open_dump(save_dump(network(), tmp_path / "net.safetensors"))
    noted = replace(dump, notes=(Message("files.unopened", names=["step_2.pth"]),))
    for values in (True, False):
        assert diff_checkpoints(dump, dump, values=values).exit_code == 0
        diff = diff_checkpoints(noted, dump, values=values)
        assert (diff.exit_code, diff.passed) == (compare(noted, dump).exit_code, False)
        assert "not opened: step_2.pth" in str(diff.explain())
        assert "not opened: step_2.pth" in diff.verdict
        assert not diff.verdict.startswith("✓")
        assert "not opened: step_2.pth" in diff._repr_html_()
