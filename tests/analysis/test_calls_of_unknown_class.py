"""What a call is where nothing says its class: shapes and values decide what is tried."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from troubleshooter_nb import compare


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def uniform(*shape: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).random(shape) + 0.5).astype(np.float32)


def along(values: np.ndarray, count: int) -> np.ndarray:
    return values.astype(np.float64).reshape(1, -1, *[1] * (count - 2))


def batch_norm(x, weight, bias, mean, var, eps):
    weight, bias, mean, var = (along(one, x.ndim) for one in (weight, bias, mean, var))
    return ((x - mean) / np.sqrt(var + eps) * weight + bias).astype(np.float32)


def group_norm(x, weight, bias, groups, eps):
    rows = x.reshape(len(x), groups, -1).astype(np.float64)
    rows = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + eps)
    made = rows.reshape(x.shape) * along(weight, x.ndim) + along(bias, x.ndim)
    return made.astype(np.float32)


def conv(x, weight, mode="constant"):
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), mode=mode).astype(np.float64)
    seen = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", seen, weight).astype(np.float32)


def softmax(x, axis):
    e = np.exp(x.astype(np.float64))
    return (e / e.sum(axis, keepdims=True)).astype(np.float32)


def pooled(x, padded):
    """Windows of three with a stride of two, the border counted or not."""
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))).astype(np.float64)
    ones = np.pad(np.ones_like(x), ((0, 0), (0, 0), (1, 1), (1, 1)))
    sums, counts = (
        np.lib.stride_tricks.sliding_window_view(one, (3, 3), axis=(2, 3))[:, :, ::2, ::2].sum(
            (-1, -2)
        )
        for one in (wide, ones)
    )
    return (sums / (9.0 if padded else counts)).astype(np.float32)


def of_layers():
    x = normal(2, 4, 11, 11)
    weight, bias, mean, var = uniform(4), 0.1 * normal(4, seed=1), normal(4, seed=2), uniform(4)
    kernel, offset = 0.2 * normal(5, 4, 3, 3, seed=3), normal(5, seed=4)
    plain = conv(x, kernel)
    stats = {"weight": weight, "bias": bias, "running_mean": mean, "running_var": var}
    small = 0.01 * x
    affine = {"weight": weight, "bias": bias}
    return {
        "bn1": (
            ("bn_eps", x, stats),
            *(batch_norm(x, *stats.values(), eps) for eps in (1e-3, 1e-5)),
        ),
        "downsample.1": (
            ("bn_eps", x, stats),
            *(batch_norm(x, *stats.values(), eps) for eps in (1e-3, 1e-5)),
        ),
        "conv1": (
            ("bias_missing", x, {"weight": kernel, "bias": offset}),
            plain,
            plain + offset[:, None, None],
        ),
        "stem": (("pad_mode", x, {"weight": kernel}), conv(x, kernel, "reflect"), plain),
        "gn": (
            ("norm_eps", small, affine),
            *(group_norm(small, weight, bias, 2, eps) for eps in (1e-6, 1e-5)),
        ),
        "pool": (("pool_rounding", x, {}), pooled(x, False), pooled(x, True)),
        "sm": (("softmax_axis", x, {}), softmax(x, 1), softmax(x, -1)),
    }


LAYERS = of_layers()


def saved(
    name: str, side: int, spelling: Mapping[str, str], leaves: Mapping[str, str] | None = None
) -> dict[str, np.ndarray]:
    (_, x, parameters), *outputs = LAYERS[name]
    found = {
        spelling["input"].format(name): x,
        spelling["output"].format(name): outputs[side],
    }
    for leaf, values in parameters.items():
        word = (leaves or {}).get(leaf, leaf)
        found[spelling.get("parameter", "{}.{}").format(name, word)] = values
    return found


DOTTED = {"input": "{}.input", "output": "{}.output"}


def causes_of(name, spelling=DOTTED, leaves=None):
    sides = (saved(name, side, spelling, leaves) for side in (0, 1))
    found = compare(*sides).findings
    assert all(one.confidence > 0.9 for one in found)
    return [one.cause for one in found]


@pytest.mark.parametrize("name", LAYERS)
def test_a_call_is_told_whatever_its_module_is_called(name):
    assert causes_of(name) == [LAYERS[name][0][0]]


SPELLINGS = {
    "joined": {"input": "{}_in", "output": "{}_out", "parameter": "{}_{}"},
    "folders": {"input": "inputs/{}", "output": "outputs/{}", "parameter": "params/{}.{}"},
    "in front": {"input": "x_{}", "output": "y_{}", "parameter": "{1}_{0}"},
}
SHORT = {"weight": "g", "bias": "beta", "running_mean": "mean", "running_var": "var"}


@pytest.mark.parametrize("leaves", [None, SHORT, {"weight": "w", "bias": "b"}])
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", ["bn1", "conv1"])
def test_spellings_of_calls_and_parameters_are_read(name, spelling, leaves):
    assert causes_of(name, SPELLINGS[spelling], leaves) == [LAYERS[name][0][0]]


@pytest.mark.parametrize("name", LAYERS)
def test_equal_calls_of_unknown_class_give_no_finding(name):
    left, right = (saved(name, 1, DOTTED) for _ in (0, 1))
    shaken = left[f"{name}.output"] * (1 + 2.0**-24 * normal(*left[f"{name}.output"].shape))
    left[f"{name}.output"] = shaken.astype(np.float32)
    assert compare(left, right).findings == ()


def dump_of_modules(folder: Path, calls: Mapping[str, tuple]) -> Path:
    """A dump in msprobe's layout: class, input, output and parameters of every call."""
    home = folder / "step0" / "rank0"
    (home / "dump_tensor_data").mkdir(parents=True)

    def keep(name, values):
        np.save(home / "dump_tensor_data" / f"{name}.npy", values)
        kind, shape = f"torch.{values.dtype}", list(values.shape)
        return {"type": "torch.Tensor", "dtype": kind, "shape": shape, "data_name": f"{name}.npy"}

    data = {}
    for path, (layer, x, y, parameters) in calls.items():
        call = f"Module.{path}.{layer}.forward.0"
        data[call] = {
            "input_args": [keep(f"{call}.input.0", x)],
            "input_kwargs": {},
            "output": [keep(f"{call}.output.0", y)],
            "parameters": {k: keep(f"{call}.parameters.{k}", v) for k, v in parameters.items()},
        }
    text = {"task": "tensor", "level": "L0", "framework": "pytorch", "data": data}
    (home / "dump.json").write_text(json.dumps({**text, "dump_data_dir": "./dump_tensor_data"}))
    return folder


