"""Whether a tensor still holds what a known initialiser draws, so was never trained or loaded."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np

from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import arithmetic_of, unit_roundoff
from troubleshooter_nb.metrics.ranges import InMemory
from troubleshooter_nb.metrics.streamed import Streamed
from troubleshooter_nb.ranges import Readable
from troubleshooter_nb.thresholds import (
    BOUND_GAP,
    DRAW_APART,
    DRAWN_SIGMAS,
    FEWEST_DRAWN,
    FEWEST_NORMAL,
    SORTED_VALUES,
)

_NORMAL_STDS = {
    1.0: Message("evidence.std_of_embedding"),
    **{std: Message("evidence.std", std=std) for std in (0.02, 0.01, 0.006)},
}
# Of a normal distribution cut at two deviations, as MindSpore, TensorFlow and JAX cut it.
_CUT = 2.0
_CUT_STD = 0.8796256610342398


def initialiser_of(
    array: np.ndarray, *, fan_in: int | None = None, shape: tuple[int, ...] | None = None
) -> str | None:
    """The initialiser whose draw the values look like, or None.

    Parameters
    ----------
    array : ndarray, any shape and any dtype that holds numbers
    fan_in : int, optional
        Inputs of the layer, where the shape does not say it, as of a bias.
    shape : tuple of int, optional
        Of the tensor, where the values are a sample of it.

    Returns
    -------
    str or None
        "zeros", "ones", "constant", or a message of a uniform or normal distribution that names
        the bound or the standard deviation. None for empty tensors, for single values other than 0
        and 1, where NaN or inf occurs, and for anything but real floats that are not constant.

    Notes
    -----
    A distribution is named only if its support, mean, variance and shape all fit: a uniform bound
    must be reached as closely as ``n`` draws reach it, and no value may exceed it. Tensors below
    256 elements (20,000 for normal, whose standard deviation is all there is to compare) are never
    judged. Trained values seldom pass; values that do may still be loaded from a checkpoint that
    was itself just initialised.

    Fans are those of ``(out, in, *kernel)``, and of the first two axes swapped. Bounds:
    ``1/sqrt(fan_in)`` (PyTorch's and MindSpore's dense and convolution layers), ``1/sqrt(hidden)``
    (recurrent layers), He, LeCun and Xavier.
    """
    return initialiser_of_stored(InMemory(array), fan_in=fan_in, shape=shape)


def initialiser_of_stored(
    source: Readable, *, fan_in: int | None = None, shape: tuple[int, ...] | None = None
) -> str | None:
    """As `initialiser_of`, of a stored tensor of any size, read at most once and in blocks.

    Its first block alone is judged first: a part of a draw is a draw.

    Raises
    ------
    ValueError
        If the dtype holds no numbers.
    ReadError
        If it cannot be read.
    """
    tensor = Streamed(source)
    draw = _Draw(tensor.size, unit_roundoff(source.dtype))
    for number, block in enumerate(tensor.blocks()):
        if not number and len(block) < tensor.size:
            part = _Draw(len(block), draw.roundoff)
            if not part.take(block) or not _named(part, source, fan_in, shape):
                return None
        if not draw.take(block):
            return None
    return _named(draw, source, fan_in, shape) if draw.taken else None


def _named(
    draw: _Draw, source: Readable, fan_in: int | None, shape: tuple[int, ...] | None
) -> str | None:
    if draw.constant is not None:
        known = {0.0: "zeros", 1.0: "ones"}.get(draw.constant.real)
        named = known if draw.constant.imag == 0.0 else None
        return named or ("constant" if draw.taken > 1 else None)
    if arithmetic_of(source.dtype) != "float" or draw.taken < FEWEST_DRAWN:
        return None
    shape = source.shape if shape is None else shape
    for bound, name in _bounds(shape, fan_in):
        if draw.is_uniform(bound):
            return Message("evidence.uniform_bound", bound=bound, rule=name)
    for std, name in _deviations(shape, fan_in):
        if draw.is_normal(std):
            return Message("evidence.normal", form=name)
    return None


class _Draw:
    """Figures of a tensor of so many values that every distribution is held against."""

    def __init__(self, count: int, roundoff: float) -> None:
        self.roundoff = roundoff
        self.taken = 0
        self.constant: complex | None = None  # what all values so far are
        self.largest = 0.0
        self._sums = np.zeros(3)
        self._step = -(-count // SORTED_VALUES)
        self._sample: list[np.ndarray] = []

    def take(self, flat: np.ndarray) -> bool:
        """Measure the next values; False where NaN or inf is among them."""
        if not np.isfinite(flat).all():
            return False
        first = complex(flat[0]) if not self.taken else self.constant
        self.constant = first if first is not None and (flat == first).all() else None
        if flat.dtype.kind != "c":
            self.largest = max(self.largest, float(flat.max()), -float(flat.min()))
            # Values far beyond any initialiser would overflow below and fit nothing.
            wide = flat.astype(np.float64) if self.largest < 1e100 else np.zeros(1)
            squares = np.square(wide)
            self._sums += [wide.sum(), squares.sum(), squares @ squares]
            # A view would keep the whole block.
            self._sample.append(wide[-self.taken % self._step :: self._step].copy())
        self.taken += len(flat)
        return True

    @property
    def mean(self) -> float:
        """Mean of the values."""
        return float(self._sums[0]) / self.taken

    @property
    def square(self) -> float:
        """Mean of their squares."""
        return float(self._sums[1]) / self.taken

    @property
    def kurtosis(self) -> float:
        """Fourth moment over the square of the second."""
        return float(self._sums[2]) / self.taken / (self.square**2 or 1.0)

    @cached_property
    def sorted(self) -> np.ndarray:
        """Up to 16,384 values, evenly spread."""
        return np.sort(np.concatenate(self._sample))

    def is_uniform(self, bound: float) -> bool:
        """Whether it is a draw between -bound and bound."""
        above = self.largest <= bound * (1.0 + max(2.0 * self.roundoff, 1e-6))
        # Rounding moves the largest value too.
        gap = BOUND_GAP / self.taken + self.roundoff
        if not above or self.largest < bound * (1.0 - gap):
            return False
        variance = bound**2 / 3.0
        fits = self._fits_moments(variance, math.sqrt(4.0 / 5.0))
        return fits and self._follows(lambda x: np.clip((x / bound + 1.0) / 2.0, 0.0, 1.0))

    def is_normal(self, std: float) -> bool:
        """Whether it is a normal draw of this deviation, whole or cut at two deviations."""
        if self.taken < FEWEST_NORMAL:
            return False
        if self.largest <= _CUT * std * (1.0 + 2.0 * self.roundoff + 1e-6):
            inside = _normal_cdf(np.array([_CUT]))[0] * 2.0 - 1.0
            fits = self._fits_moments((_CUT_STD * std) ** 2, math.sqrt(2.0))
            return fits and self._follows(
                lambda x: (_normal_cdf(x / std) - 0.5) / inside + 0.5,
            )
        if abs(self.kurtosis - 3.0) > DRAWN_SIGMAS * math.sqrt(24.0 / self.taken) + self.roundoff:
            return False
        fits = self._fits_moments(std**2, math.sqrt(2.0))
        return fits and self._follows(lambda x: _normal_cdf(x / std))

    def _fits_moments(self, variance: float, relative: float) -> bool:
        """Mean 0 and the variance, within five deviations; `relative` is that of one square."""
        error = DRAWN_SIGMAS / math.sqrt(self.taken)
        centred = abs(self.mean) <= error * math.sqrt(variance)
        return centred and abs(self.square / variance - 1.0) <= relative * error + self.roundoff

    def _follows(self, distribution: Callable[[np.ndarray], np.ndarray]) -> bool:
        """Kolmogorov's test on up to 16,384 values."""
        count = len(self.sorted)
        expected = distribution(self.sorted)
        ranks = np.arange(count + 1) / count
        apart = max(np.abs(expected - ranks[1:]).max(), np.abs(expected - ranks[:-1]).max())
        return bool(apart <= DRAW_APART / math.sqrt(count) + self.roundoff)


