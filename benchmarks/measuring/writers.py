"""Writers that write one of two versions over each other until they are killed, and what is left.

Each is forked from this process, so that a kill costs milliseconds and not the import of a package.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import troubleshooter_nb as tnb
from measuring.bars import Bar, Case
from troubleshooter_nb.formats.aside import left_behind

SUFFIXES = (".html", ".csv", ".json", ".xlsx", ".md", ".txt", ".nc")
_TENSORS, _SIDE = 12, 96
_HALF = {"files.not_whole"}
_AMID = 0.0002  # seconds after something was begun
_SPREAD = 1.5  # of the time of a write: some are killed in the next one


@dataclass(frozen=True)
class Writer:
    """Something that appears at a place.

    Attributes
    ----------
    name : str
    file : str
        What the place is called.
    write : callable
        ``(place, version)``, which is 0 or 1.
    state : callable
        ``(place)``: what is there, the same for what was written alike; any error counts as half.
    """

    name: str
    file: str
    write: Callable[[Path, int], object]
    state: Callable[[Path], object]


def writers(folder: Path) -> list[Writer]:
    """A conversion, a folder of arrays and every kind of export."""
    versions = [_arrays(version) for version in (0, 1)]
    sources = [tnb.save_dump(one, folder / f"{n}.pth") for n, one in enumerate(versions)]
    drafted = tnb.draft_weight_map(sources[0], sources[0])
    compared = [
        tnb.compare(versions[0], {**versions[0], "w3": versions[0]["w3"] + 1 + version})
        for version in (0, 1)
    ]
    found = [
        Writer(
            "a conversion",
            "net.safetensors",
            lambda place, version: tnb.convert_weights(sources[version], place, drafted),
            Path.read_bytes,
        ),
        Writer(
            "a save_dump folder",
            "dump",
            lambda place, version: tnb.save_dump(versions[version], place),
            _arrays_in,
        ),
    ]
    for suffix in SUFFIXES:
        read = _saved_comparison if suffix == ".nc" else Path.read_bytes
        found.append(
            Writer(
                f"an export {suffix}",
                f"cmp{suffix}",
                lambda place, version: tnb.export(compared[version], place),
                read,
            )
        )
    return found


def _arrays(version: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(version)
    return {f"w{n}": draw.standard_normal((_SIDE, _SIDE)) for n in range(_TENSORS)}


def _arrays_in(place: Path) -> object:
    """All values; or that the dump itself says that it is half."""
    dump = tnb.open_dump(place)
    if _HALF & {getattr(note, "id", "") for note in dump.notes}:
        return "said to be half"
    return b"".join(dump.array(name).tobytes() for name in sorted(dump.names))


def _saved_comparison(place: Path) -> object:
    """What a comparison says, where all its checksums are right."""
    if not tnb.verify(place).passed:
        raise ValueError(place)
    return tnb.open_comparison(place).to_dataset()["max_abs_error"].values.tobytes()


@dataclass
class Outcome:
    """What the kills of one writer left, counted."""

    kills: int = 0
    amid: int = 0
    half: int = 0
    said: int = 0
    unnamed: int = 0
    stayed: int = 0

    def case(self, name: str) -> Case:
        """The figures and their bars."""
        bars = (
            Bar("left something of a write", self.amid, least=self.kills // 40),
            Bar("neither old nor new, without a word", self.half, most=0),
            Bar("said not to be whole", self.said),
            Bar("left what nothing names", self.unnamed, most=0),
            Bar("left what the next write does not remove", self.stayed, most=0),
        )
        return Case(f"{self.kills} killed while they write {name}", bars=bars)


def killed(writer: Writer, kills: int, draw: random.Random) -> Outcome:
    """Kill a writer again and again, and look at what is there each time."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as above, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        place = Path(above, "place", writer.file)
        place.parent.mkdir()
        known = []
        for version in (1, 0):
            begun = time.perf_counter()
            writer.write(place, version)
            seconds = time.perf_counter() - begun
            known.append(writer.state(place))
        for number in range(kills):
            # Every other one while something lies beside its place, which is a small part of all.
            if number % 2:
                _kill_one(writer, place, draw.uniform(0, _AMID), amid=True)
            else:
                _kill_one(writer, place, draw.uniform(0, _SPREAD * seconds))
            outcome.kills += 1
            left = _left(place)
            outcome.amid += bool(left)
            outcome.unnamed += bool(left - _named(place))
            state = _state(writer, place)
            outcome.said += state == "said to be half"
            outcome.half += state != "said to be half" and state not in known
            writer.write(place, 0)
            outcome.stayed += bool(_left(place)) or _state(writer, place) != known[1]
    return outcome


