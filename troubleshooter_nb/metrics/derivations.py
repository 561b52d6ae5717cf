"""How one tensor derives from another in one step or two, recognised from values alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.arrangements import (
    Arguments,
    arranged,
    axis_orders,
    axis_view,
    described_order,
    named_order,
    row_order,
)
from troubleshooter_nb.metrics.floats import unit_roundoff
from troubleshooter_nb.metrics.ranges import InMemory, held, size_of
from troubleshooter_nb.metrics.relations import Relation, relation_between, relation_said
from troubleshooter_nb.metrics.signatures import (
    match_rows,
    nearest,
    remainder_norm,
    row_signatures,
    searchable,
    spread_of,
    values_of,
)
from troubleshooter_nb.ranges import Readable, whole
from troubleshooter_nb.thresholds import (
    FEWEST_EQUAL_ROWS,
    FEWEST_OF_FIRST_STEP,
    LARGEST_HELD,
    MOST_FIRST_STEPS,
    NEGLIGIBLE_RESIDUAL,
    SAME_PROFILE,
    SHORTEST_CHOSEN_ROW,
)

_SCALARS = ("scale", "offset")
# What is no step towards right: nothing was done, or right holds values that left lacks.
_NO_STEP = ("identical", "close", "cast", "pad")
_QUANTILES = 16


@dataclass(frozen=True, slots=True)
class Derivation:
    """What turns one tensor into another, step by step.

    Attributes
    ----------
    steps : tuple of Relation
        One or two, in the order in which they are applied.
    """

    steps: tuple[Relation, ...]

    @property
    def kind(self) -> str:
        """The kind of its one step; "steps" of several."""
        return self.steps[0].kind if len(self.steps) == 1 else "steps"

    @property
    def residual(self) -> float:
        """That of its last step, which is of all values; see `Relation`."""
        return self.steps[-1].residual

    @property
    def rival(self) -> float:
        """That of its last step; see `Relation`."""
        return self.steps[-1].rival

    def apply(self, left: np.ndarray) -> np.ndarray:
        """The values that `left` turns into, as `Relation.apply` gives them step by step."""
        for step in self.steps:
            left = step.apply(left)
        return left

    def said(self, **sides: str) -> Message:
        """It in a sentence; `left` and `right` are other words for the sides."""
        if len(self.steps) == 1:
            return _said(self.steps[0], sides)
        first = _said(self.steps[0], {**sides, "right": Message("values.between")})
        second = _said(self.steps[1], {**sides, "left": Message("values.that_array")})
        return Message("values.two_steps", first=first, second=second)


def _said(step: Relation, sides: Mapping[str, str]) -> Message:
    return relation_said(step.kind, step.arguments, **sides)


def derivation_between(
    left: Readable, right: Readable, *, tolerance: float = 1e-2
) -> Derivation | None:
    """What turns left into right: one relation, else the first two that do, or None.

    Parameters
    ----------
    left, right : Readable
        As for `troubleshooter_nb.metrics.relations.relation_between`, which one step is left to.
    tolerance : float
        Largest residual, as there.

    Raises
    ------
    ValueError
        If a dtype holds no numbers.
    ReadError
        If a tensor cannot be read.

    Notes
    -----
    Two steps are looked for in tensors of up to ``2**22`` elements: a factor or a shift before
    anything else; axes in another order, reversed or reshaped before other rows, parts or
    repetitions; rows of two axes in other orders; and any choice of rows along one axis. What is
    tried first is told by figures that the second step leaves as they are: norm and mean of all
    values, and the norms along the other axes.
    """
    left, right = held(left), held(right)
    found = relation_between(left, right, tolerance=tolerance)
    if found is not None and found.kind != "pad":
        return Derivation((found,))
    sizes = size_of(left), size_of(right)
    if min(sizes) >= FEWEST_OF_FIRST_STEP and max(sizes) <= LARGEST_HELD:
        coarse = max(unit_roundoff(left.dtype), unit_roundoff(right.dtype))
        search = _Search(_array(left), _array(right), max(tolerance, coarse))
        if two := search.found():
            return Derivation(two)
    return None if found is None else Derivation((found,))


def _array(source: Readable) -> np.ndarray:
    return values_of(whole(source))


@dataclass(frozen=True)
class _Search:
    """A search for two steps, of arrays as `values_of` gives them."""

    left: np.ndarray
    right: np.ndarray
    tolerance: float

    def found(self) -> tuple[Relation, ...] | None:
        """The steps, the simpler ones first."""
        if any(spread_of(side).constant for side in (self.left, self.right)):
            return None
        for first in itertools.islice(self._first_steps(), MOST_FIRST_STEPS):
            made = first.apply(self.left)
            second = relation_between(
                InMemory(made), InMemory(self.right), tolerance=self.tolerance
            )
            if second is None and first.kind not in _SCALARS:
                chosen = replace(self, left=made)._chosen_rows() or ()
                second = chosen[0] if len(chosen) == 1 else None
            if second is None or second.kind in _NO_STEP:
                continue
            if first.kind not in _SCALARS and second.kind in _SCALARS:
                continue
            return self._fitted(first, second) if first.kind in _SCALARS else (first, second)
        return self._chosen_rows() or self._reshaped_last()

    def _reshaped_last(self) -> tuple[Relation, ...] | None:
        """Right in another shape is some rows of left, or its rows in another order."""
        theirs = self.right.shape
        for shape in dict.fromkeys([self.left.shape, *_merged(theirs, self.left.shape)]):
            if shape == theirs or math.prod(shape) != self.right.size:
                continue
            wanted = self.right.reshape(shape)
            found = relation_between(
                InMemory(self.left), InMemory(wanted), tolerance=self.tolerance
            )
            steps: tuple[Relation, ...] = (
                () if found is None or found.kind in _NO_STEP else (found,)
            )
            if shape != self.left.shape:
                steps = steps or replace(self, right=wanted)._chosen_rows() or ()
            if len(steps) == 1:
                last = _step("reshape", {"shape": theirs})
                return *steps, replace(last, residual=steps[0].residual)
        return None

    def _fitted(self, first: Relation, second: Relation) -> tuple[Relation, ...]:
        """The factor and shift with the least error, now that the places of all are known."""
        affine = second.kind in _SCALARS
        placed = self.left if affine else second.apply(self.left)
        made, right = (
            searchable(values_of(side)).reshape(-1).astype(np.float64)
            for side in (placed, self.right)
        )
        if affine:
            away = made - made.mean()
            factor = float(away @ right) / float(away @ away)
            first = _step("scale", {"scale": factor})
            shift = float((right - factor * made).mean())
            second = replace(_step("offset", {"offset": shift}), rival=second.rival)
        elif first.kind == "scale":
            first = _step("scale", {"scale": float(made @ right) / float(made @ made)})
        else:
            first = _step("offset", {"offset": float((right - made).mean())})
        again = second.apply(first.apply(self.left))
        residual = remainder_norm(again, self.right) / spread_of(self.right).centred
        return first, replace(second, residual=residual)

    def _first_steps(self) -> Iterator[Relation]:
        yield from self._scalars()
        yield from self._orders()
        yield from self._rows_of_two_axes()

    def _scalars(self) -> Iterator[Relation]:
        """Factors and shifts that give left the norm and the mean of right."""
        ours, theirs = spread_of(self.left), spread_of(self.right)
        counts = self.left.size, self.right.size
        if self.left.dtype.kind == "c" or not ours.norm:
            return
        ratio = theirs.norm / ours.norm * math.sqrt(counts[0] / counts[1])
        wide = theirs.centred / ours.centred * math.sqrt(counts[0] / counts[1])
        means = float(ours.mean.real), float(theirs.mean.real)
        near = self.tolerance
        if abs(wide - 1.0) < near:
            yield _step("offset", {"offset": means[1] - means[0]})
        sign = -1.0 if means[0] * means[1] < 0 else 1.0
        for factor in dict.fromkeys((sign * ratio, -sign * ratio, wide, -wide)):
            if abs(factor - 1.0) >= near:
                yield _step("scale", {"scale": factor})

    def _orders(self) -> Iterator[Relation]:
        """Orders of axes, shapes and turned axes, as far as the norms along the others agree."""
        ours, theirs = self.left.shape, self.right.shape
        if self.left.size != self.right.size:
            for axes in itertools.permutations(range(len(ours))):
                shape = tuple(ours[axis] for axis in axes)
                if _may_hold(shape, theirs):
                    plain: Arguments = {"axes": axes}
                    kept = [i for i, n in enumerate(shape) if theirs[i : i + 1] == (n,)]
                    if axes != tuple(range(len(ours))):
                        yield _step(*named_order(plain, ours, shape))
                    for axis in kept if len(shape) == len(theirs) else ():
                        yield _step(*named_order(plain | {"flip": (axis,)}, ours, shape))
            if not _may_hold(ours, theirs) or len(ours) != len(theirs):
                yield from (_step("reshape", {"shape": s}) for s in _merged(ours, theirs))
            return
        wanted = _profiles(self.right)
        seen: set[tuple[int, ...]] = set()
        as_stored = tuple(range(len(ours)))
        for arguments in axis_orders(ours, theirs):
            if "flip" in arguments:
                break  # they come last, and follow from the norms
            view = axis_view(arguments, self.left).reshape(theirs)
            mine = _profiles(view)
            for free, flips in _agreeing(mine, wanted):
                same = arguments == {"axes": as_stored} and not flips
                key = (*view.strides, free, *flips)
                if same or key in seen:
                    continue
                seen.add(key)
                given: Arguments = dict(arguments)
                if flips and "shape" in given:
                    continue  # a shape comes after what is turned around
                if flips:
                    given["flip"] = flips
                yield _step(*named_order(given, ours, theirs))

    def _rows_of_two_axes(self) -> Iterator[Relation]:
        """Rows of an axis matched by what other orders within them leave as it is."""
        if self.left.ndim < 2 or self.left.ndim != self.right.ndim:
            return
        pairs = [*zip(self.left.shape, self.right.shape, strict=True)]
        if sum(ours != theirs for ours, theirs in pairs) > 1 or self.right.size % self.left.size:
            return
        for axis, (rows, theirs) in enumerate(pairs):
            if rows < 2 or rows != theirs:
                continue
            pool, queries = (_unordered_rows(side, axis) for side in (self.left, self.right))
            order = match_rows(pool, queries, 4.0 * self.tolerance)
            if order is None or np.array_equal(order, np.arange(rows)):
                continue
            for kind, arguments in described_order(order, axis):
                if np.array_equal(row_order(kind, arguments, rows), order):
                    yield _step(kind, arguments)
                    break

    def _chosen_rows(self) -> tuple[Relation, ...] | None:
        """Right is some rows of left, in any order and as often as may be, scaled or shifted."""
        ours, theirs = self.left.shape, self.right.shape
        if len(ours) != len(theirs) or self.left.dtype.kind == "c":
            return None
        unequal = [axis for axis, rows in enumerate(ours) if rows != theirs[axis]]
        if len(unequal) > 1:
            return None
        for axis in unequal or range(len(ours)):
            if found := self._chosen_along(axis):
                return found
        return None

    def _chosen_along(self, axis: int) -> tuple[Relation, ...] | None:
        if self.right.size // self.right.shape[axis] < SHORTEST_CHOSEN_ROW:
            return self._equal_rows(axis)
        mine, wanted = (_Directions(side, axis) for side in (self.left, self.right))
        if not (mine.are_distinct or wanted.are_distinct):
            return None
        ways = [(*mine.matched(wanted, sign), sign) for sign in (1.0, -1.0)]
        order, distance, sign = min(ways, key=lambda way: way[1])
        if distance > 4.0 * self.tolerance:
            return None
        factor = sign * float(np.median(wanted.lengths / mine.lengths[order]))
        shift = float(np.median(wanted.means - factor * mine.means[order]))
        chosen = {"axis": axis, "order": tuple(order.tolist())}
        for first in (
            [],
            [_step("scale", {"scale": factor})],
            [_step("offset", {"offset": shift})],
        ):
            if found := self._holding(first, chosen):
                return found
        return None

    def _equal_rows(self, axis: int) -> tuple[Relation, ...] | None:
        """Rows of too few values for a signature, as those of a bias: each equals one of left."""
        mine, wanted = (
            np.moveaxis(side, axis, 0).reshape(side.shape[axis], -1).tolist()
            for side in (self.left, self.right)
        )
        place = {tuple(row): at for at, row in reversed([*enumerate(mine)])}
        order = [place.get(tuple(row), -1) for row in wanted]
        if min(order) < 0 or len(set(order)) < FEWEST_EQUAL_ROWS:
            return None
        chosen = {"axis": axis, "order": tuple(order)}
        return (Relation("rows", chosen, 0.0, math.inf, relation_said("rows", chosen)),)

    def _holding(self, first: list[Relation], chosen: Arguments) -> tuple[Relation, ...] | None:
        """A first step, if any, and chosen rows, if they give right."""
        given = first[0].apply(self.left) if first else self.left
        made = arranged("rows", chosen, given)
        residual = remainder_norm(made, self.right) / spread_of(self.right).centred
        rows, width = self.left.shape[chosen["axis"]], self.right.size // len(chosen["order"])
        # Digits in which one row agrees, less those that choosing it among all may explain.
        by_chance = math.log10(rows) + width * math.log10(max(residual, NEGLIGIBLE_RESIDUAL))
        if not residual <= self.tolerance or by_chance > -4.0:
            return None
        text = relation_said("rows", chosen)
        return (*first, Relation("rows", chosen, residual, math.inf, text))


class _Directions:
    """Rows along an axis without their mean and length."""

    def __init__(self, array: np.ndarray, axis: int) -> None:
        rows = np.moveaxis(searchable(array), axis, 0).reshape(array.shape[axis], -1)
        rows = rows.astype(np.float64)
        self.means = rows.mean(axis=1)
        rows -= self.means[:, None]
        self.lengths = np.linalg.norm(rows, axis=1) + np.finfo(np.float64).tiny
        self._signatures = row_signatures(rows / self.lengths[:, None], 0)

    @property
    def are_distinct(self) -> bool:
        """Whether no two rows point the same way, so that each can be told from the others."""
        rows = np.round(self._signatures, 6)
        return len(np.unique(rows, axis=0)) == len(rows)

    def matched(self, wanted: _Directions, sign: float) -> tuple[np.ndarray, float]:
        """The row here of each row there, and the median distance over the usual length."""
        order, distance, _ = nearest(self._signatures, sign * wanted._signatures)
        usual = float(np.sqrt(np.mean(np.square(wanted._signatures).sum(1))))
        return order, float(np.median(distance)) / usual if usual else math.inf


def _step(kind: str, arguments: Arguments) -> Relation:
    text = relation_said(kind, arguments)
    return Relation(kind, arguments, math.nan, math.inf, text)  # type: ignore[arg-type]


def _may_hold(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether shapes differ along one axis alone, or one of them has an axis more."""
    if len(shape) == len(other):
        return sum(mine != theirs for mine, theirs in zip(shape, other, strict=True)) == 1
    return abs(len(shape) - len(other)) == 1


