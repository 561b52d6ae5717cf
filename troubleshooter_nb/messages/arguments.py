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
    "no_number": ("{name} must be a number, got {value}", "{name} 必须是数，得到 {value}"),
    "tolerance": ("{name} must be finite and 0 or larger, got {value}", "{name} 必须是不小于 0 的有限数，得到 {value}"),
    "choice": ("{name} takes one of {known}, got {value}", "{name} 只能取 {known} 之一，得到 {value}"),
    "executor": ("executor takes a concurrent.futures.Executor, got {value}", "executor 应为 concurrent.futures.Executor，得到 {value}"),
    "progress": ("progress takes True, False or a function of (done, total), got {value}", "progress 应为 True、False 或参数为 (done, total) 的函数，得到 {value}"),
    "no_column": ("no column {name!r}; columns: {columns}", "没有列 {name!r}；已有的列：{columns}"),
    "no_comparison": ("measure_noise() takes what compare() returns, got {kind}", "measure_noise() 的参数应为 compare() 的返回值，得到 {kind}"),
    "no_path": ("a path is a str or path-like, got {kind}", "路径应为 str 或 PathLike，得到 {kind}"),
    "kind": ("{name} takes a {wanted}, got {kind}", "{name} 应为 {wanted}，得到 {kind}"),
    "no_axis": ("no axis {axis}: the tensor has {count}", "没有第 {axis} 轴：该张量共 {count} 轴"),
    "no_option": ("unknown option {name!r}; known options: {known}", "没有选项 {name!r}；已有的选项：{known}"),
    "option_integer": ("option {name!r} takes a positive integer, got {value}", "选项 {name!r} 应为正整数，得到 {value}"),
    "option_choice": ("option {name!r} takes one of {known}, got {value}", "选项 {name!r} 只能取 {known} 之一，得到 {value}"),
    "save_names": ('TNB_SAVE_NAMES is "current" or "id-first", got {value}; "current" is used', 'TNB_SAVE_NAMES 应为 "current" 或 "id-first"，得到 {value}；将使用 "current"'),
}
