"""What a user may import: the facade lists it, documents it and hides no module behind it."""

from __future__ import annotations

import ast
import importlib
import inspect
import types
from pathlib import Path

import pytest

import troubleshooter_nb

PACKAGE = Path(troubleshooter_nb.__file__).parent
SOURCE = (PACKAGE / "__init__.py").read_text(encoding="utf-8")
PUBLIC = [name for name in troubleshooter_nb.__all__ if name != "__version__"]


def bodies(source: str) -> list[str]:
    """Top-level statements of a facade that are not imports, docstring, names or their finding."""
    statements = ast.parse(source).body
    if statements and isinstance(statements[0], ast.Expr):
        statements = statements[1:]  # the docstring
    return [ast.unparse(node) for node in statements if not belongs(node)]


def belongs(node: ast.stmt) -> bool:
    """Whether a statement is what a facade that loads lazily consists of."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.Assign):
        names = ("__all__", "__version__", "_HOMES", "_MODULE_OF")
        return ast.unparse(node.targets[0]) in names
    if not isinstance(node, ast.If):
        return False
    # For type checkers the imports, for Python what finds the same names.
    if ast.unparse(node.test) == "typing.TYPE_CHECKING":
        return all(isinstance(one, ast.ImportFrom) for one in node.body) and not node.orelse
    names = {getattr(one, "name", "") for one in node.body}
    is_finding = ast.unparse(node.test) == "not typing.TYPE_CHECKING"
    return is_finding and names == {"__getattr__", "__dir__"}


def homes(source: str) -> dict[str, str]:
    """Name -> module, of the imports that type checkers see."""
    checked = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
    return {
        alias.asname or alias.name: str(node.module)
        for node in checked[0].body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def first_docstring_line(thing: object) -> str:
    """First line of an object's own docstring; empty for the signature a dataclass makes up."""
    lines = (thing.__doc__ or "").strip().splitlines()
    made_up = isinstance(thing, type) and lines and lines[0].startswith(f"{thing.__name__}(")
    return lines[0] if lines and not made_up else ""


def test_all_equals_what_is_importable():
    found = homes(SOURCE)
    assert set(PUBLIC) == set(found)
    assert len(PUBLIC) == len(set(PUBLIC))
    for name, module in found.items():
        thing = getattr(troubleshooter_nb, name)
        assert thing is getattr(importlib.import_module(module), name), name


def test_nothing_else_is_public():
    loaded = {
        name
        for name, value in vars(troubleshooter_nb).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    } - {"annotations"}  # from __future__
    assert loaded <= set(PUBLIC)
    assert set(PUBLIC) <= set(dir(troubleshooter_nb))


def test_python_finds_a_name_where_type_checkers_do():
    given = {
        name: f"troubleshooter_nb{module}"
        for module, names in troubleshooter_nb._HOMES.items()
        for name in names.split()
    }
    assert given == homes(SOURCE)


def test_a_module_of_the_package_is_there_when_it_is_asked_for():
    assert troubleshooter_nb.comparison.SCHEMA == "troubleshooter_nb.comparison/1"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        troubleshooter_nb.nothing  # noqa: B018
    assert not hasattr(troubleshooter_nb, "__wrapped__")


def test_the_facade_holds_imports_only():
    assert bodies(SOURCE) == []


@pytest.mark.parametrize(
    "body",
    [
        "def f(): pass",
        "x = 1",
        "for i in range(3): pass",
        "if typing.TYPE_CHECKING:\n    x = 1",
        "if not typing.TYPE_CHECKING:\n    def f(): pass",
    ],
)
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
