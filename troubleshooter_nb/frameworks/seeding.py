"""What `seed_all` needs from a framework: to be seeded, made deterministic and freed of dropout."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, cast

from troubleshooter_nb import frameworks


class Facet(NamedTuple):
    """One thing that can be read, and put back with what was read."""

    read: Callable[[], Any]
    write: Callable[[Any], None]


class Seeding(Protocol):
    """One framework as `seed_all` sees it."""

    ENVIRONMENT: Mapping[str, tuple[str, ...]]
    """Variables that the deterministic mode needs, each with its value; others that do follow."""

    def seed(self, seed: int) -> None:
        """Seed every generator of the framework, 0 to 2**32 - 1."""

    def generators(self) -> dict[str, Facet]:
        """All that `seed` changes, what is put back last first."""

    def be_deterministic(self) -> None:
        """Choose algorithms that give the same numbers in every run."""

    def flags(self) -> dict[str, Facet]:
        """All that `be_deterministic` changes."""

    def dropout(self) -> Facet:
        """Whether dropout is removed: it then changes nothing, in nets that exist already too.

        Raises
        ------
        NotImplementedError
            When written in MindSpore's GRAPH_MODE, where no Python is run.
        """

    def facts(self) -> dict[str, Any]:
        """What a card tells: ``seed`` as long as it is that of `last_seed`, ``dropout_removed``."""


def loaded() -> dict[str, Seeding]:
    """The frameworks that this process has already imported; imports none itself."""
    return {
        name: cast("Seeding", importlib.import_module(f"troubleshooter_nb.frameworks.{name}_seeds"))
        for name in frameworks.loaded()
    }


def card_facts(seed: int, dropout_removed: bool) -> dict[str, Any]:
    """What a card tells of a framework: its seed, as long as it is that of `last_seed`, and more.

    Parameters
    ----------
    seed : int
        That the framework has now.
    dropout_removed : bool
    """
    found: dict[str, Any] = {}
    if last_seed() is not None and seed == last_seed():
        found["seed"] = seed
    if dropout_removed:
        found["dropout_removed"] = True
    return found


def last_seed() -> int | None:
    """What `seed_all` has set last and nobody undid."""
    return _last_seed


def set_last_seed(seed: int | None) -> None:
    """Remember what `seed_all` has set."""
    global _last_seed
    _last_seed = seed


_last_seed: int | None = None
