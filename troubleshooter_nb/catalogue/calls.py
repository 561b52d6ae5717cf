"""Causes that any call may have."""

from troubleshooter_nb.catalogue.entry import Cause
from troubleshooter_nb.catalogue.proofs import alike, recomputed

# fmt: off
CAUSES: dict[str, Cause] = {
    "argument_order": Cause(
        ("An argument with another value or in another place", "参数取值或顺序不同"),
        proof=alike("Fitted from each side's own values, {setting}: left {left}, right {right}",
            "由每侧各自的数值拟合，{setting}：左侧 {left}，右侧 {right}", "with the same argument",
            "统一该参数后"),
        repair=("Pass these arguments by name on both sides.", "在两侧按名称传递这些参数。"),
        words={"in order": "顺序正常", "swapped": "顺序互换"}),
    "call_missing": Cause(
        ("A call or a save that only one side has", "只有一侧有的调用或保存"),
        proof=("Only the {side} side has it, and the other side has nothing left over that "
            "it could belong to.",
            "只有{side}侧有它，而另一侧没有剩余的条目可与之对应。"),
        repair=("If it is a layer, add it on the other side or take it away. If it is a pass more, "
            "such as a warm-up or a validation, record the same passes on both sides.",
            "若它是一个层，请在另一侧补上或在此去掉；若是多出的一次前向（如预热或验证），"
            "请在两侧记录相同的前向。"),
        # A save more changes nothing in a network.
        at_most=0.45),
    "constant_differs": Cause(("A constant of the call differs", "调用中的常数不同"),
        proof=recomputed("the call multiplies by or adds {left} on the left and {right} on the "
            "right", "该调用所乘或所加的常数：左侧 {left}，右侧 {right}"),
        repair=("Use one number on both sides.", "在两侧使用同一常数。")),
    "other_layer": Cause(("The two sides have other layers at this place", "两侧此处的层不同"),
        proof=recomputed("{layer} is {left_class} on the left and {right_class} on the right",
            "{layer} 左侧为 {left_class}，右侧为 {right_class}"),
        repair=("Use one layer on both sides.", "在两侧使用同一种层。")),
    "set_otherwise": Cause(("The layer is set otherwise on the two sides", "该层在两侧的设置不同"),
        proof=("Recorded of this layer: {settings}. Its inputs agree and what it gives does not; "
            "whether that is all the values do not say.",
            "该层记录的设置：{settings}。其输入一致而输出不同；是否仅因此，数值未能说明。"),
        repair=("Set it alike on both sides; if it still differs, record its values "
            "(keep=\"tensor\").",
            "在两侧采用相同设置；若仍不同，请记录其数值（keep=\"tensor\"）。"),
        # A setting may have no effect on what was called.
        at_most=0.7),
    "kernel_fault": Cause(("One side's kernel is not exact", "一侧的算子实现不精确"),
        proof=("Against the formula in float64, from each side's own input: left {left}, right "
            "{right}. Relative error of the two outputs {before}.",
            "以每侧各自的输入与 float64 公式比较：左侧 {left}，右侧 {right}。两侧输出的相对误差 "
            "{before}。"),
        repair=("Nothing is wrong with the network. Compose the operator of others on that side, "
            "or allow it this error; report the kernel.",
            "网络本身没有问题。可在该侧用其他算子组合实现，或放宽此处的容差；并报告该算子。"),
        # It says which side is off, and not that nothing else of that call could be.
        at_most=0.2,  # what is off without a known cause is seldom the kernel alone
        words={"at the input": "取自输入", "at the output": "取自输出",
            "with alpha 1": "按 alpha 1"}),
}
