"""The parameters of a notebook, as papermill has them: a cell of defaults, another of values."""

from __future__ import annotations

import ast
import io
import math
import re
import tokenize
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming.closeness import closest

FORM, FILLED_IN = "parameters", "injected-parameters"
_WORDS = {"True": True, "true": True, "False": False, "false": False}
# Not `none`: that is a word, also one of the faults that the examples take.
_WORDS |= dict.fromkeys(("None", "null"))  # type: ignore[arg-type]
# Of a cell that is no Python, for a magic perhaps.
_ASSIGNED = re.compile(r"^([A-Za-z_]\w*)\s*(?::[^=]+)?=(?!=)", re.MULTILINE)


@dataclass(frozen=True)
class Parameter:
    """A name that a notebook takes a value for.

    Attributes
    ----------
    default : str
        As the cell has it.
    comment : str
        What the cell says of it, behind the value or in the lines above.
    """

    name: str
    default: str
    comment: str = ""


def tagged(cells: Sequence[Mapping[str, Any]], tag: str) -> int | None:
    """Place of the first code cell with a tag."""
    for place, cell in enumerate(cells):
        if cell.get("cell_type") == "code" and tag in cell.get("metadata", {}).get("tags", ()):
            return place
    return None


def parameters_of(notebook: Mapping[str, Any]) -> dict[str, Parameter] | None:
    """The parameters by name, in their order; None where no cell is tagged ``parameters``."""
    cells = notebook.get("cells", ())
    place = tagged(cells, FORM)
    if place is None:
        return None
    return {one.name: one for one in _assigned("".join(cells[place].get("source", "")))}


def check_names(notebook: Mapping[str, Any], names: Iterable[str], *, file: str) -> None:
    """Raise ArgumentError for a name that a notebook has no parameter of.

    Parameters
    ----------
    notebook : mapping
    names : iterable of str
    file : str
        What the notebook is called.
    """
    known = parameters_of(notebook)
    for name in names:
        if known is None:
            raise ArgumentError(Message("notebooks.no_form", file=file))
        if name not in known:
            said = {"file": file, "name": name, "closest": closest(name, known)}
            raise ArgumentError(Message("notebooks.no_parameter", **said, known=[*known]))


def _assigned(source: str) -> list[Parameter]:
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return [Parameter(name, "") for name in _ASSIGNED.findall(source)]
    comments = _comments(source)
    found = []
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        for target in targets:
            if isinstance(target, ast.Name) and isinstance(value, ast.expr):
                said = comments.get(node.end_lineno or 0) or _above(comments, node.lineno)
                default = ast.get_source_segment(source, value) or ""
                found.append(Parameter(target.id, default, said))
    return found


def _comments(source: str) -> dict[int, str]:
    """The comment of each line that has one; negative, of a line that has nothing else."""
    found = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            alone = not token.line[: token.start[1]].strip()
            found[token.start[0] * (-1 if alone else 1)] = token.string.lstrip("# ")
    return found


def _above(comments: Mapping[int, str], line: int) -> str:
    """The lines of comment that end above a line."""
    said: list[str] = []
    while -(line - 1) in comments:
        line -= 1
        said.insert(0, comments[-line])
    return " ".join(said)


def value_of(text: str) -> Any:
    """What the words of a command line stand for, by papermill's rules, and lists as in yaml.

    ``3``, ``1e-3``, ``True``, ``true``, ``None`` are what they look like, so is ``[0, 2]`` or
    ``{a: 1}``; what is quoted within, and all else, is text.

    Raises
    ------
    ArgumentError
        For a list or mapping that does not end, or holds something else.
    """
    if text in _WORDS:
        return _WORDS[text]
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return _of_yaml(text) if text[:1] in ("[", "{") else text


def _of_yaml(text: str) -> Any:
    import yaml

    try:
        return _of_node(yaml.compose(text, Loader=yaml.SafeLoader))
    except (yaml.YAMLError, TypeError, RecursionError):
        raise ArgumentError(Message("notebooks.no_list", value=repr(text))) from None


def _of_node(node: Any) -> Any:
    import yaml

    if isinstance(node, yaml.SequenceNode):
        return [_of_node(one) for one in node.value]
    if isinstance(node, yaml.MappingNode):
        return {_of_node(key): _of_node(one) for key, one in node.value}
    # Within quotes a number is text; nothing at all is none.
    return node.value if node.style else value_of(node.value) if node.value else None


def source_of(values: Mapping[str, Any]) -> str:
    """The cell that sets parameters to values."""
    return "\n".join(
        ["# Parameters", *(f"{name} = {_literal(one)}" for name, one in values.items())]
    )


def _literal(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, dict):
        inner = ", ".join(f"{_literal(key)}: {_literal(one)}" for key, one in value.items())
        return f"{{{inner}}}"
    return repr(value)
