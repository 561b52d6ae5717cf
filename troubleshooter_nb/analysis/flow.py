"""The dataflow of a comparison: calls with their inputs and outputs, and what made each value."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.api_names import bare_name, operator
from troubleshooter_nb.analysis.found_order import FoundOrder
from troubleshooter_nb.analysis.known_layers import KnownLayers
from troubleshooter_nb.analysis.layer_kinds import layer_kind
from troubleshooter_nb.analysis.marks import Mark, Marks
from troubleshooter_nb.analysis.row_sites import sites_of_rows
from troubleshooter_nb.comparison import Comparison
from troubleshooter_nb.dump import StepRank
from troubleshooter_nb.naming import (
    CALL_KINDS,
    is_whole_gradient,
    parameter_leaf,
    parse_msprobe_call,
    without_gradient_word,
    without_position,
)
from troubleshooter_nb.naming.roles import reads_shape_alone
from troubleshooter_nb.render.words import DIFFERING
from troubleshooter_nb.shapes import known_shape
from troubleshooter_nb.table import Table
from troubleshooter_nb.thresholds import DOUBTFUL, RELATED_COSINE

_SIDES = ("left", "right")
_ROOTS = ("parameter", "buffer")
# Operators by another name than torch's functional one, as `bare_name` gives them.
_TORCH_WORDS = {
    "dense": "linear",
    "batchmatmul": "matmul",
    "mm": "matmul",
    "biasadd": "add",
    "iadd": "add",
    "radd": "add",
    "rmul": "mul",
    "imul": "mul",
    "realdiv": "div",
    "truediv": "div",
    "maxpool": "maxpool2d",
    "avgpool": "avgpool2d",
    "flashattentionscore": "scaleddotproductattention",
}
# Where operators take their parameters as arguments: torch's positions and keywords.
_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "linear": ("", "weight", "bias"),
    "conv1d": ("", "weight", "bias"),
    "conv2d": ("", "weight", "bias"),
    "conv3d": ("", "weight", "bias"),
    "layernorm": ("", "", "weight", "bias"),
    "rmsnorm": ("", "", "weight"),
    "groupnorm": ("", "", "weight", "bias"),
    "batchnorm": ("", "running_mean", "running_var", "weight", "bias"),
    "embedding": ("", "weight"),
}
# Other names of arguments that are parameters.
_KEYWORDS = frozenset(("weight", "bias", "running_mean", "running_var"))
# The list of weights of a recurrent operator, for every layer of one direction with biases.
_RECURRENT = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
_ENDINGS = ("rmsnorm", "layernorm", "groupnorm", "gelu", "silu", "swiglu")
# Rows by their marks: outputs of calls that contain no others, and of those that do.
_Made = tuple[dict[int, list[int]], dict[int, list[int]]]


@dataclass(eq=False)
class Node:
    """One call of a module or operator, or one saved tensor where no calls are known.

    `layer` is the class on the right, `left_layer` that on the left where it is another one.
    `inputs`, `outputs`, `parameters` and `gradients` are numbers of rows of the comparison. Of a
    backward call, `inputs` are the gradients that arrive, `outputs` those that leave, and
    `gradients` those of its parameters. `call` counts as the right side does; of a lone call, which
    the left side made and the right one did not, as the left does.
    """

    place: StepRank
    kind: str
    path: str
    call: int
    direction: str
    is_lone: bool = False
    layer: str = ""
    parent_name: str = ""
    left_layer: str = ""
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    parameters: list[int] = field(default_factory=list)
    gradients: list[int] = field(default_factory=list)
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)
    forward: Node | None = None

    @cached_property
    def word(self) -> str:
        """What it is, in torch's word; a class of the user's own by its name in lower case."""
        if self.kind == "module" or (self.layer and self.kind not in CALL_KINDS):
            word, known = layer_kind(self.layer or self.path.rpartition(".")[2])
            if known:
                return word
            if not self.layer and word.startswith("drop"):
                return "dropout"
            # A class of the user's own is often called after what it is: LlamaRMSNorm.
            return next((end for end in _ENDINGS if word.endswith(end)), word)
        name = bare_name(operator(self.path, self.layer))
        return _TORCH_WORDS.get(name, name)

    @property
    def is_known(self) -> bool:
        """Whether its class, or the operator, was recorded and is no class of the user's own."""
        is_operator = self.kind in CALL_KINDS and self.kind != "module"
        return is_operator or bool(self.layer and layer_kind(self.layer)[1])

    @property
    def rows(self) -> list[int]:
        """All rows but parameters."""
        return [*self.inputs, *self.outputs, *self.gradients]

    @cached_property
    def position(self) -> int:
        """Where it stands in the order of the rows: at its first result."""
        results = [*self.outputs, *self.gradients]
        return min(results or self.inputs or self.parameters)

    @cached_property
    def begun(self) -> int:
        """Row of the first result of the call or of what it contains."""
        return min([self.position, *(child.begun for child in self.children)])

    @cached_property
    def finished(self) -> tuple[int, int]:
        """Sorts calls by when their results were there; one that contains others comes last."""
        inside = [child.finished for child in self.children]
        place, depth = max([(self.position, 0), *inside])
        return place, depth + bool(inside)


