"""Safetensors: opened by a checked header, refused with the failed check, written for others."""

from __future__ import annotations

import json
import os
import time
import tracemalloc
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from troubleshooter_nb.errors import FormatError, ReadError
from troubleshooter_nb.formats.checkpoint import Item
from troubleshooter_nb.formats.safetensors_ import (
    open_safetensors,
    open_stored,
    refusal,
    write_safetensors,
)

DATA = Path(__file__).parents[1] / "data" / "troubleshooter" / "inputs" / "pth"
NUMPY_NAMES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
}
ML_NAMES = {
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
}
DTYPES = {type_: np.dtype(name) for type_, name in NUMPY_NAMES.items()} | {
    type_: np.dtype(getattr(ml_dtypes, name))
    for type_, name in ML_NAMES.items()
    if hasattr(ml_dtypes, name)
}


def with_header(header, data=b"", length=None):
    """A file whose header is this JSON, text or bytes, whatever it says."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(raw) if length is None else length).to_bytes(8, "little") + raw + data


def entry(type_="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": type_, "shape": list(shape), "data_offsets": list(offsets)}


def written(tmp_path, content, name="x.safetensors"):
    path = tmp_path / name
    path.write_bytes(content)
    return path


def opened(path):
    return open_safetensors(path, label="x")


def item(name, array, pieces=3):
    flat = array.reshape(-1)
    return Item(name, array.dtype, array.shape, lambda: iter(np.array_split(flat, pieces)))


def raw(array):
    return array.tobytes()


def test_a_state_dict_of_torch_opens():
    dump = opened(DATA / "state_dict.safetensors")
    assert dump.format == "safetensors"
    assert "bn.num_batches_tracked" in dump
    assert dump.array("c.weight").shape == (2, 1, 3)
    roles = dict(zip(dump.names, dump.index["role"].values, strict=True))
    assert roles["c.weight"] == "parameter"
    assert roles["bn.running_mean"] == "buffer"
    # The package sorts by dtype, then name: that is no order of saving.
    assert set(dump.index["order"].values) == {-1}


@pytest.mark.mindspore  # which brings the package along
def test_a_state_dict_reads_as_the_safetensors_package_reads_it():
    from safetensors.numpy import load_file

    dump = opened(DATA / "state_dict.safetensors")
    peer = load_file(DATA / "state_dict.safetensors")
    assert set(peer) == set(dump.names)
    for name, array in peer.items():
        np.testing.assert_array_equal(dump.array(name), array, strict=True)


@pytest.mark.parametrize("type_", DTYPES)
def test_every_dtype_comes_back_bit_for_bit(tmp_path, type_):
    dtype = DTYPES[type_]
    data = bytes(range(1, 1 + 6 * dtype.itemsize)) if type_ != "BOOL" else b"\0\1\1\0\0\1"
    header = {"w": entry(type_, (2, 3), (0, len(data))), "e": entry(type_, (0, 4), (0, 0))}
    header["s"] = entry(type_, (), (len(data), len(data) + dtype.itemsize))
    path = written(tmp_path, with_header(header, data + data[: dtype.itemsize]))
    dump = opened(path)
    assert dump.array("w").dtype == dtype
    assert raw(dump.array("w")) == data
    assert dump.array("w").shape == (2, 3)
    assert dump.array("e").shape == (0, 4)
    assert raw(dump.array("s")) == data[: dtype.itemsize]
    source = dump.sources[0]
    assert raw(source.read(2, 5)) == data[2 * dtype.itemsize : 5 * dtype.itemsize]
    assert not dump.notes


@pytest.mark.parametrize("type_", ["F4", "F6_E2M3", "F6_E3M2", "I4", "HIF8", ""])
def test_an_unknown_dtype_is_an_entry_with_a_reason(tmp_path, type_):
    header = {"a": entry(type_, (2, 2), (0, 3)), "b": entry("U8", (2,), (3, 5))}
    dump = opened(written(tmp_path, with_header(header, bytes(5))))
    assert list(dump.index["status"].values) == ["unreadable", "ok"]
    assert f"dtype '{type_}' is not read" in dump.index["reason"].values[0]


def test_packed_int4_of_mindspore_is_an_entry_with_a_reason(tmp_path):
    header = {"__metadata__": {"format": "ms", "q": "Int4", "crc_num": "12"}}
    header |= {"q": entry("I8", (4,), (0, 4)), "w": entry("U8", (1,), (4, 5))}
    dump = opened(written(tmp_path, with_header(header, bytes(5))))
    assert "int4, two to a byte" in dump.index["reason"].values[0]
    assert dump.notes[0] == "carries a CRC-32 of MindSpore: verify() checks it"


def test_names_that_save_model_left_out_are_offered(tmp_path):
    header = {
        "__metadata__": {"format": "pt", "head.weight": "embed.weight", "odd": "nowhere"},
        "z.weight": entry("F32", (2,), (0, 8)),
        "embed.weight": entry("F32", (2,), (8, 16)),
    }
    dump = opened(written(tmp_path, with_header(header, np.arange(4.0, dtype="f4").tobytes())))
    assert dump.names == ["z.weight", "embed.weight", "head.weight"]
    np.testing.assert_array_equal(dump.array("head.weight"), [2, 3])
    assert dump.tied == [["embed.weight", "head.weight"]]
    assert "another name has the same tensor: head.weight" in dump.notes[0]


def test_an_order_of_its_own_counts_as_the_order_of_saving(tmp_path):
    header = {"b": entry("U8", (1,), (1, 2)), "a": entry("U8", (1,), (0, 1))}
    dump = opened(written(tmp_path, with_header(header, bytes(2))))
    assert dump.names == ["b", "a"]
    assert list(dump.index["order"].values) == [0, 1]


@pytest.mark.parametrize(
    ("begin", "size", "unused"), [(4, 12, 4), (0, 11, 3)], ids=["in front", "behind"]
)
def test_bytes_of_no_tensor_are_a_note(tmp_path, begin, size, unused):
    header = {"a": entry("F32", (2,), (begin, begin + 8))}
    dump = opened(written(tmp_path, with_header(header, bytes(size))))
    assert dump.notes == (f"{unused} bytes of the file belong to no tensor",)


def test_a_name_of_half_a_letter_can_be_written_out(tmp_path):
    path = written(
        tmp_path, with_header(b'{"a\\ud800": %b}' % json.dumps(entry()).encode(), bytes(8))
    )
    assert opened(path).names == ["a\\ud800"]


DEEP = b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
HUGE = 2**63


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty file: the save was interrupted"),
        (b"\1\0\0", "3 bytes are no safetensors file"),
        (with_header(b"{}", length=2**40), "its header would have 1,099,511,627,776 bytes"),
        (with_header(b"{}", length=2**64 - 1), "not a safetensors file"),
        (with_header(b"{}", length=3), "truncated: its header has 3 bytes, the file 10"),
        (with_header(b"{}", length=1), "header is no JSON"),
        (with_header(b""), "header is no JSON"),
        (with_header(b"[]"), "header is no JSON object"),
        (with_header(b"{}"), "no tensors in it"),
        (with_header(b"\xff\xfe{\0}\0"), "header is no JSON"),
        (with_header(b'{"a": NaN}'), "NaN is no number of JSON"),
        (with_header(b'{"a": ' + b"9" * 5000 + b"}"), "header is no JSON|has not dtype"),
        (with_header(DEEP), "nested too deeply|has not dtype"),
        (with_header(b'{"a": 1, "a": 2}'), "header has 'a' twice"),
        (with_header(b'{"a": {"dtype": "F32", "dtype": "F16"}}'), "header has 'dtype' twice"),
        (with_header({"__metadata__": [], "a": entry()}, bytes(8)), "__metadata__ is"),
        (with_header({"a": 3}), "entry 'a': 3 has not dtype, shape and data_offsets"),
        (with_header({"a": {"dtype": "F32"}}), "entry 'a': .* has not dtype"),
        (with_header({"a": entry() | {"dtype": 4}}, bytes(8)), "entry 'a': its dtype is 4"),
        (with_header({"a": entry() | {"shape": "2"}}, bytes(8)), "its shape is '2'"),
        (with_header({"a": entry(shape=[-2])}, bytes(8)), r"its shape is \[-2\], not lengths"),
        (with_header({"a": entry(shape=[2.0])}, bytes(8)), "its shape is"),
        (with_header({"a": entry(shape=[True, 2])}, bytes(8)), "its shape is"),
        (with_header({"a": entry(shape=[2] * 70)}, bytes(8)), "impossible shape"),
        (with_header({"a": entry(shape=[0, HUGE], offsets=(0, 0))}), "impossible shape"),
        (with_header({"a": entry(shape=[HUGE, HUGE])}, bytes(8)), "impossible shape"),
        (with_header({"a": entry(offsets=(-8, 0))}, bytes(8)), r"data_offsets are \[-8, 0\]"),
        (with_header({"a": entry(offsets=(8, 0))}, bytes(8)), r"data_offsets are \[8, 0\]"),
        (with_header({"a": entry(offsets=(0, 8, 16))}, bytes(16)), "data_offsets are"),
        (with_header({"a": entry(offsets=(0, 8.0))}, bytes(8)), "data_offsets are"),
        (with_header({"a": entry(offsets=(0, HUGE))}, bytes(8)), "truncated: its values end at"),
        (with_header({"a": entry()}, bytes(7)), "truncated: its values end at byte 8, the file"),
        (with_header({"a": entry(shape=[3])}, bytes(8)), "float32 needs 12 bytes, it has 8"),
        (with_header({"a": entry("BF16")}, bytes(8)), "bfloat16 needs 4 bytes, it has 8"),
        (
            with_header({"a": entry(), "b": entry(offsets=(4, 12))}, bytes(12)),
            "entry 'b': its values overlap those of 'a'",
        ),
        (with_header({"a": entry(), "b": entry()}, bytes(8)), "overlap"),
        (with_header({"a": entry(), "b": entry("F4", offsets=(0, 3))}, bytes(8)), "overlap"),
    ],
)
def test_a_damaged_or_hostile_file_is_refused_with_the_failed_check(tmp_path, content, reason):
    path = written(tmp_path, content)
    with pytest.raises(FormatError, match=f"^x.safetensors: .*({reason})") as caught:
        opened(path)
    assert len(str(caught.value)) < 400
    assert refusal(path) is None


def test_a_large_empty_claim_costs_nothing(tmp_path):
    path = written(tmp_path, with_header({"a": entry("F64", (1 << 33,), (0, 8 << 33))}))
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size + (8 << 33))
    started = time.process_time()
    source = opened(path).sources[0]
    np.testing.assert_array_equal(source.read((1 << 33) - 3, 1 << 33), np.zeros(3))
    assert time.process_time() - started < 2.0


@pytest.mark.parametrize(
    ("name", "content", "taken"),
    [
        ("x.bin", with_header({"a": entry()}, bytes(8)), True),
        ("x.safetensors", b"anything", True),
        ("x.bin", b"anything at all", False),
        ("x.bin", b"PK\3\4 and so on", False),
        ("x.bin", b"", False),
    ],
)
def test_a_file_is_taken_by_its_contents_or_its_name(tmp_path, name, content, taken):
    said = refusal(written(tmp_path, content, name))
    assert said is None if taken else "does not begin with a header of safetensors" in said


def test_a_folder_is_not_taken(tmp_path):
    (tmp_path / "x.safetensors").mkdir()
    assert refusal(tmp_path / "x.safetensors")


def test_a_file_that_changed_after_opening_cannot_be_read(tmp_path):
    path = written(tmp_path, with_header({"a": entry()}, bytes(8)))
    dump = opened(path)
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(ReadError, match="changed since it was opened"):
        dump.array("a")


def arrays():
    rng = np.random.default_rng(3)
    made = {
        type_: rng.integers(0, 2, 24 * dtype.itemsize).astype(np.uint8).view(dtype).reshape(4, 6)
        for type_, dtype in DTYPES.items()
    }
    made |= {"none": np.zeros((0, 3), np.float32), "scalar": np.float64(2.5).reshape(())}
    return made | {"one.byte": np.int8([7]), "é.weight": np.arange(5.0, dtype=np.float32)}


def test_what_was_written_opens_with_the_same_bits(tmp_path):
    path = tmp_path / "x.safetensors"
    made = arrays()
    assert write_safetensors(path, [item(name, array) for name, array in made.items()]) == []
    dump = opened(path)
    assert sorted(dump.names) == sorted(made)
    assert dump.notes == ()
    for name, array in made.items():
        got = dump.array(name)
        assert (got.shape, got.dtype, raw(got)) == (array.shape, array.dtype, raw(array))


def test_the_order_stays_where_it_leaves_every_tensor_aligned(tmp_path):
    path = tmp_path / "x.safetensors"
    made = {"z": np.ones(2, "f4"), "n": np.ones((), "i8"), "a": np.ones(3, "f4")}
    write_safetensors(path, [item(name, array) for name, array in made.items()])
    assert opened(path).names == ["z", "n", "a"]
    made["z"] = np.ones(1, "f4")
    write_safetensors(path, [item(name, array) for name, array in made.items()])
    assert open_stored(path)[0][0].source.dtype == np.int64


def test_the_header_is_aligned_and_so_is_every_tensor(tmp_path):
    path = tmp_path / "x.safetensors"
    write_safetensors(path, [item(name, array) for name, array in arrays().items()])
    stored, _ = open_stored(path)
    for one in stored:
        offset = one.source.spans[0][0] if one.source.spans else 0
        assert offset % one.source.dtype.itemsize == 0
    assert int.from_bytes(path.read_bytes()[:8], "little") % 8 == 0


def test_big_endian_values_are_converted(tmp_path):
    path = tmp_path / "x.safetensors"
    values = np.arange(6, dtype=">f4").reshape(2, 3)
    write_safetensors(path, [item("w", values)])
    got = opened(path).array("w")
    assert got.dtype == np.float32
    assert got.dtype.isnative
    np.testing.assert_array_equal(got, values)


@pytest.mark.parametrize(
    "dtype", [np.complex128, np.longdouble, ml_dtypes.int4, ml_dtypes.float8_e4m3b11fnuz]
)
def test_what_the_format_cannot_hold_is_left_out_and_said(tmp_path, dtype):
    path = tmp_path / "x.safetensors"
    odd = item("odd", np.zeros(2, dtype))
    left_out = write_safetensors(path, [odd, item("w", np.ones(2))])
    assert left_out == [("odd", f"safetensors has no dtype for {np.dtype(dtype).name}")]
    assert opened(path).names == ["w"]


@pytest.mark.parametrize("count", [2, 4])
def test_values_that_do_not_make_up_the_shape_leave_no_file(tmp_path, count):
    wrong = Item("w", np.dtype("f4"), (3,), lambda: [np.zeros(count, "f4")])
    with pytest.raises(ValueError, match=r"'w': shape .* and its values differ by"):
        write_safetensors(tmp_path / "x.safetensors", [wrong])
    assert os.listdir(tmp_path) == []


def test_two_tensors_of_one_name_are_refused(tmp_path):
    with pytest.raises(ValueError, match="two tensors are called 'w'"):
        write_safetensors(tmp_path / "x", [item("w", np.ones(1)), item("w", np.ones(2))])
    assert os.listdir(tmp_path) == []


def test_writing_holds_one_chunk_at_a_time(tmp_path):
    chunk = np.ones(1 << 16, np.float32)
    items = [
        Item(name, chunk.dtype, (64, chunk.size), lambda: (chunk.copy() for _ in range(64)))
        for name in "abcd"
    ]
    tracemalloc.start()
    write_safetensors(tmp_path / "x.safetensors", items)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # 256 KiB a chunk, 64 MiB in all.
    assert peak < 4 * chunk.nbytes


@pytest.mark.torch
@pytest.mark.mindspore  # brings the safetensors package
def test_the_safetensors_package_reads_what_was_written(tmp_path):
    import torch
    from safetensors.torch import load_file

    path = tmp_path / "x.safetensors"
    made = arrays()
    write_safetensors(path, [item(name, array) for name, array in made.items()])
    peer = load_file(path)
    assert set(peer) == set(made)
    for name, array in made.items():
        tensor = peer[name]
        assert tuple(tensor.shape) == array.shape
        bytes_ = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        assert bytes_ == raw(array), name


@pytest.mark.torch
@pytest.mark.mindspore  # brings the safetensors package
def test_what_the_safetensors_package_wrote_opens(tmp_path):
    import torch
    from safetensors.torch import save_file, save_model

    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    net[1].weight = net[0].weight
    save_model(net, str(tmp_path / "tied.safetensors"))
    dump = opened(tmp_path / "tied.safetensors")
    assert set(dump.names) == set(net.state_dict())
    assert dump.tied == [["0.weight", "1.weight"]]
    for name, tensor in net.state_dict().items():
        np.testing.assert_array_equal(dump.array(name), tensor.numpy())
    half = {"h": torch.arange(6).to(torch.bfloat16), "q": torch.ones(2).to(torch.float8_e5m2)}
    save_file(half, tmp_path / "half.safetensors")
    dump = opened(tmp_path / "half.safetensors")
    for name, tensor in half.items():
        assert raw(dump.array(name)) == tensor.view(torch.uint8).numpy().tobytes()


@pytest.mark.mindspore
def test_mindspore_loads_what_was_written_and_its_own_files_open(tmp_path):
    import mindspore

    path = tmp_path / "x.safetensors"
    made = {
        "fc.weight": np.arange(12, dtype=np.float32).reshape(3, 4),
        "half": np.arange(4).astype(ml_dtypes.bfloat16),
        "count": np.int64([3]),
        "flag": np.array([True, False]),
    }
    write_safetensors(path, [item(name, array) for name, array in made.items()])
    loaded = mindspore.load_checkpoint(str(path), format="safetensors")
    assert set(loaded) == set(made)
    for name, array in made.items():
        got = loaded[name].float().asnumpy() if name == "half" else loaded[name].asnumpy()
        np.testing.assert_array_equal(got, array.astype(got.dtype))
    own = tmp_path / "own.safetensors"
    # With crc_check MindSpore 2.10 cannot save bfloat16.
    made.pop("half")
    saved = [{"name": name, "data": loaded[name]} for name in made]
    mindspore.save_checkpoint(saved, str(own), format="safetensors", crc_check=True)
    dump = opened(own)
    assert dump.notes[0] == "carries a CRC-32 of MindSpore: verify() checks it"
    assert set(dump.index["order"].values) == {-1}
    for name, array in made.items():
        assert raw(dump.array(name)) == raw(array)
