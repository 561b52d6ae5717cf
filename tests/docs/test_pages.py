"""Pages that repeat what the package says are as it says it."""

from __future__ import annotations

import ast
import importlib.util
import re

import pytest

from tests.docs.pages import PAGES, ROOT, needs_of, steps_of
from troubleshooter_nb.columns.pairs import PAIR_FIGURES
from troubleshooter_nb.metrics.floats import dtype_from_token, unit_roundoff
from troubleshooter_nb.metrics.noise import noise_bound
from troubleshooter_nb.metrics.verdict import TRUTH_TABLE, Tolerance

pytestmark = pytest.mark.once

DOCS = ROOT / "docs"
_SPEC = importlib.util.spec_from_file_location("write_pages", DOCS / "write_pages.py")
write_pages = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(write_pages)


@pytest.mark.parametrize("page", write_pages.PAGES)
def test_pages_made_of_the_package_are_up_to_date(page):
    made = write_pages.PAGES[page]()
    assert (DOCS / page).read_text(encoding="utf-8") == made, (
        f"docs/{page} is stale: run python docs/write_pages.py"
    )


def test_the_page_of_figures_has_every_figure_and_verdict():
    text = (DOCS / "figures.md").read_text(encoding="utf-8")
    formulas = text.partition("## Formulas")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(\w+)`", formulas)) >= set(PAIR_FIGURES)
    verdicts = text.partition("\n## Verdicts")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(\w+)`", verdicts)) >= set(TRUTH_TABLE)


def test_the_page_of_figures_has_the_numbers_of_the_tolerance_and_of_rounding():
    text = (DOCS / "figures.md").read_text(encoding="utf-8")
    tolerance = Tolerance()
    assert f"both are {tolerance.rtol:.0e}".replace("e-0", "e-") in text
    assert tolerance.rtol == tolerance.atol
    for name, said in (("float32", "9.8e-6"), ("float16", "9.9e-4"), ("bfloat16", "7.8e-3")):
        dtype = dtype_from_token(name)
        assert f"{noise_bound(dtype, dtype).rel_l2:.1e}".replace("e-0", "e-") == said
        assert f"{said} of {name}" in text
    assert [
        unit_roundoff(dtype_from_token(name)) for name in ("float32", "float16", "bfloat16")
    ] == [
        2.0**-24,
        2.0**-11,
        2.0**-8,
    ]


def test_marks_that_pages_need_exist():
    known = {"torch", "mindspore", "notebook", "extra"}
    for page in PAGES:
        assert set(needs_of(page.read_text(encoding="utf-8"))) <= known


@pytest.mark.parametrize("page", sorted((DOCS / "zh").glob("*.md")), ids=lambda page: page.name)
def test_chinese_pages_show_the_code_of_the_english_ones(page):
    wanted = code_of(DOCS / page.name)
    for code in code_of(page):
        assert code in wanted, f"only in docs/zh/{page.name}:\n{code}"


def code_of(page):
    """The blocks of a page without comments, which are in its language, and the choice of it."""
    found = []
    for step in steps_of(page.read_text(encoding="utf-8")):
        if step.kind == "python":
            tree = ast.parse(step.code)
            tree.body = [one for one in tree.body if "set_options(language" not in ast.unparse(one)]
            found.append(ast.unparse(tree))
        elif step.kind == "sh":
            lines = (line.partition(" #")[0].split() for line in step.code.splitlines())
            kept = (" ".join(words).replace(" --language zh", "") for words in lines)
            found.append("\n".join(kept))
    return found
