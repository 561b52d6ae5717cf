"""The explorer in JupyterLab, Notebook 7 and nbclassic: what one does there is known in Python."""

from __future__ import annotations

import ast

import pytest

pytest.importorskip("playwright")
pytest.importorskip("jupyter_client")
pytest.importorskip("anywidget")

from playwright.sync_api import expect

from tests.browser import harness, scenes

pytestmark = [pytest.mark.browser, pytest.mark.notebook]


@pytest.fixture
def root(tmp_path):
    (tmp_path / "notebooks").mkdir()
    return tmp_path / "notebooks"


def started(notebook):
    """The explorer's element once its rows are there."""
    notebook.run_all()
    return scenes.explorer_of(notebook.page)


def told(element):
    """Wait until the kernel knows what was done and has answered what was asked."""
    element.page.wait_for_function(
        "e => e.parentElement.dataset.untold === '0' && e.dataset.pending === '0'",
        arg=element.element_handle(),
    )


def known(notebook, **expressions):
    return {name: ast.literal_eval(text) for name, text in notebook.ask(**expressions).items()}


def names_shown(element):
    return element.locator(".tnb-open").all_inner_texts()


@pytest.mark.parametrize(
    "front_end",
    [
        one if one == "lab" else pytest.param(one, marks=pytest.mark.long)
        for one in harness.FRONT_ENDS
    ],
)
def test_with_the_mouse_one_filters_sorts_opens_zooms_and_selects(root, front_end):
    if reason := harness.missing(front_end):
        pytest.skip(reason)
    with harness.jupyter(root) as server, harness.browser_page() as page:
        server.write("x.ipynb", [scenes.explorer_cell()])
        with harness.opened(server, page, "x.ipynb", front_end) as notebook:
            element = started(notebook)
            # From here on: Notebook 7 has a fault of its own while it starts.
            errors = []
            page.on("pageerror", lambda error: errors.append(str(error)))
            # Role, step and rank together leave what Python finds as well.
            rows = "[int(r) for r in np.flatnonzero({})]".format(
                " & ".join(
                    f"(cmp.result['{name}'].values == {value!r})"
                    for name, value in {"role": "output", "step": 2, "rank": 1}.items()
                )
            )
            for name, value in (("role", '"output"'), ("step", "2"), ("rank", "1")):
                label = element.locator("label", has_text=name)
                label.locator("select").select_option(value)
            told(element)
            answer = known(notebook, shown="explorer.shown", rows=rows)
            assert answer["shown"] == answer["rows"] != []
            assert element.locator("tbody tr[aria-rowindex]").count() == len(answer["rows"])
            element.locator(".tnb-clear").click()
            # Filter by verdict, sort by size: Python knows the same rows in the same order.
            element.locator(".tnb-chip", has_text="differs").click()
            element.get_by_role("columnheader", name="max").locator("button").click()
            told(element)
            names = "[str(n) for n in cmp.result['left_display'].values[explorer.shown]]"
            largest = "cmp.result['max_abs_error'].values[explorer.shown].tolist()"
            answer = known(
                notebook, shown="explorer.shown", names=names, largest=f"repr({largest})"
            )
            sizes = [float(size) for size in answer["largest"][1:-1].split(",")]
            measured = [size for size in sizes if size == size]
            assert measured == sorted(measured, reverse=True)
            assert len(measured) == len(sizes) - 1  # the recorded one has no figure
            assert names_shown(element) == answer["names"][: len(names_shown(element))]
            assert element.locator("table[role=grid]").get_attribute("aria-rowcount") == str(
                len(answer["shown"]) + 1
            )
            assert (
                element.locator(".tnb-count")
                .inner_text()
                .startswith(f"{len(answer['shown'])} of 40")
            )
            # Open the largest: the planted element is the first of the worst.
            assert answer["names"][0].startswith("big")
            element.locator(".tnb-open").first.click()
            element.locator(".tnb-map canvas").wait_for()
            assert element.locator(".tnb-link").first.inner_text() == "[100, 200]"
            # The tile that holds it, then the values around it.
            canvas = element.locator(".tnb-map canvas")
            box = canvas.bounding_box()
            at = {"x": box["width"] * 200.5 / 768, "y": box["height"] * 100.5 / 512}
            canvas.click(position=at)
            told(element)
            assert "columns 198:204" in element.locator(".tnb-map .tnb-small").inner_text()
            element.locator(".tnb-link").first.click()
            told(element)
            assert "[100, 200]" in element.locator(".tnb-readout").inner_text()
            values = known(notebook, v="[f'{float(cmp[\"big\"].left[100, 200]):.6g}']")["v"]
            assert values[0] in element.locator("td.tnb-here").inner_text()
            notebook.screenshot(f"explorer_{front_end}")
            # Select two rows; the brush filters.
            boxes = element.locator("tbody input[type=checkbox]")
            boxes.nth(0).click()
            boxes.nth(1).click()
            told(element)
            answer = known(
                notebook,
                selected="list(explorer.selected)",
                shown="explorer.shown",
                size="len(explorer.value)",
            )
            assert answer["selected"] == sorted(answer["shown"][:2])
            assert answer["size"] == 2
            element.locator(".tnb-clear").click()
            chart = element.locator(".tnb-chart canvas")
            chart.scroll_into_view_if_needed()
            box = chart.bounding_box()
            page.mouse.move(box["x"] + 46, box["y"] + 60)
            page.mouse.down()
            page.mouse.move(box["x"] + 46 + (box["width"] - 60) * 9 / 39, box["y"] + 60)
            page.mouse.up()
            told(element)
            assert sorted(known(notebook, shown="explorer.shown")["shown"]) == list(range(10))
            # What Python sets is shown.
            notebook.ask(done="explorer.show(between=None, text='conv', verdict=None)")
            page.wait_for_function(
                "e => e.querySelector('.tnb-count').textContent.startsWith('1 of')",
                arg=element.element_handle(),
            )
            assert element.locator(".tnb-search").input_value() == "conv"
            assert names_shown(element) == ["conv output"]
            # A slice of an N-d tensor, that of the worst element.
            element.locator(".tnb-open").click()
            element.locator(".tnb-slices select").select_option("slice")
            told(element)
            assert "[1, 2, 0, 0]" in element.locator(".tnb-readout").inner_text()
            notebook.screenshot(f"explorer_slice_{front_end}", element.locator(".tnb-panel"))
            # What holds no values says so; a hostile name is a text.
            element.locator(".tnb-search").fill("recorded")
            element.locator(".tnb-open").click()
            element.locator(".tnb-panel .tnb-sentence").wait_for()
            assert "Only statistics" in element.locator(".tnb-panel .tnb-sentence").inner_text()
            element.locator(".tnb-search").fill("onerror")
            assert names_shown(element)[0].startswith("<img src=x onerror=window.hurt=1>")
            element.locator(".tnb-open").click()
            told(element)
            assert page.evaluate("window.hurt") is None
            assert errors == []


