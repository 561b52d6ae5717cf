"""Layer dumps of transformers' model debugger: a nested json beside a safetensors file per tensor.

Source: ``model_addition_debugger_context`` of transformers, src/transformers/model_debugging_utils.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from troubleshooter_nb.dump import ArraySource, Dump, Entry
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats import safetensors_
from troubleshooter_nb.formats.checkpoint_file import why_not
from troubleshooter_nb.formats.file_source import named, opened
from troubleshooter_nb.formats.limits import beyond, most
from troubleshooter_nb.formats.safetensors_ import json_object
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming import Site
from troubleshooter_nb.naming.characters import printable
from troubleshooter_nb.naming.site import Role

NAME = "debugger_dir"

_TREE = "_debug_tree_FULL_TENSORS.json"
_DEEPEST = 200
_WHOLE = re.compile(r"[0-9]{1,18}")


def refusal(path: Path) -> str | None:
    """None when this reader takes the path, else why not."""
    if path.is_file():
        return None if path.name.endswith(_TREE) else Message("runs.no_tree", suffix=_TREE)
    found = _trees(path)
    if len(found) > 1:
        return Message("runs.several_trees", files=[one.name for one in found])
    return None if found else Message("runs.no_tree", suffix=_TREE)


def _trees(path: Path) -> list[Path]:
    return sorted(path.glob(f"*{_TREE}")) if path.is_dir() else []


def open_debugger_dir(path: Path, *, label: str) -> Dump:
    """Open what the debugger wrote of one forward pass; values are read when asked for.

    Parameters
    ----------
    path : Path
        Its folder, or the json in it.
    label : str

    Returns
    -------
    Dump
        One entry per tensor that a module got or gave, of kind ``module``, in the order of
        execution; modules that hold others have no outputs in such a dump. The first dump of a
        module that was called again was overwritten: that is an entry with a reason. Printed
        values (``use_repr=True``) are no tensors: only their shapes and dtypes are known.

    Raises
    ------
    FormatError
        If the json is damaged, or says nothing of any tensor.
    OSError
        If it cannot be opened.
    """
    file = path if path.is_file() else _trees(path)[0]
    with named(file):
        with opened(file) as (stream, stamp):
            if stamp[0] > most("debugger_tree"):
                said = Message("dumps.json_too_large", size=stamp[0])
                raise FormatError(beyond("debugger_tree", said, stamp[0]))
            tree = json_object(stream.read(), Message("runs.tree"))
        found = [*_tensors(tree)]
        if not found:
            raise FormatError(Message("runs.tree_without_tensors"))
    whole = str(tree.get("module_path", ""))
    last = {one.file: number for number, one in enumerate(found) if one.file}
    visits: Counter[str] = Counter()
    entries = []
    for number, one in enumerate(found):
        inner = one.path.removeprefix(f"{whole}.")
        name = f"{inner}.forward.{one.call}.{one.role}.{one.slot}"
        visits[name] += 1
        if visits[name] > 1:
            name += f"_{visits[name]}"
        source, reason = None, ""
        if one.file and last[one.file] != number:
            reason = Message("runs.overwritten")
        elif one.file:
            source, reason = _source(file.parent, one.file)
        site = Site("module", printable(inner), one.call, "forward", one.role, one.slot)
        entry = Entry(printable(name), site, source, order=number, reason=reason)
        entries.append(entry._replace(dtype=one.dtype, shape=one.shape))
    notes = [] if last else [Message("runs.printed")]
    return Dump.from_entries(entries, label=label, format=NAME, notes=notes)


class _Tensor(NamedTuple):
    """What the json says of a tensor; `file` is empty where only prints of its values are known."""

    path: str
    call: int
    role: Role
    slot: str
    file: str
    dtype: str
    shape: tuple[int, ...]


def _tensors(tree: dict[str, Any]) -> Iterator[_Tensor]:
    """All tensors in the order of execution: what a module got, what is inside, what it gave."""
    calls: Counter[str] = Counter()
    waiting: list[tuple[dict[str, Any], int, int]] = [(tree, 0, -1)]
    while waiting:
        node, depth, call = waiting.pop()
        path = str(node.get("module_path", ""))
        if call >= 0:
            yield from _of_role(path, call, "output", node.get("outputs"))
            continue
        call = calls[path]
        calls[path] += 1
        inputs = node.get("inputs")
        yield from _of_role(path, call, "input", inputs)
        waiting.append((node, depth, call))
        children = node.get("children")
        if isinstance(children, list) and depth < _DEEPEST:
            inner = [child for child in children if isinstance(child, dict)]
            waiting += [(child, depth + 1, -1) for child in reversed(inner)]


def _of_role(path: str, call: int, role: Role, value: Any) -> Iterator[_Tensor]:
    waiting: list[tuple[tuple[str, ...], Any]] = [((), value)]
    while waiting:
        keys, one = waiting.pop()
        if len(keys) > _DEEPEST:
            continue
        if isinstance(one, list):
            waiting += [((*keys, str(at)), part) for at, part in reversed([*enumerate(one)])]
        elif isinstance(one, dict) and {"shape", "dtype", "value"} <= one.keys():
            # Arguments by position and by name are in dicts of their own.
            own = keys[1:] if role == "input" and keys[:1] in (("args",), ("kwargs",)) else keys
            yield _Tensor(path, call, role, ".".join(own) or "0", *_facts(one))
        elif isinstance(one, dict):
            waiting += [((*keys, str(key)), part) for key, part in reversed([*one.items()])]


def _facts(one: dict[str, Any]) -> tuple[str, str, tuple[int, ...]]:
    value = one["value"]
    file = value.removeprefix("./") if isinstance(value, str) else ""
    if not file.endswith(".safetensors") or any(mark in file for mark in "/\\\0"):
        file = ""
    shape = tuple(int(number) for number in _WHOLE.findall(str(one["shape"])))
    return file, str(one["dtype"]).removeprefix("torch."), shape


def _source(folder: Path, name: str) -> tuple[ArraySource | None, str]:
    file = folder / name
    try:
        with named(file):
            stored, _ = safetensors_.open_stored(file)
    except (FormatError, OSError) as error:
        return None, why_not(file, error)
    if len(stored) != 1:
        return None, Message("runs.not_one", file=name, count=len(stored))
    return stored[0].source, stored[0].reason
