"""What to say about a path that does not exist."""

from __future__ import annotations

import difflib
import os
from pathlib import Path


def not_there(path: Path) -> str:
    """That it does not exist, how far it does, and what is called like the part that is missing."""
    exists = next((up for up in path.absolute().parents if up.exists()), Path("/"))
    missing = path.absolute().relative_to(exists).parts[0]
    inside = os.listdir(exists) if exists.is_dir() and os.access(exists, os.R_OK) else []
    close = difflib.get_close_matches(missing, inside, n=2)
    hint = f"; it has {', '.join(map(repr, close))}" if close else ""
    return f"no such file or folder: {path} (the part {exists} exists{hint})"
