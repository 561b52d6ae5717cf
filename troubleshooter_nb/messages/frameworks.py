"""What torch, MindSpore and other packages lack here."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
