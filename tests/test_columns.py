"""Columns are data: one declaration, and every view and file shows the column by it."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.columns.checkpoints import BLOCK_COLUMNS, DIFF_COLUMNS, MADE_OF_DIFF
from troubleshooter_nb.columns.column import Column, at, by_name, shown_columns
from troubleshooter_nb.columns.elements import ELEMENT_COLUMNS
from troubleshooter_nb.columns.entries import DUMP_COLUMNS, MADE_OF_ENTRIES
from troubleshooter_nb.columns.facts import FACT_COLUMNS
from troubleshooter_nb.columns.overflows import MADE_OF_OVERFLOWS, OVERFLOW_COLUMNS
from troubleshooter_nb.columns.pairings import PAIRING_COLUMNS
from troubleshooter_nb.columns.pairs import MADE_OF_PAIRS, RESULT_COLUMNS
from troubleshooter_nb.columns.recordings import LAYER_COLUMNS
from troubleshooter_nb.columns.series import SERIES_COLUMNS
from troubleshooter_nb.columns.weight_maps import WEIGHT_MAP_COLUMNS
from troubleshooter_nb.render.cells import FORMATS, cell_text
from troubleshooter_nb.render.lines import width
from troubleshooter_nb.table import Table
from troubleshooter_nb.widgets.packed_table import PackedTable

PACKAGE = Path(tnb.__file__).parent
DECLARED = {
    "result": {**RESULT_COLUMNS, **MADE_OF_PAIRS},
    "index": {**DUMP_COLUMNS, **MADE_OF_ENTRIES},
    "pairing": PAIRING_COLUMNS,
    "weight map": WEIGHT_MAP_COLUMNS,
    "diff": {**DIFF_COLUMNS, **MADE_OF_DIFF},
    "blocks": BLOCK_COLUMNS,
    "elements": ELEMENT_COLUMNS,
    "series": SERIES_COLUMNS,
    "overflow": {**OVERFLOW_COLUMNS, **MADE_OF_OVERFLOWS},
    "facts": FACT_COLUMNS,
    "layers": LAYER_COLUMNS,
}
EVERY = [(table, column) for table, columns in DECLARED.items() for column in columns.values()]


@pytest.fixture
def cmp():
    right = {"blocks.0.w": np.array([1.0, 2.0]), "blocks.1.w": np.array([3.0, 4.0])}
    left = right | {"blocks.1.w": np.array([3.0, 4.5]), "extra": np.zeros(3)}
    return tnb.compare(left, right)


def cells_of(line):
    cells = re.findall(r"<t[hd].*?</t[hd]>", line)
    return [html.unescape(re.sub("<[^>]+>", "", cell)) for cell in cells]


def rows_of(page, title):
    """The rows of the first table of a page that has this title, as texts by title."""
    for table in re.findall(r"<table.*?</table>", page, re.S):
        titles, *lines = map(cells_of, re.findall(r"<tr>.*?</tr>", table, re.S))
        if title in titles:
            return [dict(zip(titles, line, strict=False)) for line in lines]
    raise AssertionError(title)


@pytest.mark.parametrize(
    ("language", "title"), [("en", "mean relative error"), ("zh", "平均相对误差")]
)
def test_one_declaration_puts_a_column_into_every_view(cmp, tmp_path, monkeypatch, language, title):
    views = at(65, "html", "text", "explorer", "markdown", "passed")
    declared = replace(RESULT_COLUMNS["mean_rel_error"], shown=views, format="share")
    monkeypatch.setitem(RESULT_COLUMNS, "mean_rel_error", declared)
    figure = "6.25%"  # 0.125 and 0
    with tnb.option_context(language=language):
        assert rows_of(cmp._repr_html_(), title)[0][title] == figure
        lines = repr(cmp).splitlines()
        head = next(line for line in lines if title in line)
        row = next(line for line in lines if figure in line)
        # Right-aligned under the title, of which a Chinese character is two columns wide.
        assert width(head.partition(title)[0] + title) == width(row.partition(figure)[0] + figure)
        described, _ = PackedTable.of_result(cmp.result).message(language)
        said = {column["name"]: column for column in described}["mean_rel_error"]
        assert (said["title"], said["format"], said["right"]) == (title, "share", True)
        assert "mean_rel_error" in PackedTable.of_result(cmp.result).shown
        lines = tnb.export(cmp, tmp_path / "t.md").read_text("utf-8").splitlines()
        table = [line.split(" | ") for line in lines if line.startswith("| ")]
        assert [line[table[0].index(title)] for line in table[2:]] == ["0.00%", figure, "–"]
        openpyxl = pytest.importorskip("openpyxl")
        sheet = openpyxl.load_workbook(tnb.export(cmp, tmp_path / "t.xlsx"))["pairs"]
        column = next(c for c in sheet.iter_cols() if c[0].value == "mean_rel_error")
        assert column[0].comment.text == title
        assert (column[2].value, column[2].number_format) == (0.0625, FORMATS["share"].sheet)
        assert column[2].alignment.horizontal == "right"
        same = {"a": np.ones(3)}
        passed = tnb.compare(same, same)._repr_html_()
        assert rows_of(passed, title)[0][title] == "0.00%"


def test_files_of_data_hold_every_column_by_its_name_and_all_digits(cmp, tmp_path):
    pytest.importorskip("openpyxl")
    frame = cmp.to_dataframe()
    for suffix, read in ((".csv", pd.read_csv), (".xlsx", pd.read_excel)):
        back = read(tnb.export(cmp, tmp_path / f"t{suffix}"))
        assert list(back) == list(frame)
        np.testing.assert_array_equal(back["rmse"], frame["rmse"])
    assert frame["rmse"][1] == np.sqrt(0.125)  # no number of few digits


@pytest.mark.parametrize(("table", "column"), EVERY, ids=lambda one: getattr(one, "name", one))
def test_every_column_is_declared_whole(table, column):
    assert DECLARED[table][column.name] is column
    assert column.meaning
    for view in ("html", "passed", "text", "explorer", "markdown", "opened"):
        assert column.format_in(view) in FORMATS
    english, chinese = (column.titled(language) for language in ("en", "zh"))
    if column.shown and re.search("[a-z]{2}", re.sub("rank|cos|Inf|1e.*", "", english)):
        assert re.search("[\u4e00-\u9fff]", chinese), english


def test_the_page_writes_every_format_of_a_figure_that_it_is_sent():
    script = "".join(path.read_text("utf-8") for path in (PACKAGE / "widgets").rglob("*.js"))
    formats = script.partition("const FORMATS = {")[2].partition("};")[0]
    sent = [column for _, column in EVERY if "explorer" in column.shown]
    figures = {one.format_in("explorer") for one in sent if one.dtype in ("int64", "float64")}
    assert {"number", "count", "scientific", "share", "growth"} <= figures
    assert [name for name in figures if not re.search(rf"\b{name}[:,]", formats)] == []


def test_columns_stand_in_the_order_of_their_places_where_rows_need_them():
    declared = [
        Column("c", "float64", "", shown=at(30, "html")),
        Column("b", "int64", "", shown=at(20, "html"), where_several=True),
        Column("a", "str", "", shown=at(10, "html"), needs="note"),
        Column("d", "str", "", shown=at(40, "html"), instead_of="a"),
        Column("note", "str", ""),
    ]
    one = {"c": np.ones(2), "b": np.array([0, 0]), "a": np.array(["x", "y"], object)}
    one |= {"d": one["a"], "note": np.array(["", ""], object)}
    assert [c.name for c in shown_columns("html", declared, Table(one))] == ["c", "d"]
    other = {**one, "b": np.array([1, 2]), "note": np.array(["", "said"], object)}
    assert [c.name for c in shown_columns("html", declared, Table(other))] == ["a", "b", "c"]
    assert shown_columns("text", declared, Table(one)) == []
    later = {**one, "b": np.array([5, 5])}
    assert [c.name for c in shown_columns("html", declared, Table(later))] == ["b", "c", "d"]


@pytest.mark.parametrize(
    ("format", "value", "text"),
    [
        ("scientific", 0.083, "8.3e-2"),
        ("scientific", np.nan, "–"),
        ("share", 0.99999, "99.99%"),
        ("cosine", 0.9999999, "0.999999"),
        ("near_one", 1 - 2.0**-30, "1 − 9.3e-10"),
        ("four_digits", 1234567.0, "1.235e+06"),
        ("percent", 6.25, "6.25%"),
        ("hundredths", 0.999, "1.00"),
    ],
)
def test_figures_are_written_in_the_format_of_their_column(format, value, text):
    column = Column("x", "float64", "", format=format)
    assert cell_text(column, {"x": value}, "en", "html") == text


@pytest.mark.parametrize(
    ("values", "english", "chinese"),
    [
        ({"growth": 12.0, "verdict": "differs"}, "×12.0", "×12.0"),
        ({"growth": np.inf, "verdict": "differs"}, "×∞", "×∞"),
        ({"growth": 3.0, "verdict": "shape"}, "", ""),
        ({"growth": np.nan, "verdict": "nan", "nan_mismatch_count": 2}, "new NaN", "新增 NaN"),
    ],
)
def test_growth_says_what_is_new_where_no_number_can(values, english, chinese):
    row = {"origin": "created", "nan_mismatch_count": 0, **values}
    for language, text in (("en", english), ("zh", chinese)):
        assert cell_text(RESULT_COLUMNS["growth"], row, language, "html") == text


def test_columns_by_name_keep_their_order():
    columns = [Column(name, "str", "") for name in ("b", "a")]
    assert list(by_name(*columns)) == ["b", "a"]
