"""Columns of two curves over the steps, `SeriesComparison.table`."""

from __future__ import annotations

from troubleshooter_nb.columns.column import Column, View, at, by_name

_TABLES: tuple[View, ...] = ("html", "text", "markdown")

# fmt: off
SERIES_COLUMNS = by_name(
    Column("step", "int64", "training step", ("step", "步"), format="any_number",
        shown=at(10, *_TABLES)),
    Column("left", "float64", "the measure on the left", ("left", "左"), format="seven_digits",
        shown=at(20, *_TABLES)),
    Column("right", "float64", "the measure on the right", ("right", "右"), format="seven_digits",
        shown=at(30, *_TABLES)),
    Column("difference", "float64", "left - right", ("difference", "差"),
        format="any_scientific", shown=at(40, *_TABLES)),
    Column("noise", "float64", "what |difference| may be without any cause", ("noise", "噪声"),
        shown=at(50, *_TABLES)),
)
