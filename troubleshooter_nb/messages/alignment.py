"""How ranks, shards, steps and declared mappings were brought together."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
