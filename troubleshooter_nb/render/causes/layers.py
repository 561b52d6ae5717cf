"""Words of the causes that lie in how a layer computes."""

from __future__ import annotations

from troubleshooter_nb.render.causes.wording import CauseWords

# fmt: off
WORDS: dict[str, CauseWords] = {
    "bn_eps": CauseWords(
        ("BatchNorm uses another eps", "BatchNorm 的 eps 不同"),
        ("Fitted from each side's own input, statistics and output: eps {left} left, {right} right. Relative error {before}; with one eps {residual} is left.", "由每侧各自的输入、统计量和输出拟合：左侧 eps {left}，右侧 {right}。相对误差 {before}；统一 eps 后剩余 {residual}。"),
        ("Give both layers the same eps: BatchNorm2d(eps=...) in PyTorch and MindSpore.", "为两侧的层设置相同的 eps：PyTorch 与 MindSpore 均为 BatchNorm2d(eps=...)。")),
    "bn_gamma_ignored": CauseWords(
        ("One side leaves out the weight (gamma)", "一侧未使用权重（gamma）"),
        ("The weight is {left} on the left, {right} on the right. Relative error {before}; treated alike {residual} is left.", "权重在左侧为 {left}，在右侧为 {right}。相对误差 {before}；统一处理后剩余 {residual}。"),
        ("Switch the affine part on (affine=True, fix_gamma=False), or set the weight to one on both sides.", "启用仿射部分（affine=True、fix_gamma=False），或在两侧将权重置为 1。")),
    "eval_train_mode": CauseWords(
        ("One side trains, the other evaluates", "一侧为训练模式，另一侧为推理模式"),
        ("Recomputed from each side's own input: left {left}, right {right}. Relative error {before}; with the same mode {residual} is left.", "按每侧各自的输入重算：左侧 {left}，右侧 {right}。相对误差 {before}；统一模式后剩余 {residual}。"),
        ("Call net.eval() or net.train() in PyTorch and net.set_train(False or True) in MindSpore before recording: a new MindSpore cell is in evaluation mode.", "采集前在 PyTorch 调用 net.eval() 或 net.train()，在 MindSpore 调用 net.set_train(False 或 True)：MindSpore 新建的 Cell 默认为推理模式。")),
    "norm_eps": CauseWords(
        ("The normalisation uses another eps", "归一化层的 eps 不同"),
        ("Fitted from each side's own input and output: eps {left} left, {right} right. Relative error {before}; with one eps {residual} is left.", "由每侧各自的输入和输出拟合：左侧 eps {left}，右侧 {right}。相对误差 {before}；统一 eps 后剩余 {residual}。"),
        ("Set the same value: LayerNorm(eps=...) in PyTorch (default 1e-5), nn.LayerNorm(epsilon=...) in MindSpore (default 1e-7).", "设置相同的值：PyTorch 为 LayerNorm(eps=...)（默认 1e-5），MindSpore 为 nn.LayerNorm(epsilon=...)（默认 1e-7）。")),
    "eps_underflow": CauseWords(
        ("eps becomes zero in half precision", "半精度下 eps 下溢为零"),
        ("Rows without variance, left: {left}; right: {right}. All other rows follow the formula, relative error left {residual}.", "方差为零的行，左侧：{left}；右侧：{right}。其余各行符合公式，剩余相对误差 {residual}。"),
        ("Compute the statistics in float32, or take an eps that the format holds: at least 1e-7 for float16, better 1e-5.", "用 float32 计算统计量，或使用该格式可表示的 eps：float16 至少 1e-7，最好 1e-5。")),
    "norm_weight_plus_one": CauseWords(
        ("The weight of the norm means 1 + weight on one side", "一侧的归一化权重按 1 + 权重 使用"),
        ("Added to the weight before multiplying: {left} left, {right} right. Relative error {before}; with the same convention {residual} is left.", "相乘前对权重所加的值：左侧 {left}，右侧 {right}。相对误差 {before}；统一约定后剩余 {residual}。"),
        ("Add 1 to these weights when converting, or take it off, once (Gemma stores weight - 1).", "转换时对这些权重加 1 或减 1，且只做一次（Gemma 保存的是 权重 - 1）。")),
    "norm_weight_cast_order": CauseWords(
        ("The norm is multiplied by its weight before or after the cast", "归一化权重在类型转换之前或之后相乘"),
        ("Recomputed with the rounding at each place: the weight is multiplied {left} the cast on the left, {right} it on the right. Relative error {before}; {residual} is left.", "按不同位置的舍入重算：左侧权重相乘相对转换的次序为 {left}，右侧为 {right}。相对误差 {before}；剩余 {residual}。"),
        ("Cast at the same place: weight * x.to(dtype) against (weight * x).to(dtype).", "在相同位置转换类型：weight * x.to(dtype) 与 (weight * x).to(dtype) 不同。")),
    "gelu_variant": CauseWords(
        ("The two sides use different forms of GELU", "两侧使用了不同形式的 GELU"),
        ("The output is the {left} form of the side's own input on the left, the {right} form on the right. Relative error {before}; with one form {residual} is left.", "左侧输出是其输入的 {left} 形式，右侧为 {right} 形式。相对误差 {before}；统一形式后剩余 {residual}。"),
        ("Choose one: PyTorch GELU(approximate='none' or 'tanh'), MindSpore GELU(approximate=False or True). The defaults differ: erf against tanh.", "选用同一种：PyTorch GELU(approximate='none' 或 'tanh')，MindSpore GELU(approximate=False 或 True)。两者默认不同：erf 与 tanh。")),
    "activation_changed": CauseWords(
        ("Another activation, or none, or applied twice", "激活函数不同、缺失或重复"),
        ("The output is this function of the side's own input: left {left}, right {right}. Relative error {before}; with one function {residual} is left.", "输出是其输入的如下函数：左侧 {left}，右侧 {right}。相对误差 {before}；统一函数后剩余 {residual}。"),
        ("Use the same function with the same constants; LeakyReLU has slope 0.01 in PyTorch and 0.2 in MindSpore unless given.", "使用相同的函数和常数；LeakyReLU 默认斜率在 PyTorch 为 0.01，在 MindSpore 为 0.2。")),
    "random_in_eval": CauseWords(
        ("One side draws random numbers in evaluation", "一侧在推理时仍使用随机数"),
        ("Random: left {left}, right {right}. The random side has factors that do not depend on its input. Relative error {before}; outside the random places {residual} is left.", "随机：左侧 {left}，右侧 {right}。随机一侧的系数与输入无关。相对误差 {before}；随机位置之外剩余 {residual}。"),
        ("Replace RReLU by LeakyReLU with the mean slope for evaluation, or set the rate of dropout to zero.", "推理时将 RReLU 换为平均斜率的 LeakyReLU，或将 dropout 的比例设为零。")),
    "dropout_keep_prob": CauseWords(
        ("Dropout at different rates (keep_prob against p)", "Dropout 比例不同（keep_prob 与 p）"),
        ("From the zeros and the scale of the rest: left {left}, right {right}. Each side follows its own rate, relative error left {residual}.", "由零的比例和其余元素的缩放得到：左侧 {left}，右侧 {right}。每侧均符合各自的比例，剩余相对误差 {residual}。"),
        ("Name the argument: nn.Dropout(p=...) in both. The first positional argument of MindSpore's Dropout is keep_prob, so Dropout(0.9) drops 10 % there, 90 % in PyTorch.", "按名称传参：两侧都写 nn.Dropout(p=...)。MindSpore Dropout 的第一个位置参数是 keep_prob，因此 Dropout(0.9) 丢弃 10 %，而 PyTorch 丢弃 90 %。")),
    "normalised_axes": CauseWords(
        ("Normalised over other axes, or with the mean left in", "归一化的轴不同，或未减均值"),
        ("Recomputed from each side's own input: left {left}, right {right}. Relative error {before}; over the same axes {residual} is left.", "按每侧各自的输入重算：左侧 {left}，右侧 {right}。相对误差 {before}；统一轴后剩余 {residual}。"),
        ("Give the axes: normalized_shape in PyTorch; begin_norm_axis and begin_params_axis in MindSpore; num_groups of a GroupNorm. RMSNorm does not take off the mean.", "指明轴：PyTorch 用 normalized_shape，MindSpore 用 begin_norm_axis 和 begin_params_axis，GroupNorm 用 num_groups。RMSNorm 不减均值。")),
    "softmax_axis": CauseWords(
        ("Softmax along another axis", "Softmax 的轴不同"),
        ("The output is the softmax of the side's own input along axis {left} on the left, {right} on the right. Relative error {before}; along one axis {residual} is left.", "左侧输出是其输入沿轴 {left} 的 softmax，右侧为轴 {right}。相对误差 {before}；统一轴后剩余 {residual}。"),
        ("Give dim (PyTorch) and axis (MindSpore); left out, PyTorch takes axis 0 or 1 by the number of axes and MindSpore the last.", "明确给出 dim（PyTorch）与 axis（MindSpore）；省略时 PyTorch 按维数取轴 0 或 1，MindSpore 取最后一轴。")),
    "softmax_precision_path": CauseWords(
        ("Softmax passes through a narrower format on one side", "一侧的 softmax 经过更窄的格式"),
        ("Recomputed with the rounding of each path: left {left}, right {right}. Relative error {before}; by one path {residual} is left.", "按各路径的舍入重算：左侧 {left}，右侧 {right}。相对误差 {before}；统一路径后剩余 {residual}。"),
        ("Compute the softmax in float32 on both sides and cast its result: softmax(x, dtype=torch.float32).to(x.dtype).", "两侧均以 float32 计算 softmax，再转换结果：softmax(x, dtype=torch.float32).to(x.dtype)。")),
    "kernel_fault": CauseWords(
        ("One side's kernel is not exact", "一侧的算子实现不精确"),
        ("Against the formula in float64, from each side's own input: left {left}, right {right}. Relative error of the two outputs {before}.", "以每侧各自的输入与 float64 公式比较：左侧 {left}，右侧 {right}。两侧输出的相对误差 {before}。"),
        ("Nothing is wrong with the network. Compose the operator of others on that side, or allow it this error; report the kernel.", "网络本身没有问题。可在该侧用其他算子组合实现，或放宽此处的容差；并报告该算子。")),
    "argument_order": CauseWords(
        ("An argument with another value or in another place", "参数取值或顺序不同"),
        ("Fitted from each side's own values, {setting}: left {left}, right {right}. Relative error {before}; with the same argument {residual} is left.", "由每侧各自的数值拟合，{setting}：左侧 {left}，右侧 {right}。相对误差 {before}；统一该参数后剩余 {residual}。"),
        ("Pass these arguments by name on both sides.", "在两侧按名称传递这些参数。")),
}
