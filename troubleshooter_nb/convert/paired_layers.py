"""Which layers of two networks belong together, and what they are set to otherwise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from troubleshooter_nb.analysis.layer_kinds import kinds_differ, layer_kind, one_may_replace
from troubleshooter_nb.frameworks import LayerFacts
from troubleshooter_nb.frameworks.settings import (
    Settings,
    depends_on_input,
    is_known,
    settings_of,
    written,
)
from troubleshooter_nb.messages import Message
from troubleshooter_nb.weight_map import WeightMap

# Sizes, which the shapes of the weights tell as well: where they differ, their row says so.
_SIZES = frozenset(
    "in_features out_features num_features in_channels out_channels num_channels normalized_shape "
    "num_embeddings embedding_dim input_size embed_dim kdim vdim".split()
)
_PAIRS_AT_ONE_PLACE = ("pool", "dropout", "loss", "softmax")


@dataclass(frozen=True, eq=False)
class NetworkLayers:
    """The layers of a network that compute by themselves.

    Attributes
    ----------
    framework : str
    layers : tuple of LayerFacts
        Of the whole network, parents first. What lies in a layer whose settings are known counts
        as a part of that layer.
    is_training : bool
        The mode of the network.
    """

    framework: str
    layers: tuple[LayerFacts, ...]
    is_training: bool

    @cached_property
    def leaves(self) -> dict[str, LayerFacts]:
        """By first path, in the order of the network."""
        kept: dict[str, LayerFacts] = {}
        outer = ""
        for layer in self.layers:
            if outer and layer.path.startswith(f"{outer}."):
                continue
            outer = layer.path if is_known(layer.kind, self.framework) else ""
            kept[layer.path] = layer
        parents = {path[:at] for path in kept for at, sign in enumerate(path) if sign == "."}
        return {path: layer for path, layer in kept.items() if path and path not in parents} or kept

    @cached_property
    def owners(self) -> dict[str, str]:
        """The path of the leaf that each tensor lies in, by the tensor's name."""
        found: dict[str, str] = {}
        ends = {path: layer for path, layer in self.leaves.items()}
        for layer in self.layers:
            path = layer.path
            while path not in ends and path:
                path = path.rpartition(".")[0]
            if path in ends:
                for entry in layer.entries:
                    found.update(dict.fromkeys((entry.name, *entry.other_names), path))
        return found


def paired_layers(
    weight_map: WeightMap, source: NetworkLayers, target: NetworkLayers
) -> list[tuple[LayerFacts, LayerFacts]]:
    """The layers that belong together, in the order of the source.

    Rows of the map bring layers with tensors together. The others stand between these: at the same
    place, of the same class, or as the only ones there that do such work.
    """
    pairs = _by_rows(weight_map, source, target)
    _between(pairs, source, target)
    return [
        (layer, target.leaves[pairs[path]])
        for path, layer in source.leaves.items()
        if path in pairs
    ]


def _by_rows(weight_map: WeightMap, source: NetworkLayers, target: NetworkLayers) -> dict[str, str]:
    found: dict[str, str] = {}
    taken: set[str] = set()
    for row in weight_map.rows:
        if len(row.sources) != 1 or len(row.targets) != 1:
            continue
        mine, theirs = source.owners.get(row.sources[0]), target.owners.get(row.targets[0])
        if mine is not None and theirs is not None and mine not in found and theirs not in taken:
            found[mine] = theirs
            taken.add(theirs)
    return found


def _between(pairs: dict[str, str], source: NetworkLayers, target: NetworkLayers) -> None:
    """Add the layers between those that are paired."""
    behind = _behind(target, set(pairs.values()))
    places = _containers(pairs)
    for anchor, mine in _behind(source, set(pairs)).items():
        theirs = behind.get(pairs[anchor] if anchor else "", [])
        for fits in _ways(source, target, places):
            for path in mine:
                free = [one for one in theirs if one not in pairs.values() and fits(path, one)]
                if path in pairs or not free:
                    continue
                rivals = [one for one in mine if one not in pairs and fits(one, free[0])]
                if len(free) == len(rivals):
                    pairs[path] = free[0]


def _behind(side: NetworkLayers, anchors: set[str]) -> dict[str, list[str]]:
    """The layers that follow each anchor before the next one; those before the first by ""."""
    found: dict[str, list[str]] = defaultdict(list)
    last = ""
    for path in side.leaves:
        if path in anchors:
            last = path
        else:
            found[last].append(path)
    return found


