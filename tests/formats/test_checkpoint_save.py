"""save_dump into one file: streamed from arrays or a Dump, whole or not at all."""

from __future__ import annotations

import tracemalloc
import warnings

import ml_dtypes
import numpy as np
import pytest

from troubleshooter_nb import Dump, RunCard, open_dump, save_dump
from troubleshooter_nb.errors import TroubleshooterWarning

SUFFIXES = [".ckpt", ".pth", ".pt", ".safetensors"]
ARRAYS = {
    "layers.0.weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "layers.0.bias": np.array([1.5, -2.0], ml_dtypes.bfloat16),
    "bn.moving_mean": np.zeros(3),
    "step": np.int64(7),
    "mask": np.array([[True, False]]),
}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_arrays_come_back_bit_for_bit(tmp_path, suffix):
    path = save_dump(ARRAYS, tmp_path / f"new/net{suffix}")
    dump = open_dump(path)
    assert sorted(dump.names) == sorted(ARRAYS)
    for name, array in ARRAYS.items():
        got = dump.array(name)
        assert (got.dtype, got.shape) == (np.asarray(array).dtype, np.asarray(array).shape)
        assert got.tobytes() == array.tobytes()


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("source", SUFFIXES)
def test_a_dump_becomes_a_file_of_another_kind(tmp_path, source, suffix):
    first = open_dump(save_dump(ARRAYS, tmp_path / f"a{source}"))
    second = open_dump(save_dump(first, tmp_path / f"b{suffix}"))
    assert sorted(second.names) == sorted(first.names)
    assert all(second.array(n).tobytes() == first.array(n).tobytes() for n in first.names)


def test_a_dump_can_replace_its_own_file(tmp_path):
    path = save_dump(ARRAYS, tmp_path / "a.ckpt")
    assert save_dump(open_dump(path), path) == path
    assert open_dump(path).array("layers.0.weight")[2, 3] == 11


def test_a_dump_becomes_a_folder(tmp_path):
    dump = open_dump(save_dump(ARRAYS, tmp_path / "a.pth"))
    folder = save_dump(dump, tmp_path / "folder", card=RunCard({"seed": 1}))
    assert (
        open_dump(folder).array("layers.0.weight").tobytes() == ARRAYS["layers.0.weight"].tobytes()
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_memory_does_not_grow_with_the_number_of_tensors(tmp_path, suffix):
    arrays = {f"w{i}": np.ones(500_000, np.float32) for i in range(20)}
    dump = open_dump(save_dump(arrays, tmp_path / "a.ckpt"))
    del arrays
    tracemalloc.start()
    save_dump(dump, tmp_path / f"b{suffix}")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # One tensor is 2 MB, all of them 40 MB.
    assert peak < 8e6


@pytest.mark.torch
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_tensors_of_torch_are_saved(tmp_path, suffix):
    import torch

    weight = torch.arange(6.0).reshape(2, 3).T.requires_grad_()
    half = torch.tensor([1.5], dtype=torch.bfloat16)
    dump = open_dump(save_dump({"w": weight, "h": half}, tmp_path / f"x{suffix}"))
    np.testing.assert_array_equal(dump.array("w"), [[0, 3], [1, 4], [2, 5]])
    assert dump.array("h").dtype == np.dtype(ml_dtypes.bfloat16)


def test_what_a_format_cannot_hold_is_left_out_and_said(tmp_path):
    arrays = {f"empty{i}": np.zeros((0, 3), np.float32) for i in range(7)} | {"w": np.ones(1)}
    expected = r"x.ckpt was written without 7 tensors: empty0: MindSpore keeps no.*and 2 more"
    with pytest.warns(TroubleshooterWarning, match=expected):
        save_dump(arrays, tmp_path / "x.ckpt")
    assert open_dump(tmp_path / "x.ckpt").names == ["w"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(open_dump(save_dump(arrays, tmp_path / "x.pth"))) == 8


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_cannot_be_saved_writes_nothing(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    with pytest.raises(ValueError, match="'t': cannot save dtype <U1"):
        save_dump({"w": np.ones(2), "t": np.array(["a"])}, path)
    with pytest.raises(ValueError, match="a checkpoint holds no run card"):
        save_dump({"w": np.ones(2)}, path, card=RunCard({}))
    for step in (0, 1):
        save_dump({"w": np.ones(2)}, tmp_path / f"steps/step{step}")
    with pytest.raises(ValueError, match=r"'w_float64_0' in several steps or ranks.*select\(step"):
        save_dump(open_dump(tmp_path / "steps"), path)
    with pytest.raises(ValueError, match=r"'bad' of 'm' cannot be read: .*leave it out first"):
        save_dump(Dump.from_arrays({"bad": ["text"]}, label="m"), path)
    assert not path.exists()
