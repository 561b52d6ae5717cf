"""Why a pair passes or not."""

# fmt: off
MESSAGES: dict[str, tuple[str, str]] = {
}
