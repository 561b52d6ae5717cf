"""export(): every suffix, from every object, harmless in a spreadsheet."""

from __future__ import annotations

import json
from time import sleep

import numpy as np
import pandas as pd
import pytest

import troubleshooter_nb as tnb
from tests.analysis.runs import chain


@pytest.fixture
def cmp(tmp_path):
    left = {"=cmd|x": np.ones(4), "b": np.array([1.0, np.nan, 3.0])}
    right = {"=cmd|x": np.ones(4), "b": np.array([1.0, 2.0, 3.0])}
    return tnb.compare(tnb.save_dump(left, tmp_path / "l"), tnb.save_dump(right, tmp_path / "r"))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_page_is_complete_and_loads_nothing(cmp, tmp_path, language):
    with tnb.option_context(language=language):
        text = tnb.export(cmp, tmp_path / "deep" / "page.html").read_text("utf-8")
        assert cmp._repr_html_() in text
    assert text.startswith(f'<!DOCTYPE html><html lang="{language}">')
    for word in ("<script", "http://", "https://", "<link", " id="):
        assert word not in text.replace("http://www.w3.org/2000/svg", "")


def test_json_is_strict_json_and_keeps_every_row(cmp, tmp_path):
    path = tnb.export(cmp, tmp_path / "t.json")

    def refuse(constant):
        raise AssertionError(constant)

    content = json.loads(path.read_text("utf-8"), parse_constant=refuse)
    assert len(content["pairs"]) == len(cmp)
    assert content["pairs"][1]["nan_mismatch_count"] == 1
    assert content["verdict"] == cmp.verdict
    rows = json.loads(tnb.export(cmp.pairing, tmp_path / "p.json").read_text("utf-8"))
    assert len(rows) == len(cmp)


@pytest.fixture(scope="module")
def explained():
    """A run whose second activation is another one."""
    runs = chain(changed={"act1": np.tanh}, label="l"), chain(label="r")
    return tnb.compare(*runs)


def test_what_was_found_is_in_every_export(explained, tmp_path):
    assert [f.cause for f in explained.findings][:1] == ["activation_changed"]
    content = json.loads(tnb.export(explained, tmp_path / "t.json").read_text("utf-8"))
    assert content["findings"][0]["cause"] == "activation_changed"
    assert "tanh" in content["findings"][0]["proof"]
    assert content["findings"][0]["evidence"]["left"] == "tanh"
    assert {"what": "inputs", "status": "ok"}.items() <= content["checks"][0].items()
    assert [row["origin"] for row in content["pairs"]].count("created") == 1
    for suffix in (".html", ".md", ".txt"):
        text = tnb.export(explained, tmp_path / f"t{suffix}").read_text("utf-8")
        assert "Another activation, or none, or applied twice" in text, suffix
        assert "created" in text
        assert "carried" in text
    table = pd.read_csv(tnb.export(explained, tmp_path / "t.csv"))
    assert {"origin", "growth", "source_error"} <= set(table.columns)
    pytest.importorskip("openpyxl")
    sheets = pd.read_excel(tnb.export(explained, tmp_path / "t.xlsx"), sheet_name=None)
    assert list(sheets) == ["pairs", "findings", "checks"]
    assert len(sheets["pairs"]) == len(explained)
    assert sheets["findings"]["cause"][0] == "activation_changed"
    assert "inputs" in list(sheets["checks"]["what"])


def test_exports_speak_the_language_of_the_options(explained, tmp_path):
    with tnb.option_context(language="zh"):
        content = json.loads(tnb.export(explained, tmp_path / "t.json").read_text("utf-8"))
    assert content["findings"][0]["title"] == "激活函数不同、缺失或重复"


