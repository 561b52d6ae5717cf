"""Where a difference begins: rows that created it, and rows that only carry it on."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.flow import Flow, Node, Place
from troubleshooter_nb.metrics.floats import arithmetic_of, dtype_from_token, unit_roundoff
from troubleshooter_nb.metrics.noise import ROUNDED_TWICE, NoiseModel, noise_bound
from troubleshooter_nb.render.words import DIFFERING
from troubleshooter_nb.table import Table

_RANGE = ("min", "max")


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
        The row would have created a difference, but whatever uses it agrees.
    harmless : set of int
        All rows that differ where whatever uses them agrees.
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
    doubtful: set[Node] = field(init=False)
    harmless: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew with what is known of errors, and of what is harmless."""
        count = self.flow.count
        self.doubtful = set()
        self.source_error = np.full(count, np.nan)
        self.state = np.full(count, "", object)
        self.basis = np.full(count, "", object)
        self.vanishing = np.zeros(count, bool)

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
        rows = [int(row) for row in np.flatnonzero(self.state == "created")]
        return sorted(rows, key=self.time)

    def acquit(self, node: Node) -> None:
        """A call that computed the same on both sides only carried what it was given.

        Only the first output was computed again; others are acquitted that differ about as much.
        """
        limit = thresholds.CREATED_GROWTH * max(
            self.error[node.outputs[0]], self.typical[node.outputs[0]]
        )
        for row in node.outputs:
            # New NaN come from somewhere, whatever the finite values say.
            is_carried = math.isfinite(self.error[row]) and self.error[row] <= limit
            if self.state[row] == "created" and is_carried:
                self.state[row] = "carried"

    def convict(self, node: Node) -> None:
        """A call that computed something else on one side, however small the difference."""
        for row in node.outputs:
            if self.error[row] > 0 and math.isfinite(self.source_error[row]):
                self.state[row] = "created"

    def told(self) -> np.ndarray:
        """`state`, in which what fails behind an origin carries its difference.

        Behind where one side turned coarse nothing is further apart than that precision leaves,
        and tolerances of single pairs know nothing of it.
        """
        told = self.state.copy()
        created = self.created()
        if not created:
            return told
        begin = self.time(created[0])
        is_silent = np.isin(self.flow.result["verdict"], DIFFERING) & (told == "")
        for row in map(int, np.flatnonzero(is_silent & (self.source_error > 0))):
            if row not in self.harmless and self.time(row) > begin:
                told[row] = "carried"
        return told

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
    nodes = sorted(flow.nodes, key=_execution)
    for _ in range(thresholds.ORIGIN_PASSES):
        origins.forget()
        _judge_roots(origins)
        by_order = _Before()
        for node in nodes:
            _judge_inputs(origins, node, by_order)
            _judge_results(origins, node, by_order)
        found = _Harmless(origins).find(nodes)
        if found <= origins.harmless:
            break
        origins.harmless |= found
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
    _leave_out_casts(origins)


def _leave_out_casts(origins: Origins) -> None:
    """Where most of a checkpoint was cast, what differs by more than that is its difference."""
    flow = origins.flow
    if flow.nodes:
        return
    created = [row for row in flow.roots if origins.state[row] == "created"]
    coarse = max(_precision(flow, side, created) for side in ("left", "right"))
    casts = {row for row in created if origins.error[row] <= 4.0 * ROUNDED_TWICE * coarse}
    if len(casts) < len(created):
        for row in casts:
            origins.state[row] = ""


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
            origins.basis[row] = "root" if flow.argument_of(node, row) else "input"
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
    error = _largest(origins, sources)
    for row in [*node.outputs, *node.gradients]:
        if row in made_inside:
            # As with inputs, one side may have gone on with the value.
            _judge(origins, row, float(origins.error[flow.passed_on[row]]), "between")
            continue
        by_order = math.isnan(error)
        given = before.error(node.place) if by_order else error
        _judge(origins, row, given, "order" if by_order else "inputs")
        if not node.children and _ratio(origins, row) > thresholds.WORTH_A_LOOK:
            origins.doubtful.add(node)
    for row in [*node.outputs, *node.gradients]:
        if row not in origins.harmless:
            before.add(node, row, float(origins.error[row]))


