"""`get_weight_map`, `convert_weight`, `convert_weight_and_load` (cases 22, 23, 26, 27)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import troubleshooter_nb.compat.troubleshooter as ts
from troubleshooter_nb import open_dump, save_dump
from troubleshooter_nb.errors import FormatError, OptionError, WeightMapError

DATA = Path(__file__).parents[2] / "data/compat/troubleshooter"
WEIGHTS = DATA / "master_1.0.19/weights"
CONV1D = "troubleshooter.migrator.mapping_relation.weight_adapter.trans_conv1d_weight_value"


def cells(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("build", ["master_1.0.19", "wheel_1.0.18"])
def test_the_old_files_give_the_old_checkpoint_and_table(tmp_path, capsys, build):
    folder = DATA / build / "weights"
    ts.migrator.convert_weight(
        weight_map_path=str(folder / "resnet_map.json"),
        pt_file_path=str(folder / "resnet.pth"),
        ms_file_save_path=str(tmp_path / "resnet"),
    )
    assert capsys.readouterr().out == (folder / "resnet_convert.txt").read_text()
    # Written by MindSpore then, by us now: the same bytes, and behind them a CRC-32.
    written = (tmp_path / "resnet.ckpt").read_bytes()
    assert written[:-22] == (folder / "resnet.ckpt").read_bytes()


@pytest.mark.torch
def test_the_map_is_right_where_the_old_one_was_wrong(tmp_path):
    import torch
    from torch import nn

    shared = nn.Linear(2, 2)
    net = nn.ModuleDict(
        {
            "pr": nn.PReLU(),
            "t1": nn.ConvTranspose1d(1, 2, 3),
            "ln": nn.LayerNorm(3, elementwise_affine=False),
            "bn": nn.BatchNorm1d(3, affine=False, track_running_stats=False),
            "e1": shared,
            "e2": shared,
        }
    )
    names, functions = ts.migrator.get_weight_map(net, str(tmp_path / "map.json"))
    assert list(names) == list(net.state_dict())
    assert names["pr.weight"] == "pr.w"
    assert functions == {"t1.weight": CONV1D}
    assert names["e2.weight"] == "e2.weight"
    assert json.loads((tmp_path / "map.json").read_text()) == [names, functions]
    torch.save(net.state_dict(), tmp_path / "net.pth")
    ts.migrator.convert_weight(
        str(tmp_path / "map.json"), str(tmp_path / "net.pth"), str(tmp_path / "net.ckpt"), False
    )
    assert open_dump(tmp_path / "net.ckpt").array("t1.weight").shape == (1, 2, 1, 3)


@pytest.mark.torch
def test_prefixes_and_functions_change_the_names(capsys):
    from torch import nn

    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    for prefix in ("uvp", "uvp."):
        names, _ = ts.migrator.get_weight_map(net, weight_name_prefix=prefix, print_map=True)
        assert names["1.weight"] == "uvp.1.gamma"
    assert "'1.weight': 'uvp.1.gamma'" in capsys.readouterr().out
    names, _ = ts.migrator.get_weight_map(
        net, custom_name_func=lambda m: {k: v.replace("1.", "one.") for k, v in m.items()}
    )
    assert names["1.weight"] == "one.gamma"
    with pytest.raises(WeightMapError, match=r"renaming gives 'same' to several: 0.weight, 0.bias"):
        ts.migrator.get_weight_map(net, custom_name_func=lambda m: dict.fromkeys(m, "same"))
    with pytest.raises(TypeError, match=r"pt_net must be a torch.nn.Module, got dict"):
        ts.migrator.get_weight_map({})


@pytest.mark.parametrize("keyword", ["pt_param_dict", "pth_para_dict"])
def test_a_dictionary_takes_the_place_of_the_file(tmp_path, capsys, keyword):
    weights = {"c.weight": np.ones((2, 1, 3), "f4"), "b.weight": np.ones(2, "f4")}
    names = {"c.weight": "c.weight", "b.weight": "norm.gamma"}
    ts.migrator.convert_weight(
        ms_file_save_path=tmp_path / "x.ckpt",
        weight_map=(names, {"c.weight": CONV1D}),
        **{keyword: weights},
    )
    rows = cells(capsys.readouterr().out)
    assert rows[2] == ["c.weight", "c.weight", "Value converted", "(2, 1, 3)", "(2, 1, 1, 3)"]
    assert rows[3][2] == "Name converted"
    assert open_dump(tmp_path / "x.ckpt").names == ["c.weight", "norm.gamma"]


def test_what_does_not_fit_writes_nothing(tmp_path):
    convert, out = ts.migrator.convert_weight, tmp_path / "x.ckpt"
    weights = {"a": np.ones(2, "f4"), "b": np.ones(2, "f4")}
    unfit = "unwanted .'b'., missing .'c'."
    with pytest.raises(WeightMapError, match=unfit):
        convert(ms_file_save_path=out, weight_map=({"a": "a", "c": "c"}, {}), pt_param_dict=weights)
    with pytest.raises(WeightMapError, match="'x' is the target of several: a, b"):
        convert(ms_file_save_path=out, weight_map=({"a": "x", "b": "x"}, {}), pt_param_dict=weights)
    with pytest.raises(FormatError, match=r"'a': the function 'builtins.print' is not called"):
        convert(
            ms_file_save_path=out,
            weight_map=({"a": "a", "b": "b"}, {"a": "builtins.print"}),
            pt_param_dict=weights,
        )
    with pytest.raises(OptionError, match="the weights are missing"):
        convert(ms_file_save_path=out, weight_map=({}, {}))
    with pytest.raises(OptionError, match="the weight map is missing"):
        convert(ms_file_save_path=out, pt_param_dict=weights)
    with pytest.raises(OptionError, match="needs ms_file_save_path"):
        convert(pt_param_dict=weights)
    assert not out.exists()


def test_what_mindspore_cannot_store_is_said(tmp_path, caplog):
    weights = {"a": np.ones(2, "f4"), "e": np.zeros((0, 3), "f4")}
    ts.migrator.convert_weight(
        ms_file_save_path=tmp_path / "x.ckpt",
        weight_map=({"a": "a", "e": "e"}, {}),
        pt_param_dict=weights,
        print_conv_info=False,
    )
    assert "e cannot be stored in this format: MindSpore keeps no empty tensors" in caplog.text


def test_the_status_says_what_was_not_stored(tmp_path, caplog, capsys):
    weights = {"a": np.ones(2, "f4"), "e": np.zeros((0, 3), "f4"), "c": np.ones(2, "c8")}
    ts.migrator.convert_weight(
        ms_file_save_path=tmp_path / "x.ckpt",
        weight_map=({name: name for name in weights}, {}),
        pt_param_dict=weights,
    )
    assert [row[2] for row in cells(capsys.readouterr().out)[2:]] == [
        "Consistent",
        "Not stored: MindSpore keeps no empty tensors ((0, 3))",
        "Not stored: MindSpore cannot load complex64 from a checkpoint",
    ]
    assert open_dump(tmp_path / "x.ckpt").names == ["a"]
    # What is there agrees: no warning that it differs.
    assert "differs" not in caplog.text


def test_a_yaml_may_drop_split_and_join(tmp_path, capsys):
    (tmp_path / "map.yaml").write_text(
        "weights:\n"
        "- {from: [p, q], to: pq, transform: concat(0)}\n"
        "- {from: n, to: null}\n"
        "- {from: w, to: [a, b], transform: 'split(0, 1, 2)'}\n"
        "- {from: v, to: v, transform: transpose}\n"
    )
    weights = {
        **{"w": np.arange(3.0), "p": np.ones(2), "q": np.zeros(1), "n": np.float64(3)},
        "v": np.arange(6.0).reshape(2, 3),
    }
    ts.migrator.convert_weight(tmp_path / "map.yaml", None, tmp_path / "x", pt_param_dict=weights)
    both = "Name converted; Value converted"
    assert cells(capsys.readouterr().out)[2:] == [
        ["w", "a + b", both, "(3,)", "(1,) + (2,)"],
        ["p + q", "pq", both, "(2,) + (1,)", "(3,)"],
        ["n", "None", "Dropped", "()", "None"],
        ["v", "v", "Value converted", "(2, 3)", "(3, 2)"],
    ]
    assert open_dump(tmp_path / "x.ckpt").names == ["a", "b", "pq", "v"]
    del weights["q"], weights["n"]
    with pytest.raises(WeightMapError, match=r"unwanted none, missing \['q', 'n'\]"):
        ts.migrator.convert_weight(
            tmp_path / "map.yaml", None, tmp_path / "x", pt_param_dict=weights
        )


@pytest.mark.torch
def test_parts_of_a_weight_keep_their_names(tmp_path, caplog):
    import torch
    from torch import nn

    net = nn.Sequential(
        nn.utils.weight_norm(nn.Linear(2, 2)),
        nn.utils.parametrizations.weight_norm(nn.Conv1d(2, 2, 3)),
        nn.utils.spectral_norm(nn.Linear(2, 2)),
        nn.BatchNorm1d(2),
    )
    names, functions = ts.migrator.get_weight_map(net, tmp_path / "map.yaml")
    assert list(names) == list(net.state_dict())
    assert functions == {}
    changed = {old: new for old, new in names.items() if old != new}
    assert changed.keys() == {f"3.{n}" for n in ("weight", "bias", "running_mean", "running_var")}
    assert "0.weight_g, 0.weight_v; MindSpore has the whole weight: call" in caplog.text
    assert "remove_spectral_norm(layer) first" in caplog.text
    torch.save(net.state_dict(), tmp_path / "net.pth")
    ts.migrator.convert_weight(tmp_path / "map.yaml", tmp_path / "net.pth", tmp_path / "x", False)
    assert open_dump(tmp_path / "x.ckpt").names == list(names.values())


@pytest.mark.torch
def test_nets_without_weights_or_shapes_and_a_folder_as_file(tmp_path, monkeypatch):
    from torch import nn

    monkeypatch.chdir(tmp_path)
    assert ts.migrator.get_weight_map(nn.ReLU(), "map.json", "net", dict) == ({}, {})
    assert json.loads((tmp_path / "map.json").read_text()) == [{}, {}]
    with pytest.raises(ValueError, match="'weight' has no shape yet; call the network once"):
        ts.migrator.get_weight_map(nn.LazyLinear(2))
    with pytest.raises(FormatError, match=r"cannot write '\.': a folder has this name"):
        ts.migrator.get_weight_map(nn.Linear(2, 2), ".")


@pytest.mark.torch
def test_a_net_is_saved_whole_or_not_at_all(tmp_path, monkeypatch):
    from torch import nn

    net = nn.utils.weight_norm(nn.Linear(2, 2))
    files = ["torch_net_architecture.txt", "torch_net_map.json", "w.pth"]
    ts.migrator.save_net_and_weight_params(net, tmp_path / "net", "w.pth")
    assert sorted(path.name for path in (tmp_path / "net").iterdir()) == files
    with pytest.raises(ValueError, match="no shape yet"):
        ts.migrator.save_net_and_weight_params(nn.LazyLinear(2), tmp_path / "a" / "b")
    (tmp_path / "c" / "torch_net_map.json").mkdir(parents=True)
    with pytest.raises(FormatError, match="a folder has this name"):
        ts.migrator.save_net_and_weight_params(net, tmp_path / "c")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "net"]
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["torch_net_map.json"]


@pytest.mark.torch
@pytest.mark.mindspore
def test_weights_are_loaded_and_what_is_not_loaded_is_returned(tmp_path, caplog):
    import mindspore
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    torch.save(net.state_dict(), tmp_path / "net.pth")
    ts.migrator.get_weight_map(net, str(tmp_path / "map.json"))
    cell = mindspore.nn.SequentialCell(
        mindspore.nn.Dense(3, 4), mindspore.nn.BatchNorm1d(4), mindspore.nn.Dense(4, 2)
    )
    missing, left = ts.migrator.convert_weight_and_load(
        str(tmp_path / "map.json"), str(tmp_path / "net.pth"), cell
    )
    assert sorted(missing) == ["2.bias", "2.weight"]
    assert left == ["1.num_batches_tracked"]
    np.testing.assert_array_equal(cell[0].weight.asnumpy(), net[0].weight.detach().numpy())
    assert "the network keeps its own values: 2." in caplog.text


def test_wrapped_weights_convert_as_plain_ones(tmp_path):
    weights = {"module.a": np.ones(2, "f4"), "optimizer.exp_avg.a": np.ones(2, "f4")}
    path = save_dump(weights, tmp_path / "net.pth")
    ts.migrator.convert_weight(
        pt_file_path=path,
        ms_file_save_path=tmp_path / "x",
        weight_map=({"module.a": "a"}, {}),
        print_conv_info=False,
    )
    assert open_dump(tmp_path / "x.ckpt").names == ["a"]
