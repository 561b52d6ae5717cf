"""Copies, sums and gated products of earlier values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.between.earlier_values import EarlierValues, Source
from troubleshooter_nb.analysis.causes.between.layouts_of_heads import NOT_TRANSPOSED, views
from troubleshooter_nb.analysis.causes.case import Fit
from troubleshooter_nb.analysis.causes.factors import named_size
from troubleshooter_nb.analysis.causes.fits import likely_factor, misfit
from troubleshooter_nb.analysis.causes.sampling import spread
from troubleshooter_nb.metrics.operators.activations import gelu_erf, gelu_tanh, sigmoid
from troubleshooter_nb.metrics.operators.elementwise import weights_of
from troubleshooter_nb.thresholds import (
    BETWEEN_PROBES,
    BETWEEN_SAMPLE,
    CANCELLED_SQUARES,
    CANDIDATE_FLOORS,
    FEWEST_BETWEEN,
    PAIRS_OF_TERMS,
)


@dataclass(frozen=True)
class Term:
    """A source in the layout of the target, at sampled places."""

    source: Source
    order: str
    values: np.ndarray

    @property
    def said(self) -> tuple[str, str]:
        """Of what and how."""
        return self.source.name, self.order


def term_fits(earlier: EarlierValues) -> list[Fit]:
    """Copies first, then sums of two, then products; the simplest that explain the target.

    Returns
    -------
    list of Fit
        Settings: ``formula`` ("copy", "sum", "product"); ``sources`` and ``orders`` of the terms;
        ``factors``, or of products ``function``, what is applied to the first term.
    """
    if earlier.target.size < FEWEST_BETWEEN or not np.isfinite(earlier.target).all():
        return []
    places = np.unravel_index(spread(earlier.target.size, BETWEEN_SAMPLE), earlier.shape)
    target = earlier.target[places].astype(np.float64)
    if np.ptp(target) == 0:
        return []
    terms = list(_terms(earlier, places))
    for family in (_copies, _sums, _products):
        found = list(family(earlier, terms, target))
        if found:
            return found
    return []


def _terms(earlier: EarlierValues, places: tuple[np.ndarray, ...]) -> Iterator[Term]:
    for source in earlier.sources:
        for order, view in views(source.values.shape, earlier.shape):
            laid = view(source.values)
            if laid.shape != earlier.shape:
                continue
            values = laid[places].astype(np.float64)
            if np.isfinite(values).all() and np.any(values):
                yield Term(source, order, values)


def _copies(earlier: EarlierValues, terms: list[Term], target: np.ndarray) -> Iterator[Fit]:
    for term in terms:
        factor, width = _factor(earlier, term, target)
        residual = misfit(target, factor * term.values, earlier.roundoff)
        if residual <= CANDIDATE_FLOORS * earlier.floor:
            yield Fit(
                {"formula": "copy", "sources": (term.said[0],), "orders": (term.order,)}
                | {"factor": factor},
                residual,
                {"factor": width},
            )


def _factor(earlier: EarlierValues, term: Term, target: np.ndarray) -> tuple[float, float]:
    """The factor of one term, and half the width in which it is known."""
    sizes = earlier.shape[-1], term.source.values.shape[-1]
    found = likely_factor(target, term.values, earlier.roundoff, *sizes, floor=earlier.floor)
    return (1.0, 0.0) if found is None else (found[0], found[2])


def _sums(earlier: EarlierValues, terms: list[Term], target: np.ndarray) -> Iterator[Fit]:
    """Two terms with any factors; those that are not 1 are few."""
    plain = [term for term in terms if term.order != NOT_TRANSPOSED]
    for i, j in _likely_sums(earlier, plain, target):
        first, second = plain[i], plain[j]
        weights = weights_of([first.values, second.values], target)
        if not np.isfinite(weights).all() or np.any(np.abs(weights) < 1e-3):
            continue
        pair = sorted(
            zip((first, second), (float(w) for w in weights), strict=True),
            key=lambda item: item[0].source.row,
        )
        factors = [_likely(weight, term, earlier) for term, weight in pair]
        formula = sum(factor * term.values for factor, (term, _) in zip(factors, pair, strict=True))
        residual = misfit(target, np.asarray(formula), earlier.roundoff)
        if residual <= CANDIDATE_FLOORS * earlier.floor:
            names = ("first_factor", "second_factor")
            known = {
                "formula": "sum",
                "sources": tuple(term.source.name for term, _ in pair),
                "orders": tuple(term.order for term, _ in pair),
                **dict(zip(names, factors, strict=True)),
            }
            doubts = {n: abs(f) * earlier.floor for n, f in zip(names, factors, strict=True)}
            yield Fit(known, residual, doubts)


def _likely_sums(
    earlier: EarlierValues, terms: list[Term], target: np.ndarray
) -> Iterator[tuple[int, int]]:
    """Pairs whose best weighted sum is near the target at some places."""
    if len(terms) < 2:
        return
    some = spread(target.size, BETWEEN_PROBES)
    matrix = np.stack([term.values[some] for term in terms])
    norms = np.linalg.norm(matrix, axis=1)
    matrix = matrix / np.where(norms > 0, norms, 1.0)[:, None]
    wanted = target[some] / (float(np.linalg.norm(target[some])) or 1.0)
    alike, along = matrix @ matrix.T, matrix @ wanted
    free = 1.0 - alike**2
    # What two directions of unit length hold of a vector of unit length.
    with np.errstate(divide="ignore", invalid="ignore"):
        held = along[:, None] ** 2 + along**2 - 2 * along[:, None] * along * alike
        left = 1.0 - held / free
    near = (left <= max((CANDIDATE_FLOORS * earlier.floor) ** 2, CANCELLED_SQUARES)) & (
        free > CANCELLED_SQUARES
    )
    yield from ((int(i), int(j)) for i, j in np.argwhere(np.triu(near, 1))[:PAIRS_OF_TERMS])


def _likely(weight: float, term: Term, earlier: EarlierValues) -> float:
    value, name = named_size(weight, term.source.values.shape[-1], max(1e-4, 4 * earlier.floor))
    return value if name else weight


def _products(earlier: EarlierValues, terms: list[Term], target: np.ndarray) -> Iterator[Fit]:
    """A term, or a function of it, times another one."""
    if len(terms) < 2:
        return
    some = spread(target.size, BETWEEN_PROBES)
    matrix = np.stack([term.values[some] for term in terms])
    wanted = target[some]
    norm = float(wanted @ wanted)
    for name, function in _FUNCTIONS.items():
        with np.errstate(over="ignore", invalid="ignore"):
            bent = function(matrix)
            left = norm - 2 * (bent * wanted) @ matrix.T + bent**2 @ (matrix**2).T
        near = left <= norm * max((CANDIDATE_FLOORS * earlier.floor) ** 2, CANCELLED_SQUARES)
        for i, j in np.argwhere(np.triu(near) if name == "none" else near)[:PAIRS_OF_TERMS]:
            formula = function(terms[i].values) * terms[j].values
            residual = misfit(target, formula, earlier.roundoff)
            if residual <= CANDIDATE_FLOORS * earlier.floor:
                known = {
                    "formula": "product",
                    "sources": (terms[i].source.name, terms[j].source.name),
                    "orders": (terms[i].order, terms[j].order),
                    "function": name,
                }
                yield Fit(known, residual)


def _silu(x: np.ndarray) -> np.ndarray:
    return np.asarray(x * sigmoid(x))


_FUNCTIONS: dict[str, Any] = {
    "none": lambda x: x,
    "silu": _silu,
    "gelu": gelu_erf,
    "gelu_tanh": gelu_tanh,
    "sigmoid": sigmoid,
}
