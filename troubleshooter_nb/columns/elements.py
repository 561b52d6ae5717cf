"""Columns of the worst elements of a pair, `TensorDiff.worst_elements`."""

from __future__ import annotations

from troubleshooter_nb.columns.column import Column, View, at, by_name

_TABLES: tuple[View, ...] = ("html", "text", "markdown")

# fmt: off
ELEMENT_COLUMNS = by_name(
    Column("index", "tuple", "place in the tensor, a number per axis", ("worst at", "最差位于"),
        format="index", align="left", shown=at(10, *_TABLES)),
    Column("left", "float64", "value on the left", ("left", "左"), format="seven_digits",
        shown=at(20, *_TABLES)),
    Column("right", "float64", "value on the right", ("right", "右"), format="seven_digits",
        shown=at(30, *_TABLES)),
    Column("abs_error", "float64", "|left - right|", "|Δ|", shown=at(40, *_TABLES)),
    Column("rel_error", "float64", "|left - right| / |right|", ("relative", "相对"),
        shown=at(50, "html", "markdown")),
)
