"""The frame and the csv of the old tables."""

from __future__ import annotations

import csv
import stat

import pytest

from troubleshooter_nb.compat.troubleshooter.table import text_table, write_csv

# Printed by prettytable 3.7.0, which the old tool drew with.
WIDE_TITLE = """\
+---------------------------------------------+
| A rather long title that is longer than all |
+------------------+--------------------------+
|        a         |            b             |
+------------------+--------------------------+
|       None       |          (1, 2)          |
|       权重       |           True           |
+------------------+--------------------------+"""
NO_ROWS = """\
+-------+
|   t   |
+---+---+
| a | b |
+---+---+
+---+---+"""
COMBINING = """\
+-------+
|   t   |
+---+---+
| a | b |
+---+---+
| é | x |
+---+---+"""


@pytest.mark.parametrize(
    ("title", "rows", "expected"),
    [
        (
            "A rather long title that is longer than all",
            [[None, (1, 2)], ["权重", True]],
            WIDE_TITLE,
        ),
        ("t", [], NO_ROWS),
        ("t", [["e\u0301", "x"]], COMBINING.replace("é", "e\u0301")),
    ],
)
def test_the_table_is_drawn_as_prettytable_draws_it(title, rows, expected):
    assert text_table(title, ["a", "b"], rows) == expected


def test_a_name_cannot_break_the_frame():
    lines = text_table("t", ["name"], [["a\nb\x1b[31m"], ["\udcff"]]).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert "\x1b" not in "".join(lines)
    assert "".join(lines).encode()


def test_csv_is_quoted_and_ends_with_an_empty_line(tmp_path):
    write_csv(tmp_path / "x.csv", ["a", "b"], [[None, (1, 2)], ['say "hi"', True]])
    assert (tmp_path / "x.csv").read_bytes() == b'"a","b"\n"","(1, 2)"\n"say ""hi""","True"\n\n'
    assert stat.S_IMODE((tmp_path / "x.csv").stat().st_mode) == 0o600


def test_nothing_of_a_longer_file_survives(tmp_path):
    write_csv(tmp_path / "x.csv", ["a"], [["long " * 100]])
    write_csv(tmp_path / "x.csv", ["a"], [["short"]])
    assert list(csv.reader((tmp_path / "x.csv").open())) == [["a"], ["short"], []]
