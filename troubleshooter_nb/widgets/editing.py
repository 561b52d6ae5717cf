"""What an editor of a weight map or a pairing does, without any widget.

A session holds the versions of the value and answers plain messages with plain messages, so that
everything the page can ask for can be asked for in a test as well.
"""

from __future__ import annotations

import os
import re
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from errno import ENOTDIR
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

import numpy as np

from troubleshooter_nb.convert.row_evidence import row_evidence, values_said
from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import (
    ArgumentError,
    PairingError,
    TroubleshooterError,
    TroubleshooterWarning,
    WeightMapError,
)
from troubleshooter_nb.formats.mapping_file import write_weight_map
from troubleshooter_nb.formats.pairing_writer import unsaid_in_mapping, write_mapping
from troubleshooter_nb.history import History
from troubleshooter_nb.messages import Message, ids_of, joined, message_of, parts_of, told
from troubleshooter_nb.metrics.floats import dtype_from_token
from troubleshooter_nb.naming.closeness import Candidate
from troubleshooter_nb.options import option_context
from troubleshooter_nb.pairing import Pairing, of_shape, places_of
from troubleshooter_nb.render.weight_map_view import is_contradicted
from troubleshooter_nb.shapes import shape_text
from troubleshooter_nb.thresholds import LARGEST_LOOK
from troubleshooter_nb.weight_map import Spec, Transform, WeightMap, WeightRow
from troubleshooter_nb.widgets.words import editor_word

Value = TypeVar("Value", WeightMap, Pairing)
Asked = Mapping[str, Any]  # a message of the page
# key, left numbers, right numbers, transform or method, shapes, remark, tone, suggestion
Cells = tuple[str, list[int], list[int], str, str, str, str, str]
# Names and shapes of the left, then of the right.
Sides = tuple[tuple[list[str], list[str]], tuple[list[str], list[str]]]
_SIDES = ("left", "right")
_MOST = 3  # candidates

# What `fits` says of a shape that is not known, on either side.
_UNKNOWN = "?"
# Of the note of a pair of different shapes, as `pair_dumps` has it.
_OTHER_SHAPE = "calls.other_shape"
# What a mapping does not say, or says otherwise, but for what it may pair again.
_UNSAID = {f"mappings.{id}" for id in ("not_said", "not_said_expected", "in_part")}
_UNSAID.add("mappings.said_otherwise")
_KIND_IN_STEM = re.compile(r"(?:^|[._-])(api|cell|layer)$")


