"""Archives of arrays: stored members by offset, deflated ones as streams, hostile ones refused."""

from __future__ import annotations

import io
import itertools
import os
import pickle
import struct
import threading
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from troubleshooter_nb import compare
from troubleshooter_nb.errors import FormatError, ReadError
from troubleshooter_nb.formats import archive_source, stored_source
from troubleshooter_nb.formats.archive_source import ArchiveSource
from troubleshooter_nb.formats.file_source import FileSource
from troubleshooter_nb.formats.npz import open_npz, refusal

DATA = Path(__file__).parents[1] / "data" / "troubleshooter" / "inputs" / "npy"
METHODS = {"stored": zipfile.ZIP_STORED, "deflated": zipfile.ZIP_DEFLATED}
ARRAYS = [
    np.arange(12.0).reshape(3, 4),
    np.arange(12, dtype=">f4").reshape(3, 4),
    np.asfortranarray(np.arange(24, dtype=np.int16).reshape(2, 3, 4)),
    np.asfortranarray(np.arange(12.0, dtype=">f8").reshape(3, 4)),
    np.float32(3.5).reshape(()),
    np.zeros((0, 3), np.float16),
    np.array([True, False]),
    np.array([1 + 2j], np.complex64),
    np.arange(6.0)[:, None],
]


def npy(array):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=True)
    return stream.getvalue()


def archive(tmp_path, members, method=zipfile.ZIP_DEFLATED, name="x.npz"):
    path = tmp_path / name
    with zipfile.ZipFile(path, "w", method) as file:
        for member, content in members.items():
            file.writestr(member, npy(content) if isinstance(content, np.ndarray) else content)
    return path


def opened(path):
    return open_npz(path, label="x")


def reasons(dump):
    return dict(zip(dump.names, dump.index["reason"].values, strict=True))


def edited(path, find, put, *, which=0):
    """The file with some bytes overwritten: the first or last place they are found in."""
    content = bytearray(path.read_bytes())
    place = content.find(find) if which == 0 else content.rfind(find)
    assert place >= 0
    content[place : place + len(put)] = put
    path.write_bytes(content)


def test_an_archive_of_numpy_opens():
    dump = opened(DATA / "archive_9.npz")
    assert dump.format == "npz"
    assert dump.names == ["a", "b"]
    with np.load(DATA / "archive_9.npz") as peer:
        for name in dump.names:
            np.testing.assert_array_equal(dump.array(name), peer[name], strict=True)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_every_layout_comes_back_bit_for_bit_in_any_range(tmp_path, save):
    made = {f"x{number}": array for number, array in enumerate(ARRAYS)}
    save(tmp_path / "x.npz", **made)
    dump = opened(tmp_path / "x.npz")
    assert dump.names == list(made)
    for source, array in zip(dump.sources, made.values(), strict=True):
        assert isinstance(source, FileSource if save is np.savez else ArchiveSource)
        assert (source.shape, source.dtype) == (array.shape, array.dtype)
        assert source.size_bytes == array.nbytes
        flat = array.reshape(-1)
        for start, stop in itertools.combinations_with_replacement(range(array.size + 1), 2):
            assert source.read(start, stop).tobytes() == flat[start:stop].tobytes()
            assert source.read(start, stop).dtype == array.dtype


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_raw_bytes_mean_the_dtype_that_the_name_says(tmp_path, method, order):
    array = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16).copy(order)
    members = {"w_bfloat16_0.npy": array.view("V2"), "w.npy": array.view("V2")}
    dump = opened(archive(tmp_path, members, METHODS[method]))
    got = dump.array("w_bfloat16_0")
    assert got.dtype == ml_dtypes.bfloat16
    assert got.tobytes() == array.tobytes()
    assert "raw bytes" in reasons(dump)["w"]


def test_names_of_parameters_are_parameters_and_others_saved_arrays(tmp_path):
    ones = np.ones(2, np.float32)
    path = archive(tmp_path, {"conv1/weight.npy": ones, "bn.gamma.npy": ones, "z.npy": ones})
    dump = opened(path)
    assert dump.names == ["conv1/weight", "bn.gamma", "z"]
    assert list(dump.index["kind"].values) == ["checkpoint"] * 3
    path = archive(tmp_path, {"out.npy": ones, "relu.npy": ones, "fc.weight.npy": ones})
    dump = opened(path)
    assert list(dump.index["kind"].values) == ["file"] * 3
    assert list(dump.index["role"].values) == ["", "", "parameter"]


