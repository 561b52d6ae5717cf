"""State dicts written without torch: torch loads them, and so do we."""

from __future__ import annotations

import zipfile

import ml_dtypes
import numpy as np
import pytest

from troubleshooter_nb.formats import pth_writer
from troubleshooter_nb.formats.checkpoint import Item
from troubleshooter_nb.formats.pth import open_pth
from troubleshooter_nb.formats.pth_writer import write_pth

DTYPES = [
    *("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8"),
    *("bool", "complex128", "complex64", "uint16", "uint32", "uint64", "float8_e4m3fn"),
    *("float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
]


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def item(name, array, block=4):
    array = np.asarray(array)
    flat = array.reshape(-1)
    return Item(
        name,
        array.dtype,
        array.shape,
        lambda: (flat[at : at + block] for at in range(0, flat.size, block)),
    )


def arrays():
    made = {f"of.{name}": np.arange(1, 7).reshape(2, 3).astype(dtype_of(name)) for name in DTYPES}
    return {
        **made,
        "scalar": np.float32(3.5).reshape(()),
        "empty": np.zeros((0, 3), np.float32),
        "empty.typed": np.zeros((2, 0), np.uint16),
        "ungerade Größe": np.arange(7, dtype=np.int8),
        "big": np.arange(4, dtype=">f4"),
    }


def bytes_of(dump):
    sizes = [int(np.prod(source.shape)) for source in dump.sources]
    read = [source.read(0, size) for source, size in zip(dump.sources, sizes, strict=True)]
    return {
        name: (source.shape, source.dtype, values.tobytes())
        for name, source, values in zip(dump.names, dump.sources, read, strict=True)
    }


def little(array):
    return array.astype(array.dtype.newbyteorder("<"))


def test_every_dtype_and_shape_comes_back_bit_for_bit(tmp_path):
    made = arrays()
    path = tmp_path / "x.pth"
    assert write_pth(path, [item(name, array) for name, array in made.items()]) == []
    assert bytes_of(open_pth(path, label="x")) == {
        name: (array.shape, little(array).dtype, little(array).tobytes())
        for name, array in made.items()
    }
    assert zipfile.ZipFile(path).testzip() is None
    assert [child.name for child in tmp_path.iterdir()] == ["x.pth"]


def test_values_are_aligned_and_the_same_every_time(tmp_path):
    items = [item(name, array) for name, array in arrays().items()]
    write_pth(tmp_path / "a.pth", items)
    write_pth(tmp_path / "b.pth", items)
    assert (tmp_path / "a.pth").read_bytes() == (tmp_path / "b.pth").read_bytes()
    dump = open_pth(tmp_path / "a.pth", label="x")
    starts = [span[0] for source in dump.sources for span in source.spans]
    assert [start % 64 for start in starts] == [0] * len(starts)


def test_what_torch_has_no_dtype_for_is_left_out(tmp_path):
    items = [
        item("long", np.ones(2, np.longdouble)),
        item("small", np.ones(2, ml_dtypes.int4)),
        item("kept", np.ones(2)),
    ]
    left_out = write_pth(tmp_path / "x.pth", items)
    assert [name for name, _ in left_out] == ["long", "small"]
    assert left_out[1][1] == "torch has no int4"
    assert list(open_pth(tmp_path / "x.pth", label="x")) == ["kept"]


@pytest.mark.parametrize(("given", "reason"), [(3, "gave more of the 16"), (1, "gave 8 of the 16")])
def test_an_item_of_the_wrong_length_leaves_nothing(tmp_path, given, reason):
    wrong = Item("w", np.dtype(np.float32), (2, 2), lambda: [np.ones(2, np.float32)] * given)
    with pytest.raises(ValueError, match=reason):
        write_pth(tmp_path / "x.pth", [wrong])
    assert list(tmp_path.iterdir()) == []


def test_two_items_of_one_name_are_refused(tmp_path):
    with pytest.raises(ValueError, match="two tensors of one name"):
        write_pth(tmp_path / "x.pth", [item("w", np.ones(2)), item("w", np.ones(2))])


@pytest.mark.parametrize(("constant", "value"), [("_LARGE", 64), ("_MOST_MEMBERS", 3)])
def test_records_of_64_bits_are_read_back(tmp_path, monkeypatch, constant, value):
    # The numbers that need them are lowered: real ones take a file of 4 GiB.
    monkeypatch.setattr(pth_writer, constant, value)
    made = {"w": np.arange(40.0), "b": np.arange(3.0)}
    if constant == "_LARGE":
        monkeypatch.setattr("troubleshooter_nb.formats.zip_directory._FULL", value)
    write_pth(tmp_path / "x.pth", [item(name, array) for name, array in made.items()])
    found = bytes_of(open_pth(tmp_path / "x.pth", label="x"))
    assert found["w"][2] == made["w"].tobytes()
    assert found["b"][2] == made["b"].tobytes()


@pytest.mark.torch
@pytest.mark.parametrize("mmap", [False, True])
def test_torch_loads_it_without_running_code(tmp_path, mmap):
    import torch

    made = arrays()
    path = tmp_path / "x.pth"
    write_pth(path, [item(name, array) for name, array in made.items()])
    loaded = torch.load(path, weights_only=True, mmap=mmap)
    assert list(loaded) == list(made)
    for name, array in made.items():
        tensor = loaded[name]
        assert tuple(tensor.shape) == array.shape
        assert str(tensor.dtype).removeprefix("torch.") == array.dtype.name
        assert bytes(tensor.reshape(-1).view(torch.uint8).tolist()) == little(array).tobytes()


@pytest.mark.torch
def test_torch_loads_many_members(tmp_path):
    import torch

    names = [f"layer{number}.weight" for number in range(300)]
    write_pth(tmp_path / "x.pth", [item(name, np.arange(3.0)) for name in names])
    assert list(torch.load(tmp_path / "x.pth", weights_only=True)) == names
