"""Tensors of a run, taken while it runs."""
