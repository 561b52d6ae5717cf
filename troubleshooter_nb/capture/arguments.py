"""What a recorder is told: words, sizes, ranks, networks and whose they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from troubleshooter_nb.errors import ArgumentError, ArgumentTypeError
from troubleshooter_nb.frameworks import NAMES, Adapter, adapter_of_network, loaded
from troubleshooter_nb.messages import Message

_WORDS = {
    "level": ("module", "api", "both"),
    "compiled": ("boundary", "eager"),
    "action": ("collect", "raise"),
}
_UNITS = {"": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_UNITS |= {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_LARGEST_RANK = 999_999_999  # whose folder readers find
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)\s*", re.IGNORECASE)


def check_words(**given: str) -> None:
    """Refuse unknown words among the arguments.

    Raises
    ------
    ValueError
        With the words that are known.
    """
    for name, word in given.items():
        known = _WORDS[name]
        if word not in known:
            raise ArgumentError(Message("recorder.word", name=name, given=repr(word), known=known))


def check_rank(rank: object) -> None:
    """Refuse what names no folder of a rank."""
    if rank is None:
        return
    if not isinstance(rank, int) or isinstance(rank, bool):
        raise ArgumentTypeError(Message("recorder.rank_kind", given=repr(rank)))
    if not 0 <= rank <= _LARGEST_RANK:
        raise ArgumentError(Message("recorder.rank_range", given=rank, most=_LARGEST_RANK))


def bytes_of(limit: str | int) -> int:
    """A number of bytes, such as ``"4 GiB"``.

    Raises
    ------
    ValueError
        For what is none.
    """
    if isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0:
        return limit
    match = _SIZE.fullmatch(limit) if isinstance(limit, str) else None
    unit = _UNITS.get(match[2].lower().removesuffix("ytes")) if match else None
    if match is None or unit is None:
        raise ArgumentError(Message("recorder.limit", given=repr(limit)))
    return int(float(match[1]) * unit)


def networks_of(net: Any, level: str) -> dict[str, Any]:
    """Networks by the name in front of their paths."""
    if net is None:
        if level != "api":
            raise ArgumentError(Message("recorder.needs_net", level=level))
        return {}
    if isinstance(net, Mapping):
        named = {str(name): each for name, each in net.items()}
    elif isinstance(net, list | tuple):
        named = {str(number): each for number, each in enumerate(net)}
    else:
        named = {"": net}
    for name, each in named.items():
        if adapter_of_network(each) is None:
            kind = type(each).__name__
            raise ArgumentTypeError(Message("recorder.no_network", name=name, type=kind))
    return named


def framework_of(networks: Mapping[str, Any], name: str | None = None) -> Adapter:
    """The framework of the networks; without any, the one of this name or the only one loaded.

    Raises
    ------
    ValueError
        If that is not exactly one, or not the one that is named.
    """
    found = {}
    for net in networks.values():
        adapter = adapter_of_network(net)
        if adapter is not None:
            found[adapter.NAME] = adapter
    found = found or loaded()
    if name is not None:
        found = {known: adapter for known, adapter in found.items() if known == name}
    if not found:
        raise ArgumentError(Message("recorder.no_framework", name=str(name or ""), known=[*NAMES]))
    if len(found) != 1:
        raise ArgumentError(Message("recorder.one_framework", names=[*found]))
    return next(iter(found.values()))