class Session(ABC, Generic[Value]):
    """One value being edited: its versions, and the names of both sides by number."""

    kind = ""

    def __init__(self, value: Value, language: str = "en") -> None:
        self.language = language
        self.history: History[Value] = History(value)
        self.revision = 0
        self.numbering = 0  # how often the names were numbered anew
        self._names: Sides = self._named(value)
        self._made: tuple[Value, dict[str, Cells]] | None = None
        self._sent: dict[str, Cells] = {}
        self._said_labels = self._labels()
        self._all_shapes: list[str] = []
        # Files as this editor left them, and the one that a second press of Save overwrites.
        self._written: dict[Path, tuple[int, int]] = {}
        self._asked: tuple[Path, int] | None = None

    @property
    def value(self) -> Value:
        """The current version, complete and frozen."""
        return self.history.value

    def word(self, key: str, **values: object) -> str:
        """Words of the editor in the session's language."""
        return editor_word(key, self.language, **values)

    def said(self, text: str) -> str:
        """A message in the session's language, any other text as it is."""
        return told(text, self.language)

    def refuse(self, key: str, **values: object) -> NoReturn:
        """Raise the words of this key."""
        raise ArgumentError(Message(f"editor.{key}", **values))

    def answer(self, message: Asked) -> dict[str, Any]:
        """The answer to one message of the page; what goes wrong is a sentence in it.

        Parameters
        ----------
        message : mapping
            ``op`` says what to do, ``re`` is handed back with the answer. ``numbering`` is that
            of the state whose numbers and keys are used; with an older one nothing is done.
        """
        act = getattr(self, f"_on_{message.get('op')}", None)
        try:
            if act is None:
                self.refuse("no_such", what=repr(message.get("op")))
            if message.get("numbering", self.numbering) != self.numbering:
                self.refuse("renumbered")
            answer: dict[str, Any] = act(message)
        except (TroubleshooterError, OSError, ValueError, IndexError) as error:
            answer = {"type": "error", "text": self.why(error)}
        return answer | {"re": message.get("re"), "revision": self.revision}

    def why(self, error: Exception) -> str:
        """What an error says, on one line, without the folders of this machine."""
        said = message_of(error)
        if isinstance(error, OSError) and not isinstance(error, TroubleshooterError):
            name = Path(str(error.filename)).name if error.filename else Message("editor.the_file")
            said = Message("editor.not_saved", file=name, reason=_reason(error))
        return " ".join(self.said(said).split())

    def replace(self, value: Value, what: str) -> dict[str, Any]:
        """Make this the current version; the answer tells which rows changed."""
        value = self.completed(value)
        if value is not self.value:
            self.history.do(value, what)
            self.revision += 1
        return self._told()

    def completed(self, value: Value) -> Value:
        """The value with what else the session knows of it."""
        return value

    def _told(self) -> dict[str, Any]:
        """What changed; all of it where names changed, as those of a value from outside do."""
        if self._has_names_of(self.value) and self._labels() == self._said_labels:
            return self.changes()
        self._names = self._named(self.value)
        self.numbering += 1
        return self._state()

    @abstractmethod
    def _has_names_of(self, value: Value) -> bool:
        """Whether the numbers in use hold for a value as well."""

    def changes(self) -> dict[str, Any]:
        """Rows that are not as they were when they were sent last."""
        rows, sent = self._rows(), self._sent
        put = [
            new for key, new in rows.items() if sent.get(key) is not new and sent.get(key) != new
        ]
        gone = [key for key in sent if key not in rows]
        self._sent = rows
        return {"type": "rows", "put": put, "gone": gone, **self._facts()}

    def _rows(self) -> dict[str, Cells]:
        """The rows of the current version by their keys, made once for each version."""
        if self._made is None or self._made[0] is not self.value:
            self._made = self.value, self._cells()
        return self._made[1]

    def names(self, side: str, number: object) -> str:
        """The name with this number."""
        names = self._names[_SIDES.index(side)][0]
        if not isinstance(number, int) or not 0 <= number < len(names):
            where = Message(f"editor.{side}")
            self.refuse("no_name", number=repr(number), side=where)
        return names[number]

    def _facts(self) -> dict[str, Any]:
        history = self.history
        return {
            "undo": history.undo_of,
            "redo": history.redo_of,
            "expected": self._expected(),
            "summary": self.summary(),
        }

    def _on_ready(self, _: Asked) -> dict[str, Any]:
        """All there is, for a new view alone: others have it."""
        return self._state() | {"first": True}

    def _state(self) -> dict[str, Any]:
        left, left_shapes = self._names[0]
        right, right_shapes = self._names[1]
        self._sent = self._rows()
        self._said_labels = self._labels()
        shapes = list(dict.fromkeys(left_shapes + right_shapes))
        self._all_shapes = shapes
        numbers = {shape: number for number, shape in enumerate(shapes)}
        return {
            "type": "state",
            "kind": self.kind,
            "numbering": self.numbering,
            "labels": list(self._labels()),
            "left": left,
            "right": right,
            "shapes": shapes,
            "left_shapes": [numbers[shape] for shape in left_shapes],
            "right_shapes": [numbers[shape] for shape in right_shapes],
            "rows": list(self._sent.values()),
            "open_target": False,
            **self._places(),
            **self._facts(),
        }

    def _on_undo(self, _: Asked) -> dict[str, Any]:
        return self._moved(self.history.undo)

    def _on_redo(self, _: Asked) -> dict[str, Any]:
        return self._moved(self.history.redo)

    def _moved(self, move: Any) -> dict[str, Any]:
        before = self.value
        if move() is not before:
            self.revision += 1
        return self._told()

    def _places(self) -> dict[str, Any]:
        """Where names are that occur in several steps or ranks; nothing where there is one."""
        return {"places": [], "left_places": [], "right_places": []}

    def _on_pair(self, message: Asked) -> dict[str, Any]:
        left, right = (self._numbers(side, message[side]) for side in _SIDES)
        instead = self._sent.get(str(message.get("key")))
        value = self.paired(left, right, instead, str(message.get("transform") or "").strip())
        names = dict(zip(_SIDES, map(" + ".join, self._both(left, right)), strict=True))
        return self.replace(value, self.word("did_pair", **names))

    def _on_together(self, message: Asked) -> dict[str, Any]:
        """What would make these names of the right of these of the left."""
        left, right = (self._numbers(side, message[side]) for side in _SIDES)
        given = {side: message[side] for side in _SIDES}
        return {"type": "together", **given, **self.together(left, right)}

    def _numbers(self, side: str, given: object) -> list[int]:
        """The numbers of names of a side, one or several, each once."""
        numbers = list(dict.fromkeys(given if isinstance(given, list) else [given]))
        if not numbers:
            self.refuse("choose_one", side=Message(f"editor.{side}"))
        for number in numbers:
            self.names(side, number)
        return numbers

    def _both(self, left: Sequence[int], right: Sequence[int]) -> tuple[list[str], list[str]]:
        """The names of these numbers of both sides."""
        return [self.names("left", k) for k in left], [self.names("right", k) for k in right]

    def _on_unpair(self, message: Asked) -> dict[str, Any]:
        left, _ = self._row(message)
        value = self.unpaired(self._sent[str(message["key"])])
        return self.replace(value, self.word("did_unpair", name=left[0]))

    def _on_name(self, message: Asked) -> dict[str, Any]:
        left, right = self.names("left", message["left"]), str(message.get("name", "")).strip()
        if not right:
            self.refuse("no_target_name")
        return self.replace(
            self.paired_with(left, right), self.word("did_pair", left=left, right=right)
        )

    def _on_rest(self, _: Asked) -> dict[str, Any]:
        before, left = len(self._rows()), self.left_over()
        answer = self.replace(self.rested(), self.word("did_rest"))
        made = len(self._rows()) - before
        said = self.word("rest_made", count=f"{made:,}")
        if not made:
            empty = "rest_both" if not any(left) else "rest_left" if not left[0] else "rest_right"
            said = self.word("rest_none" if all(left) else empty)
        return answer | {"said": said}

    def _on_aside(self, message: Asked) -> dict[str, Any]:
        name = self.names(message["side"], message["number"])
        value, did = self.put_aside(message["side"], message["number"])
        return self.replace(value, self.word(did, name=name))

    def _on_fits(self, message: Asked) -> dict[str, Any]:
        """How each shape of the other side fits this name."""
        side, number = message["side"], message["number"]
        self.names(side, number)
        return {
            "type": "fits",
            "side": side,
            "number": number,
            "former": self.former(side, number),
            "fits": self.fits(side, number),
            "candidates": [
                [self._number(_SIDES[side == "left"], one), self.said(one.why), _how_well(one)]
                for one in self.candidates(side, number)
            ],
        }

    def _on_row(self, message: Asked) -> dict[str, Any]:
        self._row(message)
        return {"type": "row", "key": message["key"], **self.details(message["key"])}

    def _on_preview(self, message: Asked) -> dict[str, Any]:
        self._row(message)
        said = self.preview(message["key"], str(message["transform"]))
        return {"type": "preview", "key": message["key"], **said}

    def _on_save(self, message: Asked) -> dict[str, Any]:
        """Saves; a file that somebody else wrote is overwritten when it is asked for twice."""
        path = str(message.get("path", "")).strip()
        if not path:
            self.refuse("no_path")
        kind = message.get("kind")
        try:
            if self._is_of_others(path):
                return {"type": "exists", "text": self.word("exists", path=path)}
            written, left_out = self.saved(path, None if kind is None else str(kind))
        except OSError as error:
            if isinstance(error, TroubleshooterError):
                raise
            said = Message("editor.not_saved", file=path, reason=_reason(error))
            raise ArgumentError(said) from error
        text = self.word("saved", name=written.name)
        return {"type": "saved", "text": text, "left_out": left_out}

    def _is_of_others(self, path: str) -> bool:
        """Whether a file is there that this editor did not write, and no answer was asked for."""
        where = _from_home(path)
        asked, self._asked = self._asked, None
        if not where.is_file() or self._written.get(where.resolve()) == _stamp(where):
            return False
        if asked == (where, self.revision):
            return False
        self._asked = where, self.revision
        return True

    def _row(self, message: Asked) -> tuple[list[str], list[str]]:
        """The names of the row with the key of a message."""
        cells = self._sent.get(str(message.get("key")))
        if cells is None:
            self.refuse("no_row")
        return self._both(cells[1], cells[2])

    @abstractmethod
    def _named(self, value: Value) -> Sides:
        """Names and shapes of both sides; their places are the numbers that messages use."""

    @abstractmethod
    def _cells(self) -> dict[str, Cells]: ...

    @abstractmethod
    def _labels(self) -> tuple[str, str]: ...

    @abstractmethod
    def _number(self, side: str, candidate: Candidate) -> int: ...

    def _expected(self) -> list[list[int]]:
        """Numbers that are without a partner on purpose, of both sides."""
        return [[], []]

    @abstractmethod
    def summary(self) -> list[str]:
        """What is matched and what is not, in a few words each."""

    @abstractmethod
    def paired(
        self,
        left: Sequence[int],
        right: Sequence[int],
        instead: Cells | None = None,
        transform: str = "",
    ) -> Value:
        """The value with these numbers paired, in place of a row where one is given."""

    @abstractmethod
    def together(self, left: Sequence[int], right: Sequence[int]) -> dict[str, Any]:
        """What would pair these numbers, and what that gives."""

    @abstractmethod
    def paired_with(self, left: str, right: str) -> Value:
        """The value with a name of the left paired with one that need not be known."""

    @abstractmethod
    def rested(self) -> Value:
        """The value in which what is left on both sides is paired."""

    @abstractmethod
    def left_over(self) -> tuple[int, int]:
        """How many names of the left and of the right have no partner and want one."""

    def former(self, side: str, number: int) -> str:
        """What a name was paired with that may not be known any more; empty for nothing."""
        return ""

    @abstractmethod
    def unpaired(self, cells: Cells) -> Value:
        """The value without this row."""

    @abstractmethod
    def put_aside(self, side: str, number: int) -> tuple[Value, str]:
        """The value in which a name has no partner on purpose, and the id of what was done."""

    @abstractmethod
    def fits(self, side: str, number: int) -> list[str]:
        """For each shape sent how it fits this name.

        Empty, a transform, ``!`` and why not, or ``?`` where a shape is not known.
        """

    @abstractmethod
    def candidates(self, side: str, number: int) -> list[Candidate]:
        """The closest of the other side."""

    @abstractmethod
    def details(self, key: str) -> dict[str, Any]:
        """What else is known of a row."""

    @abstractmethod
    def preview(self, key: str, transform: str) -> dict[str, Any]:
        """What another transform would make of a row."""

    @abstractmethod
    def save(self, path: str, kind: str | None = None) -> Path:
        """Write the value to a file."""

    def saved(self, path: str, kind: str | None = None) -> tuple[Path, list[str]]:
        """Write the value to a file; also what the writer warns of, a sentence each."""
        # The page's messages come in a context of their own, in which no language is set.
        in_language = option_context(language=self.language)
        with in_language, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                written = self.save(path, kind)
            except OSError as error:
                if error.filename is None or isinstance(error, TroubleshooterError):
                    raise
                # What failed is a file beside it, or a folder; the user knows the path alone.
                raise OSError(error.errno, error.strerror, path) from error
        if written.is_file():
            self._written[written.resolve()] = _stamp(written)
        said = []
        for one in caught:
            if issubclass(one.category, TroubleshooterWarning):
                said.append(str(one.message))
            else:
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        return written, said


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
        # Names that the map had, of a side of which it knows no others; and what was parted.
        self._had: tuple[list[str], list[str]] = ([], [])
        self._had_of: object = None
        self._parted: dict[tuple[tuple[str, ...], tuple[str, ...]], WeightRow] = {}
        self._former: dict[str, str] = {}
        self._specs = [None if one is None else _specs_of(one) for one in self._values]
        super().__init__(self.completed(value), language)

    def completed(self, value: WeightMap) -> WeightMap:
        """The map with names and shapes of the given values where it knows none."""
        changes: dict[str, Any] = {}
        for side, known in (("source", value.source or None), ("target", value.target)):
            at = side == "target"
            given, specs = self._values[at], self._specs[at]
            if known is None and given is not None and specs:
                changes[side] = specs
                if getattr(value, f"{side}_label") == side and given.label:
                    changes[f"{side}_label"] = given.label
        return replace(value, **changes) if changes else value

    def _named(self, value: WeightMap) -> Sides:
        if self._had_of is not value.source:  # another map altogether
            self._had, self._had_of = ([], []), value.source
        sides = []
        for known, had, used in (
            (value.source or None, self._had[0], [n for row in value.rows for n in row.sources]),
            (value.target, self._had[1], [n for row in value.rows for n in row.targets]),
        ):
            all_known = had if known is None else known
            names = list(dict.fromkeys((*all_known, *used)))
            had[:] = names
            shapes = [_shape(known[n]) if known and n in known else "" for n in names]
            sides.append((names, shapes))
        self._at = [{name: k for k, name in enumerate(names)} for names, _ in sides]
        self._known_as = value.source, value.target
        self._drawn: dict[int, tuple[WeightRow, WeightRow | None, str, Cells]] = {}
        return sides[0], sides[1]

    def _state(self) -> dict[str, Any]:
        return super()._state() | {"open_target": self.value.target is None}

    def _labels(self) -> tuple[str, str]:
        return self.value.source_label, self.value.target_label

    def _number(self, side: str, candidate: Candidate) -> int:
        return self._at[_SIDES.index(side)][candidate.name]

    def _has_names_of(self, value: WeightMap) -> bool:
        if value.source is not self._known_as[0] or value.target is not self._known_as[1]:
            return False
        at, drawn = self._at, self._drawn
        return all(
            id(row) in drawn
            or (at[0].keys() >= set(row.sources) and at[1].keys() >= set(row.targets))
            for row in value.rows
        )

    def _cells(self) -> dict[str, Cells]:
        suggested, twice = self.value.suggested_instead(), self.value.filled_twice()
        drawn = self._drawn
        made: dict[str, Cells] = {}
        repeated: Counter[str] = Counter()
        for position, row in enumerate(self.value.rows):
            instead = suggested.get(position) if suggested else None
            also = twice.get(position, "") if twice else ""
            known = drawn.get(id(row))
            if known is None or known[1] is not instead or known[2] != also:
                # Kept with its row, so that no other one can come to the same id.
                known = drawn[id(row)] = row, instead, also, self._cells_of(row, instead, also)
            cells = known[3]
            if cells[0] in made:  # a map from a file may say the same twice
                repeated[cells[0]] += 1
                cells = (f"{cells[0]}#{repeated[cells[0]]}", *cells[1:])
            made[cells[0]] = cells
        return made

    def _cells_of(self, row: WeightRow, instead: WeightRow | None, also: str) -> Cells:
        left = [self._at[0][name] for name in row.sources]
        right = [self._at[1][name] for name in row.targets]
        problem = joined([self.value.problem(row), also])
        suggestion = ""
        if instead:
            names = " + ".join(instead.targets)
            suggestion = self.word("by", name=names, how=instead.transform)
        tone = "bad" if problem else "warn" if instead or is_contradicted(row.note) else ""
        return (
            f"{left[0]}>{'+'.join(map(str, right))}",
            left,
            right,
            str(row.transform),
            self._shapes(left, right),
            self.said(joined([problem, row.note])),
            tone,
            suggestion,
        )

    def _shapes(self, left: Sequence[int], right: Sequence[int]) -> str:
        of_left, of_right = self._names[0][1], self._names[1][1]
        mine = " + ".join([of_left[k] for k in left])
        theirs = " + ".join([of_right[k] for k in right])
        return mine if mine == theirs or not theirs else f"{mine} → {theirs}"

    def summary(self) -> list[str]:
        """What is matched and what is not, in a few words each."""
        value = self.value
        total = len(self._names[0][0])
        rows = self._rows().values()
        open_left, open_right = self.left_over()
        transforms, tones = Counter(c[3] for c in rows), Counter(c[6] for c in rows)
        changed = transforms.total() - transforms["copy"] - transforms["drop"]
        counts = [
            ("open_left", open_left),
            ("open_right", open_right),
            ("broken", tones["bad"]),
            ("transformed", changed),
            ("dropped_count", transforms["drop"]),
            ("by_values", len(value.suggestions)),
        ]
        return [
            self.word("matched", count=f"{total - open_left:,}", total=f"{total:,}"),
            *(self.word(key, count=f"{count:,}") for key, count in counts if count),
        ]

    def paired(
        self,
        left: Sequence[int],
        right: Sequence[int],
        instead: Cells | None = None,
        transform: str = "",
    ) -> WeightMap:
        """The map with these paired, by the likeliest transform that fits where none is given.

        A source that goes to several targets keeps them; of a row that is given the target
        changes, whatever else its source goes to.
        """
        sources, targets = self._both(left, right)
        value, how = self.value, transform
        if not how:
            transforms = self._transforms(sources, targets)
            if not transforms:
                names = dict(source=" + ".join(sources), target=" + ".join(targets))
                why = self._misfit(sources, targets)
                raise WeightMapError(Message("editor.cannot", **names, why=why))
            how = str(transforms[0])
        chosen = set(sources)
        used = [n for row in value.rows if row.targets for n in row.sources if n in chosen]
        tied = len(set(used)) < len(used)
        alone = len(left) == len(right) == 1
        if alone and instead is not None and instead[1] == left and right[0] not in instead[2]:
            value, tied = self.unpaired(instead), True
        return value.pair(sources, targets, how, tied=tied)

    def _transforms(self, sources: Sequence[str], targets: Sequence[str]) -> list[Transform]:
        """What fits, the likeliest first: what values suggest of these names, then by shapes."""
        names = tuple(sources), tuple(targets)
        # Where shapes are not known, what was parted goes together again as it was.
        again = None if self._knows(sources, targets) else self._parted.get(names)
        found = self.value.fitting(sources, targets)
        suggested = self.value.suggested_for(sources[0])
        for row in (again, suggested):
            if row is not None and (row.sources, row.targets) == names:
                found = [row.transform, *(one for one in found if one != row.transform)]
        return found

    def together(self, left: Sequence[int], right: Sequence[int]) -> dict[str, Any]:
        """What would make these targets of these sources, and the shapes that the first gives."""
        sources, targets = self._both(left, right)
        transforms = self._transforms(sources, targets)
        if not transforms:
            why = self.said(self._misfit(sources, targets))
            return {"transforms": [], "ok": False, "text": why, "evidence": ""}
        made = WeightRow(tuple(sources), tuple(targets), transforms[0])
        try:
            text = self.value.preview_pair(sources, targets, str(transforms[0]))
        except WeightMapError as error:
            said = {"ok": False, "text": self.why(error), "evidence": ""}
        else:
            said = self._weighed(made, text)
        return {"transforms": [str(one) for one in transforms], **said}

    def paired_with(self, left: str, right: str) -> WeightMap:
        """The map with a source paired with a target of any name, where the target is not known."""
        value = self.value
        tied = sum(left in row.sources for row in value.rows if row.targets) > 1
        parted = self._parted.get(((left,), (right,)))
        return value.pair(left, right, str(parted.transform if parted else "copy"), tied=tied)

    def rested(self) -> WeightMap:
        """The map in which what is left is paired; of a side not known, names that the map had."""
        sources, targets = (names for names, _ in self._names)
        former = list(self._parted.values())
        return self.value.match_rest(sources=sources, targets=targets, former=former)

    def left_over(self) -> tuple[int, int]:
        """How many names of both sides are in no row."""
        rows = self._rows().values()
        left, right = ({n for cells in rows for n in cells[at]} for at in (1, 2))
        return len(self._names[0][0]) - len(left), len(self._names[1][0]) - len(right)

    def former(self, side: str, number: int) -> str:
        """The target that a source had, of a target that is not known."""
        known = side == "right" or self.value.target is not None
        return "" if known else self._former.get(self.names(side, number), "")

    def _knows(self, sources: Sequence[str], targets: Sequence[str]) -> bool:
        source, target = self.value.source, self.value.target or {}
        return all(n in source for n in sources) and all(n in target for n in targets)

    def _position(self, key: str) -> int:
        """Where the row with this key stands in the map."""
        return list(self._rows()).index(key)

    def unpaired(self, cells: Cells) -> WeightMap:
        """The map without this row."""
        position = self._position(cells[0])
        row = self.value.rows[position]
        if row.targets:
            self._parted[row.sources, row.targets] = row
        if len(row.sources) == len(row.targets) == 1:
            self._former[row.sources[0]] = row.targets[0]
        return self.value.unpair(position)

    def put_aside(self, side: str, number: int) -> tuple[WeightMap, str]:
        """The map that drops a source."""
        if side == "right":
            raise WeightMapError(Message("editor.only_sources"))
        return self.value.drop(self.names(side, number)), "did_drop"

    def fits(self, side: str, number: int) -> list[str]:
        """For each shape sent how it fits this name; see `Session.fits`."""
        value, name = self.value, self.names(side, number)
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
            said[_shape(others[other])] = text
        return [said.get(shape, _UNKNOWN) for shape in self._all_shapes]

    def candidates(self, side: str, number: int) -> list[Candidate]:
        """The closest of the other side: by names alone where shapes are not known."""
        name = self.names(side, number)
        sources, targets = (names for names, _ in self._names)
        chosen: Any = "source" if side == "left" else "target"
        others = {"sources": sources, "targets": targets}
        return self.value.candidates(name, side=chosen, **others, most=_MOST)

    def _misfit(self, sources: Sequence[str], targets: Sequence[str]) -> str:
        """Why nothing makes these targets of these sources."""
        if len(sources) > 1 and len(targets) > 1:
            return Message("weight_maps.several_of_several")
        return self.value.misfit(sources, targets) or Message("pairings.unknown_shape")

    def details(self, key: str) -> dict[str, Any]:
        """Transforms that fit, and what the values say."""
        row = self.value.rows[self._position(key)]
        known = bool(row.targets) and self._knows(row.sources, row.targets)
        transforms = self.value.fitting(row.sources, row.targets) if known else []
        if row.transform not in transforms:
            transforms = [row.transform, *transforms]
        return {
            "transforms": [str(one) for one in transforms],
            **self.preview(key, str(row.transform)),
        }

    def preview(self, key: str, transform: str) -> dict[str, Any]:
        """The shapes that a transform gives, or why it does not fit; and what the values say."""
        position = self._position(key)
        try:
            text = self.value.preview(position, transform)
        except WeightMapError as error:
            return {"ok": False, "text": self.why(error), "evidence": "", "transform": transform}
        made = replace(self.value.rows[position], transform=Transform.parse(transform))
        return {**self._weighed(made, text), "transform": transform}

    def _weighed(self, row: WeightRow, text: str) -> dict[str, Any]:
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

    def _on_transform(self, message: Asked) -> dict[str, Any]:
        left, _ = self._row(message)
        text = str(message["transform"])
        value = self.value.transform(self._position(message["key"]), text)
        if value is self.value:
            return self.changes() | {"said": self.word("unchanged", how=text.strip())}
        return self.replace(value, self.word("did_transform", how=text, name=left[0]))

    def _on_accept(self, message: Asked) -> dict[str, Any]:
        """Takes what values suggest of a row, and of those that lie in each other's place."""
        left, _ = self._row(message)
        suggested = self.value.suggested_instead().get(self._position(message["key"]))
        name = suggested.sources[0] if suggested else left[0]
        value = self.value.accept(name, together=True)
        return self.replace(value, self.word("did_accept", name=left[0]))

    def save(self, path: str, kind: str | None = None) -> Path:
        """Write the map as ``.yaml``, or as TroubleShooter's ``.json``."""
        if kind is not None:
            self.refuse("no_kinds", kind=repr(kind))
        return write_weight_map(self.value, _from_home(path))


