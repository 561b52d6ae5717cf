"""The layer zoo as live networks of both frameworks: drafted, loaded, run, turned back."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from troubleshooter_nb import convert_weights, draft_weight_map, open_dump

DATA = Path(__file__).parents[1] / "data/compat/troubleshooter"
EXPECTED = json.loads((DATA / "expected_zoo_map_nn.json").read_text())
TRANSFORMS = {"identity": "copy", "expand_dims_axis2": "expand_dims(2)", "drop": "drop"}
TARGET_ONLY = ["i2.moving_mean", "i2.moving_variance"]
# Inputs by layer; "ids" are whole numbers below 3. i2 has no kernel on the CPU in MindSpore.
IMAGE, SOLID, LINE, STEPS = (2, 2, 3, 3), (2, 2, 3, 3, 3), (2, 1, 5), (4, 3, 2)
INPUTS = {
    "lin": (3, 2),
    "c1": LINE,
    "c2": (2, 1, 5, 4),
    "c3": (2, 1, 3, 4, 3),
    "t1": LINE,
    "t2": (2, 1, 4, 3),
    "b1": (3, 2),
    "b2": IMAGE,
    "b3": SOLID,
    "sb": IMAGE,
    "gn": IMAGE,
    "ln": (3, 2),
    "emb": "ids",
    "pr": IMAGE,
    "lstm": STEPS,
    "gru": STEPS,
    "mha": STEPS,
    "enc": STEPS,
}
# Float32 sums in another order; MindSpore's CPU kernels of exp and tanh are good to 1e-4 beyond
# the inputs that occur here (2e-6 for all layers together).
OUTPUTS_APART = 3e-6

pytestmark = [pytest.mark.torch, pytest.mark.mindspore]


def module(name):
    path = DATA / "nets" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture
def net():
    """The zoo of torch with values that no initialiser gives."""
    import torch

    torch.manual_seed(0)
    net = module("zoo_torch").Zoo().eval()
    with torch.no_grad():
        for name, tensor in net.state_dict().items():
            if tensor.dtype.is_floating_point:
                tensor.copy_(torch.rand(tensor.shape) + (0.5 if "var" in name else -0.25))
    return net


def drafted(weight_map):
    return {
        row.sources[0]: (row.targets[0] if row.targets else None, str(row.transform))
        for row in weight_map
    }


def test_the_map_is_the_expected_one(net):
    weight_map = draft_weight_map(net, module("zoo_mindspore").Zoo())
    assert drafted(weight_map) == {
        name: (row["target"], TRANSFORMS[row["transform"]]) for name, row in EXPECTED.items()
    }
    assert list(drafted(weight_map)) == list(EXPECTED)
    assert weight_map.unmatched_targets == TARGET_ONLY
    assert weight_map.unmatched_sources == []
    assert weight_map.problems() == []
    assert weight_map.suggestions == ()
    kinds = [str(row.transform) for row in weight_map]
    assert (kinds.count("drop"), kinds.count("expand_dims(2)")) == (4, 2)
    assert sum(bool(row.targets) and row.sources != row.targets for row in weight_map) == 32


def test_sixty_tensors_load_and_give_the_same_outputs(net, tmp_path):
    import mindspore
    import torch

    cell = module("zoo_mindspore").Zoo()
    cell.set_train(False)
    torch.save(net.state_dict(), tmp_path / "zoo.pth")
    weight_map = draft_weight_map(net, cell).keep(*TARGET_ONLY)
    proof = convert_weights(tmp_path / "zoo.pth", tmp_path / "zoo.ckpt", weight_map)
    assert proof.passed
    loaded = mindspore.load_checkpoint(str(tmp_path / "zoo.ckpt"))
    assert len(loaded) == 60
    not_loaded, left_over = mindspore.load_param_into_net(cell, loaded)
    assert not_loaded == TARGET_ONLY
    assert left_over == []
    state = net.state_dict()
    parameters = cell.parameters_dict()
    for name, row in EXPECTED.items():
        if row["target"]:
            ours = parameters[row["target"]].asnumpy()
            assert ours.tobytes() == state[name].numpy().tobytes(), name
    for name, shape in INPUTS.items():
        left, right = outputs(getattr(net, name), getattr(cell, name), name, shape)
        assert left.shape == right.shape, name
        assert np.abs(left - right).max() <= OUTPUTS_APART, name


def outputs(layer, cell, name, shape):
    import mindspore
    import torch

    rng = np.random.default_rng(0)
    given = np.array([[0, 2, 1]]) if shape == "ids" else rng.normal(size=shape).astype("f4")
    kind = mindspore.int32 if shape == "ids" else mindspore.float32
    times = 3 if name == "mha" else 1
    with torch.no_grad():
        ours = layer(*[torch.from_numpy(given)] * times)
    theirs = cell(*[mindspore.Tensor(given, kind)] * times)
    first = [made[0] if isinstance(made, tuple) else made for made in (ours, theirs)]
    return first[0].numpy(), first[1].asnumpy()


def test_the_way_back_gives_the_sixty_tensors_bit_for_bit(net, tmp_path):
    import torch

    cell = module("zoo_mindspore").Zoo()
    torch.save(net.state_dict(), tmp_path / "zoo.pth")
    weight_map = draft_weight_map(net, cell).keep(*TARGET_ONLY)
    convert_weights(tmp_path / "zoo.pth", tmp_path / "zoo.ckpt", weight_map)
    back = draft_weight_map(cell, net)
    assert back.unmatched_targets == []
    assert list(back.kept) == [n for n in EXPECTED if n.endswith("num_batches_tracked")]
    # MindSpore's own statistics of i2 are no tensors of the network of torch.
    back = back.drop(TARGET_ONLY[0]).drop(TARGET_ONLY[1])
    written = tmp_path / "back.pth"
    rows = [row for row in back if row.targets]
    assert len(rows) == 60
    there = open_dump(tmp_path / "zoo.ckpt")
    assert convert_weights(there, written, back.with_rows(rows)).passed
    state = torch.load(written, weights_only=True)
    expected = net.state_dict()
    assert set(state) == {name for name, row in EXPECTED.items() if row["target"]}
    for name, tensor in state.items():
        assert tensor.shape == expected[name].shape
        assert tensor.numpy().tobytes() == expected[name].numpy().tobytes(), name


def test_layers_of_mint_keep_names_and_shapes(tmp_path):
    import torch

    nets = module("zoo_mindspore")
    cell = nets.Zoo(mint=True)
    net = module("zoo_torch").Zoo(nets.mint_layers())
    weight_map = draft_weight_map(net, cell)
    assert drafted(weight_map) == {name: (name, "copy") for name in net.state_dict()}
    assert weight_map.unmatched_targets == []
    assert weight_map.problems() == []
    # Of a checkpoint alone, and by the option.
    torch.save(net.state_dict(), tmp_path / "zoo.pth")
    for source, target in ((tmp_path / "zoo.pth", "mindspore.mint"), (net, "mindspore.mint")):
        assert drafted(draft_weight_map(source, target)) == drafted(weight_map)


def test_a_full_zoo_towards_mint_renames_nothing_that_mint_has(net):
    weight_map = draft_weight_map(net, "mindspore.mint")
    nets = module("zoo_mindspore")
    has = set(nets.mint_layers())
    got = {n: to for n, to in drafted(weight_map).items() if n.partition(".")[0] in has}
    assert got == {name: (name, "copy") for name in got}
    assert len(got) == 36
    # What mint lacks is not renamed to what mindspore.nn calls it.
    assert all(to in (name, None) for name, (to, _) in drafted(weight_map).items())
