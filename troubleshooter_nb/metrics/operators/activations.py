"""Activation functions in float64, and the slopes they multiply a gradient by."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

Function = Callable[[np.ndarray], np.ndarray]

# Klambauer et al. 2017, as both frameworks write them.
SELU_ALPHA = 1.6732632423543772
SELU_SCALE = 1.0507009873554805
_STEP = 1e-5  # of the central difference: truncation and cancellation both near 1e-10


def identity(x: np.ndarray) -> np.ndarray:
    """The values themselves."""
    return x


def relu(x: np.ndarray) -> np.ndarray:
    """max(x, 0)."""
    return np.maximum(x, 0.0)


def relu6(x: np.ndarray) -> np.ndarray:
    """Values cut to [0, 6]."""
    return np.clip(x, 0.0, 6.0)


def hardtanh(x: np.ndarray) -> np.ndarray:
    """Values cut to [-1, 1]."""
    return np.clip(x, -1.0, 1.0)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)), without overflow."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1.0, small) / (1.0 + small))


def log_sigmoid(x: np.ndarray) -> np.ndarray:
    """Logarithm of the sigmoid."""
    return -softplus(-x)


def erf(x: np.ndarray) -> np.ndarray:
    """Error function, absolute error below 1e-15 for |x| < 2 and 1e-14 elsewhere.

    Notes
    -----
    Maclaurin series of the confluent form for |x| < 3, continued fraction of Laplace beyond: both
    from Abramowitz and Stegun, 7.1.6 and 7.1.14. numpy has no erf and scipy is not required.
    """
    size = np.minimum(np.abs(x), 6.0)  # erf(6) is 1 in float64
    square = size * size
    term, total = size.copy(), size.copy()
    for step in range(1, 60):
        term *= 2.0 * square / (2 * step + 1)
        total += term
    inner = 2.0 / math.sqrt(math.pi) * np.exp(-square) * total
    fraction = np.maximum(size, 3.0)
    tail = fraction.copy()
    for step in range(60, 0, -1):
        tail = fraction + 0.5 * step / tail
    outer = 1.0 - np.exp(-(fraction**2)) / (math.sqrt(math.pi) * tail)
    return np.asarray(np.copysign(np.where(size < 3.0, inner, outer), x))


def gelu_erf(x: np.ndarray) -> np.ndarray:
    """Input times the normal distribution function, the exact GELU."""
    return np.asarray(0.5 * x * (1.0 + erf(x / math.sqrt(2.0))))


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    """GELU by tanh of a cubic."""
    return np.asarray(0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))))


def gelu_sigmoid(x: np.ndarray) -> np.ndarray:
    """GELU by x * sigmoid(1.702 x), called quick or fast."""
    return np.asarray(x * sigmoid(1.702 * x))


def silu(x: np.ndarray) -> np.ndarray:
    """Input times its sigmoid, also called swish."""
    return np.asarray(x * sigmoid(x))


def leaky_relu(x: np.ndarray, slope: float) -> np.ndarray:
    """x, and slope * x below zero."""
    return np.where(x >= 0, x, slope * x)


def elu(x: np.ndarray, alpha: float = 1.0) -> np.ndarray:
    """x, and alpha * (exp(x) - 1) below zero."""
    return np.where(x >= 0, x, alpha * np.expm1(np.minimum(x, 0.0)))


def selu(x: np.ndarray) -> np.ndarray:
    """The scaled ELU that keeps mean and variance."""
    return SELU_SCALE * elu(x, SELU_ALPHA)


def softplus(x: np.ndarray, beta: float = 1.0) -> np.ndarray:
    """log(1 + exp(beta x)) / beta; beta must not be zero."""
    return np.logaddexp(0.0, beta * x) / beta


def mish(x: np.ndarray) -> np.ndarray:
    """Input times tanh of its softplus."""
    return np.asarray(x * np.tanh(softplus(x)))


def hardsigmoid(x: np.ndarray) -> np.ndarray:
    """A sixth of the input plus 1/2, cut to [0, 1]."""
    return np.clip(x / 6.0 + 0.5, 0.0, 1.0)


def hardsigmoid_fifth(x: np.ndarray) -> np.ndarray:
    """A fifth of the input plus 1/2, cut to [0, 1], as Keras and older libraries have it."""
    return np.clip(0.2 * x + 0.5, 0.0, 1.0)


def hardswish(x: np.ndarray) -> np.ndarray:
    """Input times its hardsigmoid."""
    return np.asarray(x * hardsigmoid(x))


def softsign(x: np.ndarray) -> np.ndarray:
    """Input over one plus its size."""
    return np.asarray(x / (1.0 + np.abs(x)))


def squared_relu(x: np.ndarray) -> np.ndarray:
    """max(x, 0) squared."""
    return relu(x) ** 2


# Name and form of the functions without a free number. GELU is the one with several forms in use.
CATALOGUE: dict[tuple[str, str], Function] = {
    ("identity", ""): identity,
    ("relu", ""): relu,
    ("relu6", ""): relu6,
    ("hardtanh", ""): hardtanh,
    ("gelu", "erf"): gelu_erf,
    ("gelu", "tanh"): gelu_tanh,
    ("gelu", "sigmoid"): gelu_sigmoid,
    ("silu", ""): silu,
    ("sigmoid", ""): sigmoid,
    ("logsigmoid", ""): log_sigmoid,
    ("tanh", ""): np.tanh,
    ("selu", ""): selu,
    ("mish", ""): mish,
    ("hardswish", ""): hardswish,
    ("hardsigmoid", "sixth"): hardsigmoid,
    ("hardsigmoid", "fifth"): hardsigmoid_fifth,
    ("softsign", ""): softsign,
    ("squaredrelu", ""): squared_relu,
}
# Applied twice, relu and its like change nothing.
ONCE_ONLY = frozenset({"identity", "relu", "relu6", "hardtanh", "squaredrelu", "logsigmoid"})


def slope_of(function: Function, x: np.ndarray) -> np.ndarray:
    """Derivative by central difference, good to 1e-9 except within 1e-5 of a kink."""
    return np.asarray((function(x + _STEP) - function(x - _STEP)) / (2.0 * _STEP))
