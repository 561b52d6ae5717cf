"""What facts of the evidence are called where a sentence lists them."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "axis": ("axis", "轴"), "bytes": ("bytes", "字节数"), "changed": ("changed", "改变的份额"),
    "count": ("count", "个数"), "factor": ("factor", "系数"),
    "factor_name": ("factor_name", "系数名称"), "form": ("form", "形式"),
    "format": ("format", "格式"), "heads": ("heads", "头数"), "kind": ("kind", "种类"),
    "layer": ("layer", "层"), "moved": ("moved", "移动的行数"), "offset": ("offset", "偏移"),
    "offset_bytes": ("offset_bytes", "起始字节"), "other": ("other", "另一项"),
    "row": ("row", "行"), "rows": ("rows", "行数"), "setting": ("setting", "设置"),
    "side": ("side", "一侧"), "size": ("size", "元素数"), "start": ("start", "起"),
    "step": ("step", "差"), "stop": ("stop", "止"), "text": ("text", "关系"),
    "what": ("what", "内容"),
}
