"""Causes in what was loaded, drawn or fed."""

from troubleshooter_nb.catalogue.entry import Cause
from troubleshooter_nb.catalogue.proofs import becomes, leaves

# fmt: off
WORDS: dict[str, str] = {"values of another call": "另一次调用的数值", "ones": "全一"}
CAUSES: dict[str, Cause] = {
    "wrong_layer_loaded": Cause(("Values of another layer loaded", "加载了其他层的权重"),
        proof=("The {side} tensor holds what {other} holds on the other side (residual {residual}, "
            "own name {before}).",
            "{side} 侧的张量与另一侧的 {other} 相同（残差 {residual}，与同名张量相差 "
            "{before}）。"),
        repair=("Correct the name map: sort layer numbers as numbers (2 before 10), and look for "
            "patterns that match two names.",
            "修正名称映射：层号按数值排序（2 在 10 之前），并检查同时匹配两个名称的规则。")),
    "low_rank_difference": Cause(
        ("The weights differ by a matrix of low rank", "权重相差一个低秩矩阵"),
        proof=leaves("Left less right has rank {rank} of {most}, {adapter}",
            "左侧减右侧的秩为 {rank}（最大 {most}），{adapter}"),
        repair=("Merge the adapter into the weights on both sides or on neither, with the same "
            "alpha / r. Without one, a few steps of training on few tokens leave such a "
            "difference.",
            "两侧都合并适配器或都不合并，并使用相同的 alpha / r。若没有适配器，"
            "以少量 token 训练几步也会留下这样的差异。")),
    "tensor_missing": Cause(
        ("A tensor that only one side has", "只有一侧有的张量"),
        proof=("Only the {side} side has it, and the other side has nothing left over that "
            "it could belong to.",
            "只有{side}侧有它，而另一侧没有剩余的条目可与之对应。"),
        repair=("If both networks use it, save it on both sides; else one of them has a layer or a "
            "setting that the other lacks.",
            "若两个网络都使用它，请在两侧都保存；否则其中一个网络多出一个层或设置。"),
        # It may be of no use to the network.
        at_most=0.45),
    "tensor_renamed": Cause(
        ("The same values under another name", "同样的值，名称不同"),
        proof=("Its values are those that {other} has on the other side: {text} (residual "
            "{residual}).",
            "另一侧的 {other} 就是它的值：{text}（残差 {residual}）。"),
        repair=("Compare by a map, which knows what becomes of each name: "
            "wm = tnb.draft_weight_map(left, right); tnb.compare(left, right, mapping=wm).",
            "按映射比较，它知道每个名称变成什么：wm = tnb.draft_weight_map(left, right)；"
            "tnb.compare(left, right, mapping=wm)。")),
    "tensor_not_loaded": Cause(("Tensor never loaded", "张量未被加载"),
        proof=("The {side} values are what an initialiser gives ({drawn}); correlation with the "
            "other side {correlation}, by chance up to {chance}.",
            "{side} 侧的数值来自初始化（{drawn}）；与另一侧的相关性为 {correlation}，"
            "偶然情况下可达 {chance}。"),
        repair=("Look for this name among the missing and unexpected keys: prefixes, renamed "
            "layers, strict=False.",
            "在缺失与多余的键中查找该名称：前缀、改名的层、strict=False。")),
    "tied_weights_broken": Cause(("Tied weights on one side only", "只有一侧共享权重"),
        proof=("On the {tied} side it equals {other}, on the other it does not; tied there as "
            "well, {before} becomes {residual}.",
            "在{tied} 侧它与 {other} 相同，另一侧则不同；若同样共享，误差由 {before} 降到 "
            "{residual}。"),
        repair=("Tie the head to the embedding after loading, or save the head where it is "
            "separate.", "加载后将输出头与嵌入共享，或在不共享时单独保存输出头。")),
    "buffer_uninitialised": Cause(("Buffer holds uninitialised memory", "缓冲区未初始化"),
        proof=("{odd} of {size} values on the {side} side are NaN, infinite, subnormal or huge "
            "(largest {largest}, other side {largest_other}).",
            "{side} 侧 {size} 个数值中有 {odd} 个为 NaN、无穷、次正规数或极大（最大 {largest}，"
            "另一侧 {largest_other}）。"),
        repair=("Compute the buffer again after the model is built on its device: it is not in the "
            "checkpoint (non-persistent, meta device).",
            "模型在设备上创建后重新计算该缓冲区：它不在检查点中（非持久化、meta 设备）。")),
    "initialiser_differs": Cause(("Initialised differently", "初始化方式不同"),
        proof=("Left looks like {left}, right like {right}; neither was trained or loaded.",
            "左侧像是 {left}，右侧像是 {right}；两者都未训练或加载。"),
        repair=("Load one side's initial weights into the other before the first step.",
            "在第一步之前将一侧的初始权重加载到另一侧。"),
        words={"of no known form": "形式未知"}),
    "rng_differs": Cause(("Drawn from other random numbers", "随机数不同"),
        proof=("Same distribution, no correlation ({correlation}, by chance up to {chance}).",
            "分布相同，但不相关（{correlation}，偶然情况下可达 {chance}）。"),
        repair=("Save the random tensor once and load it on both sides: seeds do not carry over "
            "between devices and frameworks.",
            "将随机张量保存一次并在两侧加载：随机种子在不同设备和框架间不通用。")),
    "data_order": Cause(("Data in another order", "数据顺序或填充不同"),
        proof=("{what}: undone, {before} becomes {residual}.",
            "数据的顺序、增强或填充值不同（{what}）：还原后误差由 {before} 降到 {residual}。"),
        repair=("Switch shuffling and random augmentation off, or fix the sampler, padding value "
            "and token tails, so that both sides read the same batch.",
            "关闭打乱与随机增强，或固定采样器、填充值与尾部 token，使两侧读取同一批数据。"),
        words={"rows permuted": "行被重排", "padding value": "填充值",
            "flipped left to right": "左右翻转", "flipped upside down": "上下翻转"}),
    "image_resize_library": Cause(
        ("Another image resize, by library or antialias", "图像缩放的库或抗锯齿设置不同"),
        proof=("A small filter of sum {filter_sum} turns left into right ({before} becomes "
            "{residual}); the error follows the edges (correlation {edges}). Other filters leave "
            "the same.",
            "一个总和为 {filter_sum} 的小滤波器把左侧变为右侧（误差由 {before} 降到 {residual}），"
            "误差集中在边缘（相关系数 {edges}）。其他滤波也会如此。"),
        repair=("Resize once, save the result, and give both sides the same array; else set "
            "library, interpolation and antialias alike.",
            "只缩放一次并保存，两侧使用同一数组；或统一库、插值方式与抗锯齿设置。")),
    "input_scale_or_normalisation": Cause(
        ("Input scaled or normalised differently", "输入的缩放或归一化不同"),
        proof=becomes("{what}", "{what}"),
        repair=("Use one range (0..1 or 0..255) and the same mean and deviation, in the order of "
            "the channels, on both sides.",
            "两侧使用相同的取值范围（0..1 或 0..255）以及相同的均值与标准差，并注意通道顺序。"),
        words={"scale and offset": "缩放与偏移", "scale and offset per channel": "逐通道缩放与偏移",
            "ImageNet, constants in BGR order": "ImageNet，常数按 BGR 顺序",
            "ImageNet mean alone": "仅 ImageNet 均值",
            "ImageNet mean alone, 0..255": "仅 ImageNet 均值，0..255",
            "ImageNet constants on 0..255": "ImageNet 常数用于 0..255",
            "ImageNet, mean and deviation exchanged": "ImageNet，均值与标准差互换",
            "CIFAR-10, other deviations": "CIFAR-10，其他标准差"}),
}
