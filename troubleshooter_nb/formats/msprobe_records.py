"""The json of msprobe for entries of a Dump: what `msprobe_leaves` and `msprobe_entries` read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from troubleshooter_nb.metrics.floats import arithmetic_of, dtype_from_token
from troubleshooter_nb.naming import MsprobeCall

# What msprobe calls a framework whose tensors it stores as torch does; the others' are .npy.
TORCH = "pytorch"
_SECTIONS = {
    **{"input": "input_args", "kwargs": "input_kwargs"},
    **{"output": "output", "parameters": "parameters"},
}
FIGURE_KEYS = {"max": "Max", "min": "Min", "mean": "Mean", "l2": "Norm"}
_SPELLED = {"bfloat16": "BFloat16", "uint8": "UInt8", "uint16": "UInt16"}
_SPELLED |= {"uint32": "UInt32", "uint64": "UInt64"}
# Values of a type that stand under another key than "value".
_VALUE_KEYS = {"torch.memory_format": "format"}
_DEEPEST = 100  # levels of nesting that are written as such; json is put together recursively
_MOST_ARGUMENTS = 1 << 10  # positions that a list of arguments is filled up to

Placed = tuple[str, Any]


def record(call: MsprobeCall, rows: Iterable[tuple[str, str, Any]]) -> Any:
    """What the json holds of one call.

    Parameters
    ----------
    call : MsprobeCall
    rows : iterable of (section, slot, leaf)
        As the names of the entries say; of the call, in order.
    """
    sections: dict[str, list[Placed]] = {}
    for section, slot, leaf in rows:
        sections.setdefault(section, []).append((slot, leaf))
    if call.event == "debug":
        placed = sections[""]
        return placed[0][1] if [slot for slot, _ in placed] == [""] else _nested(placed)
    if call.event == "parameters_grad":
        return {slot: [leaf] for slot, leaf in sections[""]}
    if call.event == "backward":
        made: dict[str, Any] = {"input": [], "output": []}
    else:
        made = {"input_args": [], "input_kwargs": {}, "output": []}
        if call.is_module:
            made["parameters"] = {}
    for section, placed in sections.items():
        key = section if call.event == "backward" and section == "input" else _SECTIONS[section]
        made[key] = _section(section, placed)
    return made


def _section(section: str, placed: list[Placed]) -> Any:
    if section == "parameters":
        return dict(placed)
    made = _nested(placed)
    if section == "kwargs":
        return made if isinstance(made, dict) else {str(k): one for k, one in enumerate(made)}
    return _filled_up(made) if isinstance(made, dict) else made


def _filled_up(children: dict[str, Any]) -> Any:
    """Arguments by position as a list, in which an empty one stands for those between."""
    numbers = [_number(key) for key in children]
    if not all(0 <= number < _MOST_ARGUMENTS for number in numbers):
        return children
    filled: list[Any] = [[] for _ in range(max(numbers) + 1)]
    for number, child in zip(numbers, children.values(), strict=True):
        filled[number] = child
    return filled


def _number(key: str) -> int:
    """The position that a key is, -1 for any other."""
    small = key.isascii() and key.isdigit() and len(key) <= len(str(_MOST_ARGUMENTS))
    return int(key) if small and str(int(key)) == key else -1


def _nested(placed: Sequence[Placed], depth: int = 0) -> dict[str, Any] | list[Any]:
    """Leaves by dotted place as lists and tables; the dots stay where they are no nesting."""
    groups: dict[str, list[tuple[str | None, Any]]] = {}
    for slot, leaf in placed:
        head, dot, rest = slot.partition(".")
        groups.setdefault(head, []).append((rest if dot else None, leaf))
        if not all(slot.split(".")) or depth >= _DEEPEST:
            return dict(placed)
    children: dict[str, Any] = {}
    for head, group in groups.items():
        below = [(rest, leaf) for rest, leaf in group if rest is not None]
        if len(below) < len(group) and len(group) > 1:
            return dict(placed)
        children[head] = _nested(below, depth + 1) if below else group[0][1]
    positions = [str(number) for number in range(len(children))]
    if children.keys() == set(positions):
        return [children[position] for position in positions]
    return children


def value_leaf(kind: str, value: str) -> Any:
    """What is no tensor: its type and its json text, as the columns of a Dump have them."""
    try:
        content = json.loads(value)
    except (ValueError, RecursionError):
        content = value
    if kind == "NoneType" and content is None:
        return None
    is_table = isinstance(content, dict) and len(content) > 1 and "type" not in content
    if is_table and not {"dtype", "shape"} <= content.keys():
        return {"type": kind, **content}
    return {"type": kind, _VALUE_KEYS.get(kind, "value"): content}


def tensor_leaf(
    dtype: str,
    shape: Sequence[int],
    figures: Mapping[str, float],
    framework: str,
    **more: str,
) -> dict[str, Any]:
    """What the json says of a tensor.

    Parameters
    ----------
    dtype : str
        Its name, or whatever stands in the column of a dtype that is not known.
    shape : sequence of int
    figures : mapping of str to float
        ``max``, ``min``, ``mean`` and ``l2``, as far as known; of NaN and infinities too.
    framework : str
        As msprobe calls it.
    **more : str
        ``md5`` and ``data_name``, where there are any.
    """
    said = {key: _figure(dtype, name, figures.get(name)) for name, key in FIGURE_KEYS.items()}
    head = {
        "type": tensor_type(framework),
        "dtype": dtype_text(dtype, framework),
        "shape": [*shape],
    }
    return head | said | more


def tensor_type(framework: str) -> str:
    """What msprobe calls a tensor; those of MSAdapter are MindSpore's."""
    return "torch.Tensor" if framework == TORCH else "mindspore.Tensor"


def _figure(dtype: str, name: str, value: float | None) -> Any:
    if value is None or not math.isfinite(value) or name not in ("max", "min"):
        return value
    if dtype == "bool":
        return bool(value)
    known = _known_dtype(dtype)
    exact = known is not None and arithmetic_of(known) == "integer"
    return int(value) if exact and value == int(value) else value


def dtype_text(dtype: str, framework: str) -> str:
    """How msprobe spells a dtype: ``torch.float32``, ``Float32``; what is no dtype as it is."""
    if _known_dtype(dtype) is None:
        return dtype
    return f"torch.{dtype}" if framework == TORCH else _SPELLED.get(dtype, dtype.capitalize())


@cache
def _known_dtype(name: str) -> np.dtype | None:
    try:
        return dtype_from_token(name)
    except ValueError:
        return None


def shared_stacks(stacks: Mapping[str, str]) -> dict[str, Any]:
    """The ``stack.json`` of stacks by call: calls with the same one share a record."""
    calls: dict[str, list[str]] = {}
    for call, stack in stacks.items():
        calls.setdefault(stack, []).append(call)
    return {
        str(number): [names, frames_of(stack)]
        for number, (stack, names) in enumerate(calls.items())
    }


def frames_of(stack: str) -> list[str]:
    """The frames of a stack, each of which is a line that says where and the line of source."""
    frames: list[str] = []
    for line in stack.split("\n"):
        if line.startswith("File ") or not frames:
            frames.append(line)
        else:
            frames[-1] += f"\n{line}"
    # Readers take the blanks around a frame away.
    return frames if all(frame == frame.strip() for frame in frames) else [stack]
