"""How one tensor is made of another, recognised from values alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.arrangements import arranged
from troubleshooter_nb.metrics.explanations import RelationKind, explanation_of
from troubleshooter_nb.metrics.float_formats import SHORT_FORMATS, stored_as, stored_by_way
from troubleshooter_nb.metrics.floats import (
    arithmetic_of,
    computable,
    dtype_from_token,
    same_dtype,
    significand_bits,
)
from troubleshooter_nb.metrics.ranges import InMemory, held, size_of
from troubleshooter_nb.metrics.signatures import values_of
from troubleshooter_nb.metrics.streamed import Streamed, in_order
from troubleshooter_nb.ranges import Readable, reading
from troubleshooter_nb.thresholds import MOST_MATCHED_ROWS, READ_BLOCK

_FEW = 64  # elements that are looked at before the others


@dataclass(frozen=True, slots=True)
class Relation:
    """What turns one tensor into another, with the error that is left as evidence.

    Attributes
    ----------
    kind : RelationKind
        "identical": same dtype and values. "cast": equal once rounded to the narrower dtype.
        "close": equal up to noise. "slice": right is a contiguous part of left. "pad": left is a
        contiguous part of right. "blocks": equal blocks of rows in another order.
        "row_permutation": rows along one axis in another order. "rows": rows along one axis, each
        as often as may be (found by `troubleshooter_nb.metrics.derivations` alone).
    arguments : Mapping[str, Any]
        Plain numbers, text and tuples of them, all that `apply` needs.

        ==================== ==================================================================
        cast                 dtype; side: which one is the rounded one
        scale, offset        scale; offset
        reshape              shape
        transpose, permute   axes; optional from_shape (reshape before), flip (axes reversed
                             after), shape (reshape after)
        flip                 axes
        blocks               axis, blocks, order: block ``order[i]`` of left is block i of right
        row_permutation      axis, and either order, or period, factors and inner: groups of
                             `period` rows, seen as ``(*factors, inner)``, have their two factors
                             swapped. Rotary interleave is factors (2, n/2) or (n/2, 2), inner 1
        rows                 axis, order: the row of left that each row of right is
        repeat               axis, times, block: every block of so many rows comes `times` times
        slice                starts, sizes, optional shape
        pad                  starts, sizes: shape of right; `apply` fills the rest with zeros
        ==================== ==================================================================

    residual : float
        Norm of the error that is left, over the norm of right about its mean (of left for "pad"):
        a common offset hides no mismatch.
    rival : float
        The residual of the best other explanation that was tried, estimated from 1,024 elements;
        inf where none was. Near `residual` the values alone do not decide, as in a symmetric
        matrix. About 1.4 for unrelated values.
    text : str
        One sentence with left as the subject.
    """

    kind: RelationKind
    arguments: Mapping[str, Any]
    residual: float
    rival: float
    text: str

    def apply(self, left: np.ndarray) -> np.ndarray:
        """The values that `left` turns into.

        Scales and offsets are applied in float32 for shorter floats, in float64 for integers and
        bool, else in the dtype of `left`. A cast to a narrower dtype gives an array of that dtype.
        """
        given = self.arguments
        if self.kind == "cast":
            dtype = dtype_from_token(given["dtype"])
            return left if given["side"] == "left" else stored_as(computable(left), dtype)
        if self.kind in ("scale", "offset"):
            values = values_of(left)
            factor = values.dtype.type(given.get("scale", 1.0))
            shift = values.dtype.type(given.get("offset", 0.0))
            return np.asarray(values * factor if self.kind == "scale" else values + shift)
        return arranged(self.kind, given, left)


def find_relation(
    left: np.ndarray, right: np.ndarray, *, tolerance: float = 1e-2
) -> Relation | None:
    """What turns left into right: the simplest explanation with the smallest residual.

    Parameters
    ----------
    left, right : ndarray, any shape and any dtype that holds numbers
        NaN and inf must be equal at the places that the relation makes correspond.
    tolerance : float
        Largest residual of a relation. Formats coarser than it raise it to their unit roundoff.

    Returns
    -------
    Relation or None
        None when nothing explains right better than chance could: among others for constant
        tensors that are not equal, and where too few elements would fit any explanation. Empty
        tensors are related when they are identical or differ in dtype alone.

    Raises
    ------
    ValueError
        If a dtype holds no numbers.

    Notes
    -----
    One step explains all: a scale with a permutation, or permutations along two axes, are not
    found. "repeat" goes from the fewer rows to the more; swap the sides for the other way.
    """
    return relation_between(InMemory(left), InMemory(right), tolerance=tolerance)


def relation_between(
    left: Readable, right: Readable, *, tolerance: float = 1e-2
) -> Relation | None:
    """As `find_relation`, of stored tensors of any size, of which blocks alone are in memory.

    Parameters
    ----------
    left, right : Readable
        Whatever has a shape, a dtype and ``read(start, stop)`` of flat ranges, as the sources of
        dumps. Tensors of up to ``2**22`` elements are read once and held.
    tolerance : float
        As in `find_relation`.

    Returns
    -------
    Relation or None
        The residual is that of all elements. `not_related` says what is not looked for in tensors
        of these shapes.

    Raises
    ------
    ValueError
        If a dtype holds no numbers.
    ReadError
        If a tensor cannot be read.

    Notes
    -----
    Every explanation is first put to 1,024 elements; those that fit are put to all, in boxes that
    lie in long runs on both sides. Each side is read two to nine times, and no more than
    about 120 MiB are in memory.
    """
    for source in (left, right):
        if arithmetic_of(source.dtype) == "unsupported":
            needs = {"function": "find_relation", "dtype": source.dtype}
            raise ArgumentError(Message("arguments.no_numbers", **needs))
    return relation_of(Streamed(held(left)), Streamed(held(right)), tolerance=tolerance)


def relation_of(left: Streamed, right: Streamed, *, tolerance: float = 1e-2) -> Relation | None:
    """As `relation_between`, of what keeps its figures for the next question."""
    if left.shape == right.shape and (exact := _exact(left.source, right.source)):
        return exact
    if min(left.size, right.size) < 2:
        return None
    found = explanation_of(left, right, tolerance)
    if found is None:
        return None
    text = relation_said(found.kind, found.arguments)
    return Relation(found.kind, found.arguments, found.residual, found.rival, text)


def made_and_wanted(
    relation: Relation, left: Readable, right: Readable
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """What a relation makes of left, and right, in pieces of equal shape that cover all of right.

    Of "pad" they cover left, and the part of right that holds it. Values are those of
    `troubleshooter_nb.metrics.signatures.values_of`; pieces come in any order.

    Raises
    ------
    ReadError
        If a tensor cannot be read.
    """
    given = relation.arguments
    if relation.kind == "pad":
        part = {"starts": given["starts"], "sizes": left.shape}
        pieces = in_order("slice", part, Streamed(right), Streamed(left))
        yield from ((mine, theirs) for theirs, mine in pieces)
    elif relation.kind in ("identical", "close", "cast", "scale", "offset"):
        for ours, theirs in _pieces(left, right):
            yield values_of(relation.apply(ours)), values_of(theirs)
    else:
        yield from in_order(relation.kind, given, Streamed(left), Streamed(right))


def not_related(left: tuple[int, ...], right: tuple[int, ...]) -> Message | None:
    """What `relation_between` does not look for in tensors of these shapes; None if nothing."""
    if left == right:
        many = [rows for rows in left if rows > MOST_MATCHED_ROWS]
    else:
        unequal = [i for i, rows in enumerate(left) if right[i : i + 1] != (rows,)]
        alike = len(left) == len(right) and len(unequal) == 1
        many = [max(left[i], right[i]) for i in unequal if alike]
    if max(many, default=0) <= MOST_MATCHED_ROWS:
        return None
    kind = "order" if left == right else "place"
    return Message(f"values.no_{kind}_of_many_rows", rows=max(many), most=MOST_MATCHED_ROWS)


def _exact(left: Readable, right: Readable) -> Relation | None:
    """Whether both are identical or one is the other, rounded; no error is allowed."""
    same = same_dtype(left.dtype, right.dtype)
    if same and all(_equal(*pair) for pair in _pieces(left, right)):
        return Relation("identical", {}, 0.0, math.inf, relation_said("identical", {}))
    for dtype, side in _roundings(left.dtype, right.dtype):
        wide, narrow = (left, right) if side == "right" else (right, left)
        if _is_all_rounded(wide, narrow, dtype):
            # Whatever is small rounds to zeros, and nearly all to True.
            vanished = dtype.kind == "b" or _is_constant(narrow)
            if vanished and not all(_equal(*pair) for pair in _pieces(wide, narrow)):
                return None
            arguments = {"dtype": dtype.name, "side": side}
            said = relation_said("cast", arguments)
            return Relation("cast", arguments, 0.0, math.inf, said)
    return None


def _pieces(left: Readable, right: Readable) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Blocks of both at the same places, the first of few elements, which most questions end with.

    One of nothing where there are no elements.
    """
    start, size = 0, size_of(left)
    with reading(left) as ours, reading(right) as theirs:
        while start < max(size, 1):
            stop = min(start + (READ_BLOCK if start else min(_FEW, READ_BLOCK)), size)
            yield ours.read(start, stop), theirs.read(start, stop)
            start = max(stop, 1)


