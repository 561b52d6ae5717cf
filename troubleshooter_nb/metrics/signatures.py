"""Short signatures of the rows of a tensor, by which equal rows are found wherever they lie."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import arithmetic_of, computable
from troubleshooter_nb.metrics.relation_loop import shifted_sums, squared_distance
from troubleshooter_nb.thresholds import (
    EXACT_ROW,
    SIGNATURE_COLUMNS,
    SIGNATURE_DISTANCES,
    SIGNATURE_WINDOW,
    SIGNATURES_BLOCK,
    SUMMED_BLOCK,
)

_GOLDEN = 0.6180339887498949


def values_of(array: np.ndarray) -> np.ndarray:
    """The values in C order as float32, float64, complex64 or complex128.

    float16, bfloat16 and float8 widen exactly. bool and integers become float64, which rounds
    beyond ``2**53``, and so does longdouble.

    Raises
    ------
    ValueError
        If the dtype holds no numbers.
    """
    arithmetic = arithmetic_of(array.dtype)
    if arithmetic == "unsupported":
        raise ArgumentError(Message("arguments.dtype_not_related", dtype=array.dtype))
    values = computable(np.asarray(array))
    if arithmetic == "integer" or values.dtype.itemsize > (16 if arithmetic == "complex" else 8):
        with np.errstate(over="ignore"):  # of a long double, which counts as infinite then
            values = values.astype(np.complex128 if arithmetic == "complex" else np.float64)
    elif values.dtype == np.float16:
        values = values.astype(np.float32)
    return np.ascontiguousarray(values).reshape(array.shape)


def searchable(values: np.ndarray) -> np.ndarray:
    """Real finite stand-ins of `values_of`: NaN and inf count as 0, complex parts are mixed."""
    if values.dtype.kind == "c":
        values = values.real + values.real.dtype.type(_GOLDEN) * values.imag
    finite = np.isfinite(values)
    return values if finite.all() else np.where(finite, values, values.dtype.type(0))


@dataclass(frozen=True, slots=True)
class Spread:
    """Sums over the finite values of a tensor: how long it is and how far from constant."""

    mean: complex
    norm: float
    centred: float

    @property
    def constant(self) -> bool:
        """Whether nothing is left around the mean but rounding."""
        return self.centred <= 1e-6 * self.norm


def spread_of(values: np.ndarray) -> Spread:
    """Mean, norm and norm about the mean, accumulated in float64 over blocks; 0 when empty."""
    flat = values.reshape(-1)
    starts = range(0, len(flat), SIGNATURES_BLOCK)
    return spread_of_blocks(flat[start : start + SIGNATURES_BLOCK] for start in starts)


def spread_of_blocks(blocks: Iterable[np.ndarray]) -> Spread:
    """As `spread_of`, of flat values that come in blocks."""
    return spread_and_largest(blocks)[0]


def spread_and_largest(blocks: Iterable[np.ndarray]) -> tuple[Spread, float]:
    """As `spread_of_blocks`, and the largest magnitude of `searchable` values; from one pass."""
    count, total, square, largest = 0, 0j, 0.0, 0.0
    shift: complex | float | None = None
    for values in blocks:
        # Sums about a value of the tensor itself: the mean square of 1 + w would hide a small w.
        shift = _first_finite(values) if shift is None else shift
        if isinstance(shift, float) and (sums := shifted_sums(values, shift)) is not None:
            count += len(values)
            total += sums.total
            square += sums.square
            largest = max(largest, sums.high, -sums.low)
            continue
        finite = searchable(values)
        largest = max(largest, float(finite.max(initial=0.0)), -float(finite.min(initial=0.0)))
        for start in range(0, len(values), SUMMED_BLOCK):
            part = values[start : start + SUMMED_BLOCK]
            block = part.astype(_wide(part))
            block -= shift
            squared = _square(block)
            if not math.isfinite(squared):
                block = block[np.isfinite(block)]
                squared = _square(block)
            count += len(block)
            total += complex(block.sum())
            square += squared
    if not count or shift is None:
        return Spread(0.0, 0.0, 0.0), largest
    mean = total / count
    near, far = (float(np.abs(one)) for one in (mean, mean + shift))
    centred = max(square - count * near * near, 0.0)
    norm = math.sqrt(centred + count * far * far)
    return Spread(mean + shift, norm, math.sqrt(centred)), largest


def _square(block: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        return float(np.vdot(block, block).real)


def remainder_norm(actual: np.ndarray, benchmark: np.ndarray) -> float:
    """Norm of ``actual - benchmark`` over the positions finite on both sides.

    inf when NaN or an infinity of one side has no equal at its place on the other. Both are walked
    in flat order, in blocks and in float64.
    """
    return math.sqrt(remainder_square(actual, benchmark))


def remainder_square(actual: np.ndarray, benchmark: np.ndarray) -> float:
    """The square of `remainder_norm`, as sums of parts make that of the whole."""
    if (found := squared_distance(actual, benchmark)) is not None:
        return found
    actual, benchmark = actual.reshape(-1), benchmark.reshape(-1)
    wide = np.result_type(_wide(actual), _wide(benchmark))
    square = 0.0
    for start in range(0, len(actual), SUMMED_BLOCK):
        left = actual[start : start + SUMMED_BLOCK].astype(wide)
        right = benchmark[start : start + SUMMED_BLOCK].astype(wide)
        with np.errstate(invalid="ignore"):
            error = left - right
        squared = _square(error)
        if not math.isfinite(squared):
            odd = ~np.isfinite(error)
            same = (left == right) | (np.isnan(left) & np.isnan(right))
            if not same[odd].all():
                return math.inf
            error[odd] = 0.0
            squared = _square(error)
        square += squared
    return square


def row_signatures(values: np.ndarray, axis: int, *, length: int = 16) -> np.ndarray:
    """Random projections of every slab along `axis`; the same weights for the same slab shape.

    Parameters
    ----------
    values : ndarray, shape (..., n, ...), real and finite
    axis : int
    length : int
        Figures per row at most. Rows that are no longer are their own signature.

    Returns
    -------
    ndarray of float64, shape (n, length or less)
        Of a row longer than 4,096 only that many columns, drawn once, take part.
    """
    rows = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
    if rows.shape[1] <= length:
        return rows.astype(np.float64)
    columns, weights = projection(rows.shape[1], length)
    if len(columns) < rows.shape[1]:
        rows = rows[:, columns]
    return np.asarray(rows @ weights.astype(rows.dtype), np.float64)


def projection(width: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns of rows of this width that take part in a signature, and their weights."""
    random = np.random.default_rng(width)
    columns = np.arange(min(width, SIGNATURE_COLUMNS))
    if width > SIGNATURE_COLUMNS:
        columns = np.sort(random.choice(width, SIGNATURE_COLUMNS, replace=False))
    return columns, random.standard_normal((len(columns), length)) / len(columns) ** 0.5


