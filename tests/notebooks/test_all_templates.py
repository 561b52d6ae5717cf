"""What holds of every template alike."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest

from tests.notebooks.checks import CHAPTERS, chapters
from troubleshooter_nb.templates.shipped import templates

TEMPLATES = templates()
# Cells that name the files they wrote, in a temporary folder.
NAMES_FILES = {"weight_conversion": ("print(*files", 'print("weights:"')}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_has_the_chapters_of_all(name):
    notebook = nbformat.read(TEMPLATES[name].path, as_version=4)
    assert chapters(notebook) == [*CHAPTERS]
    assert [cell.id for cell in notebook.cells] == [
        f"cell-{n:02}" for n in range(len(notebook.cells))
    ]
    assert notebook.cells[-1].metadata.tags == ["verdict"]
    prose = "".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert "Good" in prose, "it does not say what a good output is"


@pytest.mark.long
@pytest.mark.notebook
@pytest.mark.torch
@pytest.mark.mindspore
@pytest.mark.parametrize("name", TEMPLATES)
def test_two_runs_of_an_example_write_the_same(name, run_demo):
    template = Path(TEMPLATES[name].path)
    first, second = (run_demo.execute(template, {}) for _ in range(2))
    for one, other in zip(first.cells, second.cells, strict=True):
        if not any(text in one.source for text in NAMES_FILES.get(name, ())):
            assert json.dumps(one.get("outputs")) == json.dumps(other.get("outputs")), one.source
