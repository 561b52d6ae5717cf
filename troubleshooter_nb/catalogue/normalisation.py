"""Causes in layers that normalise."""

from troubleshooter_nb.catalogue.entry import Cause
from troubleshooter_nb.catalogue.proofs import alike, becomes

# fmt: off
WORDS: dict[str, str] = {
    "before": "之前", "after": "之后", "batch": "批次统计量", "running": "滑动统计量",
    "batch and places": "批次与位置", "channels and places": "通道与位置", "channels": "通道",
    "places": "位置",
}
CAUSES: dict[str, Cause] = {
    "norm_eps": Cause(("The normalisation uses another eps", "归一化层的 eps 不同"),
        proof=alike("Fitted from each side's own input and output: eps {left} left, {right} right",
            "由每侧各自的输入和输出拟合：左侧 eps {left}，右侧 {right}", "with one eps",
            "统一 eps 后"),
        repair=("Set the same value: LayerNorm(eps=...) in PyTorch (default 1e-5), "
            "nn.LayerNorm(epsilon=...) in MindSpore (default 1e-7).",
            "设置相同的值：PyTorch 为 LayerNorm(eps=...)（默认 1e-5），MindSpore 为 "
            "nn.LayerNorm(epsilon=...)（默认 1e-7）。"),
        in_both_passes=True),
    "bn_eps": Cause(("BatchNorm uses another eps", "BatchNorm 的 eps 不同"),
        proof=alike("Fitted from each side's own input, statistics and output: eps {left} left, "
            "{right} right", "由每侧各自的输入、统计量和输出拟合：左侧 eps {left}，右侧 {right}",
            "with one eps", "统一 eps 后"),
        repair=("Give both layers the same eps: BatchNorm2d(eps=...) in PyTorch and MindSpore.",
            "为两侧的层设置相同的 eps：PyTorch 与 MindSpore 均为 BatchNorm2d(eps=...)。"),
        in_both_passes=True),
    "eps_underflow": Cause(("eps becomes zero in half precision", "半精度下 eps 下溢为零"),
        proof=("Rows without variance, left: {left}; right: {right}. All other rows follow the "
            "formula, relative error left {residual}.",
            "方差为零的行，左侧：{left}；右侧：{right}。其余各行符合公式，剩余相对误差 "
            "{residual}。"),
        repair=("Compute the statistics in float32, or take an eps that the format holds: at least "
            "1e-7 for float16, better 1e-5.",
            "用 float32 计算统计量，或使用该格式可表示的 eps：float16 至少 1e-7，最好 1e-5。"),
        words={"finite": "有限", "not finite": "非有限"}),
    "bn_gamma_ignored": Cause(
        ("One side leaves out the weight (gamma)", "一侧未使用权重（gamma）"),
        proof=alike("The weight is {left} on the left, {right} on the right",
            "权重在左侧为 {left}，在右侧为 {right}", "treated alike", "统一处理后"),
        repair=("Switch the affine part on (affine=True, fix_gamma=False), or set the weight to "
            "one on both sides.",
            "启用仿射部分（affine=True、fix_gamma=False），或在两侧将权重置为 1。"),
        lacks=("weight", "gamma"),
        is_part_of="parameters"),
    "norm_weight_plus_one": Cause(
        ("The weight of the norm means 1 + weight on one side",
         "一侧的归一化权重按 1 + 权重 使用"),
        proof=alike("Added to the weight before multiplying: {left} left, {right} right",
            "相乘前对权重所加的值", "with the same convention", "统一约定后"),
        repair=("Add 1 to these weights when converting, or take it off, once (Gemma stores weight "
            "- 1).", "转换时对这些权重加 1 或减 1，且只做一次（Gemma 保存的是 权重 - 1）。"),
        changes_nothing=True),
    "norm_weight_cast_order": Cause(
        ("The norm is multiplied by its weight before or after the cast",
         "归一化权重在类型转换之前或之后相乘"),
        proof=("Recomputed with the rounding at each place: the weight is multiplied {left} the "
            "cast on the left, {right} it on the right. Relative error {before}; {residual} is "
            "left.",
            "按不同位置的舍入重算：左侧权重相乘相对转换的次序为 {left}，右侧为 {right}。相对误差 "
            "{before}；剩余 {residual}。"),
        repair=("Cast at the same place: weight * x.to(dtype) against (weight * x).to(dtype).",
            "在相同位置转换类型：weight * x.to(dtype) 与 (weight * x).to(dtype) 不同。")),
    "normalised_axes": Cause(
        ("Normalised over other axes, or with the mean left in", "归一化的轴不同，或未减均值"),
        proof=alike("Recomputed from each side's own input", "按每侧各自的输入重算",
            "over the same axes", "统一轴后"),
        repair=("Give the axes: normalized_shape in PyTorch; begin_norm_axis and begin_params_axis "
            "in MindSpore; num_groups of a GroupNorm. RMSNorm does not take off the mean.",
            "指明轴：PyTorch 用 normalized_shape，MindSpore 用 begin_norm_axis 和 "
            "begin_params_axis，GroupNorm 用 num_groups。RMSNorm 不减均值。")),
    "eval_train_mode": Cause(
        ("One side trains, the other evaluates", "一侧为训练模式，另一侧为推理模式"),
        proof=alike("Recomputed from each side's own input", "按每侧各自的输入重算",
            "with the same mode", "统一模式后"),
        repair=("Call net.eval() or net.train() in PyTorch and net.set_train(False or True) in "
            "MindSpore before recording: a new MindSpore cell is in evaluation mode.",
            "采集前在 PyTorch 调用 net.eval() 或 net.train()，在 MindSpore 调用 "
            "net.set_train(False 或 True)：MindSpore 新建的 Cell 默认为推理模式。")),
    "bn_folded": Cause(("Batch norm folded into the convolution", "BatchNorm 已折叠进卷积"),
        proof=becomes("The {side} weight is the other one times gamma/sqrt(var + {eps}) of {norm}, "
            "per output channel ({channels} channels, {smallest_ratio} to {largest_ratio})",
            "{side} 侧的权重等于另一侧按输出通道乘以 {norm} 的 gamma/sqrt(var + {eps})（{channels} "
            "个通道，{smallest_ratio} 到 {largest_ratio}）"),
        repair=("Compare before the fusion, or compare the output of {norm} with the convolution's "
            "of the {side} side.", "在融合前比较，或将 {norm} 的输出与 {side} 侧卷积的输出比较。"),
        excludes=("bias_missing",),
        words={"folded": "已折叠", "missing": "缺失"},
        changes_nothing=True),
}
