"""What was measured, what may be missed, and the one table of both."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

DEFAULT, PLAIN, BY_HAND, OLD, FLOOR = (
    *("default", "diagnose=False", "by hand", "TroubleShooter"),
    "floor",
)
WAYS = (DEFAULT, PLAIN, BY_HAND, OLD)
# `run.py` names a file here, to which every script adds a line of json for each of its cases.
RESULTS = "TNB_BENCHMARK_RESULTS"
_NAME = 58


@dataclass(frozen=True)
class Bar:
    """A figure and its limit; what is only told has none.

    Attributes
    ----------
    what : str
    value : float
        A ratio, unless `unit` says otherwise.
    most, least : float
        What the value may be.
    unit : str
    """

    what: str
    value: float
    most: float = math.inf
    least: float = -math.inf
    unit: str = ""

    @property
    def is_met(self) -> bool:
        """False for a nan as well."""
        return self.least <= self.value <= self.most

    @property
    def text(self) -> str:
        """The figure beside what it may be."""
        unit = f" {self.unit}" if self.unit else ""
        limits = [("at most", self.most), ("at least", self.least)]
        bars = [f"{word} {limit:g}" for word, limit in limits if math.isfinite(limit)]
        missed = "" if self.is_met else "  MISSED"
        return f"{number(self.value)}{unit}{f' ({bars[0]})' if bars else ''}{missed}"


@dataclass(frozen=True)
class Case:
    """One thing that was done in several ways.

    Attributes
    ----------
    name : str
    cpu : dict of str to float
        CPU seconds of each of `WAYS` that was measured, and of the floor: what nobody can do
        without. Where there is no such thing, the default is the unit.
    bars : tuple of Bar
    """

    name: str
    cpu: Mapping[str, float] = field(default_factory=dict)
    bars: Sequence[Bar] = ()


def number(value: float) -> str:
    """A figure with three digits that say something."""
    if not math.isfinite(value) or value >= 100 or isinstance(value, int):
        return f"{value:,.0f}"
    return f"{value:.{1 if value >= 10 else 2}f}"


def table(cases: Iterable[Case]) -> list[str]:
    """Lines of the table: for each case the ways as multiples of the floor, and below its bars."""
    head = "".join(f"{way:>15}" for way in WAYS)
    lines = [f"{'CPU time as a multiple of the floor':{_NAME}}{head}{'floor':>13}"]
    for case in cases:
        if case.cpu:
            floor = case.cpu.get(FLOOR, case.cpu[DEFAULT])
            cells = (number(case.cpu[way] / floor) if way in case.cpu else "-" for way in WAYS)
            ways = "".join(f"{cell:>15}" for cell in cells)
            lines.append(f"{case.name:{_NAME}}{ways}{number(floor * 1e3):>10} ms")
        else:
            lines.append(case.name)
        lines += [f"    {bar.what:{_NAME - 4}} {bar.text}" for bar in case.bars]
    return lines


def missed(cases: Iterable[Case]) -> list[str]:
    """A line for each bar that was missed."""
    return [
        f"{case.name}: {bar.what}: {bar.text.removesuffix('  MISSED')}"
        for case in cases
        for bar in case.bars
        if not bar.is_met
    ]


def concluded(cases: Sequence[Case]) -> int:
    """Print the table of a script and pass it on; the exit status: 1 where a bar is missed."""
    print(*table(cases), sep="\n")
    if path := os.environ.get(RESULTS):
        with Path(path).open("a") as file:
            file.writelines(json.dumps(asdict(case)) + "\n" for case in cases)
    return int(bool(missed(cases)))


def gathered(path: Path) -> list[Case]:
    """The cases that scripts passed on, in the order in which they ran."""
    read = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [Case(r["name"], r["cpu"], tuple(Bar(**bar) for bar in r["bars"])) for r in read]
