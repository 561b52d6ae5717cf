"""Which templates there are: in the repository, and in the wheel that is built of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest

from tests.messages.rules import english_in
from troubleshooter_nb.templates import shipped
from troubleshooter_nb.templates.parameters import parameters_of, tagged

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
TEMPLATES = shipped.templates()


def test_every_notebook_of_the_repository_is_a_template():
    assert [*TEMPLATES] == sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
    assert shipped.folder() == NOTEBOOKS


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_says_what_it_is_for_in_both_languages(name):
    one = TEMPLATES[name]
    assert {*one.titles} == {*one.about} == {"en", "zh"}
    assert one.titles["en"] != name
    assert [english_in(said["zh"]) for said in (one.titles, one.about)] == ["", ""]
    assert {*one.needs} <= {"torch", "mindspore"}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_tells_its_outcome_and_has_the_parameters_it_names(name):
    notebook = nbformat.read(TEMPLATES[name].path, as_version=4)
    known = parameters_of(notebook)
    assert {*TEMPLATES[name].writes, "page", "language"} <= {*known}
    assert all(one.comment for one in known.values())
    verdict = notebook.cells[tagged(notebook.cells, "verdict")]
    assert verdict is notebook.cells[-1]
    assert "\ntnb.outcome(" in verdict.source


def test_an_installation_without_templates_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(shipped, "_HERE", tmp_path / "troubleshooter_nb" / "templates")
    with pytest.raises(FileNotFoundError, match="missing from this installation: install"):
        shipped.templates()


def in_wheel(site, folder, *command):
    """What a command prints in a folder, with the package of an unpacked wheel."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.extra
def test_the_wheel_has_the_templates_and_examples_of_the_repository(tmp_path):
    # The loops are compiled elsewhere; here their file is in use.
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"CC": "false"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    site, folder = tmp_path / "site", tmp_path / "empty"
    folder.mkdir()
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    inside = site / "troubleshooter_nb" / "templates" / "notebooks"
    files = [path.relative_to(inside) for path in inside.rglob("*") if path.is_file()]
    tracked = subprocess.run(
        ["git", "ls-files", "notebooks"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert sorted(f"notebooks/{path.as_posix()}" for path in files) == tracked.stdout.splitlines()
    for path in files:
        assert (inside / path).read_bytes() == (NOTEBOOKS / path).read_bytes()
    # As it is used: from a folder that has nothing to do with the repository.
    listed = in_wheel(site, folder, "-m", "troubleshooter_nb", "notebook", "list", "--json")
    assert [one["name"] for one in json.loads(listed)] == [*TEMPLATES]
    code = (
        "import troubleshooter_nb as tnb; place = tnb.use_example_nets()\n"
        "from example_nets import make_dumps; left, right = make_dumps('here')\n"
        "print(place.__path__[0], len(tnb.open_dump(right)))"
    )
    assert in_wheel(site, folder, "-c", code).startswith(f"{inside / 'example_nets'} ")


def test_what_lies_beside_the_templates_is_none_of_them(monkeypatch, tmp_path):
    known = shipped.folder()
    for name in ("example_nets", "dump_comparison.ipynb"):
        (tmp_path / name).symlink_to(known / name)
    template = json.loads((known / "dump_comparison.ipynb").read_text(encoding="utf-8"))
    ran = [{**cell, "outputs": [{}]} for cell in template["cells"] if "outputs" in cell]
    record = {**template, "cells": ran}
    (tmp_path / "dump_comparison-record.ipynb").write_text(json.dumps(record), encoding="utf-8")
    (tmp_path / "broken.ipynb").write_text("{")
    (tmp_path / ".hidden.ipynb").touch()
    (tmp_path / "own.ipynb").write_text('{"cells": [], "metadata": {"troubleshooter_nb": "x"}}')
    monkeypatch.setattr(shipped, "folder", lambda: tmp_path)
    assert [*shipped.templates()] == ["dump_comparison"]
    assert shipped.describe(Path("own.ipynb"), {"metadata": {"troubleshooter_nb": "x"}}).about == {}
