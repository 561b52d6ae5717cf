"""Roles of a checkpoint's tensors by those beside them: averages, states, factors, quantized."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

import numpy as np

from troubleshooter_nb.dump import ArraySource, Dump
from troubleshooter_nb.errors import ReadError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.companions import are_moments, are_positive, follow
from troubleshooter_nb.metrics.floats import arithmetic_of
from troubleshooter_nb.naming import Role, Site
from troubleshooter_nb.naming.compressed import Fact, Part, adapters_of, quantized_of
from troubleshooter_nb.naming.mirrors import Mirror, mirrors_of
from troubleshooter_nb.naming.parameters import is_like_a_layer, role_of_weight
from troubleshooter_nb.thresholds import COMPANION_VALUES, COMPANIONS_READ

# States that are nowhere negative.
_SQUARES = ("exp_avg_sq", "max_exp_avg_sq", "square_avg", "sum", "exp_inf", "acc_delta")
_WEIGHTS = ("parameter", "buffer")
_FEWEST_UNNAMED = 2  # pairs of a set that no word tells


def companions(
    names: Sequence[str],
    sites: Sequence[Site],
    sources: Sequence[ArraySource | None],
    places: Sequence[tuple[int, int]],
) -> tuple[list[Site], list[str]]:
    """The sites, where what lies beside a tensor tells its role, and what was set aside.

    Parameters
    ----------
    names, sites, sources, places
        Of all tensors; a place is a step and a rank.

    Returns
    -------
    list of Site
        Averages have the path of the weight they are of; states of an optimizer that as well, and
        the state as slot; factors and quantized parts have the path of their weight, and the part
        as slot.
    list of str
        A message for each role, with the names.
    """
    found = list(sites)
    _take_back(names, found)
    rows: dict[tuple[int, int], dict[str, int]] = defaultdict(dict)
    for row, (name, site, place) in enumerate(zip(names, found, places, strict=True)):
        # Of arrays in memory, a name that is none of a weight's may be made of one.
        is_unknown = not site.role and site.kind == "memory"
        if (site.role in _WEIGHTS or is_unknown) and site.direction != "backward":
            rows[place][name] = row
    said: dict[str, dict[str, None]] = defaultdict(dict)
    for of_place in rows.values():
        weights = {name for name, row in of_place.items() if found[row].role in _WEIGHTS}
        held = {name: sources[row] for name, row in of_place.items()}
        neighbours = _Neighbours(held, weights)
        for name, (role, weight, slot) in neighbours.roles().items():
            path = found[of_place[weight]].path if weight in of_place else weight
            kind = found[of_place[name]].kind
            found[of_place[name]] = Site(kind, path, role=role, slot=slot)
            said[role][name] = None
    ids = {
        "average": "checkpoints.averages",
        "optimizer_state": "checkpoints.states",
        "adapter": "checkpoints.adapters",
        "quantized": "checkpoints.quantized",
    }
    return found, [
        Message(ids[role], count=len(said[role]), names=[*said[role]])
        for role in ids
        if role in said
    ]


def _take_back(names: Sequence[str], sites: list[Site]) -> None:
    """Give layers that are called as states or averages are their own role again.

    These lie beside what they are of, and an average of a network has as many tensors as that.
    """
    known = {*names}
    roles = Counter(site.role for site in sites)
    is_part = 2 * roles["average"] < roles["parameter"]
    for row, (name, site) in enumerate(zip(names, sites, strict=True)):
        if site.path in known or not name.endswith(f".{site.path}"):
            continue
        is_state = site.role == "optimizer_state" and is_like_a_layer(name)
        is_average = site.role == "average" and is_part
        if is_average or (is_state and (roles["parameter"] or "." not in site.path)):
            sites[row] = Site(site.kind, name, role=role_of_weight(name))


def with_companions(dump: Dump) -> Dump:
    """A dump of tensors by name, where neighbours tell roles; see `companions`."""
    columns = ("kind", "path", "call", "direction", "role", "slot")
    sites = [Site(*facts) for facts in dump.columns.rows(*columns)]
    places = list(dump.columns.rows("step", "rank"))
    found, notes = companions(dump.names, sites, dump.sources, places)
    if not notes:
        return dump
    index = dump.index
    for column in ("path", "role", "slot"):
        values = np.array([getattr(site, column) for site in found], index[column].dtype)
        index = index.assign({column: (index[column].dims, values, index[column].attrs)})
    return replace(dump, index=index, notes=(*dump.notes, *notes))


_Found = tuple[Role, str, str]  # role, name of the weight, slot


class _Neighbours:
    """The tensors of one step and rank that have no role but that of a weight."""

    def __init__(self, sources: Mapping[str, ArraySource | None], weights: Set[str]) -> None:
        self._weights = weights
        self._sources = {name: one for name, one in sources.items() if one is not None}
        self._shapes = {
            name: None if one is None else tuple(one.shape) for name, one in sources.items()
        }
        self._found: dict[str, _Found] = {}

    def roles(self) -> dict[str, _Found]:
        """What neighbours tell, by name."""
        facts = {name: _fact(one) for name, one in self._sources.items()}
        quantized, scaled = quantized_of(facts)
        for name, scales in scaled.items():
            if values := self._positive(scales):
                weight = f"{name.rpartition('.')[0]}.weight"
                slots = {one: Part(weight, one.rpartition(".")[2]) for one in (name, *values)}
                quantized |= slots
        self._put("quantized", quantized)
        self._put("adapter", adapters_of(facts))
        self._mirrors()
        return self._found

    def _put(self, role: Role, parts: Mapping[str, Part]) -> None:
        for name, part in parts.items():
            self._found.setdefault(name, (role, part.weight, part.slot))

    def _positive(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if are_positive(self._values([name]))]

    def _mirrors(self) -> None:
        mirrors = mirrors_of(self._shapes)
        unsure: list[Mirror] = []
        for mirror in mirrors:
            if mirror.is_average:
                self._take("average", mirror)
            elif mirror.state:
                self._take("optimizer_state", mirror, mirror.state)
            else:
                unsure.append(mirror)
        unsure = [one for one in unsure if one.is_whole and len(one.pairs) >= _FEWEST_UNNAMED]
        states = []
        for mirror in unsure:
            pairs = self._free(mirror)
            if len(pairs) < len(mirror.pairs):
                continue
            if follow(self._both(list(pairs.items()))):
                self._take("average", mirror)
            else:
                states.append(mirror)
        self._states(states)

    def _states(self, mirrors: Sequence[Mirror]) -> None:
        """States of optimizers that no word makes sure: two moments, or what a word says likely."""
        for second in mirrors:
            of = {weight: name for name, weight in second.pairs.items()}
            for first in mirrors:
                if first is second or {*first.pairs.values()} != {*of}:
                    continue
                pairs = [(name, of[weight]) for name, weight in first.pairs.items()]
                if are_moments(self._both(pairs)):
                    self._take("optimizer_state", first, "exp_avg")
                    self._take("optimizer_state", second, "exp_avg_sq")
        for mirror in mirrors:
            slot = mirror.likely_state
            if not slot or mirror.instead or not (mirror.of_optimizer or self._is_of_all(mirror)):
                continue
            if slot not in _SQUARES or self._are_squares(mirror):
                self._take("optimizer_state", mirror, slot)

    def _is_of_all(self, mirror: Mirror) -> bool:
        """Whether it mirrors most of the tensors that have no other role, as states do."""
        free = self._shapes.keys() - self._found.keys()
        return 4 * len(mirror.pairs) >= len(free)

    def _are_squares(self, mirror: Mirror) -> bool:
        return are_positive(self._values([*mirror.pairs]), or_zero=True)

    def _free(self, mirror: Mirror) -> dict[str, str]:
        """The pairs of which neither has a role by now."""
        return {
            name: weight
            for name, weight in mirror.pairs.items()
            if weight in self._weights and name not in self._found and weight not in self._found
        }

    def _take(self, role: Role, mirror: Mirror, slot: str = "") -> None:
        pairs = self._free(mirror)
        weights = {*pairs.values()}
        for name, weight in pairs.items():
            if name not in weights:
                self._found[name] = role, weight, slot

    def _both(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Values of some of the pairs; none where one cannot be read."""
        floats = [
            pair for pair in pairs if all(_is_float(self._sources.get(name)) for name in pair)
        ]
        every = max(len(floats) // COMPANIONS_READ, 1)
        chosen = floats[::every]
        left, right = (self._values([pair[side] for pair in chosen]) for side in (0, 1))
        return list(zip(left, right, strict=True)) if len(left) == len(right) else []

    def _values(self, names: Sequence[str]) -> list[np.ndarray]:
        """The first values of tensors, as float64; nothing at all where one cannot be read."""
        found = []
        for name in names[:COMPANIONS_READ]:
            source = self._sources[name]
            try:
                size = min(math.prod(source.shape), COMPANION_VALUES)
                found.append(np.asarray(source.read(0, size)).astype(np.float64))
            except (ReadError, OSError, ValueError):
                return []
        return [one for one in found if one.size]


def _is_float(source: ArraySource | None) -> bool:
    return source is not None and arithmetic_of(source.dtype) not in ("integer", "complex")


def _fact(source: ArraySource) -> Fact:
    is_integer = arithmetic_of(source.dtype) == "integer" and source.dtype.kind != "b"
    is_narrow = source.dtype.itemsize == 1 and source.dtype.kind != "b"
    return Fact(tuple(source.shape), is_integer, is_narrow)
