"""Words of the widgets in one language, and what both say where none is shown."""

from __future__ import annotations

from troubleshooter_nb.messages import Message, told
from troubleshooter_nb.messages.sentences import of_subject
from troubleshooter_nb.render.html import Markup, paragraph, small

_NOTE = "margin:2px 0;font:11px sans-serif"


def words_of(subject: str, language: str) -> dict[str, str]:
    """All words of a subject by key, in one language; gaps are for the page."""
    return {key: both[language == "zh"] for key, both in of_subject(subject).items()}


def editor_word(key: str, language: str = "en", **values: object) -> str:
    """Words of the mapping editor."""
    return told(Message(f"editor.{key}", **values), language)


def explorer_word(key: str, language: str = "en", **values: object) -> str:
    """Words of the explorer."""
    return told(Message(f"explorer.{key}", **values), language)


def front_end_note(what: str, language: str) -> Markup:
    """What to do where a widget is not shown, to stand above its record; `what` is missing."""
    said = Message("widgets.no_front_end", what=Message(f"widgets.{what}"))
    return paragraph(small(told(said, language)), style=_NOTE)
