"""The templates in Chinese: all of their prose, and nothing else of them."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter

import nbformat
import pytest

from tests.messages.rules import CHINESE, english_in
from tests.notebooks.checks import CHAPTERS, chapters
from tests.test_notebooks import problems
from troubleshooter_nb.templates.parameters import parameters_of, tagged
from troubleshooter_nb.templates.shipped import KEY, templates
from troubleshooter_nb.templates.translated import in_language, language_of

TEMPLATES = templates()
CHINESE_CHAPTERS = ("两侧是否可比？", "结论", "依据", "怎么办", "运行信息")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`[^`]+`")
# Of a line, what it is in Markdown.
MARKS = re.compile(r"^(#+ |- |\| |\d+\. )", re.MULTILINE)
# Strong text that ends with punctuation and goes on with a letter is not strong in Markdown.
NOT_STRONG = re.compile(r"\*\*[^*\n]*\W\*\*\w|\w\*\*\W[^*\n]*\*\*")
STRONG = re.compile(r"\*\*[^*\n]+\*\*")
SLANTED = re.compile(r"(?<!\*)\*\w+\*(?!\*)")


def both(name):
    """A template in English and in Chinese, cell by cell."""
    notebook = nbformat.read(TEMPLATES[name].path, as_version=4)
    languages = [in_language(notebook, language).cells for language in ("en", "zh")]
    return [*zip(*languages, strict=True)]


def without_code(source):
    return SPAN.sub("", FENCED.sub("", source))


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_cell_of_prose_has_the_same_parts_in_chinese(name):
    for english, chinese in both(name):
        if english.cell_type != "markdown":
            continue
        en, zh = english.source, chinese.source
        assert CHINESE.search(without_code(zh)), en
        for parts in (FENCED, MARKS):
            assert parts.findall(zh) == parts.findall(en), zh
        spans = [Counter(SPAN.findall(FENCED.sub("", one))) for one in (en, zh)]
        # A span that a line of English breaks is one of two words.
        assert spans[1] == spans[0], zh


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_chinese_is_chinese(name):
    for english, chinese in both(name):
        if english.cell_type != "markdown":
            continue
        prose = without_code(chinese.source)
        assert english_in(prose) == ""
        strong = STRONG.finditer(chinese.source)
        around = [chinese.source[max(0, one.start() - 1) : one.end() + 1] for one in strong]
        assert not [one for one in around if NOT_STRONG.search(one)]
        assert "*" not in STRONG.sub("", SLANTED.sub("", prose)), prose
        assert not re.search(r"[\u4e00-\u9fff] ?[,;:?!()]|[,;:?!(] ?[\u4e00-\u9fff]", prose), prose
        # A line break within a paragraph would be shown as a space.
        lines = zip(prose.splitlines(), prose.splitlines()[1:], strict=False)
        assert not [one for one, two in lines if one and two and not MARKS.match(two)], prose


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_form_is_the_same_but_for_its_language(name):
    ((english, chinese),) = [cells for cells in both(name) if "tags" in cells[0].metadata][:1]
    trees = []
    for cell in (english, chinese):
        trees.append({ast.unparse(one) for one in ast.parse(cell.source).body})
    assert trees[0] ^ trees[1] == {"language = 'en'", "language = 'zh'"}
    form = {"cells": [chinese]}
    assert [*parameters_of(form)] == [*parameters_of({"cells": [english]})]
    for one in parameters_of(form).values():
        assert one.name == "language" or CHINESE.search(one.comment), one


@pytest.mark.parametrize("name", TEMPLATES)
def test_no_other_code_has_two_versions(name):
    notebook = nbformat.read(TEMPLATES[name].path, as_version=4)
    form = notebook.cells[tagged(notebook.cells, "parameters")]
    for cell in notebook.cells:
        is_read = cell.cell_type == "markdown" or cell is form
        assert [*cell.metadata.get(KEY, {})] == (["zh"] if is_read else []), cell.source


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_in_either_language_is_one_that_could_be_stored(name):
    stored = nbformat.read(TEMPLATES[name].path, as_version=4)
    for language, expected in (("en", CHAPTERS), ("zh", CHINESE_CHAPTERS)):
        notebook = in_language(stored, language)
        assert problems(notebook) == []
        assert chapters(notebook) == [*expected]
        assert not any(KEY in cell.metadata for cell in notebook.cells)
        heading = notebook.cells[0].source.partition("\n")[0]
        assert heading == f"# {TEMPLATES[name].titles[language]}"


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_english_is_what_is_stored(name):
    stored = json.loads(TEMPLATES[name].path.read_text(encoding="utf-8"))
    before = json.dumps(stored)
    english = in_language(stored, "en")
    sources = [[cell["source"] for cell in one["cells"]] for one in (stored, english)]
    assert sources[0] == sources[1]
    assert json.dumps(stored) == before
    assert english["metadata"] == stored["metadata"]


def test_a_notebook_without_translations_stays_as_it_is():
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": "# A"},
        {"cell_type": "markdown", "metadata": {KEY: {"en": ["# ", "B"]}}, "source": "# B"},
        {"cell_type": "markdown", "metadata": {KEY: {"zh": "# 丙"}}, "source": "# C"},
        {"cell_type": "code", "metadata": {KEY: "mine"}, "source": ["a\n", "b"]},
    ]
    found = in_language({"cells": cells}, "zh")["cells"]
    assert [cell["source"] for cell in found] == ["# A", "# B", "# 丙", ["a\n", "b"]]
    assert [cell["metadata"] for cell in found] == [{}, {}, {}, {KEY: "mine"}]
    assert in_language({}, "zh") == {}


@pytest.mark.parametrize(
    ("form", "values", "expected"),
    [
        ('language = "en"', {}, "en"),
        ('language = "zh"', {}, "zh"),
        ('language = "zh"', {"language": "en"}, "en"),
        ('language = "en"', {"language": "zh"}, "zh"),
        ("rtol = 1", {}, "en"),
        ("language = other", {}, "en"),
        ("%matplotlib inline\nlanguage = 'zh'", {}, "en"),
        (None, {"language": None}, "None"),
    ],
)
def test_a_notebook_reads_in_the_language_that_it_answers_in(form, values, expected):
    tags = ["parameters"] if form else []
    cell = {"cell_type": "code", "metadata": {"tags": tags}, "source": form or ""}
    assert language_of({"cells": [cell]}, values) == expected
