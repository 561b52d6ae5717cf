"""What words that stand in evidence as values are called: settings, kinds, forms.

Code compares them, so that they stay plain text; in English they are shown as they are.
"""

# fmt: off
WORDS: dict[str, str] = {
    # Whether, how much and when.
    "all": "全部", "none": "无", "nothing": "无", "missing": "缺失", "applied": "已使用",
    "used": "已使用", "ignored": "未使用", "folded": "已折叠", "kept": "保持", "not kept": "未保持",
    "finite": "有限", "not finite": "非有限", "exact": "精确", "full": "全精度", "before": "之前",
    "after": "之后", "first": "第一个", "last": "最后一个", "each": "逐个", "both": "两个都有",
    "other": "其他", "found": "由数值得出", "recorded": "已记录", "not recorded": "未记录",
    "as stored": "与存储一致", "as given": "与给定一致", "as it is": "原样", "as it was": "原样",
    "as the others": "与其他相同", "in order": "顺序正常", "swapped": "顺序互换",
    # Normalisation, dropout and activations.
    "batch": "批次统计量", "running": "滑动统计量", "batch and places": "批次与位置",
    "channels and places": "通道与位置", "channels": "通道", "places": "位置",
    "at the input": "取自输入", "at the output": "取自输出", "with alpha 1": "按 alpha 1",
    "fifth": "五分之一", "sixth": "六分之一", "input": "输入", "output": "输出",
    "input and output": "输入与输出", "inside": "内部", "outside": "外部",
    # Products, convolutions, pooling and resizing.
    "transposed": "转置", "flipped": "翻转", "rows and columns swapped": "行列互换",
    "in and out swapped": "输入与输出通道互换", "more in front": "前端较多",
    "more at the end": "末端较多", "even": "两端相等", "beyond the end": "超出末尾",
    "of one size": "大小固定", "adaptive": "自适应", "window": "整个窗口",
    "image": "窗口内的真实元素", "padded image": "窗口内的元素，含填充", "nearest": "最近邻",
    "linear": "线性", "cubic": "三次", "half up": "半数向上", "half down": "半数向下",
    "half even": "半数取偶", "floor": "向下取整",
    # Attention, rotary encoding and what lies between layers.
    "attention": "注意力", "scores": "注意力分数", "rotary": "旋转编码", "angles": "旋转角度",
    "copy": "复制", "sum": "求和", "product": "乘积", "heads": "头", "queries": "查询",
    "keys": "键", "parts of heads": "先分 q、k、v 再分头", "heads of parts": "先分头再分 q、k、v",
    "apart": "分开存放", "written": "写入", "added": "相加", "uniform": "均匀分布",
    "as if unmasked": "如同未加掩码", "true is kept": "True 为保留",
    "true is dropped": "True 为遮盖", "where true": "True 处", "where false": "False 处",
    "top left": "左上角", "bottom right": "右下角", "neighbours share one": "相邻的头共用一个",
    "taken in turn": "轮流取用", "without heads": "不分头", "rows first": "位置在前",
    "items first": "样本在前", "heads first": "头在前", "steps first": "时间步在前",
    "heads repeated each": "逐头重复", "heads repeated in turn": "整体轮流重复",
    "heads merged": "头已合并", "heads not transposed": "头未转置", "keys transposed": "键转置",
    "for all items": "对所有样本相同", "averaged": "取平均", "channels first": "通道在前",
    "channels last": "通道在后", "halves": "前后两半", "interleaved": "交错", "forward": "正向",
    "backward": "反向",
    # Recurrent layers.
    "before the product": "在乘积之前", "after the product": "在乘积之后",
    "share of the old state": "旧状态的比例", "share of the new state": "新状态的比例",
    "input only": "仅输入偏置", "hidden only": "仅隐藏偏置",
    # Values of a tensor.
    "zeros": "全零", "ones": "全一", "values": "非零数值", "constant": "常数",
    "per sample": "逐样本", "of no known form": "形式未知", "rows permuted": "行被重排",
    "padding value": "填充值", "flipped left to right": "左右翻转",
    "flipped upside down": "上下翻转", "values of another call": "另一次调用的数值",
    "consumers agree": "后续使用者一致",
    # Kinds and forms, as the list of findings shows them.
    "blocks": "分块", "flip": "翻转", "permute": "轴重排", "transpose": "转置", "repeat": "重复",
    "reshape": "变形", "row_permutation": "行重排", "average": "滑动平均", "correction": "偏差修正",
    "coupling": "衰减方式", "global": "全局", "ratio": "比例", "rounding": "舍入",
    "schedule": "调度", "selection": "参数选择", "stale": "旧权重", "start": "初始值",
    "value": "数值",
    # Training.
    "no bias correction": "无偏差修正", "decoupled": "解耦", "in the gradient": "加到梯度",
    "before_correction": "修正之前", "inside_before": "根号内、修正之前",
    "no number that is known": "不是已知的数", "loss scale": "损失缩放",
    "accumulation steps": "累积步数", "world size": "进程数", "token count": "token 数",
    "batch size": "批大小", "sequence length": "序列长度", "hidden": "隐藏维度",
    # Sides, and whole phrases that are compared as they are.
    "left": "左", "right": "右", "causal": "因果",
    "causal, and more for the last token": "因果，且对最后一个 token 遮盖更多", "absent": "没有",
    "one that passes the gradient on": "原样传递梯度",
    "parameters that a side lacks": "一侧缺少的参数",
    "float32, subnormals flushed": "float32，次正规数置零",
    "identity": "恒等", "float16, subnormals flushed": "float16，次正规数置零", "gelu, tanh form": "gelu，tanh 形式",
    "leaky relu, slope 0.01": "leaky relu，斜率 0.01",
    "leaky relu, slope 0.1": "leaky relu，斜率 0.1",
    "leaky relu, slope 0.2": "leaky relu，斜率 0.2", "scale and offset": "缩放与偏移",
    "scale and offset per channel": "逐通道缩放与偏移",
    "ImageNet, constants in BGR order": "ImageNet，常数按 BGR 顺序",
    "ImageNet mean alone": "仅 ImageNet 均值",
    "ImageNet mean alone, 0..255": "仅 ImageNet 均值，0..255",
    "ImageNet constants on 0..255": "ImageNet 常数用于 0..255",
    "ImageNet, mean and deviation exchanged": "ImageNet，均值与标准差互换",
    "CIFAR-10, other deviations": "CIFAR-10，其他标准差", "squares start at 1": "平方平均从 1 开始",
    "bfloat16 positions": "bfloat16 的位置", "bfloat16 frequencies": "bfloat16 的频率",
    "bfloat16 angles": "bfloat16 的角度", "float16 positions": "float16 的位置",
    "float16 frequencies": "float16 的频率", "float16 angles": "float16 的角度",
}
MESSAGES: dict[str, tuple[str, str]] = {word: (word, chinese) for word, chinese in WORDS.items()}
