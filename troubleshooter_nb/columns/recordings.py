"""Columns of the layers of which a recording saw calls."""

from __future__ import annotations

from troubleshooter_nb.columns.column import Column, at, by_name

# fmt: off
LAYER_COLUMNS = by_name(
    Column("calls", "int64", "how often it was called", ("calls", "调用次数"),
        shown=at(10, "html")),
    Column("path", "str", "place in the network", ("name", "名称"), format="name",
        shown=at(20, "html")),
    Column("layer", "str", "its class", ("layer", "层类型"), shown=at(30, "html")),
)
