"""Stored notebooks are clean forms: no outputs, no local paths, one cell of parameters."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

ROOT = Path(__file__).parents[1]
LOCAL_PATH = re.compile(r"(?<![\w.])/(home|work|root|Users)\b|\b[A-Za-z]:\\")
MOST_CODE_LINES = 20


def problems(notebook: nbformat.NotebookNode) -> list[str]:
    """Everything that keeps a notebook from being stored."""
    found = []
    try:
        nbformat.validate(notebook)
    except nbformat.ValidationError as error:
        found.append(f"not a valid notebook: {error.message}")
    cells = notebook.cells
    if not cells or cells[0].cell_type != "markdown" or not cells[0].source.startswith("# "):
        found.append("the first cell is not a markdown title")
    if "widgets" in notebook.metadata:
        found.append("stored widget state")
    if LOCAL_PATH.search(json.dumps(notebook.metadata).replace("\\\\", "\\")):
        found.append("local path in the metadata")
    for number, cell in enumerate(cells):
        found += [f"cell {number}: {text}" for text in cell_problems(cell)]
    forms = [cell for cell in cells if "parameters" in cell.metadata.get("tags", [])]
    if len(forms) != 1:
        found.append(f"{len(forms)} cells are tagged parameters, expected one")
    return found + [text for cell in forms for text in parameter_problems(cell.source)]


def cell_problems(cell: nbformat.NotebookNode) -> list[str]:
    """What is wrong with one cell."""
    found = []
    if LOCAL_PATH.search(cell.source):
        found.append("local path")
    if cell.cell_type == "code":
        if cell.outputs:
            found.append("has outputs")
        if cell.execution_count is not None:
            found.append("has an execution count")
        # Where nothing is said, Notebook 7 and nbclassic fold a long answer into a window.
        if cell.metadata.get("scrolled") is not False:
            found.append("its output may be folded")
        lines = [line for line in cell.source.splitlines() if line.strip(" \t")]
        code = [line for line in lines if not line.lstrip().startswith("#")]
        if len(code) > MOST_CODE_LINES:
            found.append(f"{len(code)} code lines, at most {MOST_CODE_LINES}")
    return found


def parameter_problems(source: str) -> list[str]:
    """Statements of a parameters cell that are not `name = literal`."""
    return [
        f"parameters cell: not a literal assignment: {ast.unparse(node)}"
        for node in ast.parse(source).body
        if not is_literal_assignment(node)
    ]


def is_literal_assignment(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        targets = [node.target]
    else:
        return False
    try:
        ast.literal_eval(node.value)
    except ValueError:
        return False
    return all(isinstance(target, ast.Name) for target in targets)


def test_stored_notebooks_are_clean():
    paths = [
        path
        for path in sorted((ROOT / "notebooks").rglob("*.ipynb"))
        if ".ipynb_checkpoints" not in path.parts
    ]
    assert paths, "no notebooks found"
    found = {path.name: problems(nbformat.read(path, as_version=4)) for path in paths}
    assert {name: texts for name, texts in found.items() if texts} == {}


@pytest.fixture
def notebook():
    parameters = new_code_cell('# a number\nrtol = 1e-3\nfiles: list = ["a", "b"]\nseed = -1')
    parameters.metadata["tags"] = ["parameters"]
    shown = new_code_cell("# see https://a.org/home and data/work/x\nrtol * 2")
    for cell in (parameters, shown):
        cell.metadata["scrolled"] = False
    return new_notebook(cells=[new_markdown_cell("# Where do they differ?"), parameters, shown])


def test_a_clean_notebook_has_no_problems(notebook):
    assert problems(notebook) == []


def no_title(notebook):
    notebook.cells[0].source = "Where do they differ?"


def an_output(notebook):
    notebook.cells[2].outputs = [new_output("stream", text="0.002")]


def an_output_in_a_window(notebook):
    del notebook.cells[2].metadata["scrolled"]


def an_execution_count(notebook):
    notebook.cells[2].execution_count = 1


def a_home_folder(notebook):
    notebook.cells[2].source = 'open_dump("/home/me/dump")'


def a_windows_path(notebook):
    notebook.cells[0].source += "\nin C:\\dumps"


def a_path_in_metadata(notebook):
    notebook.metadata["source"] = "/root/draft.ipynb"


def no_parameters(notebook):
    notebook.cells[1].metadata["tags"] = []


def two_parameters(notebook):
    notebook.cells[2].metadata["tags"] = ["parameters"]
    notebook.cells[2].source = "x = 1"


def a_call_in_parameters(notebook):
    notebook.cells[1].source += "\nout = str(rtol)"


def an_import_in_parameters(notebook):
    notebook.cells[1].source += "\nimport os"


def a_long_cell(notebook):
    notebook.cells[2].source = "\n".join(["x = 1", ""] * 21)


def widget_state(notebook):
    notebook.metadata["widgets"] = {}


def an_unknown_cell_type(notebook):
    notebook.cells[0].cell_type = "markup"
    notebook.cells.insert(0, new_markdown_cell("# Title"))


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (no_title, "not a markdown title"),
        (an_output, "cell 2: has outputs"),
        (an_output_in_a_window, "cell 2: its output may be folded"),
        (an_execution_count, "cell 2: has an execution count"),
        (a_home_folder, "cell 2: local path"),
        (a_windows_path, "cell 0: local path"),
        (a_path_in_metadata, "local path in the metadata"),
        (no_parameters, "0 cells are tagged parameters"),
        (two_parameters, "2 cells are tagged parameters"),
        (a_call_in_parameters, "not a literal assignment: out = str(rtol)"),
        (an_import_in_parameters, "not a literal assignment: import os"),
        (a_long_cell, "cell 2: 21 code lines"),
        (widget_state, "stored widget state"),
        (an_unknown_cell_type, "not a valid notebook"),
    ],
)
def test_a_spoiled_notebook_has_one_problem(notebook, spoil, text):
    spoil(notebook)
    found = problems(notebook)
    assert len(found) == 1
    assert text in found[0]