def windows(x, how):
    n, c, h, w = x.shape
    return how(how(x.reshape(n, c, h // 2, 2, w // 2, 2), axis=5), axis=3).astype(np.float32)


def network(layer: str, how) -> dict[str, tuple]:
    """A pooling of that class between a convolution and a dense layer."""
    image, kernel, weight = normal(3, 3, 8, 8), normal(4, 3, 3, 3, seed=1), normal(2, 64, seed=2)
    seen = conv(image, kernel)
    made = windows(seen, how)
    flat = made.reshape(3, -1)
    return {
        "conv": ("Conv2d", image, seen, {"weight": kernel}),
        "pool": (layer, seen, made, {}),
        "flat": ("Flatten", made, flat, {}),
        "fc": ("Linear", flat, (flat.astype(np.float64) @ weight.T).astype(np.float32),
               {"weight": weight}),
    }  # fmt: skip


def test_another_class_at_one_path_is_a_pair_and_a_finding(tmp_path):
    found = compare(
        dump_of_modules(tmp_path / "left", network("AvgPool2d", np.mean)),
        dump_of_modules(tmp_path / "right", network("MaxPool2d", np.max)),
    )
    assert str(found.first_divergence.row["right_display"].values) == "pool output 0"
    assert (found.result["right_entry"].values >= 0).all()
    [one] = found.findings
    assert one.cause == "other_layer"
    assert one.confidence > 0.8
    assert "pool is AvgPool2d on the left and MaxPool2d on the right" in str(found.explain())


def test_two_classes_that_no_formula_explains_are_a_finding_that_is_less_sure(tmp_path):
    x = normal(6, 16)
    other = np.sin(3 * x).astype(np.float32), np.cos(x).astype(np.float32)
    found = compare(
        dump_of_modules(tmp_path / "left", {"norm": ("LayerNorm", x, other[0], {})}),
        dump_of_modules(tmp_path / "right", {"norm": ("GELU", x, other[1], {})}),
    )
    [one] = found.findings
    assert (one.cause, one.confidence > 0.5) == ("other_layer", True)
    assert one.confidence < 0.8


def outputs_alone(names: Mapping[str, str], eps: float = 1e-5, mode: str = "constant"):
    """What a convolution, a batch norm and a ReLU gave, saved under these names."""
    x, kernel = normal(2, 3, 9, 9), 0.02 * normal(4, 3, 3, 3, seed=1)
    stats = uniform(4), normal(4, seed=2), 0.01 * normal(4, seed=3), 1e-2 * uniform(4, seed=4)
    seen = conv(x, kernel, mode)
    normed = batch_norm(seen, *stats, eps)
    found = {"x": x, "conv": seen, "bn": normed, "relu": np.maximum(normed, 0)}
    leaves = ("weight", "bias", "running_mean", "running_var")
    of_layers = {
        "conv.weight": kernel,
        **{f"bn.{k}": v for k, v in zip(leaves, stats, strict=True)},
    }
    named = {names[key]: values for key, values in found.items()}
    for key, values in of_layers.items():
        layer, _, leaf = key.partition(".")
        named[names.get("parameter", "{}.{}").format(names[f"{layer}_"], leaf)] = values
    return named


NUMBERED = {
    "plain": {"x": "0_x", "conv": "1_conv1", "bn": "2_bn1", "relu": "3_relu1",
              "conv_": "conv1", "bn_": "bn1"},
    "outputs": {"x": "a_x", "conv": "b.conv1.output", "bn": "c.bn1.output", "relu": "d.relu.output",
                "conv_": "b.conv1", "bn_": "c.bn1"},
    "hidden": {"x": "h0", "conv": "h1", "bn": "h2", "relu": "h3", "conv_": "h1", "bn_": "h2"},
}  # fmt: skip


@pytest.mark.parametrize("names", NUMBERED)
def test_of_outputs_alone_the_one_before_is_the_input(tmp_path, names):
    for side, more in (("left", {"eps": 1e-3}), ("right", {})):
        (tmp_path / side).mkdir()
        for name, values in outputs_alone(NUMBERED[names], **more).items():
            np.save(tmp_path / side / f"{name}.npy", values)
    found = compare(tmp_path / "left", tmp_path / "right")
    assert [one.cause for one in found.findings] == ["bn_eps"]


def test_of_outputs_alone_an_activation_is_told_without_parameters():
    x = normal(8, 32)
    sides = (
        {"h0": x, "h1": made.astype(np.float32), "h2": (made * 2).astype(np.float32)}
        for made in (np.tanh(x), np.maximum(x, 0))
    )
    assert [one.cause for one in compare(*sides).findings] == ["activation_changed"]


def swish(x, slope):
    return (x / (1 + np.exp(-slope * x.astype(np.float64)))).astype(np.float32)


def test_a_class_that_stays_unknown_is_said_with_what_would_be_tried():
    x = normal(6, 32)
    sides = ({"mix1.input": x, "mix1.output": np.cumsum(one, -1)} for one in (x * x, x))
    notes = [note for note in compare(*sides).notes if "mix1" in note]
    assert len(notes) == 1
    assert 'layers={"mix1": "..."}' in notes[0]
    assert "GELU" in notes[0]


def test_the_user_says_what_a_call_is():
    """Of three rows no law tells a norm from another function of each row."""
    x = normal(3, 64)
    sides = {}
    for side, rate in (("left", 0.3), ("right", 0.1)):
        keep = np.random.default_rng(1).random(x.shape) >= rate
        sides[side] = {"mix1.input": x, "mix1.output": (x * keep / (1 - rate)).astype(np.float32)}
    assert compare(*sides.values()).findings == ()
    found = compare(*sides.values(), layers={"mix1": "Dropout"}).findings
    assert [one.cause for one in found] == ["dropout_keep_prob"]


def test_a_class_given_to_no_call_is_said():
    x = normal(6, 32)
    sides = ({"mix1.input": x, "mix1.output": one} for one in (np.tanh(x), x))
    notes = compare(*sides, layers={"mix2": "GELU"}).notes
    assert any("mix2" in note for note in notes)


def test_a_class_without_a_formula_is_refused():
    with pytest.raises(ValueError, match=r"layers\['bn1'\].*BatchNorm2d"):
        compare({"x": normal(4)}, {"x": normal(4)}, layers={"bn1": "BatchNrm2d"})
    with pytest.raises(TypeError, match="left_net takes a torch"):
        compare({"x": normal(4)}, {"x": normal(4)}, left_net=3)


@pytest.mark.torch
def test_a_network_at_hand_gives_classes_and_settings():
    import torch

    x = torch.as_tensor(normal(4, 6, 5, 5) * 0.01)
    sides, nets = [], []
    for groups in (3, 2):
        net = torch.nn.Sequential()
        net.add_module("mix", torch.nn.GroupNorm(groups, 6))
        made = net(x).detach().numpy()
        sides.append({"mix.input": x.numpy(), "mix.output": made})
        nets.append(net)
    found = compare(*sides, left_net=nets[0], right_net=nets[1]).findings
    assert [one.cause for one in found] == ["normalised_axes"]
    assert found[0].evidence["left"] == 3


def dump_of_operator(folder: Path, name: str, x, number: float, y) -> Path:
    """An operator that was given a number, in msprobe's layout, and a ReLU behind it."""
    home = folder / "step0" / "rank0"
    (home / "dump_tensor_data").mkdir(parents=True)

    def keep(name, values):
        np.save(home / "dump_tensor_data" / f"{name}.npy", values)
        kind, shape = f"torch.{values.dtype}", list(values.shape)
        return {"type": "torch.Tensor", "dtype": kind, "shape": shape, "data_name": f"{name}.npy"}

    data = {}
    calls = {
        f"Tensor.{name}.0.forward": ([x, number], y),
        "Functional.relu.0.forward": ([y], np.maximum(y, 0)),
    }
    for call, (given, made) in calls.items():
        data[call] = {
            "input_args": [
                {"type": "float", "value": one}
                if isinstance(one, float)
                else keep(f"{call}.input.{k}", one)
                for k, one in enumerate(given)
            ],
            "input_kwargs": {},
            "output": [keep(f"{call}.output.0", made)],
        }
    text = {"task": "tensor", "level": "L1", "framework": "pytorch", "data": data}
    (home / "dump.json").write_text(json.dumps({**text, "dump_data_dir": "./dump_tensor_data"}))
    return folder


@pytest.mark.parametrize(
    ("name", "numbers", "made"),
    [
        ("__mul__", (0.35, 1.0), np.multiply),
        ("__add__", (1e-3, 1e-5), np.add),
        ("__truediv__", (8.0, 64.0), np.divide),
    ],
)
def test_a_number_given_to_an_operator_is_the_cause_itself(tmp_path, name, numbers, made):
    x = normal(4, 6, 8)
    sides = (
        dump_of_operator(tmp_path / str(one), name, x, one, made(x, np.float32(one)))
        for one in numbers
    )
    found = compare(*sides)
    [one] = found.findings
    assert (one.cause, one.pair) == ("constant_differs", 1)
    assert one.confidence > 0.9
    assert found.first_divergence.row["order"] == 1


def test_a_factor_in_a_layer_of_ones_own_is_found():
    x = normal(4, 6, 8)
    sides = ({"rescale1.input": x, "rescale1.output": x * np.float32(one)} for one in (0.35, 1.0))
    [one] = compare(*sides).findings
    assert (one.cause, one.evidence["left"]) == ("constant_differs", pytest.approx(0.35))


def gate_and_up(chosen: str) -> dict[str, np.ndarray]:
    """A layer of one's own that passes on one of two projections."""
    x, gate, up = normal(6, 16), normal(24, 16, seed=1), normal(24, 16, seed=2)
    made = {
        "gate_proj": (x.astype(np.float64) @ gate.T).astype(np.float32),
        "up_proj": (x.astype(np.float64) @ up.T).astype(np.float32),
    }
    return {
        "a1.input": x,
        "a1.output": made["gate_proj"],
        "b1.input": x,
        "b1.output": made["up_proj"],
        "c1.input.0": made["gate_proj"],
        "c1.input.1": made["up_proj"],
        "c1.output": made[chosen],
    }


def test_what_is_proved_without_a_name_of_a_cause_is_shown():
    found = compare(gate_and_up("up_proj"), gate_and_up("gate_proj"))
    assert found.findings == ()
    text = str(found.explain())
    assert "left is a copy of b1.output, right is a copy of a1.output" in text


def silu(x):
    return x / (1 + np.exp(-x.astype(np.float64)))


def gelu(x):
    wide = x.astype(np.float64)
    return 0.5 * wide * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))


def masked(x, value, window=99):
    seen = np.ones(x.shape[-2:], bool)
    return np.where(np.tril(seen) & np.triu(seen, 1 - window), x, np.float32(value))


Q, K, G, U = (normal(2, 4, 8, 8, seed=seed) for seed in range(4))
GAMMA = 1 + 0.1 * normal(8, seed=5)
# What layers of people's own are given, with parameters, and what the two sides make of it.
OWN = {
    "scores": ("attention_scale", (Q, K), {}, [Q @ K.swapaxes(-1, -2) * s for s in (0.3, 0.4)]),
    "mask": ("mask_value", (Q,), {}, [masked(Q, one) for one in (-2.0, -1e4)]),
    "unmasked": ("mask_missing", (Q,), {}, [Q, masked(Q, -1e4)]),
    "window": ("attention_window", (Q,), {}, [masked(Q, -1e4), masked(Q, -1e4, 3)]),
    "wider": ("attention_window", (Q,), {}, [masked(Q, -1e4, one) for one in (3, 4)]),
    "expand": ("grouped_heads", (Q,), {}, [Q.repeat(2, 1), np.concatenate([Q, Q], 1)]),
    "swiglu": ("argument_order", (G, U), {}, [silu(U) * G, silu(G) * U]),
    "geglu": ("activation_changed", (G, U), {}, [gelu(G) * U, silu(G) * U]),
    "gate": ("bn_gamma_ignored", (Q,), {"gain": GAMMA}, [Q, Q * GAMMA]),
    "layerscale": ("norm_weight_plus_one", (Q,), {"gamma_1": GAMMA}, [Q * (1 + GAMMA), Q * GAMMA]),
    "rescale": ("constant_differs", (Q,), {}, [Q * np.float32(one) for one in (0.35, 1.0)]),
    "residual": ("constant_differs", (Q, K), {}, [Q + np.float32(one) * K for one in (0.5, 1.0)]),
}


def dump_of_own(folder: Path, given, parameters, made) -> Path:
    """A leaf module of a class of one's own, and a tanh behind it, in msprobe's layout."""
    home = folder / "step0" / "rank0"
    (home / "dump_tensor_data").mkdir(parents=True)

    def keep(name, values):
        values = np.asarray(values, np.float32)
        np.save(home / "dump_tensor_data" / f"{name}.npy", values)
        shape = list(values.shape)
        return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": shape,
                "data_name": f"{name}.npy"}  # fmt: skip

    data = {}
    calls = [("own", "Mine", given, made, parameters)]
    calls.append(("act", "Tanh", (made,), np.tanh(made), {}))
    for path, layer, inputs, output, known in calls:
        call = f"Module.{path}.{layer}.forward.0"
        data[call] = {
            "input_args": [keep(f"{call}.input.{k}", one) for k, one in enumerate(inputs)],
            "input_kwargs": {},
            "output": [keep(f"{call}.output.0", output)],
            "parameters": {k: keep(f"{call}.parameters.{k}", v) for k, v in known.items()},
        }
    text = {"task": "tensor", "level": "L0", "framework": "pytorch", "data": data}
    (home / "dump.json").write_text(json.dumps({**text, "dump_data_dir": "./dump_tensor_data"}))
    return folder


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("name", OWN)
def test_leaves_of_classes_of_ones_own_are_asked(tmp_path, name, swapped):
    cause, given, parameters, made = OWN[name]
    left, right = made[::-1] if swapped else made
    found = compare(
        dump_of_own(tmp_path / "left", given, parameters, left),
        dump_of_own(tmp_path / "right", given, parameters, right),
    )
    assert [one.cause for one in found.findings] == [cause]
    assert found.findings[0].confidence > 0.9


@pytest.mark.parametrize("name", OWN)
def test_leaves_of_ones_own_that_both_sides_share_created_nothing(tmp_path, name):
    _, given, parameters, (_, made) = OWN[name]
    shaken = np.asarray(made, np.float32) * (1 + 2.0**-24 * normal(*np.shape(made), seed=9))
    found = compare(
        dump_of_own(tmp_path / "left", given, parameters, shaken),
        dump_of_own(tmp_path / "right", given, parameters, made),
    )
    assert found.findings == ()
