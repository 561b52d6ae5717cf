"""Statements for Python 3.9, and modules cut down to what is needed."""

from __future__ import annotations

import ast

import pytest

from troubleshooter_nb.recorder_file.lowering import lowered
from troubleshooter_nb.recorder_file.statements import Needs, text_of


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("list(zip(a, b, strict=True))", "list(zip(a, b))"),
        ("zip(*parts, strict=False)", "zip(*parts)"),
        ("zip(a, zip(b, c, strict=True), strict=True)", "zip(a, zip(b, c))"),
        ("zip(\n    a,\n    b,  # of é\n    strict=True,\n)", "zip(\n    a,\n    b,\n)"),
        ("@dataclass(slots=True)\nclass A: ...", "@dataclass()\nclass A: ..."),
        ("@dataclass(slots=True, eq=False)\nclass A: ...", "@dataclass(eq=False)\nclass A: ..."),
        (
            "@dataclass(frozen=True, slots=True)\nclass A: ...",
            "@dataclass(frozen=True)\nclass A: ...",
        ),
        ("isinstance(x, int | None)", "isinstance(x, (int, type(None)))"),
        ("isinstance(f(x), a.B | C | list)", "isinstance(f(x), (a.B, C, list))"),
        ("made(**values)", "made(**values)"),
        ("f'{é}', isinstance(é, A | B)", "f'{é}', isinstance(é, (A, B))"),
        ("x = a | b", "x = a | b"),
    ],
)
def test_a_statement_for_an_old_python(written, wanted):
    found = lowered(written)
    assert found == wanted
    ast.parse(found, feature_version=(3, 9))


FILES = {
    "__init__.py": "",
    "numbers.py": (
        "LARGE = 1  # unused\n"
        "# Of what is used.\n"
        "SMALL = 2\n"
        "TABLE = {}\n"
        "for key in (SMALL,):\n"
        "    TABLE[key] = key\n"
    ),
    "words/__init__.py": "from troubleshooter_nb.words.short import say, shout\n",
    "words/short.py": (
        "from __future__ import annotations\n"
        "import os\nimport sys\n"
        "from troubleshooter_nb import numbers\n"
        "from troubleshooter_nb.numbers import LARGE as MOST, TABLE\n\n"
        "def say(x: MOST) -> sys.intern:\n    return _made(x)\n\n"
        "def _made(x):\n    return os.fspath(x) + str(numbers.SMALL)\n\n"
        "def shout():\n    return MOST\n"
    ),
    "front.py": (
        "from troubleshooter_nb.words import say\n"
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import pandas\n\n"
        "def main():\n"
        "    from troubleshooter_nb.shown import page\n\n"
        "    return say('a'), page\n"
    ),
    "shown.py": "import pandas\npage = pandas\n",
}


@pytest.fixture
def package(tmp_path):
    for name, text in FILES.items():
        file = tmp_path / "troubleshooter_nb" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "troubleshooter_nb"


def test_only_what_is_needed_is_kept(package):
    needs = Needs(package, ["shown"], [])
    needs.follow([("front", "main")])
    texts = {name: text_of(kept, str) for name, kept in needs.kept.items() if name}
    assert sorted(texts) == ["front", "numbers", "words", "words.short"]
    assert "LARGE" not in texts["numbers"]
    assert "# Of what is used.\nSMALL = 2" in texts["numbers"]
    assert "TABLE" not in texts["numbers"]
    assert "from ..words.short import say\n" in texts["words"]
    short = texts["words.short"]
    assert "import os" in short
    assert "import sys" not in short
    assert "MOST, TABLE" not in short
    assert "def shout" not in short
    assert "from .. import numbers" in short
    assert "    from .shown import page" in texts["front"]
    assert "pandas" not in needs.outside


def test_what_changes_a_name_is_kept_with_it(package):
    needs = Needs(package, [], [])
    needs.follow([("numbers", "TABLE")])
    names = {}
    exec(text_of(needs.kept["numbers"], str), names)
    assert names["TABLE"] == {2: 2}


def test_what_is_left_out_and_needed_all_the_same_is_refused(package):
    with pytest.raises(ImportError, match="page of shown, which is left out, is needed"):
        Needs(package, ["shown"], []).follow([("shown", "page")])
    with pytest.raises(ImportError, match="words has no whisper"):
        Needs(package, [], []).follow([("words", "whisper")])
