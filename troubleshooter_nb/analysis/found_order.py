"""The order of execution where no file carries one: from values, and from numbers in names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from operator import or_
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.links import made_of
from troubleshooter_nb.analysis.marks import Marks
from troubleshooter_nb.analysis.row_sites import sites_of_rows
from troubleshooter_nb.comparison import Comparison, first_difference
from troubleshooter_nb.naming import CALL_KINDS, natural_key, parameters_of_gradients
from troubleshooter_nb.table import Table, finished
from troubleshooter_nb.thresholds import MOST_ORDERED

_NUMBER = re.compile(r"([0-9]{1,9})")
_SEPARATORS = "./_- "
_ROOTS = ("parameter", "buffer")
# What stands side by side, or counts down from a bottom: numbers behind these say no order.
_NO_SERIES = re.compile(
    r"(?i)(?:^|[./_-])(?:branch(?:es)?|experts?|heads?|towers?|streams?|paths?|groups?|levels?"
    r"|scales?|views?|dec|decode|up|p|out|lateral|fpn)[._-]?$"
)


@dataclass(frozen=True, eq=False)
class FoundOrder:
    """What is known of which rows come before which, among those without an order of saving.

    Attributes
    ----------
    rows : list of list of int
        Rows of the comparison of each call or saved tensor.
    before : list of int
        Of each the others that surely come before it, as bits.
    """

    rows: list[list[int]]
    before: list[int]

    @cached_property
    def of_row(self) -> dict[int, int]:
        """The number of the call or saved tensor of each row."""
        return {row: number for number, rows in enumerate(self.rows) for row in rows}

    @cached_property
    def behind(self) -> list[int]:
        """Of each the others that surely come after it, as bits."""
        found = [0] * len(self.before)
        for number, before in enumerate(self.before):
            for other in _bits(before):
                found[other] |= 1 << number
        return found

    def __contains__(self, row: int) -> bool:
        """Whether a row had to be put in order."""
        return row in self.of_row

    def rows_before(self, row: int) -> list[int]:
        """Rows that surely come before a row's call."""
        return [r for other in _bits(self.before[self.of_row[row]]) for r in self.rows[other]]

    def rows_open(self, row: int) -> list[int]:
        """Rows that may come before a row's call, or after it."""
        number = self.of_row[row]
        known = self.before[number] | self.behind[number] | 1 << number
        others = (1 << len(self.rows)) - 1 & ~known
        return [r for other in _bits(others) for r in self.rows[other]]

    def is_known(self, row: int) -> bool:
        """Whether it is known of all others whether they come before a row's call or after it."""
        number = self.of_row[row]
        count = (self.before[number] | self.behind[number]).bit_count()
        return count == len(self.rows) - 1

    def comes_first(self, row: int) -> bool:
        """Whether all others surely come after a row's call."""
        return self.behind[self.of_row[row]].bit_count() == len(self.rows) - 1


def in_found_order(comparison: Comparison) -> tuple[Comparison, list[FoundOrder]]:
    """The comparison with its unnumbered rows in the order that values and names tell.

    Parameters
    ----------
    comparison : Comparison
        As measured.

    Returns
    -------
    Comparison
        Rows that are not ordered against each other keep the order of their names; those of which
        all is known have `order_known`.
    list of FoundOrder
        One for each step and rank, forward and backward, that has rows without an order.
    """
    columns = comparison.columns
    is_backward = columns["direction"] == "backward"
    is_root = np.isin(columns["role"], _ROOTS) & ~is_backward
    open_rows = np.flatnonzero(~columns["order_known"] & ~is_root)
    if len(open_rows) < 2:
        return comparison, []
    site, _ = sites_of_rows(comparison)
    marks = Marks(columns, (comparison.pairing.left, comparison.pairing.right))
    places = [*columns.rows("step", "rank")]
    groups: dict[Any, list[int]] = defaultdict(list)
    for row in open_rows.tolist():
        groups[places[row], bool(is_backward[row])].append(row)
    listed = _listed(site["path"][is_root & columns["order_known"]].tolist())
    order = np.arange(len(comparison))
    found = []
    for (place, back), rows in groups.items():
        calls = _Calls(comparison, site, rows)
        before = [0] * len(calls.rows)
        if len(calls.rows) <= MOST_ORDERED:
            before = calls.backward_order(listed) if back else calls.order(marks, place)
        order[rows] = [row for number in _sorted(before) for row in calls.rows[number]]
        found.append(FoundOrder(calls.rows, before))
    place_of = np.empty_like(order)
    place_of[order] = np.arange(len(order))
    found = [
        replace(one, rows=[[int(place_of[r]) for r in rs] for rs in one.rows]) for one in found
    ]
    known = columns["order_known"][order]
    for one in found:
        for row in one.of_row:
            known[row] = one.is_known(row)
    return _reordered(comparison, order, place_of, known), found


