"""The reprs in an untrusted JupyterLab and as exported pages: drawn, readable, foldable."""

from __future__ import annotations

from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

import troubleshooter_nb as tnb
from tests.analysis.runs import chain

HERE = Path(__file__).parent
PICTURES = HERE / "pictures"
# Objects in the notebook.
SHOWN = 11
MSPROBE = HERE.parent / "data" / "msprobe" / "v26_2_0"

pytestmark = [pytest.mark.browser, pytest.mark.notebook]

# Contrast of every text against what is painted behind it, opacity and translucent bars included.
CONTRAST = """
root => {
  const parse = text => {
    const part = text.match(/rgba?\\(([^)]*)\\)/);
    if (!part) { const c = text.match(/color\\(srgb ([^)]*)\\)/);
      if (!c) return [0, 0, 0, 0];
      const v = c[1].split(/[ \\/]+/).map(Number);
      return [v[0] * 255, v[1] * 255, v[2] * 255, v.length > 3 ? v[3] : 1]; }
    const v = part[1].split(/[ ,\\/]+/).map(Number);
    return [v[0], v[1], v[2], v.length > 3 ? v[3] : 1];
  };
  const over = (top, below) => below.map((c, i) => top[i] * top[3] + c * (1 - top[3]));
  const luminance = c => {
    const linear = x => x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4;
    const v = c.map(x => linear(x / 255));
    return .2126 * v[0] + .7152 * v[1] + .0722 * v[2];
  };
  const behind = element => {
    const layers = [];
    for (let e = element; e; e = e.parentElement)
      layers.push(parse(getComputedStyle(e).backgroundColor));
    let colour = canvas;
    for (const layer of layers.reverse()) colour = over(layer, colour);
    return colour;
  };
  // What the browser paints where no element has a background: white, or its dark page colour.
  const probe = root.appendChild(document.createElement('i'));
  probe.style.backgroundColor = 'Canvas';
  const canvas = parse(getComputedStyle(probe).backgroundColor).slice(0, 3);
  probe.remove();
  const found = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, e = node.parentElement;
    if (!node.textContent.trim() || e.closest('style')) continue;
    if (!e.getClientRects().length) continue;
    let opacity = 1;
    for (let p = e; p && p !== root.parentElement; p = p.parentElement)
      opacity *= Number(getComputedStyle(p).opacity);
    const back = behind(e), colour = parse(getComputedStyle(e).color);
    colour[3] *= opacity;
    const [a, b] = [luminance(over(colour, back)), luminance(back)].sort((x, y) => y - x);
    found.push([(a + .05) / (b + .05), node.textContent.trim().slice(0, 40)]);
  }
  return found.sort((x, y) => x[0] - y[0]);
}
"""


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
    twins = [MSPROBE / "mindspore" / "m_tfr_L0_tensor", MSPROBE / "torch" / "t_tf_L0_tensor"]
    explained = tnb.compare(chain(changed={"act1": np.tanh}), chain())
    assert explained.findings
    statistics = [MSPROBE / "torch" / f"t_mlp_mix_statistics{end}" for end in ("B", "")]
    return [
        tnb.diff_checkpoints(left, right),
        tnb.draft_weight_map(left, right),
        tnb.open_dump(twins[0]),
        tnb.pair_dumps(*twins),
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


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_an_untrusted_record_is_drawn_readable_and_foldable(harness, record, dark):
    with (
        harness.jupyter(record, dark=dark) as server,
        harness.browser_page(dark=dark, height=7000) as page,
    ):
        harness.shown(server, page, "record.ipynb")
        page.wait_for_selector(f".tsnb >> nth={SHOWN - 1}")
        theme = f'body[data-jp-theme-light="{str(not dark).lower()}"]'
        page.wait_for_selector(theme, state="attached")
        PICTURES.mkdir(exist_ok=True)
        page.screenshot(path=PICTURES / f"untrusted_{'dark' if dark else 'light'}.png")
        # Untrusted: the sanitiser took our style sheet away, and the look must not need it.
        assert page.locator(".jp-OutputArea style").count() == 0
        for i in range(SHOWN):
            block = page.locator(".tsnb").nth(i)
            assert block.bounding_box()["height"] > 20
            worst = block.evaluate(CONTRAST)[0]
            assert worst[0] >= 4.5, worst
        closed = page.locator(".tsnb details:not([open])").first
        before = closed.bounding_box()["height"]
        handle = closed.element_handle()
        closed.locator("summary").first.click()
        assert handle.evaluate("e => e.open")
        assert handle.bounding_box()["height"] > before
        assert page.locator(".tsnb img").first.evaluate("e => e.naturalWidth") > 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_an_exported_page_is_readable_and_fits_the_window(harness, cmp, tmp_path, dark):
    path = tnb.export(cmp, tmp_path / "page.html")
    asked = []
    with harness.browser_page(dark=dark, width=1120) as page:
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        PICTURES.mkdir(exist_ok=True)
        picture = PICTURES / f"page_{'dark' if dark else 'light'}.png"
        page.screenshot(path=picture, full_page=True)
        worst = page.locator(".tsnb").evaluate(CONTRAST)[0]
        assert worst[0] >= 4.5, worst
        wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
