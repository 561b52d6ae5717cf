"""Arguments and results as msprobe nests them in its json."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

_DEEPEST = 12  # levels, as `capture.leaves` enters them


class Tensor(NamedTuple):
    """The place of a tensor: its slot in the events of a recorder, and whether it needs a gradient.

    The latter is None where the framework does not say, and False for what can have none.
    """

    slot: str
    requires_grad: bool | None


class Plain(dict[str, Any]):
    """What the json says of something that is no tensor."""


class Trees:
    """Makes of arguments and results lists, tables and `Tensor` places; see `capture.plan.Trees`.

    Parameters
    ----------
    is_tensor : callable
    is_torch : bool
        Only torch says whether a tensor needs a gradient.
    """

    def __init__(self, is_tensor: Callable[[Any], bool], is_torch: bool) -> None:
        self._is_tensor, self._is_torch = is_tensor, is_torch

    def of_arguments(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """A list of the positional arguments, and a table of the others."""
        listed = [self._tree(value, str(number)) for number, value in enumerate(args)]
        return listed, {name: self._tree(value, name) for name, value in keywords.items()}

    def of_result(self, output: Any) -> Any:
        """The result: a list where it is a list or a tuple, also a named one."""
        if self._is_tensor(output):
            return self._tree(output, "0")
        if isinstance(output, list | tuple):
            return [self._tree(part, str(number)) for number, part in enumerate(output)]
        is_table = isinstance(output, Mapping) or _is_record(output)
        return self._tree(output, "" if is_table else "0")

    def _needs_gradient(self, tensor: Any) -> bool | None:
        if self._is_torch:
            return bool(tensor.requires_grad)
        return None if _has_gradients(str(tensor.dtype)) else False

    def _tree(self, value: Any, slot: str, levels: int = _DEEPEST) -> Any:
        if self._is_tensor(value):
            return Tensor(slot, self._needs_gradient(value))
        parts = _parts(value) if levels else None
        if parts is None:
            return leaf_of(value)
        made = [
            (key, self._tree(part, f"{slot}.{place}" if slot else place, levels - 1))
            for key, place, part in parts
        ]
        return dict(made) if _is_table(value) else [part for _, part in made]


def _has_gradients(dtype: str) -> bool:
    """Whether values of a dtype of MindSpore can have gradients."""
    return "Float" in dtype or "Complex" in dtype


def _is_record(value: Any) -> bool:
    return is_dataclass(value) and not isinstance(value, type)


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) or _is_record(value) or hasattr(value, "_fields")


def _parts(value: Any) -> list[tuple[str, str, Any]] | None:
    """Name in the json, name in a slot and value of each part; None for what has none."""
    if isinstance(value, Mapping):
        return [(str(key), str(key), part) for key, part in value.items()]
    if isinstance(value, list | tuple) and type(value).__name__ != "Size":
        names = getattr(value, "_fields", None) or range(len(value))
        return [
            (str(n), str(i), part) for i, (n, part) in enumerate(zip(names, value, strict=True))
        ]
    if _is_record(value):
        listed = [each.name for each in fields(value)]
        return [(name, name, getattr(value, name, None)) for name in listed]
    return None


def leaf_of(value: Any) -> Plain | None:
    """What the json says of something that is no tensor; None for what msprobe passes over."""
    said = _said_of(value)
    return None if said is None else Plain(said)


def _said_of(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    kind = type(value).__name__
    if type(value) in (bool, int, float, str):
        return {"type": kind, "value": value}
    if isinstance(value, slice):
        bounds = (value.start, value.stop, value.step)
        plain = [bound if isinstance(bound, int) else None for bound in bounds]
        return {"type": "slice", "value": plain}
    if value is ...:
        return {"type": "ellipsis", "value": "..."}
    if type(value).__module__ == "torch":
        return _leaf_of_torch(kind, value)
    if type(value).__module__.partition(".")[0] == "mindspore" and kind in _MINDSPORE_DTYPES:
        return {"type": "mindspore.dtype", "value": str(value)}
    return None


# Classes of MindSpore's dtypes.
_MINDSPORE_DTYPES = ("Float", "BFloat", "Int", "UInt", "Bool", "Complex", "Type")


def _leaf_of_torch(kind: str, value: Any) -> Any:
    if kind == "Size":
        return {"type": "torch.Size", "value": [*value]}
    if kind in ("dtype", "device"):
        return {"type": f"torch.{kind}", "value": str(value)}
    if kind == "memory_format":
        return {"type": "torch.memory_format", "format": str(value).removeprefix("torch.")}
    return None


def tensors_in(tree: Any, place: str = "") -> Iterator[tuple[str, Tensor]]:
    """The tensors of a tree with their dotted places, which end the names of their files."""
    if isinstance(tree, Tensor):
        yield place, tree
    elif isinstance(tree, Mapping) and not isinstance(tree, Plain):
        for key, part in tree.items():
            yield from tensors_in(part, f"{place}.{key}" if place else key)
    elif isinstance(tree, list):
        for number, part in enumerate(tree):
            yield from tensors_in(part, f"{place}.{number}" if place else str(number))


def mapped(tree: Any, change: Callable[[str, Tensor], Any], place: str = "") -> Any:
    """A tree with something else in place of each tensor, told its dotted place."""
    below = functools.partial(_below, place)
    if isinstance(tree, Tensor):
        return change(place, tree)
    if isinstance(tree, Plain):
        return tree
    if isinstance(tree, Mapping):
        return {key: mapped(part, change, below(key)) for key, part in tree.items()}
    if isinstance(tree, list):
        return [mapped(part, change, below(str(n))) for n, part in enumerate(tree)]
    return tree


def _below(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key
