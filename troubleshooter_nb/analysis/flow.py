"""The dataflow of a comparison: calls with their inputs and outputs, and what made each value."""

from __future__ import annotations

import contextlib
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.api_names import bare_name, operator
from troubleshooter_nb.analysis.layer_kinds import layer_kind
from troubleshooter_nb.comparison import Comparison
from troubleshooter_nb.errors import ReadError
from troubleshooter_nb.metrics.summary import summarise
from troubleshooter_nb.naming import (
    CALL_KINDS,
    parameter_leaf,
    parse_msprobe_call,
    saved_calls,
    without_gradient_word,
)
from troubleshooter_nb.shapes import known_shape
from troubleshooter_nb.table import Table
from troubleshooter_nb.thresholds import LARGEST_READ

_SITE = ("kind", "path", "call", "direction", "role", "slot", "layer", "parent", "value")
_OF_CALL = ("kind", "direction", "path", "role", "slot")
_VALUE = ("min", "max", "l2")
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
Place = tuple[int, int]  # step, rank


@dataclass(eq=False)
class Node:
    """One call of a module or operator, or one saved tensor where no calls are known.

    `inputs`, `outputs`, `parameters` and `gradients` are numbers of rows of the comparison. Of a
    backward call, `inputs` are the gradients that arrive, `outputs` those that leave, and
    `gradients` those of its parameters. `call` counts as the right side does; of a lone call, which
    the left side made and the right one did not, as the left does.
    """

    place: Place
    kind: str
    path: str
    call: int
    direction: str
    is_lone: bool = False
    layer: str = ""
    parent_name: str = ""
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
        if self.kind == "module":
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
    nodes : list of Node
        In the order of execution, step by step and rank by rank.
    roots : list of int
        Rows of parameters and buffers.
    producer : dict of int to int
        Row of an input to the row of the output that it is, on a side at least.
    external : set of int
        Rows of inputs that nothing recorded computed.
    passed_on : dict of int to int
        Row of an output of a call that contains others to the row of the output inside that it is.
    consumers : dict of int to list of int
        Row of an output to the rows that it is, of inputs and of calls around it.
    copied : dict of int to int
        Row of an operator's argument to the row of the parameter or buffer that it is.
    same_input : dict of int to list of int
        Row of an input that nothing made to all that are equal to it.
    users : dict of int to list of Node
        Row of a parameter or buffer to the calls of its module.
    node_of : dict of int to Node
        Row of anything but a root to its call.
    is_value : ndarray of bool
        Rows of what is no tensor.
    """

    def __init__(self, comparison: Comparison) -> None:
        self.result: Table = comparison.columns
        self.count = len(comparison)
        self.site = _sites(comparison, self.result, self.count)
        self._take_saved_calls()
        self._is_lone = _moved_to_their_calls(self.site, comparison, self.result, self.count)
        self._dumps = comparison.pairing.left, comparison.pairing.right
        self._summaries: dict[tuple[int, str], tuple[float, float, float]] = {}
        self.is_value = np.array([bool(text) for text in self.site["value"]], bool)
        self.nodes: list[Node] = []
        self.roots: list[int] = []
        self.producer: dict[int, int] = {}
        self.consumers: dict[int, list[int]] = defaultdict(list)
        self.external: set[int] = set()
        self.passed_on: dict[int, int] = {}
        self.copied: dict[int, int] = {}
        self.same_input: dict[int, list[int]] = {}
        self.users: dict[int, list[Node]] = defaultdict(list)
        self.node_of: dict[int, Node] = {}
        self._build()
        self._connect()

    def place(self, row: int) -> Place:
        """Step and rank of a row."""
        return int(self.result["step"][row]), int(self.result["rank"][row])

    def module_of(self, row: int) -> tuple[str, str]:
        """Module and name of a parameter's or buffer's row."""
        path, slot = str(self.site["path"][row]), str(self.site["slot"][row])
        if slot and self.site["kind"][row] in CALL_KINDS:
            return path, slot
        module, _, leaf = path.rpartition(".")
        return module, leaf

    def parameter_of(self, row: int) -> tuple[str, str]:
        """Module and torch's name of the parameter whose gradient a row is; else empty."""
        if self.site["role"][row] != "parameter" or self.site["direction"][row] != "backward":
            return "", ""
        module, leaf = self.module_of(row)
        if self.site["kind"][row] not in CALL_KINDS:
            module, _, leaf = without_gradient_word(str(self.site["path"][row])).rpartition(".")
        return module, parameter_leaf(leaf) or ""

    def argument_of(self, node: Node, row: int) -> str:
        """Torch's name of the parameter that an operator was given as this argument; else empty."""
        if node.kind == "module" or node.direction == "backward":
            return ""
        slot = str(self.site["slot"][row])
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
    def first_step(self) -> int:
        """The first step of the comparison."""
        return min(map(int, self.result["step"]), default=0)

    def shape(self, row: int) -> tuple[int, ...]:
        """Shape of a row, by the reference or else by the other side."""
        shapes = (self.result[f"{side}_shape"][row] for side in ("right", "left"))
        return known_shape(*shapes) or ()

    def _summary(self, row: int, side: str) -> tuple[float, float, float]:
        """Figures of a tensor that was not compared, as its partner has another shape."""
        if (row, side) not in self._summaries:
            dump = self._dumps[side == "right"]
            source = dump.sources[int(self.result[f"{side}_entry"][row])]
            found = (math.nan, math.nan, math.nan)
            if source is not None and math.prod(source.shape) <= LARGEST_READ:
                with contextlib.suppress(ReadError):
                    figures = summarise(source.read, math.prod(source.shape))[0]
                    found = (figures["min"], figures["max"], figures["l2"])
            self._summaries[row, side] = found
        return self._summaries[row, side]

    def _take_saved_calls(self) -> None:
        """Take what forward hooks of the user's own saved for calls of modules."""
        rows: dict[Place, dict[int, str]] = defaultdict(dict)
        for row in range(self.count):
            if self.site["kind"][row] not in CALL_KINDS and not self.site["direction"][row]:
                rows[self.place(row)][row] = str(self.site["path"][row])
        for saved in rows.values():
            calls = saved_calls(saved.values())
            for row, name in saved.items():
                if name in calls and not self.site["role"][row]:
                    for column, value in zip(
                        _OF_CALL, ("module", "forward", *calls[name]), strict=True
                    ):
                        self.site[column][row] = value

    def _build(self) -> None:
        calls: dict[tuple[Any, ...], Node] = {}
        site = self.site
        for row in range(self.count):
            role, kind = site["role"][row], site["kind"][row]
            backward = site["direction"][row] == "backward"
            if role in _ROOTS and not backward:
                self.roots.append(row)
                continue
            path, call = str(site["path"][row]), int(site["call"][row])
            if kind not in CALL_KINDS:
                # A saved tensor is a node of its own: nothing says which call it belongs to.
                call = row
            if role == "parameter" and kind in CALL_KINDS:
                call = 0
            direction = "backward" if backward else "forward"
            is_lone = bool(self._is_lone[row])
            key = (*self.place(row), kind, path, call, is_lone, direction)
            node = calls.get(key)
            if node is None:
                layer, parent = str(site["layer"][row]), str(site["parent"][row])
                node = Node(self.place(row), kind, path, call, direction, is_lone, layer, parent)
                calls[key] = node
            node.layer = node.layer or str(site["layer"][row])
            rows = node.gradients if role == "parameter" else node.outputs
            (node.inputs if role == "input" else rows).append(row)
            self.node_of[row] = node
        self.nodes = sorted(calls.values(), key=lambda node: node.position)
        self._attach_roots()
        self._nest(calls)

    def _attach_roots(self) -> None:
        modules: dict[tuple[Place, str], list[Node]] = defaultdict(list)
        for node in self.nodes:
            if node.kind == "module":
                modules[node.place, node.path].append(node)
        for row in self.roots:
            module, _ = self.module_of(row)
            for node in modules.get((self.place(row), module), ()):
                node.parameters.append(row)
                self.users[row].append(node)

    def _nest(self, calls: Mapping[tuple[Any, ...], Node]) -> None:
        """Find the call that each call ran in, and the forward call of each backward one."""
        modules: dict[tuple[Place, str, str], list[Node]] = defaultdict(list)
        for node in self.nodes:
            if node.kind == "module":
                modules[node.place, node.direction, node.path].append(node)
        for node in self.nodes:
            for path, call in _ancestors(node):
                found = modules.get((node.place, node.direction, path), [])
                around = found[min(call, len(found) - 1)] if found else None
                # A damaged dump may say that two calls ran inside each other.
                if around is not None and around is not node and not _within(around, node):
                    node.parent = around
                    around.children.append(node)
                    break
            if node.direction == "backward":
                key = (*node.place, node.kind, node.path, node.call, node.is_lone, "forward")
                node.forward = calls.get(key)

    def _connect(self) -> None:
        """Find the output that each input is, by its figures, which equal values share."""
        made: tuple[dict[Any, list[int]], dict[Any, list[int]]] = ({}, {})
        for node in self.nodes:
            for row in node.outputs:
                for side, key in enumerate(self._keys(row)):
                    if key is not None:
                        made[side].setdefault((node.place, node.direction, key), []).append(row)
        groups: dict[Any, list[tuple[Node, int]]] = defaultdict(list)
        roots = self._roots_by_values()
        for node in self.nodes:
            for row in node.inputs:
                root = self._root_of(roots, node, row)
                if root is not None:
                    self.copied[row] = root
                    self.users[root].append(node)
                    continue
                found = self._equal(made, node, row)
                if (source := self._source(node, found)) is not None:
                    self.producer[row] = source
                    self.consumers[source].append(row)
                    continue
                keys = self._keys(row)
                # Constants have no figures to be known by: each is on its own.
                name = keys if keys != (None, None) else row
                groups[node.place, node.direction, name].append((node, row))
            for row in node.outputs if node.children else ():
                inside = [c for c in self._equal(made, node, row) if _within(self.node_of[c], node)]
                if inside:
                    source = max(inside, key=lambda c: (not self.node_of[c].children, c))
                    self.passed_on[row] = source
                    self.consumers[source].append(row)
        for members in groups.values():
            for _, row in members:
                self.same_input[row] = [other for _, other in members]
        self._find_external(groups)

    def _roots_by_values(self) -> dict[Any, int]:
        found: dict[Any, int] = {}
        for row in self.roots:
            for side, key in enumerate(self._keys(row)):
                if key is not None:
                    found.setdefault((self.place(row), side, key), row)
        return found

    def _root_of(self, roots: Mapping[Any, int], node: Node, row: int) -> int | None:
        """The parameter or buffer that an operator was given as an argument."""
        if node.kind == "module" or node.direction == "backward":
            return None
        found = [
            roots.get((node.place, side, key))
            for side, key in enumerate(self._keys(row))
            if key is not None
        ]
        # On both sides: a parameter that one side computed with is no copy.
        return found[0] if found and found[0] is not None and len(set(found)) == 1 else None

    def _equal(
        self, made: tuple[dict[Any, list[int]], dict[Any, list[int]]], node: Node, row: int
    ) -> list[int]:
        """Outputs with the figures of a row on a side, its own call's left out."""
        found = [
            made[side].get((node.place, node.direction, key), [])
            for side, key in enumerate(self._keys(row))
            if key is not None
        ]
        return [c for rows in found for c in rows if self.node_of[c] is not node]

    def _source(self, node: Node, candidates: Sequence[int]) -> int | None:
        """The nearest output before a call; the innermost where containers pass a value on."""
        # What a call itself contains comes after its inputs.
        before = [c for c in candidates if c < node.position and not _within(self.node_of[c], node)]
        if not before:
            return None
        return max(before, key=lambda c: (not self.node_of[c].children, c))

    def _find_external(self, groups: Mapping[Any, Sequence[tuple[Node, int]]]) -> None:
        first: dict[tuple[Place, str], int] = {}
        for node in self.nodes:
            if node.outputs and not node.children:
                key = (node.place, node.direction)
                first[key] = min(first.get(key, self.count), min(node.outputs))
        for (place, direction, _), members in groups.items():
            start = first.get((place, direction), self.count)
            rows = [row for _, row in members]
            given = any(self.argument_of(node, row) for node, row in members)
            exact = all(self._is_exact(row) for row in rows)
            if given or exact or min(node.begun for node, _ in members) <= start:
                self.external.update(rows)

    def _is_exact(self, row: int) -> bool:
        """Whether a row holds integers, such as tokens: those come from the data."""
        dtype = str(self.result["right_dtype"][row] or self.result["left_dtype"][row])
        return dtype.lower().lstrip("u").startswith("int")

    def _keys(self, row: int) -> tuple[Any, Any]:
        """What identifies the values of a row on each side; None for constants and unknowns."""
        return self._key(row, "left"), self._key(row, "right")

    def _key(self, row: int, side: str) -> Any:
        low, high, norm = (float(self.result[f"{side}_{name}"][row]) for name in _VALUE)
        if self.result["verdict"][row] == "shape" and math.isnan(low):
            low, high, norm = self._summary(row, side)
        if math.isnan(low):
            return str(self.result[f"{side}_digest"][row]) or None
        # Sums of the same values in another layout differ in the last bits.
        return (low, high, f"{norm:.9e}") if low < high else None


