"""Draft a weight map: by the rules of each layer, then by names, shapes and values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, get_args

import numpy as np

from troubleshooter_nb.analysis.align import pair_dumps
from troubleshooter_nb.convert.by_values import GUESSED, with_values
from troubleshooter_nb.convert.evidence import with_evidence
from troubleshooter_nb.convert.kinds import (
    framework_of,
    guess_kind,
    layers_of,
    transformer_layers,
)
from troubleshooter_nb.convert.rules import (
    Rule,
    Target,
    counterparts,
    default_differences,
    rules_for,
)
from troubleshooter_nb.dump import ArraySource, Dump, Entry
from troubleshooter_nb.errors import ReadError, WeightMapError
from troubleshooter_nb.formats import as_dump
from troubleshooter_nb.formats.checkpoint import listed
from troubleshooter_nb.frameworks import Adapter, LayerFacts, adapter_of_network
from troubleshooter_nb.metrics.floats import dtype_from_token
from troubleshooter_nb.naming import TRAINING_ROLES, site_of_parameter
from troubleshooter_nb.weight_map import Spec, Transform, WeightMap, WeightRow

# What a pair that names do not prove needs at least.
_LEAST_CONFIDENCE = 0.5
_MOST_NOTES = 60


@dataclass(frozen=True)
class _Side:
    """One side of a map: its tensors, and its layers as far as they are known."""

    label: str
    specs: dict[str, Spec]
    kinds: Mapping[str, str]  # layer path -> kind
    framework: str
    owners: Mapping[str, str]  # name -> dotted path of layer and leaf, where the name is another
    guessed: frozenset[str] = frozenset()  # layer paths whose kind is a guess
    is_network: bool = False
    notes: tuple[str, ...] = ()
    dump: Dump | None = None  # where there are values


def draft_weight_map(source: Any, target: Any = None) -> WeightMap:
    """A first weight map, to be looked at and corrected.

    Parameters
    ----------
    source : network of torch or MindSpore, Dump, path, or mapping of str to array
        A network knows its layers; from a checkpoint alone they are guessed from names and
        shapes, and a guess is noted in its row.
    target : str, network, Dump, path or mapping, optional
        "mindspore" (layers of ``mindspore.nn``), "mindspore.mint" or "torch"; default the other
        framework. A network or checkpoint gives the names and shapes that are wanted; each of its
        layers says itself whether it is of ``nn`` or ``mint``.

    Returns
    -------
    WeightMap
        Rows by the rules of ``tables/layer_parameters.csv``; with a known target the rest is
        paired by names, shapes and order, with a note. Where both sides have values, those find
        what is transposed, joined or split; rows that names made and values contradict keep a note
        of what was found instead, and `WeightMap.suggestions` where a transform does it. Layers
        whose defaults differ between the frameworks are notes.

    Raises
    ------
    WeightMapError
        If the source has no weights, or `target` is none of these.
    FormatError, OSError
        If a file cannot be opened.
    """
    from_side = _side(source, "source")
    if not from_side.specs:
        msg = f"{from_side.label} has no parameters or buffers to map"
        raise WeightMapError(msg)
    to_side: _Side | None = None
    if target is None:
        flavour: Target = "mindspore.nn" if from_side.framework == "torch" else "torch"
    elif isinstance(target, str) and (named := _flavour_of(target)):
        flavour = named
    else:
        to_side = _side(target, "target")
        flavour = _flavour(to_side)
    rows, unsupported = _by_rules(from_side, flavour, to_side)
    drafted = WeightMap(
        tuple(rows),
        from_side.specs,
        None if to_side is None else to_side.specs,
        from_side.label,
        flavour if to_side is None else to_side.label,
    )
    if to_side is not None:
        drafted = _fitted(drafted)
        if from_side.dump is not None and to_side.dump is not None:
            drafted = with_values(drafted, from_side.dump, to_side.dump)
            drafted = with_evidence(drafted, from_side.dump, to_side.dump)
    notes = [*drafted.notes, *from_side.notes, *(to_side.notes if to_side else ())]
    notes += unsupported
    notes += _default_notes(from_side, to_side, flavour)
    return replace(drafted, notes=tuple(notes))


def _flavour_of(text: str) -> Target | None:
    known: dict[str, Target] = {"mindspore": "mindspore.nn", "mint": "mindspore.mint"}
    known |= {name: name for name in get_args(Target)}
    return known.get(text)


def _flavour(side: _Side) -> Target:
    """The flavour most layers of a known side have."""
    if side.framework == "torch":
        return "torch"
    mint = sum(kind.startswith("mint.") for kind in side.kinds.values())
    plain = sum(kind.startswith("nn.") for kind in side.kinds.values())
    return "mindspore.mint" if mint > plain else "mindspore.nn"


def _side(value: Any, argument: str) -> _Side:
    adapter = adapter_of_network(value)
    if adapter is not None:
        side = _side_of_network(adapter.layers(value), type(value).__name__)
        return replace(side, dump=_values_of_network(adapter, value, side))
    if isinstance(value, str) and not value.strip():
        msg = f"{argument} is empty: pass a network, a checkpoint or a framework"
        raise WeightMapError(msg)
    if not isinstance(value, (Dump, str, PathLike, Mapping)):
        msg = f"{argument} takes a network, a checkpoint or a mapping, got {type(value).__name__}"
        raise WeightMapError(msg)
    return _side_of_dump(as_dump(value, argument))


def _side_of_network(layers: Sequence[LayerFacts], label: str) -> _Side:
    specs, kinds, owners = {}, {}, {}
    for layer in layers:
        for path in (layer.path, *layer.aliases):
            kinds[path] = layer.kind
        for entry in layer.entries:
            own = f"{layer.path}.{entry.leaf}" if layer.path else entry.leaf
            for name in (entry.name, *entry.other_names):
                specs[name] = Spec(entry.shape, dtype_from_token(entry.dtype))
            if entry.name != own:
                owners[entry.name] = own
    is_mindspore = any(kind.startswith(("nn.", "mint.nn.")) for kind in kinds.values())
    return _Side(
        label, specs, kinds, "mindspore" if is_mindspore else "torch", owners, is_network=True
    )


@dataclass(frozen=True, eq=False)
class _TensorSource:
    """A tensor of a network, turned into an array when it is read."""

    adapter: Adapter
    tensor: Any
    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def read(self, start: int, stop: int) -> np.ndarray:
        array = self.adapter.to_numpy(self.tensor)
        return np.ascontiguousarray(array).reshape(-1)[start:stop]


def _values_of_network(adapter: Adapter, net: Any, side: _Side) -> Dump | None:
    """The tensors of a network as it is now; None where one of them has no values."""
    # The parameters themselves, so that tied ones are one object.
    of_cell = getattr(net, "parameters_dict", None)
    given = net.state_dict(keep_vars=True) if of_cell is None else of_cell()
    entries: list[Entry] = []
    sources: dict[int, ArraySource] = {}
    for order, (name, spec) in enumerate(side.specs.items()):
        if name not in given or not adapter.is_tensor(given[name]):
            return None
        tensor = given[name]
        made = _TensorSource(adapter, tensor, spec.shape, spec.dtype)
        source = sources.setdefault(id(tensor), made)
        try:
            source.read(0, 1)
        except ValueError:  # on the meta device
            return None
        entries.append(Entry(name, site_of_parameter(name), source, order=order))
    if not entries:
        return None
    return Dump.from_entries(entries, label=side.label, format="checkpoint")


def _side_of_dump(dump: Dump) -> _Side:
    steps = set(zip(dump.index["step"].values, dump.index["rank"].values, strict=True))
    if len(steps) > 1:
        msg = f"{dump.label} holds {len(steps)} steps or ranks: dump.select(step=..., rank=...)"
        raise WeightMapError(msg)
    roles = dump.index["role"].values
    specs, aside = {}, 0
    for name, source, role in zip(dump.names, dump.sources, roles, strict=True):
        if role in TRAINING_ROLES:
            aside += 1
        elif source is not None:
            specs[name] = Spec(source.shape, source.dtype)
    shapes = {name: spec.shape for name, spec in specs.items()}
    framework = framework_of(shapes, dump.format)
    kinds, guessed = {}, set()
    layers = layers_of(shapes)
    for path, leaves in layers.items():
        guess = guess_kind(path, leaves, framework)
        if guess is not None:
            kinds[path] = guess.kind
            if not guess.sure:
                guessed.add(path)
    for path in transformer_layers(layers, framework):
        kinds[path] = f"{'' if framework == 'torch' else 'nn.'}TransformerEncoderLayer"
        guessed.add(path)
    notes = [f"{dump.label}: {aside} tensors of training state are left aside"] if aside else []
    return _Side(
        dump.label, specs, kinds, framework, {}, frozenset(guessed), notes=tuple(notes), dump=dump
    )


def _by_rules(
    side: _Side, flavour: Target, target: _Side | None
) -> tuple[list[WeightRow], list[str]]:
    """A row for every tensor of the source by the rules of its layer; notes of those without."""
    rows: list[WeightRow] = []
    unsupported: dict[str, list[str]] = {}
    for name in side.specs:
        own = side.owners.get(name, name)
        path, rule = _rule_of(side, own, flavour, target)
        if rule is None:
            rows.append(WeightRow((name,), (own,)))
            continue
        kind = side.kinds[path]
        note = f"guessed: {kind}" if path in side.guessed else ""
        if rule.transform == "unsupported":
            why = f"{kind} has no counterpart in {flavour}"
            unsupported.setdefault(f"{why}{f' ({rule.note})' if rule.note else ''}", []).append(
                name
            )
        elif rule.target_leaf is None:
            rows.append(WeightRow((name,), (), Transform("drop"), kind, note=note))
        else:
            wanted = f"{path}.{rule.target_leaf}" if path else rule.target_leaf
            axis = () if rule.axis is None else (rule.axis,)
            transform = Transform(rule.transform, axis)
            rows.append(WeightRow((name,), (wanted,), transform, kind, note=note))
    return rows, [f"{why}: {listed(names)}" for why, names in unsupported.items()]


def _rule_of(
    side: _Side, name: str, flavour: Target, target: _Side | None
) -> tuple[str, Rule | None]:
    """The layer a tensor lies in and its rule: the outermost layer that knows it has the word."""
    parts = name.split(".")
    for length in range(len(parts)):
        path, leaf = ".".join(parts[:length]), ".".join(parts[length:])
        if path not in side.kinds:
            continue
        rules = rules_for(side.kinds[path], _flavour_at(path, flavour, target), is_root=path == "")
        if rules is not None and leaf in rules:
            return path, rules[leaf]
    return ".".join(parts[:-1]), None


def _flavour_at(path: str, flavour: Target, target: _Side | None) -> Target:
    """What the target's layer at this path is of, where it is known."""
    kind = target.kinds.get(path, "") if target is not None else ""
    if kind.startswith("mint."):
        return "mindspore.mint"
    return "mindspore.nn" if kind.startswith("nn.") else flavour


