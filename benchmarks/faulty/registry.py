"""What a planted fault is and what is true of a run that has it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from faulty.side import Side

EVERY = ("gpt", "resnet", "llama", "autoencoder", "recurrent")


@dataclass
class Truth:
    """What may be said of a run.

    Attributes
    ----------
    origins : set of str
        Paths of modules of which one is the origin; empty: any place that meets the rest.
    causes : set of str
        Ids of which the top finding must be one; empty for faults outside the catalogue.
    also : set of str
        Ids that are true of the run besides: harmless differences that were planted with it.
    direction, role, step
        Restrict the origin where given.
    """

    origins: set[str]
    causes: set[str] = field(default_factory=set)
    also: set[str] = field(default_factory=set)
    direction: str = ""
    role: str = ""
    step: int | None = None
    # The faulty operation is not recorded: whoever first reads its result is an origin as well.
    is_glue: bool = False
    # Something is missing on one side and no recorded value differs: no origin need be named.
    is_absent: bool = False


Plant = Callable[[Side, np.random.Generator, bool], Truth]


@dataclass(frozen=True)
class Fault:
    """A fault that can be planted.

    Attributes
    ----------
    cause : str
        Id of a cause, or ``outside.name``.
    kind : {"forward", "loading", "backward", "running", "steps", "recorded"}
        Where it shows: "loading" already in the weights; "recorded" only in the dump.
    plant : callable
        ``plant(left, rng, small)`` changes the left side and tells the truth.
    has_small : bool
        Whether it can be made smaller than 1e-4.
    """

    cause: str
    name: str
    families: tuple[str, ...]
    kind: str
    plant: Plant
    has_small: bool = False
    steps: int = 1
    is_training: bool = False
    dtype: str = ""
    keeps: tuple[str, ...] = ()
    # Changes both sides before they part, to make the fault possible.
    prepare: Callable[[Side, np.random.Generator], None] | None = None


# Causes that no run has, and why.
NOT_PLANTED = {
    "reduction_order": "it is what controls differ by",
    "nondeterministic": "needs two runs of one side",
    "call_missing": "both sides of a run record the same calls",
    "tensor_missing": "both sides of a run have the same parameters",
    "tensor_renamed": "both sides of a run have the same parameters",
    "gradient_missing": "both sides of a run have the same gradients",
    "argument_order": "shows as the cause of the argument that changed; settings are not recorded",
    "constant_differs": "constants stand in glue, where the causes of their place are told",
    "bn_start_state": "statistics are recorded before their update",
    "set_otherwise": "is said where no values are; settings are not recorded",
    "other_layer": "pairs of calls keep their classes in these networks",
}
FAULTS: list[Fault] = []


def fault(
    cause: str, families: tuple[str, ...] | str, kind: str = "forward", **options: Any
) -> Any:
    """Register a planting function."""
    chosen = (
        EVERY if families == "every" else (families,) if isinstance(families, str) else families
    )

    def register(plant: Plant) -> Plant:
        FAULTS.append(Fault(cause, plant.__name__, chosen, kind, plant, **options))
        return plant

    return register


def pick(rng: np.random.Generator, paths: list[str]) -> str:
    """One of the paths."""
    return paths[int(rng.integers(len(paths)))]


def attention_glue(path: str, cause: str, step: int | None = None) -> Truth:
    """Of a fault between the projections of an attention: it, or who reads the result."""
    return Truth({path, f"{path}.proj", f"{path}.o"}, {cause}, step=step, is_glue=True)
