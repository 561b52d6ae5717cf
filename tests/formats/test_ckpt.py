"""MindSpore checkpoints: read without MindSpore, written for it, refused with a reason."""

from __future__ import annotations

import binascii
import math
import os
import random
import sys
import tracemalloc
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.formats.accidents import ACCIDENTS, bounded
from troubleshooter_nb import open_dump
from troubleshooter_nb.errors import FormatError, ReadError
from troubleshooter_nb.formats import ckpt
from troubleshooter_nb.formats.checkpoint import Item
from troubleshooter_nb.formats.ckpt import checked_parts, open_ckpt, refusal, write_ckpt
from troubleshooter_nb.formats.protobuf import bytes_head, number_field, varint

LONG = os.environ.get("TNB_LONG") == "1"
DATA = Path(__file__).parents[1] / "data/compat/troubleshooter"
ARRAYS = {
    name: (np.arange(6).reshape(2, 3) % 2 if name == "bool" else np.arange(6).reshape(2, 3)).astype(
        getattr(ml_dtypes, name, name)
    )
    for name in (
        *("float16", "float32", "float64", "bfloat16", "bool", "int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64"),
    )
} | {"number": np.float32(3.5).reshape(()), "long/name é": np.ones((1, 1, 1, 1, 1), np.float32)}


def field(number: int, content: bytes) -> bytes:
    return bytes_head(number, len(content)) + content


def record(name, type_, shape, content, *, more=b"") -> bytes:
    """One tensor as MindSpore writes it."""
    dims = b"".join(number_field(1, length) for length in shape)
    tensor = dims + field(2, type_.encode()) + field(3, content) + more
    return field(1, field(1, name.encode()) + field(2, tensor))


def items(arrays: dict[str, np.ndarray], cut: int = 4) -> list[Item]:
    def chunks(array):
        flat = array.reshape(-1)
        return lambda: (flat[i : i + cut] for i in range(0, flat.size, cut))

    return [Item(name, array.dtype, array.shape, chunks(array)) for name, array in arrays.items()]


def file_with(tmp_path, content: bytes, name="x.ckpt") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


def opened(path: Path):
    return open_ckpt(path, label=path.name)


def test_what_is_written_is_read_bit_for_bit(tmp_path):
    path = tmp_path / "all.ckpt"
    assert write_ckpt(path, items(ARRAYS)) == []
    dump = opened(path)
    assert dump.names == list(ARRAYS)
    for name, array in ARRAYS.items():
        got = dump.array(name)
        assert (got.dtype, got.shape) == (array.dtype, array.shape)
        assert got.tobytes() == array.tobytes()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.mindspore
def test_mindspore_loads_every_dtype_that_is_written(tmp_path):
    import mindspore

    path = tmp_path / "all.ckpt"
    write_ckpt(path, items(ARRAYS))
    loaded = mindspore.load_checkpoint(str(path))
    assert list(loaded) == list(ARRAYS)
    for name, array in ARRAYS.items():
        got = loaded[name].asnumpy()
        assert got.dtype.name == array.dtype.name
        assert (got.shape, got.tobytes()) == (array.shape, array.tobytes())


@pytest.mark.mindspore
def test_what_mindspore_saves_is_read_bit_for_bit(tmp_path):
    import mindspore
    from mindspore import Tensor, nn

    net = nn.SequentialCell(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dense(2, 3))
    optimizer = nn.Adam(net.trainable_params(), 0.25)
    path = tmp_path / "net.ckpt"
    extra = {"epoch_num": 3, "note": "é text", "flag": True}
    tensors = [
        {"name": p.name, "data": p} for p in [*net.get_parameters(), *optimizer.get_parameters()]
    ]
    tensors.append({"name": "bf16", "data": Tensor([1.5, 2.5], mindspore.bfloat16)})
    names = dict.fromkeys(t["name"] for t in tensors)
    tensors = [next(t for t in tensors if t["name"] == name) for name in names]
    mindspore.save_checkpoint(tensors, str(path), append_dict=extra)
    dump = opened(path)
    loaded = mindspore.load_checkpoint(str(path))
    assert set(dump.names) == set(loaded) - {"note"}
    for name in dump.names:
        assert dump.array(name).tobytes() == loaded[name].asnumpy().tobytes(), name
    assert any("note='é text'" in note for note in dump.notes)
    roles = dict(zip(dump.names, dump.index["role"].values, strict=True))
    assert roles["0.weight"] == "parameter"
    assert roles["1.moving_mean"] == "buffer"
    assert roles["moment1.0.weight"] == roles["beta1_power"] == "optimizer_state"
    assert roles["global_step"] == roles["epoch_num"] == "step_counter"
    assert roles["learning_rate"] == "learning_rate"


