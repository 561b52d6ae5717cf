"""The editor driven by mouse and by keyboard in three front ends; the kernel says what is so."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("playwright")
pytest.importorskip("jupyter_client")

import nbformat
import numpy as np
from nbformat.v4 import new_output

import troubleshooter_nb as tnb
from tests import twins
from tests.browser import harness, scenes
from troubleshooter_nb.weight_map import Spec, WeightMap

HERE = Path(__file__).parent
pytestmark = [pytest.mark.browser, pytest.mark.notebook]

NAMES = [f"model.layers.{name}" for name in ("3.q.weight", "5.k.weight", "7.n1.weight", "9.o.bias")]
PARTNERS = ["net.blocks.3.q.weight", "net.blocks.5.k.weight", "net.blocks.7.n1.gamma"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with harness.jupyter(tmp_path_factory.mktemp("jupyter")) as running:
        yield running


@pytest.fixture
def page():
    with harness.browser_page(height=1300) as shown:
        shown.failures = []

        def failed(error):
            # Notebook 7 has errors of its own; our module runs from a blob.
            if "blob:" in (error.stack or ""):
                shown.failures.append(str(error))

        shown.on("pageerror", failed)
        yield shown
        assert shown.failures == []


def by_mouse(page, root):
    """Pairs three names, undoes one and saves, with the mouse alone."""
    left, right = scenes.pool(root, 0), scenes.pool(root, 1)
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


def by_keyboard(page, root):
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


@pytest.mark.parametrize("act", [pytest.param(by_mouse, marks=pytest.mark.long), by_keyboard])
@pytest.mark.parametrize(
    "front_end",
    ["lab", *(pytest.param(one, marks=pytest.mark.long) for one in ("notebook7", "nbclassic"))],
)
def test_a_person_pairs_three_undoes_one_saves_and_reopens(server, page, front_end, act):
    if why := harness.missing(front_end):
        pytest.skip(why)
    name = f"{front_end}_{act.__name__}.ipynb"
    server.write(name, [scenes.EDITOR.cell])
    (server.root / "mapping.yaml").unlink(missing_ok=True)
    with harness.opened(server, page, name, front_end) as notebook:
        notebook.run_all()
        root = scenes.editor_of(page)
        asked = {
            "open": "editor.value.unmatched_sources",
            "first": f"editor.value[{NAMES[0]!r}].targets",
            "second": f"editor.value[{NAMES[1]!r}].targets",
            "kind": "type(editor.value).__name__",
        }
        assert notebook.ask(**asked)["open"] == repr(NAMES).replace(", ", ",\n ")
        act(page, root)
        said = notebook.ask(**asked)
        assert said["kind"] == "'WeightMap'"
        assert said["first"] == repr((PARTNERS[0],))
        assert said["second"] == repr((PARTNERS[1],))
        assert said["open"] == repr(NAMES[2:])
        # The twin is an output of its own, and follows.
        harness.followed(root)
        palest = harness.palest(root)
        assert palest[0] >= harness.READABLE, palest
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
            assert harness.reopened(page, ".tsnb-w-wait") in (
                "The kernel does not answer: it is busy, or not the one that ran this cell. The "
                "table below shows the last state; run the cell again to edit.",
                harness.NOT_RESTORED,
            )
            page.get_by_text("No editor above this line? Run the cell again.").wait_for()
        notebook.screenshot(f"editor_{front_end}_{act.__name__}_reopened")
        notebook.close()


@pytest.mark.long
@pytest.mark.parametrize("matched", [True, False])
def test_each_interaction_is_fluid_and_few_rows_are_drawn(server, page, matched):
    scene = scenes.EDITOR if matched else scenes.EDITOR_OF_NOTHING_MATCHED
    scenes.check(scenes.play(server, page, scene, rounds=2))


# Long names of which the ends differ, shapes of one side alone, several targets of one source.
HARD = """
import dataclasses, numpy as np, troubleshooter_nb as tnb
from troubleshooter_nb.weight_map import Spec, WeightMap, WeightRow

