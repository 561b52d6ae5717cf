"""The two widgets at their largest, and what a person does in them: for a test and a benchmark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import CDPSession, Locator, Page

from tests.browser import harness

PACKAGE = str(Path(__file__).resolve().parents[2])
ROWS = 10_000
# What every interaction may take, and how much may stand in the page and in the file.
SLOWEST = 100  # ms
MOST_ROWS_IN_DOM = 60
MOST_STATE = 200_000  # bytes

# Some 40 pairs are compared and their rows repeated: what is tested is the table, not measuring.
_EXPLORER = """
import sys; sys.path.insert(0, {package!r})
import dataclasses, numpy as np, troubleshooter_nb as tnb
from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.naming import Site
from troubleshooter_nb.widgets import explore

rng = np.random.default_rng(0)
def entry(name, array, order, **known):
    source = None if array is None else ArrayInMemory(array)
    role = ("output", "input", "parameter")[order % 3]
    return Entry(name, Site("module", name, 0, "forward", role, ""), source, order=order, **known)
good = {{f"layers.{{i}}.attn": rng.normal(size=(16, 24)).astype("f4") for i in range(36)}}
good["conv"] = rng.normal(size=(3, 4, 20, 30)).astype("f4")
good["big"] = rng.normal(size=(512, 768)).astype("f4")
good["<img src=x onerror=window.hurt=1>"] = rng.normal(size=(4, 4)).astype("f4")
bad = {{name: value.copy() for name, value in good.items()}}
for i in range(20, 36):
    bad[f"layers.{{i}}.attn"] += np.float32(10.0 ** (i % 5 - 5))
bad["layers.30.attn"][2, 3] = np.nan
bad["conv"][1, 2, :, 7] += 1
bad["big"][100, 200] += 9
recorded = dict(shape=(3, 3), dtype="float32")
sides = []
for arrays, top in ((bad, 1.0), (good, 2.0)):
    entries = [entry(name, value, order) for order, (name, value) in enumerate(arrays.items())]
    known = dict(min=0.0, max=top, mean=0.5, l2=2.0)
    entries.append(entry("recorded", None, len(entries), statistics=known, **recorded))
    sides.append(Dump.from_entries(entries, label=f"side {{top:g}}"))
cmp = tnb.compare(*sides)
rows = np.arange({rows}) % len(cmp)
def renamed(values):
    again = lambda i, name: f"{{name}}.copy{{i // len(cmp)}}" if i >= len(cmp) else name
    return np.array([again(i, name) for i, name in enumerate(values)], object)
