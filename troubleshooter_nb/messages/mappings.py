"""What is wrong with a mapping file, and what it cannot say."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
