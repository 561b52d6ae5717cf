"""Run the parts of `make test` one after the other, and say at the end what each took.

Standard library only: it starts before any environment exists. All parts run although an earlier
one failed, because one CI run should show everything that is wrong; only a failed installation
ends the run at once.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
FULL, CORE = ".venv/bin/python", ".venv-core/bin/python"

PARTS: dict[str, list[str]] = {
    "install full": ["make", "--no-print-directory", ".venv/.installed"],
    "install core": ["make", "--no-print-directory", ".venv-core/.installed"],
    "ruff check": [FULL, "-m", "ruff", "check"],
    "ruff format": [FULL, "-m", "ruff", "format", "--check"],
    "mypy": [FULL, "-m", "mypy"],
    "pytest full": [FULL, "-m", "pytest"],
    "pytest core": [CORE, "-m", "pytest"],
}


def budgets() -> dict[str, int]:
    """Seconds allowed per part, from the table in README.md beside this file."""
    rows = re.findall(r"^\| ([\w ]+?) \| (\d+) \|", (HERE / "README.md").read_text(), re.M)
    return {part: int(seconds) for part, seconds in rows}


def run(command: list[str], environment: dict[str, str]) -> tuple[int, Counter[str]]:
    """Exit code of a command, and the counts of pytest's closing line if it printed one."""
    counts: Counter[str] = Counter()
    with subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            if re.match(r"=+ .* in [\d.]+s.* =+$", line):
                counts = Counter(
                    {
                        word: int(n)
                        for n, word in re.findall(r"(\d+) (passed|failed|errors?|skipped)", line)
                    }
                )
    return process.returncode, counts


def main() -> int:
    """Run every part; 0 when all of them passed."""
    os.chdir(HERE.parent)
    allowed = budgets()
    total: Counter[str] = Counter()
    table, failed = [], []
    for part, command in PARTS.items():
        print(f"\n##### {part}: {' '.join(command)}", flush=True)
        environment = os.environ | ({"TNB_CORE": "1"} if part == "pytest core" else {})
        start = time.monotonic()
        code, counts = run(command, environment)
        seconds = time.monotonic() - start
        total += counts
        if code:
            failed.append(part)
        mark = ("FAILED" if code else "ok") + (", over budget" if seconds > allowed[part] else "")
        table.append(f"{part:14}{seconds:8.0f} s of {allowed[part]:5} s   {mark}")
        if code and part.startswith("install"):
            break
    print("\n" + "\n".join(table))
    if failed:
        print("failed: " + ", ".join(failed))
    # The closing line that CI reads, over both pytest runs.
    bad = total["failed"] + total["error"]
    print(f"{total['passed']} passed, {bad} failed, {total['skipped']} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
