"""What is said while values are saved."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
