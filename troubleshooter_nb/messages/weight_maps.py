"""Rows, transforms, drafts and conversions of weights."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
