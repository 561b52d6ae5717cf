"""Causes in activations and dropout."""

from troubleshooter_nb.catalogue.entry import Cause
from troubleshooter_nb.catalogue.proofs import alike

# fmt: off
CAUSES: dict[str, Cause] = {
    "activation_changed": Cause(
        ("Another activation, or none, or applied twice", "激活函数不同、缺失或重复"),
        proof=alike("The output is this function of the side's own input", "输出是其输入的如下函数",
            "with one function", "统一函数后"),
        repair=("Use the same function with the same constants; LeakyReLU has slope 0.01 in "
            "PyTorch and 0.2 in MindSpore unless given.",
            "使用相同的函数和常数；LeakyReLU 默认斜率在 PyTorch 为 0.01，在 MindSpore 为 0.2。"),
        words={"identity": "恒等", "fifth": "五分之一", "sixth": "六分之一"}),
    "gelu_variant": Cause(
        ("The two sides use different forms of GELU", "两侧使用了不同形式的 GELU"),
        proof=alike("The output is the {left} form of the side's own input on the left, the "
            "{right} form on the right", "左侧输出是其输入的 {left} 形式，右侧为 {right} 形式",
            "with one form", "统一形式后"),
        repair=("Choose one: PyTorch GELU(approximate='none' or 'tanh'), MindSpore "
            "GELU(approximate=False or True). The defaults differ: erf against tanh.",
            "选用同一种：PyTorch GELU(approximate='none' 或 'tanh')，MindSpore "
            "GELU(approximate=False 或 True)。两者默认不同：erf 与 tanh。")),
    "random_in_eval": Cause(
        ("One side draws random numbers in evaluation", "一侧在推理时仍使用随机数"),
        proof=alike("Random: left {left}, right {right}. The random side has factors that do not "
            "depend on its input", "随机：左侧 {left}，右侧 {right}。随机一侧的系数与输入无关",
            "outside the random places", "随机位置之外"),
        repair=("Replace RReLU by LeakyReLU with the mean slope for evaluation, or set the rate of "
            "dropout to zero.",
            "推理时将 RReLU 换为平均斜率的 LeakyReLU，或将 dropout 的比例设为零。")),
    "dropout_keep_prob": Cause(
        ("Dropout at different rates (keep_prob against p)", "Dropout 比例不同（keep_prob 与 p）"),
        proof=("From the zeros and the scale of the rest: left {left}, right {right}. Each side "
            "follows its own rate, relative error left {residual}.",
            "由零的比例和其余元素的缩放得到：左侧 {left}，右侧 {right}。每侧均符合各自的比例，"
            "剩余相对误差 {residual}。"),
        repair=("Name the argument: nn.Dropout(p=...) in both. The first positional argument of "
            "MindSpore's Dropout is keep_prob, so Dropout(0.9) drops 10 % there, 90 % in PyTorch.",
            "按名称传参：两侧都写 nn.Dropout(p=...)。MindSpore Dropout 的第一个位置参数是 "
            "keep_prob，因此 Dropout(0.9) 丢弃 10 %，而 PyTorch 丢弃 90 %。")),
}
