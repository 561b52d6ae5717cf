"""Two small runs that differ in one weight, and what the command line says of them."""

from __future__ import annotations

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.cli.main import main

LANGUAGES = ("LC_ALL", "LC_MESSAGES", "LANG", "TNB_LANGUAGE")


def weights(changed=0.0):
    """Five matrices; the fourth may be moved."""
    rng = np.random.default_rng(0)
    found = {f"l{i}.weight": rng.standard_normal((8, 8)).astype("f4") for i in range(5)}
    found["l3.weight"] += np.float32(changed)
    return found


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """A folder with `left`, `right`, which differs from it, and `same`, which does not."""
    folder = tmp_path_factory.mktemp("runs")
    for name, changed in (("left", 0.1), ("right", 0.0), ("same", 0.0)):
        tnb.save_dump(weights(changed), folder / name)
        tnb.save_dump(weights(changed), folder / f"{name}.ckpt")
        losses = 3.0 / np.arange(1.0, 41.0) + np.where(np.arange(40) < 20, 0, changed)
        lines = [f"step {i} loss {loss:.6f}\n" for i, loss in enumerate(losses)]
        (folder / f"{name}.log").write_text("".join(lines))
    return folder


@pytest.fixture
def said(monkeypatch, capsys, tmp_path):
    """Runs a command line in an empty folder: exit code, standard output, standard error."""
    for name in LANGUAGES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)

    def run(*words):
        code = main([str(word) for word in words])
        return code, *capsys.readouterr()

    return run
