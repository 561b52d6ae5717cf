"""Who made a value and who reads it, in a short line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from troubleshooter_nb.edges import Called, Neighbours
from troubleshooter_nb.messages import Message, joined, told
from troubleshooter_nb.naming import numbered

_MOST = 4  # calls that are named
_SIDES = ("left", "right")


def neighbours_line(found: Mapping[str, Any], role: str, language: str) -> str:
    """Who made a value and who reads it, once where both sides are alike; empty where unknown.

    Parameters
    ----------
    found : mapping
        `Neighbours` by side; a side that has no entry is not there. ``fed``, the two calls of
        `troubleshooter_nb.edges.fed_otherwise`, where they are known.
    role : str
        Of the entry: an argument is read besides by others.
    language : str
        "en" or "zh".
    """
    if wired := wired_line(found, language):
        return wired
    said = {side: _said(found[side], role) for side in _SIDES if side in found}
    if len({*said.values()}) == 1:
        return told(next(iter(said.values())), language)
    lines = [
        Message("neighbours.of_side", side=Message(f"explorer.{side}"), text=text)
        for side, text in said.items()
        if text
    ]
    return told(joined(lines, " "), language) if lines else ""


def wired_line(found: Mapping[str, Any], language: str) -> str:
    """That a call is given another result on the left than on the right; else empty."""
    if not found.get("fed"):
        return ""
    left, right = map(_name, found["fed"])
    return Message("neighbours.fed_otherwise", left=left, right=right).told(language)


def readers_line(found: Mapping[str, Any], role: str, language: str) -> str:
    """The same of who reads a value alone, and of one that is wired alike."""
    if found.get("fed"):
        return ""
    kept = {side: one._replace(maker=None) for side, one in found.items() if side in _SIDES}
    return neighbours_line(kept, role, language)


def _said(found: Neighbours, role: str) -> str:
    key = "also_read" if role == "input" else "read"
    readers = _listed(found.readers)
    if found.maker is None:
        return Message(f"neighbours.{key}", readers=readers) if found.readers else ""
    if not found.readers:
        return Message("neighbours.made", maker=_name(found.maker))
    return Message(f"neighbours.made_{key}", maker=_name(found.maker), readers=readers)


def _listed(calls: Sequence[Called]) -> str:
    """``layers.1.attn.q, k, v and layers.1.add (+2)``."""
    names: list[str] = []
    for place, call in enumerate(calls[:_MOST]):
        stem = call.name.rpartition(".")[0]
        is_beside = place > 0 and stem and calls[place - 1].name.rpartition(".")[0] == stem
        names.append(_name(call._replace(name=call.name[len(stem) + 1 :]) if is_beside else call))
    if not names:
        return ""
    if len(calls) > _MOST:
        return Message("neighbours.and_more", shown=names, count=len(calls) - _MOST)
    if len(names) == 1:
        return names[0]
    return Message("places.and_last", shown=names[:-1], last=names[-1])


def _name(call: Called) -> str:
    """As names of entries say it: the first visit has no number."""
    name = numbered(call.name, call.number) if call.number else call.name
    return f"{name} output {call.result}" if call.result else name
