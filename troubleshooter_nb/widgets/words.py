"""What the editor says on the page, English and Chinese."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import resources


def words_of(language: str) -> dict[str, str]:
    """All words in one language, by their id."""
    return {key: both[language == "zh"] for key, both in _all().items()}


@lru_cache(maxsize=1)
def _all() -> dict[str, list[str]]:
    """Id -> English and Chinese."""
    folder = resources.files("troubleshooter_nb.widgets")
    text = folder.joinpath("editor_words.json").read_text("utf-8")
    return {key: [str(word) for word in both] for key, both in json.loads(text).items()}
