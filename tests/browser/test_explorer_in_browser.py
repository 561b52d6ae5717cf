"""The explorer in JupyterLab, Notebook 7 and nbclassic: what one does there is known in Python."""

from __future__ import annotations

import ast
import base64
import re

import numpy as np
import pytest

pytest.importorskip("playwright")
pytest.importorskip("jupyter_client")
pytest.importorskip("anywidget")

from playwright.sync_api import expect

import troubleshooter_nb as tnb
from tests.browser import harness, scenes
from troubleshooter_nb.dump import Dump, Entry
from troubleshooter_nb.formats import as_dump
from troubleshooter_nb.naming import Site
from troubleshooter_nb.widgets.explorer import Explorer

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
            values = known(notebook, v='[str(np.float32(cmp["big"].left[100, 200]))]')["v"]
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
            # It starts at the worst value of the slice.
            reading = element.locator(".tnb-readout").inner_text()
            assert re.match(r"\[1, 2, \d+, 7\]", reading)
            notebook.screenshot(f"explorer_slice_{front_end}", element.locator(".tnb-panel"))
            # What holds no values says so; a hostile name is a text.
            element.locator(".tnb-search").fill("recorded")
            element.locator(".tnb-open").click()
            element.locator(".tnb-panel .tnb-sentence").wait_for()
            assert "Only statistics" in element.locator(".tnb-panel .tnb-sentence").inner_text()
            element.locator(".tnb-search").fill("onerror")
            hostile = "<img src=x onerror=window.hurt=1>"
            assert names_shown(element)[0][0] == "<"  # shortened where there is little room
            assert element.locator(".tnb-open").get_attribute("title").startswith(hostile)
            element.locator(".tnb-open").click()
            expect(element.locator(".tnb-panel h4")).to_contain_text(hostile)
            told(element)
            assert page.evaluate("window.hurt") is None
            assert errors == []


@pytest.mark.parametrize(
    "front_end",
    [
        one if one == "notebook7" else pytest.param(one, marks=pytest.mark.long)
        for one in harness.FRONT_ENDS
    ],
)
def test_keys_pressed_in_the_table_are_not_the_notebooks(root, front_end):
    if reason := harness.missing(front_end):
        pytest.skip(reason)
    with harness.jupyter(root) as server, harness.browser_page() as page:
        server.write("x.ipynb", ["first = 1", scenes.explorer_cell(), "last = 1"])
        with harness.opened(server, page, "x.ipynb", front_end) as notebook:
            element = started(notebook)
            cells = page.locator(".jp-CodeCell, .code_cell")
            # In command mode these delete, insert, run and choose cells.
            ours = ["d", "d", "a", "b", "x", "y", "m", "ArrowUp", "ArrowDown"]
            element.locator("tbody tr[aria-rowindex] td:nth-child(2)").nth(7).click()
            for key in [*ours, "ArrowDown", "Space", "Enter", "Shift+Enter"]:
                page.keyboard.press(key)
            element.locator(".tnb-map canvas").wait_for()
            told(element)
            at = "document.activeElement.getAttribute('aria-rowindex')"
            assert page.evaluate(at) == "10"
            assert known(notebook, selected="list(explorer.selected)")["selected"] == [7, 8]
            # Whatever can have the focus, and all it is made of.
            bare = "e => [...e.querySelectorAll(':not([data-lm-suppress-shortcuts])')].length"
            assert element.evaluate(bare) == 0
            for part in (".tnb-map canvas", ".tnb-close", ".tnb-chip", ".tnb-filters select"):
                element.locator(part).first.focus()
                for key in ours:
                    page.keyboard.press(key)
            told(element)
            assert cells.count() == 3
            assert element.is_visible()
            # None of them was run again, and saving is the notebook's.
            assert known(notebook, count="len(In) - 1")["count"] == 3
            with page.expect_response(lambda reply: reply.request.method == "PUT") as saved:
                page.keyboard.press("Control+s")
            assert saved.value.ok


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
            # It starts at the tile with the largest error, [100, 200].
            element.locator(".tnb-map canvas").focus()
            page.keyboard.press("ArrowRight")
            page.keyboard.press("Enter")
            told(element)
            assert "columns 204:210" in element.locator(".tnb-map .tnb-small").inner_text()
            page.keyboard.press("Backspace")
            assert "columns 204:210" in element.locator(".tnb-readout").inner_text()
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


