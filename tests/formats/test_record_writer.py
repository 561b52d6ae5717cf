"""The writer of recordings: what is put is in the folder, whatever ends the process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from troubleshooter_nb.errors import ArgumentError, WriteError
from troubleshooter_nb.formats import record_files, record_writer
from troubleshooter_nb.formats.record_folder import read_events
from troubleshooter_nb.formats.record_writer import RecordWriter

HEADER = {"framework": "torch", "module_word": "Module", "rank": 0, "card": {}, "options": {}}
PACKAGE = Path(record_writer.__file__).parents[2]
COUNT = 50 if os.environ.get("TNB_LONG") == "1" else 8
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PACKAGE)}


def finished(code, *arguments):
    """What a process says that runs some lines, with a writer `w` into its first argument."""
    begin = (
        "import sys, os, itertools, numpy as np\n"
        "from pathlib import Path\n"
        "from troubleshooter_nb.formats.record_writer import RecordWriter\n"
        "w = RecordWriter(Path(sys.argv[1]), {'rank': 0})\n"
    )
    line = [sys.executable, "-c", begin + code, *map(str, arguments)]
    done = subprocess.run(line, capture_output=True, env=ENVIRONMENT, timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def value(number):
    return {"value": number, "strides": [1], "device": "cpu", "role": ""}


def values_of(recorded):
    numbers = [event["value"] for event in recorded.events if "at" in event]
    return {number: whole(recorded.source_of(number)) for number in numbers}


def whole(source):
    return source.read(0, int(np.prod(source.shape, dtype=int))).reshape(source.shape)


def test_what_is_put_is_read_in_its_order(tmp_path):
    writer = RecordWriter(tmp_path / "run" / "rank0", HEADER)
    call = {"call": 1, "kind": "module", "path": "fc", "layer": "Linear", "step": 0, "run": 0}
    writer.put({**call, "parent": None, "args": [["0", {"value": 7}]]})
    writer.put(value(7), np.arange(3, dtype=np.float32))
    writer.put({"ended": 1, "status": "ok", "out": []})
    writer.close()
    recorded = read_events(tmp_path / "run" / "rank0")
    assert recorded.header == {"format": "tnb-record/1", **HEADER}
    kinds = [next(iter(event)) for event in recorded.events]
    assert kinds == ["call", "value", "ended", "end"]
    assert recorded.events[1]["dtype"] == "float32"
    assert recorded.events[1]["shape"] == [3]
    assert (recorded.complete, recorded.notes) == (True, [])
    np.testing.assert_array_equal(whole(recorded.source_of(7)), [0, 1, 2])


def test_the_header_begins_as_it_is_recognised(tmp_path):
    RecordWriter(tmp_path, {"rank": 2, "format": "other"}).close()
    begin = b'{"header":{"format":"tnb-record/1","rank":2}}\n'
    assert (tmp_path / "index.jsonl").read_bytes().startswith(begin)


def test_values_begin_at_multiples_of_64(tmp_path):
    writer = RecordWriter(tmp_path, HEADER)
    for number in range(5):
        writer.put(value(number), np.zeros(number * 7 + 1, np.int8))
    writer.close()
    events = read_events(tmp_path).events
    assert [event["at"] for event in events[:-1]] == [[0, n * 64] for n in range(5)]
    assert (tmp_path / "data-0.bin").stat().st_size == 5 * 64


def test_a_shard_that_is_full_is_followed_by_another(tmp_path, monkeypatch):
    monkeypatch.setattr(record_files, "_SHARD_BYTES", 1000)
    writer = RecordWriter(tmp_path, HEADER)
    arrays = {number: np.full(number * 40, number, np.float32) for number in range(30)}
    for number, array in arrays.items():
        writer.put(value(number), array)
        writer.put({"step": number})
    writer.close()
    recorded = read_events(tmp_path)
    found = values_of(recorded)
    assert len([*tmp_path.glob("data-*.bin")]) > 5
    assert all((found[number] == array).all() for number, array in arrays.items())
    assert [event["step"] for event in recorded.events if "step" in event] == [*range(30)]


def test_an_earlier_recording_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(record_files, "_SHARD_BYTES", 1)
    for numbers in ([1, 2, 3], [4]):
        writer = RecordWriter(tmp_path, HEADER)
        for number in numbers:
            writer.put(value(number), np.full(2, number))
        writer.close()
    assert sorted(os.listdir(tmp_path)) == ["data-0.bin", "index.jsonl"]
    assert [*values_of(read_events(tmp_path))] == [4]


@pytest.mark.parametrize("index", [b"", b'{"header":{"for', b'{"header":{"format":"tnb-record/1"'])
def test_a_recording_that_was_killed_at_its_header_is_replaced(tmp_path, index):
    (tmp_path / "index.jsonl").write_bytes(index)
    RecordWriter(tmp_path, HEADER).close()
    assert read_events(tmp_path).complete


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("notes.txt", "mine"),
        ("index.jsonl", '{"a": 1}'),
        ("data-0.bin", "mine"),
        ("data-x.bin", ""),
    ],
)
def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(ArgumentError, match=rf"other files \({name}\); record into an empty"):
        RecordWriter(tmp_path, HEADER)
    assert os.listdir(tmp_path) == [name]
    assert (tmp_path / name).read_text() == content


def test_a_file_is_no_folder_to_record_into(tmp_path):
    (tmp_path / "run").write_text("mine")
    with pytest.raises(ArgumentError, match="'run' is a file; record into a folder"):
        RecordWriter(tmp_path / "run", HEADER)


def test_a_folder_that_is_being_written_is_refused(tmp_path):
    writer = RecordWriter(tmp_path, HEADER)
    writer.put(value(0), np.ones(2))
    with pytest.raises(ArgumentError, match="being written by another recording"):
        RecordWriter(tmp_path, HEADER)
    writer.close()
    assert [*values_of(read_events(tmp_path))] == [0]
    RecordWriter(tmp_path, HEADER).close()


def test_a_folder_that_cannot_be_made_says_why(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match="cannot be written: Not a directory; record into another"):
        RecordWriter(tmp_path / "file" / "rank0", HEADER)


def test_arrays_without_numbers_are_refused(tmp_path):
    writer = RecordWriter(tmp_path, HEADER)
    with pytest.raises(ArgumentError, match="hold no numbers"):
        writer.put(value(0), np.array(["text"]))
    writer.close()


def test_flush_returns_when_everything_is_in_the_files(tmp_path):
    writer = RecordWriter(tmp_path, HEADER)
    for number in range(200):
        writer.put(value(number), np.full(3, number))
    writer.flush()
    assert len(values_of(read_events(tmp_path))) == 200
    writer.close()


def test_a_few_events_are_written_without_being_asked_for(tmp_path):
    writer = RecordWriter(tmp_path, HEADER)
    writer.put({"step": 1})
    until = time.monotonic() + 20
    while not read_events(tmp_path).events and time.monotonic() < until:
        time.sleep(0.005)
    assert read_events(tmp_path).events == [{"step": 1}]
    writer.close()


def test_closing_twice_does_no_harm_and_putting_afterwards_is_refused(tmp_path):
    writer = RecordWriter(tmp_path, HEADER)
    writer.close()
    writer.close(complete=False)
    writer.flush()
    assert read_events(tmp_path).complete
    with pytest.raises(ArgumentError, match="is closed"):
        writer.put({"step": 1})


def test_a_recording_closed_early_is_not_complete(tmp_path):
    RecordWriter(tmp_path, HEADER).close(complete=False)
    recorded = read_events(tmp_path)
    assert not recorded.complete
    assert [note.id for note in recorded.notes] == ["records.closed_early"]


def test_an_event_may_change_once_it_was_put(tmp_path):
    writer = RecordWriter(tmp_path, HEADER)
    event = {"step": 1}
    writer.put(event)
    event["step"] = 2
    writer.close()
    assert read_events(tmp_path).events[0] == {"step": 1}


def test_threads_put_at_once_and_nothing_is_lost(tmp_path):
    writer = RecordWriter(tmp_path, HEADER)

    def put(first):
        for number in range(first, first + 500):
            writer.put(value(number), np.full(1 + number % 50, number))

    threads = [threading.Thread(target=put, args=(1000 * n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    found = values_of(read_events(tmp_path))
    assert sorted(found) == sorted(n * 1000 + k for n in range(6) for k in range(500))
    assert all((array == number).all() for number, array in found.items())
    in_order = [number for number in found if number < 1000]
    assert in_order == sorted(in_order)


def test_no_more_waits_than_may(tmp_path, monkeypatch):
    monkeypatch.setattr(record_writer, "_MOST_WAITING", 10_000)
    most = 0
    written = record_files.RecordFiles.write

    def slow(self, records):
        nonlocal most
        most = max(most, writer._waiting)
        time.sleep(0.002)
        written(self, records)

    monkeypatch.setattr(record_files.RecordFiles, "write", slow)
    writer = RecordWriter(tmp_path, HEADER)
    for number in range(100):
        writer.put(value(number), np.zeros(1000, np.int8))
    writer.put(value(100), np.zeros(50_000, np.int8))  # more than all that may wait
    writer.close()
    assert 1000 < most <= 51_000
    assert len(values_of(read_events(tmp_path))) == 101


FULL = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
try:
    for n in itertools.count():
        w.put({'value': n}, np.full(1000, n, np.float32))
except OSError as error:
    print(type(error).__name__, w.error is not None, error)
try:
    w.flush()
except OSError:
    print('flush')
w.close()
"""


