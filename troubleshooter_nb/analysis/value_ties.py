"""Which of several equal calls is the partner, where one side has more of them: values decide."""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from troubleshooter_nb.analysis.call_pairs import RunCallPair
from troubleshooter_nb.analysis.calls_of_run import RunCall, run_calls_of
from troubleshooter_nb.analysis.leaves import pair_leaves
from troubleshooter_nb.analysis.recorded_samples import ALONE, following, samples_of
from troubleshooter_nb.analysis.search import Item, Search, are_of_two_frameworks
from troubleshooter_nb.analysis.sequence import NEVER, align, longest_increasing
from troubleshooter_nb.analysis.value_figures import Figures, are_near, largest
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming.closeness import Likeness
from troubleshooter_nb.pairing import Match
from troubleshooter_nb.thresholds import DECIDED, DOUBTFUL, LEANING, TABLE_CELLS, TIED_LEAVES

# What it is worth that one role's values are the same; that a call does the same to its input, up
# to a factor, is worth twice as much. Gradients tell a little more: they depend on what was
# computed before them and on all that follows. Together they are below `_MOST_WORTH`.
_WORTH = {"forward": 60, "backward": 66}
_MOST_WORTH = 1 << 11
_NAMES = 200
_Pairs = list[tuple[int, int]]
_Numbers = tuple[list[int], list[int]]


@dataclass
class Settled:
    """What was found for a gap: new pairs, calls without one, and whose old pairs are void."""

    pairs: list[RunCallPair]
    alone: tuple[list[tuple[RunCall, str]], list[tuple[RunCall, str]]]
    void: list[RunCall]  # on the left


def settle_by_values(
    search: Search,
    figures: tuple[Figures, Figures],
    given: tuple[set[int], set[int]] = (set(), set()),
) -> None:
    """Decide anew, by values, which of equal calls are partners where one side has more of them.

    Between calls that are paired anyway the order of both sides stays, as many calls of one
    signature find a partner as before, and likeness of names goes before values. What is left
    open then is decided by calls whose values are nearly equal, or that do the same to their input:
    a call that is additional changes the values of all behind it, but not what they compute.
    Without such calls everything stays as it is.

    Parameters
    ----------
    search : Search
        With the pairs that names and order give.
    figures : (Figures, Figures)
        Of the left and the right dump.
    given : pair of sets of int
        Rows of both sides whose partner the user names: their calls are left alone.
    """
    if not search.left and not search.right:
        return
    items = [sorted((i for i in s if i.site), key=lambda i: i.position) for s in search.all]
    samples = samples_of(items[0]), samples_of(items[1])
    left, right = (_calls(side, of) for side, of in zip(items, samples, strict=True))
    settled = []
    for mine, theirs, old in _gaps_to_settle(search, left, right, given):
        if len(mine) * len(theirs) > TABLE_CELLS:
            continue
        place = {i: k for k, i in enumerate(mine)}, {j: k for k, j in enumerate(theirs)}
        gap = _Gap(
            ([left[i] for i in mine], [right[j] for j in theirs]),
            [(place[0][i], place[1][j]) for i, j in old],
            figures,
        )
        if (found := gap.settled()) is not None:
            settled.append(found)
    if settled:
        _take_over(search, settled, samples)


def _calls(items: Sequence[Item], samples: Mapping[int, Item]) -> list[RunCall]:
    rows = {sample.row for sample in samples.values()}
    run_calls = run_calls_of(item for item in items if item.row not in rows)
    return [run_call for run_call in run_calls if not run_call.is_module]


def _take_over(
    search: Search,
    settled: Sequence[Settled],
    samples: tuple[Mapping[int, Item], Mapping[int, Item]],
) -> None:
    is_cross = are_of_two_frameworks(*([item.name for item in side] for side in search.all))
    void = {item.row for one in settled for run_call in one.void for item in run_call.items}
    search.drop(void | {samples[0][row].row for row in void if row in samples[0]})
    found: list[tuple[Item, Item, Match]] = []
    for one in settled:
        for side, run_calls in enumerate(one.alone):
            for run_call, note in run_calls:
                search.alone[side].update((item.row, note) for item in run_call.items)
                rows = [i.row for i in run_call.items if i.row in samples[side]]
                search.alone[side].update((samples[side][row].row, ALONE) for row in rows)
        for pair in one.pairs:
            leaves = pair_leaves(pair, is_cross=is_cross)
            found += leaves.pairs
            for side in (0, 1):
                search.alone[side].update(leaves.alone[side])
    search.add_matches([*found, *following(found, samples, (set(), set()))])


