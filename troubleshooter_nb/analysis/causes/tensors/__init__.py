"""Causes that show in one pair of tensors: of a root, or of any values that differ."""

from __future__ import annotations

from troubleshooter_nb.analysis.causes.tensors.detect import (
    detect_root,
    detect_values,
    observations,
)

__all__ = ["detect_root", "detect_values", "observations"]