def _judge(origins: Origins, row: int, source_error: float, basis: str) -> None:
    origins.basis[row] = basis
    origins.source_error[row] = 0.0 if math.isnan(source_error) else source_error
    if origins.differs(row):
        limit = (
            _by_order(origins.flow.node_of[row]) if basis == "order" else thresholds.CREATED_GROWTH
        )
        origins.state[row] = "created" if _ratio(origins, row) > limit else "carried"


def _by_order(node: Node) -> float:
    """How much an error may grow over those before it in order."""
    return thresholds.GROWTH_OF_NORMS if "norm" in node.word else thresholds.GROWTH_BY_ORDER


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
    known = [error for error in [*errors, _largest(origins, rows)] if not math.isnan(error)]
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

    def __init__(self, origins: Origins) -> None:
        self.origins = origins
        self._harmless: set[int] = set()
        # Of the calls seen so far, those in each container and direction, and the next few of
        # all: what unrecorded work may have made of a result.
        self._inside: dict[tuple[Node, str], _Uses] = defaultdict(_Uses)
        self._soon: dict[tuple[Place, str], deque[_Uses]] = defaultdict(
            lambda: deque(maxlen=thresholds.USED_SOON)
        )
        # Those among them that hold differences.
        self._differing: dict[Place, list[_Uses]] = defaultdict(list)

    def find(self, nodes: Sequence[Node]) -> set[int]:
        """Take the state from rows that created a difference which goes no further.

        Parameters
        ----------
        nodes : sequence of Node
            In the order of execution.
        """
        origins, flow = self.origins, self.origins.flow
        created = [int(row) for row in np.flatnonzero(origins.state == "created")]
        if not created:
            return set()
        for node in reversed(nodes):
            self._visit(node)
        roots = [row for row in created if row not in flow.node_of]
        for row in roots:
            self._decide(row, self._uses(self._results_of_root(row)))
        self._add_gradients([row for row in roots if row in self._harmless])
        for row in created:
            if row in self._harmless:
                origins.vanishing[row] = True
                # What steps made of a parameter is told even where its layer does not show it.
                if origins.basis[row] != "update":
                    origins.state[row] = ""
        return self._harmless

    def _add_gradients(self, roots: Sequence[int]) -> None:
        """The gradient of what is laid out otherwise is laid out like it."""
        flow, harmless = self.origins.flow, self._harmless
        laid_out = {(flow.place(row), flow.module_of(row)) for row in roots}
        for node in flow.nodes:
            if node.direction == "forward":
                continue
            for row in node.gradients:
                if (node.place, flow.module_of(row)) in laid_out:
                    harmless.add(row)
            forward = node.forward
            if forward is not None and forward.outputs and harmless.issuperset(forward.outputs):
                harmless.update(filter(self.origins.differs, node.inputs))

    def _visit(self, node: Node) -> None:
        """Decide the rows of a call, and keep its inputs for the calls before it."""
        flow = self.origins.flow
        between = self._between(node)
        # What uses the gradient of a parameter is the optimizer.
        for row in node.outputs:
            self._decide(row, between + self._uses(flow.consumers.get(row, [])))
            if not node.inputs and self._is_gone_outside(node, row):
                self._harmless.add(row)
        for row in node.inputs:
            # What was made between calls may go on past this one, as round a residual.
            past = _Uses() if row in flow.external else between
            self._decide(row, past + self._uses(node.outputs))
        if any(self._is_origin(row) for row in (*node.outputs, *node.gradients)):
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
        left = [float(self.origins.error[other]) for other in around]
        gone = all(error < thresholds.GONE * self.origins.error[row] for error in left)
        return bool(left) and gone and not any(map(self.origins.differs, around))

    def _is_origin(self, row: int) -> bool:
        is_created = self.origins.state[row] == "created" and row not in self._harmless
        return bool(is_created) and math.isfinite(self.origins.source_error[row])

    def _between(self, node: Node) -> _Uses:
        """What unrecorded work may have made of the results of a call, soon after it."""
        if node.parent is None:
            return sum(self._soon[node.place, node.direction], _Uses())
        flow = self.origins.flow
        outputs = [row for row in node.parent.outputs if row not in flow.passed_on]
        inside = self._inside[node.parent, node.direction]
        return inside + self._uses(self._made_between(outputs))

    def _made_between(self, rows: Iterable[int]) -> list[int]:
        """Rows that unrecorded work made at this point, of what was there before."""
        flow, found = self.origins.flow, []
        for row in rows:
            # The input of a shortcut or of the next expert was there before: it uses nothing new.
            is_known = row in flow.external or row in flow.producer
            is_first = row == min(flow.same_input.get(row, [row]))
            if self.origins.basis[row] in ("between", "order") and is_first and not is_known:
                found.append(row)
        return found

    def _results_of_root(self, row: int) -> list[int]:
        flow = self.origins.flow
        if flow.site["role"][row] == "buffer":
            # Only written in training: nothing need differ for it.
            return []
        used = [node for node in flow.users.get(row, ()) if node.direction == "forward"]
        return [output for node in used for output in node.outputs]

    def _decide(self, row: int, uses: _Uses) -> None:
        # Behind where one side turned coarse all agree as well as that precision lets them.
        if (
            uses.see_nothing
            and self.origins.differs(row)
            and not _turns_coarse(self.origins.flow, row)
        ):
            self._harmless.add(row)

    def _uses(self, rows: Iterable[int]) -> _Uses:
        """Rows by whether they agree, or see nothing themselves; nearly apart is neither."""
        uses, origins = _Uses(), self.origins
        for row in rows:
            close = max(
                thresholds.CLOSE_TYPICAL * origins.typical[row],
                thresholds.CLOSE_NOISE * origins.noise[row],
            )
            if row in self._harmless or origins.error[row] <= close:
                uses.agree += 1
            elif origins.differs(row):
                uses.differ += 1
        return uses


