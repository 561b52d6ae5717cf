"""The arguments of a recorded call, put together again from its leaves."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from troubleshooter_nb.dump import ArrayInMemory, ArraySource, Dump
from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.formats.record_entries import BroadcastSource
from troubleshooter_nb.messages import Message
from troubleshooter_nb.ranges import whole
from troubleshooter_nb.replaying.recorded_calls import RecordedCall

_PLAIN = ("NoneType", "bool", "int", "float", "str")
_DEEPEST = 16
_MOST_PLACES = 4096  # of arguments, or of a list among them, that only numbers tell of


class Leaf(NamedTuple):
    """A tensor among arguments, with the strides it had; () in C order.

    Leaves of one `value` were one tensor: an attention looks whether its keys are its queries.
    """

    array: np.ndarray
    strides: tuple[int, ...] = ()
    value: Hashable = None


class Word(NamedTuple):
    """What is no tensor and no number, in the words of the record: a dtype, a slice."""

    kind: str
    text: str


class Arguments(NamedTuple):
    """What a call was given: nested lists, tuples and dicts of leaves, words and plain values."""

    args: Sequence[Any]
    keywords: Mapping[str, Any]

    def made(self, make: Callable[[Any], Any]) -> tuple[list[Any], dict[str, Any]]:
        """New arguments; `make` is asked for each word and once for each tensor."""
        known: dict[Hashable, Any] = {}

        def once(one: Any) -> Any:
            if not isinstance(one, Leaf):
                return make(one)
            key = (one.value, one.strides)
            if key not in known:
                known[key] = make(one)
            return known[key]

        args = [_made(one, once) for one in self.args]
        return args, {name: _made(one, once) for name, one in self.keywords.items()}


def _made(value: Any, make: Callable[[Any], Any]) -> Any:
    if isinstance(value, (Leaf, Word)):
        return make(value)
    if isinstance(value, dict):
        return {key: _made(one, make) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_made(one, make) for one in value)
    return value


def arguments_of(call: RecordedCall, dump: Dump) -> Arguments:
    """What a call was given, with the values loaded.

    Raises
    ------
    ArgumentError
        If the record lacks something; the message says what.
    ReadError
        If values cannot be read.
    """
    nesting = _parsed(call.state.nesting) if call.state.nesting else _guessed(call)
    args, keywords = nesting.get("args"), nesting.get("keywords")
    if not isinstance(args, list) or not isinstance(keywords, dict):
        raise ArgumentError(Message("replays.no_arguments"))
    given = [_rebuilt(node, str(at), call, dump) for at, node in enumerate(args)]
    named = {name: _rebuilt(node, name, call, dump) for name, node in keywords.items()}
    return Arguments(given, named)


def _parsed(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}


def _rebuilt(node: Any, slot: str, call: RecordedCall, dump: Dump, levels: int = _DEEPEST) -> Any:
    if node is None:
        return _leaf(slot, call, dump)
    is_sound = isinstance(node, list) and len(node) == 2 and levels > 0
    kind, parts = node if is_sound else ("lost", "?")
    if kind in ("list", "tuple") and isinstance(parts, list):
        made = [
            _rebuilt(one, f"{slot}.{at}", call, dump, levels - 1) for at, one in enumerate(parts)
        ]
        return made if kind == "list" else tuple(made)
    if kind == "dict" and isinstance(parts, list):
        pairs = [pair for pair in parts if isinstance(pair, list) and len(pair) == 2]
        return {
            key: _rebuilt(one, f"{slot}.{key}", call, dump, levels - 1)
            for key, one in pairs
            if isinstance(key, str | int | None)
        }
    raise ArgumentError(Message("replays.argument_lost", slot=slot, kind=str(parts)))


def _leaf(slot: str, call: RecordedCall, dump: Dump) -> Any:
    if slot in call.state.lost:
        raise ArgumentError(Message("replays.argument_lost", slot=slot, kind=call.state.lost[slot]))
    row = call.arguments.get(slot)
    if row is None:
        raise ArgumentError(Message("replays.argument_missing", slot=slot))
    source, columns = dump.sources[row], dump.columns
    if source is not None:
        strides = tuple(call.state.strides.get(slot, ()))
        return Leaf(whole(source), strides, _identity(source, slot))
    text, kind = str(columns["value"][row]), str(columns["dtype"][row])
    if text:
        return _plain(text, kind)
    if columns["shape"][row] is None and not columns["reason"][row]:
        raise ArgumentError(Message("replays.argument_missing", slot=slot))
    why = columns["reason"][row] or Message("replays.statistics_only")
    raise ArgumentError(Message("replays.argument_unread", slot=slot, why=why))


def _identity(source: ArraySource, slot: str) -> Hashable:
    """What is equal where two slots of a call were given one tensor."""
    if isinstance(source, BroadcastSource):
        return _identity(source.source, slot), source.shape
    if isinstance(source, ArrayInMemory):
        return id(source.array)
    return source if isinstance(source, Hashable) else slot


def _plain(text: str, kind: str) -> Any:
    value = json.loads(text)
    if kind == "float":
        return float(value)  # infinities and NaN are texts in JSON
    return value if kind in _PLAIN or not isinstance(value, str) else Word(kind, value)


def _guessed(call: RecordedCall) -> dict[str, Any]:
    """The nesting that slots tell of: numbers are places in a tuple, other words keys of a dict."""
    tree: dict[str, Any] = {}
    for slot in (*call.arguments, *call.state.lost):
        *above, last = slot.split(".")
        place = tree
        for part in above:
            place = place.setdefault(part, {})
        place[last] = None
    keywords = {name: _guessed_node(tree.pop(name)) for name in [*tree] if name in call.keywords}
    return {"args": _guessed_places(tree), "keywords": keywords}


def _guessed_places(tree: Mapping[str, Any]) -> list[Any]:
    count = max((int(name) + 1 for name in tree if name.isdigit()), default=0)
    if count > _MOST_PLACES:
        raise ArgumentError(Message("replays.no_arguments"))
    return [_guessed_node(tree.get(str(at))) for at in range(count)]


def _guessed_node(tree: Any) -> Any:
    if not tree:
        return None
    if all(name.isdigit() for name in tree):
        return ["tuple", _guessed_places(tree)]
    return ["dict", [[name, _guessed_node(one)] for name, one in tree.items()]]
