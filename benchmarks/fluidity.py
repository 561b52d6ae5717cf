"""How soon the page shows what one does in the explorer and in the editor, at their largest.

JupyterLab in Chromium; every interaction of `tests/browser/scenes.py` some times. Exits 1 when the
median of one is over the bar, or when more rows stand in the page, or more in the file, than may.
Milliseconds are what the bar is in, so that a busy machine misses it; the work of the page alone is
printed beside them.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.browser import harness, scenes

ROUNDS = 5
# Pairs 2,000 names with one press, of which the kernel alone takes most.
AT_ONCE = {(scenes.EDITOR_OF_NOTHING_MATCHED.name, "rest")}


def main() -> int:
    """Print a line for each interaction; 0 when all are within their bars."""
    if harness.CHROMIUM is None:
        print("not measured: there is no Chromium on this machine")
        return 0
    missed = False
    with tempfile.TemporaryDirectory() as folder, harness.jupyter(Path(folder)) as server:
        for scene in (scenes.EXPLORER, scenes.EDITOR, scenes.EDITOR_OF_NOTHING_MATCHED):
            with harness.browser_page(height=1300) as page:
                played = scenes.play(server, page, scene, ROUNDS)
            print(f"{scene.name}: {played.rows} rows in the page, {played.state:,} bytes saved")
            for what, times in played.shown.items():
                middle, work = statistics.median(times), statistics.median(played.worked[what])
                counts = (scene.name, what) not in AT_ONCE
                bar = f"bar {scenes.SLOWEST}" if counts else "no bar: thousands of names at once"
                print(
                    f"  {what:12} {middle:4.0f} ms until it is shown ({min(times):.0f} to"
                    f" {max(times):.0f}; {bar}), {work:3.0f} ms of work in the page"
                )
                missed |= counts and middle > scenes.SLOWEST
            missed |= played.rows > scenes.MOST_ROWS_IN_DOM or played.state > scenes.MOST_STATE
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
