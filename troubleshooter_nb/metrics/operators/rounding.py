"""Values rounded to the 16-bit formats, kept in float64."""

from __future__ import annotations

import numpy as np

# Significand bits with the hidden one, exponent of the last place of the smallest numbers.
_FORMATS = {"float16": (11, -24), "bfloat16": (8, -133)}


def half_format(roundoff: float) -> str:
    """``float16`` or ``bfloat16`` by its unit roundoff; empty for any other."""
    for name, (bits, _) in _FORMATS.items():
        if roundoff == 2.0**-bits:
            return name
    return ""


def rounded(x: np.ndarray, name: str) -> np.ndarray:
    """float64 values at the nearest number of the format, ties to even; NaN and inf as they are.

    Its largest finite number is not a limit here.
    """
    bits, lowest = _FORMATS[name]
    finite = np.isfinite(x)
    _, exponent = np.frexp(np.where(finite, x, 0.0))
    place = np.maximum(exponent - bits, lowest)
    return np.where(finite, np.ldexp(np.rint(np.ldexp(np.where(finite, x, 0.0), -place)), place), x)
