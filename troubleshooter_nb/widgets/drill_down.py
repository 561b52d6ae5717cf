"""What an opened row shows: where the error sits, a part of the tensor, down to single values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from troubleshooter_nb.comparison import TensorDiff, evidence_dataset
from troubleshooter_nb.dump import ArraySource, Dump
from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import computable, significand_bits
from troubleshooter_nb.metrics.locate import Read, locate, split_axis
from troubleshooter_nb.metrics.places import TILE_COLUMNS, TILE_ROWS
from troubleshooter_nb.metrics.summary import magnitudes, summarise

# Reading what lies between two rows of a part costs less than another seek, up to this many.
_NEAR = 1 << 14


@dataclass(frozen=True)
class Plane:
    """A two-dimensional picture of a tensor: the whole of it, or one slice of leading axes.

    Attributes
    ----------
    shape : tuple of int
        Of the tensor.
    lead : tuple of int, optional
        Index on every axis but the last two; None for the whole tensor.
    offset : int
        Flat index where it starts; it is contiguous.
    rows, columns : int
    cut : int
        Axes before this one make the rows.
    """

    shape: tuple[int, ...]
    lead: tuple[int, ...] | None
    offset: int
    rows: int
    columns: int
    cut: int

    def index(self, row: int, column: int) -> tuple[int, ...]:
        """Index in the tensor of one place of the plane."""
        flat = self.offset + row * self.columns + column
        return tuple(int(i) for i in np.unravel_index(flat, self.shape))


@dataclass(frozen=True)
class Part:
    """A window of a plane.

    Attributes
    ----------
    plane : Plane
    rows, columns : tuple of int
        Half-open ranges of the plane.
    tile_max : ndarray of float64, shape (at most 64, at most 128)
        Largest |left - right| of each tile; of one side alone the largest magnitude.
    tile_mismatch : ndarray of int64, same shape
        Elements that are NaN or Inf on one side and not the same on the other.
    left, right : ndarray of float64, int64, uint64 or complex128, same shape, or None
        The values where every tile is one element, in the one of these dtypes that holds them.
    bits : tuple of int
        Bits of precision of the values of each side as stored; see `precision`.
    """

    plane: Plane
    rows: tuple[int, int]
    columns: tuple[int, int]
    tile_max: np.ndarray
    tile_mismatch: np.ndarray
    left: np.ndarray | None
    right: np.ndarray | None
    bits: tuple[int, ...] = ()


def plane_of(shape: Sequence[int], lead: Sequence[int] | None = None) -> Plane:
    """The picture of a tensor.

    Parameters
    ----------
    shape : sequence of int
    lead : sequence of int, optional
        Index on every axis but the last two: that slice alone.

    Raises
    ------
    ValueError
        If the tensor has no elements or `lead` does not fit it.
    """
    shape = tuple(int(n) for n in shape)
    if 0 in shape:
        raise ArgumentError(Message("explorer.no_elements", shape=shape))
    if lead is None:
        cut = split_axis(shape)
        return Plane(shape, None, 0, math.prod(shape[:cut]), math.prod(shape[cut:]), cut)
    lead = tuple(int(i) for i in lead)
    axes = shape[:-2]
    fits = len(shape) > 2 and len(lead) == len(axes)
    if not fits or any(not 0 <= i < n for i, n in zip(lead, axes, strict=True)):
        given = {"shape": shape, "axes": axes, "lead": lead}
        raise ArgumentError(Message("explorer.no_slice", **given))
    rows, columns = shape[-2:]
    start = int(np.ravel_multi_index(lead, axes)) * rows * columns
    return Plane(shape, lead, start, rows, columns, len(shape) - 1)


def part(
    left: ArraySource,
    right: ArraySource | None,
    plane: Plane,
    rows: tuple[int, int] | None = None,
    columns: tuple[int, int] | None = None,
) -> Part:
    """One window of a plane; nothing outside it is read, except short gaps between its rows.

    Parameters
    ----------
    left, right : ArraySource
        Of the shape of the plane's tensor; without a right side the values themselves are shown.
    plane : Plane
    rows, columns : tuple of int, optional
        Half-open ranges, cut to the plane; default all of it.

    Raises
    ------
    ValueError
        For an empty window.
    ReadError
        If the values cannot be read.
    """
    rows = _cut(rows, plane.rows, "rows")
    columns = _cut(columns, plane.columns, "columns")
    shape = (rows[1] - rows[0], columns[1] - columns[0])
    read_left = _reader(left, plane, rows, columns)
    read_right = None if right is None else _reader(right, plane, rows, columns)
    nowhere = (math.nan, math.nan)
    place = locate(read_left, read_right or _zeros_like(read_left), shape, nowhere)
    values: list[np.ndarray | None] = [None, None]
    if shape[0] <= TILE_ROWS and shape[1] <= TILE_COLUMNS:
        for side, read in enumerate((read_left, read_right)):
            if read is not None:
                values[side] = _whole(computable(read(0, math.prod(shape)))).reshape(shape)
    maxima = place.tile_max.reshape(-1, place.tile_max.shape[-1])
    bits = tuple(precision(side.dtype) for side in (left, right) if side is not None)
    return Part(plane, rows, columns, maxima, place.tile_mismatch, values[0], values[1], bits)


def located(diff: TensorDiff) -> xr.Dataset | str:
    """Where the error of a pair sits (`comparison.evidence_dataset`), or why nobody can tell.

    The reason is a message of the explorer.
    """
    if diff.evidence is not None:
        return diff.evidence
    if reason := no_values(diff):
        return Message(f"explorer.{reason}")
    try:
        found = diff.located().evidence
    except OSError as error:
        return Message("explorer.unread", reason=error)
    return Message("explorer.empty") if found is None else found


def no_values(diff: TensorDiff) -> str:
    """Why there is nothing to draw of a pair, a key of the explorer's words; empty if there is."""
    left, right = diff.sources
    if diff.verdict in ("missing", "unreadable"):
        return diff.verdict
    if left is None or right is None:
        return "statistics_only"
    if left.shape != right.shape:
        return "other_shape"
    return "empty" if 0 in left.shape else ""


