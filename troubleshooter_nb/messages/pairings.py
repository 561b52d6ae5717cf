"""How entries of two dumps were paired, and why others were not."""

# fmt: off
# ruff: noqa: E501, RUF001 - a line for a sentence in each language; Chinese punctuation is meant
MESSAGES: dict[str, tuple[str, str]] = {
    # Pairs of what was left over.
    "auto_matched": ("auto-matched: {why}", "自动匹配：{why}"),
    "same_name": ("same name", "名称相同"),
    "closest_names": ("closest names ({closeness:.2f}), same numbers", "名称最接近（{closeness:.2f}），编号相同"),
    "only_of_shape": ("the only ones of this shape", "此形状仅此一对"),
}
