"""Processes that save into one folder lose nothing; a new run counts from 0."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.capture.numbering import DEFAULT
from troubleshooter_nb.formats import claims

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no locks of files")

EACH = 500
# Waits for a line before it saves: all begin before one of them does.
SAVE = """
import sys
import numpy as np
from troubleshooter_nb import save
print("ready", flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        save(sys.argv[1] + "/x", np.full(2, float(sys.argv[2])))
    print("done", flush=True)
"""
FORK = """
import os, sys
import numpy as np
from troubleshooter_nb import save
save(sys.argv[1] + "/x", np.full(2, 0.0))
child = os.fork()
for _ in range(50):
    save(sys.argv[1] + "/x", np.full(2, float(not child)))
if child:
    os.waitpid(child, 0)
"""


def saver(folder: Path, value: int) -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-c", SAVE, os.fspath(folder), str(value)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    return process


def told(process: subprocess.Popen, count: int) -> None:
    process.stdin.write(f"{count}\n")
    process.stdin.flush()


def finished(process: subprocess.Popen) -> None:
    process.stdin.close()
    assert process.wait() == 0


def values(folder: Path) -> list[float]:
    dump = tnb.open_dump(folder)
    return [dump.array(name)[0] for name in dump.names]


def noted(folder: Path) -> list[int]:
    """The counts of processes that the notes of a dump name."""
    notes = tnb.open_dump(folder).notes
    return [note.values["count"] for note in notes if note.id == "dumps.several_processes"]


@pytest.mark.few(1)
@pytest.mark.parametrize("count", [2, 4])
def test_all_arrays_of_processes_that_save_at_once_are_there(tmp_path, count):
    processes = [saver(tmp_path / "out", value) for value in range(count)]
    for process in processes:
        told(process, EACH)
    for process in processes:
        finished(process)
    found = values(tmp_path / "out")
    assert [found.count(value) for value in range(count)] == [EACH] * count
    numbers = tnb.open_dump(tmp_path / "out").index["order"].values
    assert numbers.tolist() == list(range(count * EACH))
    assert noted(tmp_path / "out") == [count]


def test_a_process_that_began_before_another_ended_goes_on_with_its_count(tmp_path):
    first, second = saver(tmp_path / "out", 1), saver(tmp_path / "out", 2)
    told(first, 3)
    finished(first)
    told(second, 3)
    finished(second)
    assert values(tmp_path / "out") == [1, 1, 1, 2, 2, 2]
    assert noted(tmp_path / "out") == [2]


def test_a_process_that_began_later_is_a_new_run(tmp_path):
    for value, count in ((1, 3), (2, 2)):
        process = saver(tmp_path / "out", value)
        told(process, count)
        finished(process)
    assert values(tmp_path / "out") == [2, 2, 1]
    assert noted(tmp_path / "out") == []


def test_a_new_run_says_no_more_that_several_processes_saved(tmp_path):
    first, second = saver(tmp_path / "out", 1), saver(tmp_path / "out", 2)
    for process in (first, second):
        told(process, 1)
        finished(process)
    assert noted(tmp_path / "out") == [2]
    third = saver(tmp_path / "out", 3)
    told(third, 1)
    finished(third)
    assert noted(tmp_path / "out") == []


def test_a_fork_repeats_no_number(tmp_path):
    subprocess.run([sys.executable, "-c", FORK, os.fspath(tmp_path / "out")], check=True)
    found = values(tmp_path / "out")
    assert (len(found), sum(found)) == (101, 50)
    assert noted(tmp_path / "out") == [2]


def test_a_folder_that_one_process_saved_into_holds_its_arrays_only(tmp_path):
    tnb.save(tmp_path / "out" / "x", np.ones(1))
    assert os.listdir(tmp_path / "out") == ["x_float64_0.npy"]


def test_threads_and_a_process_share_a_count(tmp_path):
    other = saver(tmp_path / "out", 9)
    told(other, 50)

    def work():
        for _ in range(25):
            tnb.save(tmp_path / "out" / "x", np.zeros(2))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    finished(other)
    found = values(tmp_path / "out")
    assert (found.count(9), found.count(0)) == (50, 75)


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b'{"run": 1, "next": "x", "processes": {}}'])
def test_a_damaged_count_is_a_new_one(tmp_path, text):
    tnb.save(tmp_path / "x", np.ones(1))
    (file,) = {*counts()} - {*counts_of_others(tmp_path)}
    file.write_bytes(text)
    DEFAULT.reset()
    with pytest.warns(tnb.TroubleshooterWarning, match="arrays of an earlier run"):
        tnb.save(tmp_path / "x", np.zeros(1))
    assert values(tmp_path) == [0]


def counts() -> list[Path]:
    return [*claims._counts().iterdir()]


def counts_of_others(folder: Path) -> list[Path]:
    return [file for file in counts() if file.name != claims._count_of(folder)]


def test_a_folder_of_counts_that_others_may_write_into_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(claims.tempfile, "gettempdir", lambda: os.fspath(tmp_path))
    place = claims._counts()
    place.chmod(0o777)
    assert claims._counts() is None
    tnb.save(tmp_path / "out" / "x", np.ones(1))
    tnb.save(tmp_path / "out" / "x", np.ones(1))
    assert sorted(os.listdir(tmp_path / "out")) == ["x_float64_0.npy", "x_float64_1.npy"]
    place.rmdir()
    place.symlink_to(tmp_path / "out")
    assert claims._counts() is None
