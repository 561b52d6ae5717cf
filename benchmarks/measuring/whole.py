"""What a whole process costs, from its start to its end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

# A small process between: what a child is told to have used at most counts the memory of whoever
# started it, up to the moment it became another program.
_LAUNCHER = """
import json, os, sys, time
start = time.perf_counter()
child = os.fork()
if not child:
    os.execvp(sys.argv[2], sys.argv[2:])
_, status, used = os.wait4(child, 0)
seconds = time.perf_counter() - start
code = os.waitstatus_to_exitcode(status)
told = [code, seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6]
open(sys.argv[1], "w").write(json.dumps(told))
"""


class Run(NamedTuple):
    """One run of a process: seconds on the clock, CPU seconds, most memory in MB (max RSS)."""

    seconds: float
    cpu: float
    peak: float


def run(
    command: Sequence[str],
    result: Path,
    *,
    codes: Collection[int] = (0,),
    environment: Mapping[str, str] | None = None,
) -> Run:
    """Run a command in silence; `result` is a file to be written.

    Raises
    ------
    RuntimeError
        If it ends with none of the codes; with the end of what it said.
    """
    # As users run it: with the bytecode that the first import leaves.
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(result), *command]
    done = subprocess.run(
        launcher, env={**kept, **(environment or {})}, capture_output=True, text=True, check=True
    )
    code, *costs = json.loads(result.read_text())
    if code not in codes:
        message = f"{command}: exit code {code}: {(done.stdout + done.stderr)[-2000:]}"
        raise RuntimeError(message)
    return Run(*costs)
