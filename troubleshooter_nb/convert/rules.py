"""What a layer's tensors are called, and how they are laid out, on the other side.

Source: ``layer_parameters.csv`` and ``layer_defaults.csv`` of ``tables``, own runs of torch 2.13
and MindSpore 2.10.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.tables import rows_of
from troubleshooter_nb.transforms import Transform

Target = Literal["mindspore.nn", "mindspore.mint", "torch"]
_TARGETS = [*get_args(Target)]

# Transforms as the table writes them, towards MindSpore; other words name no single tensor.
_TO_MINDSPORE: dict[str, Transform | None] = {
    "identity": Transform(),
    "expand_dims_axis2": Transform("expand_dims", (2,)),
    "drop": Transform("drop"),
    "unsupported": None,
}
_FLAVOURS: dict[str, Target] = {"mint.nn.": "mindspore.mint", "nn.": "mindspore.nn"}
# The table tried running statistics of only one of the three; their names are the same in all.
_SIBLINGS = {"InstanceNorm1d": "InstanceNorm2d", "InstanceNorm3d": "InstanceNorm2d"}
# What a MindSpore layer that is itself the network calls these in its checkpoint.
_ROOT_LEAVES = {"moving_mean": "mean", "moving_variance": "variance", "w": "a"}
# These layers of mindspore.nn have all their tensors whatever their settings: affine=False and
# the like only make them untrained.
_RECURRENT_LAYER = re.compile(r"_l[0-9]+(_reverse)?$")


@dataclass(frozen=True)
class Rule:
    """How one tensor of a layer gets to the other framework.

    `target_leaf` is None where the tensor has no place there: the transform ``drop`` says that
    nothing is lost (a counter of batches), None that the layer has no counterpart. `verified` says
    that the outputs of both layers were compared, not only names and shapes.
    """

    source_leaf: str
    target_leaf: str | None
    transform: Transform | None
    verified: bool
    note: str

    def apply(self, values: np.ndarray) -> np.ndarray:
        """The values as the target stores them, any dtype; a view where nothing changes.

        Raises
        ------
        ValueError
            If the target has no place for them, or the axis to remove is not of size 1.
        """
        if self.target_leaf is None or self.transform is None:
            said = {"name": self.source_leaf, "transform": self.transform or "unsupported"}
            raise ArgumentError(Message("weight_maps.no_place_for", **said))
        return self.transform.apply([values])[0]


@dataclass(frozen=True)
class DefaultDifference:
    """A default of a layer or optimizer that MindSpore sets otherwise than torch.

    Arguments are "" where that side has none. Defaults are texts. `cause` is the id of a cause, as
    `Finding.cause`, or "" where none fits.
    """

    torch_kind: str
    mindspore_kind: str
    torch_argument: str
    mindspore_argument: str
    torch_default: str
    mindspore_default: str
    effect: str
    cause: str


class LayerRules(Mapping[str, Rule]):
    """The rules of one kind of layer by source leaf.

    A recurrent layer may have any number of layers inside: what the table says of ``_l0`` holds
    for ``_l7`` and ``_l7_reverse`` as well. Iterating gives those of the table.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = {rule.source_leaf: rule for rule in rules}

    def __getitem__(self, leaf: str) -> Rule:
        if leaf in self._rules:
            return self._rules[leaf]
        end = _RECURRENT_LAYER.search(leaf)
        if end is None:
            raise KeyError(leaf)
        rule = self._rules[_RECURRENT_LAYER.sub("_l0", leaf)]
        target = rule.target_leaf and _RECURRENT_LAYER.sub(end[0], rule.target_leaf)
        return replace(rule, source_leaf=leaf, target_leaf=target)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)


def rules_for(kind: str, target: Target, *, is_root: bool = False) -> Mapping[str, Rule] | None:
    """The rules of a kind of layer towards a target, by source leaf.

    Parameters
    ----------
    kind : str
        As `LayerFacts.kind`: ``Conv1d`` of torch, ``nn.Conv1d`` or ``mint.nn.Conv1d``.
    target : {"mindspore.nn", "mindspore.mint", "torch"}
        The flavour of the other side's layers; "torch" is for kinds of MindSpore.
    is_root : bool
        Whether the layer is itself the network, which MindSpore calls some tensors otherwise for:
        ``mean`` and ``variance`` of a normalization, ``a`` of a PReLU.

    Returns
    -------
    Mapping or None
        A leaf that is missing there is none of the layer's. A layer made of layers has dotted
        leaves, such as ``linear1.weight`` or ``bn2d.gamma``: they go before what the inner layer's
        own rules say. Empty for containers. None for a kind that nobody knows, and where this
        flavour has no such layer.

    Raises
    ------
    ValueError
        If the target is none of the three.
    """
    rules = _rules(kind, target)
    if rules is None or not is_root:
        return rules
    if target == "torch":
        return LayerRules(
            replace(rule, source_leaf=_ROOT_LEAVES.get(rule.source_leaf, rule.source_leaf))
            for rule in rules.values()
        )
    return LayerRules(
        replace(rule, target_leaf=_ROOT_LEAVES.get(rule.target_leaf or "", rule.target_leaf))
        for rule in rules.values()
    )


