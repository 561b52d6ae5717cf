"""What is wrong with a file of `torch.save`, and what its pickle holds."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
