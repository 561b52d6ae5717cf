"""How long `import troubleshooter_nb` takes, as a ratio to `import xarray, pandas`.

The two alternate in fresh interpreters, so that a busy machine slows both. The fastest runs are
compared: whatever else the machine does only ever adds time.
Exits 1 when the ratio is over the bar.
"""

from __future__ import annotations

import os
import subprocess
import sys

BAR = 1.5
ROUNDS = 9
OURS, BASE = "import troubleshooter_nb", "import xarray, pandas"


def import_seconds(statement: str) -> float:
    """Seconds an import statement takes in a fresh interpreter, without its start."""
    program = (
        f"import time\nstart = time.perf_counter()\n{statement}\nprint(time.perf_counter() - start)"
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
    rounds = [(import_seconds(OURS), import_seconds(BASE)) for _ in range(ROUNDS)]
    ours, base = (min(times) for times in zip(*rounds, strict=True))
    ratio = ours / base
    print(f"{OURS}: {ours:.3f} s; {BASE}: {base:.3f} s; ratio {ratio:.2f} (bar {BAR})")
    return 0 if ratio <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