def _gaps_to_settle(
    search: Search,
    left: Sequence[RunCall],
    right: Sequence[RunCall],
    given: tuple[set[int], set[int]],
) -> Iterator[tuple[list[int], list[int], _Pairs]]:
    """Stretches in which one side has more calls of a signature: those calls, and their pairs."""
    partners, busy = _partners(search, left, right, given)
    for place in _places(left, right, partners, busy):
        if not _more(left, right, place):
            continue
        counts = _counts(left, right, place)
        unique = [
            (i, j)
            for i, j in _inside(partners, place)
            if left[i].signature == right[j].signature
            and counts[0][left[i].signature] == counts[1][right[j].signature] == 1
        ]
        for stretch in _between(unique, place):
            more = _more(left, right, stretch)
            inside = _inside(partners, stretch)
            fixed = [
                (i, j)
                for i, j in inside
                if left[i].signature != right[j].signature or left[i].signature not in more
            ]
            kept = {i for i, _ in fixed}, {j for _, j in fixed}
            free = (
                [i for i in stretch[0] if left[i].signature in more and i not in kept[0]],
                [j for j in stretch[1] if right[j].signature in more and j not in kept[1]],
            )
            for gap in _between(fixed, free):
                old = _inside(partners, gap)
                if old and len(gap[0]) != len(gap[1]):
                    yield *gap, old


def _partners(
    search: Search,
    left: Sequence[RunCall],
    right: Sequence[RunCall],
    given: tuple[set[int], set[int]],
) -> tuple[dict[int, int], tuple[set[int], set[int]]]:
    """Calls that are each other's only partner, and those that may not change theirs."""
    of_row = [
        {item.row: k for k, run_call in enumerate(side) for item in run_call.items}
        for side in (left, right)
    ]
    found: tuple[dict[int, set[int]], dict[int, set[int]]] = defaultdict(set), defaultdict(set)
    busy: tuple[set[int], set[int]] = set(), set()
    for a, b in search.pairs:
        if a.row not in of_row[0] and b.row not in of_row[1]:
            continue  # of modules, or samples
        i, j = of_row[0].get(a.row, -1), of_row[1].get(b.row, -1)
        found[0][i].add(j)
        found[1][j].add(i)
    for side in (0, 1):
        busy[side].update(of_row[side][row] for row in given[side] if row in of_row[side])
        for number, others in found[side].items():
            if number < 0 or others & {-1} or len(others) > 1:
                busy[side].add(number)
                busy[1 - side].update(others)
    partners = {
        i: min(others)
        for i, others in found[0].items()
        if i not in busy[0] and not others & busy[1]
    }
    return partners, busy


def _places(
    left: Sequence[RunCall],
    right: Sequence[RunCall],
    partners: dict[int, int],
    busy: tuple[set[int], set[int]],
) -> Iterator[_Numbers]:
    """The calls of either side inside modules that belong together, as pairs in them show."""
    votes = Counter((left[i].parent, right[j].parent) for i, j in partners.items())
    chosen: dict[str, str] = {}
    for (mine, theirs), _ in sorted(votes.items(), key=lambda vote: (-vote[1], vote[0])):
        if mine not in chosen.values() or theirs not in chosen:
            chosen.setdefault(theirs, mine)
    inside: dict[str, _Numbers] = defaultdict(lambda: ([], []))
    for i, run_call in enumerate(left):
        if i not in busy[0]:
            inside[run_call.parent][0].append(i)
    for j, run_call in enumerate(right):
        if j not in busy[1] and run_call.parent in chosen:
            inside[chosen[run_call.parent]][1].append(j)
    yield from inside.values()


def _counts(
    left: Sequence[RunCall], right: Sequence[RunCall], numbers: _Numbers
) -> tuple[Counter[Hashable], Counter[Hashable]]:
    return (
        Counter[Hashable](left[i].signature for i in numbers[0]),
        Counter[Hashable](right[j].signature for j in numbers[1]),
    )


def _more(left: Sequence[RunCall], right: Sequence[RunCall], numbers: _Numbers) -> set[Hashable]:
    """Signatures of which both sides have calls there, and one has more."""
    mine, theirs = _counts(left, right, numbers)
    return {key for key in mine.keys() & theirs.keys() if mine[key] != theirs[key]}


def _inside(partners: dict[int, int], numbers: _Numbers) -> _Pairs:
    theirs = set(numbers[1])
    return [(i, partners[i]) for i in numbers[0] if partners.get(i) in theirs]


def _between(pairs: _Pairs, numbers: _Numbers) -> Iterator[_Numbers]:
    """The calls between two of these pairs, of the most pairs that stand in one order."""
    ordered = sorted(pairs)
    kept = [ordered[k] for k in longest_increasing([j for _, j in ordered])]
    gaps: dict[int, _Numbers] = defaultdict(lambda: ([], []))
    for side in (0, 1):
        bounds = [pair[side] for pair in kept]
        at = set(bounds)
        for number in numbers[side]:
            if number not in at:
                gaps[bisect.bisect(bounds, number)][side].append(number)
    for gap in sorted(gaps):
        if gaps[gap][0] and gaps[gap][1]:
            yield gaps[gap]