def counterparts(kind: str, target: Target) -> tuple[str, ...]:
    """The kinds of layer that stand for this one in the target: ``Linear`` -> ``nn.Dense``.

    Empty where it has none, or nobody knows the kind.
    """
    return tuple(dict.fromkeys(_other_kind(row, target) for row in _rows_of(kind, target)))


def default_differences(kind: str, target_kind: str | None = None) -> list[DefaultDifference]:
    """The defaults in which a kind of torch layer or optimizer differs from MindSpore's.

    Parameters
    ----------
    kind : str
        Of torch: ``LayerNorm``, ``AdamW``; ``Module`` for what concerns all layers.
    target_kind : str or None
        Of MindSpore: ``nn.LayerNorm``; None for all counterparts.
    """
    return [
        difference
        for difference in _differences()
        if difference.torch_kind == kind and target_kind in (None, difference.mindspore_kind)
    ]


@functools.cache
def without_counterpart() -> frozenset[str]:
    """Ends of names of torch's tensors that MindSpore needs none of: counters of batches."""
    return frozenset(row.torch_leaf for row in _rows() if row.transform == "drop")


@dataclass(frozen=True)
class _Row:
    torch_kind: str
    torch_leaf: str
    mindspore_kind: str
    mindspore_leaf: str
    transform: str
    verified: bool
    note: str


def _said(cell: str) -> str:
    """A cell of a table: a message where it holds an id, with what fills its gap behind a colon."""
    id, _, name = cell.partition(":")
    return Message(id, name=name) if id.startswith("layers.") else cell


@functools.cache
def _rows() -> tuple[_Row, ...]:
    rows = []
    for record in rows_of("layer_parameters.csv"):
        # The settings in parentheses only decide which of its tensors a layer has.
        kind = record["torch_layer"].partition("(")[0]
        leaf = record["torch_param"]
        if kind.startswith("parametrizations."):
            # The layer that holds these tensors is the list below the parametrized one.
            kind, leaf = "ParametrizationList", leaf.rpartition(".")[2]
        rows.append(
            _Row(
                kind,
                leaf,
                record["ms_layer"].partition("(")[0],
                record["ms_param"],
                record["transform"],
                record["verified"] == "yes",
                _said(record["note"]),
            )
        )
    return (*rows, *_rows_of_siblings(rows))


def _rows_of_siblings(rows: list[_Row]) -> Iterator[_Row]:
    for kind, tried in _SIBLINGS.items():
        for row in rows:
            if row.torch_kind == tried:
                other = row.mindspore_kind.replace(tried, kind)
                note = f"as {tried}; {row.note}"
                yield replace(row, torch_kind=kind, mindspore_kind=other, verified=False, note=note)


def _rows_of(kind: str, target: Target) -> list[_Row]:
    """The rows of a kind that lead to layers of the target."""
    if target == "torch":
        return [row for row in _rows() if row.mindspore_kind == kind]
    return [
        row for row in _rows() if row.torch_kind == kind and _flavour(row.mindspore_kind) == target
    ]


def _flavour(mindspore_kind: str) -> Target | None:
    for prefix, flavour in _FLAVOURS.items():
        if mindspore_kind.startswith(prefix):
            return flavour
    return None


def _other_kind(row: _Row, target: Target) -> str:
    return row.torch_kind if target == "torch" else row.mindspore_kind


@functools.cache
def _rules(kind: str, target: Target) -> LayerRules | None:
    if target not in _TARGETS:
        raise ArgumentError(Message("weight_maps.no_target", target=target, known=_TARGETS))
    rows = _rows_of(kind, target)
    if target != "torch":
        of_kind = [row for row in _rows() if row.torch_kind == kind]
        lost = [row for row in of_kind if not row.mindspore_kind]
        # A tensor without counterpart makes no rules where the whole layer is of another flavour.
        rows += lost if rows or len(lost) == len(of_kind) else []
    if not rows:
        return None
    found: dict[str, Rule] = {}
    for row in rows:
        rule = _backward(row) if target == "torch" else _forward(row)
        if rule is not None:
            found.setdefault(rule.source_leaf, rule)
    return LayerRules(found.values())


def _forward(row: _Row) -> Rule | None:
    if row.transform not in _TO_MINDSPORE:
        return None
    transform = _TO_MINDSPORE[row.transform]
    target = row.mindspore_leaf or None
    return Rule(row.torch_leaf, target, transform, row.verified, row.note)


def _backward(row: _Row) -> Rule | None:
    forward = _forward(row)
    if forward is None or forward.target_leaf is None or forward.transform is None:
        return None
    back = forward.transform.inverse([])  # of these no shape is needed
    return replace(
        forward, source_leaf=row.mindspore_leaf, target_leaf=row.torch_leaf, transform=back
    )


@functools.cache
def _differences() -> tuple[DefaultDifference, ...]:
    return tuple(map(_difference, rows_of("layer_defaults.csv")))


def _difference(record: dict[str, str]) -> DefaultDifference:
    of_torch, _, of_mindspore = record["argument"].partition(" / ")
    return DefaultDifference(
        record["torch_layer"],
        record["ms_layer"],
        "" if of_torch == "-" else _said(of_torch),
        "" if of_mindspore == "-" else _said(of_mindspore),
        _said(record["torch_default"]),
        _said(record["ms_default"]),
        record["effect"] and Message(record["effect"]),
        record["cause_id"],
    )