@pytest.mark.mindspore
def test_a_tensor_in_several_records_is_joined_and_mindspore_agrees(tmp_path, monkeypatch):
    import mindspore

    monkeypatch.setattr(ckpt, "_SLICE", 20)
    array = np.arange(33, dtype=np.float32).reshape(3, 11)
    path = tmp_path / "sliced.ckpt"
    write_ckpt(path, items({"w": array, "v": array[:1]}, cut=7))
    assert path.read_bytes().count(b"Float32") == 7 + 3
    assert opened(path).array("w").tobytes() == array.tobytes()
    source = opened(path).sources[0]
    for start in range(34):
        for stop in range(start, 34):
            assert source.read(start, stop).tobytes() == array.reshape(-1)[start:stop].tobytes()
    loaded = mindspore.load_checkpoint(str(path))
    assert loaded["w"].asnumpy().tobytes() == array.tobytes()
    assert loaded["v"].asnumpy().tobytes() == array[:1].tobytes()


def state_of(path):
    with open(path, "rb") as file:
        (part,) = checked_parts(file, path.stat().st_size)
    return part.state


@pytest.mark.mindspore
@pytest.mark.parametrize("damage", [False, True])
def test_the_sum_mindspore_appends_is_checked(tmp_path, damage):
    import mindspore

    path = tmp_path / "sum.ckpt"
    tensors = [{"name": "w", "data": mindspore.Tensor([1.0, 2.0], mindspore.float32)}]
    mindspore.save_checkpoint(tensors, str(path), crc_check=True)
    assert state_of(path) == "intact"
    if not damage:
        assert (opened(path).names, opened(path).notes) == (["w"], ())
        return
    path.chmod(0o600)
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(bytes(content))
    assert state_of(path) == "damaged"
    with pytest.raises(FormatError, match=r"sum.ckpt: its CRC-32 is not that of its contents"):
        opened(path)


def test_the_sum_of_a_large_file_is_checked_when_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(ckpt, "_CHECKED_AT_ONCE", 10)
    content = record("w", "Float32", (2,), bytes(8))
    total = binascii.crc32(content).to_bytes(10, "big")
    damaged = file_with(tmp_path, content[:-1] + b"\1" + b"crc_num" + total)
    assert opened(damaged).names == ["w"]
    assert state_of(damaged) == "damaged"
    assert state_of(file_with(tmp_path, content + b"crc_num" + total)) == "intact"
    assert state_of(file_with(tmp_path, content)) == "no_checksum"


@pytest.mark.parametrize("build", ["wheel_1.0.18", "master_1.0.19"])
def test_files_of_the_old_tool_open(build):
    dump = open_dump(DATA / build / "ckpt/a.ckpt")
    assert dump.format == "ckpt"
    assert dump.names == ["w", "s", "only_a", "sc", "i", "b", "n"]
    net = open_dump(DATA / build / "weights/ms_net.ckpt")
    assert (
        dict(zip(net.names, net.index["role"].values, strict=True))["bn1.moving_mean"] == "buffer"
    )


@pytest.mark.parametrize(
    ("type_", "dtype"),
    [
        ("Complex64", "complex64"),
        ("Complex128", "complex128"),
        ("Float8E4M3FN", "float8_e4m3fn"),
        ("Float8E5M2", "float8_e5m2"),
        ("Int4", "int4"),
    ],
)
def test_what_mindspore_itself_cannot_load_is_read(tmp_path, type_, dtype):
    array = np.arange(4).astype(getattr(ml_dtypes, dtype, dtype))
    dump = opened(file_with(tmp_path, record("w", type_, (4,), array.tobytes())))
    assert dump.array("w").tobytes() == array.tobytes()
    assert str(dump.index["dtype"].values[0]) == dtype


