"""How long `from troubleshooter_nb import *` takes, as a ratio to `import xarray, pandas`.

The two alternate in fresh interpreters, so that a busy machine slows both. The fastest runs are
compared: whatever else the machine does only ever adds time.
Exits 1 when the ratio is over the bar. ``--quick`` takes fewer runs.
"""

from __future__ import annotations

import os
import subprocess
import sys

from measuring.bars import DEFAULT, FLOOR, Bar, Case, concluded

BAR = 1.5
ROUNDS, QUICK_ROUNDS = 9, 3
# All names: the package alone loads nothing.
OURS, BASE = "from troubleshooter_nb import *", "import xarray, pandas"


def import_seconds(statement: str) -> float:
    """CPU seconds an import statement takes in a fresh interpreter, without its start."""
    # A name that no import of all names takes: the package has a `start` of its own.
    program = (
        f"import time\n_at = time.process_time()\n{statement}\nprint(time.process_time() - _at)"
    )
    command = [sys.executable, "-c", program]
    # As users import it: with the bytecode that the first import leaves.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout)


def main() -> int:
    """Print both times and their ratio; 0 when the ratio is within the bar."""
    for statement in (OURS, BASE):  # fill the disk cache and __pycache__
        import_seconds(statement)
    count = QUICK_ROUNDS if "--quick" in sys.argv[1:] else ROUNDS
    rounds = [(import_seconds(OURS), import_seconds(BASE)) for _ in range(count)]
    ours, base = (min(times) for times in zip(*rounds, strict=True))
    bar = Bar("over importing both", ours / base, most=BAR)
    return concluded([Case(f"{OURS}; floor: {BASE}", {DEFAULT: ours, FLOOR: base}, (bar,))])


if __name__ == "__main__":
    sys.exit(main())
