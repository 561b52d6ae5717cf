"""What is known of files of torch_npu.hooks."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
