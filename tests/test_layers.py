"""The layers and the framework fence, read from the source; docs/architecture.md shows them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import troubleshooter_nb

pytestmark = pytest.mark.once

PACKAGE = Path(troubleshooter_nb.__file__).parent
NAME = "troubleshooter_nb"

# Lowest first. A unit - a module or folder at the top of the package - imports only from rows
# above its own, so units in one row do not import each other.
ROWS = [
    # layer 0, standard library only: the numbers that decide, the causes, what all others say
    ["thresholds", "version"],
    ["catalogue"],
    ["messages"],
    ["errors"],  # which all others raise
    ["collector", "gaps", "naming", "options", "ranges", "shapes", "table", "tables", "undo"],
    ["metrics"],  # layer 1
    ["columns", "edges"],  # columns, whose meanings name the verdicts
    ["render", "frameworks"],  # render asks metrics which of two dtypes is the coarser
    ["run_card"],  # layer 2, ordered
    ["dump", "transforms"],
    ["pairing", "weight_map"],
    ["findings", "verification"],
    ["comparison"],
    ["checkpoint_diff"],
    ["formats"],  # layer 3
    ["analysis"],  # layer 4
    ["capture", "convert"],  # layer 5
    ["replaying", "recorder_file"],
    ["widgets", "report", "saved_comparison", "templates"],  # layer 6
    ["compat", "first_steps"],  # layer 7
    ["cli"],  # which also answers the old commands
    ["__main__", "__init__"],  # __main__ starts cli
]
RANK = {unit: rank for rank, row in enumerate(ROWS) for unit in row}
STANDARD_LIBRARY_ONLY = {"collector", "errors", "gaps", "messages", "options", "tables", "undo"}
STANDARD_LIBRARY_ONLY |= {"catalogue", "thresholds", "version"}
# cli is the room whose files import inside functions as a rule: its help does not wait for xarray.
# At the top of a verb stands what a command line that is only read, refused or explained needs.
LIGHT_UNITS = {"catalogue", "cli", "collector", "errors", "messages", "options", "render"}
LIGHT_UNITS |= {"version"}
# Each framework is imported by the files that are called after it, and by nothing else.
FENCE = {"torch": "frameworks/torch_*.py", "mindspore": "frameworks/mindspore_*.py"}


def imported_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything a file imports, also inside functions.

    `from a import b` gives `a.b`: b may be a module. A relative import starts with a dot.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node.lineno, "." * node.level + f"{node.module or ''}.{alias.name}"
        elif isinstance(node, ast.Call) and node.args:
            function = node.func
            name = getattr(function, "attr", None) or getattr(function, "id", None)
            argument = node.args[0]
            if name in ("import_module", "__import__") and isinstance(argument, ast.Constant):
                yield node.lineno, str(argument.value)


def unit_of(name: str) -> str:
    """The unit a dotted name of our package belongs to; `__init__` for the facade itself."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in RANK else "__init__"


def complaint(unit: str, file: Path, name: str) -> str | None:
    """What is wrong with one import, or None."""
    root = name.split(".")[0]
    if name.startswith("."):
        return "relative import"
    if root in FENCE and not file.match(FENCE[root]):
        return f"only {FENCE[root]} may import {root}"
    if root == NAME:
        target = unit_of(name)
        if target != unit and RANK[target] >= RANK[unit]:
            return f"{unit} lies below or beside {target}"
    elif unit in STANDARD_LIBRARY_ONLY and root not in sys.stdlib_module_names:
        return f"{unit} uses the standard library only"
    return None


def violations(package: Path) -> list[str]:
    """Every import in a package folder that breaks the table, as `file:line: reason`."""
    found = []
    for path in sorted(package.rglob("*.py")):
        file = path.relative_to(package)
        unit = file.parts[0].removesuffix(".py")
        if unit not in RANK:
            found.append(f"{file}: {unit} is no unit of the layer table")
            continue
        for line, name in imported_names(ast.parse(path.read_text(encoding="utf-8"))):
            reason = complaint(unit, file, name)
            if reason:
                found.append(f"{file}:{line}: {reason} ({name})")
    return found