def test_a_full_disk_is_heard_of_by_put_and_what_was_written_is_readable(tmp_path):
    code, out, err = finished(FULL, tmp_path / "rank0")
    assert code == 0, err
    assert out.startswith("WriteError True")
    assert "what was recorded before is readable" in out
    assert "flush" in out
    recorded = read_events(tmp_path / "rank0")
    found = values_of(recorded)
    assert [*found] == [*range(300_000 // 4032)]  # 4000 bytes, in lines of 64
    assert all((array == number).all() for number, array in found.items())
    assert [note.id for note in recorded.notes] == ["records.closed_early"]


@pytest.mark.parametrize("room", [0, 1, 63, 64, 65, 127, 500, 2000, 5000, 5120, 5121, 7000])
def test_whatever_fits_on_a_full_disk_is_whole(tmp_path, monkeypatch, room):
    writer = RecordWriter(tmp_path, HEADER)
    files = [tmp_path / "index.jsonl", tmp_path / "data-0.bin"]
    room += files[0].stat().st_size

    def write_some(file, pieces):
        left = room - sum(path.stat().st_size for path in files if path.exists())
        content = b"".join(bytes(piece) for piece in pieces)[: min(left, 700)]
        if not content:
            raise OSError(28, "No space left on device")
        return os.write(file, content)

    monkeypatch.setattr(record_files, "_write_some", write_some)
    said = []
    for number in range(40):
        try:
            writer.put(value(number), np.full(20, number, np.float32))
        except WriteError as error:
            said.append(error)
            break
    try:
        writer.close()
    except WriteError as error:
        said.append(error)
    assert [error.errno for error in said] == [28]
    recorded = read_events(tmp_path)
    found = values_of(recorded)
    assert [*found] == [*range(len(found))]
    assert all((array == number).all() for number, array in found.items())
    assert len(found) >= room // 500 - 1  # a value and its line take 230 bytes
    assert [event for event in recorded.events if "reason" in event] == []
    assert {note.id for note in recorded.notes} <= {"records.not_closed", "records.closed_early"}


def test_closing_says_what_no_put_has_said(tmp_path, monkeypatch):
    writer = RecordWriter(tmp_path, HEADER)

    def fail(self, records):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(record_files.RecordFiles, "write", fail)
    writer.put({"step": 1})
    with pytest.raises(WriteError, match="record into a folder on another disk, or keep less"):
        writer.close()
    assert read_events(tmp_path).events == []


def test_who_waits_for_room_hears_of_a_full_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(record_writer, "_MOST_WAITING", 1000)
    monkeypatch.setattr(record_writer, "_BATCH_BYTES", 500)

    def fail(self, records):
        time.sleep(0.05)
        raise OSError(28, "No space left on device")

    writer = RecordWriter(tmp_path, HEADER)
    monkeypatch.setattr(record_files.RecordFiles, "write", fail)
    writer.put(value(0), np.zeros(900, np.int8))
    with pytest.raises(WriteError, match="No space left"):
        writer.put(value(1), np.zeros(900, np.int8))
    writer.close()


def test_a_program_that_ends_without_closing_leaves_what_was_put(tmp_path):
    put = "for n in range(300): w.put({'value': n}, np.full(2000, n))\n"
    finished(put + "raise KeyError('x')", tmp_path)
    recorded = read_events(tmp_path)
    assert len(values_of(recorded)) == 300
    assert [note.id for note in recorded.notes] == ["records.closed_early"]


def test_a_forked_child_neither_writes_nor_hangs_nor_holds_the_folder(tmp_path):
    code = """
w.put({'step': 1})
child = os.fork()
if not child:
    for n in range(1000): w.put({'step': n + 100}, None)
    w.flush(); w.close()
    os.read(waits, 1)
    sys.exit(0)
w.put({'step': 2})
w.close()
print([line.partition(',"crc32')[0].strip() for line in open(w._folder / 'index.jsonl')][1:])
RecordWriter(w._folder, {}).close()
os.write(goes_on, b'x')
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    status, out, err = finished("waits, goes_on = os.pipe()" + code, tmp_path)
    assert status == 0, err
    assert out.strip() == """['{"step":1}', '{"step":2}', '{"end":{"complete":true']"""


KILLS = """
import random, signal, sys, time, os
from pathlib import Path
import numpy as np
from troubleshooter_nb.formats.record_writer import RecordWriter

def endless(folder):
    w, r = RecordWriter(folder, {'rank': 0}), np.random.default_rng(0)
    n = 0
    while True:
        w.put({'value': n}, np.full(int(r.integers(0, 20_000)), n, np.float32))
        w.put({'step': n})
        n += 1

for k in range(int(sys.argv[2])):
    folder = Path(sys.argv[1]) / str(k)
    child = os.fork()
    if not child:
        try:
            endless(folder)
        finally:
            os._exit(1)
    while not (folder / 'data-0.bin').exists():
        time.sleep(0.001)
    time.sleep(random.uniform(0, 0.15))
    os.kill(child, signal.SIGKILL)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_killed_processes_leave_what_they_wrote(tmp_path):
    line = [sys.executable, "-c", KILLS, str(tmp_path), str(COUNT)]
    done = subprocess.run(line, capture_output=True, env=ENVIRONMENT, timeout=120, check=True)
    assert done.stdout.split() == [b"-9"] * COUNT
    kept = []
    for number in range(COUNT):
        recorded = read_events(tmp_path / str(number))
        found = values_of(recorded)
        assert [*found] == [*range(len(found))]
        assert all((array == number).all() for number, array in found.items())
        assert not recorded.complete
        assert not any("reason" in event for event in recorded.events)
        assert {note.id for note in recorded.notes} <= {"records.not_closed", "records.cut_line"}
        kept.append(len(found))
    assert max(kept) > 64


def test_a_recording_is_read_while_it_is_written(tmp_path):
    writer = RecordWriter(tmp_path, HEADER)
    stop = threading.Event()

    def put():
        number = 0
        while not stop.is_set():
            writer.put(value(number), np.full(number % 3000, number, ml_dtypes.bfloat16))
            number += 1
            time.sleep(0.0005)

    thread = threading.Thread(target=put)
    thread.start()
    counts = []
    try:
        writer.flush()
        first = read_events(tmp_path)
        until = time.monotonic() + 60
        while len({*counts}) < 5 and time.monotonic() < until:
            recorded = read_events(tmp_path)
            assert not any("reason" in event for event in recorded.events)
            counts.append(len(recorded.events))
            for event in recorded.events[-5:]:
                array = whole(recorded.source_of(event["value"]))
                assert (array == ml_dtypes.bfloat16(event["value"])).all()
    finally:
        stop.set()
        thread.join()
        writer.close()
    assert counts == sorted(counts)
    assert len({*counts}) == 5
    # Files that grew since are no other files.
    for event in first.events[:5]:
        whole(first.source_of(event["value"]))