class Flow:
    """Calls of both sides and the values that pass between them.

    Attributes
    ----------
    known : KnownLayers
        What is known of layers besides the dumps.
    places : list of (int, int)
        Step and rank of every row.
    nodes : list of Node
        In the order of execution, step by step and rank by rank.
    roots : list of int
        Rows of parameters and buffers.
    producer : dict of int to int
        Row of an input to the row of the output that it is, on a side at least. What was recorded
        of a side is followed; where no side tells, equal values do.
    external : set of int
        Rows of inputs that nothing recorded computed.
    passed_on : dict of int to int
        Row of an output of a call that contains others to the row of the output inside that it is.
    consumers : dict of int to list of int
        Row of an output to the rows that it is, of inputs and of calls around it.
    copied : dict of int to int
        Row of an operator's argument to the row of the parameter or buffer that it is.
    same_input : dict of int to list of int
        Row of an input that nothing made to all that are equal to it, one list for all of them.
    first_inputs : set of int
        The first row of each such list.
    users : dict of int to list of Node
        Row of a parameter or buffer to the calls of its module.
    node_of : dict of int to Node
        Row of anything but a root to its call.
    is_value : ndarray of bool
        Rows of what is no tensor.
    order_of : dict of int to FoundOrder
        Row without an order of saving to what is known of the order of its step and rank.
    """

    def __init__(
        self,
        comparison: Comparison,
        known: KnownLayers | None = None,
        orders: Iterable[FoundOrder] = (),
    ) -> None:
        self.known = known or KnownLayers()
        self.result: Table = comparison.columns
        self.count = len(comparison)
        self.places: list[StepRank] = [*self.result.rows("step", "rank")]
        self.site, self._is_lone = sites_of_rows(comparison)
        self._dumps = comparison.pairing.left, comparison.pairing.right
        self._pairing = comparison.pairing.columns
        self.is_value = self.site["value"].astype(bool)
        # Cells of lists are read in a fifth of the time that those of arrays take.
        self._cells = {name: column.tolist() for name, column in self.site.items()}
        self.nodes: list[Node] = []
        self.roots: list[int] = []
        self.producer: dict[int, int] = {}
        self.consumers: dict[int, list[int]] = defaultdict(list)
        self.external: set[int] = set()
        self.passed_on: dict[int, int] = {}
        self.copied: dict[int, int] = {}
        self.same_input: dict[int, list[int]] = {}
        self.first_inputs: set[int] = set()
        self.users: dict[int, list[Node]] = defaultdict(list)
        self.node_of: dict[int, Node] = {}
        self.order_of = {row: order for order in orders for row in order.of_row}
        self._build()
        self._connect()

    def place(self, row: int) -> StepRank:
        """Step and rank of a row."""
        return self.places[row]

    def module_of(self, row: int) -> tuple[str, str]:
        """Module and name of a parameter's or buffer's row."""
        path, slot = self._cells["path"][row], self._cells["slot"][row]
        if slot and self._cells["kind"][row] in CALL_KINDS:
            return path, slot
        module, _, leaf = path.rpartition(".")
        return module, leaf

    def parameter_of(self, row: int) -> tuple[str, str]:
        """Module and torch's name of the parameter whose gradient a row is; else empty."""
        return self.gradient_rows.get(row, ("", ""))

    @cached_property
    def gradient_rows(self) -> dict[int, tuple[str, str]]:
        """Rows of gradients of parameters, to the module and torch's name of each parameter."""
        found = {}
        is_gradient = (self.site["role"] == "parameter") & self.is_backward
        for row in np.flatnonzero(is_gradient).tolist():
            module, leaf = self.module_of(row)
            if self._cells["kind"][row] not in CALL_KINDS:
                stem = without_position(without_gradient_word(self._cells["path"][row]))
                module, _, leaf = stem.rpartition(".")
            found[row] = module, parameter_leaf(leaf) or ""
        return found

    @cached_property
    def is_backward(self) -> np.ndarray:
        """Rows of the backward pass, shape (count,)."""
        return np.asarray(self.site["direction"] == "backward", bool)

    def argument_of(self, node: Node, row: int) -> str:
        """Torch's name of the parameter that an operator was given as this argument; else empty."""
        if node.kind == "module" or node.direction == "backward":
            return ""
        slot: str = self._cells["slot"][row]
        if slot in _KEYWORDS:
            return slot
        if node.word in ("lstm", "gru") and slot.startswith("2.") and slot[2:].isdigit():
            layer, part = divmod(int(slot[2:]), len(_RECURRENT))
            return f"{_RECURRENT[part]}_l{layer}"
        positions = _ARGUMENTS.get(node.word, ())
        return positions[int(slot)] if slot.isdigit() and int(slot) < len(positions) else ""

    def length(self, node: Node) -> int:
        """Products summed into one element of a call's output, as far as shapes tell."""
        for row in node.parameters:
            shape = self.shape(row)
            if self.module_of(row)[1] == "weight" and len(shape) > 1:
                return math.prod(shape[1:])
        rows = node.forward.inputs if node.forward is not None else node.inputs
        shapes = [self.shape(row) for row in rows]
        return max((shape[-1] for shape in shapes if shape), default=1)

    @cached_property
    def times(self) -> np.ndarray:
        """Place of every row in the order in which values mattered first, shape (count,).

        Step by step and rank by rank, forward before backward: parameters and buffers at their
        first use, inputs and then results when the results of their call were there.
        """
        begun, depth, inside = [*range(self.count)], [0] * self.count, [0] * self.count
        for row, users in self.users.items():
            forward = [node.finished for node in users if node.direction == "forward"]
            if forward:
                begun[row], depth[row] = min(forward)
        for node in self.nodes:
            for number, rows in (1, node.inputs), (2, node.outputs), (2, node.gradients):
                for row in rows:
                    begun[row], depth[row] = node.finished
                    inside[row] = number
        place = self.result["rank"], self.result["step"]
        inner = (np.array(column, np.int64) for column in (inside, depth, begun))
        order = np.lexsort((*inner, self.is_backward, *place))
        times = np.empty(self.count, np.int64)
        times[order] = np.arange(self.count)
        return times

    @cached_property
    def first_step(self) -> int:
        """The first step of the comparison."""
        return int(min(self.result["step"].tolist(), default=0))

    def is_ordered(self, node: Node) -> bool:
        """Whether it is known what ran before a call, and what after it."""
        order = self.order_of.get(node.position)
        return order is None or order.is_known(node.position)

    def shape(self, row: int) -> tuple[int, ...]:
        """Shape of a row, by the reference or else by the other side."""
        shapes = (self.result[f"{side}_shape"][row] for side in ("right", "left"))
        return known_shape(*shapes) or ()

    @cached_property
    def guessed(self) -> np.ndarray:
        """Rows that may be no pairs at all, shape (count,).

        Those of operators' arguments that only their shape brings together, and those that are a
        guess which the values do not bear out.
        """
        pairs = self._pairing
        is_guess = (pairs["confidence"] <= DOUBTFUL) & (pairs["method"] != "user")
        if not is_guess.any():
            return np.zeros(self.count, bool)
        names = [f"{side}_entry" for side in ("left", "right")]
        rows = zip(*(pairs[name][is_guess].tolist() for name in names), strict=True)
        method_of = dict(zip(rows, pairs["method"][is_guess].tolist(), strict=True))
        both = [*self.result.rows(*names)]
        by_shape = np.array([method_of.get(pair) == "shape" for pair in both], bool)
        guess = np.array([pair in method_of for pair in both], bool)
        # What is nearly a multiple of the other side is more than a guess.
        is_unrelated = ~(self.result["cosine"] >= RELATED_COSINE)
        is_unrelated &= np.isin(self.result["verdict"], DIFFERING) & ~self._same_path(both)
        return np.asarray(by_shape & (self.site["kind"] == "api") | guess & is_unrelated, bool)

    def _same_path(self, entries: Iterable[tuple[int, int]]) -> np.ndarray:
        """Which pairs of entries lie at one place by their names, shape (count,)."""
        left, right = (dump.columns["path"] for dump in self._dumps)
        same = [min(i, j) >= 0 and left[i] == right[j] for i, j in entries]
        return np.array(same, bool)

    def _build(self) -> None:
        calls: dict[tuple[Any, ...], Node] = {}
        is_root = np.isin(self.site["role"], _ROOTS) & ~self.is_backward
        self.roots = np.flatnonzero(is_root).tolist()
        others = np.flatnonzero(~is_root)
        other = self._other_layers()
        names = ("kind", "path", "call", "direction", "role", "layer", "parent")
        cells = [self.site[name][others].tolist() for name in names]
        rows = zip(others.tolist(), self._is_lone[others].tolist(), *cells, strict=True)
        for row, is_lone, kind, path, call, direction, role, layer, parent in rows:
            number = call
            if is_whole_gradient(kind, role):
                # The whole gradient of a value: what one call makes of it is another row.
                kind, layer = "value", ""
            if kind not in CALL_KINDS:
                # A saved tensor is a node of its own: nothing says which call it belongs to.
                number = row
            way = "backward" if direction == "backward" else "forward"
            key = (self.places[row], kind, path, number, is_lone, way)
            node = calls.get(key)
            if node is None:
                node = calls[key] = Node(*key[:4], way, is_lone, layer, parent)
            node.layer = node.layer or layer
            node.left_layer = node.left_layer or other.get(row, "")
            results = node.gradients if role == "parameter" else node.outputs
            (node.inputs if role == "input" else results).append(row)
            self.node_of[row] = node
        self.nodes = sorted(calls.values(), key=lambda node: node.position)
        if self.known:
            self._name_classes()
        self._attach_roots()
        self._nest(calls)

    def _name_classes(self) -> None:
        """Give calls the classes that the user said, or else that a network at hand has."""
        for node in self.nodes:
            if node.kind in CALL_KINDS and node.kind != "module":
                continue
            if said := self.known.class_said(node.path):
                node.layer, node.left_layer = said, ""
                continue
            left, right = self.known.classes_of_net(node.path)
            if (left or right) and not node.is_known:
                node.layer = right or left
                node.left_layer = left if left != node.layer else ""

    def _other_layers(self) -> dict[int, str]:
        """Rows of which the left side says another class than the right, to that class."""
        entries = [self.result[f"{side}_entry"] for side in ("left", "right")]
        both = np.flatnonzero((entries[0] >= 0) & (entries[1] >= 0))
        left, right = (
            dump.columns["layer"][entry[both]]
            for dump, entry in zip(self._dumps, entries, strict=True)
        )
        apart = np.flatnonzero((left != right) & (left != "") & (right != ""))
        return {int(both[k]): str(left[k]) for k in apart}

    def _attach_roots(self) -> None:
        modules: dict[tuple[StepRank, str], list[Node]] = defaultdict(list)
        for node in self.nodes:
            if node.kind == "module":
                modules[node.place, node.path].append(node)
        for row in self.roots if modules else ():
            module, _ = self.module_of(row)
            for node in modules.get((self.place(row), module), ()):
                node.parameters.append(row)
                self.users[row].append(node)

    def _nest(self, calls: Mapping[tuple[Any, ...], Node]) -> None:
        """Find the call that each call ran in, and the forward call of each backward one."""
        modules: dict[tuple[StepRank, str, str, bool], list[Node]] = defaultdict(list)
        for node in self.nodes:
            if node.kind == "module":
                modules[node.place, node.direction, node.path, node.is_lone].append(node)
        for node in self.nodes:
            for path, call in _ancestors(node):
                # The numbers of lone calls are those of the other side.
                around = node.place, node.direction, path
                found = modules.get((*around, node.is_lone), [])
                found = found or modules.get((*around, not node.is_lone), [])
                outer = found[min(call, len(found) - 1)] if found else None
                # A damaged dump may say that two calls ran inside each other.
                if outer is not None and outer is not node and not _within(outer, node):
                    node.parent = outer
                    outer.children.append(node)
                    break
            if node.direction == "backward":
                key = (node.place, node.kind, node.path, node.call, node.is_lone, "forward")
                node.forward = calls.get(key)

    def _connect(self) -> None:
        """Find the output that each input is: as recorded, or by the figures equal values share."""
        if not self.nodes:
            return
        marks = Marks(self.result, self._dumps)
        of_row = {
            row: marks.of(row, (node.place, node.direction))
            for node in self.nodes
            for row in (*node.inputs, *node.outputs)
        }
        made = self._made(of_row)
        roots = self._roots_by_values(marks)
        groups: dict[Any, list[tuple[Node, int]]] = defaultdict(list)
        for node in self.nodes:
            for row in node.inputs:
                known = of_row[row]
                is_told = self._is_told(row)
                root = None if is_told else _root_of(roots, node, known)
                if root is not None:
                    self.copied[row] = root
                    self.users[root].append(node)
                    continue
                if is_told:
                    source = self._told(node, row, False)
                else:
                    source = self._source(made, node, known)
                if source is not None:
                    self.producer[row] = source
                    # What looks at a shape alone says nothing of the values.
                    if not reads_shape_alone(node.word):
                        self.consumers[source].append(row)
                    continue
                # Constants have no figures to be known by: each is on its own.
                groups[known if known != (None, None) else row].append((node, row))
            for row in node.outputs if node.children else ():
                if self._is_told(row):
                    source = self._told(node, row, True)
                else:
                    source = self._passed(made, node, of_row[row])
                if source is not None:
                    self.passed_on[row] = source
                    self.consumers[source].append(row)
        for members in groups.values():
            rows = [row for _, row in members]
            self.same_input.update(dict.fromkeys(rows, rows))
            self.first_inputs.add(min(rows))
        self._find_external(groups.values())

    def _is_told(self, row: int) -> bool:
        """Whether a side recorded which earlier result a row is."""
        return any(
            dump.edges.results_before(entries[row])
            for dump, entries in zip(self._dumps, self._entries, strict=True)
        )

    def _told(self, node: Node, row: int, inside: bool) -> int | None:
        """The result that a row is as the sides recorded it: the last, innermost one.

        Parameters
        ----------
        node : Node
        row : int
            An argument or a result of the call.
        inside : bool
            Whether the result is one of a call inside this one, or of one outside.
        """
        sides = [self._told_by(side, node, row, inside) for side in range(len(_SIDES))]
        if all(sides):
            both = {*sides[0]}.intersection(sides[1])
            if not both:  # what has no partner may stand for what has one
                both = {one for side in sides for one in side if one in self._pairs}
                if all(both.intersection(side) for side in sides):
                    return None  # wired otherwise
            sides = [[one for one in side if one in both] for side in sides]
        for has_children in (False, True):
            last = [
                rows[-1]
                for side in sides
                if (rows := [r for r in side if bool(self.node_of[r].children) == has_children])
            ]
            if last:
                return max(last)
        return None

    @cached_property
    def _pairs(self) -> set[int]:
        """Rows that have an entry on both sides."""
        return {
            row for row, entries in enumerate(zip(*self._entries, strict=True)) if min(entries) >= 0
        }

    def _told_by(self, side: int, node: Node, row: int, inside: bool) -> list[int]:
        """The results that a row is by what one side recorded, in the order of that side."""
        found = []
        for entry in self._dumps[side].edges.results_before(self._entries[side][row]):
            other = self._row_of[side].get(entry, -1)
            maker = self.node_of.get(other)
            if maker is not None and maker is not node and _within(maker, node) == inside:
                found.append(other)
        return found

    @cached_property
    def _entries(self) -> list[list[int]]:
        """The entries of each side by row, -1 for none."""
        return [self.result[f"{side}_entry"].tolist() for side in _SIDES]

    @cached_property
    def _row_of(self) -> list[dict[int, int]]:
        """The rows by the entries of each side."""
        return [{entry: row for row, entry in enumerate(one)} for one in self._entries]

    def _made(self, of_row: Mapping[int, Mark]) -> _Made:
        """Outputs by their marks: those of calls that contain no others, and those that do."""
        made: _Made = (defaultdict(list), defaultdict(list))
        for node in self.nodes:
            for row in node.outputs:
                for mark in of_row[row]:
                    if mark is not None:
                        made[bool(node.children)][mark].append(row)
        for kind in made:
            for rows in kind.values():
                rows.sort()
        return made

    def _roots_by_values(self, marks: Marks) -> dict[int, int]:
        if not any(map(_takes_parameters, self.nodes)):
            return {}
        found: dict[int, int] = {}
        for row in self.roots:
            for mark in marks.of(row, (self.places[row], "forward")):
                if mark is not None:
                    found.setdefault(mark, row)
        return found

    def _source(self, made: _Made, node: Node, marks: Mark) -> int | None:
        """The nearest output before a call; the innermost where containers pass a value on."""
        # What a call itself contains comes after its inputs.
        for kind in made:
            found = [
                row
                for mark in marks
                if mark is not None and (rows := kind.get(mark))
                for row in self._nearest(rows, bisect_left(rows, node.position), node, False)
            ]
            if found:
                return max(found)
        return None

    def _passed(self, made: _Made, node: Node, marks: Mark) -> int | None:
        """The last output inside a call that one of its own is; the innermost one."""
        for kind in made:
            found = [
                row
                for mark in marks
                if mark is not None and (rows := kind.get(mark))
                for row in self._nearest(rows, len(rows), node, True)
            ]
            if found:
                return max(found)
        return None

    def _nearest(self, rows: Sequence[int], end: int, node: Node, inside: bool) -> list[int]:
        """The last of ``rows[:end]`` that is of another call, inside or outside of this one."""
        for place in range(end - 1, -1, -1):
            other = self.node_of[rows[place]]
            if other is not node and _within(other, node) == inside:
                return [rows[place]]
        return []

    def _find_external(self, groups: Iterable[Sequence[tuple[Node, int]]]) -> None:
        first: dict[tuple[StepRank, str], int] = {}
        for node in self.nodes:
            if node.outputs and not node.children:
                key = (node.place, node.direction)
                first[key] = min(first.get(key, self.count), min(node.outputs))
        for members in groups:
            node = members[0][0]
            start = first.get((node.place, node.direction), self.count)
            if (
                (min(node.begun for node, _ in members) <= start and self._comes_first(node))
                or all(self._is_exact(row) for _, row in members)
                or any(self.argument_of(node, row) for node, row in members)
                # What was saved alone is told to be an input by its name or its place.
                or all(node.kind not in CALL_KINDS for node, _ in members)
            ):
                self.external.update(row for _, row in members)

    def _comes_first(self, node: Node) -> bool:
        """Whether nothing recorded may have run before a call that stands first."""
        order = self.order_of.get(node.position)
        return order is None or order.comes_first(node.position)

    def _is_exact(self, row: int) -> bool:
        """Whether a row holds integers, such as tokens: those come from the data."""
        dtype = str(self.result["right_dtype"][row] or self.result["left_dtype"][row])
        return dtype.lower().lstrip("u").startswith("int")


