"""Run the parts of `make test`, `make check` or `make test-long`; say at the end what each took.

Standard library only: it starts before any environment exists. All parts run although an earlier
one failed, because one CI run should show everything that is wrong; only a failed installation
ends the run at once.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
FULL, CORE = ".venv/bin/python", ".venv-core/bin/python"
# The tests of `make check`: fast ones that tell most, at least one file of every room.
CHECKED = """
    tests/test_layers.py tests/test_public_api.py tests/test_import.py tests/test_environment.py
    tests/test_notebooks.py tests/messages
    tests/metrics/test_pairwise.py tests/metrics/test_summary.py tests/metrics/test_verdict.py
    tests/test_naming.py tests/test_dump.py tests/test_pairing.py tests/test_comparison.py
    tests/test_weight_map.py tests/transforms tests/test_run_card.py tests/test_report.py
    tests/formats/test_open_dump.py tests/formats/test_pairing_files.py
    tests/analysis/test_align.py tests/analysis/test_diagnosis.py
    tests/analysis/causes/test_normalisation.py tests/analysis/causes/training/test_gradients.py
    tests/capture/test_saving.py tests/capture/test_recording.py tests/convert/test_parts.py
    tests/frameworks/test_adapters.py
    tests/compat/troubleshooter/test_npy_compare.py
    tests/render/test_reprs.py tests/render/test_chinese.py tests/widgets/test_explorer.py
    tests/widgets/test_page_files.py tests/widgets/test_page_in_node.py
    tests/templates/test_parameters.py tests/templates/test_private.py
    tests/cli/test_words.py tests/cli/test_compare.py
    tests/docs/test_links.py tests/docs/test_pages.py
""".split()
# A file stays on one worker, which makes what its tests share once; the folders' order is kept,
# in which the browsers, slow and few, come early.
SIDE_BY_SIDE = ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]

PARTS: dict[str, list[str]] = {
    "install full": ["make", "--no-print-directory", ".venv/.installed"],
    "install core": ["make", "--no-print-directory", ".venv-core/.installed"],
    "install node": ["make", "--no-print-directory", "node_modules/.installed"],
    "ruff check": [FULL, "-m", "ruff", "check"],
    "ruff format": [FULL, "-m", "ruff", "format", "--check"],
    "biome lint": ["node_modules/.bin/biome", "lint", "--error-on-warnings"],
    "mypy": [FULL, "-m", "mypy"],
    "pytest full": [FULL, "-m", "pytest", *SIDE_BY_SIDE],
    "pytest core": [CORE, "-m", "pytest", *SIDE_BY_SIDE],
    "pytest long": [FULL, "-m", "pytest", *SIDE_BY_SIDE],
    "pytest check": [FULL, "-m", "pytest", *SIDE_BY_SIDE, *CHECKED],
}
SWITCHES = {"pytest core": {"TNB_CORE": "1"}, "pytest long": {"TNB_LONG": "1"}}
# Left out on a machine without npm: nobody needs node to use or change the Python part.
NODE = {"install node", "biome lint"}
# What runs one after the other; the parts of one stage run at the same time.
# The first of a stage prints as it goes, the others at their end. The core is tested while pip
# fetches and unpacks the frameworks, for which one core is more than enough.
STAGES: dict[str, list[list[str]]] = {
    "test": [
        ["install core", "install node"],
        ["pytest core", "install full"],
        ["ruff check", "ruff format", "biome lint"],
        ["pytest full", "mypy"],
    ],
    "check": [["ruff check", "ruff format", "biome lint"], ["pytest check", "mypy"]],
    "test-long": [["pytest long"]],
}


class Outcome(NamedTuple):
    """What came of a part; `counts` are those of pytest's closing line if it printed one."""

    part: str
    code: int
    seconds: float
    counts: Counter[str]


def budgets() -> dict[str, int]:
    """Seconds allowed per part, from the table in README.md beside this file."""
    rows = re.findall(r"^\| ([\w ]+?) \| (\d+) \|", (HERE / "README.md").read_text(), re.M)
    return {part: int(seconds) for part, seconds in rows}


def run(part: str, *, live: bool) -> Outcome:
    """Run a part; it prints as it goes, or all at its end."""
    title = f"\n##### {part}: {' '.join(PARTS[part])}\n"
    counts: Counter[str] = Counter()
    lines = [title]
    if live:
        print(title, end="", flush=True)
    start = time.monotonic()
    with subprocess.Popen(
        PARTS[part],
        env=os.environ | SWITCHES.get(part, {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            lines.append(line)
            if live:
                print(line, end="", flush=True)
            if re.match(r"=+ .* in [\d.]+s.* =+$", line):
                found = re.findall(r"(\d+) (passed|failed|error|skipped)", line)
                counts = Counter({word: int(n) for n, word in found})
    seconds = time.monotonic() - start
    if not live:
        print("".join(lines), end="", flush=True)
    return Outcome(part, process.returncode, seconds, counts)


def main(job: str = "test") -> int:
    """Run every part of a job; 0 when all of them passed."""
    os.chdir(HERE.parent)
    allowed = budgets()
    outcomes: list[Outcome] = []
    start = time.monotonic()
    has_node = shutil.which("npm") or os.environ.get("TNB_REQUIRE_ALL") == "1"
    for parts in STAGES[job]:
        stage = [part for part in parts if has_node or part not in NODE]
        with ThreadPoolExecutor() as pool:
            outcomes += pool.map(lambda part: run(part, live=part == stage[0]), stage)  # noqa: B023
        if any(done.code and done.part.startswith("install") for done in outcomes):
            break
    print()
    took = [(done.part, done.seconds, "FAILED" if done.code else "ok") for done in outcomes]
    for name, seconds, mark in [*took, (f"make {job}", time.monotonic() - start, "")]:
        if seconds > allowed.get(name, math.inf):
            mark = f"{mark}, over budget".removeprefix(", ")
        budget = f"of {allowed[name]:5} s" if name in allowed else ""
        print(f"{name:14}{seconds:8.0f} s {budget}   {mark}".rstrip())
    if not has_node:
        print("no npm (apt-get install nodejs npm): the JavaScript was neither linted nor tested")
    failed = [done.part for done in outcomes if done.code]
    if failed:
        print("failed: " + ", ".join(failed))
    # The closing line that CI reads, over all pytest runs.
    total = sum((done.counts for done in outcomes), Counter())
    bad = total["failed"] + total["error"]
    print(f"{total['passed']} passed, {bad} failed, {total['skipped']} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