def test_a_name_that_looks_like_a_formula_is_quoted_in_spreadsheets(cmp, tmp_path):
    frame = pd.read_csv(tnb.export(cmp, tmp_path / "t.csv"))
    assert frame["left"][0].startswith("'=cmd")
    pytest.importorskip("openpyxl")
    frame = pd.read_excel(tnb.export(cmp, tmp_path / "t.xlsx"))
    assert frame["left"][0].startswith("'=cmd")


def test_a_pipe_in_a_name_does_not_break_the_markdown_table(cmp, tmp_path):
    lines = tnb.export(cmp, tmp_path / "t.md").read_text("utf-8").splitlines()
    said, lines = lines[: lines.index("")], lines[lines.index("") + 1 :]
    lines = lines[: lines.index("")] if "" in lines else lines
    assert all(line.startswith("    ") for line in said)
    columns = {line.count("|") - line.count("\\|") for line in lines}
    assert len(columns) == 1
    assert any("a\\|b" in line or "=cmd\\|x" in line for line in lines)


def test_text_has_all_rows_whole_and_the_explanation(tmp_path):
    name = "a_network_with_a_very_long_name_of_its_own.blocks_of_many_kinds.{}.attention.weight"
    right = {name.format(n): np.arange(6.0) + n for n in range(40)}
    left = right | {name.format(3): np.arange(6.0)}
    compared = tnb.compare(left, right, progress=False)
    text = tnb.export(compared, tmp_path / "t.txt").read_text("utf-8")
    assert all(name.format(n) in text for n in range(40))
    assert "…" not in text.split("\n\n")[0].replace("…|Δ|…", "")
    assert text.endswith(f"\n\n{compared.explain()}\n")
    # On a screen it is as short as ever.
    assert len(repr(compared).splitlines()) <= 25
    assert max(map(len, repr(compared).splitlines())) <= 100
    pairs = tnb.pair_dumps(left, right)
    assert len(tnb.export(pairs, tmp_path / "p.txt").read_text("utf-8").splitlines()) > 40


def test_markdown_for_an_issue_has_ten_rows_the_first_difference_among_them(tmp_path):
    rng = np.random.default_rng(0)
    right = {f"layer{n}.weight": rng.normal(size=8) for n in range(40)}
    left = {name: value * (1 + 1e-3 * n) for n, (name, value) in enumerate(right.items())}
    compared = tnb.compare(left, right, progress=False)
    said, table, rest = tnb.export(compared, tmp_path / "t.md").read_text("utf-8").split("\n\n")
    assert len(table.splitlines()) == 12
    assert f"| {compared.columns.first} | " in table
    assert str(compared.explain()).splitlines()[-1].strip() in said
    assert rest.startswith("30 more rows")
    diff = tnb.diff_checkpoints(left, right)
    _, table, rest = tnb.export(diff, tmp_path / "d.md").read_text("utf-8").split("\n\n")
    assert len(table.splitlines()) == 12
    assert "layer39.weight" in table


def test_a_workbook_does_not_tell_when_it_was_made(cmp, tmp_path, monkeypatch):
    openpyxl = pytest.importorskip("openpyxl")
    files = [tnb.export(cmp, tmp_path / f"{n}.xlsx") for n in range(2) if not sleep(2.1 * n)]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert openpyxl.load_workbook(files[0]).properties.modified.year == 1980


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


@pytest.fixture
def curves():
    return tnb.compare_series([3.0, 2.0, 1.5, 1.0], [3.0, 2.0, 1.0, 0.5])


def test_curves_are_a_page_and_a_table(curves, tmp_path):
    assert len(pd.read_csv(tnb.export(curves, tmp_path / "t.csv"))) == 4
    rows = json.loads(tnb.export(curves, tmp_path / "t.json").read_text("utf-8"))
    assert rows[2]["left"] == 1.5
    assert "| step |" in tnb.export(curves, tmp_path / "t.md").read_text("utf-8")
    assert "the curves part" in tnb.export(curves, tmp_path / "t.html").read_text("utf-8")
    pytest.importorskip("openpyxl")
    assert len(pd.read_excel(tnb.export(curves, tmp_path / "t.xlsx"))) == 4


