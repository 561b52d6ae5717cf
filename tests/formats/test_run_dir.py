"""Folders of a run: tensors in files of their own, checkpoints as steps, gradients beside them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from troubleshooter_nb import compare, open_dump, save_dump
from troubleshooter_nb.errors import UnknownFormatError
from troubleshooter_nb.formats import run_dir

torch = pytest.importorskip("torch")

WEIGHTS = {"fc.weight": (3, 4), "fc.bias": (3,), "norm.weight": (3,), "norm.bias": (3,)}


def tensors(seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in WEIGHTS.items()}


def torch_save(value, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(value, path)


def state(seed=0):
    return {name: torch.from_numpy(array) for name, array in tensors(seed).items()}


def saved(path, arrays):
    path.parent.mkdir(parents=True, exist_ok=True)
    save_dump(arrays, path)


def saved_npy(folder, arrays):
    folder.mkdir(parents=True)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)


def rows(dump, *names):
    return list(dump.columns.rows(*(names or ("name", "role", "direction", "step", "rank"))))


@pytest.mark.parametrize("kind", ["pt", "bin", "pth", "safetensors", "npz", "npy", "mixed"])
def test_a_file_per_tensor_is_a_dump_with_the_stems_as_names(tmp_path, kind):
    arrays = {f"h{number}": np.full((2, 3), number, np.float32) for number in range(4)}
    suffixes = ["pt", "safetensors", "npz", "npy"] if kind == "mixed" else [kind] * 4
    for (name, array), suffix in zip(arrays.items(), suffixes, strict=True):
        file = tmp_path / f"{name}.{suffix}"
        if suffix == "npy":
            np.save(file, array)
        elif suffix == "npz":
            np.savez(file, array)
        elif suffix == "safetensors":
            save_dump({"hidden_states": array}, file)
        else:
            torch.save(torch.from_numpy(array), file)
    dump = open_dump(tmp_path)
    assert dump.names == list(arrays)
    assert set(dump.columns["role"]) == {""}
    for name, array in arrays.items():
        np.testing.assert_array_equal(dump.array(name), array)


def test_numbers_steps_parameters_and_gradients_are_those_of_arrays(tmp_path):
    for name in ("3_attn", "12_mlp", "1_fc.weight", "2_fc.weight_grad"):
        for step in (0, 7):
            torch_save(torch.ones(2), tmp_path / f"step_{step}" / "rank1" / f"{name}.pt")
    dump = open_dump(tmp_path)
    found = rows(dump, "name", "role", "direction", "step", "rank", "order")
    one = [
        ("1_fc.weight", "parameter", ""),
        ("2_fc.weight_grad", "parameter", "backward"),
        ("3_attn", "", ""),
        ("12_mlp", "", ""),
    ]
    assert found == [(*row, step, 1, place) for step in (0, 7) for place, row in enumerate(one)]


def test_tuples_and_dicts_of_one_place_are_its_values(tmp_path):
    torch_save((torch.ones(2), torch.ones(3)), tmp_path / "hidden_states.pt")
    torch_save({"input": torch.ones(2), "output": torch.ones(3)}, tmp_path / "fc1.pt")
    names = ["fc1.input", "fc1.output", "hidden_states.0", "hidden_states.1"]
    assert open_dump(tmp_path).names == names


def test_weights_beside_tensors_are_opened_with_them(tmp_path):
    saved_npy(tmp_path / "d", {"act": np.ones(3)})
    torch_save(state(), tmp_path / "d" / "model.pth")
    dump = open_dump(tmp_path / "d")
    assert dump.names == [*WEIGHTS, "act"]
    other = tmp_path / "e"
    saved_npy(other, {"act": np.ones(3)})
    torch_save(state(1), other / "model.pth")
    # Before, the arrays agreed, and nothing else was looked at.
    assert "differ" in compare(tmp_path / "d", other).verdict


def dumped(folder, step, rank, number, name, **tags):
    fields = {"step": step, "rank": rank, "dump_index": number, "name": name, **tags}
    stem = "___".join(f"{key}={value}" for key, value in fields.items())
    meta = {**fields, "dims": "t h[tp]", "world_rank": rank}
    torch_save({"value": torch.full((2, 3), float(number)), "meta": meta}, folder / f"{stem}.pt")


def test_files_of_sglangs_dumper_have_their_steps_ranks_and_order(tmp_path):
    # The layout of its dumper.py in 2026: {"value", "meta"} in each file.
    for rank in (0, 1):
        dumped(tmp_path, 2, rank, 10, "embed")
        dumped(tmp_path, 2, rank, 9, "non_intrusive__model.layers.0.mlp.output")
        dumped(tmp_path, 2, rank, 11, "grad__embed")
        dumped(tmp_path, 3, rank, 12, "q", layer_id=4)
    dump = open_dump(tmp_path)
    assert rows(dump, "path", "role", "direction", "step", "rank", "order") == [
        row
        for rows_of_step in (
            [
                ("model.layers.0.mlp.output", "", "", 2, rank, 0),
                ("embed", "", "", 2, rank, 1),
                ("embed", "gradient", "backward", 2, rank, 2),
            ]
            for rank in (0, 1)
        )
        for row in rows_of_step
    ] + [("layer_id.4.q", "", "", 3, rank, 0) for rank in (0, 1)]
    assert dump.select(step=2, rank=1).array("embed_10").mean() == 10


@pytest.mark.parametrize(
    ("checkpoint", "gradients"),
    [
        ("step_{:04d}.pth", "grads_{:04d}"),
        ("checkpoint-{}/model.safetensors", "checkpoint-{}/grads"),
        ("epoch_{}.ckpt", "grads/{}"),
        ("global_step{}/model.pt", "gradients_step_{}"),
        ("weights/iter={}.pth", "pgrads/iter={}"),
        ("model_{}.pth", "grad_{}"),
    ],
)
def test_numbered_checkpoints_are_steps_and_folders_of_gradients_are_of_them(
    tmp_path, checkpoint, gradients
):
    for step in (1, 2, 10):
        file = tmp_path / checkpoint.format(step)
        if file.suffix == ".safetensors":
            saved(file, tensors(step))
        else:
            torch_save(state(step), file)
        saved_npy(tmp_path / gradients.format(step), tensors(100 + step))
    dump = open_dump(tmp_path)
    columns = dump.columns
    is_gradient = columns["direction"] == "backward"
    assert set(columns["role"]) == {"parameter"}
    assert columns["step"][~is_gradient].tolist() == [1] * 4 + [2] * 4 + [10] * 4
    assert sorted(columns["step"][is_gradient].tolist()) == [1] * 4 + [2] * 4 + [10] * 4
    for row in np.flatnonzero(is_gradient):
        name = str(columns["path"][row]).rpartition("/")[2]
        wanted = tensors(100 + int(columns["step"][row]))[name]
        np.testing.assert_array_equal(dump.sources[row].read(0, wanted.size), wanted.ravel())
    np.testing.assert_array_equal(
        dump.select(step=10, direction="").array("fc.bias"), tensors(10)["fc.bias"]
    )
    assert not dump.unopened


def test_gradients_in_one_file_per_step_are_gradients(tmp_path):
    for step in (1, 2):
        torch_save(state(step), tmp_path / f"step_{step}.pt")
        torch_save(state(step), tmp_path / f"grads_{step}.pt")
    found = rows(open_dump(tmp_path), "path", "role", "direction", "step")
    for step in (1, 2):
        assert [row for row in found if row[3] == step] == [
            *((name, "parameter", "", step) for name in WEIGHTS),
            *((f"grads/{name}", "parameter", "backward", step) for name in WEIGHTS),
        ]


def trainer(folder, step):
    saved(folder / "model.safetensors", tensors(step))
    moments = {number: {"exp_avg": torch.ones(shape)} for number, shape in enumerate([(3, 4)])}
    groups = [{"lr": 0.1, "params": [0]}]
    torch_save({"state": moments, "param_groups": groups}, folder / "optimizer.pt")
    torch_save({"last_epoch": step, "_last_lr": [0.1]}, folder / "scheduler.pt")
    torch_save({"cpu": torch.zeros(16, dtype=torch.uint8)}, folder / "rng_state.pth")
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": step}))


def test_a_whole_folder_of_the_trainer_is_opened_with_its_checkpoints_as_steps(tmp_path):
    for step in (100, 200):
        trainer(tmp_path / f"checkpoint-{step}", step)
    trainer(tmp_path, 250)
    dump = open_dump(tmp_path)
    assert set(dump.columns["step"]) == {100, 200, 250}
    for step in (100, 200, 250):
        one = dump.select(step=step)
        assert one.select(role="parameter").names == [*WEIGHTS]
        assert "optimizer_state" in set(one.columns["role"])
        np.testing.assert_array_equal(one.array("fc.bias"), tensors(step)["fc.bias"])
    # A checkpoint opened by itself is one of its step as well.
    assert set(open_dump(tmp_path / "checkpoint-200").columns["step"]) == {200}


def test_final_weights_have_a_name_of_their_own_beside_the_last_step(tmp_path):
    for step in (1, 2):
        torch_save(state(step), tmp_path / f"step_{step}.pth")
    torch_save(state(2), tmp_path / "best.pth")
    dump = open_dump(tmp_path)
    assert [name for name in dump.names if name.startswith("best/")] == [
        f"best/{name}" for name in WEIGHTS
    ]
    assert set(dump.columns["step"]) == {1, 2}


def test_epochs_whose_steps_begin_again_are_counted_on(tmp_path):
    for epoch in (1, 2):
        for step in (10, 20):
            saved(tmp_path / f"net-{epoch}_{step}.ckpt", tensors())
    assert sorted(set(open_dump(tmp_path).columns["step"])) == [10, 20, 30, 40]


def test_a_damaged_checkpoint_of_a_step_is_an_entry_with_a_reason(tmp_path):
    for step in (1, 2, 3):
        torch_save(state(step), tmp_path / f"step_{step}.pth")
    whole = (tmp_path / "step_2.pth").read_bytes()
    (tmp_path / "step_2.pth").write_bytes(whole[: len(whole) // 2])
    dump = open_dump(tmp_path)
    unreadable = dump.select(status="unreadable")
    assert rows(unreadable, "name", "step") == [("step_2.pth", 2)]
    assert len(dump) == 9


@pytest.mark.parametrize(
    "files",
    [
        ["a.pth", "b.pth"],
        ["one/step_1.pth", "one/step_2.pth", "two/step_1.pth", "two/step_2.pth"],
        ["model_v1.pth", "model_v2.pth"],
    ],
)
def test_checkpoints_that_are_no_steps_of_one_run_are_not_mixed(tmp_path, files):
    for file in files:
        torch_save(state(), tmp_path / file)
    with pytest.raises(UnknownFormatError):
        open_dump(tmp_path)


def test_networks_of_two_sizes_are_no_steps(tmp_path):
    for size in (18, 50):
        layers = {f"layer{number}.weight": torch.ones(2) for number in range(size)}
        torch_save(layers, tmp_path / f"resnet{size}.pth")
    assert run_dir.refusal(tmp_path).id == "runs.unlike"
    with pytest.raises(UnknownFormatError):
        open_dump(tmp_path)


def test_what_other_readers_take_whole_stays_theirs(tmp_path):
    saved(tmp_path / "hf" / "model.safetensors", tensors())
    torch_save({"learning_rate_text": "0.1"}, tmp_path / "hf" / "training_args.bin")
    for rank in (0, 1):
        torch_save(state(), tmp_path / "ranks" / f"rank_{rank}" / "x.pt")
    saved_npy(tmp_path / "arrays", {"a": np.ones(2)})
    formats = [open_dump(tmp_path / name).format for name in ("hf", "ranks", "arrays")]
    assert formats == ["sharded", "checkpoint_dir", "npy_dir"]
