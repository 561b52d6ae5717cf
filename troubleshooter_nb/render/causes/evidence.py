"""Texts of the evidence as they are shown in Chinese; the evidence itself stays English."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Evidence that holds names of tensors, layers or settings, which no language changes.
NAMES = frozenset(("other", "equal", "duplicates", "norm", "part", "setting", "meant", "gates"))

_EXACT: Mapping[str, str] = {
    # Whether, how much and when.
    "all": "全部",
    "none": "无",
    "nothing": "无",
    "missing": "缺失",
    "applied": "已使用",
    "used": "已使用",
    "ignored": "未使用",
    "folded": "已折叠",
    "kept": "保持",
    "not kept": "未保持",
    "finite": "有限",
    "not finite": "非有限",
    "exact": "精确",
    "full": "全精度",
    "before": "之前",
    "after": "之后",
    "first": "第一个",
    "last": "最后一个",
    "each": "逐个",
    "both": "两个都有",
    "other": "其他",
    "found": "由数值得出",
    "recorded": "已记录",
    "not recorded": "未记录",
    "as stored": "与存储一致",
    "as given": "与给定一致",
    "as it is": "原样",
    "as it was": "原样",
    "as the others": "与其他相同",
    "in order": "顺序正常",
    "swapped": "顺序互换",
    # Normalisation, dropout and activations.
    "batch": "批次统计量",
    "running": "滑动统计量",
    "batch and places": "批次与位置",
    "channels and places": "通道与位置",
    "channels": "通道",
    "places": "位置",
    "at the input": "取自输入",
    "at the output": "取自输出",
    "with alpha 1": "按 alpha 1",
    "input": "输入",
    "output": "输出",
    "input and output": "输入与输出",
    "inside": "内部",
    "outside": "外部",
    # Products, convolutions, pooling and resizing.
    "transposed": "转置",
    "not transposed": "未转置",
    "flipped": "翻转",
    "rows and columns swapped": "行列互换",
    "in and out swapped": "输入与输出通道互换",
    "more in front": "前端较多",
    "more at the end": "末端较多",
    "even": "两端相等",
    "beyond the end": "超出末尾",
    "of one size": "大小固定",
    "adaptive": "自适应",
    "window": "整个窗口",
    "image": "窗口内的真实元素",
    "half up": "半数向上",
    "half down": "半数向下",
    "half even": "半数取偶",
    "floor": "向下取整",
    "ceil": "向上取整",
    # Attention, rotary encoding and what lies between layers.
    "attention": "注意力",
    "scores": "注意力分数",
    "rotary": "旋转编码",
    "angles": "旋转角度",
    "copy": "复制",
    "sum": "求和",
    "product": "乘积",
    "heads": "头",
    "queries": "查询",
    "keys": "键",
    "parts of heads": "先分 q、k、v 再分头",
    "heads of parts": "先分头再分 q、k、v",
    "apart": "分开存放",
    "causal": "因果",
    "and more for the last token": "且对最后一个 token 遮盖更多",
    "written": "写入",
    "added": "相加",
    "uniform": "均匀分布",
    "as if unmasked": "如同未加掩码",
    "true is kept": "True 为保留",
    "true is dropped": "True 为遮盖",
    "where true": "True 处",
    "where false": "False 处",
    "top left": "左上角",
    "bottom right": "右下角",
    "neighbours share one": "相邻的头共用一个",
    "taken in turn": "轮流取用",
    "without heads": "不分头",
    "rows first": "位置在前",
    "items first": "样本在前",
    "heads first": "头在前",
    "steps first": "时间步在前",
    "heads repeated each": "逐头重复",
    "heads repeated in turn": "整体轮流重复",
    "heads merged": "头已合并",
    "heads not transposed": "头未转置",
    "keys transposed": "键转置",
    "for all items": "对所有样本相同",
    "averaged": "取平均",
    "channels first": "通道在前",
    "channels last": "通道在后",
    "halves": "前后两半",
    "interleaved": "交错",
    "forward": "正向",
    "backward": "反向",
    "one that passes the gradient on": "原样传递梯度",
    # Recurrent layers.
    "before the product": "在乘积之前",
    "after the product": "在乘积之后",
    "share of the old state": "旧状态的比例",
    "share of the new state": "新状态的比例",
    "old state": "旧状态",
    "input only": "仅输入偏置",
    "hidden only": "仅隐藏偏置",
    "left is the sum of the two biases of the other side": "左侧等于另一侧两个偏置之和",
    "right is the sum of the two biases of the other side": "右侧等于另一侧两个偏置之和",
    # Values of a tensor.
    "zeros": "全零",
    "ones": "全一",
    "values": "非零数值",
    "constant": "常数",
    "per sample": "逐样本",
    "normal": "正态分布",
    "as of an embedding": "与嵌入层的相同",
    "of no known form": "形式未知",
    "right is left transposed": "右侧等于左侧的转置",
    "rows permuted": "行被重排",
    "padding value": "填充值",
    "flipped left to right": "左右翻转",
    "flipped upside down": "上下翻转",
    "values of another call": "另一次调用的数值",
    "consumers agree": "后续使用者一致",
    "scale and offset": "缩放与偏移",
    "scale and offset per channel": "逐通道缩放与偏移",
    "subnormals flushed": "次正规数置零",
    "tanh form": "tanh 形式",
    "constants in BGR order": "常数按 BGR 顺序",
    "ImageNet mean alone": "仅 ImageNet 均值",
    "ImageNet constants on 0..255": "ImageNet 常数用于 0..255",
    "mean and deviation exchanged": "均值与标准差互换",
    "other deviations": "其他标准差",
    # Kinds and forms, as the list of findings shows them.
    "blocks": "分块",
    "flip": "翻转",
    "permute": "轴重排",
    "transpose": "转置",
    "repeat": "重复",
    "reshape": "变形",
    "row_permutation": "行重排",
    "average": "滑动平均",
    "correction": "偏差修正",
    "coupling": "衰减方式",
    "global": "全局",
    "ratio": "比例",
    "rounding": "舍入",
    "schedule": "调度",
    "selection": "参数选择",
    "stale": "旧权重",
    "start": "初始值",
    "value": "数值",
    # Training.
    "no bias correction": "无偏差修正",
    "decoupled": "解耦",
    "in the gradient": "加到梯度",
    "before correction": "修正之前",
    "before_correction": "修正之前",
    "inside before": "根号内、修正之前",
    "inside_before": "根号内、修正之前",
    "unequal micro-batches": "微批大小不等",
    "no number that is known": "不是已知的数",
    "loss scale": "损失缩放",
    "accumulation steps": "累积步数",
    "world size": "进程数",
    "token count": "token 数",
    "batch size": "批大小",
    "sequence length": "序列长度",
    "hidden": "隐藏维度",
}
# Names of the evidence, where a sentence lists what there is.
_FACTS: Mapping[str, str] = {
    "axis": "轴",
    "bytes": "字节数",
    "changed": "改变的份额",
    "count": "个数",
    "factor": "系数",
    "factor_name": "系数名称",
    "form": "形式",
    "format": "格式",
    "heads": "头数",
    "kind": "种类",
    "layer": "层",
    "moved": "移动的行数",
    "offset": "偏移",
    "offset_bytes": "起始字节",
    "other": "另一项",
    "row": "行",
    "rows": "行数",
    "setting": "设置",
    "side": "一侧",
    "size": "元素数",
    "start": "起",
    "step": "差",
    "stop": "止",
    "text": "关系",
    "what": "内容",
}
_NUMBER = r"(-?[\d.][\w.+-]*|-?inf|nan)"
_PLAIN = re.compile(r"-?[\d.]+(?:e[+-]?\d+)?")
_TUPLE = r"(\([^()]*\))"
_COUNT = "(loss scale|accumulation steps|world size|token count|batch size|sequence length|hidden)"

# What a text consists of, the longer before the shorter; what is in brackets is shown as well.
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), shown)
    for pattern, shown in (
        # How right comes of left, see `metrics.relations`.
        (rf"(right is left .*), then reshaped to {_TUPLE}", "{0}，再变形为 {1}"),
        (rf"(right is left .*), reversed along axes {_TUPLE}", "{0}，并沿轴 {1} 反转"),
        (f"right is left times {_NUMBER}", "右侧等于左侧乘以 {0}"),
        (f"right is left plus {_NUMBER}", "右侧等于左侧加 {0}"),
        (f"right is left reshaped to {_TUPLE}", "右侧等于左侧变形为 {0}"),
        (f"right is left reversed along axes {_TUPLE}", "右侧等于左侧沿轴 {0} 反转"),
        (f"right is left with axes in order {_TUPLE}", "右侧等于左侧的轴按 {0} 排列"),
        (
            rf"right is left with its (\d+) blocks along axis (\d+) in order {_TUPLE}",
            "右侧等于左侧沿轴 {1} 的 {0} 块按 {2} 的顺序排列",
        ),
        (
            r"right is left with every (\d+) rows along axis (\d+) (\d+) times",
            "右侧等于左侧沿轴 {1} 每 {0} 行重复 {2} 次",
        ),
        (
            r"right is left with its rows along axis (\d+) in another order",
            "右侧等于左侧沿轴 {0} 的各行换了顺序",
        ),
        (
            rf"right is left with every (\d+) rows along axis (\d+) taken as {_TUPLE} instead of "
            f"{_TUPLE}",
            "右侧等于左侧沿轴 {1} 每 {0} 行按 {2} 而非 {3} 取用",
        ),
        # Layers.
        (r"(\d+) rows, (\d+) columns", "{0} 行 {1} 列"),
        (r"(\d+) rows, (\d+) columns in front", "前端 {0} 行 {1} 列"),
        (r"(\d+) rows, (\d+) columns behind", "后端 {0} 行 {1} 列"),
        (r"part (\d+) of (\d+)", "{1} 份中的第 {0} 份"),
        (r"every (\d+) from (\d+)", "从 {1} 起每 {0} 个取一个"),
        (r"heads from (\d+)", "从第 {0} 个头起"),
        (rf"pooled to {_NUMBER}", "池化到 {0}"),
        (rf"{_NUMBER} times", "{0} 倍"),
        (r"zero for id (\d+)", "编号 {0} 的行为零"),
        (r"none for id (\d+)", "编号 {0} 的行无梯度"),
        (r"(\d+) bits", "{0} 位"),
        (r"(\w*float\w*) (input|output|input and output|inside)", "{0}（{1}）"),
        (r"(\w*float\w*) positions", "{0} 的位置"),
        (r"(\w*float\w*) frequencies", "{0} 的频率"),
        (r"(\d+) prompt tokens agree", "{0} 个提示 token 一致"),
        (r"(\d+) decoded tokens differ", "{0} 个解码 token 不同"),
        (r"does not see (\d+) from token (\d+) on", "看不到从 token {1} 起的 {0} 个"),
        (r"(\d+) places, ([0-9a-f]{8})", "{0} 处（{1}）"),
        (r"(\d+) attentions, backward", "{0} 个注意力的反向"),
        (f"one that multiplies the gradient by {_NUMBER}", "使梯度乘以 {0}"),
        (r"(.+), before the division", "{0}，除法之前"),
        (r"(1?/?sqrt\([\w.]+\)) in (b?float16)", "{1} 的 {0}"),
        # Values of a tensor.
        (f"mean {_NUMBER}", "均值 {0}"),
        (r"std (\S+)", "标准差 {0}"),
        (r"bound (.+)", "上界 {0}"),
        (r"as in (\d+) tensors together", "由 {0} 个张量共同得出"),
        (f"uniform from {_NUMBER} to {_NUMBER}", "{0} 到 {1} 的均匀分布"),
        (rf"clip to \[{_NUMBER}, {_NUMBER}\]", "截断到 [{0}, {1}]"),
        (f"one bit flipped: {_NUMBER} for {_NUMBER}", "有一位翻转：{0} 而非 {1}"),
        (f"all {_NUMBER}", "全为 {0}"),
        (r"a copy of the block at element (\d+)", "元素 {0} 处那一块的副本"),
        (r"wrapped to (\w+)", "按 {0} 回绕"),
        (r"clipped to (\w+)", "截断到 {0}"),
        (r"rounded by (\w+)", "按 {0} 舍入"),
        (f"slope {_NUMBER}", "斜率 {0}"),
        # Training.
        (f"rate {_NUMBER}", "学习率 {0}"),
        (f"momentum {_NUMBER}", "动量 {0}"),
        (f"dampening {_NUMBER}", "阻尼 {0}"),
        (f"eps {_NUMBER} outside", "eps {0}（根号外）"),
        (f"eps {_NUMBER} inside", "eps {0}（根号内）"),
        (f"eps {_NUMBER} (before correction|inside before)", "eps {0}（{1}）"),
        ("eps outside of the root", "eps 在根号外"),
        ("eps inside of the root", "eps 在根号内"),
        (f"decay {_NUMBER} (decoupled|in the gradient)", "衰减 {0}（{1}）"),
        (
            rf"decay {_NUMBER} \(one-dimensional {_NUMBER}\) (decoupled|in the gradient)",
            "衰减 {0}（一维参数 {1}，{2}）",
        ),
        (f"squares start at {_NUMBER}", "平方平均从 {0} 开始"),
        (
            r"a count of (\d+): samples, tokens, accumulation steps or processes",
            "计数 {0}（样本、token、累积步数或进程）",
        ),
        (r"two counts as (\d+) to (\d+)", "两个计数之比 {0} : {1}"),
        (
            f"clipping of the norm of all gradients to {_NUMBER}",
            "将全部梯度的总范数裁剪到 {0}",
        ),
        (
            f"clipping of each gradient to a norm of {_NUMBER}",
            "将每个梯度的范数裁剪到 {0}",
        ),
        (rf"{_COUNT} (\d\S*)", "{0} {1}"),
        (rf"{_COUNT} \((\d\S*)\)", "{0}（{1}）"),
        (rf"{_COUNT} (\d\S*) against (\d\S*)", "{0} {1} 与 {2} 之比"),
        (rf"{_COUNT} (\d\S*) times {_COUNT} (\d\S*)", "{0} {1} 乘以 {2} {3}"),
    )
)


def evidence_text(text: str, language: str) -> str:
    """A text of the evidence in the language; what is not known stays as it is.

    A list of several, with commas or semicolons between, is shown part by part.
    """
    if language != "zh":
        return text
    if text in _EXACT:
        return _EXACT[text]
    for pattern, shown in _PATTERNS:
        if found := pattern.fullmatch(text):
            return shown.format(*(evidence_text(part, language) for part in found.groups()))
    for separator, wide in (("; ", "\uff1b"), (", ", "\uff0c")):
        if separator in text:
            parts = text.split(separator)
            said = [evidence_text(part, language) for part in parts]
            return _joined(said, separator, wide) if said != parts else text
    return text


def fact_name(name: str, language: str) -> str:
    """What a name of the evidence is called in a sentence; itself where there is no word."""
    return _FACTS.get(name, name) if language == "zh" else name


def _joined(parts: list[str], separator: str, wide: str) -> str:
    """The parts of a list; numbers of one part, as in ``betas 0.9, 0.99``, stay together."""
    text = parts[0]
    for part in parts[1:]:
        is_further = separator == ", " and _PLAIN.fullmatch(part)
        text += (separator if is_further else wide) + part
    return text
