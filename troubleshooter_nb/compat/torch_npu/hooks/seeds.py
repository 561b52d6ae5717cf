"""``seed_all`` of the old tool."""

from __future__ import annotations

from troubleshooter_nb.capture import determinism


def seed_all(seed: int = 1234) -> None:
    """Seed Python, numpy and torch, and set ``PYTHONHASHSEED``.

    Parameters
    ----------
    seed : int, 0 to 2**32 - 1

    Raises
    ------
    ValueError
        For a seed out of range.
    TypeError
        For a seed that is no integer.

    Notes
    -----
    Different to the old tool: devices are seeded too, and MindSpore where it is loaded. There is
    no deterministic mode here; `troubleshooter_nb.seed_all` has it, and a way back.
    """
    determinism.seed_all(seed)
