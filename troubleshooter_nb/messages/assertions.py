"""What is said where two runs were asserted to be the same."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "not_same": ("the two are not the same\n{text}", "两者不一致\n{text}"),
    "missing": ("without a partner: {names:8}", "没有对应项：{names:8}"),
    "unreadable": ("cannot be read: {names:8}", "无法读取：{names:8}"),
}
