"""What was found in a case, held against what was planted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from at_size.dumps import Pair
from at_size.registry import Case

Answer = Literal["found", "other", "silent", "quiet", "blamed"]
# Answers that are right: "quiet" is silence where no cause of the catalogue is true. "silent" is
# any other silence, also about what was to be observed.
RIGHT = ("found", "quiet")
# From so many elements on the diagnosis is held to its bars: below, its fixed part decides.
BARS_FROM = 1 << 24
MOST_READINGS, MOST_MIB = 6.0, 200.0
_SEED = 1
_TICK = 1e-5  # seconds: what no reading is below
_FOLDER = Path(__file__).parents[1]


@dataclass(frozen=True)
class Outcome:
    """One case in one size.

    Attributes
    ----------
    cause, confidence, sampled
        Of the first finding; `sampled` is what it says it is from.
    others : tuple of str
        Further causes that are told as likely and are none of the case's.
    place_right : bool
        Whether the first divergence is where the fault is; for right runs, that there is none.
    cpu, seconds : float
        Of the diagnosis: the default call less the one without.
    readings, readings_on_the_clock : float
        The same as multiples of reading the files of both sides once.
    mib : float
        Memory of the diagnosis above that of the comparison.
    elements_read : int
        Of four bytes, above those of the comparison.
    """

    name: str
    elements: int
    answer: Answer
    cause: str
    confidence: float
    sampled: str
    others: tuple[str, ...]
    observed: tuple[str, ...]
    place_right: bool
    cpu: float = 0.0
    seconds: float = 0.0
    readings: float = 0.0
    readings_on_the_clock: float = 0.0
    mib: float = 0.0
    elements_read: int = 0

    @property
    def is_right(self) -> bool:
        """Whether the answer is."""
        return self.answer in RIGHT

    @property
    def meets_bars(self) -> bool:
        """Whether it costs no more than it may."""
        return self.readings <= MOST_READINGS and self.mib <= MOST_MIB


def judged(case: Case, elements: int, place: str, seen: Mapping[str, Any]) -> Outcome:
    """Hold what `at_size.measured.seen` tells against the case planted at a place."""
    findings = seen["findings"]
    first = findings[0] if findings else {"cause": "", "confidence": 0.0, "sampled": ""}
    answer: Answer
    if case.causes:
        is_found = first["cause"] in case.causes
        answer = "found" if is_found else "other" if findings else "silent"
    else:
        is_seen = not case.observed or case.observed in seen["observed"]
        answer = "blamed" if findings else "quiet" if is_seen else "silent"
    strange = [f for f in findings[1:] if f["confidence"] > 0.5 and f["cause"] not in case.causes]
    is_there = seen["place"].startswith(place) if place else not seen["place"]
    return Outcome(
        case.name,
        elements,
        answer,
        first["cause"],
        first["confidence"],
        first["sampled"],
        tuple(f["cause"] for f in strange),
        tuple(name for name in seen["observed"] if name != "pair"),
        is_there,
    )


def planted(case: Case, elements: int, folder: Path) -> tuple[tuple[Path, Path], str]:
    """The files of both sides, and the place of the fault."""
    pair = Pair(folder, elements, _SEED, hints=case.hints)
    place = case.plant(pair)
    return pair.paths, place


def carried_out(case: Case, elements: int) -> Outcome:
    """Plant a case, compare it in a process of its own, and take its files away."""
    rounds = 2 if elements < 1 << 25 else 1
    with tempfile.TemporaryDirectory(prefix="at_size_") as folder:
        paths, place = planted(case, elements, Path(folder))
        command = [sys.executable, "-m", "at_size.measured", *map(str, paths), str(rounds)]
        known = [str(_FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])]
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(known), "PYTHONWARNINGS": "ignore"},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        message = f"{case.name} of {elements} elements: {done.stderr[-2000:]}"
        raise RuntimeError(message)
    said = json.loads(done.stdout.splitlines()[-1])
    cpu, seconds = (max(said[name], 0.0) for name in ("cpu", "seconds"))
    return replace(
        judged(case, elements, place, said),
        cpu=cpu,
        seconds=seconds,
        readings=cpu / max(said["reading_cpu"], _TICK),
        readings_on_the_clock=seconds / max(said["reading_seconds"], _TICK),
        mib=said["mib"],
        elements_read=max(said["bytes"], 0) // 4,
    )
