"""How several things stand side by side."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "semicolon": ("{parts:;}", "{parts:;}"), "comma": ("{parts}", "{parts}"),
    "blank": ("{parts: }", "{parts: }"), "plain": ("{text}", "{text}"),
    "more": ("{shown} and {count:,} more", "{shown}，另有 {count:,} 项"),
    "closest": ("; closest: {names:r}", "；最接近：{names:r}"),
}