def test_a_series_is_a_table_and_has_no_page(tmp_path):
    (tmp_path / "loss.csv").write_text("step,loss\n1,3.0\n2,2.5\n")
    series = tnb.open_series(tmp_path / "loss.csv")
    assert list(pd.read_csv(tnb.export(series, tmp_path / "t.csv"))["loss"]) == [3.0, 2.5]
    assert json.loads(tnb.export(series, tmp_path / "t.json").read_text("utf-8"))[1]["step"] == 2
    with pytest.raises(ValueError, match=r"a Series to '\.html'; use \.txt, \.csv, \.json, \.md"):
        tnb.export(series, tmp_path / "t.html")


def test_an_explanation_is_text_and_has_no_table(explained, tmp_path):
    said = explained.explain()
    lines = tnb.export(said, tmp_path / "t.md").read_text("utf-8").splitlines()
    assert lines == [f"    {line}" for line in str(said).splitlines()]
    assert "<title>l against r" in tnb.export(said, tmp_path / "t.html").read_text("utf-8")
    for suffix in (".csv", ".json", ".xlsx"):
        with pytest.raises(ValueError, match=rf"an Explanation to '\{suffix}'; use .*txt, \.md$"):
            tnb.export(said, tmp_path / f"t{suffix}")


@pytest.mark.parametrize("wrong", ["abc", 3, None, {"a": 1}])
@pytest.mark.parametrize("suffix", [".html", ".csv", ".doc"])
def test_what_is_not_ours_is_refused_with_a_sentence(wrong, suffix, tmp_path):
    with pytest.raises(TypeError, match=r"cannot export an? \w+: export\(\) takes one of Dump, "):
        tnb.export(wrong, tmp_path / f"t{suffix}")
    assert not (tmp_path / f"t{suffix}").exists()


def test_a_share_just_below_all_is_not_rounded_up_in_a_sheet(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    left, right = (np.ones(2_000_000, np.float32) for _ in range(2))
    left[7] = 3.0
    path = tnb.export(tnb.compare({"x": left}, {"x": right}), tmp_path / "a.xlsx")
    sheet = openpyxl.load_workbook(path)["pairs"]
    titles = [cell.value for cell in sheet[1]]
    cell = sheet.cell(2, titles.index("allclose_ratio") + 1)
    assert cell.value < 1.0
    digits = len(cell.number_format.removesuffix("%").partition(".")[2])
    assert f"{100 * cell.value:.{digits}f}" != f"{100:.{digits}f}"


def test_markdown_says_the_dtypes(tmp_path):
    cmp = tnb.compare({"x": np.ones(4, np.float16)}, {"x": np.ones(4, np.float32)})
    assert "| float16 → float32 |" in tnb.export(cmp, tmp_path / "a.md").read_text("utf-8")


def test_markdown_of_a_diff_says_which_dtypes(tmp_path):
    sides = {"x": np.ones(4, np.float16)}, {"x": np.ones(4, np.float32)}
    diff = tnb.diff_checkpoints(*sides)
    assert "| float16 → float32 |" in tnb.export(diff, tmp_path / "a.md").read_text("utf-8")
    assert "shape, dtype" in diff._repr_html_()


@pytest.mark.parametrize("suffix", [".md", ".txt"])
def test_a_curve_that_became_nan_is_no_unknown_one(tmp_path, suffix):
    sides = {-1: 2.0, 0: 1.0, 1: 0.5}, {-1: 2.0, 0: 1.0, 1: float("nan")}
    text = tnb.export(tnb.compare_series(*sides), tmp_path / f"a{suffix}").read_text("utf-8")
    rows = [line for line in text.splitlines() if "nan" in line]
    assert any(line.count("nan") == 2 for line in rows)
    assert "-1" in text
