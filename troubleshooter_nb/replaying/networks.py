"""A network at hand: its layers by path, and where a record of another one has them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.align import pair_dumps
from troubleshooter_nb.convert.rules import (
    Rule,
    Target,
    counterparts,
    rules_for,
    without_counterpart,
)
from troubleshooter_nb.dump import Dump, Entry
from troubleshooter_nb.errors import ArgumentTypeError, EntryNotFoundError
from troubleshooter_nb.frameworks import Adapter, adapter_of_network, recording_of, replaying_of
from troubleshooter_nb.frameworks.recording import Owned, SeenLayer
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming.closeness import closest
from troubleshooter_nb.naming.msprobe import (
    MsprobeCall,
    RowName,
    format_msprobe_call,
    format_row_name,
    site_of_msprobe,
)
from troubleshooter_nb.replaying.recorded_calls import RecordedCall
from troubleshooter_nb.table import taken

_PREFIXES = {"Module": "torch", "Cell": "mindspore"}


@dataclass(frozen=True)
class Network:
    """A network and what its framework knows of it.

    Attributes
    ----------
    net : object
    adapter : Adapter
    """

    net: Any
    adapter: Adapter

    @classmethod
    def of(cls, net: Any) -> Network:
        """The network of an object.

        Raises
        ------
        ArgumentTypeError
            If it is none.
        """
        adapter = adapter_of_network(net)
        if adapter is None:
            raise ArgumentTypeError(Message("replays.no_network", type=type(net).__name__))
        recording_of(adapter).check_mode()
        return cls(net, adapter)

    @cached_property
    def layers(self) -> dict[str, SeenLayer]:
        """Layers by path, parents first; of shared ones only the first path."""
        found, _ = recording_of(self.adapter).layers(self.net, "eager")
        return {layer.path: layer for layer in found}

    @cached_property
    def kinds(self) -> dict[str, str]:
        """Classes as tables spell them, by path."""
        try:
            return {facts.path: facts.kind for facts in self.adapter.layers(self.net)}
        except ValueError:  # layers that are still lazy
            return {}

    @cached_property
    def owned(self) -> dict[str, list[Owned]]:
        """Parameters and buffers of each layer itself."""
        recording = recording_of(self.adapter)
        return {path: recording.owned(layer) for path, layer in self.layers.items()}

    @cached_property
    def _inside(self) -> dict[str, list[str]]:
        by_id = {id(layer.module): path for path, layer in self.layers.items()}
        replaying = replaying_of(self.adapter)
        return {
            path: [by_id[id(one)] for one in replaying.inside(layer.module) if id(one) in by_id]
            for path, layer in self.layers.items()
        }

    def inside(self, path: str) -> list[str]:
        """Paths of a layer and of all in it."""
        return self._inside[path]

    def name_of(self, path: str, call: RecordedCall) -> str:
        """What the call of a layer is called in a record of this network."""
        word = recording_of(self.adapter).MODULE_WORD
        layer = self.layers[path].layer
        return format_msprobe_call(MsprobeCall(word, path, layer, "forward", call.number))


def framework_of(call: RecordedCall, otherwise: str) -> str:
    """Whose record a call is of, as its name says."""
    return _PREFIXES.get(call.name.partition(".")[0], otherwise)


def leaf_rule(
    network: Network, path: str, call: RecordedCall, leaf: str
) -> tuple[str, Rule] | None:
    """The recorded leaf of a parameter, and how it gets to this network's framework.

    None where both frameworks are the same, or no rule knows the layer.
    """
    theirs = framework_of(call, network.adapter.NAME)
    if theirs == network.adapter.NAME:
        return None
    kind = network.kinds.get(path, "")
    target: Target = "torch"
    kinds = [f"nn.{call.layer}", f"mint.nn.{call.layer}"]
    if theirs == "torch":
        target = "mindspore.mint" if kind.startswith("mint.") else "mindspore.nn"
        kinds = [call.layer]
    for one in kinds:
        rules = rules_for(one, target)
        for source in rules or ():
            rule = (rules or {})[source]
            if rule.target_leaf == leaf:
                return rule.source_leaf, rule
        if rules and leaf.rpartition("_l")[2][:1].isdigit():  # recurrent layers have many
            return None
    return None


def needs_none(network: Network, leaf: str, call: RecordedCall) -> bool:
    """Whether the other framework has no such tensor, and needs none: a counter of batches."""
    theirs = framework_of(call, network.adapter.NAME)
    return theirs != network.adapter.NAME and leaf.rpartition(".")[2] in without_counterpart()


def recorded_paths(network: Network, dump: Dump, mapping: Any, paths: set[str]) -> dict[str, str]:
    """By path of the network, where the record has that layer.

    Parameters
    ----------
    network : Network
    dump : Dump
    mapping : dict of str to str or None
        Known paths; what lies below follows.
    paths : set of str
        Paths of which the record has calls.

    Raises
    ------
    EntryNotFoundError
        If `mapping` names what neither has.
    """
    if mapping is not None:
        return _mapped(network, mapping, paths)
    if paths <= network.layers.keys():
        return {path: path for path in network.layers}
    left, right = _skeleton(network), _first_calls(dump)
    pairing = pair_dumps(left, right)
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    table = pairing.columns
    both = (table["left_entry"] >= 0) & (table["right_entry"] >= 0)
    for at in np.flatnonzero(both).tolist():
        own = left.columns["path"][int(table["left_entry"][at])]
        votes[str(own)][str(right.columns["path"][int(table["right_entry"][at])])] += 1
    found = {path: each.most_common(1)[0][0] for path, each in votes.items()}
    for path in network.layers:
        if path in paths and path not in found and path not in found.values():
            found[path] = path
    return found | _alike(network, dump, found)


def _alike(network: Network, dump: Dump, found: Mapping[str, str]) -> dict[str, str]:
    """Layers that are still alone, paired by class and sizes of parameters, in their order."""
    own = {p: t for p, t in _tokens_of(network).items() if p not in found}
    theirs = {p: t for p, t in _tokens(dump).items() if p not in found.values()}
    pairs: dict[str, str] = {}
    for token in dict.fromkeys(own.values()):
        here = [path for path, one in own.items() if one == token]
        there = [path for path, one in theirs.items() if one == token]
        if len(here) == len(there):
            pairs |= dict(zip(here, there, strict=True))
    return pairs


_Token = tuple[str, tuple[int, ...]]


def _tokens_of(network: Network) -> dict[str, _Token]:
    facts = recording_of(network.adapter).facts
    found = {}
    for path, layer in network.layers.items():
        kind = network.kinds.get(path, layer.layer)
        sizes = [
            math.prod(facts(one.tensor).shape)
            for one in network.owned[path]
            if one.leaf.rpartition(".")[2] not in without_counterpart()
        ]
        if layer.has_forward:
            found[path] = _word(kind, network.adapter.NAME), tuple(sorted(sizes))
    return found


def _tokens(dump: Dump) -> dict[str, _Token]:
    """By path, the class in torch's word and the sizes of what the layer holds."""
    columns = dump.columns
    sizes: dict[str, dict[str, int]] = defaultdict(dict)
    words: dict[str, str] = {}
    for row in np.flatnonzero((columns["kind"] == "module") & (columns["call"] == 0)).tolist():
        if columns["direction"][row] != "forward":
            continue
        path, slot = str(columns["path"][row]), str(columns["slot"][row])
        theirs = _PREFIXES.get(str(columns["name"][row]).partition(".")[0], "torch")
        layer = str(columns["layer"][row])
        words.setdefault(path, _word(f"nn.{layer}" if theirs == "mindspore" else layer, theirs))
        is_held = columns["role"][row] in ("parameter", "buffer")
        if is_held and slot.rpartition(".")[2] not in without_counterpart():
            sizes[path][slot] = int(columns["size"][row])
    return {path: (word, tuple(sorted(sizes[path].values()))) for path, word in words.items()}


