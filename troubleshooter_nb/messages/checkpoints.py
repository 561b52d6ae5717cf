"""What is known of checkpoints of any format: folders, shards, tied weights, writing."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "tied_left_only": ("tied on the left only: {names:4}", "仅左侧共用同一张量：{names:4}"),
    "tied_right_only": ("tied on the right only: {names:4}", "仅右侧共用同一张量：{names:4}"),
}
