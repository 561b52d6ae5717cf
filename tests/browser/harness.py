"""One harness for all browser tests: a throw-away Jupyter, three front ends, the kernel's own word.

A test writes a notebook, opens it in ``lab``, ``notebook7`` or ``nbclassic``, acts with mouse or
keyboard, waits for what the page shows and then asks the kernel. Nothing sleeps and nothing is
tried twice: a wait is for a condition, and one that never comes is a failure.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client import BlockingKernelClient
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Locator, Page, sync_playwright

FRONT_ENDS = ("lab", "notebook7", "nbclassic")
PICTURES = Path(__file__).parent / "pictures"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_MODULES = {"lab": "jupyterlab", "notebook7": "notebook", "nbclassic": "nbclassic"}
# Without the background flags Chromium keeps trying to reach hosts a closed network refuses.
_ARGUMENTS = [
    "--no-sandbox",  # needed as root
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-dev-shm-usage",
]
# Without a kernel name JupyterLab opens with a dialog in front of the notebook.
_KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


def missing(front_end: str) -> str:
    """Why a front end cannot run here, or nothing."""
    name = _MODULES[front_end]
    return "" if importlib.util.find_spec(name) else f"not installed: {name}"


@dataclass
class Server:
    """A running server whose whole state, trust database included, lies under `root`."""

    base: str
    root: Path
    folders: dict[str, Path]

    def write(
        self, name: str, cells: Sequence[str], outputs: Sequence[Sequence[Any]] | None = None
    ) -> Path:
        """A notebook of these cells; nobody signed it, so stored outputs are untrusted."""
        given = outputs or [[] for _ in cells]
        made = [
            new_code_cell(text, outputs=list(out)) for text, out in zip(cells, given, strict=True)
        ]
        path = self.root / name
        nbformat.write(new_notebook(cells=made, metadata={"kernelspec": _KERNEL}), path)
        return path

    def sign(self, name: str) -> None:
        """Trust a notebook as this server would once it was run here."""
        code = (
            "import nbformat, sys; from nbformat.sign import NotebookNotary;"
            "NotebookNotary().sign(nbformat.read(sys.argv[1], 4))"
        )
        command = [sys.executable, "-c", code, str(self.root / name)]
        subprocess.run(command, env=self.environment, check=True, timeout=60)

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of the server and its kernels."""
        return os.environ | {name: str(folder) for name, folder in self.folders.items()}


