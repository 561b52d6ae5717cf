"""Words of the explorer."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
