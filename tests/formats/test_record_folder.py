"""The reader of recordings: what is there is read, what is not is said, nothing else happens."""

from __future__ import annotations

import contextlib
import json
import math
import os
import pickle
import random
import shutil

import ml_dtypes
import numpy as np
import pytest

from tests.formats.accidents import ACCIDENTS, bounded
from tests.formats.record_lines import (
    assert_missing_keys_are_noted,
    each_line_changed,
    lines_of,
    opened_notes,
)
from troubleshooter_nb import open_dump
from troubleshooter_nb.dump import ArraySource, files_of
from troubleshooter_nb.errors import FormatError, ReadError
from troubleshooter_nb.formats.record_dir import open_record_dir, read_ranks
from troubleshooter_nb.formats.record_folder import is_record, ranks_of, read_events, refusal
from troubleshooter_nb.formats.record_layout import packed, with_packed_figures
from troubleshooter_nb.formats.record_writer import RecordWriter
from troubleshooter_nb.messages import Foreign, Message
from troubleshooter_nb.ranges import read_rows, reading

LONG = os.environ.get("TNB_LONG") == "1"
HEADER = {"framework": "torch", "rank": 0, "card": {"seed": 1}}
TOKENS = [
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
    *("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz"),
    *("float8_e4m3fnuz", "float8_e5m2fnuz", "int4", "uint4"),
]
BIG = np.random.default_rng(3).normal(size=(3, 4000)).astype(np.float32)


def written(folder, records, *, complete=True):
    writer = RecordWriter(folder, HEADER)
    for event, array in records:
        writer.put(event, array)
    writer.close(complete)
    return folder


def small(folder):
    """A recording of a few lines of every kind."""
    return written(
        folder,
        [
            ({"stack": 0, "text": "File a.py, line 3"}, None),
            (
                {
                    **{"call": 1, "kind": "module", "path": "fc", "layer": "Linear", "step": 0},
                    **{"run": 0, "thread": 0, "parent": None, "training": True, "grad": True},
                    "args": [["0", {"value": 1}], ["scale", {"plain": 2.0}]],
                },
                None,
            ),
            ({"value": 1, "strides": [4, 1], "device": "cpu"}, np.ones((2, 4), np.float32)),
            ({"value": 2, "dtype": "float32", "shape": [2], "statistics": {"min": math.nan}}, None),
            ({"ended": 1, "status": "ok", "out": [["0", {"value": 2}]]}, None),
            (
                {"owner": 1, "call": 1, "name": "fc.weight", "leaf": "weight", "role": "parameter"},
                None,
            ),
            ({"missing": {"kind": "compiled", "where": ["net.body"], "count": 1}}, None),
        ],
    )


CALL = {
    **{"call": 1, "kind": "module", "path": "fc", "layer": "Linear", "step": 0, "run": 0},
    **{"parent": None, "args": []},
}


def every_kind(folder):
    """A recording that is whole, with every kind of event as a recorder writes it, and no note."""
    turn = {"pass": 0, "step": 0, "run": 0}
    number = iter(range(100))

    def value(**said):
        array = np.arange(8, dtype=np.float32).reshape(2, 4)
        return {"value": next(number), **said}, array

    figures = {"statistics": dict.fromkeys(STATISTICS, 1.0), "fingerprint": [0.5] * 17}
    facts = {"dtype": "float32", "shape": [2, 4]}
    owner = {"owner": 0, "call": 1, "name": "fc.weight", "leaf": "weight", "role": "parameter"}
    parameter = {"gradient_of_parameter": "fc.weight", "layer_path": "fc", "leaf": "weight"}
    given = [["0", {"value": 0}], ["1", {"plain": 2.0}], ["2", {"type": "Dog"}]]
    made = [["0", {"value": 1}], ["1", {"value": 2}], ["2", {"value": 3}], ["3", {"value": 8}]]
    return written(
        folder,
        [
            ({"settings": "fc", "values": {"training": True}, "step": 0}, None),
            ({"stack": 0, "text": "File a.py, line 3"}, None),
            value(),
            ({**CALL, "args": given, "stack": 0, "random": 9}, None),
            (owner, None),
            (with_packed_figures({"value": next(number), **facts, **figures}), None),
            ({"value": next(number), **facts, "crc32": 7, "view_of": 1}, None),
            ({"value": next(number), **facts, "reason": "theirs"}, None),
            ({"ended": 1, "status": "ok", "out": made}, None),
            value(gradient_of=1, **turn),
            ({"own_gradient": 1, "slot": "0", "value": 4, **turn}, None),
            value(**parameter, layer="Linear", role="gradient", **turn),
            ({"value": next(number), "sample_of": 1, "stride": 2}, np.zeros(4, np.float32)),
            ({"value": next(number), "role": "random_state"}, np.zeros(5, np.uint8)),
            ({"value": next(number), **facts, "statistics": {"min": 1.0}}, None),
            ({"step": 1}, None),
        ],
    )


