"""From a table of differences to the layer that created them and what caused it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.confidence import confidence
from troubleshooter_nb.analysis.causes.histories import (
    context_of,
    gradient_ratios,
    history_of,
)
from troubleshooter_nb.analysis.causes.operands import Operators
from troubleshooter_nb.analysis.causes.replayed import replay
from troubleshooter_nb.analysis.causes.tensors.detect import detect_root, detect_values
from troubleshooter_nb.analysis.causes.training.gradients import detect_gradients
from troubleshooter_nb.analysis.causes.training.updates import detect_updates
from troubleshooter_nb.analysis.flow import Flow, Node
from troubleshooter_nb.analysis.origin import find_origins
from troubleshooter_nb.analysis.preflight import preflight
from troubleshooter_nb.comparison import Comparison, Finding
from troubleshooter_nb.dump import object_array
from troubleshooter_nb.errors import ReadError
from troubleshooter_nb.metrics.noise import NoiseModel

# Calls that are computed again, roots and other rows whose values are searched for a cause.
_MOST_CALLS = 64
_MOST_ROOTS = 24
_MOST_ROWS = 12
_LEAST_CONFIDENCE = 0.1
_MOST_FINDINGS = 12


def diagnosed(comparison: Comparison, model: NoiseModel | None = None) -> Comparison:
    """The comparison with the origin of each difference, its growth and findings.

    Parameters
    ----------
    comparison : Comparison
        As measured; its dumps are read again around the places that created a difference.
    model : NoiseModel, optional
        What rounding leaves; default the fitted one.

    Returns
    -------
    Comparison
        `result` has the columns ``origin`` and ``growth``, and the first divergence is the first
        row that created a difference, in the order of execution.
    """
    inquiry = _Inquiry(comparison, model or NoiseModel())
    if not comparison.result["identical"].values.all():
        inquiry.ask()
    return inquiry.answer()


class _Inquiry:
    """Questions put to one comparison, and what came of them."""

    def __init__(self, comparison: Comparison, model: NoiseModel) -> None:
        self.comparison = comparison
        self.flow = Flow(comparison)
        self.origins = find_origins(self.flow, model)
        self.operators = Operators(comparison, self.flow, self.origins)
        self.suspicions: list[Suspicion] = []

    def ask(self) -> None:
        """Put all questions, the roots before what follows from them."""
        self._ask_roots()
        self._ask_calls(self._doubtful())
        if not self.origins.created() and self._fails():
            self._ask_calls(self._known())
        self._ask_values()
        self._ask_training()

    def _fails(self) -> bool:
        return not self.comparison.passed

    def _ask_roots(self) -> None:
        origins = self.origins
        rows = [row for row in origins.created() if row not in self.flow.node_of]
        rows += [
            row
            for node in self.flow.nodes
            for row in node.inputs
            if origins.state[row] == "created" and row in self.flow.external
        ]
        rows += [int(row) for row in np.flatnonzero(origins.vanishing) if row in self.flow.users]
        if not rows:
            return
        others = [self.operators.twin(row, self._leaf(row)) for row in self.flow.roots]
        for row in sorted(rows, key=origins.time)[:_MOST_ROOTS]:
            twin = self.operators.twin(row, self._leaf(row))
            self._add(row, _read(detect_root, twin, others))

    def _leaf(self, row: int) -> str | None:
        return self.flow.module_of(row)[1] if row in set(self.flow.roots) else None

    def _doubtful(self) -> list[Node]:
        """Calls whose results differ more than what they were given."""
        created = {self.flow.node_of[r] for r in self.origins.created() if r in self.flow.node_of}
        nodes = {*created, *self.origins.doubtful}
        return [node for node in self.flow.nodes if node in nodes and not node.children]

    def _known(self) -> list[Node]:
        return [node for node in self.flow.nodes if node.outputs and not node.children]

    def _ask_calls(self, nodes: Sequence[Node]) -> None:
        """Compute calls again; what one formula explains on both sides created nothing."""
        for node in sorted(nodes, key=lambda n: self.origins.time(n.position))[:_MOST_CALLS]:
            try:
                found = (
                    replay(self.operators.call(node), float(self.origins.typical[node.outputs[0]]))
                    if node.outputs
                    else None
                )
            except ReadError:
                continue
            if found is None or found.outcome == "unknown":
                continue
            if found.outcome == "same":
                self.origins.acquit(node)
            elif found.suspicion is not None or node in self.origins.doubtful:
                self.origins.convict(node)
                if found.suspicion is not None:
                    self._add(node.outputs[0], [found.suspicion])

    def _ask_values(self) -> None:
        """Look at the values of rows that created a difference which nothing explains so far."""
        explained = {s.pair for s in self.suspicions}
        numbers = self.flow.result["order"]
        rows = [r for r in self.origins.created() if int(numbers[r]) not in explained]
        rows = [r for r in rows if r in self.flow.node_of and r not in self.flow.external]
        vanishing = [int(r) for r in np.flatnonzero(self.origins.vanishing)]
        rows += [r for r in vanishing if r in self.flow.node_of]
        for row in rows[:_MOST_ROWS]:
            self._add(row, _read(detect_values, self.operators.twin(row)))

    def _ask_training(self) -> None:
        """Look at gradients as a set, and at what the steps made of the parameters."""
        created = self.origins.created()
        backward = [r for r in created if self.flow.site["direction"][r] == "backward"]
        if backward and len(backward) == len(created):
            context = context_of(self.comparison, self.flow)
            places = {self.flow.place(row) for row in backward}
            for place, ratios in gradient_ratios(self.operators).items():
                if place in places:
                    self._add(backward[0], detect_gradients(ratios, context))
        later = [r for r in created if r not in self.flow.node_of and self._is_later(r)]
        for rank in sorted({self.flow.place(row)[1] for row in later}):
            history = history_of(self.operators, rank)
            self._add(later[0], _read(detect_updates, history))

    def _is_later(self, row: int) -> bool:
        return self.flow.place(row)[0] > min(self.flow.place(r)[0] for r in self.flow.roots)

    def _add(self, row: int, suspicions: Iterable[Suspicion]) -> None:
        number = int(self.flow.result["order"][row])
        self.suspicions += [replace(s, pair=number) if s.pair < 0 else s for s in suspicions]

    def answer(self) -> Comparison:
        """The comparison with what was found."""
        origins, result = self.origins, self.comparison.result
        growth = np.where(np.isnan(origins.error), np.nan, origins.growth)
        growth[origins.error == 0] = np.nan
        created = origins.created()
        places = np.full(self.flow.count, -1, np.int64)
        places[created] = np.arange(len(created))
        columns = {
            "origin_order": places,
            "origin": object_array(list(origins.state)),
            "origin_basis": object_array(list(origins.basis)),
            "source_error": origins.source_error,
            "growth": growth,
        }
        table = result.assign(
            {name: ("pair", values, result[name].attrs) for name, values in columns.items()}
        )
        first = int(result["order"].values[created[0]]) if created else None
        if first is not None:
            table.attrs["first_divergence"] = first
        return replace(
            self.comparison,
            result=table,
            findings=findings_of(self.suspicions, first),
            preflight=preflight(self.comparison, self.flow),
        )


def findings_of(suspicions: Sequence[Suspicion], first: int | None) -> tuple[Finding, ...]:
    """Findings, the surest first; one for all places where the same cause acts.

    Parameters
    ----------
    suspicions : sequence of Suspicion
        With the numbers of their pairs.
    first : int or None
        Number of the pair that created the first difference: what explains it comes first.
    """
    merged: dict[str, list[tuple[float, Suspicion]]] = {}
    for suspicion in _with_rivals(suspicions):
        merged.setdefault(suspicion.cause, []).append((confidence(suspicion), suspicion))
    found = []
    for cause, proofs in merged.items():
        sure, best = max(proofs, key=lambda p: (p[1].pair == first, p[0]))
        if sure < _LEAST_CONFIDENCE:
            continue
        evidence = {
            **best.evidence,
            "before": best.before,
            "residual": best.residual,
            "rival": best.rival,
            "pairs": sorted({s.pair for _, s in proofs}),
        }
        found.append(Finding(cause, best.pair, round(sure, 3), evidence, advice=cause))
    # What explains the first difference comes before what may follow from it.
    found.sort(key=lambda f: (-f.confidence * (1.0 if f.pair == first else 0.8), f.pair, f.cause))
    return tuple(found[:_MOST_FINDINGS])


def _with_rivals(suspicions: Sequence[Suspicion]) -> Iterator[Suspicion]:
    """Each suspicion with the best other cause of the same pair among its rivals."""
    for suspicion in suspicions:
        others = [
            other.residual
            for other in suspicions
            if other.pair == suspicion.pair and other.cause != suspicion.cause
        ]
        yield replace(suspicion, rival=min([suspicion.rival, *others]))


def _read(detector: Any, *arguments: Any) -> list[Suspicion]:
    """What a detector says; nothing where a file went away meanwhile."""
    try:
        found: list[Suspicion] = detector(*arguments)
    except ReadError:
        return []
    return found
