"""What the explorer's page says of rows that are no plain pairs, in JupyterLab."""

from __future__ import annotations

import pytest

pytest.importorskip("playwright")
pytest.importorskip("jupyter_client")
pytest.importorskip("anywidget")

from playwright.sync_api import expect

from tests.browser import harness, scenes

pytestmark = [pytest.mark.browser, pytest.mark.notebook]

_IMPORTS = f"""
import sys; sys.path.insert(0, {scenes.PACKAGE!r})
import dataclasses, numpy as np, troubleshooter_nb as tnb
from troubleshooter_nb.dump import Dump, Entry
from troubleshooter_nb.naming import Site
"""
_SHOW = """
explorer = tnb.explore(shown)
explorer
"""
_PAIRS = """
left = {"alone": np.full((3, 4), 7.0), "equal": np.ones((2, 2)), "shape": np.full((9, 12), 2.0)}
right = {"equal": np.ones((2, 2)), "shape": np.full((9, 10), -5.0)}
left["far"], right["far"] = np.zeros((2, 2)), np.full((2, 2), 16.0)
shown = tnb.compare(left, right)
origin = np.where(shown.result["left"] == "far", "", shown.result["origin"]).astype(object)
shown = dataclasses.replace(shown, result=shown.result.assign(origin=("pair", origin)))
"""
_ENTRIES = """
statistics = dict(min=0.0, max=1.0, mean=0.5, l2=2.0, nan_count=0, inf_count=0, zero_count=1)
shape = (2, 2)
known = {
    "read": dict(statistics=statistics, dtype="int64", shape=shape),
    "torn": dict(reason="cut short", dtype="float32", shape=shape),
    "later": dict(dtype="float32", shape=shape),
}
shown = Dump.from_entries([
    Entry(name, Site("module", name, 0, "forward", "output", ""), None, order=order, **facts)
    for order, (name, facts) in enumerate(known.items())
])
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "notebooks").mkdir()
    return tmp_path / "notebooks"


def opened_row(element, name):
    element.locator(f'.tnb-open[title="{name}"]').click()
    expect(element.locator(".tnb-panel h4")).to_contain_text(name)
    return element.locator(".tnb-panel")


def test_pairs_that_cannot_be_compared_are_drawn_one_side_at_a_time(root):
    with harness.jupyter(root) as server, harness.browser_page() as page:
        server.write("x.ipynb", [_IMPORTS + _PAIRS + _SHOW])
        with harness.opened(server, page, "x.ipynb", "lab") as notebook:
            notebook.run_all()
            element = scenes.explorer_of(page)
            # What neither created nor carried a difference has a mark and words of its own.
            far = element.locator("tbody tr", has_text="far")
            expect(far.get_by_role("gridcell", name="without effect")).to_have_count(1)
            expect(element.locator("figcaption")).to_contain_text("× created here")
            expect(element.locator("figcaption")).to_contain_text("+ differs, without effect")
            panel = opened_row(element, "shape")
            readout = panel.locator(".tnb-readout")
            expect(readout).to_contain_text("value 2")
            panel.get_by_role("button", name="right alone").click()
            expect(readout).to_contain_text("value -5")
            expect(panel.get_by_role("button", name="right alone")).to_be_focused()
            # Zooming asks for the side that is shown.
            panel.locator(".tnb-map canvas").click()
            expect(panel.locator("td.tnb-here")).to_have_text("-5")
            notebook.screenshot("explorer_one_side", panel)
            panel = opened_row(element, "alone")
            expect(panel.locator(".tnb-sentence").first).to_contain_text("There is no partner")
            expect(panel.locator(".tnb-readout")).to_contain_text("value 7")
            # Nothing differs: no table of headings alone, and no click that would do nothing.
            panel = opened_row(element, "equal")
            expect(panel.locator("caption", has_text="Worst elements")).to_have_count(0)
            expect(panel.get_by_text("no finite error")).to_have_count(2)
            expect(panel.locator(".tnb-map")).not_to_contain_text("zoom in")
            # A bar says what lies in it, a figure what the result calls it.
            panel = opened_row(element, "far")
            expect(panel.locator("i[title='1.6e1 to 3.2e1: 4']")).to_have_count(1)
            expect(panel.locator("th[title='allclose_ratio']")).to_have_text("in tol.")
            expect(far.locator(".tnb-c-allclose_ratio")).to_have_text("0.00%")


@pytest.mark.long
def test_unread_entries_have_a_mark_of_their_own_and_hidden_filters_are_said(root):
    with harness.jupyter(root) as server, harness.browser_page() as page:
        server.write("x.ipynb", [_IMPORTS + _ENTRIES + _SHOW])
        with harness.opened(server, page, "x.ipynb", "lab") as notebook:
            notebook.run_all()
            element = scenes.explorer_of(page)
            expect(element.locator("figcaption")).to_contain_text("□ unreadable or not read")
            others = element.locator(".tnb-others")
            expect(others.locator("button")).to_have_count(0)
            notebook.ask(done="explorer.show(dtype='int64', verdict=['nan', 'unreadable'])")
            # The page has a control for one of the two verdicts.
            expect(others.get_by_text("dtype: int64")).to_have_count(1)
            expect(others.get_by_text("health: NaN ×", exact=True)).to_have_count(1)
            notebook.screenshot("explorer_filters", element)
            element.locator(".tnb-clear").click()
            expect(others.locator("button")).to_have_count(0)


@pytest.mark.long
def test_no_filter_is_blamed_where_there_are_no_rows(root):
    with harness.jupyter(root) as server, harness.browser_page() as page:
        server.write("x.ipynb", [_IMPORTS + "shown = tnb.compare({}, {})" + _SHOW])
        with harness.opened(server, page, "x.ipynb", "lab") as notebook:
            notebook.run_all()
            expect(page.locator(".tnb-empty")).to_have_text(
                "there are no rows: nothing was recorded or compared", timeout=60_000
            )