STATISTICS = ("min", "max", "mean", "l2", "nan_count", "inf_count")


def test_a_line_without_one_of_its_keys_is_noted(tmp_path):
    folder = every_kind(tmp_path)
    assert opened_notes(folder) == []
    assert_missing_keys_are_noted(folder)


@pytest.mark.few(6)
@pytest.mark.parametrize(
    "other",
    [
        *(None, True, -1, 1.5, math.inf, 1 << 80, 1 << 61, "", "a..b", "bfloat16", "Aa.:[\n0"),
        *(
            [],
            {},
            [[1]],
            {"a": {}},
            [1],
            [1 << 61, 1 << 61],
            [9] * 90,
            {"value": 1},
            [["", {"value": 1}]],
        ),
        *(
            "api",
            "debug",
            0,
            [2, 3],
            [["a..b", {"value": 8}]] * 2,
            {"kind": "", "where": None, "count": 0},
        ),
    ],
    ids=lambda other: f"{other!r:.30}",
)
def test_a_key_that_says_something_else_gives_a_dump_or_is_refused(tmp_path, other):
    folder = every_kind(tmp_path)
    notes = [notes for _, _, notes in each_line_changed(folder, other)]
    assert ["records.damaged_lines"] in notes


@pytest.mark.parametrize(
    "line",
    [
        *({"call": 500}, {"owner": 1, "call": 0}, {"gradient_of": 0}, {"stack": 1}, {}),
        *({"own_gradient": 0, "value": 1}, {"gradient_of_parameter": "a"}, {"missing": {}}),
        *({"sample_of": [1], "value": 9}, {"sample_of": 1}, {"value": 9, "sample_of": 1}),
        *({"path": "fc", "kind": "module"}, {"ended": 1}, {"settings": "fc"}, {"shape": [1]}),
        *({**CALL, "args": [["0", {}]]}, {"missing": {"kind": "open", "where": [""]}}),
    ],
    ids=json.dumps,
)
def test_a_line_that_lacks_what_it_needs_is_a_damaged_line(tmp_path, line):
    recorded = with_lines(every_kind(tmp_path), line, {"step": 5})
    assert recorded.events == [{"step": 5}]
    assert opened_notes(tmp_path) == ["records.not_closed", "records.damaged_lines"]


@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_figures_that_cannot_be_are_a_damaged_line(tmp_path, at, number):
    numbers = [1.0] * 6
    numbers[at] = number
    line = {"value": 1, "dtype": "float32", "shape": [2], "figures": packed(numbers)}
    is_count = STATISTICS[at].endswith("count") and math.isinf(number)
    recorded = with_lines(every_kind(tmp_path), line)
    assert len(recorded.events) == (not is_count)
    opened_notes(tmp_path)
    assert with_lines(tmp_path, {**line, "figures": packed(numbers)[:-3]}).events == []
    assert with_lines(tmp_path, {**line, "figures": packed(numbers[:3])}).events == []


def test_values_that_do_not_fit_the_shape_of_their_tensor_have_a_reason(tmp_path):
    facts = {"value": 1, "dtype": "float32", "shape": [2, 5]}
    call = {**CALL, "args": [["0", {"value": 1}]]}
    for array in (np.zeros((2, 4)), np.zeros(10), np.zeros((2, 5, 1))):
        written(tmp_path, [(facts, None), ({"value": 1}, array), (call, None)])
        dump = open_dump(tmp_path)
        (name,) = dump.names
        with pytest.raises(ReadError, match="where its bytes lie is damaged"):
            dump.array(name)


