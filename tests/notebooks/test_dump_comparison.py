"""The template for dumps runs in a fresh kernel: on its example, given folders and a mapping."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import nbformat
import numpy as np
import pytest
from example_nets import DUMP_FAULTS, make_dumps, make_rank_dumps
from example_nets.dumps import TWINS

import troubleshooter_nb as tnb
from tests.messages.rules import CHINESE
from troubleshooter_nb.cli.main import main

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
TEMPLATE = NOTEBOOKS / "dump_comparison.ipynb"
MAPS = Path(__file__).parents[1] / "data" / "maps"


def texts(notebook) -> str:
    """The text of everything shown or printed, in order."""
    return "\n".join(
        output.get("text", "") or output.get("data", {}).get("text/plain", "")
        for cell in notebook.cells
        for output in cell.get("outputs", [])
    )


@pytest.mark.notebook
def test_the_example_finds_the_planted_fault_and_writes_record_and_page(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    words = ["-p", "page", "found.html", "--html", "-o", "record.ipynb"]
    assert main(["notebook", "run", "dump_comparison", *words]) == 1
    verdict, *written = re.split(r" written: ", " ".join(capsys.readouterr().out.split()))
    origins = r"1 created the error, \d+ carried it"
    first = r"first at blocks\.1\.up output 0 \(#49\)"
    assert re.match(rf"✗ \d+ of 125 pairs differ: {origins} · ➤ {first}", verdict)
    assert written == ["record.ipynb", "record.html"]
    text = Path("record.ipynb").read_text("utf-8")
    # The mapping that was drafted declares all that was found without it.
    assert "DecoderCell:" in text
    assert "input_norm: ln1" in text
    # Rank 1 fails in the last step; merged, the half of the tensor that it holds.
    assert "99 % of the squared error lies in [8:16] of 16 on axis 0" in text
    for path in map(Path, (*written, "found.html")):
        for private in (str(tmp_path), str(Path.home()), "/tmp/"):
            assert private not in path.read_text("utf-8"), path


@pytest.mark.notebook
def test_a_chinese_record_is_read_in_chinese(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["notebook", "new", "dump_comparison", "--language", "zh"]) == 0
    # The copy says its language itself, whatever that of the command.
    words = {"dump_comparison.ipynb": [], "dump_comparison": ["--language", "zh"]}
    for number, (name, more) in enumerate(words.items()):
        assert main(["notebook", "run", name, *more, "-o", f"{number}.ipynb"]) == 1
        assert "对不一致" in capsys.readouterr().out
        record = nbformat.read(f"{number}.ipynb", as_version=4)
        assert not any("troubleshooter_nb" in cell.metadata for cell in record.cells)
        prose = [cell.source for cell in record.cells if cell.cell_type == "markdown"]
        assert [text for text in prose if not CHINESE.search(text)] == []
        assert "两次运行可以比较吗？" in texts(record)
    # English when it is asked for.
    words = ["-p", "language", "en", "--language", "zh", "-o", "english.ipynb"]
    assert main(["notebook", "run", "dump_comparison", *words]) == 1
    record = nbformat.read("english.ipynb", as_version=4)
    assert [cell.source for cell in record.cells if CHINESE.search(cell.source)] == []


@pytest.mark.notebook
def test_the_dumps_as_they_were_written_agree_with_a_mapping_file(run_demo):
    parameters = {"fault": "none", "mapping": str(MAPS / "maps_layer_tf.yaml"), "language": "zh"}
    notebook = run_demo.execute(TEMPLATE, parameters)
    assert run_demo.verdict(notebook).startswith("✓ 125")
    assert "125 user" in texts(notebook)


@pytest.mark.notebook
def test_given_folders_of_several_ranks_are_compared_and_merged(run_demo, tmp_path):
    left, right, whole = make_rank_dumps(tmp_path)
    parameters = {"left": str(left), "right": str(right), "whole": str(whole), "step": 1}
    first, second = (run_demo.execute(TEMPLATE, parameters) for _ in range(2))
    assert run_demo.verdict(first).startswith("✗ 2 of 6 pairs differ")
    assert [cell.get("outputs") for cell in first.cells] == [
        cell.get("outputs") for cell in second.cells
    ]
    assert "2 ranks merged" in texts(first)


@pytest.mark.notebook
def test_what_one_side_lacks_is_said_before_the_comparison(run_demo, tmp_path):
    left, _, whole = make_rank_dumps(tmp_path)
    damaged = next(whole.rglob("x_*.npy"))
    damaged.write_bytes(damaged.read_bytes()[:20])
    notebook = run_demo.execute(TEMPLATE, {"left": str(left), "right": str(whole)})
    shown = texts(notebook)
    assert "rank 1 only on the left" in shown
    assert shown.index("rank 1 only on the left") < shown.index("pairs differ")
    assert str(tmp_path) not in shown


@pytest.mark.notebook
def test_one_folder_alone_is_refused(run_demo, tmp_path):
    with pytest.raises(Exception, match="fill in both left and right"):
        run_demo.execute(TEMPLATE, {"right": str(tmp_path)})


def test_the_unpacked_twins_are_the_archive_and_replace_earlier_ones(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "dump.json").write_text("{}")
    assert make_dumps(tmp_path, "none") == (tmp_path / "mindspore", tmp_path / "torch")
    with zipfile.ZipFile(TWINS) as archive:
        packed = {name: archive.read(name) for name in archive.namelist()}
    assert packed == {
        path.relative_to(tmp_path).as_posix(): path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    assert TWINS.stat().st_size < 300_000


def test_the_planted_fault_spoils_what_is_computed_behind_it_and_no_parameter(tmp_path):
    table = tnb.compare(*make_dumps(tmp_path), rtol=1e-4, atol=1e-6).to_dataframe()
    outputs = table[(table.direction == "forward") & (table.role == "output")]
    first = outputs.index[outputs.left_display == "blocks.1.up output 0"][0]
    assert outputs.passed.loc[: first - 1].all()
    assert not outputs.passed.loc[first:].any()
    assert table.passed[(table.direction == "forward") & (table.role == "parameter")].all()
    assert not table.passed[table.direction == "backward"].any()


def test_an_unknown_fault_of_the_dumps_is_refused(tmp_path):
    with pytest.raises(ValueError, match=", ".join(DUMP_FAULTS)):
        make_dumps(tmp_path, "typo")


def test_the_ranks_hold_the_halves_of_the_network(tmp_path):
    _, right, whole = (tnb.open_dump(path) for path in make_rank_dumps(tmp_path))
    halves = right.select(name="up.weight*", step=0).to_dataframe()
    assert list(halves["rank"]) == [0, 1]
    merged = tnb.merge_ranks(right, {"up.weight*": 0, "up.output*": 1, "x*": "same"})
    cmp = tnb.compare(merged, whole, rtol=1e-6, atol=1e-6)
    assert cmp.passed
    assert len(cmp.to_dataframe()) == 6
    assert np.isfinite(cmp.to_dataframe().rel_l2_error).all()
