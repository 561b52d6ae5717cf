"""What is wrong with what a call was given."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "no_number": ("{name} must be a number, got {value}", "{name} 必须是数，得到 {value}"),
    "tolerance": ("{name} must be finite and 0 or larger, got {value}", "{name} 必须是不小于 0 的有限数，得到 {value}"),
    "learning_rate": ("learning_rate must be a number larger than 0, got {given}", "learning_rate 必须是大于 0 的数，而给出的是 {given}"),
    "choice": ("{name} takes one of {known}, got {value}", "{name} 只能取 {known} 之一，得到 {value}"),
    "executor": ("executor takes a concurrent.futures.Executor, got {value}", "executor 应为 concurrent.futures.Executor，得到 {value}"),
    "progress": ("progress takes True, False or a function of (done, total), got {value}", "progress 应为 True、False 或参数为 (done, total) 的函数，得到 {value}"),
    "no_column": ("no column {name!r}; columns: {columns}", "没有列 {name!r}；已有的列：{columns}"),
    "no_comparison": ("measure_noise() takes what compare() returns, got {kind}", "measure_noise() 的参数应为 compare() 的返回值，得到 {kind}"),
    "no_axis": ("no axis {axis}: the tensor has {count}", "没有第 {axis} 轴：该张量共 {count} 轴"),
    "no_option": ("unknown option {name!r}; known options: {known}", "没有选项 {name!r}；已有的选项：{known}"),
    "option_integer": ("option {name!r} takes a positive integer, got {value}", "选项 {name!r} 应为正整数，得到 {value}"),
    "option_choice": ("option {name!r} takes one of {known}, got {value}", "选项 {name!r} 只能取 {known} 之一，得到 {value}"),
    "save_names": (
        'TNB_SAVE_NAMES is "current" or "id-first", got {value}; "current" is used',
        'TNB_SAVE_NAMES 应为 "current" 或 "id-first"，得到 {value}；将使用 "current"',
    ),
}
