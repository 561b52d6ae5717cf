"""Pairs of entries that know the call they were seen in: calls first, then what is in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from troubleshooter_nb.analysis.calls import pair_calls
from troubleshooter_nb.analysis.leaves import pair_leaves
from troubleshooter_nb.analysis.renaming import pair_modules
from troubleshooter_nb.analysis.search import Item, Search
from troubleshooter_nb.analysis.visits import Visit, visits_of
from troubleshooter_nb.pairing import Match

_MINDSPORE_NAMES = ("Cell.", "Primitive.", "Mint.", "MintFunctional.")


def by_sites(search: Search, *, fuzzy: bool = False) -> None:
    """Pair the entries with a call site on both sides.

    Parameters
    ----------
    search : Search
        Gets the pairs, and a word about what stays alone inside calls that belong together.
    fuzzy : bool
        Ignore the numbers of calls of operators, keep their order.
    """
    left, right = (
        sorted((item for item in side if item.site), key=lambda item: item.position)
        for side in (search.left, search.right)
    )
    if not left or not right:
        return
    if len(left) == len(right) and not fuzzy and _same(left, right):
        search.add_matches(
            (a, b, Match(a.row, b.row, "name", 1.0)) for a, b in zip(left, right, strict=True)
        )
        return
    visits = visits_of(left), visits_of(right)
    modules = pair_modules(*(_of_modules(side, is_module=True) for side in visits))
    others = [_of_modules(side, is_module=False) for side in visits]
    calls = pair_calls(others[0], others[1], modules, fuzzy=fuzzy)
    is_cross = _is_mindspore(left) != _is_mindspore(right)
    for pair in (*modules, *calls):
        leaves = pair_leaves(pair, is_cross=is_cross)
        search.pairs += [(a, b) for a, b, _ in leaves.pairs]
        search.matches += [match for _, _, match in leaves.pairs]
        for side in (0, 1):
            search.alone[side].update(leaves.alone[side])
    search.add_matches(())


def _of_modules(visits: Iterable[Visit], *, is_module: bool) -> list[Visit]:
    return [visit for visit in visits if visit.is_module == is_module]


def _same(left: Sequence[Item], right: Sequence[Item]) -> bool:
    """Whether both sides hold the same calls with the same shapes in the same order."""
    return all(
        a.name == b.name and a.shape == b.shape and a.direction == b.direction
        for a, b in zip(left, right, strict=True)
    )


def _is_mindspore(items: Iterable[Item]) -> bool:
    return any(item.name.startswith(_MINDSPORE_NAMES) for item in items)
