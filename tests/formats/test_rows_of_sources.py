"""Rows of every kind of source, in any order, hold the bytes that a whole read has there."""

from __future__ import annotations

import math
import os
import pickle

import ml_dtypes
import numpy as np
import pytest

from tests.formats.test_polygraphy_json import results, written
from troubleshooter_nb import open_dump, ranges
from troubleshooter_nb.dump import ArrayInMemory
from troubleshooter_nb.errors import ReadError
from troubleshooter_nb.formats import archive_source, file_source
from troubleshooter_nb.formats.grid_source import checked_grid
from troubleshooter_nb.formats.hooks_sample import FirstValues
from troubleshooter_nb.formats.joined_source import joined, summed
from troubleshooter_nb.formats.npy_file import open_npy
from troubleshooter_nb.formats.record_entries import BroadcastSource
from troubleshooter_nb.formats.transformed_source import transformed
from troubleshooter_nb.ranges import read_rows, reading
from troubleshooter_nb.weight_map import Transform

SHAPE = (6, 8, 10)
DTYPES = ["float32", "float16", "bfloat16", "int64", "bool", "complex128", ">f4"]
SHORT = {"bfloat16": ml_dtypes.bfloat16}


def values_of(dtype):
    noise = np.random.default_rng(0).integers(-99, 99, SHAPE)
    return noise.astype(np.dtype(SHORT.get(dtype, dtype)))


def npy(folder, values, name="x"):
    if values.dtype.kind == "V":  # a .npy would forget what these bytes are
        return ArrayInMemory(values)
    np.save(folder / f"{name}.npy", values)
    return open_npy(folder / f"{name}.npy")


def npz(folder, values, save, order):
    values = values.view("u2") if values.dtype.kind == "V" else values
    save(folder / "x.npz", x=np.asarray(values, order=order))
    return open_dump(folder / "x.npz").sources[0], values


def halves(folder, values, axis):
    parts = np.split(values, 2, axis)
    return [npy(folder, np.ascontiguousarray(part), f"x{n}") for n, part in enumerate(parts)]


def of_torch(folder, values, axes):
    import torch

    values = values.astype(values.dtype.newbyteorder("="))
    is_short = values.dtype.kind == "V"
    tensor = torch.from_numpy(np.ascontiguousarray(values.view("i2") if is_short else values))
    tensor = tensor.view(torch.bfloat16) if is_short else tensor
    torch.save({"x": tensor.permute(axes)}, folder / "x.pth")
    return open_dump(folder / "x.pth").sources[0], values.transpose(axes)


def grid(folder, values):
    corners = [((n, m, 0), values[n : n + 3, m : m + 4]) for n in (0, 3) for m in (0, 4)]
    parts = [(at, npy(folder, box.copy(), f"x{n}")) for n, (at, box) in enumerate(corners)]
    return checked_grid(SHAPE, values.dtype, parts), values


def by(folder, values, kind, *arguments):
    transform, source = Transform(kind, arguments), npy(folder, values)
    made = transform.apply([values])
    return transformed([source], transform)[-1], made[-1]


def of_two(folder, values, transform):
    sources = [npy(folder, values, "x"), npy(folder, values, "y")]
    return transformed(sources, transform)[0], transform.apply([values, values])[0]


def base64(folder, values, order):
    stored = results(r=[{"x": np.asarray(values, order=order)}])
    return open_dump(written(folder / "x.json", stored)).sources[0], values


def repeated(folder, values):
    some = np.ascontiguousarray(values[:1, :, :1])
    return BroadcastSource(npy(folder, some), SHAPE), np.broadcast_to(some, SHAPE)


def parts_interleaved(folder, values):
    first, second = halves(folder, values, 1)
    whole = joined([first, second], 1, (1, 1))
    pieces = np.split(values, 4, 1)
    return whole, np.concatenate([pieces[n] for n in (0, 2, 1, 3)], 1)


