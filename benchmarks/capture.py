"""What recording a training step costs, next to the step alone and to msprobe.

A transformer of 6 layers, width 256, batch 8 x 64, forward, backward and SGD, one thread. Every way
of recording has a process of its own; they take turns, and each counts in its best one. Memory is
measured over 60 steps of a smaller network that are streamed. Exits 1 when a bar is missed.

msprobe, where it is installed in an environment of its own with the same torch, is measured as
well: ``--msprobe PYTHON`` or TNB_MSPROBE_PYTHON names that environment's interpreter. Without it
our extra time is only held against the step alone. ``--quick`` takes a small network, one round.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from measuring.bars import DEFAULT, FLOOR, Bar, Case, concluded
from measuring.stepping import MSPROBE, OURS, PLAIN, Child, Way
from measuring.transformer import Size

SIZE, SMALL = Size(width=256, batch=8), Size(width=64, batch=2)
ROUNDS, STEPS = 12, 4
ROUNDS_OF_TENSORS, STEPS_OF_TENSORS = 4, 2  # they fill the disk
GROWTH_STEPS = 60
GROWTH_BAR = 4.0  # MiB over that many steps, at most; one step of tensors has 8
ENVIRONMENT = "TNB_MSPROBE_PYTHON"


class Recorded(NamedTuple):
    """What is recorded, by msprobe's name of the level too, and what it may cost.

    `over_msprobe` limits our extra time over msprobe's, `over_plain` over the step alone.
    """

    level: str
    keep: str
    theirs: str
    over_msprobe: float
    over_plain: float


RECORDED = (
    # `over_plain` is about half again what was seen: 0.21, 0.26 and 0.26; for tensors 0.4 to 1.8,
    # as memory that a virtual machine has not touched before is dear, to msprobe as well. Operators
    # alone have no fingerprints of gradients, and are seen with the modules around them.
    Recorded("module", "statistics", "L0", over_msprobe=0.5, over_plain=0.35),
    Recorded("api", "statistics", "L1", over_msprobe=0.6, over_plain=0.4),
    Recorded("both", "statistics", "mix", over_msprobe=0.5, over_plain=0.45),
    Recorded("module", "tensor", "L0", over_msprobe=0.25, over_plain=2.5),
    Recorded("both", "tensor", "mix", over_msprobe=0.25, over_plain=2.5),
)
GROWING = (("module", "tensor"), ("both", "statistics"))

Key = tuple[str, str, str]  # recorder, level, keep
Best = Mapping[Key, Mapping[str, float]]
_PLAIN, _THEIR_PLAIN = (PLAIN, "", ""), (PLAIN, MSPROBE, "")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--msprobe",
        metavar="PYTHON",
        default=os.environ.get(ENVIRONMENT, ""),
        help=f"interpreter of an environment with msprobe, default ${ENVIRONMENT}",
    )
    return parser.parse_args()


def installed(python: str) -> bool:
    """Whether msprobe can be measured; says so."""
    if not python:
        print(f"msprobe: left out, neither --msprobe nor {ENVIRONMENT} is given")
        return False
    ask = (
        "import importlib.metadata as m, msprobe.pytorch, torch;"
        "print(m.version('mindstudio-probe'), 'with torch', torch.__version__)"
    )
    try:
        said = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        why = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1]
        print(f"msprobe: not installed in {python}, skipped: {why}")
        return False
    print(f"msprobe {said.stdout.strip().splitlines()[-1]}")
    return True


def ways(theirs: bool) -> dict[Key, str]:
    """All that takes turns; by recorder, level and what is kept the environment it runs in."""
    chosen = {_PLAIN: OURS} | {(OURS, r.level, r.keep): OURS for r in RECORDED}
    if theirs:
        chosen |= {_THEIR_PLAIN: MSPROBE}
        chosen |= {(MSPROBE, r.theirs, r.keep): MSPROBE for r in RECORDED}
    return chosen


def measured(pythons: Mapping[str, str], chosen: Mapping[Key, str], *, quick: bool) -> Best:
    """The best turn of every way."""
    turns: dict[Key, list[dict[str, float]]] = {key: [] for key in chosen}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        children = {}
        for number, (key, where) in enumerate(chosen.items()):
            way = Way(*key, SMALL if quick else SIZE, Path(folder, str(number)))
            children[key] = Child(pythons[where], way)
            stack.callback(children[key].close)
        for number in range(1 if quick else ROUNDS):
            for key, child in children.items():
                are_tensors = key[2] == "tensor"
                if number < (ROUNDS_OF_TENSORS if are_tensors else ROUNDS):
                    steps = STEPS_OF_TENSORS if are_tensors else STEPS
                    turns[key].append(child.ask("turn", 1 if quick else steps))
    return {
        key: {figure: min(turn[figure] for turn in taken) for figure in taken[0]}
        for key, taken in turns.items()
    }


def judged(recorded: Recorded, best: Best) -> Case:
    """One way of ours beside the plain step and, where it was measured, beside msprobe."""
    plain, ours = best[_PLAIN]["step"], best[OURS, recorded.level, recorded.keep]
    extra = ours["step"] - plain
    bars = []
    if their := best.get((MSPROBE, recorded.theirs, recorded.keep)):
        their_plain = best[_THEIR_PLAIN]["step"]
        their_extra = their["step"] - their_plain
        what = f"extra time over msprobe's, {recorded.theirs}"
        bars += [
            Bar(what, extra / their_extra, most=recorded.over_msprobe),
            Bar("msprobe's extra time over the plain step", their_extra / their_plain),
            *_written("msprobe: ", their),
        ]
    bars += [
        Bar("extra time over the plain step", extra / plain, most=recorded.over_plain),
        Bar("once: opening, first step, closing", (ours["first"] - ours["step"]) * 1e3, unit="ms"),
        *_written("", ours),
    ]
    name = f"record {recorded.keep}, level {recorded.level}; floor: plain step"
    return Case(name, {DEFAULT: ours["step"], FLOOR: plain}, bars)


def _written(who: str, turn: Mapping[str, float]) -> list[Bar]:
    return [
        Bar(f"{who}calls recorded in a step", turn["calls"]),
        Bar(f"{who}written for a step", turn["mb"], unit="MB"),
        Bar(f"{who}files for a step", turn["files"]),
    ]


def grown(level: str, keep: str, recorder: str = OURS) -> float:
    """MiB that the process grew by over many steps of one recording."""
    with tempfile.TemporaryDirectory() as folder:
        child = Child(sys.executable, Way(recorder, level, keep, SMALL, Path(folder)))
        try:
            return child.ask("growth", GROWTH_STEPS)["grown"]
        finally:
            child.close()


def memory() -> Case:
    """Whether a streaming recording holds on to what it has recorded."""
    bars = [Bar("not recorded", grown("", "", PLAIN), unit="MiB")]
    for level, keep in GROWING:
        grew = grown(level, keep)
        bars.append(Bar(f"{keep}, level {level}", grew, most=GROWTH_BAR, unit="MiB"))
    return Case(f"memory grown over {GROWTH_STEPS} streamed steps", bars=bars)


def main() -> int:
    """Print the table; 0 when the bars are met."""
    options = arguments()
    theirs = installed(options.msprobe)
    # Not resolved: the link in an environment's bin is what makes Python look there.
    pythons = {OURS: sys.executable, MSPROBE: str(Path(options.msprobe).absolute())}
    best = measured(pythons, ways(theirs), quick=options.quick)
    return concluded([*(judged(recorded, best) for recorded in RECORDED), memory()])


if __name__ == "__main__":
    sys.exit(main())
