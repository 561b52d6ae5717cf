"""Drafting a map and converting by it: the layer zoo, both directions, and the proof."""

from __future__ import annotations

import json
import math
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from troubleshooter_nb import Dump, convert_weights, draft_weight_map, formats, open_dump, save_dump
from troubleshooter_nb.errors import WeightMapError
from troubleshooter_nb.formats.file_source import FileSource
from troubleshooter_nb.options import option_context
from troubleshooter_nb.weight_map import Spec, Transform, WeightMap, WeightRow

DATA = Path(__file__).parents[1] / "data/compat/troubleshooter"
ZOO = DATA / "master_1.0.19/weights/zoo.pth"
EXPECTED = json.loads((DATA / "expected_zoo_map_nn.json").read_text())
TRANSFORMS = {"identity": "copy", "expand_dims_axis2": "expand_dims(2)", "drop": "drop"}
# What names and shapes alone cannot tell: BatchNorm3d wraps a bn2d, PReLU is a 1-D weight.
NOT_IN_NAMES = {"b3.weight", "b3.bias", "b3.running_mean", "b3.running_var", "pr.weight"}


def drafted(weight_map: WeightMap) -> dict[str, tuple[str | None, str]]:
    return {
        row.sources[0]: (row.targets[0] if row.targets else None, str(row.transform))
        for row in weight_map
    }


def expected(name: str) -> tuple[str | None, str]:
    return EXPECTED[name]["target"], TRANSFORMS[EXPECTED[name]["transform"]]


def test_the_zoo_is_drafted_from_its_checkpoint_alone():
    weight_map = draft_weight_map(ZOO)
    got = drafted(weight_map)
    assert list(got) == list(EXPECTED)
    assert {name for name in got if got[name] != expected(name)} <= NOT_IN_NAMES
    assert weight_map["c1.weight"].note == "guessed: Conv1d"
    assert any("LayerNorm" in note and "1e-07" in note for note in weight_map.notes)


def test_there_and_back_is_bit_for_bit(tmp_path):
    there = draft_weight_map(ZOO)
    proof = convert_weights(ZOO, tmp_path / "zoo.ckpt", there)
    assert proof.passed
    assert set(proof.result["verdict"].values) <= {"identical", "missing"}
    assert "60 rows written" in proof.notes[0]
    assert any(note.startswith("dropped: b1.num_batches_tracked") for note in proof.notes)
    back = draft_weight_map(tmp_path / "zoo.ckpt")
    assert convert_weights(tmp_path / "zoo.ckpt", tmp_path / "zoo.pth", back).passed
    first, last = open_dump(ZOO), open_dump(tmp_path / "zoo.pth")
    assert [n for n in first if not n.endswith("tracked")] == list(last)
    assert all(last.array(n).tobytes() == first.array(n).tobytes() for n in last)


@pytest.mark.torch
@pytest.mark.mindspore
@pytest.mark.parametrize("net", ["resnet", "gpt"])
def test_networks_convert_in_both_directions_and_load(tmp_path, monkeypatch, net):
    import mindspore
    import torch

    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "notebooks"))
    from example_nets import step_mindspore, step_torch

    from tests.notebooks import conftest  # noqa: F401  # puts notebooks/ on the path

    source, target = step_torch.build(net, 1), step_mindspore.build(net, "none", 0)
    torch.save(source.state_dict(), tmp_path / "net.pth")
    weight_map = draft_weight_map(source, target)
    assert weight_map.coverage == 1.0
    assert weight_map.unmatched_targets == []
    assert weight_map.problems() == []
    assert convert_weights(tmp_path / "net.pth", tmp_path / "net.ckpt", weight_map).passed
    loaded = mindspore.load_checkpoint(str(tmp_path / "net.ckpt"))
    assert mindspore.load_param_into_net(target, loaded) == ([], [])
    for name, parameter in source.named_parameters():
        ours = {step_mindspore.torch_name(p.name): p for p in target.get_parameters()}[name]
        assert ours.asnumpy().tobytes() == parameter.detach().numpy().tobytes()
    back = draft_weight_map(target, source)
    assert convert_weights(tmp_path / "net.ckpt", tmp_path / "back.pth", back).passed
    state = torch.load(tmp_path / "back.pth", weights_only=True)
    missing, unexpected = source.load_state_dict(state, strict=False)
    assert unexpected == []
    assert all(name.endswith("num_batches_tracked") for name in missing)
    assert all(name.endswith("num_batches_tracked") for name in back.kept)