class _Gap:
    """Calls of both sides in one stretch, what their values say, and what follows from it."""

    def __init__(
        self,
        sides: tuple[list[RunCall], list[RunCall]],
        old: _Pairs,
        figures: tuple[Figures, Figures],
    ) -> None:
        self.left, self.right = sides
        self.old = old
        codes: dict[Hashable, int] = {}
        mine, theirs = (
            np.array([codes.setdefault(v.signature, len(codes)) for v in side], np.int64)
            for side in sides
        )
        self.same = mine[:, None] == theirs[None, :]
        self.worth = np.zeros(self.same.shape, np.int64)
        for code in range(len(codes)):
            rows, columns = np.flatnonzero(mine == code), np.flatnonzero(theirs == code)
            if len(rows) and len(columns):
                part = [self.left[i] for i in rows], [self.right[j] for j in columns]
                self.worth[np.ix_(rows, columns)] = Agreement(part, figures).worth()

    def settled(self) -> Settled | None:
        """The new pairs; None where values say nothing."""
        if not self.worth.any():
            return None
        new = self._aligned()
        if self._worth_of(new) <= self._worth_of(self.old) or len(new) < len(self.old):
            new = self.old
        pairs, void = [], []
        was = set(self.old)
        for i, j in new:
            confidence, note = self._judged(i, j)
            if (i, j) not in was or self.worth[i, j]:
                pairs.append(RunCallPair(self.left[i], self.right[j], "values", confidence, note))
                void.append(self.left[i])
        kept = set(new)
        void += [self.left[i] for i, j in self.old if (i, j) not in kept]
        taken = {i for i, _ in new}, {j for _, j in new}
        alone = (
            [(self.left[i], self._said(0, i)) for i in range(len(self.left)) if i not in taken[0]],
            [
                (self.right[j], self._said(1, j))
                for j in range(len(self.right))
                if j not in taken[1]
            ],
        )
        return Settled(pairs, alone, void)

    def _aligned(self) -> _Pairs:
        """As many pairs as possible, among those the likest names, among those the best values."""
        likeness = Likeness([v.path for v in self.left], [v.path for v in self.right])
        was = np.zeros(self.same.shape, bool)
        was[tuple(np.array(self.old).T)] = True
        shorter = min(self.same.shape)
        # Each reason outweighs all later ones together; what was paired before stays if it can.
        name = (2 * _MOST_WORTH + 1) * shorter + 1
        pair = name * (_NAMES + 1) * shorter

        def gain(i: int) -> np.ndarray:
            alike = np.round(_NAMES * likeness.row(i)).astype(np.int64)
            gains = pair + name * alike + 2 * self.worth[i] + was[i]
            return np.where(self.same[i], gains, NEVER)

        return align(gain, *self.same.shape)

    def _worth_of(self, pairs: _Pairs) -> int:
        return int(sum(self.worth[i, j] for i, j in pairs))

    def _judged(self, i: int, j: int) -> tuple[float, str]:
        """How sure a pair is against the best other partner of either, and what to say of it."""
        if not self.worth[i, j]:
            return DOUBTFUL, Message("calls.beside_decided")
        # Names tell the others apart.
        beside = [
            [k for k in np.flatnonzero(self.same[i]) if self.right[k].op == self.right[j].op],
            [k for k in np.flatnonzero(self.same[:, j]) if self.left[k].op == self.left[i].op],
        ]
        rivals = [self.worth[i, k] for k in beside[0] if k != j]
        rivals += [self.worth[k, j] for k in beside[1] if k != i]
        rival = max(rivals, default=0) / self.worth[i, j]
        count = min(max(map(len, beside)), 1 + abs(len(beside[0]) - len(beside[1])))
        for most, confidence in (DECIDED, LEANING):
            if rival <= most:
                return confidence, Message("calls.by_values", count=count)
        return DOUBTFUL, Message("calls.by_values_barely", count=count)

    def _said(self, side: int, number: int) -> str:
        mine, theirs = (self.left, self.right) if side == 0 else (self.right, self.left)
        same = self.same[number] if side == 0 else self.same[:, number]
        op = mine[number].op
        many = sum(v.op == op and v.signature == mine[number].signature for v in mine)
        few = sum(theirs[k].op == op for k in np.flatnonzero(same)) or np.count_nonzero(same)
        return Message("calls.outvalued", many=many, few=few)


