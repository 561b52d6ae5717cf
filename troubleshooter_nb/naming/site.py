"""Where in a run a tensor was seen: the words every dump grammar is translated into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Direction = Literal["", "forward", "backward"]
# What only training needs: the state an optimizer keeps of each parameter, counted steps, learning
# rates, and the moving average of the parameters (EMA).
TrainingRole = Literal["optimizer_state", "step_counter", "learning_rate", "average"]
_RunRole = Literal["input", "output", "parameter", "buffer", "gradient"]
Role = Literal["", _RunRole, TrainingRole]
TRAINING_ROLES: tuple[str, ...] = get_args(TrainingRole)
ROLES: tuple[str, ...] = (*get_args(_RunRole), *TRAINING_ROLES)


@dataclass(frozen=True)
class Site:
    """Where in a run a tensor was seen.

    `kind` is the level of the record ("file", later "module", "api", "kernel"), `path` the dotted
    place in the network, `call` counts repeated visits of the same place from 0, `slot` is the
    argument position or key.
    """

    kind: str
    path: str
    call: int = 0
    direction: Direction = ""
    role: Role = ""
    slot: str = ""