def test_of_a_smaller_run_the_ranks_of_an_earlier_one_are_left_out(tmp_path):
    for rank in range(3):
        RecordWriter(tmp_path / f"rank{rank}", {"rank": rank, "ranks": 3}).close()
    assert len(read_ranks(tmp_path)[0]) == 3
    RecordWriter(tmp_path / "rank0", {"rank": 0, "ranks": 1}).close()
    ranks, notes = read_ranks(tmp_path)
    assert [recorded.rank for recorded in ranks] == [0]
    assert [note.id for note in notes] == ["records.stale_ranks"]
    assert notes[0].startswith(
        "rank1, rank2 left out: of an earlier recording, as the one in rank0"
    )
    assert opened_notes(tmp_path) == ["records.stale_ranks"]
    assert read_ranks(tmp_path / "rank2")[1] == []


@pytest.mark.parametrize("count", [None, "2", 0, -1, True, 1.0, 1 << 70])
def test_where_the_number_of_ranks_says_nothing_all_are_read(tmp_path, count):
    for rank in range(2):
        RecordWriter(tmp_path / f"rank{rank}", {"rank": rank, "ranks": count}).close()
    ranks, notes = read_ranks(tmp_path)
    assert ([recorded.rank for recorded in ranks], notes) == ([0, 1], [])


def test_runs_put_together_by_folders_are_all_read(tmp_path):
    for rank in range(2):
        RecordWriter(tmp_path / f"rank{rank}", {"rank": 0, "ranks": 1}).close()
    ranks, notes = read_ranks(tmp_path)
    assert [recorded.rank for recorded in ranks] == [0, 1]
    assert [note.id for note in notes] == ["records.ranks_by_folder"]


def whole(source):
    return source.read(0, math.prod(source.shape)).reshape(source.shape)


def with_lines(folder, *lines, keep=1):
    """Put other lines behind the first ones."""
    first = lines_of(folder)[:keep]
    added = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    (folder / "index.jsonl").write_bytes(b"".join([*first, *(line + b"\n" for line in added)]))
    return read_events(folder)


def said(recorded):
    return [note.id for note in recorded.notes]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (5,), (2, 3, 4), (64, 129)])
@pytest.mark.parametrize("token", TOKENS)
def test_every_dtype_and_shape_comes_back_as_it_was(tmp_path, token, shape):
    dtype = (
        np.dtype(token) if not hasattr(ml_dtypes, token) else np.dtype(getattr(ml_dtypes, token))
    )
    array = np.arange(math.prod(shape)).astype(np.float32).reshape(shape).astype(dtype)
    recorded = read_events(written(tmp_path, [({"value": 9}, array)]))
    source = recorded.source_of(9)
    assert isinstance(source, ArraySource)
    assert (source.shape, source.dtype, source.size_bytes) == (shape, dtype, array.nbytes)
    found = whole(source)
    assert found.dtype == dtype
    assert found.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24.0).reshape(4, 6).T,
        np.arange(24.0)[::-3],
        np.arange(6, dtype=">f4").reshape(2, 3),
        np.broadcast_to(np.float32(3), (4, 5)),
        np.asfortranarray(np.arange(24).reshape(2, 3, 4)),
        np.arange(24).astype(ml_dtypes.bfloat16).reshape(4, 6).T,
    ],
)
def test_values_are_stored_in_c_order_however_they_lay(tmp_path, array):
    source = read_events(written(tmp_path, [({"value": 0}, array)])).source_of(0)
    assert source.dtype.isnative
    np.testing.assert_array_equal(whole(source), array)


def test_nan_and_infinities_of_statistics_come_back_and_the_json_is_strict(tmp_path):
    statistics = {"min": -math.inf, "max": math.inf, "mean": math.nan, "l2": 1e-320, "nan_count": 3}
    event = {"value": 1, "statistics": statistics, "fingerprint": [math.nan, 0.1, -0.0, 1e300]}
    folder = written(tmp_path, [(event, None)])

    def refuse(constant):
        raise AssertionError(constant)

    json.loads(lines_of(folder)[1], parse_constant=refuse)
    found = read_events(folder).events[0]
    assert repr(found) == repr(event)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"float": "nan"}, math.nan),
        ({"float": "other"}, {"float": "other"}),
        (math.inf, math.inf),
        ('a "text" {"float":"nan"} \\ud800', 'a "text" {"float":"nan"} \\ud800'),
        ("\ud800", "\\ud800"),
        ("名称 😀\n", "名称 😀\n"),
        (np.float32(0.5), 0.5),
        (np.float64("nan"), math.nan),
        (np.int64(3), 3),
        (np.array([1.5, math.nan], np.float32), [1.5, math.nan]),
        ((1, (2,)), [1, [2]]),
        ({1: 2}, {"1": 2}),
        ({3}, [3]),
        (1 << 70, 1 << 70),
        (1 << 40_000, hex(1 << 40_000)[:200]),
        (slice(1, 2), "slice(1, 2, None)"),
        (None, None),
    ],
    ids=lambda value: f"{value!r:.30}" if not isinstance(value, int) else "number",
)
def test_plain_arguments_come_back_as_json_can_hold_them(tmp_path, given, found):
    event = {**CALL, "args": [["0", {"plain": given}]]}
    recorded = read_events(written(tmp_path, [(event, None)]))
    assert repr(recorded.events[0]["args"][0][1]["plain"]) == repr(found)
    assert recorded.notes == []


