"""What every source keeps to: it names its files, and reads into memory that it is given."""

from __future__ import annotations

import math
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from tests.formats.test_polygraphy_json import results, written
from troubleshooter_nb import open_dump
from troubleshooter_nb.dump import ArrayInMemory, ArraySource, files_of
from troubleshooter_nb.errors import ReadError
from troubleshooter_nb.formats.grid_source import checked_grid
from troubleshooter_nb.formats.hooks_sample import FirstValues
from troubleshooter_nb.formats.joined_source import joined, summed
from troubleshooter_nb.formats.npy_file import open_npy
from troubleshooter_nb.formats.transformed_source import transformed
from troubleshooter_nb.ranges import read_in, read_rows, reading
from troubleshooter_nb.weight_map import Transform

DATA = Path(__file__).parents[1] / "data"
VALUES = np.arange(24, dtype=np.float32).reshape(4, 6)


def npy(folder, name="x", values=VALUES):
    np.save(folder / f"{name}.npy", values)
    return open_npy(folder / f"{name}.npy")


def npz(folder, *, compressed, order="C"):
    save = np.savez_compressed if compressed else np.savez
    save(folder / "x.npz", x=np.asarray(VALUES, order=order))
    return open_dump(folder / "x.npz").sources[0]


def base64(folder):
    return open_dump(written(folder / "x.json", results(r=[{"x": VALUES}]))).sources[0]


def halves(folder):
    return npy(folder, "top", VALUES[:2]), npy(folder, "bottom", VALUES[2:])


def columns(folder):
    return npy(folder, "left", VALUES[:, :2]), npy(folder, "right", VALUES[:, 2:])


def grid(folder):
    left, right = columns(folder)
    return checked_grid((4, 6), VALUES.dtype, [((0, 0), left), ((0, 2), right)])


def line(_):
    return open_dump(DATA / "torch_npu_hooks/module_full/npu.pkl").sources[0]


def dumped(_):
    found = open_dump(DATA / "msprobe/v26_2_0/torch/t_mlp_mix_tensor").sources
    return next(source for source in found if source is not None)


# name -> (the source in a folder, its files, whether it reads into given memory)
SOURCES = {
    "file": (npy, ["x.npy"], True),
    "file in Fortran order": (lambda f: npy(f, values=np.asfortranarray(VALUES)), ["x.npy"], False),
    "stored": (lambda f: npz(f, compressed=False), ["x.npz"], True),
    "packed": (lambda f: npz(f, compressed=True), ["x.npz"], True),
    "packed in Fortran order": (lambda f: npz(f, compressed=True, order="F"), ["x.npz"], False),
    "grid": (grid, ["left.npy", "right.npy"], True),
    "rows joined": (lambda f: joined(halves(f), 0), ["top.npy", "bottom.npy"], True),
    "columns joined": (lambda f: joined(columns(f), 1), ["left.npy", "right.npy"], True),
    "summed": (lambda f: summed([npy(f), npy(f, "y")]), ["x.npy", "y.npy"], True),
    "first values": (lambda f: FirstValues(npy(f), 7), ["x.npy"], True),
    "reshaped": (lambda f: transformed([npy(f)], Transform("reshape", (24,)))[0], ["x.npy"], True),
    "transposed": (
        lambda f: transformed([npy(f)], Transform("transpose"))[0],
        ["x.npy"],
        False,
    ),
    "base64": (base64, ["x.json"], False),
    "line": (line, ["npu.pkl"], False),
    "dumped": (dumped, None, True),
    "memory": (lambda _: ArrayInMemory(VALUES), [], False),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_a_source_names_its_files_and_reads_into_memory(tmp_path, kind):
    make, files, fills = SOURCES[kind]
    source = make(tmp_path)
    assert isinstance(source, ArraySource)
    assert pickle.loads(pickle.dumps(source)).files() == source.files()
    if files is not None:
        assert [Path(file).name for file in source.files()] == files
    assert all(Path(file).is_file() for file in source.files())
    size = math.prod(source.shape)
    expected = source.read(0, size)
    assert (expected.shape, expected.dtype) == ((size,), source.dtype)
    for start, stop in [(0, size), (1, size - 2), (size // 2, size // 2)]:
        memory = np.full(stop - start, 77, source.dtype)
        got = source.read(start, stop, memory)
        assert got.tobytes() == expected[start:stop].tobytes()
        assert (got is memory) == fills
        read_in(memory, source, start)
        assert memory.tobytes() == got.tobytes()


def test_the_files_of_several_sources_are_named_once_in_order(tmp_path):
    one, other = npy(tmp_path, "b"), npy(tmp_path, "a")
    found = files_of([one, other, one, ArrayInMemory(VALUES)])
    assert [Path(file).name for file in found] == ["b.npy", "a.npy"]


@pytest.mark.parametrize("kind", SOURCES)
def test_several_ranges_are_read_in_one_opening(tmp_path, kind):
    source = SOURCES[kind][0](tmp_path)
    size = math.prod(source.shape)
    expected = source.read(0, size)
    with reading(source) as opened:
        for start, stop in [(size - 2, size), (0, size), (1, 1)]:
            assert opened.read(start, stop).tobytes() == expected[start:stop].tobytes()
            memory = np.full(stop - start, 77, source.dtype)
            read_in(memory, opened, start)
            assert memory.tobytes() == expected[start:stop].tobytes()
    starts = np.array([size - 2, 0, 1])
    rows = read_rows(source, starts, 2)
    assert (rows.dtype, rows.shape) == (source.dtype, (3, 2))
    assert rows.tobytes() == b"".join(expected[at : at + 2].tobytes() for at in starts)
    assert read_rows(source, [], 2).shape == (0, 2)


@pytest.mark.parametrize("kind", ["file", "file in Fortran order", "stored"])
def test_a_file_is_opened_once_for_many_rows(tmp_path, monkeypatch, kind):
    source = SOURCES[kind][0](tmp_path)
    calls, plain = [], os.open
    monkeypatch.setattr(os, "open", lambda *args: calls.append(args[0]) or plain(*args))
    read_rows(source, range(8), 3)
    assert calls == [source.path]


def test_a_file_that_changed_is_refused_when_it_is_opened_for_reading(tmp_path):
    source = npy(tmp_path)
    np.save(tmp_path / "x.npy", np.zeros(99))
    with pytest.raises(ReadError, match="changed"), reading(source):
        pytest.fail("there is nothing to read")


def test_a_file_that_shrinks_while_it_is_open_is_noticed(tmp_path):
    source = npy(tmp_path)
    with reading(source) as opened:
        os.truncate(source.path, 140)
        with pytest.raises(ReadError, match="changed"):
            opened.read(0, 24)


def test_files_are_closed_whatever_happens(tmp_path):
    source = npy(tmp_path)
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(ZeroDivisionError), reading(source):
        raise ZeroDivisionError
    os.truncate(source.path, 10)
    with pytest.raises(ReadError):
        source.read(0, 1)
    assert len(set(os.listdir("/proc/self/fd"))) == len(before)