F4 = np.dtype("f4")
front = "model.language_model.transformer.encoder.layers"
names = [f"{front}.{k}.self_attention.output_projection.weight" for k in range(12)]
source = {name: Spec((4, 2 + k), F4) for k, name in enumerate(names)}
rows = [WeightRow((n,), (n.replace("model.", "net.", 1).replace("weight", "w"),)) for n in names]
rows.append(WeightRow((names[0],), ("head",)))
editor = tnb.edit(WeightMap(tuple(rows), source, None, "net.pth", "net.ckpt"))
editor
"""


@pytest.mark.long
def test_hard_names_held_keys_and_a_save_at_once(server, page):
    server.write("hard.ipynb", [HARD])
    with harness.opened(server, page, "hard.ipynb") as notebook:
        notebook.run_all()
        root = scenes.editor_of(page)
        harness.followed(root)
        rows = root.locator(".tsnb-w-pairs tr[data-key]")
        # The ends of the names are seen, with what differs in bold.
        page.set_viewport_size({"width": 800, "height": 1300})
        page.wait_for_function(
            f"root => !({HIDDEN})(root, false).length", arg=root.element_handle()
        )
        # With more room the numbers are seen as well.
        page.set_viewport_size({"width": 1280, "height": 1300})
        page.wait_for_function(f"root => !({HIDDEN})(root, true).length", arg=root.element_handle())
        assert rows.nth(4).locator("b").all_inner_texts() == ["model", "weight", "net", "w"]
        # The second row of one source goes, the first one stays.
        rows.filter(has_text="head").first.click()
        root.locator(".tsnb-w-unpair").click()
        harness.settled(root)
        asked = {"n": "len(editor.value)", "left": "editor.value.unmatched_sources"}
        assert notebook.ask(**asked) == {"n": "12", "left": "[]"}
        # Every press of a key takes a row away, and a held one goes on.
        rows.nth(1).click()
        harness.settled(root)
        rows.nth(1).focus()
        for _ in range(3):
            page.keyboard.press("Delete")
        harness.settled(root)
        assert notebook.ask(**asked)["n"] == "9"
        assert root.locator(".tsnb-w-bad").count() == 0
        page.keyboard.down("Delete")
        page.keyboard.down("Delete")
        page.keyboard.up("Delete")
        # Whoever saves at once saves what he sees: the table below follows first.
        dirty = "() => window.jupyterapp.shell.currentWidget.context.model.dirty"
        page.keyboard.press("Control+s")
        page.wait_for_function(f"() => !({dirty})()")
        count = int(notebook.ask(**asked)["n"])
        assert 7 <= count < 9
        stored = nbformat.read(server.root / "hard.ipynb", as_version=4).cells[0].outputs
        assert f"{count} rows" in stored[-1].data["text/plain"]
        # Shapes that are not known are not called the same; names are offered all the same.
        scenes.pool(root, 0).first.click()
        harness.settled(root)
        assert "shape not known" in scenes.pool(root, 1).locator(".tsnb-w-why").all_inner_texts()
        first = root.locator(".tsnb-w-candidate").first.inner_text()
        assert "layers.1.self_attention" in first
        assert "shape not known" in first
        assert "✓" not in first
        notebook.screenshot("editor_hard")
        # Another value brings other labels.
        labels = "dict(source_label='old.pth', target_label='new.ckpt')"
        value = f"dataclasses.replace(editor.value, **{labels})"
        notebook.ask(done=f"setattr(editor, 'value', {value})")
        head = root.locator("thead th")
        head.filter(has_text="old.pth").wait_for()
        assert head.all_inner_texts()[:2] == ["old.pth", "new.ckpt"]
        assert root.get_attribute("aria-label") == "Mapping editor: old.pth → new.ckpt"
        assert root.get_by_role("listbox", name="Unmatched in old.pth").count() == 1
        # What a file leaves out is said where it is saved.
        notebook.ask(done="setattr(editor, 'value', editor.value.drop(names[11]))")
        root.locator(".tsnb-w-path").fill("hard.json")
        root.locator(".tsnb-w-save").click()
        said = root.locator(".tsnb-w-say", has_text="saved hard.json · ▲")
        said.wait_for()
        assert "without 1 dropped or kept tensor" in said.inner_text()
        notebook.close()


# Names of which the end, or the number where that is asked for, is not within their cell.
HIDDEN = """
(root, numbers) => [...root.querySelectorAll('.tsnb-w-name bdi')].filter(one => {
  const cell = one.parentElement.getBoundingClientRect();
  if (!cell.width) return false;
  const range = document.createRange();
  const texts = document.createTreeWalker(one, NodeFilter.SHOW_TEXT);
  let left = cell.left;
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    const found = /[0-9]+/.exec(text.data);
    if (!found) continue;
    range.setStart(text, found.index);
    range.setEnd(text, found.index + found[0].length);
    left = range.getBoundingClientRect().left;
  }
  return (numbers && left < cell.left - 1) || one.getBoundingClientRect().right > cell.right + 1;
}).map(one => one.textContent)
"""


@pytest.mark.long
def test_shape_conflicts_are_shown_before_the_drop(server, page):
    server.write("conflict.ipynb", [scenes.EDITOR.cell])
    with harness.opened(server, page, "conflict.ipynb") as notebook:
        notebook.run_all()
        root = scenes.editor_of(page)
        scenes.pool(root, 0).filter(has_text=NAMES[0]).hover()
        page.mouse.down()
        target = scenes.pool(root, 1).filter(has_text="net.extra.weight")
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


# Modules and operators in one pairing, modules alone, and entries of two steps.
PAIRINGS = """
import numpy as np, troubleshooter_nb as tnb
from pathlib import Path
from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.naming import Site
from troubleshooter_nb.widgets import edit

root = Path({data!r})
def opened(left, right):
    return tnb.pair_dumps(root / "mindspore" / left, root / "torch" / right)
def steps(name):
    site = Site("module", name, 0, "forward", "output", "")
    entries = [Entry(name, site, ArrayInMemory(np.ones(2)), order=k, step=k) for k in range(2)]
    return Dump.from_entries(entries)
