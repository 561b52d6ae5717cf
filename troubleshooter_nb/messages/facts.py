"""What facts of the evidence are called where a sentence lists them."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "axis": ("axis", "轴"), "bytes": ("bytes", "字节数"), "changed": ("changed", "改变的份额"),
    "count": ("count", "个数"), "factor": ("factor", "系数"), "factor_name": ("factor_name", "系数名称"), "form": ("form", "形式"),
    "format": ("format", "格式"), "heads": ("heads", "头数"), "kind": ("kind", "种类"),
    "layer": ("layer", "层"), "moved": ("moved", "移动的行数"), "offset": ("offset", "偏移"),
    "offset_bytes": ("offset_bytes", "起始字节"), "other": ("other", "另一项"),
    "sampled": ("from", "依据"),
    "row": ("row", "行"), "rows": ("rows", "行数"), "setting": ("setting", "设置"),
    "side": ("side", "一侧"), "size": ("size", "元素数"), "start": ("start", "起"),
    "step": ("step", "差"), "stop": ("stop", "止"), "text": ("text", "关系"), "what": ("what", "内容"),
    "forms": ("forms", "候选形式"), "needs": ("needs", "需要"), "left": ("left", "左侧"),
    "right": ("right", "右侧"), "pairs": ("pairs", "配对"), "order": ("order", "次序"),
    "elements": ("elements", "元素数"), "tensors": ("tensors", "张量数"), "values": ("values", "数值个数"),
    "names": ("names", "名称"), "channels": ("channels", "通道"), "exact": ("exact", "精确"),
    "correlation": ("correlation", "相关系数"), "chance": ("chance", "偶然概率"), "first": ("first", "最初"),
    "later": ("later", "之后"), "initial": ("initial", "初始值"), "clipped": ("clipped", "截断个数"),
    "scale": ("scale", "缩放系数"), "formula": ("formula", "公式"), "function": ("function", "函数"),
    "axes": ("axes", "轴次序"), "ratio": ("ratio", "比值"), "value": ("value", "取值"),
}
