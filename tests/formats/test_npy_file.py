"""One .npy file: opened by its header alone, read by ranges, refused with a reason when hostile."""

from __future__ import annotations

import io
import itertools
import math
import os
import pickle
import random
import struct
import time
import warnings

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from troubleshooter_nb.errors import FormatError, ReadError
from troubleshooter_nb.formats.file_source import FileSource
from troubleshooter_nb.formats.npy_file import open_npy, parse_npy_header

LONG = os.environ.get("TNB_LONG") == "1"


def npy(array, *, version=None):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, version, allow_pickle=True)
    return stream.getvalue()


def with_header(text, data=b"", *, version=(1, 0), length=None):
    """A .npy file whose header is this text, whatever it says."""
    raw = text.encode("latin1") if isinstance(text, str) else text
    size = "<H" if version == (1, 0) else "<I"
    count = struct.pack(size, len(raw) if length is None else length)
    return b"\x93NUMPY" + bytes(version) + count + raw + data


def header(shape, descr="'<f4'", fortran="False"):
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}}}\n"


def written(tmp_path, content, name="x.npy"):
    path = tmp_path / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4),
        np.arange(12, dtype=">f4").reshape(3, 4),
        np.arange(24, dtype=np.int16).reshape(2, 3, 4).transpose(2, 0, 1).copy("F"),
        np.asfortranarray(np.arange(12.0, dtype=">f8").reshape(3, 4)),
        np.float32(3.5).reshape(()),
        np.zeros((0, 3), np.float16),
        np.asfortranarray(np.zeros((3, 0, 2))),
        np.array([True, False]),
        np.array([1 + 2j], np.complex64),
        np.array([2**64 - 1], np.uint64),
        np.longdouble([1.5, -2.0]),
        np.arange(5.0)[:, None],  # one axis only varies: C and Fortran order at once
    ],
    ids=lambda array: f"{array.dtype.str}-{array.shape}-{array.flags.f_contiguous}",
)
@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_arrays_come_back_bit_for_bit_in_any_range(tmp_path, array, version):
    source = open_npy(written(tmp_path, npy(array, version=version)))
    assert (source.shape, source.dtype) == (array.shape, array.dtype)
    assert source.size_bytes == array.nbytes
    flat = array.reshape(-1)  # C order, whatever the layout
    for start, stop in itertools.combinations_with_replacement(range(array.size + 1), 2):
        part = source.read(start, stop)
        assert part.dtype == array.dtype
        assert part.shape == (stop - start,)
        np.testing.assert_array_equal(part, flat[start:stop])


@given(
    array=hnp.arrays(
        st.sampled_from(["<f2", ">f4", "<f8", "<i8", ">u2", "|b1", "<c16"]),
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
    ),
    fortran=st.booleans(),
    data=st.data(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_array_in_any_layout_reads_like_numpy(tmp_path, array, fortran, data):
    stored = array.copy("F") if fortran else array
    source = open_npy(written(tmp_path, npy(stored)))
    start = data.draw(st.integers(0, array.size))
    stop = data.draw(st.integers(start, array.size))
    got = source.read(start, stop)
    assert got.tobytes() == array.reshape(-1)[start:stop].tobytes()


@pytest.mark.parametrize(
    "token", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "int4", "uint4"]
)
def test_raw_bytes_mean_the_dtype_that_the_name_says(tmp_path, token):
    dtype = np.dtype(getattr(ml_dtypes, token))
    array = np.arange(6).reshape(2, 3).astype(dtype)
    path = written(tmp_path, npy(array.view(f"V{dtype.itemsize}")))
    source = open_npy(path, token)
    assert source.dtype == dtype
    got = source.read(1, 5)
    assert got.dtype == dtype
    assert got.tobytes() == array.reshape(-1)[1:5].tobytes()


@pytest.mark.parametrize("token", [None, "float32", "bool", "float8_e5m2", "finfo", "no_dtype"])
def test_raw_bytes_of_unknown_meaning_are_refused_with_advice(tmp_path, token):
    path = written(tmp_path, npy(np.zeros(4, "V2")))
    with pytest.raises(FormatError, match=r"raw bytes.*say so in the file name, as in x_bf"):
        open_npy(path, token)


def test_a_known_dtype_is_believed_whatever_the_name_says(tmp_path):
    # TroubleShooter widens bfloat16 to float32 and keeps the word in the name.
    assert open_npy(written(tmp_path, npy(np.ones(2, np.float32))), "bfloat16").dtype == np.float32


def test_a_file_of_a_hundred_gigabytes_opens_at_once(tmp_path):
    path = written(tmp_path, with_header(header((25_000_000_000,))))
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size + 100_000_000_000)
    started = time.process_time()
    source = open_npy(path)
    assert source.shape == (25_000_000_000,)
    np.testing.assert_array_equal(source.read(24_999_999_990, 25_000_000_000), np.zeros(10))
    # Reading it whole takes a minute at best; a header takes a millisecond.
    assert time.process_time() - started < 2.0


