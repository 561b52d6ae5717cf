"""A weight map being edited."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from troubleshooter_nb.convert.row_evidence import row_evidence
from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import WeightMapError
from troubleshooter_nb.formats.mapping_file import write_weight_map
from troubleshooter_nb.messages import Message, joined
from troubleshooter_nb.metrics.floats import dtype_from_token
from troubleshooter_nb.naming.closeness import Candidate
from troubleshooter_nb.render.steps import brief
from troubleshooter_nb.shapes import shape_text
from troubleshooter_nb.weight_map import Spec, Transform, WeightMap, WeightRow
from troubleshooter_nb.weight_map.doubts import is_contradicted
from troubleshooter_nb.weight_map.rows import SIDES, used_names
from troubleshooter_nb.widgets.editing.offered_names import Version, next_version
from troubleshooter_nb.widgets.editing.page import Cells, Names, NumberedNames
from troubleshooter_nb.widgets.editing.session import UNKNOWN, Answer, Asked, Numbers, Session, Side

_MOST = 3  # candidates


class WeightMapSession(Session[WeightMap]):
    """A weight map being edited.

    Parameters
    ----------
    value : WeightMap
    source, target : Dump, optional
        The values, for what they say of a row; names and shapes too, of a side that the map knows
        nothing of, as of one just read from a file.
    language : {"en", "zh"}
    """

    kind = "weight_map"

    def __init__(
        self,
        value: WeightMap,
        source: Dump | None = None,
        target: Dump | None = None,
        language: str = "en",
    ) -> None:
        self._values = source, target
        self._specs = [None if one is None else _specs_of(one) for one in self._values]
        super().__init__(Version(self._completed(value)), language)

    def _completed(self, value: WeightMap) -> WeightMap:
        """The map with names and shapes of the given values where it knows none."""
        changes: dict[str, Any] = {}
        sides = zip(SIDES, self._values, self._specs, strict=True)
        for known, (side, given, specs) in zip(_known(value), sides, strict=True):
            if known is None and given is not None and specs:
                changes[side] = specs
                if getattr(value, f"{side}_label") == side and given.label:
                    changes[f"{side}_label"] = given.label
        return replace(value, **changes) if changes else value

    def version(self, value: WeightMap) -> Version[WeightMap]:
        """The version that a map is, of another source one that had no rows before."""
        value = self._completed(value)
        if value.source is not self.value.source:
            return Version(value)
        return next_version(self.history.value, value)

    # Names and rows.

    def known_sides(self) -> tuple[object, object]:
        """What is known of both sides; another object is another side."""
        return self.value.source, self.value.target

    def numbered_names(self) -> tuple[NumberedNames, NumberedNames]:
        """Names and shapes of source and target."""
        left, right = (
            NumberedNames(self._there(side), functools.partial(_shape_text, known or {}))
            for side, known in enumerate(_known(self.value))
        )
        return left, right

    def _there(self, side: int) -> Names:
        """The names of a side: those that are known, and those that rows have or had."""
        known, name = _known(self.value)[side] or (), SIDES[side]
        used, loose = used_names(self.value.rows, name), self.history.value.loose(name)
        return list(dict.fromkeys((*known, *used, *loose)))

    def number_names(self) -> None:
        """Number the names of both sides from 0; see `Session.number_names`."""
        self._drawn: dict[int, tuple[WeightRow, WeightRow | None, str, Cells]] = {}
        super().number_names()

    def changed_names(self) -> list[list[Any]]:
        """Names that are typed, or that rows lost; see `Page.update_names`."""
        return self.page.update_names([self._there(0), self._there(1)])

    def _state(self) -> Answer:
        return super()._state() | {"open_target": self.value.target is None}

    def labels(self) -> tuple[str, str]:
        """What source and target are called."""
        return self.value.source_label, self.value.target_label

    def drawn_rows(self) -> dict[str, Cells]:
        """The rows of the map by their keys."""
        suggested, twice = self.value.suggested_instead(), self.value.filled_twice()
        drawn = self._drawn
        made: dict[str, Cells] = {}
        repeated: Counter[str] = Counter()
        for position, row in enumerate(self.value.rows):
            instead, also = suggested.get(position), twice.get(position, "")
            known = drawn.get(id(row))
            if known is None or known[1] is not instead or known[2] != also:
                # Kept with its row, so that no other one can come to the same id.
                known = drawn[id(row)] = row, instead, also, self._cells(row, instead, also)
            cells = known[3]
            if cells.key in made:  # a map from a file may say the same twice
                repeated[cells.key] += 1
                cells = cells._replace(key=f"{cells.key}#{repeated[cells.key]}")
            made[cells.key] = cells
        return made

    def _cells(self, row: WeightRow, instead: WeightRow | None, also: str) -> Cells:
        left, right = (
            [side.number_of[name] for name in names]
            for side, names in zip(self.page.sides, (row.sources, row.targets), strict=True)
        )
        problem = joined([self.value.problem(row), also])
        suggestion = ""
        if instead:
            names = " + ".join(instead.targets)
            suggestion = self.word("by", name=names, how=brief(str(instead.transform)))
        mine = " + ".join(self.shape("left", k) for k in left)
        theirs = " + ".join(self.shape("right", k) for k in right)
        return Cells(
            f"{left[0]}>{'+'.join(map(str, right))}",
            left,
            right,
            str(row.transform),
            mine if mine == theirs or not theirs else f"{mine} → {theirs}",
            self.said(joined([problem, row.note])),
            "bad" if problem else "warn" if instead or is_contradicted(row.note) else "",
            suggestion,
        )

    def summary(self) -> list[str]:
        """What is matched and what is not, in a few words each."""
        total = len(self.page.sides[0])
        rows = self.rows().values()
        open_left, open_right = self.left_over()
        transforms, tones = Counter(c.how for c in rows), Counter(c.tone for c in rows)
        changed = transforms.total() - transforms["copy"] - transforms["drop"]
        counts = {
            "open_left": open_left,
            "open_right": open_right,
            "broken": tones["bad"],
            "transformed": changed,
            "dropped_count": transforms["drop"],
            "by_values": len(self.value.suggestions),
        }
        return [
            self.word("matched", count=f"{total - open_left:,}", total=f"{total:,}"),
            *self.counted(counts),
        ]

    def left_over(self) -> tuple[int, int]:
        """How many names of both sides are in no row."""
        left, right = (len({*used_names(self.value.rows, side)}) for side in SIDES)
        return len(self.page.sides[0]) - left, len(self.page.sides[1]) - right

    # Pairing.

    def paired(
        self, left: Numbers, right: Numbers, instead: Cells | None = None, transform: str = ""
    ) -> WeightMap:
        """The map with these paired, by the likeliest transform that fits where none is given.

        A source that goes to several targets keeps them; of a row that is given the target
        changes, whatever else its source goes to.
        """
        sources, targets = self.both(left, right)
        value, how = self.value, transform
        if not how:
            transforms = self._transforms(sources, targets)
            if not transforms:
                names = dict(source=" + ".join(sources), target=" + ".join(targets))
                why = self._misfit(sources, targets)
                raise WeightMapError(Message("editor.cannot", **names, why=why))
            how = str(transforms[0])
        tied = any(self._is_tied(source) for source in sources)
        alone = len(left) == len(right) == 1
        if alone and instead is not None and instead.left == left and right[0] not in instead.right:
            value, tied = self.unpaired(instead), True
        return value.pair(sources, targets, how, tied=tied)

    def paired_with(self, left: str, right: str) -> WeightMap:
        """The map with a source paired with a target of any name, where the target is not known."""
        parted = self.history.value.parted.get(((left,), (right,)))
        how = str(parted.transform if parted else "copy")
        return self.value.pair(left, right, how, tied=self._is_tied(left))

    def _is_tied(self, source: str) -> bool:
        """Whether a source goes to several targets."""
        return sum(source in row.sources for row in self.value.rows if row.targets) > 1

    def rested(self) -> WeightMap:
        """The map in which what is left is paired; of a side not known, names that the map had."""
        former = list(self.history.value.parted.values())
        sources, targets = (side.there for side in self.page.sides)
        return self.value.match_rest(sources=sources, targets=targets, former=former)

    def unpaired(self, cells: Cells) -> WeightMap:
        """The map without this row."""
        return self.value.unpair(self._position(cells))

    def _position(self, cells: Cells) -> int:
        """Where a row stands in the map."""
        return list(self.rows()).index(cells.key)

    def put_aside(self, side: Side, number: int) -> tuple[WeightMap, str]:
        """The map that drops a source."""
        if side == "right":
            raise WeightMapError(Message("editor.only_sources"))
        return self.value.drop(self.name(side, number)), "did_drop"

    def _on_transform(self, message: Asked) -> Answer:
        cells, text = self.row(message), str(message["transform"])
        value = self.value.transform(self._position(cells), text)
        if value is self.value:
            return self.changes() | {"said": self.word("unchanged", how=brief(text.strip()))}
        did = self.word("did_transform", how=brief(text), name=self.first_name(cells))
        return self.replace(value, did)

    def _on_accept(self, message: Asked) -> Answer:
        """Takes what values suggest of a row, and of those that lie in each other's place."""
        cells = self.row(message)
        suggested = self.value.suggested_instead().get(self._position(cells))
        name = suggested.sources[0] if suggested else self.first_name(cells)
        value = self.value.accept(name, together=True)
        return self.replace(value, self.word("did_accept", name=self.first_name(cells)))

    # What would fit, and what values say of it.

    def _transforms(self, sources: Sequence[str], targets: Sequence[str]) -> list[Transform]:
        """What fits, the likeliest first: what values suggest of these names, then by shapes."""
        names = tuple(sources), tuple(targets)
        # Where shapes are not known, what was parted goes together again as it was.
        again = None if self._knows(*names) else self.history.value.parted.get(names)
        found = self.value.fitting(sources, targets, everything=True)
        suggested = self.value.suggested_for(sources[0])
        for row in (again, suggested):
            if row is not None and (row.sources, row.targets) == names:
                found = [row.transform, *(one for one in found if one != row.transform)]
        return found

    def _knows(self, sources: Sequence[str], targets: Sequence[str]) -> bool:
        source, target = self.value.source, self.value.target or {}
        return all(n in source for n in sources) and all(n in target for n in targets)

    def _misfit(self, sources: Sequence[str], targets: Sequence[str]) -> str:
        """Why nothing makes these targets of these sources."""
        if len(sources) > 1 and len(targets) > 1:
            return Message("weight_maps.several_of_several")
        return self.value.misfit(sources, targets) or Message("pairings.unknown_shape")

    def together(self, left: Numbers, right: Numbers) -> Answer:
        """What would make these targets of these sources, and the shapes that the first gives."""
        sources, targets = self.both(left, right)
        transforms = self._transforms(sources, targets)
        said = {"ok": False, "text": "", "evidence": ""}
        if not transforms:
            said["text"] = self.said(self._misfit(sources, targets))
        else:
            made = WeightRow(tuple(sources), tuple(targets), transforms[0])
            try:
                text = self.value.preview_pair(sources, targets, str(transforms[0]))
                said = self._weighed(made, text)
            except WeightMapError as error:
                said["text"] = self.why(error)
        return self._listed_transforms(transforms) | said

    def fits(self, side: Side, number: int) -> list[str]:
        """For each shape sent how it fits this name; see `Session.fits`."""
        value, name = self.value, self.name(side, number)
        others = (value.target or {}) if side == "left" else value.source
        known = value.source if side == "left" else (value.target or {})
        said: dict[str, str] = {}
        one_of_each = {spec.shape: other for other, spec in others.items()}
        for other in one_of_each.values() if name in known else ():
            pair = (name, other) if side == "left" else (other, name)
            transforms = value.fitting(*pair)
            sizes = {"mine": known[name].size, "theirs": others[other].size}
            text = "!" + self.word("other_size", **sizes)
            if transforms:
                text = "" if transforms[0].kind == "copy" else str(transforms[0])
            said[shape_text(others[other].shape)] = text
        return [said.get(shape, UNKNOWN) for shape in self.page.shapes]

    def former(self, side: Side, number: int) -> str:
        """The target that a source had, of a target that is not known."""
        known = side == "right" or self.value.target is not None
        return "" if known else self.history.value.former(self.name(side, number))

    def candidates(self, side: Side, number: int) -> list[tuple[int, Candidate]]:
        """The closest of the other side: by names alone where shapes are not known."""
        of_source = side == "left"
        sources, targets = (one.there for one in self.page.sides)
        chosen: Literal["source", "target"] = "source" if of_source else "target"
        others = {"sources": sources, "targets": targets}
        found = self.value.candidates(self.name(side, number), side=chosen, **others, most=_MOST)
        number_of = self.page.sides[of_source].number_of
        return [(number_of[one.name], one) for one in found]

    def details(self, cells: Cells) -> Answer:
        """Transforms that fit, and what the values say."""
        row = self.value.rows[self._position(cells)]
        known = bool(row.targets) and self._knows(row.sources, row.targets)
        transforms = []
        if known:
            transforms = self._transforms(row.sources, row.targets)
        if row.transform not in transforms:
            transforms = [row.transform, *transforms]
        return self._listed_transforms(transforms) | self.preview(cells, str(row.transform))

    def _listed_transforms(self, transforms: Sequence[Transform]) -> Answer:
        """Transforms to choose from, and what each does."""
        words = {str(one): self.said(one.words) for one in transforms}
        return {"transforms": [*words], "words": words}

    def preview(self, cells: Cells, transform: str) -> Answer:
        """The shapes that a transform gives, or why it does not fit; and what the values say."""
        position = self._position(cells)
        try:
            text = self.value.preview(position, transform)
        except WeightMapError as error:
            return {"ok": False, "text": self.why(error), "evidence": "", "transform": transform}
        made = replace(self.value.rows[position], transform=Transform.parse(transform))
        return {**self._weighed(made, text), "transform": transform}

    def _weighed(self, row: WeightRow, text: str) -> Answer:
        """What a row gives, and what the values say."""
        source, target = self._values
        evidence = ""
        if not self.value.source:  # then what is not known is said, and nothing is found right
            text, evidence = "", text
        elif source is not None and target is not None:
            try:
                evidence = row_evidence(row, source, target)
            except OSError as error:
                evidence = Message("values.unread", reason=self.why(error))
        return {"ok": True, "text": self.said(text), "evidence": self.said(evidence)}

    def write(self, path: Path, kind: str | None = None) -> Path:
        """Write the map as ``.yaml``, or as TroubleShooter's ``.json``."""
        if kind is not None:
            self.refuse("no_kinds", kind=repr(kind))
        return write_weight_map(self.value, path)


def _known(value: WeightMap) -> tuple[Any, Any]:
    """The tensors of source and target; None for a side of which nothing is known."""
    return value.source or None, value.target


def _shape_text(known: Mapping[str, Spec], _: int, name: str) -> str:
    return shape_text(known[name].shape) if name in known else ""


def _specs_of(dump: Dump) -> dict[str, Spec]:
    """Shapes and dtypes of the tensors of a dump; those of which one is not known are left out."""
    specs = {}
    for name, shape, dtype in dump.columns.rows("name", "shape", "dtype"):
        if shape is None:
            continue
        try:
            specs[str(name)] = Spec(shape, dtype_from_token(dtype))
        except ValueError:
            continue
    return specs