SOURCES = {
    "npy": lambda f, v: (npy(f, v), v),
    "npy in Fortran order": lambda f, v: (npy(f, np.asfortranarray(v)), v),
    "memory": lambda f, v: (ArrayInMemory(v), v),
    "memory in Fortran order": lambda f, v: (ArrayInMemory(np.asfortranarray(v)), v),
    "memory, every second": lambda f, v: (ArrayInMemory(v[:, ::2]), v[:, ::2]),
    "stored": lambda f, v: npz(f, v, np.savez, "C"),
    "stored in Fortran order": lambda f, v: npz(f, v, np.savez, "F"),
    "packed": lambda f, v: npz(f, v, np.savez_compressed, "C"),
    "packed in Fortran order": lambda f, v: npz(f, v, np.savez_compressed, "F"),
    "of torch": lambda f, v: of_torch(f, v, (0, 1, 2)),
    "view of torch": lambda f, v: of_torch(f, v, (2, 0, 1)),
    "first axis joined": lambda f, v: (joined(halves(f, v, 0), 0), v),
    "middle axis joined": lambda f, v: (joined(halves(f, v, 1), 1), v),
    "last axis joined": lambda f, v: (joined(halves(f, v, 2), 2), v),
    "interleaved": parts_interleaved,
    "grid": grid,
    "first values": lambda f, v: (FirstValues(npy(f, v), 300), v.reshape(-1)[:300]),
    "repeated": repeated,
    "base64": lambda f, v: base64(f, v, "C"),
    "base64 in Fortran order": lambda f, v: base64(f, v, "F"),
    "reshaped": lambda f, v: by(f, v, "reshape", 48, 10),
    "transposed": lambda f, v: by(f, v, "transpose"),
    "permuted": lambda f, v: by(f, v, "permute", 1, 0, 2),
    "split": lambda f, v: by(f, v, "split", 1, 3, 5),
    "split and permuted": lambda f, v: (
        transformed([by(f, v, "split", 2, 3, 7)[0]], Transform("permute", (2, 0, 1)))[0],
        v[..., 3:].transpose(2, 0, 1),
    ),
    "cast": lambda f, v: by(f, v, "cast", "float16"),
    "concatenated": lambda f, v: of_two(f, v, Transform("concat", (1,))),
    "added": lambda f, v: of_two(f, v, Transform("add")),
    "summed": lambda f, v: (summed([npy(f, v), npy(f, v, "y")]), None),
}


def can_be(kind, dtype):
    """Whether a source of a kind may hold a dtype."""
    if kind in ("cast", "summed", "added"):
        return dtype not in ("bool", "complex128")
    # Polygraphy writes what numpy's files hold.
    return not kind.startswith("base64") or dtype not in ("bfloat16", "complex128")


CASES = [
    pytest.param(kind, dtype, marks=[pytest.mark.torch] if "torch" in kind else [])
    for kind in SOURCES
    for dtype in DTYPES
    if can_be(kind, dtype)
]


@pytest.mark.few(40)
@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_rows_hold_the_bytes_of_a_whole_read(tmp_path, monkeypatch, kind, dtype):
    values = values_of(dtype)
    source, expected = SOURCES[kind](tmp_path, values)
    source = pickle.loads(pickle.dumps(source))
    size = math.prod(source.shape)
    whole = source.read(0, size).copy()
    if expected is not None:
        assert source.shape == expected.shape
        assert whole.tobytes() == expected.astype(source.dtype).tobytes()
    random = np.random.default_rng(len(kind))
    for block, gap in [(1 << 20, 1 << 15), (16, 0), (1, 40)]:
        monkeypatch.setattr(ranges, "READ_BLOCK", block)
        monkeypatch.setattr(ranges, "READ_THROUGH_BYTES", gap)
        lengths = {1, 7, source.shape[-1], 3 * source.shape[-1], 50, size}
        for length in sorted(length for length in lengths if length <= size):
            starts = random.integers(0, size - length + 1, 20)
            aligned = np.arange(0, size - length + 1, source.shape[-1])
            random.shuffle(aligned)
            for asked in (starts, aligned, np.sort(starts), aligned[:0], starts.tolist()):
                rows = read_rows(source, asked, length)
                assert (rows.dtype, rows.shape) == (source.dtype, (len(asked), length))
                assert rows.tobytes() == b"".join(whole[at : at + length].tobytes() for at in asked)
    with reading(source) as opened:
        for start, stop in np.sort(random.integers(0, size + 1, (20, 2)), axis=1).tolist():
            assert opened.read(start, stop).tobytes() == whole[start:stop].tobytes()


