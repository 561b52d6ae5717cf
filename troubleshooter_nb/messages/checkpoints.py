"""What is known of checkpoints of any format: folders, shards, tied weights, writing."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "renamed": ("{left} -> {right}", "{left} -> {right}"),
    "nothing_there": ("(nothing)", "（无）"),
    "tied_left": ("tied on the left only: {names:4}", "仅在左侧共用同一张量：{names:4}"),
    "tied_right": ("tied on the right only: {names:4}", "仅在右侧共用同一张量：{names:4}"),
}
