"""Which entry of a reference is the partner of what a run reads and gives, before it has run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from troubleshooter_nb.analysis.align import MappingLike, pair_dumps
from troubleshooter_nb.dump import Dump, Entry
from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.formats.record_entries import name_of_call
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming import Site
from troubleshooter_nb.naming.hooks import RECORDED_SAMPLE
from troubleshooter_nb.naming.msprobe import (
    MsprobeCall,
    RowName,
    format_msprobe_call,
    format_row_name,
    parse_msprobe_call,
    parse_row_name,
    site_of_msprobe,
)
from troubleshooter_nb.shapes import Shape
from troubleshooter_nb.table import taken

_COLUMNS = ("kind", "path", "call", "direction", "role", "slot")
_KINDS = ("module", "api", "debug")


class Place(NamedTuple):
    """A call, of either side, without its step."""

    kind: str
    path: str
    call: int


class _Group(NamedTuple):
    """What a call reads or gives in one direction and role."""

    step: int
    place: Place
    direction: str
    role: str


class Layer(NamedTuple):
    """A layer that a run may call; `leaves` are its own parameters: name, role, shape, dtype."""

    path: str
    layer: str
    leaves: Sequence[tuple[str, Any, Shape, str]] = ()


class Partners:
    """Finds the row of a reference for what a run reads or gives.

    Layers are paired before anything runs: a dump without values, of each layer's first call with
    its parameters, is paired with the first step of the reference by `pair_dumps`. The n-th call of
    a layer in a step then belongs to the n-th of its partner. Operators belong to the call of
    their name and number.

    Parameters
    ----------
    reference : Dump
    layers : iterable of Layer
    word : str
        How names of the run's modules begin.
    mapping : as in `pair_dumps`, optional
    rank : int
        Of the run; a reference of one rank is for every rank.

    Raises
    ------
    PairingError, MappingFileError
        As `pair_dumps` does.
    """

    def __init__(
        self,
        reference: Dump,
        layers: Iterable[Layer],
        word: str,
        mapping: MappingLike | None,
        rank: int,
    ) -> None:
        self.reference = reference
        columns = reference.columns
        ranks = {*columns["rank"].tolist()}
        self._rank = next(iter(ranks)) if len(ranks) == 1 else rank
        self._rows: dict[_Group, dict[str, int]] = defaultdict(dict)
        for row, (step, of, value, status, *where) in enumerate(
            columns.rows("step", "rank", "value", "status", *_COLUMNS)
        ):
            kind, path, call, direction, role, slot = where
            is_tensor = not value and not slot.endswith(RECORDED_SAMPLE)
            if of == self._rank and kind in _KINDS and is_tensor and status == "ok":
                group = _Group(step, Place(kind, path, call), direction, role)
                self._rows[group][slot] = row
        self.steps = sorted({group.step for group in self._rows})
        self.has_parameters = any(
            (group.direction, group.role) == ("forward", "parameter") for group in self._rows
        )
        self._paths: dict[tuple[str, str], str] = {}
        self._back: dict[tuple[str, str], str] = {}
        self._calls: dict[Place, Place] = {}
        self._slots: dict[tuple[str, str, str], tuple[str, str]] = {}
        self.expected: set[Place] = set()  # of the run, to be alone
        self.unexpected: set[Place] = set()  # of the reference, to be alone
        if self.steps:
            self._pair(_skeleton(layers, word, mapping), mapping)

    def _pair(self, skeleton: Dump, mapping: MappingLike | None) -> None:
        """Find the partners of layers and of what a mapping names.

        Raises
        ------
        ValueError
            If nothing is known of the run that a mapping could name.
        """
        if not len(skeleton):
            if mapping is not None:
                raise ArgumentError(Message("against.mapping_of_operators"))
            return
        first = _first_calls(self.reference, self.steps[0], self._rank, mapping)
        pairing = pair_dumps(skeleton, first, mapping=mapping)
        sides = [[Site(*each) for each in d.columns.rows(*_COLUMNS)] for d in (skeleton, first)]
        for match in pairing.matches():
            here = sides[0][match.left] if match.left >= 0 else None
            there = sides[1][match.right] if match.right >= 0 else None
            if here is not None and there is not None:
                self._enter(here, there)
            elif match.expected and match.method == "unmatched":
                if here is not None and here.role != "parameter":
                    self.expected.add(_place(here))
                if there is not None and there.role != "parameter":
                    self.unexpected.add(_place(there))

    def _enter(self, here: Site, there: Site) -> None:
        self._paths.setdefault((here.kind, here.path), there.path)
        self._back.setdefault((there.kind, there.path), here.path)
        if here.role in ("parameter", "buffer"):
            self._slots[here.path, here.role, here.slot] = there.role, there.slot
        elif here.call != there.call or here.kind != there.kind:
            self._calls[_place(here)] = _place(there)

    def step_of(self, step: int, first: int) -> int:
        """The step of the reference that a step of the run belongs to.

        A reference of one step is for the first step that is recorded.
        """
        return self.steps[0] if len(self.steps) == 1 and step == first else step

    def place_of(self, place: Place) -> Place:
        """The call of the reference that a call of the run belongs to, if it has it."""
        known = self._calls.get(place)
        if known is not None:
            return known
        return place._replace(path=self._paths.get((place.kind, place.path), place.path))

    def rows_of(
        self, step: int, place: Place, direction: str, role: str, slots: Sequence[str]
    ) -> list[int]:
        """The row of each slot of a call; -1 where the reference has none.

        Where names of slots differ, such as those of keywords, they follow each other if there are
        as many on both sides.
        """
        rows = self._rows.get(_Group(step, self.place_of(place), direction, role), {})
        found = [rows.get(slot, -1) for slot in slots]
        alone = [n for n, row in enumerate(found) if row < 0]
        if alone and len(rows) == len(slots):
            rest = [row for row in rows.values() if row not in found]
            for n, row in zip(alone, rest, strict=True):
                found[n] = row
        return found

    def row_of_parameter(
        self, step: int, place: Place, direction: str, role: str, leaf: str
    ) -> int:
        """The row of a parameter or buffer; -1 where the reference has none."""
        known = self._slots.get((place.path, role, leaf), (role, leaf))
        there = self.place_of(place)
        # It may have been met at another call, of which each side has the first.
        for call in dict.fromkeys((there.call, 0)):
            group = _Group(step, there._replace(call=call), direction, known[0])
            if known[1] in self._rows.get(group, {}):
                return self._rows[group][known[1]]
        return -1

    def has(self, step: int, place: Place) -> bool:
        """Whether the reference has the forward of a call."""
        there = self.place_of(place)
        roles = (("forward", "output"), ("forward", "input"), ("", ""))
        return any(_Group(step, there, *one) in self._rows for one in roles)

    def calls(self, step: int, kinds: Iterable[str]) -> Iterator[Place]:
        """Calls of the reference in a step, of these kinds, in its order."""
        wanted = {*kinds}
        groups = (group for group in self._rows if group.step == step)
        places = (group.place for group in groups if group.direction != "backward")
        return iter(dict.fromkeys(place for place in places if place.kind in wanted))

    def site_of(self, place: Place) -> Site:
        """Where the run would make a call of the reference."""
        return Site(place.kind, self._back.get((place.kind, place.path), place.path), place.call)

    def title_of(self, step: int, place: Place) -> str:
        """What the reference calls one of its calls."""
        groups = (group for group in self._rows if (group.step, group.place) == (step, place))
        row = min(row for group in groups for row in self._rows[group].values())
        return self.entry_of(row)

    def entry_of(self, row: int) -> str:
        """What the reference calls the call that a row is of."""
        name = self.name_of(row)
        parts = parse_row_name(name)
        return name if parts is None else parts.entry

    def gradients_of(self, step: int, place: Place) -> list[int]:
        """Rows of whole gradients of what a call of the reference gives, and of parameters."""
        groups = (_Group(step, place, "backward", role) for role in ("input", "parameter"))
        return [row for group in groups for row in self._rows.get(group, {}).values()]

    def name_of(self, row: int) -> str:
        """What the reference calls a row."""
        return str(self.reference.columns["name"][row])


def _place(site: Site) -> Place:
    return Place(site.kind, site.path, site.call)


def _skeleton(layers: Iterable[Layer], word: str, mapping: MappingLike | None) -> Dump:
    """A dump of the calls that layers may have, without values, and of what a mapping names."""
    entries: dict[str, Entry] = {}

    def add(call: MsprobeCall, section: str, leaf: str, role: str = "", **facts: Any) -> None:
        name = format_row_name(RowName(format_msprobe_call(call), section, leaf))
        site = site_of_msprobe(call, section, leaf)
        if role:
            site = Site(site.kind, site.path, site.call, site.direction, role, leaf)  # type: ignore[arg-type]
        entry = Entry(name, site, order=len(entries), layer=call.layer, **facts)
        entries.setdefault(name, entry)

    for path, layer, leaves in layers:
        call = name_of_call("module", path, layer, 0, "forward", word)
        for leaf, role, shape, dtype in leaves:
            add(call, "parameters", leaf, role, shape=shape, dtype=dtype)
        add(call, "output", "0")
    for name in _named(mapping, 0):
        row = parse_row_name(name)
        known = parse_msprobe_call(row.entry) if row is not None else None
        if row is not None and known is not None:
            add(known, row.section, row.slot)
    return Dump.from_entries([*entries.values()], label="", format="tnb_record")


def _first_calls(dump: Dump, step: int, rank: int, mapping: MappingLike | None) -> Dump:
    """As much of a reference as `_skeleton` knows of a run: no shapes but those of parameters."""
    index = dump.index
    named = index["name"].isin(_named(mapping, 1)).values
    is_owned = index["role"].isin(["parameter", "buffer"]).values
    is_first = index["kind"].isin(["module"]).values & (index["call"].values == 0)
    is_seen = is_owned | ((index["role"].values == "output") & (index["slot"].values == "0"))
    is_seen &= is_first & (index["direction"].values == "forward")
    is_there = (index["step"].values == step) & (index["rank"].values == rank)
    rows = np.flatnonzero((is_seen | named) & is_there)
    rows = rows[_from_outside_in([index["path"].values[row] for row in rows])]
    shapes = dump.columns["shape"][rows]
    shapes[~is_owned[rows]] = None
    table = taken(index, "entry", rows)
    attrs = index["shape"].attrs
    return replace(
        dump,
        index=table.assign(
            shape=("entry", shapes, attrs),
            order=("entry", np.arange(len(rows)), index["order"].attrs),
        ),
        sources=tuple(None for _ in rows),
    )


def _from_outside_in(paths: Sequence[str]) -> list[int]:
    """The order in which calls of these paths, listed as they ended, began."""
    began: dict[str, int] = {}
    for at, path in enumerate(paths):
        parts = path.split(".")
        for prefix in ("", *(".".join(parts[:count]) for count in range(1, len(parts) + 1))):
            began.setdefault(prefix, at)
    depths = [path.count(".") + bool(path) for path in paths]
    return sorted(range(len(paths)), key=lambda at: (began[paths[at]], depths[at], at))


def _named(mapping: Any, side: int) -> list[str]:
    """Names of a side in a mapping that is plain pairs."""
    pairs = mapping.items() if isinstance(mapping, Mapping) else mapping
    if not isinstance(mapping, Mapping | list | tuple):
        return []
    found = [pair[side] for pair in pairs if isinstance(pair, list | tuple) and len(pair) == 2]
    return [name for name in found if isinstance(name, str)]
