"""Pairs of entries that know the call they were seen in: calls first, then what is in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from troubleshooter_nb.analysis.call_pairs import RunCallPair, of_equal_names, unpaired
from troubleshooter_nb.analysis.calls import pair_calls
from troubleshooter_nb.analysis.calls_of_run import RunCall, run_calls_of
from troubleshooter_nb.analysis.given_calls import forced_pairs, with_notes
from troubleshooter_nb.analysis.leaves import pair_leaves
from troubleshooter_nb.analysis.recorded_samples import (
    ALONE,
    NOTHING_LIKE_IT,
    following,
    samples_of,
)
from troubleshooter_nb.analysis.renaming import pair_modules
from troubleshooter_nb.analysis.search import Item, Search, are_of_two_frameworks, shapes_differ
from troubleshooter_nb.analysis.value_order import visits_by_values
from troubleshooter_nb.naming.hooks import parse_hook_name
from troubleshooter_nb.pairing import Match
from troubleshooter_nb.thresholds import NAMED, NAMES_ALONE, SITES_SHARE

_OF_MODULES = ("parameter", "buffer")


def by_sites(search: Search, *, fuzzy: bool = False) -> None:
    """Pair the entries with a call site on both sides.

    Parameters
    ----------
    search : Search
        Gets the pairs, and a word about what stays alone inside calls that belong together. What
        is paired in it already is given: the other entries of those calls follow.
    fuzzy : bool
        Ignore the numbers of calls of operators, keep their order.
    """
    left, right = (
        sorted((item for item in side if item.site), key=lambda item: item.position)
        for side in search.all
    )
    if not left or not right:
        return
    known = list(zip(search.pairs, search.matches, strict=True))
    if not known and len(left) == len(right) and not fuzzy and _same(left, right):
        search.add_matches(
            (a, b, Match(a.row, b.row, "name", 1.0)) for a, b in zip(left, right, strict=True)
        )
        return
    # A sample says nothing of its own: it follows its tensor.
    samples = samples_of(left), samples_of(right)
    run_calls = _run_calls(left, samples[0]), _run_calls(right, samples[1])
    given = [(a, b) for (a, b), _ in known if a.site and b.site]
    numbered = _of_numbered_lines(*run_calls) if not given else []
    if not given and not numbered and search.figures is not None:
        numbered = visits_by_values(*run_calls, search.figures)
    pairs = _pair_visits(*run_calls, numbered, fuzzy=fuzzy)
    if given:
        if forced := forced_pairs(*run_calls, given, pairs):
            pairs = _pair_visits(*run_calls, forced, fuzzy=fuzzy)
        pairs = with_notes(*run_calls, given, pairs)
    taken = {a.row for (a, _), _ in known}, {b.row for (_, b), _ in known}
    is_cross = are_of_two_frameworks(*([item.name for item in side] for side in (left, right)))
    for side in (0, 1):
        search.alone[side].update({sample.row: ALONE for sample in samples[side].values()})
    found: list[tuple[Item, Item, Match]] = []
    for pair in pairs:
        leaves = pair_leaves(pair, is_cross=is_cross, given=taken)
        found += leaves.pairs
        for side in (0, 1):
            search.alone[side].update(leaves.alone[side])
    found += _parameters_of_modules(pairs, (left, right), found, taken)
    tensors = [*found, *((a, b, match) for (a, b), match in known)]
    for a, b, _ in tensors:
        for side, item in enumerate((a, b)):
            if item.row in samples[side]:
                search.alone[side][samples[side][item.row].row] = NOTHING_LIKE_IT
    search.add_matches([*found, *following(tensors, samples, taken)])


def _parameters_of_modules(
    pairs: Iterable[RunCallPair],
    sides: tuple[Sequence[Item], Sequence[Item]],
    found: Iterable[tuple[Item, Item, Match]],
    taken: tuple[set[int], set[int]],
) -> list[tuple[Item, Item, Match]]:
    """Parameters and buffers that a recorder saw at other calls of modules that belong together.

    They are the module's and not of the call at which it was asked for them first.
    """
    used = taken[0] | {a.row for a, _, _ in found}, taken[1] | {b.row for _, b, _ in found}
    partner = {p.left.path: (p.right.path, p.confidence) for p in pairs if p.left.is_module}
    known: tuple[dict[object, list[Item]], dict[object, list[Item]]] = ({}, {})
    for side, items in enumerate(sides):
        for item in items:
            if item.row in used[side] or not item.site or item.site.role not in _OF_MODULES:
                continue
            path = partner.get(item.path, ("", 0.0))[0] if side == 0 else item.path
            key = path, item.direction, item.site.role, item.site.slot
            known[side].setdefault(key, []).append(item)
    return [
        (mine[0], theirs[0], Match(mine[0].row, theirs[0].row, "site", partner[mine[0].path][1]))
        for key, mine in known[0].items()
        if len(mine) == len(theirs := known[1].get(key, [])) == 1
        and mine[0].path in partner
        and not shapes_differ(mine[0], theirs[0])
    ]


def _run_calls(items: Iterable[Item], samples: Mapping[int, Item]) -> list[RunCall]:
    rows = {sample.row for sample in samples.values()}
    return run_calls_of(item for item in items if item.row not in rows)


def _pair_visits(
    left: Sequence[RunCall], right: Sequence[RunCall], forced: Sequence[RunCallPair], *, fuzzy: bool
) -> list[RunCallPair]:
    """The calls that belong together: those that must, modules, then operators."""
    rest = unpaired(left, right, forced)
    modules = pair_modules(*(_of_modules(side, is_module=True) for side in rest))
    modules = [*(pair for pair in forced if pair.left.is_module), *modules]
    others = [_of_modules(side, is_module=False) for side in rest]
    calls = pair_calls(others[0], others[1], modules, fuzzy=fuzzy)
    found = [*modules, *(pair for pair in forced if not pair.left.is_module), *calls]
    return [*found, *of_equal_names(*unpaired(left, right, found), NAMES_ALONE)]


def _of_numbered_lines(left: Sequence[RunCall], right: Sequence[RunCall]) -> list[RunCallPair]:
    """Calls of equal names, where these count the lines of a file and nearly all are the same.

    So it is where lines of one file are broken: what is left of their calls is still the same.
    """
    sides = [
        {item.name: item for run_call in side for item in run_call.items} for side in (left, right)
    ]
    firsts = [parse_hook_name(next(iter(side))) for side in sides if side]
    if len(firsts) < 2 or any(first is None or first.number is None for first in firsts):
        return []
    same = sum(
        name in sides[1] and not shapes_differ(item, sides[1][name])
        for name, item in sides[0].items()
    )
    if same < SITES_SHARE * min(map(len, sides)):
        return []
    return of_equal_names(left, right, NAMED)


def _of_modules(run_calls: Iterable[RunCall], *, is_module: bool) -> list[RunCall]:
    return [run_call for run_call in run_calls if run_call.is_module == is_module]


def _same(left: Sequence[Item], right: Sequence[Item]) -> bool:
    """Whether both sides hold the same calls with the same shapes in the same order."""
    return all(
        (a.name, a.shape, a.direction, a.slot) == (b.name, b.shape, b.direction, b.slot)
        for a, b in zip(left, right, strict=True)
    )
