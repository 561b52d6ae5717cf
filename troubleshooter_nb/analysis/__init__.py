"""Pairing, comparing and explaining two dumps."""
