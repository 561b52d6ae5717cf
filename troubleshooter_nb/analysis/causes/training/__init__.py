"""Causes that show in gradients, updates and runs of several steps."""
