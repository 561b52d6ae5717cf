"""Where a difference begins: rows that created it, and rows that only carry it on."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from types import MappingProxyType
from typing import Any

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.flow import Flow, Node, around
from troubleshooter_nb.analysis.layer_kinds import has_steps
from troubleshooter_nb.analysis.row_errors import (
    errors_of,
    noise_of,
    precision_of,
    rows_turning_coarse,
    scaled_rows,
)
from troubleshooter_nb.dump import StepRank
from troubleshooter_nb.metrics.floats import is_integer_name
from troubleshooter_nb.metrics.noise import NoiseModel
from troubleshooter_nb.naming import CALL_KINDS
from troubleshooter_nb.naming.hooks import is_sample
from troubleshooter_nb.naming.roles import reads_shape_alone
from troubleshooter_nb.render.words import DIFFERING


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
        were recorded; "unknown", as of "order" where rows that differ may be before or behind it;
        "between", what unrecorded work between calls may have used; "root" and "input", which
        nothing recorded computed; "missing", which a side lacks; "guess", a pair that may be
        none; "update", the step before;
        "setting", a number the call was given.
    vanishing : ndarray of bool
        The row would have created a difference, but whatever uses it agrees.
    harmless : set of int
        All rows that differ where whatever uses them agrees.
    doubtful : set of Node
        Calls that contain no others and differ clearly more than what they were given.
    is_scaled : ndarray of bool
        The two sides differ by a factor, which rounding does not leave.
    acquitted : set of int
        Results that were seen to be computed alike on both sides.
    """

    flow: Flow
    error: np.ndarray
    noise: np.ndarray
    typical: np.ndarray
    source_error: np.ndarray
    state: np.ndarray
    basis: np.ndarray
    vanishing: np.ndarray
    doubtful: set[Node]
    harmless: set[int]
    is_scaled: np.ndarray
    acquitted: set[int] = field(default_factory=set)

    @property
    def growth(self) -> np.ndarray:
        """Error over the error of what a row was computed from, or over what rounding leaves.

        nan where either is unknown, or the row was computed from NaN, infinities or other shapes.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            growth: np.ndarray = self.error / np.maximum(self.source_error, self.typical)
        growth[np.isinf(self.source_error)] = np.nan
        return growth

    def differs(self, row: int) -> bool:
        """Whether a row is further apart than rounding explains."""
        return bool(self.error[row] > self.noise[row])

    def created(self) -> list[int]:
        """Rows that created a difference: in the order of execution, roots at their first use."""
        return self.by_time(np.flatnonzero(self.state == "created"))

    def unordered(self) -> list[int]:
        """Rows that differ, and of which it is not known what came before them."""
        return self.by_time(np.flatnonzero(self.basis == "unknown"))

    def by_time(self, rows: np.ndarray) -> list[int]:
        """Rows in the order in which their values mattered first."""
        if not len(rows):
            return []
        found: list[int] = rows[np.argsort(self.flow.times[rows], kind="stable")].tolist()
        return found

    def clear(self, node: Node, *, is_close: bool = True) -> None:
        """A call that computed the same on both sides only carried what it was given.

        Only the first output was computed again; others are acquitted that differ about as much.
        `is_close`: the two sides are explained together as well as each alone.
        """
        limit = thresholds.CREATED_GROWTH * max(
            self.error[node.outputs[0]], self.typical[node.outputs[0]]
        )
        if is_close:
            self.acquitted.update(node.outputs)
        for row in node.outputs:
            # New NaN come from somewhere, whatever the finite values say.
            is_carried = math.isfinite(self.error[row]) and self.error[row] <= limit
            if self.state[row] == "created" and is_carried:
                self.state[row] = "carried"

    def blame(self, node: Node) -> None:
        """A call that computed something else on one side, however small the difference."""
        for row in node.outputs:
            if self.error[row] > 0 and math.isfinite(self.source_error[row]):
                self.state[row] = "created"

    def miss(self, row: int) -> None:
        """What only one side has is where the two part."""
        self.state[row], self.basis[row] = "created", "missing"

    def bring_back(self, hidden: Collection[int] = ()) -> bool:
        """Where nothing created what fails, what went no further at first did so after all.

        A sum hides a small difference in its larger terms, and a norm behind it brings it to light.
        True where there was such a row.

        Parameters
        ----------
        hidden : collection of int
            Rows that go no further themselves, and fail all the same.
        """
        flow = self.flow
        fails = np.isin(flow.result["verdict"], DIFFERING) & (self.state != "")
        fails[list(self.harmless)] = False
        fails[list(hidden)] = True
        for row in self.by_time(np.flatnonzero(self.vanishing)):
            if row in self.acquitted:
                continue
            is_behind = fails & (flow.times > self.time(row))
            is_alike = self.error[is_behind] * thresholds.CREATED_GROWTH >= self.error[row]
            if row in flow.node_of and is_alike.any():
                self.state[row], self.vanishing[row] = "created", False
                self.harmless.discard(row)
                return True
        return False

    def seen_to_carry(self) -> set[int]:
        """Results that were seen to be computed alike, and what carries an error that is seen."""
        carried = {int(row) for row in np.flatnonzero(self.state == "carried")}
        return self.acquitted | (carried - self.harmless)

    def suspects(self) -> list[int]:
        """Rows that carry an error and add clearly more to it than one call does by rounding.

        The most conspicuous first. Of the forward pass: gradients may add up a lot of rounding.
        """
        growth = self.growth
        may_be = (self.state == "carried") & (growth > thresholds.WORTH_A_LOOK)
        may_be &= ~self.flow.is_backward
        rows = [int(r) for r in np.flatnonzero(may_be) if r in self.flow.node_of]
        rows = [r for r in rows if r not in self.acquitted and r not in self.harmless]
        return sorted(rows, key=lambda row: -growth[row])

    def told(self) -> np.ndarray:
        """`state`, in which what fails behind an origin carries its difference.

        Behind where one side turned coarse nothing is further apart than that precision leaves,
        and tolerances of single pairs know nothing of it.
        """
        told = self.state.copy()
        created = self.created()
        if not created:
            return told
        is_silent = np.isin(self.flow.result["verdict"], DIFFERING) & (told == "")
        is_silent[list(self.harmless)] = False
        is_behind = self.flow.times > self.time(created[0])
        told[is_silent & is_behind & (self.source_error > 0)] = "carried"
        return told

    def time(self, row: int) -> int:
        """Sorts rows by when their values mattered first."""
        return int(self.flow.times[row])


class _Draft:
    """What `Origins` will hold: in lists, whose cells cost a fifth of those of arrays."""

    def __init__(
        self,
        flow: Flow,
        model: NoiseModel,
        known: Mapping[int, float],
        carry: Collection[int],
    ) -> None:
        error = errors_of(flow)
        error[[*known]] = [*known.values()]
        noise, typical = noise_of(flow, model)
        close = np.maximum(thresholds.CLOSE_TYPICAL * typical, thresholds.CLOSE_NOISE * noise)
        self.flow = flow
        self.error: list[float] = error.tolist()
        self.noise: list[float] = noise.tolist()
        self.typical: list[float] = typical.tolist()
        self.is_apart: list[bool] = (error > noise).tolist()
        # Equal figures, and a part of a tensor, do not prove that the rest agrees; nor do NaN.
        is_open = (flow.result["verdict"] == "undecidable") | _is_part(flow) | _holds_nan(flow)
        self.is_close: list[bool] = ((error <= close) & ~is_open).tolist()
        self.turns_coarse = rows_turning_coarse(flow)
        self.is_scaled = scaled_rows(flow)
        self.harmless: set[int] = set()
        self.carry = carry
        self.forget()

    def forget(self) -> None:
        """Begin anew with what is known of errors, and of what is harmless."""
        count = self.flow.count
        self.source_error = [math.nan] * count
        self.state, self.basis = [""] * count, [""] * count
        self.vanishing = [False] * count
        self.doubtful: set[Node] = set()

    def created(self) -> list[int]:
        """Rows that created a difference, in the order of the comparison."""
        return [row for row, state in enumerate(self.state) if state == "created"]

    def origins(self) -> Origins:
        """What was found."""
        return Origins(
            self.flow,
            error=np.array(self.error, np.float64),
            noise=np.array(self.noise, np.float64),
            typical=np.array(self.typical, np.float64),
            source_error=np.array(self.source_error, np.float64),
            state=np.array(self.state, object),
            basis=np.array(self.basis, object),
            vanishing=np.array(self.vanishing, bool),
            doubtful=self.doubtful,
            harmless=self.harmless,
            is_scaled=self.is_scaled,
        )


def _is_part(flow: Flow) -> np.ndarray:
    """Rows that hold some values of a tensor alone, shape (count,)."""
    slots = [*map(str, flow.site["slot"].tolist())]
    known = {slot: is_sample(slot) for slot in {*slots}}
    return np.array([known[slot] for slot in slots], bool)


def _holds_nan(flow: Flow) -> np.ndarray:
    """Rows that hold NaN on both sides, whatever these were before, shape (count,)."""
    counts = (flow.result[f"{side}_nan_count"].astype(float) for side in ("left", "right"))
    return np.logical_and(*(count > 0 for count in counts))


def find_origins(
    flow: Flow,
    model: NoiseModel | None = None,
    known: Mapping[int, float] = MappingProxyType({}),
    carry: Collection[int] = frozenset(),
) -> Origins:
    """Tell rows that created a difference from those that carry one, by figures alone.

    Parameters
    ----------
    flow : Flow
    model : NoiseModel, optional
        What rounding leaves; default the fitted one.
    known : mapping of int to float
        Rows to what counts of their error, where that is not all of it.
    carry : collection of int
        Rows that created nothing, as their values showed: what they carry on, whatever uses it
        agrees or not, is no other way of writing anything.

    Notes
    -----
    An output whose inputs and parameters agree, or whose error is more than 10 times theirs, is
    created; so is a parameter, buffer or input of the network that differs, unless whatever uses
    it agrees. Where no inputs were recorded, the largest error before it in order stands in.
    """
    draft = _Draft(flow, model or NoiseModel(), known, carry)
    nodes = sorted(flow.nodes, key=_execution)
    for _ in range(thresholds.ORIGIN_PASSES):
        draft.forget()
        _judge_roots(draft)
        by_order, begun = _Before(), set[Node]()
        for node in nodes:
            # What a call around it was given was there before all inside.
            for one in [*reversed([*around(node)]), node]:
                if one not in begun:
                    begun.add(one)
                    _judge_inputs(draft, one, by_order)
            _judge_results(draft, node, by_order)
        found = _Harmless(draft, _carrying(draft, nodes)).find(nodes)
        if found <= draft.harmless:
            break
        draft.harmless |= found
    _leave_out_undecided(draft)
    _leave_out_guesses(draft)
    return draft.origins()


def _leave_out_guesses(draft: _Draft) -> None:
    """What may be no pair at all is no fault."""
    for row in np.flatnonzero(draft.flow.guessed).tolist():
        if draft.state[row]:
            draft.state[row], draft.basis[row] = "", "guess"
        if row in draft.flow.node_of:
            draft.doubtful.discard(draft.flow.node_of[row])


def _leave_out_undecided(draft: _Draft) -> None:
    """Statistics that agree within the tolerance are no origin beside rows that are far apart."""
    verdicts = draft.flow.result["verdict"]
    created = draft.created()
    sure = [draft.error[row] for row in created if verdicts[row] in DIFFERING]
    for row in created:
        is_open = verdicts[row] == "undecidable"
        if is_open and sure and draft.error[row] * thresholds.FAR_BESIDE <= max(sure):
            draft.state[row] = ""


def _carrying(draft: _Draft, nodes: Sequence[Node]) -> set[int]:
    """Results that brought rounding to light, as is known, and all that carry it on from there.

    What was computed alike from values, or parameters, that differ shows their difference.

    Parameters
    ----------
    draft : _Draft
    nodes : sequence of Node
        In the order of execution.
    """
    flow = draft.flow
    found = {
        row
        for row in draft.carry
        if row in flow.node_of
        and row in flow.node_of[row].outputs
        and draft.is_apart[row]
        and not any(draft.is_apart[other] for other in _sources(draft, flow.node_of[row]))
    }
    if not found:
        return found
    largest: dict[StepRank, float] = defaultdict(float)
    for node in nodes:
        for row in (*node.inputs, *node.outputs):
            if draft.state[row] == "carried" and draft.basis[row] == "order":
                is_behind = draft.error[row] <= _by_order(node) * largest[node.place]
            elif row in node.inputs:
                is_behind = flow.producer.get(row) in found
            else:
                is_behind = not found.isdisjoint(node.inputs)
            if is_behind and draft.state[row] == "carried":
                found.add(row)
            if row in found:
                largest[node.place] = max(largest[node.place], draft.error[row])
    return found


def _execution(node: Node) -> tuple[Any, ...]:
    return (*node.place, node.direction == "backward", *node.finished)


class _Before:
    """The largest error so far, by place and inside each call; backward goes on from forward."""

    def __init__(self) -> None:
        self._worst: dict[StepRank | tuple[Node, str], float] = {}

    def add(self, node: Node, row: int, error: float) -> None:
        """Enter a result of a call."""
        if math.isnan(error):
            return
        keys: list[StepRank | tuple[Node, str]] = [node.place]
        if node.parent is not None and row in node.outputs:
            keys.append((node.parent, node.direction))
        for key in keys:
            self._worst[key] = max(self._worst.get(key, 0.0), error)

    def error(self, key: StepRank | tuple[Node, str]) -> float:
        """Largest error of a place, or inside a call in a direction; nan where none is known."""
        return self._worst.get(key, math.nan)


def _judge_roots(draft: _Draft) -> None:
    flow = draft.flow
    steps = sorted({step for step, _ in set(flow.places)})
    if len(steps) > 1:
        _judge_updated(draft, dict(zip(steps[1:], steps, strict=False)))
    else:
        for row in flow.roots:
            draft.basis[row], draft.source_error[row] = "root", 0.0
            if draft.is_apart[row]:
                draft.state[row] = "created"
    _leave_out_casts(draft)


def _judge_updated(draft: _Draft, previous: Mapping[int, int]) -> None:
    """Roots of several steps, each step with the one before it."""
    flow = draft.flow
    earlier: dict[tuple[int, str], float] = {}
    worst = _worst_by_place(draft)
    names = [str(right) or str(left) for right, left in flow.result.rows("right", "left")]
    for row in sorted(flow.roots, key=flow.place):
        draft.basis[row] = "root"
        step, rank = flow.place(row)
        key = (rank, names[row])
        error = draft.error[row]
        if step in previous:
            draft.basis[row] = "update"
            # Updated since: by gradients, and for buffers by what went through.
            gradients = worst.get((previous[step], rank), 0.0)
            draft.source_error[row] = max(earlier.get(key, 0.0), gradients)
        else:
            draft.source_error[row] = 0.0
        earlier[key] = max(earlier.get(key, 0.0), 0.0 if math.isnan(error) else error)
        if draft.is_apart[row]:
            # An update moves a parameter by little: whatever differs in it came from there.
            carried = step in previous and draft.source_error[row] > draft.noise[row]
            draft.state[row] = "carried" if carried else "created"


def _leave_out_casts(draft: _Draft) -> None:
    """Where most of a checkpoint was cast, what differs by more than that is its difference."""
    flow = draft.flow
    created = [] if flow.nodes else draft.created()
    if not created:
        return
    coarse = max(precision_of(flow, side, created) for side in ("left", "right"))
    casts = [row for row in created if draft.error[row] <= coarse]
    if len(casts) < len(created):
        for row in casts:
            draft.state[row] = ""


def _worst_by_place(draft: _Draft) -> dict[StepRank, float]:
    worst = dict.fromkeys(draft.flow.places, 0.0)
    for place, error, is_apart in zip(draft.flow.places, draft.error, draft.is_apart, strict=True):
        if is_apart:
            worst[place] = max(worst[place], error)
    return worst


def _judge_inputs(draft: _Draft, node: Node, before: _Before) -> None:
    """Inputs that no recorded call made: those of the network, and work between calls."""
    flow = draft.flow
    for row in node.inputs:
        if flow.is_value[row]:
            _judge_setting(draft, node, row)
        elif row in flow.copied:
            _carry(draft, row, flow.copied[row])
        elif row in flow.producer:
            # One side may have done something in between: then the value is that of no output.
            _allow_steps_between(draft, node, row)
            _judge(draft, row, draft.error[flow.producer[row]], "between")
        elif row in flow.external and node.direction == "forward":
            draft.basis[row] = "root" if flow.argument_of(node, row) else "input"
            draft.source_error[row] = 0.0
            if draft.is_apart[row]:
                draft.state[row] = "created"
                _weigh_integers(draft, node, row, before)
        elif (outer := _given_around(draft, node, row)) is not None:
            draft.basis[row], draft.state[row] = draft.basis[outer], draft.state[outer]
            draft.source_error[row] = draft.source_error[outer]
        else:
            _allow_steps_between(draft, node, row)
            error = _error_around(draft, node, before)
            if math.isnan(error):
                _judge_by_order(draft, node, row, before)
            else:
                _judge(draft, row, error, "between")
            if draft.state[row] == "created" and _same_before(draft, row):
                draft.state[row] = "carried"


def _allow_steps(draft: _Draft, rows: Iterable[int], moved: float) -> None:
    """Let gradients differ by what a step leaves whose input is so far apart on the two sides.

    What lies at a step on one side and behind it on the other is let through on one alone.
    """
    if moved > 0:
        left = thresholds.OVER_A_STEP * math.sqrt(min(moved, 1.0))
        for row in rows:
            if not draft.is_scaled[row]:
                draft.typical[row] = max(draft.typical[row], left)


def _allow_steps_between(draft: _Draft, node: Node, row: int) -> None:
    """The same of a gradient that a call was given: a function between the calls may have steps.

    In float32 that may not hide what is small.
    """
    if node.direction == "backward" and node.forward is not None:
        moved = _largest(draft, node.forward.outputs)
        _allow_steps(draft, [row], moved if moved > thresholds.SHORT_ROUNDOFF else 0.0)


def _given_around(draft: _Draft, node: Node, row: int) -> int | None:
    """The input of a call around this one that a backward call was given, if nothing made it."""
    flow = draft.flow
    if node.direction != "backward" or row not in flow.external:
        return None
    outer = {other for one in around(node) for other in one.inputs if other in flow.external}
    return next((other for other in flow.same_input.get(row, ()) if other in outer), None)


def _weigh_integers(draft: _Draft, node: Node, row: int, before: _Before) -> None:
    """Integers of the data that differ explain whatever uses them: an id is no size."""
    result = draft.flow.result
    if is_integer_name(str(result["right_dtype"][row] or result["left_dtype"][row])):
        draft.error[row] = math.inf
    if node.kind not in CALL_KINDS:
        # No call says what uses it: all that was saved behind it may.
        before.add(node, row, draft.error[row])


def _carry(draft: _Draft, row: int, source: int) -> None:
    """A row that is another one."""
    draft.basis[row] = "inputs"
    draft.source_error[row] = draft.error[source]
    if draft.is_apart[row]:
        draft.state[row] = "carried"


def _judge_setting(draft: _Draft, node: Node, row: int) -> None:
    """A number or text the call was given: it matters where the results differ."""
    draft.basis[row] = "setting"
    if draft.flow.result["verdict"][row] in DIFFERING:
        results = [*node.outputs, *node.gradients]
        matters = any(draft.is_apart[result] for result in results)
        draft.error[row] = math.inf
        draft.is_apart[row], draft.is_close[row] = True, False
        draft.state[row] = "created" if matters else ""
        draft.vanishing[row] = not matters


def _same_before(draft: _Draft, row: int) -> bool:
    """Whether an earlier call took the same input, so that its difference is not new here."""
    return any(
        other != row and draft.state[other] == "created"
        for other in draft.flow.same_input.get(row, ())
    )


def _judge_results(draft: _Draft, node: Node, before: _Before) -> None:
    flow = draft.flow
    made_inside = {row for row in node.outputs if row in flow.passed_on}
    sources = _sources(draft, node)
    error = _largest(draft, sources)
    if node.direction == "backward" and has_steps(node.word) and node.forward is not None:
        _allow_steps(draft, node.outputs, _largest(draft, node.forward.inputs))
    if node.direction == "backward" and node.children:
        made = [draft.typical[row] for child in node.children for row in child.outputs]
        inside = max(made, default=0.0)
        for row in node.outputs:
            draft.typical[row] = max(draft.typical[row], inside)
    for row in [*node.outputs, *node.gradients]:
        if row in made_inside:
            # As with inputs, one side may have gone on with the value.
            _judge(draft, row, draft.error[flow.passed_on[row]], "between")
            continue
        if math.isnan(error):
            _judge_by_order(draft, node, row, before)
        else:
            _judge(draft, row, error, "inputs")
        if not node.children and _ratio(draft, row) > thresholds.WORTH_A_LOOK:
            draft.doubtful.add(node)
    for row in [*node.outputs, *node.gradients]:
        if row not in draft.harmless:
            before.add(node, row, draft.error[row])


def _judge(draft: _Draft, row: int, source_error: float, basis: str) -> None:
    draft.basis[row] = basis
    draft.source_error[row] = 0.0 if math.isnan(source_error) else source_error
    if draft.is_apart[row]:
        limit = (
            _by_order(draft.flow.node_of[row]) if basis == "order" else thresholds.CREATED_GROWTH
        )
        is_carried = row in draft.carry or _ratio(draft, row) <= limit
        draft.state[row] = "carried" if is_carried else "created"


def _judge_by_order(draft: _Draft, node: Node, row: int, before: _Before) -> None:
    """Judge a row by what came before it, and not at all where that is not known."""
    order = draft.flow.order_of.get(row)
    if order is None:
        _judge(draft, row, before.error(node.place), "order")
        return
    given = _largest(draft, order.rows_before(row))
    _judge(draft, row, given, "order")
    if draft.state[row] != "created":
        return
    maybe = _largest(draft, order.rows_open(row))
    if maybe > 0 and draft.error[row] <= _by_order(node) * maybe:
        draft.state[row], draft.basis[row] = "", "unknown"
        draft.source_error[row] = math.nan


def _by_order(node: Node) -> float:
    """How much an error may grow over those before it in order."""
    return thresholds.GROWTH_OF_NORMS if "norm" in node.word else thresholds.GROWTH_BY_ORDER


def _ratio(draft: _Draft, row: int) -> float:
    source = draft.source_error[row]
    if math.isinf(source):
        return 1.0
    return draft.error[row] / max(source, draft.typical[row], 5e-324)


def _sources(draft: _Draft, node: Node) -> list[int]:
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


def _error_around(draft: _Draft, node: Node, before: _Before) -> float:
    """Largest error of what unrecorded work between calls may have made an input from."""
    container = node.parent
    if container is None:
        return math.nan
    rows = [row for row in container.inputs if row not in node.inputs]
    errors = [before.error((container, node.direction))]
    if node.direction == "backward" and node.forward is not None and container.forward is not None:
        rows += container.forward.inputs
        errors.append(before.error((container.forward, "forward")))
    known = [error for error in [*errors, _largest(draft, rows)] if not math.isnan(error)]
    return max(known, default=math.nan)


@dataclass
class _Uses:
    """How many rows that use a value agree, and how many differ as the value does."""

    agree: int = 0
    differ: int = 0

    def add(self, other: _Uses) -> _Uses:
        """Count another one's as well."""
        self.agree += other.agree
        self.differ += other.differ
        return self

    def __add__(self, other: _Uses) -> _Uses:
        return _Uses(self.agree + other.agree, self.differ + other.differ)

    @property
    def see_nothing(self) -> bool:
        """Whether something uses the value and does not see the difference."""
        return self.agree > 0 and not self.differ