result = cmp.result.isel(pair=rows)
names = ("left", "right", "left_display", "right_display")
columns = {{name: ("pair", renamed(result[name].values)) for name in names}}
columns["step"] = ("pair", np.arange({rows}) // 10 % 4)
columns["rank"] = ("pair", np.arange({rows}) % 2)
result = result.assign(order=("pair", np.arange({rows})), **columns)
cmp = dataclasses.replace(cmp, result=result)
explorer = explore(cmp)
explorer
"""

# 2,000 names on either side; with `some` all but four are paired, else none.
_EDITOR = """
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
wm = WeightMap((), source, target, "net.pth", "net.ckpt")
"""
_MATCHED = """wm = wm.match_rest()
for name in ("3.q.weight", "5.k.weight", "7.n1.weight", "9.o.bias"):
    wm = wm.unpair(f"model.layers.{name}")
"""
_EDIT = """editor = edit(wm)
editor
"""

Acts = dict[str, Callable[[int], object]]


def explorer_cell(rows: int = 40) -> str:
    """A cell that explores so many rows."""
    return _EXPLORER.format(package=PACKAGE, rows=rows)


def explorer_of(page: Page) -> Locator:
    """The explorer, once its rows are there."""
    root = page.locator(".tnb-explorer")
    root.locator("tbody tr[aria-rowindex]").first.wait_for()
    root.evaluate("root => root.scrollIntoView()")
    return root


def editor_of(page: Page) -> Locator:
    """The editor, once the kernel has sent its rows."""
    root = page.locator(".tsnb-w[data-revision]")
    root.wait_for()
    return root


def pool(root: Locator, side: int) -> Locator:
    """The unmatched names that an editor shows of one side."""
    return root.locator(f".tsnb-w-side{side} .tsnb-w-item")


def _explore(page: Page, root: Locator) -> Acts:
    press = page.keyboard.press
    scroller, search = root.locator(".tnb-scroller"), root.locator(".tnb-search")

    def head(name: str) -> Locator:
        return root.get_by_role("columnheader", name=name).locator("button")

    differs = root.locator(".tnb-chip", has_text="differs")
    box = root.locator("tbody input[type=checkbox]")
    down = "root => { root.scrollTop += 24 * 900; }"
    search.focus()
    return {
        "letter": lambda _: press("o"),
        "letter more": lambda _: press("n"),
        "letter gone": lambda _: press("Backspace"),
        "clear": lambda _: root.locator(".tnb-clear").click(),
        "sort figure": lambda _: head("rel L2").click(),
        "sort name": lambda _: head("left").click(),
        "verdict": lambda _: differs.click(),
        "scroll": lambda _: scroller.evaluate(down),
        "select": lambda _: box.nth(7).click(),
        "arrow": lambda _: press("ArrowDown"),
        "open": lambda _: press("Enter"),
        "close": lambda _: press("Escape"),
        "all again": lambda _: root.locator(".tnb-clear").click(),
    }


def _edit(page: Page, root: Locator) -> Acts:
    press = page.keyboard.press
    view = root.locator(".tsnb-w-pairs .tsnb-w-view")
    row = root.locator(".tsnb-w-pairs tr[data-key]")
    left, right = pool(root, 0), pool(root, 1)
    undo, words = root.locator(".tsnb-w-undo"), root.locator(".tsnb-w-filter")
    show = root.locator(".tsnb-w-show")
    return {
        "choose": lambda k: left.nth(1 + k % 3).click(),
        "drag": lambda _: left.nth(0).drag_to(right.nth(0)),
        "undo": lambda _: undo.click(),
        "redo": lambda _: root.locator(".tsnb-w-redo").click(),
        "undo by key": lambda _: press("Control+z"),
        "scroll": lambda k: view.evaluate("(e, y) => { e.scrollTop = y }", 26 * 250 * (k % 7 + 1)),
        "row": lambda _: row.nth(6).click(),
        "preview": lambda _: root.locator(".tsnb-w-how").press_sequentially("x"),
        "filter": lambda _: words.press_sequentially("7"),
        "unpair": lambda _: (row.nth(2).focus(), press("Delete")),
        "arrow": lambda _: press("ArrowDown"),
        "clear": lambda _: words.fill(""),
        "show": lambda _: show.select_option("attention"),
        "show all": lambda _: show.select_option("all"),
        "rest": lambda _: root.locator(".tsnb-w-rest").click(),
        "undo rest": lambda _: undo.click(),
        "undo unpair": lambda _: undo.click(),
    }


def _edit_nothing_matched(page: Page, root: Locator) -> Acts:
    acts = _edit(page, root)
    return {what: acts[what] for what in ("choose", "filter", "clear", "rest", "undo rest")}


@dataclass(frozen=True)
class Scene:
    """A widget in a notebook of its own.

    Attributes
    ----------
    name : str
    cell : str
        Shows the widget.
    ready : callable
        Gives the widget's outermost element once it has its rows.
    acts : callable
        Gives what one does there by name; each takes the number of the round, and after all of
        them the widget is as it was.
    rows : str
        Selects the rows that stand in the page.
    """

    name: str
    cell: str
    ready: Callable[[Page], Locator]
    acts: Callable[[Page, Locator], Acts]
    rows: str


EXPLORER = Scene("explorer", explorer_cell(ROWS), explorer_of, _explore, "tbody tr")
EDITOR = Scene("editor", _EDITOR + _MATCHED + _EDIT, editor_of, _edit, "li, tr")
EDITOR_OF_NOTHING_MATCHED = Scene(
    "editor of nothing matched", _EDITOR + _EDIT, editor_of, _edit_nothing_matched, "li, tr"
)

# Nothing was drawn in the page for a while; the wait is for that, not for a time.
_QUIET = """() => new Promise(resolve => {
  let timer = setTimeout(() => resolve(true), 500);
  const again = () => { clearTimeout(timer); timer = setTimeout(() => resolve(true), 500); };
  new MutationObserver(again).observe(document.body, {subtree: true, childList: true});
})"""


@dataclass(frozen=True)
class Played:
    """What a scene took.

    Attributes
    ----------
    shown : dict of str to list of float
        Milliseconds of each act from the user's event to the frame that shows the answer.
    worked : dict of str to list of float
        Milliseconds of script, style and layout in the page for it, without what others used of
        the processor.
    rows : int
        Most rows that stood in the page.
    state : int
        Bytes of the widget's state in the saved notebook.
    """

    shown: dict[str, list[float]]
    worked: dict[str, list[float]]
    rows: int
    state: int


def play(server: harness.Server, page: Page, scene: Scene, rounds: int) -> Played:
    """Do everything in a scene so many times, one after the other."""
    name = scene.name.replace(" ", "_") + ".ipynb"
    server.write(name, [scene.cell])
    with harness.opened(server, page, name) as notebook:
        notebook.run_all()
        root = scene.ready(page)
        acts = scene.acts(page, root)
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        played = Played({what: [] for what in acts}, {what: [] for what in acts}, 0, 0)
        most = 0
        for k in range(rounds):
            for what, act in acts.items():
                # As somebody who looks before going on: all that the last act brought is there.
                page.wait_for_function(_QUIET)
                before = _worked(session)
                took = harness.measured(root, lambda a=act, n=k: a(n))
                played.shown[what].append(round(took, 1))
                played.worked[what].append(round(_worked(session) - before, 1))
                most = max(most, root.locator(scene.rows).count())
        page.wait_for_function(_QUIET)
        notebook.save()
        notebook.close()
        return Played(played.shown, played.worked, most, notebook.widget_state_bytes())


def _worked(session: CDPSession) -> float:
    metrics = {m["name"]: m["value"] for m in session.send("Performance.getMetrics")["metrics"]}
    parts = ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
    return 1000 * float(sum(metrics[part] for part in parts))


def check(played: Played) -> None:
    """Fail where something is over its bar, but for the clock on the wall.

    How long it takes until something is shown depends on what else the machine does:
    `benchmarks/fluidity.py` measures that.
    """
    assert {what: ms for what, ms in played.worked.items() if max(ms) > SLOWEST} == {}
    assert played.rows <= MOST_ROWS_IN_DOM
    assert 0 < played.state < MOST_STATE
