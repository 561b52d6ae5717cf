"""From a table of differences to the layer that created them and what caused it."""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from troubleshooter_nb import catalogue, thresholds
from troubleshooter_nb.analysis.ahead import Ahead, LostError, Question
from troubleshooter_nb.analysis.axis_names import known_axes
from troubleshooter_nb.analysis.budget import Budget, BudgetSpentError, Manner
from troubleshooter_nb.analysis.causes.between.outputs_alone import calls_of_output
from troubleshooter_nb.analysis.causes.between.unknown_layers import (
    Attempt,
    of_two_classes,
    unknown_layer,
)
from troubleshooter_nb.analysis.causes.between.unrecorded_work import (
    Explained,
    between_suspicions,
)
from troubleshooter_nb.analysis.causes.case import Suspicion, TensorPair, plain
from troubleshooter_nb.analysis.causes.confidence import confidence
from troubleshooter_nb.analysis.causes.gather_training import (
    context_of,
    gradient_ratios,
    history_of,
    parameters_beside,
)
from troubleshooter_nb.analysis.causes.layer_settings import setting_suspicion
from troubleshooter_nb.analysis.causes.layers import FITTERS
from troubleshooter_nb.analysis.causes.lone import lone_rows, lone_suspicion, possible_names
from troubleshooter_nb.analysis.causes.operands import Operators
from troubleshooter_nb.analysis.causes.recomputed import Recomputation, recompute
from troubleshooter_nb.analysis.causes.searches.folding import (
    detect_folding,
    detect_folding_by_calls,
)
from troubleshooter_nb.analysis.causes.searches.running import Running, explain_running
from troubleshooter_nb.analysis.causes.tensors.detect import (
    detect_root,
    detect_values,
    observations,
)
from troubleshooter_nb.analysis.causes.tensors.neighbours import Peers
from troubleshooter_nb.analysis.causes.training.decay import Beside, detect_decay
from troubleshooter_nb.analysis.causes.training.history import RUNNING
from troubleshooter_nb.analysis.causes.training.together import detect_together
from troubleshooter_nb.analysis.causes.training.updates import detect_updates
from troubleshooter_nb.analysis.flow import Flow, Node
from troubleshooter_nb.analysis.found_order import in_found_order
from troubleshooter_nb.analysis.judgement import excused_rows, judged_again
from troubleshooter_nb.analysis.known_layers import KnownLayers
from troubleshooter_nb.analysis.layer_kinds import class_name, kinds_differ, layer_kind
from troubleshooter_nb.analysis.origin import find_origins
from troubleshooter_nb.analysis.padding import padded_rows
from troubleshooter_nb.analysis.preflight import layers_set_otherwise, preflight
from troubleshooter_nb.analysis.self_noise import detect_self_noise
from troubleshooter_nb.catalogue.entry import Circumstance
from troubleshooter_nb.collector import uncollected
from troubleshooter_nb.comparison import Comparison
from troubleshooter_nb.dump import object_array
from troubleshooter_nb.errors import IncompleteWarning, ReadError
from troubleshooter_nb.findings import Finding
from troubleshooter_nb.messages import Message, told
from troubleshooter_nb.metrics.noise import NoiseModel
from troubleshooter_nb.metrics.verdict import VerdictName
from troubleshooter_nb.render.words import DIFFERING
from troubleshooter_nb.table import finished

_Answer = TypeVar("_Answer")
_Item = TypeVar("_Item")
_NONE: list[Suspicion] = []


@uncollected()
def diagnosed(
    comparison: Comparison,
    model: NoiseModel | None = None,
    *,
    known: KnownLayers | None = None,
    budget: float = 1.0,
    seconds: float = 0.0,
    executor: Executor | None = None,
) -> Comparison:
    """The comparison with the origin of each difference, its growth and findings.

    Parameters
    ----------
    comparison : Comparison
        As measured; its dumps are read again around the places that created a difference.
    model : NoiseModel, optional
        What rounding leaves; default the fitted one.
    known : KnownLayers, optional
        What is known of layers besides the dumps.
    budget : float, >= 0
        How much may be read and asked, in times of the default, see `Budget`.
    seconds : float
        How long comparing took.
    executor : Executor, optional
        Answers questions about large tensors, see `Ahead`; the answers are the same. Questions
        about few elements, and those that look for operands among the values of other calls, stay
        in this thread.

    Returns
    -------
    Comparison
        `result` has the columns ``origin`` and ``growth``, and the first divergence is the first
        row that created a difference, in the order of execution. A note says what was not asked.
        After an interrupt (Ctrl-C, the stop button) it holds what was found until then.
    """
    allowed = Budget(_compared(comparison), budget, seconds)
    inquiry = _Inquiry(comparison, model or NoiseModel(), allowed, known, executor)
    if not comparison.columns["identical"].all():
        try:
            inquiry.ask()
        except KeyboardInterrupt:
            inquiry.interrupt()
        finally:
            inquiry.ahead.close(wait=not inquiry.interrupted)
    return inquiry.answer()


def _compared(comparison: Comparison) -> int:
    """Elements of both sides of the pairs that were measured."""
    columns, total = comparison.columns, 0
    measured = columns["unequal_count"] >= 0
    for side, dump in (("left", comparison.pairing.left), ("right", comparison.pairing.right)):
        sizes = dump.columns["size"]
        total += int(sizes[columns[f"{side}_entry"][measured]].sum())
    return total


class _Key(NamedTuple):
    """What a question is known by: its name, the row it is about, how many arguments it has."""

    name: str
    row: int
    arguments: int


