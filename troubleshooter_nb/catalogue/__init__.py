"""All causes that can be proved: what is said of each, and its rules towards the others.

A file holds the entries of a family, `entry.Cause` says what an entry has. Other code names no
cause but where it is found: what it has to know of one it asks of its entry. A new cause is one
entry, and a line where it is found: see ``docs/adding_a_cause.md``.
"""

from __future__ import annotations

from collections.abc import Mapping

from troubleshooter_nb.catalogue import (
    activations,
    attention,
    between,
    calls,
    convolution,
    layouts,
    loading,
    normalisation,
    positions,
    products,
    recurrent,
    tensors,
    training,
    words,
)
from troubleshooter_nb.catalogue.entry import Cause

_LAYERS = (normalisation, activations, attention, convolution, products, positions, recurrent)
FAMILIES = (*_LAYERS, calls, between, layouts, loading, tensors, training)
CAUSES: Mapping[str, Cause] = {id: one for family in FAMILIES for id, one in family.CAUSES.items()}
# Chinese of all words that stand in evidence as values.
_TABLES = [words.WORDS, *(getattr(family, "WORDS", {}) for family in FAMILIES)]
_TABLES += [one.words for one in CAUSES.values()]
WORDS: Mapping[str, str] = {word: told for table in _TABLES for word, told in table.items()}
_UNKNOWN = Cause(("", ""), ("", ""), ("", ""))


def of(cause: str) -> Cause:
    """The entry of a cause; without words and rules for an id that another version found."""
    return CAUSES.get(cause, _UNKNOWN)


def is_rival(other: str, cause: str) -> bool:
    """Whether another cause of the same difference makes this one less sure."""
    whole = of(cause).is_part_of
    are_parts = bool(whole) and whole == of(other).is_part_of
    return other != cause and of(other).explains and not are_parts


def of_lacking(parameter: str) -> str | None:
    """The cause that one side's layer has no such parameter; None where that is no cause."""
    return next((id for id, one in CAUSES.items() if parameter in one.lacks), None)