@pytest.mark.long
def test_with_the_keyboard_alone_one_finds_opens_and_selects(root):
    with harness.jupyter(root) as server, harness.browser_page() as page:
        server.write("x.ipynb", [scenes.explorer_cell()])
        with harness.opened(server, page, "x.ipynb") as notebook:
            element = started(notebook)
            element.locator(".tnb-search").focus()
            page.keyboard.type("attn")
            page.keyboard.press("ArrowDown")
            for _ in range(3):
                page.keyboard.press("ArrowDown")
            page.keyboard.press("Space")
            told(element)
            answer = known(notebook, selected="list(explorer.selected)", shown="explorer.shown")
            assert answer["selected"] == [answer["shown"][3]]
            page.keyboard.press("End")
            page.keyboard.press("Enter")
            element.locator(".tnb-map canvas").wait_for()
            number = element.locator(".tnb-panel h4").inner_text()
            assert f"#{answer['shown'][-1]} " in number
            page.keyboard.press("Escape")
            element.locator(".tnb-map").wait_for(state="detached")
            focused = page.evaluate("document.activeElement.getAttribute('aria-rowindex')")
            assert focused == str(len(answer["shown"]) + 1)
            # The heat map has keys of its own.
            page.keyboard.press("/")
            page.keyboard.type("big")
            page.keyboard.press("ArrowDown")
            page.keyboard.press("Enter")
            element.locator(".tnb-map canvas").wait_for()
            element.locator(".tnb-map canvas").focus()
            page.keyboard.press("ArrowRight")
            page.keyboard.press("Enter")
            told(element)
            assert "columns 6:12" in element.locator(".tnb-map .tnb-small").inner_text()
            page.keyboard.press("Backspace")
            assert "columns 6:12" in element.locator(".tnb-readout").inner_text()
            # What Python selects moves nothing.
            page.keyboard.press("/")
            page.keyboard.press("Escape")
            told(element)
            scroller = element.locator(".tnb-scroller")
            scroller.evaluate("e => { e.scrollTop = 240; }")
            notebook.ask(done="setattr(explorer, 'selected', (1, 2))")
            element.locator(".tnb-count", has_text="2 selected").wait_for()
            assert scroller.evaluate("e => e.scrollTop") == 240
            # Only saving is meant for the notebook, wherever the focus is.
            dirty = "() => window.jupyterapp.shell.currentWidget.context.model.dirty"
            assert page.evaluate(dirty)
            page.keyboard.press("Control+s")
            page.wait_for_function(f"() => !({dirty})()")
            # No key reached the notebook: the cell is there and was not run again.
            assert known(notebook, count="len(In) - 1")["count"] == 1
            assert page.locator(".jp-Cell").count() == 1


EXACT = """
import numpy as np, troubleshooter_nb as tnb
left = {"ints": np.array([[2**53 + 1, -5]]), "complex": np.array([[1 + 0j, 2j]])}
right = {"ints": np.array([[2**53 + 3, -5]]), "complex": np.array([[-1j, 2j]])}
explorer = tnb.explore(tnb.compare(left, right))
explorer
"""


