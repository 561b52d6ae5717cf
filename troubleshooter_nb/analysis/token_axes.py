"""Which axes of a value are the samples and the tokens of a run, by shapes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class TokenAxes:
    """One way in which a value may hold samples and tokens.

    Attributes
    ----------
    names : tuple of str
        Of each axis: "sample", "token", "head", or empty where it is something else.
    """

    shape: tuple[int, ...]
    names: tuple[str, ...]
    sizes: tuple[int, int]

    def spread(self, tokens: np.ndarray) -> np.ndarray:
        """What holds of tokens, for every element of a value.

        Parameters
        ----------
        tokens : ndarray of bool, shape (samples, tokens)

        Returns
        -------
        ndarray of bool
            Broadcasts to the shape of the value. Where two axes are tokens, as of scores, true
            where it holds of either.
        """
        samples, count = self.sizes
        if "sample" not in self.names:  # both in one axis
            both = tokens if self.names[0] == "samples of tokens" else tokens.T
            return np.asarray(both.reshape(-1, *[1] * (len(self.shape) - 1)))
        sample = self.names.index("sample")
        if self.shape[sample] != samples:  # heads of samples in one axis
            tokens = np.repeat(tokens, self.shape[sample] // samples, axis=0)
        found = np.zeros([1] * len(self.shape), bool)
        for axis, name in enumerate(self.names):
            if name == "token":
                laid = tokens if sample < axis else tokens.T
                sizes = [1] * len(self.shape)
                sizes[sample], sizes[axis] = len(tokens), count
                found = found | laid.reshape(sizes)
        return found


def token_axes(shape: tuple[int, ...], sizes: tuple[int, int]) -> Iterator[TokenAxes]:
    """All ways in which a shape may hold so many samples and tokens, the usual ones first.

    Parameters
    ----------
    shape : tuple of int
    sizes : (samples, tokens)
    """
    samples, tokens = sizes
    rank = len(shape)
    if shape[:2] == sizes:
        # (sample, token, head, size) is how heads lie before they are turned.
        rest = ("head", "") if rank == 4 else ("",) * (rank - 2)
        yield TokenAxes(shape, ("sample", "token", *rest), sizes)
    if rank == 4 and shape[0] == samples and shape[2] == tokens:
        last = "token" if shape[3] == tokens else ""
        yield TokenAxes(shape, ("sample", "head", "token", last), sizes)
    if rank >= 2 and shape[:2] == (tokens, samples) and tokens != samples:
        yield TokenAxes(shape, ("token", "sample", *("",) * (rank - 2)), sizes)
    if rank == 3 and shape[1] == tokens and shape[0] > samples and shape[0] % samples == 0:
        last = "token" if shape[2] == tokens else ""
        yield TokenAxes(shape, ("sample", "token", last), sizes)
    if rank >= 1 and samples > 1 and shape[0] == math.prod(sizes) and shape[:2] != sizes:
        yield TokenAxes(shape, ("samples of tokens", *("",) * (rank - 1)), sizes)
        yield TokenAxes(shape, ("tokens of samples", *("",) * (rank - 1)), sizes)
