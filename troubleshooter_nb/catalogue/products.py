"""Causes in products with weights."""

from troubleshooter_nb.catalogue.entry import Cause
from troubleshooter_nb.catalogue.proofs import leaves, recomputed

# fmt: off
CAUSES: dict[str, Cause] = {
    "bias_missing": Cause(("The bias is missing on one side", "有一侧缺少偏置"),
        proof=("The bias of the layer: left {left}, right {right}; that leaves {residual} of the "
            "difference of {before}.",
            "该层的偏置：左侧 {left}，右侧 {right}；由此差异由 {before} 降到 {residual}。"),
        repair=("Give the layer a bias (MindSpore: has_bias=True) and load it from the checkpoint.",
            "为该层启用偏置（MindSpore：has_bias=True），并从权重文件载入。"),
        lacks=("bias", "beta"),
        is_part_of="parameters"),
    "bias_added_per_rank": Cause(("The bias is added more than once", "偏置被重复相加"),
        proof=recomputed("the output holds the bias {left} times on the left and {right} times on "
            "the right", "输出含偏置的次数"),
        repair=("Add the bias after the all-reduce, or on one tensor-parallel rank only.",
            "在 all-reduce 之后再加偏置，或只在一个张量并行 rank 上加。")),
    "reduce_missing_or_double": Cause(
        ("A sum over ranks is missing or done twice", "跨卡求和缺失或重复"),
        proof=recomputed("the product runs over these features", "乘积所含特征"),
        repair=("Check the all-reduce behind this layer: it must run once, over all ranks.",
            "检查该层之后的 all-reduce：应对所有 rank 只执行一次。")),
    "tf32": Cause(("Products were computed in TF32 or HF32", "矩阵乘使用了 TF32/HF32"),
        proof=leaves("A recomputation with operands rounded as a matrix unit does gives the output "
            "of one side", "把操作数按矩阵单元的方式舍入后重算即得其中一侧的输出"),
        repair=("torch.backends.cuda.matmul.allow_tf32 = False and torch.backends.cudnn.allow_tf32 "
            "= False; on Ascend switch allow_hf32 off.",
            "设 torch.backends.cuda.matmul.allow_tf32 = False 与 torch.backends.cudnn.allow_tf32 = "
            "False；昇腾上关闭 allow_hf32。")),
}