mixed = edit(opened("m_mlp_mix_tensor", "t_mlp_mix_tensor"))
layers = edit(tnb.pair_dumps({mindspore!r}, {torch!r}))
stepped = edit(tnb.pair_dumps(steps("one"), steps("another"), method="name"))
"""


@pytest.mark.long
def test_a_pairing_is_saved_as_every_kind_that_can_say_it(server, page):
    data = str(HERE.parents[0] / "data" / "msprobe" / "v26_2_0")
    code = PAIRINGS.format(data=data, mindspore=str(twins.MINDSPORE), torch=str(twins.TORCH))
    server.write("kinds.ipynb", [code, "mixed", "layers", "stepped"])
    with harness.opened(server, page, "kinds.ipynb") as notebook:
        notebook.run_all()
        roots = page.locator(".tsnb-w[data-revision]")
        roots.nth(2).wait_for()
        mixed, layers, stepped = (roots.nth(k) for k in range(3))
        for kind in ("data", "layer", "cell", "api"):
            mixed.locator(".tsnb-w-path").fill(f"of_{kind}.yaml")
            mixed.locator(".tsnb-w-kind").select_option(kind)
            mixed.locator(".tsnb-w-save").click()
            mixed.locator(".tsnb-w-say", has_text=f"saved of_{kind}.yaml").wait_for()
        kinds = "[tnb.read_mapping(f'of_{k}.yaml').kind for k in ('data', 'layer', 'cell', 'api')]"
        assert notebook.ask(k=kinds) == {"k": "['data', 'layer', 'cell', 'api']"}
        # Without one chosen, the file's name says it.
        mixed.locator(".tsnb-w-path").fill("net_cell.yaml")
        mixed.locator(".tsnb-w-kind").select_option("")
        mixed.locator(".tsnb-w-save").click()
        mixed.locator(".tsnb-w-say", has_text="saved net_cell.yaml").wait_for()
        assert notebook.ask(k="tnb.read_mapping('net_cell.yaml').kind") == {"k": "'cell'"}
        layers.locator(".tsnb-w-path").fill("refused.yaml")
        layers.locator(".tsnb-w-kind").select_option("api")
        layers.locator(".tsnb-w-save").click()
        refusal = "✗ no operator is paired with an operator, so there is nothing for an api mapping"
        layers.locator(".tsnb-w-say.tsnb-w-bad", has_text=refusal).wait_for()
        assert not (server.root / "refused.yaml").exists()
        # A name of one step on a name of another one: said before the drop and after it.
        left, right = scenes.pool(stepped, 0), scenes.pool(stepped, 1)
        assert left.locator(".tsnb-w-name").all_inner_texts() == [
            "one · step 0",
            "one · step 1",
        ]
        left.nth(0).click()
        harness.settled(stepped)
        said = right.locator(".tsnb-w-why").all_inner_texts()
        assert said == ["✓ same shape", "✗ another step or rank"]
        left.nth(0).drag_to(right.nth(1))
        sentence = (
            "one is of step 0, rank 0 and another of step 1, rank 0; only entries of the same"
        )
        stepped.locator(".tsnb-w-say.tsnb-w-bad", has_text=sentence).wait_for()
        assert notebook.ask(n="stepped.value.matched") == {"n": "0"}
        notebook.screenshot("editor_steps", stepped)
        left.nth(1).drag_to(right.nth(1))
        harness.settled(stepped)
        frame = "stepped.value.to_dataframe().query('method == \"user\"')"
        asked = f"{frame}[['left', 'right', 'step']].values.tolist()"
        assert notebook.ask(x=asked) == {"x": "[['one', 'another', 1]]"}
        notebook.close()


@pytest.mark.long
def test_after_a_restart_both_widgets_say_so_and_work_again_when_run_again(server, page):
    explored = (
        "arrays = {f'layers.{i}.fc': np.full((4, 4), i, 'f4') for i in range(30)}\n"
        "explorer = tnb.explore(tnb.compare(arrays, arrays))\nexplorer"
    )
    server.write(
        "restart.ipynb", [scenes.EDITOR.cell, "import troubleshooter_nb as tnb\n" + explored]
    )
    with harness.opened(server, page, "restart.ipynb") as notebook:
        notebook.run_all()
        root = scenes.editor_of(page)
        explorer = page.locator(".tnb-explorer")
        explorer.locator(".tnb-open").first.wait_for()
        harness.settled(root)
        # The twin's sections open and close without a kernel.
        summary = page.locator("summary", has_text="model.layers.1 ·")
        group = page.locator("details", has=summary).locator("table")
        summary.click()
        group.wait_for()
        summary.click()
        group.wait_for(state="hidden")
        notebook.restart()
        sentence = "the kernel does not answer: run the cell again"
        scenes.pool(root, 0).first.click()
        root.locator(".tsnb-w-say.tsnb-w-bad", has_text=sentence).wait_for()
        root.locator(".tsnb-w-rest").click()
        explorer.locator(".tnb-open").first.click()
        explorer.locator(".tnb-silent", has_text=sentence).wait_for()
        # Nothing hangs: what needs no kernel goes on.
        explorer.locator(".tnb-search").fill("layers.7")
        assert explorer.locator(".tnb-open").all_inner_texts() == ["layers.7.fc"]
        root.locator(".tsnb-w-filter").fill("extra")
        assert scenes.pool(root, 1).count() == 1
        notebook.screenshot("restarted")
        notebook.run_all()
        page.wait_for_function(
            """() => ['.tsnb-w', '.tnb-explorer'].every(one => {
                 const [node, ...more] = document.querySelectorAll(one);
                 return !more.length && node.querySelector('tr[data-key], .tnb-open')
                   && node.dataset.pending === '0'; })"""
        )
        scenes.pool(root, 0).first.drag_to(scenes.pool(root, 1).first)
        harness.settled(root)
        explorer.locator(".tnb-search").fill("layers.7")
        explorer.locator(".tnb-open").click()
        explorer.locator(".tnb-map canvas").wait_for()
        asked = notebook.ask(n="len(editor.value)", shown="explorer.shown")
        assert asked == {"n": "1997", "shown": "[7]"}
        notebook.close()


@pytest.mark.long
def test_typing_does_not_reach_the_shortcuts_of_the_notebook(server, page):
    server.write("typing.ipynb", [scenes.EDITOR.cell, "1 + 1"])
    with harness.opened(server, page, "typing.ipynb") as notebook:
        notebook.run_all()
        root = scenes.editor_of(page)
        root.locator(".tsnb-w-filter").click()
        page.keyboard.type("dd xx a b m y 00")
        scenes.pool(root, 0)
        assert root.locator(".tsnb-w-filter").input_value() == "dd xx a b m y 00"
        assert page.locator(".jp-Notebook .jp-CodeCell").count() == 2
        root.locator(".tsnb-w-filter").fill("")
        scenes.pool(root, 0).first.click()
        page.keyboard.type("ddxxab")
        assert page.locator(".jp-Notebook .jp-CodeCell").count() == 2
        # Only saving is meant for the notebook, wherever the focus is.
        dirty = "() => window.jupyterapp.shell.currentWidget.context.model.dirty"
        assert page.evaluate(dirty)
        page.keyboard.press("Control+s")
        page.wait_for_function(f"() => !({dirty})()")
        notebook.close()


@pytest.mark.long
def test_a_dark_editor_of_a_pairing_can_be_read(tmp_path):
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
            root = scenes.editor_of(page)
            scenes.pool(root, 0).first.click()
            harness.settled(root)
            notebook.screenshot("editor_dark")
            assert root.locator("b", has_text="x").count() == 0
            assert root.locator(".tsnb-w-sum").inner_text().startswith("29 对 · 左侧未匹配 1")
            assert "形状相同" in root.locator(".tsnb-w-candidate").first.inner_text()
            palest = harness.palest(root)
            assert palest[0] >= harness.READABLE, palest
            assert harness.unnamed(root) == []
            root.locator(".tsnb-w-filter").fill("in no name")
            assert root.locator("li[role=option], tr[data-key]").count() == 0
            assert harness.unnamed(root) == []
            notebook.screenshot("editor_dark_empty", root)
            root.locator(".tsnb-w-filter").fill("")
            scenes.pool(root, 0).first.drag_to(scenes.pool(root, 1).first)
            harness.settled(root)
            asked = "editor.value.to_dataframe().query('left == \"layers.4.fc\"').right.item()"
            assert notebook.ask(x=asked) == {"x": "'blocks.4.fc'"}
            notebook.close()


def test_an_untrusted_notebook_and_a_gone_kernel_show_the_last_state(server, page):
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


SMALL = """
import numpy as np, troubleshooter_nb as tnb
from troubleshooter_nb.weight_map import Spec, WeightMap

