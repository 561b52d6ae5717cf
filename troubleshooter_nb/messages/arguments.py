"""What is wrong with what a call was given."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "unknown_dtype": ("unknown dtype {name!r}", "未知的 dtype：{name!r}"),
    "no_element": ("locate needs at least one element, got shape {shape}", "locate 至少需要一个元素，得到形状 {shape}"),
    "flat_lengths": ("pair_partial needs equal flat lengths, got {one} and {other}", "pair_partial 需要等长的一维数组，得到 {one} 与 {other}"),
    "dtype_not_compared": ("cannot compare values of dtype {dtype}", "无法比较 dtype 为 {dtype} 的数值"),
    "no_partial": ("merge_tree needs at least one partial", "merge_tree 至少需要一个部分结果"),
    "dtype_not_related": ("cannot relate values of dtype {dtype}", "无法在 dtype 为 {dtype} 的数值之间寻找关系"),
    "dtype_not_summarised": ("cannot summarise values of dtype {dtype}", "无法统计 dtype 为 {dtype} 的数值"),
    "dump_like": ("{side} takes a Dump, a path or a mapping of names to arrays, got {kind}", "{side} 应为 Dump、路径或从名称到数组的映射，得到 {kind}"),
    "no_numbers": ("{function} needs numbers, got dtype {dtype}", "{function} 需要数值，而 dtype 为 {dtype}"),
    "learning_rate": ("learning_rate must be a number larger than 0, got {given}", "learning_rate 必须是大于 0 的数，而给出的是 {given}"),
}
