"""`schedule`, `step_schedule`, `seed_all`, `set_dump_path`: what needs no network."""

from __future__ import annotations

import json
import os
import random
import sys
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from troubleshooter_nb.compat.torch_npu.hooks import (
    schedule,
    seed_all,
    set_dump_path,
    step_schedule,
    wrap_acc_cmp_hook,
)
from troubleshooter_nb.compat.torch_npu.hooks.dump_file import dump_file
from troubleshooter_nb.compat.torch_npu.hooks.operators import label_of, operators
from troubleshooter_nb.compat.torch_npu.hooks.tensors import SeenTensor
from troubleshooter_nb.errors import NotOfferedError
from troubleshooter_nb.naming.hooks import HookName, format_hook_name, parse_hook_name

DATA = Path(__file__).parents[2] / "data/torch_npu_hooks"
CASES = json.loads((DATA / "schedule_cases.json").read_text())


@pytest.mark.parametrize("case", CASES["accepted"], ids=str)
def test_a_schedule_enables_the_documented_steps(case):
    enabled = schedule(**case["args"])
    steps = range(CASES["steps_looked_at"])
    assert [step for step in steps if enabled(step)] == case["enabled"]


@pytest.mark.parametrize("arguments", CASES["rejected"], ids=str)
@pytest.mark.parametrize("error", [RuntimeError, ValueError])
def test_other_schedules_are_refused(arguments, error):
    with pytest.raises(error, match=r"begin|stride"):
        schedule(**arguments)


def test_arguments_of_a_schedule_may_go_without_their_names():
    enabled = schedule(4, 10, 2)
    assert [step for step in range(20) if enabled(step)] == [4, 6, 8, 10]
    assert schedule()(sys.maxsize)


def test_steps_are_counted_and_begun_anew():
    """Case 20."""
    assert step_schedule.step_num == 0
    for _ in range(3):
        step_schedule.step()
    assert step_schedule.step_num == 3
    step_schedule.reset_step()
    assert step_schedule.step_num == 0


@pytest.mark.usefixtures("seeds_undone")
def test_the_same_seed_gives_the_same_numbers():
    drawn = []
    for _ in range(2):
        assert seed_all() is None
        drawn.append((random.random(), np.random.random(), os.environ["PYTHONHASHSEED"]))  # noqa: NPY002
    assert drawn[0] == drawn[1]
    assert drawn[0][2] == "1234"
    seed_all(seed=5)
    assert random.random() != drawn[0][0]


@pytest.mark.torch
@pytest.mark.usefixtures("seeds_undone")
def test_torch_is_seeded_and_stays_as_it_is():
    import torch

    drawn = []
    for _ in range(2):
        seed_all(7)
        drawn.append(torch.rand(3))
    assert torch.equal(*drawn)
    assert not torch.are_deterministic_algorithms_enabled()


# set_dump_path


def test_a_path_is_wanted():
    with pytest.raises(RuntimeError, match="set_dump_path needs the path of a file"):
        set_dump_path()


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(RuntimeError, match="is a folder; name a file in it"):
        set_dump_path(tmp_path)


def test_an_existing_file_is_deleted_and_none_is_made(tmp_path):
    (tmp_path / "op.pkl").write_text("old")
    set_dump_path(str(tmp_path / "op.pkl"))
    assert [*tmp_path.iterdir()] == []


def test_the_path_is_that_of_the_time_of_the_call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    set_dump_path("op.pkl")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    dump_file().append(
        [("Torch_a_forward_output", SeenTensor(np.ones(1), "float64"))], sample=False
    )
    assert (tmp_path / "op.pkl").exists()


def test_without_a_path_there_is_no_file():
    with pytest.raises(AssertionError, match="call set_dump_path before the network runs"):
        dump_file()


# The writer alone


def fed(file: Path, source: Path) -> None:
    """Write what stands in a full file of the fixtures, given as arrays."""
    set_dump_path(file)
    for text in source.read_text().splitlines():
        name, values, dtype, shape = json.loads(text)
        array = np.array(values, np.float32).reshape(shape)
        tensor = SeenTensor(array, dtype.removeprefix("torch."))
        dump_file().append([(name.partition("_")[2], tensor)], sample=False)


@pytest.mark.parametrize("source", ["module_full/bench.pkl", "module_full/npu.pkl"])
def test_arrays_of_the_fixture_give_its_bytes(tmp_path, source):
    fed(tmp_path / "op.pkl", DATA / source)
    assert (tmp_path / "op.pkl").read_bytes() == (DATA / source).read_bytes()


