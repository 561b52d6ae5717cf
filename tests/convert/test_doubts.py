"""Nothing wrong goes out quietly: what a conversion leaves open is said and does not pass."""

from __future__ import annotations

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
