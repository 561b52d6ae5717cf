"""A pairing being edited."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from troubleshooter_nb.convert.row_evidence import values_said
from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import PairingError, TroubleshooterError
from troubleshooter_nb.formats.pairing_writer import unsaid_in_mapping, write_mapping
from troubleshooter_nb.messages import Message, joined, parts_of
from troubleshooter_nb.naming.closeness import Candidate
from troubleshooter_nb.pairing import Pairing, of_shape, places_of
from troubleshooter_nb.shapes import shape_text
from troubleshooter_nb.widgets.editing.offered_names import Version
from troubleshooter_nb.widgets.editing.page import Cells, NumberedNames
from troubleshooter_nb.widgets.editing.saving import from_home
from troubleshooter_nb.widgets.editing.session import (
    SIDES,
    UNKNOWN,
    Answer,
    Numbers,
    Session,
    Side,
)

# Of the note of a pair of different shapes, as `pair_dumps` has it.
_OTHER_SHAPE = "calls.other_shape"
# What a mapping does not say, or says otherwise, but for what it may pair again.
_UNSAID = {f"mappings.{id}" for id in ("not_said", "not_said_expected", "in_part")}
_UNSAID.add("mappings.said_otherwise")
_KIND_IN_STEM = re.compile(r"(?:^|[._-])(api|cell|layer)$")


class PairingSession(Session[Pairing]):
    """A pairing being edited; names are numbered as the entries of its dumps are."""

    kind = "pairing"

    def __init__(self, value: Pairing, language: str = "en") -> None:
        super().__init__(Version(value), language)

    # Names and rows.

    def known_sides(self) -> tuple[object, object]:
        """The entries of both dumps; others are numbered anew."""
        return self.value.left.index, self.value.right.index

    def number_names(self) -> None:
        """Number the entries of both dumps; see `Session.number_names`."""
        self._where = places_of(self.value.left, self.value.right)
        self._drawn: dict[tuple[Any, ...], Cells] = {}
        super().number_names()

    def numbered_names(self) -> tuple[NumberedNames, NumberedNames]:
        """Names and shapes of the entries of both dumps."""

        def of(dump: Dump) -> NumberedNames:
            shapes = dump.columns["shape"]
            return NumberedNames(dump.names, lambda k, _: shape_text(shapes[k]) or UNKNOWN)

        return of(self.value.left), of(self.value.right)

    def labels(self) -> tuple[str, str]:
        """What the two dumps are called."""
        return self.value.labels

    def places(self) -> Answer:
        """Steps and ranks, where there are several of one of them."""
        columns = [
            {key: sides[at].astype(int).tolist() for key, sides in self._where.items()}
            for at in range(2)
        ]
        several = [k for k in ("step", "rank") if len({v for one in columns for v in one[k]}) > 1]
        if not several:
            return super().places()
        numbers: dict[tuple[int, ...], int] = {}
        sides = [
            [
                numbers.setdefault(place, len(numbers))
                for place in zip(*(one[key] for key in several), strict=True)
            ]
            for one in columns
        ]
        places = [dict(zip(several, place, strict=True)) for place in numbers]
        return {"places": places, "left_places": sides[0], "right_places": sides[1]}

    def _place(self, side: Side, number: int) -> dict[str, int]:
        at = SIDES.index(side)
        return {name: int(sides[at][number]) for name, sides in self._where.items()}

    def drawn_rows(self) -> dict[str, Cells]:
        """The pairs by their keys."""
        # Of the table's columns: a `Match` for each of its rows takes longer than all the rest.
        table, drawn = self.value.table, self._drawn
        names = ("left_entry", "right_entry", "method", "confidence", "note")
        made: dict[str, Cells] = {}
        for facts in zip(*(table[name].values.tolist() for name in names), strict=True):
            if facts[0] < 0 or facts[1] < 0:
                continue
            cells = drawn.get(facts)
            if cells is None:
                cells = drawn[facts] = self._cells(*facts)
            made[cells.key] = cells
        return made

    def _cells(self, left: int, right: int, method: str, confidence: float, note: str) -> Cells:
        own, theirs = self.shape("left", left), self.shape("right", right)
        if confidence < 1:
            method += f" {confidence:.2f}"
        tone = "bad" if own != theirs else "warn" if confidence < 0.9 else ""
        said = parts_of(note)
        if tone == "bad":
            rest = (one for one in said if getattr(one, "id", "") != _OTHER_SHAPE)
            said = [Message("editor.shapes_differ"), *rest]
        shapes = own if own == theirs else f"{own} → {theirs}"
        remark = self.said(joined(said))
        return Cells(f"{left}>{right}", [left], [right], method, shapes, remark, tone)

    def expected(self) -> list[list[int]]:
        """Numbers of the entries that are expected to have no partner."""
        table = self.value.table
        expected = table["expected"].values
        left, right = (table[f"{side}_entry"].values for side in SIDES)
        return [left[expected & (right < 0)].tolist(), right[expected & (left < 0)].tolist()]

    def summary(self) -> list[str]:
        """What is matched and what is not, in a few words each."""
        value = self.value
        counts = {
            "open_left": len(value.unmatched_left),
            "open_right": len(value.unmatched_right),
            "different": sum(cells.tone == "bad" for cells in self.rows().values()),
            "expected_count": sum(map(len, self.expected())),
        }
        return [self.word("pair_count", count=f"{value.matched:,}"), *self.counted(counts)]

    def left_over(self) -> tuple[int, int]:
        """How many entries of both sides have no partner, but for those expected to have none."""
        table = self.value.table
        wanted = ~table["expected"].values
        left, right = (table[f"{side}_entry"].values < 0 for side in SIDES)
        return int(np.count_nonzero(wanted & right)), int(np.count_nonzero(wanted & left))

    # Pairing.

    def paired(
        self, left: Numbers, right: Numbers, instead: Cells | None = None, transform: str = ""
    ) -> Pairing:
        """The pairing with these two entries paired; several of a side are refused."""
        if len(left) > 1 or len(right) > 1:
            raise PairingError(Message("editor.one_each"))
        if transform:
            raise PairingError(Message("editor.no_transforms"))
        names = self.name("left", left[0]), self.name("right", right[0])
        mine, theirs = self._place("left", left[0]), self._place("right", right[0])
        if mine != theirs:
            first, second = (Message("pairings.place", **one) for one in (mine, theirs))
            sides = {"left": names[0], "first": first, "right": names[1], "second": second}
            raise PairingError(Message("editor.other_place", **sides))
        return self.value.pair(names[0], names[1], step=mine["step"], rank=mine["rank"])

    def paired_with(self, left: str, right: str) -> Pairing:
        """Entries are all known, so that there is nothing to type."""
        raise PairingError(Message("editor.no_such", what=right))

    def rested(self) -> Pairing:
        """The pairing in which what is left is paired."""
        return self.value.match_rest()

    def unpaired(self, cells: Cells) -> Pairing:
        """The pairing in which the two of a row are parted."""
        number = cells.left[0]
        return self.value.unpair(self.name("left", number), **self._place("left", number))

    def put_aside(self, side: Side, number: int) -> tuple[Pairing, str]:
        """The pairing in which an entry is expected to have no partner, or one again."""
        name, place = self.name(side, number), self._place(side, number)
        expected = number not in self.expected()[SIDES.index(side)]
        value = self.value.expect_missing(
            name, side=side, expected=expected, step=place["step"], rank=place["rank"]
        )
        return value, "did_expect" if expected else "did_want"

    # What would fit, and what values say of it.

    def together(self, left: Numbers, right: Numbers) -> Answer:
        """How the shapes of two entries compare; several of a side are refused."""
        said = {
            "transforms": [],
            "words": {},
            "ok": False,
            "text": self.word("one_each"),
            "evidence": "",
        }
        if len(left) > 1 or len(right) > 1:
            return said
        own, theirs = self.shape("left", left[0]), self.shape("right", right[0])
        if UNKNOWN in (own, theirs):
            return said | {"ok": True, "text": "", "evidence": self.said(of_shape(None))}
        return said | {"ok": own == theirs, "text": f"{own} -> {theirs}"}

    def fits(self, side: Side, number: int) -> list[str]:
        """For each shape sent how it fits this name: empty, ``!`` and why not, or ``?``."""
        own = self.shape(side, number)
        wrong = "!" + self.word("another_shape")
        return [
            UNKNOWN if UNKNOWN in (shape, own) else "" if shape == own else wrong
            for shape in self.page.shapes
        ]

    def candidates(self, side: Side, number: int) -> list[tuple[int, Candidate]]:
        """The closest of the other side, of the same step and rank."""
        place, other = self._place(side, number), 1 - SIDES.index(side)
        found = self.value.candidates(
            self.name(side, number), side=side, step=place["step"], rank=place["rank"]
        )
        names = self.page.sides[other].names
        here = np.ones(len(names), bool)
        for key, sides in self._where.items():
            here &= sides[other] == place[key]
        number_of = {names[k]: k for k in np.flatnonzero(here).tolist()}
        return [(number_of[one.name], one) for one in found]

    def details(self, cells: Cells) -> Answer:
        """What the values say."""
        sources = self.value.left.sources[cells.left[0]], self.value.right.sources[cells.right[0]]
        pair = [source for source in sources if source is not None]
        evidence: str = ""
        if len(pair) == 2:
            try:
                evidence = values_said(pair[:1], pair[1:])
            except (OSError, TroubleshooterError) as error:
                evidence = Message("values.unread", reason=self.why(error))
        return {
            "transforms": [],
            "words": {},
            "ok": True,
            "text": "",
            "evidence": self.said(evidence),
        }

    def preview(self, cells: Cells, transform: str) -> Answer:
        """Pairs have no transforms."""
        return {"ok": False, "text": self.word("no_transforms"), "evidence": ""}

    # Saving.

    def write(self, path: Path, kind: str | None = None) -> Path:
        """Write the pairs as this kind of mapping.

        Without one as the last word of the file's name says (``net_layer.yaml``, ``cell.yaml``),
        else as a data mapping.
        """
        chosen: Any = _kind(path, kind)
        return write_mapping(self.value, path, kind=chosen)

    def saved(self, path: str, kind: str | None = None) -> tuple[Path, list[str]]:
        """Write the pairs; also what the file does not say of them."""
        written, said = super().saved(path, kind)
        chosen: Any = _kind(from_home(path), kind)
        unsaid = [one for one in unsaid_in_mapping(self.value, chosen) if one.id in _UNSAID]
        if unsaid:
            said.append(self.word("unsaid", kind=chosen, count=len(unsaid), first=unsaid[0]))
        return written, said


def _kind(where: Path, kind: str | None) -> str:
    if kind is not None:
        return kind
    said = _KIND_IN_STEM.search(where.stem)
    return said[1] if said else "data"