def _sites(comparison: Comparison, result: Table, count: int) -> dict[str, Any]:
    """Where each row was seen, by the reference or else by the other side."""
    found: dict[str, Any] = {}
    indexes = comparison.pairing.left.index, comparison.pairing.right.index
    entries = result["left_entry"], result["right_entry"]
    sides = [np.flatnonzero(entry >= 0) for entry in entries]
    for column in _SITE:
        merged = np.empty(count, object)
        # The reference last: it overwrites the other side.
        for rows, entry, index in zip(sides, entries, indexes, strict=True):
            merged[rows] = index[column].values[entry[rows]]
        found[column] = merged
    return found


def _moved_to_their_calls(
    site: Mapping[str, Any], comparison: Comparison, result: Table, count: int
) -> np.ndarray:
    """Put rows that only the left side has to the call of the right that the rest of theirs met.

    Returns
    -------
    ndarray of bool, shape (count,)
        Rows of calls of which nothing met a call of the right: their numbers count another side's
        calls, so that the first of the left may be one more than the first of the right.
    """
    lone = np.zeros(count, bool)
    entries, others = result["left_entry"], result["right_entry"]
    alone = np.flatnonzero((entries >= 0) & (others < 0))
    if not len(alone):
        return lone
    names = ("step", "rank", "kind", "path", "call", "direction")
    of_left = [*comparison.pairing.left.columns.rows(*names)]
    met: dict[tuple[Any, ...], tuple[Any, Any]] = {}
    for row in np.flatnonzero((entries >= 0) & (others >= 0)):
        met.setdefault(of_left[entries[row]], (site["path"][row], site["call"][row]))
    for row in alone:
        found = met.get(of_left[entries[row]])
        if found is None:
            lone[row] = True
        else:
            site["path"][row], site["call"][row] = found
    return lone


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
    up = node.parent
    while up is not None:
        if up is container:
            return True
        up = up.parent
    return False


def inner(nodes: Iterable[Node]) -> Iterator[Node]:
    """The calls that contain no others."""
    return (node for node in nodes if not node.children)