@contextlib.contextmanager
def jupyter(
    root: Path, *, dark: bool = False, widget_state: bool = True, timeout: float = 90
) -> Iterator[Server]:
    """A server for all front ends that are installed.

    Parameters
    ----------
    root : Path
        Where notebooks, settings and the trust database lie.
    dark : bool
        Theme of JupyterLab and Notebook 7; nbclassic has a light one only.
    widget_state : bool
        Whether JupyterLab and Notebook 7 save the state of widgets in the file.
    timeout : float
        Seconds until the server has to answer.
    """
    state = root / ".jupyter-test"
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    folders = {name: state / name.lower() for name in names}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    config = folders["JUPYTER_CONFIG_DIR"]
    settings = config / "lab" / "user-settings"
    _store(
        settings / "@jupyterlab/apputils-extension/themes.jupyterlab-settings",
        {"theme": "JupyterLab Dark" if dark else "JupyterLab Light"},
    )
    # Or a question about news stands in front of the lower right corner.
    _store(
        settings / "@jupyterlab/apputils-extension/notification.jupyterlab-settings",
        {"fetchNews": "false", "checkForUpdates": False},
    )
    _store(
        settings / "@jupyter-widgets/jupyterlab-manager/plugin.jupyterlab-settings",
        {"saveState": widget_state},
    )
    extensions = [_MODULES[one] for one in FRONT_ENDS if not missing(one)]
    # notebook_shim lets nbclassic find its own extensions, that of the widgets among them.
    extensions += ["notebook_shim"]
    enabled = {"ServerApp": {"jpserver_extensions": dict.fromkeys(extensions, True)}}
    _store(config / "jupyter_server_config.json", enabled)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = Server(f"http://127.0.0.1:{port}", root, folders)
    command = [sys.executable, "-m", "jupyter_server", "--ServerApp.allow_root=True"]
    command += ["--ServerApp.open_browser=False", "--ServerApp.ip=127.0.0.1"]
    command += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    command += ["--IdentityProvider.token=", f"--ServerApp.root_dir={root}"]
    # Without a token every request that ends a kernel would need the page's cookie.
    command += ["--ServerApp.disable_check_xsrf=True"]
    command += ["--LabApp.news_url=None", "--LabApp.expose_app_in_browser=True"]
    command += ["--JupyterNotebookApp.expose_app_in_browser=True"]
    command += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    with (state / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            env=server.environment | {"PYDEVD_DISABLE_FILE_VALIDATION": "1"},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _wait_for(server.base, process, state / "server.log", timeout)
            yield server
        finally:
            _end(server.base, process)


@contextlib.contextmanager
def browser_page(*, dark: bool = False, width: int = 1280, height: int = 1000) -> Iterator[Page]:
    """A page of headless Chromium that prefers the given colour scheme."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_ARGUMENTS)
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        page = context.new_page()
        page.set_default_timeout(60_000)
        try:
            yield page
        finally:
            browser.close()


@dataclass
class Notebook:
    """A notebook that is open in a page."""

    server: Server
    page: Page
    name: str
    front_end: str
    _client: BlockingKernelClient | None = field(default=None, repr=False)

    def run_all(self) -> None:
        """Run all cells; what they show is waited for by whoever needs it."""
        if self.front_end == "nbclassic":
            self.page.evaluate("() => { Jupyter.notebook.execute_all_cells(); }")
        else:
            self.page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")

    def restart(self) -> None:
        """A new process for the kernel, as the menu entry makes one; the page keeps its outputs."""
        self._disconnect()
        self.page.evaluate(
            """() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()
                 .then(() => true)"""
        )
        self.page.wait_for_function(
            """() => { const w = window.jupyterapp.shell.currentWidget;
                       const k = w.sessionContext.session.kernel;
                       return k.connectionStatus === 'connected' && k.status === 'idle'; }"""
        )

    def ask(self, **expressions: str) -> dict[str, str]:
        """The reprs of expressions as the kernel itself evaluates them, past the front end.

        An expression that fails gives ``"NameError: ..."``.
        """
        client = self._connected()
        message = client.execute("", store_history=False, user_expressions=expressions)
        while True:
            reply = client.get_shell_msg(timeout=60)
            if reply["parent_header"].get("msg_id") == message:
                break
        return {
            name: answer["data"]["text/plain"]
            if answer["status"] == "ok"
            else f"{answer['ename']}: {answer['evalue']}"
            for name, answer in reply["content"]["user_expressions"].items()
        }

    def save(self) -> Path:
        """Save the notebook as the front end does; the file is complete on return."""
        if self.front_end == "nbclassic":
            # Its menu entry collects the state of the widgets; saving alone does not.
            self.page.evaluate(
                """() => {
                  const done = new Promise(resolve =>
                    Jupyter.notebook.events.one('notebook_saved.Notebook', resolve));
                  Jupyter.notebook.save_notebook();
                  return done.then(() => true);
                }"""
            )
        else:
            self.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.save()")
        return self.server.root / self.name

    def close(self) -> None:
        """Leave the page and end the kernel, as somebody who goes home does."""
        self._disconnect()
        self.page.goto("about:blank")
        for kernel in _json(f"{self.server.base}/api/sessions"):
            if kernel["path"].endswith(self.name):
                _delete(f"{self.server.base}/api/sessions/{kernel['id']}")

    def widget_state_bytes(self) -> int:
        """Bytes of the state of widgets in the saved file."""
        stored = nbformat.read(self.server.root / self.name, as_version=4)
        return len(json.dumps(stored.metadata.get("widgets", {})).encode())

    def screenshot(self, label: str, target: Locator | None = None) -> Path:
        """A picture of the page, or of one element, in the ignored folder ``pictures``."""
        PICTURES.mkdir(exist_ok=True)
        path = PICTURES / f"{label}.png"
        (target or self.page).screenshot(path=path)
        return path

    def _connected(self) -> BlockingKernelClient:
        if self._client is None:
            sessions = _json(f"{self.server.base}/api/sessions")
            kernel = next(s["kernel"]["id"] for s in sessions if s["path"].endswith(self.name))
            runtime = self.server.folders["JUPYTER_RUNTIME_DIR"]
            client = BlockingKernelClient(connection_file=str(runtime / f"kernel-{kernel}.json"))
            client.load_connection_file()
            client.start_channels()
            client.wait_for_ready(timeout=60)
            self._client = client
        return self._client

    def _disconnect(self) -> None:
        if self._client is not None:
            self._client.stop_channels()
            self._client = None


@contextlib.contextmanager
def opened(server: Server, page: Page, name: str, front_end: str = "lab") -> Iterator[Notebook]:
    """A notebook that is shown and whose kernel is connected, so that cells can be run."""
    base = server.base
    notebook = Notebook(server, page, name, front_end)
    if front_end == "nbclassic":
        page.goto(f"{base}/nbclassic/notebooks/{name}")
        page.wait_for_selector("#notebook .cell")
        # A cell that runs before the widget manager listens shows nothing.
        page.wait_for_function(
            """() => window.Jupyter && Jupyter.notebook && Jupyter.notebook.kernel
                 && Jupyter.notebook.kernel.is_connected()
                 && Jupyter.notebook.kernel.info_reply.status === 'ok'
                 && Jupyter.notebook.kernel.widget_manager"""
        )
    else:
        path = f"lab/tree/{name}?reset" if front_end == "lab" else f"notebooks/{name}"
        page.goto(f"{base}/{path}")
        page.wait_for_selector(".jp-Notebook .jp-Cell")
        # Notebook 7 registers its commands late, and one that is not there is lost.
        page.wait_for_function(
            """() => window.jupyterapp && window.jupyterapp.commands
                 && window.jupyterapp.commands.hasCommand('notebook:run-all-cells')"""
        )
        page.evaluate("() => window.jupyterapp.restored")
        # A command that is sent before the kernel is connected is lost without a message.
        page.wait_for_function(
            """() => { const w = window.jupyterapp.shell.currentWidget;
                       const k = w && w.sessionContext && w.sessionContext.session
                         && w.sessionContext.session.kernel;
                       return k && k.connectionStatus === 'connected' && k.status === 'idle'; }"""
        )
    try:
        yield notebook
    finally:
        notebook._disconnect()


def shown(server: Server, page: Page, name: str) -> None:
    """Show a notebook in JupyterLab as it was stored, until its outputs are drawn."""
    page.goto(f"{server.base}/lab/tree/{name}?reset")
    page.wait_for_selector(".jp-NotebookPanel .jp-Cell")
    page.wait_for_function("() => window.jupyterapp && window.jupyterapp.restored")


def measured(root: Locator, act: Callable[[], object]) -> float:
    """Milliseconds from what the user does to the frame in which the page shows the answer.

    Parameters
    ----------
    root : Locator
        The widget's outermost element. Where it has ``data-pending``, the number of questions
        that the kernel has not answered yet, the answers count: the time ends when that is 0 and
        nothing was drawn for 80 ms, with the frame after the last change.
    act : callable
        The interaction. The clock starts in the page, at its last click, key, input, drop or
        scroll; what the driver needs to get there does not count.

    Notes
    -----
    The pause of 80 ms is waited for, not counted.
    """
    root.evaluate(_CLOCK)
    act()
    return float(root.evaluate("root => root.tnbMeasured"))


_CLOCK = """
root => { root.tnbMeasured = new Promise(resolve => {
  const QUIET = 80;
  let start = 0, last = 0, shown = 0;
  const kinds = ['click', 'keydown', 'input', 'drop', 'change', 'scroll'];
  const begin = event => {
    // A drop ends with a dragend and a key with an input: the first of them is the user's.
    const now = performance.now();
    if (start && event.type === 'scroll') return; // a list that goes to its top scrolls too
    if (!start || now - last > 30) { start = now; last = now; shown = 0; }
  };
  for (const kind of kinds) root.addEventListener(kind, begin, true);
  const frame = () => requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => { if (!shown) shown = performance.now(); };
    channel.port2.postMessage(0);
  });
  const changed = new MutationObserver(() => { last = performance.now(); shown = 0; frame(); });
  changed.observe(root, {subtree: true, childList: true, attributes: true, characterData: true});
  const poll = () => {
    const pending = Number(root.dataset.pending || 0);
    if (start && !pending && performance.now() - last > QUIET) {
      for (const kind of kinds) root.removeEventListener(kind, begin, true);
      changed.disconnect();
      resolve((shown || last) - start);
    } else requestAnimationFrame(poll);
  };
  poll();
}); }
"""


READABLE = 4.5  # contrast of normal text, WCAG 2.2 AA


def palest(root: Locator) -> tuple[float, str]:
    """The contrast of the text that is hardest to read below an element, and its beginning.

    Every text counts against what is painted behind it, opacity and translucent bars included.
    """
    ratio, text = root.evaluate(_CONTRASTS)[0]
    return float(ratio), str(text)


_CONTRASTS = """
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


