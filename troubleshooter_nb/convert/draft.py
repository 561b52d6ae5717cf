"""Draft a weight map: by the rules of each layer, then by names, shapes and values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, get_args

import numpy as np

from troubleshooter_nb.analysis.align import pair_dumps
from troubleshooter_nb.analysis.mapped import unread_of
from troubleshooter_nb.convert.kinds import (
    batch_norm_of,
    framework_of,
    guess_kind,
    layers_of,
    transformer_layers,
)
from troubleshooter_nb.convert.networks import dump_of_network, specs_of
from troubleshooter_nb.convert.paired_layers import NetworkLayers, difference_notes
from troubleshooter_nb.convert.rules import (
    Rule,
    Target,
    counterparts,
    default_differences,
    rules_for,
    without_counterpart,
)
from troubleshooter_nb.dump import ArraySource, Dump, Entry, SizedByShape
from troubleshooter_nb.errors import ReadError, WeightMapError
from troubleshooter_nb.formats import as_dump
from troubleshooter_nb.frameworks import LayerFacts, adapter_of_network
from troubleshooter_nb.messages import Message, joined
from troubleshooter_nb.naming import ASIDE_ROLES, Site, canonical_parameter
from troubleshooter_nb.naming.closeness import closest
from troubleshooter_nb.thresholds import LEAST_DRAFTED, PROVED_BY_NAMES
from troubleshooter_nb.weight_map import (
    Parts,
    Spec,
    Transform,
    WeightMap,
    WeightRow,
    is_part,
    reparametrized,
)

GUESSED = "weight_maps.paired_by"  # in the note of a row that names do not prove
_MOST_NOTES = 60
# Roles of what is set aside unless both sides have it: a network may own an average of another.
_WANTED = ("average", "adapter")
_MAKINGS = ("adapter", "quantized")  # what weights are made of
_SET_ASIDE = {
    "optimizer_state": "weight_maps.aside_optimizer_state",
    "step_counter": "weight_maps.aside_step_counter",
    "learning_rate": "weight_maps.aside_learning_rate",
    "average": "weight_maps.aside_average",
    "adapter": "weight_maps.aside_adapter",
    "quantized": "weight_maps.aside_quantized",
}
Shape = tuple[int, ...]


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
    ways: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # name -> all its paths
    tied: tuple[tuple[str, ...], ...] = ()  # names of one and the same tensor
    hints: Mapping[str, str] = field(default_factory=dict)  # layer path -> what else it may be
    parts: Mapping[str, Parts] = field(default_factory=dict)  # weights stored as parts
    network: NetworkLayers | None = None  # where it is one


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
        paired by names, by the places in a stack of layers that their words say (also packed q, k
        and v, gates, and stacked experts), by shapes and order, with a note. Where both sides have
        values, those find what is transposed, joined or split; rows that names made and values
        contradict keep a note of what was found instead, and `WeightMap.suggestions` where a
        transform does it. Values that a network as target has by chance count neither for nor
        against the rows. Of two networks, settings, classes and modes in which paired layers differ
        are notes, once for all layers of which they are true; of one, layers whose defaults differ
        between the frameworks.

    Raises
    ------
    WeightMapError
        If the source has no weights, or `target` is none of these.
    FormatError, OSError
        If a file cannot be opened.
    """
    from_side = _side(source, "source")
    if not from_side.specs:
        raise WeightMapError(Message("weight_maps.nothing_to_map", label=from_side.label))
    to_side: _Side | None = None
    if target is None:
        flavour: Target = "mindspore.nn" if from_side.framework == "torch" else "torch"
    elif isinstance(target, str) and (named := _flavour_of(target)):
        flavour = named
    else:
        _no_word(target)
        to_side = _side(target, "target")
        from_side, to_side = _with_wanted(from_side, to_side), _with_wanted(to_side, from_side)
        flavour = _flavour(to_side)
        from_side = _informed(from_side, to_side, flavour)
    rows, unsupported = _by_rules(from_side, flavour, to_side)
    rows += _other_ways(rows, from_side, flavour, to_side)
    drafted = WeightMap(
        tuple(rows),
        from_side.specs,
        None if to_side is None else to_side.specs,
        from_side.label,
        flavour if to_side is None else to_side.label,
    )
    if to_side is not None:
        drafted = _fitted(drafted)
        drafted = drafted.with_rows([*drafted.rows, *_tied_rows(drafted, to_side)])
        if from_side.dump is not None and to_side.dump is not None:
            # Here, for what they bring from `metrics` is slow to import.
            from troubleshooter_nb.convert.by_values import with_values
            from troubleshooter_nb.convert.evidence import with_evidence

            drafted = with_values(drafted, from_side.dump, to_side.dump)
            drafted = with_evidence(drafted, from_side.dump, to_side.dump)
            drafted = _without_chance(drafted, to_side)
        drafted = _without_other_names(drafted, from_side)
    drafted = drafted.keep(*_counters(drafted.unmatched_targets))
    # A norm that is folded away has no count of its batches.
    drafted = drafted.drop(*_counters(drafted.unmatched_sources))
    if from_side.dump is not None:
        drafted = replace(_with_makings(drafted, from_side), unread=unread_of(from_side.dump))
    notes = [*drafted.notes, *from_side.notes, *(to_side.notes if to_side else ())]
    notes += unsupported
    notes += _guess_notes(from_side, flavour, to_side)
    notes += _part_notes(drafted, to_side)
    if from_side.network and to_side is not None and to_side.network:
        notes += difference_notes(drafted, from_side.network, to_side.network)
    else:
        notes += _default_notes(from_side, to_side, flavour)
    return replace(drafted, notes=tuple(notes))


