"""How numbers are written: each format once, whoever shows it."""

from __future__ import annotations

import math

import numpy as np

_BYTES = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def scientific(value: float) -> str:
    """Two digits, such as 8.3e-1; 0 for zero."""
    if value == 0:
        return "0"
    if not np.isfinite(value):
        return "nan" if np.isnan(value) else ("inf" if value > 0 else "-inf")
    mantissa, power = f"{value:.1e}".split("e")
    return f"{mantissa}e{int(power)}"


def figure(value: float) -> str:
    """Three digits, such as 0.15 or 17; as `scientific` where that would take many zeros."""
    return f"{value:.3g}" if 0.001 <= abs(value) < 1000 else scientific(value)


def percent(ratio: float) -> str:
    """A share that is never rounded up to 100 %."""
    return "100%" if ratio >= 1.0 else f"{min(ratio * 100, 99.99):.2f}%"


def growth_text(growth: float) -> str:
    """``×12``, ``×1.4e6``; empty where unknown, nothing in particular over an error of zero."""
    if math.isnan(growth):
        return ""
    if math.isinf(growth):
        return "×∞"
    return f"×{growth:.1f}" if growth < 100 else f"×{scientific(growth)}"


def cosine_text(cosine: float) -> str:
    """Six digits, truncated: 1 is only shown when it is 1."""
    return f"{np.trunc(cosine * 1e6) / 1e6:.6f}"


def near_one_text(value: float) -> str:
    """Six digits, or how far below 1 where they would not tell: ``1 − 3.0e-9``."""
    return f"1 − {scientific(1 - value)}" if 0 < 1 - value < 1e-5 else f"{value:.6g}"


def factor_text(value: float) -> str:
    """A factor in three digits, or in as many as tell it from 1."""
    digits = 3 if abs(value - 1.0) >= 0.005 else 2 + math.ceil(-math.log10(abs(value - 1.0)))
    return f"{value:.{digits}g}"


def bytes_text(size: float) -> str:
    """A size with a binary-free unit: 1.2 GB, 16.8 MB, 512 B."""
    for unit, scale in _BYTES:
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{int(size)} B"


def is_known(value: object) -> bool:
    """Whether a cell holds something: no -1 for a count, no nan, no None, no empty text."""
    if isinstance(value, (int, np.integer)):
        return bool(value != -1)
    if isinstance(value, (float, np.floating)):
        return not math.isnan(value)
    return value is not None and not (isinstance(value, str) and not value)
