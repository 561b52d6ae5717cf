"""What is wrong with what a call was given."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
    "no_numbers": ("{function} needs numbers, got dtype {dtype}", "{function} 需要数值，而 dtype 为 {dtype}"),
    "learning_rate": ("learning_rate must be a number larger than 0, got {given}", "learning_rate 必须是大于 0 的数，而给出的是 {given}"),
}
