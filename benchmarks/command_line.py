"""How long the command line takes from cold, and beside msprobe's own.

Two small folders against `import pandas, xarray`, in fresh processes that take turns. Where the
interpreter of an environment with msprobe 26 is told as for ``capture.py``, also its ``compare``
beside ``tnb compare``, with diagnosis, on a dump in its files: that of ``msprobe_dump.py`` with a
bias dropped, 0.9 GB. The ratio there is of seconds on the clock. Exits 1 when a bar is missed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import capture
import numpy as np
from measuring.bars import DEFAULT, FLOOR, OLD, Bar, Case, concluded
from measuring.whole import Run, run

import troubleshooter_nb as tnb

COLD, HELP = 3.0, 0.5  # times of importing both, at most
FASTER, MEMORY = 8.0, 162.0  # than msprobe, at least; MB of the process, at most
ROUNDS, QUICK_ROUNDS = 7, 2
ROUNDS_OF_MSPROBE = 3
BASE = [sys.executable, "-c", "import pandas, xarray"]
TNB = [sys.executable, "-m", "troubleshooter_nb"]
_LOADED = "import sys; from troubleshooter_nb.cli.main import main; main(['compare', '--help']);"
_LOADED += "print(len({'pandas', 'xarray'} & set(sys.modules)), file=sys.stderr)"


def small(folder: Path) -> tuple[str, str]:
    """Two folders of five matrices, one of which differs."""
    random = np.random.default_rng(0)
    arrays = {f"l{i}.weight": random.standard_normal((8, 8)).astype(np.float32) for i in range(5)}
    tnb.save_dump(arrays, folder / "left")
    tnb.save_dump({**arrays, "l3.weight": arrays["l3.weight"] + 1}, folder / "right")
    return str(folder / "left"), str(folder / "right")


def cold(folder: Path, rounds: int) -> Case:
    """A comparison and the help from cold, against importing both."""
    compare, aside = [*TNB, "compare", *small(folder)], folder / "result"
    ways = {DEFAULT: compare, FLOOR: BASE, "help": [*TNB, "compare", "--help"]}
    codes = {DEFAULT: (1,)}
    for way, command in ways.items():  # fill the disk cache and __pycache__
        run(command, aside, codes=codes.get(way, (0,)))
    cpu = {way: [] for way in ways}
    for _ in range(rounds):
        for way, command in ways.items():
            cpu[way].append(run(command, aside, codes=codes.get(way, (0,))).cpu)
    best = {way: min(times) for way, times in cpu.items()}
    asked = [sys.executable, "-c", _LOADED]
    loaded = subprocess.run(asked, capture_output=True, text=True, check=True).stderr
    bars = (
        Bar("tnb compare over importing both", best[DEFAULT] / best[FLOOR], most=COLD),
        Bar("tnb compare --help over importing both", best["help"] / best[FLOOR], most=HELP),
        Bar("of both imported for the help", int(loaded), most=0),
    )
    shown = {way: best[way] for way in (DEFAULT, FLOOR)}
    return Case("tnb compare of two small folders; floor: import both", shown, bars)


def beside_msprobe(python: str, folder: Path, rounds: int, size: tuple[int, int]) -> Case:
    """``tnb compare`` and ``msprobe compare`` of one dump, which take turns."""
    # Brings torch, which nothing else here needs.
    from msprobe_dump import FAULTY, recorded

    right = recorded(folder / "right", *size, in_halves=False)
    left = recorded(folder / "left", *size, in_halves=True, without_bias=FAULTY)
    own = str(Path(python).absolute().parent / "msprobe")
    sides = str(left / "step0"), str(right / "step0")
    theirs = [own, "compare", "-tp", sides[0], "-gp", sides[1], "-o"]
    ours = [*TNB, "compare", str(left), str(right)]
    runs: dict[str, list[Run]] = {DEFAULT: [], OLD: []}
    run(ours, folder / "result", codes=(1,))
    for number in range(rounds):
        runs[OLD].append(run([*theirs, str(folder / f"out{number}")], folder / "result"))
        runs[DEFAULT].append(run(ours, folder / "result", codes=(1,)))
    best = {way: min(one.seconds for one in of) for way, of in runs.items()}
    memory = {way: max(one.peak for one in of) for way, of in runs.items()}
    files = [*left.rglob("*.pt"), *right.rglob("*.pt")]
    bars = (
        Bar("msprobe's seconds over ours", best[OLD] / best[DEFAULT], least=FASTER),
        Bar("most memory of our process", memory[DEFAULT], most=MEMORY, unit="MB"),
        Bar("  and of msprobe's", memory[OLD], unit="MB"),
        Bar("seconds of our process", best[DEFAULT], unit="s"),
    )
    gigabytes = sum(file.stat().st_size for file in files) / 1e9
    return Case(f"tnb compare beside msprobe compare, {gigabytes:.2g} GB", bars=bars)


def main() -> int:
    """Print the table; 0 when the bars are met."""
    options = capture.arguments()
    with tempfile.TemporaryDirectory() as folder:
        cases = [cold(Path(folder), QUICK_ROUNDS if options.quick else ROUNDS)]
    if capture.installed(options.msprobe):
        from msprobe_dump import QUICK_ROWS, QUICK_WIDTH, ROWS, WIDTH

        size = (QUICK_WIDTH, QUICK_ROWS) if options.quick else (WIDTH, ROWS)
        rounds = 1 if options.quick else ROUNDS_OF_MSPROBE
        with tempfile.TemporaryDirectory() as folder:
            cases.append(beside_msprobe(options.msprobe, Path(folder), rounds, size))
    return concluded(cases)


if __name__ == "__main__":
    sys.exit(main())