def unnamed(root: Locator) -> list[str]:
    """Tab stops of a widget that a screen reader has no name for."""
    return list(root.evaluate(_UNNAMED))


_UNNAMED = """
root => [...root.querySelectorAll('*')].filter(node => {
  if (node.tabIndex < 0 || !node.checkVisibility()) return false;
  if (node.getAttribute('aria-label') || (node.labels && node.labels.length)) return false;
  return !(/^(BUTTON|LI|TR)$/.test(node.tagName) && node.textContent.trim());
}).map(node => node.cloneNode(false).outerHTML)
"""


def settled(root: Locator) -> None:
    """Wait until a widget's kernel has answered everything (``data-pending`` is 0).

    The table below it, which the file holds, may still follow: see `followed`.
    """
    handle = root.element_handle()
    root.page.wait_for_function("root => root.dataset.pending === '0'", arg=handle)


# JupyterLab's own words where a kernel that connects a second time ends the restoring of widgets
# before it has read those of the notebook. Seen on a loaded machine, one time in eight; no code of
# a widget has run then, so that only the output below it can say what to do.
NOT_RESTORED = "Error displaying widget: model not found"


def reopened(page: Page, selector: str) -> str:
    """What stands in place of a widget in a notebook that was opened again without its kernel.

    Parameters
    ----------
    page : Page
    selector : str
        Where the widget itself says that nobody answers.
    """
    said = page.locator(selector).filter(has_text="run the cell again")
    found = said.or_(page.get_by_text(NOT_RESTORED)).first
    found.wait_for()
    return found.inner_text()


