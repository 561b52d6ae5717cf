"""Columns of the calls that differ from a reference while a network runs."""

from __future__ import annotations

from troubleshooter_nb.columns.column import Column, at, by_name

# fmt: off
DIFFERENCE_COLUMNS = by_name(
    Column("where", "str", "the call, its class, number and step", ("call", "调用"), format="name",
        shown=at(10, "html")),
    Column("origin", "str", "where the difference is from", ("where from", "来源"),
        shown=at(20, "html")),
    Column("apart", "str", "what differs most, and how far", ("how far apart", "差异"),
        shown=at(30, "html")),
    Column("stack_line", "str", "where the call stands", ("in the code", "代码位置"),
        format="name", shown=at(40, "html")),
)
