"""The editor driven by mouse and by keyboard in three front ends; the kernel says what is so."""

from __future__ import annotations

import importlib
import json
import os
import statistics
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_output

HERE = Path(__file__).parent
pytestmark = [pytest.mark.browser, pytest.mark.notebook]

# 2,000 names on either side, all but four paired.
LARGE = """
import numpy as np
from troubleshooter_nb.weight_map import Spec, WeightMap
from troubleshooter_nb.widgets import edit

F4 = np.dtype("f4")
parts = [f"{one}.weight" for one in "q k v o up down n1 n2".split()] + ["q.bias", "o.bias"]
shapes = [(64, 32)] * 6 + [(64,)] * 4
source = {f"model.layers.{i // 10}.{parts[i % 10]}": Spec(shapes[i % 10], F4) for i in range(2000)}
target = {
    name.replace("model.layers", "net.blocks").replace("n1.weight", "n1.gamma"):
    Spec(spec.shape[::-1], F4) for name, spec in source.items()
}
target["net.extra.weight"] = Spec((3, 3), F4)
wm = WeightMap((), source, target, "net.pth", "net.ckpt").match_rest()
for name in ("3.q.weight", "5.k.weight", "7.n1.weight", "9.o.bias"):
    wm = wm.unpair(f"model.layers.{name}")
editor = edit(wm)
editor
"""
NAMES = [f"model.layers.{name}" for name in ("3.q.weight", "5.k.weight", "7.n1.weight", "9.o.bias")]
PARTNERS = ["net.blocks.3.q.weight", "net.blocks.5.k.weight", "net.blocks.7.n1.gamma"]
# Milliseconds that the issue allows for each interaction in the page.
ALLOWED = 100
_TIMES = 3


@pytest.fixture(scope="module")
def contrast():
    return importlib.import_module("tests.browser.test_reprs_in_browser").CONTRAST


@pytest.fixture(scope="module")
def server(harness, tmp_path_factory):
    with harness.jupyter(tmp_path_factory.mktemp("jupyter")) as running:
        yield running


@pytest.fixture
def page(harness):
    with harness.browser_page(height=1300) as shown:
        shown.failures = []

        def failed(error):
            # Notebook 7 has errors of its own; our module runs from a blob.
            if "blob:" in (error.stack or ""):
                shown.failures.append(str(error))

        shown.on("pageerror", failed)
        yield shown
        assert shown.failures == []


def editor_of(page):
    """The widget, once the kernel has sent its rows."""
    root = page.locator(".tsnb-w[data-revision]")
    root.wait_for()
    return root


def pool(root, side):
    return root.locator(f".tsnb-w-side{side} .tsnb-w-item")


def by_mouse(harness, page, root):
    """Pairs three names, undoes one and saves, with the mouse alone."""
    left, right = pool(root, 0), pool(root, 1)
    left.filter(has_text=NAMES[0]).drag_to(right.filter(has_text=PARTNERS[0]))
    harness.settled(root)
    left.filter(has_text=NAMES[1]).click()
    root.locator(".tsnb-w-candidate button").first.click()
    harness.settled(root)
    left.filter(has_text=NAMES[2]).click()
    right.filter(has_text=PARTNERS[2]).click()
    root.locator(".tsnb-w-pair").click()
    harness.settled(root)
    root.locator(".tsnb-w-undo").click()
    harness.settled(root)
    root.locator(".tsnb-w-save").click()
    root.locator(".tsnb-w-say", has_text="saved").wait_for()


def by_keyboard(harness, page, root):
    """The same with keys alone, beginning at the first button of the editor."""
    press = page.keyboard.press
    root.locator(".tsnb-w-undo").focus()  # where Tab comes in
    for _ in range(5):
        press("Tab")
    for _ in range(3):
        # Chooses the name, goes to its closest partner, pairs; then the next one is chosen.
        press("Home")
        press("Enter")  # before the kernel has said which partner is the closest
        harness.settled(root)
        press("Enter")
        harness.settled(root)
    press("Control+z")
    harness.settled(root)
    for _ in range(20):
        press("Tab")
        if page.evaluate("document.activeElement.className") == "tsnb-w-path":
            break
    press("Enter")
    root.locator(".tsnb-w-say", has_text="saved").wait_for()