class _Inquiry:
    """Questions put to one comparison, and what came of them."""

    def __init__(
        self,
        comparison: Comparison,
        model: NoiseModel,
        budget: Budget,
        known: KnownLayers | None,
        executor: Executor | None = None,
    ) -> None:
        comparison, orders = in_found_order(comparison)
        self.comparison, self.model, self.budget = comparison, model, budget
        self.ahead = Ahead(executor, budget)
        self.flow = Flow(comparison, known, orders)
        self.origins = find_origins(self.flow, model)
        self.operators = Operators(comparison, self.flow, self.origins, budget)
        self.padded = padded_rows(self.flow, self.origins, self.operators)
        if self.padded.errors:
            self.comparison = comparison = self.padded.verdicts(comparison)
            self.flow = Flow(comparison, known, orders)
            self.origins = find_origins(self.flow, model, self.padded.errors)
            self.operators = Operators(comparison, self.flow, self.origins, budget)
        self.first = next(iter(self.origins.created()), -1)
        self.interrupted = False
        self.suspicions: list[Suspicion] = []
        self.unknown: set[int] = set()  # rows of calls whose class is not known
        # Of rows, what was tried as what, and what it leaves of each side over rounding.
        self.missed: dict[int, Mapping[str, tuple[float, float]]] = {}
        self.made: dict[int, Mapping[str, Any]] = {}  # rows, to what each side made them from
        self.folded: dict[int, Suspicion] = {}  # by the number of the weight's pair

    def ask(self) -> None:
        """Put all questions, the roots before what follows from them."""
        self._ask_folded()
        self._ask_running()
        self._ask_roots()
        self._ask_calls(self._doubtful())
        if not self.origins.created() and self._fails():
            self._ask_calls(self._known())
        self._ask_between(self.origins.created())
        if not self.origins.created() and self._fails():
            self._ask_what_is_hidden()
        self._ask_values()
        self._ask_training()
        self._ask_self_noise()
        self._ask_lone()
        self._ask_settings()

    def interrupt(self) -> None:
        """Keep what was found so far, and say that it is not all."""
        self.interrupted = True
        warnings.warn(told(Message("explanations.interrupted")), IncompleteWarning, stacklevel=4)

    def _put(
        self,
        row: int,
        question: Callable[..., _Answer],
        *arguments: Any,
        otherwise: _Answer,
        by_kind: bool = False,
    ) -> _Answer:
        """The answer to a question about a row; `otherwise` where it is not asked.

        Nor is it where a file went away meanwhile. `by_kind`: those about small tensors are left
        out as well where others of their kind had no answer.
        """
        # What costs little is asked whatever others of its kind gave.
        is_some = self._is_large(row) or by_kind
        manner = self._manner(row, question.__name__) if is_some else None
        is_first = row == self.first
        key = _Key(question.__name__, row, len(arguments))
        if not self.budget.may_ask(manner, is_first=is_first):
            self.ahead.forget(key)
            return otherwise
        try:
            answer = self._answer(key, question, arguments, is_first=is_first)
        except BudgetSpentError as error:
            self.budget.leave_out(error.why)
            return otherwise
        except LostError:
            self.budget.leave_out("lost")
            return otherwise
        except ReadError:
            answer = otherwise
        self.budget.tell(manner, answered=_says(answer))
        return answer

    def _answer(
        self,
        key: _Key,
        question: Callable[..., _Answer],
        arguments: Sequence[Any],
        *,
        is_first: bool,
    ) -> _Answer:
        """What was answered ahead, if the budget allows what was read for it, or what is asked."""
        known = self.ahead.answer(key)
        if known is not None and self.budget.takes(known.asked, known.seconds, is_first=is_first):
            answer: _Answer = known.value
            return answer
        with self.budget.question(is_first=is_first):
            return question(*arguments)

    def _is_large(self, row: int) -> bool:
        return math.prod(self.flow.shape(row)) > thresholds.SCREENED_FROM

    def _later(
        self, key: _Key, ask: Callable[..., Any], arguments: Callable[[], tuple[Any, ...]]
    ) -> Question:
        """What `_put` will ask, by the function that answers it and its arguments."""
        manner = self._manner(key.row, key.name)
        return Question(key, ask, arguments, manner, key.row == self.first)

    def _manner(self, row: int, question: str) -> Manner:
        """In what manner a row differs, as far as a question about it is concerned."""
        result, site, node = self.flow.result, self.flow.site, self.flow.node_of.get(row)
        names = ("left_dtype", "right_dtype", "left_significand_bits", "right_significand_bits")
        kind = (
            question,
            *(site[name][row] for name in ("role", "direction", "slot")),
            node.word if node is not None else self.flow.module_of(row)[1],
            len(self.flow.shape(row)),
            *(result[name][row] for name in names),
        )
        size, rms = math.prod(self.flow.shape(row)), float(result["rmse"][row])
        return Manner(
            kind,
            rel_l2=float(self.origins.error[row]),
            evenness=float(result["mean_abs_error"][row]) / rms if rms > 0 else math.nan,
            unequal=float(result["unequal_count"][row]) / max(size, 1),
        )

    def _up_to(self, rows: Sequence[_Item], most: int) -> Sequence[_Item]:
        """The first of them, as many as one sort of question may have; the others are counted."""
        count = max(self.budget.most(most), 1)
        self.budget.leave_out("number", max(len(rows) - count, 0))
        return rows[:count]

    def _fails(self) -> bool:
        return not self.comparison.passed

    def _ask_running(self) -> None:
        """Ask norms whose statistics differ whether these were recorded behind their update."""
        is_created = self.origins.state == "created"
        for node in self.flow.nodes:
            rows = [row for row in node.parameters if self.flow.module_of(row)[1] in RUNNING]
            if node.direction != "forward" or not node.inputs or not is_created[rows].any():
                continue
            found = self._put(
                rows[0], explain_running, self.operators.call(node), otherwise=Running()
            )
            if found.outcome == "same":
                self.origins.state[rows] = "carried"
            self._add(rows[0], found.suspicions)

    def _ask_folded(self) -> None:
        """Look for weights that hold the norm which follows them on the other side."""
        layers = self.operators.layers() if self._may_have_running_variances() else []
        if any("running_var" in layer for _, layer in layers):
            for number in self._weights_that_differ(layers):
                norms = [*layers[number + 1 :], *layers[:number]]
                self._ask_folding(layers[number][1], detect_folding, norms)
        else:
            self._ask_folded_by_calls()
        self.suspicions += self.folded.values()

    def _ask_folded_by_calls(self) -> None:
        """The same where no statistics were saved, of the calls of norms that are there."""
        may_be = [
            node
            for node in self.flow.nodes
            if node.direction == "forward" and node.parameters and not node.children
        ]
        norms = [node for node in may_be if self._keeps_channels(node)]
        if not norms:
            return
        layers = self.operators.layers()
        begun = {node.path: node.position for node in reversed(may_be)}
        for number in self._weights_that_differ(layers):
            path, layer = layers[number]
            behind = [n for n in norms if begun.get(path, n.position) < n.position]
            calls = [(n.path, self.operators.call(n)) for n in behind[: thresholds.NORMS_BEHIND]]
            if calls:
                self._ask_folding(layer, detect_folding_by_calls, calls)

    def _keeps_channels(self, node: Node) -> bool:
        """Whether a call may be a norm of channels: its output is as large as its only input."""
        shapes = [self.flow.shape(row) for row in (*node.inputs, *node.outputs[:1])]
        return len(shapes) == 2 and shapes[0] == shapes[1] and len(shapes[0]) > 2

    def _weights_that_differ(self, layers: Sequence[tuple[str, Any]]) -> Sequence[int]:
        places = [n for n, (_, one) in enumerate(layers) if "weight" in one]
        places = [n for n in places if layers[n][1]["weight"].differs]
        return self._up_to(places, thresholds.MOST_CALLS)

    def _ask_folding(self, layer: Any, question: Callable[..., Any], norms: Sequence[Any]) -> None:
        row = self._row_of(layer["weight"])
        found = self._put(row, question, layer, norms, otherwise=None)
        if found is not None:
            self.folded[layer["weight"].pair] = found

    def _may_have_running_variances(self) -> bool:
        """Whether a name has what all names of one have: looking at all layers costs more."""
        flow = self.flow
        if any("var" in "\n".join(flow.site[name].tolist()) for name in ("path", "slot")):
            return True
        # Operators take them by position.
        given = (flow.argument_of(flow.node_of[row], row) for row in self.operators.arguments())
        return any("var" in name for name in given)

    def _ask_roots(self) -> None:
        origins = self.origins
        rows = [row for row in origins.created() if row not in self.flow.node_of]
        rows += [
            row
            for node in self.flow.nodes
            for row in node.inputs
            if origins.state[row] == "created"
            and row in self.flow.external
            and node.direction == "forward"
        ]
        rows += [int(row) for row in np.flatnonzero(origins.vanishing) if row in self.flow.users]
        rows += [row for row in origins.unordered() if self._is_saved_alone(row)]
        # What steps made of a parameter is asked of the steps.
        numbers, steps = (self.flow.result[name].tolist() for name in ("order", "step"))
        is_given, first_step = self.flow.node_of, self.flow.first_step
        rows = [
            row
            for row in rows
            if (steps[row] <= first_step or row in is_given) and numbers[row] not in self.folded
        ]
        # What may be no pair at all was not loaded wrongly.
        rows = [row for row in rows if not self.flow.guessed[row]]
        if not rows:
            return
        peers = self._peers()
        rows = origins.by_time(np.array(rows))
        error, many = origins.error, len(rows) > thresholds.MOST_ROOTS
        chosen = self._up_to(rows, thresholds.MOST_ROOTS)
        self.ahead.plan(self._roots_later(chosen, peers))
        for row in chosen:
            # Of a great many with noise on them, a few tell.
            by_kind = many and bool(error[row] <= thresholds.IN_PLACE)
            found = self._put(row, self._root_causes, row, peers, otherwise=_NONE, by_kind=by_kind)
            self._add(row, found)
            if origins.basis[row] == "unknown" and any(
                confidence(one) >= thresholds.LIKELY for one in found
            ):
                # Nothing computed what its own values explain.
                origins.state[row], origins.basis[row] = "created", "root"

    def _is_saved_alone(self, row: int) -> bool:
        """Whether nothing tells what a value was computed from, nor that it is a gradient."""
        node = self.flow.node_of.get(row)
        return not self.flow.is_backward[row] and (node is None or not node.inputs)

    def _roots_later(self, rows: Sequence[int], peers: Mapping[str, Peers]) -> Iterator[Question]:
        def arguments(row: int) -> tuple[Any, ...]:
            tensor = self.operators.root(row)
            same = peers[tensor.role]
            weights = [*_weights_beside(tensor, peers)]
            return tensor, [*same.but(row)], [*same.near(row, tensor)], weights

        for row in rows:
            others = peers[self.operators.root(row).role].but(row)
            if self._is_large(row) and len(others) <= thresholds.MOST_PEERS_SENT:
                make = partial(arguments, row)
                yield self._later(_Key(self._root_causes.__name__, row, 2), detect_root, make)

    def _root_causes(self, row: int, peers: Mapping[str, Peers]) -> list[Suspicion]:
        tensor = self.operators.root(row)
        same = peers[tensor.role]
        weights = _weights_beside(tensor, peers)
        return detect_root(tensor, same.but(row), same.near(row, tensor), weights)

    def _peers(self) -> Mapping[str, Peers]:
        """Root tensors of every role."""
        rows: dict[str, list[int]] = defaultdict(list)
        roles = self.flow.site["role"]
        for row in self.flow.roots:
            rows[roles[row]].append(row)
        rows["parameter"] += self.operators.arguments()
        result, made = self.flow.result, self.operators.root
        return defaultdict(
            lambda: Peers([], result, made),
            {role: Peers(some, result, made) for role, some in rows.items()},
        )

    def _doubtful(self) -> list[Node]:
        """Calls whose results differ more than what they were given."""
        created = {self.flow.node_of[r] for r in self.origins.created() if r in self.flow.node_of}
        nodes = {*created, *self.origins.doubtful}
        return [node for node in self.flow.nodes if node in nodes and not node.children]

    def _known(self) -> list[Node]:
        guessed = self.flow.guessed
        nodes = [node for node in self.flow.nodes if node.outputs and not node.children]
        return [node for node in nodes if not guessed[node.outputs].any()]

    def _ask_calls(self, nodes: Sequence[Node]) -> None:
        """Compute calls again; what one formula explains on both sides created nothing."""
        nodes = sorted(nodes, key=lambda n: self.origins.time(n.position))
        chosen = self._up_to(nodes, thresholds.MOST_CALLS)
        self.ahead.plan(self._calls_later(chosen))
        for node in chosen:
            self._ask_call(node)
            self._ask_weight(node)
        # What one layer does, others of its kind may do as well, though they carry an error too.
        causes = {s.cause for s in self.suspicions}
        words = {node.word for node in chosen if self._is_suspected(node) and node.word and causes}
        peers = [n for n in self._known() if n.word in words and n not in set(chosen)]
        peers = [*self._up_to(peers, thresholds.MOST_PEERS)]
        self.ahead.plan(self._calls_later(peers))
        for node in peers:
            self._ask_call(node, known=causes)

    def _calls_later(self, nodes: Iterable[Node]) -> Iterator[Question]:
        def arguments(node: Node) -> tuple[Any, ...]:
            return self.operators.call(node), float(self.origins.typical[node.outputs[0]])

        for node in nodes:
            if not node.outputs or not self._is_large(node.outputs[0]):
                continue
            if self.operators.narrowed(node) is None:
                make = partial(arguments, node)
                yield self._later(_Key(recompute.__name__, node.outputs[0], 2), recompute, make)

    def _is_suspected(self, node: Node) -> bool:
        numbers = {int(self.flow.result["order"][row]) for row in node.outputs}
        return any(s.pair in numbers for s in self.suspicions)

    def _ask_call(self, node: Node, known: Collection[str] | None = None) -> None:
        """Compute one call again; with `known`, only these causes count."""
        if not node.outputs:
            return
        narrowed = self.operators.narrowed(node)
        typical = float(self.origins.typical[node.outputs[0]])
        found = Recomputation("different", narrowed)
        if narrowed is None:
            call = self.operators.call(node)
            found = self._put(
                node.outputs[0], recompute, call, typical, otherwise=Recomputation("unknown")
            )
        if found.suspicion is None and found.outcome != "same" and narrowed is None:
            found = self._with_other_layer(node, found, typical)
        suspicion = found.suspicion
        if narrowed is None and self._is_asked(node):
            self.missed[node.outputs[0]] = {node.word: found.left_over}
        if known is not None and (suspicion is None or suspicion.cause not in known):
            return
        if found.outcome == "same" and (absent := self._absent(node, typical)):
            self.origins.blame(node)
            self._add(node.outputs[0], absent)
        elif found.outcome == "same":
            self.origins.clear(node, is_close=found.is_close)
        elif suspicion is not None and self._is_credible(node, suspicion):
            suspicion = self._unless_folded(node, suspicion)
            given = [row for row in node.inputs if self._is_setting(row)]
            if given and suspicion.pair == self.flow.result["order"][node.outputs[0]]:
                # The number that the call was given is where the difference begins.
                suspicion = replace(suspicion, pair=int(self.flow.result["order"][given[0]]))
            else:
                self.origins.blame(node)
            self._add(node.outputs[0], [suspicion])
        elif found.outcome != "unknown" and node in self.origins.doubtful:
            self.origins.blame(node)

    def _is_setting(self, row: int) -> bool:
        """Whether a row is a number or text that a call was given, and that differs."""
        return bool(self.flow.is_value[row]) and self.origins.state[row] == "created"

    def _with_other_layer(self, node: Node, found: Recomputation, typical: float) -> Recomputation:
        """What computing a call again showed, where the sides recorded two classes of layers."""
        row = node.outputs[0]
        if not kinds_differ(node.left_layer, node.layer) or self.origins.state[row] != "created":
            return found
        call = replace(self.operators.call(node), word=layer_kind(node.left_layer)[0])
        none = Recomputation("unknown")
        ours = self._put(row, recompute, call, typical, otherwise=none)
        suspicion = of_two_classes(call, typical, (ours, found), (node.left_layer, node.layer))
        return replace(found, outcome="different", suspicion=suspicion)

    def _ask_weight(self, node: Node) -> None:
        """Compute the gradient of a weight again, where a backward call created a difference."""
        for row in node.gradients:
            call = self.operators.weight_gradient(node, row)
            if self.origins.state[row] != "created" or call is None:
                continue
            typical = float(self.origins.typical[row])
            found = self._put(
                row, recompute, call, typical, "weight", otherwise=Recomputation("unknown")
            )
            if found.outcome == "same":
                self.origins.state[row] = "carried"
            elif found.suspicion and confidence(found.suspicion) >= thresholds.LEAST_SURE:
                self._add(row, [found.suspicion])

    def _absent(self, node: Node, typical: float) -> list[Suspicion]:
        """Parameters that a side lacks, of a call that one formula explains with what is there."""
        row, found = node.outputs[0], []
        has = [self.flow.result[f"{side}_entry"] >= 0 for side in ("left", "right")]
        for parameter in node.parameters:
            cause = catalogue.of_lacking(self.flow.module_of(parameter)[1])
            there = [bool(side[parameter]) for side in has]
            if cause is None or all(there):
                continue
            left, right = ("applied" if one else "absent" for one in there)
            evidence = {"form": "parameters that a side lacks", "left": left, "right": right}
            before = float(self.origins.error[row])
            found.append(Suspicion(cause, before, typical, before, typical, evidence))
        return found

    def _is_credible(self, node: Node, suspicion: Suspicion) -> bool:
        """Whether a cause is worth being told, and what the forward call did does not belie it."""
        if confidence(suspicion) < thresholds.LEAST_SURE:
            return False
        forward = node.forward
        is_in_both = catalogue.of(suspicion.cause).in_both_passes
        if forward is None or not is_in_both or not forward.outputs:
            return True
        row = forward.outputs[0]
        typical, call = float(self.origins.typical[row]), self.operators.call(forward)
        found = self._put(row, recompute, call, typical, otherwise=Recomputation("unknown"))
        return found.outcome != "same"

    def _unless_folded(self, node: Node, suspicion: Suspicion) -> Suspicion:
        """A folded norm in place of what follows from it: the bias that came with it."""
        excluded = {cause for s in self.folded.values() for cause in catalogue.of(s.cause).excludes}
        if suspicion.cause not in excluded:
            return suspicion
        weight = self.operators.call(node).parameters.get("weight")
        folded = self.folded.get(weight.pair) if weight is not None else None
        if folded is None or folded.evidence["bias"] != "folded":
            return suspicion
        return replace(folded, pair=-1)

    def _unexplained(self, rows: Iterable[int]) -> list[int]:
        """Those of some rows that are of calls and that nothing explains so far."""
        explained = {s.pair for s in self.suspicions if catalogue.of(s.cause).explains}
        numbers = self.flow.result["order"].tolist()
        rows = [r for r in rows if numbers[r] not in explained]
        return [r for r in rows if r in self.flow.node_of and r not in self.flow.external]

    def _ask_between(self, rows: Iterable[int]) -> None:
        """Look for what unrecorded work between calls did, and calls of unknown classes."""
        origins, asked = self.origins, set[Node]()
        rows = self._up_to(self._unexplained(rows), thresholds.MOST_SEARCHED_BETWEEN)
        self.ahead.plan(self._unknown_later(rows))
        for row in rows:
            node = self.flow.node_of[row]
            if self.flow.is_value[row]:
                continue
            if self._is_result(node, row):
                if node not in asked and not self._is_asked(node):
                    asked.add(node)
                    self._ask_unknown(node, row)
                continue
            found = self._put(row, between_suspicions, self.operators, row, otherwise=Explained())
            if found.outcome == "same" and np.isfinite(origins.error[row]):
                origins.state[row] = "carried"
                if found.is_close:
                    origins.acquitted.add(row)
            self._note_made(row, found)
            self._add(row, found.suspicions)

    def _ask_what_is_hidden(self) -> None:
        """Where nothing stands out, look at what went no further at first, and at what adds most.

        What adds most created nothing where it is not explained.
        """
        for _ in range(thresholds.MOST_SEARCHED_BETWEEN):
            self._judge_what_carries()
            if not (self.origins.created() or self.origins.bring_back(self._not_excused())):
                break
            self._ask_between(self.origins.created())
            if self.origins.created():
                return
        suspects = self._up_to(self.origins.suspects(), thresholds.MOST_SUSPECTS)
        self._ask_between(suspects)
        explained = {s.pair for s in self.suspicions}
        for row in suspects:
            if self.flow.result["order"][row] in explained:
                self.origins.state[row] = "created"

    def _judge_what_carries(self) -> None:
        """Judge anew with what calls were seen to carry, though a sum hides it from what follows.

        What is computed from that differs because of it, and is no other way of writing anything.
        """
        old = self.origins
        if not old.harmless or not any(map(old.differs, old.acquitted)):
            return
        model, errors = self.model, self.padded.errors
        self.origins = find_origins(self.flow, model, errors, old.seen_to_carry())
        self.origins.acquitted |= old.acquitted

    def _not_excused(self) -> list[int]:
        """Rows that fail and go no further, and are no error all the same."""
        fails = np.isin(self.flow.result["verdict"], DIFFERING)
        hidden = [row for row in self.origins.harmless if fails[row]]
        excused = self._excused(findings_of(self.suspicions, None)) if hidden else {}
        return [row for row in hidden if row not in excused]

    def _note_made(self, row: int, found: Explained) -> None:
        """Keep what is proved of a row and has no cause's name."""
        if found.made:
            self.made[row] = found.made

    def _is_result(self, node: Node, row: int) -> bool:
        """Whether a value is what a layer, or a call without recorded inputs, made."""
        is_output = row in node.outputs and not node.children
        return is_output and (node.kind == "module" or not node.inputs)

    def _unknown_later(self, rows: Iterable[int]) -> Iterator[Question]:
        def arguments(row: int) -> tuple[Any, ...]:
            node = self.flow.node_of[row]
            return self.operators.call(node), float(self.origins.typical[row])

        for row in rows:
            node = self.flow.node_of[row]
            is_unknown = bool(node.inputs) and not self._is_asked(node)
            is_large = self._is_large(row) and not self.flow.is_value[row]
            if is_unknown and is_large and self._is_result(node, row):
                key = _Key(unknown_layer.__name__, row, 2)
                yield self._later(key, unknown_layer, partial(arguments, row))

    def _is_asked(self, node: Node) -> bool:
        """Whether a call was asked about as what its class says it is."""
        return node.is_known and bool(node.inputs) and node.word in FITTERS

    def _ask_unknown(self, node: Node, row: int) -> None:
        """Try a call of a class of the user's own as the layers that its shapes allow."""
        typical = float(self.origins.typical[row])
        found = Attempt()
        calls = [self.operators.call(node)] if node.inputs else []
        for call in calls or calls_of_output(self.operators, node):
            found = self._put(row, unknown_layer, call, typical, otherwise=Attempt())
            self.missed[row] = found.missed
            if found.outcome in ("same", "different"):
                break
        outcome, suspicions = found.outcome, found.suspicions
        # Large values saved alone are asked what they hold, not what else was saved before.
        is_small = math.prod(self.flow.shape(row)) <= thresholds.PART_ELEMENTS
        if not suspicions and outcome != "same" and (node.inputs or is_small):
            explained = self._put(
                row, between_suspicions, self.operators, row, otherwise=Explained()
            )
            suspicions = [*explained.suspicions]
            outcome = explained.outcome if outcome == "unknown" else outcome
            self._note_made(row, explained)
        if outcome == "same":
            self.origins.clear(node)
        elif outcome == "unknown" and node.inputs and not suspicions:
            self.unknown.add(row)
        self._add(row, suspicions)

    def _ask_values(self) -> None:
        """Look at the values of rows that created a difference which nothing explains so far."""
        rows = self._up_to(self._unexplained(self.origins.created()), thresholds.MOST_ROWS)
        self.ahead.plan(self._values_later(rows))
        for row in rows:
            found = self._put(row, detect_values, self.operators.tensor(row), otherwise=_NONE)
            self._add(row, _proved(found, "NaN is given") if self._is_given_nan(row) else found)
        vanishing = [int(r) for r in np.flatnonzero(self.origins.vanishing)]
        vanishing = [row for row in vanishing if row in self.flow.node_of]
        vanishing = [*self._up_to(vanishing, thresholds.MOST_ROWS)]
        self.ahead.plan(self._values_later(vanishing))
        for row in vanishing:
            found = self._put(row, detect_values, self.operators.tensor(row), otherwise=_NONE)
            # A run is given its input before anything can change it in place.
            is_made = row not in self.flow.external
            self._add(row, _proved(found, "readers agree") if is_made else found)

    def _values_later(self, rows: Iterable[int]) -> Iterator[Question]:
        for row in rows:
            if self._is_large(row):
                make = partial(self._value, row)
                yield self._later(_Key(detect_values.__name__, row, 1), detect_values, make)

    def _value(self, row: int) -> tuple[TensorPair]:
        return (self.operators.tensor(row),)

    def _is_given_nan(self, row: int) -> bool:
        """Whether an input of the call that a row belongs to holds NaN on a side."""
        counts = [self.flow.result[f"{side}_nan_count"] for side in ("left", "right")]
        inputs = self.flow.node_of[row].inputs
        return any(count[other] > 0 for count in counts for other in inputs)

    def _ask_training(self) -> None:
        """Look at gradients as a set, and at what the steps made of the parameters."""
        created = [*self.origins.created(), *self.origins.unordered()]
        backward = [r for r in created if self.flow.site["direction"][r] == "backward"]
        steps = self.flow.result["step"].tolist()
        here = [row for row in created if steps[row] == steps[created[0]]]
        if len(backward) < len(created) and self._is_update_alone(here):
            # What the parameters of that step are follows from its gradients.
            backward = created = [row for row in here if row in backward]
        if backward and len(backward) == len(created):
            context = context_of(self.comparison, self.flow)
            places = {self.flow.place(row) for row in backward}
            row, none = backward[0], dict[Any, Any]()
            found = self._put(row, gradient_ratios, self.operators, places, otherwise=none)
            scaled = detect_together(found, context)
            # What all gradients show began where the first of them did.
            begun = {int(self.flow.result["order"][one]) for one in created}
            self._add(row, [s if s.pair in begun else replace(s, pair=-1) for s in scaled])
            if not scaled:
                place, nothing = self.flow.place(row), list[Beside]()
                beside = self._put(row, parameters_beside, self.operators, place, otherwise=nothing)
                self._add(row, detect_decay(beside))
        created, first_step = self.origins.created(), self.flow.first_step
        later = [row for row in created if steps[row] > first_step]
        if later and later[0] == created[0]:
            self._ask_steps(later)
        elif created and created[0] not in self.flow.node_of and self._is_saved_after(created[0]):
            self._ask_steps(created)

    def _is_update_alone(self, rows: Sequence[int]) -> bool:
        """Whether rows are gradients, and parameters that were saved after them."""
        flow = self.flow
        roots = [row for row in rows if not flow.is_backward[row]]
        if len(roots) == len(rows) or any(row in flow.node_of for row in roots):
            return False
        return bool(roots) and self._is_saved_after(roots[0])

    def _is_saved_after(self, row: int) -> bool:
        """Whether the parameters of a row's rank were saved after the step of their gradients."""
        steps, is_backward = self.flow.result["step"], self.flow.is_backward
        if not is_backward.any() or (steps == steps[0]).all():
            return False
        try:
            return history_of(self.operators, self.flow.place(row)[1]).is_after
        except (ReadError, BudgetSpentError):
            return False

    def _ask_steps(self, later: Sequence[int]) -> None:
        """Ask the steps what they made of parameters, and of values that began to differ."""
        roots = [row for row in later if row not in self.flow.node_of]
        values = [row for row in later if row in self.flow.node_of]
        for rank in sorted({self.flow.place(row)[1] for row in later}):
            here = [row for row in values if self.flow.place(row)[1] == rank]
            history = history_of(self.operators, rank, here[: thresholds.MOST_ROWS])
            found = self._put(later[0], detect_updates, history, otherwise=_NONE)
            if roots and self.origins.vanishing[roots].all():
                # The layers agree: what was recorded is not what they computed with.
                found = [s for s in found if _is_proved_where(s, "readers agree")]
                found = _proved(found, "readers agree")
            self._add(later[0], _shared(found))

    def _ask_self_noise(self) -> None:
        for row, found in detect_self_noise(self.flow, self.origins, self.model):
            self._add(row, [found])

    def _ask_lone(self) -> None:
        """Where no pair created a difference, it begins with what one side lacks."""
        if self.origins.created() or self._fails_by_values():
            return
        for row, rows in self._up_to(lone_rows(self.flow), thresholds.MOST_ROWS):
            self.origins.miss(row)
            tensor = self.operators.tensor(row)
            others = [self.operators.tensor(one) for one in possible_names(self.flow, row)]
            asked = self.flow, row, rows, tensor, others
            found = self._put(row, lone_suspicion, *asked, otherwise=None)
            self._add(row, [] if found is None else [found])

    def _ask_settings(self) -> None:
        """Where no values say why a call created a difference: what was recorded of its layer."""
        told = {suspicion.pair for suspicion in self.suspicions}
        otherwise = layers_set_otherwise(self.comparison, self.flow)
        for row in self.origins.created() if otherwise else ():
            node = self.flow.node_of.get(row)
            if node is None or node.direction == "backward" or self._number(row) in told:
                continue
            if settings := otherwise.get(node.path):
                self._add(row, [setting_suspicion(settings)])

    def _number(self, row: int) -> int:
        """The pair number of a row."""
        return int(self.flow.result["order"][row])

    def _fails_by_values(self) -> bool:
        return bool(np.isin(self.flow.result["verdict"], DIFFERING).any())

    def _row_of(self, tensor: TensorPair) -> int:
        """The row of a pair of tensors."""
        return int(np.flatnonzero(self.flow.result["order"] == tensor.pair)[0])

    def _add(self, row: int, suspicions: Iterable[Suspicion]) -> None:
        number = self._number(row)
        self.suspicions += [replace(s, pair=number) if s.pair < 0 else s for s in suspicions]

    def answer(self) -> Comparison:
        """The comparison with what was found."""
        origins, result = self.origins, self.comparison.result
        growth = np.where(np.isnan(origins.error), np.nan, origins.growth)
        growth[origins.error == 0] = np.nan
        created = origins.created()
        places = np.full(self.flow.count, -1, np.int64)
        places[created] = np.arange(len(created))
        first = int(result["order"].values[created[0]]) if created else None
        unordered = result["order"].values[origins.unordered()].tolist()
        findings = findings_of(self.suspicions, first)
        excused = {} if self.interrupted else self._excused(findings)
        told = origins.told()
        told[[*excused]] = ""
        columns = {
            **judged_again(self.flow, excused),
            "origin_order": places,
            "origin": object_array(list(told)),
            "origin_basis": object_array(list(origins.basis)),
            "source_error": origins.source_error,
            "growth": growth,
        }
        table = result.assign(
            {
                name: finished(("pair",), values, result[name].attrs)
                for name, values in columns.items()
            }
        )
        beyond = created[:1] or ([] if unordered else self._beyond_noise(columns["verdict"]))
        if beyond:
            table.attrs["first_divergence"] = int(result["order"].values[beyond[0]])
        elif unordered:
            # Which came first is not known: one that is explained is as good as any.
            explained = [found.pair for found in findings if found.pair in unordered]
            table.attrs["first_divergence"] = [*explained, *unordered][0]
        elif not np.isin(columns["verdict"], DIFFERING).any():
            table.attrs["first_divergence"] = -1
        judged = replace(self.comparison, result=table)
        return replace(
            judged,
            findings=findings,
            observed=self._all_observed(beyond[0] if beyond else None, findings),
            preflight=preflight(judged, self.flow),
            notes=(*self.comparison.notes, *self._notes(created)),
        )

    def _excused(self, findings: Sequence[Finding]) -> dict[int, VerdictName]:
        """Rows that fail and are no error, as far as the questions showed."""
        otherwise = layers_set_otherwise(self.comparison, self.flow)
        return excused_rows(self.flow, self.origins, findings, otherwise)

    def _notes(self, created: Sequence[int]) -> list[Message]:
        notes = self._hidden_before(created[0] if created else None)
        if padded := self.padded.told():
            notes.append(Message("explanations.padded_alone", **padded))
        notes += self._on_classes(created[:1])
        if self.interrupted:
            return [*notes, Message("explanations.interrupted")]
        return [*notes, *self.budget.note()]

    def _on_classes(self, first: Sequence[int]) -> list[Message]:
        """Notes on a first difference of unknown class, and on classes given to no call."""
        notes = []
        numbers = self.flow.result["order"]
        for row in first:
            if row in self.unknown and not any(s.pair == numbers[row] for s in self.suspicions):
                path = self.flow.node_of[row].path
                said: dict[str, Any] = {"name": path, "call": f'layers={{"{path}": "..."}}'}
                if classes := [class_name(word) for word in self.missed.get(row, ())]:
                    notes.append(Message("explanations.class_unknown", classes=classes, **said))
                else:
                    notes.append(Message("explanations.class_unknown_untried", **said))
        known = self.flow.known
        unused = known.unused(node.path for node in self.flow.nodes) if known.said else []
        return [*notes, *([Message("explanations.layers_unused", names=unused)] if unused else [])]

    def _all_observed(self, row: int | None, findings: Sequence[Finding]) -> dict[str, Any]:
        """What is seen of the first difference, and of rows that differ in padded tokens alone."""
        padded = self.padded.told()
        seen = {} if row is None else self._observed(row, findings)
        return {**seen, "padded": padded} if padded else seen

    def _observed(self, row: int, findings: Sequence[Finding]) -> dict[str, Any]:
        """What the values of the first difference show where no cause is proved."""
        number = int(self.flow.result["order"][row])
        likely = {
            n for f in findings if f.confidence >= thresholds.LIKELY for n in f.evidence["pairs"]
        }
        if number in likely:
            return {}
        none: dict[str, Any] = {}
        if self.interrupted:
            return none
        try:
            with self.budget.question(is_first=True):
                axes = known_axes(self.flow, row, self.padded.of(self.flow, row))
                seen = observations(self.operators.tensor(row), known=axes)
        except (ReadError, BudgetSpentError):
            seen = none
        if row in self.made:
            seen = {"made": plain(self.made[row]), **seen}
        return {"pair": number, **seen, **self._to_decide(row)}

    def _to_decide(self, row: int) -> dict[str, Any]:
        """What was tried on a row, and what it was computed from."""
        missed = sorted(
            self.missed.get(row, {}).items(), key=lambda one: (min(one[1]), max(one[1]))
        )
        tried = [
            {"as": class_name(word), "left": plain(left), "right": plain(right)}
            for word, (left, right) in missed[: thresholds.MOST_TRIED_TOLD]
        ]
        node = self.flow.node_of.get(row)
        inputs = node.inputs if node is not None and row in node.outputs else []
        given = [int(self.flow.result["order"][other]) for other in inputs[:1]]
        return {"tried": tried, "given": given[0] if given else -1}

    def _beyond_noise(self, verdicts: np.ndarray) -> list[int]:
        """Rows that differ by more than rounding explains, where none stands out from its sources.

        In the order of execution; what is harmless is left out. None where it is all excused.
        """
        origins = self.origins
        if not np.isin(verdicts, DIFFERING).any() and (verdicts == "grown_rounding").any():
            return []
        if suspects := origins.suspects():
            return suspects
        carried = [int(row) for row in np.flatnonzero(origins.state == "carried")]
        if origins.vanishing.any():
            # What fails is harmless: rounding in the backward pass is not what was asked about.
            carried = [r for r in carried if self.flow.site["direction"][r] != "backward"]
        return sorted((row for row in carried if row not in origins.harmless), key=origins.time)

    def _hidden_before(self, first: int | None) -> list[Message]:
        """A note on rows just before the first difference that could not be compared."""
        if first is None or self.origins.basis[first] != "order":
            return []
        verdicts, passed = self.flow.result["verdict"], self.flow.result["passed"]
        place, hidden = self.flow.place(first), []
        for row in range(first - 1, -1, -1):
            lost = verdicts[row] == "unreadable" or (verdicts[row] == "missing" and not passed[row])
            if not lost or self.flow.place(row) != place:
                break
            hidden.append(row)
        if not hidden:
            return []
        shown = self.flow.result
        name = str(shown["left_display"][hidden[-1]] or shown["right_display"][hidden[-1]])
        return [Message("explanations.hidden_before", count=len(hidden), name=name)]


