"""Columns of a `CheckpointDiff.table` and of its blocks."""

from __future__ import annotations

from troubleshooter_nb.columns.column import Column, at, by_name

# What the headers alone say about a row; the worst first.
STRUCTURE = (
    *("left_only", "right_only", "unreadable", "shape"),
    *("dtype", "guessed", "renamed", "same"),
)

# fmt: off
DIFF_COLUMNS = by_name(
    Column("left", "str", "entry name on the left; empty where there is none", ("name", "名称"),
        format="names", shown=at(20, "html", "markdown")),
    Column("right", "str", "entry name on the right, the reference", ("right", "右")),
    Column("block", "str", "part of the network: the path up to its first number"),
    Column("role", "str", "parameter, buffer, optimizer_state, ...", ("role", "角色"),
        shown=at(30, "html", "markdown")),
    Column("step", "int64", "training step", ("step", "步"), format="number",
        shown=at(22, "markdown"), where_several=True),
    Column("rank", "int64", "process of a distributed run", "rank", format="number",
        shown=at(24, "markdown"), where_several=True),
    Column("left_shape", "tuple", "lengths of the axes; () for a scalar, None unknown",
        ("shape", "形状"), format="both_shapes", shown=at(40, "html", "markdown")),
    Column("right_shape", "tuple", "lengths of the axes; () for a scalar, None unknown"),
    Column("left_dtype", "str", "stored dtype", ("dtype", "类型"), format="both_dtypes",
        shown=at(42, "markdown")),
    Column("right_dtype", "str", "stored dtype", ("right dtype", "右侧类型")),
    Column("size", "int64", "of the right side, or of the only one", ("elements", "元素数"),
        unit="elements"),
    Column("structure", "str", f"one of {', '.join(STRUCTURE)}", ("structure", "结构"),
        format="structure", shown=at(10, "markdown")),
    Column("expected", "bool", "that it has no partner is expected", ("expected", "属预期")),
    Column("rename", "str", "what differs in the two names", ("names", "名称变化"),
        shown=at(80, "markdown"), needs="rename"),
    Column("tied_to", "str", "first name of the tensor that this one is, too", ("tied to", "共用")),
    Column("pair", "int64", "pair number in the comparison; -1 without values", "#",
        format="number", shown=at(0, "html", "markdown"), needs="verdict"),
    Column("verdict", "str", "of the comparison; empty without values", ("verdict", "结论"),
        format="verdict", shown=at(50, "markdown"), needs="verdict"),
    Column("passed", "bool", "the verdict counts as passed", ("passed", "通过")),
    Column("relative_change", "float64", "norm of left - right / norm of right",
        ("relative", "相对变化"), format="figure", shown=at(60, "html", "markdown"),
        needs="verdict"),
    Column("rms_change", "float64", "root mean square of left - right", ("RMS", "均方根"),
        format="figure", shown=at(62, "html", "markdown"), needs="verdict"),
    Column("max_change", "float64", "largest |left - right|", ("max |Δ|", "最大 |Δ|"),
        format="figure", shown=at(64, "html", "markdown"), needs="verdict"),
    Column("squared_change", "float64", "sum of (left - right)**2 over finite positions"),
    Column("squared_norm", "float64", "sum of right**2 over finite positions"),
)
_PER_RATE = ("RMS / lr", "均方根 / 学习率")
# What is no column of the table, but made of it where the learning rate is known.
MADE_OF_DIFF = by_name(
    Column("rms_per_learning_rate", "float64", "rms_change of a parameter over the learning rate",
        _PER_RATE, format="figure", shown=at(70, "html"), needs="rms_per_learning_rate"),
)

# Of the frame that `CheckpointDiff.blocks` gives; figures only where values were compared.
BLOCK_COLUMNS = by_name(
    Column("block", "str", "part of the network", ("block", "模块"), format="name",
        shown=at(10, "html", "text")),
    Column("role", "str", "what the tensors are", ("role", "角色"), shown=at(20, "html", "text")),
    Column("tensors", "int64", "how many", ("tensors", "张量"), shown=at(30, "html", "text")),
    Column("elements", "int64", "of all tensors", ("elements", "元素数"), shown=at(32, "html")),
    Column("changed", "int64", "tensors that are not bit-equal", ("changed", "有变化"),
        shown=at(42, "html", "text"), is_figure=True),
    Column("failed", "int64", "of those, by more than the tolerance", ("failed", "未通过"),
        shown=at(44, "html", "text"), formats={"html": "failed"}, is_figure=True),
    Column("untouched", "int64", "tensors that are bit-equal", ("untouched", "未变"),
        shown=at(40, "html"), is_figure=True),
    Column("other", "int64", "without partner unexpectedly, of other shape, or unreadable",
        ("not compared", "未比较"), shown=at(46, "html", "text"), is_figure=True,
        where_several=True),
    Column("relative_change", "float64", "of the group as a whole", ("relative", "相对变化"),
        format="figure", shown=at(60, "html", "text"), is_figure=True),
    Column("rms_change", "float64", "root mean square of left - right", ("RMS", "均方根"),
        format="figure", shown=at(62, "html", "text"), is_figure=True),
    Column("rms_per_learning_rate", "float64", "rms_change of parameters over the learning rate",
        _PER_RATE, format="figure", shown=at(70, "html", "text"), is_figure=True,
        needs="rms_per_learning_rate"),
)
