"""What the calls of the old tools say where those tools said something else."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
