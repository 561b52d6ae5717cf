"""Causes in convolutions, pooling and resizing."""

from troubleshooter_nb.catalogue.entry import Cause
from troubleshooter_nb.catalogue.proofs import recomputed

# fmt: off
WORDS: dict[str, str] = {
    "even": "两端相等", "more in front": "前端较多", "more at the end": "末端较多",
}
CAUSES: dict[str, Cause] = {
    "pad_mode": Cause(("The padding differs", "填充方式不同"),
        proof=recomputed("the windows are padded by {left} on the left and by {right} on the right",
            "填充"),
        repair=("Give both the same padding; in MindSpore a number needs pad_mode='pad', and the "
            "default is 'same'.",
            "让两侧填充一致；MindSpore 默认 pad_mode='same'，给出数值时须用 pad_mode='pad'。")),
    "same_padding_side": Cause(
        ("The odd cell of the padding is at the other end", "奇数填充放在了另一端"),
        proof=recomputed("as much is padded, but left {left} and right {right}",
            "填充总量相同，但位置"),
        repair=("Pad explicitly before the layer, with the odd cell where the reference has it, "
            "and let the layer itself pad nothing.",
            "在该层之前显式填充，奇数格放在参考一侧的位置，层本身不再填充。")),
    "pool_rounding": Cause(
        ("The pooling windows or their divisor differ", "池化窗口或除数规则不同"),
        proof=recomputed(
            "the {setting} of the pooling is {left} on the left and {right} on the right",
            "池化的 {setting} 左侧为 {left}，右侧为 {right}"),
        repair=("Set kernel size, stride, ceil_mode and count_include_pad alike; left out, the "
            "stride is the kernel size in torch and 1 in MindSpore.",
            "统一 kernel_size、stride、ceil_mode、count_include_pad；不写 stride 时 torch "
            "取核大小，MindSpore 取 1。"),
        words={"first": "第一个", "last": "最后一个", "beyond the end": "超出末尾",
            "of one size": "大小固定", "adaptive": "自适应", "window": "整个窗口",
            "image": "窗口内的真实元素", "padded image": "窗口内的元素，含填充"}),
    "resize_convention": Cause(("The resize looks at other places", "缩放的坐标约定不同"),
        proof=recomputed("the resize is {left} on the left and {right} on the right", "缩放方式"),
        repair=("Set mode, align_corners and antialias alike on both sides.",
            "统一两侧的 mode、align_corners 与 antialias。"),
        words={"nearest": "最近邻", "linear": "线性", "cubic": "三次", "half up": "半数向上",
            "half down": "半数向下", "half even": "半数取偶", "floor": "向下取整"}),
}