def _roundings(left: np.dtype, right: np.dtype) -> list[tuple[np.dtype, str]]:
    """Formats and the side that may be the other one rounded to them."""
    arithmetics = [arithmetic_of(left), arithmetic_of(right)]
    if same_dtype(left, right):
        # Values may have passed through a shorter format and been stored in a longer one.
        names = reversed(SHORT_FORMATS if arithmetics[0] == "float" else ())
        shorter = [dtype for dtype in map(dtype_from_token, names) if _is_narrower(dtype, left)]
        return [(dtype, side) for dtype in shorter for side in ("right", "left")]
    if arithmetics[0] != arithmetics[1] and "complex" in arithmetics:
        # Real values widen to complex ones; the other way would drop the imaginary parts.
        return [(left, "left") if arithmetics[0] == "complex" else (right, "right")]
    return [(right, "right") if _is_narrower(right, left) else (left, "left")]


def _is_narrower(dtype: np.dtype, than: np.dtype) -> bool:
    bits, others = significand_bits(dtype), significand_bits(than)
    if bits and others:
        return bits < others or (bits == others and dtype.itemsize < than.itemsize)
    # Floats round to integers, and integers to shorter ones.
    return bool(others) if bits != others else dtype.itemsize < than.itemsize


def _is_constant(source: Readable) -> bool:
    first = computable(source.read(0, min(1, size_of(source))))
    return all(bool((computable(one) == first).all()) for one, _ in _pieces(source, source))


