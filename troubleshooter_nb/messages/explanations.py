"""Where a difference began and what is known of it."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
