"""The first values of a tensor that is there as a whole, to compare with a sample of another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from troubleshooter_nb.dump import ArraySource
from troubleshooter_nb.ranges import Starts, read_rows


@dataclass(frozen=True)
class FirstValues:
    """An `ArraySource` of the first values of another one, in C order.

    Attributes
    ----------
    source : ArraySource
        Of at least `count` values.
    count : int
    """

    source: ArraySource
    count: int

    @property
    def shape(self) -> tuple[int, ...]:
        """One axis, as a sample has."""
        return (self.count,)

    @property
    def dtype(self) -> np.dtype:
        """Dtype of the tensor."""
        return self.source.dtype

    @property
    def size_bytes(self) -> int:
        """Bytes of these values."""
        return self.count * self.dtype.itemsize

    def files(self) -> tuple[str, ...]:
        """The files of the tensor."""
        return self.source.files()

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """Stored values of the flat range; see `ArraySource.read`."""
        return self.source.read(start, min(stop, self.count), into if stop <= self.count else None)

    def read_rows(self, starts: Starts, length: int) -> np.ndarray:
        """Stored values of flat ranges; see `troubleshooter_nb.dump.read_rows`."""
        return read_rows(self.source, starts, length)
