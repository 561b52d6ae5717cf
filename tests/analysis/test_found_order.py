"""Where no file carries an order: read from values and from numbers in names, else said so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from troubleshooter_nb import compare, save_grad
from troubleshooter_nb.analysis.found_order import in_found_order


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def saved(folder: Path, arrays: dict[str, np.ndarray]) -> Path:
    """Arrays by name alone, as ``np.save`` leaves them."""
    for name, array in arrays.items():
        file = folder / f"{name}.npy"
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, array)
    return folder


def compared(tmp_path: Path, left: dict[str, np.ndarray], right: dict[str, np.ndarray], **options):
    sides = [saved(tmp_path / side, some) for side, some in (("left", left), ("right", right))]
    return compare(*sides, **options)


def first_of(found) -> str:
    return str(found.first_divergence.row["left_display"].values)


def states(found) -> dict[str, str]:
    columns = found.columns
    return dict(zip(columns["left_display"].tolist(), columns["origin"].tolist(), strict=True))


def two_calls(factor: float) -> dict[str, np.ndarray]:
    x = draw(8, 6)
    h = np.tanh(x)
    out = h * np.float32(2 * factor)
    return {"zeta.input": x, "zeta.output": h, "alpha.input": h, "alpha.output": out}


def test_a_value_equal_to_the_output_of_another_comes_after_it(tmp_path):
    found = compared(tmp_path, two_calls(1.1), two_calls(1.0))
    assert states(found)["alpha.output"] == "created"
    assert first_of(found) == "alpha.output"
    assert "inputs are equal" in str(found.explain())
    assert found.columns["order_known"].all()


def test_what_goes_in_comes_first_whatever_the_calls_are_called(tmp_path):
    def run(factor: float) -> dict[str, np.ndarray]:
        x = draw(8, 6) * np.float32(factor)
        h = np.tanh(x)
        return {"conv1.input": x, "conv1.output": h, "bn1.input": h, "bn1.output": h * 3}

    found = compared(tmp_path, run(1.1), run(1.0))
    assert first_of(found) == "conv1.input"
    assert set(states(found).values()) == {"created", "carried"}


def residual_block(factor: float = 1.0) -> dict[str, np.ndarray]:
    """Calls whose inputs unrecorded work made: an activation, and the sum of a residual."""
    x, w = draw(16, 8), draw(8, 8, seed=1)
    up = x @ w
    act = np.maximum(up, 0)
    down = act @ w.T * np.float32(factor)
    total = x + down
    head = total[:, :3] * 2
    return {
        "z_up.input": x, "z_up.output": up, "k_down.input": act, "k_down.output": down,
        "a_head.input": total, "a_head.output": head,
    }  # fmt: skip


def test_work_between_calls_puts_them_in_order(tmp_path):
    found = compared(tmp_path, residual_block(1.01), residual_block())
    assert first_of(found) == "k_down.output"
    assert states(found)["k_down.output"] == "created"
    assert states(found)["a_head.input"] == states(found)["a_head.output"] == "carried"


def pooled(images: np.ndarray) -> np.ndarray:
    """To 2 x 2, flattened, as in front of a last layer."""
    n, c, h, w = images.shape
    return images.reshape(n, c, 2, h // 2, 2, w // 2).mean(axis=(3, 5)).reshape(n, -1)


@pytest.mark.parametrize(
    ("shape", "between"),
    [
        ((8, 6), lambda x: x[:, :3]),
        ((8, 6), lambda x: x[:, 3:]),
        ((4, 5, 6), lambda x: x[:, -1]),
        ((4, 5, 6), lambda x: x[:, 0]),
        ((4, 5, 6), lambda x: x.mean(axis=1)),
        ((4, 3, 6, 6), lambda x: x.mean(axis=(2, 3))),
        ((4, 3, 6, 6), lambda x: x.mean(axis=(2, 3), keepdims=True)),
        ((4, 3, 6, 6), pooled),
        ((8, 6), lambda x: np.maximum(x[:, :3], 0)),
        ((8, 6), lambda x: x[:, :3] * x[:, 3:]),
        ((8, 6), lambda x: x[:, :3] + x[:, 3:]),
    ],
)
def test_a_part_or_a_mean_of_an_output_comes_after_it(tmp_path, shape, between):
    def run(factor: float) -> dict[str, np.ndarray]:
        x = draw(*shape)
        made = x * np.float32(factor) + 1
        given = between(made)
        return {"zeta.input": x, "zeta.output": made, "fc.input": given, "fc.output": given * 2}

    found = compared(tmp_path, run(1.1), run(1.0))
    assert first_of(found) == "zeta.output"
    assert states(found)["fc.input"] == states(found)["fc.output"] == "carried"
    assert found.columns["order_known"].all()


def outputs_alone(factor: float = 1.0) -> dict[str, np.ndarray]:
    """Outputs of layers without what went in, named after what they are."""
    x = draw(8, 6)
    stem = np.sin(x)
    neck = stem[:, ::-1] @ draw(6, 5, seed=2) * np.float32(factor)
    head = np.cos(neck @ draw(5, 4, seed=3))
    return {"stem": stem, "neck": neck, "head": head}


def test_where_nothing_tells_the_order_nobody_is_blamed_and_it_is_said(tmp_path):
    found = compared(tmp_path, outputs_alone(1.2), outputs_alone())
    assert set(states(found).values()) == {""}
    assert "order unknown" in found.verdict
    assert "first at" not in found.verdict
    assert "order of execution is not known" in str(found.explain())
    assert found.exit_code == 1


def test_without_a_diagnosis_an_unknown_order_is_said_as_well(tmp_path):
    found = compared(tmp_path, outputs_alone(1.2), outputs_alone(), diagnose=False)
    assert "order unknown" in found.verdict


def test_the_only_one_that_differs_needs_no_order(tmp_path):
    left = outputs_alone()
    left["head"] = left["head"] * np.float32(1.5)
    found = compared(tmp_path, left, outputs_alone())
    assert first_of(found) == "head"
    assert states(found)["head"] == "created"
    assert "order unknown" not in found.verdict


def numbered(names: list[str], wrong_from: int, *, seed: int = 3) -> dict[str, np.ndarray]:
    return {
        name: draw(4, 5, seed=seed + k) * np.float32(1.1 if k >= wrong_from else 1)
        for k, name in enumerate(names)
    }


@pytest.mark.parametrize(
    "names",
    [
        [f"h{k}" for k in range(12)],
        ["blocks.0.attn", "blocks.1.mlp", "blocks.2.attn", "blocks.10.mlp"],
        ["layer1", "layer2", "layer3", "layer4"],
    ],
)
def test_numbers_in_names_are_an_order(tmp_path, names):
    found = compared(tmp_path, numbered(names, 2), numbered(names, 99))
    assert first_of(found) == names[2]
    assert states(found)[names[2]] == "created"
    assert {states(found)[name] for name in names[3:]} == {"carried"}


@pytest.mark.parametrize("names", [["conv1x1", "conv3x3"], ["bn1d", "bn2d"], ["f256", "f64"]])
def test_numbers_that_do_not_count_are_none(tmp_path, names):
    found = compared(tmp_path, numbered(names, 0), numbered(names, 99))
    assert "order unknown" in found.verdict


def test_values_go_before_numbers(tmp_path):
    """A decoder whose blocks count downwards: the values say so."""

    def run(factor: float) -> dict[str, np.ndarray]:
        x = draw(6, 6)
        three = np.tanh(x)
        two = np.tanh(three * 2) * np.float32(factor)
        one = np.tanh(two * 3)
        return {
            "up3.input": x, "up3.output": three, "up2.input": three, "up2.output": two,
            "up1.input": two, "up1.output": one,
        }  # fmt: skip

    found = compared(tmp_path, run(1.1), run(1.0))
    assert first_of(found) == "up2.output"
    assert states(found)["up1.output"] == "carried"


def test_calls_that_only_pass_on_what_they_were_given_are_not_ordered_in_a_circle(tmp_path):
    x = draw(4, 4)
    arrays = {f"{name}.{way}": x for name in ("a", "b") for way in ("input", "output")}
    found = compared(tmp_path, arrays, arrays)
    ordered, [order] = in_found_order(found)
    assert order.before == [0, 0]
    assert len(ordered) == len(found)


@pytest.mark.torch
def test_gradients_of_outputs_are_walked_from_the_loss(tmp_path):
    import torch

    def run(folder: Path, factor: float) -> Path:
        torch.manual_seed(0)
        x = torch.randn(8, 16, requires_grad=True)
        for number in range(1, 8):
            if number == 6:
                x.register_hook(lambda gradient: gradient * factor)
            x = save_grad(folder / f"layer{number}", torch.nn.Linear(16, 16)(x).tanh())
        x.sum().backward()
        return folder

    found = compare(run(tmp_path / "left", 1.5), run(tmp_path / "right", 1.0))
    by_name = {name.split()[0]: state for name, state in states(found).items()}
    assert {name for name, state in by_name.items() if state == "created"} <= {"layer5", "layer4"}
    assert "layer1" not in first_of(found)
    assert {by_name[f"layer{k}"] for k in (1, 2, 3)} == {"carried"}


def test_unnumbered_gradients_of_layers_that_count_are_walked_from_the_loss(tmp_path):
    names = [f"grads/blocks.{k}.fc.weight" for k in range(4)]
    right = {name: draw(4, 5, seed=k) for k, name in enumerate(names)}
    left = {
        name: g * np.float32(1.3 if k < 2 else 1) for (k, (name, g)) in enumerate(right.items())
    }
    found = compared(tmp_path, left, right)
    assert "blocks.1" in first_of(found)


def test_unnumbered_gradients_without_an_order_blame_nobody(tmp_path):
    right = {f"grads/{name}.weight": draw(4, 5, seed=k) for k, name in enumerate("dcba")}
    rng = np.random.default_rng(9)
    left = {n: g * rng.standard_normal(g.shape).astype(np.float32) for n, g in right.items()}
    found = compared(tmp_path, left, right)
    assert set(states(found).values()) == {""}
    assert "order unknown" in found.verdict


def test_one_factor_of_all_gradients_needs_no_order(tmp_path):
    right = {f"grads/{name}.weight": draw(4, 5, seed=k) for k, name in enumerate("dcba")}
    left = {name: gradient * np.float32(1024) for name, gradient in right.items()}
    found = compared(tmp_path, left, right)
    assert [one.cause for one in found.findings][:1] == ["loss_scale_left"]


@pytest.mark.parametrize(
    "names", [["dec1", "dec0"], ["branch1", "branch2"], ["moe.experts.0", "moe.experts.1"]]
)
def test_numbers_of_what_stands_side_by_side_or_counts_down_are_no_order(tmp_path, names):
    def run(factor: float) -> dict[str, np.ndarray]:
        return {name: draw(8, 6, seed=k) * np.float32(factor) for k, name in enumerate(names)}

    found = compared(tmp_path, run(1.1), run(1.0))
    assert set(states(found).values()) == {""}
    assert "order unknown" in found.verdict
