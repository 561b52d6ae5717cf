"""Weights of torch that are stored as the parts that make them: weight norm, pruning and others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from troubleshooter_nb.messages import Message
from troubleshooter_nb.transforms import Spec, norm_axes

_NEW_PART = re.compile(r"(?:(.*)\.)?parametrizations\.([^.]+)\.(original[0-9]*|[0-9]+\..+)")
_OLD_PART = re.compile(r"(.+)_(g|v|orig|u|mask)")
# What torch is asked before such a weight is saved.
_CURE = {
    "weight_norm": "torch.nn.utils.remove_weight_norm(layer)",
    "spectral_norm": "torch.nn.utils.remove_spectral_norm(layer)",
    "pruned": "torch.nn.utils.prune.remove(layer, 'weight')",
}
_NEW_CURE = "torch.nn.utils.parametrize.remove_parametrizations(layer, 'weight')"


@dataclass(frozen=True)
class Parts:
    """What a reparametrized weight is stored as.

    `names` has the tensors, for a weight norm g and v; `axis` is that of the norm.
    """

    form: Literal["weight_norm", "spectral_norm", "pruned", "parametrized"]
    names: tuple[str, ...]
    axis: int = -1

    @property
    def cure(self) -> Message:
        """What such a tensor is, and what to do in torch before its weight is saved."""
        new = self.form != "pruned" and is_part(self.names[0]) == "new"
        call = _NEW_CURE if new else _CURE.get(self.form, _NEW_CURE)
        return Message(f"weight_maps.part_{self.form}", call=call)


@lru_cache(maxsize=1 << 16)
def is_part(name: str) -> Literal["new", "old", ""]:
    """Whether a name may be that of a part: only its siblings tell."""
    if _NEW_PART.fullmatch(name):
        return "new"
    return "old" if _OLD_PART.fullmatch(name) else ""


def reparametrized(specs: Mapping[str, Spec]) -> dict[str, Parts]:
    """Weights of torch that are stored as parts, such as those of a weight norm, by their name."""
    found: dict[str, Parts] = {}
    lists: dict[str, list[str]] = {}
    for name in specs:
        if match := _NEW_PART.fullmatch(name):
            lists.setdefault(f"{match[1]}.{match[2]}" if match[1] else match[2], []).append(name)
        elif (match := _OLD_PART.fullmatch(name)) and match[1] not in specs:
            whole, mark = match[1], match[2]
            others = [part for end in ("u", "v", "mask") if (part := f"{whole}_{end}") in specs]
            if mark == "orig" and f"{whole}_mask" in specs:
                found[whole] = Parts("pruned", (name, *others))
            elif mark == "orig" and f"{whole}_u" in specs:
                found[whole] = Parts("spectral_norm", (name, *others))
            elif mark == "g" and f"{whole}_v" in specs:
                axes = norm_axes(specs[name].shape, specs[f"{whole}_v"].shape)
                if axes:
                    found[whole] = Parts("weight_norm", (name, f"{whole}_v"), axes[0])
    for whole, names in lists.items():
        ends = {
            name.rpartition(f"parametrizations.{whole.rpartition('.')[2]}.")[2]: name
            for name in names
        }
        axes = []
        if set(ends) == {"original0", "original1"}:
            axes = norm_axes(specs[ends["original0"]].shape, specs[ends["original1"]].shape)
        first = sorted(names, key=lambda name: "original" not in name.rpartition(".")[2])
        if axes:
            found[whole] = Parts("weight_norm", (ends["original0"], ends["original1"]), axes[0])
        elif "original" in ends and "0._u" in ends:
            found[whole] = Parts("spectral_norm", tuple(first))
        else:
            found[whole] = Parts("parametrized", tuple(first))
    return found
