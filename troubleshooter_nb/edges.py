"""Which call of a recorded run made a value, and which calls read it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from troubleshooter_nb.naming import parse_msprobe_call
from troubleshooter_nb.naming.msprobe import site_of_msprobe
from troubleshooter_nb.table import Table

_CALL = ("step", "rank", "kind", "path", "call")
_Call = tuple[int, int, str, str, int]


class Called(NamedTuple):
    """A call as it is shown: the layer or operator, and which visit of it within the step.

    `result` is the slot of the result that is meant; empty where it is the first.
    """

    name: str
    number: int
    result: str = ""


class Neighbours(NamedTuple):
    """Who made the value of an entry, and who else reads it; None and empty where unknown."""

    maker: Called | None = None
    readers: Sequence[Called] = ()


class _Reader(NamedTuple):
    """A call that reads a value, and the calls that it ran in."""

    row: int
    call: _Call
    around: frozenset[_Call]
    called: Called


class Edges:
    """The entries of a dump that are one value: who made it, who hands it on, who reads it.

    Known of the forward pass of recorded runs, by the column ``producer``: the entry as which the
    value was a result first. What the recorder saw as another tensor, such as a view or a copy,
    is another value; so is what was written in place.

    Parameters
    ----------
    columns : Table
        Of a `Dump`, with its entries in the order in which they were met.
    """

    def __init__(self, columns: Table) -> None:
        self._columns = columns
        self._maker: list[int] = []
        self._results: dict[int, list[int]] = {}
        self._arguments: dict[int, list[int]] = defaultdict(list)
        self._readers: dict[int, list[_Reader]] = {}
        producers = columns["producer"]
        if not (producers != "").any():
            return
        self._maker = [-1] * len(producers)
        places = [*columns.rows("step", "rank", "name")]
        rows = {place: row for row, place in enumerate(places)}
        for row, ((step, rank, _), producer) in enumerate(
            zip(places, producers.tolist(), strict=True)
        ):
            maker = rows.get((step, rank, producer), -1) if producer else -1
            if maker >= 0:
                self._maker[row] = self._maker[maker] = maker
                self._results.setdefault(maker, [maker])
                of_role = self._results if self._role(row) == "output" else self._arguments
                of_role[maker].append(row)

    def made(self, entry: int) -> int:
        """The entry as which the value of an entry was made, perhaps itself; -1 where unknown."""
        return self._maker[entry] if 0 <= entry < len(self._maker) else -1

    def results_before(self, entry: int) -> list[int]:
        """The results that are the value of an entry and were there before it, in their order."""
        return [row for row in self._results.get(self.made(entry), ()) if row < entry]

    def maker(self, entry: int) -> int:
        """The result of a call that others see as the one that made the value; -1 where unknown.

        That of the layer where an operator inside it made it; -1 of what is this result itself.
        """
        made = self.made(entry)
        if made < 0:
            return -1
        results = {self._call(row): row for row in reversed(self._results[made])}
        while self._columns["kind"][made] == "api" and (outer := self._around(made)) in results:
            made = results[outer]
        return -1 if made == entry or self._call(made) == self._call(entry) else made

    def readers(self, entry: int) -> list[int]:
        """The arguments as which the value of an entry is read, one a call, in their order.

        A layer that hands the value to a layer inside it is left out, and so is an operator inside
        a layer that reads it.
        """
        return [reader.row for reader in self._reading(self.made(entry))]

    def neighbours(self, entry: int) -> Neighbours:
        """Who made the value of an entry, and who reads it besides its own call."""
        if self.made(entry) < 0:
            return Neighbours()
        maker, own = self.maker(entry), self._call(entry)
        others = [
            reader.called
            for reader in self._reading(self.made(entry))
            if own != reader.call and own not in reader.around
        ]
        return Neighbours(self.called(maker) if maker >= 0 else None, others)

    def _reading(self, maker: int) -> list[_Reader]:
        """Who reads a value, see `readers`."""
        if maker not in self._readers:
            rows: dict[_Call, int] = {}
            for row in self._arguments.get(maker, ()):
                rows.setdefault(self._call(row), row)
            found = [
                _Reader(row, call, frozenset(self._outer(row)), self.called(row))
                for call, row in rows.items()
            ]
            layers = [reader for reader in found if reader.call[2] != "api"]
            handing = {call for reader in layers for call in reader.around}
            reading = {reader.call for reader in layers} - handing
            self._readers[maker] = [
                reader
                for reader in found
                if reader.call in reading
                or (reader.call[2] == "api" and not reading & reader.around)
            ]
        return self._readers[maker]

    def called(self, entry: int) -> Called:
        """The call of an entry."""
        *_, path, call = self._call(entry)
        slot = str(self._columns["slot"][entry]) if self._role(entry) == "output" else "0"
        name = path or str(self._columns["layer"][entry])
        return Called(name, call, "" if slot == "0" else slot)

    def _role(self, row: int) -> str:
        return str(self._columns["role"][row])

    def _call(self, row: int) -> _Call:
        step, rank, kind, path, call = (self._columns[name][row] for name in _CALL)
        return int(step), int(rank), str(kind), str(path), int(call)

    def _around(self, row: int) -> _Call | None:
        step, rank, *_ = self._call(row)
        return self._named(step, rank, str(self._columns["parent"][row]))

    def _outer(self, row: int) -> Iterator[_Call]:
        """The calls that the call of a row ran in, from the inside."""
        outer, seen = self._around(row), set[_Call]()
        while outer is not None and outer not in seen:
            seen.add(outer)
            yield outer
            outer = self._parents.get(outer)

    @cached_property
    def _parents(self) -> dict[_Call, _Call | None]:
        found: dict[_Call, _Call | None] = {}
        parents = self._columns["parent"].tolist()
        for call, parent in zip(self._columns.rows(*_CALL), parents, strict=True):
            if call not in found:
                found[call] = self._named(call[0], call[1], parent)
        return found

    @staticmethod
    def _named(step: int, rank: int, name: str) -> _Call | None:
        call = parse_msprobe_call(name) if name else None
        if call is None:
            return None
        site = site_of_msprobe(call, "input", "0")
        return step, rank, site.kind, site.path, site.call


def fed_otherwise(
    both: Sequence[Edges], entries: Sequence[int], partners: Mapping[int, int]
) -> tuple[Called, Called] | None:
    """The calls whose results an argument is on either side, where these are not partners.

    Parameters
    ----------
    both : sequence of Edges
        Left, right.
    entries : sequence of int
        Of the argument, left and right.
    partners : mapping of int to int
        Entries of results on the left to those on the right.

    Returns
    -------
    tuple of Called or None
        None where a side does not tell, or what it tells has no partner on the other one: then
        nothing says that it is another value.
    """
    left, right = (one.results_before(entry) for one, entry in zip(both, entries, strict=True))
    found, known = {partners.get(row) for row in left}, {*partners.values()}
    if not left or not right or None in found or not known.issuperset(right):
        return None
    if found & {*right}:
        return None
    makers = [one.maker(entry) for one, entry in zip(both, entries, strict=True)]
    return both[0].called(makers[0]), both[1].called(makers[1])
