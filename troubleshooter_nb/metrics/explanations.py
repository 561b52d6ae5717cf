"""Search for what rearranges, scales or moves the values of one tensor into another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Literal, cast

import numpy as np

from troubleshooter_nb.metrics.arrangements import (
    axis_orders,
    described_order,
    divisors,
    layout_of,
    named_order,
    places_in_left,
    structured_orders,
)
from troubleshooter_nb.metrics.floats import unit_roundoff
from troubleshooter_nb.metrics.signatures import (
    best_start,
    match_rows,
    remainder_square,
    searchable,
)
from troubleshooter_nb.metrics.streamed import Streamed, in_order
from troubleshooter_nb.thresholds import (
    FEWEST_ELEMENTS_FITTED,
    FEWEST_PARTICIPANTS,
    MOST_MATCHED_ROWS,
    MOST_STRUCTURED,
    MOST_VERIFIED,
    NEGLIGIBLE_RESIDUAL,
    RELATION_SAMPLE,
    SHORT_ROW,
    SHORT_ROWS,
    SIGNATURE_FIGURES,
    SIGNATURE_LEAST,
    SIGNATURE_LONGEST,
    STRUCTURED_AT_ONCE,
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
    "rows",
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


def explanation_of(left: Streamed, right: Streamed, tolerance: float) -> Explanation | None:
    """The simplest explanation of right by left with the smallest residual, beyond chance.

    Arguments as those of `troubleshooter_nb.metrics.relations.relation_between`; both sides of two
    elements or more. Equal values are explained as "close", as it is not asked which dtype they
    were rounded to.
    """
    coarse = max(unit_roundoff(side.source.dtype) for side in (left, right))
    pair = _SampledPair(left, right, max(tolerance, coarse), 0)
    if left.size == right.size and left.shape != right.shape:
        guesses = _axis_orders(pair)
        # Some elements rule out what all need not be read for.
        if all(math.isfinite(guess.sampled) for guess in guesses):
            if min(guess.sampled for guess in guesses) > 4.0 * pair.tolerance:
                return None
            if not _exponent(right.largest):
                return None if right.spread.constant else _chosen(pair, guesses, [])
    pair = _scaled(pair)
    if pair.left.spread.constant or pair.right.spread.constant:
        return None
    if pair.left.size == pair.right.size:
        return _same_size(pair)
    return _larger(pair) if pair.right.size > pair.left.size else _smaller(pair, "slice")


@dataclass(frozen=True)
class _SampledPair:
    """Both sides, and a sample of places in right."""

    left: Streamed
    right: Streamed
    tolerance: float
    exponent: int

    @cached_property
    def places(self) -> np.ndarray:
        """The sampled places."""
        return _places(self.right.size)

    @cached_property
    def sample(self) -> np.ndarray:
        """Right at these places."""
        return self.right.at(self.places)

    @property
    def least_residual(self) -> float:
        """No rearrangement of left comes nearer to right, by norm and sum alone."""
        count, spread = self.right.size, self.right.spread
        longer = abs(self.left.spread.norm - spread.norm)
        shift = abs(self.left.spread.mean - spread.mean) * math.sqrt(count)
        return max(longer, shift) / spread.centred

    def swapped(self) -> _SampledPair:
        """Right as left."""
        return _SampledPair(self.right, self.left, self.tolerance, self.exponent)

    def residual_of_sample(self, values: np.ndarray) -> float:
        """Residual of what left gives at the sampled places of right."""
        norm = float(np.linalg.norm(self.sample - self.sample.mean()))
        return float(np.linalg.norm(values - self.sample)) / norm if norm else math.inf

    def residual(self, pieces: Iterable[tuple[np.ndarray, np.ndarray]]) -> float:
        """Residual of all values, in pieces of what left gives and of right.

        inf as soon as it is above the tolerance.
        """
        square, centred = 0.0, self.right.spread.centred
        most = (self.tolerance * centred) ** 2
        for made, wanted in pieces:
            square += remainder_square(made, wanted)
            del made, wanted  # parts of what is to go before the next one comes
            if square > most:
                return math.inf
        return math.sqrt(square) / centred

    @cached_property
    def participants(self) -> float:
        """How many elements carry the spread of right."""
        sample = self.right.thinned
        squares = np.square(sample - np.median(sample))
        fourth = float(np.square(squares).sum())
        # A sample that saw no spread counts as one element, so that nothing is claimed.
        return float(squares.sum()) ** 2 / fourth if fourth else 1.0


def _scaled(pair: _SampledPair) -> _SampledPair:
    exponent = _exponent(max(pair.left.largest, pair.right.largest))
    ours, theirs = (side.divided(exponent) for side in (pair.left, pair.right))
    return _SampledPair(ours, theirs, pair.tolerance, exponent)


def _exponent(largest: float) -> int:
    """By which power of two values up to so large are divided.

    Squares beyond float64, or projections beyond float32, would be inf; tiny ones would vanish.
    """
    exponent = math.frexp(largest)[1] if largest else 0
    return exponent if abs(exponent) > 40 else 0


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
    if guess.kind in ("close", "scale", "offset"):
        # What Relation.apply does, on values that were scaled together.
        dtype = pair.left.dtype.type
        scale = dtype(guess.arguments.get("scale", 1.0))
        shift = dtype(guess.arguments.get("offset", 0.0))
        blocks = zip(pair.left.blocks(), pair.right.blocks(), strict=True)
        if guess.kind == "close":
            return pair.residual(blocks)
        return pair.residual((ours * scale + shift, theirs) for ours, theirs in blocks)
    return pair.residual(in_order(guess.kind, guess.arguments, pair.left, pair.right))


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
    lonely = not fitted and guess.kind != "close" and pair.participants < FEWEST_PARTICIPANTS
    return digits + choices < -4.0 and not lonely


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
    for axis in range(len(pair.left.shape)):
        if pair.left.shape[axis] > 1 and (found := _row_relation(pair, axis, others)):
            return found
    return None


def _fits(pair: _SampledPair) -> Iterator[_Guess]:
    """Equal, one scale or one offset, fitted over all elements if the sample agrees."""
    left, right = pair.left.at(pair.places), pair.sample
    yield _Guess("close", {}, pair.residual_of_sample(left))
    square = float(left @ left)
    scale = float(left @ right) / square if square else 0.0
    likely = 4.0 * pair.tolerance
    if scale and pair.residual_of_sample(scale * left) <= likely:
        scale = _fitted_scale(pair)
        yield _Guess("scale", {"scale": scale}, pair.residual_of_sample(scale * left))
    shift = pair.right.spread.mean - pair.left.spread.mean
    offset = float(shift.real)
    if offset and pair.residual_of_sample(left + float(right.mean() - left.mean())) <= likely:
        yield _Guess("offset", {"offset": offset}, pair.residual_of_sample(left + offset))


def _fitted_scale(pair: _SampledPair) -> float:
    square = crossed = 0.0
    for ours, theirs in zip(pair.left.blocks(), pair.right.blocks(), strict=True):
        left, right = (searchable(side).astype(np.float64) for side in (ours, theirs))
        square += float(left @ left)
        crossed += float(left @ right)
    return crossed / square


def _axis_orders(pair: _SampledPair) -> list[_Guess]:
    """All reshapes, axis orders and flips, and orders of blocks where rows are not matched."""
    left, right = pair.left.shape, pair.right.shape
    orders = []
    plain = layout_of("reshape", {}, left)
    seen = {plain and plain.merged()} if left == right else set()
    for arguments in axis_orders(left, right):
        layout = layout_of("permute", arguments, left)
        if layout is not None and (key := layout.merged()) not in seen:
            seen.add(key)
            orders.append(named_order(arguments, left, right))
    guesses = list(_guesses(pair, orders))
    if left == right:
        for axis, rows in enumerate(right):
            # Rows of so few elements have no signature that noise would leave unique.
            if pair.left.size // rows <= SHORT_ROW or rows > MOST_MATCHED_ROWS:
                most = MOST_STRUCTURED if rows > SHORT_ROWS else None
                guesses += _guesses(pair, islice(structured_orders(rows, axis), most))
    return guesses


def _guesses(pair: _SampledPair, orders: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[_Guess]:
    """What each order gives at the sampled places; read together, as many as memory is meant for.

    Two of four blocks are one of two: the same order in other words is no rival.
    """
    seen: set[bytes] = set()
    waiting = iter(orders)
    while some := list(islice(waiting, STRUCTURED_AT_ONCE)):
        asked = []
        for kind, arguments in some:
            places = places_in_left(kind, arguments, pair.left.shape, pair.places)
            # Those of axes are told apart by all their elements.
            key = places.tobytes() if "axis" in arguments else b""
            if not key or key not in seen:
                seen.add(key)
                asked.append((kind, arguments, places))
        if not asked:
            continue
        values = pair.left.at(np.concatenate([places for *_, places in asked]))
        parts = np.split(values, len(asked))
        for (kind, arguments, _), part in zip(asked, parts, strict=True):
            yield _guess(pair, kind, arguments, part)


def _row_order(pair: _SampledPair, axis: int) -> np.ndarray | None:
    """Which row of left each row of right is; signatures of so many rows are let go after it."""
    rows = pair.left.shape[axis]
    length = max(SIGNATURE_LEAST, min(SIGNATURE_LONGEST, SIGNATURE_FIGURES // rows))
    pool, queries = (side.row_signatures(axis, length) for side in (pair.left, pair.right))
    return match_rows(pool, queries, pair.tolerance)


def _row_relation(pair: _SampledPair, axis: int, others: list[float]) -> Explanation | None:
    """Rows along one axis in another order, the regular order if they follow one."""
    if pair.left.shape[axis] > MOST_MATCHED_ROWS:
        return None
    order = _row_order(pair, axis)
    if order is None:
        return None
    guesses = list(_guesses(pair, described_order(order, axis)))
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
            guesses += _guesses(pair, blocks)
    return _chosen(pair, guesses, []) or _smaller(pair.swapped(), "pad")


def _smaller(pair: _SampledPair, kind: RelationKind) -> Explanation | None:
    """Right is a contiguous part of left; for "pad" the sides are swapped."""
    left, right = pair.left.shape, pair.right.shape
    parts = []
    for starts, sizes in _parts(pair):
        arguments: dict[str, Any] = {"starts": starts, "sizes": sizes}
        if sizes != right:
            arguments["shape"] = right
        parts.append(("slice", arguments))
    found = _chosen(pair, list(_guesses(pair, parts)), [])
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
            for start in _starts(pair, shape, axis):
                if start or len(left) != len(right):
                    yield tuple(start if i == axis else 0 for i in range(len(left))), shape


def _starts(pair: _SampledPair, shape: tuple[int, ...], axis: int) -> list[int]:
    """Where right, in this shape, may begin along an axis of left."""
    if pair.left.shape[axis] > MOST_MATCHED_ROWS:
        return [pair.left.shape[axis] - shape[axis]]
    whole = pair.left.row_signatures(axis, SIGNATURE_LEAST)
    return [best_start(whole, pair.right.row_signatures(axis, SIGNATURE_LEAST, shape))[0]]


def _guess(pair: _SampledPair, kind: str, arguments: dict[str, Any], values: np.ndarray) -> _Guess:
    return _Guess(cast("RelationKind", kind), arguments, pair.residual_of_sample(values))


def _explanation(pair: _SampledPair, guess: _Guess, residual: float, rival: float) -> Explanation:
    arguments = dict(guess.arguments)
    if guess.kind == "offset":
        arguments["offset"] = math.ldexp(arguments["offset"], pair.exponent)
    return Explanation(guess.kind, arguments, residual, rival)