def _reordered(
    comparison: Comparison, order: np.ndarray, place_of: np.ndarray, known: np.ndarray
) -> Comparison:
    result = comparison.result.isel(pair=order)
    columns = {"order": np.arange(len(order)), "order_known": known}
    result = result.assign(
        {name: finished(("pair",), values, result[name].attrs) for name, values in columns.items()}
    )
    result.attrs["first_divergence"] = first_difference(
        Table({str(name): column.values for name, column in result.data_vars.items()})
    )
    evidence = {int(place_of[row]): one for row, one in comparison.evidence.items()}
    return replace(comparison, result=result, evidence=evidence)


class _Calls:
    """Calls and saved tensors of one step and rank that no file puts in order."""

    def __init__(
        self, comparison: Comparison, site: Mapping[str, np.ndarray], rows: Sequence[int]
    ) -> None:
        self._comparison, self._columns = comparison, comparison.columns
        self._role = site["role"]
        grouped: dict[Any, list[int]] = defaultdict(list)
        self.names: list[str] = []
        for row in rows:
            is_call = site["kind"][row] in CALL_KINDS
            key = (site["kind"][row], site["path"][row], site["call"][row]) if is_call else row
            if key not in grouped:
                self.names.append(str(site["path"][row]))
            grouped[key].append(row)
        # What goes in comes before what comes out, whatever the two are called.
        self.rows = [sorted(some, key=self._is_result) for some in grouped.values()]

    def _is_result(self, row: int) -> bool:
        return bool(self._role[row] != "input")

    def order(self, marks: Marks, place: Any) -> list[int]:
        """Of each call the others before it, as bits: by values, and by numbers that fit them."""
        by_values = _closed(_without_circles(self._links(marks, place)))
        numbers = [one for one in _series(self.names) if not _contradicts(one, by_values)]
        edges = list(by_values)
        for one in numbers:
            for number, earlier in one.items():
                edges[number] |= earlier
        both = _closed(edges)
        # Numbers that contradict each other by way of values tell nothing.
        return by_values if any(both[k] >> k & 1 for k in range(len(both))) else both

    def backward_order(self, listed: Sequence[str]) -> list[int]:
        """Of each gradient the others before it: what stands later in a checkpoint beside them.

        Without one what has the larger number, as far as that tells. Gradients do not link: that of
        one layer's parameters is no other's.

        Parameters
        ----------
        listed : sequence of str
            Names of parameters in the order of the network; none where no file tells it.
        """
        later = [0] * len(self.rows)
        position = {name: place for place, name in enumerate(listed)}
        own = parameters_of_gradients(self.names, listed) if listed else {}
        placed = [position.get(own.get(name, ""), -1) for name in self.names]
        if min(placed) >= 0:
            bits = [0] * len(listed)
            for number, place in enumerate(placed):
                bits[place] |= 1 << number
            behind = [0, *accumulate(reversed(bits), or_)]
            return [behind[len(listed) - 1 - place] for place in placed]
        for series in _series(self.names):
            for number, earlier in series.items():
                for other in _bits(earlier):
                    later[other] |= 1 << number
        closed = _closed(later)
        is_circle = any(mask >> number & 1 for number, mask in enumerate(closed))
        return [0] * len(closed) if is_circle else closed

    def _links(self, marks: Marks, place: Any) -> list[int]:
        """Of each call those whose results it was given, as bits."""
        found = [0] * len(self.rows)
        made: dict[int, set[int]] = defaultdict(set)
        inputs: dict[int, list[int]] = {}
        for number, rows in enumerate(self.rows):
            for row in rows:
                known = [mark for mark in marks.of(row, (place, "forward")) if mark is not None]
                if not self._is_result(row):
                    inputs[row] = known
                elif self._role[row] == "output":
                    for mark in known:
                        made[mark].add(number)
        of_row = {row: number for number, rows in enumerate(self.rows) for row in rows}
        unmade = []
        for row, known in inputs.items():
            sources = set().union(*(made.get(mark, set()) for mark in known)) - {of_row[row]}
            for source in sources:
                found[of_row[row]] |= 1 << source
            if not sources:
                unmade.append(row)
        lone = [row for row in of_row if self._role[row] not in ("input", "output")]
        for row, makers in made_of(self._comparison, [*unmade, *lone], [*of_row]).items():
            for source in makers:
                # What was given to another call as well was there before both.
                if of_row[source] != of_row[row] and self._is_result(source):
                    found[of_row[row]] |= 1 << of_row[source]
        return found