def _largest(origins: Origins, rows: Iterable[int]) -> float:
    """Largest known error of rows, but of those that are harmless; nan where none is known."""
    errors, harmless = origins.error, origins.harmless
    known = [0.0 if row in harmless else float(errors[row]) for row in rows]
    return max((error for error in known if not math.isnan(error)), default=math.nan)


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


def _of_statistics(result: Table, row: int) -> float:
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
    coarse = max(_precision(flow, side, flow.node_of) for side in ("left", "right"))
    known: dict[tuple[Any, ...], tuple[float, float]] = {}
    names = flow.result["right"]
    for row in range(flow.count):
        node = flow.node_of.get(row)
        word = node.word if node is not None and not node.children else ""
        length = flow.length(node) if node is not None else 1
        backward = bool(flow.site["direction"][row] == "backward")
        left, right = str(flow.result["left_dtype"][row]), str(flow.result["right_dtype"][row])
        # Where one side turns coarse, that is the difference; behind it, it is the precision.
        run = 0.0 if left == right and _turns_coarse(flow, row) else coarse
        key = (left, right, word, length, backward, node is None, run)
        if key not in known:
            known[key] = _bounds(model, key)
        bound[row], typical[row] = known[key]
        floor = model.self_noise.get(str(names[row]), 0.0)
        bound[row] = max(bound[row], 4.0 * floor)
        typical[row] = max(typical[row], floor)
    return bound, typical


def _turns_coarse(flow: Flow, row: int) -> bool:
    """Whether a row uses the bits of a half format on one side alone, but nothing it came from."""
    node = flow.node_of.get(row)
    if node is None:
        return False
    if row in node.inputs:
        sources = [flow.producer[row]] if row in flow.producer else []
    else:
        sources = [*node.inputs, *node.parameters]
    bits = [flow.result[f"{side}_significand_bits"] for side in ("left", "right")]
    for own, other in (bits, bits[::-1]):
        if 1 < own[row] <= thresholds.HALF_BITS and other[row] >= thresholds.FULL_BITS:
            known = [int(own[source]) for source in sources if own[source] > 1]
            return bool(known) and min(known) >= thresholds.FULL_BITS
    return False


def _precision(flow: Flow, side: str, rows: Collection[int]) -> float:
    """Unit roundoff of the format in which most of these rows were computed on a side.

    Whatever it is stored in: values that passed through bfloat16 and were stored as float32 use 8
    bits of precision.
    """
    bits = flow.result[f"{side}_significand_bits"]
    floats = (bits > 1) & np.isfinite(flow.result["rel_l2_error"])
    among = np.zeros(flow.count, bool)
    among[list(rows)] = True
    chosen = bits[floats & among]
    if len(chosen) < thresholds.FEWEST_ROWS_OF_PRECISION:
        return 0.0
    return float(2.0 ** -int(np.quantile(chosen, thresholds.ROWS_OF_PRECISION)))


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