@dataclass(frozen=True)
class _Hollow:
    """A tensor of which only shape and dtype are known; an `ArraySource` without values."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def read(self, start: int, stop: int) -> np.ndarray:
        msg = "only the shape of this tensor is known"
        raise ReadError(msg)


def _fitted(drafted: WeightMap) -> WeightMap:
    """The map with targets that exist: what the rules did not find is paired by what is left."""
    wanted = drafted.target or {}
    sure: list[WeightRow] = []
    rest: list[WeightRow] = []
    for row in drafted.rows:
        known = not row.targets or all(name in wanted for name in row.targets)
        (sure if known else rest).append(row)
    taken = {name for row in sure for name in row.targets}
    free = {name: spec for name, spec in wanted.items() if name not in taken}
    named = {row.targets[0]: row for row in rest}
    made = {
        name: row.transform.specs([drafted.source[s] for s in row.sources])[0]
        for name, row in named.items()
    }
    pairing = pair_dumps(_hollow(made, "drafted"), _hollow(free, "target"))
    for match in pairing.matches():
        if match.left < 0:
            continue
        name = pairing.left.names[match.left]
        if match.right < 0 or not match.confidence >= _LEAST_CONFIDENCE:
            continue
        target = pairing.right.names[match.right]
        row = named[name]
        note = f"{GUESSED} {match.method}, {match.confidence:.2f}"
        note = row.note if match.confidence > 0.9 else "; ".join(filter(None, [row.note, note]))
        sure.append(replace(row, targets=(target,), note=note))
    return drafted.with_rows(sure)


def _hollow(specs: Mapping[str, Spec], label: str) -> Dump:
    entries = []
    for order, (name, spec) in enumerate(specs.items()):
        source: ArraySource = _Hollow(spec.shape, spec.dtype)
        entries.append(Entry(name, site_of_parameter(name), source, order=order))
    return Dump.from_entries(entries, label=label, format="checkpoint")


def _default_notes(side: _Side, target: _Side | None, flavour: Target) -> list[str]:
    """Layers of the source whose defaults differ between the frameworks, and what that does."""
    torch_side = side if side.framework == "torch" else target
    if torch_side is None or (flavour == "torch" and target is None):
        return []
    counts = Counter(torch_side.kinds.values())
    notes = []
    for kind, count in counts.items():
        others = counterparts(kind, flavour if flavour != "torch" else "mindspore.nn")
        for difference in default_differences(kind, others[0] if others else None):
            if not difference.cause:  # no known cause of differing results
                continue
            arguments = dict.fromkeys(
                filter(None, (difference.torch_argument, difference.mindspore_argument))
            )
            notes.append(
                f"{kind} ({count}): {' / '.join(arguments)} is {difference.torch_default} in "
                f"torch, {difference.mindspore_default} in {difference.mindspore_kind} by default: "
                f"{difference.effect}"
            )
    if len(notes) > _MOST_NOTES:
        more = len(notes) - _MOST_NOTES
        notes[_MOST_NOTES:] = [f"{more} more defaults differ: convert.rules.default_differences()"]
    return notes
