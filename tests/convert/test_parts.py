"""Weights stored as parts, shared tensors, and what is refused before anything is written."""

from __future__ import annotations

import numpy as np
import pytest

from troubleshooter_nb import (
    convert_weights,
    draft_weight_map,
    open_dump,
    read_weight_map,
    write_weight_map,
)
from troubleshooter_nb.errors import FormatError, WeightMapError
from troubleshooter_nb.weight_map import WeightMapHistory

RNG = np.random.default_rng(0)
FORMS = {
    "old": ("a.weight_g", "a.weight_v"),
    "new": ("a.parametrizations.weight.original0", "a.parametrizations.weight.original1"),
}


def normed(form, shape, dim):
    g, v = FORMS[form]
    norm = tuple(n if axis == dim else 1 for axis, n in enumerate(shape))
    return {g: RNG.random(norm, "f4"), v: RNG.normal(size=shape).astype("f4")}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("shape", "dim", "text"),
    [((8, 6), 0, "weight_norm(0)"), ((8, 8), 1, "weight_norm(1)"), ((4, 3, 3), 0, None)],
)
def test_a_weight_norm_is_folded_and_proved(form, shape, dim, text, tmp_path):
    source = normed(form, shape, dim)
    weight_map = draft_weight_map(source)
    assert str(weight_map["a.weight"].transform) == (text or "weight_norm(0, 2)")
    write_weight_map(weight_map, tmp_path / "map.yaml")
    assert (
        read_weight_map(tmp_path / "map.yaml")["a.weight"].transform
        == weight_map["a.weight"].transform
    )
    with pytest.raises(WeightMapError, match=r"use .yaml, or call"):
        write_weight_map(weight_map, tmp_path / "map.json")
    assert convert_weights(source, tmp_path / "x.ckpt", tmp_path / "map.yaml").passed
    g, v = (array.astype("f8") for array in source.values())
    axes = tuple(axis for axis in range(len(shape)) if axis != dim)
    wanted = (g * v / np.sqrt((v * v).sum(axes, keepdims=True))).astype("f4")
    written = open_dump(tmp_path / "x.ckpt").array("a.weight")
    assert written.tobytes() == wanted.tobytes()
    assert draft_weight_map(source, "torch").names == {name: name for name in source}


def test_a_part_is_never_taken_for_its_weight():
    plain = {"a.weight": RNG.normal(size=(8, 6)).astype("f4")}
    weight_map = draft_weight_map(plain, normed("old", (8, 6), 0))
    assert weight_map.names == {}
    assert any("remove_weight_norm" in note for note in weight_map.notes)
    with pytest.raises(WeightMapError, match="remove_weight_norm"):
        draft_weight_map(normed("old", (8, 6), 0)).pair("a.weight_v", "a.weight")


@pytest.mark.parametrize(
    ("names", "cure"),
    [
        (("a.weight_orig", "a.weight_u", "a.weight_v"), "remove_spectral_norm"),
        (
            tuple(f"a.parametrizations.weight.{e}" for e in ("original", "0._u", "0._v")),
            "remove_parametrizations",
        ),
    ],
)
def test_a_spectral_norm_is_a_problem_with_advice(names, cure, tmp_path):
    shapes = [(8, 6), (8,), (6,)]
    source = {n: RNG.normal(size=s).astype("f4") for n, s in zip(names, shapes, strict=True)}
    with pytest.raises(WeightMapError, match=cure):
        convert_weights(source, tmp_path / "x.ckpt", draft_weight_map(source))
    assert not (tmp_path / "x.ckpt").exists()


def test_the_batch_norm_beside_a_conv3d_is_one_of_three_dimensions():
    stats = dict.fromkeys(("weight", "bias", "running_mean", "running_var"), np.ones(4, "f4"))
    norm = {f"b.{leaf}": values for leaf, values in stats.items()}
    alone = draft_weight_map(norm)
    assert "BatchNorm3d would be named bn2d" in alone["b.weight"].note
    beside = draft_weight_map({"c.weight": np.ones((4, 1, 3, 3, 3), "f4"), **norm})
    assert beside["b.weight"].targets == ("b.bn2d.gamma",)
    target = {f"bn2d.{leaf}": stats["bias"] for leaf in ("gamma", "beta", "moving_mean")}
    target["bn2d.moving_variance"] = stats["bias"]
    root = draft_weight_map(stats, target)
    assert root["running_var"].targets == ("bn2d.moving_variance",)


