"""Where in a tensor the sides differ, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from troubleshooter_nb.messages import Message, joined
from troubleshooter_nb.render.numbers import percent

_STEPS = {2: "second", 3: "third", 4: "fourth"}


def place_said(place: Mapping[str, Any]) -> str:
    """The sentence of a place, as `analysis.causes.tensors.places.observed_place` found it.

    Empty for what another version found and this one does not know.
    """
    kind = place["kind"]
    if kind == "indices" and "parts" in place:
        parts = place["parts"]
        where = joined([indices_said(part, part["axis"], part["name"]) for part in parts], ",")
    elif kind == "tokens":
        where = _tokens(place)
    elif kind == "border":
        where = Message("places.border", width=place["width"])
    else:
        return ""
    share = percent(float(place["share"]))
    return Message("places.valid" if place.get("valid") else "places.all", where=where, share=share)


def indices_said(said: Mapping[str, Any], axis: int, name: str = "") -> str:
    """The indices of one axis, as `metrics.index_sets.described` has them."""
    form, count, step = said["form"], said["count"], said["step"]
    known = {
        "thing": Message(f"places.{name or 'position'}"),
        "along": "" if name else Message("places.along", axis=axis),
        "size": said["size"],
        "count": count,
        "start": said["start"],
        "last": said["stop"] - 1,
        "step": Message(f"places.step_{_STEPS.get(step, 'other')}", step=step),
        "indices": _listed(said["indices"], count),
    }
    if form == "some" and count > len(said["indices"]):
        form = "many"
    return Message(f"places.at_{form}", **known)


def _listed(indices: Sequence[int], count: int) -> str:
    """``3, 7 and 9``; ``0, 2, 5, ...`` where there are more."""
    if count > len(indices):
        return Message("places.and_more", shown=[str(n) for n in indices])
    *most, last = [str(n) for n in indices]
    return Message("places.and_last", shown=most, last=last) if most else last


def _tokens(place: Mapping[str, Any]) -> str:
    """Tokens, sample by sample."""
    lists = [
        Message("places.of_sample", sample=sample, where=indices_said(said, -1, "token"))
        for sample, said in place["lists"]
    ]
    if place["samples"] > len(lists):
        lists.append(Message("places.of_more", count=place["samples"] - len(lists)))
    samples, tokens = place["sizes"]
    return Message(
        "places.tokens",
        count=place["count"],
        total=samples * tokens,
        samples=place["samples"],
        of=samples,
        each=joined(lists),
    )
