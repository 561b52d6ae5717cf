"""What the fields of recorded events may be: a line of another kind is damaged."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from troubleshooter_nb.formats.record_layout import are_figures
from troubleshooter_nb.messages import Message

_LARGEST = 1 << 62  # numbers go into int64 columns
_MOST_VALUES = _LARGEST >> 4  # so do their bytes, of 16 each at most
_LONGEST_NUMBER = 1000  # bits; beyond that no float64 holds it
_Check = Callable[[Any], bool]


def is_event(value: Any) -> bool:
    """Whether what a line holds is an object, of whose known fields each is right and none lacks.

    Objects of kinds that are not known are events.
    """
    if type(value) is not dict or not value or not _is_typed(value):
        return False
    return _is_whole(frozenset(value))


def _is_typed(value: Mapping[str, Any]) -> bool:
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


@lru_cache(maxsize=1024)
def _is_whole(names: frozenset[str]) -> bool:
    """Whether fields of these names have all others that they say nothing without."""
    return all(
        not names.isdisjoint(other.split("|")) for name in names for other in _NEEDS.get(name, ())
    )


def is_whole_number(value: Any) -> bool:
    """Whether it is an integer that fits into a column."""
    return type(value) is int and -_LARGEST < value < _LARGEST


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _LARGEST


def _is_shape(value: list[Any]) -> bool:
    return all(map(_is_count, value)) and math.prod(value) < _MOST_VALUES


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
        and _is_typed(value[1])
        and not _OF_SLOTS.isdisjoint(value[1])
    )


def _is_missing(value: Mapping[str, Any]) -> bool:
    return _is_typed(value) and value.keys() >= _OF_MISSING


def _are_statistics(values: Mapping[str, Any] | None) -> bool:
    return values is None or (
        all(map(_is_number, values.values()))
        and not any(name.endswith("_count") and math.isinf(n) for name, n in values.items())
    )


def _may_be_figures(text: str | None) -> bool:
    return text is None or are_figures(text)


_TEXT = frozenset((str,))
_WHOLE = frozenset((int,))
_TRUTH = frozenset((bool,))
_LIST = frozenset((list,))
_OBJECT = frozenset((dict,))
_NOTHING = frozenset((type(None),))
_TYPES: dict[str, frozenset[type]] = {
    **dict.fromkeys(("call", "ended", "value", "owner", "gradient_of", "own_gradient"), _WHOLE),
    **dict.fromkeys(("step", "run", "thread", "pass", "replaced", "count"), _WHOLE),
    **dict.fromkeys(("sample_of", "stride", "random", "view_of", "crc32", "sum"), _WHOLE),
    **dict.fromkeys(("kind", "path", "layer", "status", "dtype", "slot", "text"), _TEXT),
    **dict.fromkeys(("gradient_of_parameter", "layer_path", "leaf", "name", "settings"), _TEXT),
    **dict.fromkeys(("autocast", "device", "role"), _TEXT | _NOTHING),
    "reason": frozenset((str, Message)),
    **dict.fromkeys(("training", "grad", "recompute"), _TRUTH | _NOTHING),
    **dict.fromkeys(("parent", "stack"), _WHOLE | _NOTHING),
    **dict.fromkeys(("args", "keywords", "out", "shape"), _LIST),
    **dict.fromkeys(("where", "strides"), _LIST | _NOTHING),
    "fingerprint": _LIST | _NOTHING,
    "figures": _TEXT | _NOTHING,
    "nesting": _TEXT | _NOTHING,
    **dict.fromkeys(("values", "missing", "end"), _OBJECT),
    "statistics": _OBJECT | _NOTHING,
}
_INSIDE: dict[str, _Check] = {
    **{name: _fits for name, kind in _TYPES.items() if int in kind},
    **dict.fromkeys(("args", "out"), _all(_is_slot)),
    **dict.fromkeys(("keywords", "where"), _all(_is_text)),
    "shape": _is_shape,
    "strides": _all(is_whole_number),
    "fingerprint": _all(_is_number),
    "statistics": _are_statistics,
    "figures": _may_be_figures,
    "missing": _is_missing,
}
_OF_SLOTS = frozenset(("value", "plain", "type"))
_OF_MISSING = frozenset(("kind", "where", "count"))
# Without what a field says nothing, or something else; a|b is one of them. What is left out of
# events where it says nothing is needed by none.
_GRADIENT = "own_gradient|gradient_of|gradient_of_parameter"
_NEEDS: dict[str, tuple[str, ...]] = {
    "call": ("path|owner",),
    "path": ("call", "kind", "layer", "step", "run", "parent", "args"),
    **dict.fromkeys(("kind", "args", "parent", "keywords", "recompute", "random"), ("call",)),
    "nesting": ("call",),
    **dict.fromkeys(("thread", "training", "grad", "autocast"), ("call",)),
    "ended": ("status", "out"),
    **dict.fromkeys(("status", "out"), ("ended",)),
    "owner": ("call", "name", "leaf", "role"),
    "name": ("owner",),
    "leaf": ("owner|gradient_of_parameter",),
    "own_gradient": ("slot", "value", "pass", "run"),
    "gradient_of": ("value", "pass", "run"),
    "gradient_of_parameter": ("layer_path", "leaf", "layer", "value", "pass", "step", "run"),
    "slot": ("own_gradient",),
    "layer_path": ("gradient_of_parameter",),
    "pass": (_GRADIENT,),
    "role": ("value|owner",),
    "dtype": ("value", "shape"),
    "shape": ("value", "dtype"),
    "at": ("value", "dtype", "shape", "seal"),
    "seal": ("at",),
    "sum": ("at",),
    **dict.fromkeys(("strides", "device", "view_of"), ("value",)),
    **dict.fromkeys(("crc32", "figures", "statistics", "fingerprint", "reason"), ("value",)),
    "sample_of": ("value", "stride"),
    "stride": ("sample_of",),
    "stack": ("text|call",),
    "text": ("stack",),
    "settings": ("values",),
    "values": ("settings",),
}
