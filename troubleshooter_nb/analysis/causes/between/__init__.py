"""Differences that work between recorded calls made: sums, splits, attention, masks, rotation."""
