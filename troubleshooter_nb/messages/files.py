"""What is wrong with any file or folder, and why it cannot be opened or written."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
