"""Causes in recurrent layers."""

from troubleshooter_nb.catalogue.entry import Cause
from troubleshooter_nb.catalogue.proofs import becomes, leaves

# fmt: off
WORDS: dict[str, str] = {
    "both": "两个都有", "input only": "仅输入偏置", "hidden only": "仅隐藏偏置",
    "steps first": "时间步在前",
}
CAUSES: dict[str, Cause] = {
    "gru_reset_order": Cause(
        ("The gates of the recurrent unit act in another order", "GRU 重置门的次序不同"),
        proof=leaves("Recomputed in float64 from each side's own inputs, step by step, the unit "
            "has {left} on the left and {right} on the right",
            "分别用两侧自己的输入以 float64 重算（逐步），门的形式"),
        repair=("torch and MindSpore reset after the product; in Keras set reset_after=True.",
            "torch 与 MindSpore 在乘积之后重置；Keras 请设 reset_after=True。"),
        words={"before the product": "在乘积之前", "after the product": "在乘积之后",
            "share of the old state": "旧状态的比例", "share of the new state": "新状态的比例"}),
    "lstm_gate_order": Cause(
        ("Gates of a recurrent layer in another order", "循环层的门顺序或偏置不同"),
        proof=becomes("{text}", "{text}"),
        repair=("Reorder the blocks when converting (torch: i, f, g, o; r, z, n), in weights and "
            "biases alike; where one side has one bias, it is the sum of the other's two.",
            "转换时重排各块（torch 为 i, f, g, o 与 r, z, n），权重与偏置一致；"
            "只有一个偏置的一侧等于另一侧两个之和。")),
}
