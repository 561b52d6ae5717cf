"""What is known of dumps of any format, their entries and their folders."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
