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
Form = Literal["weight_norm", "spectral_norm", "pruned", "parametrized"]
_NEW_CURE = "torch.nn.utils.parametrize.remove_parametrizations(layer, 'weight')"


@dataclass(frozen=True)
class Parts:
    """What a reparametrized weight is stored as.

    `names` has the tensors, for a weight norm g and v; `axis` is that of the norm.
    """

    form: Form
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
    new: dict[str, dict[str, str]] = {}  # weight -> what its parts are called -> their names
    for name in specs:
        if match := _NEW_PART.fullmatch(name):
            whole = f"{match[1]}.{match[2]}" if match[1] else match[2]
            new.setdefault(whole, {})[match[3]] = name
        elif (match := _OLD_PART.fullmatch(name)) and (parts := _old_parts(match, specs)):
            found[match[1]] = parts
    return found | {whole: _new_parts(ends, specs) for whole, ends in new.items()}


def _old_parts(match: re.Match[str], specs: Mapping[str, Spec]) -> Parts | None:
    """The parts that ``torch.nn.utils`` made of a weight, found by the first of them."""
    whole, mark = match[1], match[2]
    if whole in specs:
        return None
    ends = ("g", "v", "orig", "u", "mask")
    names = {end: f"{whole}_{end}" for end in ends if f"{whole}_{end}" in specs}
    if mark == "orig" and names.keys() & {"mask", "u"}:
        others = [names[end] for end in ("u", "v", "mask") if end in names]
        return Parts("pruned" if "mask" in names else "spectral_norm", (names["orig"], *others))
    return _norm(names["g"], names["v"], specs) if mark == "g" and "v" in names else None


def _new_parts(ends: Mapping[str, str], specs: Mapping[str, Spec]) -> Parts:
    """The parts that ``torch.nn.utils.parametrize`` made of a weight."""
    norm = None
    if set(ends) == {"original0", "original1"}:
        norm = _norm(ends["original0"], ends["original1"], specs)
    first = sorted(ends, key=lambda end: "original" not in end.rpartition(".")[2])
    is_spectral = {"original", "0._u"} <= set(ends)
    form: Form = "spectral_norm" if is_spectral else "parametrized"
    return norm or Parts(form, tuple(ends[end] for end in first))


def _norm(g: str, v: str, specs: Mapping[str, Spec]) -> Parts | None:
    axes = norm_axes(specs[g].shape, specs[v].shape)
    return Parts("weight_norm", (g, v), axes[0]) if axes else None