def findings_of(suspicions: Sequence[Suspicion], first: int | None) -> tuple[Finding, ...]:
    """Findings, the surest first; one for all places where one cause acts with one setting.

    Parameters
    ----------
    suspicions : sequence of Suspicion
        With the numbers of their pairs.
    first : int or None
        Number of the pair that created the first difference: what explains it comes first.
    """
    merged: list[list[tuple[float, Suspicion]]] = []
    for suspicion in _with_rivals(suspicions):
        proof = confidence(suspicion), suspicion
        alike = (one for one in merged if _is_same(one[0][1], suspicion))
        if (group := next(alike, None)) is not None:
            group.append(proof)
        else:
            merged.append([proof])
    found = []
    for proofs in merged:
        cause = proofs[0][1].cause
        _, best = max(proofs, key=lambda p: (p[1].pair == first, p[0]))
        # The same cause at several places was held against the values of all of them.
        places = {s.pair: s for _, s in proofs}
        together = max(s.independent for _, s in proofs)
        if len(places) > 1:
            together = sum(s.independent for s in places.values())
        sure = max([confidence(replace(best, independent=together)), *(c for c, _ in proofs)])
        if sure < thresholds.LEAST_SURE:
            continue
        evidence = {
            **{name: value for name, value in best.evidence.items() if _says_something(value)},
            "before": best.before,
            "residual": best.residual,
            "rival": best.rival,
            "pairs": sorted({s.pair for _, s in proofs}),
        }
        found.append(Finding(cause, best.pair, round(sure, 3), evidence, advice=cause))
    # What explains the first difference comes before what may follow from it.
    found.sort(key=lambda f: (-f.confidence * (1.0 if f.pair == first else 0.8), f.pair, f.cause))
    return tuple(found[: thresholds.MOST_FINDINGS])