def _listed(names: Sequence[str]) -> list[str]:
    """Names of parameters as a file lists them; none where that is the order of the alphabet."""
    found = list(dict.fromkeys(names))
    return [] if found in (sorted(found), sorted(found, key=natural_key)) else found


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _without_circles(edges: Sequence[int]) -> list[int]:
    """The edges without those between calls that would each come before the other."""
    reach = _closed(edges)
    circle = [
        sum(1 << other for other in _bits(mask) if reach[other] >> number & 1)
        for number, mask in enumerate(reach)
    ]
    return [mask & ~circle[number] for number, mask in enumerate(edges)]


def _closed(edges: Sequence[int]) -> list[int]:
    """All that comes before each, at any distance."""
    reach = list(edges)
    for middle in range(len(reach)):
        bit, through = 1 << middle, reach[middle]
        for number, mask in enumerate(reach):
            if mask & bit:
                reach[number] = mask | through
    return reach


def _series(names: Sequence[str]) -> Iterator[dict[int, int]]:
    """Calls whose names are the same up to a number that counts: of each the earlier ones.

    ``layers.3.attn`` comes before ``layers.4.mlp`` and ``conv1`` before ``conv2``; ``conv1x1`` and
    ``conv3x3`` do not count, nor do ``bn1d`` and ``bn2d``, nor what stands side by side, as
    ``experts.0``, or may count down, as ``dec1``.
    """
    counted: dict[tuple[str, bool], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for number, name in enumerate(names):
        parts = _NUMBER.split(name)
        for at in range(1, len(parts), 2):
            before, behind = "".join(parts[:at]), parts[at + 1]
            if behind[:1].isalpha() or _NO_SERIES.search(before):
                continue
            is_index = before[-1:] in _SEPARATORS
            counted[before, is_index][int(parts[at])] |= 1 << number
    for (_, is_index), members in counted.items():
        values = sorted(members)
        steady = values == [*range(values[0], values[0] + len(values))]
        if len(values) < 2 or not (is_index or (steady and values[0] <= 1)):
            continue
        earlier, found = 0, dict[int, int]()
        for value in values:
            found |= {number: earlier for number in _bits(members[value])}
            earlier |= members[value]
        yield found


def _contradicts(series: Mapping[int, int], before: Sequence[int]) -> bool:
    """Whether values say of a call that it comes before one of a smaller number."""
    return any(
        before[other] >> number & 1
        for number, earlier in series.items()
        for other in _bits(earlier)
    )


def _sorted(before: Sequence[int]) -> list[int]:
    """The calls, each behind all that come before it; else as they stand."""
    found: list[int] = []
    done, waiting = 0, list(range(len(before)))
    while waiting:
        # Without circles there is always one.
        at = next((k for k, number in enumerate(waiting) if not before[number] & ~done), 0)
        number = waiting.pop(at)
        found.append(number)
        done |= 1 << number
    return found
