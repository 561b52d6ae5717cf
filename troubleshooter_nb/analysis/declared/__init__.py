"""Pairs that a mapping file declares, found in two dumps."""
