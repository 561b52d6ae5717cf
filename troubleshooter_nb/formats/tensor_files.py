"""Files in which one tensor lies, or what one place of a network gave, told from checkpoints."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from troubleshooter_nb.formats.checkpoint import Stored, keeps_order
from troubleshooter_nb.formats.checkpoint_file import open_any
from troubleshooter_nb.naming import ASIDE_ROLES, Site, likely_parameter

_BARE = "tensor"  # what the reader of torch's files calls one that has no name
_META = "meta"
# What people call the values of one place in a dict.
_WORDS = (
    *("input", "inputs", "output", "outputs", "in", "out", "args", "kwargs", "result", "results"),
    *("value", "values", "data", "tensor", "hidden_states", "hidden_state", "activation"),
    *("grad_input", "grad_output", "grad_in", "grad_out", "residual", "mask", "attention_mask"),
)
_PLACE = re.compile(rf"(?i)(?:[0-9]+|{'|'.join(_WORDS)})(?:[._][0-9]+)*(?:\.[^.]+)*")
_RANDOM = re.compile(r"(?i)(?:^|_)(?:rng|random)_states?(?:_|$)")


class Held(NamedTuple):
    """The tensors of a file, and what there is to say.

    `keys` are the names of tensors beside the name of the file, "" of the only one; None of a
    checkpoint, whose tensors have names of their own.
    """

    keys: tuple[str, ...] | None
    stored: list[Stored]
    notes: list[str]


def held_in(file: Path) -> Held:
    """What a file holds; raises as `open_any` does."""
    stored, notes = open_any(file)
    if _RANDOM.search(file.stem):
        return Held(None, [_of_generator(file.stem, one) for one in stored], notes)
    plain = [one for one in stored if one.site is None or one.site.role not in ASIDE_ROLES]
    keys = _keys(plain, file.stem)
    if keys is None:
        ordered = keeps_order([one.name for one in stored])
        return Held(None, [one._replace(is_ordered=ordered) for one in stored], notes)
    return Held(keys, plain, [] if _is_of_dumper(plain) else notes)


def _of_generator(stem: str, one: Stored) -> Stored:
    name = f"{stem}.{one.name}"
    return one._replace(name=name, site=Site("checkpoint", name))


def _keys(stored: Sequence[Stored], stem: str) -> tuple[str, ...] | None:
    names = [one.name for one in stored]
    if len(names) == 1 and (names[0] in (_BARE, stem) or likely_parameter(names[0]) is None):
        return ("",)
    if names and all(_PLACE.fullmatch(name) for name in names):
        if any(likely_parameter(name) is not None for name in names):
            return None
        return tuple(names)
    return None


def _is_of_dumper(stored: Sequence[Stored]) -> bool:
    """Whether this is a tensor with facts beside it, as SGLang's dumper saves."""
    return len(stored) == 1 and stored[0].name == "value"
