"""Flattens the object of a torch file: every tensor and number in it, with its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.inert_pickle import MadeBy, PickledDict
from troubleshooter_nb.formats.limits import beyond, most
from troubleshooter_nb.formats.pth_containers import key_text
from troubleshooter_nb.formats.pth_tensors import Ready, Tensors
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming import Role
from troubleshooter_nb.naming.characters import printable

KeyPath = tuple[str, ...]

# Containers may be shared, so that a small pickle can stand for any number of values.
_FEW_NODES, _NODES_PER_BYTE = 10_000, 4
_DEEPEST = 100
_FEW = 32  # values told one by one even where none is a tensor
_PLAIN = (int, float, bool, str, bytes, type(None))
_MOST_OPTIMIZERS = 64
_LONGEST_NAME = 4096  # letters
_SCRIPTED = "__torch__."


@dataclass(frozen=True)
class Leaf:
    """One value: a tensor, a number of Python, or None for anything else.

    `role` is known in a pickled module, which keeps parameters and buffers apart.
    """

    path: KeyPath
    value: Ready | int | float | None
    role: Role = ""


@dataclass
class Tree:
    """The values in the order of the file; `optimizers` are the state dicts of optimizers."""

    leaves: list[Leaf] = field(default_factory=list)
    optimizers: dict[KeyPath, PickledDict] = field(default_factory=dict)
    scripted: bool = False
    is_dict: bool = True  # else names at the top are of the network's own parts


@dataclass(frozen=True)
class _Leave:
    """Mark on the stack: everything in this container has been seen."""

    identity: int


def walked(root: Any, tensors: Tensors) -> Tree:
    """All values of an object, without recursion.

    Raises
    ------
    FormatError
        If it has too many, or names of absurd length.
    """
    tree = Tree(is_dict=isinstance(root, PickledDict))
    around: set[int] = set()  # the containers a value lies in: it may hold itself
    objects: set[int] = set()
    waiting: list[tuple[KeyPath, Any, Role] | _Leave] = [((), root, "")]
    usual = most("pickle_values")
    count, allowed = 0, min(usual, _FEW_NODES + _NODES_PER_BYTE * tensors.size_bytes)
    tensors_left = most("tensors")
    while waiting:
        item = waiting.pop()
        if isinstance(item, _Leave):
            around.discard(item.identity)
            continue
        path, value, role = item
        count += 1
        if count > allowed:
            if allowed == usual:
                said = Message("pth.many_values", most=usual)
                raise FormatError(beyond("pickle_values", said))
            raise FormatError(Message("pth.too_many_values", most=allowed))
        found = tensors.found(value)
        if isinstance(found, Ready):
            tensors_left -= 1
            if tensors_left < 0:
                said = Message("files.many_tensors", most=most("tensors"))
                raise FormatError(beyond("tensors", said))
            tree.leaves.append(Leaf(path or ("tensor",), found, role))
            continue
        if found is not None and id(value) not in around:
            around.add(id(value))
            waiting += [_Leave(id(value)), (path, _inner(found), role)]
            continue
        children = _children(value, path, tree) if len(path) < _DEEPEST else None
        if children is None or id(value) in around or id(value) in objects:
            if path and value is not None:
                number = value if type(value) in (int, float) else None
                tree.leaves.append(Leaf(path, number))
            continue
        if isinstance(value, MadeBy) and not _is_module(value):
            objects.add(id(value))  # an object many others refer to is told once
        around.add(id(value))
        waiting.append(_Leave(id(value)))
        inner = [(_longer(path, key), child, own or role) for key, child, own in children]
        waiting.extend(reversed(inner))
    return tree


def _inner(found: PickledDict) -> Any:
    """The tensor that one of a class of its own is made of, or all of them by name."""
    made = [value for _, value in found.pairs if isinstance(value, MadeBy)]
    rebuilt = [call for call in made if call.path.startswith("torch._utils._rebuild")]
    return rebuilt[0] if len(rebuilt) == 1 else found


def _longer(path: KeyPath, key: str) -> KeyPath:
    if not key:
        return path
    if sum(map(len, path)) + len(key) > _LONGEST_NAME:
        raise FormatError(Message("pth.name_too_long", most=_LONGEST_NAME))
    return (*path, key)


def _children(value: Any, path: KeyPath, tree: Tree) -> list[tuple[str, Any, Role]] | None:
    """Names and values inside, and their role where it is known; None for what is no container."""
    if isinstance(value, PickledDict):
        is_optimizer = isinstance(value.get("state"), PickledDict) and value.get("param_groups")
        if is_optimizer and len(tree.optimizers) < _MOST_OPTIMIZERS:
            tree.optimizers[path] = value
        if path and _is_plain([one for _, one in value.pairs]):
            return None
        return [(key, one, "") for key, one in _keyed(value.pairs)]
    if isinstance(value, list | tuple):
        if _is_plain(value):
            return None
        return [(str(number), one, "") for number, one in enumerate(value)]
    if not isinstance(value, MadeBy):
        return None
    if _is_module(value):
        return list(_of_module(value.state))
    if value.path.startswith(_SCRIPTED):
        tree.scripted = True
        state = value.state if isinstance(value.state, PickledDict) else PickledDict()
        return [(key, one, "") for key, one in _keyed(state.pairs) if _is_scripted(one)]
    return list(_of_object(value))


def _is_plain(values: Sequence[Any]) -> bool:
    """Whether these are many values and no tensor among them: losses, numbers of parameters."""
    return len(values) > _FEW and all(type(value) in _PLAIN for value in values)


def _is_scripted(value: Any) -> bool:
    """Whether this may hold tensors; flags and lists of numbers do not."""
    return isinstance(value, MadeBy) and not value.path.startswith("torch.jit._pickle.")


def _keyed(pairs: list[tuple[Any, Any]]) -> Iterator[tuple[str, Any]]:
    for number, (key, value) in enumerate(pairs):
        # Lone surrogates of a damaged key cannot be written out.
        text = printable(key_text(key))
        yield text or f"#{number}", value


def _is_module(call: MadeBy) -> bool:
    state = call.state
    return (
        isinstance(state, PickledDict)
        and isinstance(state.get("_parameters"), PickledDict)
        and isinstance(state.get("_modules"), PickledDict)
    )


def _of_module(state: PickledDict) -> Iterator[tuple[str, Any, Role]]:
    """What state_dict() would list: parameters, buffers that are kept, and the modules inside."""
    passing = state.get("_non_persistent_buffers_set")
    skipped = [name for name in passing if type(name) is str] if isinstance(passing, list) else []
    parts: tuple[tuple[str, Role], ...] = (
        ("_parameters", "parameter"),
        ("_buffers", "buffer"),
        ("_modules", ""),
    )
    for part, role in parts:
        table = state.get(part)
        for key, value in _keyed(table.pairs) if isinstance(table, PickledDict) else ():
            if value is not None and not (part == "_buffers" and key in skipped):
                yield key, value, role


def _of_object(call: MadeBy) -> Iterator[tuple[str, Any, Role]]:
    """Whatever an object of the file's own class holds."""
    states = call.state if isinstance(call.state, tuple) else (call.state,)
    for state in states:
        if isinstance(state, PickledDict):
            yield from ((key, one, "") for key, one in _keyed(state.pairs))
    yield from ((key, one, "") for key, one in _keyed(call.pairs))
    yield from ((str(number), one, "") for number, one in enumerate(call.appended))
    yield from ((str(number), one, "") for number, one in enumerate(call.args))