RENAMED = """
import numpy as np, troubleshooter_nb as tnb
from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.naming import Site

def side(label, path, off):
    entries = []
    for i in range(24):
        for part in ("q_proj", "v_proj"):
            for role in ("input", "output"):
                site = Site("module", f"{path}.{part}".format(i), 0, "forward", role, "0")
                value = np.ones((6, 7), "f4") * np.float32(1 + off * (i > 4))
                source = ArrayInMemory(value)
                entries.append(Entry(f"{label}{len(entries)}", site, source, order=len(entries)))
    return Dump.from_entries(entries, label=label)
left = side("A", "backbone.layers.{}.attention", 1e-3)
right = side("B", "model.layers.{}.self_attn", 0)
explorer = tnb.explore(tnb.compare(left, right, pairing=tnb.pair_dumps(left, right)))
explorer
"""


@pytest.mark.long
@pytest.mark.parametrize("width", [800, 1280, 1920])
def test_two_names_of_a_row_tell_it_from_the_others_at_every_width(root, width):
    with harness.jupyter(root) as server, harness.browser_page(width=width) as page:
        server.write("x.ipynb", [RENAMED])
        with harness.opened(server, page, "x.ipynb") as notebook:
            element = started(notebook)
            element.locator(".tnb-search").fill("layers.1")
            told(element)
            shown = ["".join(text.split("\n")) for text in names_shown(element)]
            assert len(set(shown)) == len(shown) > 10
            # Nothing is cut off by the edge of its cell.
            cut = "all => all.filter(e => e.scrollWidth > e.clientWidth).length"
            assert element.locator(".tnb-open, .tnb-end").evaluate_all(cut) == 0
            # Words become letters where there is little room; numbers and the end stay.
            first = (
                r"backbone\.layers\.1\.attention\.q_proj input 0 → "
                r"model\.layers\.1\.self_attn\.q_proj input 0"
                if width > 1800
                else r"b\w*\.l\w*\.1\.a\w*\.q_proj → m\w*\.l\w*\.1\.s\w*\.q_proj input 0"
            )
            assert re.fullmatch(first, re.sub(" +", " ", shown[0]))
            notebook.screenshot(f"explorer_names_{width}", element)


SIZES = """
import numpy as np, troubleshooter_nb as tnb
rng = np.random.default_rng(0)
left = {f"m.{i}.w": rng.normal(size=(8, 9)).astype("f4") for i in range(60)}
right = {name: a + np.float32(10.0 ** (i % 5 - 8)) for i, (name, a) in enumerate(left.items())}
right["m.7.w"][0, 0] = 3.4e38  # overflows
right["m.9.w"] = left["m.9.w"]  # no error at all
right["m.11.w"][1, 1] = np.nan
right["m.20.w"] = left["m.20.w"] + 1
right["m.21.w"] = np.ones((3, 3), "f4")  # nothing can be measured
explorer = tnb.explore(tnb.compare(left, right))
explorer
"""
NO_SIZES = """
from troubleshooter_nb.formats import as_dump
arrays = {"a": np.zeros((3, 3)), "b": np.zeros(4), "c": np.full(3, np.nan)}
none = tnb.explore(as_dump(arrays, "grads").summarise())
none
"""