F4 = np.dtype("f4")
S = {f"l{i}.w": Spec((16, 8), F4) for i in range(12)}
T = {f"m{i}.w": Spec((8, 16), F4) for i in range(12)}
wm = WeightMap((), S, T)
for i in range(6):
    wm = wm.pair(f"l{i}.w", f"m{i}.w", "transpose")
editor = tnb.edit(wm)
editor
"""
FOCUS = "(({tagName, className, textContent}) => [tagName, className, textContent])"
FOCUSED = f"() => {FOCUS}(document.activeElement)"


@pytest.mark.parametrize(
    "front_end",
    ["notebook7", *(pytest.param(one, marks=pytest.mark.long) for one in ("lab", "nbclassic"))],
)
def test_keys_act_on_the_widget_alone(server, page, front_end):
    if why := harness.missing(front_end):
        pytest.skip(why)
    name = f"keys_{front_end}.ipynb"
    server.write(name, ['"first"', SMALL, '"last"'])
    with harness.opened(server, page, name, front_end) as notebook:
        notebook.run_all()
        root = scenes.editor_of(page)
        harness.followed(root)
        cells = page.locator(".jp-Notebook .jp-CodeCell, #notebook .code_cell")

        def press(*keys):
            for key in keys:
                page.keyboard.press(key)
                harness.settled(root)
                assert (cells.count(), root.count()) == (3, 1), key
                assert root.evaluate("root => root.contains(document.activeElement)"), key

        def focused():
            return page.evaluate(FOCUSED)[2]

        left = scenes.pool(root, 0)
        left.first.click()
        root.evaluate("root => { root.addEventListener = () => { root.dataset.more = 1; }; }")
        scroller = "document.querySelector('.jp-WindowedPanel-outer, #site').scrollTop"
        scrolled = page.evaluate(scroller)
        press("ArrowDown", "ArrowDown")
        assert focused().startswith("l8.w")
        press(*"ddabxcvz", "Space", "Delete", "Shift+M", "End", "Home")
        assert focused().startswith("l6.w")
        assert page.evaluate(scroller) == scrolled
        rows = root.locator(".tsnb-w-pairs tr[data-key]")
        rows.nth(1).click()
        harness.settled(root)
        press("ArrowDown", *"ddabx", "Space")
        assert root.locator(".tsnb-w-panel samp").first.inner_text() == "l2.w"
        press("Delete")
        assert "l3.w" in focused()
        # The keyboard stays where it is, whichever row is open in the panel.
        press("Space", "ArrowDown", "Delete")
        assert "l5.w" in focused()
        press("Control+z")
        assert "l5.w" in focused()
        assert notebook.ask(n="len(editor.value)") == {"n": "5"}
        press("Escape")
        assert "arrow keys choose" in root.locator(".tsnb-w-panel").inner_text()
        root.locator(".tsnb-w-undo").focus()
        press(*"ddabx", "ArrowUp", "Enter")
        assert notebook.ask(n="len(editor.value)") == {"n": "6"}
        rows.nth(1).click()
        for part in ("choice", "apply", "unpair", "show"):
            root.locator(f".tsnb-w-{part}").first.focus()
            press(*"dd", "ArrowUp")
        # In a field in which nothing was typed, undo is the editor's.
        for part, key, count in (("show", "Control+y", "5"), ("filter", "Control+z", "6")):
            root.locator(f".tsnb-w-{part}").focus()
            press(key)
            assert notebook.ask(n="len(editor.value)") == {"n": count}
        assert root.get_attribute("data-more") is None
        # Only saving is meant for the notebook.
        harness.followed(root)
        dirty = "window.jupyterapp.shell.currentWidget.context.model.dirty"
        if front_end == "nbclassic":
            dirty = "Jupyter.notebook.dirty"
        page.evaluate(f"() => {{ {dirty} = true; }}")
        root.locator(".tsnb-w-undo").focus()
        page.keyboard.press("Control+s")
        page.wait_for_function(f"() => !({dirty})")
        notebook.close()


@pytest.mark.long
def test_the_preview_names_its_transform_and_the_focus_stays_in_the_widget(server, page):
    server.write("focus.ipynb", [SMALL])
    with harness.opened(server, page, "focus.ipynb") as notebook:
        notebook.run_all()
        root = scenes.editor_of(page)
        preview = root.locator(".tsnb-w-preview")
        rows = root.locator(".tsnb-w-pairs tr[data-key]")
        how, choice = root.locator(".tsnb-w-how"), root.locator(".tsnb-w-choice").first

        def focused():
            harness.settled(root)
            return page.evaluate(FOCUSED)

        rows.nth(1).click()
        own = "transpose: ✓ 16×8 → 8×16"
        other = "reshape(8, 16): ✓ 16×8 → 8×16"
        assert preview.filter(has_text=own).inner_text() == own
        choice.hover()
        preview.filter(has_text=other).wait_for()
        root.locator(".tsnb-w-sum").hover()
        preview.filter(has_text=own).wait_for()
        how.fill("copy")
        preview.filter(has_text="copy: ✗").wait_for()
        choice.hover()
        preview.filter(has_text=other).wait_for()
        root.locator(".tsnb-w-sum").hover()
        preview.filter(has_text="copy: ✗").wait_for()
        # Refused: the field keeps the focus and what was typed.
        how.press("Enter")
        assert "tsnb-w-how" in focused()[1]
        assert how.input_value() == "copy"
        # Another choice comes to lie under the pointer, which is not meant.
        choice.click()
        preview.filter(has_text=other).wait_for()
        page.wait_for_function(scenes._QUIET)
        assert preview.inner_text() == other
        assert "l1.w" in focused()[2]
        how.focus()
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        preview.filter(has_text=own).wait_for()
        page.keyboard.press("Shift+Tab")
        preview.filter(has_text=other).wait_for()
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        preview.filter(has_text=own).wait_for()
        assert "l1.w" in focused()[2]
        # The same again is no step of undo.
        before = notebook.ask(h="editor._session.history.undo_of")
        how.press("Enter")
        root.locator(".tsnb-w-say", has_text="nothing changed: transpose").wait_for()
        assert notebook.ask(h="editor._session.history.undo_of") == before
        how.fill("reshape(8, 16)")
        how.press("Enter")
        assert focused()[0] == "TR"
        root.locator(".tsnb-w-unpair").focus()
        page.keyboard.press("Enter")
        assert "l2.w" in focused()[2]
        scenes.pool(root, 0).last.focus()
        page.keyboard.press("Enter")
        harness.settled(root)
        root.locator(".tsnb-w-aside").focus()
        page.keyboard.press("Enter")
        assert focused()[0] == "LI"
        for _ in range(2):
            page.keyboard.press("Control+z")
            harness.settled(root)
        assert notebook.ask(t="str(editor.value['l1.w'].transform)") == {"t": "'reshape(8, 16)'"}
        notebook.close()


@pytest.mark.long
def test_a_second_view_leaves_the_first_as_it_is(server, page):
    go = server.root / "go"
    wait = "import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.05)\n"
    server.write("views.ipynb", [SMALL, wait])
    with harness.opened(server, page, "views.ipynb") as notebook:
        # A kernel that was busy for long answers in the end; running all would wait for it.
        page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")
        page.locator(".tsnb-w-wait", has_text="The kernel does not answer").wait_for()
        go.touch()
        root = scenes.editor_of(page)
        root.locator(".tsnb-w-pairs tr[data-key]").nth(1).click()
        root.locator(".tsnb-w-how").fill("squeeze(0)")
        root.locator(".tsnb-w-preview", has_text="squeeze(0): ✗").wait_for()
        root.locator(".tsnb-w-undo").focus()
        page.evaluate(
            """() => { const w = window.jupyterapp.shell.currentWidget;
              w.content.activeCellIndex = 1;
              w.content.activeCell.model.sharedModel.setSource('editor');
              return window.jupyterapp.commands.execute('notebook:run-cell'); }"""
        )
        second = page.locator(".tsnb-w[data-revision]").nth(1)
        second.locator("tr[data-key]").first.wait_for()
        first = page.locator(".tsnb-w[data-revision]").nth(0)
        assert first.locator(".tsnb-w-how").input_value() == "squeeze(0)"
        # What the second one changes elsewhere leaves it as it is, too.
        second.locator(".tsnb-w-rest").click()
        harness.settled(second)
        second.locator(".tsnb-w-say", has_text="pairs made: ").wait_for()
        first.locator(".tsnb-w-sum", has_text="12 of 12 matched").wait_for()
        assert first.locator(".tsnb-w-how").input_value() == "squeeze(0)"
        preview = first.locator(".tsnb-w-preview", has_text="squeeze(0): ✗")
        preview.wait_for()
        # JupyterLab forgets the table of a cell that is moved: the editor there says so.
        page.evaluate(
            """() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1;
              return window.jupyterapp.commands.execute('notebook:move-cell-up')
                .then(() => true); }"""
        )
        moved = page.locator(".tsnb-w[data-revision]").nth(0)
        kept = page.locator(".tsnb-w[data-revision]").nth(1)
        moved.locator("tr[data-key]").first.wait_for()
        kept.locator(".tsnb-w-undo").click()
        moved.get_by_text("The table below no longer follows the editor").wait_for()
        assert not kept.locator(".tsnb-w-lost").is_visible()
        notebook.screenshot("editor_lost")
        notebook.close()


BIAS = """
import numpy as np, troubleshooter_nb as tnb
from troubleshooter_nb.weight_map import Spec, WeightMap

