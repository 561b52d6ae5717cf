"""Headings, captions and remarks of reprs and exported pages."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
