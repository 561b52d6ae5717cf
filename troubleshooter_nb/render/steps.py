"""Transforms of weights as a table has room for them."""

from __future__ import annotations

import re

_LISTED = re.compile(r"\([^()]*\)")
_MOST = 8  # arguments that are shown


def brief(transform: str) -> str:
    """The text of a transform with the first arguments of a step that has many.

    ``take(0, 7, 3, 12, ...)`` of a thousand rows is read nowhere; files and ``transform`` of a row
    have all of it. The page of the editor does the same (`brief` of ``widgets/page/pairs.js``).
    """
    return _LISTED.sub(_shortened, transform)


def _shortened(match: re.Match[str]) -> str:
    words = match[0].split(", ")
    return match[0] if len(words) <= _MOST + 1 else f"{', '.join(words[:_MOST])}, …)"
