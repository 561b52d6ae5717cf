"""What all checkpoint readers share: stored tensors become the entries of a Dump."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from troubleshooter_nb.dump import ArraySource, Dump, Entry
from troubleshooter_nb.errors import ArgumentError, FormatError
from troubleshooter_nb.formats.companions import companions
from troubleshooter_nb.messages import Message, joined
from troubleshooter_nb.metrics.floats import arithmetic_of, native_order
from troubleshooter_nb.naming import Site, site_of_parameter, without_wrappers
from troubleshooter_nb.ranges import Scratch

_MOST_TIED_SHOWN = 3
_MOST_NAMES_SHOWN = 4
_BLOCK = 1 << 20  # values written at a time
_scratch = Scratch()


class Stored(NamedTuple):
    """One tensor of a checkpoint as its reader found it.

    `source` is None for what cannot be read; `reason` then says why. `site` is given where the
    file says what the tensor is; otherwise its name does. `is_ordered` is False in a file whose
    sequence says nothing, beside others whose sequence does.
    """

    name: str
    source: ArraySource | None
    reason: str = ""
    site: Site | None = None
    step: int = 0
    rank: int = 0
    is_ordered: bool = True


class Item(NamedTuple):
    """One tensor to write: `chunks()` gives its values in C order, 1-D arrays of its dtype."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    chunks: Callable[[], Iterable[np.ndarray]]

    @property
    def size_bytes(self) -> int:
        """Stored size of its values."""
        return math.prod(self.shape) * self.dtype.itemsize


def bytes_of(item: Item) -> Iterator[memoryview]:
    """The values of an item as little-endian bytes, chunk by chunk.

    Raises
    ------
    ValueError
        If the chunks are more or fewer values than the shape has; of too many, none is given.
    """
    left = math.prod(item.shape)
    for chunk in item.chunks():
        left -= chunk.size
        if left < 0:
            break
        # astype takes the dtypes of ml_dtypes in either byte order, ascontiguousarray does not.
        native = native_order(chunk).astype(item.dtype.newbyteorder("="), copy=False)
        little = native.astype(native.dtype.newbyteorder("<"), copy=False)
        yield memoryview(np.ascontiguousarray(little).reshape(-1).view(np.uint8).data)
    if left:
        size = item.size_bytes
        facts = {"name": item.name, "shape": item.shape, "count": abs(left), "size": size}
        if left < 0:
            raise ArgumentError(Message("checkpoints.too_many_chunks", **facts))
        given = size - left * item.dtype.itemsize
        raise ArgumentError(Message("checkpoints.too_few_chunks", given=given, **facts))


def item_of(name: str, source: ArraySource) -> Item:
    """A stored tensor to write, read in blocks."""
    return Item(name, source.dtype, source.shape, lambda: blocks_of(source))


def blocks_of(source: ArraySource) -> Iterator[np.ndarray]:
    """The values, block by block; a block of a file is valid until the next one."""
    size = math.prod(source.shape)
    for start in range(0, size, _BLOCK):
        stop = min(start + _BLOCK, size)
        yield source.read(start, stop, _scratch.of(stop - start, source.dtype))


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
    entries, said = checkpoint_entries(stored)
    dump = Dump.from_entries(entries, label=label, format=format, notes=[*notes, *said])
    return replace(dump, notes=(*dump.notes, *_tied(dump)))


def checkpoint_entries(stored: Sequence[Stored]) -> tuple[list[Entry], list[str]]:
    """The entries of a checkpoint, and what was taken out of their names; see `checkpoint_dump`."""
    check_distinct(stored)
    bare, wrappers = without_wrappers(
        [one.name for one in stored if one.site is None or one.site.role in ("parameter", "buffer")]
    )
    sites = [_site(one, bare(one.name)) for one in stored]
    sites, of_roles = companions(
        [bare(one.name) for one in stored],
        sites,
        [one.source for one in stored],
        [(one.step, one.rank) for one in stored],
    )
    unwrapped, _ = without_wrappers([site.path for site in sites if site.role == "average"])
    rates = Counter(
        (one.step, one.rank)
        for one, site in zip(stored, sites, strict=True)
        if site.role == "learning_rate"
    )
    ordered = _in_saving_order(stored)
    entries = []
    positions: Counter[tuple[int, int]] = Counter()
    for one, site in zip(stored, sites, strict=True):
        name, place = bare(one.name), (one.step, one.rank)
        # The only one means the same whatever it is called.
        lone = site.role == "learning_rate" and rates[place] == 1
        path = "learning_rate" if lone else bare(site.path)
        if site.role == "average":
            path = unwrapped(path)
        entries.append(
            Entry(
                name,
                site if path == site.path else replace(site, path=path),
                one.source,
                one.step,
                one.rank,
                positions[place] if ordered[place] and one.is_ordered else -1,
                reason=one.reason,
            )
        )
        positions[place] += one.is_ordered
    said: list[str] = [Message("checkpoints.taken_out", part=part) for part in wrappers]
    return entries, [*said, *of_roles]


def check_distinct(stored: Iterable[Stored]) -> None:
    """FormatError if two tensors of one step and rank have the same name."""
    seen = Counter((one.step, one.rank, one.name) for one in stored)
    if twice := [key for key, count in seen.items() if count > 1]:
        what = Message("checkpoints.same_name", count=seen[twice[0]], name=twice[0][2])
        raise FormatError(joined([what, Message("files.damaged")]))


def _site(one: Stored, name: str) -> Site:
    """Where the file does not say what a tensor is, its name does, and that it holds integers."""
    if one.site is not None:
        return one.site
    site = site_of_parameter(name)
    whole = one.source is not None and arithmetic_of(one.source.dtype) == "integer"
    return replace(site, role="buffer") if whole and site.role == "parameter" else site


def _in_saving_order(stored: Sequence[Stored]) -> dict[tuple[int, int], bool]:
    """For each step and rank, whether its names stand in another order than the alphabet's."""
    names: dict[tuple[int, int], list[str]] = {}
    for one in stored:
        found = names.setdefault((one.step, one.rank), [])
        if one.is_ordered:
            found.append(one.name)
    return {place: keeps_order(found) for place, found in names.items()}


def keeps_order(names: Sequence[str]) -> bool:
    """Whether names stand in the order of saving: in any but that of the alphabet."""
    return len(names) < 2 or [*names] != sorted(names)


def _tied(dump: Dump) -> list[str]:
    groups = dump.tied
    said: list[str] = [Message("checkpoints.tied", names=names) for names in groups]
    if len(said) > _MOST_TIED_SHOWN:
        more = len(groups) - _MOST_TIED_SHOWN
        said[_MOST_TIED_SHOWN:] = [Message("checkpoints.more_tied", count=more)]
    return said


def listed(names: Sequence[str]) -> str:
    """Some names for a note, and how many more there are."""
    more = len(names) - _MOST_NAMES_SHOWN
    return ", ".join(names[:_MOST_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