def test_numbers_of_older_releases_have_no_axes(tmp_path):
    dump = opened(file_with(tmp_path, record("step", "Int32", (0,), b"\x07\0\0\0")))
    assert dump.array("step").shape == ()
    assert dump.array("step") == 7


def test_packed_lengths_are_read_too(tmp_path):
    tensor = field(1, varint(2) + varint(300)) + field(2, b"Int8") + field(3, bytes(600))
    dump = opened(file_with(tmp_path, field(1, field(1, b"w") + field(2, tensor))))
    assert dump.array("w").shape == (2, 300)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (record("w", "Float32", (3,), bytes(8)), r"shape \(3,\) of float32 needs 3 elements"),
        (record("w", "Float32", (1,), bytes(8)), "8 bytes for 4 of shape"),
        (record("w", "Int4", (8,), bytes(4)), "needs 8 elements"),
        (record("w", "Text", (1,), b"a"), "values of type 'Text', which cannot be read"),
        (record("w", "Float32", (2**62, 2**62), b""), "impossible shape"),
        (record("w", "Float32", (2**63,), b""), "impossible shape"),
        (field(1, field(1, b"w") + field(3, b"\x08\x01")), "a hash table"),
    ],
)
def test_one_bad_tensor_is_an_entry_with_a_reason(tmp_path, content, reason):
    good = record("good", "Float32", (2,), np.ones(2, "<f4").tobytes())
    dump = opened(file_with(tmp_path, good + content + good.replace(b"good", b"fine")))
    assert dump.names == ["good", "w", "fine"]
    assert list(dump.index["status"].values) == ["ok", "unreadable", "ok"]
    with pytest.raises(ReadError, match=reason):
        dump.array("w")


WHOLE = record("first", "Float32", (2,), bytes(8)) + record("second", "Float32", (2,), bytes(8))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty file"),
        (b"\x00", "not a MindSpore checkpoint: "),
        (b"garbage, not a checkpoint", "not a MindSpore checkpoint: no field begins at byte 0"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "the number at byte 1 does not end"),
        (
            WHOLE[:-3],
            "truncated behind 'first': field 1 at byte .* copy or save it again",
        ),
        (WHOLE + b"\x0a", "behind 'second': the number at byte"),
        (WHOLE + b"\x10\x01", "behind 'second': field 2 where a record is expected"),
        (field(1, b""), "has no name"),
        (field(1, field(1, b"w")), "has no tensor"),
        (record("\x80", "Float32", (), bytes(4)).replace(b"\xc2\x80", b"\xff\xff"), "is no text"),
        (record("x" * 5000, "Float32", (), bytes(4)), "a name of 5,000 bytes"),
        (record("w", "Float32", (1,) * 65, bytes(4)), "'w' has more than 64 axes"),
        (
            record("w", "Float32", (2,), bytes(8)) + record("w", "Int32", (2,), bytes(8)),
            "two tensors",
        ),
        (WHOLE + record("first", "Float32", (2,), bytes(8)), "2 tensors are called 'first'"),
        (record("note", "str", (0,), b"a\0\0\0"), "no tensors in it"),
        (b"\xd8\x5e\x3a\x7f" + bytes(100), r"encrypted with AES-GCM; load it with mindspore.load"),
        (b"\xda\x5e\x3a\x7f" + bytes(100), "encrypted with SM4-CBC"),
    ],
)
def test_what_is_no_checkpoint_says_why(tmp_path, content, reason):
    path = file_with(tmp_path, content)
    with pytest.raises(FormatError, match=rf"^x.ckpt: .*{reason}"):
        open_dump(path)


def test_any_name_will_do_where_the_content_is_clear(tmp_path):
    assert refusal(file_with(tmp_path, WHOLE, "weights.bin")) is None
    assert "a zip archive" in refusal(file_with(tmp_path, b"PK\x03\x04", "lightning.ckpt"))
    assert "does not begin" in refusal(file_with(tmp_path, b"text", "x.txt"))
    assert refusal(tmp_path) is not None


