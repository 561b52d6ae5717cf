"""Code that MindSpore compiles on CPU saves what eager code saves, under the same names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import troubleshooter_nb as tnb

pytestmark = pytest.mark.mindspore

PROGRAM = Path(__file__).with_name("compiled_program.py")
COMPILED = ("graph", "step", "forward")
# What the three compiled modes and eager mode compute may differ by rounding, through MatMul and
# the reductions; bfloat16 and float16 gradients are products of such values.
ROUNDING = {"rtol": 2e-6, "atol": 1e-6}


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """The folder of each mode, where `compiled_program.py` ran."""
    root = tmp_path_factory.mktemp("compiled")
    started = {}
    for mode in ("pynative", *COMPILED):
        folder = root / mode
        folder.mkdir()
        # The name of this package there must not turn its functions opaque.
        extra = {"MS_JIT_IGNORE_MODULES": "troubleshooter_nb"} if mode == "step" else {}
        with open(folder / "screen.txt", "w") as screen, open(folder / "errors", "w") as errors:
            started[mode] = subprocess.Popen(
                [sys.executable, PROGRAM, mode, folder / "out"],
                stdout=screen,
                stderr=errors,
                cwd=folder,
                env=os.environ | extra,
            )
    for mode, process in started.items():
        assert process.wait(timeout=300) == 0, (root / mode / "errors").read_text()
    return {mode: root / mode / "out" for mode in started}


def arrays(folder):
    """Name without folder of ours, and values, of everything saved below a folder."""
    dump = tnb.open_dump(folder)
    assert set(dump.index["status"].values) == {"ok"}
    return {
        (int(rank), name): dump.select(name=name, rank=rank).array(name)
        for rank, name in zip(dump.index["rank"].values, dump.names, strict=True)
    }


def assert_same(left, right):
    assert left.keys() == right.keys()
    for name, array in left.items():
        assert array.dtype == right[name].dtype, name
        assert array.shape == right[name].shape, name
        wide = [
            np.asarray(side, complex if side.dtype.kind == "c" else float)
            for side in (array, right[name])
        ]
        np.testing.assert_allclose(*wide, **ROUNDING, err_msg=str(name))


@pytest.mark.few(1)
@pytest.mark.parametrize("mode", COMPILED)
def test_files_numbers_and_values_are_those_of_eager_mode(runs, mode):
    assert_same(arrays(runs[mode] / "everything"), arrays(runs["pynative"] / "everything"))


@pytest.mark.parametrize("mode", COMPILED)
def test_no_gradient_is_missing(runs, mode):
    assert arrays(runs[mode] / "uses").keys() == arrays(runs["pynative"] / "uses").keys()


@pytest.mark.parametrize("mode", COMPILED)
def test_a_compiled_gradient_is_the_one_through_the_result(runs, mode):
    dump = tnb.open_dump(runs[mode] / "uses")
    files = sorted((runs["pynative"] / "expected").glob("*.npy"))
    assert len(files) == 24
    for file in files:
        np.testing.assert_allclose(
            dump.array(f"{file.stem}_backward"), np.load(file), **ROUNDING, err_msg=file.stem
        )


def test_an_eager_gradient_is_the_whole_one(runs):
    # both: the sum of p cubed and w squared, where p and w are the same 3 x 3 tensor.
    value = np.arange(9, dtype=np.float32).reshape(3, 3) / 5
    gradient = tnb.open_dump(runs["pynative"] / "uses").array("parameter_both_backward")
    np.testing.assert_allclose(gradient, 3 * value**2 + 2 * value, **ROUNDING)


@pytest.mark.parametrize("mode", COMPILED)
def test_saving_changes_no_result(runs, mode):
    files = sorted((runs["pynative"] / "returned").iterdir())
    assert len(files) == 6
    for file in files:
        eager, compiled = np.load(file), np.load(runs[mode] / "returned" / file.name)
        assert eager.files == compiled.files
        for name in eager.files:
            np.testing.assert_allclose(compiled[name], eager[name], rtol=1e-5, err_msg=file.name)


@pytest.mark.parametrize("mode", ["graph", "step"])
def test_branches_and_loops_of_the_graph_count_as_eager_ones(runs, mode):
    assert_same(arrays(runs[mode] / "flow"), arrays(runs["pynative"] / "flow"))


def test_a_compiled_forward_with_loops_misses_nothing(runs):
    # MindSpore runs such a forward function twice, so its values are saved twice.
    sides = {}
    for mode in ("pynative", "forward"):
        for (_, name), array in arrays(runs[mode] / "flow").items():
            stem = name.rpartition("_float32_")[0]
            sides.setdefault(stem, {}).setdefault(mode, []).append(array)
    assert sides.keys() == {"big_backward", "small_backward", "square_backward", "square"}
    for stem, found in sides.items():
        times = 2 if stem == "square" else 1
        eager, compiled = (
            sorted(array.tolist() for array in found[mode] * (times if mode == "pynative" else 1))
            for mode in ("pynative", "forward")
        )
        np.testing.assert_allclose(compiled, eager, **ROUNDING, err_msg=stem)


def test_a_trained_graph_saves_each_step(runs):
    assert_same(arrays(runs["graph"] / "trained"), arrays(runs["pynative"] / "trained"))


@pytest.mark.parametrize("mode", COMPILED)
def test_prints_are_read_back(runs, mode):
    eager, compiled = (tnb.open_dump(runs[m].parent / "screen.txt") for m in ("pynative", mode))
    paths = [
        set(zip(dump.index["path"].values, dump.index["direction"].values, strict=True))
        for dump in (eager, compiled)
    ]
    assert paths[0] == paths[1]
    assert len(compiled) == len(eager) == 11
    for name in eager.names:
        stem = name.rpartition("_")[0].rpartition("_")[0]
        if stem == "long":
            continue
        array, other = eager.array(stem), compiled.array(stem)
        assert array.shape == other.shape
        np.testing.assert_allclose(other.astype(float), array.astype(float), **ROUNDING)
    # What has more than 1,000 values comes whole from eager code only.
    assert eager.array("long").shape == (60, 60)
    [reason] = compiled.select(status="unreadable").index["reason"].values
    assert "only a part of the values was printed" in reason


@pytest.mark.parametrize(
    ("case", "text"),
    [
        ("text", "ArgumentTypeError: 'x.1.k' is no tensor, array, number"),
        ("key", "ArgumentError: cannot save under the name 'x.../../up'"),
        (
            "shape",
            "NotOfferedError: the shape of 'x' is known only while the graph runs; use "
            'output_mode="print", or run this part in PYNATIVE mode',
        ),
        ("gradient shape", "NotOfferedError: the shape of 'x_backward' is known only"),
        ("list", "ArgumentTypeError: 'x_backward' is no tensor"),
        ("integer", "NoGradientError: no gradient will come for a tensor of Int32"),
        ("mode", "ArgumentError: output_mode is 'npy' or 'print', got 'csv'"),
        ("folder", "ArgumentError: file must end with a name"),
    ],
)
def test_wrong_calls_stop_the_compiler_with_our_words(runs, case, text):
    assert json.loads((runs["graph"] / "refusals.json").read_text())[case].startswith(text)


def test_nothing_is_written_for_a_call_that_cannot_be_compiled(runs):
    assert not (runs["graph"] / "wrong").exists()
