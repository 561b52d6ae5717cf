"""What is known of checkpoints of any format: folders, shards, tied weights, writing."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
