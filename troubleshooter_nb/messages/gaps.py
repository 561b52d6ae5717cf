"""What stands beside the verdicts of pairs: seen and not compared, or compared with itself."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "left": ("left: {what}", "左侧：{what}"),
    "right": ("right: {what}", "右侧：{what}"),
    "and_more": ("{what}, and {count} more of the kind", "{what}，另有 {count} 项同类情况"),
    "share": ("{count} of {total} tensors were compared", "{total} 个张量中仅比较了 {count} 个"),
    "below_atol": ("{count} pass unseen: all their values lie below atol = {atol}", "{count} 对未经检验即通过：其全部数值均小于 atol = {atol}"),
    "by_fingerprints": ("{count} pass by their fingerprints, each tensor as a whole", "{count} 对据指纹通过，均就整个张量而言"),
    "no_values_left": ("the left side holds statistics and no values", "左侧只有统计量，没有数值"),
    "no_values_right": ("the right side holds statistics and no values", "右侧只有统计量，没有数值"),
    "no_values_both": ("neither side holds values, only statistics", "两侧均只有统计量，没有数值"),
}