class SideEffect:
    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


@pytest.mark.parametrize("method", METHODS)
def test_what_holds_no_numbers_is_an_entry_with_a_reason(tmp_path, method):
    trace = tmp_path / "ran"
    members = {
        "object.npy": np.array([SideEffect(trace), None], object),
        "text.npy": np.array(["a", "bc"]),
        "pickle.npy": pickle.dumps(SideEffect(trace)),
        "empty.npy": b"",
        "short.npy": npy(np.ones(40))[:-8],
        "good.npy": np.ones(3),
        "readme.txt": b"hello",
        "folder/": b"",
    }
    dump = opened(archive(tmp_path, members, METHODS[method]))
    said = reasons(dump)
    assert "Python objects; reading them would run code" in said["object"]
    assert "holds text or dates" in said["text"]
    assert "not a .npy file" in said["pickle"]
    assert "not a .npy file" in said["empty"]
    assert "truncated: (40,) of float64 needs 320 bytes, the member holds 312" in said["short"]
    assert said["good"] == ""
    assert dump.notes[0] == "not read, no arrays: readme.txt"
    assert not trace.exists()


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_another_compression_is_an_entry_with_a_reason(tmp_path, method):
    dump = opened(archive(tmp_path, {"w.npy": np.ones(3)}, method))
    assert f"compressed by method {method}" in reasons(dump)["w"]


def test_an_encrypted_member_is_an_entry_with_a_reason(tmp_path):
    path = archive(tmp_path, {"w.npy": np.ones(3)})
    content = bytearray(path.read_bytes())
    for magic, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.find(magic) + flags] |= 1
    path.write_bytes(content)
    assert "encrypted" in reasons(opened(path))["w"]


def test_two_members_of_one_name_are_refused(tmp_path):
    path = archive(tmp_path, {"a.npy": np.ones(2), "b.npy": np.ones(2)})
    path.write_bytes(path.read_bytes().replace(b"b.npy", b"a.npy"))
    with pytest.raises(FormatError, match=r"x.npz: two members of the zip are called 'a.npy'"):
        opened(path)


def bomb(tmp_path, claimed, content):
    """An archive whose member claims another size than it has, in both of its headers."""
    path = archive(tmp_path, {"w.npy": content})
    for magic, place in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        data = bytearray(path.read_bytes())
        at = data.find(magic) + place
        data[at : at + 4] = struct.pack("<I", claimed)
        path.write_bytes(data)
    return path


def test_a_member_that_promises_more_than_deflate_can_is_an_entry_with_a_reason(tmp_path):
    head = npy(np.ones(2)).replace(b"(2,), }" + b" " * 9, b"(500000000,), } ")
    dump = opened(bomb(tmp_path, 4_000_000_128, head))
    assert "cannot hold 4,000,000,128: damaged, or made to harm" in reasons(dump)["w"]


def test_a_member_shorter_than_it_claims_cannot_be_read(tmp_path):
    head = npy(np.ones(2)).replace(b"(2,), }" + b" " * 4, b"(2000,), } ")
    dump = opened(bomb(tmp_path, 128 + 16_000, head))
    with pytest.raises(ReadError, match=r"'w.npy' is damaged: it ends after 144 of 16,128 bytes"):
        dump.array("w")


@pytest.mark.parametrize("large", [False, True])
def test_damage_inside_a_deflated_member_is_found_on_reading(tmp_path, large):
    rng = np.random.default_rng(1)
    array = rng.normal(size=200_000 if large else 40)
    path = archive(tmp_path, {"w.npy": array, "v.npy": np.ones(3)})
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if large else 300] ^= 0x10
    path.write_bytes(content)
    dump = opened(path)
    with pytest.raises(ReadError, match=r"x.npz: 'w.npy' is damaged: (its CRC-32|Error|it ends)"):
        dump.array("w")
    np.testing.assert_array_equal(dump.array("v"), np.ones(3))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("change", ["shrunk", "grown", "replaced", "gone"])
