"""Training runs made by hand: given gradients, and what rules of optimizers make of them."""

from __future__ import annotations

import math

import numpy as np

from troubleshooter_nb.analysis.causes.training.history import History, Track
from troubleshooter_nb.analysis.causes.training.updates import detect_updates
from troubleshooter_nb.dump import ArrayInMemory

STEPS = 5
SHAPES = {"a.weight": (24, 12), "a.bias": (24,), "norm.weight": (24,), "b.weight": (8, 24)}


def sources(arrays):
    return tuple(ArrayInMemory(np.array(one)) for one in arrays)


def norms(gradients):
    """Norm of all gradients of each step."""
    steps = zip(*gradients.values(), strict=True)
    return np.array([math.sqrt(sum(float((g**2).sum()) for g in step)) for step in steps])


def history(left, right, gradients=True):
    """Of two runs: (values by name, gradients by name)."""
    tracks = [
        Track(
            *(name, pair),
            values=(sources(left[0][name]), sources(right[0][name])),
            gradients=(sources(left[1][name]), sources(right[1][name])) if gradients else ((), ()),
        )
        for pair, name in enumerate(left[0])
    ]
    measured = tuple(norms(side[1]) if gradients else None for side in (left, right))
    return History(tuple(tracks), norms=measured)


def causes(*runs, **keywords):
    return [one.cause for one in detect_updates(history(*runs, **keywords))]


class Run:
    """Given gradients, another set at every step, and float32 values."""

    def __init__(self, seed=0, steps=STEPS):
        rng = np.random.default_rng(seed)
        scales = {"a.weight": 0.2, "a.bias": 0.05, "b.weight": 0.2}
        self.start = {
            name: (rng.normal(size=shape) * scales[name]).astype(np.float32)
            if name in scales
            else np.ones(shape, np.float32)
            for name, shape in SHAPES.items()
        }
        self.targets = [
            {
                name: rng.normal(size=shape) * 10.0 ** rng.uniform(-4, 0, shape)
                for name, shape in SHAPES.items()
            }
            for _ in range(steps)
        ]

    def run(self, update, dtype=np.float32, clip=None):
        """Values and the gradients as they were before `clip`, which takes those of a step."""
        values = {name: [one.astype(dtype)] for name, one in self.start.items()}
        gradients = {name: [] for name in SHAPES}
        state = {name: {} for name in SHAPES}
        for step, target in enumerate(self.targets):
            made = {name: (target[name] * 0.1).astype(np.float32) for name in SHAPES}
            given = made if clip is None else clip(made)
            for name in SHAPES:
                now = values[name][-1]
                gradients[name].append(made[name])
                new = update(step, now.astype(float), given[name].astype(float), state[name])
                values[name].append(new.astype(dtype))
        return values, gradients


def sgd(rate=0.1, momentum=0.0, decay=0.0, rates=None, only_matrices=False, decoupled=False):
    def update(step, value, gradient, state):
        k = 0.0 if only_matrices and value.ndim < 2 else decay
        if not decoupled:
            gradient = gradient + k * value
        state["m"] = momentum * state.get("m", 0.0) + gradient
        now = rate if rates is None else rates[step]
        return value - now * state["m"] - (now * k * value if decoupled else 0.0)

    return update


def adam(rate=1e-3, betas=(0.9, 0.999), eps=1e-8, start=0.0, correct=True, inside=False):
    def update(step, value, gradient, state):
        state["m"] = betas[0] * state.get("m", 0.0) + (1 - betas[0]) * gradient
        state["v"] = betas[1] * state.get("v", start) + (1 - betas[1]) * gradient**2
        mean = 1 - betas[0] ** (step + 1) if correct else 1.0
        square = 1 - betas[1] ** (step + 1) if correct else 1.0
        v = state["v"] / square
        return value - rate * state["m"] / mean / (np.sqrt(v + eps) if inside else np.sqrt(v) + eps)

    return update