class Agreement:
    """What the values of calls of one signature have in common, each left one with each right."""

    def __init__(
        self, sides: tuple[list[RunCall], list[RunCall]], figures: tuple[Figures, Figures]
    ) -> None:
        self.sides, self.figures = sides, figures
        self.size = len(sides[0]), len(sides[1])
        looked_at = [
            {
                item.row
                for run_call in side
                for items in _by_role(run_call).values()
                for item in items
            }
            for side in sides
        ]
        wanted = sum(of.cost(rows) for of, rows in zip(figures, looked_at, strict=True))
        self.read = figures[0].budget.spend(wanted)

    def worth(self) -> np.ndarray:
        """Worth of each pair, 0 where nothing agrees: int64, shape (left, right)."""
        total = np.zeros(self.size, np.int64)
        roles = [_by_role(side[0]) for side in self.sides]
        for direction, role in roles[0].keys() & roles[1].keys():
            count = min(len(of[direction, role]) for of in roles)
            for k in range(count):
                table = self._equal(direction, role, k)
                total += _telling(table) * (_WORTH[direction] // count)
        for direction, weight in _WORTH.items():
            total += _telling(self._same_doing(direction)) * 2 * weight
        return total + _telling(self._same_arguments()) * 2 * _WORTH["forward"]

    def _equal(self, direction: str, role: str, k: int) -> np.ndarray:
        """Where the values of one entry are nearly equal, by figures or by checksum."""
        items = [[_leaf(run_call, direction, role, k) for run_call in side] for side in self.sides]
        known = [self._figures(side, found) for side, found in enumerate(items)]
        tolerance = self._tolerance(items)
        table = np.array([are_near(one, known[1], tolerance) for one in known[0]], bool)
        texts = [self._checksums(side, found) for side, found in enumerate(items)]
        return np.logical_or(table.reshape(self.size), _equal_texts(texts[0], texts[1]))

    def _same_doing(self, direction: str) -> np.ndarray:
        """Where input and output are the same up to one factor, and not each by itself constant."""
        tables = []
        scales: list[np.ndarray] = []
        for role in ("input", "output"):
            items = [
                [_leaf(run_call, direction, role, 0) for run_call in side] for side in self.sides
            ]
            known = [self._figures(side, found) for side, found in enumerate(items)]
            scales = scales or [largest(side) for side in known]
            with np.errstate(divide="ignore", invalid="ignore"):
                one, other = (of / scale[:, None] for of, scale in zip(known, scales, strict=True))
            tolerance = self._tolerance(items)
            tables.append(np.array([are_near(row, other, tolerance) for row in one]))
        return np.asarray(tables[0] & tables[1]).reshape(self.size)

    def _same_arguments(self) -> np.ndarray:
        """Where all that is no tensor is the same."""
        texts = [
            [
                repr(
                    [(i.site.slot, i.site.value) for i in run_call.items if i.site and i.site.value]
                )
                for run_call in side
            ]
            for side in self.sides
        ]
        return _equal_texts(*([text.strip("[]") for text in side] for side in texts))

    def _figures(self, side: int, items: Sequence[Item | None]) -> np.ndarray:
        of = self.figures[side]
        unknown = np.full(of.width, np.nan)
        return np.array([of.of(i.row, read=self.read) if i else unknown for i in items])

    def _checksums(self, side: int, items: Sequence[Item | None]) -> list[str]:
        texts = [self.figures[side].checksum(item.row) if item else "" for item in items]
        counts = Counter(texts)
        # What several calls share may be a constant.
        return [text if counts[text] == 1 else "" for text in texts]

    def _tolerance(self, items: Sequence[Sequence[Item | None]]) -> float:
        found = (
            self.figures[side].tolerance(item.row)
            for side, of in enumerate(items)
            for item in of
            if item
        )
        return max(found, default=0.0)


def _by_role(run_call: RunCall) -> dict[tuple[str, str], list[Item]]:
    """The first few tensors of each direction and role."""
    found = {}
    for direction in _WORTH:
        for role in ("input", "parameter", "output"):
            tensors = [item for item in run_call.leaves(direction, role) if item.shape is not None]
            if tensors:
                found[direction, role] = tensors[:TIED_LEAVES]
    return found


def _leaf(run_call: RunCall, direction: str, role: str, k: int) -> Item | None:
    tensors = _by_role(run_call).get((direction, role), [])
    return tensors[k] if k < len(tensors) else None


def _equal_texts(left: Sequence[str], right: Sequence[str]) -> np.ndarray:
    codes: dict[str, int] = {"": -1}
    mine, theirs = (
        np.array([codes.setdefault(text, len(codes)) for text in side], np.int64)
        for side in (left, right)
    )
    return np.asarray((mine[:, None] == theirs[None, :]) & (mine >= 0)[:, None])


def _telling(table: np.ndarray) -> np.ndarray:
    """The table, or nothing where everything agrees with everything."""
    return np.zeros_like(table) if table.all() else table