def test_a_file_that_changed_after_opening_cannot_be_read(tmp_path, order, change):
    path = archive(tmp_path, {"w.npy": np.arange(600.0).reshape(20, 30).copy(order)})
    source = opened(path).sources[0]
    source.read(0, 10)
    if change == "shrunk":
        os.truncate(path, 200)
    elif change == "grown":
        path.write_bytes(path.read_bytes() + b"\0")
    elif change == "replaced":
        os.replace(archive(tmp_path, {"w.npy": np.ones(3)}, name="y.npz"), path)
    else:
        path.unlink()
    reason = "No such file" if change == "gone" else "changed since it was opened"
    with pytest.raises(ReadError, match=f"x.npz:? {reason}"):
        source.read(10, 20)


def test_reading_on_does_not_start_over(tmp_path, monkeypatch):
    array = np.random.default_rng(2).integers(0, 9, 400_000).astype(np.float32)
    path = archive(tmp_path, {"w.npy": array})
    source = opened(path).sources[0]
    started = []
    original = archive_source._Stream
    monkeypatch.setattr(
        archive_source, "_Stream", lambda *given: started.append(1) or original(*given)
    )
    for start in range(0, array.size, 1000):
        np.testing.assert_array_equal(source.read(start, start + 1000), array[start : start + 1000])
    assert len(started) == 1
    source.read(0, 10)
    assert len(started) == 2


def test_threads_that_read_on_in_their_own_parts_get_the_right_values(tmp_path):
    array = np.random.default_rng(2).integers(0, 9, 400_000).astype(np.float32)
    source = opened(archive(tmp_path, {"w.npy": array})).sources[0]
    wrong = []

    def read(part):
        for start in range(part * 100_000, (part + 1) * 100_000, 5000):
            if not np.array_equal(source.read(start, start + 5000), array[start : start + 5000]):
                wrong.append(start)

    threads = [threading.Thread(target=read, args=(part,)) for part in (0, 1, 2, 3, 3, 0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_few_decompressors_are_kept_whatever_is_read(tmp_path):
    members = {f"x{number}.npy": np.arange(1000.0) + number for number in range(60)}
    dump = opened(archive(tmp_path, members))
    for number, source in enumerate(dump.sources):
        np.testing.assert_array_equal(source.read(0, 3), np.arange(3.0) + number)
    assert len(archive_source._streams._idle) <= 16


def test_skipping_and_reading_hold_little_memory(tmp_path):
    path = archive(tmp_path, {"w.npy": np.zeros(8_000_000)})
    source = opened(path).sources[0]
    tracemalloc.start()
    np.testing.assert_array_equal(source.read(7_999_990, 8_000_000), np.zeros(10))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


def test_a_handle_travels_by_pickle(tmp_path):
    source = opened(archive(tmp_path, {"w.npy": np.arange(50.0)})).sources[0]
    copy = pickle.loads(pickle.dumps(source))
    assert copy == source
    assert len(pickle.dumps(source)) < 1000
    np.testing.assert_array_equal(copy.read(3, 6), [3, 4, 5])


def test_more_members_than_anyone_saves_are_refused(tmp_path):
    path = tmp_path / "x.npz"

    def entry(name):
        numbers = (20, 20, *[0] * 7, len(name), *[0] * 6)
        return struct.pack("<4s6H3L5H2L", b"PK\x01\x02", *numbers) + name

    directory = b"".join(entry(str(number).encode()) for number in range(200_001))
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, len(directory), 30, 0)
    path.write_bytes(b"PK" + bytes(28) + directory + end)
    with pytest.raises(FormatError, match=r"an archive of 200,001 members is not opened"):
        opened(path)


def test_a_large_archive_has_its_counts_elsewhere(tmp_path):
    path = archive(tmp_path, {"w.npy": np.arange(3.0)})
    content = path.read_bytes()
    place = content.rfind(b"PK\x05\x06")
    count, length, start = struct.unpack_from("<H2L", content, place + 10)
    record = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, length, start)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, place, 1)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 65535, 65535, 2**32 - 1, 2**32 - 1, 0)
    path.write_bytes(content[:place] + record + locator + end)
    np.testing.assert_array_equal(opened(path).array("w"), [0, 1, 2])


