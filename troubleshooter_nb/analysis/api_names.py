"""Which operator of MindSpore corresponds to which of torch, with the positions of arguments."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from troubleshooter_nb.messages import Message
from troubleshooter_nb.tables import rows_of

Agreement = Literal["same", "differs", "random", "none", ""]

# Operators that change at most the form of a tensor: they come and go between two versions of a
# network, and neither side's fused operators have any of them inside.
FORM_ONLY = frozenset(
    "shape reshape view transpose permute contiguous cast to float half size expand flatten "
    "squeeze unsqueeze expanddims astype identity t type dtype broadcastto".split()
)
# Primitives that no row of the table names, under the name torch gives the operator.
_PRIMITIVES = {
    "conv2d": "conv2d",
    "batchnorm": "batchnorm",
    "gelu": "gelu",
    "biasadd": "add",
    "batchmatmul": "matmul",
    "bmm": "matmul",
    "mm": "matmul",
    "realdiv": "div",
    "truediv": "div",
    "stridedslice": "getitem",
    "arange": "arange",
    "range": "arange",
    "view": "reshape",
}
# The gradients that leave the last node of an operator, in its own order, where this is not that
# of the arguments; ``.T`` marks a transposed one. Source: own runs of torch 2.13, MindSpore 2.10.
NODE_ORDER = {
    "linear": ("bias", "input", "weight.T"),
    "addmm": ("bias", "input", "weight.T"),
    "biasadd": ("bias", "input"),
    "matmul of a layer": ("weight", "input"),
}
# Operators whose recorded gradient is that of a node inside them in one framework.
_INNER_NODE = {
    "crossentropy": "calls.inner_crossentropy",
    "linear": "calls.inner_linear",
    "addmm": "calls.inner_addmm",
    "biasadd": "calls.inner_biasadd",
    "batchnorm": "calls.inner_batchnorm",
}


# Positions of arguments that are often given by keyword, by the operator's bare name in torch.
_KEYWORDS = {
    "layernorm": {"weight": "2", "bias": "3"},
    "rmsnorm": {"weight": "2"},
    "groupnorm": {"weight": "2", "bias": "3"},
    "batchnorm": {"running_mean": "1", "running_var": "2", "weight": "3", "bias": "4"},
    "crossentropy": {"target": "1", "weight": "2"},
    "nllloss": {"target": "1", "weight": "2"},
    "scaleddotproductattention": {"query": "0", "key": "1", "value": "2", "attn_mask": "3"},
    "embedding": {"weight": "1"},
}
_ANY_KEYWORDS = {"input": "0", "self": "0", "x": "0", "other": "1", "weight": "1", "bias": "2"}


@dataclass(frozen=True)
class ApiRow:
    """A pair of operators: positions of the arguments that correspond, and what agrees."""

    torch: str
    mindspore: str
    torch_arguments: tuple[str, ...]
    mindspore_arguments: tuple[str, ...]
    forward: Agreement
    backward: Agreement


def bare_name(op: str) -> str:
    """The name without category and spelling: ``Tensor.__add__``, ``Primitive.Add`` -> ``add``."""
    name = op.rpartition(".")[2].lower()
    return name.strip("_").replace("_", "") or name


@functools.cache
def op_class(name: str) -> str:
    """One word for all operators that the table makes counterparts of each other.

    Parameters
    ----------
    name : str
        As `bare_name` gives it.
    """
    return _classes().get(name, _PRIMITIVES.get(name, name))


def rows_between(left: str, right: str) -> list[tuple[ApiRow, bool]]:
    """The rows of the table for two operators, and whether the left one is torch's.

    Parameters
    ----------
    left, right : str
        With category, a primitive by its class: ``Functional.linear``, ``Primitive.MatMul``.
    """
    rows = _rows()
    forth = [(row, True) for row in rows.get((left, right), ())]
    return forth + [(row, False) for row in rows.get((right, left), ())]


def argument_position(op: str, slot: str) -> str:
    """The position of an argument that was given by keyword; any other slot as it is."""
    if slot[:1].isdigit():
        return slot
    return _KEYWORDS.get(bare_name(op), _ANY_KEYWORDS).get(slot, slot)


def operator(path: str, layer: str) -> str:
    """Category and name of an operator, a primitive by its class: ``Primitive.MatMul``."""
    category, dot, _ = path.partition(".")
    return f"{category}.{layer}" if dot and category == "Primitive" else path


def backward_note(left: str, right: str) -> str:
    """What is defined differently about the recorded gradients of two operators; else empty.

    Parameters
    ----------
    left, right : str
        With category, as for `rows_between`.
    """
    for op in (left, right):
        if id := _INNER_NODE.get(bare_name(op)):
            return Message("calls.defined_differently", what=Message(id))
    if any(row.backward == "differs" for row, _ in rows_between(left, right)):
        return Message("calls.defined_differently", what=Message("calls.other_gradients"))
    return ""


@functools.cache
def _table() -> tuple[ApiRow, ...]:
    return tuple(
        ApiRow(
            record["torch_op"],
            record["mindspore_op"],
            _positions(record["torch_arguments"]),
            _positions(record["mindspore_arguments"]),
            _agreement(record["forward"]),
            _agreement(record["backward"]),
        )
        for record in rows_of("api_names.csv")
    )


def _positions(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


def _agreement(text: str) -> Agreement:
    known: dict[str, Agreement] = {
        "same": "same",
        "differs": "differs",
        "random": "random",
        "none": "none",
    }
    return known.get(text, "")


@functools.cache
def _rows() -> dict[tuple[str, str], list[ApiRow]]:
    rows: dict[tuple[str, str], list[ApiRow]] = defaultdict(list)
    for row in _table():
        rows[row.torch, row.mindspore].append(row)
    return rows


@functools.cache
def _classes() -> dict[str, str]:
    """The class of every name of the table: names of one row are in one class."""
    pairs = [(bare_name(row.torch), bare_name(row.mindspore)) for row in _table()]
    return _united([*pairs, *_PRIMITIVES.items()])


def _united(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    heads: dict[str, str] = {}

    def head(name: str) -> str:
        while heads.setdefault(name, name) != name:
            name = heads[name]
        return name

    for left, right in pairs:
        first, second = sorted((head(left), head(right)))
        heads[second] = first
    return {name: head(name) for name in list(heads)}


@functools.cache
def rows_of_mindspore(op: str) -> tuple[ApiRow, ...]:
    """The rows of the table for an operator of MindSpore, in its order.

    Parameters
    ----------
    op : str
        With category, a primitive by its class: ``Functional.abs``, ``Primitive.MatMul``.
    """
    return tuple(row for row in _table() if row.mindspore == op)
