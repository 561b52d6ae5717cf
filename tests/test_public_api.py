"""What a user may import: the facade lists it, documents it and hides no module behind it."""

from __future__ import annotations

import ast
import inspect
import types
from pathlib import Path

import pytest

import troubleshooter_nb

PACKAGE = Path(troubleshooter_nb.__file__).parent
PUBLIC = [name for name in troubleshooter_nb.__all__ if name != "__version__"]


def bodies(source: str) -> list[str]:
    """Top-level statements of a facade that are not imports, docstring, __all__ or __version__."""
    statements = ast.parse(source).body
    if statements and isinstance(statements[0], ast.Expr):
        statements = statements[1:]  # the docstring
    return [
        ast.unparse(node)
        for node in statements
        if not isinstance(node, ast.Import | ast.ImportFrom)
        and not (
            isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) in ("__all__", "__version__")
        )
    ]


def first_docstring_line(thing: object) -> str:
    """First line of an object's own docstring; empty for the signature a dataclass makes up."""
    lines = (thing.__doc__ or "").strip().splitlines()
    made_up = isinstance(thing, type) and lines and lines[0].startswith(f"{thing.__name__}(")
    return lines[0] if lines and not made_up else ""


def test_all_equals_what_is_importable():
    importable = {
        name
        for name, value in vars(troubleshooter_nb).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    } - {"annotations"}  # from __future__
    assert set(PUBLIC) == importable
    assert len(PUBLIC) == len(set(PUBLIC))


def test_the_facade_holds_imports_only():
    assert bodies((PACKAGE / "__init__.py").read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("body", ["def f(): pass", "x = 1", "for i in range(3): pass"])
def test_a_body_in_the_facade_is_found(body):
    assert bodies(f'"""Doc."""\nimport os\n__all__ = ["os"]\n{body}') != []


def test_no_facade_name_hides_a_module():
    modules = {path.stem for path in PACKAGE.iterdir() if path.suffix in ("", ".py")}
    assert modules & set(PUBLIC) == set()


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_documented(name):
    thing = getattr(troubleshooter_nb, name)
    if inspect.isclass(thing) or inspect.isroutine(thing):
        line = first_docstring_line(thing)
        assert line.endswith("."), f"{name}: the docstring starts with {line!r}, not a sentence"
