"""Causes in gradients, and in what steps make of parameters and running statistics."""

from troubleshooter_nb.catalogue.entry import Cause

# fmt: off
_TIMES = (
    "{tensors} of {of} gradients are {factor:.7g} times those on the right: {name}. Without it a "
    "relative error of {residual:.1e} is left of {before:.1e}.",
    "{of} 个梯度中有 {tensors} 个是右侧的 {factor:.7g} 倍：{name}。消去后相对误差由 "
    "{before:.1e} 降至 {residual:.1e}。",
)
# Settings of an optimizer: updates that were copied are not its own.
_BY_THE_OPTIMIZER = (
    "weight_decay_coupling", "weight_decay_selection", "adam_epsilon_place", "momentum_convention",
    "schedule_off_by_one", "learning_rate", "optimizer_start_state", "optimizer_state_lost",
)
WORDS: dict[str, str] = {
    "recorded": "已记录", "not recorded": "未记录", "no bias correction": "无偏差修正",
    "decoupled": "解耦", "in the gradient": "加到梯度", "before_correction": "修正之前",
    "inside_before": "根号内、修正之前", "no number that is known": "不是已知的数",
    "loss scale": "损失缩放", "accumulation steps": "累积步数", "world size": "进程数",
    "token count": "token 数", "batch size": "批大小", "sequence length": "序列长度",
}
CAUSES: dict[str, Cause] = {
    "bn_momentum_convention": Cause(
        ("Running statistics move at different rates (BatchNorm momentum)",
         "滑动统计量的更新速率不同（BatchNorm momentum）"),
        proof=("Mean and variance of {tensors} running statistics moved by {ratio:.4g} times as "
            "much on the left; divided by that, a relative error of {residual:.1e} is left of "
            "{before:.1e}. Weight of the new batch: {left_momentum:.4g} left, {right_momentum:.4g} "
            "right.",
            "{tensors} 个滑动统计量在左侧的变化是右侧的 {ratio:.4g} 倍；消去该倍数后，相对误差由 "
            "{before:.1e} 降至 {residual:.1e}。新批次的权重：左 {left_momentum:.4g}，右 "
            "{right_momentum:.4g}。"),
        repair=("momentum is the weight of the new batch in torch and mint.nn, and of the old "
            "statistics in mindspore.nn: give one side 1 - momentum.",
            "torch 与 mint.nn 的 momentum 是新批次的权重，mindspore.nn 的是旧统计量的权重："
            "其中一侧应改为 1 - momentum。")),
    "bn_start_state": Cause(
        ("Running statistics start at another state (BatchNorm)",
         "滑动统计量的初始状态不同（BatchNorm）"),
        proof=("Recorded behind the update. Left: {left}. Right: {right}. That leaves "
            "{residual:.1e} of {before:.1e}.",
            "在更新之后采集。左：{left}。右：{right}。考虑后误差由 {before:.1e} 降至 "
            "{residual:.1e}。"),
        repair=("Load running_mean and running_var with the weights on both sides, and record "
            "buffers before the call.",
            "两侧都随权重一起加载 running_mean 与 running_var，并在调用之前采集缓冲区。")),
    "bn_momentum_zero": Cause(
        ("Running statistics never move on one side", "一侧的滑动统计量从不更新"),
        proof=("{tensors} running statistics on the {side} side are bit for bit what they were at "
            "first, while those of the other side moved.",
            "{side} 侧的 {tensors} 个滑动统计量与初始值逐位相同，另一侧则有变化。"),
        repair=("Give BatchNorm a momentum that uses new batches, and check that the layer is in "
            "training mode and not frozen.",
            "为 BatchNorm 设置会采用新批次的 momentum，并确认该层处于训练模式且未被冻结。")),
    "bn_variance_bias": Cause(
        ("Running variance with n on one side and n - 1 on the other",
         "滑动方差一侧除以 n，另一侧除以 n - 1"),
        proof=("In {layer} the batch variances differ by the factor {ratio:.8g}, n / (n - 1) with "
            "n = {n}, while the means agree; with it a relative error of {residual:.1e} is left of "
            "{before:.1e}. The {unbiased} side divides by n - 1.",
            "{layer} 中批次方差相差 {ratio:.8g} 倍，即 n = {n} 时的 n / (n - 1)，而均值一致；"
            "考虑后相对误差由 {before:.1e} 降至 {residual:.1e}。{unbiased} 侧除以 n - 1。"),
        repair=("Multiply the batch variance by n / (n - 1) on the other side before it is "
            "averaged; with large batches it may be left alone.",
            "在另一侧的批次方差进入滑动平均前乘以 n / (n - 1)；批次很大时可忽略。")),
    "loss_reduction": Cause(
        ("All gradients differ by the scale of the loss", "所有梯度仅相差损失的缩放"),
        proof=("{tensors} of {of} gradients are {factor:.7g} times those on the right; without "
            "this factor a relative error of {residual:.1e} is left of {before:.1e}. It is {name}.",
            "{of} 个梯度中有 {tensors} 个是右侧的 {factor:.7g} 倍；消去该倍数后，相对误差由 "
            "{before:.1e} 降至 {residual:.1e}。该倍数为：{name}。"),
        repair=("Compare how the loss is reduced: mean against sum, over samples or tokens, "
            "divided by the accumulation steps or not.",
            "检查损失的归约方式：取均值还是求和、按样本还是按 token、是否除以梯度累积步数。")),
    "loss_weights": Cause(
        ("Parts of a batch are weighted by tokens on one side and alike on the other",
         "一侧按 token 数对批次各部分加权，另一侧权重相同"),
        proof=("The gradients of {parts} ranks or micro batches differ by a factor each, and these "
            "are 1 in the mean. Left: {left}. Right: {right}. That leaves {residual:.1e} of "
            "{before:.1e}.",
            "{parts} 个 rank 或微批次的梯度各相差一个倍数，其均值为 1。左：{left}。右：{right}。"
            "考虑后误差由 {before:.1e} 降至 {residual:.1e}。"),
        repair=("Divide the sum of the losses by the number of tokens of all ranks and micro "
            "batches on both sides, instead of averaging means over unequal parts.",
            "两侧都以所有 rank 与微批次的 token 总数去除损失之和，"
            "而不是对不等长部分的均值再取平均。")),
    "world_size_scale": Cause(
        ("Gradients are summed over processes on one side and averaged on the other",
         "一侧的梯度在进程间求和，另一侧取平均"),
        proof=_TIMES,
        repair=("Divide by the number of processes exactly once: gradients_mean=True in MindSpore, "
            "DistributedDataParallel does so by itself.",
            "只除以一次进程数：MindSpore 使用 gradients_mean=True，DistributedDataParallel "
            "会自动完成。")),
    "loss_scale_left": Cause(
        ("The loss scale is still in the gradients", "梯度中仍含损失缩放系数"),
        proof=_TIMES,
        repair=("Unscale the gradients before they are clipped, recorded or given to the "
            "optimizer.", "在裁剪、记录或交给优化器之前先去除缩放（unscale）。")),
    "gradient_clipping": Cause(
        ("Gradients are clipped in different ways", "梯度裁剪的方式不同"),
        proof=("{tensors} of {of} gradients differ by the factor {factor:.7g}, and the norm on the "
            "{clipped} side is {norm:.7g}, the limit {limit:g}: {name}.",
            "{of} 个梯度中有 {tensors} 个相差 {factor:.7g} 倍，{clipped} 侧的范数为 {norm:.7g}，"
            "即上限 {limit:g}：{name}。"),
        repair=("Clip on both sides with the same limit, by the norm of all gradients together, or "
            "record the gradients before clipping on both.",
            "两侧以相同上限、按全部梯度的总范数裁剪，或都在裁剪前记录梯度。"),
        is_part_of="update",
        words={"global": "全局", "each": "逐个", "element": "逐元素", "rank": "各 rank"}),
    "weight_decay_coupling": Cause(
        ("Weight decay is applied in different ways or amounts", "权重衰减的方式或大小不同"),
        proof=("Left: {left}. Right: {right}. With its own decay a relative error of "
            "{residual:.1e} is left of each side, with the other's {rival:.1e}.",
            "左：{left}。右：{right}。各侧采用自身的衰减时，剩余相对误差为 {residual:.1e}；"
            "换成另一侧的则为 {rival:.1e}。"),
        repair=("Adam(weight_decay) adds the decay to the gradient, AdamW and AdamWeightDecay "
            "subtract it from the values: use the same kind and the same number on both sides.",
            "Adam(weight_decay) 将衰减加到梯度，AdamW 与 AdamWeightDecay 直接从权重中减去："
            "两侧应使用同一种方式与同一数值。"),
        is_part_of="update",
        words={"coupling": "衰减方式", "value": "数值", "gradients": "梯度"}),
    "weight_decay_selection": Cause(
        ("Biases and norm weights are decayed on one side only",
         "仅一侧对偏置与归一化参数做权重衰减"),
        proof=("Only one-dimensional parameters differ by a multiple of their values. Left: "
            "{left}. Right: {right}. With it a relative error of {residual:.1e} is left, without "
            "it {rival:.1e}.",
            "仅一维参数相差其数值的某个倍数。左：{left}。右：{right}。考虑后相对误差为 "
            "{residual:.1e}，否则为 {rival:.1e}。"),
        repair=("Use the same parameter groups on both sides.", "两侧使用相同的参数分组。"),
        is_part_of="update",
        words={"selection": "参数选择"}),
    "adam_epsilon_place": Cause(
        ("Adam's epsilon or bias correction differs", "Adam 的 epsilon 或偏差修正不同"),
        proof=("Left: {left_rule}. Right: {right_rule}. Each leaves a relative error of "
            "{residual:.1e} of its updates; with the other side's setting it is {rival:.1e}.",
            "左：{left_rule}。右：{right_rule}。各自对更新的相对误差为 {residual:.1e}；"
            "换成另一侧的设置则为 {rival:.1e}。"),
        repair=("Use optimizers that add the same eps at the same place and correct both averages "
            "alike; mindspore.experimental.optim follows torch.",
            "使用在相同位置加相同 eps、且偏差修正一致的优化器；mindspore.experimental.optim 与 "
            "torch 一致。"),
        is_part_of="update",
        words={"correction": "偏差修正"}),
    "momentum_convention": Cause(
        ("Momentum, dampening, Nesterov or betas differ", "动量、阻尼、Nesterov 或 betas 不同"),
        proof=("Left: {left}. Right: {right}. That leaves a relative error of {residual:.1e} of "
            "each side's updates; with the other side's setting it is {rival:.1e}.",
            "左：{left}。右：{right}。由此各侧更新的相对误差为 {residual:.1e}；"
            "换成另一侧的设置则为 {rival:.1e}。"),
        repair=("Give both optimizers the same momentum, dampening, nesterov and betas; check "
            "which argument is the momentum, and what the default is.",
            "为两侧优化器设置相同的 momentum、dampening、nesterov 与 betas；"
            "确认各参数含义及默认值。"),
        is_part_of="update"),
    "schedule_off_by_one": Cause(
        ("The learning rate schedule is one step late", "学习率调度晚了一步"),
        proof=("The {late} side uses at each step the rate that the other used one step before; "
            "its updates then agree to {residual:.1e}. First rate zero: {first_zero}.",
            "{late} 侧每一步使用另一侧上一步的学习率；考虑后更新的误差为 {residual:.1e}。"
            "首个学习率为零：{first_zero}。"),
        repair=("Step the scheduler at the same place relative to optimizer.step() on both sides, "
            "and begin the warm-up at step 1 rather than 0.",
            "两侧在 optimizer.step() 的同一位置推进调度器；预热应从第 1 步而非第 0 步开始。"),
        is_part_of="update",
        words={"schedule": "调度"}),
    "learning_rate": Cause(("The learning rates differ", "学习率不同"),
        proof=("All updates differ by the ratio of the rates, {ratio:.6g}: it leaves "
            "{residual:.1e} of {before:.1e}. Left {left_rate:.4g}, right {right_rate:.4g}; "
            "gradients: {gradients}.",
            "所有更新仅相差学习率之比 {ratio:.6g}：误差由 {before:.1e} 降至 {residual:.1e}。左 "
            "{left_rate:.4g}，右 {right_rate:.4g}；梯度：{gradients}。"),
        repair=("Give both optimizers the rate explicitly: defaults differ between the frameworks.",
            "为两侧优化器显式设置学习率：两框架默认值不同。"),
        is_part_of="update",
        words={"ratio": "比例"}),
    "optimizer_start_state": Cause(
        ("The optimizer's state starts at another value", "优化器状态的初始值不同"),
        proof=("Left: {left_rule}. Right: {right_rule}. With its own start each side is explained "
            "to {residual:.1e}, with the other's to {rival:.1e}.",
            "左：{left_rule}。右：{right_rule}。采用自身初始状态时误差为 {residual:.1e}，"
            "换成另一侧的则为 {rival:.1e}。"),
        repair=("Start the average of squares at the same value on both sides; the difference "
            "fades with the steps.", "两侧的平方平均应从相同的值开始；该差异会随步数减弱。"),
        is_part_of="update",
        words={"start": "初始值", "squares start at 1": "平方平均从 1 开始"}),
    "optimizer_state_lost": Cause(
        ("One side's optimizer lost its state on the way (resume)",
         "一侧的优化器中途丢失了状态（续训）"),
        proof=("Left: {left}. Right: {right}. With that each side's updates are explained to "
            "{residual:.1e}, without it to {rival:.1e}.",
            "左：{left}。右：{right}。考虑后各侧更新的误差为 {residual:.1e}，否则为 {rival:.1e}。"),
        repair=("Save optimizer.state_dict() with the weights and load it before the first step "
            "after a resume; make no new optimizer in between.",
            "将 optimizer.state_dict() 与权重一并保存，并在续训的第一步之前加载；"
            "中途不要新建优化器。"),
        is_part_of="update",
        words={"restart": "状态重置"}),
    "ema_weights": Cause(
        ("One side holds averaged weights (EMA), the other the raw ones",
         "一侧是滑动平均权重（EMA），另一侧是原始权重"),
        proof=("At every step the {side} side moves by one share of the way to the other's weights "
            "(decay {decay:.6g}); that leaves {residual:.1e} of its steps, a smaller rate "
            "{rival:.1e}.",
            "{side} 侧每一步都向另一侧的权重移动固定比例（衰减 {decay:.6g}）；剩余误差 "
            "{residual:.1e}，若解释为较小学习率则为 {rival:.1e}。"),
        repair=("Load the raw weights, or the averaged ones, on both sides.",
            "两侧都加载原始权重，或都加载滑动平均权重。"),
        is_part_of="update",
        excludes=_BY_THE_OPTIMIZER,
        proved_where="readers agree",
        words={"average": "滑动平均"}),
    "stale_weights": Cause(
        ("One side works with weights of an earlier step", "一侧使用的是更早步骤的权重"),
        proof=("The {side} side's weights equal those the other had up to {most} steps before "
            "({residual:.1e}); never refreshed: {never}.",
            "{side} 侧的权重等于另一侧最多 {most} 步之前的权重（{residual:.1e}）；从未刷新："
            "{never}。"),
        repair=("Refresh the second engine's weights after every optimizer step, before they are "
            "used.", "在每次优化器更新之后、使用之前，刷新第二个引擎的权重。"),
        is_part_of="update",
        excludes=_BY_THE_OPTIMIZER,
        proved_where="readers agree",
        words={"stale": "旧权重"}),
    "low_precision_master": Cause(
        ("Updates are lost in weights kept in low precision", "低精度主权重使更新丢失"),
        proof=("The {side} side holds {format} numbers; {left_unchanged:.0%} of the left elements "
            "and {right_unchanged:.0%} of the right ones did not change. The other side's update, "
            "rounded to {format}, reproduces it: {residual:.1e} is left of {before:.1e}.",
            "{side} 侧的数值为 {format}；左侧 {left_unchanged:.0%}、右侧 {right_unchanged:.0%} "
            "的元素未变。将另一侧的更新舍入到 {format} 即可重现：误差由 {before:.1e} 降至 "
            "{residual:.1e}。"),
        repair=("Keep a float32 copy of the weights for the optimizer and cast it for the network.",
            "优化器应保留 float32 主权重，仅在网络计算时转换为低精度。"),
        is_part_of="update",
        excludes=_BY_THE_OPTIMIZER,
        words={"rounding": "舍入"}),
    "gradient_missing": Cause(
        ("A gradient that only one side has", "只有一侧有的梯度"),
        proof=("Only the {side} side has it, and the other side has nothing left over that "
            "it could belong to.",
            "只有{side}侧有它，而另一侧没有剩余的条目可与之对应。"),
        repair=("Look for requires_grad=False, detach() or stop_gradient on the other side, and "
            "for a parameter that its loss does not depend on.",
            "检查另一侧的 requires_grad=False、detach() 或 stop_gradient，以及损失不依赖的参数。"),
        at_most=0.8),
    "frozen_part": Cause(
        ("A part of the network is not trained on one side", "网络的一部分在一侧未被训练"),
        proof=("{part}: {tensors} of {of} tensors ({elements} elements) have no gradient or do not "
            "move on the {side} side, all others do.",
            "{part}：{of} 个张量中的 {tensors} 个（{elements} 个元素）在 {side} "
            "侧没有梯度或未更新，其余均有。"),
        repair=("Look for requires_grad=False, detach() or stop_gradient, and for parameters that "
            "were not given to the optimizer.",
            "检查 requires_grad=False、detach() 或 stop_gradient，以及未传入优化器的参数。"),
        is_part_of="update"),
}