def _state(writer: Writer, place: Path) -> object:
    try:
        return writer.state(place)
    except Exception as error:  # whatever it is, this cannot be read
        print(f"{writer.name}: {type(error).__name__}: {error}")
        return None


def _kill_one(writer: Writer, place: Path, after: float, *, amid: bool = False) -> None:
    begun, begins = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(begins, b"1")
            version = 1
            while True:
                writer.write(place, version)
                version = 1 - version
        finally:
            os._exit(1)
    os.read(begun, 1)
    while amid and not _left(place):
        pass
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    for end in (begun, begins):
        os.close(end)
    if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
        msg = f"{writer.name}: the writer ended by itself"
        raise RuntimeError(msg)


def _left(place: Path) -> set[str]:
    """What is written aside beside a place and in it."""
    folders = [place.parent, *([place] if place.is_dir() else [])]
    names = {name for folder in folders for name in os.listdir(folder)}
    return {name for name in names if name.startswith((".writing-", ".placing-"))}


def _named(place: Path) -> set[str]:
    """What the notes of the next run name."""
    found: set[str] = set()
    for note in left_behind(place):
        found |= {*note.values.get("names", ()), note.values.get("folder", "")}
    return found


def interrupted(presses: int, draw: random.Random) -> Case:
    """Press Ctrl-C at random moments of a comparison after its first pair."""
    versions = _arrays(0)
    left = {name: array + (name == "w5") * 1e-3 for name, array in versions.items()}
    with tempfile.TemporaryDirectory() as folder:
        sides = [
            tnb.save_dump({f"{n}.{k}": a for n in range(8) for k, a in one.items()}, place)
            for one, place in ((left, Path(folder, "left")), (versions, Path(folder, "right")))
        ]
        return _interrupted(sides, presses, draw)


def _interrupted(sides: list[Path], presses: int, draw: random.Random) -> Case:
    begun = time.perf_counter()
    whole = tnb.compare(*sides)
    seconds = time.perf_counter() - begun
    returned = wrong = cut = 0
    for _ in range(presses):
        # Many in the measuring, which is the first small part, the others in the diagnosis.
        found = _pressed(sides, seconds * draw.uniform(0, 1) ** 4)
        if found is None:
            continue
        returned += 1
        kept = found.result["reason_id"].values != "interrupted"
        cut += not kept.all()
        figures = (one.result["max_abs_error"].values[kept] for one in (found, whole))
        wrong += not np.array_equal(*figures, equal_nan=True)
    bars = (
        Bar("return a Comparison", returned, least=presses),
        Bar("with figures that differ", wrong, most=0),
        Bar("lack some pairs", cut),
    )
    return Case(f"{presses} interrupts of a comparison after its first pair", bars=bars)


def _pressed(sides: list[Path], after: float) -> tnb.Comparison | None:
    is_set = False

    def progress(done: int, _: int) -> None:
        nonlocal is_set
        if done and not is_set:
            is_set = True
            signal.setitimer(signal.ITIMER_REAL, max(after, 1e-4))

    def press(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGALRM, press)
    found = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = tnb.compare(*sides, progress=progress)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        pass  # behind the comparison, if there is one
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return found
