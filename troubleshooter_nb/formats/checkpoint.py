"""What all checkpoint readers share: stored tensors become the entries of a Dump."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from troubleshooter_nb.dump import ArraySource, Dump, Entry
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.naming import Site, site_of_parameter, without_wrappers

_MOST_TIED_SHOWN = 3
_MOST_NAMES_SHOWN = 4


@dataclass(frozen=True)
class Stored:
    """One tensor of a checkpoint as its reader found it.

    `source` is None for what cannot be read; `reason` then says why. `site` is given where the
    file says what the tensor is; otherwise its name does.
    """

    name: str
    source: ArraySource | None
    reason: str = ""
    site: Site | None = None
    step: int = 0
    rank: int = 0


def checkpoint_dump(
    stored: Sequence[Stored],
    *,
    label: str,
    format: str,
    notes: Sequence[str] = (),
) -> Dump:
    """The Dump of a checkpoint, with the parts of names taken out that wrappers put in.

    Parameters
    ----------
    stored : sequence of Stored
        In the order of the file. That order counts as the order of saving, unless it is that of
        the alphabet.
    label, format : str
    notes : sequence of str
        What the reader wants said; prefixes taken out and tied tensors are added.

    Raises
    ------
    FormatError
        If two tensors have the same name: a reader by name would lose one of them.
    """
    seen = Counter((one.step, one.rank, one.name) for one in stored)
    if twice := [key for key, count in seen.items() if count > 1]:
        msg = f"{seen[twice[0]]} tensors are called {twice[0][2]!r}; the file is damaged"
        raise FormatError(msg)
    names = [one.name for one in stored]
    bare, wrappers = without_wrappers(
        [one.name for one in stored if one.site is None or one.site.role in ("parameter", "buffer")]
    )
    ordered = len(names) < 2 or names != sorted(names)
    entries = []
    positions: Counter[tuple[int, int]] = Counter()
    for one in stored:
        name, place = bare(one.name), (one.step, one.rank)
        site = one.site or site_of_parameter(name)
        entries.append(
            Entry(
                name,
                replace(site, path=bare(site.path)),
                one.source,
                one.step,
                one.rank,
                positions[place] if ordered else -1,
                reason=one.reason,
            )
        )
        positions[place] += 1
    said = [f"taken out of the names: {part}" for part in wrappers]
    dump = Dump.from_entries(entries, label=label, format=format, notes=[*notes, *said])
    return replace(dump, notes=(*dump.notes, *_tied(dump)))


def _tied(dump: Dump) -> list[str]:
    groups = dump.tied
    said = [f"one tensor under several names: {listed(names)}" for names in groups]
    if len(said) > _MOST_TIED_SHOWN:
        said[_MOST_TIED_SHOWN:] = [f"{len(groups) - _MOST_TIED_SHOWN} more groups of tied tensors"]
    return said


def listed(names: Sequence[str]) -> str:
    """Some names for a note, and how many more there are."""
    more = len(names) - _MOST_NAMES_SHOWN
    return ", ".join(names[:_MOST_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
