"""Execute a template notebook into a record: an executed copy and a page to send.

``make demo`` runs this file. A record is never edited; run the template again instead.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
RECORDS = HERE.parent / "records"


# What a line of progress leaves behind, on a machine so slow that it was shown.
_NOTHING = {"text/plain": ""}


def execute(template: Path, parameters: Mapping[str, object]) -> nbformat.NotebookNode:
    """Run a template in a fresh kernel with other parameters; nothing is written.

    The values go into a cell of their own behind the parameters cell, as papermill does it, so
    that the record shows both the form and what was filled in.
    """
    notebook = nbformat.read(template, as_version=4)
    tagged = [i for i, c in enumerate(notebook.cells) if "parameters" in c.metadata.get("tags", [])]
    source = "\n".join(f"{name} = {value!r}" for name, value in parameters.items())
    cell = nbformat.v4.new_code_cell(
        source, id="injected", metadata={"tags": ["injected-parameters"]}
    )
    notebook.cells.insert(tagged[0] + 1, cell)
    client = NotebookClient(
        notebook,
        timeout=600,
        # Neither clock nor widget state in the record: the same run gives the same file.
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(template.parent)}},
        # ipykernel warns at every start that it talks over local sockets.
        extra_arguments=["--IPKernelApp.log_level=40"],
    )
    client.execute(env=os.environ | {"GLOG_v": "4"})
    for cell in notebook.cells:
        if "outputs" in cell:
            cell.outputs = [one for one in cell.outputs if one.get("data") != _NOTHING]
    return notebook


def verdict(notebook: nbformat.NotebookNode) -> str:
    """What the cell tagged ``verdict`` printed."""
    cell = next(c for c in notebook.cells if "verdict" in c.metadata.get("tags", []))
    return "".join(output.get("text", "") for output in cell.outputs).strip()


def main(arguments: list[str] | None = None) -> int:
    """Write the record, print the verdict and where it lies."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--template", default="gradient_comparison")
    parser.add_argument("--records", type=Path, default=RECORDS)
    options = parser.parse_args(arguments)
    name = f"{datetime.date.today().isoformat()}-{options.template}"
    record, page = (options.records / f"{name}{suffix}" for suffix in (".ipynb", ".html"))
    options.records.mkdir(parents=True, exist_ok=True)
    notebook = execute(HERE / f"{options.template}.ipynb", {"page": str(page.resolve())})
    # The record is shared: it names the page, not the folder it was written to.
    for cell in notebook.cells:
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell.source = f"page = {page.name!r}"
    nbformat.write(notebook, record)
    print(verdict(notebook))
    for path in (record, page):
        print(os.path.relpath(path))
    return 0


if __name__ == "__main__":
    sys.exit(main())
