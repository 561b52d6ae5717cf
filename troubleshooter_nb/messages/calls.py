"""Which calls of two runs belong together, which of their tensors, and what is between them."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    # Both sides are right and yet not the same thing: what compares them asks for this id.
    "defined_differently": ("defined differently: {what}", "定义不同：{what}"),
    "inner_crossentropy": ("torch records the gradient of the log-softmax, MindSpore that of the logits", "torch 记录的是 log-softmax 的梯度，MindSpore 记录的是 logits 的梯度"),
    "inner_linear": ("torch records [bias, input, weight transposed], or of more than two axes that of a node inside", "torch 记录 [bias, input, 转置的 weight]，超过两轴时记录的是内部节点的梯度"),
    "inner_addmm": ("torch records the gradients of a node inside", "torch 记录的是内部节点的梯度"),
    "inner_biasadd": ("MindSpore records [bias, input]", "MindSpore 记录 [bias, input]"),
    "inner_batchnorm": ("the two record the gradients of input, weight and bias in other orders", "两侧记录 input、weight、bias 梯度的顺序不同"),
    "other_gradients": ("the gradients of these operators are not the same", "这两个算子的梯度不是同一个量"),
    "fused_gradients": ("gradients of fused operators", "融合算子的梯度"),
    "turned": ("one side's operator takes it transposed", "其中一侧的算子以转置形式使用它"),
    "gradient": ("gradient", "梯度"),
    "gradient_turned": ("{name}, transposed", "{name}，已转置"),
    "other_shape": ("other shape", "形状不同"),
    # What stays alone in calls that belong together.
    "beside_fused": ("beside others that are the fused {call}", "与其他调用一起相当于融合的 {call}"),
    "inside_fused": ("inside the fused {call}", "在融合的 {call} 内部"),
    "fused_of": ("{call} does the work of {parts:&}", "{call} 完成 {parts:&} 的工作"),
    "work_of": ("this call does the work of {count} calls of the other side", "该调用完成另一侧 {count} 个调用的工作"),
    "null_here": ("null, and {call} has nothing in this place", "值为 null，而 {call} 在此位置没有内容"),
    "nothing_like_it": ("{call} has nothing like it", "{call} 中没有与之对应的内容"),
    # Why calls belong together.
    "follows": ("follows the given pair {left} / {right}", "随给定的配对 {left} / {right}"),
    "other_class": ("another class of layer at the same place: {left} / {right}", "同一位置上是另一类层：{left} / {right}"),
    "only_ones": ("the only ones left in their layer", "所在层中仅剩这一对"),
    "beside_decided": ("beside calls that values decide", "其相邻调用由数值决定"),
    "by_values": ("values decide between {count} equal candidates", "由数值在 {count} 个相同的候选中决定"),
    "by_values_barely": ("values decide between {count} equal candidates, though only just", "由数值在 {count} 个相同的候选中决定，但差距很小"),
    "visits_by_values": ("one side ran this more often; what it was given decides which of its calls it is", "一侧运行次数更多；由其输入的数值决定对应哪一次调用"),
    "outvalued": ("one of {many} equal calls against {few}; the values fit the others better", "{many} 个相同的调用对应 {few} 个，此为其一；其他调用的数值更吻合"),
    # Samples that a dump keeps of its tensors.
    "sample_alone": ("sample of a tensor that has no partner", "所属张量没有对应项的样本"),
    "no_such_part": ("the other side keeps no such part of this tensor", "另一侧没有保存该张量的这一部分"),
    "other_first_values": ("first values of tensors of two shapes are others", "两种形状的张量的前几个值不可比"),
    "first_of_transposed": ("the first values of a transposed tensor are other elements", "转置后张量的前几个值是不同的元素"),
    "other_part": ("the other side keeps another part of the tensor", "另一侧保存的是该张量的另一部分"),
    "no_values": ("the other side keeps no values of this tensor", "另一侧没有保存该张量的数值"),
    "random_rows": ("rows drawn at random: which of the tensor's they are is not recorded", "随机抽取的行：未记录是张量的哪些行"),
    "first_values": ("the first values of {count} tensors are entries of their own, to compare with the samples of the other side", "{count} 个张量的前几个值单独成项，用于与另一侧的样本比较"),
    "row_without_values": ("entry {row} has no values", "第 {row} 项没有数值"),
}
