"""How the words of a cause are kept."""

from __future__ import annotations

from typing import NamedTuple


class CauseWords(NamedTuple):
    """Each field is a pair: English, Chinese.

    `proof` and `repair` are templates: their gaps take the finding's evidence by name, and
    ``{before}`` and ``{residual}``, the relative errors with nothing and with the cause undone.
    """

    title: tuple[str, str]
    proof: tuple[str, str]
    repair: tuple[str, str]
