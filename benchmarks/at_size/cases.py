"""All cases, in the order in which they are carried out."""

from __future__ import annotations

from at_size import layers, runs, tensors
from at_size.registry import CASES

# What defines them, so that importing this knows them all.
FAMILIES = (layers, tensors, runs)

__all__ = ["CASES", "FAMILIES"]