def held_against(weight_map: WeightMap, source: Any, target: Any) -> WeightMap:
    """A map over what both sides hold, with what their values say of its rows.

    Parameters
    ----------
    weight_map : WeightMap
        As read from a file.
    source, target
        As of `draft_weight_map`.

    Raises
    ------
    WeightMapError, FormatError, OSError
        As `draft_weight_map`.
    """
    sides = _side(source, "source"), _side(target, "target")
    from_side, to_side = _with_wanted(*sides), _with_wanted(*sides[::-1])
    known = replace(weight_map, source=from_side.specs, target=to_side.specs)
    if from_side.dump is None or to_side.dump is None:
        return known
    known = replace(_with_makings(known, from_side), unread=unread_of(from_side.dump))
    if known.problems():
        return known
    # Here, for what it brings from `metrics` is slow to import.
    from troubleshooter_nb.convert.evidence import with_evidence

    return with_evidence(known, from_side.dump, to_side.dump)


def _without_chance(drafted: WeightMap, target: _Side) -> WeightMap:
    """The map where values that a network has before it is filled count neither for nor against."""
    if not target.is_network:
        return drafted
    unrelated = Message("weight_maps.values_unrelated")
    to_fill = Message("weight_maps.target_to_fill")
    notes = (to_fill if note == unrelated else note for note in drafted.notes)
    return replace(drafted, notes=tuple(notes))


def _flavour_of(text: str) -> Target | None:
    known: dict[str, Target] = {"mindspore": "mindspore.nn", "mint": "mindspore.mint"}
    known |= {name: name for name in get_args(Target)}
    return known.get(text)


def _no_word(target: object) -> None:
    """Raise for a text that is neither a framework nor a file."""
    if not isinstance(target, str) or not target.strip():
        return
    path = Path(target)
    if path.suffix or len(path.parts) > 1 or path.exists():
        return
    words = ["mindspore", "mint", *get_args(Target)]
    said = {"target": target, "known": words, "closest": closest(target, words)}
    raise WeightMapError(Message("weight_maps.no_framework", **said))


