"""Folders of arrays that were saved by hand, in the names that come naturally, are diagnosed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from troubleshooter_nb import compare, open_dump, save_dump

SPELLINGS = ["grads.{}", "torch_grads.{}", "{}.grad", "{}_grad", "{}_backward"]


def train(folder, rate: float, spelling: str, prefix: str = "") -> None:
    """Four steps of SGD with momentum on given gradients, parameters and gradients saved."""
    rng = np.random.default_rng(0)
    shapes = {"fc1.weight": (32, 8), "fc1.bias": (32,), "fc2.weight": (4, 32)}
    values = {name: rng.standard_normal(s).astype(np.float32) for name, s in shapes.items()}
    moments = {name: np.zeros(s, np.float32) for name, s in shapes.items()}
    for step in range(4):
        targets = {name: rng.standard_normal(s).astype(np.float32) for name, s in shapes.items()}
        gradients = {name: values[name] - targets[name] for name in shapes}
        saved = {prefix + name: array for name, array in values.items()}
        saved |= {spelling.format(name): array for name, array in gradients.items()}
        save_dump(saved, folder / f"step{step}")
        for name, gradient in gradients.items():
            moments[name] = np.float32(0.9) * moments[name] + gradient
            values[name] = values[name] - np.float32(rate) * moments[name]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("other", ["", "{}_backward", "grads.{}"])
def test_gradients_saved_by_hand_tell_the_learning_rate(tmp_path, spelling, other):
    train(tmp_path / "left", 0.1, spelling)
    train(tmp_path / "right", 0.05, other or spelling)
    found = compare(tmp_path / "left", tmp_path / "right").findings
    assert [one.cause for one in found] == ["learning_rate"]
    assert found[0].confidence > 0.9


def test_parameters_may_have_a_prefix_of_their_own(tmp_path):
    for side, rate in (("left", 0.1), ("right", 0.05)):
        train(tmp_path / side, rate, "grads.{}", "params.")
    found = compare(tmp_path / "left", tmp_path / "right").findings
    assert [one.cause for one in found] == ["learning_rate"]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_gradients_saved_by_hand_tell_the_reduction_of_the_loss(tmp_path, spelling):
    rng = np.random.default_rng(0)
    shapes = {"fc1.weight": (32, 8), "fc1.bias": (32,), "fc2.weight": (4, 32)}
    gradients = {spelling.format(name): rng.standard_normal(s) for name, s in shapes.items()}
    save_dump({name: array * 8 for name, array in gradients.items()}, tmp_path / "left")
    save_dump(gradients, tmp_path / "right")
    [found] = compare(tmp_path / "left", tmp_path / "right").findings
    assert found.cause == "loss_reduction"


def layernorm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(centred.var(-1, keepdims=True) + eps) * weight + bias


def hooked(eps: float = 1e-5, *, input: str = "{}.input", output: str = "{}.output", p: float = 0):
    """What forward hooks save of a dense layer, a normalisation and a dropout."""
    rng = np.random.default_rng(1)

    def draw(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    weights = {"fc.weight": draw(32, 32), "fc.bias": draw(32)}
    weights |= {"ln.weight": draw(32), "ln.bias": draw(32)}
    layers: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "fc": lambda x: (x @ weights["fc.weight"].T + weights["fc.bias"]) * np.float32(1),
        "ln": lambda x: layernorm(x, weights["ln.weight"], weights["ln.bias"], eps),
        "drop": lambda x: x * (draw(*x.shape) > -p) / np.float32(0.9) if p else x,
    }
    saved, value = dict(weights), draw(64, 32) * np.float32(0.1)
    for name, layer in layers.items():
        if input:
            saved[input.format(name)] = value
        value = layer(value).astype(np.float32)
        saved[output.format(name)] = value
    return saved


@pytest.mark.parametrize(
    ("input", "output"),
    [
        *(("{}.input", "{}.output"), ("{}.input_0", "{}.output_0"), ("{}.in", "{}.out")),
        *(("{}.input.0", "{}.output.0"), ("{}/input", "{}/output")),
    ],
)
@pytest.mark.parametrize("on_disk", [True, False])
def test_what_hooks_saved_is_diagnosed_as_calls(tmp_path, input, output, on_disk):
    sides = [hooked(eps, input=input, output=output) for eps in (1e-1, 1e-5)]
    if on_disk:
        sides = [save_dump(one, tmp_path / str(n)) for n, one in enumerate(sides)]
    got = compare(*sides)
    assert got.first_divergence.row["right_display"].item() == output.format("ln")
    assert [found.cause for found in got.findings] == ["norm_eps"]
    assert {check.what: check.status for check in got.preflight}["inputs"] == "ok"
    # What is shown, and what pairs them, are the names that were given.
    assert set(got.result["right_display"].values) == set(hooked(input=input, output=output))
    assert set(got.result["role"].values) == {"", "parameter"}


def test_each_visit_of_a_module_is_a_call_of_its_own(tmp_path):
    for side, eps in (("left", 1e-1), ("right", 1e-5)):
        folder = tmp_path / side
        folder.mkdir()
        arrays = [hooked(), hooked(eps)]
        number = 0
        for run_call in arrays:
            for name, array in run_call.items():
                if name.endswith("put"):
                    np.save(folder / f"{name}_float32_{number}.npy", array)
                    number += 1
        for name in ("fc.weight", "fc.bias", "ln.weight", "ln.bias"):
            np.save(folder / f"{name}.npy", arrays[0][name])
    got = compare(tmp_path / "left", tmp_path / "right")
    assert [found.cause for found in got.findings] == ["norm_eps"]
    assert got.first_divergence.row["right"].item() == "ln.output_float32_9"


def test_outputs_alone_are_told_whatever_the_word_for_them(tmp_path):
    sides = [save_dump(hooked(e, input=""), tmp_path / f"{e}") for e in (1e-1, 1e-5)]
    plain = [
        save_dump(hooked(e, input="", output="{}.value"), tmp_path / f"plain{e}")
        for e in (1e-1, 1e-5)
    ]
    got, wanted = compare(*sides), compare(*plain)
    assert got.result["origin"].values.tolist() == wanted.result["origin"].values.tolist()
    assert [check.what for check in got.preflight] == [check.what for check in wanted.preflight]
    for found in (got, wanted):
        assert [one.cause for one in found.findings] == ["norm_eps"]
    assert set(open_dump(sides[0]).index["kind"].values) == {"file"}


def test_a_layer_called_drop_is_a_dropout():
    found = compare(hooked(p=0.5), hooked()).findings
    assert [one.cause for one in found] == ["eval_train_mode"]