@pytest.mark.mindspore
@pytest.mark.torch
def test_mint_layers_keep_their_names():
    import mindspore
    import torch

    net = torch.nn.Sequential(torch.nn.Conv1d(1, 2, 3), torch.nn.BatchNorm1d(2))
    cell = mindspore.nn.SequentialCell(
        mindspore.mint.nn.Conv1d(1, 2, 3), mindspore.mint.nn.BatchNorm1d(2)
    )
    for target in (cell, "mindspore.mint"):
        got = drafted(draft_weight_map(net, target))
        assert got["0.weight"] == ("0.weight", "copy")
        assert got["1.running_mean"] == ("1.running_mean", "copy")
    assert drafted(draft_weight_map(net))["0.weight"] == ("0.weight", "expand_dims(2)")


def test_a_known_target_takes_what_the_rules_did_not_name(tmp_path):
    source = {"enc.fc.weight": np.ones((3, 2), "f4"), "enc.fc.bias": np.ones(3, "f4")}
    target = {"encoder.dense.weight": np.ones((3, 2), "f4"), "encoder.dense.bias": np.ones(3, "f4")}
    weight_map = draft_weight_map(source, save_dump(target, tmp_path / "t.ckpt"))
    assert drafted(weight_map) == {
        "enc.fc.weight": ("encoder.dense.weight", "copy"),
        "enc.fc.bias": ("encoder.dense.bias", "copy"),
    }


def packed(rows: tuple[WeightRow, ...], arrays: dict[str, np.ndarray]) -> WeightMap:
    return WeightMap(rows, {n: Spec(a.shape, a.dtype) for n, a in arrays.items()})


def test_every_transform_is_written_and_proved(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=(6, 4)).astype("f4") for name in "qkvtpcd"}
    rows = (
        WeightRow(("q", "k"), ("qk",), Transform("concat", (0,))),
        WeightRow(("v",), ("v0", "v1"), Transform("split", (1, 1, 3))),
        WeightRow(("t",), ("t",), Transform("transpose")),
        WeightRow(("p", "c"), ("sum",), Transform("add")),
        WeightRow(("d",), ("half",), Transform("cast", ("float16",))),
    )
    for suffix in (".ckpt", ".pth", ".safetensors"):
        path = tmp_path / f"x{suffix}"
        proof = convert_weights(arrays, path, packed(rows, arrays))
        assert proof.passed
        assert not np.isin(proof.result["verdict"].values, ["missing"]).any()
        written = open_dump(path)
        np.testing.assert_array_equal(written.array("t"), arrays["t"].T)
        np.testing.assert_array_equal(written.array("v1"), arrays["v"][:, 1:])
        np.testing.assert_array_equal(written.array("sum"), arrays["p"] + arrays["c"])
        assert written.array("half").dtype == np.float16


def test_the_proof_reads_the_file_again(tmp_path, monkeypatch):
    from troubleshooter_nb.convert import apply

    def careless(path, items):
        return original.write(
            path, [item._replace(name={"a": "b", "b": "a"}[item.name]) for item in items]
        )

    arrays = {"a": np.ones(3, "f4"), "b": np.zeros(3, "f4")}
    rows = tuple(WeightRow((name,), (name,)) for name in arrays)
    original = apply.WRITERS[".ckpt"]
    monkeypatch.setattr(apply, "WRITERS", {".ckpt": original._replace(write=careless)})
    proof = convert_weights(arrays, tmp_path / "x.ckpt", packed(rows, arrays))
    assert not proof.passed
    assert (proof.result["verdict"].values != "identical").all()


