"""One dump of the tensors that the ranks of a distributed run hold together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from troubleshooter_nb.analysis.shards.layouts import (
    Found,
    Layout,
    axes_that_fit,
    is_constant,
    layout_by_shapes,
    layout_by_values,
    same_beginning,
    same_values,
)
from troubleshooter_nb.analysis.shards.notes import Report, numbered
from troubleshooter_nb.analysis.shards.statistics import combined, same_statistics
from troubleshooter_nb.analysis.shards.table import DumpRows, Reference, Rules
from troubleshooter_nb.dump import ArraySource, Dump, Entry
from troubleshooter_nb.errors import FormatError, PairingError, ReadError, check_kind
from troubleshooter_nb.formats import DumpLike, as_dump
from troubleshooter_nb.messages import Message, joined
from troubleshooter_nb.metrics.floats import same_dtype
from troubleshooter_nb.pairing import places_of
from troubleshooter_nb.shapes import shape_text

_DECLARE = Message("alignment.declare")


def merge_ranks(
    dump: DumpLike, axes: Mapping[str, Any] | None = None, *, like: DumpLike | None = None
) -> Dump:
    """One dump in which what several ranks hold of a tensor is one tensor, of rank 0.

    Parameters
    ----------
    dump : Dump, path, or mapping of str to array
        Of several ranks. Of a run that is data parallel and tensor parallel, give the ranks of
        one tensor-parallel group: ``dump.select(rank=[0, 1])``.
    axes : mapping of str to layout, optional
        How the entries are merged whose name or path fits the pattern (``*`` and ``?``); the
        first that fits counts::

            1, -1                        side by side along this axis
            None, "same"                 replicated: every rank holds all of it
            "sum", "mean"                partial sums, as a row-parallel layer has before it
                                         reduces them; over data-parallel ranks the mean
            ("qkv", 0)                   along the axis, but each rank holds queries, keys and
                                         values of its own: ``("interleaved", 0, 3)``
            ("interleaved", 0, (4, 1, 1))  the same in these proportions (grouped queries)

    like : Dump, path, or mapping of str to array, optional
        The same run on one rank, or on another number of ranks. Its shapes show the axis of
        entries of the same step and name (or site); samples of its values whether shards are
        interleaved, and which of sum, mean and replica entries of its own shape are.

    Returns
    -------
    Dump
        Names, kinds, roles and layers are those of the lowest rank. Tensors are joined or added
        up when they are read, in the blocks that are asked for. Statistics of a tensor without
        values are combined: extremes, counts, the l2 norm, the mean weighted by size.

        Without declaration and without `like`, entries that are bit-equal on all ranks are
        replicated; what differs stays under its ranks. So does what one of the ranks lacks, what
        cannot be read, and what has several dtypes; `notes` lists it with the reason, and counts
        what was merged and how. A constant such as a bias of zeros looks replicated although it
        is sharded: `like` or `axes` tells. What is declared to be parts of a tensor and is the
        same on all ranks, though no constant, is merged as declared, and a note says so.

        What one rank only has is kept as of rank 0: together the stages of a pipeline, or the
        experts, are the network. Where the ranks fall into groups of equal size that hold
        different names, each group is merged on its own. `order` then puts the forward entries
        of the stages one behind the other and the backward entries in the opposite sequence.

    Raises
    ------
    PairingError
        If a pattern declares something that is no layout, or does not fit an entry: the axis
        does not exist, other axes differ in length, or the dtype cannot be added.

    Notes
    -----
    To tell whether a tensor is replicated, all ranks are read as long as they are equal, unless
    the CRC of all is known (msprobe's md5, `Dump.summarise`). Of declared parts of a tensor the
    first 256 values of each rank are read, and more only if these are equal.
    """
    dump = as_dump(dump, "left")
    table = DumpRows(dump)
    ranks = {rank for _, rank in table.places}
    if len(ranks) < 2:
        return dump if ranks <= {0} else _of_rank_0(dump, table)
    rules = Rules(axes or {})
    reference = Reference(as_dump(like, "right")) if like is not None else None
    report = Report(len(ranks), len({step for step, _ in table.places}))
    merged: list[tuple[Entry, int]] = []
    for rows in table.groups.values():
        merged += _merged(table, rows, rules, reference, report)
    entries = _ordered(merged)
    notes = [*dump.notes, *report.notes(), *rules.unused()]
    joined = Dump.from_entries(
        entries,
        label=dump.label,
        format=dump.format,
        card=dump.card,
        notes=notes,
        settings=dump.settings,
    )
    # What is left under a rank is there because it was not merged: the rest is not missing.
    return replace(joined, index=joined.index.assign_attrs(merged_ranks=len(ranks)))


def _merged(
    table: DumpRows, rows: list[int], rules: Rules, reference: Reference | None, report: Report
) -> list[tuple[Entry, int]]:
    """The entries that one name of one step becomes, with the rank each came from."""
    first = table.entry(rows[0])
    origin = first.rank
    if len(rows) == 1:
        report.alone[origin] += 1
        return [(first._replace(rank=0), origin)]
    group = [first, *(table.entry(row) for row in rows[1:])]
    declared = rules.of(first)
    found = _hindrance(table, group)
    entry = None
    if not found:
        try:
            layout, found = _layout(group, declared, reference, report)
            entry = _joined(group, layout) if layout else None
        except ReadError as error:
            found = Message("alignment.not_read", reason=error)
    if entry is None:
        report.left[found][first.name].add(first.step)
        return [(one, -1) for one in group]
    if layout is not None:
        _say_added(first, layout, report, is_found=declared is None and reference is not None)
    report.how[layout.words if layout else ""] += 1
    return [(entry, origin)]


def _say_added(entry: Entry, layout: Layout, report: Report, *, is_found: bool) -> None:
    """Note ranks that were added up only because that is the reference, and reduced gradients."""
    is_gradient = entry.site.direction == "backward" and entry.site.role == "parameter"
    if is_gradient and (is_found or layout.kind == "same"):
        report.see_gradient(entry.name, entry.step, layout.kind)
    if is_found and layout.kind in ("sum", "mean"):
        report.added[layout.words][entry.name].add(entry.step)


def _hindrance(table: DumpRows, group: Sequence[Entry]) -> str:
    """Why these cannot be one entry, whatever is declared; empty if they can."""
    lacking = table.lacking(group[0].step, frozenset(one.rank for one in group))
    if lacking:
        ranks = numbered("rank", lacking)
        return Message("alignment.lacking", ranks=ranks, count=len(lacking))
    unreadable = [one for one in group if one.reason]
    if unreadable:
        ranks = numbered("rank", [one.rank for one in unreadable])
        return Message("alignment.unreadable", ranks=ranks, reason=unreadable[0].reason)
    first = group[0]
    for other in group[1:]:
        at = {"left_rank": first.rank, "right_rank": other.rank}
        if _kind(other) != _kind(first):
            kinds = {"left": Message(_kind(first)), "right": Message(_kind(other))}
            return Message("alignment.other_kinds", **kinds, **at)
        mine, theirs = first.source, other.source
        alike = first.dtype == other.dtype
        if mine is not None and theirs is not None:
            alike = same_dtype(mine.dtype, theirs.dtype)
        if not alike:
            return Message("alignment.other_dtypes", left=first.dtype, right=other.dtype, **at)
    return ""


def _kind(entry: Entry) -> str:
    """What an entry is, as the id of its word."""
    if entry.source is not None:
        return "alignment.a_tensor"
    if entry.value or entry.shape is None:
        return "alignment.other_value"
    return "alignment.without_values"


def _layout(
    group: Sequence[Entry],
    declared: tuple[str, Layout] | None,
    reference: Reference | None,
    report: Report,
) -> tuple[Layout | None, str]:
    """How these are one entry; else None, and why not."""
    first = group[0]
    if _kind(first) == "alignment.other_value":
        same = all((one.value, one.digest) == (first.value, first.digest) for one in group)
        return (Layout("same"), "") if same else (None, Message("alignment.other_values"))
    parts = [one.source for one in group if one.source is not None]
    shapes = [one.shape for one in group if one.shape is not None]
    crcs = [int(one.statistics.get("crc32", -1)) for one in group]
    if declared is not None:
        pattern, layout = declared
        _check(pattern, layout, group, shapes)
        if layout.kind == "same":
            same = same_values(parts, crcs) if parts else same_statistics(group)
            return (layout, "") if same else (None, Message("alignment.not_the_same"))
        if not parts and layout.kind != "axis":
            return None, Message(f"alignment.no_statistics_{layout.kind}")
        if _are_replicas(group, parts, crcs):
            report.equal[layout.words][first.name].add(first.step)
        return layout, ""
    wanted = reference.of(first) if reference else []
    if wanted:
        found = _by_reference(group, parts, shapes, wanted, crcs)
        if found.layout and found.said:
            report.doubtful[found.said][first.name].add(first.step)
        return found
    same = same_values(parts, crcs) if parts else same_statistics(group)
    if same:
        return Layout("same"), ""
    return None, joined([Message("alignment.nothing_says"), _DECLARE])


def _are_replicas(
    group: Sequence[Entry], parts: Sequence[ArraySource], crcs: Sequence[int]
) -> bool:
    """Whether all ranks hold the same values, which are not one number only.

    Shards of a constant such as a bias of zeros are equal as well. What cannot be read is for the
    comparison to say.
    """
    low, high = (group[0].statistics.get(name, 0.0) for name in ("min", "max"))
    if "min" in group[0].statistics and low == high:
        return False
    if not parts:
        return same_statistics(group)
    try:
        if same_beginning(parts) and same_values(parts, crcs):
            return not is_constant(parts[0])
    except ReadError:
        pass
    return False


def _by_reference(
    group: Sequence[Entry],
    parts: Sequence[ArraySource],
    shapes: Sequence[tuple[int, ...]],
    wanted: Sequence[Entry],
    crcs: Sequence[int],
) -> Found:
    sources = [one.source for one in wanted if one.source is not None]
    if parts and len(sources) == len(wanted):
        found = layout_by_values(parts, sources, crcs)
    else:
        others = [one.shape for one in wanted if one.shape is not None]
        layout = layout_by_shapes(shapes, others) if len(others) == len(wanted) else None
        if layout and len({*shapes, *others}) > 1:
            return Found(layout)
        same = same_values(parts, crcs) if parts else same_statistics(group)
        found = Found(Layout("same") if same else None, Message("alignment.shapes_silent"))
    return found if found.layout else Found(None, joined([found.said, _DECLARE]))


def _check(
    pattern: str, layout: Layout, group: Sequence[Entry], shapes: Sequence[tuple[int, ...]]
) -> None:
    """PairingError where a declaration does not fit an entry."""
    if layout.kind == "same":
        return
    try:
        layout.shape(shapes)
        if group[0].source is not None:
            layout.joined([one.source for one in group if one.source is not None])
    except FormatError as error:
        ranks: dict[str, list[int]] = defaultdict(list)
        for one, shape in zip(group, shapes, strict=True):
            ranks[shape_text(shape)].append(one.rank)
        held = [
            Message("alignment.shape_on", shape=shape, ranks=numbered("rank", of))
            for shape, of in ranks.items()
        ]
        advice = Message("alignment.no_axis_fits")
        if fits := axes_that_fit(shapes):
            advice = Message("alignment.axes_fit", axes=numbered("axis", fits))
        how = layout.words if layout.kind == "axis" else Message(f"alignment.by_{layout.kind}")
        raise PairingError(
            Message(
                "alignment.does_not_fit",
                pattern=pattern,
                name=group[0].name,
                how=how,
                reason=error,
                held=held,
                advice=advice,
            )
        ) from None


def _joined(group: Sequence[Entry], layout: Layout) -> Entry:
    """The one entry, of rank 0."""
    first = group[0]._replace(rank=0)
    if layout.kind == "same":
        return first
    shapes = [one.shape for one in group if one.shape is not None]
    parts = [one.source for one in group if one.source is not None]
    return first._replace(
        source=layout.joined(parts) if parts else None,
        shape=layout.shape(shapes),
        statistics=combined(group) if layout.kind == "axis" else {},
        digest="",
        fingerprint=(),
    )


def _of_rank_0(dump: Dump, table: DumpRows) -> Dump:
    entries = [table.entry(row)._replace(rank=0) for row in range(len(dump))]
    return Dump.from_entries(
        entries, label=dump.label, format=dump.format, card=dump.card, notes=dump.notes
    )


class _StageOrder(NamedTuple):
    """Sorts entries of several stages of a pipeline."""

    step: int
    is_backward: bool
    stage: int
    order: int


def _ordered(merged: Sequence[tuple[Entry, int]]) -> list[Entry]:
    """The entries; with one sequence of saving where several ranks brought their own."""
    lowest: dict[int, int] = {}
    several: set[int] = set()
    for entry, origin in merged:
        if origin >= 0 and lowest.setdefault(entry.step, origin) != origin:
            several.add(entry.step)
    places = []
    for number, (entry, origin) in enumerate(merged):
        if entry.step in several and origin >= 0 and entry.order >= 0:
            backward = entry.site.direction == "backward"
            stage = -origin if backward else origin
            places.append((_StageOrder(entry.step, backward, stage, entry.order), number))
    entries = [entry for entry, _ in merged]
    next_order: Counter[int] = Counter()
    for place, number in sorted(places):
        entries[number] = entries[number]._replace(order=next_order[place.step])
        next_order[place.step] += 1
    return entries


def missing_places(left: Dump, right: Dump) -> list[str]:
    """Sentences about the steps and ranks that one of two dumps has and the other has not.

    Parameters
    ----------
    left, right : Dump

    Returns
    -------
    list of str
        ``rank 1 on the left is compared with rank 0 on the right``, where each has one only, see
        `pairing.places_of`. ``steps 3-5 only on the left``; ``rank 7 only on the right``, if so in
        every step that both have; ``rank 7 is missing in step 2 on the right``, or ``on both
        sides`` if it is there in other steps. Empty if both have the same.
    """
    check_kind("left", left, Dump)
    check_kind("right", right, Dump)
    places = places_of(left, right)
    said: list[str] = []
    for name, (numbers, paired_as) in places.items():
        own = right.index[name].values
        if len(own) and own[0] != paired_as[0]:
            id = "alignment.step_with" if name == "step" else "alignment.rank_with"
            said.append(Message(id, left=numbers[0], right=own[0]))
    sides = []
    for at in (0, 1):
        ranks: dict[int, set[int]] = defaultdict(set)
        columns = (places[name][at].tolist() for name in ("step", "rank"))
        for step, rank in set(zip(*columns, strict=True)):
            ranks[step].add(rank)
        sides.append(ranks)
    mine, theirs = sides
    for side, here, there in (("left", mine, theirs), ("right", theirs, mine)):
        if alone := here.keys() - there.keys():
            said.append(Message(f"alignment.only_{side}", which=numbered("step", alone)))
    both = sorted(mine.keys() & theirs.keys())
    world = {rank for step in both for rank in mine[step] | theirs[step]}
    missing: dict[tuple[str, tuple[int, ...]], list[int]] = defaultdict(list)
    for step in both:
        lacking = {
            "right": mine[step] - theirs[step],
            "left": theirs[step] - mine[step],
            "both": world - mine[step] - theirs[step],
        }
        for where, ranks_there in lacking.items():
            if ranks_there:
                missing[where, tuple(sorted(ranks_there))].append(step)
    other = {"right": "left", "left": "right"}
    for (where, lost), steps in missing.items():
        which = numbered("rank", lost)
        if steps == both:
            said.append(Message(f"alignment.only_{other[where]}", which=which))
        else:
            when, count = numbered("step", steps), len(lost)
            id = f"alignment.missing_{where}"
            said.append(Message(id, ranks=which, steps=when, count=count))
    return said
