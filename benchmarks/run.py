"""Run every measurement and show what all of them found in one table.

Each script prints its own; at the end stands the table of all, and what missed its bar. Exits 1
where something did, or where a script did not come to an end.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measuring.bars import RESULTS, gathered, missed, table

FOLDER = Path(__file__).parent
# What measures nothing: it prints for people to read.
TO_BE_READ = ("run", "sentences")
SCRIPTS = sorted(file.stem for file in FOLDER.glob("*.py") if file.stem not in TO_BE_READ)
# They judge answers, or milliseconds in a browser, and have tables of their own.
TABLES_OF_THEIR_OWN = ("faults", "fluidity")
# What a script is given here whose own default takes longer than others together.
GIVEN = {"causes_at_size": ["--few"]}


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scripts", nargs="*", choices=[[], *SCRIPTS], help="default: all")
    parser.add_argument("--without", nargs="*", default=[], metavar="SCRIPT", choices=SCRIPTS)
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"little of everything but {', '.join(TABLES_OF_THEIR_OWN)}; too little for the bars",
    )
    return parser.parse_args()


def run(script: str, results: Path, *, quick: bool) -> int:
    """The exit status of one script, whose output appears as it comes."""
    print(f"== {script}", flush=True)
    more = [*GIVEN.get(script, ()), *(["--quick"] if quick else ())]
    command = [sys.executable, str(FOLDER / f"{script}.py"), *more]
    start = time.perf_counter()
    status = subprocess.run(command, env={**os.environ, RESULTS: str(results)}, check=False)
    print(f"   {time.perf_counter() - start:.0f} s\n", flush=True)
    return status.returncode


def main() -> int:
    """Print everything; 0 when all bars are met."""
    options = arguments()
    left_out = {*options.without, *(TABLES_OF_THEIR_OWN if options.quick else ())}
    chosen = [s for s in options.scripts or SCRIPTS if s not in left_out]
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results")
        failed = [script for script in chosen if run(script, results, quick=options.quick)]
        cases = gathered(results)
    print(*table(cases), sep="\n")
    lines = missed(cases)
    print("\nmissed:" if failed else "\nall bars are met", *lines, sep="\n  ")
    for script in failed:
        print(f"failed: benchmarks/{script}.py")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