def _weights_beside(tensor: TensorPair, peers: Mapping[str, Peers]) -> Sequence[TensorPair]:
    """What says of a buffer whether its side was trained or loaded at all."""
    return peers["parameter"].but(-1) if tensor.role == "buffer" else []


def _is_same(one: Suspicion, other: Suspicion) -> bool:
    """Whether two are of one cause with the same settings, as far as these are known."""
    # What is no setting of a layer says where the cause acts, and not otherwise how.
    is_setting = "setting" in one.evidence and "setting" in other.evidence
    return one.cause == other.cause and (
        not is_setting
        or all(
            _is_alike(one.evidence.get(side), other.evidence.get(side))
            for side in ("left", "right")
        )
    )


def _is_alike(one: Any, other: Any) -> bool:
    """Whether two settings are one: numbers as closely as they are fitted, words exactly."""
    if all(isinstance(value, int | float) for value in (one, other)):
        near = thresholds.ONE_SETTING * max(abs(one), abs(other))
        return bool(
            one == other or abs(one - other) <= near or math.isnan(one) or math.isnan(other)
        )
    if isinstance(one, Message) and isinstance(other, Message):
        # Gaps may be names of what is there.
        return one.id == other.id
    return not (isinstance(one, str) and isinstance(other, str)) or one == other


