"""Pairs of tensors for the tests of causes in one pair."""

from __future__ import annotations

import math

import numpy as np

from troubleshooter_nb.analysis.causes.case import TensorPair
from troubleshooter_nb.dump import ArrayInMemory


def tensor(
    left, right, name="fc.weight", role="parameter", slot="weight", noise=0.0, rel_l2=math.nan
):
    """A pair of arrays, None for a side without values."""
    sources = [None if one is None else ArrayInMemory(np.asarray(one)) for one in (left, right)]
    return TensorPair(3, name, role, "forward", slot, tuple(sources), rel_l2, noise)


def data(left, right, name="x"):
    """A pair of inputs."""
    return tensor(left, right, name, "input", "0")


def output(left, right, noise=0.0):
    """A pair of outputs."""
    return tensor(left, right, "fc", "output", "0", noise)


def weights(random, *shape):
    """Values as of a trained layer: no initialiser's."""
    values = 0.05 * random.standard_normal(shape) + 0.002 * random.standard_t(3, shape)
    return values.astype(np.float32)


def image(random, *shape):
    """Smooth images in [0, 1]."""
    values = random.standard_normal(shape)
    for axis in (-1, -2):
        for _ in range(3):
            values = (values + np.roll(values, 1, axis) + np.roll(values, -1, axis)) / 3
    return ((values - values.min()) / np.ptp(values)).astype(np.float32)


def causes(found):
    """Ids of what was found."""
    return [one.cause for one in found]
