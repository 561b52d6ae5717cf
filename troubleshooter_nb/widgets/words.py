"""Words of a widget's page in one language."""

from __future__ import annotations

from collections.abc import Mapping


def in_language(words: Mapping[str, tuple[str, str]], language: str) -> dict[str, str]:
    """All words of a table, English and Chinese by id, in one of the two."""
    return {key: both[language == "zh"] for key, both in words.items()}
