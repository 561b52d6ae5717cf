"""A record without what says whose it is: where somebody's home, Python and folders are."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Clean = Callable[[str], str]
_OF_SYSTEMS = (Path("/usr"), Path("/usr/local"))


def cleaner(folder: Path) -> Clean:
    """What replaces in a text the folder of a run by ``.``, the home folder by ``~`` ...

    Of the places of Python and this package, which are nobody's business either, ``...`` is left.
    """
    places = dict.fromkeys(map(Path, (sys.prefix, sys.base_prefix)), "...")
    # Not of a system's own Python, whose folders hold all kinds of things.
    places = {one: short for one, short in places.items() if one not in _OF_SYSTEMS}
    places |= {Path(__file__).parents[2]: "..."}
    places |= {folder: ".", folder.resolve(): "."}
    home = Path.home()
    places |= {one: "~" for one in (home, home.resolve())}
    # The root is in every path, and says nothing; the longest first, for one may hold another.
    said = {str(one): short for one, short in places.items() if one != Path(one.anchor)}
    if not said:
        return lambda text: text
    either = "|".join(map(re.escape, sorted(said, key=len, reverse=True)))
    # Behind a colour of a terminal or an escaped end of line a path begins, too.
    begin = r"^|[^\w.~-]|\x1b\[[\d;]*m|\\[nrt]"
    whole = re.compile(rf"({begin})({either})(?![\w-]|\.\w)")
    return lambda text: whole.sub(lambda found: found[1] + said[found[2]], text)


def clean(value: Any, by: Clean) -> Any:
    """A value of an output with all its texts cleaned; pictures stay as they are."""
    if isinstance(value, str):
        return by(value)
    if isinstance(value, list):
        return [clean(one, by) for one in value]
    if isinstance(value, dict):
        return {
            key: one if str(key).startswith(("image/", "audio/")) else clean(one, by)
            for key, one in value.items()
        }
    return value
