"""Words of a widget in one language, and what both widgets say where none is shown."""

# ruff: noqa: RUF001 - Chinese punctuation is meant

from __future__ import annotations

from collections.abc import Mapping

from troubleshooter_nb.render.html import Markup, paragraph, small

_NO_FRONT_END = (
    "No {what} above this line? Run the cell again. Where a JavaScript error stands there, the "
    "Jupyter server lacks anywidget: pip install 'troubleshooter_nb[notebook]' where the server "
    "runs, restart it and reload the page.",
    "此行上方没有{what}？请重新运行单元格。若显示 JavaScript 错误，则 Jupyter 服务器缺少 "
    "anywidget：请在服务器环境中运行 pip install 'troubleshooter_nb[notebook]'，"
    "重启服务器并刷新页面。",
)
_NOTE = "margin:2px 0;font:11px sans-serif"


def in_language(words: Mapping[str, tuple[str, str]], language: str) -> dict[str, str]:
    """All words of a table, English and Chinese by id, in one of the two."""
    return {key: both[language == "zh"] for key, both in words.items()}


def word_of(
    words: Mapping[str, tuple[str, str]], key: str, language: str = "en", **values: object
) -> str:
    """The words of an id, gaps filled; gaps without a value stay as they are."""
    text = words[key][language == "zh"]
    return text.format(**values) if values else text


def front_end_note(what: tuple[str, str], language: str) -> Markup:
    """What to do where a widget is not shown, to stand above its record; `what` is missing."""
    at = language == "zh"
    return paragraph(small(_NO_FRONT_END[at].format(what=what[at])), style=_NOTE)
