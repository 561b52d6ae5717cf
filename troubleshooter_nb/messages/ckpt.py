"""What is wrong with a checkpoint of MindSpore."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
