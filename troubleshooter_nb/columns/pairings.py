"""Columns of a `Pairing.table`."""

from __future__ import annotations

from troubleshooter_nb.columns.column import Column, at, by_name

# fmt: off
PAIRING_COLUMNS = by_name(
    Column("left", "str", "entry name on the left", ("left → right", "左 → 右"), format="names",
        shown=at(20, "html", "markdown")),
    Column("right", "str", "entry name on the right", ("right", "右")),
    Column("left_entry", "int64", "row in the left dump", format="number"),
    Column("right_entry", "int64", "row in the right dump", format="number"),
    Column("left_shape", "tuple", "shape on the left; () for a scalar, None unknown",
        ("shape", "形状"), format="both_shapes", align="left", shown=at(30, "html", "markdown")),
    Column("right_shape", "tuple", "shape on the right; () for a scalar, None unknown"),
    Column("step", "int64", "training step", ("step", "步"), format="number",
        shown=at(22, "markdown"), where_several=True),
    Column("rank", "int64", "process of a distributed run", "rank", format="number",
        shown=at(24, "markdown"), where_several=True),
    Column("method", "str", "how they were found, see `pair_dumps`; or unmatched",
        ("method", "方法"), shown=at(40, "html", "markdown")),
    Column("confidence", "float64", "0 to 1; 1 is certain", ("confidence", "置信度"),
        format="hundredths", align="left", shown=at(50, "html", "markdown")),
    Column("note", "str", "what to know about this pair", ("note", "说明"),
        shown=at(60, "html", "markdown")),
    Column("candidates", "str", "closest partners of an unmatched entry, and why not",
        ("closest", "最接近"), shown=at(70, "markdown"), needs="candidates"),
    Column("expected", "bool", "a missing partner was declared expected", ("expected", "属预期"),
        shown=at(80, "markdown"), needs="expected"),
)
