"""What is left of recordings, conversions, dumps and exports whose process was killed.

A process writes one of two versions over the other, of a conversion, a `save_dump` folder or an
export of each suffix, until it is killed (SIGKILL) at a random moment; again and again. What is
there must be one of the two versions, or say that it is not whole; what is left beside it must be
named, and gone after the next write. Then comparisons are interrupted (SIGINT) after their first
pair: each has to return what was measured.

A process records steps of a small network into a folder and is killed (SIGKILL) at a moment drawn
from the whole of its time; again and again. What is left must open, say that it is not whole, hold
every step that was flushed, and no value that is not in the recording of a process that was left
to finish. Exits 1 when a bar is missed. ``--quick`` kills 5 of each instead of 200, and
``--writers`` leaves the recordings out.
"""

from __future__ import annotations

import multiprocessing
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from measuring import writers
from measuring.bars import Bar, Case, concluded
from torch import nn

import troubleshooter_nb as tnb

KILLS, QUICK_KILLS = 200, 5
PRESSES, QUICK_PRESSES = 60, 5
STEPS, STEPS_A_FLUSH = 100, 10
WIDTH, ROWS = 64, 32
FOREVER = 600  # seconds, for one that is to be killed

# Each child is a copy of a process that has imported all of this.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["torch", "troubleshooter_nb"])


class Left(NamedTuple):
    """What one recording left.

    `steps` counts those that it holds anything of; `lacking` those that were flushed and of which
    something is missing; `wrong` the values that differ from those of the finished recording.
    """

    opens: bool
    says_broken_off: bool = False
    steps: int = 0
    lacking: int = 0
    wrong: int = 0
    error: str = ""


class Reference:
    """What a recording holds that was left to finish."""

    def __init__(self, dump: tnb.Dump) -> None:
        self.notes = _ids(dump)
        self.values = {key: _values(dump, row) for row, key in enumerate(_keys(dump))}
        self.entries = Counter(step for _, step in self.values)

    def left(self, folder: Path, flushed: int) -> Left:
        """Judge what a killed one left that had flushed so many steps."""
        try:
            dump = tnb.open_dump(folder)
            keys = _keys(dump)
            same = [
                key in self.values and np.array_equal(_values(dump, row), self.values[key])
                for row, key in enumerate(keys)
            ]
        except Exception as error:  # whatever it is, this one cannot be read
            return Left(opens=False, error=f"{type(error).__name__}: {error}")
        held = Counter(step for _, step in keys)
        lacking = sum(held[step] < self.entries[step] for step in range(flushed))
        # Bytes, since a NaN equals itself here.
        return Left(True, bool(_ids(dump) - self.notes), len(held), lacking, same.count(False))


def _ids(dump: tnb.Dump) -> set[str]:
    return {getattr(note, "id", note) for note in dump.notes}


def _keys(dump: tnb.Dump) -> list[tuple[str, int]]:
    names, steps = (dump.columns[column] for column in ("name", "step"))
    return [*zip(map(str, names), map(int, steps), strict=True)]


def _values(dump: tnb.Dump, row: int) -> np.ndarray:
    """Bytes of an entry, none where it has no values."""
    source = dump.sources[row]
    if source is None:
        return np.empty(0, np.uint8)
    return source.read(0, int(np.prod(source.shape))).reshape(-1).view(np.uint8)


def record(folder: Path, told: Connection) -> None:
    """Record all steps, and say how many are flushed; in a process of its own."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
    with tnb.record(net, to=folder, level="both") as recording:
        told.send(0)
        for step in range(1, STEPS + 1):
            net.zero_grad()
            net(torch.randn(ROWS, WIDTH)).square().mean().backward()
            recording.step()
            if step % STEPS_A_FLUSH == 0:
                recording.flush()
                told.send(step)
        if told.poll(FOREVER):  # it may close
            told.recv()


def started(folder: Path) -> tuple[multiprocessing.process.BaseProcess, Connection]:
    """A process that has begun its recording."""
    ours, theirs = _PROCESSES.Pipe()
    process = _PROCESSES.Process(target=record, args=(folder, theirs))
    process.start()
    theirs.close()
    ours.recv()
    return process, ours


def finished(folder: Path) -> float:
    """Leave one recording to finish; the seconds that its steps took."""
    process, told = started(folder)
    start = time.perf_counter()
    while told.recv() < STEPS:
        pass
    seconds = time.perf_counter() - start
    told.send("close")
    process.join()
    return seconds


def killed(folder: Path, after: float) -> int:
    """Kill a recording so many seconds after its beginning; the steps that it had flushed."""
    process, told = started(folder)
    time.sleep(after)
    process.kill()
    process.join()
    flushed = 0
    try:
        while told.poll():
            flushed = told.recv()
    except EOFError:
        pass
    return flushed


def judged(left: list[Left], reference: Reference) -> Case:
    """Everything that was left, as figures."""
    kept = [one.steps for one in left if one.opens]
    off = sum(one.says_broken_off for one in left)
    bars = (
        Bar("values of a recording that was not killed", len(reference.values), least=STEPS),
        Bar("can be read", len(kept), least=len(left)),
        Bar("say that they are not whole", off, least=len(left)),
        Bar("flushed steps that lack something", sum(one.lacking for one in left), most=0),
        Bar("values that differ", sum(one.wrong for one in left), most=0),
        Bar("steps kept, fewest", min(kept, default=0)),
        Bar("steps kept, most", max(kept, default=0)),
    )
    return Case(f"{len(left)} killed while they record {STEPS} steps", bars=bars)


def of_writers(kills: int, presses: int) -> list[Case]:
    """All that is written at once; from a process without threads, for it is forked."""
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        for writer in writers.writers(Path(folder)):
            outcome = writers.killed(writer, kills, random.Random(0))
            cases.append(outcome.case(writer.name))
    return [*cases, writers.interrupted(presses, random.Random(0))]


def of_recordings(kills: int) -> Case:
    """The streaming capture."""
    draw = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        seconds = finished(Path(folder, "whole"))
        reference = Reference(tnb.open_dump(Path(folder, "whole")))
        left = []
        for number in range(kills):
            place = Path(folder, str(number))
            left.append(reference.left(place, killed(place, draw.uniform(0, seconds))))
            shutil.rmtree(place, ignore_errors=True)
    for one in left:
        if one.error:
            print(one.error)
    return judged(left, reference)


def main() -> int:
    """Print the figures; 0 when the bars are met."""
    is_quick = "--quick" in sys.argv[1:]
    kills = QUICK_KILLS if is_quick else KILLS
    cases = of_writers(kills, QUICK_PRESSES if is_quick else PRESSES)
    if "--writers" not in sys.argv[1:]:
        cases.append(of_recordings(kills))
    return concluded(cases)


if __name__ == "__main__":
    sys.exit(main())
