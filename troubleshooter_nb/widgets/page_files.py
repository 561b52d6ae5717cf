"""The page of a widget, its script and its style sheet, as the texts that anywidget takes.

There is no build step. The files of ``page/`` are plain ES modules, which node imports as they are
in the tests. anywidget takes one text, so a script is joined of the files that it imports: their
``import`` lines and the word ``export`` go, and all files share one scope. Hence what a file may
say: ``import { a, b } from "./beside.js";`` without renaming, ``export`` before what it defines,
``export default`` in the script of a widget alone, and no name twice among the files of a script.
``tests/widgets/test_page_files.py`` holds the files to it.
"""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parent / "page"
_IMPORT = re.compile(r'^import \{[\w\s,]+\} from "\./(\w+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default\b)", re.MULTILINE)


def script(name: str) -> str:
    """A script and before it every file that it imports, each once."""
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", text)) for text in _files(name, {}).values())


def style(name: str) -> str:
    """A style sheet."""
    return (PAGE / name).read_text("utf-8")


def _files(name: str, before: dict[str, str]) -> dict[str, str]:
    """Texts of the files that are not there `before`: first those that a file imports, then it."""
    text = (PAGE / name).read_text("utf-8")
    for needed in _IMPORT.findall(text):
        if needed not in before:
            _files(needed, before)
    before[name] = text
    return before
