"""An executed notebook as one page."""

from __future__ import annotations

from typing import Any

from troubleshooter_nb.errors import FormatError, check_extra
from troubleshooter_nb.messages import Foreign, Message

# nbconvert's page, which has one theme, in that of the reader; on paper it is the light one.
_PAGE = """
{%- extends 'lab/index.html.j2' -%}
{%- block html_head -%}
<meta name="color-scheme" content="light dark">
{{ super() }}
{%- endblock html_head -%}
{%- block notebook_css -%}
{{ super() }}
{{ resources.include_css("static/theme-dark.css") | replace("<style", "<style media='DARK'", 1) }}
{%- endblock notebook_css -%}
{%- block body_header -%}
<body class="jp-Notebook">
<main>
{%- endblock body_header -%}
""".replace("DARK", "screen and (prefers-color-scheme: dark)")


def check_pages() -> None:
    """Raise ExtraMissingError where what makes a page of a notebook is not installed."""
    check_extra("nbconvert", Message("command.no_nbconvert"))


def page_of(notebook: Any, *, name: str) -> str:
    """The text of a page that needs no other file of ours and follows the reader's theme.

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
        exporter = nbconvert.HTMLExporter(raw_template=_PAGE)  # type: ignore[no-untyped-call]
        resources = {"metadata": {"name": name}}
        text, _ = exporter.from_notebook_node(notebook, resources=resources)
    except (ValueError, KeyError, AttributeError, nbformat.ValidationError) as error:
        problem = Foreign(str(error)[:200])
        raise FormatError(Message("files.in_file", file=name, what=problem)) from None
    return str(text)