def test_an_object_that_cannot_be_shown_is_its_class(tmp_path):
    class Shy:
        def __str__(self):
            raise RuntimeError

    recorded = read_events(written(tmp_path, [({"settings": "fc", "values": {"a": Shy()}}, None)]))
    assert recorded.events[0]["values"] == {"a": "Shy"}


def test_what_nests_without_end_is_cut(tmp_path):
    endless: list = []
    endless.append(endless)
    recorded = read_events(
        written(tmp_path, [({**CALL, "args": [["0", {"plain": endless}]]}, None)])
    )
    assert "..." in str(recorded.events[0])


def test_a_reason_keeps_its_languages(tmp_path):
    reason = Message("records.no_numbers", dtype="object")
    records = [({"value": 1, "reason": reason}, None), ({"value": 2, "reason": "theirs"}, None)]
    first, second, _ = read_events(written(tmp_path, records)).events
    assert first["reason"].told("zh") == reason.told("zh")
    assert isinstance(second["reason"], Foreign)


def test_values_have_a_source_only_where_they_were_kept(tmp_path):
    recorded = read_events(small(tmp_path))
    assert recorded.source_of(1) is not None
    assert recorded.source_of(2) is None
    assert recorded.source_of(77) is None


def test_a_source_is_read_in_ranges_and_travels(tmp_path):
    recorded = read_events(written(tmp_path, [({"value": 0}, BIG), ({"value": 1}, BIG)]))
    source = recorded.source_of(1)
    np.testing.assert_array_equal(source.read(5, 9), BIG.reshape(-1)[5:9])
    into = np.empty(7, np.float32)
    assert source.read(3, 10, into) is into
    np.testing.assert_array_equal(read_rows(source, [8000, 0], 3), BIG[[2, 0], :3])
    assert files_of([source, recorded.source_of(0)]) == (str(tmp_path / "data-0.bin"),)
    again = pickle.loads(pickle.dumps(source))
    assert again == source
    np.testing.assert_array_equal(whole(again), BIG)


def test_no_value_keeps_a_file_open(tmp_path):
    recorded = read_events(written(tmp_path, [({"value": n}, np.full(3, n)) for n in range(2000)]))
    sources = [recorded.source_of(n) for n in range(2000)]
    assert all((whole(source) == n).all() for n, source in enumerate(sources))
    assert len(os.listdir("/proc/self/fd")) < 500


@pytest.mark.parametrize("place", [0, 4095, 48_000 - 4096, 47_999])
def test_bytes_that_changed_at_an_end_break_the_seal(tmp_path, place):
    folder = written(tmp_path, [({"value": 0}, BIG), ({"value": 1}, BIG)])
    data = bytearray((folder / "data-0.bin").read_bytes())
    data[place] ^= 1
    (folder / "data-0.bin").write_bytes(data)
    recorded = read_events(folder)
    with pytest.raises(ReadError, match=r"value 0: its bytes in data-0\.bin are not those"):
        recorded.source_of(0).read(5000, 5001)
    with pytest.raises(ReadError, match="damaged or overwritten"):
        whole(recorded.source_of(0))
    np.testing.assert_array_equal(whole(recorded.source_of(1)), BIG)