F4 = np.dtype("f4")
left = {"attn.in_proj_bias": Spec((48,), F4), "attn.norm.weight": Spec((16,), F4)}
right = {f"attn.{k}.bias": Spec((16,), F4) for k in "qkv"} | {"attn.norm.gamma": Spec((16,), F4)}
editor = tnb.edit(WeightMap((), left, right))
editor
"""


@pytest.mark.long
def test_a_name_is_split_by_mouse_and_keyboard_in_the_order_of_choice(server, page):
    server.write("split.ipynb", [BIAS])
    with harness.opened(server, page, "split.ipynb") as notebook:
        notebook.run_all()
        root = scenes.editor_of(page)
        harness.followed(root)
        left, right = scenes.pool(root, 0), scenes.pool(root, 1)
        chosen = root.locator("[aria-selected=true] .tsnb-w-name")
        say, panel = root.locator(".tsnb-w-say"), root.locator(".tsnb-w-panel")
        asked = {
            "n": "len(editor.value)",
            "to": "''.join(name[5] for row in editor.value for name in row.targets)",
            "how": "[str(row.transform) for row in editor.value]",
        }
        none = {"n": "0", "to": "''", "how": "[]"}

        def press(*keys):
            for key in keys:
                page.keyboard.press(key)
                harness.settled(root)

        left.first.click()
        for name in "vqkn":
            right.filter(has_text=f"attn.{name}").click(modifiers=["Control"])
        panel.locator(".tsnb-w-bad", has_text="48").wait_for()  # one too many
        assert panel.locator(".tsnb-w-pair").count() == 0
        right.filter(has_text="attn.norm").click(modifiers=["Control"])
        pair = panel.locator(".tsnb-w-pair")
        pair.wait_for()
        assert panel.locator("ol").nth(1).locator("samp").all_inner_texts() == [
            f"attn.{name}.bias" for name in "vqk"
        ]
        assert panel.locator(".tsnb-w-ok").inner_text() == "✓ 48 → 16 + 16 + 16"
        said = panel.locator(".tsnb-w-choice").first.get_attribute("title")
        assert said == "splits axis 0 into parts of 16, 16, 16"
        assert right.locator(".tsnb-w-nth").all_inner_texts() == ["2", "3", "1", ""]
        assert root.locator("ul[aria-multiselectable=true]").count() == 2
        assert harness.unnamed(root) == []
        notebook.screenshot("editor_split", root)
        # Dragged out of the editor nothing is made, and nothing goes on being said.
        right.nth(1).hover()
        page.mouse.down()
        box = left.first.bounding_box()
        page.mouse.move(box["x"] + 40, box["y"] + 8, steps=4)
        page.mouse.move(box["x"] + 44, box["y"] + 10)
        say.filter(has_text="⇄ split(0, 16, 16, 16): 48 → 16 + 16 + 16").wait_for()
        page.mouse.move(box["x"] + 44, box["y"] + 400, steps=4)
        page.mouse.up()
        root.locator(".tsnb-w-say:empty").wait_for(state="attached")
        assert notebook.ask(**asked) == none
        right.nth(1).drag_to(left.first)
        harness.settled(root)
        split = {"n": "1", "to": "'vqk'", "how": "['split(0, 16, 16, 16)']"}
        assert notebook.ask(**asked) == split
        root.locator(".tsnb-w-undo").click()
        harness.settled(root)
        # Escape gives the choice up, a plain click chooses one.
        left.first.click()
        right.nth(0).click(modifiers=["Control"])
        right.nth(1).click(modifiers=["Control"])
        assert chosen.count() == 3
        press("Escape")
        assert chosen.count() == 0
        right.nth(0).click()
        right.nth(1).click(modifiers=["Control"])
        right.nth(1).click()
        assert chosen.all_inner_texts() == ["attn.k.bias"]
        press("Escape")
        # By keyboard: Space takes a name, after which the arrow keys only move.
        left.first.focus()
        press("Home", "Enter", "Home", "Space", "ArrowDown", "ArrowDown", "Space", "ArrowUp")
        press("Space", "Space", "Space")
        assert chosen.all_inner_texts() == ["attn.in_proj_bias", *(f"attn.{k}.bias" for k in "qkv")]
        press("Enter")
        assert notebook.ask(**asked) == split | {"to": "'qvk'"}
        assert chosen.all_inner_texts() == ["attn.norm.weight"]  # the next one
        # And by the button of a transform.
        press("Control+z", "Escape")
        left.first.click()
        for k in range(3):
            right.nth(k).click(modifiers=["Control"])
        panel.locator(".tsnb-w-choice").first.click()
        harness.settled(root)
        assert notebook.ask(**asked) == split | {"to": "'qkv'"}
        # What is asked of names that were numbered anew meanwhile is refused.
        notebook.ask(done="setattr(editor._session, 'numbering', 7)")
        left.first.click()
        say.filter(has_text="✗ the names changed meanwhile: choose again").wait_for()
        notebook.close()


@pytest.mark.long
def test_a_file_is_overwritten_by_a_second_press_and_a_lost_name_is_typed(server, page):
    (server.root / "precious.yaml").write_text("precious: yes\n")
    unknown = SMALL.replace("S, T)", "S)").replace("'transpose'", "'copy'")
    server.write("unknown.ipynb", [unknown])
    with harness.opened(server, page, "unknown.ipynb") as notebook:
        notebook.run_all()
        root = scenes.editor_of(page)
        left, rows = scenes.pool(root, 0), root.locator(".tsnb-w-pairs tr[data-key]")
        left.first.click()
        root.locator(".tsnb-w-to").fill("m6.weight")
        root.locator(".tsnb-w-to").press("Enter")
        rows.nth(6).wait_for()
        assert notebook.ask(t="editor.value['l6.w'].targets") == {"t": "('m6.weight',)"}
        assert page.evaluate(FOCUSED)[0] == "LI"
        rows.nth(6).click()
        root.locator(".tsnb-w-unpair").click()
        harness.settled(root)
        assert "1 unmatched right" in root.locator(".tsnb-w-sum").inner_text()
        left.filter(has_text="l6.w").click()
        harness.settled(root)
        assert root.locator(".tsnb-w-to").input_value() == "m6.weight"
        notebook.screenshot("editor_unknown_target", root)
        # Another name takes its place; it is unmatched again when that is undone.
        root.locator(".tsnb-w-to").fill("m6.other")
        root.locator(".tsnb-w-to").press("Enter")
        rows.filter(has_text="m6.other").wait_for()
        assert "unmatched right" not in root.locator(".tsnb-w-sum").inner_text()
        assert scenes.pool(root, 1).count() == 0
        root.locator(".tsnb-w-undo").click()
        scenes.pool(root, 1).filter(has_text="m6.weight").wait_for()
        harness.settled(root)
        root.locator(".tsnb-w-path").fill("precious.yaml")
        save = root.locator(".tsnb-w-save")
        save.dblclick()
        said = root.locator(".tsnb-w-say.tsnb-w-warn", has_text="press Save again to overwrite")
        said.wait_for()
        harness.settled(root)
        notebook.screenshot("editor_overwrite", root)
        assert (server.root / "precious.yaml").read_text() == "precious: yes\n"
        save.click()
        root.locator(".tsnb-w-say.tsnb-w-ok", has_text="saved precious.yaml").wait_for()
        root.locator(".tsnb-w-path").fill("/proc/map.yaml")
        save.click()
        root.locator(".tsnb-w-say.tsnb-w-bad", has_text="✗ /proc/map.yaml: ").wait_for()
        notebook.close()


_SHOW = """async ([script, values]) => {
  const url = URL.createObjectURL(new Blob([script], {type: "text/javascript"}));
  const {default: widget} = await import(url);
  window.asked = [];
  const model = {get: (name) => values[name], on: (_, hear) => { window.hear = hear; }, off() {},
                 send: (question) => window.asked.push(question)};
  widget.render({model, el: document.body});
}"""


def test_what_cannot_be_seen_of_a_name_is_written_out(page):
    names = ["a\nb\u202ec.weight", "seen.weight"]
    spec = Spec((2,), np.dtype("f4"))
    editor = tnb.edit(WeightMap((), dict.fromkeys(names, spec), {names[0]: spec}).match_rest())
    sent = []
    editor.send = lambda content, buffers=None: sent.append(content)
    page.evaluate(_SHOW, [str(editor._esm), {"_height": 320, "_waiting": "", "_lonely": ""}])
    editor._heard(editor, page.evaluate("window.asked[0]"))
    page.evaluate("message => window.hear(message)", sent[0])
    cells = page.locator("tr[data-key] .tsnb-w-name")
    assert cells.all_inner_texts() == ["a\\nb\\u202ec.weight"] * 2
    assert cells.first.get_attribute("title") == "a\\nb\\u202ec.weight"
    assert scenes.pool(page, 0).locator(".tsnb-w-name").all_inner_texts() == ["seen.weight"]


LONG = """
import numpy as np, troubleshooter_nb as tnb
from troubleshooter_nb.dump import Dump
from troubleshooter_nb.widgets import edit