@pytest.mark.long
def test_one_overflow_leaves_the_other_sizes_apart_and_an_opened_row_is_seen(root):
    with harness.jupyter(root) as server, harness.browser_page(height=700) as page:
        server.write("x.ipynb", [SIZES, NO_SIZES])
        with harness.opened(server, page, "x.ipynb") as notebook:
            notebook.run_all()
            element, other = (page.locator(".tnb-explorer").nth(k) for k in range(2))
            other.locator("tbody tr[aria-rowindex]").first.wait_for()
            element.locator("tbody tr[aria-rowindex]").first.wait_for()
            chart = element.locator(".tnb-chart canvas").get_attribute("aria-label")
            assert chart.endswith("axis 1e-8 to 1e1; above it 1, below or 0 1, not measured 1")
            assert "^ above the axis" in element.locator("figcaption").inner_text()
            notebook.screenshot("explorer_sizes", element)
            # A row that is opened far above is seen and heard; the focus stays on it.
            element.locator(".tnb-search").fill("m.20.")
            page.keyboard.press("ArrowDown")
            head = element.locator(".tnb-panel-head")
            page.keyboard.press("Enter")
            element.locator(".tnb-map canvas").wait_for()
            told(element)
            expect(head).to_be_in_viewport(ratio=1)
            expect(element.locator(".tnb-map canvas")).to_be_in_viewport()
            assert page.evaluate("document.activeElement.className").startswith("tnb-current")
            said = element.locator(".tnb-spoken").text_content()
            assert said.endswith("#20 m.20.w, differs, max |Δ| 1.0e0")
            # A button that has nothing more to do keeps the focus.
            out = element.locator(".tnb-map .tnb-line button").first
            element.locator(".tnb-map canvas").focus()
            page.keyboard.press("Enter")
            told(element)
            out.focus()
            for _ in range(2):
                page.keyboard.press("Enter")
                assert page.evaluate("document.activeElement.textContent") == "Zoom out"
            assert out.get_attribute("aria-disabled") == "true"
            # What has no size says so; the table is as high as its rows, also while one filters.
            expect(other.locator(".tnb-chart .tnb-sentence")).to_contain_text("all zero 2, NaN 1")
            height = "e => e.querySelector('.tnb-scroller').offsetHeight"
            before = other.evaluate(height)
            assert before < 5 * 24 + 10
            other.locator(".tnb-search").fill("in no name")
            assert other.evaluate(height) == before


