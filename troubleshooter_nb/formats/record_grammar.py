"""What the fields of recorded events may be: a line of another kind is damaged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from troubleshooter_nb.messages import Message

_LARGEST = 1 << 62  # numbers go into int64 columns
_LONGEST_NUMBER = 1000  # bits; beyond that no float64 holds it
_Check = Callable[[Any], bool]


def is_event(value: Any) -> bool:
    """Whether what a line holds is an object, and each known field of it what it should be."""
    if type(value) is not dict:
        return False
    for name, one in value.items():
        kind = _TYPES.get(name)
        if kind is None:
            continue
        if type(one) not in kind:
            return False
        check = _INSIDE.get(name)
        if check is not None and not check(one):
            return False
    return True


def is_whole_number(value: Any) -> bool:
    """Whether it is an integer that fits into a column."""
    return type(value) is int and -_LARGEST < value < _LARGEST


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _LARGEST


def _fits(value: int | None) -> bool:
    return value is None or -_LARGEST < value < _LARGEST


def _is_number(value: Any) -> bool:
    return type(value) is float or (type(value) is int and value.bit_length() <= _LONGEST_NUMBER)


def _all(check: _Check) -> _Check:
    return lambda values: values is None or all(map(check, values))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_slot(value: Any) -> bool:
    """Whether it is ``["0", {"value": 41}]``, or with something ``plain``."""
    return (
        type(value) is list
        and len(value) == 2
        and isinstance(value[0], str)
        and type(value[1]) is dict
        and is_event(value[1])
    )


def _are_statistics(values: Mapping[str, Any] | None) -> bool:
    return values is None or all(map(_is_number, values.values()))


_TEXT = frozenset((str,))
_WHOLE = frozenset((int,))
_TRUTH = frozenset((bool,))
_LIST = frozenset((list,))
_OBJECT = frozenset((dict,))
_NOTHING = frozenset((type(None),))
_TYPES: dict[str, frozenset[type]] = {
    **dict.fromkeys(("call", "ended", "value", "owner", "gradient_of", "own_gradient"), _WHOLE),
    **dict.fromkeys(("step", "run", "thread", "pass", "replaced", "count"), _WHOLE),
    **dict.fromkeys(("kind", "path", "layer", "status", "dtype", "slot", "text"), _TEXT),
    **dict.fromkeys(("layer_path", "leaf", "settings"), _TEXT),
    **dict.fromkeys(("autocast", "device", "role"), _TEXT | _NOTHING),
    "reason": frozenset((str, Message)),
    **dict.fromkeys(("training", "grad", "recompute"), _TRUTH | _NOTHING),
    **dict.fromkeys(("parent", "stack", "crc32"), _WHOLE | _NOTHING),
    **dict.fromkeys(("args", "keywords", "out", "names", "shape"), _LIST),
    **dict.fromkeys(("where", "strides"), _LIST | _NOTHING),
    "fingerprint": _LIST | _NOTHING,
    "figures": _TEXT | _NOTHING,
    **dict.fromkeys(("values", "missing", "end"), _OBJECT),
    "statistics": _OBJECT | _NOTHING,
}
_INSIDE: dict[str, _Check] = {
    **{name: _fits for name, kind in _TYPES.items() if int in kind},
    **dict.fromkeys(("args", "out"), _all(_is_slot)),
    **dict.fromkeys(("keywords", "names", "where"), _all(_is_text)),
    "shape": _all(_is_count),
    "strides": _all(is_whole_number),
    "fingerprint": _all(_is_number),
    "statistics": _are_statistics,
    "missing": is_event,
}