def test_values_are_not_read_to_learn_the_shape(tmp_path):
    path = written(tmp_path, npy(np.arange(1000.0)))
    before = open_npy(path)
    content = path.read_bytes()
    stamp = os.stat(path)
    path.write_bytes(content[:200] + b"\xff" * (len(content) - 200))
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    # Nothing of the values was kept: the range comes from the file as it is now.
    assert np.isnan(before.read(500, 501)[0])


BAD_SHAPES = [
    "(-1,)",
    "(3, -2)",
    "(True, 3)",
    "(1.5,)",
    "('3',)",
    "(None,)",
    "[2, 2]",
    "4",
    "None",
    "{}",
    "(4611686018427387904, 4)",  # wraps around in int64
    "(0, 4611686018427387904, 4611686018427387904)",
    "(0, 100000000000000000000)",
    f"({'1,' * 80})",
    f"({10**30},)",
]


@pytest.mark.parametrize("shape", BAD_SHAPES)
@pytest.mark.parametrize("fortran", ["False", "True"])
def test_an_impossible_shape_is_refused(tmp_path, shape, fortran):
    path = written(tmp_path, with_header(header(shape, fortran=fortran), b"\0" * 64))
    with pytest.raises(FormatError, match=r"impossible shape|shape is not valid|truncated"):
        open_npy(path)


def test_zero_axes_of_any_count_still_have_an_empty_array(tmp_path):
    source = open_npy(written(tmp_path, with_header(header((0, 1 << 40)))))
    assert source.read(0, 0).reshape(source.shape).shape == (0, 1 << 40)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty file: the save was interrupted"),
        (b"\x93", "not a .npy file: EOF"),
        (b"\x93NUMPY", "not a .npy file: EOF"),
        (b"not numpy at all, but long enough", "magic string is not correct"),
        (b"PK\x03\x04 a zip archive named .npy", "magic string is not correct"),
        (with_header(header((2,)), version=(3, 0)), "3.0 is used only for records"),
        (with_header(header((2,)), version=(9, 1)), "9.1 is used by no numpy we know"),
        (with_header(header((2,)), length=60000), "not a .npy file: EOF"),
        (with_header(header((2,)), version=(2, 0), length=0xFFFFFFFF), "not a .npy file: EOF"),
        (with_header(" " * (1 << 20), version=(2, 0)), "not a .npy file: EOF"),
        (with_header(" " * 12000 + header((2,))), "not a .npy file: Header info length"),
        (with_header(""), "not a .npy file"),
        (with_header("hello"), "not a .npy file"),
        (with_header("{}"), "not a .npy file: Header does not contain the correct keys"),
        (with_header("[1, 2]"), "not a .npy file: Header is not a dictionary"),
        (with_header(header("(2,)", fortran="'yes'")), "fortran_order is not a valid bool"),
        (with_header(header("(2,)", descr="'<f3'")), "not a .npy file"),
        (with_header(header("(2,)", descr="'nonsense'")), "not a .npy file"),
        (with_header(header("(2,)", descr="None")), r"truncated|not a .npy file"),
        (with_header(header("(2,)", descr="('<f4', (2,))")), r"holds records|text"),
        (with_header(header("(2,)", descr="[('a', '<f4'), ('a', '<f4')]")), "not a .npy file"),
        (with_header(header("(2,)", descr="[('a', '<f4'), ('b', '<i2')]")), "holds records"),
        (with_header(header("(2,)", descr="'<U5'")), "holds text or dates"),
        (with_header(header("(2,)", descr="'<M8[s]'")), "holds text or dates"),
        (with_header(header("(2,)", descr="'|V0'")), "raw bytes"),
        (with_header(b"\xff\xfe" * 50), "not a .npy file"),
        (with_header("{'descr': ("), "not a .npy file"),  # the tokenizer gives up
        (with_header("(" * 9000), "not a .npy file"),
        (with_header("[" * 4000 + "]" * 4000), "not a .npy file"),
        (with_header("-" * 9000 + "1"), "not a .npy file"),
        (with_header("{'descr':" * 1000), "not a .npy file"),
        (with_header("__import__('os').system('false')"), "not a .npy file"),
        (with_header("9" * 9000), "not a .npy file"),
        (with_header(header((8,)), b"\0" * 31), "truncated: .* needs 32 bytes, the file holds 31"),
        (with_header(header((2, 4), fortran="True"), b"\0" * 31), "truncated"),
    ],
    ids=itertools.count(),
)
def test_a_damaged_or_hostile_file_is_refused_with_a_reason(tmp_path, content, reason):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(FormatError, match=reason):
            open_npy(written(tmp_path, content))


