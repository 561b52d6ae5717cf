"""Converted weights are loaded into a network whole or not at all, and proved by the outputs."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from troubleshooter_nb import convert_weights, draft_weight_map
from troubleshooter_nb.errors import WeightMapError
from troubleshooter_nb.frameworks import require

pytestmark = [pytest.mark.torch, pytest.mark.mindspore]
X = np.random.default_rng(0).normal(size=(2, 3, 6, 6))


@pytest.fixture
def networks():
    import torch
    from mindspore import nn

    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, padding=1),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.5),
        torch.nn.Flatten(),
        torch.nn.Linear(144, 2),
    )
    cell = nn.SequentialCell(
        nn.Conv2d(3, 4, 3, pad_mode="pad", padding=1, has_bias=True),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Dropout(p=0.5),
        nn.Flatten(),
        nn.Dense(144, 2),
    )
    return net, cell


def values(framework, net):
    adapter = require(framework)
    return {n: adapter.to_numpy(t).tobytes() for n, t in adapter.tensors(net).items()}


def test_a_network_is_filled_and_its_outputs_are_those_of_the_source(networks):
    net, cell = networks
    net.train()
    weight_map = draft_weight_map(net, cell)
    proof = convert_weights(net, cell, weight_map, inputs=X)
    assert proof.passed
    assert np.array_equal(cell[0].weight.asnumpy(), net[0].weight.detach().numpy())
    assert proof.result["left"].values.tolist()[-1] == "output"
    assert any("1 of 1 agree" in note for note in proof.notes)
    # The modes are what they were, although dropout took no part.
    assert net.training
    assert net[3].training
    assert not cell.training
    assert cell.phase == "train"


def test_a_network_of_torch_is_filled_from_one_of_mindspore_and_from_its_file(networks, tmp_path):
    import mindspore

    net, cell = networks
    weight_map = draft_weight_map(cell, net)
    assert convert_weights(cell, net, weight_map, inputs=[X]).passed
    mindspore.save_checkpoint(cell, str(tmp_path / "cell.ckpt"))
    net[0].weight.data.zero_()
    proof = convert_weights(tmp_path / "cell.ckpt", net, weight_map)
    assert proof.passed
    assert any("num_batches_tracked" in note for note in proof.notes)
    assert np.array_equal(cell[0].weight.asnumpy(), net[0].weight.detach().numpy())
    assert net[0].weight.requires_grad


def test_networks_are_sources_of_files(networks, tmp_path):
    net, cell = networks
    weight_map = draft_weight_map(net, cell)
    assert convert_weights(net, tmp_path / "net.ckpt", weight_map).passed


def test_outputs_that_differ_fail_the_proof_although_all_weights_are_equal(networks):
    net, cell = networks
    net[1].eps = 1.0
    proof = convert_weights(net, cell, draft_weight_map(net, cell), inputs=X)
    assert not proof.passed
    verdicts = dict(zip(proof.result["left"].values, proof.result["verdict"].values, strict=True))
    assert verdicts.pop("output") == "differs"
    assert set(verdicts.values()) <= {"identical", "missing"}
    assert any("0 of 1 agree" in note for note in proof.notes)


def test_without_loading_nothing_changes(networks):
    net, cell = networks
    before = values("mindspore", cell)
    weight_map = draft_weight_map(net, cell)
    assert not convert_weights(net, cell, weight_map, load=False, inputs=X).passed
    assert values("mindspore", cell) == before
    assert convert_weights(net, cell, weight_map).passed
    assert convert_weights(net, cell, weight_map, load=False, inputs=X).passed


def test_a_network_keeps_its_own_dtypes(networks):
    import mindspore
    import torch

    net, cell = networks
    for parameter in cell.get_parameters():
        parameter.set_dtype(mindspore.float16)
    proof = convert_weights(net, cell, draft_weight_map(net, cell))
    assert proof.passed
    assert any("in the dtype of the network" in note for note in proof.notes)
    assert cell[0].weight.dtype == mindspore.float16
    half = torch.nn.Linear(2, 2).to(torch.bfloat16)
    arrays = {"weight": np.array([[1.001, 2], [3, 4]]), "bias": np.zeros(2)}
    assert convert_weights(arrays, half, draft_weight_map(arrays, half)).passed
    expected = arrays["weight"].astype(ml_dtypes.bfloat16).astype(np.float64)
    assert np.array_equal(half.weight.detach().double().numpy(), expected)


def refused(source, net, weight_map, match, **asked):
    framework = "torch" if hasattr(net, "state_dict") else "mindspore"
    before = values(framework, net)
    errors = (WeightMapError, ValueError, TypeError, RuntimeError, MemoryError)
    with pytest.raises(errors, match=match):
        convert_weights(source, net, weight_map, **asked)
    assert values(framework, net) == before


def test_what_does_not_fit_is_refused_before_anything_changes(networks):
    import mindspore

    net, cell = networks
    weight_map = draft_weight_map(net, cell)
    other = mindspore.nn.SequentialCell(mindspore.nn.Dense(2, 2))
    refused(net, other, weight_map, r"of shape \(2, 2\)")
    longer = mindspore.nn.SequentialCell(*cell, mindspore.nn.Dense(2, 2))
    refused(net, longer, weight_map, r"own values of 2 parameters: 6.weight, 6.bias; .*strict")
    refused(net, net, draft_weight_map(net, net), "holds tensors of the source")
    whole = {"weight": np.ones((2, 2), np.int64), "bias": np.ones(2)}
    dense = mindspore.nn.Dense(2, 2)
    refused(whole, dense, draft_weight_map(whole, dense), "cannot take values of int64")
    refused(whole, dense, draft_weight_map(whole, dense), "two networks", inputs=X)
    with pytest.raises(TypeError, match="a path or a network"):
        convert_weights(net, 3, weight_map)
    with pytest.raises(ValueError, match="two networks"):
        convert_weights(net, "net.ckpt", weight_map, inputs=X)


def test_a_part_is_loaded_where_that_is_asked_for(networks):
    import mindspore

    net, cell = networks
    longer = mindspore.nn.SequentialCell(*cell, mindspore.nn.Dense(2, 2))
    proof = convert_weights(net, longer, draft_weight_map(net, cell), strict=False)
    assert proof.passed
    assert any(note.startswith("kept as they are") and "6.weight" in note for note in proof.notes)


@pytest.mark.parametrize("at", ["write", "call"])
def test_an_error_on_the_way_brings_the_old_values_back(networks, monkeypatch, at):
    net, cell = networks
    weight_map = draft_weight_map(net, cell)
    if at == "call":
        refused(net, cell, weight_map, "C_in", inputs=X[:, :2])
        return
    adapter, written = require("mindspore"), []
    write = adapter.write

    def fails_once(tensor, array):
        written.append(tensor)
        if len(written) == 4:
            raise MemoryError
        write(tensor, array)

    monkeypatch.setattr(adapter, "write", fails_once)
    refused(net, cell, weight_map, "^$")


def test_tied_parameters_are_filled_by_any_of_their_names():
    import torch

    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.head = torch.nn.Embedding(5, 3), torch.nn.Linear(3, 5, bias=False)
            self.head.weight = self.emb.weight

        def forward(self, ids):
            return {"logits": self.head(self.emb(ids)), "parts": (ids,)}

    source, net = Tied(), Tied()
    weight_map = draft_weight_map(source, net)
    alone = weight_map.with_rows([row for row in weight_map if row.targets == ("emb.weight",)])
    proof = convert_weights(source, net, alone, inputs={"ids": np.array([[1, 4]])})
    assert proof.passed
    assert proof.result["left"].values.tolist()[-2:] == ["output.logits", "output.parts.0"]


def test_a_layer_that_is_called_as_a_state_of_an_optimizer_is_a_layer():
    import torch

    source, net = (torch.nn.ModuleDict({"linear": torch.nn.Linear(2, 2)}) for _ in range(2))
    proof = convert_weights(source, net, draft_weight_map(source, net))
    assert proof.passed
    assert {*proof.result["role"].values} == {"parameter"}