@pytest.mark.parametrize("suffix", [".ckpt", ".pth", ".pt", ".safetensors"])
def test_the_proof_asks_no_reader_what_it_wrote(tmp_path, monkeypatch, suffix):
    source = Dump.from_arrays({"a": np.arange(6.0).reshape(2, 3)})

    def unasked(path):
        msg = f"asked about {path}"
        raise AssertionError(msg)

    readers = tuple(replace(reader, refusal=unasked) for reader in formats.FORMATS)
    monkeypatch.setattr(formats, "FORMATS", readers)
    proof = convert_weights(source, tmp_path / f"a{suffix}", draft_weight_map(source))
    assert proof.passed


def test_what_cannot_be_converted_is_said_before_anything_is_written(tmp_path):
    arrays = {"a": np.ones(3, "f4"), "b": np.ones(3, "f4")}
    path = tmp_path / "x.ckpt"
    twice = packed((WeightRow(("a",), ("x",)), WeightRow(("b",), ("x",))), arrays)
    with pytest.raises(WeightMapError, match="'x' is the target of several: a, b"):
        convert_weights(arrays, path, twice)
    with pytest.raises(WeightMapError, match="'gone' is not in source"):
        convert_weights(arrays, path, packed((WeightRow(("gone",), ("x",)),), arrays))
    with pytest.raises(ValueError, match=r"cannot write 'x.txt'"):
        convert_weights(arrays, tmp_path / "x.txt", packed((), arrays))
    unreadable = {"a": ["text"]}
    with pytest.raises(WeightMapError, match="'a' of 'source' cannot be read"):
        convert_weights(unreadable, path, packed((WeightRow(("a",), ("a",)),), {}))
    assert not path.exists()
    with pytest.raises(WeightMapError, match="has no parameters or buffers"):
        draft_weight_map({})
    with pytest.raises(WeightMapError, match="takes a network, a checkpoint or a mapping, got int"):
        draft_weight_map(3)


def test_what_a_format_cannot_hold_fails_the_proof(tmp_path):
    arrays = {"a": np.ones(3, "f4"), "e": np.zeros((0, 3), "f4")}
    rows = tuple(WeightRow((name,), (name,)) for name in arrays)
    proof = convert_weights(arrays, tmp_path / "x.ckpt", packed(rows, arrays))
    assert not proof.passed
    assert any("e cannot be stored in this format" in note for note in proof.notes)


