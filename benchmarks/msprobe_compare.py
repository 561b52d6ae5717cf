"""Whether msprobe's own ``compare`` reads what this project's `PrecisionDebugger` writes.

One network is dumped as it is and with a layer changed, by msprobe and by this project's calls.
``msprobe compare`` then runs on the two of each, and on one of each: the rows have to be the same.
The interpreter of an environment with msprobe is told as for ``capture.py``; its release chooses
the generation of the files. Without one nothing is measured. Exits 1 when a bar is missed.
"""

from __future__ import annotations

import csv
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import capture
from measuring.bars import Bar, Case, concluded
from measuring.dumping import STEPS
from measuring.stepping import CALLS, MSPROBE

LEVELS, TASKS = ("L0", "L1", "mix"), ("statistics", "tensor", "md5")
CHANGED = "blocks.3.fc"
GENERATIONS = {"26": "26.2", "8": "8.3", "1": "1.2"}  # by the first number of the release
# Ours hold the frames of the user alone; see docs/msprobe.md.
_STACK = "NPU_Stack_Info", "Stack_Info"
_VERDICT = "Result", "Err_message"  # which hang on how much larger one relative error is
_ROUNDED = 4e-6  # of float32 sums, which msprobe has torch make and we make in float64
# Of the rows; verdicts hang on relative errors of means, many of which cancel to almost nothing.
_TURNED = 0.05
Row = dict[str, str]


def release_of(python: str) -> str:
    """Release of msprobe in an environment."""
    ask = "import importlib.metadata as m; print(m.version('mindstudio-probe'))"
    return subprocess.run(
        [python, "-c", ask], capture_output=True, text=True, check=True
    ).stdout.strip()


def dumped(python: str, recorder: str, level: str, task: str, folder: Path, *changed: str) -> Path:
    """The folder of steps that a process of its own writes."""
    command = [python, "-m", "measuring.dumping", recorder, level, task, str(folder), *changed]
    _run(command, cwd=Path(__file__).parent)
    return folder / "dumps"


def compared(python: str, release: str, target: Path, golden: Path, out: Path) -> list[Row]:
    """The rows of ``msprobe compare`` over all steps of two dumps."""
    rows: list[Row] = []
    for step in range(STEPS):
        sides = [side / f"step{step}" for side in (target, golden)]
        place = out / f"step{step}"
        place.mkdir(parents=True)
        _run([*_command(python, release, sides, place), "-o", str(place)], cwd=place)
        found = [*place.rglob("compare_result*.csv"), *place.rglob("compare_result*.xlsx")]
        if len(found) != 1:
            message = f"{len(found)} results in {place}"
            raise RuntimeError(message)
        rows += _rows(found[0])
    return rows


def _command(python: str, release: str, sides: list[Path], place: Path) -> list[str]:
    own = str(Path(python).absolute().parent / "msprobe")
    if release.startswith("26"):
        return [own, "compare", "-tp", str(sides[0]), "-gp", str(sides[1])]
    target, golden = (next(side.iterdir()) for side in sides)
    said = {
        "npu_path": str(target / "dump.json"),
        "bench_path": str(golden / "dump.json"),
        "stack_path": str(target / "stack.json"),
        "is_print_compare_log": False,
    }
    (place / "compare.json").write_text(json.dumps(said))
    return [own, "-f", "pytorch", "compare", "-i", str(place / "compare.json")]