class _Harmless:
    """Differences that whatever uses the value does not see.

    A record before an operator that works in place, another layout, a parameter that is defined
    another way: the values differ, and what is computed from them agrees, at once or further on.
    Calls are gone through from the last to the first, as what uses a value comes after it. What
    differs after another origin may do so because of that one, and says nothing of what was before.
    """

    def __init__(self, draft: _Draft, carrying: Collection[int]) -> None:
        self._draft = draft
        self._carrying = carrying  # rows whose error is known to be there
        self._harmless: set[int] = set()
        # Of the calls seen so far, those in each container and direction, and the next few of
        # all: what unrecorded work may have made of a result.
        self._inside: dict[tuple[Node, str], _Uses] = defaultdict(_Uses)
        self._soon: dict[tuple[StepRank, str], deque[_Uses]] = defaultdict(
            lambda: deque(maxlen=thresholds.USED_SOON)
        )
        # Those among them that hold differences.
        self._differing: dict[StepRank, list[_Uses]] = defaultdict(list)

    def find(self, nodes: Sequence[Node]) -> set[int]:
        """Take the state from rows that created a difference which goes no further.

        Parameters
        ----------
        nodes : sequence of Node
            In the order of execution.
        """
        draft, flow = self._draft, self._draft.flow
        created = draft.created()
        if not created:
            return set()
        for node in reversed(nodes):
            self._visit(node)
        roots = [row for row in created if row not in flow.node_of]
        for row in roots:
            if row in flow.users:
                self._decide(row, self._uses(self._results_of_root(row)))
        self._add_gradients([row for row in roots if row in self._harmless])
        for row in created if self._harmless else ():
            if row in self._harmless:
                draft.vanishing[row] = True
                # What steps made of a parameter is told even where its layer does not show it.
                if draft.basis[row] != "update":
                    draft.state[row] = ""
        return self._harmless

    def _add_gradients(self, roots: Sequence[int]) -> None:
        """The gradient of what is laid out otherwise is laid out like it."""
        flow, harmless = self._draft.flow, self._harmless
        laid_out = {(flow.place(row), flow.module_of(row)) for row in roots}
        for node in flow.nodes:
            if node.direction == "forward":
                continue
            for row in node.gradients:
                if (node.place, flow.module_of(row)) in laid_out:
                    harmless.add(row)
            forward = node.forward
            if forward is not None and forward.outputs and harmless.issuperset(forward.outputs):
                harmless.update(row for row in node.inputs if self._draft.is_apart[row])

    def _visit(self, node: Node) -> None:
        """Decide the rows of a call, and keep its inputs for the calls before it."""
        if reads_shape_alone(node.word):  # of values it says nothing
            return
        draft, flow = self._draft, self._draft.flow
        apart = [row for row in (*node.outputs, *node.inputs) if draft.is_apart[row]]
        between = self._between(node) if apart else _Uses()
        # What uses the gradient of a parameter is the optimizer.
        for row in node.outputs:
            if draft.is_apart[row]:
                self._decide(row, between + self._uses(flow.consumers.get(row, [])))
            if not node.inputs and self._is_gone_outside(node, row):
                self._harmless.add(row)
        for row in node.inputs if apart else ():
            # What was made between calls may go on past this one, as round a residual.
            past = _Uses() if row in flow.external else between
            self._decide(row, past + self._uses(node.outputs))
        if any(map(self._is_origin, (*node.outputs, *node.gradients, *node.parameters))):
            # What differs after an origin says nothing of what came before it.
            for uses in self._differing.pop(node.place, ()):
                uses.differ = 0
        made = self._uses(self._made_between(node.inputs))
        self._soon[node.place, node.direction].append(made)
        seen = [made]
        if node.parent is not None:
            seen.append(self._inside[node.parent, node.direction].add(made))
        if node.children:
            # What differs outside came from inside.
            outside = _Uses(differ=self._uses(node.outputs).differ)
            seen.append(self._inside[node, node.direction].add(outside))
        self._differing[node.place] += [uses for uses in seen if uses.differ]

    def _is_gone_outside(self, node: Node, row: int) -> bool:
        """Whether nothing is left of a difference in what the call around it gives."""
        around = [] if node.parent is None else node.parent.outputs
        left = [self._draft.error[other] for other in around]
        gone = all(error < thresholds.GONE * self._draft.error[row] for error in left)
        return bool(left) and gone and not any(self._draft.is_apart[other] for other in around)

    def _is_origin(self, row: int) -> bool:
        is_created = self._draft.state[row] == "created" and row not in self._harmless
        return bool(is_created) and math.isfinite(self._draft.source_error[row])

    def _between(self, node: Node) -> _Uses:
        """What unrecorded work may have made of the results of a call, soon after it."""
        if not self._draft.flow.is_ordered(node):
            return _Uses()
        if node.parent is None:
            soon = self._soon[node.place, node.direction]
            first = [*takewhile(lambda uses: not uses.differ, reversed(soon))]
            # What the next ones did not see, those behind them have from somewhere else.
            is_seen = sum(uses.agree > 0 for uses in first) >= thresholds.UNSEEN_SOON
            return sum(first if is_seen else soon, _Uses())
        flow = self._draft.flow
        outputs = [row for row in node.parent.outputs if row not in flow.passed_on]
        inside = self._inside[node.parent, node.direction]
        return inside + self._uses(self._made_between(outputs))

    def _made_between(self, rows: Iterable[int]) -> list[int]:
        """Rows that unrecorded work made at this point, of what was there before."""
        flow, found = self._draft.flow, []
        for row in rows:
            # The input of a shortcut or of the next expert was there before: it uses nothing new.
            is_known = row in flow.external or row in flow.producer
            is_first = row in flow.first_inputs or row not in flow.same_input
            if self._draft.basis[row] in ("between", "order") and is_first and not is_known:
                found.append(row)
        return found

    def _results_of_root(self, row: int) -> list[int]:
        flow = self._draft.flow
        if flow.site["role"][row] == "buffer":
            # Only written in training: nothing need differ for it.
            return []
        used = [node for node in flow.users.get(row, ()) if node.direction == "forward"]
        return [output for node in used for output in node.outputs]

    def _decide(self, row: int, uses: _Uses) -> None:
        # Behind where one side turned coarse all agree as well as that precision lets them.
        is_told = self._draft.is_apart[row] and row not in self._draft.turns_coarse
        is_told &= row not in self._carrying
        if uses.see_nothing and is_told:
            self._harmless.add(row)

    def _uses(self, rows: Iterable[int]) -> _Uses:
        """Rows by whether they agree, or see nothing themselves; nearly apart is neither."""
        uses, draft = _Uses(), self._draft
        for row in rows:
            if draft.is_close[row] or row in self._harmless:
                uses.agree += 1
            elif draft.is_apart[row]:
                uses.differ += 1
        return uses


def _largest(draft: _Draft, rows: Iterable[int]) -> float:
    """Largest known error of rows, but of those that are harmless; nan where none is known."""
    errors, harmless = draft.error, draft.harmless
    known = [0.0 if row in harmless else errors[row] for row in rows]
    return max((error for error in known if not math.isnan(error)), default=math.nan)
