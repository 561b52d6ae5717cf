"""Samples that a dump keeps of its tensors: each follows the tensor that it was taken from.

A dump of ``torch_npu.hooks`` may hold the statistics of a tensor and its first 10 values. These are
two entries, of which the sample says nothing of its own about which call belongs to which.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import xarray as xr

from troubleshooter_nb.analysis.search import Item, shapes_differ
from troubleshooter_nb.columns.entries import DUMP_COLUMNS
from troubleshooter_nb.dump import FINGERPRINT, Dump, object_array
from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.formats.hooks_sample import FirstValues
from troubleshooter_nb.messages import Message, ids_of
from troubleshooter_nb.metrics.summary import SUMMARY_FIGURES
from troubleshooter_nb.naming import CALL_KINDS
from troubleshooter_nb.naming.hooks import sample_name, sample_slot, sampled_slot
from troubleshooter_nb.pairing import Match, Pairing
from troubleshooter_nb.table import taken

ALONE = Message("calls.sample_alone")
NOTHING_LIKE_IT = Message("calls.no_such_part")
_OTHER_SHAPE = Message("calls.other_first_values")
_TRANSPOSED = Message("calls.first_of_transposed")
_OTHER_SAMPLE = Message("calls.other_part")
_NO_VALUES = Message("calls.no_values")
_NOT_FIRST = Message("calls.random_rows")


def samples_of(items: Iterable[Item]) -> dict[int, Item]:
    """The sample of each tensor, by the row of the tensor; `items` in the order of the dump."""
    by_row = {item.row: item for item in items if item.site}
    places = ((i.row, _place(i), i.site.slot) for i in by_row.values() if i.site)
    return {tensor: by_row[sample] for tensor, sample in _samples(places).items()}


def _place(item: Item) -> Hashable:
    site = item.site
    return site and (site.kind, item.path, site.layer, item.call, item.direction, site.role)


def _samples(places: Iterable[tuple[int, Hashable, str]]) -> dict[int, int]:
    """Row of the sample of each tensor, from row, place and slot of all entries."""
    tensors: dict[Hashable, int] = {}
    found: dict[int, int] = {}
    for row, place, slot in places:
        of, word = sampled_slot(slot)
        if not word:
            tensors[place, of] = row
        elif (place, of) in tensors:
            found[tensors.pop((place, of))] = row
    return found


def following(
    pairs: Iterable[tuple[Item, Item, Match]],
    samples: tuple[Mapping[int, Item], Mapping[int, Item]],
    taken: tuple[set[int], set[int]],
) -> Iterator[tuple[Item, Item, Match]]:
    """The pairs of the samples of paired tensors, where they are the same part of one shape.

    Parameters
    ----------
    pairs : iterable of (Item, Item, Match)
        Pairs of tensors.
    samples : pair of mappings of int to Item
        What `samples_of` says of both sides.
    taken : pair of sets of int
        Rows that have a partner already.
    """
    for left, right, match in pairs:
        a, b = samples[0].get(left.row), samples[1].get(right.row)
        if a is None or b is None or a.row in taken[0] or b.row in taken[1]:
            continue
        if not shapes_differ(left, right) and _is_same_part(a, b):
            method = "site" if match.method == "user" else match.method
            yield a, b, match._replace(left=a.row, right=b.row, method=method)


def _is_same_part(left: Item, right: Item) -> bool:
    words = [sampled_slot(item.slot[1])[1] for item in (left, right)]
    return left.shape == right.shape and words[0] == words[1]


def with_first_values(pairing: Pairing) -> Pairing:
    """The pairing with a partner for each sample whose tensor has one.

    Where the other side has the whole tensor, its first values become an entry of the dump of that
    side, called like the sample. A sample that has nothing to be compared with is expected to be
    alone: whether its tensor may be alone is said by the row of the tensor.
    """
    dumps = pairing.left, pairing.right
    samples = _samples_in(dumps[0]), _samples_in(dumps[1])
    if not samples[0] and not samples[1]:
        return pairing
    matches = pairing.matches()
    row_of: tuple[dict[int, int], dict[int, int]] = ({}, {})
    for number, match in enumerate(matches):
        row_of[0][match.left], row_of[1][match.right] = number, number
    changed: dict[int, Match] = {}
    gone: set[int] = set()
    behind: dict[int, int] = {}  # the row of the tensor, where a sample found its partner
    views: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    for side in (0, 1):
        other = 1 - side
        for tensor, sample in samples[side].items():
            number = row_of[side].get(sample, -1)
            alone = matches[number] if number >= 0 else None
            if alone is None or number in changed or number in gone:
                continue
            if _ends(alone)[other] >= 0 or alone.expected:
                continue
            above = matches[row_of[side][tensor]] if tensor in row_of[side] else None
            partner = _ends(above)[other] if above else -1
            its_sample = samples[other].get(partner, -1)
            row = row_of[other].get(its_sample, -1)
            reason = _obstacle(dumps, side, (tensor, sample), (partner, its_sample))
            if above is None or reason:
                changed[number] = alone._replace(note=reason, candidates="", expected=True)
                continue
            if its_sample < 0:
                its_sample = len(dumps[other]) + len(views[other])
                views[other].append((partner, _size(dumps[side], sample)))
            elif _ends(matches[row])[side] >= 0:
                continue
            else:
                gone.add(row)
            ends = (sample, its_sample) if side == 0 else (its_sample, sample)
            method = "site" if above.method == "user" else above.method
            changed[number] = Match(*ends, method, above.confidence, above.note)
            behind[number] = row_of[side][tensor]
    left, right = (_extended(dump, found) for dump, found in zip(dumps, views, strict=True))
    kept = sorted((behind.get(n, n), n in behind, n) for n in range(len(matches)) if n not in gone)
    rows = [changed.get(number, matches[number]) for _, _, number in kept]
    return Pairing.from_matches(left, right, rows)


def without_views(dump: Dump) -> Dump:
    """The dump as it was opened, without the entries that `with_first_values` added."""
    rows = [k for k, source in enumerate(dump.sources) if not isinstance(source, FirstValues)]
    if len(rows) == len(dump):
        return dump
    sources = tuple(dump.sources[k] for k in rows)
    notes = tuple(note for note in dump.notes if "calls.first_values" not in ids_of(note))
    return replace(
        dump,
        index=taken(dump.index, "entry", np.array(rows, np.intp)),
        sources=sources,
        notes=notes,
    )


def _ends(match: Match) -> tuple[int, int]:
    return match.left, match.right


def _samples_in(dump: Dump) -> dict[int, int]:
    slots = dump.columns["slot"].tolist()
    if not any(sampled_slot(slot)[1] for slot in set(slots)):
        return {}
    names = ("step", "rank", "kind", "path", "layer", "call", "direction", "role")
    places = enumerate(zip(dump.columns.rows(*names), slots, strict=True))
    return _samples((i, place, slot) for i, (place, slot) in places if place[2] in CALL_KINDS)


def _obstacle(
    dumps: Sequence[Dump], side: int, mine: tuple[int, int], theirs: tuple[int, int]
) -> str:
    """Why a sample has nothing to be compared with; nothing if it has.

    `mine` and `theirs` are the rows of tensor and sample, -1 for none.
    """
    here, there = dumps[side], dumps[1 - side]
    if theirs[0] < 0:
        return ALONE
    shapes = {here.columns["shape"][mine[0]], there.columns["shape"][theirs[0]]} - {None}
    if len(shapes) > 1:
        one, other = shapes
        return _TRANSPOSED if one == other[::-1] else _OTHER_SHAPE
    word = sampled_slot(here.columns["slot"][mine[1]])[1]
    if theirs[1] >= 0:
        other = sampled_slot(there.columns["slot"][theirs[1]])[1]
        same = word == other and _size(here, mine[1]) == _size(there, theirs[1])
        return "" if same else _OTHER_SAMPLE
    source = there.sources[theirs[0]]
    if source is None:
        return _NO_VALUES
    if word != "first":
        return _NOT_FIRST
    return "" if _size(here, mine[1]) <= math.prod(source.shape) else _OTHER_SHAPE


def _size(dump: Dump, row: int) -> int:
    return int(dump.columns["size"][row])


def _extended(dump: Dump, views: Sequence[tuple[int, int]]) -> Dump:
    """The dump with the first values of these rows as entries behind all others."""
    if not views:
        return dump
    rows = [row for row, _ in views]
    counts = np.array([count for _, count in views], np.int64)
    index = dump.index
    sources = []
    for row, count in views:
        source = dump.sources[row]
        if source is None:
            raise ArgumentError(Message("calls.row_without_values", row=row))
        sources.append(FirstValues(source, count))
    text = {name: index[name].values[rows] for name in ("name", "slot", "size")}
    names = [
        sample_name(str(n), int(count), int(size))
        for n, count, size in zip(text["name"], counts, text["size"], strict=True)
    ]
    new = {
        "name": object_array(names),
        "slot": object_array([sample_slot(str(slot), "first") for slot in text["slot"]]),
        "shape": object_array([(int(count),) for count in counts]),
        "ndim": np.ones(len(rows), np.int64),
        "size": counts,
        "size_bytes": np.array([source.size_bytes for source in sources], np.int64),
    }
    unknown: dict[str, object] = {name: DUMP_COLUMNS[name].unknown for name in SUMMARY_FIGURES}
    unknown |= {"crc32": -1, "digest": "", "magnitude_histogram": 0, FINGERPRINT: np.nan}
    variables = {}
    for name, variable in index.data_vars.items():
        added = new.get(str(name))
        if added is None:
            added = variable.values[rows]
            if name in unknown:
                added = np.full_like(added, unknown[str(name)])
        values = np.concatenate([variable.values, added])
        variables[name] = xr.Variable(variable.dims, values, variable.attrs)
    extended = xr.Dataset(variables, index.coords, index.attrs)
    notes = (*dump.notes, Message("calls.first_values", count=len(views)))
    return replace(dump, index=extended, sources=(*dump.sources, *sources), notes=notes)