def test_the_package_keeps_its_layers():
    assert violations(PACKAGE) == []


def test_the_command_line_imports_at_the_top_what_is_light():
    verbs = sorted(path for path in (PACKAGE / "cli").glob("*.py"))
    from_top = {
        (path.stem, unit_of(str(node.module)))
        for path in verbs
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(NAME)
    }
    heavy = {"answer", "inputs", "outputs", "records", "summary"}  # which verbs import as they run
    assert {unit for stem, unit in from_top if stem not in heavy} <= LIGHT_UNITS


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("dump.py", "from troubleshooter_nb.naming import Site"),
        ("dump.py", "from troubleshooter_nb import run_card, render"),
        ("comparison.py", "import troubleshooter_nb.weight_map"),
        ("render/html.py", "from troubleshooter_nb.render.words import WORDS"),
        ("options.py", "import contextvars\nfrom troubleshooter_nb.errors import OptionError"),
        ("frameworks/torch_.py", "import torch.nn as nn"),
        ("frameworks/mindspore_.py", "from mindspore import ops"),
        ("frameworks/torch_recording.py", "import torch"),
        ("frameworks/__init__.py", "import_module('troubleshooter_nb.frameworks.torch_')"),
        ("__main__.py", "from troubleshooter_nb.cli import main"),
        ("__init__.py", "from troubleshooter_nb.report import export"),
        ("metrics/noise.py", "import sys\nloaded = sys.modules.get('torch')"),
    ],
)
def test_the_checker_accepts(tmp_path, file, source):
    assert violations(package_with(tmp_path, file, source)) == []


@pytest.mark.parametrize(
    ("file", "source", "reason"),
    [
        ("dump.py", "from troubleshooter_nb.pairing import Pairing", "below or beside pairing"),
        ("pairing.py", "import troubleshooter_nb.weight_map", "below or beside weight_map"),
        ("dump.py", "def f():\n    from troubleshooter_nb import formats", "beside formats"),
        ("metrics/a.py", "from troubleshooter_nb.render.words import x", "beside render"),
        ("render/a.py", "import troubleshooter_nb.frameworks", "beside frameworks"),
        ("formats/a.py", "importlib.import_module('troubleshooter_nb.analysis')", "analysis"),
        ("capture/a.py", "from troubleshooter_nb.convert import draft", "below or beside convert"),
        ("cli.py", "import troubleshooter_nb as tnb", "below or beside __init__"),
        ("compat/a.py", "from troubleshooter_nb.cli.main import main", "below or beside cli"),
        ("compat/a.py", "from troubleshooter_nb import compare", "below or beside __init__"),
        ("dump.py", "from . import naming", "relative import"),
        ("formats/a.py", "from ..naming import Site", "relative import"),
        ("options.py", "import numpy", "standard library only"),
        ("formats/ckpt.py", "import mindspore", "only frameworks/mindspore_"),
        ("capture/a.py", "def f():\n    import torch.nn as nn", "only frameworks/torch_"),
        ("capture/a.py", "from torch import nn", "only frameworks/torch_"),
        ("formats/a.py", "importlib.import_module('torch.nn')", "only frameworks/torch_"),
        ("formats/a.py", "__import__('mindspore')", "only frameworks/mindspore_"),
        ("frameworks/torch_.py", "import mindspore", "only frameworks/mindspore_"),
        ("helpers.py", "", "helpers is no unit"),
        ("common/a.py", "", "common is no unit"),
    ],
)
def test_the_checker_refuses(tmp_path, file, source, reason):
    found = violations(package_with(tmp_path, file, source))
    assert len(found) == 1
    assert reason in found[0]


def package_with(folder: Path, file: str, source: str) -> Path:
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    return folder


def test_no_threshold_is_set_twice():
    tree = ast.parse((PACKAGE / "thresholds.py").read_text(encoding="utf-8"))
    names = [
        name.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        for name in ast.walk(target)
        if isinstance(name, ast.Name)
    ]
    assert sorted({name for name in names if names.count(name) > 1}) == []