def _merged(shape: tuple[int, ...], other: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Shapes of the other's rank in which all axes but one have its lengths."""
    size = math.prod(shape)
    for axis in range(len(other)):
        rest = math.prod(other[:axis]) * math.prod(other[axis + 1 :])
        if rest and size % rest == 0:
            yield (*other[:axis], size // rest, *other[axis + 1 :])


def _profiles(array: np.ndarray) -> list[np.ndarray]:
    """The norms along each axis, shape (length of the axis,) each."""
    squares = np.square(searchable(array).astype(np.float64))
    found = []
    for axis in range(array.ndim):
        others = tuple(other for other in range(array.ndim) if other != axis)
        found.append(np.sqrt(squares.sum(axis=others)))
    return found


def _agreeing(
    mine: list[np.ndarray], wanted: list[np.ndarray]
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Axes along which rows may have other places, and those that are then turned around."""
    agree = [_alike(*pair) for pair in zip(mine, wanted, strict=True)]
    turned = [_alike(one[::-1], other) for one, other in zip(mine, wanted, strict=True)]
    for free in range(len(mine)):
        others = [axis for axis in range(len(mine)) if axis != free]
        if all(agree[axis] or turned[axis] for axis in others):
            yield free, tuple(axis for axis in others if not agree[axis])


def _alike(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether norms go up and down together; those of few rows, or all alike, could."""
    if len(one) < 3:
        return True
    one, other = one - one.mean(), other - other.mean()
    size = float(np.linalg.norm(one) * np.linalg.norm(other))
    return not size or float(one @ other) >= SAME_PROFILE * size


def _unordered_rows(array: np.ndarray, axis: int) -> np.ndarray:
    """Quantiles of the values of each row, shape (rows, figures): no order within it counts."""
    rows = np.moveaxis(searchable(array), axis, 0).reshape(array.shape[axis], -1)
    rows = np.sort(rows.astype(np.float64), axis=1)
    # As if each value came several times: rows that were repeated have the same ones.
    places = np.ceil((np.arange(_QUANTILES) + 0.5) / _QUANTILES * rows.shape[1]).astype(int) - 1
    size = np.linalg.norm(rows, axis=1) / math.sqrt(rows.shape[1])
    return np.concatenate([rows[:, places], size[:, None]], 1)
