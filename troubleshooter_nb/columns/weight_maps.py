"""Columns of a `WeightMap.table`."""

from __future__ import annotations

from troubleshooter_nb.columns.column import Column, at, by_name

# fmt: off
WEIGHT_MAP_COLUMNS = by_name(
    Column("source", "str", "names in the source, joined by +", ("source", "源"), format="name",
        shown=at(10, "html", "markdown")),
    Column("target", "str", "names in the target, joined by +; empty for what is dropped",
        ("target", "目标"), format="name", shown=at(20, "html", "markdown")),
    Column("layer", "str", "layer type of the source, where known", ("layer", "层类型")),
    Column("transform", "str", "what the values go through, such as expand_dims(2)",
        ("transform", "变换"), shown=at(30, "html", "markdown")),
    Column("how", "str", "drafted, edited or imported", ("how", "方式"), shown=at(50, "markdown")),
    Column("note", "str", "what to know about this row", ("note", "说明"),
        shown=at(60, "html", "markdown")),
    Column("source_shape", "tuple", "shapes in the source, a tuple each", ("shape", "形状"),
        format="shapes_of_map", align="left", shown=at(40, "html", "markdown")),
    Column("target_shape", "tuple",
        "shapes in the target, a tuple each; of a known target its own"),
    Column("size", "int64", "elements of the sources", ("elements", "元素数")),
    Column("problem", "str", "why this row cannot be converted", ("problem", "问题"),
        shown=at(70, "markdown"), needs="problem"),
    Column("suggestion", "str", "what the values prove instead, with its transform; empty for none",
        ("suggested", "建议"), shown=at(80, "markdown"), needs="suggestion"),
)