def _ways(
    source: NetworkLayers, target: NetworkLayers, places: Mapping[str, str]
) -> Iterator[Callable[[str, str], bool]]:
    """What may bring two layers together, the surest first."""

    def same_work(mine: str, theirs: str) -> bool:
        return _may_be_one(_bare(source, mine), _bare(target, theirs))

    def same_place(mine: str, theirs: str) -> bool:
        front, _, name = mine.rpartition(".")
        place = f"{places.get(front, front)}.{name}".removeprefix(".")
        return place == theirs and same_work(mine, theirs)

    def same_class(mine: str, theirs: str) -> bool:
        (left, sure), (right, certain) = (
            layer_kind(_bare(side, path)) for side, path in ((source, mine), (target, theirs))
        )
        return sure and certain and left == right

    yield from (same_place, same_class, same_work)


def _bare(side: NetworkLayers, path: str) -> str:
    """The class of a layer as `layer_kind` takes it; empty for one of the user's."""
    kind = side.leaves[path].kind
    prefix, _, name = kind.rpartition(".")
    return name if bool(prefix) == (side.framework == "mindspore") else ""


def _may_be_one(left: str, right: str) -> bool:
    """Whether two classes may stand for one layer: equal, or doing the same kind of work."""
    (mine, sure), (theirs, certain) = layer_kind(left), layer_kind(right)
    if not (sure and certain):
        return False
    alike = any(word in mine and word in theirs for word in _PAIRS_AT_ONE_PLACE)
    return mine == theirs or alike or one_may_replace(left, right)


def _containers(pairs: Mapping[str, str]) -> dict[str, str]:
    """What holds paired layers in the source, to what holds their partners."""
    found: dict[str, str] = {}
    for mine, theirs in pairs.items():
        while mine and theirs:
            mine, theirs = mine.rpartition(".")[0], theirs.rpartition(".")[0]
            found.setdefault(mine, theirs)
            if mine.rpartition(".")[2] != theirs.rpartition(".")[2]:
                break
    return found


def difference_notes(
    weight_map: WeightMap, source: NetworkLayers, target: NetworkLayers
) -> list[str]:
    """What two networks are set to otherwise, once for all layers of which it is true.

    Parameters
    ----------
    weight_map : WeightMap
        With rows from `source` to `target`.

    Returns
    -------
    list of str
        Messages, of classes, of settings in torch's words, and of the mode at the end.
    """
    said: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = {}
    for mine, theirs in paired_layers(weight_map, source, target):
        place = mine.path if mine.path == theirs.path else f"{mine.path} / {theirs.path}"
        for id, facts in _differences(mine, theirs, source, target):
            said.setdefault((id, tuple(facts.items())), []).append(place)
    notes: list[str] = [
        Message(f"weight_maps.{id}", **dict(facts), count=len(places), places=places)
        for (id, facts), places in said.items()
    ]
    if source.is_training != target.is_training:
        side = "source" if source.is_training else "target"
        notes.append(Message(f"weight_maps.{side}_trains"))
    return notes


def _differences(
    mine: LayerFacts, theirs: LayerFacts, source: NetworkLayers, target: NetworkLayers
) -> Iterator[tuple[str, dict[str, str]]]:
    classes = _bare(source, mine.path), _bare(target, theirs.path)
    if all(classes) and kinds_differ(*classes):
        yield "other_class", dict(zip(("ours", "theirs"), (mine.kind, theirs.kind), strict=True))
        return
    sides = (mine, source.framework), (theirs, target.framework)
    ours, others = (settings_of(one.kind, one.settings, framework) for one, framework in sides)
    said = {"kind": mine.kind}
    for name in ours:
        if name in others and name not in _SIZES and ours[name] != others[name]:
            texts = [
                written(one.kind, one.settings, name, framework) or f"{name}={value!r}"
                for (one, framework), value in zip(sides, (ours[name], others[name]), strict=True)
            ]
            facts = {**said, "ours": texts[0], "theirs": texts[1]}
            plain = _is_plain(texts[0], ours[name]) and _is_plain(texts[1], others[name])
            if plain:
                yield "setting_differs", facts
            else:
                same = {"name": name, "left": repr(ours[name]), "right": repr(others[name])}
                yield "setting_means", {**facts, **same}
    if _padding_is_open(sides, (ours, others)):
        texts = [written(one.kind, one.settings, "padding", framework) for one, framework in sides]
        yield "padding_open", {**said, "ours": texts[0], "theirs": texts[1]}


def _is_plain(text: str, value: Any) -> bool:
    """Whether a setting is written with the value that it has in torch's words."""
    return text.partition("=")[2] == repr(value)


def _padding_is_open(sides: Sequence[tuple[LayerFacts, str]], known: Sequence[Settings]) -> bool:
    """Whether the paddings of two layers are equal only for some inputs."""
    are_open = [depends_on_input(one.kind, one.settings, framework) for one, framework in sides]
    if not any(are_open):
        return False
    return not all(are_open) and any("padding" in settings for settings in known)
