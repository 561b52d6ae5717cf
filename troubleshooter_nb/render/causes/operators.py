"""Words of the causes that products, convolutions, attention and the like have."""

from __future__ import annotations

from troubleshooter_nb.render.causes.wording import CauseWords

_LEFT_RIGHT = "Recomputed in float64 from each side's own inputs"
_ZH = "分别用两侧自己的输入以 float64 重算"

# fmt: off
WORDS: dict[str, CauseWords] = {
    "bias_missing": CauseWords(
        ("The bias is missing on one side", "有一侧缺少偏置"),
        (f"{_LEFT_RIGHT}, the layer adds its bias: left {{left}}, right {{right}}; that leaves {{residual}} of the difference of {{before}}.", f"{_ZH}，该层是否加偏置：左侧 {{left}}，右侧 {{right}}；由此差异由 {{before}} 降到 {{residual}}。"),
        ("Give the layer a bias (MindSpore: has_bias=True) and load it from the checkpoint.", "为该层启用偏置（MindSpore：has_bias=True），并从权重文件载入。")),
    "bias_added_per_rank": CauseWords(
        ("The bias is added more than once", "偏置被重复相加"),
        (f"{_LEFT_RIGHT}, the output holds the bias {{left}} times on the left and {{right}} times on the right; that leaves {{residual}} of {{before}}.", f"{_ZH}，输出含偏置的次数：左侧 {{left}}，右侧 {{right}}；由此差异由 {{before}} 降到 {{residual}}。"),
        ("Add the bias after the all-reduce, or on one tensor-parallel rank only.", "在 all-reduce 之后再加偏置，或只在一个张量并行 rank 上加。")),
    "reduce_missing_or_double": CauseWords(
        ("A sum over ranks is missing or done twice", "跨卡求和缺失或重复"),
        (f"{_LEFT_RIGHT}, the product runs over these features: left {{left}}, right {{right}}; that leaves {{residual}} of {{before}}.", f"{_ZH}，乘积所含特征：左侧 {{left}}，右侧 {{right}}；由此差异由 {{before}} 降到 {{residual}}。"),
        ("Check the all-reduce behind this layer: it must run once, over all ranks.", "检查该层之后的 all-reduce：应对所有 rank 只执行一次。")),
    "pad_mode": CauseWords(
        ("The padding differs", "填充方式不同"),
        (f"{_LEFT_RIGHT}, the windows are padded by {{left}} on the left and by {{right}} on the right; that leaves {{residual}} of {{before}}.", f"{_ZH}，填充：左侧 {{left}}，右侧 {{right}}；由此差异由 {{before}} 降到 {{residual}}。"),
        ("Give both the same padding; in MindSpore a number needs pad_mode='pad', and the default is 'same'.", "让两侧填充一致；MindSpore 默认 pad_mode='same'，给出数值时须用 pad_mode='pad'。")),
    "same_padding_side": CauseWords(
        ("The odd cell of the padding is at the other end", "奇数填充放在了另一端"),
        (f"{_LEFT_RIGHT}, as much is padded, but left {{left}} and right {{right}}; that leaves {{residual}} of {{before}}.", f"{_ZH}，填充总量相同，但位置：左侧 {{left}}，右侧 {{right}}；由此差异由 {{before}} 降到 {{residual}}。"),
        ("Pad explicitly before the layer, with the odd cell where the reference has it, and let the layer itself pad nothing.", "在该层之前显式填充，奇数格放在参考一侧的位置，层本身不再填充。")),
    "pool_rounding": CauseWords(
        ("The pooling windows or their divisor differ", "池化窗口或除数规则不同"),
        (f"{_LEFT_RIGHT}, the pooling used {{left}} on the left and {{right}} on the right; that leaves {{residual}} of {{before}}.", f"{_ZH}，池化设置：左侧 {{left}}，右侧 {{right}}；由此差异由 {{before}} 降到 {{residual}}。"),
        ("Set kernel size, stride, ceil_mode and count_include_pad alike; left out, the stride is the kernel size in torch and 1 in MindSpore.", "统一 kernel_size、stride、ceil_mode、count_include_pad；不写 stride 时 torch 取核大小，MindSpore 取 1。")),
    "resize_convention": CauseWords(
        ("The resize looks at other places", "缩放的坐标约定不同"),
        (f"{_LEFT_RIGHT}, the resize is {{left}} on the left and {{right}} on the right; that leaves {{residual}} of {{before}}.", f"{_ZH}，缩放方式：左侧 {{left}}，右侧 {{right}}；由此差异由 {{before}} 降到 {{residual}}。"),
        ("Set mode, align_corners and antialias alike on both sides.", "统一两侧的 mode、align_corners 与 antialias。")),
    "rope_theta": CauseWords(
        ("The rotary base or its scaling differs", "旋转位置编码的 theta 或缩放不同"),
        ("From input and output of each side, the rotary encoding has {left} on the left and {right} on the right; that leaves {residual} of {before}.", "由两侧各自的输入输出得出旋转编码参数：左侧 {left}，右侧 {right}；由此差异由 {before} 降到 {residual}。"),
        ("Take rope_theta, its scaling and the rotated dimensions from the model's configuration on both sides.", "两侧都按模型配置设置 rope_theta、缩放与旋转维数。")),
    "rope_kernel_fault": CauseWords(
        ("A rotary kernel does not only rotate", "旋转位置编码算子不保持范数"),
        ("A rotation keeps the length of every pair: left {left}, right {right}. The faulty side's difference is {before}.", "旋转应保持每对分量的长度：左侧 {left}，右侧 {right}。差异为 {before}。"),
        ("Replace the fused rotary kernel by the plain formula, and report the kernel.", "用普通公式替换融合的旋转算子，并上报该算子问题。")),
    "position_low_precision": CauseWords(
        ("Rotary positions or frequencies were rounded", "位置或频率用了低精度"),
        ("The angles were computed in {left} on the left and in {right} on the right; that leaves {residual} of {before}.", "角度的计算精度：左侧 {left}，右侧 {right}；由此差异由 {before} 降到 {residual}。"),
        ("Compute positions, frequencies and their product in float32 and cast the cosines.", "位置、频率及其乘积用 float32 计算，最后再转换 cos/sin 的类型。")),
    "position_offset": CauseWords(
        ("Positions or ids are shifted", "位置或编号整体偏移"),
        ("Recovered from each side's own arrays, the shift is {left} on the left and {right} on the right; that leaves {residual} of {before}.", "由两侧各自的数组得出的偏移：左侧 {left}，右侧 {right}；由此差异由 {before} 降到 {residual}。"),
        ("Derive position ids from the attention mask on both sides (left padding), and count from the same number.", "两侧都由注意力掩码推导 position ids（左填充），并从同一个数开始计数。")),
    "gru_reset_order": CauseWords(
        ("The gates of the recurrent unit act in another order", "GRU 重置门的次序不同"),
        (f"{_LEFT_RIGHT}, step by step, the unit has {{left}} on the left and {{right}} on the right; that leaves {{residual}} of {{before}}.", f"{_ZH}（逐步），门的形式：左侧 {{left}}，右侧 {{right}}；由此差异由 {{before}} 降到 {{residual}}。"),
        ("torch and MindSpore reset after the product; in Keras set reset_after=True.", "torch 与 MindSpore 在乘积之后重置；Keras 请设 reset_after=True。")),
    "mask_value": CauseWords(
        ("Masked places hold another value", "掩码填充值不同"),
        ("Masked places, or rows without any key, hold {left} on the left and {right} on the right; elsewhere {residual} is left of {before}.", "被掩盖的位置（或全部被掩盖的行）：左侧 {left}，右侧 {right}；其余部分差异由 {before} 降到 {residual}。"),
        ("Mask with the same value on both sides, in the dtype of the scores, and keep padding rows out of the comparison.", "两侧使用相同的掩码值（与分数同类型），并且不比较填充行。")),
    "mask_shape": CauseWords(
        ("The mask is laid out differently", "掩码的形状或对齐不同"),
        (f"{_LEFT_RIGHT}, the mask is {{left}} on the left and {{right}} on the right; that leaves {{residual}} of {{before}}.", f"{_ZH}，掩码：左侧 {{left}}，右侧 {{right}}；由此差异由 {{before}} 降到 {{residual}}。"),
        ("Give the fused attention a mask of its documented shape, and say which corner a causal mask starts from when queries and keys are not as many.", "按融合注意力文档给出掩码形状；查询与键数目不等时明确因果掩码从哪个角开始。")),
    "mask_missing": CauseWords(
        ("A mask is missing on one side", "有一侧缺少掩码"),
        (f"{_LEFT_RIGHT}, attention is masked: left {{left}}, right {{right}}; that leaves {{residual}} of {{before}}.", f"{_ZH}，注意力掩码：左侧 {{left}}，右侧 {{right}}；由此差异由 {{before}} 降到 {{residual}}。"),
        ("Pass the causal or padding mask on both sides.", "两侧都传入因果掩码或填充掩码。")),
    "attention_scale": CauseWords(
        ("Scores are scaled differently", "注意力分数的缩放不同"),
        (f"{_LEFT_RIGHT}, the factor is {{left}} on the left and {{right}} on the right; that leaves {{residual}} of {{before}}.", f"{_ZH}，缩放因子：左侧 {{left}}，右侧 {{right}}；由此差异由 {{before}} 降到 {{residual}}。"),
        ("Divide scores by the root of the head size once, and set the soft cap alike.", "分数只除一次头维度的平方根，并统一 soft cap。")),
    "tf32": CauseWords(
        ("Products were computed in TF32 or HF32", "矩阵乘使用了 TF32/HF32"),
        ("A recomputation with operands rounded as a matrix unit does gives the output of one side: left {left}, right {right}; that leaves {residual} of {before}.", "把操作数按矩阵单元的方式舍入后重算即得其中一侧的输出：左侧 {left}，右侧 {right}；由此差异由 {before} 降到 {residual}。"),
        ("torch.backends.cuda.matmul.allow_tf32 = False and torch.backends.cudnn.allow_tf32 = False; on Ascend switch allow_hf32 off.", "设 torch.backends.cuda.matmul.allow_tf32 = False 与 torch.backends.cudnn.allow_tf32 = False；昇腾上关闭 allow_hf32。")),
    "residual_order": CauseWords(
        ("The residual is taken at another place or left out", "残差取自另一处，或有一侧没有残差"),
        ("What is added round the layers is the {left} on the left and the {right} on the right; that leaves {residual} of {before}.", "残差相加的张量：左侧为 {left}，右侧为 {right}；由此差异由 {before} 降到 {residual}。"),
        ("If one side only copies, add its residual. Else add the tensor in front of the normalisation on both sides, or the one behind it on both (apply_residual_connection_post_layernorm).", "若一侧只是复制，请补上残差相加；否则两侧都取归一化之前（或都取之后）的张量作残差（apply_residual_connection_post_layernorm）。")),
    "embedding_scale": CauseWords(
        ("The embedding is scaled on one side", "词嵌入的缩放不同"),
        ("The rows of the table come out times {left} on the left and times {right} on the right; that leaves {residual} of {before}.", "嵌入表的行在输出中的倍数：左侧 {left}，右侧 {right}；由此差异由 {before} 降到 {residual}。"),
        ("Multiply by the root of the hidden size on both sides, rounded to the same dtype.", "两侧都乘以隐藏维度的平方根，并舍入到同一类型。")),
    "padding_idx_row": CauseWords(
        ("The row of the padding id is treated differently", "padding_idx 行的处理不同"),
        ("The row of the padding id is {left} on the left and {right} on the right; that leaves {residual} of {before}.", "填充编号对应的行：左侧 {left}，右侧 {right}；由此差异由 {before} 降到 {residual}。"),
        ("Set padding_idx alike; MindSpore also trains that row, so zero its gradient.", "统一 padding_idx；MindSpore 会训练该行，请将其梯度置零。")),
    "kv_cache_path": CauseWords(
        ("Decoding from the cache goes wrong", "KV 缓存解码路径有误"),
        ("{left}, {right}: the error jumps from {residual} to {before} with the first token that reads the cache.", "{left}，{right}：从首个读取缓存的 token 起误差由 {residual} 跃升到 {before}。"),
        ("Check the position, the length and the dtype with which keys and values are cached.", "检查写入缓存时的位置、长度与数据类型。")),
}
