"""Words of the mapping editor."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
