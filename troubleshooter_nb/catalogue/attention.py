"""Causes in softmax and attention."""

from troubleshooter_nb.catalogue.entry import Cause
from troubleshooter_nb.catalogue.proofs import alike, recomputed

# fmt: off
WORDS: dict[str, str] = {
    "nothing": "无", "used": "已使用", "as given": "与给定一致", "as the others": "与其他相同",
    "true is kept": "True 为保留", "true is dropped": "True 为遮盖", "causal": "因果",
    "causal, and more for the last token": "因果，且对最后一个 token 遮盖更多", "written": "写入",
    "added": "相加", "found": "由数值得出", "neighbours share one": "相邻的头共用一个",
    "taken in turn": "轮流取用", "without heads": "不分头", "rows first": "位置在前",
    "dropout": "有 dropout", "no dropout": "无 dropout",
    "items first": "样本在前", "heads first": "头在前",
}
CAUSES: dict[str, Cause] = {
    "softmax_axis": Cause(("Softmax along another axis", "Softmax 的轴不同"),
        proof=alike("The output is the softmax of the side's own input along axis {left} on the "
            "left, {right} on the right",
            "左侧输出是其输入沿轴 {left} 的 softmax，右侧为轴 {right}", "along one axis",
            "统一轴后"),
        repair=("Give dim (PyTorch) and axis (MindSpore); left out, PyTorch takes axis 0 or 1 by "
            "the number of axes and MindSpore the last.",
            "明确给出 dim（PyTorch）与 axis（MindSpore）；省略时 PyTorch 按维数取轴 0 或 1，"
            "MindSpore 取最后一轴。")),
    "softmax_precision_path": Cause(
        ("Softmax passes through a narrower format on one side", "一侧的 softmax 经过更窄的格式"),
        proof=alike("Recomputed with the rounding of each path", "按各路径的舍入重算",
            "by one path", "统一路径后"),
        repair=("Compute the softmax in float32 on both sides and cast its result: softmax(x, "
            "dtype=torch.float32).to(x.dtype).",
            "两侧均以 float32 计算 softmax，再转换结果：softmax(x, dtype=torch.float32).to(x.dtype"
            ")。"),
        words={"full": "全精度", "input": "输入", "output": "输出",
            "input and output": "输入与输出"}),
    "attention_scale": Cause(("Scores are scaled differently", "注意力分数的缩放不同"),
        proof=recomputed("the factor is {left} on the left and {right} on the right", "缩放因子"),
        repair=("Divide scores by the root of the head size once, and set the soft cap alike.",
            "分数只除一次头维度的平方根，并统一 soft cap。")),
    "softmax_scale_twice": Cause(
        ("The attention scale is applied twice", "注意力缩放被应用了两次"),
        proof=recomputed("the softmax multiplies scores by {left} on the left and by {right} on "
            "the right, so that one side's scale acts twice",
            "softmax 对分数的缩放：左侧 {left}，右侧 {right}，即其中一侧的缩放应用了两次"),
        repair=("Scale once: multiply scores by 1/sqrt(head size), or pass the scale to the "
            "softmax or the fused attention, not both.",
            "只缩放一次：要么将分数乘以 1/sqrt(头维度)，要么把缩放交给 softmax 或融合注意力，"
            "不要两者都做。")),
    "mask_missing": Cause(("A mask is missing on one side", "有一侧缺少掩码"),
        proof=recomputed("attention is masked", "注意力掩码"),
        repair=("Pass the causal or padding mask on both sides.",
            "两侧都传入因果掩码或填充掩码。")),
    "attention_window": Cause(
        ("Attention looks back over another number of keys", "注意力窗口的长度不同"),
        proof=recomputed("a query sees this many keys up to its own",
            "每个查询到自身为止可见的键数"),
        repair=("Set sliding_window alike, and check whether it counts the token itself; kernels "
            "that know no window see all keys.",
            "统一 sliding_window，并确认是否包含当前 token；不支持窗口的算子会看到所有的键。")),
    "mask_shape": Cause(("The mask is laid out differently", "掩码的形状或对齐不同"),
        proof=recomputed("the mask is {left} on the left and {right} on the right", "掩码"),
        repair=("Give the fused attention a mask of its documented shape, and say which corner a "
            "causal mask starts from when queries and keys are not as many.",
            "按融合注意力文档给出掩码形状；查询与键数目不等时明确因果掩码从哪个角开始。"),
        words={"top left": "左上角", "bottom right": "右下角",
            "one that passes the gradient on": "原样传递梯度"}),
    "mask_value": Cause(("Masked places hold another value", "掩码填充值不同"),
        proof=("Masked places, or rows without any key, hold {left} on the left and {right} on the "
            "right; elsewhere {residual} is left of {before}.",
            "被掩盖的位置（或全部被掩盖的行）：左侧 {left}，右侧 {right}；其余部分差异由 {before} "
            "降到 {residual}。"),
        repair=("Mask with the same value on both sides, in the dtype of the scores, and keep "
            "padding rows out of the comparison.",
            "两侧使用相同的掩码值（与分数同类型），并且不比较填充行。"),
        words={"where true": "True 处", "where false": "False 处", "uniform": "均匀分布",
            "as if unmasked": "如同未加掩码"}),
}