@pytest.mark.parametrize("size", [1, 64, 4096, 4097, 8191, 8192])
def test_of_values_up_to_8_kib_every_byte_is_sealed(tmp_path, size):
    folder = written(tmp_path, [({"value": 0}, np.zeros(size, np.uint8))])
    for place in {0, size // 2, size - 1}:
        data = bytearray((folder / "data-0.bin").read_bytes())
        data[place] ^= 128
        (folder / "data-0.bin").write_bytes(data)
        with pytest.raises(ReadError, match="not those that were recorded"):
            whole(read_events(folder).source_of(0))
        data[place] ^= 128
        (folder / "data-0.bin").write_bytes(data)


def test_a_complete_recording_that_was_replaced_is_not_read(tmp_path):
    source = read_events(written(tmp_path, [({"value": 0}, BIG)])).source_of(0)
    written(tmp_path, [({"value": 0}, BIG[:, :2000])])
    with pytest.raises(ReadError, match=r"data-0\.bin changed since it was opened"):
        whole(source)


def test_a_broken_off_recording_that_was_replaced_is_not_read(tmp_path):
    folder = written(tmp_path, [({"value": 0}, BIG)], complete=False)
    source = read_events(folder).source_of(0)
    np.testing.assert_array_equal(whole(source), BIG)
    written(tmp_path, [({"value": 0}, BIG + 1)])
    with pytest.raises(ReadError, match="not those that were recorded"), reading(source) as opened:
        opened.read(0, 1)
    shutil.rmtree(tmp_path)
    with pytest.raises(ReadError, match=r"data-0\.bin: No such file"):
        whole(source)


def test_values_beyond_the_end_of_a_shard_have_a_reason_on_opening(tmp_path):
    folder = written(tmp_path, [({"value": n}, np.zeros(100, np.uint8)) for n in range(5)])
    os.truncate(folder / "data-0.bin", 300)
    recorded = read_events(folder)
    reasons = [event.get("reason") for event in recorded.events[:5]]
    assert reasons[:2] == [None, None]
    assert "data-0.bin: truncated: its values lie at bytes 256 to 356" in reasons[2]
    assert recorded.source_of(1) is not None
    assert recorded.source_of(2) is None
    assert [*recorded.events[2]] == ["value", "dtype", "shape", "reason"]
    assert said(recorded) == ["records.shards_short"]
    assert "3 (data-0.bin)" in recorded.notes[0]


def test_a_missing_shard_is_said_once_and_with_each_value(tmp_path):
    folder = written(tmp_path, [({"value": n}, np.zeros(100)) for n in range(5)])
    (folder / "data-0.bin").unlink()
    (folder / "data-0.bin").mkdir()
    recorded = read_events(folder)
    assert said(recorded) == ["records.shards_missing"]
    assert all("data-0.bin is missing" in event["reason"] for event in recorded.events[:5])


def test_an_index_cut_at_any_byte_opens_or_is_refused(tmp_path):
    folder = small(tmp_path / "rank0")
    content = (folder / "index.jsonl").read_bytes()
    header = content.index(b"\n") + 1
    all_events = read_events(folder).events
    for size in range(len(content)):
        (folder / "index.jsonl").write_bytes(content[:size])
        if size < header:
            with pytest.raises(
                FormatError, match=r"index\.jsonl: .*(empty file|record again, or copy)"
            ):
                read_events(folder)
            continue
        assert opened_notes(folder)[0] == "records.not_closed"
        recorded = read_events(folder)
        count = content[:size].count(b"\n") - 1
        assert repr(recorded.events) == repr(all_events[:count])
        cut = [] if content[size - 1 : size] == b"\n" else ["records.cut_line"]
        assert said(recorded) == ["records.not_closed", *cut]


def test_damaged_lines_are_left_out_and_named(tmp_path):
    folder = small(tmp_path)
    first, second = lines_of(folder)[1:3]
    damaged = [
        *(b"", b"  ", b"{", b"[]", b"3", b"null", b'"x"', b"\xff\xfe", b"\0" * 20, first[:-5]),
        *(first.strip() + b"," + second.strip(), b'{"step":1}{"step":2}', b"}{", b"],["),
        *(b"[" * 100_000, b'{"a":' * 100_000, b'{"step":' + b"9" * 5000 + b"}"),
        *(b"__import__('os').system('touch x')", b'{"step": 1} // x', b"{'step': 1}"),
    ]
    for line in damaged:
        recorded = with_lines(folder, {"step": 1}, line, {"step": 2}, {"end": {"complete": True}})
        assert [event.get("step") for event in recorded.events] == [1, 2, None], line[:40]
        assert said(recorded) == ["records.damaged_lines"]
        assert recorded.notes[0].values["numbers"] == [3]


WRONG = [
    *({"call": "1"}, {"call": True}, {"call": 1.0}, {"call": None}, {"call": 1 << 63}),
    *({"value": []}, {"value": {}}, {"value": -(1 << 70)}, {"step": "1"}, {"path": 3}),
    *({"args": {}}, {"args": ["0"]}, {"args": [["0"]]}, {"args": [["0", 1]]}, {"args": [[0, {}]]}),
    *({"args": [["0", {"value": "x"}]]}, {"out": None}, {"keywords": [1]}, {"name": 1}),
    *({"view_of": "1"}, {"stride": []}, {"random": None}, {"sample_of": 1.0}, {"leaf": []}),
    *({"shape": [1.5]}, {"shape": [-1]}, {"shape": [True]}, {"shape": "2"}, {"shape": [1 << 70]}),
    *({"statistics": []}, {"statistics": {"min": "x"}}, {"statistics": {"min": 10**400}}),
    *({"fingerprint": [None]}, {"fingerprint": 1}, {"crc32": "x"}, {"reason": 1}, {"dtype": 1}),
    *({"missing": []}, {"missing": {"count": "x"}}, {"end": True}, {"settings": {}}, {"text": 1}),
]


@pytest.mark.parametrize("line", WRONG, ids=lambda line: json.dumps(line)[:40])
def test_a_field_of_a_wrong_kind_is_a_damaged_line(tmp_path, line):
    recorded = with_lines(small(tmp_path), line, {"step": 5})
    assert recorded.events == [{"step": 5}]
    assert said(recorded) == ["records.not_closed", "records.damaged_lines"]


def test_what_is_not_known_is_kept_as_it_is(tmp_path):
    line = {"kind_of_later": 1, "more": {"a": [1, None]}}
    assert with_lines(small(tmp_path), line).events == [line]


GOOD = {"value": 1, "dtype": "float32", "shape": [2, 4], "at": [0, 0], "seal": 1}
HOSTILE = [
    *({"at": at} for at in [None, 3, [], [0], [0, 0, 0], "00", [0, None], ["0", 0], [0, 1.0]]),
    *({"at": at} for at in [[0, -64], [-1, 0], [True, 0], [0, 1 << 70], [1 << 70, 0], [0, 1e9]]),
    *({"seal": seal} for seal in [None, "1", [], 1.0]),
    *({"dtype": dtype} for dtype in ["object", "O", "str", "V8", "f4,f4", "(3,)f4", "datetime64"]),
    *(
        {"dtype": dtype}
        for dtype in ["x" * 100_000, "a5", "float128x", "quint8", "", "float32,", ">f4"]
    ),
    *({"shape": shape} for shape in [[1 << 40, 1 << 40], [1 << 61], [1] * 100, [0, 1 << 61]]),
    *({"shape": shape} for shape in [[1 << 20], [17], [1 << 62]]),
]


@pytest.mark.parametrize("part", HOSTILE, ids=lambda part: json.dumps(part)[:40])
def test_a_place_that_cannot_be_is_a_reason(tmp_path, part):
    folder = small(tmp_path)
    with bounded(1000, part):
        recorded = with_lines(folder, {**GOOD, **part})
    if recorded.events:
        assert isinstance(recorded.events[0]["reason"], Message)
        assert "at" not in recorded.events[0]
    assert recorded.source_of(1) is None


def test_a_value_without_dtype_shape_number_or_seal_is_a_damaged_line(tmp_path):
    for name in ("dtype", "shape", "value", "seal", "at"):
        line = {key: value for key, value in GOOD.items() if key != name}
        recorded = with_lines(small(tmp_path / name), line)
        assert recorded.events == []
        assert "records.damaged_lines" in said(recorded)
        assert recorded.source_of(1) is None


def test_a_line_too_long_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr("troubleshooter_nb.formats.record_folder._LONGEST_LINE", 200)
    lines = [{"step": 1}, b"x" * 1000, {"step": 2}, b"y" * 199, b"z" * 200, {"step": 3}]
    folder = written(tmp_path, [])
    header = lines_of(folder)[0]
    assert len(header) < 200
    recorded = with_lines(folder, *lines)
    assert recorded.events == [{"step": 1}, {"step": 2}, {"step": 3}]
    assert recorded.notes[1].values["numbers"] == [3, 5, 6]


@pytest.mark.parametrize("make", [small, every_kind])
def test_flipped_bits_and_other_accidents_do_no_more_than_damage(tmp_path, make):
    folder = make(tmp_path)
    files = [folder / "index.jsonl", folder / "data-0.bin"]
    contents = [path.read_bytes() for path in files]
    rng = random.Random(7)
    for number in range(1500 if LONG else 150):
        path, content = rng.choice([*zip(files, contents, strict=True)])
        data = bytearray(content)
        rng.choice(ACCIDENTS)(data, rng)
        path.write_bytes(data)
        with bounded(len(data), number):
            found = readable(folder)
            opened_notes(folder)
        if path == files[1] and make is small:
            assert found in ([], [np.ones((2, 4), np.float32).tobytes()])
        path.write_bytes(content)


def readable(folder):
    """The bytes of the values that can be read; what else may come is raised."""
    try:
        recorded = read_events(folder)
    except FormatError:
        return []
    assert all(isinstance(note, Message) for note in recorded.notes)
    found = []
    for event in recorded.events:
        source = recorded.source_of(event.get("value", -1)) if "at" in event else None
        if source is not None:
            with contextlib.suppress(ReadError):
                found.append(whole(source).tobytes())
    return found


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "empty file"),
        (b'{"step":1}\n', "does not begin with the header of a recording"),
        (b'{"header":{"format":"tnb-record/1"', "its header is damaged"),
        (b'{"header":{"format":"tnb-record/1"}}', "its header is damaged"),
        (b'{"header":{"format":"tnb-record/1"}\n', "its header is damaged"),
        (b'{"header":{"format":"tnb-record/' + b"[" * 10**5 + b"\n", "its header is damaged"),
        (b'{"header":{"format":"tnb-record/2"}}\n', "of format tnb-record/2, this version reads"),
    ],
)
def test_an_index_without_header_is_refused(tmp_path, content, what):
    (tmp_path / "index.jsonl").write_bytes(content)
    with pytest.raises(FormatError, match=rf"^index\.jsonl: .*{what}"):
        read_events(tmp_path)