@pytest.mark.parametrize("act", [by_mouse, by_keyboard])
@pytest.mark.parametrize(
    "front_end",
    ["lab", *(pytest.param(one, marks=pytest.mark.long) for one in ("notebook7", "nbclassic"))],
)
def test_a_person_pairs_three_undoes_one_saves_and_reopens(
    harness, server, page, contrast, front_end, act
):
    if why := harness.missing(front_end):
        pytest.skip(why)
    name = f"{front_end}_{act.__name__}.ipynb"
    server.write(name, [LARGE])
    (server.root / "mapping.yaml").unlink(missing_ok=True)
    with harness.opened(server, page, name, front_end) as notebook:
        notebook.run_all()
        root = editor_of(page)
        asked = {
            "open": "editor.value.unmatched_sources",
            "first": f"editor.value[{NAMES[0]!r}].targets",
            "second": f"editor.value[{NAMES[1]!r}].targets",
            "kind": "type(editor.value).__name__",
        }
        assert notebook.ask(**asked)["open"] == repr(NAMES).replace(", ", ",\n ")
        act(harness, page, root)
        said = notebook.ask(**asked)
        assert said["kind"] == "'WeightMap'"
        assert said["first"] == repr((PARTNERS[0],))
        assert said["second"] == repr((PARTNERS[1],))
        assert said["open"] == repr(NAMES[2:])
        # The twin is an output of its own, and follows.
        page.get_by_text("1,998 renamed").first.wait_for()
        worst = root.evaluate(contrast)[0]
        assert worst[0] >= 4.5, worst
        notebook.screenshot(f"editor_{front_end}_{act.__name__}")
        path = notebook.save()
        assert notebook.widget_state_bytes() < 200_000
        assert path.stat().st_size < 400_000
        notebook.close()
    written = (server.root / "mapping.yaml").read_text()
    assert f"- from: {NAMES[1]}\n  to: {PARTNERS[1]}\n  transform: transpose" in written
    stored = nbformat.read(path, as_version=4).cells[0].outputs
    assert "1,998 renamed" in stored[-1].data["text/html"]
    with harness.opened(server, page, name, front_end) as notebook:
        page.get_by_text("1,998 renamed").first.wait_for()
        if front_end != "nbclassic":  # which does not save the widget and shows our sentence alone
            page.get_by_text("The kernel does not answer").wait_for()
        notebook.screenshot(f"editor_{front_end}_{act.__name__}_reopened")
        notebook.close()


@pytest.mark.long
def test_each_interaction_is_fluid_and_few_rows_are_drawn(harness, server, page):
    name = "fluid.ipynb"
    server.write(name, [LARGE])
    with harness.opened(server, page, name) as notebook:
        notebook.run_all()
        root = editor_of(page)
        harness.settled(root)
        view = root.locator(".tsnb-w-pairs .tsnb-w-view")
        row = root.locator(".tsnb-w-pairs tr[data-key]")
        left, right = pool(root, 0), pool(root, 1)
        press = page.keyboard.press
        acts = {
            "choose": lambda k: left.nth(1 + k).click(),
            "drag": lambda k: left.nth(0).drag_to(right.nth(0)),
            "undo": lambda k: root.locator(".tsnb-w-undo").click(),
            "redo": lambda k: root.locator(".tsnb-w-redo").click(),
            "undo by key": lambda k: press("Control+z"),
            "scroll": lambda k: view.evaluate("(e, y) => { e.scrollTop = y }", 26 * 500 * (k + 1)),
            "row": lambda k: row.nth(6).click(),
            "preview": lambda k: root.locator(".tsnb-w-how").press_sequentially("x"),
            "filter": lambda k: root.locator(".tsnb-w-filter").press_sequentially("7"),
            "unpair": lambda k: (row.nth(2).focus(), press("Delete")),
            "arrow": lambda k: press("ArrowDown"),
            "clear": lambda k: root.locator(".tsnb-w-filter").fill(""),
            "show": lambda k: root.locator(".tsnb-w-show").select_option("attention"),
            "show all": lambda k: root.locator(".tsnb-w-show").select_option("all"),
            "rest": lambda k: root.locator(".tsnb-w-rest").click(),
            "undo rest": lambda k: root.locator(".tsnb-w-undo").click(),
            "undo unpair": lambda k: root.locator(".tsnb-w-undo").click(),
        }
        times, most = {what: [] for what in acts}, 0
        for k in range(_TIMES):
            for what, act in acts.items():
                # As somebody who looks before going on: the twin of the last change is drawn.
                page.wait_for_function(QUIET)
                times[what].append(round(harness.measured(root, lambda a=act, n=k: a(n)), 1))
                most = max(most, root.locator("li, tr").count())
        state = notebook.ask(n="len(editor.value)")["n"]
        notebook.save()
        size = notebook.widget_state_bytes()
        notebook.close()
    # What other work on the same cores takes is not the page's: four jobs for two cores double it.
    crowd = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    record = {"crowd": round(crowd, 2), "ms": times, "rows": most, "state": size}
    harness.PICTURES.mkdir(exist_ok=True)
    (harness.PICTURES / "editor_fluid.json").write_text(json.dumps(record, indent=1))
    assert state == "1996"
    assert most <= 60, record
    assert size < 200_000, record
    assert max(map(statistics.median, times.values())) < ALLOWED * crowd, record


