"""Every promise of docs/promises.md names a test that is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
PROMISES = re.findall(r"^\| (?!promise |---)(.+) \| (.+) \|$", PAGE, flags=re.MULTILINE)


@pytest.mark.parametrize(("promise", "held_by"), PROMISES)
def test_a_promise_names_tests_that_are_there(promise, held_by):
    tests = re.findall(r"`((?:tests|benchmarks)/[\w/]+\.py)(?:::(\w+))?`", held_by)
    assert tests
    for file, name in tests:
        text = (ROOT / file).read_text(encoding="utf-8")
        assert f"def {name}(" in text if name else text


def test_the_page_has_promises():
    assert len(PROMISES) > 5
