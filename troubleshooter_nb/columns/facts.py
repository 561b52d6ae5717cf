"""Columns of what a `RunCard` holds."""

from __future__ import annotations

from troubleshooter_nb.columns.column import Column, at, by_name

# fmt: off
FACT_COLUMNS = by_name(
    Column("fact", "str", "what was recorded", ("fact", "项目"), format="name",
        shown=at(10, "html", "markdown")),
    Column("value", "str", "as it was recorded", ("value", "值"), format="plain",
        shown=at(20, "html", "markdown")),
)
