"""Figures by which the values of an entry are recognised: as recorded, else of a bounded read."""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Iterable
from functools import cache

import numpy as np

from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import ReadError
from troubleshooter_nb.metrics.signatures import searchable, tensor_signature, values_of
from troubleshooter_nb.thresholds import (
    CONSTANT_BYTES,
    SAME_FIGURES,
    SAME_SHORT_FIGURES,
    TIES_SAMPLE,
)

_RECORDED = ("min", "max", "mean", "l2")


class ReadingBudget:
    """Bytes that may still be read to break ties, over both sides and all gaps."""

    def __init__(self, size_bytes: int) -> None:
        self.left_over = size_bytes

    def spend(self, size_bytes: int) -> bool:
        """Whether so much is allowed; takes it off if so."""
        if size_bytes > self.left_over:
            return False
        self.left_over -= size_bytes
        return True


class Figures:
    """What the values of a dump's entries look like, one row of numbers per entry.

    Parameters
    ----------
    dump : Dump
    budget : ReadingBudget
        Shared by both sides.
    """

    width = 8

    def __init__(self, dump: Dump, budget: ReadingBudget) -> None:
        self.budget = budget
        self._dump = dump
        self._columns = dump.columns
        self._read: dict[int, np.ndarray] = {}
        self._exact: dict[int, str] = {}

    def cost(self, rows: Iterable[int], *, exact: bool = False) -> int:
        """Bytes to read so that the figures of these entries are known.

        `exact`: also those of integers, for `exactly`.
        """
        sizes = 0
        for row in rows:
            source = self._dump.sources[row]
            is_wanted = self._wants_values(row) and row not in self._read
            is_wanted |= exact and not self._is_float(row) and row not in self._exact
            if is_wanted and source is not None:
                sizes += min(math.prod(source.shape), TIES_SAMPLE) * source.dtype.itemsize
        return sizes

    def of(self, row: int, *, read: bool) -> np.ndarray:
        """Minimum, maximum, mean, L2 norm and projections, shape (8,): NaN what is not known.

        All NaN for integers and for tensors that are one value throughout: that two of them agree
        says nothing.

        Parameters
        ----------
        row : int
        read : bool
            Whether values may be read where nothing is recorded.
        """
        found = np.full(self.width, np.nan)
        if not self._is_float(row):
            return found
        found[:4] = [self._columns[name][row] for name in _RECORDED]
        if self._wants_values(row):
            if not read:
                return np.full(self.width, np.nan)
            if row not in self._read:
                self._read[row] = self._signature(row)
            found = self._read[row]
        low, high = found[:2]
        is_telling = np.isfinite(low) and np.isfinite(high) and low < high
        return found if is_telling else np.full(self.width, np.nan)

    def checksum(self, row: int) -> str:
        """The checksum of the values with its kind in front; empty where it tells nothing."""
        crc, digest = int(self._columns["crc32"][row]), str(self._columns["digest"][row])
        low, high = self._columns["min"][row], self._columns["max"][row]
        text = f"crc32:{crc}" if crc >= 0 else digest
        dtype, size = str(self._columns["dtype"][row]), int(self._columns["size"][row])
        if not text or low == high or size == 1 or is_constant_checksum(text, dtype, size):
            return ""
        return f"{dtype} {text}"

    def exactly(self, row: int, *, read: bool) -> str:
        """What equal values share: the checksum, of integers else one of what may be read.

        Empty where it tells nothing.
        """
        known = self.checksum(row)
        if known or not read or self._is_float(row):
            return known
        if row not in self._exact:
            self._exact[row] = self._digest(row)
        return self._exact[row]

    def tolerance(self, row: int) -> float:
        """How near two figures of this entry must be, against its largest value."""
        return SAME_SHORT_FIGURES.get(str(self._columns["dtype"][row]), SAME_FIGURES)

    def _is_float(self, row: int) -> bool:
        dtype = str(self._columns["dtype"][row])
        return not dtype or "float" in dtype

    def _wants_values(self, row: int) -> bool:
        known = np.isfinite(self._columns["min"][row]) and np.isfinite(self._columns["max"][row])
        return self._is_float(row) and not known

    def _digest(self, row: int) -> str:
        source = self._dump.sources[row]
        if source is None or math.prod(source.shape) < 2:
            return ""
        try:
            stored = source.read(0, min(math.prod(source.shape), TIES_SAMPLE))
        except ReadError:
            return ""
        is_telling = stored.dtype.kind in "iub" and bool((stored != stored[0]).any())
        return (
            f"{source.shape} {zlib.crc32(stored.astype(np.int64).tobytes())}" if is_telling else ""
        )

    def _signature(self, row: int) -> np.ndarray:
        source = self._dump.sources[row]
        if source is None:
            return np.full(self.width, np.nan)
        try:
            stored = source.read(0, min(math.prod(source.shape), TIES_SAMPLE))
            return tensor_signature(searchable(values_of(stored)))
        except (ReadError, ValueError):
            # What cannot be read breaks no tie; the comparison reports it in its own row.
            return np.full(self.width, np.nan)


def largest(figures: np.ndarray) -> np.ndarray:
    """The largest magnitude of each tensor, shape (n,)."""
    return np.asarray(np.abs(figures[:, :2]).max(1))


def are_near(one: np.ndarray, others: np.ndarray, tolerance: float) -> np.ndarray:
    """Whether all figures known of both are near, for each of the others: bool, shape (n,)."""
    limits = np.repeat(
        np.maximum(largest(others), largest(one[None])[0])[:, None], len(one), axis=1
    )
    limits[:, 3] = np.maximum(np.abs(others[:, 3]), np.abs(one[3]))
    apart = np.abs(others - one)
    known = ~np.isnan(apart)
    near = (apart <= tolerance * limits) | ~known
    return np.asarray(near.all(1) & known[:, :2].all(1) & (known.sum(1) > 2))


def is_constant_checksum(text: str, dtype: str, size: int) -> bool:
    """Whether this is the checksum of a tensor of zeros or of ones."""
    return text in _of_constants(dtype, size)


@cache
def _of_constants(dtype: str, size: int) -> frozenset[str]:
    """Checksums of tensors of zeros and of ones."""
    try:
        kind = np.dtype(dtype)
    except TypeError:
        return frozenset()
    if size <= 0 or size * kind.itemsize > CONSTANT_BYTES:
        return frozenset()
    found = set()
    for value in (0, 1):
        stored = np.full(size, value, kind).tobytes()
        found.add(f"crc32:{zlib.crc32(stored)}")
        found.add(f"md5:{hashlib.md5(stored, usedforsecurity=False).hexdigest()}")
    return frozenset(found)
