"""What is wrong with what a call was given."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
