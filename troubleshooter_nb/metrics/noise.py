"""How much two correct implementations may differ, from dtype, operator and accumulated length.

Fitted to own runs of MindSpore 2.10 against torch 2.13 on CPU, operator by operator. The
bound, one for every operator, judges a pair on its own: every operator but tanh and exp, which
MindSpore approximates, stays a factor of 3 or more below it. What is typical of an operator is for
finding where a difference begins, which may be far below the bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from troubleshooter_nb.metrics.floats import dtype_from_token, unit_roundoff

# A dot product of this length is the largest in most layers; used where the length is unknown.
TYPICAL_LENGTH = 4096
_HEADROOM = 8.0
# Rounding once to the stored dtype, on both sides: single operators in float16 stay below one.
_STORED = 2.0
# Error of a sum of n products grows like 0.3 sqrt(n) roundoffs: 52 at n = 65,536, 14 at 2,304.
_GROWTH = 0.3
_FLOAT32_ROUNDOFF = 2.0**-24
_PEAK_OVER_L2 = 4.0
# Peak over norm, both relative to the reference, of rounding noise: 1 to 7 for dense layers,
# convolutions, softmax and layer norms, 5 for Gaussian noise on ten million ones.
_CREST = 16.0
# A value or two that fell to the other side of a rounding boundary are no outliers: 4 ulp.
_FLIPPED = 8.0


@dataclass(frozen=True, slots=True)
class NoiseBound:
    """Largest error that rounding explains.

    `rel_l2` bounds the norm of the error over the norm of the reference, `peak` the largest
    absolute error over the largest absolute reference value; `flipped` is a peak that even a
    single element may have.
    """

    rel_l2: float
    peak: float
    flipped: float

    def explains(self, rel_l2: float, peak: float) -> bool:
        """Whether an error is rounding: inside both bounds, and no element stands out."""
        return rel_l2 <= self.rel_l2 and peak <= min(self.peak, max(self.flipped, _CREST * rel_l2))


def noise_bound(
    left_dtype: np.dtype, right_dtype: np.dtype, *, length: int | None = None
) -> NoiseBound:
    """Bound for two tensors of these dtypes.

    Parameters
    ----------
    left_dtype, right_dtype : numpy dtype
        The coarser one decides. Integers and bool are exact: their bound is 0.
    length : int, optional
        Products summed into one element (input features of a dense layer, kernel size times
        channels of a convolution). Unknown: 4,096.

    Notes
    -----
    16-bit formats are assumed to be accumulated in float32, as every current device does.
    """
    stored = max(unit_roundoff(left_dtype), unit_roundoff(right_dtype))
    accumulated = min(stored, _FLOAT32_ROUNDOFF)
    terms = max(TYPICAL_LENGTH if length is None else length, 1)
    rel_l2 = _STORED * stored + _HEADROOM * accumulated * (1.0 + _GROWTH * terms**0.5)
    return NoiseBound(rel_l2, _PEAK_OVER_L2 * rel_l2, _FLIPPED * stored)


def roundoff_of(left: str, right: str) -> float:
    """Unit roundoff that errors are counted in: of the coarser dtype, float32's at most.

    0.0 for integers, bool, and dtypes that are unknown.
    """
    try:
        stored = max(
            unit_roundoff(dtype_from_token(name)) for name in (left or right, right or left)
        )
    except (ValueError, TypeError):
        return 0.0
    return min(stored, _FLOAT32_ROUNDOFF)


# Typical relative L2 error of one operator in float32, in roundoffs of it: measured values, a
# little above. Products grow with their length instead.
_TYPICAL = 2.0
_ROUNDOFFS: Mapping[str, float] = {
    "softmax": 16.0,
    "logsoftmax": 8.0,
    "gelu": 4.0,
    "sigmoid": 8.0,
    "silu": 8.0,
    "swiglu": 8.0,
    "mean": 50.0,
    "sum": 10.0,
    "exp": 50.0,
    # MindSpore 2.10 approximates these on CPU.
    "tanh": 400.0,
    "softplus": 400.0,
    "mish": 400.0,
    "log": 400.0,
    "lstm": 400.0,
    "gru": 400.0,
}
_PRODUCTS = frozenset(
    "linear matmul bmm addmm conv1d conv2d conv3d convtranspose2d multiheadattention "
    "scaleddotproductattention".split()
)
# A value rounded on both sides: two errors that are uniform within half a unit.
ROUNDED_TWICE = 0.8


@dataclass(frozen=True)
class NoiseModel:
    """Error to expect of one operator whose inputs agree.

    Attributes
    ----------
    roundoffs : mapping of str to float
        Relative L2 error of an operator, by torch's word in lower case, in unit roundoffs of the
        coarser side, but of float32 at most.
    self_noise : mapping of str to float
        Relative L2 error by entry name, where one side was run twice: a floor besides.
    """

    roundoffs: Mapping[str, float] = field(default_factory=lambda: _ROUNDOFFS)
    self_noise: Mapping[str, float] = field(default_factory=dict)

    def typical(
        self,
        left_dtype: np.dtype,
        right_dtype: np.dtype,
        word: str = "",
        *,
        length: int = 1,
        backward: bool = False,
    ) -> float:
        """Relative L2 error that is usual; ten times of it is not.

        Parameters
        ----------
        left_dtype, right_dtype : numpy dtype
            The coarser one decides. Integers and bool are exact: 0.
        word : str
            The operator in torch's word in lower case.
        length : int
            Products summed into one element.
        backward : bool
            Gradients pass through twice the arithmetic.
        """
        stored = max(unit_roundoff(left_dtype), unit_roundoff(right_dtype))
        accumulated = min(stored, _FLOAT32_ROUNDOFF)
        many = self.roundoffs.get(word, _TYPICAL)
        if word in _PRODUCTS and word not in self.roundoffs:
            many = _TYPICAL + _GROWTH * max(length, 1) ** 0.5
        noise = accumulated * many * (2.0 if backward else 1.0)
        if stored > _FLOAT32_ROUNDOFF:
            noise += ROUNDED_TWICE * stored
        return noise
