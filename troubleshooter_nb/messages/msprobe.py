"""What is known of dumps of msprobe."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
