"""Nothing wrong goes out quietly: what a conversion leaves open is said and does not pass."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.cli.main import main
from troubleshooter_nb.errors import TroubleshooterWarning


def drawn(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype("f4")


def net():
    return {f"layers.{k}.fc.{leaf}": drawn(k, *shape) for k in range(4) for leaf, shape in LEAVES}


LEAVES = (("weight", (12, 9)), ("bias", (12,)))


@pytest.fixture
def said(capsys):
    """Runs a command line: exit code, standard output, standard error."""

    def run(*words):
        code = main([str(word) for word in words])
        return code, *capsys.readouterr()

    return run


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


def test_the_command_ends_with_1_until_its_user_says_what_is_meant(files, said):
    words = ("convert", files / "source.safetensors", files / "out.ckpt")
    like = ("--like", files / "target.safetensors", "--force")
    code, out, err = said(*words, *like)
    assert code == 2  # there is what has no partner
    assert "values contradict 1 row" in " ".join((out + err).split())
    some = ("--keep", "head.*", "--drop", "layers.3.fc.bias")
    assert said(*words, *like, *some)[0] == 1
    declared = ("--accept", "--keep", "head.*", "--drop", "layers.3.fc.bias")
    code, out, _ = said(*words, *like, *declared, "--save-map", files / "m.yaml")
    assert code == 0, out
    code, out, _ = said(*words, "--map", files / "m.yaml", "--force")
    assert code == 0, out
    code, *_ = said("convert", files / "source.safetensors", files / "n.yaml", *like[:2])
    assert code == 1
    with pytest.raises(AssertionError):
        assert said(*words, *like, "--drop", "nothing.like.it")[0] == 0


def test_a_map_read_from_a_file_is_held_against_the_target_that_is_given(files, said):
    words = ("convert", files / "source.safetensors", files / "out.ckpt")
    rows = tnb.draft_weight_map(files / "source.safetensors", files / "source.safetensors")
    tnb.write_weight_map(rows.unpair("layers.3.fc.bias"), files / "m.yaml")
    code, out, err = said(*words, "--map", files / "m.yaml")
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


def test_a_map_from_a_file_is_held_against_the_values_of_the_target(files, said):
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
    code, out, err = said(*words, "--map", files / "m.yaml", *like)
    assert code == 1
    assert "values contradict 1 row" in " ".join((out + err).split())


def test_few_values_contradict_where_all_others_are_equal():
    left = {f"layers.{n}.weight": drawn(n, 8, 8) for n in range(3)}
    left |= {f"layers.{n}.bias": drawn(9 + n, 8) for n in range(3)}
    right = {**left, "layers.1.bias": left["layers.2.bias"]}
    (said,) = tnb.draft_weight_map(left, right).doubts()
    assert said.startswith("values contradict 1 row: layers.1.bias; ")


@pytest.mark.torch
def test_another_name_of_a_tensor_is_not_lost(tmp_path):
    import torch

    table = torch.randn(20, 8)
    torch.save({"emb.weight": table, "head.weight": table}, tmp_path / "net.pth")
    target = {"emb.embedding_table": table.numpy()}
    drafted = tnb.draft_weight_map(tmp_path / "net.pth", target)
    assert drafted.doubts() == []
    assert "head.weight of the source is 'emb.weight' under another name" in repr(drafted)
    proof = tnb.convert_weights(tmp_path / "net.pth", tmp_path / "net.ckpt", drafted)
    assert proof.passed


def test_a_file_is_not_replaced_by_one_without_tensors(tmp_path):
    file = tmp_path / "net.ckpt"
    tnb.save_dump({"a": np.ones(2, "f4")}, file)
    before = file.read_bytes()
    arrays = {"a": np.ones(2, "c8")}
    with pytest.raises(ValueError, match="can hold none of the 1 tensors"):
        tnb.convert_weights(arrays, file, tnb.draft_weight_map(arrays, arrays))
    with pytest.raises(ValueError, match="write to a file of another suffix"):
        tnb.save_dump(arrays, file)
    assert file.read_bytes() == before


def test_values_of_a_map_from_a_file_are_accepted_only_beside_a_target(files, said):
    words = ("convert", files / "source.safetensors", files / "x.ckpt", "--accept")
    code, out, err = said(*words, "--map", files / "m.yaml")
    assert code == 3
    assert "give --like" in out + err


def test_a_map_takes_the_gradients_along():
    q, k, v = drawn(0, 16, 8), drawn(1, 8, 8), drawn(2, 8, 8)
    left = {"a.q.weight": q, "a.k.weight": k, "a.v.weight": v, "fc.weight": drawn(3, 6, 4)}
    right = {"a.qkv.weight": np.concatenate([q, k, v]), "fc.w": left["fc.weight"].T.copy()}
    drafted = tnb.draft_weight_map(left, right)
    grads = {f"grads.{name}": 3 * value for name, value in left.items()}
    theirs = {f"grads.{name}": 3 * value for name, value in right.items()}
    for ours, others in ((grads, theirs), (left | grads, right | theirs)):
        found = tnb.compare(ours, others, mapping=drafted)
        assert found.passed
        assert found.pairing.table["method"].values.tolist() == ["user"] * len(others)
    theirs["grads.fc.w"] = theirs["grads.fc.w"] * 2
    found = tnb.compare(left | grads, right | theirs, mapping=drafted)
    assert found.to_dataframe().query("not passed")["right"].tolist() == ["grads.fc.w"]


def test_a_scaled_weight_has_the_inverse_gradient():
    left, right = {"norm.weight": drawn(0, 16, 8)}, {"norm.w": 4 * drawn(0, 16, 8)}
    drafted = tnb.draft_weight_map(left, right).pair(
        "norm.weight", "norm.w", "scale(4.0) | flip(0)"
    )
    right["norm.w"] = right["norm.w"][::-1].copy()
    left["grads.norm.weight"] = drawn(1, 16, 8)
    right["grads.norm.w"] = left["grads.norm.weight"][::-1] / 4
    assert tnb.compare(left, right, mapping=drafted).passed


@pytest.mark.torch
def test_a_map_over_two_recorded_runs_joins_what_their_calls_hold():
    import torch
    from torch import nn

    class Attention(nn.Module):
        def __init__(self, fused):
            super().__init__()
            names = ("qkv",) if fused else ("q", "k", "v")
            self.projections = names
            for name in names:
                setattr(self, name, nn.Linear(8, 24 // len(names)))
            self.out = nn.Linear(8, 8)

        def forward(self, x):
            made = torch.cat([getattr(self, name)(x) for name in self.projections], -1)
            q, k, v = made.chunk(3, -1)
            return self.out(torch.softmax(q @ k.transpose(-1, -2), -1) @ v)

    left, right = Attention(fused=False), Attention(fused=True)
    drafted = tnb.draft_weight_map(left, right)
    assert tnb.convert_weights(left, right, drafted).passed
    x, dumps = torch.randn(2, 5, 8), []
    for net in (left, right):
        with tnb.record(net) as recording:
            net(x).square().sum().backward()
        dumps.append(recording.dump)
    found = tnb.compare(*dumps, mapping=drafted)
    table = found.to_dataframe()
    joined = table[table["right"].str.contains(r"qkv.*parameters")]
    assert len(joined) == 4  # weight and bias, and their gradients
    assert joined["passed"].all()
    back = tnb.compare(*dumps[::-1], mapping=tnb.draft_weight_map(right, left))
    table = back.to_dataframe()
    assert len(table[table["right"].str.contains(r"\.[qkv]\.Linear.*parameters")]) == 12
    for one in (found, back):
        compared = one.result["verdict"].values != "missing"
        assert one.result["passed"].values[compared].all()


def test_what_weights_are_made_of_has_to_have_a_place():
    quantised = {
        "l.weight": np.random.default_rng(0).integers(-127, 127, (64, 64)).astype("i1"),
        "l.weight_scale": np.abs(drawn(1, 64, 1)),
        "n.weight": drawn(2, 64),
    }
    drafted = tnb.draft_weight_map(quantised, "mindspore")
    assert drafted.unmatched_sources == ["l.weight", "l.weight_scale"]
    assert "98.5% of its elements" in drafted.doubts()[0]
    adapted = {
        "q.base_layer.weight": drawn(0, 32, 32),
        "q.lora_A.weight": drawn(1, 4, 32),
        "q.lora_B.weight": drawn(2, 32, 4),
    }
    drafted = tnb.draft_weight_map(adapted, "mindspore")
    assert drafted.unmatched_sources == ["q.lora_A.weight", "q.lora_B.weight"]
    assert drafted.drop(*drafted.unmatched_sources).doubts() == []


def test_values_that_made_all_other_rows_speak_against_one_that_names_made():
    source = {"a.weight": drawn(0, 64, 64), "b.weight": drawn(1, 64, 64)}
    target = {"u.weight": source["a.weight"], "b.weight": drawn(2, 64, 64)}
    drafted = tnb.draft_weight_map(source, target)
    assert drafted.names["a.weight"] == "u.weight"
    assert [said for said in drafted.doubts() if "b.weight" in said]
    assert any("1 of 2 rows" in note for note in drafted.notes)
    fused = {f"{n}.weight": drawn(k, 32, 32) for k, n in enumerate("qkv")}
    wrong = {"qkv.weight": drawn(9, 96, 32), "u.weight": source["a.weight"]}
    drafted = tnb.draft_weight_map({**fused, "a.weight": source["a.weight"]}, wrong)
    (joined,) = (row for row in drafted if len(row.sources) > 1)
    assert joined.targets == ("qkv.weight",)
    assert [said for said in drafted.doubts() if "contradict" in said]


def test_a_tensor_without_elements_is_transposed_and_proved(tmp_path):
    arrays = {"a": np.zeros((4, 0), "f4"), "b": drawn(0, 3)}
    weight_map = tnb.draft_weight_map(arrays).pair("a", "a", "transpose")
    with pytest.warns(TroubleshooterWarning, match="without elements|no elements"):
        tnb.convert_weights(arrays, tmp_path / "z.pth", weight_map)
    assert tnb.open_dump(tmp_path / "z.pth").array("a").shape == (0, 4)