def test_headers_alone_are_read(tmp_path):
    """A sparse file of 3 GB opens at once and without its values in memory."""
    size = 1_500_000_000
    head = record("w", "Int8", (), b"")
    dims = number_field(1, size) + field(2, b"Int8")
    outer = bytes_head(2, len(dims) + len(bytes_head(3, size)) + size)
    inner = field(1, b"w") + outer + dims + bytes_head(3, size)
    path = tmp_path / "large.ckpt"
    with open(path, "wb") as file:
        for _ in range(2):
            file.write(bytes_head(1, len(inner) + size) + inner)
            file.seek(size, os.SEEK_CUR)
        file.write(head.replace(b"w", b"v"))
    tracemalloc.start()
    dump = opened(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert dump.names == ["w", "v"]
    assert "3,000,000,000 bytes in 2 records for 1,500,000,000" in dump.index["reason"].values[0]
    assert peak < 2**20


def test_what_mindspore_could_not_load_is_left_out_and_named(tmp_path):
    arrays = {
        "empty": np.zeros((0, 3), np.float32),
        "complex": np.ones(2, np.complex64),
        "fine": np.ones(2, np.float32),
        "tiny": np.ones(2, ml_dtypes.float8_e5m2),
    }
    path = tmp_path / "x.ckpt"
    left_out = dict(write_ckpt(path, items(arrays)))
    assert list(left_out) == ["empty", "complex", "tiny"]
    assert "keeps no empty tensors" in left_out["empty"]
    assert "cannot load complex64" in left_out["complex"]
    assert opened(path).names == ["fine"]


def test_an_error_while_writing_leaves_the_old_file(tmp_path):
    path = file_with(tmp_path, WHOLE)

    def chunks():
        yield np.ones(2, np.float32)
        msg = "gone"
        raise ReadError(msg)

    with pytest.raises(ReadError, match="gone"):
        write_ckpt(path, [Item("w", np.dtype("f4"), (4,), chunks)])
    assert path.read_bytes() == WHOLE
    assert list(tmp_path.iterdir()) == [path]


def test_big_endian_values_are_written_in_mindspores_order(tmp_path):
    array = np.arange(3, dtype=">f4")
    path = tmp_path / "x.ckpt"
    write_ckpt(path, items({"w": array}))
    np.testing.assert_array_equal(opened(path).array("w"), [0, 1, 2])
    assert opened(path).array("w").dtype == np.dtype("<f4")


@given(
    names=st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=5, unique=True),
    shape=st.lists(st.integers(1, 3), max_size=4),
    dtype=st.sampled_from(["f4", "f2", "i8", "u1", "?"]),
)
def test_any_names_and_shapes_come_back(tmp_path_factory, names, shape, dtype):
    path = tmp_path_factory.mktemp("ckpt") / "x.ckpt"
    arrays = {
        name: (np.arange(math.prod(shape)) + k).astype(dtype).reshape(shape)
        for k, name in enumerate(names)
    }
    write_ckpt(path, items(arrays))
    found, _ = ckpt.open_stored(path)
    assert [one.name for one in found] == names
    for one, array in zip(found, arrays.values(), strict=True):
        assert one.source.read(0, array.size).tobytes() == array.tobytes()


def mutated(content: bytes, draw: random.Random) -> bytes:
    """The file after one to three accidents."""
    data = bytearray(content)
    for _ in range(draw.randint(1, 3)):
        if data:
            draw.choice(ACCIDENTS)(data, draw)
    return bytes(data)


def test_damaged_files_give_our_errors_only(tmp_path):
    path = tmp_path / "all.ckpt"
    write_ckpt(path, items(ARRAYS))
    content = path.read_bytes()
    right = {name: array.tobytes() for name, array in ARRAYS.items()}
    whole = refused = 0
    for seed in range(500 if LONG else 50):
        path.write_bytes(mutated(content, random.Random(seed)))
        with bounded(len(content), seed):
            try:
                dump = opened(path)
            except FormatError as error:
                refused += str(error).startswith("all.ckpt: ")
                continue
            values = {}
            for name, source in zip(dump.names, dump.sources, strict=True):
                if source is not None:
                    values[name] = source.read(0, math.prod(source.shape)).tobytes()
        whole += values == right
    # Shown with -s: how much still opens with the right values.
    sys.stdout.write(f"ckpt: {refused} refused, {whole} open with the right values\n")
    assert refused > 0
