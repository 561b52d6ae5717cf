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