def _flavour(side: _Side) -> Target:
    """The flavour most layers of a known side have."""
    if side.framework == "torch":
        return "torch"
    mint = sum(kind.startswith("mint.") for kind in side.kinds.values())
    plain = sum(kind.startswith("nn.") for kind in side.kinds.values())
    return "mindspore.mint" if mint > plain else "mindspore.nn"


def _with_wanted(side: _Side, other: _Side) -> _Side:
    """A side with averages and adapters that the other has under the same name: they are wanted."""
    if side.dump is None:
        return side
    theirs = {*other.specs, *(other.dump.names if other.dump is not None else ())}
    wanted = {
        name: spec
        for name, spec in _specs_of(side.dump, _WANTED).items()
        if name in theirs and name not in side.specs
    }
    return replace(side, specs={**side.specs, **wanted}) if wanted else side


def _with_makings(known: WeightMap, side: _Side) -> WeightMap:
    """The map over what its source set aside though weights are made of it, as well.

    What of it no row takes has no place then: a quantised weight, an adapter that is not merged.
    """
    if side.dump is None:
        return known
    return replace(known, source={**known.source, **_specs_of(side.dump, _MAKINGS)})


def _specs_of(dump: Dump, wanted: Collection[str]) -> dict[str, Spec]:
    """The tensors of some roles."""
    roles = dump.index["role"].values.tolist()
    return {
        name: Spec(source.shape, source.dtype)
        for name, source, role in zip(dump.names, dump.sources, roles, strict=True)
        if role in wanted and source is not None
    }


def _counters(unmatched: Iterable[str]) -> list[str]:
    """Those without a partner because only torch's norms have such a thing."""
    return [name for name in unmatched if name.rpartition(".")[2] in without_counterpart()]


def _side(value: Any, argument: str) -> _Side:
    adapter = adapter_of_network(value)
    if adapter is not None:
        layers = adapter.layers(value)
        side = _side_of_network(layers, type(value).__name__)
        network = NetworkLayers(adapter.NAME, tuple(layers), adapter.is_training(value))
        dump = dump_of_network(adapter, value, layers)
        tied = _groups((*side.tied, *(dump.tied if dump is not None else ())))
        return replace(side, dump=dump, network=network, tied=tied)
    if isinstance(value, str) and not value.strip():
        raise WeightMapError(Message("weight_maps.empty_argument", argument=argument))
    if not isinstance(value, (Dump, str, PathLike, Mapping)):
        got = {"argument": argument, "got": type(value).__name__}
        raise WeightMapError(Message("weight_maps.other_argument", **got))
    return _side_of_dump(as_dump(value, argument))


def _side_of_network(layers: Sequence[LayerFacts], label: str) -> _Side:
    specs = specs_of(layers)
    kinds, owners = {}, {}
    ways: dict[str, list[str]] = {}
    tied: dict[str, list[str]] = {}
    for layer in layers:
        for path in (layer.path, *layer.aliases):
            kinds[path] = layer.kind
        for entry in layer.entries:
            own = f"{layer.path}.{entry.leaf}" if layer.path else entry.leaf
            paths = [f"{p}.{entry.leaf}" if p else entry.leaf for p in (layer.path, *layer.aliases)]
            ways.setdefault(entry.name, []).extend(paths)
            tied.setdefault(entry.name, []).extend((entry.name, *entry.other_names))
            if entry.name != own:
                owners[entry.name] = own
    is_mindspore = any(kind.startswith(("nn.", "mint.nn.")) for kind in kinds.values())
    framework = "mindspore" if is_mindspore else "torch"
    return _Side(
        label,
        specs,
        kinds,
        framework,
        owners,
        is_network=True,
        ways={name: tuple(dict.fromkeys(paths)) for name, paths in ways.items()},
        tied=_groups(tied.values()),
        parts={} if is_mindspore else reparametrized(specs),
    )