def test_what_cannot_be_written_is_refused_before(tmp_path):
    source = {"a": np.ones((6, 3), "f4")}
    drafted = draft_weight_map(source, "mindspore")
    convert_weights(source, tmp_path / "x.ckpt", drafted)
    before = (tmp_path / "x.ckpt").read_bytes()
    (tmp_path / "link.ckpt").symlink_to(tmp_path / "x.ckpt")
    for name in ("x.ckpt", "link.ckpt"):
        with pytest.raises(WeightMapError, match="is a file of the source"):
            convert_weights(tmp_path / "x.ckpt", tmp_path / name, drafted)
        assert (tmp_path / "x.ckpt").read_bytes() == before
    long = {"n" * 1025: source["a"]}
    with pytest.raises(WeightMapError, match="1,025 characters"):
        convert_weights(long, tmp_path / "y.ckpt", draft_weight_map(long, "mindspore"))
    with pytest.raises(WeightMapError, match="takes a WeightMap"):
        convert_weights(source, tmp_path / "y.ckpt", {"a": "b"})
    for call in (
        lambda: drafted.pair("a", ""),
        lambda: drafted.rename(pattern=("^a$", "")),
        lambda: drafted.pair("a", ["x", "x"], "split(0, 3, 3)"),
        lambda: drafted.pair("a", ["x", "y"], "split(5, 3, 3)"),
        lambda: drafted.rename(),
        lambda: drafted.rename(func=lambda names: None),
        lambda: drafted.rename(func=lambda names: {"a": 3}),
        lambda: draft_weight_map(source, "mindspor"),
    ):
        with pytest.raises(WeightMapError):
            call()
    assert "changed no name" in drafted.rename(func=dict).notes[-1]
    assert "loses precision" in str(drafted.transform("a", "cast(float16)").table["note"].values)
    assert "version 1 of 1" in repr(WeightMapHistory(drafted))
    assert list(tmp_path.glob("y*")) == []


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("- from: a", "to: null"),
        ("- {from: a, to: b, to: c}", "stands in line 2 already; keep one"),
        ("- {from: [a, b], to: c}", "one source"),
    ],
)
def test_a_slip_in_the_yaml_is_refused(row, reason, tmp_path):
    (tmp_path / "m.yaml").write_text(f"weights:\n{row}\n")
    with pytest.raises(FormatError, match=reason):
        read_weight_map(tmp_path / "m.yaml")


def test_a_map_just_read_knows_its_labels_and_claims_no_problem(tmp_path):
    write_weight_map(draft_weight_map({"a": np.ones(3, "f4")}), tmp_path / "m.yaml")
    text = repr(read_weight_map(tmp_path / "m.yaml"))
    assert "'source' -> 'mindspore.nn'" in text
    assert "cannot be converted" not in text
    assert "100%" not in text


@pytest.mark.torch
@pytest.mark.mindspore
def test_a_shared_tensor_fills_all_its_names_in_torch(tmp_path):
    import mindspore
    import torch

    class Cell(mindspore.nn.Cell):
        def __init__(self):
            super().__init__()
            self.emb = mindspore.nn.Embedding(10, 8)
            self.head = mindspore.nn.Dense(8, 10, has_bias=False)
            self.head.weight = self.emb.embedding_table

    net = torch.nn.ModuleDict(
        {"emb": torch.nn.Embedding(10, 8), "head": torch.nn.Linear(8, 10, bias=False)}
    )
    for tie in (False, True):
        if tie:
            net["head"].weight = net["emb"].weight
        cell = Cell()
        mindspore.save_checkpoint(cell, str(tmp_path / "c.ckpt"))
        weight_map = draft_weight_map(cell, net)
        assert weight_map.unmatched_targets == []
        assert convert_weights(tmp_path / "c.ckpt", tmp_path / "n.pth", weight_map).passed
        net.load_state_dict(torch.load(tmp_path / "n.pth"), strict=True)