def test_a_reason_is_short_whatever_the_file_says(tmp_path):
    for content in (with_header("{'" + "x" * 9000 + "': 1}"), with_header(header("(2," * 3000))):
        with pytest.raises(FormatError) as caught:
            open_npy(written(tmp_path, content))
        assert len(str(caught.value)) < 300


class SideEffect:
    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


def test_a_pickle_inside_is_never_run(tmp_path):
    trace = tmp_path / "ran"
    path = tmp_path / "x.npy"
    np.save(path, np.array([SideEffect(trace), None], object), allow_pickle=True)
    with pytest.raises(FormatError, match="Python objects; reading them would run code"):
        open_npy(path)
    written(tmp_path, pickle.dumps(SideEffect(trace)), "y.npy")
    with pytest.raises(FormatError, match="magic string"):
        open_npy(tmp_path / "y.npy")
    nested = npy(np.array([(1, SideEffect(trace))], [("a", "<i4"), ("b", object)]))
    written(tmp_path, nested, "z.npy")
    with pytest.raises(FormatError, match="Python objects"):
        open_npy(tmp_path / "z.npy")
    assert not trace.exists()
    # The trap works: what the reader refuses does run when it is unpickled.
    np.load(path, allow_pickle=True)
    assert trace.exists()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("change", ["shrunk", "grown", "rewritten", "replaced", "gone", "folder"])
def test_a_file_that_changed_after_opening_cannot_be_read(tmp_path, order, change):
    path = written(tmp_path, npy(np.arange(600.0).reshape(20, 30).copy(order)))
    source = open_npy(path)
    content = path.read_bytes()
    if change == "shrunk":
        os.truncate(path, 200)
    elif change == "grown":
        path.write_bytes(content + b"\0")
    elif change == "rewritten":
        path.write_bytes(content)
        os.utime(path, ns=(0, 0))
    elif change == "replaced":
        other = written(tmp_path, npy(np.zeros((2, 3))), "other.npy")
        os.replace(other, path)
    else:
        path.unlink()
        if change == "folder":
            path.mkdir()
    reason = {"gone": "x.npy: No such file", "folder": "x.npy: Is a directory"}
    with pytest.raises(ReadError, match=reason.get(change, "x.npy changed since it was opened")):
        source.read(0, 600)


@pytest.mark.parametrize("fortran", [False, True])
def test_a_handle_without_stamp_still_notices_a_short_file(tmp_path, fortran):
    path = written(tmp_path, b"\0" * 20)
    strides = (1, 2) if fortran else None
    source = FileSource(str(path), (2, 4), np.dtype("f4"), ((0, 32),), strides)
    with pytest.raises(ReadError, match="changed since it was opened"):
        source.read(0, 8)


def test_a_handle_travels_by_pickle(tmp_path):
    array = np.arange(6, dtype=ml_dtypes.bfloat16).reshape(2, 3)
    source = open_npy(written(tmp_path, npy(array.view("V2"))), "bfloat16")
    copy = pickle.loads(pickle.dumps(source))
    assert copy == source
    assert len(pickle.dumps(source)) < 1000
    assert copy.read(0, 6).tobytes() == array.tobytes()


