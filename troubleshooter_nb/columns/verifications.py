"""Columns of what `verify` found, `Verification.table`."""

from __future__ import annotations

from troubleshooter_nb.columns.column import Column, View, at, by_name

_TABLES: tuple[View, ...] = ("html", "text", "markdown")

# fmt: off
VERIFICATION_COLUMNS = by_name(
    Column("name", "str", "entry, or the part of a file that is none", ("name", "名称"),
        format="name", shown=at(20, *_TABLES)),
    Column("status", "str", "intact, damaged, no_checksum or unread", ("status", "状态"),
        format="checked", shown=at(10, *_TABLES)),
    Column("reason", "str", "what is wrong or missing", ("reason", "原因"),
        shown=at(40, *_TABLES), needs="reason"),
    Column("file", "str", "file that holds it, within the path", ("file", "文件"),
        format="name", shown=at(30, *_TABLES), where_several=True),
    Column("size_bytes", "int64", "stored size", ("bytes", "字节"), unit="bytes"),
)
