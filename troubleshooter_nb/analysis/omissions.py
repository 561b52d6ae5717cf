"""What a comparison of two dumps left out or could not see, as the gaps that its verdict states."""

from __future__ import annotations

import numpy as np

from troubleshooter_nb.gaps import Gap, gaps_of_notes
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.verdict import Tolerance
from troubleshooter_nb.pairing import Pairing
from troubleshooter_nb.render.numbers import scientific
from troubleshooter_nb.table import Table


def gaps_of(columns: Table, pairing: Pairing, tolerance: Tolerance) -> tuple[Gap, ...]:
    """Everything that the verdicts of the pairs do not say.

    Parameters
    ----------
    columns : Table
        Of a `Comparison.result`.
    pairing : Pairing
    tolerance : Tolerance
    """
    found = gaps_of_notes("left", pairing.left.notes)
    found += gaps_of_notes("right", pairing.right.notes)
    found += _without_values(columns, pairing)
    found += _by_fingerprints(columns)
    found += _share(columns)
    found += _unseen(columns, tolerance)
    return tuple(found)


def _share(columns: Table) -> list[Gap]:
    """Where most of what there is has no partner, be it expected or not."""
    total, alone = len(columns), int(np.count_nonzero(columns["verdict"] == "missing"))
    if not 0 < total - alone < alone:
        return []
    # A partner that is missing and was not expected to counts by its own verdict.
    return [Gap(Message("gaps.share", count=total - alone, total=total), 0)]


def _without_values(columns: Table, pairing: Pairing) -> list[Gap]:
    """Where a side has statistics alone, and they left something open."""
    if not (columns["verdict"] == "undecidable").any():
        return []
    sides = [
        side
        for side, dump in (("left", pairing.left), ("right", pairing.right))
        if len(dump) and not any(source is not None for source in dump.sources)
    ]
    if not sides:
        return []
    # What that leaves open is counted pair by pair: checksums may prove the rest.
    return [Gap(Message(f"gaps.no_values_{'both' if len(sides) == 2 else sides[0]}"), 0)]


def _by_fingerprints(columns: Table) -> list[Gap]:
    """Pairs that pass by their fingerprints, which say nothing of single elements."""
    passes = np.isin(columns["reason_id"], ("fingerprints_agree", "fingerprints_rounding"))
    count = int(np.count_nonzero(passes))
    return [Gap(Message("gaps.by_fingerprints", count=count), 0)] if count else []


def _unseen(columns: Table, tolerance: Tolerance) -> list[Gap]:
    """Pairs that pass whatever their values are, as none is larger than atol."""
    figures = [columns[f"{side}_{name}"] for side in ("left", "right") for name in ("min", "max")]
    largest = np.abs(figures).max(axis=0)
    unseen = (columns["reason_id"] == "pass_blind") & (largest <= tolerance.atol)
    count = int(np.count_nonzero(unseen))
    if not count:
        return []
    decided = ~np.isin(columns["verdict"], ("missing", "unreadable", "undecidable"))
    others = int(np.count_nonzero(decided & ~unseen))
    said = Message("gaps.below_atol", count=count, atol=scientific(tolerance.atol))
    # As with statistics: nothing follows from a comparison most of which saw nothing.
    return [Gap(said, 2 if count > others else 0)]
