"""An executed notebook as one page."""

from __future__ import annotations

from typing import Any

from troubleshooter_nb.errors import FormatError, check_extra
from troubleshooter_nb.messages import Foreign, Message


def check_pages() -> None:
    """Raise ExtraMissingError where what makes a page of a notebook is not installed."""
    check_extra("nbconvert", Message("command.no_nbconvert"))


def page_of(notebook: Any, *, name: str) -> str:
    """The text of a page that needs no other file of ours.

    Parameters
    ----------
    notebook : nbformat.NotebookNode
    name : str
        The page's title, and what an error calls the notebook.

    Raises
    ------
    ExtraMissingError
        Without nbconvert.
    FormatError
        For what cannot be made a page.
    """
    check_pages()
    import nbconvert
    import nbformat

    try:
        exporter = nbconvert.HTMLExporter()  # type: ignore[no-untyped-call]
        resources = {"metadata": {"name": name}}
        text, _ = exporter.from_notebook_node(notebook, resources=resources)
    except (ValueError, KeyError, AttributeError, nbformat.ValidationError) as error:
        problem = Foreign(str(error)[:200])
        raise FormatError(Message("files.in_file", file=name, what=problem)) from None
    return str(text)