# Nothing was drawn in the page for a while; the wait is for that, not for a time.
QUIET = """() => new Promise(resolve => {
  let timer = setTimeout(() => resolve(true), 500);
  const again = () => { clearTimeout(timer); timer = setTimeout(() => resolve(true), 500); };
  new MutationObserver(again).observe(document.body, {subtree: true, childList: true});
})"""


@pytest.mark.long
def test_shape_conflicts_are_shown_before_the_drop(harness, server, page):
    server.write("conflict.ipynb", [LARGE])
    with harness.opened(server, page, "conflict.ipynb") as notebook:
        notebook.run_all()
        root = editor_of(page)
        pool(root, 0).filter(has_text=NAMES[0]).hover()
        page.mouse.down()
        target = pool(root, 1).filter(has_text="net.extra.weight")
        target.locator(".tsnb-w-why", has_text="✗ 2,048 ≠ 9 values").wait_for()
        box = target.bounding_box()
        page.mouse.move(box["x"] + 40, box["y"] + 8, steps=4)
        page.mouse.move(box["x"] + 44, box["y"] + 10)
        root.locator(".tsnb-w-no").wait_for()
        notebook.screenshot("editor_conflict")
        page.mouse.up()
        root.locator(".tsnb-w-say.tsnb-w-bad", has_text="cannot become net.extra.weight").wait_for()
        assert notebook.ask(n="len(editor.value)") == {"n": "1996"}
        notebook.close()


@pytest.mark.long
def test_typing_does_not_reach_the_shortcuts_of_the_notebook(harness, server, page):
    server.write("typing.ipynb", [LARGE, "1 + 1"])
    with harness.opened(server, page, "typing.ipynb") as notebook:
        notebook.run_all()
        root = editor_of(page)
        root.locator(".tsnb-w-filter").click()
        page.keyboard.type("dd xx a b m y 00")
        pool(root, 0)
        assert root.locator(".tsnb-w-filter").input_value() == "dd xx a b m y 00"
        assert page.locator(".jp-Notebook .jp-CodeCell").count() == 2
        root.locator(".tsnb-w-filter").fill("")
        pool(root, 0).first.click()
        page.keyboard.type("ddxxab")
        assert page.locator(".jp-Notebook .jp-CodeCell").count() == 2
        # Only saving is meant for the notebook, wherever the focus is.
        dirty = "() => window.jupyterapp.shell.currentWidget.context.model.dirty"
        assert page.evaluate(dirty)
        page.keyboard.press("Control+s")
        page.wait_for_function(f"() => !({dirty})()")
        notebook.close()


@pytest.mark.long
def test_a_dark_editor_of_a_pairing_can_be_read(harness, contrast, tmp_path):
    cells = [
        "import numpy as np, troubleshooter_nb as tnb\n"
        "from troubleshooter_nb.widgets import edit\n"
        "tnb.set_options(language='zh')\n"
        "left = {f'layers.{i}.fc': np.full((4, 4), i) for i in range(30)}\n"
        "right = {f'blocks.{i}.fc': np.full((4, 4 + i // 28), i) for i in range(30)}\n"
        "right['<b>x</b>'] = np.ones(3)\n"
        "editor = edit(tnb.pair_dumps(left, right).unpair('layers.4.fc'))\neditor"
    ]
    with (
        harness.jupyter(tmp_path, dark=True) as server,
        harness.browser_page(dark=True, height=1300) as page,
    ):
        server.write("dark.ipynb", cells)
        with harness.opened(server, page, "dark.ipynb") as notebook:
            notebook.run_all()
            root = editor_of(page)
            pool(root, 0).first.click()
            harness.settled(root)
            notebook.screenshot("editor_dark")
            assert root.locator("b", has_text="x").count() == 0
            worst = root.evaluate(contrast)[0]
            assert worst[0] >= 4.5, worst
            pool(root, 0).first.drag_to(pool(root, 1).first)
            harness.settled(root)
            asked = "editor.value.to_dataframe().query('left == \"layers.4.fc\"').right.item()"
            assert notebook.ask(x=asked) == {"x": "'blocks.4.fc'"}
            notebook.close()


def test_an_untrusted_notebook_and_a_gone_kernel_show_the_last_state(harness, server, page):
    html = "<p>the last state</p>"
    widget = new_output(
        "display_data",
        data={
            "text/html": "<em>run this cell</em>",
            "text/plain": "run this cell",
            "application/vnd.jupyter.widget-view+json": {
                "version_major": 2,
                "version_minor": 0,
                "model_id": "gone",
            },
        },
    )
    twin = new_output("display_data", data={"text/html": html, "text/plain": "t"})
    server.write("untrusted.ipynb", ["editor"], [[widget, twin]])
    with harness.opened(server, page, "untrusted.ipynb") as notebook:
        page.get_by_text("the last state").wait_for()
        page.get_by_text("run this cell").wait_for()
        notebook.screenshot("editor_untrusted")
        notebook.close()
