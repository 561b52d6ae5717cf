"""What the tables say of layers whose defaults or tensors differ between the frameworks.

The English texts are those of `tables/layer_defaults.csv` and `tables/layer_parameters.csv`.
"""

# fmt: off

MESSAGES: dict[str, tuple[str, str]] = {
    "evaluates_at_first": ("A new MindSpore layer is in evaluation mode until set_train(): no batch statistics, no dropout. Compare both sides in the same mode", "MindSpore 新建的层在 set_train() 之前处于推理模式：不用批次统计量，不做 dropout。请在同一模式下比较两侧"),
    "same_for_mint": ("Same for mint layers", "mint 的层也是如此"),
    "same_size_padding": ("Output as large as the input instead of kernel - 1 smaller; padding of a number needs pad_mode='pad' and raises ValueError without", "输出与输入同样大，而不是小 kernel - 1；给出 padding 数值时需要 pad_mode='pad'，否则抛出 ValueError"),
    "no_bias_left_over": ("No bias parameter in MindSpore unless has_bias=True; the bias of the checkpoint is left over", "MindSpore 中除非 has_bias=True，否则没有 bias 参数；权重文件中的 bias 无处可去"),
    "stride_times_input": ("Output is stride * input instead of (input - 1) * stride + kernel", "输出为 stride * input，而不是 (input - 1) * stride + kernel"),
    "no_bias": ("No bias parameter unless has_bias=True", "除非 has_bias=True，否则没有 bias 参数"),
    "extra_axis": ("Kernel stored with an extra axis", "卷积核存储时多一个轴"),
    "pad_layer": ("reflect, replicate and circular padding need a separate pad layer", "reflect、replicate 和 circular 填充需要单独的填充层"),
    "pool_stride": ("Left out, torch strides by the kernel size and MindSpore by 1: much larger output", "省略时，torch 的步幅为核大小，MindSpore 为 1：输出大得多"),
    "padding_needs_mode": ("A non-zero padding raises ValueError unless pad_mode='pad'", "padding 非零时，除非 pad_mode='pad'，否则抛出 ValueError"),
    "momentum_turned": ("Defaults do the same (weight of the new against weight of the old statistics); an explicit value must become 1 - value", "默认值的效果相同（一方为新统计量的权重，另一方为旧统计量的权重）；显式给出的值须改为 1 - value"),
    "running_wrong": ("Running statistics go wrong although the training output agrees", "训练输出一致，但滑动统计量出错"),
    "batch_statistics": ("None follows the training flag, True always uses the batch, False never", "None 随训练标志而定，True 总用批次统计量，False 从不用"),
    "counter_left": ("One int64 entry per layer of a torch checkpoint has no counterpart", "torch 权重文件中每层有一个 int64 条目没有对应"),
    "as_batch_norm": ("As BatchNorm", "同 BatchNorm"),
    "small_variance": ("Differs visibly for rows of small variance (variance 1e-6: outputs differ by more than 1)", "方差小的行差异明显（方差 1e-6 时输出相差超过 1）"),
    "always_affine": ("MindSpore always has gamma and beta; torch with elementwise_affine=False or bias=False has fewer tensors", "MindSpore 总有 gamma 和 beta；torch 在 elementwise_affine=False 或 bias=False 时张量更少"),
    "affine_by_default": ("MindSpore has gamma and beta by default, torch has no parameters (no CPU kernel: looked up, parameters counted)", "MindSpore 默认有 gamma 和 beta，torch 没有参数（无 CPU 算子：查文档并清点参数）"),
    "keep_or_drop": ("Dropout(0.9) drops 90 % in torch and 10 % in MindSpore; p=0.9 by keyword agrees", "Dropout(0.9) 在 torch 中丢弃 90 %，在 MindSpore 中丢弃 10 %；用关键字 p=0.9 则一致"),
    "same_rate": ("Default rate is the same through keep_prob=0.5", "因 keep_prob=0.5，默认比例相同"),
    "tanh_form": ("MindSpore uses the tanh form; about 3e-4 absolute difference, hidden from a cosine threshold", "MindSpore 使用 tanh 近似；绝对误差约 3e-4，余弦阈值察觉不到"),
    "negative_half": ("Negative half twenty times larger", "负半轴大二十倍"),
    "random_evaluation": ("Evaluation mode is random in MindSpore", "MindSpore 在推理模式下带随机性"),
    "hundred_times_smaller": ("Training from scratch starts a hundred times smaller", "从头训练时初始值小一百倍"),
    "zero_row_trained": ("Row is zero after construction on both sides, but MindSpore trains it", "两侧构造后该行均为零，但 MindSpore 会训练它"),
    "shifted": ("Untrained outputs are shifted", "未训练时输出有偏移"),
    "tensor_loss": ("Tensor instead of a number; summed by grad it is larger by the number of elements", "得到张量而不是一个数；求梯度时相加，放大元素个数倍"),
    "loss_per_sample": ("One loss per sample; summed gradient is batch size times larger", "每个样本一个损失；梯度相加后放大批次大小倍"),
    "nearest_scale": ("Nearest with a scale factor raises ValueError in MindSpore unless recompute_scale_factor=True", "MindSpore 中按比例的 nearest 除非 recompute_scale_factor=True，否则抛出 ValueError"),
    "unfold": ("nn.Unfold takes 4-element lists and gives (N, C*k*k, H, W), torch (N, C*k*k, L); no CPU kernel (looked up only)", "nn.Unfold 接受 4 元素列表，输出 (N, C*k*k, H, W)，torch 输出 (N, C*k*k, L)；无 CPU 算子（仅查文档）"),
    "no_decay": ("No decay unless given", "不给出则没有衰减"),
    "next_row": ("See the next row", "见下一条"),
    "first_steps": ("First steps about three times as long even with equal eps and decay; use the AdamW of mindspore.experimental.optim (agrees, run)", "即使 eps 和衰减相同，最初几步也约长三倍；请用 mindspore.experimental.optim 的 AdamW（实测一致）"),
    "outside_root": ("Added outside the root in torch", "torch 在根号外相加"),
    "no_layer": ("no MindSpore layer", "MindSpore 没有此层"),
    "own_cell": ("no MindSpore layer; user-written cell decides the name", "MindSpore 没有此层；名称由用户自写的 Cell 决定"),
    "no_proj_size": ("MindSpore nn.LSTM has no proj_size", "MindSpore 的 nn.LSTM 没有 proj_size"),
    "fold_first": ("no MindSpore counterpart; fold to a plain weight before mapping; peer: keeps the torch names", "MindSpore 没有对应；映射前请合并为普通权重；同类工具保留 torch 名称"),
    "fold_first_too": ("as above; peer additionally emits a value-map entry for the absent weight of a Conv1d", "同上；同类工具还会为 Conv1d 并不存在的权重写出取值函数"),
}