def _says_something(value: Any) -> bool:
    """Whether a piece of evidence is known at all."""
    if isinstance(value, float):
        return not math.isnan(value)
    return value is not None and value != ""


def _with_rivals(suspicions: Sequence[Suspicion]) -> Iterator[Suspicion]:
    """Each suspicion with the best other cause of the same pair among its rivals."""
    for suspicion in suspicions:
        others = [
            other.residual
            for other in suspicions
            if other.pair == suspicion.pair and catalogue.is_rival(other.cause, suspicion.cause)
        ]
        yield replace(suspicion, rival=min([suspicion.rival, *others]))


def _shared(suspicions: Sequence[Suspicion]) -> list[Suspicion]:
    """Parts of one whole, each with how much of the difference it accounts for.

    The rival of a part is the whole without it: what is left then is what the part explains.
    """
    most = max((s.rival for s in suspicions if math.isfinite(s.rival)), default=0.0)
    return [
        replace(s, share=s.share * min(s.rival / most, 1.0))
        if most > 0 and catalogue.of(s.cause).is_part_of
        else s
        for s in suspicions
    ]


def _proved(suspicions: Iterable[Suspicion], where: Circumstance) -> list[Suspicion]:
    """Suspicions of which those that this circumstance proves have no rival left."""
    return [
        replace(s, rival=s.before, share=1.0) if _is_proved_where(s, where) else s
        for s in suspicions
    ]


def _is_proved_where(suspicion: Suspicion, where: Circumstance) -> bool:
    return catalogue.of(suspicion.cause).proved_where == where


def _says(answer: Any) -> bool:
    """Whether an answer says anything."""
    if isinstance(answer, (Recomputation, Attempt)):
        return answer.outcome != "unknown"
    if isinstance(answer, Explained):
        return answer.outcome != "unknown" or bool(answer.suspicions)
    return bool(answer)