def located_alone(diff: TensorDiff) -> dict[str, xr.Dataset | str]:
    """Each side of a pair that has no partner, or one of another shape, as `located_source`.

    Empty for a pair whose two sides can be compared.
    """
    if no_values(diff) not in ("missing", "other_shape"):
        return {}
    sides = zip(("left", "right"), diff.sources, strict=True)
    return {side: located_source(source) for side, source in sides if source is not None}


def located_entry(dump: Dump, row: int) -> xr.Dataset | str:
    """Where the large values of one entry sit, as `located_source`."""
    source = dump.sources[row]
    if source is None:
        is_fine = str(dump.index["status"].values[row]) == "ok"
        return Message(f"explorer.{'statistics_only' if is_fine else 'unreadable'}")
    low, high = (float(dump.index[name].values[row]) for name in ("min", "max"))
    return located_source(source, None if math.isnan(low) else (low, high))


def located_source(
    source: ArraySource, span: tuple[float, float] | None = None
) -> xr.Dataset | str:
    """Where the large values of one side sit, as `located`; the right side is all zero.

    ``worst_*`` are its largest magnitudes, NaN and Inf first. Without `span`, its smallest and
    largest finite value, the attribute ``figures`` has what `metrics.summary.summarise` found.
    """
    if 0 in source.shape:
        return Message("explorer.empty")
    try:
        figures = {} if span else summarise(source.read, math.prod(source.shape))[0]
        span = span or (float(figures["min"]), float(figures["max"]))
        place = locate(source.read, _zeros_like(source.read), source.shape, span)
    except OSError as error:
        return Message("explorer.unread", reason=error)
    return evidence_dataset(place, source.shape).assign_attrs(figures=figures)


def _zeros_like(read: Read) -> Read:
    def zeros(start: int, stop: int) -> np.ndarray:
        return np.zeros(stop - start, np.float32)  # no wider than what is stored

    return zeros


def _whole(values: np.ndarray) -> np.ndarray:
    """Values as they are, in one of four wide dtypes: float64 does not hold every integer."""
    kind = values.dtype.kind
    if kind == "c":
        return values.astype(np.complex128, copy=False)
    if kind in "iub":
        wide = np.uint64 if values.dtype == np.uint64 else np.int64
        return values.astype(wide, copy=False)
    return magnitudes(values)


def precision(dtype: np.dtype) -> int:
    """Bits that tell the values of a dtype from each other: at most 53; 0 for exact dtypes."""
    return min(significand_bits(dtype), 53)


def element_of(source: ArraySource, flat: int) -> int | float | complex:
    """One value of a tensor, exactly where it is an integer; raises OSError as `read` does."""
    value: int | float | complex = _whole(computable(source.read(flat, flat + 1)))[0].item()
    return value


def _cut(span: tuple[int, int] | None, length: int, name: str) -> tuple[int, int]:
    start, stop = (0, length) if span is None else (max(0, span[0]), min(length, span[1]))
    if start >= stop:
        raise ArgumentError(Message(f"explorer.empty_{name}", span=span, length=length))
    return start, stop


def _reader(
    source: ArraySource, plane: Plane, rows: tuple[int, int], columns: tuple[int, int]
) -> Read:
    """Reads flat ranges of a window, in whole rows of it or in parts of one row."""
    width = columns[1] - columns[0]
    first = plane.offset + rows[0] * plane.columns + columns[0]

    def read(start: int, stop: int) -> np.ndarray:
        row, column = divmod(start, width)
        begin = first + row * plane.columns + column
        if width == plane.columns or column + stop - start <= width:
            return source.read(begin, begin + stop - start)
        count = (stop - start) // width
        if plane.columns - width <= _NEAR:
            span = (count - 1) * plane.columns + width
            values = source.read(begin, begin + span)
            padded = np.concatenate([values, values[: plane.columns - width]])
            return np.asarray(padded.reshape(count, plane.columns)[:, :width].reshape(-1))
        starts = (begin + i * plane.columns for i in range(count))
        return np.concatenate([source.read(at, at + width) for at in starts])

    return read