def test_members_that_share_bytes_are_refused(tmp_path):
    inner = archive(tmp_path, {"b.npy": np.ones(3)}, zipfile.ZIP_STORED, "inner.npz").read_bytes()
    path = archive(tmp_path, {"a.npy": inner, "b.npy": np.ones(3)}, zipfile.ZIP_STORED)
    content = bytearray(path.read_bytes())
    second = content.rfind(b"PK\x01\x02")
    # Its place is now that of its double inside the first.
    content[second + 42 : second + 46] = struct.pack("<I", content.find(inner))
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"'b.npy' overlaps 'a.npy'"):
        opened(path)


def test_a_header_that_contradicts_the_directory_is_a_reason(tmp_path):
    path = archive(tmp_path, {"a.npy": np.ones(3), "b.npy": np.ones(3)})
    edited(path, b"b.npy", b"c.npy")
    dump = opened(path)
    assert "its own header is not where, or not what, the directory says" in reasons(dump)["b"]
    assert reasons(dump)["a"] == ""


END = b"PK\x05\x06" + bytes(8)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty file"),
        (b"not a zip archive", "not a zip archive, which every .npz file is"),
        (END + bytes(10), r"no .npy members in it"),
        (b"PK\x03\x04" + b"half of an archive" * 10, "truncated: no zip directory"),
        (END + struct.pack("<2LH", 46, 0, 0), "it does not end at byte 0"),
        (b"PK" + bytes(44) + END + struct.pack("<2LH", 46, 0, 0), "damaged: something else"),
    ],
)
def test_what_is_no_archive_of_arrays_is_refused(tmp_path, content, reason):
    path = tmp_path / "x.npz"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=f"^x.npz: .*{reason}"):
        opened(path)
    assert refusal(path) is None


def test_a_truncated_archive_is_refused_wherever_it_ends(tmp_path):
    path = archive(tmp_path, {"a.npy": np.ones(3), "b.npy": np.ones(3)})
    content = path.read_bytes()
    for end in range(2, len(content)):
        path.write_bytes(content[:end])
        with pytest.raises(FormatError, match="truncated"):
            opened(path)


def test_a_file_is_taken_by_its_contents_or_its_name(tmp_path):
    assert refusal(archive(tmp_path, {"a.npy": np.ones(2)}, name="x.zip")) is None
    torch_like = archive(tmp_path, {"x/data.pkl": b"..", "x/data/0": b".."}, name="x.pt")
    assert "other things than arrays: x/data.pkl, x/data/0" in refusal(torch_like)
    (tmp_path / "text.bin").write_bytes(b"text")
    assert refusal(tmp_path / "text.bin") == "no zip archive, and not called .npz"
    (tmp_path / "half.zip").write_bytes(b"PK\3\4half")
    assert "cannot be listed: truncated" in refusal(tmp_path / "half.zip")
    (tmp_path / "folder.npz").mkdir()
    assert refusal(tmp_path / "folder.npz")


def test_a_crc_is_checked_where_reading_reaches_the_end(tmp_path):
    array = np.arange(50.0)
    path = archive(tmp_path, {"w.npy": array})
    crc = struct.pack("<I", zlib.crc32(npy(array)))
    edited(path, crc, bytes(4), which=-1)
    source = opened(path).sources[0]
    np.testing.assert_array_equal(source.read(0, 10), array[:10])
    with pytest.raises(ReadError, match="its CRC-32 is not that of its contents"):
        source.read(10, 50)