def _groups(names: Iterable[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """Several names of one tensor each."""
    groups = (tuple(dict.fromkeys(group)) for group in names)
    return tuple(group for group in groups if len(group) > 1)


def _side_of_dump(dump: Dump) -> _Side:
    steps = set(dump.columns.rows("step", "rank"))
    if len(steps) > 1:
        held = {"label": dump.label, "count": len(steps)}
        raise WeightMapError(Message("weight_maps.several_places", **held))
    roles = dump.index["role"].values.tolist()
    # A file of nothing but factors of adapters is there for these.
    kept = {"adapter"} if set(roles) <= {"adapter", "buffer"} else set()
    specs: dict[str, Spec] = {}
    aside: Counter[str] = Counter()
    for name, source, role in zip(dump.names, dump.sources, roles, strict=True):
        if role in ASIDE_ROLES and role not in kept:
            aside[role] += 1
        elif source is not None:
            specs[name] = Spec(source.shape, source.dtype)
    shapes = {name: spec.shape for name, spec in specs.items()}
    framework = framework_of(shapes, dump.format)
    parts = reparametrized(specs) if framework == "torch" else {}
    kinds, guessed, hints = {}, set(), {}
    layers = layers_of(_whole(shapes, parts))
    for path, leaves in layers.items():
        guess = guess_kind(path, leaves, framework)
        if guess is None:
            continue
        if guess.kind == "BatchNorm2d":
            guess = batch_norm_of(path, layers)
        kinds[path] = guess.kind
        if not guess.sure:
            guessed.add(path)
            hints[path] = guess.hint
    for path in transformer_layers(layers, framework):
        kinds[path] = f"{'' if framework == 'torch' else 'nn.'}TransformerEncoderLayer"
        guessed.add(path)
    kinds_aside = [Message(_SET_ASIDE[role], count=count) for role, count in aside.items()]
    said = {"label": dump.label, "count": aside.total(), "kinds": kinds_aside}
    notes = [Message("weight_maps.left_aside", **said)] if aside else []
    return _Side(
        dump.label,
        specs,
        kinds,
        framework,
        {},
        frozenset(guessed),
        notes=tuple(notes),
        dump=dump,
        tied=_groups([name for name in group if name in specs] for group in dump.tied),
        hints=hints,
        parts=parts,
    )


def _whole(shapes: Mapping[str, Shape], parts: Mapping[str, Parts]) -> dict[str, Shape]:
    """The shapes with each weight that is stored as parts in their place."""
    whole_of = {name: whole for whole, stored in parts.items() for name in stored.names}
    whole: dict[str, Shape] = {}
    for name, shape in shapes.items():
        if name not in whole_of:
            whole[name] = shape
        elif whole_of[name] not in whole:
            stored = parts[whole_of[name]]
            whole[whole_of[name]] = shapes[stored.names[stored.form == "weight_norm"]]
    return whole


def _informed(side: _Side, target: _Side, flavour: Target) -> _Side:
    """The side with guessed layers as the target has them at the same place."""
    if side.is_network:
        return side
    kinds, guessed = dict(side.kinds), set(side.guessed)
    back: Target = "torch" if side.framework == "torch" else "mindspore.nn"
    for path, kind in side.kinds.items():
        front = f"{path}." if path else ""
        theirs = target.kinds.get(path, "") if target.is_network else ""
        if theirs and side.framework != target.framework and path in side.guessed:
            likely = counterparts(theirs, back)
            if likely and kind.rpartition(".")[2] != likely[0].rpartition(".")[2]:
                kinds[path] = likely[0]
                guessed.discard(path)
            continue
        is_norm = "BatchNorm" in kind and side.framework == "torch"
        if is_norm and f"{front}bn2d.moving_mean" in target.specs:
            kinds[path] = "BatchNorm3d"
            guessed.discard(path)
    return replace(side, kinds=kinds, guessed=frozenset(guessed))


def _by_rules(
    side: _Side, flavour: Target, target: _Side | None
) -> tuple[list[WeightRow], list[str]]:
    """A row for every tensor of the source by the rules of its layer; notes of those without."""
    rows: list[WeightRow] = []
    unsupported: dict[Message, list[str]] = {}
    whole_of = {name: whole for whole, stored in side.parts.items() for name in stored.names}
    for name in side.specs:
        if name in whole_of:
            stored = side.parts[whole_of[name]]
            if name == stored.names[0]:
                rows += _of_parts(side, whole_of[name], stored, flavour, target)
            continue
        own = side.owners.get(name, name)
        path, rule = _rule_of(side, own, flavour, target)
        if rule is None:
            rows.append(WeightRow((name,), (own,)))
            continue
        kind = side.kinds[path]
        note = _guess_of(side, path, flavour)
        if rule.transform is None:
            why = Message("weight_maps.no_counterpart", kind=kind, flavour=flavour)
            if rule.note:
                why = Message("weight_maps.in_brackets", said=why, note=rule.note)
            unsupported.setdefault(why, []).append(name)
        elif rule.target_leaf is None:
            rows.append(WeightRow((name,), (), Transform("drop"), kind, note=note))
        else:
            wanted = f"{path}.{rule.target_leaf}" if path else rule.target_leaf
            rows.append(WeightRow((name,), (wanted,), rule.transform, kind, note=note))
    return rows, [
        Message("weight_maps.unsupported", why=why, names=names)
        for why, names in unsupported.items()
    ]


def _guess_of(side: _Side, path: str, flavour: Target) -> str:
    """What the note of a row says about the guessed layer it lies in."""
    if path not in side.guessed:
        return ""
    hint = side.hints.get(path, "") if flavour == "mindspore.nn" else ""
    return joined([Message("weight_maps.guessed", kind=side.kinds[path]), hint])


def _of_parts(
    side: _Side, whole: str, stored: Parts, flavour: Target, target: _Side | None
) -> Iterator[WeightRow]:
    """Rows of a weight that is stored as parts: the parts themselves, or what they make."""
    wanted = None if target is None else target.specs
    if flavour == "torch":
        spelled = {_spelling(name): name for name in wanted or () if is_part(name)}
        kept = {name: spelled.get(_spelling(name), "") for name in stored.names}
        if wanted is None or any(kept.values()):
            for name in stored.names:
                to = name if wanted is None or name in wanted else kept[name]
                yield WeightRow((name,), (to,) if to else (name,))
            return
    path, rule = _rule_of(side, whole, flavour, target)
    kind = side.kinds.get(path, "")
    note = _guess_of(side, path, flavour)
    to, transform = whole, Transform()
    if rule is not None and rule.target_leaf is not None and rule.transform is not None:
        to = f"{path}.{rule.target_leaf}" if path else rule.target_leaf
        transform = rule.transform
    if stored.form == "weight_norm":
        axes = (stored.axis, *transform.arguments)  # with the axis that is put in, if any
        yield WeightRow(stored.names, (to,), Transform("weight_norm", axes), kind, note=note)
        return
    yield WeightRow(stored.names[:1], (to,), transform, kind, note=note)
    part_of = Message("weight_maps.part_of", name=whole)
    for name in stored.names[1:]:
        yield WeightRow((name,), (), Transform("drop"), kind, note=part_of)


def _spelling(name: str) -> str:
    return canonical_parameter(name) or name


def _other_ways(
    rows: Sequence[WeightRow], side: _Side, flavour: Target, target: _Side | None
) -> Iterator[WeightRow]:
    """Rows that take a shared tensor to the other places where torch saves it as well."""
    if target is None and (flavour != "torch" or side.framework == "torch"):
        return
    filled = {name for row in rows for name in row.targets}
    by_source = {row.sources[0]: row for row in rows if len(row.sources) == len(row.targets) == 1}
    for name, ways in side.ways.items():
        row = by_source.get(name)
        for own in ways if row is not None and len(ways) > 1 else ():
            path, rule = _rule_of(side, own, flavour, target)
            leaf = own.rpartition(".")[2] if rule is None else rule.target_leaf
            if leaf is None:
                continue
            to = f"{path}.{leaf}" if path else leaf
            if to in filled or (target is not None and to not in target.specs):
                continue
            filled.add(to)
            transform = rule.transform if rule is not None and rule.transform else Transform()
            note = Message("weight_maps.one_in_source", name=ways[0])
            yield WeightRow((name,), (to,), transform, side.kinds.get(path, ""), note=note)


def _tied_rows(drafted: WeightMap, target: _Side) -> Iterator[WeightRow]:
    """Rows for the names of a tied tensor of the target that no other row fills."""
    of = {name: row for row in drafted.rows if len(row.targets) == 1 for name in row.targets}
    for group in target.tied:
        row = next((of[name] for name in group if name in of), None)
        if row is None or len(row.sources) != 1:
            continue
        note = Message("weight_maps.one_in_target", name=row.targets[0])
        for name in group:
            if name not in of and name in target.specs:
                yield replace(row, targets=(name,), note=note)


def _without_other_names(drafted: WeightMap, source: _Side) -> WeightMap:
    """The map without names that go nowhere of tensors that another name brings."""
    lost, notes = set(drafted.unmatched_sources), []
    for group in source.tied:
        used = [name for name in group if name not in lost]
        if used and len(used) < len(group):
            also = [name for name in group if name in lost]
            notes.append(Message("weight_maps.other_names", names=also, name=used[0]))
            lost -= {*also}
    gone = set(drafted.unmatched_sources) - lost
    kept = {name: spec for name, spec in drafted.source.items() if name not in gone}
    return replace(drafted, source=kept, notes=(*drafted.notes, *notes)) if gone else drafted


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
class _Hollow(SizedByShape):
    """A tensor of which only shape and dtype are known; an `ArraySource` without values."""

    shape: tuple[int, ...]
    dtype: np.dtype

    def files(self) -> tuple[str, ...]:
        return ()

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        raise ReadError(Message("weight_maps.only_shape"))


def _fitted(drafted: WeightMap) -> WeightMap:
    """The map with targets that exist: what the rules did not find is paired by what is left."""
    wanted = drafted.target or {}
    sure: list[WeightRow] = []
    rest: list[WeightRow] = []
    for row in drafted.rows:
        known = not row.targets or all(name in wanted for name in row.targets)
        (sure if known else rest).append(row)
    taken = {name for row in sure for name in row.targets}
    parts = {name for stored in reparametrized(wanted).values() for name in stored.names}
    free = {n: spec for n, spec in wanted.items() if n not in taken and n not in parts}
    named = {row.targets[0]: row for row in rest}
    made = {
        name: row.transform.specs([drafted.source[s] for s in row.sources])[0]
        for name, row in named.items()
    }
    pairing = pair_dumps(_hollow(made, "drafted"), _hollow(free, "target"))
    names = pairing.left.names, pairing.right.names
    matches = [
        (match, names[0][match.left], names[1][match.right])
        for match in pairing.matches()
        if min(match.left, match.right) >= 0 and match.confidence >= LEAST_DRAFTED
    ]
    for match, name, target in matches:
        if match.confidence > PROVED_BY_NAMES:
            sure.append(replace(named.pop(name), targets=(target,)))
            del free[target]
    sure += _at_places(drafted, named, free)
    for match, name, target in matches:
        if name in named and target in free:
            note = Message(GUESSED, method=match.method, confidence=match.confidence)
            row = named.pop(name)
            sure.append(replace(row, targets=(target,), note=joined([row.note, note])))
    return drafted.with_rows(sure)


def _at_places(
    drafted: WeightMap, named: dict[str, WeightRow], free: dict[str, Spec]
) -> list[WeightRow]:
    """Rows that the words of names make of what is left, which is taken from both."""
    from troubleshooter_nb.convert.by_places import rows_by_place

    of_source = {
        row.sources[0]: (name, row)
        for name, row in named.items()
        if len(row.sources) == 1 and row.transform.kind == "copy"
    }
    specs = {source: drafted.source[source] for source in of_source}
    rows = []
    for placed, confidence in rows_by_place(specs, free):
        kinds = {of_source[source][1].layer for source in placed.sources}
        notes = dict.fromkeys(of_source[source][1].note for source in placed.sources)
        guess = Message(GUESSED, method="place", confidence=confidence)
        rows.append(
            replace(
                placed, layer=kinds.pop() if len(kinds) == 1 else "", note=joined([*notes, guess])
            )
        )
        for source in placed.sources:
            del named[of_source[source][0]]
        for target in placed.targets:
            del free[target]
    return rows


def _hollow(specs: Mapping[str, Spec], label: str) -> Dump:
    entries = []
    for order, (name, spec) in enumerate(specs.items()):
        source: ArraySource = _Hollow(spec.shape, spec.dtype)
        entries.append(Entry(name, Site("checkpoint", name, role="parameter"), source, order=order))
    return Dump.from_entries(entries, label=label, format="checkpoint")


def _guess_notes(side: _Side, flavour: Target, target: _Side | None) -> list[str]:
    """What names and shapes of a checkpoint alone cannot tell about its layers."""
    if side.is_network or (target is not None and target.is_network) or flavour == "torch":
        return []
    kinds = Counter(kind for kind in side.kinds.values() if not kind.startswith("Transformer"))
    notes: list[str] = []
    if convolutions := [kind for kind in kinds if kind.startswith("Conv")]:
        counts = [f"{kind} ({kinds[kind]})" for kind in convolutions]
        notes.append(Message("weight_maps.guessed_from_shapes", counts=counts))
    if normed := [kind for kind in kinds if kind.startswith("BatchNorm")]:
        counts = [f"{kind} ({kinds[kind]})" for kind in normed]
        known = flavour != "mindspore.nn" or "BatchNorm3d" in normed
        other = "" if known else Message("weight_maps.else_bn2d")
        notes.append(joined([Message("weight_maps.guessed_from_before", counts=counts), other]))
    shapes = {name: spec.shape for name, spec in side.specs.items()}
    alone = [
        f"{path}.weight" if path else "weight"
        for path, leaves in layers_of(shapes).items()
        if set(leaves) == {"weight"} and len(leaves["weight"]) == 1
    ]
    if alone and flavour == "mindspore.nn":
        notes.append(Message("weight_maps.one_axis_alone", names=alone))
    return notes


def _part_notes(drafted: WeightMap, target: _Side | None) -> list[str]:
    """Weights of the target that are stored as parts, which no weight can fill."""
    if target is None:
        return []
    left = set(drafted.unmatched_targets)
    return [
        Message("weight_maps.target_has_part", name=stored.names[0], cure=stored.cure)
        for stored in target.parts.values()
        if left & set(stored.names)
    ]


def _default_notes(side: _Side, target: _Side | None, flavour: Target) -> list[str]:
    """Layers of the source whose defaults differ between the frameworks, and what that does."""
    torch_side = side if side.framework == "torch" else target
    if torch_side is None or (flavour == "torch" and target is None):
        return []
    counts = Counter(torch_side.kinds.values())
    notes: list[str] = []
    for kind, count in counts.items():
        others = counterparts(kind, flavour if flavour != "torch" else "mindspore.nn")
        for difference in default_differences(kind, others[0] if others else None):
            if not difference.cause:  # no known cause of differing results
                continue
            arguments = dict.fromkeys(
                filter(None, (difference.torch_argument, difference.mindspore_argument))
            )
            defaults = {
                "kind": kind,
                "count": count,
                "arguments": [*arguments],
                "ours": difference.torch_default,
                "theirs": difference.mindspore_default,
                "their_kind": difference.mindspore_kind,
                "effect": difference.effect,
            }
            notes.append(Message("weight_maps.default_differs", **defaults))
    if (more := len(notes) - _MOST_NOTES) > 0:
        notes[_MOST_NOTES:] = [Message("weight_maps.more_defaults", count=more)]
    return notes
