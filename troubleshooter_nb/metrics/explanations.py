"""Search for what rearranges, scales or moves the values of one tensor into another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from troubleshooter_nb.metrics.arrangements import (
    arranged,
    axis_orders,
    axis_view,
    described_order,
    divisors,
    element_key,
    named_order,
    row_order,
    structured_orders,
)
from troubleshooter_nb.metrics.floats import unit_roundoff
from troubleshooter_nb.metrics.signatures import (
    Spread,
    best_start,
    match_rows,
    remainder_norm,
    row_signatures,
    searchable,
    spread_of,
    values_of,
)
from troubleshooter_nb.thresholds import (
    FEWEST_ELEMENTS_FITTED,
    FEWEST_PARTICIPANTS,
    MOST_VERIFIED,
    NEGLIGIBLE_RESIDUAL,
    RELATION_SAMPLE,
    SHORT_ROW,
    SHORT_ROWS,
    SIGNATURES_BLOCK,
)

RelationKind = Literal[
    "identical",
    "cast",
    "close",
    "scale",
    "offset",
    "reshape",
    "transpose",
    "permute",
    "flip",
    "blocks",
    "row_permutation",
    "repeat",
    "slice",
    "pad",
]

# Simple explanations first; the more orders a kind has, the later it comes.
_RANKS: dict[str, int] = {
    "close": 0,
    "scale": 1,
    "offset": 1,
    "reshape": 2,
    "repeat": 2,
    "slice": 2,
    "pad": 3,
    "transpose": 3,
    "permute": 3,
    "flip": 4,
    "blocks": 6,
    "row_permutation": 7,
}


@dataclass(frozen=True, slots=True)
class Explanation:
    """What `troubleshooter_nb.metrics.relations.Relation` says, without its sentence."""

    kind: RelationKind
    arguments: dict[str, Any]
    residual: float
    rival: float


def explanation_of(left: np.ndarray, right: np.ndarray, tolerance: float) -> Explanation | None:
    """The simplest explanation of right by left with the smallest residual, beyond chance.

    Arguments as those of `troubleshooter_nb.metrics.relations.find_relation`; both sides of two
    elements or more. Equal values are explained as "close", as it is not asked which dtype they
    were rounded to.
    """
    pair = _prepared(left, right, tolerance)
    if pair.left_spread.constant or pair.right_spread.constant:
        return None
    if left.size == right.size:
        return _same_size(pair)
    return _larger(pair) if right.size > left.size else _smaller(pair, "slice")


@dataclass(frozen=True)
class _SampledPair:
    """Values of both sides, their finite stand-ins, and a sample of places in right."""

    left: np.ndarray
    right: np.ndarray
    left_search: np.ndarray
    right_search: np.ndarray
    left_spread: Spread
    right_spread: Spread
    tolerance: float
    places: np.ndarray
    exponent: int

    @property
    def least_residual(self) -> float:
        """No rearrangement of left comes nearer to right, by norm and sum alone."""
        count, spread = self.right.size, self.right_spread
        longer = abs(self.left_spread.norm - spread.norm)
        shift = abs(self.left_spread.mean - spread.mean) * math.sqrt(count)
        return max(longer, shift) / spread.centred

    def swapped(self) -> _SampledPair:
        """Right as left."""
        return _SampledPair(
            self.right,
            self.left,
            self.right_search,
            self.left_search,
            self.right_spread,
            self.left_spread,
            self.tolerance,
            _places(self.left.size),
            self.exponent,
        )

    def residual_of_sample(self, values: np.ndarray) -> float:
        """Residual of what left gives at the sampled places of right."""
        sample = self.right_search.reshape(-1)[self.places].astype(np.float64)
        error = values.astype(np.float64) - sample
        norm = float(np.linalg.norm(sample - sample.mean()))
        return float(np.linalg.norm(error)) / norm if norm else math.inf

    def residual(self, values: np.ndarray) -> float:
        """Residual of all values, in the order of right."""
        return remainder_norm(values, self.right) / self.right_spread.centred


def _prepared(left: np.ndarray, right: np.ndarray, tolerance: float) -> _SampledPair:
    coarse = max(unit_roundoff(left.dtype), unit_roundoff(right.dtype))
    left, right = values_of(left), values_of(right)
    largest = max(_largest(left), _largest(right))
    # Squares beyond float64, or projections beyond float32, would be inf; tiny ones would vanish.
    exponent = math.frexp(largest)[1] if largest else 0
    exponent = exponent if abs(exponent) > 40 else 0
    if exponent:
        left, right = _shifted(left, -exponent), _shifted(right, -exponent)
    return _SampledPair(
        left,
        right,
        searchable(left),
        searchable(right),
        spread_of(left),
        spread_of(right),
        max(tolerance, coarse),
        _places(right.size),
        exponent,
    )


def _largest(values: np.ndarray) -> float:
    finite = searchable(values)
    return max(float(finite.max()), -float(finite.min()))


def _shifted(values: np.ndarray, exponent: int) -> np.ndarray:
    wide = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)
    if wide.dtype.kind == "c":
        return np.asarray(np.ldexp(wide.real, exponent) + 1j * np.ldexp(wide.imag, exponent))
    return np.asarray(np.ldexp(wide, exponent))


def _places(size: int) -> np.ndarray:
    if size <= RELATION_SAMPLE:
        return np.arange(size)
    return np.sort(
        np.random.default_rng(size).choice(size, RELATION_SAMPLE, replace=size > 1 << 22)
    )


@dataclass(frozen=True)
class _Guess:
    kind: RelationKind
    arguments: dict[str, Any]
    sampled: float

    @property
    def rank(self) -> int:
        # Each further step of an axis order makes it a longer explanation.
        return _RANKS[self.kind] + 2 * ("flip" in self.arguments or "from_shape" in self.arguments)


def _chosen(pair: _SampledPair, guesses: list[_Guess], others: list[float]) -> Explanation | None:
    """Verify the guesses that fit the sample, and take the simplest among the best."""
    likely = [guess for guess in guesses if guess.sampled <= 4.0 * pair.tolerance]
    likely.sort(key=lambda guess: (guess.rank, guess.sampled))
    verified = [(_verified(pair, guess), guess) for guess in likely[:MOST_VERIFIED]]
    held = [(value, guess) for value, guess in verified if _holds(pair, value, guess)]
    if not held:
        return None
    best = min(value for value, _ in held)
    enough = 2.0 * best + NEGLIGIBLE_RESIDUAL
    residual, guess = min(
        ((value, guess) for value, guess in held if value <= enough),
        key=lambda item: (item[1].rank, item[0]),
    )
    rivals = [other.sampled for other in guesses if not _nested(other, guess)]
    return _explanation(pair, guess, residual, min([*others, *rivals], default=math.inf))


def _verified(pair: _SampledPair, guess: _Guess) -> float:
    if guess.kind == "close":
        return pair.residual(pair.left)
    if guess.kind in ("scale", "offset"):
        # What Relation.apply does, on values that were scaled together.
        scale, shift = guess.arguments.get("scale", 1.0), guess.arguments.get("offset", 0.0)
        dtype = pair.left.dtype.type
        return pair.residual(pair.left * dtype(scale) + dtype(shift))
    return pair.residual(arranged(guess.kind, guess.arguments, pair.left))


def _nested(other: _Guess, guess: _Guess) -> bool:
    """Whether `other` is `guess` itself or says the same with one more constant."""
    fits = ("close", "scale", "offset")
    return other is guess or (guess.kind == "close" and other.kind in fits)


def _holds(pair: _SampledPair, residual: float, guess: _Guess) -> bool:
    """Whether the residual is small, and smaller than that of the best of all orders by chance."""
    if not residual <= pair.tolerance:
        return False
    count = min(pair.left.size, pair.right.size)
    fitted = guess.kind in ("scale", "offset")
    if fitted and count < FEWEST_ELEMENTS_FITTED:
        return False
    choices = 3.0  # decimal digits: a thousand orders of axes and blocks
    if guess.kind in ("blocks", "row_permutation"):
        rows = len(guess.arguments.get("order", ()))
        choices += math.lgamma(rows + 1) / math.log(10.0)
    digits = (count - fitted) * math.log10(max(residual, 1e-8))
    # One value among zeros lies as well in one order as in many.
    lonely = not fitted and guess.kind != "close" and _participants(pair) < FEWEST_PARTICIPANTS
    return digits + choices < -4.0 and not lonely


def _participants(pair: _SampledPair) -> float:
    """How many elements carry the spread of right."""
    sample = pair.right_search.reshape(-1)
    sample = sample[:: max(1, len(sample) // 65536)].astype(np.float64)
    squares = np.square(sample - np.median(sample))
    fourth = float(np.square(squares).sum())
    # A sample that saw no spread counts as one element, so that nothing is claimed.
    return float(squares.sum()) ** 2 / fourth if fourth else 1.0


def _same_size(pair: _SampledPair) -> Explanation | None:
    guesses: list[_Guess] = []
    if pair.left.shape == pair.right.shape:
        guesses += _fits(pair)
    if pair.least_residual > pair.tolerance:
        return _chosen(pair, guesses, [])
    guesses += _axis_orders(pair)
    found = _chosen(pair, guesses, [])
    if found or pair.left.shape != pair.right.shape:
        return found
    others = [guess.sampled for guess in guesses]
    for axis in range(pair.left.ndim):
        if pair.left.shape[axis] > 1 and (found := _row_relation(pair, axis, others)):
            return found
    return None


def _fits(pair: _SampledPair) -> Iterator[_Guess]:
    """Equal, one scale or one offset, fitted over all elements if the sample agrees."""
    left = pair.left_search.reshape(-1)[pair.places].astype(np.float64)
    yield _Guess("close", {}, pair.residual_of_sample(left))
    right = pair.right_search.reshape(-1)[pair.places].astype(np.float64)
    square = float(left @ left)
    scale = float(left @ right) / square if square else 0.0
    likely = 4.0 * pair.tolerance
    if scale and pair.residual_of_sample(scale * left) <= likely:
        scale = _fitted_scale(pair)
        yield _Guess("scale", {"scale": scale}, pair.residual_of_sample(scale * left))
    shift = pair.right_spread.mean - pair.left_spread.mean
    offset = float(shift.real)
    if offset and pair.residual_of_sample(left + float(right.mean() - left.mean())) <= likely:
        yield _Guess("offset", {"offset": offset}, pair.residual_of_sample(left + offset))


def _fitted_scale(pair: _SampledPair) -> float:
    left, right = pair.left_search.reshape(-1), pair.right_search.reshape(-1)
    square = crossed = 0.0
    for start in range(0, len(left), SIGNATURES_BLOCK):
        block = left[start : start + SIGNATURES_BLOCK].astype(np.float64)
        square += float(np.square(block).sum())
        crossed += float((block * right[start : start + SIGNATURES_BLOCK]).sum())
    return crossed / square


def _axis_orders(pair: _SampledPair) -> list[_Guess]:
    """All reshapes, axis orders and flips, and orders of blocks where rows are short."""
    left, right = pair.left_search, pair.right.shape
    guesses = []
    seen = {element_key(left)} if left.shape == right else set()
    for arguments in axis_orders(left.shape, right):
        view = axis_view(arguments, left)
        if (key := element_key(view)) not in seen:
            seen.add(key)
            values = view[np.unravel_index(pair.places, view.shape)]
            kind, named = named_order(arguments, left.shape, right)
            guesses.append(_guess(pair, kind, named, values))
    if left.shape == right:
        for axis, rows in enumerate(right):
            # Rows of so few elements have no signature that noise would leave unique.
            if left.size // rows <= SHORT_ROW and rows <= SHORT_ROWS:
                guesses += _row_guesses(pair, axis, structured_orders(rows, axis))
    return guesses


def _row_guesses(
    pair: _SampledPair, axis: int, orders: Iterable[tuple[str, dict[str, Any]]]
) -> Iterator[_Guess]:
    index = list(np.unravel_index(pair.places, pair.right.shape))
    seen = set()
    for kind, arguments in orders:
        rows = row_order(kind, arguments, pair.left.shape[axis])[index[axis]]
        # Two of four blocks are one of two: the same order in other words is no rival.
        if (key := rows.tobytes()) in seen:
            continue
        seen.add(key)
        moved = (*index[:axis], rows, *index[axis + 1 :])
        yield _guess(pair, kind, arguments, pair.left_search[moved])


def _row_relation(pair: _SampledPair, axis: int, others: list[float]) -> Explanation | None:
    """Rows along one axis in another order, the regular order if they follow one."""
    pool = row_signatures(pair.left_search, axis)
    order = match_rows(pool, row_signatures(pair.right_search, axis), pair.tolerance)
    if order is None:
        return None
    guesses = list(_row_guesses(pair, axis, described_order(order, axis)))
    best = min(guess.sampled for guess in guesses)
    # They say the same in other words, so only the first that fits is no rival of itself.
    same = [guess for guess in guesses if guess.sampled <= 2.0 * best + NEGLIGIBLE_RESIDUAL]
    for guess in same:
        if found := _chosen(pair, [guess], others):
            return found
    return None


def _larger(pair: _SampledPair) -> Explanation | None:
    """Right repeats the rows of left, or holds left as a part."""
    left, right = pair.left.shape, pair.right.shape
    guesses: list[_Guess] = []
    unequal = [axis for axis, size in enumerate(left) if right[axis : axis + 1] != (size,)]
    if len(left) == len(right) and len(unequal) == 1:
        axis = unequal[0]
        times, rest = divmod(right[axis], left[axis])
        if not rest:
            blocks = [
                ("repeat", {"axis": axis, "times": times, "block": block})
                for block in divisors(left[axis])
            ]
            guesses += _row_guesses(pair, axis, blocks)
    return _chosen(pair, guesses, []) or _smaller(pair.swapped(), "pad")


def _smaller(pair: _SampledPair, kind: RelationKind) -> Explanation | None:
    """Right is a contiguous part of left; for "pad" the sides are swapped."""
    left, right = pair.left.shape, pair.right.shape
    guesses = []
    for starts, sizes in _parts(pair):
        view = pair.left_search[tuple(slice(i, i + n) for i, n in zip(starts, sizes, strict=True))]
        arguments: dict[str, Any] = {"starts": starts, "sizes": sizes}
        if sizes != right:
            arguments["shape"] = right
        values = view[np.unravel_index(pair.places, view.shape)]
        guesses.append(_guess(pair, "slice", arguments, values))
    found = _chosen(pair, guesses, [])
    if found is None or kind == "slice" or "shape" in found.arguments:
        return found if kind == "slice" else None
    arguments = {"starts": found.arguments["starts"], "sizes": left}
    return Explanation("pad", arguments, found.residual, found.rival)


def _parts(pair: _SampledPair) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Starts and sizes of the parts of left that right may be."""
    left, right = pair.left.shape, pair.right.shape
    shapes = []
    if len(left) == len(right):
        shapes.append(right)
        if all(size <= whole for size, whole in zip(right, left, strict=True)):
            yield (0,) * len(left), right
    elif len(left) == len(right) + 1:
        shapes += [(*right[:axis], 1, *right[axis:]) for axis in range(len(left))]
    for shape in shapes:
        unequal = [axis for axis, size in enumerate(shape) if size != left[axis]]
        if len(unequal) == 1 and shape[unequal[0]] < left[unequal[0]]:
            axis = unequal[0]
            whole = row_signatures(pair.left_search, axis, length=4)
            part = row_signatures(pair.right_search.reshape(shape), axis, length=4)
            start, _ = best_start(whole, part)
            if start:
                yield tuple(start if i == axis else 0 for i in range(len(left))), shape
            elif len(left) != len(right):
                yield (0,) * len(left), shape


def _guess(pair: _SampledPair, kind: str, arguments: dict[str, Any], values: np.ndarray) -> _Guess:
    return _Guess(cast("RelationKind", kind), arguments, pair.residual_of_sample(values))


def _explanation(pair: _SampledPair, guess: _Guess, residual: float, rival: float) -> Explanation:
    arguments = dict(guess.arguments)
    if guess.kind == "offset":
        arguments["offset"] = math.ldexp(arguments["offset"], pair.exponent)
    return Explanation(guess.kind, arguments, residual, rival)
