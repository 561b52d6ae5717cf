"""The figures of TroubleShooter's comparison, in its dtypes, order of tests and rounding.

They exist to print the old tables. What this package itself reports is computed in
`troubleshooter_nb.metrics`; nothing from here enters a `Comparison`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

SHAPES_DIFFER = "Shape is inconsistent"
# Ours: the old tool ended the whole comparison at the first damaged file, without its name.
UNREADABLE = "File is unreadable"
# Of float64, whatever the dtype of the arrays.
_EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Figures:
    """One row of the old table: the defaults are those of a pair that cannot be compared.

    Attributes
    ----------
    result : bool or str
        Whether every element is close, or why that was not asked.
    ratio : float
        Share of close elements, in [0, 1].
    cosine : float
        In [-1, 1]; nan when exactly one side has no length, or a sum overflowed.
    mean, max : float
        Of the absolute differences, over the unequal elements only.
    """

    result: bool | str
    ratio: float = 0.0
    cosine: float = math.nan
    mean: float = math.nan
    max: float = math.nan

    def cells(self) -> list[str]:
        """The four printed cells; values are truncated, not rounded."""
        mean, largest = (f"{_truncated(value, 5):.5f}" for value in (self.mean, self.max))
        return [
            str(self.result),
            f"{_truncated(self.ratio, 4):.2%}",
            f"{_truncated(self.cosine, 5):.5f}",
            f"{mean}, {largest}",
        ]


def measure(
    orig: np.ndarray | None,
    target: np.ndarray | None,
    *,
    rtol: float = 1e-4,
    atol: float = 1e-4,
    equal_nan: bool = False,
) -> Figures:
    """Compare two arrays as TroubleShooter 1.0.18 and 1.0.19 do.

    Parameters
    ----------
    orig, target : ndarray or None
        Numbers of any shape and dtype. None stands for a file that does not exist. What is not
        floating becomes float64 first: complex numbers lose their imaginary part, integers
        beyond 2**53 their last bits. Floating arrays are computed in their own dtype, so that
        float16 overflows.
    rtol, atol : float
        An element is close when ``|orig - target| <= atol + rtol * |target|``.
    equal_nan : bool
        Whether nan is close to nan. The mean, the maximum and the cosine are nan all the same.

    Returns
    -------
    Figures
        Arrays without unequal elements (empty ones too) are True, 1, 1, 0, 0, whatever the
        cosine would be.

    Notes
    -----
    Source: runs of both builds of TroubleShooter.
    """
    if orig is None or target is None:
        return Figures(result=False)
    if orig.shape != target.shape:
        return Figures(result=SHAPES_DIFFER)
    orig, target = _floating(orig), _floating(target)
    # The old tool switched two of these warnings off for the rest of the process.
    with np.errstate(all="ignore"):
        unequal = orig != target
        if not unequal.any():
            return Figures(result=True, ratio=1.0, cosine=1.0, mean=0.0, max=0.0)
        difference = np.abs(orig[unequal] - target[unequal])
        close = int(
            np.count_nonzero(np.isclose(orig, target, rtol=rtol, atol=atol, equal_nan=equal_nan))
        )
        return Figures(
            result=close == orig.size,
            ratio=close / orig.size,
            cosine=_cosine(orig.reshape(-1), target.reshape(-1)),
            mean=float(difference.mean()),
            max=float(difference.max()),
        )


def cal_algorithm(
    orig_value: np.ndarray | None,
    target_value: np.ndarray | None,
    rtol: float,
    atol: float,
    equal_nan: bool,
) -> tuple[bool | str, float, float, tuple[float, float]]:
    """The figures of one pair: result, ratio of close elements, cosine, (mean, max) difference.

    Takes and gives what `measure` does, as a tuple.
    """
    found = measure(orig_value, target_value, rtol=rtol, atol=atol, equal_nan=equal_nan)
    return found.result, found.ratio, found.cosine, (found.mean, found.max)


def cal_cosine_sim(a: np.ndarray, b: np.ndarray) -> float:
    """Cosine of the angle between two flattened arrays of equally many elements.

    Parameters
    ----------
    a, b : ndarray
        Computed in their own dtype, so that float16 overflows.

    Returns
    -------
    float
        In [-1, 1]; 1.0 when both have no length, nan when one has none or a sum overflowed.
    """
    with np.errstate(all="ignore"):
        return _cosine(a.reshape(-1), b.reshape(-1))


def _floating(array: np.ndarray) -> np.ndarray:
    if np.issubdtype(array.dtype, np.floating):
        return array
    # .real: astype alone would warn that the imaginary part is lost.
    return (array.real if array.dtype.kind == "c" else array).astype(np.float64)


def _cosine(orig: np.ndarray, target: np.ndarray) -> float:
    product = np.dot(orig, target)
    lengths = np.linalg.norm(orig), np.linalg.norm(target)
    without = [length <= _EPSILON for length in lengths]
    if any(without):
        return 1.0 if all(without) else math.nan
    return float(np.clip(product / (lengths[0] * lengths[1]), -1, 1))


def _truncated(value: float, decimals: int) -> float:
    scaled = value * 10**decimals
    return int(scaled) / 10**decimals if math.isfinite(scaled) else value