EXACT = """
import numpy as np, troubleshooter_nb as tnb
left = {"ints": np.array([[2**53 + 1, -5]]), "complex": np.array([[1 + 0j, 2j]])}
left |= {name: np.array([[1 / 3, 2.0]], name) for name in ("f2", "f4", "f8")}
right = {"ints": np.array([[2**53 + 3, -5]]), "complex": np.array([[0 - 1j, 2j]])}
right |= {name: np.array([[1e-7, 2.0]], name) for name in ("f2", "f4", "f8")}
right["f2"][0, 0] = 1024.4
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
                # As numpy prints them in their own dtypes, and no digit more.
                "f2": "left 0.3333 · right 1024 · |Δ| 1.0e3",
                "f4": "left 0.33333334 · right 1e-7 · |Δ| 3.3e-1",
                "f8": "left 0.3333333333333333 · right 1e-7 · |Δ| 3.3e-1",
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
                if out.get_attribute("aria-disabled") == "false":
                    before = element.locator(".tnb-map .tnb-small").inner_text()
                    out.click()
                    assert element.locator(".tnb-map .tnb-small").inner_text() != before
            assert out.get_attribute("aria-disabled") == "true"
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


_SHOW = """async ([script, style, dark]) => {
  const [css, el] = ["style", "div"].map((tag) => document.createElement(tag));
  css.textContent = style;
  document.body.replaceChildren(css, el);
  document.body.dataset.jpThemeLight = String(!dark);
  const url = URL.createObjectURL(new Blob([script], {type: "text/javascript"}));
  const {default: widget} = await import(url);
  window.asked = [];
  const model = {get: () => "", on: (_, hear) => { window.hear = hear; }, off() {},
                 send: (question) => window.asked.push(question)};
  widget.render({model, el});
}"""
_HEAR = """([message, buffers]) => window.hear(message, buffers.map((text) =>
  new DataView(Uint8Array.from(atob(text), (one) => one.charCodeAt(0)).buffer)))"""


class Alone:
    """An explorer and its page without a notebook: the kernel answers when a test says so."""

    def __init__(self, page, shown, *, dark=False):
        self.page, self.explorer, self.sent = page, Explorer(shown), []
        self.explorer.send = lambda content, buffers=(): self.sent.append((content, buffers))
        code = [str(self.explorer._esm), str(self.explorer._css)]
        page.evaluate(_SHOW, [*code, dark])
        self.root = page.locator(".tnb-explorer")
        self.answer()

    def deliver(self):
        """What the kernel sent so far reaches the page."""
        while self.sent:
            content, buffers = self.sent.pop(0)
            packed = [base64.b64encode(one).decode() for one in buffers or ()]
            self.page.evaluate(_HEAR, [content, packed])

    def answer(self):
        """The kernel answers all questions, also those that come of the answers."""
        self.deliver()
        asked = []
        while questions := self.page.evaluate("window.asked.splice(0)"):
            asked += questions
            for question in questions:
                self.explorer._heard(self.explorer, question, None)
            self.deliver()
        return asked

    def at(self, selector, **more):
        return self.root.locator(selector, **more)

    def search(self, text):
        self.at(".tnb-search").fill(text)
        self.answer()

    def open(self, name):
        self.search(name)
        self.at(".tnb-open").first.click()
        self.answer()


def compared(**changed):
    """A comparison of 31 small weights and of some others, each given as left and right."""
    rng = np.random.default_rng(0)
    same = {f"layers.{i}.weight": rng.normal(size=(4, 5)).astype("f4") for i in range(31)}
    return tnb.compare(
        {**same, **{name: sides[0] for name, sides in changed.items()}},
        {**same, **{name: sides[1] for name, sides in changed.items()}},
    )


@pytest.fixture(scope="class")
def browser():
    with harness.browser_page() as first:
        yield first.context.browser


@pytest.fixture
def page(browser):
    with browser.new_page() as page:
        errors = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        yield page
        assert errors == []


class TestWithoutANotebook:
    """What needs no front end: one browser for all, a page for each."""

    def test_what_is_typed_holds_and_both_sides_end_equal(self, page):
        alone = Alone(page, compared())
        explorer, search = alone.explorer, alone.at(".tnb-search")

        def both():
            count = alone.at(".tnb-count").inner_text()
            return search.input_value(), count, explorer.view.text, explorer.selected

        # Python's filter comes to the kernel before the one that is typed, its selection stays.
        search.click()
        page.keyboard.type("layers.25.")
        explorer.show(text="layers.1")
        explorer.selected = (1, 2)
        alone.deliver()
        assert search.input_value() == "layers.25."
        assert alone.at(".tnb-count").inner_text() == "1 of 31 shown, 2 selected"
        alone.answer()
        assert both() == ("layers.25.", "1 of 31 shown, 2 selected", "layers.25.", (1, 2))
        # A selection in the midst of typing.
        search.fill("")
        for letter in "layers.3":
            page.keyboard.type(letter)
            explorer.selected = (len(search.input_value()),)
            alone.deliver()
        alone.answer()
        assert both() == ("layers.3", "2 of 31 shown, 1 selected", "layers.3", (8,))
        # Python's filter comes there last.
        page.keyboard.type("0")
        alone.answer()
        explorer.show(text="layers.9")
        alone.answer()
        assert both() == ("layers.9", "1 of 31 shown, 1 selected", "layers.9", (8,))
        # What came of it there otherwise is what the page shows.
        explorer.observe(lambda _: explorer.show(text="layers.2"), "view")
        search.fill("layers")
        alone.answer()
        assert both()[:3] == ("layers.2", "11 of 31 shown, 1 selected", "layers.2")

    def test_a_heat_map_starts_at_the_worst_and_keeps_window_and_slice(self, page):
        rng = np.random.default_rng(0)
        deep = rng.normal(size=(3, 40, 20, 30))
        other = deep.copy()
        other[1, 2, 13, 14] += 1
        big = rng.normal(size=(600, 700))
        alone = Alone(page, compared(deep=(deep, other), big=(big, big * 1)), dark=True)
        alone.open("deep")
        reading, window = alone.at(".tnb-readout"), alone.at(".tnb-map .tnb-small")
        assert reading.inner_text().endswith("max |Δ| 1.0e0")
        # On dark paper the largest is light.
        pixel = """canvas => { const at = canvas.getContext("2d").getImageData(0, 0, canvas.width,
          canvas.height).data; let most = 0;
          for (let i = 0; i < at.length; i += 4)
            if (at[i + 3] === 255 && at[i] !== at[i + 2]) most = Math.max(most, at[i + 1]);
          return most; }"""
        assert alone.at(".tnb-map canvas").evaluate(pixel) > 200
        alone.at(".tnb-slices select").select_option("slice")
        alone.answer()
        assert reading.inner_text().startswith("[1, 2, 13, 14]")
        alone.at(".tnb-map canvas").focus()
        page.keyboard.press("Enter")
        alone.answer()
        assert window.inner_text() == "rows 9:17, columns 11:17"
        # The arrow at the edge moves the window.
        for _ in range(4):
            page.keyboard.press("ArrowRight")
            alone.answer()
        assert reading.inner_text().startswith("[1, 2, 13, 18]")
        assert window.inner_text() == "rows 9:17, columns 13:19"
        # The value that it is at is seen, however many digits the others have.
        alone.at(".tnb-numbers").evaluate(
            "e => { e.style.width = '300px'; e.style.flex = 'none'; }"
        )
        page.keyboard.press("ArrowLeft")
        alone.answer()
        seen = """e => { const [at, box] = [e, e.closest(".tnb-numbers")].map(
          (one) => one.getBoundingClientRect());
          return at.left >= box.left && at.right <= box.right; }"""
        assert alone.at("td.tnb-here").evaluate(seen)
        # Every press of a held arrow counts; the questions do not pile up.
        index = alone.at(".tnb-slices input").nth(1)
        index.focus()
        for _ in range(10):
            page.keyboard.press("ArrowUp")
        assert [question["lead"] for question in alone.answer()] == [[1, 3], [1, 12]]
        for _ in range(5):
            page.keyboard.press("ArrowUp")
        alone.at(".tnb-slices input").first.focus()
        assert index.input_value() == "17"
        alone.answer()
        assert index.input_value() == "17"
        assert reading.inner_text().startswith("[1, 17, 13, 17]")
        assert window.inner_text() == "rows 9:17, columns 13:19"
        # Out of the window one is in the slice that is shown.
        alone.at(".tnb-map .tnb-line button", has_text="Zoom out").click()
        alone.answer()
        assert reading.inner_text().startswith("[1, 17, 13, 14]")

    @pytest.mark.parametrize(
        ("sizes", "axis"),
        [
            # Without the one that is nearly 0.
            ([2.5e-16, *np.geomspace(0.02, 33, 15)], "1e-2 to 1e2; above it 0, below or 0 1"),
            ([1e-310, *np.geomspace(0.02, 33, 9)], "1e-2 to 1e2; above it 0, below or 0 1"),
            # The largest are seen, whatever lies below.
            (
                [*np.geomspace(1e-18, 1e-14, 9), *np.geomspace(3.5, 240, 7)],
                "1e0 to 1e3; above it 0",
            ),
            ([3e38, *np.geomspace(1e-6, 1e-2, 9)], "1e-6 to 1e-2; above it 1, below or 0 0"),
            ([1e-3, 1e-3], "1e-3 to 1e-1; above it 0, below or 0 0"),
        ],
    )
    def test_the_axis_shows_the_largest_sizes(self, page, sizes, axis):
        dump = as_dump(
            {f"{i}": np.array([-size, size / 2]) for i, size in enumerate(sizes)}, "sizes"
        )
        label = Alone(page, dump.summarise()).at(".tnb-chart canvas").get_attribute("aria-label")
        assert f"axis {axis}" in label

    def test_rows_are_found_read_and_left_again(self, page):
        names = {"a\nb\tc\u202ed": (np.ones(3), np.ones(3))}
        alone = Alone(page, compared(**names, small=(np.ones(2), np.ones(2) + 1e-2)))
        explorer = alone.explorer
        # What cannot be seen of a name is written out, on one line.
        alone.search("b")
        assert names_shown(alone.root) == ["a\\nb\\tc\\u202ed"]
        assert alone.at("tbody tr[aria-rowindex]").first.bounding_box()["height"] <= 25
        # A filter that only Python can set is there to be taken back.
        explorer.show(text=None, verdict="shape")
        alone.answer()
        assert alone.at("tbody tr[aria-rowindex]").count() == 0
        alone.at(".tnb-chip", has_text="verdict: shape").click()
        alone.answer()
        assert explorer.view.where == {}
        # Texts sort from A, figures from the largest.
        for head, descending in (("shape", False), ("rel L2", True), ("origin", False)):
            alone.root.get_by_role("columnheader", name=head).locator("button").click()
            alone.answer()
            assert explorer.view.descending is descending
        # A selection survives a double click, goes with Escape, and can be seen alone.
        boxes = alone.at("tbody input[type=checkbox]")
        for k in range(3):
            boxes.nth(k).click()
        alone.answer()
        chosen = explorer.selected
        alone.at("tbody tr[aria-rowindex] td:nth-child(2)").nth(4).dblclick()
        alone.answer()
        assert explorer.selected == chosen
        assert alone.at(".tnb-panel h4").is_visible()
        alone.root.get_by_text("Selected only").click()
        alone.answer()
        assert sorted(explorer.shown) == list(chosen)
        alone.at(".tnb-chip", has_text="#: ").click()
        alone.answer()
        alone.at("tbody tr[aria-rowindex]").first.focus()
        for left in (chosen, ()):
            page.keyboard.press("Escape")
            alone.answer()
            assert explorer.selected == left
            assert not alone.at(".tnb-panel").is_visible()
        # Where no row is left the focus goes to what hides them.
        alone.open("small")
        alone.search("in no name")
        alone.at(".tnb-close").click()
        assert page.evaluate("document.activeElement.className") == "tnb-search"

    def test_where_a_filter_goes_one_is_still_at_ones_row(self, page):
        alone = Alone(page, compared())
        alone.search("layers.25.")
        row = alone.at("tr.tnb-current")
        row.click()
        alone.answer()
        number = row.locator(".tnb-c-number").inner_text()
        alone.search("")
        assert alone.at("tr.tnb-current .tnb-c-number").inner_text() == number
        expect(alone.at("tr.tnb-current")).to_be_in_viewport()
        assert alone.at(".tnb-scroller").evaluate("e => e.scrollTop") > 24

    def test_without_an_answer_nothing_of_another_row_is_shown(self, page):
        page.clock.install()
        alone = Alone(page, compared())
        alone.open("layers.3.")
        alone.search("layers.4.")
        alone.at(".tnb-open").first.click()
        page.clock.fast_forward(200)
        assert "layers.3." in alone.at(".tnb-panel").inner_text()
        assert alone.at(".tnb-panel").get_attribute("aria-busy") == "true"
        page.clock.fast_forward(6000)
        panel = alone.at(".tnb-panel").inner_text()
        assert "layers.4." in panel
        assert "the kernel does not answer" in panel
        assert "layers.3." not in panel
        alone.answer()
        assert alone.at(".tnb-map canvas").is_visible()

    def test_figures_are_seen_where_there_is_little_room(self, page):
        page.set_viewport_size({"width": 600, "height": 700})
        rng = np.random.default_rng(0)
        nets = {
            f"module.layers.{i}.self_attn.q_proj.weight": rng.normal(size=(8, 9)) for i in range(9)
        }
        for shown, figure in (
            (as_dump(nets, "net").summarise(), "max |x|"),
            (compared(), "max |Δ|"),
        ):
            alone = Alone(page, shown)
            head = alone.root.get_by_role("columnheader", name=figure).bounding_box()
            box = alone.at(".tnb-scroller").bounding_box()
            assert head["x"] + head["width"] <= box["x"] + box["width"]

    def test_where_nothing_was_compared_by_value_the_chart_says_so(self, page):
        known = dict(
            shape=(3,), dtype="float32", statistics=dict(min=0.0, max=1.0, mean=0.5, l2=1.0)
        )
        site = Site("module", "conv", 0, "forward", "output", "")
        recorded = Dump.from_entries([Entry("conv", site, None, order=0, **known)], label="net")
        alone = Alone(page, tnb.compare(recorded, recorded))
        assert alone.at(".tnb-chart canvas").count() == 0
        expect(alone.at(".tnb-chart .tnb-sentence")).to_contain_text("no |Δ| to draw")


@pytest.mark.long
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
