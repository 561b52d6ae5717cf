"""export(): every suffix, from every object, harmless in a spreadsheet."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import troubleshooter_nb as tnb


@pytest.fixture
def cmp(tmp_path):
    left = {"=cmd|x": np.ones(4), "b": np.array([1.0, np.nan, 3.0])}
    right = {"=cmd|x": np.ones(4), "b": np.array([1.0, 2.0, 3.0])}
    return tnb.compare(tnb.save_dump(left, tmp_path / "l"), tnb.save_dump(right, tmp_path / "r"))


def test_a_page_is_complete_and_loads_nothing(cmp, tmp_path):
    text = tnb.export(cmp, tmp_path / "deep" / "page.html").read_text("utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert cmp._repr_html_() in text
    for word in ("<script", "http://", "https://", "<link", " id="):
        assert word not in text.replace("http://www.w3.org/2000/svg", "")


def test_json_is_strict_json_and_keeps_every_row(cmp, tmp_path):
    path = tnb.export(cmp, tmp_path / "t.json")

    def refuse(constant):
        raise AssertionError(constant)

    rows = json.loads(path.read_text("utf-8"), parse_constant=refuse)
    assert len(rows) == len(cmp)
    assert rows[1]["nan_mismatch_count"] == 1


def test_a_name_that_looks_like_a_formula_is_quoted_in_spreadsheets(cmp, tmp_path):
    frame = pd.read_csv(tnb.export(cmp, tmp_path / "t.csv"))
    assert frame["left"][0].startswith("'=cmd")
    pytest.importorskip("openpyxl")
    frame = pd.read_excel(tnb.export(cmp, tmp_path / "t.xlsx"))
    assert frame["left"][0].startswith("'=cmd")


def test_a_pipe_in_a_name_does_not_break_the_markdown_table(cmp, tmp_path):
    lines = tnb.export(cmp, tmp_path / "t.md").read_text("utf-8").splitlines()
    columns = lines[0].count("|")
    assert all(line.count("|") - line.count("\\|") == columns for line in lines)


def test_text_is_the_text_repr(cmp, tmp_path):
    assert tnb.export(cmp, tmp_path / "t.txt").read_text("utf-8") == repr(cmp) + "\n"


@pytest.mark.parametrize("pick", ["dump", "pairing", "diff", "card"])
@pytest.mark.parametrize("suffix", [".html", ".txt", ".csv", ".json", ".md"])
def test_every_object_can_be_exported(cmp, tmp_path, pick, suffix):
    objects = {
        "dump": cmp.pairing.left,
        "pairing": cmp.pairing,
        "diff": cmp["b"],
        "card": tnb.RunCard({"a": 1}),
    }
    assert tnb.export(objects[pick], tmp_path / f"x{suffix}").stat().st_size > 0


def test_an_unknown_suffix_names_the_known_ones(cmp, tmp_path):
    with pytest.raises(ValueError, match=r"'\.doc'; use \.html"):
        tnb.export(cmp, tmp_path / "x.doc")
    with pytest.raises(ValueError, match="without a suffix"):
        tnb.export(cmp, tmp_path / "x")
