"""What the evidence of a finding says."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
