"""The reprs in an untrusted JupyterLab and as exported pages: drawn, readable, foldable."""

from __future__ import annotations

from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

import troubleshooter_nb as tnb

pytest.importorskip("playwright")
pytest.importorskip("jupyter_client")

from tests import twins
from tests.analysis.runs import chain
from tests.browser import harness

HERE = Path(__file__).parent
# Objects in the notebook.
SHOWN = 11
MSPROBE = HERE.parent / "data" / "msprobe" / "v26_2_0"

pytestmark = [pytest.mark.browser, pytest.mark.notebook]


@pytest.fixture(scope="module")
def cmp(tmp_path_factory):
    rng = np.random.default_rng(0)
    left, right = {}, {}
    for i in range(24):
        right[f"layers.{i // 4}.part{i % 4}"] = rng.normal(size=(32, 64)).astype(np.float32)
    for i, (name, array) in enumerate(right.items()):
        left[name] = (array + (1e-2 if i > 9 else 1e-7) * rng.normal(size=array.shape)).astype("f4")
    left["layers.4.part1"][3, 5:9] = np.nan
    left["odd"], right["odd"] = np.ones(3), np.ones(4)
    left["alone"] = np.ones(2)
    root = tmp_path_factory.mktemp("dumps")
    return tnb.compare(tnb.save_dump(left, root / "l"), tnb.save_dump(right, root / "r"))


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """What notebooks show besides comparisons of folders."""
    rng = np.random.default_rng(1)
    names = [f"layers.{i}.{part}" for i in range(3) for part in ("q", "k", "v", "gate")]
    source = {f"{name}.weight": rng.normal(size=(32, 32)).astype(np.float32) for name in names}
    # As a port that mixed two layers up and did not touch one.
    target = dict(source)
    target["layers.1.q.weight"] = source["layers.2.q.weight"]
    target["layers.2.gate.weight"] = source["layers.2.gate.weight"].T.copy()
    source["only"], target["another"] = np.ones(4, np.float32), np.zeros(7, np.float32)
    root = tmp_path_factory.mktemp("checkpoints")
    left, right = (
        tnb.save_dump(arrays, root / name)
        for arrays, name in ((source, "a.safetensors"), (target, "b.safetensors"))
    )
    explained = tnb.compare(chain(changed={"act1": np.tanh}), chain())
    assert explained.findings
    statistics = [MSPROBE / "torch" / f"t_mlp_mix_statistics{end}" for end in ("B", "")]
    return [
        tnb.diff_checkpoints(left, right),
        tnb.draft_weight_map(left, right),
        tnb.open_dump(twins.MINDSPORE),
        tnb.pair_dumps(twins.MINDSPORE, twins.TORCH),
        tnb.compare(*statistics),
        explained,
        explained.explain(),
    ]


@pytest.fixture(scope="module")
def record(cmp, others, tmp_path_factory):
    """A notebook with stored outputs that no one on this machine has signed: untrusted."""
    objects = [cmp, cmp.first_divergence, cmp.pairing, cmp.pairing.left.summarise(), *others]
    assert len(objects) == SHOWN
    cells = []
    for obj in objects:
        data = {"text/html": obj._repr_html_(), "text/plain": repr(obj)}
        cells.append(new_code_cell("obj", outputs=[new_output("display_data", data=data)]))
    root = tmp_path_factory.mktemp("lab")
    # Without a kernel name JupyterLab opens with a dialog in front of the notebook.
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(notebook, root / "record.ipynb")
    return root


@pytest.mark.few(1)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_an_untrusted_record_is_drawn_readable_and_foldable(record, dark):
    with (
        harness.jupyter(record, dark=dark) as server,
        harness.browser_page(dark=dark, height=7000) as page,
    ):
        harness.shown(server, page, "record.ipynb")
        page.wait_for_selector(f".tsnb >> nth={SHOWN - 1}")
        theme = f'body[data-jp-theme-light="{str(not dark).lower()}"]'
        page.wait_for_selector(theme, state="attached")
        harness.PICTURES.mkdir(exist_ok=True)
        page.screenshot(path=harness.PICTURES / f"untrusted_{'dark' if dark else 'light'}.png")
        # Untrusted: the sanitiser took our style sheet away, and the look must not need it.
        assert page.locator(".jp-OutputArea style").count() == 0
        bar = page.locator(".tsnb td > div").first  # drawn by its inline style alone
        assert bar.evaluate("e => getComputedStyle(e).borderTopStyle") == "solid"
        assert bar.bounding_box()["height"] == 3
        for i in range(SHOWN):
            block = page.locator(".tsnb").nth(i)
            assert block.bounding_box()["height"] > 20
            palest = harness.palest(block)
            assert palest[0] >= harness.READABLE, palest
        closed = page.locator(".tsnb details:not([open])").first
        before = closed.bounding_box()["height"]
        handle = closed.element_handle()
        closed.locator("summary").first.click()
        assert handle.evaluate("e => e.open")
        assert handle.bounding_box()["height"] > before
        assert page.locator(".tsnb img").first.evaluate("e => e.naturalWidth") > 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_an_exported_page_is_readable_and_fits_the_window(cmp, tmp_path, dark):
    path = tnb.export(cmp, tmp_path / "page.html")
    asked = []
    with harness.browser_page(dark=dark, width=1120) as page:
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        harness.PICTURES.mkdir(exist_ok=True)
        picture = harness.PICTURES / f"page_{'dark' if dark else 'light'}.png"
        page.screenshot(path=picture, full_page=True)
        palest = harness.palest(page.locator(".tsnb"))
        assert palest[0] >= harness.READABLE, palest
        wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
