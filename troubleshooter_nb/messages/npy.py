"""What is wrong with .npy and .npz files."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
