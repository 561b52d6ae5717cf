"""Where a difference begins: rows that created it, and rows that only carry it on."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.flow import Flow, Node, Place
from troubleshooter_nb.metrics.floats import arithmetic_of, dtype_from_token, unit_roundoff
from troubleshooter_nb.metrics.noise import ROUNDED_TWICE, NoiseModel, noise_bound
from troubleshooter_nb.render.words import DIFFERING

# An output whose error is this many times that of its inputs, or what rounding leaves if that is
# more, was not carried there.
GROWTH = 10.0
# From here on it is worth computing what the call should have given.
_WORTH_A_LOOK = 3.0
# Without inputs only neighbours can be asked, and parallel branches are no inputs.
_GROWTH_BY_ORDER = 20.0
_RANGE = ("min", "max")
# Calls after an operator within which its results are used.
_SOON = 8
# The precision of a side is that of most of its rows.
_MOST_ROWS = 0.6
_FEWEST_FOR_PRECISION = 4


@dataclass(eq=False)
class Origins:
    """What is known of each row, by number.

    Attributes
    ----------
    error : ndarray of float64
        Relative L2 error; of statistics an estimate from below; inf where NaN, infinities or
        shapes differ; nan where nothing was compared.
    noise, typical : ndarray of float64
        What rounding explains at most, and what is usual of the operator.
    source_error : ndarray of float64
        Largest error among what a row was computed from; nan where unknown.
    state : ndarray of str
        "created", "carried" or empty.
    basis : ndarray of str
        What `source_error` is of: the call's own "inputs"; "order", the rows before, as no inputs
        were recorded; "between", what unrecorded work between calls may have used; "root" and
        "input", which nothing recorded computed; "update", the step before; "setting", a number
        the call was given.
    vanishing : ndarray of bool
        The row differs, but whatever uses it agrees.
    doubtful : set of Node
        Calls that contain no others and differ clearly more than what they were given.
    """

    flow: Flow
    error: np.ndarray
    noise: np.ndarray
    typical: np.ndarray
    source_error: np.ndarray = field(init=False)
    state: np.ndarray = field(init=False)
    basis: np.ndarray = field(init=False)
    vanishing: np.ndarray = field(init=False)
    doubtful: set[Node] = field(default_factory=set)

    def __post_init__(self) -> None:
        count = self.flow.count
        self.source_error = np.full(count, np.nan)
        self.state = np.full(count, "", object)
        self.basis = np.full(count, "", object)
        self.vanishing = np.zeros(count, bool)

    @property
    def growth(self) -> np.ndarray:
        """Error over the error of what a row was computed from, or over what rounding leaves."""
        with np.errstate(invalid="ignore", divide="ignore"):
            growth: np.ndarray = self.error / np.maximum(self.source_error, self.typical)
        return growth

    def differs(self, row: int) -> bool:
        """Whether a row is further apart than rounding explains."""
        return bool(self.error[row] > self.noise[row])

    def created(self) -> list[int]:
        """Rows that created a difference: in the order of execution, roots at their first use."""
        rows = [int(row) for row in np.flatnonzero(self.state == "created")]
        return sorted(rows, key=self.time)

    def acquit(self, node: Node) -> None:
        """A call that computed the same on both sides only carried what it was given."""
        for row in node.outputs:
            # New NaN come from somewhere, whatever the finite values say.
            if self.state[row] == "created" and math.isfinite(self.error[row]):
                self.state[row] = "carried"

    def convict(self, node: Node) -> None:
        """A call that computed something else on one side, however small the difference."""
        for row in node.outputs:
            if self.error[row] > 0 and math.isfinite(self.source_error[row]):
                self.state[row] = "created"

    def time(self, row: int) -> tuple[Any, ...]:
        """Sorts rows by when their values mattered first."""
        node = self.flow.node_of.get(row)
        place = self.flow.place(row)
        if node is not None:
            inside = 1 if row in node.inputs else 2
            backward = node.direction == "backward"
            return (*place, backward, *node.finished, inside, row)
        users = [n for n in self.flow.users.get(row, ()) if n.direction == "forward"]
        return (*place, False, *min((n.finished for n in users), default=(row, 0)), 0, row)


def find_origins(flow: Flow, model: NoiseModel | None = None) -> Origins:
    """Tell rows that created a difference from those that carry one, by figures alone.

    Parameters
    ----------
    flow : Flow
    model : NoiseModel, optional
        What rounding leaves; default the fitted one.

    Notes
    -----
    An output whose inputs and parameters agree, or whose error is more than 10 times theirs, is
    created; so is a parameter, buffer or input of the network that differs, unless whatever uses
    it agrees. Where no inputs were recorded, the largest error before it in order stands in.
    """
    model = model or NoiseModel()
    origins = Origins(flow, _errors(flow), *_noise(flow, model))
    _judge_roots(origins)
    by_order = _Before()
    for node in sorted(flow.nodes, key=_execution):
        _judge_inputs(origins, node, by_order)
        _judge_results(origins, node, by_order)
    _Harmless(origins).find()
    return origins


def _execution(node: Node) -> tuple[Any, ...]:
    return (*node.place, node.direction == "backward", *node.finished)


class _Before:
    """The largest error so far, by place and inside each call; backward goes on from forward."""

    def __init__(self) -> None:
        self._worst: dict[Place | tuple[Node, str], float] = {}

    def add(self, node: Node, row: int, error: float) -> None:
        """Enter a result of a call."""
        if math.isnan(error):
            return
        keys: list[Place | tuple[Node, str]] = [node.place]
        if node.parent is not None and row in node.outputs:
            keys.append((node.parent, node.direction))
        for key in keys:
            self._worst[key] = max(self._worst.get(key, 0.0), error)

    def error(self, key: Place | tuple[Node, str]) -> float:
        """Largest error of a place, or inside a call in a direction; nan where none is known."""
        return self._worst.get(key, math.nan)


def _judge_roots(origins: Origins) -> None:
    flow = origins.flow
    earlier: dict[tuple[int, str], float] = {}
    worst = _worst_by_place(origins)
    steps = sorted({step for step, _ in worst})
    for row in sorted(flow.roots, key=lambda r: flow.place(r)):
        origins.basis[row] = "root"
        step, rank = flow.place(row)
        key = (rank, str(flow.result["right"][row]) or str(flow.result["left"][row]))
        error = origins.error[row]
        before = [s for s in steps if s < step]
        if before:
            origins.basis[row] = "update"
            # Updated since: by gradients, and for buffers by what went through.
            gradients = worst.get((before[-1], rank), 0.0)
            origins.source_error[row] = max(earlier.get(key, 0.0), gradients)
        else:
            origins.source_error[row] = 0.0
        earlier[key] = max(earlier.get(key, 0.0), 0.0 if math.isnan(error) else error)
        if not origins.differs(row):
            continue
        # An update moves a parameter by little: whatever differs in it came from there.
        carried = before and origins.source_error[row] > origins.noise[row]
        origins.state[row] = "carried" if carried else "created"


def _worst_by_place(origins: Origins) -> dict[Place, float]:
    worst: dict[Place, float] = {}
    for row, error in enumerate(origins.error):
        place = origins.flow.place(row)
        beyond = error if error > origins.noise[row] else 0.0
        worst[place] = max(worst.get(place, 0.0), beyond)
    return worst


def _judge_inputs(origins: Origins, node: Node, before: _Before) -> None:
    """Inputs that no recorded call made: those of the network, and work between calls."""
    flow = origins.flow
    for row in node.inputs:
        if flow.is_value[row]:
            _judge_setting(origins, node, row)
        elif row in flow.copied:
            _carry(origins, row, flow.copied[row])
        elif row in flow.producer:
            # One side may have done something in between: then the value is that of no output.
            _judge(origins, row, float(origins.error[flow.producer[row]]), "between")
        elif row in flow.external and node.direction == "forward":
            origins.basis[row] = "input"
            origins.source_error[row] = 0.0
            if origins.differs(row):
                origins.state[row] = "created"
        else:
            error = _error_around(origins, node, before)
            if math.isnan(error):
                _judge(origins, row, before.error(node.place), "order")
            else:
                _judge(origins, row, error, "between")
            if origins.state[row] == "created" and _same_before(origins, row):
                origins.state[row] = "carried"


def _carry(origins: Origins, row: int, source: int) -> None:
    """A row that is another one."""
    origins.basis[row] = "inputs"
    origins.source_error[row] = origins.error[source]
    if origins.differs(row):
        origins.state[row] = "carried"


def _judge_setting(origins: Origins, node: Node, row: int) -> None:
    """A number or text the call was given: it matters where the results differ."""
    origins.basis[row] = "setting"
    if origins.flow.result["verdict"][row] in DIFFERING:
        results = [*node.outputs, *node.gradients]
        matters = any(origins.differs(result) for result in results)
        origins.error[row] = math.inf
        origins.state[row] = "created" if matters else ""
        origins.vanishing[row] = not matters


def _same_before(origins: Origins, row: int) -> bool:
    """Whether an earlier call took the same input, so that its difference is not new here."""
    return any(
        other != row and origins.state[other] == "created"
        for other in origins.flow.same_input.get(row, ())
    )


def _judge_results(origins: Origins, node: Node, before: _Before) -> None:
    flow = origins.flow
    made_inside = {row for row in node.outputs if row in flow.passed_on}
    sources = _sources(origins, node)
    error = _largest(origins.error, sources)
    for row in [*node.outputs, *node.gradients]:
        if row in made_inside:
            # As with inputs, one side may have gone on with the value.
            _judge(origins, row, float(origins.error[flow.passed_on[row]]), "between")
            continue
        by_order = math.isnan(error)
        given = before.error(node.place) if by_order else error
        _judge(origins, row, given, "order" if by_order else "inputs")
        if not node.children and _ratio(origins, row) > _WORTH_A_LOOK:
            origins.doubtful.add(node)
    for row in [*node.outputs, *node.gradients]:
        before.add(node, row, float(origins.error[row]))


def _judge(origins: Origins, row: int, source_error: float, basis: str) -> None:
    origins.basis[row] = basis
    origins.source_error[row] = 0.0 if math.isnan(source_error) else source_error
    if origins.differs(row):
        limit = _GROWTH_BY_ORDER if basis == "order" else GROWTH
        origins.state[row] = "created" if _ratio(origins, row) > limit else "carried"


def _ratio(origins: Origins, row: int) -> float:
    error, source = float(origins.error[row]), float(origins.source_error[row])
    if math.isinf(source):
        return 1.0
    return error / max(source, float(origins.typical[row]), 5e-324)


def _sources(origins: Origins, node: Node) -> list[int]:
    """Rows that the results of a call are computed from."""
    if node.children:
        return [row for child in node.children for row in child.outputs] + node.inputs
    rows = [*node.inputs, *node.parameters]
    if not node.inputs:
        # Parameters alone say nothing about what arrived.
        return []
    if node.forward is not None:
        rows += [*node.forward.inputs, *node.forward.parameters, *node.forward.outputs]
    return rows


def _error_around(origins: Origins, node: Node, before: _Before) -> float:
    """Largest error of what unrecorded work between calls may have made an input from."""
    container = node.parent
    if container is None:
        return math.nan
    rows = [row for row in container.inputs if row not in node.inputs]
    errors = [before.error((container, node.direction))]
    if node.direction == "backward" and node.forward is not None and container.forward is not None:
        rows += container.forward.inputs
        errors.append(before.error((container.forward, "forward")))
    known = [error for error in [*errors, _largest(origins.error, rows)] if not math.isnan(error)]
    return max(known, default=math.nan)


@dataclass
class _Uses:
    """What is known of rows that use a value: whether there are any, and whether all agree."""

    known: bool = False
    agree: bool = True

    def add(self, agrees: bool) -> None:
        self.known = True
        self.agree &= agrees


class _Harmless:
    """Differences that whatever uses the value does not see.

    A record before an operator that works in place, another layout, a parameter that is defined
    another way: the values differ, and what is computed from them agrees, at once or further on.
    Calls are gone through from the last to the first, as what uses a value comes after it.
    """

    def __init__(self, origins: Origins) -> None:
        self.origins = origins
        self._harmless: set[int] = set()
        # Of the calls seen so far, those in each container and direction, and the next few of
        # those in none: what unrecorded work may have made of a result.
        self._inside: dict[tuple[Node, str], _Uses] = defaultdict(_Uses)
        self._soon: dict[tuple[Place, str], deque[list[int]]] = defaultdict(
            lambda: deque(maxlen=_SOON)
        )

    def find(self) -> None:
        """Take the state from rows that created a difference which goes no further."""
        origins, flow = self.origins, self.origins.flow
        created = [int(row) for row in np.flatnonzero(origins.state == "created")]
        if not created:
            return
        for node in sorted(flow.nodes, key=_execution, reverse=True):
            self._visit(node)
        for row in created:
            if row not in flow.node_of:
                self._decide(row, _Uses(), self._results_of_root(row))
            if row in self._harmless:
                origins.vanishing[row] = True
                # What steps made of a parameter is told even where its layer does not show it.
                if origins.basis[row] != "update":
                    origins.state[row] = ""

    def _visit(self, node: Node) -> None:
        """Decide the rows of a call, and keep its inputs for the calls before it."""
        flow = self.origins.flow
        between = self._between(node)
        for row in [*node.outputs, *node.gradients]:
            self._decide(row, between, flow.consumers.get(row, []))
        for row in node.inputs:
            # What was made between calls may go on past this one, as round a residual.
            uses = _Uses() if row in flow.external else between
            self._decide(row, uses, node.outputs)
        made = self._made_between(node.inputs)
        if node.parent is None:
            self._soon[node.place, node.direction].append(made)
        else:
            self._count(made, self._inside[node.parent, node.direction])

    def _between(self, node: Node) -> _Uses:
        """Rows that unrecorded work may have made of the results of a call, soon after it."""
        uses = _Uses()
        if node.parent is None:
            for rows in self._soon[node.place, node.direction]:
                self._count(rows, uses)
            return uses
        inside = self._inside[node.parent, node.direction]
        uses = _Uses(inside.known, inside.agree)
        flow = self.origins.flow
        outputs = [row for row in node.parent.outputs if row not in flow.passed_on]
        self._count(self._made_between(outputs), uses)
        return uses

    def _made_between(self, rows: Iterable[int]) -> list[int]:
        made, external = ("between", "order"), self.origins.flow.external
        return [r for r in rows if self.origins.basis[r] in made and r not in external]

    def _results_of_root(self, row: int) -> list[int]:
        flow = self.origins.flow
        if flow.site["role"][row] == "buffer":
            # Only written in training: nothing need differ for it.
            return []
        used = [node for node in flow.users.get(row, ()) if node.direction == "forward"]
        return [output for node in used for output in node.outputs]

    def _decide(self, row: int, between: _Uses, results: Iterable[int]) -> None:
        if self.origins.differs(row):
            uses = _Uses(between.known, between.agree)
            self._count(results, uses)
            if uses.known and uses.agree:
                self._harmless.add(row)

    def _count(self, rows: Iterable[int], uses: _Uses) -> None:
        for row in rows:
            if not math.isnan(self.origins.error[row]):
                uses.add(row in self._harmless or not self.origins.differs(row))


def _largest(errors: np.ndarray, rows: Iterable[int]) -> float:
    known = [float(errors[row]) for row in rows if not math.isnan(errors[row])]
    return max(known) if known else math.nan


def _errors(flow: Flow) -> np.ndarray:
    result = flow.result
    errors: np.ndarray = result["rel_l2_error"].astype(np.float64).copy()
    errors[result["identical"]] = 0.0
    verdicts = result["verdict"]
    unknown = np.isnan(errors) & np.isin(verdicts, (*DIFFERING, "undecidable", "pass", "rounding"))
    for row in np.flatnonzero(unknown):
        errors[row] = _of_statistics(result, int(row))
    _weigh_cancelled(flow, errors)
    mismatched = (result["nan_mismatch_count"] > 0) | (result["inf_mismatch_count"] > 0)
    errors[mismatched | (verdicts == "shape")] = np.inf
    # Other bits of unknown size; where nothing else was recorded, all that is known is that.
    errors[(result["reason_id"] == "digest_differs") & (verdicts == "differs")] = np.inf
    # Gradients that the frameworks define differently say nothing.
    silent = ("defined_differently", "nothing_shared", "digest_kinds", "digest_differs")
    errors[np.isin(result["reason_id"], silent) & (verdicts != "differs")] = np.nan
    return errors


def _weigh_cancelled(flow: Flow, errors: np.ndarray) -> None:
    """Hold the gradient of a bias against that of its weight.

    A sum over what cancels, such as the gradient of a key's bias in attention, is rounding and
    nothing else; its own norm is no measure.
    """
    norms = flow.result["right_l2"]
    weights = {
        (flow.place(row), flow.parameter_of(row)[0]): norms[row]
        for row in range(flow.count)
        if flow.parameter_of(row)[1] == "weight"
    }
    for row in range(flow.count):
        module, leaf = flow.parameter_of(row)
        if leaf == "bias":
            norm = weights.get((flow.place(row), module), 0.0)
            if norms[row] < norm:
                errors[row] *= norms[row] / norm


def _of_statistics(result: Mapping[str, np.ndarray], row: int) -> float:
    """An estimate of the error from below, by how far statistics are apart."""
    left, right = (
        {name: float(result[f"{side}_{name}"][row]) for name in ("min", "max", "mean", "l2")}
        for side in ("left", "right")
    )
    if any(
        int(result[f"left_{name}"][row]) != int(result[f"right_{name}"][row])
        for name in ("nan_count", "inf_count")
    ):
        return math.inf
    largest = max((abs(right[name]) for name in _RANGE), default=0.0)
    apart = [abs(left[name] - right[name]) / largest for name in _RANGE if largest > 0]
    if right["l2"] > 0:
        apart.append(abs(left["l2"] - right["l2"]) / right["l2"])
    known = [value for value in apart if not math.isnan(value)]
    return max(known) if known else math.nan


def _noise(flow: Flow, model: NoiseModel) -> tuple[np.ndarray, np.ndarray]:
    bound, typical = np.zeros(flow.count), np.zeros(flow.count)
    coarse = max(_precision(flow, "left"), _precision(flow, "right"))
    known: dict[tuple[Any, ...], tuple[float, float]] = {}
    names = flow.result["right"]
    for row in range(flow.count):
        node = flow.node_of.get(row)
        word = node.word if node is not None and not node.children else ""
        length = flow.length(node) if node is not None else 1
        backward = bool(flow.site["direction"][row] == "backward")
        left, right = str(flow.result["left_dtype"][row]), str(flow.result["right_dtype"][row])
        key = (left, right, word, length, backward, node is None, coarse)
        if key not in known:
            known[key] = _bounds(model, key)
        bound[row], typical[row] = known[key]
        floor = model.self_noise.get(str(names[row]), 0.0)
        bound[row] = max(bound[row], 4.0 * floor)
        typical[row] = max(typical[row], floor)
    return bound, typical


def _precision(flow: Flow, side: str) -> float:
    """Unit roundoff of the format in which most of a side was computed, whatever it is stored in.

    Values that passed through bfloat16 and were stored as float32 use 8 bits of precision.
    """
    bits = flow.result[f"{side}_significand_bits"]
    floats = (bits > 1) & np.isfinite(flow.result["rel_l2_error"])
    results = np.array([flow.node_of.get(row) is not None for row in range(flow.count)], bool)
    chosen = bits[floats & results]
    if len(chosen) < _FEWEST_FOR_PRECISION:
        return 0.0
    return float(2.0 ** -int(np.quantile(chosen, _MOST_ROWS)))


def _bounds(model: NoiseModel, key: tuple[Any, ...]) -> tuple[float, float]:
    """What rounding explains at most, and what is usual, of rows alike."""
    left, right, word, length, backward, is_root, coarse = key
    try:
        dtypes = [dtype_from_token(left or right), dtype_from_token(right or left)]
    except (ValueError, TypeError):
        dtypes = [np.dtype(np.float32), np.dtype(np.float32)]
    if dtypes[0] != dtypes[1]:
        # A place where one side alone is coarse is a difference, not the precision of the run.
        dtypes = [dtype for dtype in dtypes if unit_roundoff(dtype) <= coarse] or dtypes
        finest = min(dtypes, key=unit_roundoff)
        dtypes = [dtype if unit_roundoff(dtype) <= coarse else finest for dtype in dtypes]
    typical = model.typical(dtypes[0], dtypes[-1], word, length=length, backward=backward)
    if arithmetic_of(dtypes[0]) == "float":
        typical = max(typical, ROUNDED_TWICE * coarse if coarse > 2.0**-23 else 0.0)
    if is_root:
        # Copied, not computed.
        return 4.0 * typical, typical
    return max(noise_bound(dtypes[0], dtypes[-1]).rel_l2, 4.0 * typical), typical
