"""The kinds of what a recording can lack: how each is said, and the line that cures it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from troubleshooter_nb.messages import Message
from troubleshooter_nb.render.words import sentence

_MOST_NAMED = 3  # places that a note of a dump names


@dataclass(frozen=True, slots=True)
class MissingRow:
    """Something that a recording lacks.

    Attributes
    ----------
    kind : str
        One of `KINDS`; another one, as a later version may write, is shown by its name.
    where : tuple of str
        Paths of layers, names of operators, parameters or values.
    count : int
        How often it happened; as many as there are names where nothing else is known.
    detail : str
        What the kind leaves open, such as ``meta`` or ``ValueError``; may be empty.
    """

    kind: str
    where: tuple[str, ...] = ()
    count: int = 1
    detail: str = ""

    def __iter__(self) -> Iterator[object]:
        """Kind, where, count and detail, to be unpacked."""
        return iter((self.kind, self.where, self.count, self.detail))


@dataclass(frozen=True, slots=True)
class Kind:
    """How a kind is told: ids of what happened and of its cure, and a line of code behind it."""

    what: str
    cure: str
    code: str = ""
    tone: str = "warn"


# In the order in which they are shown: what hides most comes first.
KINDS: Mapping[str, Kind] = {
    "compiled": Kind(
        "recording.compiled", "recording.compiled_cure", 'tnb.record(net, compiled="eager")'
    ),
    "scripted": Kind("recording.scripted", "recording.scripted_cure", "tnb.record(module)"),
    "traced": Kind("recording.traced", "recording.traced_cure", "tnb.record(module)"),
    "bprop": Kind("recording.bprop", "recording.bprop_cure", 'tnb.save("folder/name", x)'),
    "unhookable": Kind(
        "recording.unhookable", "recording.unhookable_cure", 'tnb.record(net, level="api")'
    ),
    "raised": Kind("recording.raised", "recording.raised_cure", tone="bad"),
    "open": Kind("recording.open", "recording.open_cure", tone="bad"),
    "interrupted": Kind("recording.interrupted", "recording.interrupted_cure", tone="bad"),
    "no_calls": Kind("recording.no_calls", "recording.no_calls_cure", tone="bad"),
    "names_unmatched": Kind(
        "recording.names_unmatched", "recording.names_unmatched_cure", tone="bad"
    ),
    "no_backward": Kind("recording.no_backward", "recording.no_backward_cure", tone=""),
    "local_gradients": Kind("recording.local_gradients", "recording.local_gradients_cure", tone=""),
    "not_called": Kind("recording.not_called", "recording.not_called_cure"),
    "other_thread": Kind("recording.other_thread", "recording.other_thread_cure"),
    "generator": Kind("recording.generator", "recording.generator_cure", "return list(outputs)"),
    "recomputed_ambiguous": Kind(
        "recording.recomputed_ambiguous", "recording.recomputed_ambiguous_cure"
    ),
    "fast_path": Kind("recording.fast_path", "recording.fast_path_cure", "net.train()", tone=""),
    "graph_too_large": Kind("recording.graph_too_large", "recording.graph_too_large_cure", tone=""),
    "no_values": Kind("recording.no_values", "recording.no_values_cure"),
    "over_limit": Kind(
        "recording.over_limit", "recording.over_limit_cure", 'tnb.record(net, to="folder")'
    ),
    "gradient_lost_in_place": Kind(
        "recording.gradient_lost_in_place",
        "recording.gradient_lost_in_place_cure",
        "x = x.clone()",
    ),
    "gradient_not_arrived": Kind(
        "recording.gradient_not_arrived", "recording.gradient_not_arrived_cure"
    ),
    "parameter_without_gradient": Kind(
        "recording.parameter_without_gradient",
        "recording.parameter_without_gradient_cure",
        "parameter.requires_grad = True",
        tone="",
    ),
}
_OTHER = Kind("recording.other", "recording.other_cure")
_ORDER = {name: place for place, name in enumerate(KINDS)}


def together(rows: Iterable[MissingRow]) -> list[MissingRow]:
    """One row for each kind and detail, in order: each name once, as it came, counts added."""
    names: dict[tuple[str, str], dict[str, None]] = {}
    counts: dict[tuple[str, str], int] = {}
    for row in rows:
        key = row.kind, row.detail
        names.setdefault(key, {}).update(dict.fromkeys(row.where))
        counts[key] = counts.get(key, 0) + row.count
    return in_order(
        MissingRow(kind, tuple(names[kind, detail]), count, detail)
        for (kind, detail), count in counts.items()
    )


def missing_rows(missing: Mapping[tuple[str, str], int]) -> list[MissingRow]:
    """What could not be recorded, by kind, of how often it happened where."""
    return together(MissingRow(kind, (name,), count) for (kind, name), count in missing.items())


def in_order(rows: Iterable[MissingRow]) -> list[MissingRow]:
    """Rows by kind, as `KINDS` has them, unknown kinds last; else as they came."""
    return sorted(rows, key=lambda row: _ORDER.get(row.kind, len(_ORDER)))


def tone_of_kind(row: MissingRow) -> str:
    """The tone of what is missing."""
    return KINDS.get(row.kind, _OTHER).tone


def what_of(row: MissingRow, language: str) -> str:
    """What happened, with its detail."""
    if row.kind in KINDS:
        text = sentence(KINDS[row.kind].what, language)
    else:
        text = sentence("recording.other", language, kind=row.kind)
    if not row.detail:
        return text
    return sentence("recording.with_detail", language, text=text, detail=row.detail)


def cure_of(row: MissingRow, language: str) -> tuple[str, str]:
    """What to do about it, and the line of code for that, which may be empty."""
    kind = KINDS.get(row.kind, _OTHER)
    text = sentence(kind.cure, language)
    return (sentence("recording.cure", language, text=text) if kind.code else text), kind.code


def note_of(row: MissingRow) -> Message:
    """What is missing as one note of a dump: where, what happened and what to do."""
    kind = KINDS.get(row.kind, _OTHER)
    said = [Message("recording.other", kind=row.kind)] if kind is _OTHER else [Message(kind.what)]
    names = [name or Message("recording.whole_net") for name in row.where[:_MOST_NAMED]]
    more = len(row.where) - len(names)
    if more:
        names.append(Message("recording.more_places", count=more))
    facts = {"names": names, "what": said[0], "cure": Message(kind.cure), "code": kind.code}
    return Message("recording.note" if kind.code else "recording.note_without_code", **facts)
