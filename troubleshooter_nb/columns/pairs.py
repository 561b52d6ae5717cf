"""Columns of a `Comparison.result`, and what tables of pairs show besides them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from troubleshooter_nb.columns.column import Column, View, at, by_name
from troubleshooter_nb.columns.statistics import STATISTICS
from troubleshooter_nb.metrics.verdict import TRUTH_TABLE
from troubleshooter_nb.naming import ROLES

_TABLES: tuple[View, ...] = ("html", "text", "explorer", "markdown")


def _figure(
    name: str,
    meaning: str,
    title: str | tuple[str, str],
    shown: dict[str, int],
    of_empty: float,
    *,
    opened: str = "six_digits",
    **said: Any,
) -> Column:
    """A figure of both tensors of a pair: a float unless that of empty tensors is an int."""
    if isinstance(of_empty, int):
        told = Column(name, "int64", meaning, title, **said)
    else:
        told = Column(name, "float64", meaning, title, formats={"opened": opened}, **said)
    return replace(told, shown=shown, of_empty=of_empty, is_figure=True)


def _count(name: str, meaning: str, title: tuple[str, str], place: int) -> Column:
    return _figure(name, meaning, title, at(place, "opened"), 0, unit="elements")


# fmt: off
# What `metrics.pairwise` measures.
PAIR_FIGURES = by_name(
    Column("identical", "bool", "same dtype and bits everywhere, whatever the byte order",
        ("identical", "逐位相等"), of_empty=True),
    Column("allclose", "bool", "|left - right| <= atol + rtol |right| everywhere",
        ("all in tol.", "全部在容差内"), of_empty=True),
    _figure("allclose_ratio", "share of elements that satisfy allclose", ("in tol.", "容差内"),
        at(70, *_TABLES) | at(46, "opened"), 1.0, unit="share", format="share", opened="share"),
    _figure("smallest_passing_tolerance",
        "smallest t for which rtol = atol = t passes; inf when none does, as with NaN",
        ("smallest passing tolerance", "可通过的最小容差"), at(48, "opened"), 0.0),
    _figure("cosine", "cosine of the angle; 1 if both all zero, nan if one is",
        ("cosine", "余弦相似度"), at(80, "text") | at(44, "opened"), math.nan, format="cosine",
        opened="near_one", instead_of="growth"),
    _figure("correlation",
        "Pearson correlation, nan if one side is constant; of complex values the cosine",
        ("correlation", "相关系数"), at(54, "opened"), math.nan, format="cosine",
        opened="near_one"),
    _figure("rmse", "root of the mean squared error", ("RMSE", "均方根误差"), at(52, "opened"), 0.0,
        unit="tensor"),
    _figure("mape", "100 times mean_rel_error", ("MAPE", "平均绝对百分比误差"), at(60, "opened"),
        0.0, unit="percent", format="percent", opened="percent"),
    _figure("max_abs_error", "largest |left - right|", ("max |Δ|", "最大 |Δ|"),
        at(40, *_TABLES, "passed", "opened"), 0.0, unit="tensor", bar=(1e-9, 10.0)),
    _figure("mean_abs_error", "mean |left - right| over all elements", ("mean |Δ|", "平均 |Δ|"),
        at(50, "opened"), 0.0, unit="tensor"),
    _figure("max_rel_error", "largest |left - right| / |right| where right is not 0",
        ("max relative error", "最大相对误差"), at(56, "opened"), 0.0),
    _figure("mean_rel_error", "mean |left - right| / |right| where right is not 0",
        ("mean relative error", "平均相对误差"), at(58, "opened"), 0.0),
    _figure("rel_l2_error", "norm of the error / norm of right", ("rel L2", "相对 L2"),
        at(50, *_TABLES, "passed") | at(42, "opened"), 0.0),
    _count("nan_mismatch_count", "NaN on one side only", ("NaN on one side", "仅一侧为 NaN"), 84),
    _count("inf_mismatch_count",
        "not the same infinity on both sides; NaN against Inf counts as NaN mismatch",
        ("Inf on one side", "仅一侧为 Inf"), 86),
    _count("unequal_count", "elements whose values differ", ("unequal elements", "不相等的元素"),
        82),
    _count("zero_reference_count", "right is 0: left out of relative figures",
        ("right is 0", "右侧为 0"), 88),
    _figure("max_abs_index", "where max_abs_error is; -1 if nowhere", ("at", "位于"), {}, -1,
        unit="flat index", format="number"),
    _figure("left_significand_bits", "precision the stored left values use",
        ("left bits", "左侧位数"), {}, 0, unit="bits"),
    _figure("right_significand_bits", "precision the stored right values use",
        ("right bits", "右侧位数"), {}, 0, unit="bits"),
)

_OF_SIDES = [
    replace(
        column,
        name=f"{side}_{name}",
        meaning=f"{column.meaning}, {side} side",
        title=(f"{side} {column.titled('en')}", f"{chinese}侧{column.titled('zh')}"),
        shown={},
    )
    for side, chinese in (("left", "左"), ("right", "右"))
    for name, column in STATISTICS.items()
]

RESULT_COLUMNS = by_name(
    Column("left", "str", "entry name on the left", ("left", "左")),
    Column("right", "str", "entry name on the right, the reference", ("right", "右")),
    Column("left_display", "str", "short name shown: the path where it is unique",
        ("left → right", "左 → 右"), format="names",
        shown=at(20, "html", "explorer", "markdown") | at(90, "text", "passed")),
    Column("right_display", "str", "short name shown: the path where it is unique"),
    Column("left_shape", "tuple", "lengths of the axes; () for a scalar, None unknown",
        ("shape", "形状"), format="both_shapes",
        shown=at(30, "html", "markdown") | at(91, "explorer")),
    Column("right_shape", "tuple", "lengths of the axes; () for a scalar, None unknown"),
    Column("left_dtype", "str", "stored dtype", ("dtype", "类型"), format="both_dtypes",
        shown=at(32, "markdown")),
    Column("right_dtype", "str", "stored dtype", ("right dtype", "右侧类型")),
    Column("left_digest", "str", "recorded checksum with its kind in front, such as crc32:"),
    Column("right_digest", "str", "recorded checksum with its kind in front, such as crc32:"),
    Column("step", "int64", "training step", ("step", "步"), format="number",
        shown=at(22, "explorer", "markdown"), where_several=True),
    Column("rank", "int64", "process of a distributed run", "rank", format="number",
        shown=at(24, "explorer", "markdown"), where_several=True),
    Column("role", "str", f"one of {', '.join(ROLES)}, or empty", ("role", "角色"),
        shown=at(92, "explorer"), needs="role"),
    Column("direction", "str", "forward, backward or empty", ("direction", "方向"),
        shown=at(94, "explorer"), where_several=True),
    Column("order", "int64", "pair number: position in execution order, from 0", "#",
        format="number", shown=at(0, *_TABLES)),
    Column("order_known", "bool", "its place is known; else names decide"),
    Column("walked_backward", "bool", "listed from the loss backwards"),
    Column("verdict", "str", f"one of {', '.join(TRUTH_TABLE)}", ("verdict", "结论"),
        format="verdict", shown=at(10, *_TABLES)),
    Column("passed", "bool", "the verdict counts as passed", ("passed", "通过")),
    Column("reason", "str", "the verdict in a sentence", ("reason", "原因"),
        shown=at(95, "markdown")),
    Column("reason_id", "str", "id of that sentence"),
    Column("detail", "str", "what fills its gap, such as a format or an error text"),
    Column("origin", "str", "created, carried, or empty where nothing differs", ("origin", "来源"),
        format="origin", shown=at(15, "explorer"), where_several=True),
    Column("origin_basis", "str", "what source_error is of, see analysis.origin"),
    Column("origin_order", "int64", "place among the rows that created a difference"),
    Column("source_error", "float64", "largest relative L2 error of what the row was computed from",
        ("source error", "输入误差")),
    Column("growth", "float64",
        "relative L2 error over source_error, or over what rounding leaves if that is more",
        ("growth", "放大"), format="growth", shown=at(80, *_TABLES) | at(62, "opened"),
        is_figure=True, needs="origin"),
    Column("estimated_rel_l2", "float64",
        "relative L2 error by fingerprints, where a side has no values; nan elsewhere",
        ("rel L2 by fingerprints", "据指纹的相对 L2"), shown=at(43, "opened"), is_figure=True),
    *PAIR_FIGURES.values(),
    *_OF_SIDES,
)
# What is no column of the table, but shown of a pair.
MADE_OF_PAIRS = by_name(
    Column("one_minus_cosine", "float64", "1 - cosine, at least 0", "1 − cos",
        shown=at(60, "html", "explorer", "markdown"), is_figure=True),
    Column("error_histogram", "int64", "elements with 2**e <= |left - right| < 2**(e + 1)",
        "1e-9…|Δ|…1e1", unit="elements", format="decades", shown=at(85, "html", "text"),
        is_figure=True),
)
