"""Pairs of calls as they are found, and how sure each of them is."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from troubleshooter_nb.analysis.call_order import interchangeable
from troubleshooter_nb.analysis.calls_of_run import RunCall
from troubleshooter_nb.analysis.search import Item, shapes_differ
from troubleshooter_nb.thresholds import DOUBTFUL, FITTING, LOOSE, STEADY, UNIQUE


@dataclass(frozen=True)
class RunCallPair:
    """Two calls that belong together, by which method and how surely."""

    left: RunCall
    right: RunCall
    method: str
    confidence: float
    note: str = ""


def of_equal_names(
    left: Iterable[RunCall], right: Iterable[RunCall], confidence: float
) -> list[RunCallPair]:
    """Calls most of whose entries are called alike and have no other shapes.

    Only names that occur once on each side count.
    """
    sides = _by_name(left), _by_name(right)
    votes: Counter[tuple[RunCall, RunCall]] = Counter()
    for name, (run_call, item) in sides[0].items():
        other, its_item = sides[1].get(name, (None, None))
        if other is None or its_item is None or shapes_differ(item, its_item):
            continue
        if run_call.is_module == other.is_module:
            votes[run_call, other] += 1
    taken: set[RunCall] = set()
    found = []
    for (a, b), _ in sorted(votes.items(), key=lambda one: (-one[1], one[0][0].position)):
        if a not in taken and b not in taken:
            taken |= {a, b}
            found.append(RunCallPair(a, b, "name", confidence))
    return found


def _by_name(run_calls: Iterable[RunCall]) -> dict[str, tuple[RunCall, Item]]:
    found: dict[str, list[tuple[RunCall, Item]]] = defaultdict(list)
    for run_call in run_calls:
        for item in run_call.items:
            found[item.name].append((run_call, item))
    return {name: one[0] for name, one in found.items() if len(one) == 1}


def order_confidence(
    left: Sequence[RunCall], right: Sequence[RunCall], pairs: Iterable[tuple[int, int, bool]]
) -> list[float]:
    """How sure pairs are that order and signature made.

    A call that is unique on both sides is surer than one of several equally many; one that comes
    out differently from the end of the run is a guess, and so is one whose neighbour could take its
    place, unless the values are the same and no other's.
    """
    counts = [Counter(run_call.signature for run_call in side) for side in (left, right)]
    values = [Counter(v.fingerprint for v in side if v.fingerprint) for side in (left, right)]
    free = interchangeable(left), interchangeable(right)
    found = []
    for i, j, is_steady in pairs:
        a, b = left[i], right[j]
        mine, theirs = counts[0][a.signature], counts[1][b.signature]
        same_values = bool(a.fingerprint) and a.fingerprint == b.fingerprint
        proved = same_values and values[0][a.fingerprint] == values[1][b.fingerprint] == 1
        # Another call has exactly the values of this one.
        elsewhere = not same_values and (
            values[1][a.fingerprint] == 1 or values[0][b.fingerprint] == 1
        )
        if a.signature != b.signature:
            sure = FITTING if a.core == b.core else LOOSE
            sure = sure if is_steady else DOUBTFUL
        elif proved:
            sure = UNIQUE
        elif not is_steady or elsewhere:
            sure = DOUBTFUL
        elif free[0][i] or free[1][j]:
            sure = FITTING if mine == theirs else DOUBTFUL
        elif mine == theirs == 1:
            sure = UNIQUE
        else:
            sure = STEADY if mine == theirs else FITTING
        found.append(sure)
    return found


def unpaired(
    left: Sequence[RunCall], right: Sequence[RunCall], pairs: Iterable[RunCallPair]
) -> tuple[list[RunCall], list[RunCall]]:
    """The calls of both sides that are in no pair, nor a member of a fused one that is."""
    mine: set[int] = set()
    theirs: set[int] = set()
    for pair in pairs:
        mine.update(map(id, pair.left.parts))
        theirs.update(map(id, pair.right.parts))
    return [v for v in left if id(v) not in mine], [v for v in right if id(v) not in theirs]