def _fans(
    shape: tuple[int, ...], fan_in: int | None
) -> Iterator[tuple[int, int, Callable[[str], str]]]:
    """Pairs (in, out) and how a rule is said of them, for both orders of the first two axes."""
    if fan_in:
        yield fan_in, shape[0] if shape else 1, _as_it_is
    if len(shape) < 2:
        return
    kernel = math.prod(shape[2:])
    yield shape[1] * kernel, shape[0] * kernel, _as_it_is
    if shape[0] != shape[1]:
        yield shape[0] * kernel, shape[1] * kernel, _of_transposed


def _as_it_is(rule: str) -> str:
    return rule


def _of_transposed(rule: str) -> str:
    return Message("evidence.of_transposed", rule=rule)


def _bounds(shape: tuple[int, ...], fan_in: int | None) -> Iterator[tuple[float, str]]:
    for inputs, _, said in _fans(shape, fan_in):
        yield 1.0 / math.sqrt(inputs), said("1/sqrt(fan_in)")
    for gates in (4, 3, 1):
        if shape and len(shape) <= 2 and shape[0] % gates == 0:
            yield math.sqrt(gates / shape[0]), Message("evidence.of_gates", gates=gates)
    for inputs, outputs, said in _fans(shape, fan_in):
        yield math.sqrt(6.0 / inputs), said("sqrt(6/fan_in), He")
        yield math.sqrt(3.0 / inputs), said("sqrt(3/fan_in), LeCun")
        yield math.sqrt(6.0 / (inputs + outputs)), said("sqrt(6/(fan_in + fan_out)), Xavier")


def _deviations(shape: tuple[int, ...], fan_in: int | None) -> Iterator[tuple[float, str]]:
    yield from _NORMAL_STDS.items()
    for inputs, outputs, said in _fans(shape, fan_in):
        named = {
            "sqrt(2/fan_in), He": 2.0 / inputs,
            "sqrt(1/fan_in), LeCun": 1.0 / inputs,
            "sqrt(2/(fan_in + fan_out)), Xavier": 2.0 / (inputs + outputs),
        }
        for name, variance in named.items():
            std = Message("evidence.std", std=name)
            yield math.sqrt(variance), said(std)
            # Deviation before the cut, chosen so that the one after it is as named.
            yield math.sqrt(variance) / _CUT_STD, said(Message("evidence.cut_at_two", form=std))


def _normal_cdf(values: np.ndarray) -> np.ndarray:
    return np.array([0.5 * math.erfc(-x) for x in (values / math.sqrt(2.0)).tolist()])
