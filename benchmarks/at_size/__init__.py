"""Faults in tensors of any size: how they are planted, compared and judged."""