@pytest.mark.long
def test_single_values_are_exact_and_a_double_click_is_one_step(root):
    with harness.jupyter(root) as server, harness.browser_page() as page:
        server.write("e.ipynb", [EXACT])
        with harness.opened(server, page, "e.ipynb") as notebook:
            element = started(notebook)
            readings = {
                "ints": "left 9007199254740993 · right 9007199254740995 · |Δ| 2",
                "complex": "left 1+0j · right 0-1j · |Δ| 1.4e0",
            }
            for name, reading in readings.items():
                element.locator(".tnb-search").fill(name)
                element.locator(".tnb-open").click()
                told(element)
                assert reading in element.locator(".tnb-readout").inner_text()
                here = element.locator("td.tnb-here").inner_text()
                assert here.split() == [reading.split()[1], reading.split()[4]]
            notebook.screenshot("explorer_exact", element)
            notebook.close()
        server.write("x.ipynb", [scenes.explorer_cell()])
        with harness.opened(server, page, "x.ipynb") as notebook:
            element = started(notebook)
            element.locator(".tnb-search").fill("big")
            element.locator(".tnb-open").click()
            element.locator(".tnb-map canvas").wait_for()
            element.locator(".tnb-map canvas").dblclick(position={"x": 5, "y": 5})
            told(element)
            out = element.locator(".tnb-map .tnb-line button").first
            for _ in range(2):  # a second click that comes late is a step of its own
                if out.is_enabled():
                    before = element.locator(".tnb-map .tnb-small").inner_text()
                    out.click()
                    assert element.locator(".tnb-map .tnb-small").inner_text() != before
            assert out.is_disabled()
            # Several steps that Python chose are one more choice of the page.
            element.locator(".tnb-search").fill("")
            told(element)
            notebook.ask(done="explorer.show(step=[0, 2], text=None)")
            steps = element.locator("label", has_text="step").locator("select")
            expect(steps.locator("option:checked")).to_have_text("0, 2")
            steps.select_option("1")
            told(element)
            assert known(notebook, where="explorer.view.where['step']") == {"where": [1]}
            assert "0, 2" not in steps.locator("option").all_inner_texts()
            refused = notebook.ask(done="explorer.show(role='bogus')")["done"]
            assert refused.startswith("OptionError: there is no role 'bogus'; known: ")


def test_ten_thousand_rows_stay_fluid_and_out_of_the_file(root):
    with harness.jupyter(root) as server, harness.browser_page() as page:
        scenes.check(scenes.play(server, page, scenes.EXPLORER, rounds=1))


@pytest.mark.long
@pytest.mark.parametrize("state", [True, False])
def test_a_saved_notebook_opens_with_the_record_and_a_sentence(root, state):
    with harness.jupyter(root, widget_state=state) as server, harness.browser_page() as page:
        server.write("x.ipynb", [scenes.explorer_cell()])
        with harness.opened(server, page, "x.ipynb") as notebook:
            started(notebook)
            notebook.save()
            notebook.close()
        with harness.opened(server, page, "x.ipynb"):
            record = page.locator("details", has_text="static record")
            record.locator("summary").first.click()
            assert "First difference" in record.inner_text()
            if state:
                said = harness.reopened(page, ".tnb-hint")
                assert "run the cell again" in said or said == harness.NOT_RESTORED
            page.get_by_text("No table above this line? Run the cell again.").wait_for()
        # A colleague's machine has not signed it: no widget, but the sentence and the record.
        text = (root / "x.ipynb").read_text().replace("import sys;", "import sys ;")
        (root / "theirs.ipynb").write_text(text)
        with harness.opened(server, page, "theirs.ipynb"):
            record = page.locator("details", has_text="static record")
            record.locator("summary").first.click()
            assert "First difference" in record.inner_text()
            assert page.locator(".tnb-explorer").count() == 0
            assert "running kernel" in page.locator(".jp-OutputArea").first.inner_text()


@pytest.mark.long
@pytest.mark.parametrize("dark", [False, True])
def test_words_can_be_read_in_both_themes(root, dark):
    with harness.jupyter(root, dark=dark) as server, harness.browser_page(dark=dark) as page:
        server.write("x.ipynb", [scenes.explorer_cell()])
        with harness.opened(server, page, "x.ipynb") as notebook:
            element = started(notebook)
            element.locator(".tnb-search").fill("big")
            element.locator(".tnb-open").click()
            element.locator(".tnb-map canvas").wait_for()
            told(element)
            assert harness.unnamed(element) == []
            element.locator(".tnb-search").fill("in no name")
            assert element.locator(".tnb-open").count() == 0
            assert harness.unnamed(element) == []
            element.locator(".tnb-clear").click()
            notebook.screenshot(f"explorer_{'dark' if dark else 'light'}", element)
            for part in (".tnb-title", "tbody td.tnb-ok", ".tnb-open", "thead button", ".tnb-keys"):
                palest = harness.palest(element.locator(part).first)
                assert palest[0] >= harness.READABLE, palest
