"""Columns of a `Dump.index`, and what tables of entries show besides them."""

from __future__ import annotations

from troubleshooter_nb.columns.column import Column, at, by_name
from troubleshooter_nb.columns.statistics import STATISTICS
from troubleshooter_nb.naming import ROLES

# fmt: off
DUMP_COLUMNS = by_name(
    Column("name", "str", "entry name, unique within step and rank", ("name", "名称"),
        format="names", shown=at(20, "html", "text", "explorer", "markdown")),
    Column("kind", "str", "level of the record: file, module, api, kernel", ("kind", "层级")),
    Column("path", "str", "place in the network, dotted", ("path", "路径")),
    Column("call", "int64", "repeated visit of the same place, from 0", ("call", "调用")),
    Column("direction", "str", "forward, backward or empty", ("direction", "方向"),
        shown=at(84, "explorer"), where_several=True),
    Column("role", "str", f"one of {', '.join(ROLES)}, or empty", ("role", "角色"),
        formats={"html": "role", "markdown": "role"},
        shown=at(30, "html", "markdown") | at(82, "explorer"), needs="role"),
    Column("slot", "str", "argument position or key", ("slot", "参数位")),
    Column("step", "int64", "training step", ("step", "步"), format="number",
        shown=at(22, "explorer", "markdown"), where_several=True),
    Column("rank", "int64", "process of a distributed run", "rank", format="number",
        shown=at(24, "explorer", "markdown"), where_several=True),
    Column("dtype", "str", "stored dtype", ("dtype", "类型"),
        shown=at(42, "html", "text", "markdown") | at(80, "explorer")),
    Column("shape", "tuple", "lengths of the axes; () for a scalar, None unknown",
        ("shape", "形状"), shown=at(40, "html", "text", "markdown") | at(78, "explorer")),
    Column("ndim", "int64", "number of axes", ("axes", "轴数"), unit="axes"),
    Column("size", "int64", "number of elements", ("elements", "元素数"), unit="elements"),
    Column("size_bytes", "int64", "stored size of the values", ("bytes", "字节"), unit="bytes"),
    Column("order", "int64", "position in the order of saving, from 0", ("order", "顺序")),
    Column("producer", "str", "entry as which another call made this value, where known",
        ("producer", "产生者")),
    Column("status", "str", "ok or unreadable", ("status", "状态")),
    Column("reason", "str", "why an entry is unreadable", ("reason", "原因")),
    Column("value", "str", "what is no tensor, as JSON: a number, text or null", ("value", "值")),
    Column("layer", "str", "class of the module or operator, such as Linear", ("layer", "层类型"),
        shown=at(86, "explorer") | at(34, "markdown"), needs="layer"),
    Column("parent", "str", "the call this one ran in, as the dump names it", ("parent", "上级")),
    Column("stack", "str", "where the call stands in the user's code, innermost first",
        ("stack", "调用栈")),
    Column("digest", "str", "checksum other than CRC-32, such as xor:825dd06181f574df",
        ("checksum", "校验和")),
    *STATISTICS.values(),
    Column("crc32", "int64", "CRC-32 of the stored bytes in C order", "CRC-32", format="number"),
)
# What is no column of the index, but made of it where entries are shown.
MADE_OF_ENTRIES = by_name(
    Column("number", "int64", "row of the dump", "#", format="number",
        shown=at(0, "html", "explorer", "markdown")),
    Column("verdict", "str", "what is wrong with the entry", ("health", "状态"), format="remark",
        formats={"explorer": "verdict"},
        shown=at(10, "explorer") | at(90, "html", "text", "markdown")),
    Column("largest", "float64", "largest finite magnitude", ("max |x|", "最大 |x|"),
        shown=at(48, "explorer"), is_figure=True, bar=(1e-6, 1e6)),
    Column("zero_share", "float64", "share of the elements that are zero", ("zero", "零"),
        format="share", shown=at(64, "html"), is_figure=True),
    Column("magnitude_histogram", "int64", "elements by powers of ten of their magnitude",
        "1e-6…|x|…1e4", format="decades", shown=at(70, "html"), is_figure=True),
)
