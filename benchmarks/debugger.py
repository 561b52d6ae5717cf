"""What msprobe's calls cost here, next to the step alone and to msprobe itself.

The network, the turns and the environment of msprobe are those of ``capture.py``; the files are
in the layout of msprobe 26.2. Exits 1 when a bar is missed. ``--quick`` takes a small network, one
round.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple

import capture
from measuring.bars import DEFAULT, FLOOR, Bar, Case, concluded
from measuring.stepping import CALLS, MSPROBE, OURS, PLAIN


class Dumped(NamedTuple):
    """A level and a task; what our extra time may be of msprobe's and of the step alone."""

    level: str
    task: str
    over_msprobe: float
    over_plain: float


# Seen in several runs: statistics 0.42 to 0.54 of msprobe's extra time, tensors 0.40 to 0.62, where
# most of the time of both is that in which the system takes the same bytes. The step alone: about
# half again what was seen.
DUMPED = tuple(
    Dumped(level, *bars)
    for bars in (("statistics", 0.6, 0.7), ("tensor", 0.7, 6.0))
    for level in ("L0", "L1", "mix")
)
_PLAIN, _THEIR_PLAIN = (PLAIN, "", ""), (PLAIN, MSPROBE, "")


def ways(theirs: bool) -> dict[capture.Key, str]:
    """All that takes turns, as `capture.ways`."""
    chosen = {_PLAIN: OURS} | {(CALLS, one.level, one.task): OURS for one in DUMPED}
    if theirs:
        chosen |= {_THEIR_PLAIN: MSPROBE}
        chosen |= {(MSPROBE, one.level, one.task): MSPROBE for one in DUMPED}
    return chosen


def judged(dumped: Dumped, best: capture.Best) -> Case:
    """One level and task beside the plain step and, where it was measured, beside msprobe."""
    plain, ours = best[_PLAIN]["step"], best[CALLS, dumped.level, dumped.task]
    extra = ours["step"] - plain
    bars = []
    if their := best.get((MSPROBE, dumped.level, dumped.task)):
        their_extra = their["step"] - best[_THEIR_PLAIN]["step"]
        bars += [
            Bar("extra time over msprobe's", extra / their_extra, most=dumped.over_msprobe),
            Bar("msprobe: calls recorded in a step", their["calls"]),
            Bar("msprobe: files for a step", their["files"]),
        ]
    bars += [
        Bar("extra time over the plain step", extra / plain, most=dumped.over_plain),
        Bar("calls recorded in a step", ours["calls"]),
        Bar("files for a step", ours["files"]),
    ]
    name = f"msprobe's calls, {dumped.task}, level {dumped.level}; floor: plain step"
    return Case(name, {DEFAULT: ours["step"], FLOOR: plain}, bars)


def main() -> int:
    """Print the table; 0 when the bars are met."""
    os.environ["TNB_MSPROBE_GENERATION"] = "26.2"
    options = capture.arguments()
    theirs = capture.installed(options.msprobe)
    pythons = {OURS: sys.executable, MSPROBE: str(Path(options.msprobe).absolute())}
    best = capture.measured(pythons, ways(theirs), quick=options.quick)
    return concluded([judged(one, best) for one in DUMPED])


if __name__ == "__main__":
    sys.exit(main())
