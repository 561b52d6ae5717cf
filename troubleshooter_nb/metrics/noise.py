"""How much two correct implementations may differ, from dtype and accumulated length.

The first model: one bound for every operator. Fitted to shared/recipes/mindspore/noise_floor.csv
(MindSpore 2.10 against torch 2.13 on CPU), where every operator but tanh and exp, which MindSpore
approximates, stays a factor of 3 or more below it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from troubleshooter_nb.metrics.floats import unit_roundoff

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
