"""Causes in embeddings, positions and their rotary encoding."""

from troubleshooter_nb.catalogue.entry import Cause
from troubleshooter_nb.catalogue.proofs import leaves

# fmt: off
WORDS: dict[str, str] = {
    "kept": "保持", "halves": "前后两半", "interleaved": "交错", "forward": "正向",
    "backward": "反向",
}
CAUSES: dict[str, Cause] = {
    "embedding_scale": Cause(("The embedding is scaled on one side", "词嵌入的缩放不同"),
        proof=leaves("The rows of the table come out times {left} on the left and times {right} on "
            "the right", "嵌入表的行在输出中的倍数"),
        repair=("Multiply by the root of the hidden size on both sides, rounded to the same dtype.",
            "两侧都乘以隐藏维度的平方根，并舍入到同一类型。")),
    "padding_idx_row": Cause(
        ("The row of the padding id is treated differently", "padding_idx 行的处理不同"),
        proof=leaves("The row of the padding id is {left} on the left and {right} on the right",
            "填充编号对应的行"),
        repair=("Set padding_idx alike; MindSpore also trains that row, so zero its gradient.",
            "统一 padding_idx；MindSpore 会训练该行，请将其梯度置零。")),
    "position_offset": Cause(("Positions or ids are shifted", "位置或编号整体偏移"),
        proof=leaves("Recovered from each side's own arrays, the shift is {left} on the left and "
            "{right} on the right", "由两侧各自的数组得出的偏移"),
        repair=("Derive position ids from the attention mask on both sides (left padding), and "
            "count from the same number.",
            "两侧都由注意力掩码推导 position ids（左填充），并从同一个数开始计数。"),
        words={"per sample": "逐样本"}),
    "ids_shifted": Cause(("Ids or labels are shifted", "token 编号或标签被移位"),
        proof=leaves("The whole numbers are one another's: the shift is {left} on the left and "
            "{right} on the right", "两侧的整数只差一个移位"),
        repair=("Feed both sides from one tokenizer, with the same special tokens; of labels look "
            "for a loss that shifts them itself, so that they are shifted twice or not at all.",
            "两侧使用同一分词器与相同的特殊 token；若为标签，检查损失函数是否自行移位，"
            "以免移位两次或未移位。")),
    "position_low_precision": Cause(
        ("Rotary positions or frequencies were rounded", "位置或频率用了低精度"),
        proof=leaves("The angles were computed in {left} on the left and in {right} on the right",
            "角度的计算精度"),
        repair=("Compute positions, frequencies and their product in float32 and cast the cosines.",
            "位置、频率及其乘积用 float32 计算，最后再转换 cos/sin 的类型。"),
        words={"bfloat16 positions": "bfloat16 的位置", "bfloat16 frequencies": "bfloat16 的频率",
            "bfloat16 angles": "bfloat16 的角度", "float16 positions": "float16 的位置",
            "float16 frequencies": "float16 的频率", "float16 angles": "float16 的角度"}),
    "rope_theta": Cause(
        ("The rotary base or its scaling differs", "旋转位置编码的 theta 或缩放不同"),
        proof=leaves("From input and output of each side, the rotary encoding has {left} on the "
            "left and {right} on the right", "由两侧各自的输入输出得出旋转编码参数"),
        repair=("Take rope_theta, its scaling and the rotated dimensions from the model's "
            "configuration on both sides.", "两侧都按模型配置设置 rope_theta、缩放与旋转维数。")),
    "rope_kernel_fault": Cause(
        ("A rotary kernel does not only rotate", "旋转位置编码算子不保持范数"),
        proof=("A rotation keeps the length of every pair: left {left}, right {right}. The faulty "
            "side's difference is {before}.",
            "旋转应保持每对分量的长度：左侧 {left}，右侧 {right}。差异为 {before}。"),
        repair=("Replace the fused rotary kernel by the plain formula, and report the kernel.",
            "用普通公式替换融合的旋转算子，并上报该算子问题。"),
        words={"not kept": "未保持"}),
}