def test_a_folder_without_index_or_with_a_pipe_is_refused(tmp_path):
    with pytest.raises(FormatError, match=r"index\.jsonl: No such file.*record again"):
        read_events(tmp_path)
    os.mkfifo(tmp_path / "index.jsonl")
    with pytest.raises(FormatError, match="not a file with contents"):
        read_events(tmp_path)
    assert not is_record(tmp_path)


def test_a_recording_is_found_by_its_root_a_rank_or_an_index(tmp_path):
    root = tmp_path / "run"
    for rank in (0, 2, 10):
        small(root / f"rank{rank}")
    (root / "rank3").mkdir()
    (root / "other").mkdir()
    assert [folder.name for folder in ranks_of(root)] == ["rank0", "rank2", "rank10"]
    assert ranks_of(root / "rank2") == [root / "rank2"]
    assert ranks_of(root / "rank2" / "index.jsonl") == [root / "rank2"]
    assert refusal(root) is None
    for path in (tmp_path, root / "rank3", root / "rank0" / "data-0.bin", root / "nowhere"):
        assert not is_record(path)
        assert isinstance(refusal(path), Message)
    assert [path.name for path in root.iterdir() if is_record(path)] != []


def test_a_rank_is_what_the_header_says_or_else_the_folder(tmp_path):
    RecordWriter(tmp_path / "rank4", {"rank": 7}).close()
    RecordWriter(tmp_path / "rank5", {"rank": "x"}).close()
    RecordWriter(tmp_path / "alone", {}).close()
    ranks = [read_events(tmp_path / name).rank for name in ("rank4", "rank5", "alone")]
    assert ranks == [7, 5, 0]


def test_a_rank_that_cannot_be_read_is_a_note(tmp_path):
    for rank in range(3):
        small(tmp_path / f"rank{rank}")
    index = tmp_path / "rank1" / "index.jsonl"
    index.write_bytes(index.read_bytes().replace(b"tnb-record/1", b"tnb-record/9"))
    ranks, notes = read_ranks(tmp_path)
    assert [recorded.folder.name for recorded in ranks] == ["rank0", "rank2"]
    # `small` says rank 0 in each of them.
    assert [note.id for note in notes] == ["records.rank_left_out", "records.ranks_by_folder"]
    assert [recorded.rank for recorded in ranks] == [0, 1]
    dump = open_record_dir(tmp_path, label="a")
    assert (dump.label, dump.notes[: len(notes)]) == ("a", tuple(notes))
    with pytest.raises(
        FormatError, match=r"rank1 was left out: index\.jsonl: a recording of format"
    ):
        read_ranks(tmp_path / "rank1")