def _word(kind: str, framework: str) -> str:
    """A class in torch's word."""
    others = counterparts(kind, "torch") if framework == "mindspore" else ()
    return others[0] if others else kind.rpartition(".")[2]


def _mapped(network: Network, mapping: Any, paths: set[str]) -> dict[str, str]:
    if not isinstance(mapping, Mapping):
        raise ArgumentTypeError(Message("replays.mapping_kind", given=type(mapping).__name__))
    for own, theirs in mapping.items():
        for path, known in ((own, [*network.layers]), (theirs, sorted(paths))):
            if path not in known and not any(one.startswith(f"{path}.") for one in known):
                hint = closest(str(path), [one for one in known if one])
                said = {"path": repr(path), "closest": hint, "known": [*filter(None, known)][:8]}
                raise EntryNotFoundError(Message("replays.no_path", **said))
    found = {}
    for path in network.layers:
        above = [own for own in mapping if path == own or path.startswith(f"{own}.") or not own]
        own = max(above, key=len, default=None)
        theirs = path if own is None else _below(mapping[own], path[len(own) :].lstrip("."))
        if theirs in paths:
            found[path] = theirs
    return found


def _below(path: str, rest: str) -> str:
    return ".".join(part for part in (path, rest) if part)


def _skeleton(network: Network) -> Dump:
    """A dump of the network before it ran: its layers with their parameters, without values."""
    entries: list[Entry] = []
    word = recording_of(network.adapter).MODULE_WORD
    facts = recording_of(network.adapter).facts
    for path, layer in network.layers.items():
        call = MsprobeCall(word, path, layer.layer, "forward", 0)
        name = format_msprobe_call(call)
        rows = [("parameters", one.leaf, facts(one.tensor)) for one in network.owned[path]]
        for section, slot, fact in [*rows, *([("output", "0", None)] if layer.has_forward else [])]:
            entry = Entry(
                format_row_name(RowName(name, section, slot)),
                site_of_msprobe(call, section, slot),
                order=len(entries),
                dtype=fact.dtype if fact else "float32",
                shape=fact.shape if fact else None,
                layer=layer.layer,
            )
            entries.append(entry)
    return Dump.from_entries(entries, label="net", format="tnb_record", settings={})


def _first_calls(dump: Dump) -> Dump:
    """The first call of each layer, without what it was given."""
    columns = dump.columns
    is_wanted = (columns["kind"] == "module") & (columns["direction"] == "forward")
    is_wanted &= (columns["call"] == 0) & (columns["role"] != "input")
    if is_wanted.any():
        is_wanted &= columns["step"] == columns["step"][is_wanted].min()
        is_wanted &= columns["rank"] == columns["rank"][is_wanted].min()
    rows = np.flatnonzero(is_wanted)
    sources = tuple(dump.sources[row] for row in rows)
    return replace(dump, index=taken(dump.index, "entry", rows), sources=sources)
