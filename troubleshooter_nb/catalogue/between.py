"""Causes in what lies between calls."""

from troubleshooter_nb.catalogue.entry import Cause
from troubleshooter_nb.catalogue.proofs import leaves

# fmt: off
WORDS: dict[str, str] = {
    "attention": "注意力", "scores": "注意力分数", "rotary": "旋转编码", "angles": "旋转角度",
    "copy": "复制", "sum": "求和", "product": "乘积", "heads": "头", "queries": "查询",
    "keys": "键", "parts of heads": "先分 q、k、v 再分头", "heads of parts": "先分头再分 q、k、v",
    "apart": "分开存放", "heads repeated each": "逐头重复",
    "heads repeated in turn": "整体轮流重复", "heads merged": "头已合并",
    "heads not transposed": "头未转置", "keys transposed": "键转置",
    "for all items": "对所有样本相同", "averaged": "取平均", "channels first": "通道在前",
    "channels last": "通道在后",
}
CAUSES: dict[str, Cause] = {
    "residual_order": Cause(
        ("The residual is taken at another place or left out", "残差取自另一处，或有一侧没有残差"),
        proof=leaves("What is added round the layers is the {left} on the left and the {right} on "
            "the right", "残差相加的张量：左侧为 {left}，右侧为 {right}"),
        repair=("If one side only copies, add its residual. Else add the tensor in front of the "
            "normalisation on both sides, or the one behind it on both "
            "(apply_residual_connection_post_layernorm).",
            "若一侧只是复制，请补上残差相加；否则两侧都取归一化之前（或都取之后）"
            "的张量作残差（apply_residual_connection_post_layernorm）。")),
    "kv_cache_path": Cause(("Decoding from the cache goes wrong", "KV 缓存解码路径有误"),
        proof=("The last token: left {left}, right {right}. The error jumps from {residual} to "
            "{before} with the first token that reads the cache.",
            "最后一个 token：左侧 {left}，右侧 {right}。从首个读取缓存的 token 起误差由 {residual} "
            "跃升到 {before}。"),
        repair=("Check the position, the length and the dtype with which keys and values are "
            "cached.", "检查写入缓存时的位置、长度与数据类型。")),
    "constant_baked": Cause(
        ("A value is the constant of the first input on one side",
         "一侧的值固定为第一次输入时的常数"),
        proof=("Equal at the first of {values} calls (relative error {first:.1e}); then the {side} "
            "side repeats the first value bit for bit while the other changes ({later:.1e}).",
            "{values} 次调用中第一次相等（相对误差 {first:.1e}）；此后 {side} "
            "侧逐位重复第一次的值，另一侧则变化（{later:.1e}）。"),
        repair=("Something was computed while tracing or compiling and stored as a constant: "
            "compute it from tensors inside the traced function, and avoid numbers taken out of "
            "tensors.",
            "跟踪或编译时的计算结果被存为常量：应在被跟踪的函数内由张量计算，不要从张量中取出 "
            "Python 数值。")),
}
