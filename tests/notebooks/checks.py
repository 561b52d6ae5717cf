"""What every executed notebook has to hold: the checks of a record that is opened by strangers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from troubleshooter_nb.render.explanation import part_title
from troubleshooter_nb.render.lines import COLUMNS, LINES, width

# Anything else is the business of who displays it: a frontend drops or changes it.
FORBIDDEN = re.compile(r"<script|<svg|<iframe|\sid=|\son\w+=|uuid", re.IGNORECASE)
MOST_BYTES_OF_HTML = 150_000
EXPLANATIONS = tuple(part_title("check", language) for language in ("en", "zh"))
CHAPTERS = (
    "Are they comparable?",
    "The answer",
    "The evidence",
    "What to do",
    "Provenance",
)


def chapters(notebook: Any) -> list[str]:
    """Headings of the second level, in order."""
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    return [found for source in sources for found in re.findall(r"^## (.+)$", source, flags=re.M)]


def faults_of(notebook: Any) -> Iterator[str]:
    """What is wrong with the outputs of an executed notebook."""
    for number, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            yield from (f"cell {number}: {fault}" for fault in _faults_of_data(data))
            if output["output_type"] == "stream" and output["name"] == "stderr":
                yield f"cell {number}: writes to stderr: {output['text'][:200]}"


def _faults_of_data(data: Any) -> Iterator[str]:
    html, text = data.get("text/html", ""), data.get("text/plain", "")
    if found := FORBIDDEN.search(html):
        yield f"its HTML has {found[0]!r}"
    if len(html.encode()) > MOST_BYTES_OF_HTML:
        yield f"{len(html.encode()):,} bytes of HTML"
    if 'class="tsnb"' not in html:
        return  # of pandas or matplotlib
    lines = text.splitlines()
    if text.startswith(EXPLANATIONS):
        lines = lines[:LINES]  # of an explanation no sentence is left out
    if not text or len(lines) > LINES or max(map(width, lines)) > COLUMNS:
        yield f"its text has {len(lines)} lines of {max(map(width, lines), default=0)} columns"