@pytest.mark.parametrize("case", ["nan_inf", "two_outputs", "zero_vectors"])
def test_arrays_of_the_odd_fixtures_give_their_bytes(tmp_path, case):
    fed(tmp_path / "op.pkl", DATA / f"edge/{case}.npu.pkl")
    assert (tmp_path / "op.pkl").read_bytes() == (DATA / f"edge/{case}.npu.pkl").read_bytes()


@pytest.mark.torch
def test_arrays_of_the_full_fixture_give_the_bytes_of_the_sampled_one(tmp_path):
    """Sums of what was in C order; where the weights lay transposed torch adds otherwise."""
    set_dump_path(tmp_path / "op.pkl")
    for text in (DATA / "module_full/bench.pkl").read_text().splitlines():
        name, values, dtype, shape = json.loads(text)
        strides = (1, shape[0]) if name.endswith("linear_backward_input.2") else ()
        array = np.array(values, np.float32).reshape(shape)
        tensor = SeenTensor(array, dtype.removeprefix("torch."), tuple(shape), strides)
        dump_file().append([(name.partition("_")[2], tensor)], sample=True)
    ours, theirs = (
        [json.loads(line) for line in file.read_text().splitlines()]
        for file in (tmp_path / "op.pkl", DATA / "module_sampled/bench.pkl")
    )
    assert [line[0] for line in ours] == [line[0] for line in theirs]
    for line, want in zip(ours, theirs, strict=True):
        # Another processor may add in another order.
        assert line[1] == pytest.approx(want[1], rel=2**-22, abs=1e-10), line[0]


def test_only_floating_tensors_with_axes_are_listed(tmp_path):
    set_dump_path(tmp_path / "op.pkl")
    arrays = [np.ones(()), np.ones(1, np.int64), np.ones(1, bool), np.ones(1, np.complex64)]
    tensors = [SeenTensor(array, array.dtype.name) for array in (*arrays, np.ones(1))]
    dump_file().append([("Torch_a_forward_output", tensor) for tensor in tensors], sample=False)
    assert (tmp_path / "op.pkl").read_text() == (
        '["0_Torch_a_forward_output", [1.0], "torch.float64", [1]]\n'
    )


# The storage of a tensor


@pytest.mark.parametrize(
    ("shape", "strides", "size"),
    [
        ((2, 3), (), 6),
        ((2, 3), (1, 2), 6),
        ((2, 3), (0, 1), 3),
        ((2, 2), (0, 0), 1),
        ((), (), 1),
        ((4, 3), (1, 1), 6),  # windows that overlap
        ((2, 3), (12, 2), 6),  # gaps, which are left out
        ((0, 3), (), 0),
    ],
)
def test_the_storage_holds_the_tensor(shape, strides, size):
    memory = np.arange(100.0)
    steps = strides or tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))
    view = np.lib.stride_tricks.as_strided(memory, shape, [8 * step for step in steps])
    storage, found = SeenTensor(np.array(view, order="C"), "float64", shape, strides).stored
    again = np.lib.stride_tricks.as_strided(storage, shape, [8 * step for step in found])
    assert storage.shape == (size,)
    np.testing.assert_array_equal(again, view)


# Names


def test_the_list_is_that_of_the_last_release():
    labels = [label_of(one.call.path) for one in operators()]
    assert len(labels) == len({*labels}) == 982
    counts = {
        home: sum(one.home == home for one in operators()) for home in ("torch.Tensor", "torch")
    }
    assert counts == {"torch.Tensor": 414, "torch": 446}


def test_every_name_of_every_operator_is_parsed_into_its_parts_again():
    """Case 5."""
    numbers = count()
    for one in operators():
        category, name = one.call.path.split(".", 1)
        for direction in ("forward", "backward"):
            for io in ("input", "output"):
                for position in ((), (0,), (1, 12)):
                    label = f"{next(numbers)}_{label_of(one.call.path)}_{direction}_{io}"
                    label += "".join(f".{place}" for place in position)
                    number = int(label.partition("_")[0])
                    want = HookName(name, direction, io, category, number, None, position)
                    assert parse_hook_name(label) == want
                    assert format_hook_name(want) == label


def test_a_hook_is_for_register_hook_alone():
    with pytest.raises(NotOfferedError, match="wrap_acc_cmp_hook is given to register_hook"):
        wrap_acc_cmp_hook("Functional_relu")
