"""Causes in the values of one tensor."""

from troubleshooter_nb.catalogue.entry import Cause
from troubleshooter_nb.catalogue.proofs import except_for

# fmt: off
CAUSES: dict[str, Cause] = {
    "low_precision_cast": Cause(("Values rounded to a shorter format", "数值被舍入到低精度格式"),
        proof=("A share {held} of the {side} values fits {format} exactly, of the other side's "
            "{held_other}; rounding the other side as well, {before} becomes {residual}.",
            "{side} 侧 {held} 的数值恰好可用 {format} 表示，另一侧为 {held_other}；"
            "将另一侧同样舍入后误差由 {before} 变为 {residual}。"),
        repair=("Load and compute in the same dtype on both sides; look for autocast, amp levels "
            "and checkpoints saved in half precision.",
            "两侧以相同的 dtype 加载和计算；检查 autocast、amp 级别及以半精度保存的权重。")),
    "reduction_order": Cause(("Another order of summation", "求和顺序不同"),
        proof=("A share {changed} of the values differs in its last bits with random signs (mean "
            "sign {balance}), {before} in all: rounding, no fault.",
            "{changed} 的数值在末位不同，正负随机（平均符号 {balance}），总误差 {before}："
            "属于舍入，不是错误。"),
        repair=("Nothing to repair; fix the batch size and the kernels where equal bits "
            "are needed.", "无需修复；若要求逐位一致，请固定批大小与算子实现。"),
        changes_nothing=True),
    "nondeterministic": Cause(("A side differs from itself", "同一侧两次运行结果不同"),
        proof=("Run twice, one side differs from itself by {self_noise} here; the two sides differ "
            "by {before}.", "同一侧运行两次，此处与自身相差 {self_noise}；两侧相差 {before}。"),
        repair=("Switch on deterministic kernels, fix seeds and switch dropout off, then compare "
            "again.", "开启确定性算子、固定随机种子并关闭 dropout，然后重新比较。")),
    "fp16_overflow": Cause(("Overflow to infinity", "溢出为无穷"),
        proof=except_for("{count} values are inf on the {side} side exactly where the other is "
            "beyond {limit} ({format}); smallest lost {smallest_lost}, largest kept {largest_kept}",
            "{side} 侧有 {count} 个数值为 inf，正是另一侧超出 {limit}（{format}）之处；其中最小 "
            "{smallest_lost}，保留的最大 {largest_kept}"),
        repair=("Compute this layer in float32 or bfloat16, or scale its input down.",
            "以 float32 或 bfloat16 计算该层，或缩小其输入。")),
    "saturation": Cause(("Saturated at the format's limit", "在格式上限处饱和"),
        proof=("{count} values on the {side} side are exactly {limit} ({format}) where the other "
            "is beyond it; clipped as well, {before} becomes {residual}.",
            "{side} 侧有 {count} 个数值恰为 {limit}（{format}），另一侧超出该值；同样截断后误差由 "
            "{before} 降到 {residual}。"),
        repair=("Switch saturation off (INF/NAN mode) to see the overflow, then compute in a wider "
            "format.", "关闭饱和模式（使用 INF/NAN 模式）以暴露溢出，再改用更宽的格式计算。")),
    "underflow": Cause(("Underflow to zero", "下溢为零"),
        proof=except_for("{count} values ({share}) are zero on the {side} side, up to "
            "{largest_lost}, where {format} ends",
            "{side} 侧有 {count} 个数值（{share}）为零，最大 {largest_lost}，正是 {format} "
            "的下限"),
        repair=("Raise the loss scale, or compute in bfloat16 or float32.",
            "提高 loss scale，或以 bfloat16 或 float32 计算。"),
        words={"float32, subnormals flushed": "float32，次正规数置零",
            "float16, subnormals flushed": "float16，次正规数置零"}),
    "nan_swallowed": Cause(("NaN swallowed on one side", "NaN 在一侧被吞掉"),
        proof=except_for("Where the other side has {count} NaN, the {side} side has {value}",
            "另一侧为 NaN 的 {count} 处，{side} 侧为 {value}"),
        repair=("Look for the first NaN before this operator: relu, clip and max hide it on the "
            "{side} side. If no input has one, the other side made it: 0/0, inf - inf, a root "
            "below 0.",
            "查找该算子之前首个 NaN：relu、clip、max 在 {side} 侧掩盖了它。若输入中没有 NaN，"
            "则是另一侧产生的：0/0、inf - inf、负数开方。"),
        proved_where="NaN is given"),
    "int_narrowing": Cause(("Integers narrowed", "整数被收窄"),
        proof=("{changed} of {size} integers on the {side} side are the other's, {how}.",
            "{side} 侧 {size} 个整数中有 {changed} 个等于另一侧经过“{how}”的结果。"),
        repair=("Keep identifiers and indices in int64, and never pass them through a float.",
            "标识与索引保持 int64，不要经过浮点数。")),
    "recorder_inplace": Cause(("Recorded value changed in place", "记录的值被原地修改"),
        proof=("The {side} values are {form} of the other's: {before} becomes {residual}. If what "
            "reads the value agrees, the recorder kept a reference that was overwritten; else an "
            "activation is missing.",
            "{side} 侧等于另一侧经过 {form}：误差由 {before} 降到 {residual}。若其后的使用者一致，"
            "则记录器保存了被覆盖的引用；否则缺少激活函数。"),
        repair=("Copy when recording, or switch inplace=True off.",
            "记录时复制，或关闭 inplace=True。"),
        proved_where="readers agree",
        words={"gelu, tanh form": "gelu，tanh 形式",
            "leaky relu, slope 0.01": "leaky relu，斜率 0.01",
            "leaky relu, slope 0.1": "leaky relu，斜率 0.1",
            "leaky relu, slope 0.2": "leaky relu，斜率 0.2", "consumers agree": "后续使用者一致"},
        changes_nothing=True),
    "memory_corruption": Cause(("A block of memory overwritten", "一段内存被覆盖"),
        proof=("{bytes} bytes from byte {offset_bytes} on differ ({content}); everything else is "
            "equal to the bit.",
            "从第 {offset_bytes} 字节起的 {bytes} 字节不同（{content}）；其余逐位相同。"),
        repair=("Run synchronously, one stream, and compare again: a block that is then equal was "
            "read or written too early.",
            "以同步、单流方式运行再比较：若该段恢复一致，说明读写过早。")),
}
