"""What the values of two tensors say about each other."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
