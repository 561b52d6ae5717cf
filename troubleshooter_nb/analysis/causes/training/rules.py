"""The rule by which an optimizer made its updates, fitted to gradients and values of one side."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from troubleshooter_nb.thresholds import RULE_ROUNDS

# Parameters of one axis (biases, norms) and the others may have a weight decay of their own.
GROUPS = ("one_dimensional", "other")
_PLACES = ("outside", "inside", "before_correction", "inside_before")


@dataclass(frozen=True)
class Material:
    """One side of a history: gradients, values before each step and updates of one group each.

    `groups` holds for each of `GROUPS` the arrays (gradients, values, updates), each of shape
    (steps, elements); `floor` is what rounding leaves of the updates, relative to their norm.
    Gradients and values may begin before the updates, with steps whose updates were not seen.
    `norms` are those of all gradients of a step together, shape (steps of the gradients,);
    `numbers` those of their steps, where known.
    """

    groups: tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]
    floor: float
    norms: np.ndarray | None = None
    numbers: tuple[int, ...] = ()

    @property
    def unseen(self) -> int:
        """Steps before the first update that was seen."""
        gradients, _, updates = self.groups[0]
        return len(gradients) - len(updates)

    @property
    def size(self) -> int:
        """Values that a rule is held against."""
        return sum(updates.size for _, _, updates in self.groups)

    @property
    def norm(self) -> float:
        """Norm of all updates."""
        return math.sqrt(sum(float((updates**2).sum()) for _, _, updates in self.groups))


@dataclass(frozen=True)
class Rule:
    """An optimizer with its constants.

    Attributes
    ----------
    family : {"sgd", "adam"}
        Adam without `momentum` and correction is RMSProp.
    momentum, dampening, nesterov
        Of sgd, as torch defines them; `momentum` is the first beta of adam.
    beta : float
        Second beta of adam.
    eps : float
    place : {"outside", "before_correction", "inside", "inside_before"}
        Where eps is added: to the root or inside it, of the corrected average of squares or
        before its correction.
    correction : bool
        Whether both averages are divided by 1 - beta**t.
    start : float
        Of the average of squares.
    decoupled : bool
        Weight decay is subtracted from the values instead of added to the gradient.
    rates : tuple of float
        Learning rate of every step.
    decay : tuple of float
        Weight decay of each of `GROUPS`.
    unseen : int
        Steps before that of the first rate.
    restart : int
        Step from which nothing is remembered of those before it, 0 for none.
    residual : float
        Norm of what the rule leaves of the updates, relative.
    """

    family: str
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    beta: float = 0.999
    eps: float = 1e-8
    place: str = "outside"
    correction: bool = True
    start: float = 0.0
    decoupled: bool = False
    rates: tuple[float, ...] = ()
    decay: tuple[float, ...] = (0.0, 0.0)
    unseen: int = 0
    restart: int = 0
    residual: float = math.inf


def simulate(
    rule: Rule, group: tuple[np.ndarray, np.ndarray, np.ndarray], decay: float
) -> tuple[np.ndarray, np.ndarray]:
    """Directions of all updates, without the learning rate, and what decay multiplies.

    Returns
    -------
    direction, decayed : ndarray, shape (steps, n)
        update = -rate * (direction + decay * decayed); where decay is inside of `direction`
        already, `decayed` is zero.
    """
    gradients, values, updates = group
    seen = len(gradients) - len(updates)
    if seen == 1 and rule.rates and rule.family == "sgd":
        # The values that its first gradient was added to, as far as the rate tells.
        values = np.concatenate([values[:1] + rule.rates[0] * gradients[:1], values[1:]])
    if rule.restart:
        parts = [slice(0, rule.restart), slice(rule.restart, None)]
        made = [_directions(rule, gradients[part], values[part], decay) for part in parts]
        direction, decayed = (np.concatenate(both) for both in zip(*made, strict=True))
    else:
        direction, decayed = _directions(rule, gradients, values, decay)
    return direction[seen:], decayed[seen:]


def _directions(
    rule: Rule, gradients: np.ndarray, values: np.ndarray, decay: float
) -> tuple[np.ndarray, np.ndarray]:
    if rule.family == "sgd":
        direction = _sgd(rule, gradients)
        return direction, values if rule.decoupled else _sgd(rule, values)
    if rule.decoupled:
        return _adam(rule, gradients), values
    return _adam(rule, gradients + decay * values if decay else gradients), np.zeros_like(values)


def _sgd(rule: Rule, gradients: np.ndarray) -> np.ndarray:
    out = np.empty_like(gradients)
    moving = gradients[0].copy()
    if rule.momentum == 0:
        return gradients
    for step, gradient in enumerate(gradients):
        if step:
            moving = rule.momentum * moving + (1 - rule.dampening) * gradient
        out[step] = gradient + rule.momentum * moving if rule.nesterov else moving
    return out


def _adam(rule: Rule, gradients: np.ndarray) -> np.ndarray:
    out = np.empty_like(gradients)
    first = np.zeros_like(gradients[0])
    second = np.full_like(gradients[0], rule.start)
    for step, gradient in enumerate(gradients):
        first = rule.momentum * first + (1 - rule.momentum) * gradient
        second = rule.beta * second + (1 - rule.beta) * gradient**2
        mean = 1 - rule.momentum ** (step + 1) if rule.correction else 1.0
        square = 1 - rule.beta ** (step + 1) if rule.correction else 1.0
        below = _root(second, square, rule)
        out[step] = first / mean / np.maximum(below, 1e-30)
    return out


def _root(second: np.ndarray, square: float, rule: Rule) -> np.ndarray:
    if rule.place == "inside":
        below = np.sqrt(second / square + rule.eps)
    elif rule.place == "inside_before":
        below = np.sqrt((second + rule.eps) / square)
    elif rule.place == "before_correction":
        below = (np.sqrt(second) + rule.eps) / math.sqrt(square)
    else:
        below = np.sqrt(second / square) + rule.eps
    root: np.ndarray = below
    return root


def solved(rule: Rule, material: Material, held: Collection[int] = ()) -> Rule:
    """The rule with rates and linear decay fitted by least squares, and its residual.

    Rates are free at every step, the decay of each group is one number; that of the groups in
    `held` stays what it is.
    """
    linear = rule.family == "sgd" or rule.decoupled
    fitted = linear and len(set(held)) < len(GROUPS)
    grams = [
        _gram(rule, group, decay) for group, decay in zip(material.groups, rule.decay, strict=True)
    ]
    decay = np.array(rule.decay if linear else [0.0] * len(grams))
    free = [place for place in range(len(grams)) if place not in held]
    for _ in range(RULE_ROUNDS if fitted else 0):
        moved = decay.copy()
        moved[free] += _newton(grams, _rates(grams, decay), decay, free)
        # Far from the solution a whole step may lead away: then rates and decay take turns.
        if _squares(grams, moved) > _squares(grams, decay):
            rates = _rates(grams, decay)
            moved[free] = [_decay(grams[place], rates) for place in free]
        done = np.abs(moved - decay).max() <= 1e-12 * np.abs(moved).max()
        decay = moved
        if done:
            break
    rates = _rates(grams, decay)
    squares = _squares(grams, decay)
    total = sum(float(gram[0].sum()) for gram in grams)
    kept = tuple(decay.tolist()) if linear else rule.decay
    residual = math.sqrt(max(squares, 0.0) / total) if total > 0 else math.inf
    unseen = material.unseen
    rates = 0.0 - rates
    return replace(rule, rates=tuple(rates.tolist()), decay=kept, unseen=unseen, residual=residual)


def _gram(
    rule: Rule, group: tuple[np.ndarray, np.ndarray, np.ndarray], decay: float
) -> tuple[np.ndarray, ...]:
    """Inner products per step: uu, ud, ux, dd, dx, xx of update, direction and decayed."""
    direction, decayed = simulate(rule, group, decay)
    updates = group[2]
    pairs = (
        *((updates, updates), (updates, direction), (updates, decayed)),
        *((direction, direction), (direction, decayed), (decayed, decayed)),
    )
    return tuple(np.einsum("ij,ij->i", one, other) for one, other in pairs)


def _rates(grams: Sequence[tuple[np.ndarray, ...]], decay: np.ndarray) -> np.ndarray:
    above = sum(gram[1] + k * gram[2] for gram, k in zip(grams, decay, strict=True))
    below = sum(
        gram[3] + 2 * k * gram[4] + k * k * gram[5] for gram, k in zip(grams, decay, strict=True)
    )
    rates: np.ndarray = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
    return rates


def _newton(
    grams: Sequence[tuple[np.ndarray, ...]], rates: np.ndarray, decay: np.ndarray, free: list[int]
) -> np.ndarray:
    """Gauss-Newton step of the free decays, with rates that follow them."""
    below = sum(
        gram[3] + 2 * k * gram[4] + k * k * gram[5] for gram, k in zip(grams, decay, strict=True)
    )
    mixed = np.stack([rates * (grams[i][4] + decay[i] * grams[i][5]) for i in free])
    follows = np.divide(mixed, below, out=np.zeros_like(mixed), where=below > 0)
    own = np.diag([float((rates**2 * grams[i][5]).sum()) for i in free])
    toward = [
        float((rates * grams[i][2] - rates**2 * (grams[i][4] + decay[i] * grams[i][5])).sum())
        for i in free
    ]
    step: np.ndarray = np.linalg.lstsq(own - follows @ mixed.T, np.array(toward), rcond=1e-14)[0]
    return step


def _squares(grams: Sequence[tuple[np.ndarray, ...]], decay: np.ndarray) -> float:
    rates = _rates(grams, decay)
    return sum(_left(gram, rates, one) for gram, one in zip(grams, decay, strict=True))


def _decay(gram: tuple[np.ndarray, ...], rates: np.ndarray) -> float:
    above = float((rates * gram[2] - rates**2 * gram[4]).sum())
    below = float((rates**2 * gram[5]).sum())
    return above / below if below > 0 else 0.0


def _left(gram: tuple[np.ndarray, ...], rates: np.ndarray, k: float) -> float:
    uu, ud, ux, dd, dx, xx = gram
    left = uu - 2 * rates * (ud + k * ux) + rates**2 * (dd + 2 * k * dx + k * k * xx)
    return float(left.sum())


def forms() -> Iterator[Rule]:
    """Every form of a rule, the simplest first; constants are starting values."""
    yield Rule("sgd")
    for dampening, nesterov, decoupled in (
        *((0.0, False, False), (0.5, False, False), (0.0, False, True)),
        *((0.0, True, False), (0.0, True, True), (0.5, False, True)),
    ):
        yield Rule("sgd", 0.9, dampening, nesterov, decoupled=decoupled)
    for place, decoupled, momentum in product(_PLACES, (True, False), (0.9, 0.0)):
        yield Rule("adam", momentum, place=place, decoupled=decoupled)
    # Averages of squares that start at 1 are nowhere corrected.
    for place, decoupled, momentum in product(("outside", "inside"), (True, False), (0.9, 0.0)):
        yield Rule("adam", momentum, place=place, correction=False, start=1.0, decoupled=decoupled)


def switched(rule: Rule) -> Iterator[tuple[str, str, Rule]]:
    """Rules that differ in a single choice, all constants the same: cause, form, rule."""
    yield "weight_decay_coupling", "coupling", replace(rule, decoupled=not rule.decoupled)
    if rule.momentum or rule.family == "adam":
        for step in range(1, rule.unseen + len(rule.rates)):
            yield "optimizer_state_lost", "restart", replace(rule, restart=step)
    if rule.family == "sgd":
        dampening = 0.0 if rule.dampening else rule.momentum
        yield "momentum_convention", "momentum", replace(rule, nesterov=not rule.nesterov)
        yield "momentum_convention", "momentum", replace(rule, dampening=dampening)
        return
    for place in _PLACES:
        yield "adam_epsilon_place", "epsilon", replace(rule, place=place)
    yield "adam_epsilon_place", "correction", replace(rule, correction=not rule.correction)
    yield "optimizer_start_state", "start", replace(rule, start=0.0 if rule.start else 1.0)


def correction_factors(rule: Rule) -> np.ndarray:
    """By what the corrections of both averages multiply the learning rate of each step."""
    step = rule.unseen + np.arange(1, len(rule.rates) + 1)
    factors: np.ndarray = np.sqrt(1 - rule.beta**step) / (1 - rule.momentum**step)
    return factors


def as_meant(rule: Rule) -> Rule:
    """The rule without corrections where its rates are constant only so.

    Corrections only multiply the rate of a step, which is free in the fit.
    """
    if rule.family != "adam" or not rule.correction or len(rule.rates) < 2:
        return rule
    rates = np.array(rule.rates)
    plain = rates * correction_factors(rule)
    if not spread(plain) < 0.1 * spread(rates):
        return rule
    place = {"before_correction": "outside", "inside_before": "inside"}.get(rule.place, rule.place)
    return replace(rule, correction=False, place=place, rates=tuple(plain.tolist()))


def spread(values: np.ndarray) -> float:
    """Standard deviation over the mean."""
    mean = float(np.abs(values).mean())
    return float(values.std()) / mean if mean > 0 else 0.0
