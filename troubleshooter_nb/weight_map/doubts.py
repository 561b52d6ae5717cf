"""What speaks against a map that can be converted, unless its user declared that it is meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from troubleshooter_nb.messages import Message, ids_of
from troubleshooter_nb.transforms import Spec
from troubleshooter_nb.weight_map.rows import WeightRow

# What values say against a row, as `convert.evidence` writes it into the note.
_AGAINST = {f"weight_maps.values_{id}" for id in ("related", "of_other", "differ")}
_DOUBTS = {
    f"weight_maps.{id}"
    for id in ("contradicted", "unfilled", "without_a_place", "no_elements", "unread")
}


def has_doubts(notes: Sequence[str]) -> bool:
    """Whether one of these notes, as of the proof of a conversion, is a doubt of its map."""
    return any(not _DOUBTS.isdisjoint(ids_of(note)) for note in notes)


def is_contradicted(note: str) -> bool:
    """Whether the note of a row says that values speak against it, as `convert.evidence` does."""
    return not _AGAINST.isdisjoint(ids_of(note))


def doubts_of(
    rows: Sequence[WeightRow],
    source: Mapping[str, Spec],
    unmatched_sources: Sequence[str],
    unmatched_targets: Sequence[str],
    unread: Mapping[str, str],
) -> list[Message]:
    """What `WeightMap.doubts` gives."""
    said: list[Message] = []
    against = [row.sources[0] for row in rows if row.targets and is_contradicted(row.note)]
    if against:
        said.append(Message("weight_maps.contradicted", count=len(against), names=against))
    if unmatched_targets:
        count = len(unmatched_targets)
        said.append(Message("weight_maps.unfilled", count=count, names=list(unmatched_targets)))
    if unmatched_sources:
        total = sum(spec.size for spec in source.values())
        lost = sum(source[name].size for name in unmatched_sources)
        facts = {"count": len(unmatched_sources), "names": list(unmatched_sources)}
        share = lost / total if total else 0.0
        said.append(Message("weight_maps.without_a_place", **facts, share=share))
    if unread:
        reason = next(iter(unread.values()))
        facts = {"count": len(unread), "names": list(unread)}
        said.append(Message("weight_maps.unread", **facts, reason=reason))
    taken = {name for row in rows if row.targets for name in row.sources}
    if hollow := [name for name, spec in source.items() if name in taken and not spec.size]:
        said.append(Message("weight_maps.no_elements", count=len(hollow), names=hollow))
    return said
