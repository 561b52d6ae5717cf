"""A process that trains, recorded in one way: takes steps when it is told and says what they cost.

``python -m measuring.stepping plain|tnb|debugger|msprobe LEVEL KEEP WIDTH BATCH FOLDER``, in the
environment of the recorder. A line of its input is json, ``["turn" or "growth", steps]``, and a
line that it prints is the answer.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

from measuring import anonymous_mib
from measuring.transformer import Size, Training

PLAIN, OURS, MSPROBE = "plain", "tnb", "msprobe"
CALLS = "debugger"  # msprobe's calls, as this project has them
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


class Way(NamedTuple):
    """How steps are recorded, of what size they are and where the files go."""

    recorder: str
    level: str
    keep: str
    size: Size
    folder: Path

    @property
    def dumps(self) -> Path:
        """The folder in which the recorder alone writes."""
        return self.folder / "dumps"


class Steps(NamedTuple):
    """One recorded step, and the wait until all is written that was recorded."""

    take: Callable[[], None]
    settle: Callable[[], object]


class Child:
    """Such a process, seen from the one that tells it what to do."""

    def __init__(self, python: str, way: Way) -> None:
        self.log = way.folder / "log"
        way.dumps.mkdir(parents=True)
        command = [python, "-m", "measuring.stepping", *map(str, (*way[:3], *way.size, way.folder))]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command,
                cwd=Path(__file__).parents[1],
                env={**os.environ, **ONE_THREAD},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def ask(self, what: str, count: int) -> dict[str, float]:
        """What `turn` or `growth` over so many steps gives."""
        try:
            self.process.stdin.write(f"{json.dumps([what, count])}\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())
        except (OSError, ValueError) as error:
            self.process.wait()  # its last words come after the end of its answers
            error.add_note(self.log.read_text()[-3000:])
            raise

    def close(self) -> None:
        """Let it end."""
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def turn(way: Way, training: Training, count: int) -> dict[str, float]:
    """CPU seconds of a step with its share of the writing, and what lies in the folder for it.

    The first step is not among those counted: `first` are the CPU seconds that it takes together
    with the opening and closing of the recording.
    """
    began = time.process_time()
    with _RECORDERS[way.recorder](way, training) as steps:
        steps.take()
        steps.settle()
        start = time.process_time()
        for _ in range(count):
            steps.take()
        steps.settle()
        stop = time.process_time()
    answer = {"step": (stop - start) / count, "first": time.process_time() - stop + start - began}
    files = [file for file in way.dumps.rglob("*") if file.is_file()]
    answer["files"] = len(files) / (count + 1)
    answer["mb"] = sum(file.stat().st_size for file in files) / (count + 1) / 1e6
    answer["calls"] = sum(map(_calls, files)) / (count + 1)
    _clear(way)
    return answer


def growth(way: Way, training: Training, count: int) -> dict[str, float]:
    """MiB of anonymous memory that so many steps of one recording add.

    Between the lowest of three samples, ten steps apart, and of three that are `count` steps later:
    what is freed late is not held.
    """
    with _RECORDERS[way.recorder](way, training) as steps:
        samples = [_memory_after(steps, 10) for _ in range(count // 10 + 3)]
    _clear(way)
    return {"grown": min(samples[-3:]) - min(samples[:3])}


def _clear(way: Way) -> None:
    for left in way.dumps.iterdir():
        shutil.rmtree(left)


def _memory_after(steps: Steps, count: int) -> float:
    for _ in range(count):
        steps.take()
    steps.settle()
    return anonymous_mib()


@contextmanager
def _plain(way: Way, training: Training) -> Iterator[Steps]:
    def take() -> None:
        training.learn()
        training.update()

    yield Steps(take, lambda: None)


@contextmanager
def _ours(way: Way, training: Training) -> Iterator[Steps]:
    import troubleshooter_nb as tnb  # not where msprobe is

    to = way.dumps / "recording"
    names = None if way.level == "module" else _is_recorded_by_msprobe
    with tnb.record(training.net, to=to, level=way.level, keep=way.keep, names=names) as recording:

        def take() -> None:
            training.learn()
            training.update()
            recording.step()

        yield Steps(take, recording.flush)


def _is_recorded_by_msprobe(site: Any) -> bool:
    """Whether the peer's list has a call too: no views, and nothing that makes tensors."""
    is_listed = site.path.startswith("Functional.") or site.path == "Tensor.add"
    return site.kind == "module" or is_listed


@contextmanager
def _msprobe(way: Way, training: Training) -> Iterator[Steps]:
    debugger = debugger_of(way)

    def take() -> None:
        debugger.start(model=training.net)
        training.learn()
        debugger.stop()
        debugger.step()
        training.update()

    yield Steps(take, lambda: None)


@cache
def debugger_of(way: Way) -> Any:
    """The one debugger that msprobe allows a process, by its defaults."""
    if way.recorder == CALLS:
        from troubleshooter_nb.compat.msprobe.pytorch import PrecisionDebugger
    else:
        from msprobe.pytorch import PrecisionDebugger

    config = way.folder / "config.json"
    task, more = way.keep, {}
    if task == "md5":
        task, more = "statistics", {"summary_mode": "md5"}
    said = {"task": task, "level": way.level, "rank": [], "step": [], task: more}
    config.write_text(json.dumps({**said, "dump_path": str(way.dumps)}))
    return PrecisionDebugger(config_path=str(config))


_RECORDERS: Mapping[str, Callable[[Way, Training], AbstractContextManager[Steps]]] = {
    PLAIN: _plain,
    OURS: _ours,
    MSPROBE: _msprobe,
    CALLS: _msprobe,
}


def _calls(file: Path) -> int:
    """Forward calls that a file of a recorder names: modules, operators or both."""
    if file.name == "dump.json":  # of msprobe, one for each step
        return sum(".forward" in name for name in json.loads(file.read_text())["data"])
    if file.name == "index.jsonl":  # ours, one for all
        return sum(line.startswith('{"call":') for line in file.read_text().splitlines())
    return 0


def main() -> None:
    """Answer until the input ends."""
    # What recorders print must not come between the answers.
    with os.fdopen(os.dup(1), "w", buffering=1) as answers:
        os.dup2(2, 1)
        torch.set_num_threads(1)
        recorder, level, keep, width, batch, folder = sys.argv[1:]
        way = Way(recorder, level, keep, Size(int(width), int(batch)), Path(folder))
        training = Training(way.size)
        for line in sys.stdin:
            what, count = json.loads(line)
            answers.write(json.dumps({"turn": turn, "growth": growth}[what](way, training, count)))
            answers.write("\n")


if __name__ == "__main__":
    main()