def damaged(tmp_path, array, members=()):
    """A stored member with one altered byte of its values, which numpy refuses as well."""
    path = archive(tmp_path, {"w.npy": array, **dict(members)}, zipfile.ZIP_STORED)
    content = bytearray(path.read_bytes())
    content[content.find(b"\x93NUMPY") + 128 + array.nbytes // 2] ^= 0x40
    path.write_bytes(content)
    with np.load(path) as peer, pytest.raises(zipfile.BadZipFile, match="Bad CRC-32"):
        peer["w"]
    return path


SAID = r"^x\.npz: 'w\.npy' is damaged: its CRC-32 is not that of its contents$"


@pytest.mark.parametrize("order", ["C", "F"])
def test_altered_values_of_a_stored_member_are_no_values(tmp_path, order):
    array = np.arange(3000.0).reshape(30, 100).copy(order)
    dump = opened(damaged(tmp_path, array, {"v.npy": np.ones(3)}))
    for _ in range(2):
        with pytest.raises(ReadError, match=SAID):
            dump.array("w")
    np.testing.assert_array_equal(dump.array("v"), np.ones(3))
    summarised = dump.summarise()
    assert summarised.index["status"].values.tolist() == ["unreadable", "ok"]
    assert "'w.npy' is damaged" in summarised.index["reason"].values[0]


def test_a_pair_with_altered_values_is_unreadable(tmp_path):
    array = np.arange(3000, dtype=np.float32)
    np.savez(tmp_path / "good.npz", w=array)
    found = compare(damaged(tmp_path, array), tmp_path / "good.npz")
    (row,) = found.to_dataframe().to_dict("records")
    assert row["verdict"] == "unreadable"
    assert "'w.npy' is damaged" in row["reason"]


def cut(size, pieces, rng):
    """Ranges of some sizes that together are everything, in any order."""
    places = sorted({0, size, *rng.integers(1, size, pieces).tolist()})
    ranges = list(itertools.pairwise(places))
    rng.shuffle(ranges)
    return ranges


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_crc_is_that_of_pieces_in_any_order(tmp_path, seed, order):
    rng = np.random.default_rng(seed)
    array = rng.normal(size=(20, 100)).copy(order)
    bad = opened(damaged(tmp_path, array)).sources[0]
    good = opened(archive(tmp_path, {"w.npy": array}, zipfile.ZIP_STORED, "y.npz")).sources[0]
    ranges = [(40, 60), *cut(array.size, 9, rng)]
    for start, stop in ranges[:-1]:
        assert good.read(start, stop).tobytes() == array.reshape(-1)[start:stop].tobytes()
        bad.read(start, stop)  # a part comes unchecked
    good.read(*ranges[-1])
    with pytest.raises(ReadError, match=SAID):
        bad.read(*ranges[-1])


def test_a_look_into_the_middle_before_does_not_hide_damage(tmp_path):
    source = opened(damaged(tmp_path, np.arange(3000.0))).sources[0]
    for start in range(5, 2900, 9):
        source.read(start, start + 3)
    with pytest.raises(ReadError, match=SAID):
        source.read(0, 3000)
    with pytest.raises(ReadError, match=SAID):
        source.read(0, 1)


def test_threads_that_read_their_own_parts_find_damage_once_all_was_read(tmp_path):
    array = np.arange(400_000.0)
    sources = [
        opened(path).sources[0]
        for path in (
            damaged(tmp_path, array),
            archive(tmp_path, {"w.npy": array}, zipfile.ZIP_STORED, "y.npz"),
        )
    ]
    refused = [0, 0]

    def read(number, part):
        for start in range(part * 100_000, (part + 1) * 100_000, 5000):
            try:
                sources[number].read(start, start + 5000)
            except ReadError:
                refused[number] += 1

    threads = [
        threading.Thread(target=read, args=(number, part)) for part in range(4) for number in (0, 1)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == [1, 0]


def test_a_member_is_checked_once(tmp_path, monkeypatch):
    array = np.arange(3000.0)
    source = opened(archive(tmp_path, {"w.npy": array}, zipfile.ZIP_STORED)).sources[0]
    summed = []
    crc32 = zlib.crc32
    monkeypatch.setattr(
        stored_source.zlib, "crc32", lambda data, *more: summed.append(1) or crc32(data, *more)
    )
    for _ in range(3):
        np.testing.assert_array_equal(source.read(0, 3000), array)
    assert len(summed) == 1


@pytest.mark.parametrize("method", METHODS)
def test_what_stands_behind_the_values_counts_for_the_crc(tmp_path, method):
    path = archive(tmp_path, {"w.npy": npy(np.arange(3.0)) + b"more"}, METHODS[method])
    np.testing.assert_array_equal(opened(path).array("w"), np.arange(3.0))
    if method == "stored":
        edited(path, b"more", b"less")
        with pytest.raises(ReadError, match=SAID):
            opened(path).array("w")


def test_a_stored_handle_travels_by_pickle(tmp_path):
    source = opened(damaged(tmp_path, np.arange(50.0))).sources[0]
    source.read(0, 10)
    copy = pickle.loads(pickle.dumps(source))
    assert copy == source
    assert hash(copy) == hash(source)
    assert len(pickle.dumps(source)) < 1000
    with pytest.raises(ReadError, match=SAID):
        copy.read(0, 50)
