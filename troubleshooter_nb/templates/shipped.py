"""The templates that come with the package, and the networks of their examples.

They lie in ``notebooks/`` of the repository; the build puts a copy of that folder beside this file
(``hatch_build.py``). What a template is called and is for stands in its own metadata.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from troubleshooter_nb.errors import ArgumentError, MissingFileError
from troubleshooter_nb.messages import Language, Message

# Key of what a notebook says of itself, in its metadata and in that of an output.
KEY = "troubleshooter_nb"
EXAMPLES = "example_nets"
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Template:
    """A notebook to be filled in.

    Attributes
    ----------
    path : Path
    titles, about : mapping of str to str
        By language, what it is called and which question it answers; Chinese may be missing from
        a notebook of the user's own.
    needs : tuple of str
        Frameworks without which its example cannot be made; own data need none.
    writes : tuple of str
        Parameters that name a file which the notebook writes.
    """

    path: Path
    titles: Mapping[Language, str]
    about: Mapping[Language, str]
    needs: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """By which the command line knows it: that of the file, without suffix."""
        return self.path.stem


def folder() -> Path:
    """Where templates and examples are: beside this file, or in the repository around it.

    Raises
    ------
    MissingFileError
        If they are in neither place, as of a package that was not built as it should be.
    """
    for place in (_HERE / "notebooks", _HERE.parents[1] / "notebooks"):
        if (place / EXAMPLES / "__init__.py").is_file():
            return place
    raise MissingFileError(Message("notebooks.not_installed"))


def templates() -> dict[str, Template]:
    """All templates by name, in the order of the alphabet."""
    found = {}
    for path in sorted(folder().glob("[!.]*.ipynb")):
        try:
            notebook = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            continue
        if is_template(notebook):
            found[path.stem] = describe(path, notebook)
    return found


def is_template(notebook: Any) -> bool:
    """Whether a notebook says what it is for, and was not executed: records may lie beside."""
    try:
        is_said = bool(notebook["metadata"][KEY]["about"])
        return is_said and not any(cell.get("outputs") for cell in notebook["cells"])
    except (KeyError, TypeError, AttributeError):
        return False


def describe(path: Path, notebook: Mapping[str, Any]) -> Template:
    """What a notebook says of itself: in its metadata, and in the heading of its first cell."""
    said = notebook.get("metadata", {}).get(KEY, {})
    said = said if isinstance(said, Mapping) else {}
    cells = notebook.get("cells") or [{}]
    first = "".join(cells[0].get("source", "")).partition("\n")[0]
    title = first.removeprefix("# ") if first.startswith("# ") else path.stem
    return Template(
        path,
        {"en": title, **_texts(said.get("title"))},
        _texts(said.get("about")),
        _names(said.get("example_needs")),
        _names(said.get("writes")),
    )


def _texts(value: Any) -> dict[str, str]:
    """Texts by language, of a notebook that may say anything."""
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, Mapping) else {}


def _names(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list | tuple) else ()


def use_example_nets(*given: object) -> ModuleType | None:
    """Make ``import example_nets`` work: the networks that the examples of the templates run.

    A template calls it where it makes its example, so that a copy of it runs in any folder.

    Parameters
    ----------
    *given : object
        What the parameters of a template hold, such as two paths: its example is made where none
        of them is filled in.

    Returns
    -------
    module or None
        ``example_nets``, whose folder was put at the end of `sys.path`. None where all of `given`
        are filled in: then no example is wanted.

    Raises
    ------
    ArgumentError
        If some of `given` are filled in and some are not.
    MissingFileError
        If this installation lacks the networks.
    """
    if any(given):
        if not all(given):
            raise ArgumentError(Message("arguments.all_or_none_given"))
        return None
    place = folder()
    if str(place) not in sys.path:
        sys.path.append(str(place))
    return import_module("example_nets")
