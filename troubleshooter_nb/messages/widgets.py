"""Words that both widgets use."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
