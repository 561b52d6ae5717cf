"""Causes in how weights and images are laid out."""

from troubleshooter_nb.catalogue.entry import Cause
from troubleshooter_nb.catalogue.proofs import becomes

# fmt: off
WORDS: dict[str, str] = {
    "blocks": "分块", "flip": "翻转", "permute": "轴重排", "transpose": "转置", "repeat": "重复",
    "reshape": "变形", "row_permutation": "行重排",
}
CAUSES: dict[str, Cause] = {
    "linear_transposed": Cause(("Linear weight transposed", "全连接层权重被转置"),
        proof=becomes("With axes in the order {axes} left equals right",
            "将左侧的轴按 {axes} 排列后与右侧相等"),
        repair=("Transpose the weight when it is converted; a square one gives no shape error.",
            "转换权重时进行转置；方阵不会报形状错误。"),
        changes_nothing=True),
    "conv_axes_permuted": Cause(
        ("Axes of a convolution kernel in another order", "卷积核的轴顺序不同"),
        proof=becomes("{text}", "{text}"),
        repair=("Permute or flip the kernel when it is converted: layouts (out, in, h, w), (h, w, "
            "in, out), and in and out swapped for transposed convolutions.",
            "转换时调整或翻转卷积核：布局 (out, in, h, w)、(h, w, in, out)，"
            "转置卷积还会交换输入与输出通道。"),
        words={"flipped": "翻转", "rows and columns swapped": "行列互换",
            "in and out swapped": "输入与输出通道互换"},
        changes_nothing=True),
    "conv1d_extra_axis": Cause(("Conv1d stored as a 2-D kernel", "Conv1d 以二维卷积核存储"),
        proof=("Shapes differ by an axis of size 1 at place {axis}; the values are equal (residual "
            "{residual}).", "形状只差位置 {axis} 上长度为 1 的轴，数值相等（残差 {residual}）。"),
        repair=("Add or remove the axis when the weight is converted: expand_dims({axis}) or "
            "squeeze({axis}).",
            "转换权重时添加或去掉该轴：expand_dims({axis}) 或 squeeze({axis})。"),
        changes_nothing=True),
    "flatten_order": Cause(
        ("Features flattened in another layout", "展平时的布局不同（NCHW/NHWC）"),
        proof=becomes("Columns seen as ({first}, {second}) are swapped to ({second}, {first})",
            "将列视为 ({first}, {second}) 并交换为 ({second}, {first}) 后相等"),
        repair=("Flatten from the same layout (NCHW or NHWC), or permute the columns of the dense "
            "layer when its weight is converted.",
            "从同一布局（NCHW 或 NHWC）展平，或在转换权重时重排全连接层的列。"),
        changes_nothing=True),
    "channel_order_bgr": Cause(("Channels reversed: RGB against BGR", "通道顺序相反：RGB 与 BGR"),
        proof=becomes("The {channels} channels of axis {axis} stand in opposite orders; with one "
            "order on both sides",
            "轴 {axis} 的 {channels} 个通道在两侧顺序相反；按同一顺序读取后"),
        repair=("Read the image in the same channel order on both sides, or reverse the first "
            "convolution's input channels, not both.",
            "两侧以相同的通道顺序读取图像，或反转首个卷积的输入通道，二者只做其一。"),
        changes_nothing=True),
    "rope_interleave": Cause(("Rotary halves interleaved or not", "旋转位置编码的交错方式不同"),
        proof=becomes("Inside each of {heads} heads of {head_size} rows, even and odd rows lie in "
            "two halves on one side",
            "{heads} 个头、每头 {head_size} 行，其中一侧把奇偶行放在前后两半"),
        repair=("Permute the rows of the q and k projections (weights and biases, not v and o) to "
            "the layout of the rotary kernel, or use the kernel of the other layout.",
            "按旋转核的布局重排 q、k 投影（权重与偏置，不含 v、o）的行，"
            "或改用另一种布局的旋转核。"),
        changes_nothing=True),
    "qkv_packing": Cause(("Query, key and value packed in another order", "QKV 打包顺序不同"),
        proof=becomes("{text}", "{text}"),
        repair=("Split the packed tensor by its own rule (all q, all k, all v; or per head or "
            "group) and join it by that of the target.",
            "按源模型的规则拆分（整块 q、k、v，或按头、按组），再按目标的规则拼接。"),
        changes_nothing=True),
    "grouped_heads": Cause(
        ("Grouped key/value heads expanded on one side", "分组 KV 头在一侧被展开"),
        proof=("{heads} heads of {block} rows come {times} times each on one side: residual "
            "{residual}.",
            "{heads} 个头、每头 {block} 行，在一侧各重复 {times} 次：残差 {residual}。"),
        repair=("Keep one copy per group, or repeat each head (not the whole block) as often as "
            "the target wants.", "每组只保留一份，或按目标的要求逐头重复（不是整块重复）。"),
        changes_nothing=True),
    "gate_up_order": Cause(("Gate and up halves in another order", "gate 与 up 的顺序不同"),
        proof=becomes("{text}", "{text}"),
        repair=("Join gate and up in the order, or interleaved, as the target's activation splits "
            "them.", "按目标激活函数拆分的方式（前后顺序或交错）拼接 gate 与 up。"),
        changes_nothing=True),
    "vocab_padding": Cause(("Vocabulary padded on one side", "一侧的词表被填充"),
        proof=("The first {rows} rows are equal (residual {residual}); {longer} has {padded_rows} "
            "rows, the others hold {filler}.",
            "前 {rows} 行相同（残差 {residual}）；{longer} 侧有 {padded_rows} 行，多出的行为 "
            "{filler}。"),
        repair=("Compare and convert the first {rows} rows; ignore the logits of the padded ones.",
            "只比较和转换前 {rows} 行；忽略填充行的 logits。"),
        changes_nothing=True),
}
