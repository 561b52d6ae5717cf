"""``tnb html FILE``: a page to send, of a saved record or of whatever else can be opened."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from troubleshooter_nb.cli import exit_codes
from troubleshooter_nb.cli.grammar import Grammar
from troubleshooter_nb.messages import Message


def grammar() -> Grammar:
    """The words of the verb."""
    examples = ("tnb html record.json", "tnb html executed.ipynb -o record.html")
    words = Grammar("html", Message("command.html_does"), examples)
    words.operand("FILE", Message("command.record"))
    words.option("-o", "--output", value="PAGE", meaning=Message("command.page"))
    words.switch("--force", meaning=Message("command.force"))
    return words


def run(asked: argparse.Namespace) -> int:
    """Write the page beside where the command runs, or where it was asked for."""
    from troubleshooter_nb.cli.outputs import planned
    from troubleshooter_nb.cli.terminal import say
    from troubleshooter_nb.dump import Dump
    from troubleshooter_nb.errors import PathNotFoundError
    from troubleshooter_nb.formats.missing_path import not_there

    path = Path(asked.file)
    if not asked.file or not path.exists():
        raise PathNotFoundError(not_there(path))
    page = asked.output or f"{path.absolute().stem or 'root'}.html"
    is_notebook = path.suffix.lower() == ".ipynb" and path.is_file()
    writers = {".html": _write_notebook} if is_notebook else {}
    inputs = (asked.file,)
    outputs = planned([page], Dump, force=asked.force, inputs=inputs, writers=writers)
    say(outputs.write(path if is_notebook else _shown(path)))
    return exit_codes.PASSED


def _shown(path: Path) -> Any:
    """What the page is of."""
    from troubleshooter_nb.cli.inputs import opened
    from troubleshooter_nb.errors import UnknownFormatError
    from troubleshooter_nb.saved_comparison import open_comparison

    if path.suffix.lower() == ".nc":
        return open_comparison(path)
    try:
        return opened(str(path))
    except UnknownFormatError:
        if path.suffix.lower() != ".json":
            raise
    return open_comparison(path)


def _write_notebook(path: Path, page: Path) -> None:
    """An executed notebook as one page."""
    from troubleshooter_nb.cli.outputs import write_whole
    from troubleshooter_nb.errors import FormatError
    from troubleshooter_nb.messages import Foreign
    from troubleshooter_nb.templates.page import check_pages, page_of

    check_pages()
    import nbformat

    try:
        notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    except (ValueError, KeyError, AttributeError, nbformat.ValidationError) as error:
        problem = Foreign(str(error)[:200])
        raise FormatError(Message("files.in_file", file=path.name, what=problem)) from None
    write_whole(page, page_of(notebook, name=path.name).encode())
