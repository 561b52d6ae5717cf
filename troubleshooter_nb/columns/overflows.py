"""Columns of the calls at which values stop being finite, `Overflow.to_dataframe`."""

from __future__ import annotations

from troubleshooter_nb.columns.column import Column, at, by_name

# fmt: off
OVERFLOW_COLUMNS = by_name(
    Column("step", "int64", "training step", ("step", "步"), format="number",
        shown=at(10, "html", "markdown")),
    Column("rank", "int64", "process of a distributed run", format="number"),
    Column("call", "int64", "number of the call in its step", ("call", "调用"), format="number",
        shown=at(20, "html", "markdown")),
    Column("path", "str", "place in the network, dotted", ("name", "名称"), format="name",
        shown=at(40, "html", "markdown")),
    Column("layer", "str", "class of the layer", ("layer", "层类型"), shown=at(42, "markdown")),
    Column("direction", "str", "forward or backward", ("direction", "方向"),
        shown=at(44, "markdown")),
    Column("kind", "str", "starts, passed_on, recovered, saturated or near_limit", ("what", "情况"),
        shown=at(30, "html", "markdown")),
    Column("slot", "str", "which value of the call", ("value", "值"),
        shown=at(50, "html", "markdown")),
    Column("dtype", "str", "stored dtype", ("dtype", "类型"), shown=at(52, "markdown")),
    Column("nan_count", "int64", "NaN values", ("NaN", "NaN"), shown=at(62, "markdown")),
    Column("inf_count", "int64", "infinities", ("Inf", "Inf"), shown=at(64, "markdown")),
    Column("size", "int64", "number of elements", ("elements", "元素数"), shown=at(66, "markdown")),
    Column("max_abs", "float64", "largest finite magnitude", ("max |x|", "最大 |x|"),
        shown=at(70, "html", "markdown")),
    Column("share_of_limit", "float64", "max_abs over the largest finite value of the dtype",
        ("of limit", "占上限"), format="share", shown=at(80, "html", "markdown")),
    Column("times", "int64", "how often it was so", ("times", "次数"), shown=at(90, "markdown")),
    Column("last_step", "int64", "the last step in which it was so", format="number"),
    Column("source", "str", "where it came in", ("came in with", "来自"),
        shown=at(92, "markdown"), needs="source"),
    Column("inside", "str", "the call inside which it was", ("inside", "所在调用"),
        shown=at(94, "markdown"), needs="inside"),
    Column("unmeasured", "int64", "inputs that were not looked at"),
    Column("meant", "bool", "infinities of its inputs are a mask"),
    Column("stack", "str", "where the call stands in the user's code", ("code", "代码位置"),
        shown=at(96, "markdown"), needs="stack"),
)
# What is no column of the table, but made of it where calls are shown.
MADE_OF_OVERFLOWS = by_name(
    Column("nonfinite", "str", "NaN and infinities, and of how many elements",
        ("not finite", "非有限值"), align="right", shown=at(60, "html"), needs="nonfinite"),
)
