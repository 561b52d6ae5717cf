"""A record without what says whose it is: where somebody's home, Python and folders are."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Clean = Callable[[str], str]
_OF_SYSTEMS = (Path("/usr"), Path("/usr/local"))


# A path begins behind all that no name of a folder in ASCII ends with, so behind Chinese, too;
# behind a code of a terminal, an escaped character, and an option of a compiler.
_BEGIN = (
    r"^|[^A-Za-z0-9.~-]|\x1b\[[\d;]*[A-Za-z]|(?:\\x1b|\\u001b)\[[\d;]*[A-Za-z]"
    r"|\\[nrtfbv0]|\\x[0-9a-f]{2}|\\u[0-9a-fA-F]{4}|(?<!\S)-[ILF]"
)
# The file that a kernel gives a cell: the number of its process, and that of the text.
_OF_CELL = re.compile(r"ipykernel_\d+/\d+\.py")


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
        return lambda text: _OF_CELL.sub("ipykernel/cell.py", text)
    one_slash = r"(?:\\?/|%2[Ff])"  # also as JSON and addresses write it
    slash = f"{one_slash}+"
    longest = sorted(said, key=len, reverse=True)
    # Those in front of the first one are not the path's: file:///home.
    forms = [slash.join(map(re.escape, one.split("/"))) for one in longest]
    either = "|".join(re.sub(rf"^{re.escape(slash)}", lambda _: one_slash, one) for one in forms)
    whole = re.compile(rf"({_BEGIN})({either})(?![\w-]|\.\w)", re.ASCII)

    def shortened(found: re.Match[str]) -> str:
        return found[1] + said[re.sub(slash, "/", found[2])]

    def by(text: str) -> str:
        return _OF_CELL.sub("ipykernel/cell.py", whole.sub(shortened, text))

    return by


def clean(value: Any, by: Clean) -> Any:
    """A value of an output with all its texts cleaned; pictures stay as they are."""
    if isinstance(value, str):
        return by(value)
    if isinstance(value, list):
        return [clean(one, by) for one in value]
    if isinstance(value, dict):
        return {
            by(str(key)): one if _is_picture(str(key)) else clean(one, by)
            for key, one in value.items()
        }
    return value


def _is_picture(kind: str) -> bool:
    """Whether what stands under a key is no text; drawings are."""
    return kind.startswith(("image/", "audio/", "video/")) and kind != "image/svg+xml"
