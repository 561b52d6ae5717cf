"""Words of the causes that show in one pair of tensors."""

from __future__ import annotations

from troubleshooter_nb.render.causes.wording import CauseWords

# fmt: off
WORDS: dict[str, CauseWords] = {
    "bn_folded": CauseWords(
        ("Batch norm folded into the convolution", "BatchNorm 已折叠进卷积"),
        ("The {side} weight is the other one times gamma/sqrt(var + {eps}) of {norm}, per output channel ({channels} channels, {smallest_ratio} to {largest_ratio}): {before} becomes {residual}.", "{side} 侧的权重等于另一侧按输出通道乘以 {norm} 的 gamma/sqrt(var + {eps})（{channels} 个通道，{smallest_ratio} 到 {largest_ratio}）：误差由 {before} 降到 {residual}。"),
        ("Compare before the fusion, or compare the output of {norm} with the convolution's of the {side} side.", "在融合前比较，或将 {norm} 的输出与 {side} 侧卷积的输出比较。")),
    "linear_transposed": CauseWords(
        ("Linear weight transposed", "全连接层权重被转置"),
        ("With axes in the order {axes} left equals right: {before} becomes {residual}.", "将左侧的轴按 {axes} 排列后与右侧相等：误差由 {before} 降到 {residual}。"),
        ("Transpose the weight when it is converted; a square one gives no shape error.", "转换权重时进行转置；方阵不会报形状错误。")),
    "conv_axes_permuted": CauseWords(
        ("Axes of a convolution kernel in another order", "卷积核的轴顺序不同"),
        ("{text}: {before} becomes {residual}.", "{text}：误差由 {before} 降到 {residual}。"),
        ("Permute or flip the kernel when it is converted: layouts (out, in, h, w), (h, w, in, out), and in and out swapped for transposed convolutions.", "转换时调整或翻转卷积核：布局 (out, in, h, w)、(h, w, in, out)，转置卷积还会交换输入与输出通道。")),
    "conv1d_extra_axis": CauseWords(
        ("Conv1d stored as a 2-D kernel", "Conv1d 以二维卷积核存储"),
        ("Shapes differ by an axis of size 1 at place {axis}; the values are equal (residual {residual}).", "形状只差位置 {axis} 上长度为 1 的轴，数值相等（残差 {residual}）。"),
        ("Add or remove the axis when the weight is converted: expand_dims({axis}) or squeeze({axis}).", "转换权重时添加或去掉该轴：expand_dims({axis}) 或 squeeze({axis})。")),
    "image_resize_library": CauseWords(
        ("Another image resize, by library or antialias", "图像缩放的库或抗锯齿设置不同"),
        ("A small filter of sum {filter_sum} turns left into right ({before} becomes {residual}); the error follows the edges (correlation {edges}). Other filters leave the same.", "一个总和为 {filter_sum} 的小滤波器把左侧变为右侧（误差由 {before} 降到 {residual}），误差集中在边缘（相关系数 {edges}）。其他滤波也会如此。"),
        ("Resize once, save the result, and give both sides the same array; else set library, interpolation and antialias alike.", "只缩放一次并保存，两侧使用同一数组；或统一库、插值方式与抗锯齿设置。")),
    "channel_order_bgr": CauseWords(
        ("Channels reversed: RGB against BGR", "通道顺序相反：RGB 与 BGR"),
        ("Reversed along axis {axis} ({channels} channels) left equals right: {before} becomes {residual}.", "将左侧沿轴 {axis}（{channels} 个通道）反转后与右侧相等：误差由 {before} 降到 {residual}。"),
        ("Read the image in the same channel order on both sides, or reverse the first convolution's input channels, not both.", "两侧以相同的通道顺序读取图像，或反转首个卷积的输入通道，二者只做其一。")),
    "input_scale_or_normalisation": CauseWords(
        ("Input scaled or normalised differently", "输入的缩放或归一化不同"),
        ("Right is left under one {form} {factor_name}{recipes}: {before} becomes {residual}.", "右侧等于左侧经过 {form} {factor_name}{recipes}：误差由 {before} 降到 {residual}。"),
        ("Use one range (0..1 or 0..255) and the same mean and deviation, in the order of the channels, on both sides.", "两侧使用相同的取值范围（0..1 或 0..255）以及相同的均值与标准差，并注意通道顺序。")),
    "flatten_order": CauseWords(
        ("Features flattened in another layout", "展平时的布局不同（NCHW/NHWC）"),
        ("Columns seen as ({first}, {second}) are swapped to ({second}, {first}): {before} becomes {residual}.", "将列视为 ({first}, {second}) 并交换为 ({second}, {first}) 后相等：误差由 {before} 降到 {residual}。"),
        ("Flatten from the same layout (NCHW or NHWC), or permute the columns of the dense layer when its weight is converted.", "从同一布局（NCHW 或 NHWC）展平，或在转换权重时重排全连接层的列。")),
    "rope_interleave": CauseWords(
        ("Rotary halves interleaved or not", "旋转位置编码的交错方式不同"),
        ("Inside each of {heads} heads of {head_size} rows, even and odd rows lie in two halves on one side: {before} becomes {residual}.", "{heads} 个头、每头 {head_size} 行，其中一侧把奇偶行放在前后两半：误差由 {before} 降到 {residual}。"),
        ("Permute the rows of the q and k projections (weights and biases, not v and o) to the layout of the rotary kernel, or use the kernel of the other layout.", "按旋转核的布局重排 q、k 投影（权重与偏置，不含 v、o）的行，或改用另一种布局的旋转核。")),
    "qkv_packing": CauseWords(
        ("Query, key and value packed in another order", "QKV 打包顺序不同"),
        ("{text}: {before} becomes {residual}.", "{text}：误差由 {before} 降到 {residual}。"),
        ("Split the packed tensor by its own rule (all q, all k, all v; or per head or group) and join it by that of the target.", "按源模型的规则拆分（整块 q、k、v，或按头、按组），再按目标的规则拼接。")),
    "grouped_heads": CauseWords(
        ("Grouped key/value heads expanded on one side", "分组 KV 头在一侧被展开"),
        ("{heads} heads of {block} rows come {times} times each on one side: residual {residual}.", "{heads} 个头、每头 {block} 行，在一侧各重复 {times} 次：残差 {residual}。"),
        ("Keep one copy per group, or repeat each head (not the whole block) as often as the target wants.", "每组只保留一份，或按目标的要求逐头重复（不是整块重复）。")),
    "gate_up_order": CauseWords(
        ("Gate and up halves in another order", "gate 与 up 的顺序不同"),
        ("{text}: {before} becomes {residual}.", "{text}：误差由 {before} 降到 {residual}。"),
        ("Join gate and up in the order, or interleaved, as the target's activation splits them.", "按目标激活函数拆分的方式（前后顺序或交错）拼接 gate 与 up。")),
    "lstm_gate_order": CauseWords(
        ("Gates of a recurrent layer in another order", "循环层的门顺序或偏置不同"),
        ("{text}: {before} becomes {residual}.", "{text}：误差由 {before} 降到 {residual}。"),
        ("Reorder the blocks when converting (torch: i, f, g, o; r, z, n), in weights and biases alike; where one side has one bias, it is the sum of the other's two.", "转换时重排各块（torch 为 i, f, g, o 与 r, z, n），权重与偏置一致；只有一个偏置的一侧等于另一侧两个之和。")),
    "low_precision_cast": CauseWords(
        ("Values rounded to a shorter format", "数值被舍入到低精度格式"),
        ("A share {held} of the {side} values fits {format} exactly, of the other side's {held_other}; rounding the other side as well, {before} becomes {residual}.", "{side} 侧 {held} 的数值恰好可用 {format} 表示，另一侧为 {held_other}；将另一侧同样舍入后误差由 {before} 变为 {residual}。"),
        ("Load and compute in the same dtype on both sides; look for autocast, amp levels and checkpoints saved in half precision.", "两侧以相同的 dtype 加载和计算；检查 autocast、amp 级别及以半精度保存的权重。")),
    "reduction_order": CauseWords(
        ("Another order of summation", "求和顺序不同"),
        ("A share {changed} of the values differs in its last bits with random signs (mean sign {balance}), {before} in all: rounding, no fault.", "{changed} 的数值在末位不同，正负随机（平均符号 {balance}），总误差 {before}：属于舍入，不是错误。"),
        ("Nothing to repair; fix the batch size and the kernels where equal bits are needed.", "无需修复；若要求逐位一致，请固定批大小与算子实现。")),
    "nondeterministic": CauseWords(
        ("A side differs from itself", "同一侧两次运行结果不同"),
        ("Run twice, one side differs from itself by {self_noise} here; the two sides differ by {before}.", "同一侧运行两次，此处与自身相差 {self_noise}；两侧相差 {before}。"),
        ("Switch on deterministic kernels, fix seeds and switch dropout off, then compare again.", "开启确定性算子、固定随机种子并关闭 dropout，然后重新比较。")),
    "wrong_layer_loaded": CauseWords(
        ("Values of another layer loaded", "加载了其他层的权重"),
        ("The {side} tensor holds what {other} holds on the other side (residual {residual}, own name {before}).", "{side} 侧的张量与另一侧的 {other} 相同（残差 {residual}，与同名张量相差 {before}）。"),
        ("Correct the name map: sort layer numbers as numbers (2 before 10), and look for patterns that match two names.", "修正名称映射：层号按数值排序（2 在 10 之前），并检查同时匹配两个名称的规则。")),
    "tensor_not_loaded": CauseWords(
        ("Tensor never loaded", "张量未被加载"),
        ("The {side} values are what an initialiser gives ({drawn}); correlation with the other side {correlation}, by chance up to {chance}.", "{side} 侧的数值来自初始化（{drawn}）；与另一侧的相关性为 {correlation}，偶然情况下可达 {chance}。"),
        ("Look for this name among the missing and unexpected keys: prefixes, renamed layers, strict=False.", "在缺失与多余的键中查找该名称：前缀、改名的层、strict=False。")),
    "tied_weights_broken": CauseWords(
        ("Tied weights on one side only", "只有一侧共享权重"),
        ("On the {tied} side it equals {other}, on the other it does not; tied there as well, {before} becomes {residual}.", "在{tied} 侧它与 {other} 相同，另一侧则不同；若同样共享，误差由 {before} 降到 {residual}。"),
        ("Tie the head to the embedding after loading, or save the head where it is separate.", "加载后将输出头与嵌入共享，或在不共享时单独保存输出头。")),
    "buffer_uninitialised": CauseWords(
        ("Buffer holds uninitialised memory", "缓冲区未初始化"),
        ("{odd} of {size} values on the {side} side are NaN, infinite, subnormal or huge (largest {largest}, other side {largest_other}).", "{side} 侧 {size} 个数值中有 {odd} 个为 NaN、无穷、次正规数或极大（最大 {largest}，另一侧 {largest_other}）。"),
        ("Compute the buffer again after the model is built on its device: it is not in the checkpoint (non-persistent, meta device).", "模型在设备上创建后重新计算该缓冲区：它不在检查点中（非持久化、meta 设备）。")),
    "vocab_padding": CauseWords(
        ("Vocabulary padded on one side", "一侧的词表被填充"),
        ("The first {rows} rows are equal (residual {residual}); {longer} has {padded_rows} rows, the others hold {filler}.", "前 {rows} 行相同（残差 {residual}）；{longer} 侧有 {padded_rows} 行，多出的行为 {filler}。"),
        ("Compare and convert the first {rows} rows; ignore the logits of the padded ones.", "只比较和转换前 {rows} 行；忽略填充行的 logits。")),
    "fp16_overflow": CauseWords(
        ("Overflow to infinity", "溢出为无穷"),
        ("{count} values are inf on the {side} side exactly where the other is beyond {limit} ({format}); smallest lost {smallest_lost}, largest kept {largest_kept}; the others differ by {residual}.", "{side} 侧有 {count} 个数值为 inf，正是另一侧超出 {limit}（{format}）之处；其中最小 {smallest_lost}，保留的最大 {largest_kept}；其余相差 {residual}。"),
        ("Compute this layer in float32 or bfloat16, or scale its input down.", "以 float32 或 bfloat16 计算该层，或缩小其输入。")),
    "saturation": CauseWords(
        ("Saturated at the format's limit", "在格式上限处饱和"),
        ("{count} values on the {side} side are exactly {limit} ({format}) where the other is beyond it; clipped as well, {before} becomes {residual}.", "{side} 侧有 {count} 个数值恰为 {limit}（{format}），另一侧超出该值；同样截断后误差由 {before} 降到 {residual}。"),
        ("Switch saturation off (INF/NAN mode) to see the overflow, then compute in a wider format.", "关闭饱和模式（使用 INF/NAN 模式）以暴露溢出，再改用更宽的格式计算。")),
    "underflow": CauseWords(
        ("Underflow to zero", "下溢为零"),
        ("{count} values ({share}) are zero on the {side} side, up to {largest_lost}, where {format} ends; the others differ by {residual}.", "{side} 侧有 {count} 个数值（{share}）为零，最大 {largest_lost}，正是 {format} 的下限；其余相差 {residual}。"),
        ("Raise the loss scale, or compute in bfloat16 or float32.", "提高 loss scale，或以 bfloat16 或 float32 计算。")),
    "nan_swallowed": CauseWords(
        ("NaN swallowed on one side", "NaN 在一侧被吞掉"),
        ("Where the other side has {count} NaN, the {side} side has {value}; the others differ by {residual}.", "另一侧为 NaN 的 {count} 处，{side} 侧为 {value}；其余相差 {residual}。"),
        ("Look for the first NaN before this operator: relu, clip and max hide it on the {side} side. If no input has one, the other side made it: 0/0, inf - inf, a root below 0.", "查找该算子之前首个 NaN：relu、clip、max 在 {side} 侧掩盖了它。若输入中没有 NaN，则是另一侧产生的：0/0、inf - inf、负数开方。")),
    "int_narrowing": CauseWords(
        ("Integers narrowed", "整数被收窄"),
        ("{changed} of {size} integers on the {side} side are the other's, {how}.", "{side} 侧 {size} 个整数中有 {changed} 个等于另一侧经过“{how}”的结果。"),
        ("Keep identifiers and indices in int64, and never pass them through a float.", "标识与索引保持 int64，不要经过浮点数。")),
    "recorder_inplace": CauseWords(
        ("Recorded value changed in place", "记录的值被原地修改"),
        ("The {side} values are {form} of the other's: {before} becomes {residual}. If what reads the value agrees, the recorder kept a reference that was overwritten; else an activation is missing.", "{side} 侧等于另一侧经过 {form}：误差由 {before} 降到 {residual}。若其后的使用者一致，则记录器保存了被覆盖的引用；否则缺少激活函数。"),
        ("Copy when recording, or switch inplace=True off.", "记录时复制，或关闭 inplace=True。")),
    "memory_corruption": CauseWords(
        ("A block of memory overwritten", "一段内存被覆盖"),
        ("{bytes} bytes from byte {offset_bytes} on differ ({content}); everything else is equal to the bit.", "从第 {offset_bytes} 字节起的 {bytes} 字节不同（{content}）；其余逐位相同。"),
        ("Run synchronously, one stream, and compare again: a block that is then equal was read or written too early.", "以同步、单流方式运行再比较：若该段恢复一致，说明读写过早。")),
    "initialiser_differs": CauseWords(
        ("Initialised differently", "初始化方式不同"),
        ("Left looks like {left}, right like {right}; neither was trained or loaded.", "左侧像是 {left}，右侧像是 {right}；两者都未训练或加载。"),
        ("Load one side's initial weights into the other before the first step.", "在第一步之前将一侧的初始权重加载到另一侧。")),
    "rng_differs": CauseWords(
        ("Drawn from other random numbers", "随机数不同"),
        ("Same distribution, no correlation ({correlation}, by chance up to {chance}).", "分布相同，但不相关（{correlation}，偶然情况下可达 {chance}）。"),
        ("Save the random tensor once and load it on both sides: seeds do not carry over between devices and frameworks.", "将随机张量保存一次并在两侧加载：随机种子在不同设备和框架间不通用。")),
    "data_order": CauseWords(
        ("Data in another order", "数据顺序或填充不同"),
        ("{what}: undone, {before} becomes {residual}.", "数据的顺序、增强或填充值不同（{what}）：还原后误差由 {before} 降到 {residual}。"),
        ("Switch shuffling and random augmentation off, or fix the sampler, padding value and token tails, so that both sides read the same batch.", "关闭打乱与随机增强，或固定采样器、填充值与尾部 token，使两侧读取同一批数据。")),
}