def test_rows_of_a_packed_member_are_one_pass(tmp_path, monkeypatch):
    values = np.random.default_rng(0).integers(0, 9, (300, 1000))
    np.savez_compressed(tmp_path / "x.npz", x=values)
    np.savez_compressed(tmp_path / "f.npz", x=np.asfortranarray(values))
    made = []
    plain = archive_source._Stream
    monkeypatch.setattr(archive_source, "_Stream", lambda m: made.append(m) or plain(m))
    starts = np.arange(300)[::-3] * 1000
    for name in ("x", "f"):
        source = open_dump(tmp_path / f"{name}.npz").sources[0]
        made.clear()
        np.testing.assert_array_equal(read_rows(source, starts, 1000), values[::-3])
        assert len(made) == 1


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_damage_is_found_where_rows_are_all_there_is(tmp_path, save):
    path = tmp_path / "x.npz"
    save(path, x=np.arange(4000.0))
    content = bytearray(path.read_bytes())
    at = content.index(np.float64(1999.0).tobytes()) if save is np.savez else len(content) // 2
    content[at + 6] ^= 1
    path.write_bytes(content)
    source = open_dump(path).sources[0]
    with pytest.raises(ReadError):
        read_rows(source, range(0, 4000, 100), 100)


@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_of_a_file_that_changed_are_refused(tmp_path, order):
    source = npy(tmp_path, np.asarray(values_of("float32"), order=order))
    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(ReadError, match="changed"):
        read_rows(source, [0], 1)


@pytest.mark.parametrize("starts", [[0, 40_000, 90_000], [90_000, 0, 40_000], [99_990]])
def test_a_file_that_shrinks_while_far_rows_are_read_is_refused(tmp_path, starts):
    source = npy(tmp_path, np.arange(100_000, dtype=np.float64))
    with reading(source) as opened:
        np.testing.assert_array_equal(opened.read_rows(starts, 2)[:, 1], np.add(starts, 1.0))
        os.truncate(tmp_path / "x.npy", 720_000)
        with pytest.raises(ReadError, match="changed"):
            opened.read_rows(starts, 2)


def test_few_far_rows_are_read_each_and_many_near_ones_together(tmp_path, monkeypatch):
    source = npy(tmp_path, np.arange(100_000, dtype=np.float32))
    asked = []
    plain = file_source._read_at
    monkeypatch.setattr(
        file_source, "_read_at", lambda *given: asked.append(len(given[1])) or plain(*given)
    )
    read_rows(source, range(0, 100_000, 5_000), 1)  # 20 kB apart
    assert asked == [4] * 20
    asked.clear()
    read_rows(source, range(0, 100_000, 500), 1)  # 2 kB apart
    assert asked == [4 * (99_500 + 1)]


def test_a_part_of_a_transform_reads_no_more_than_it_is_made_of(tmp_path, monkeypatch):
    """Of its source; a row of a transposed matrix lies in all rows, but needs one column."""
    values = np.arange(12000, dtype=np.float32).reshape(100, 120)
    seen = []

    class Watched:
        shape, dtype, size_bytes = values.shape, values.dtype, values.nbytes

        def files(self):
            return ()

        def read(self, start, stop, into=None):
            seen.append(stop - start)
            return values.reshape(-1)[start:stop]

    monkeypatch.setattr(ranges, "READ_THROUGH_BYTES", 0)
    for transform, number in [
        (Transform("transpose"), 0),
        (Transform("split", (1, 20, 100)), 1),
        (Transform("cast", ("bfloat16",)), 0),
        (Transform("permute", (1, 0)), 0),
    ]:
        seen.clear()
        made = transform.apply([values])[number]
        source = transformed([Watched()], transform)[number]
        rows = read_rows(source, [0, made.shape[1]], made.shape[1])
        assert rows.tobytes() == np.ascontiguousarray(made[:2]).tobytes()
        assert sum(seen) == rows.size
