"""A throw-away JupyterLab on 127.0.0.1 and headless Chromium to look at it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
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


@contextlib.contextmanager
def jupyter_lab(root: Path, *, dark: bool = False, timeout: float = 90) -> Iterator[str]:
    """Address of a server whose whole state, trust database included, lies under `root`."""
    state = root / ".jupyter-test"
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    folders = {name: state / name.lower() for name in names}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    settings = folders["JUPYTER_CONFIG_DIR"] / "lab/user-settings/@jupyterlab/apputils-extension"
    settings.mkdir(parents=True, exist_ok=True)
    theme = {"theme": "JupyterLab Dark" if dark else "JupyterLab Light"}
    (settings / "themes.jupyterlab-settings").write_text(json.dumps(theme))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    base = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += [f"--port={port}", "--ip=127.0.0.1", "--ServerApp.port_retries=0"]
    command += ["--IdentityProvider.token=", f"--ServerApp.root_dir={root}"]
    command += ["--LabApp.news_url=None", "--LabApp.expose_app_in_browser=True"]
    command += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    environment = os.environ | {name: str(folder) for name, folder in folders.items()}
    with (state / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            _wait_for(base, server, state / "server.log", timeout)
            yield base
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGTERM)
            try:
                server.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)


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


def open_in_lab(page: Page, base: str, notebook: str) -> None:
    """Show a notebook and wait until its outputs are drawn."""
    page.goto(f"{base}/lab/tree/{notebook}?reset")
    page.wait_for_selector(".jp-NotebookPanel .jp-Cell")
    page.wait_for_function("() => window.jupyterapp && window.jupyterapp.restored")


def _wait_for(base: str, server: subprocess.Popen[bytes], log: Path, timeout: float) -> None:
    end = time.monotonic() + timeout
    while True:
        if server.poll() is not None:
            msg = f"Jupyter ended early:\n{log.read_text()[-3000:]}"
            raise RuntimeError(msg)
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{base}/api", timeout=2).read()
            return
        if time.monotonic() > end:
            msg = f"Jupyter did not answer within {timeout} s"
            raise TimeoutError(msg)
        time.sleep(0.2)