def followed(root: Locator) -> None:
    """Wait until the static table of an editor shows its last state, too."""
    settled(root)
    handle = root.element_handle()
    root.page.wait_for_function("root => root.parentElement.dataset.drawing === '0'", arg=handle)


def _store(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def _json(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as reply:
        return json.load(reply)


def _delete(url: str) -> None:
    request = urllib.request.Request(url, method="DELETE")
    urllib.request.urlopen(request, timeout=15).read()


def _end(base: str, process: subprocess.Popen[bytes]) -> None:
    """End the kernels, which have process groups of their own, then the server's."""
    with contextlib.suppress(OSError):
        for kernel in _json(f"{base}/api/kernels"):
            _delete(f"{base}/api/kernels/{kernel['id']}")
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)


def _wait_for(base: str, process: subprocess.Popen[bytes], log: Path, timeout: float) -> None:
    end = time.monotonic() + timeout
    while True:
        if process.poll() is not None:
            msg = f"Jupyter ended early:\n{log.read_text()[-3000:]}"
            raise RuntimeError(msg)
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{base}/api", timeout=2).read()
            return
        if time.monotonic() > end:
            msg = f"Jupyter did not answer within {timeout} s"
            raise TimeoutError(msg)
        time.sleep(0.2)  # the server has no event to wait for