rng = np.random.default_rng(0)
rows, rotary, joined = (rng.random(s).astype("f4") for s in ((1024, 4), (16, 16), (8, 24)))
halves = rotary.reshape(2, 4, 2, 16).swapaxes(1, 2).reshape(16, 16)
parts = {f"part{k}": joined.T[8 * k : 8 * k + 8] for k in range(3)}
source = Dump.from_arrays({"joined": joined, "rotary": rotary, "table": rows})
target = Dump.from_arrays({**parts, "rotary": halves, "table": rows[rng.permutation(1024)]})
editor = edit(tnb.draft_weight_map(source, target), source=source, target=target)
editor
"""


@pytest.mark.long
def test_long_transforms_keep_within_the_panel_and_steps_can_be_typed(server, page):
    server.write("long.ipynb", [LONG])
    with harness.opened(server, page, "long.ipynb") as notebook:
        notebook.run_all()
        root = scenes.editor_of(page)
        rows = root.locator(".tsnb-w-pairs tr[data-key]")
        for width in (1300, 700):
            page.set_viewport_size({"width": width, "height": 1300})
            for row in rows.all():
                row.click()
                harness.settled(root)
                beyond = "all => all.filter(one => one.scrollHeight > one.clientHeight + 1 || "
                beyond += "one.scrollWidth > one.clientWidth + 1).map(one => one.textContent)"
                assert root.locator(".tsnb-w-choice").evaluate_all(beyond) == []
                assert root.locator(".tsnb-w-panel").bounding_box()["height"] < 500
            assert root.evaluate("root => root.scrollWidth - root.clientWidth") <= 0
        rows.filter(has_text="table").click()
        harness.settled(root)
        first = root.locator(".tsnb-w-choice").first
        assert first.inner_text().startswith("take(0, ")
        assert first.inner_text().endswith(", …)")
        assert "runs of rows of axis 0" in first.get_attribute("title")
        first.hover()
        preview = root.locator(".tsnb-w-preview")
        preview.filter(has_text="values are equal, every one").wait_for()
        first.click()
        harness.settled(root)
        rows.filter(has_text="joined").click()
        harness.settled(root)
        field = root.locator(".tsnb-w-how")
        field.fill("transpose | split(0, 8, 8, 8)")
        preview.filter(has_text="transpose | split(0, 8, 8, 8): ✓").wait_for()
        field.press("Enter")
        harness.settled(root)
        asked = {
            "joined": "str(editor.value['joined'].transform)",
            "table": "len(editor.value['table'].transform.arguments) > 900",
        }
        said = notebook.ask(**asked)
        assert said == {"joined": "'transpose | split(0, 8, 8, 8)'", "table": "True"}