def test_memory_is_that_of_one_tensor(tmp_path):
    arrays = {f"w{i}.weight": np.full((500, 1000), i, "f4") for i in range(40)}
    path = save_dump(arrays, tmp_path / "a.pth")
    rows = tuple(WeightRow((n,), (n,), Transform("transpose")) for n in arrays)
    weight_map = packed(rows, arrays)
    del arrays
    convert_weights(path, tmp_path / "b.ckpt", weight_map)  # imports and caches
    tracemalloc.start()
    proof = convert_weights(path, tmp_path / "b.ckpt", weight_map, progress=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert proof.passed
    # A tensor is 2 MB, all of them 80; two threads hold some of one each: as read, transposed, cut.
    assert peak < 26e6


def test_tensors_of_several_blocks_are_written_from_memory_that_is_used_again(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {f"w{i}": rng.normal(size=(1300, 1000)).astype("f4") for i in range(2)}
    arrays["odd"] = rng.normal(size=7).astype("f4")
    path = save_dump(arrays, tmp_path / "a.safetensors")
    for suffix in (".ckpt", ".pth", ".safetensors"):
        rows = tuple(WeightRow((name,), (name,)) for name in arrays)
        assert convert_weights(path, tmp_path / f"b{suffix}", packed(rows, arrays)).passed
        written = open_dump(tmp_path / f"b{suffix}")
        assert all(written.array(n).tobytes() == a.tobytes() for n, a in arrays.items())


def test_values_find_what_names_and_shapes_do_not(tmp_path):
    rng = np.random.default_rng(0)

    def weight(*shape):
        return rng.normal(size=shape).astype("f4")

    source = {
        "fc.weight": weight(8, 6),
        "attn.in_proj": weight(24, 8),
        "up.w": weight(16, 8),
        "gate.w": weight(16, 8),
        "odd.w": weight(12, 5),
        "same.weight": weight(4, 4),
    }
    q, k, v = np.split(source["attn.in_proj"], 3)
    target = {
        "fc.weight": source["fc.weight"].T.copy(),
        "attn.q": q,
        "attn.k": k,
        "attn.v": v,
        "gate_up": np.concatenate([source["gate.w"], source["up.w"]]),
        "odd.other": 3 * source["odd.w"],
        "same.weight": source["same.weight"],
    }
    paths = save_dump(source, tmp_path / "s.pth"), save_dump(target, tmp_path / "t.ckpt")
    weight_map = draft_weight_map(*paths)
    assert weight_map["fc.weight"].transform == Transform("transpose")
    assert weight_map["attn.in_proj"].targets == ("attn.q", "attn.k", "attn.v")
    assert str(weight_map["attn.in_proj"].transform) == "split(0, 8, 8, 8)"
    assert weight_map["gate_up"].sources == ("gate.w", "up.w")
    assert "residual 0.0e+00" in weight_map["fc.weight"].note
    assert weight_map["same.weight"].note == ""
    proof = convert_weights(paths[0], tmp_path / "new.ckpt", weight_map)
    written = open_dump(tmp_path / "new.ckpt")
    for name in ("fc.weight", "attn.q", "attn.k", "attn.v", "gate_up"):
        assert written.array(name).tobytes() == target[name].tobytes()
    assert proof.passed


def test_values_of_large_tensors_are_found_by_blocks_of_them(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(1536, 1024)).astype("f4") for _ in range(3))
    fc = rng.normal(size=(2304, 1920)).astype("f4")
    twisted = fc.reshape(72, 2, 16, 1920).swapaxes(1, 2).reshape(fc.shape)
    source = {"a.q": q, "a.k": k, "a.v": v, "fc.one": fc, "same.weight": fc + np.float32(3)}
    target = {
        "packed.all": np.concatenate([q, k, v]),
        "other.two": np.ascontiguousarray(fc.T),
        "same.weight": twisted + np.float32(3),
    }
    paths = save_dump(source, tmp_path / "s.safetensors"), tmp_path / "t.safetensors"
    save_dump(target, paths[1])
    read_from = FileSource.read_from

    def bounded(source, file, start, stop, into=None):
        # Of a tensor of more than 2**22 elements never more at once than a block.
        assert stop - start <= max(1 << 20, (math.prod(source.shape) <= 1 << 22) << 22)
        return read_from(source, file, start, stop, into)

    monkeypatch.setattr(FileSource, "read_from", bounded)
    weight_map = draft_weight_map(*paths)
    assert weight_map["a.q"].sources == ("a.q", "a.k", "a.v")
    assert str(weight_map["a.q"].transform) == "concat(0)"
    assert weight_map["fc.one"].targets == ("other.two",)
    assert weight_map["fc.one"].transform == Transform("transpose")
    assert "every 32 rows along axis 0 taken as (16, 2, 1)" in weight_map["same.weight"].note


def test_a_conversion_says_what_it_did_in_chinese(tmp_path):
    source = {"a": np.ones((2, 3), "f4"), "b": np.arange(4, dtype="f4")}
    rows = (WeightRow(("a",), ("x",), Transform("transpose")), WeightRow(("b",), ("b",)))
    with option_context(language="zh"):
        proof = convert_weights(source, tmp_path / "net.safetensors", WeightMap(rows, {}))
        assert "写入 2 行，改名 1 行，变换 1 行" in repr(proof)
        with pytest.raises(WeightMapError, match="是源的文件；请写到别处"):
            convert_weights(tmp_path / "net.safetensors", tmp_path / "net.safetensors", proof_map())
    written = "2 rows written, 1 renamed, 1 transformed"
    covered = "100.0% of the elements and 2 of 2 names of the source were written"
    assert proof.notes == (written, covered)


def proof_map():
    return WeightMap((WeightRow(("x",), ("y",)), WeightRow(("b",), ("b",))), {})