class PairingSession(Session[Pairing]):
    """A pairing being edited; names are numbered as the entries of its dumps are."""

    kind = "pairing"

    def _named(self, value: Pairing) -> Sides:
        sides = []
        for dump in (value.left, value.right):
            index = dump.index
            names = [str(name) for name in index["name"].values]
            shapes = [shape_text(shape) or "?" for shape in index["shape"].values]
            sides.append((names, shapes))
        self._known_as = value.left.index, value.right.index
        self._where = places_of(value.left, value.right)
        self._drawn: dict[tuple[Any, ...], Cells] = {}
        return sides[0], sides[1]

    def _has_names_of(self, value: Pairing) -> bool:
        return value.left.index is self._known_as[0] and value.right.index is self._known_as[1]

    def _places(self) -> dict[str, Any]:
        columns = [
            {key: sides[at].astype(int).tolist() for key, sides in self._where.items()}
            for at in range(2)
        ]
        several = [k for k in ("step", "rank") if len({v for one in columns for v in one[k]}) > 1]
        if not several:
            return super()._places()
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

    def _labels(self) -> tuple[str, str]:
        return self.value.labels

    def _place(self, side: str, number: int) -> dict[str, int]:
        at = _SIDES.index(side)
        return {name: int(sides[at][number]) for name, sides in self._where.items()}

    def _number(self, side: str, candidate: Candidate) -> int:
        return self._numbered[candidate.name]

    def _cells(self) -> dict[str, Cells]:
        # Of the table's columns: a `Match` for each of its rows takes longer than all the rest.
        table, drawn = self.value.table, self._drawn
        names = ("left_entry", "right_entry", "method", "confidence", "note")
        made: dict[str, Cells] = {}
        for facts in zip(*(table[name].values.tolist() for name in names), strict=True):
            if facts[0] < 0 or facts[1] < 0:
                continue
            cells = drawn.get(facts)
            if cells is None:
                cells = drawn[facts] = self._cells_of(*facts)
            made[cells[0]] = cells
        return made

    def _cells_of(self, left: int, right: int, method: str, confidence: float, note: str) -> Cells:
        own, theirs = self._names[0][1][left], self._names[1][1][right]
        if confidence < 1:
            method += f" {confidence:.2f}"
        tone = "bad" if own != theirs else "warn" if confidence < 0.9 else ""
        said = parts_of(note)
        if tone == "bad":
            rest = (one for one in said if getattr(one, "id", "") != _OTHER_SHAPE)
            said = [Message("editor.shapes_differ"), *rest]
        remark = self.said(joined(said))
        text = own if own == theirs else f"{own} → {theirs}"
        return f"{left}>{right}", [left], [right], method, text, remark, tone, ""

    def _expected(self) -> list[list[int]]:
        table = self.value.table
        expected = table["expected"].values
        left, right = (table[f"{side}_entry"].values for side in _SIDES)
        return [left[expected & (right < 0)].tolist(), right[expected & (left < 0)].tolist()]

    def summary(self) -> list[str]:
        """What is matched and what is not, in a few words each."""
        value = self.value
        expected = sum(map(len, self._expected()))
        differ = sum(cells[6] == "bad" for cells in self._rows().values())
        left, right = len(value.unmatched_left), len(value.unmatched_right)
        counts = [
            ("open_left", left),
            ("open_right", right),
            ("different", differ),
            ("expected_count", expected),
        ]
        return [
            self.word("pair_count", count=f"{value.matched:,}"),
            *(self.word(key, count=f"{count:,}") for key, count in counts if count),
        ]

    def paired(
        self,
        left: Sequence[int],
        right: Sequence[int],
        instead: Cells | None = None,
        transform: str = "",
    ) -> Pairing:
        """The pairing with these two entries paired; several of a side are refused."""
        if len(left) > 1 or len(right) > 1:
            raise PairingError(Message("editor.one_each"))
        if transform:
            raise PairingError(Message("editor.no_transforms"))
        names = self.names("left", left[0]), self.names("right", right[0])
        mine, theirs = self._place("left", left[0]), self._place("right", right[0])
        if mine != theirs:
            first, second = (Message("pairings.place", **one) for one in (mine, theirs))
            sides = {"left": names[0], "first": first, "right": names[1], "second": second}
            raise PairingError(Message("editor.other_place", **sides))
        return self.value.pair(names[0], names[1], step=mine["step"], rank=mine["rank"])

    def together(self, left: Sequence[int], right: Sequence[int]) -> dict[str, Any]:
        """How the shapes of two entries compare; several of a side are refused."""
        said = {"transforms": [], "ok": False, "text": self.word("one_each"), "evidence": ""}
        if len(left) > 1 or len(right) > 1:
            return said
        own, theirs = self._names[0][1][left[0]], self._names[1][1][right[0]]
        if _UNKNOWN in (own, theirs):
            return said | {"ok": True, "text": "", "evidence": self.said(of_shape(None))}
        return said | {"ok": own == theirs, "text": f"{own} -> {theirs}"}

    def paired_with(self, left: str, right: str) -> Pairing:
        """Entries are all known, so that there is nothing to type."""
        raise PairingError(Message("editor.no_such", what=right))

    def rested(self) -> Pairing:
        """The pairing in which what is left is paired."""
        return self.value.match_rest()

    def left_over(self) -> tuple[int, int]:
        """How many entries of both sides have no partner, but for those expected to have none."""
        table = self.value.table
        wanted = ~table["expected"].values
        left, right = (table[f"{side}_entry"].values < 0 for side in _SIDES)
        return int(np.count_nonzero(wanted & right)), int(np.count_nonzero(wanted & left))

    def unpaired(self, cells: Cells) -> Pairing:
        """The pairing in which the two of a row are parted."""
        number = cells[1][0]
        return self.value.unpair(self.names("left", number), **self._place("left", number))

    def put_aside(self, side: str, number: int) -> tuple[Pairing, str]:
        """The pairing in which an entry is expected to have no partner, or one again."""
        name = self.names(side, number)
        place: dict[str, Any] = self._place(side, number)
        expected = number not in self._expected()[_SIDES.index(side)]
        chosen: Any = side
        value = self.value.expect_missing(name, side=chosen, expected=expected, **place)
        return value, "did_expect" if expected else "did_want"

    def fits(self, side: str, number: int) -> list[str]:
        """For each shape sent how it fits this name: empty, ``!`` and why not, or ``?``."""
        own = self._names[_SIDES.index(side)][1][number]
        wrong = "!" + self.word("another_shape")
        return [
            _UNKNOWN if _UNKNOWN in (shape, own) else "" if shape == own else wrong
            for shape in self._all_shapes
        ]

    def candidates(self, side: str, number: int) -> list[Candidate]:
        """The closest of the other side."""
        place, name = self._place(side, number), self.names(side, number)
        chosen: Any = side
        found = self.value.candidates(name, side=chosen, **place)
        other = 1 - _SIDES.index(side)
        here = np.ones(len(self._names[other][0]), bool)
        for key, sides in self._where.items():
            here &= sides[other] == place[key]
        names = self._names[other][0]
        self._numbered: dict[str, int] = {names[k]: k for k in np.flatnonzero(here).tolist()}
        return found

    def details(self, key: str) -> dict[str, Any]:
        """What the values say."""
        return {"transforms": [], "ok": True, "text": "", "evidence": ""}

    def _on_row(self, message: Asked) -> dict[str, Any]:
        answer = super()._on_row(message)
        cells = self._sent[str(message["key"])]
        pair = self.value.left.sources[cells[1][0]], self.value.right.sources[cells[2][0]]
        if pair[0] is None or pair[1] is None:
            return answer
        if pair[0].size_bytes + pair[1].size_bytes > LARGEST_LOOK:
            said: str = Message("values.too_large", most=LARGEST_LOOK >> 20)
            return answer | {"evidence": self.said(said)}
        try:
            said = values_said([pair[0]], [pair[1]])
        except (OSError, TroubleshooterError) as error:
            said = Message("values.unread", reason=self.why(error))
        return answer | {"evidence": self.said(said)}

    def preview(self, key: str, transform: str) -> dict[str, Any]:
        """Pairs have no transforms."""
        return {"ok": False, "text": self.word("no_transforms"), "evidence": ""}

    def save(self, path: str, kind: str | None = None) -> Path:
        """Write the pairs as this kind of mapping.

        Without one as the last word of the file's name says (``net_layer.yaml``, ``cell.yaml``),
        else as a data mapping.
        """
        where = _from_home(path)
        chosen: Any = self._kind(where, kind)
        return write_mapping(self.value, where, kind=chosen)

    def saved(self, path: str, kind: str | None = None) -> tuple[Path, list[str]]:
        """Write the pairs; also what the file does not say of them."""
        written, said = super().saved(path, kind)
        chosen: Any = self._kind(written, kind)
        unsaid = [one for one in unsaid_in_mapping(self.value, chosen) if one.id in _UNSAID]
        if unsaid:
            said.append(self.word("unsaid", kind=chosen, count=len(unsaid), first=unsaid[0]))
        return written, said

    def _kind(self, where: Path, kind: str | None) -> str:
        if kind is not None:
            return kind
        said = _KIND_IN_STEM.search(where.stem)
        return said[1] if said else "data"


