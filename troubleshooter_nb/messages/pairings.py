"""How entries of two dumps were paired, and why others were not."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
