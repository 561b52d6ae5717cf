"""What the command line tells a script when it ends."""

from __future__ import annotations

PASSED = 0
DIFFERS = 1
UNDECIDED = 2  # could not be compared or decided: a path that is missing or cannot be read, too
WRONG_WORDS = 3
