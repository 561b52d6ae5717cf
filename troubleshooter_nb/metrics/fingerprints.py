"""Small fingerprints that find, among thousands of tensors, the pairs worth comparing whole."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from troubleshooter_nb.metrics.ranges import InMemory, held
from troubleshooter_nb.metrics.signatures import searchable
from troubleshooter_nb.metrics.streamed import Streamed
from troubleshooter_nb.ranges import Readable
from troubleshooter_nb.thresholds import FINGERPRINT_SAMPLE


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a tensor keeps when its elements are rearranged, and a sample of what it does not.

    Attributes
    ----------
    shape : tuple of int
    norm : float
        Root of the sum of squares; inf beyond float64's range.
    invariants : tuple of float
        Mean, standard deviation, skewness, kurtosis, smallest and largest value.
    sample : tuple of float
        Up to 64 values at places that depend on the size alone.
    digest : str
        Equal only for the same values in the same order, whatever the shape, and whether they are
        stored as bfloat16, float16 or float32. "" for a constant tensor, which says nothing.

    Notes
    -----
    In all figures but the digest NaN and inf count as 0, and a complex value as its real part plus
    0.618 of its imaginary part.
    """

    shape: tuple[int, ...]
    norm: float
    invariants: tuple[float, ...]
    sample: tuple[float, ...]
    digest: str

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))


def fingerprint(array: np.ndarray) -> Fingerprint:
    """The fingerprint of a tensor of any shape and dtype that holds numbers.

    An empty tensor has norm 0, no invariants and no sample.

    Raises
    ------
    ValueError
        If the dtype holds no numbers.
    """
    return fingerprint_of(InMemory(array))


def fingerprint_of(source: Readable) -> Fingerprint:
    """As `fingerprint`, of a stored tensor of any size, which is read three times in blocks.

    Raises
    ------
    ValueError
        If the dtype holds no numbers.
    ReadError
        If it cannot be read.
    """
    source = held(source)
    tensor = Streamed(source)
    if not tensor.size:
        return Fingerprint(tensor.shape, 0.0, (), (), "")
    low, high, finite = math.inf, -math.inf, True
    hashed = hashlib.blake2b(digest_size=16)
    for block in tensor.blocks():
        hashed.update(block.data)
        finite = finite and bool(np.isfinite(block).all())
        flat = searchable(block)
        low, high = min(low, float(flat.min())), max(high, float(flat.max()))
    norm, moments = _moments(tensor, max(-low, high))
    if tensor.size <= FINGERPRINT_SAMPLE:
        places = np.arange(tensor.size)
    else:
        places = np.random.default_rng(tensor.size).integers(tensor.size, size=FINGERPRINT_SAMPLE)
    digest = "" if low == high and finite else hashed.hexdigest()
    sample = tuple(tensor.at(places).tolist())
    return Fingerprint(tensor.shape, norm, (*moments, low, high), sample, digest)


def candidates(
    left: Mapping[str, Fingerprint],
    right: Mapping[str, Fingerprint],
    *,
    tolerance: float = 1e-2,
    limit: int = 3,
) -> list[tuple[str, str, float]]:
    """Pairs of names whose tensors may hold the same values, in this or another order.

    Parameters
    ----------
    left, right : Mapping of str to Fingerprint
    tolerance : float
        Largest distance: root mean square difference of the samples, or largest difference of an
        invariant, whichever is less, in standard deviations of right. Skewness and kurtosis are
        left out, as noise in one large value moves them most.
    limit : int
        Most candidates per right tensor, nearest first.

    Returns
    -------
    list of (left name, right name, distance)
        By the order of `right`, then by distance. Only tensors of equal size are set side by side,
        and constant ones never.

    Notes
    -----
    Tensors of one initialiser that were never trained have nearly equal invariants, so a candidate
    is a question for `troubleshooter_nb.metrics.relations.find_relation`, not a finding.
    """
    by_size: dict[int, list[str]] = defaultdict(list)
    for name, print_ in left.items():
        if print_.digest:
            by_size[print_.size].append(name)
    tables = {size: _table([left[name] for name in names]) for size, names in by_size.items()}
    found = []
    for name, print_ in right.items():
        if not print_.digest or print_.size not in tables:
            continue
        distance = _distances(*tables[print_.size], print_)
        near = np.argsort(distance, kind="stable")[:limit]
        names = by_size[print_.size]
        found += [(names[i], name, float(distance[i])) for i in near if distance[i] <= tolerance]
    return found


def _moments(tensor: Streamed, largest: float) -> tuple[float, tuple[float, float, float, float]]:
    """Norm, and mean, deviation, skewness and kurtosis, of values scaled by their largest."""
    if not largest:
        return 0.0, (0.0, 0.0, 0.0, 0.0)
    powers = np.zeros(4)
    square = total = 0.0
    for values in tensor.blocks():
        block = searchable(values).astype(np.float64) / largest
        total += float(block.sum())
        square += float(np.square(block).sum())
    mean = total / tensor.size
    for values in tensor.blocks():
        block = searchable(values).astype(np.float64) / largest - mean
        squares = np.square(block)
        powers += [0.0, squares.sum(), (squares * block).sum(), np.square(squares).sum()]
    _, variance, third, fourth = (powers / tensor.size).tolist()
    skewness = third / variance**1.5 if variance else 0.0
    kurtosis = fourth / variance**2 if variance else 0.0
    norm = float(np.sqrt(square)) * largest
    return norm, (mean * largest, variance**0.5 * largest, skewness, kurtosis)


def _table(prints: list[Fingerprint]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([p.invariants for p in prints]), np.array([p.sample for p in prints])


def _distances(invariants: np.ndarray, samples: np.ndarray, right: Fingerprint) -> np.ndarray:
    deviation = right.invariants[1] or 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        moved = np.abs(invariants - np.array(right.invariants))[:, [0, 1, 4, 5]].max(1)
        apart = np.sqrt(np.mean(np.square((samples - np.array(right.sample)) / deviation), axis=1))
    return np.asarray(np.minimum(moved / deviation, apart))
