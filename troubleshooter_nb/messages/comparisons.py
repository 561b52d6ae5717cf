"""What a comparison says of itself: notes, titles, tables, refusals."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
