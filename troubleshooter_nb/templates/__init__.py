"""Notebooks to be filled in: which there are, how one is run, and how it tells its outcome."""
