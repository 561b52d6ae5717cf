"""Rows of a comparison by columns: their order is that of sorting them one by one."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import troubleshooter_nb as tnb
from troubleshooter_nb.analysis.rows import rows_of
from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.naming import Site
from troubleshooter_nb.pairing import Match, Pairing

DIRECTIONS = ("", "forward", "backward")

sites = st.builds(
    Site,
    kind=st.just("file"),
    path=st.sampled_from("ab"),
    direction=st.sampled_from(DIRECTIONS),
    role=st.sampled_from(("output", "parameter", "gradient")),
)
entries = st.tuples(sites, st.integers(0, 1), st.integers(0, 1), st.integers(-1, 9))


@st.composite
def pairings(draw) -> Pairing:
    sides = []
    for _ in range(2):
        found = draw(st.lists(entries, max_size=7))
        made = [
            Entry(str(number), site, ArrayInMemory(np.ones(2)), step=step, rank=rank, order=order)
            for number, (site, step, rank, order) in enumerate(found)
        ]
        sides.append(Dump.from_entries(made))
    left, right = sides
    both = draw(st.integers(0, min(len(left), len(right))))
    rights = draw(st.permutations(range(len(right))))
    matches = [Match(i, rights[i], "user", 1.0) for i in range(both)]
    matches += [Match(i, -1, "unmatched", np.nan) for i in range(both, len(left))]
    matches += [Match(-1, i, "unmatched", np.nan) for i in rights[both:]]
    return Pairing.from_matches(left, right, draw(st.permutations(matches)))


class PlainRow:
    """One row, and the key that its place is sorted by."""

    def __init__(self, pairing: Pairing, row: int, walk: str) -> None:
        table, dumps = pairing.columns, (pairing.left, pairing.right)
        self.entries = [int(table[f"{side}_entry"][row]) for side in ("left", "right")]
        self.columns = [dump.columns for dump in dumps]
        self.place = int(table["step"][row]), int(table["rank"][row])
        self.lead = 0 if (self.columns[0]["order"] >= 0).any() else 1
        self.orders = [self.of(side, "order", -1) for side in (0, 1)]
        self.direction = self.of(0, "direction", "") or self.of(1, "direction", "")
        wanted = {"forward": (), "auto": ("backward",), "backward": ("backward", "")}[walk]
        self.is_backward = any(
            self.of(side, "role", "") in ("parameter", "gradient")
            and self.of(side, "direction", "") in wanted
            for side in (0, 1)
            if self.entries[side] >= 0
        )
        self.beside = None

    def of(self, side, column, otherwise):
        entry = self.entries[side]
        return self.columns[side][column][entry] if entry >= 0 else otherwise

    def key(self):
        side = 0 if self.entries[0] >= 0 else 1
        lead, other = self.orders[self.lead], self.orders[1 - self.lead]
        known = max(lead, other) >= 0
        own = (lead if lead >= 0 else other) if known else self.entries[side]
        order, where = self.beside or (own, 0)
        sign = -1 if self.is_backward else 1
        last = sign * own if where else side
        return (*self.place, self.is_backward, not known, sign * order, sign * where, last,
                self.entries[side])  # fmt: skip


def plain_order(pairing: Pairing, walk: str) -> list[PlainRow]:
    rows = [PlainRow(pairing, row, walk) for row in range(len(pairing))]
    lead = rows[0].lead if rows else 0
    groups, last = defaultdict(list), defaultdict(lambda: -1)
    for row in rows:
        last[row.place] = max(last[row.place], row.orders[lead])
        if row.orders[1 - lead] >= 0:
            groups[row.place, row.direction, row.is_backward].append(row)
    for (place, direction, _), group in groups.items():
        group.sort(key=lambda row: row.orders[1 - row.lead])
        partners = [row.orders[lead] for row in group if row.orders[lead] >= 0]
        beside = (partners[0], -1) if partners else (last[place], 1)
        for row in group:
            if row.orders[lead] >= 0:
                beside = (row.orders[lead], 1)
            elif row.entries[lead] < 0 and beside[0] >= 0 and (partners or direction == "backward"):
                row.beside = beside
    return sorted(rows, key=PlainRow.key)


@given(pairings(), st.sampled_from(["forward", "auto", "backward"]))
def test_the_order_is_that_of_sorting_row_by_row(pairing, walk):
    found, expected = rows_of(pairing, walk), plain_order(pairing, walk)
    ends = zip(found.left.entries.tolist(), found.right.entries.tolist(), strict=True)
    assert [list(both) for both in ends] == [row.entries for row in expected]
    assert found.walked_backward.tolist() == [row.is_backward for row in expected]
    assert found.order_known.tolist() == [max(row.orders) >= 0 for row in expected]


def test_what_one_side_lacks_is_empty_there():
    left = tnb.Dump.from_arrays({"a.weight": np.ones(3, np.float32)})
    right = tnb.Dump.from_arrays({"b.bias": np.ones(2)})
    matches = [Match(0, -1, "unmatched", np.nan), Match(-1, 0, "unmatched", np.nan)]
    rows = rows_of(Pairing.from_matches(left, right, matches), "auto")
    assert rows.left.column("dtype").tolist() == ["float32", ""]
    assert rows.right.column("shape", None).tolist() == [None, (2,)]
    assert rows.left.display.tolist() == ["a.weight", ""]
    assert rows.either("role").tolist() == ["parameter", "parameter"]
    assert rows.sizes.tolist() == [3, 2]
    assert not rows.has_values.any()
    assert rows.obstacles.reason.tolist() == ["missing_right", "missing_left"]


def test_a_recorded_checksum_has_its_kind_in_front():
    site = Site("file", "x")
    facts = [{"digest": "xor:1"}, {"statistics": {"crc32": 10}}, {"shape": (2,)}]
    made = [Entry(str(n), site, dtype="float32", **one) for n, one in enumerate(facts)]
    dump = Dump.from_entries(made)
    rows = rows_of(
        Pairing.from_matches(dump, dump, [Match(n, n, "user", 1.0) for n in range(3)]), "auto"
    )
    assert rows.left.digests.tolist() == ["xor:1", "crc32:0000000a", ""]


@pytest.mark.parametrize("count", [0, 1])
def test_a_dump_without_entries_makes_rows_of_the_other(count):
    arrays = {str(number): np.ones(2) for number in range(count)}
    pairing = tnb.pair_dumps(Dump.from_entries([]), tnb.Dump.from_arrays(arrays))
    rows = rows_of(pairing, "auto")
    assert len(rows) == count
    assert rows.left.display.tolist() == [""] * count