def _is_all_rounded(wide: Readable, narrow: Readable, dtype: np.dtype) -> bool:
    ways = [True, True]
    for pair in _pieces(wide, narrow):
        ways = [one and other for one, other in zip(ways, _rounded(*pair, dtype), strict=True)]
        if not any(ways):
            return False
    return True


def is_rounded(wide: np.ndarray, narrow: np.ndarray, dtype: np.dtype) -> bool:
    """Whether `narrow` is `wide` in this dtype, rounded once or as frameworks convert it."""
    return any(_rounded(wide, narrow, dtype))


def _rounded(wide: np.ndarray, narrow: np.ndarray, dtype: np.dtype) -> tuple[bool, bool]:
    """Whether it was rounded once, and whether as frameworks convert it."""
    # A few values first: most formats fail there.
    few = computable(wide.flat[:_FEW])
    by_way = few.dtype == np.float64
    if not _equal(stored_as(few, dtype), narrow.flat[:_FEW]) and not (
        by_way and _equal(stored_by_way(few, dtype), narrow.flat[:_FEW])
    ):
        return False, False
    wide = computable(wide)
    return (
        _equal(stored_as(wide, dtype), narrow),
        by_way and _equal(stored_by_way(wide, dtype), narrow),
    )


def _equal(left: np.ndarray, right: np.ndarray) -> bool:
    left, right = computable(left), computable(right)
    # In bool and integers there is no NaN to ask for.
    return np.array_equal(
        left, right, equal_nan=left.dtype.kind in "fc" or right.dtype.kind in "fc"
    )


def relation_said(
    kind: str, arguments: Mapping[str, Any], *, left: str = "", right: str = ""
) -> Message:
    """What a relation says in a sentence, with other words for left and right where given."""
    sides = {"left": left or Message("values.left"), "right": right or Message("values.right")}
    given = dict(arguments)
    if kind == "cast":
        return Message("values.cast", side=sides[given["side"]], dtype=given["dtype"])
    if kind == "row_permutation" and "order" in given:
        return Message("values.rows_in_another_order", **sides, axis=given["axis"])
    if kind == "row_permutation":
        shape = (*given.pop("factors"), given.pop("inner"))
        given |= {"shape": shape, "swapped": (shape[1], shape[0], shape[2])}
    if kind == "permute":
        steps = [
            Message(f"values.permute_{step}", given=given.pop(step))
            for step in ("from_shape", "flip", "shape")
            if step in given
        ]
        given["steps"] = _steps(steps)
    return Message(f"values.{kind}", **sides, **given)


def _steps(steps: Sequence[Message]) -> str:
    """Steps one behind the other; each brings what parts it from the one before."""
    if len(steps) < 2:
        return steps[0] if steps else ""
    return Message("values.steps", first=steps[0], rest=_steps(steps[1:]))
