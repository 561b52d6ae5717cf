"""Words and names in the evidence of causes of several families, in Chinese.

Code compares them, so that they stay plain text; in English they are shown as they are.
"""

# fmt: off
# What stands as a value.
WORDS: dict[str, str] = {
    "once": "一次", "neighbours": "相邻重复",
    "all": "全部", "none": "无", "applied": "已使用", "ignored": "未使用", "exact": "精确",
    "other": "其他",
    "as stored": "与存储一致", "as it is": "原样", "as it was": "原样", "inside": "内部",
    "outside": "外部", "transposed": "转置", "zeros": "全零", "values": "非零数值",
    "constant": "常数", "hidden": "隐藏维度", "left": "左", "right": "右", "absent": "没有",
    "parameters that a side lacks": "一侧缺少的参数",
}
# What facts are called where a sentence lists them.
FACTS: dict[str, str] = {
    "axis": "轴", "bytes": "字节数", "changed": "改变的份额", "count": "个数", "factor": "系数",
    "factor_name": "系数名称", "form": "形式", "format": "格式", "heads": "头数", "kind": "种类",
    "layer": "层", "moved": "移动的行数", "offset": "偏移", "offset_bytes": "起始字节",
    "other": "另一项", "sampled": "依据", "row": "行", "rows": "行数", "setting": "设置",
    "side": "一侧", "size": "元素数", "start": "起", "step": "差", "stop": "止", "text": "关系",
    "what": "内容", "forms": "候选形式", "needs": "需要", "left": "左侧", "right": "右侧",
    "pairs": "配对", "order": "次序", "elements": "元素数", "tensors": "张量数",
    "values": "数值个数", "names": "名称", "channels": "通道", "exact": "精确",
    "correlation": "相关系数", "chance": "偶然概率", "first": "最初", "later": "之后",
    "initial": "初始值", "clipped": "截断个数", "scale": "缩放系数", "formula": "公式",
    "function": "函数", "axes": "轴次序", "ratio": "比值", "value": "取值",
    "left_residual": "左侧残差", "right_residual": "右侧残差",
}
# What facts are called in English, where that is not their name without underscores.
ENGLISH_FACTS: dict[str, str] = {
    "left_residual": "left over on the left", "right_residual": "left over on the right",
    "factor_name": "which is", "offset_bytes": "from byte", "sampled": "from",
}
# Facts that only code compares, or that the proof says in a sentence.
NOT_LISTED = frozenset((
    "setting", "layer", "kind", "text", "what", "forms", "needs", "recipes", "formula",
    "left_settings", "right_settings", "names",
))