def _run(command: list[str], cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        message = f"{command}: {(done.stdout + done.stderr)[-3000:]}"
        raise RuntimeError(message)


def _rows(file: Path) -> list[Row]:
    if file.suffix == ".csv":
        with file.open(newline="") as stream:
            return [*csv.DictReader(stream)]
    import pandas as pd

    return pd.read_excel(file, dtype=str, keep_default_na=False).to_dict("records")


def different(ours: list[Row], theirs: list[Row]) -> Iterator[tuple[str, str]]:
    """Column and description of what tells two lists of rows apart; nothing if they are equal."""
    if len(ours) != len(theirs):
        yield "", f"{len(ours)} rows beside {len(theirs)}"
    for number, (our, their) in enumerate(zip(ours, theirs, strict=False)):
        for column in {**their, **our}:
            cells = our.get(column, "-"), their.get(column, "-")
            rounding = max(_rounding(column, our), _rounding(column, their))
            if column in _STACK or _are_alike(*cells, rounding):
                continue
            yield column, f"row {number} {column}: {cells[0]!r} beside {cells[1]!r}"


def _rounding(column: str, row: Row) -> float:
    """How far apart two cells may be that come from a mean or a norm of a row of statistics."""
    figure = next((f for f in ("mean", "norm") if f in column.lower()), "")
    if not figure or "Bench mean" not in row:
        return 0.0
    whole = "max", "min", "mean", "l2norm"
    golden = {name: _number(row[f"Bench {name}"]) for name in whole}
    golden_size = abs(golden["mean" if figure == "mean" else "l2norm"])
    size = max(abs(golden["max"]), abs(golden["min"])) if figure == "mean" else golden_size
    if "RelativeErr" not in column:
        return _ROUNDED * size
    return 100 * _ROUNDED * size / golden_size if golden_size else math.inf  # in percent


def _are_alike(one: str, other: str, rounding: float) -> bool:
    if one == other or rounding == math.inf:
        return True
    return math.isclose(_number(one), _number(other), rel_tol=_ROUNDED, abs_tol=rounding)


def _number(cell: str) -> float:
    """What a cell says, percent as they are; nan where it says something else."""
    if cell == "False":  # what 8.3.3 makes of a mean of 0.0
        return 0.0
    try:
        return float(cell.removesuffix("%"))
    except ValueError:
        return math.nan


def judged(python: str, release: str, level: str, task: str, folder: Path) -> Case:
    """One level and task: the rows of both, and of ours beside theirs."""
    pythons = {CALLS: sys.executable, MSPROBE: python}
    sides = {
        (recorder, kind): dumped(which, recorder, level, task, folder / recorder / kind, *changed)
        for recorder, which in pythons.items()
        for kind, changed in (("plain", ()), ("changed", (CHANGED,)))
    }

    def rows(target: str, golden: str) -> list[Row]:
        out = folder / f"{target}-{golden}"
        return compared(python, release, sides[target, "changed"], sides[golden, "plain"], out)

    theirs = rows(MSPROBE, MSPROBE)
    bars = [Bar("rows of msprobe's two dumps", len(theirs), least=1)]
    for words, targets in (
        ("of ours", (CALLS, CALLS)),
        ("of our target and msprobe's golden", (CALLS, MSPROBE)),
        ("of msprobe's target and our golden", (MSPROBE, CALLS)),
    ):
        found = [*different(rows(*targets), theirs)]
        turned = [told for column, told in found if column in _VERDICT]
        others = [told for column, told in found if column not in _VERDICT]
        print(*others[:5], sep="\n", end="\n" if others else "")
        share = len(turned) / len(theirs)
        bars.append(Bar(f"cells {words} that are others", len(others), most=0))
        bars.append(Bar("  and verdicts, of all rows", share, most=_TURNED))
    return Case(f"msprobe {release} compare, {task}, level {level}", bars=bars)


def main() -> int:
    """Print the table; 0 when the bars are met."""
    options = capture.arguments()
    if not capture.installed(options.msprobe):
        return 0
    python = str(Path(options.msprobe).absolute())
    release = release_of(python)
    os.environ["TNB_MSPROBE_GENERATION"] = GENERATIONS[release.partition(".")[0]]
    levels, tasks = (LEVELS[-1:], TASKS[:1]) if options.quick else (LEVELS, TASKS)
    cases = []
    for level in levels:
        for task in tasks:
            with tempfile.TemporaryDirectory() as folder:
                cases.append(judged(python, release, level, task, Path(folder)))
    return concluded(cases)


if __name__ == "__main__":
    sys.exit(main())