def _takes_parameters(node: Node) -> bool:
    """Whether a call may be given parameters or buffers as arguments."""
    return bool(node.kind != "module" and node.direction != "backward" and node.inputs)


def _root_of(roots: Mapping[int, int], node: Node, marks: Mark) -> int | None:
    """The parameter or buffer that an operator was given as an argument."""
    if not roots or not _takes_parameters(node):
        return None
    found = [roots.get(mark) for mark in marks if mark is not None]
    # On both sides: a parameter that one side computed with is no copy.
    return found[0] if len(set(found)) == 1 else None


def _ancestors(node: Node) -> Iterator[tuple[str, int]]:
    """Paths of the modules a call may have run in, the nearest first, with their visit."""
    call = parse_msprobe_call(node.parent_name) if node.parent_name else None
    if call:
        yield call.path, call.call or 0
    elif node.kind == "module":
        path = node.path
        while path:
            path = path.rpartition(".")[0]
            yield path, node.call


def _within(node: Node, container: Node) -> bool:
    """Whether a call ran inside another one."""
    return any(outer is container for outer in around(node))


def around(node: Node) -> Iterator[Node]:
    """The calls that a call ran in, from the inside."""
    outer = node.parent
    while outer is not None:
        yield outer
        outer = outer.parent


def inner(nodes: Iterable[Node]) -> Iterator[Node]:
    """The calls that contain no others."""
    return (node for node in nodes if not node.children)
