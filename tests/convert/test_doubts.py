"""Nothing wrong goes out quietly: what a conversion leaves open is said and does not pass."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import troubleshooter_nb as tnb
from tests.cli.running import piped
from troubleshooter_nb.errors import TroubleshooterWarning


def drawn(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype("f4")


def net():
    return {f"layers.{k}.fc.{leaf}": drawn(k, *shape) for k in range(4) for leaf, shape in LEAVES}


LEAVES = (("weight", (12, 9)), ("bias", (12,)))


@pytest.fixture
def files(tmp_path):
    """A source, and a target with blocks in another order and one tensor more."""
    source, target = net(), net()
    moved = target["layers.1.fc.weight"]
    target["layers.1.fc.weight"] = np.concatenate([moved[6:], moved[:6]])
    target["head.weight"] = drawn(9, 5, 12)
    del target["layers.3.fc.bias"]
    for name, arrays in (("source", source), ("target", target)):
        tnb.convert_weights(
            arrays, tmp_path / f"{name}.safetensors", tnb.draft_weight_map(arrays, arrays)
        )
    return tmp_path


def test_a_conversion_with_doubts_warns_and_does_not_pass(files):
    drafted = tnb.draft_weight_map(files / "source.safetensors", files / "target.safetensors")
    with pytest.warns(TroubleshooterWarning) as warned:
        proof = tnb.convert_weights(files / "source.safetensors", files / "out.ckpt", drafted)
    said = [str(one.message) for one in warned]
    assert "values contradict 1 row: layers.1.fc.weight" in said[0]
    assert "1 of the target gets no values: head.weight" in said[1]
    assert "1 tensor of the source" in said[2]
    assert [str(note) for note in proof.notes[:3]] == said
    assert not proof.passed
    alone = proof.to_dataframe().query("not passed")
    assert {*alone["left"], *alone["right"]} - {""} == {"head.weight", "layers.3.fc.bias"}
    assert any("97.5% of the elements and 7 of 8 names" in note for note in proof.notes)


def test_what_is_declared_passes(files):
    drafted = tnb.draft_weight_map(files / "source.safetensors", files / "target.safetensors")
    declared = drafted.accept().keep("head.weight").drop("layers.3.fc.bias")
    proof = tnb.convert_weights(files / "source.safetensors", files / "out.ckpt", declared)
    assert proof.passed
    meant = drafted.pair("layers.1.fc.weight", "layers.1.fc.weight")
    assert not any("contradict" in said for said in meant.doubts())


def test_the_command_ends_with_1_until_its_user_says_what_is_meant(files):
    words = ("convert", files / "source.safetensors", files / "out.ckpt")
    like = ("--like", files / "target.safetensors", "--force")
    code, out, err = piped(*words, *like)
    assert code == 2  # there is what has no partner
    assert "values contradict 1 row" in " ".join((out + err).split())
    some = ("--keep", "head.*", "--drop", "layers.3.fc.bias")
    assert piped(*words, *like, *some)[0] == 1
    declared = ("--accept", "--keep", "head.*", "--drop", "layers.3.fc.bias")
    code, out, _ = piped(*words, *like, *declared, "--save-map", files / "m.yaml")
    assert code == 0, out
    code, out, _ = piped(*words, "--map", files / "m.yaml", "--force")
    assert code == 0, out
    code, *_ = piped("convert", files / "source.safetensors", files / "n.yaml", *like[:2])
    assert code == 1
    with pytest.raises(AssertionError):
        assert piped(*words, *like, "--drop", "nothing.like.it")[0] == 0


def test_a_map_read_from_a_file_is_held_against_the_target_that_is_given(files):
    words = ("convert", files / "source.safetensors", files / "out.ckpt")
    rows = tnb.draft_weight_map(files / "source.safetensors", files / "source.safetensors")
    tnb.write_weight_map(rows.unpair("layers.3.fc.bias"), files / "m.yaml")
    code, out, err = piped(*words, "--map", files / "m.yaml")
    assert code != 0
    assert "1 tensor of the source" in " ".join((out + err).split())


def test_compare_and_diff_join_and_split_by_a_map(tmp_path):
    q, k, v = drawn(0, 16, 8), drawn(1, 8, 8), drawn(2, 8, 8)
    experts = np.stack([drawn(3, 6, 4), drawn(4, 6, 4)])
    left = {"a.q.weight": q, "a.k.weight": k, "a.v.weight": v, "mlp.experts": experts}
    right = {"a.qkv.weight": np.concatenate([q, k, v]), "e.0.w": experts[0], "e.1.w": experts[1]}
    drafted = tnb.draft_weight_map(left, right)
    path = tnb.write_weight_map(drafted, tmp_path / "map.yaml")
    for mapping in (drafted, path, str(path)):
        found = tnb.compare(left, right, mapping=mapping)
        assert found.passed
        assert found.pairing.table["method"].values.tolist() == ["user"] * 3
        assert tnb.diff_checkpoints(left, right, mapping=mapping).comparison.passed
    right["e.1.w"] = right["e.1.w"] + 1
    assert not tnb.compare(left, right, mapping=drafted).passed
    with pytest.raises(tnb.TroubleshooterError, match=r"a\.v\.weight"):
        tnb.compare(
            {name: left[name] for name in ("a.q.weight", "a.k.weight")}, right, mapping=drafted
        )


def quietly(*args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TroubleshooterWarning)
        return tnb.convert_weights(*args)


def test_what_cannot_be_read_is_a_doubt_until_it_is_dropped(tmp_path):
    folder = tmp_path / "hf"
    folder.mkdir()
    held = {"a": drawn(0, 4, 4)}
    quietly(held, folder / "m1.safetensors", tnb.draft_weight_map(held, "torch"))
    index = {"weight_map": {"a": "m1.safetensors", "b": "m2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    drafted = tnb.draft_weight_map(folder, "torch")
    assert "1 tensor of the source cannot be read: b (m2.safetensors" in drafted.doubts()[0]
    proof = quietly(folder, tmp_path / "o.pth", drafted)
    assert not proof.passed
    assert any("1 of 2 names" in note for note in proof.notes)
    dropped = drafted.drop("b")
    assert dropped.doubts() == []
    assert quietly(folder, tmp_path / "o.pth", dropped).passed


def test_rows_that_join_or_reorder_are_held_against_values():
    q, k, v = (drawn(20 + n, 8, 8) for n in range(3))
    front = "layers.9.self_attn."
    source = net() | {
        f"{front}{n}_proj.weight": one for n, one in zip("qkv", (q, k, v), strict=True)
    }
    turned = q.reshape(2, 2, 2, 8).swapaxes(1, 2).reshape(8, 8)
    for whole, doubts in (([q, k, v], 0), ([turned, k, v], 1), ([q, k, drawn(30, 8, 8)], 1)):
        target = net() | {f"{front}qkv_proj.weight": np.concatenate(whole)}
        said = [one for one in tnb.draft_weight_map(source, target).doubts() if "contradict" in one]
        assert len(said) == doubts
    up = {"layers.0.mlp.up_proj.weight": drawn(1, 8, 12)}
    other = {"layers.0.mlp.c_fc.weight": drawn(2, 12, 8)}
    assert "contradict" in tnb.draft_weight_map(net() | up, net() | other).doubts()[0]


def test_a_cast_that_overflows_is_refused_before_anything_changes(tmp_path):
    source = {"w": drawn(0, 4, 4) * np.float32(1e8)}
    halved = tnb.draft_weight_map(source, "torch").transform("w", "cast(float16)")
    with pytest.raises(tnb.TroubleshooterError, match="beyond float16"):
        quietly(source, tmp_path / "o.pth", halved)
    assert not (tmp_path / "o.pth").exists()


def test_what_is_kept_and_filled_at_once_is_refused(tmp_path):
    weights = {"x": drawn(0, 4, 4), "y": drawn(1, 4, 4)}
    drafted = tnb.draft_weight_map(weights, weights)
    again = drafted.keep("x").drop("x").pair("y", "x")
    assert again.kept == ()
    path = tnb.write_weight_map(drafted, tmp_path / "m.yaml")
    path.write_text("keep: [x]\n" + path.read_text())
    with pytest.raises(tnb.TroubleshooterError, match="kept, and filled by a row at once: x"):
        quietly(weights, tmp_path / "o.pth", path)
    with pytest.raises(tnb.TroubleshooterError, match="nothing would be written"):
        quietly(weights, tmp_path / "o.pth", drafted.drop("x", "y"))


@pytest.mark.torch
def test_an_average_that_the_target_has_is_no_average(tmp_path):
    import torch

    main = {f"encoder_q.{k}.w": drawn(k, 16, 16) for k in range(6)}
    slow = {f"encoder_k.{k}.w": w + drawn(9, 16, 16) / 50 for k, w in enumerate(main.values())}
    both = {name: torch.from_numpy(w) for name, w in (main | slow).items()}
    torch.save(both, tmp_path / "both.pth")
    torch.save({n: both[n] for n in main}, tmp_path / "main.pth")
    drafted = tnb.draft_weight_map(tmp_path / "both.pth", tmp_path / "both.pth")
    assert len(quietly(tmp_path / "both.pth", tmp_path / "o.ckpt", drafted)) == 12
    assert len(tnb.draft_weight_map(tmp_path / "both.pth", tmp_path / "main.pth")) == 6


def test_a_name_that_the_map_gives_to_another_is_set_aside(tmp_path):
    x, y = drawn(0, 4, 4), drawn(1, 4, 4)
    (tmp_path / "m.yaml").write_text("weights:\n- {from: a, to: b}\n")
    assert tnb.compare({"a": x, "b": y}, {"b": x}, mapping=tmp_path / "m.yaml").passed
    kept = tnb.draft_weight_map({"w": x}, {"w": x, "head": y}).keep("head")
    assert tnb.compare({"w": x}, {"w": x, "head": y}, mapping=kept).passed


def test_a_map_from_a_file_is_held_against_the_values_of_the_target(files):
    words = ("convert", files / "source.safetensors", files / "out.ckpt")
    plain = tnb.draft_weight_map(files / "source.safetensors", files / "source.safetensors")
    tnb.write_weight_map(plain.unpair("layers.3.fc.bias"), files / "m.yaml")
    like = (
        "--like",
        files / "target.safetensors",
        "--keep",
        "head.*",
        "--drop",
        "layers.3.fc.bias",
    )
    code, out, err = piped(*words, "--map", files / "m.yaml", *like)
    assert code == 1
    assert "values contradict 1 row" in " ".join((out + err).split())
