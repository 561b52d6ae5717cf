"""A notebook in one of the languages that its cells carry.

What a cell reads in another language than English stands in its own metadata, as lines, the way
that notebooks store sources. Of the cell of parameters these are its comments, and the language.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from troubleshooter_nb.messages import Language
from troubleshooter_nb.templates.parameters import parameters_of
from troubleshooter_nb.templates.shipped import KEY


def in_language(notebook: Mapping[str, Any], language: Language) -> Any:
    """A copy of a notebook that reads in a language, and carries no other.

    Parameters
    ----------
    notebook : mapping
        As its file has it, or as nbformat reads it; it is left as it is.
    language : str
        A cell that does not carry it stays as it is.

    Returns
    -------
    mapping
        Of the same type.
    """
    copy = deepcopy(notebook)
    for cell in copy.get("cells", ()):
        carried = cell.get("metadata", {}).get(KEY)
        if not isinstance(carried, Mapping):
            continue
        del cell["metadata"][KEY]
        if lines := carried.get(language):
            is_text = isinstance(cell["source"], str)
            cell["source"] = "".join(lines) if is_text else list(lines)
    return copy


def language_of(notebook: Mapping[str, Any], values: Mapping[str, Any]) -> Language:
    """The language that a notebook answers in: of these values, else by the default of its form.

    "en" where neither names any.
    """
    if "language" in values:
        return str(values["language"])
    form = parameters_of(notebook) or {}
    try:
        return str(ast.literal_eval(form["language"].default))
    except (KeyError, ValueError, SyntaxError):
        return "en"
