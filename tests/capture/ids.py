"""What tests of recordings in both frameworks are run with, and what they are called."""

from __future__ import annotations

from typing import Any

# Ways to record that must change no number, besides levels and what is kept.
OPTIONS: list[dict[str, Any]] = [
    {"gradients": False},
    {"inputs": False, "outputs": False, "level": "both"},
    {"parameters": False},
    {"replayable": True, "level": "both"},
    {"names": "again.*"},
    {"keep": lambda site: "statistics" if site.role == "output" else None},
    {"steps": 1, "level": "both"},
    {"limit": 0},
    {"compiled": "eager", "level": "both"},
]


def named(value: Any) -> str:
    """A value of a test as a name that is the same in every process."""
    if isinstance(value, dict):
        return ", ".join(f"{name}={named(one)}" for name, one in value.items())
    if isinstance(value, set):
        return "+".join(sorted(map(str, value)))
    return "function" if callable(value) else str(value)
