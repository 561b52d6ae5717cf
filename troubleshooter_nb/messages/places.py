"""Where in a tensor the sides differ: `render.places`."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "all": ("The sides differ by more than rounding only at {where} ({share} of the elements).", "两侧的差异仅在{where}处超出舍入误差（占元素的 {share}）。"),
    "valid": ("Padded tokens left aside, the sides differ by more than rounding only at {where} ({share} of the elements).", "不计填充的 token，两侧的差异仅在{where}处超出舍入误差（占元素的 {share}）。"),
    "border": ("a border {width} wide of the last two axes", "最后两轴宽 {width} 的边缘"),
    "tokens": ("{count} of {total} tokens, in {samples} of {of} samples ({each})", "{total} 个 token 中的 {count} 个，位于 {of} 个样本中的 {samples} 个（{each}）"),
    "of_sample": ("sample {sample}: {where}", "样本 {sample}：{where}"),
    "of_more": ("{count} more", "另有 {count} 个"),
    # Indices of an axis.
    "at_one": ("{thing} {start} of {size}{along}", "{thing} {start}（共 {size} 个{along}）"),
    "at_first": ("the first {count} of {size} {thing}s{along}", "前 {count} 个{thing}（共 {size} 个{along}）"),
    "at_last": ("the last {count} of {size} {thing}s{along}", "后 {count} 个{thing}（共 {size} 个{along}）"),
    "at_run": ("{thing}s {start} to {last} of {size}{along}", "{thing} {start} 至 {last}（共 {size} 个{along}）"),
    "at_every": ("every {step} {thing} ({indices} of {size}{along})", "每 {step} 个取一个的{thing}（{indices}，共 {size} 个{along}）"),
    "at_some": ("{thing}s {indices} of {size}{along}", "{thing} {indices}（共 {size} 个{along}）"),
    "at_many": ("{count} of {size} {thing}s{along} ({indices})", "{size} 个{thing}{along}中的 {count} 个（{indices}）"),
    "and_last": ("{shown} and {last}", "{shown} 和 {last}"), "and_more": ("{shown}, …", "{shown} 等"),
    "step_second": ("second", "2"), "step_third": ("third", "3"), "step_fourth": ("fourth", "4"), "step_other": ("{step}th", "{step}"),
    "along": (" along axis {axis}", "，第 {axis} 轴"),
    # What an index of an axis is.
    "position": ("position", "位置"), "sample": ("sample", "样本"), "token": ("token", "token"),
    "head": ("head", "头"), "channel": ("channel", "通道"), "line": ("line", "行"), "column": ("column", "列"),
}
