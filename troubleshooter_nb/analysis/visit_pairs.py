"""Pairs of calls as they are found, and how sure each of them is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from troubleshooter_nb.analysis.visit_order import interchangeable
from troubleshooter_nb.analysis.visits import Visit

# What each reason is worth. No guess is above SUREST: a wrong pair must never look certain.
NAMED, RENAMED, UNIQUE, STEADY, SUREST, DOUBTFUL = 0.98, 0.95, 0.93, 0.9, 0.9, 0.5


@dataclass(frozen=True)
class VisitPair:
    """Two calls that belong together, by which method and how surely."""

    left: Visit
    right: Visit
    method: str
    confidence: float
    note: str = ""


def order_confidence(
    left: Sequence[Visit], right: Sequence[Visit], pairs: Iterable[tuple[int, int, bool]]
) -> list[float]:
    """How sure pairs are that order and signature made.

    A call that is unique on both sides is surer than one of several equally many; one that comes
    out differently from the end of the run is a guess, and so is one whose neighbour could take its
    place, unless the values are the same and no other's.
    """
    counts = [Counter(visit.signature for visit in side) for side in (left, right)]
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
            sure = 0.85 if a.core == b.core else 0.7
            sure = sure if is_steady else DOUBTFUL
        elif proved:
            sure = UNIQUE
        elif not is_steady or elsewhere:
            sure = DOUBTFUL
        elif free[0][i] or free[1][j]:
            sure = 0.85 if mine == theirs else DOUBTFUL
        elif mine == theirs == 1:
            sure = UNIQUE
        else:
            sure = STEADY if mine == theirs else 0.85
        found.append(sure)
    return found


def unpaired(
    left: Sequence[Visit], right: Sequence[Visit], pairs: Iterable[VisitPair]
) -> tuple[list[Visit], list[Visit]]:
    """The calls of both sides that are in no pair, nor a member of a fused one that is."""
    mine: set[int] = set()
    theirs: set[int] = set()
    for pair in pairs:
        mine.update(map(id, pair.left.parts))
        theirs.update(map(id, pair.right.parts))
    return [v for v in left if id(v) not in mine], [v for v in right if id(v) not in theirs]
