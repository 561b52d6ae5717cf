"""No file that is written to be sent says whose it is: no folder, home, host or user.

Executed notebooks are read in `tests/notebooks/conftest.py`, every one that a test makes.
"""

from __future__ import annotations

import getpass
import socket
import zipfile
from pathlib import Path

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.cli.main import main
from troubleshooter_nb.report import check_export

SUFFIXES = (".html", ".csv", ".json", ".xlsx", ".md", ".txt")


def saved(folder):
    """Two runs, checkpoints and logs in a folder of somebody's; one file of them is damaged."""
    rng = np.random.default_rng(0)
    weights = {f"l{i}.weight": rng.standard_normal((8, 8)).astype("f4") for i in range(4)}
    moved = weights | {"l2.weight": weights["l2.weight"].T.copy(), "l9.weight": np.ones(3, "f4")}
    for side, values in (("left", moved), ("right", weights)):
        tnb.save_dump(values, folder / side, card=tnb.RunCard.current(seed=0))
        tnb.save_dump(values, folder / f"{side}.ckpt")
        losses = 3.0 / np.arange(1.0, 41.0) + (side == "left") * np.linspace(0, 1, 40)
        lines = [f"step {step} loss {loss:.6f}\n" for step, loss in enumerate(losses)]
        (folder / f"{side}.log").write_text("".join(lines))
    damaged = next((folder / "left").glob("l0*.npy"))
    damaged.write_bytes(damaged.read_bytes()[:-4])


def made(folder):
    """Every kind of object that can be exported, of files that are named by their whole paths."""
    saved(folder)
    left, right = folder / "left", folder / "right"
    cmp = tnb.compare(left, right)
    yield from (
        cmp,
        cmp.explain(),
        cmp.pairing,
        cmp["l2.weight"],
        cmp.left_card,
        tnb.open_dump(left),
    )
    yield tnb.diff_checkpoints(folder / "left.ckpt", folder / "right.ckpt")
    weight_map = tnb.draft_weight_map(folder / "right.ckpt", "torch")
    yield weight_map
    yield tnb.convert_weights(folder / "right.ckpt", folder / "right.pth", weight_map)
    yield from (tnb.open_series(folder / "left.log"), tnb.Overflow())
    yield tnb.compare_series(folder / "left.log", folder / "right.log")


def texts(path):
    """All that is written in a file; a workbook is an archive."""
    if path.suffix != ".xlsx":
        return [path.read_text("utf-8")]
    with zipfile.ZipFile(path) as archive:
        return [archive.read(name).decode() for name in archive.namelist()]


def private_in(text, folder):
    """What of this machine and its user stands in a text."""
    facts = [str(folder), str(Path.home()) + "/", socket.gethostname(), getpass.getuser()]
    # The names of a container, vm or root, are words as well.
    return [fact for fact in facts if len(fact) > 5 and fact in text]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_page_or_table_says_whose_it_is(tmp_path, monkeypatch, language):
    monkeypatch.setenv("USER", "somebody-of-here")
    monkeypatch.setenv("LOGNAME", "somebody-of-here")
    folder = tmp_path / "somebody-of-here"
    folder.mkdir()
    seen = set()
    with tnb.option_context(language=language):
        for obj in made(folder):
            for suffix in SUFFIXES:
                try:
                    check_export(type(obj), f"x{suffix}")
                except tnb.ArgumentError:
                    continue
                path = tnb.export(obj, tmp_path / f"x{suffix}")
                seen.add((type(obj).__name__, suffix))
                found = [fact for text in texts(path) for fact in private_in(text, folder)]
                assert found == [], (type(obj).__name__, suffix)
    assert len(seen) > 50


def test_what_the_command_writes_says_it_neither(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "somebody-of-here"
    folder.mkdir()
    saved(folder)
    outputs = [word for suffix in SUFFIXES for word in ("-o", f"x{suffix}")]
    assert main(["compare", str(folder / "left"), str(folder / "right"), *outputs]) == 1
    assert main(["convert", str(folder / "right.ckpt"), "x.yaml"]) in (0, 1)
    files = [path for path in tmp_path.iterdir() if path.is_file()]
    assert len(files) == len(SUFFIXES) + 1
    found = {path.name: [private_in(text, folder) for text in texts(path)] for path in files}
    assert {name: facts for name, facts in found.items() if any(facts)} == {}