@pytest.mark.parametrize("kind", ["fifo", "dangling", "loop", "folder", "device"])
def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path, kind):
    path = tmp_path / "x.npy"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to({"dangling": "nowhere", "loop": "x.npy", "device": os.devnull}[kind])
    reason = "No such file|Too many levels|not a file with contents"
    with pytest.raises((FormatError, OSError), match=reason):
        open_npy(path)


def seeds():
    rng = np.random.default_rng(0)
    yield npy(rng.normal(size=(3, 5)).astype(np.float32))
    yield npy(np.asfortranarray(rng.normal(size=(4, 3))))
    yield npy(np.arange(7, dtype=">i2"), version=(2, 0))
    yield npy(np.zeros(2, "V2"))
    yield npy(np.array([("a", 1.0)], [("name", "U3"), ("value", "f8")]))
    yield npy(np.array([{"a": 1}], object))
    yield npy(np.float64(1.0).reshape(()))


TOKENS = [*b"()[]{}',:<>|fiuVUO-+.eE0123456789 \n\\#\"\0\x80\xff"]


def mutated(content, rng):
    """Bytes changed, dropped, repeated, cut, mostly in the header."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        reach = rng.choice([12, 80, 130, len(data), len(data)])
        place = rng.randrange(max(1, min(len(data), reach)))
        kind = rng.randrange(6)
        if kind == 0 and data:
            data[place % len(data)] = rng.choice(TOKENS)
        elif kind == 1:
            data[place:place] = bytes(rng.choice(TOKENS) for _ in range(rng.randint(1, 8)))
        elif kind == 2:
            del data[place : place + rng.randint(1, 12)]
        elif kind == 3:
            piece = data[place : place + rng.randint(1, 20)]
            data[place:place] = bytes(piece) * rng.randint(1, 30)
        elif kind == 4:
            del data[rng.randrange(len(data) + 1) :]
        elif data:
            data[place % len(data)] ^= 1 << rng.randrange(8)
    return bytes(data)


def test_mutated_files_are_read_or_refused_and_nothing_else(tmp_path):
    rng = random.Random(20)
    contents = list(seeds())
    count = 20_000 if LONG else 500
    reasons = []
    started = time.process_time()
    for _ in range(count):
        content = mutated(rng.choice(contents), rng)
        path = written(tmp_path, content)
        token = rng.choice([None, "bfloat16", "float8_e5m2", "float32"])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                source = open_npy(path, token)
                values = source.read(0, math.prod(source.shape)).reshape(source.shape)
            except FormatError as error:
                reasons.append(str(error))
            else:
                assert values.nbytes <= len(content)
    # Both ways out are taken, or the mutations are worth nothing.
    assert 0.3 * count < len(reasons) < 0.97 * count
    assert all(0 < len(reason) < 400 for reason in reasons)
    assert time.process_time() - started < count * 0.01


def test_equal_headers_are_parsed_once_and_different_ones_each(tmp_path, monkeypatch):
    calls, plain = [], np.lib.format.read_magic
    monkeypatch.setattr(np.lib.format, "read_magic", lambda f: calls.append(1) or plain(f))
    shapes = [(3, 1097), (1097, 3), (3, 1097), (1097, 3)]
    for number, shape in enumerate(shapes):
        np.save(tmp_path / f"{number}.npy", np.full(shape, number, np.int16))
    sources = [open_npy(tmp_path / f"{number}.npy") for number in range(4)]
    assert [source.shape for source in sources] == shapes
    assert [int(source.read(0, 1)[0]) for source in sources] == [0, 1, 2, 3]
    assert len(calls) == 2


def test_a_shape_is_refused_though_an_equal_one_was_read_before(tmp_path):
    """True is equal to 1, and no length."""
    good = written(tmp_path, with_header(header("(1, 3)"), bytes(12)), "good.npy")
    bad = written(tmp_path, with_header(header("(True, 3)"), bytes(12)), "bad.npy")
    assert open_npy(good).shape == (1, 3)
    with pytest.raises(FormatError, match="impossible shape"):
        open_npy(bad)


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_a_header_ends_where_it_says_whatever_stands_behind_it(version):
    alone = with_header(header("(2,)"), version=version)
    for behind in (b"", b"\0" * 8, alone):
        found = parse_npy_header(alone + behind)
        assert found == ((2,), False, np.dtype("<f4"), len(alone))
