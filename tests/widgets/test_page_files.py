"""The files of a page: what joining them gives, and what they may say."""

from __future__ import annotations

import re

import pytest

from troubleshooter_nb.widgets.page_files import PAGE, script

FILES = sorted(path.name for path in PAGE.glob("*.js"))
# What defines a name at the top of a file, which all files of a script share.
DEFINED = re.compile(
    r"^(?:async )?(?:function|class|let|const) (?:(\w+)|[\[{](.*?)[\]}])", re.MULTILINE
)


@pytest.fixture(params=["explorer.js", "mapping_editor.js"])
def joined(request) -> str:
    return script(request.param)


def test_every_file_is_in_the_script_of_a_widget():
    both = script("explorer.js") + script("mapping_editor.js")
    first = [(PAGE / name).read_text("utf-8").splitlines()[0] for name in FILES]
    assert len(set(first)) == len(FILES) > 10
    assert [line for line in first if line not in both.splitlines()] == []


def test_a_script_imports_nothing_and_exports_its_widget_alone(joined):
    assert not re.search(r"\bimport\b", re.sub(r"//.*|/\*.*?\*/", "", joined, flags=re.DOTALL))
    assert re.findall(r"^export .*", joined, re.MULTILINE) == ["export default { render };"]


def test_no_name_of_a_script_is_defined_twice(joined):
    names = [
        name
        for one, several in DEFINED.findall(joined)
        for name in re.findall(r"\w+", one or several)
    ]
    assert len(names) > 30
    assert sorted(set(names)) == sorted(names)


def test_a_file_stands_after_all_that_it_imports(joined):
    assert joined.index("function make(") < joined.index("class VirtualList")
    assert joined.index("class VirtualList") < joined.index("function render(")
    assert joined.count("function make(") == 1


def test_a_page_never_writes_html(joined):
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "http"):
        assert word not in joined
