"""Names of parametrised tests."""

from __future__ import annotations

from typing import Any


def named(value: Any) -> str:
    """A value of a test as a name that is the same in every process."""
    if isinstance(value, dict):
        return ", ".join(f"{name}={named(one)}" for name, one in value.items())
    if isinstance(value, set):
        return "+".join(sorted(map(str, value)))
    return "function" if callable(value) else str(value)
