"""What is wrong with a zip."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
