"""What is known of training logs and series of checkpoints."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
