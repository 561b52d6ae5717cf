"""Where in a run a tensor was seen: the words every dump grammar is translated into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Direction = Literal["", "forward", "backward"]
# What only training needs: the state an optimizer keeps of each parameter, counted steps, learning
# rates, and the moving average of the parameters (EMA).
TrainingRole = Literal["optimizer_state", "step_counter", "learning_rate", "average"]
# Parts of weights: the low-rank factors of an adapter (LoRA), which add to a weight beside them,
# and the integers, scales and zero points that a quantized weight is stored in.
PartRole = Literal["adapter", "quantized"]
_RunRole = Literal["input", "output", "parameter", "buffer", "gradient"]
Role = Literal["", _RunRole, TrainingRole, PartRole]
TRAINING_ROLES: tuple[str, ...] = get_args(TrainingRole)
# What is no weight itself: set aside from conversions, and paired with its own kind alone.
ASIDE_ROLES: tuple[str, ...] = (*TRAINING_ROLES, *get_args(PartRole))
ROLES: tuple[str, ...] = (*get_args(_RunRole), *ASIDE_ROLES)
# What a checkpoint holds: nothing of it was executed.
CHECKPOINT_ROLES = frozenset(("parameter", "buffer", *ASIDE_ROLES))
# Kinds of entries that belong to one call of a module, an operator or a save point.
CALL_KINDS = frozenset(("module", "api", "kernel", "debug"))


@dataclass(frozen=True)
class Site:
    """Where in a run a tensor was seen.

    `kind` is the level of the record ("file", "checkpoint", "module", "api" ...), `path` the dotted
    place in the network, `call` counts repeated visits of the same place from 0, `slot` is the
    argument position or key.
    """

    kind: str
    path: str
    call: int = 0
    direction: Direction = ""
    role: Role = ""
    slot: str = ""


def is_whole_gradient(kind: str, role: str) -> bool:
    """Whether a site is that of the whole gradient of what a module or operator reads.

    What one call adds to it has the role ``output`` of a backward call; the gradient of a tensor
    that was saved by itself is one of no call.
    """
    return role == "gradient" and kind in ("module", "api")


def numbered(path: str, call: int) -> str:
    """One call of several of a layer or operator, counted from 0: ``act #1``."""
    return f"{path} #{call}"


def place_text(kind: str, path: str, call: int, direction: str, role: str, slot: str) -> str:
    """A site in short: ``mlp.weight (grad)``, ``Functional.relu #1 input 0``; or just its path.

    A gradient says so once: ``h (grad)``.
    """
    if not path or kind not in CALL_KINDS:
        return f"{path} (grad)" if path and role == "gradient" else path
    is_parameter = role == "parameter"
    place = path if is_parameter or not call else numbered(path, call)
    words = [role if role != "gradient" else "", *slot.split()]
    part = f".{slot}" if is_parameter else "".join(f" {word}" for word in words if word)
    is_gradient = direction == "backward" or role == "gradient"
    return f"{place}{part.rstrip('. ')}{' (grad)' if is_gradient else ''}"
