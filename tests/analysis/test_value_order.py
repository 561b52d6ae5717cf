"""One save or one pass more on a side: values that agree say which one it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from troubleshooter_nb import compare, pair_dumps, record

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def draw(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def saved(folder: Path, arrays: list[np.ndarray], name: str = "{}_act") -> Path:
    folder.mkdir()
    for number, array in enumerate(arrays):
        np.save(folder / f"{name.format(number)}.npy", array)
    return folder


def partners(pairing) -> dict[str, str]:
    columns = pairing.columns
    both = zip(columns["left"].tolist(), columns["right"].tolist(), strict=True)
    return {left: right for left, right in both if left}


@pytest.mark.parametrize("name", ["{}_act", "act_{}", "blocks.{}.out"])
@pytest.mark.parametrize("turned", [False, True])
def test_values_place_the_save_that_one_side_has_more(tmp_path, name, turned):
    values = [draw(4, 5, seed=k) for k in range(10)]
    more = [*values[:4], np.maximum(values[3], 0), *values[4:]]
    sides = [saved(tmp_path / "more", more, name), saved(tmp_path / "less", values, name)]
    found = compare(*(sides[::-1] if turned else sides))
    side = "right" if turned else "left"
    alone = [row for row in found.pairing.columns[side].tolist()]
    assert found.columns["identical"].sum() == 10
    [missing] = np.flatnonzero(found.columns["verdict"] == "missing")
    assert found.columns[side][missing] == name.format(4)
    assert len(alone) == 11
    assert found.exit_code == 2


def test_a_difference_behind_the_one_more_is_still_found(tmp_path):
    """The save is an insertion, and a layer behind it is wrong: values hold only the first ones."""
    values = [draw(4, 5, seed=k) for k in range(8)]
    wrong = [*values[:5], *(value * np.float32(1.5) for value in values[5:])]
    more = [*wrong[:3], draw(4, 5, seed=99), *wrong[3:]]
    found = compare(saved(tmp_path / "more", more), saved(tmp_path / "less", values))
    assert partners(found.pairing)["3_act"] == ""
    assert str(found.first_divergence.row["right_display"].values) == "5_act"
    assert (found.columns["origin"] == "created").sum() == 1


def test_without_values_that_agree_the_numbers_stand(tmp_path):
    left, right = ([draw(4, 5, seed=100 * s + k) for k in range(5 - s)] for s in (0, 1))
    found = pair_dumps(saved(tmp_path / "left", left), saved(tmp_path / "right", right))
    assert partners(found) == {**{f"{k}_act": f"{k}_act" for k in range(4)}, "4_act": ""}


def test_what_is_the_same_everywhere_places_nothing(tmp_path):
    table = draw(4, 5, seed=1)
    found = pair_dumps(
        saved(tmp_path / "left", [table] * 4), saved(tmp_path / "right", [table] * 3)
    )
    assert partners(found) == {**{f"{k}_act": f"{k}_act" for k in range(3)}, "3_act": ""}


def test_integers_place_a_pass_as_well(tmp_path):
    rng = np.random.default_rng(4)
    ids = [rng.integers(0, 1000, (2, 8)) for _ in range(4)]
    found = pair_dumps(
        saved(tmp_path / "left", ids, "{}_ids"), saved(tmp_path / "right", ids[1:], "{}_ids")
    )
    assert partners(found) == {"0_ids": "", "1_ids": "0_ids", "2_ids": "1_ids", "3_ids": "2_ids"}


def net(torch, *, bias: bool = True):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 8), torch.nn.ReLU()]
    found = torch.nn.Sequential(*layers, torch.nn.Linear(8, 3))
    if not bias:
        with torch.no_grad():
            found[2].bias.zero_()
    return found


@pytest.mark.torch
@pytest.mark.parametrize("level", ["module", "api"])
@pytest.mark.parametrize("where", ["before", "behind"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_call_more_of_everything_is_not_paired_with_another_input(where, turned, level):
    import torch

    batch, other = torch.tensor(draw(4, 6, seed=7)), torch.tensor(draw(4, 6, seed=8))

    def run(model, inputs):
        with record(model, level=level) as recording:
            for values in inputs:
                model(values).sum().backward()
        return recording.dump

    inputs = [other, batch] if where == "before" else [batch, other]
    sides = run(net(torch, bias=False), inputs), run(net(torch), [batch])
    found = compare(*(sides[::-1] if turned else sides))
    columns = found.columns
    rows = np.flatnonzero((columns["verdict"] != "missing") & (columns["direction"] == "forward"))
    inputs_of = [row for row in rows if columns["role"][row] == "input"]
    assert columns["identical"][inputs_of[:2]].all()
    # Only the bias of the second dense layer was made otherwise.
    created = np.flatnonzero(columns["origin"] == "created")
    names = {str(columns["right_display"][row] or columns["left_display"][row]) for row in created}
    assert names
    assert all("2.bias" in name or "linear" in name for name in names)


def onnx_like(values: list[np.ndarray]) -> dict[str, np.ndarray]:
    return {f"onnx::MatMul_{301 + 7 * k}": value for k, value in enumerate(values)}


def test_names_that_say_nothing_are_paired_by_values():
    """Another order, one tensor more, and numbers of a graph for names."""
    values = [draw(4, 5, seed=k) for k in range(6)]
    named = {f"stage.{name}": value for name, value in zip("abcdef", values, strict=True)}
    found = pair_dumps(onnx_like([draw(4, 5, seed=50), *values]), named)
    both = partners(found)
    assert both["onnx::MatMul_301"] == ""
    assert [both[f"onnx::MatMul_{308 + 7 * k}"] for k in range(6)] == [*named]
    columns = found.columns
    assert {m for m in columns["method"].tolist() if m != "unmatched"} == {"values"}


def test_gradients_by_number_find_their_parameter_by_values(tmp_path):
    values = [draw(5, 5, seed=k) for k in range(4)]
    for number, value in enumerate(values[::-1]):
        (tmp_path / "numbers" / "grads").mkdir(parents=True, exist_ok=True)
        np.save(tmp_path / "numbers" / "grads" / f"g{number}.npy", value)
    (tmp_path / "names").mkdir()
    for name, value in zip("qkvo", values, strict=True):
        np.save(tmp_path / "names" / f"{name}.grad.npy", value)
    found = compare(tmp_path / "numbers", tmp_path / "names")
    assert found.passed


def test_values_in_each_others_place_are_a_fault_and_no_other_names():
    values = [draw(4, 5, seed=k) for k in range(6)]
    swapped = [values[1], values[0], *values[2:]]
    named = {f"stage.{name}": value for name, value in zip("abcdef", values, strict=True)}
    found = compare(onnx_like(swapped), named)
    assert not found.passed
    assert found.columns["identical"].sum() == 4


def hooked(passes: list[np.ndarray], *, numbered: bool, wrong: bool = False):
    """What hooks that name a second pass ``fc_1`` save of two dense layers and an activation."""
    saved, number = {}, 0
    for visit, x in enumerate(passes):
        for name, seed in (("embed", 1), ("act", 0), ("fc", 2)):
            out = x @ draw(6, 6, seed=seed) if seed else np.maximum(x, 0)
            out = out * np.float32(1.3) if wrong and name == "act" else out
            place = f"{name}_{visit}" if visit and not numbered else name
            for way, value in (("input", x), ("output", out)):
                saved[f"{number}_{place}.{way}" if numbered else f"{place}.{way}"] = value
                number += 1
            x = out
    return saved


@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize("where", ["before", "behind"])
def test_a_pass_more_that_was_saved_by_hand_is_not_taken_for_the_other(tmp_path, numbered, where):
    x, other = draw(4, 6, seed=20), draw(4, 6, seed=21)
    passes = [other, x] if where == "before" else [x, other]
    for folder, arrays in (
        ("left", hooked(passes, numbered=numbered, wrong=True)),
        ("right", hooked([x], numbered=numbered)),
    ):
        (tmp_path / folder).mkdir()
        for name, array in arrays.items():
            np.save(tmp_path / folder / f"{name}.npy", array)
    found = compare(tmp_path / "left", tmp_path / "right")
    row = found.first_divergence.row
    assert "act.output" in str(row["right_display"].values)
    assert row["origin"].values == "created"
    assert (found.columns["verdict"] == "missing").sum() == 6