def open_session(
    value: WeightMap | Pairing,
    source: Dump | None = None,
    target: Dump | None = None,
    language: str = "en",
) -> WeightMapSession | PairingSession:
    """A session for a weight map or a pairing, in English or Chinese (``zh``)."""
    if isinstance(value, WeightMap):
        return WeightMapSession(value, source, target, language)
    return PairingSession(value, language)


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


def _from_home(path: str) -> Path:
    """The path, ``~`` as the folder it stands for."""
    try:
        if "\0" in path:
            raise ArgumentError(Message("editor.null_in_path"))
        return Path(path).expanduser()
    except RuntimeError as error:  # of a user that is not there
        said = Message("editor.not_saved", file=path, reason=Message("editor.no_home"))
        raise ArgumentError(said) from error


def _how_well(candidate: Candidate) -> str:
    """Of a name: whether it ``fits``, does ``not``, or is free while a shape is not known."""
    if not candidate.fits:
        return "not"
    return "open" if "pairings.unknown_shape" in ids_of(candidate.why) else "fits"


def _shape(spec: Spec) -> str:
    return shape_text(spec.shape)


def _reason(error: OSError) -> str:
    # So says who makes the folders of a path where one of them is a file.
    errno_of = ENOTDIR if isinstance(error, FileExistsError) else error.errno
    if not errno_of:
        return Message("editor.cannot_be_written")
    return message_of(OSError(errno_of, os.strerror(errno_of)))


def _stamp(path: Path) -> tuple[int, int]:
    """By which a file is known again: when it was written, and its size."""
    status = path.stat()
    return status.st_mtime_ns, status.st_size