def tensor_signature(values: np.ndarray) -> np.ndarray:
    """Minimum, maximum, mean, L2 norm and four random projections of a whole tensor.

    Parameters
    ----------
    values : ndarray, any shape, as `searchable` gives them

    Returns
    -------
    ndarray of float64, shape (8,)
        The projections depend on the order of the values and are about as large as their root mean
        square; the same weights for the same number of values, 0 for fewer than four. NaN
        throughout where there are no values.
    """
    found = np.full(8, np.nan)
    flat = values.reshape(-1)
    if not len(flat):
        return found
    wide = flat.astype(np.float64)
    found[:4] = wide.min(), wide.max(), wide.mean(), np.linalg.norm(wide)
    projections = row_signatures(wide[None], 0, length=4)[0]
    found[4:] = 0.0
    found[4 : 4 + len(projections)] = projections
    return found


def nearest(pool: np.ndarray, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each query signature the nearest of the pool, its distance and the second distance.

    Shapes (n, k) and (m, k) give three arrays of shape (m,). With more than ``2**26`` pairs only
    the 64 neighbours in the order of the first figure are looked at, which finds exact equals and
    may miss noisy ones. The second distance is inf in a pool of one.
    """
    brute = len(pool) * len(queries) <= SIGNATURE_DISTANCES
    window = np.arange(-SIGNATURE_WINDOW, SIGNATURE_WINDOW)[None]
    step = max(1, (1 << 21) // (len(pool) if brute else window.size * pool.shape[1]))
    order = np.argsort(pool[:, 0], kind="stable")
    ranked = pool[order, 0]
    found, first, second = [], [], []
    for start in range(0, len(queries), step):
        part = queries[start : start + step]
        if brute:
            candidates = None
            square = _squares(part)[:, None] + _squares(pool)[None] - 2.0 * (part @ pool.T)
        else:
            place = np.searchsorted(ranked, part[:, 0])[:, None]
            candidates = order[np.clip(place + window, 0, len(pool) - 1)]
            apart = pool[candidates]
            apart -= part[:, None]
            square = np.einsum("ijk,ijk->ij", apart, apart)
        best = square.argmin(1)
        lines = np.arange(len(part))
        index = best if candidates is None else candidates[lines, best]
        if candidates is None:
            square[lines, best] = np.inf
        else:
            square[candidates == index[:, None]] = np.inf  # the ends repeat in a clipped window
        found.append(index)
        # Recomputed: the expanded square above loses half of the digits.
        first.append(_lengths(pool[index] - part))
        second.append(np.sqrt(np.maximum(square.min(1), 0.0)))
    return np.concatenate(found), np.concatenate(first), np.concatenate(second)


def best_start(whole: np.ndarray, part: np.ndarray) -> tuple[int, float]:
    """Where the rows of `part` lie in `whole` one after the other with the least error.

    Parameters
    ----------
    whole : ndarray of float64, shape (n, k)
    part : ndarray of float64, shape (m, k), m <= n

    Returns
    -------
    int
        First row in `whole`.
    float
        Norm of the error there.
    """
    rows, length = len(whole), len(part)
    size = 1 << (rows + length - 1).bit_length()
    products = np.zeros(size // 2 + 1, np.complex128)
    for one, other in zip(whole.T, part.T, strict=True):
        products += np.fft.rfft(one, size) * np.conj(np.fft.rfft(other, size))
    crossed = np.fft.irfft(products, size)[: rows - length + 1]
    sums = np.concatenate([[0.0], np.cumsum(_squares(whole))])
    start = int(np.argmin(sums[length:] - sums[:-length] - 2.0 * crossed))
    return start, float(np.linalg.norm(whole[start : start + length] - part))


def match_rows(pool: np.ndarray, queries: np.ndarray, tolerance: float) -> np.ndarray | None:
    """The permutation with ``pool[order]`` close to `queries`, or None where rows find no partner.

    Parameters
    ----------
    pool, queries : ndarray of float64, shape (n, k)
        Signatures.
    tolerance : float
        Error of a row against the root mean square of all rows.

    Notes
    -----
    Most rows must lie much nearer to their partner than to any other row. Rows that are equal among
    themselves, as in constant tensors, have no partner of their own.
    """
    scale = float(np.sqrt(np.mean(_squares(queries))))
    sample = np.unique(np.linspace(0, len(queries) - 1, 64).astype(int))
    _, first, second = nearest(pool, queries[sample])
    if np.median(first) > 4.0 * tolerance * scale or np.mean(first < 0.3 * second) < 0.6:
        return None
    order = np.empty(len(queries), np.int64)
    if pool.shape[1] == 1:
        # Scalars in sorted order are the closest pairing there is.
        order[np.argsort(queries[:, 0], kind="stable")] = np.argsort(pool[:, 0], kind="stable")
        return order
    if len(pool) * len(queries) > SIGNATURE_DISTANCES:
        # Equal rows lie alike in the order of the first figure, but for neighbours that rounding
        # exchanged: those alone are looked for.
        ranked = [np.argsort(side[:, 0], kind="stable") for side in (pool, queries)]
        order[ranked[1]] = ranked[0]
        rest = np.flatnonzero(_lengths(pool[order] - queries) > EXACT_ROW * scale)
    else:
        rest = np.arange(len(queries))
    if len(rest):
        among = order[rest] if len(rest) < len(queries) else np.arange(len(pool))
        order[rest] = among[nearest(pool[among], queries[rest])[0]]
    _, owners = np.unique(order, return_index=True)
    late = np.setdiff1d(np.arange(len(queries)), owners)
    free = np.setdiff1d(np.arange(len(pool)), order)
    if len(late) > len(queries) // 2:
        return None
    return _fill(order, late, free, pool, queries)


def _fill(
    order: np.ndarray, late: np.ndarray, free: np.ndarray, pool: np.ndarray, queries: np.ndarray
) -> np.ndarray:
    """Give rows whose nearest is taken the free one next to them in the order of their sums.

    They are equal among themselves (zero rows of padding) up to noise, so any pairing serves.
    """
    ranked = late[np.argsort(queries[late].sum(1), kind="stable")]
    order[ranked] = free[np.argsort(pool[free].sum(1), kind="stable")]
    return order


def _first_finite(flat: np.ndarray) -> complex:
    head = flat[:SIGNATURES_BLOCK]
    head = head[np.isfinite(head)]
    value = head[0] if len(head) else 0.0
    return complex(value) if flat.dtype.kind == "c" else float(value)


def _wide(values: np.ndarray) -> np.dtype:
    return np.dtype(np.complex128 if values.dtype.kind == "c" else np.float64)


def _squares(rows: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def _lengths(rows: np.ndarray) -> np.ndarray:
    return np.asarray(np.sqrt(_squares(rows)))
