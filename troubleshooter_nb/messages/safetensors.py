"""What is wrong with a safetensors file."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
