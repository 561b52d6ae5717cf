"""What an editor of a weight map or a pairing does, without any widget.

A session holds the versions of the value and answers plain messages with plain messages, so that
everything the page can ask for can be asked for in a test as well.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from troubleshooter_nb.convert.row_evidence import row_evidence, values_said
from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import TroubleshooterError, WeightMapError
from troubleshooter_nb.formats.mapping_file import write_weight_map
from troubleshooter_nb.formats.pairing_writer import write_mapping
from troubleshooter_nb.naming.closeness import Candidate
from troubleshooter_nb.pairing import Pairing
from troubleshooter_nb.render.text import shape_text
from troubleshooter_nb.weight_map import Spec, Transform, WeightMap, WeightRow
from troubleshooter_nb.widgets.history import History

Value = TypeVar("Value", WeightMap, Pairing)
Message = Mapping[str, Any]
# key, left numbers, right numbers, transform or method, shapes, remark, tone, suggestion
Cells = tuple[str, list[int], list[int], str, str, str, str, str]
# Names and shapes of the left, then of the right.
Sides = tuple[tuple[list[str], list[str]], tuple[list[str], list[str]]]
_SIDES = ("left", "right")
_KIND_IN_STEM = re.compile(r"(?:^|[._-])(api|cell|layer)$")


class Session(ABC, Generic[Value]):
    """One value being edited: its versions, and the names of both sides by number."""

    kind = ""

    def __init__(self, value: Value) -> None:
        self.history: History[Value] = History(value)
        self.revision = 0
        self._names: Sides = self._named(value)
        self._sent: dict[str, Cells] = {}
        self._all_shapes: list[str] = []

    @property
    def value(self) -> Value:
        """The current version, complete and frozen."""
        return self.history.value

    def answer(self, message: Message) -> dict[str, Any]:
        """The answer to one message of the page; what goes wrong is a sentence in it.

        Parameters
        ----------
        message : mapping
            ``op`` says what to do, ``re`` is handed back with the answer.
        """
        act = getattr(self, f"_on_{message.get('op')}", None)
        try:
            if act is None:
                msg = f"the editor knows no {message.get('op')!r}"
                raise WeightMapError(msg)
            answer: dict[str, Any] = act(message)
        except (TroubleshooterError, OSError, ValueError, IndexError) as error:
            answer = {"type": "error", "text": _sentence(error)}
        return answer | {"re": message.get("re"), "revision": self.revision}

    def replace(self, value: Value, what: str) -> dict[str, Any]:
        """Make this the current version; the answer tells which rows changed."""
        if value is not self.value:
            self.history.do(value, what)
            self.revision += 1
        return self._told()

    def _told(self) -> dict[str, Any]:
        """What changed; all of it where names changed, as those of a value from outside do."""
        if self._has_names_of(self.value):
            return self.changes()
        self._names = self._named(self.value)
        return self._on_ready({})

    @abstractmethod
    def _has_names_of(self, value: Value) -> bool:
        """Whether the numbers in use hold for a value as well."""

    def changes(self) -> dict[str, Any]:
        """Rows that are not as they were when they were sent last."""
        rows = {cells[0]: cells for cells in self._cells()}
        sent = self._sent
        put = [
            new for key, new in rows.items() if sent.get(key) is not new and sent.get(key) != new
        ]
        gone = [key for key in self._sent if key not in rows]
        self._sent = rows
        return {"type": "rows", "put": put, "gone": gone, **self._facts()}

    def names(self, side: str, number: object) -> str:
        """The name with this number."""
        names = self._names[_SIDES.index(side)][0]
        if not isinstance(number, int) or not 0 <= number < len(names):
            msg = f"there is no name number {number!r} on the {side}"
            raise IndexError(msg)
        return names[number]

    def _facts(self) -> dict[str, Any]:
        history = self.history
        return {
            "undo": history.undo_of,
            "redo": history.redo_of,
            "expected": self._expected(),
            "summary": self.summary(),
        }

    def _on_ready(self, _: Message) -> dict[str, Any]:
        left, left_shapes = self._names[0]
        right, right_shapes = self._names[1]
        self._sent = {cells[0]: cells for cells in self._cells()}
        shapes = list(dict.fromkeys(left_shapes + right_shapes))
        self._all_shapes = shapes
        numbers = {shape: number for number, shape in enumerate(shapes)}
        return {
            "type": "state",
            "kind": self.kind,
            "labels": list(self._labels()),
            "left": left,
            "right": right,
            "shapes": shapes,
            "left_shapes": [numbers[shape] for shape in left_shapes],
            "right_shapes": [numbers[shape] for shape in right_shapes],
            "rows": list(self._sent.values()),
            **self._places(),
            **self._facts(),
        }

    def _on_undo(self, _: Message) -> dict[str, Any]:
        return self._moved(self.history.undo)

    def _on_redo(self, _: Message) -> dict[str, Any]:
        return self._moved(self.history.redo)

    def _moved(self, move: Any) -> dict[str, Any]:
        before = self.value
        if move() is not before:
            self.revision += 1
        return self._told()

    def _places(self) -> dict[str, Any]:
        """Where names are that occur in several steps or ranks; nothing where there is one."""
        return {"places": [], "left_places": [], "right_places": []}

    def _on_pair(self, message: Message) -> dict[str, Any]:
        left, right = message["left"], message["right"]
        names = self.names("left", left), self.names("right", right)
        value = self.paired(left, right)
        return self.replace(value, f"pair {names[0]} with {names[1]}")

    def _on_unpair(self, message: Message) -> dict[str, Any]:
        left, _ = self._row(message)
        return self.replace(self.unpaired(self._sent[str(message["key"])]), f"unpair {left[0]}")

    def _on_rest(self, _: Message) -> dict[str, Any]:
        return self.replace(self.value.match_rest(), "auto-match the rest")

    def _on_aside(self, message: Message) -> dict[str, Any]:
        name = self.names(message["side"], message["number"])
        value, what = self.put_aside(message["side"], message["number"])
        return self.replace(value, f"{what} {name}")

    def _on_fits(self, message: Message) -> dict[str, Any]:
        """How each shape of the other side fits this name."""
        side, number = message["side"], message["number"]
        self.names(side, number)
        return {
            "type": "fits",
            "side": side,
            "number": number,
            "fits": self.fits(side, number),
            "candidates": [
                [self._number(_SIDES[side == "left"], one), one.why, one.fits]
                for one in self.candidates(side, number)
            ],
        }

    def _on_row(self, message: Message) -> dict[str, Any]:
        left, right = self._row(message)
        return {"type": "row", "key": message["key"], **self.details(left, right)}

    def _on_preview(self, message: Message) -> dict[str, Any]:
        left, right = self._row(message)
        text = str(message["transform"])
        return {"type": "preview", "key": message["key"], **self.preview(left, right, text)}

    def _on_save(self, message: Message) -> dict[str, Any]:
        path = str(message.get("path", "")).strip()
        if not path:
            msg = "give the file a name, such as mapping.yaml"
            raise ValueError(msg)
        kind = message.get("kind")
        written = self.save(path, None if kind is None else str(kind))
        return {"type": "saved", "text": f"saved {written.name}"}

    def _row(self, message: Message) -> tuple[list[str], list[str]]:
        """The names of the row with the key of a message."""
        cells = self._sent.get(str(message.get("key")))
        if cells is None:
            msg = "this row is not there any more"
            raise IndexError(msg)
        return [self.names("left", k) for k in cells[1]], [self.names("right", k) for k in cells[2]]

    @abstractmethod
    def _named(self, value: Value) -> Sides:
        """Names and shapes of both sides; their places are the numbers that messages use."""

    @abstractmethod
    def _cells(self) -> Sequence[Cells]: ...

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
    def paired(self, left: int, right: int) -> Value:
        """The value with these two numbers paired."""

    @abstractmethod
    def unpaired(self, cells: Cells) -> Value:
        """The value without this row."""

    @abstractmethod
    def put_aside(self, side: str, number: int) -> tuple[Value, str]:
        """The value in which a name has no partner on purpose, and the word for it."""

    @abstractmethod
    def fits(self, side: str, number: int) -> list[str]:
        """For each shape sent how it fits this name: empty, a transform, or ``!`` and why not."""

    @abstractmethod
    def candidates(self, side: str, number: int) -> list[Candidate]:
        """The closest of the other side."""

    @abstractmethod
    def details(self, left: Sequence[str], right: Sequence[str]) -> dict[str, Any]:
        """What else is known of a row."""

    @abstractmethod
    def preview(self, left: Sequence[str], right: Sequence[str], transform: str) -> dict[str, Any]:
        """What another transform would make of a row."""

    @abstractmethod
    def save(self, path: str, kind: str | None = None) -> Path:
        """Write the value to a file."""


class WeightMapSession(Session[WeightMap]):
    """A weight map being edited.

    Parameters
    ----------
    value : WeightMap
    source, target : Dump, optional
        The values, for what they say of a row.
    """

    kind = "weight_map"

    def __init__(
        self, value: WeightMap, source: Dump | None = None, target: Dump | None = None
    ) -> None:
        self._values = source, target
        super().__init__(value)

    def _named(self, value: WeightMap) -> Sides:
        sides = []
        for known, used in (
            (value.source, [name for row in value.rows for name in row.sources]),
            (value.target or {}, [name for row in value.rows for name in row.targets]),
        ):
            names = list(dict.fromkeys((*known, *used)))
            sides.append((names, [_shape(known[n]) if n in known else "" for n in names]))
        self._at = [{name: k for k, name in enumerate(names)} for names, _ in sides]
        self._known_as = value.source, value.target
        self._drawn: dict[int, tuple[WeightRow, WeightRow | None, Cells]] = {}
        return sides[0], sides[1]

    def _labels(self) -> tuple[str, str]:
        return self.value.source_label, self.value.target_label

    def _number(self, side: str, candidate: Candidate) -> int:
        return self._at[_SIDES.index(side)][candidate.name]

    def _has_names_of(self, value: WeightMap) -> bool:
        if value.source is not self._known_as[0] or value.target is not self._known_as[1]:
            return False
        at = self._at
        return all(
            all(name in at[0] for name in row.sources)
            and all(name in at[1] for name in row.targets)
            for row in value.rows
        )

    def _cells(self) -> list[Cells]:
        suggested = {row.sources[0]: row for row in self.value.suggestions}
        seen: set[str] = set()
        cells: list[Cells] = []
        for row in self.value.rows:
            made = self._cells_of(row, suggested.get(row.sources[0]))
            if made[0] in seen:  # a map from a file may say the same twice
                made = (f"{made[0]}#{len(cells)}", *made[1:])
            seen.add(made[0])
            cells.append(made)
        return cells

    def _cells_of(self, row: WeightRow, instead: WeightRow | None) -> Cells:
        # The row is kept with what was drawn: the id of one that is gone may come again.
        known = self._drawn.get(id(row))
        if known is not None and known[0] is row and known[1] is instead:
            return known[2]
        left = [self._at[0][name] for name in row.sources]
        right = [self._at[1][name] for name in row.targets]
        problem = self.value.problem(row)
        suggestion = f"{' + '.join(instead.targets)} by {instead.transform}" if instead else ""
        tone = "bad" if problem else "warn" if instead or _contradicts(row) else ""
        cells: Cells = (
            f"{left[0]}>{'+'.join(map(str, right))}",
            left,
            right,
            str(row.transform),
            self._shapes(left, right),
            "; ".join(filter(None, [problem, row.note])),
            tone,
            suggestion,
        )
        self._drawn[id(row)] = row, instead, cells
        return cells

    def _shapes(self, left: Sequence[int], right: Sequence[int]) -> str:
        sides = [
            " + ".join(self._names[side][1][k] for k in numbers)
            for side, numbers in enumerate((left, right))
        ]
        return sides[0] if sides[0] == sides[1] or not sides[1] else " → ".join(sides)

    def summary(self) -> list[str]:
        """What is matched and what is not, in a few words each."""
        value = self.value
        total = len(self._names[0][0])
        used = {name for row in value.rows for name in row.sources}
        problems = sum(cells[6] == "bad" for cells in self._sent.values())
        changed = sum(row.transform.kind not in ("copy", "drop") for row in value.rows)
        dropped = sum(row.transform.kind == "drop" for row in value.rows)
        counts = [
            (f"{len(used):,} of {total:,} matched", True),
            (f"{total - len(used):,} unmatched left", total - len(used)),
            (f"{len(value.unmatched_targets):,} unmatched right", value.unmatched_targets),
            (f"{problems:,} cannot be converted", problems),
            (f"{changed:,} transformed", changed),
            (f"{dropped:,} dropped", dropped),
            (f"{len(value.suggestions):,} suggested by values", value.suggestions),
        ]
        return [text for text, shown in counts if shown]

    def paired(self, left: int, right: int) -> WeightMap:
        """The map with these two paired by the likeliest transform that fits."""
        source, target = self.names("left", left), self.names("right", right)
        value = self.value
        transforms = (
            value.fitting(source, target)
            if value.target is not None and target in value.target and source in value.source
            else [Transform()]
        )
        if not transforms:
            msg = f"{source} cannot become {target}: {value.misfit(source, target)}"
            raise WeightMapError(msg)
        return value.pair(source, target, str(transforms[0]))

    def unpaired(self, cells: Cells) -> WeightMap:
        """The map without this row."""
        return self.value.unpair(self.names("left", cells[1][0]))

    def put_aside(self, side: str, number: int) -> tuple[WeightMap, str]:
        """The map that drops a source."""
        if side == "right":
            msg = "a target that nothing fills keeps what it has; only a source can be dropped"
            raise WeightMapError(msg)
        return self.value.drop(self.names(side, number)), "drop"

    def fits(self, side: str, number: int) -> list[str]:
        """For each shape sent how it fits this name: empty, a transform, or ``!`` and why not."""
        value, name = self.value, self.names(side, number)
        others = (value.target or {}) if side == "left" else value.source
        known = value.source if side == "left" else (value.target or {})
        said: dict[str, str] = {}
        one_of_each = {spec.shape: other for other, spec in others.items()}
        for other in one_of_each.values() if name in known else ():
            pair = (name, other) if side == "left" else (other, name)
            transforms = value.fitting(*pair)
            text = f"!{known[name].size:,} ≠ {others[other].size:,} values"
            if transforms:
                text = "" if transforms[0].kind == "copy" else str(transforms[0])
            said[_shape(others[other])] = text
        return [said.get(shape, "") for shape in self._all_shapes]

    def candidates(self, side: str, number: int) -> list[Candidate]:
        """The closest of the other side."""
        name = self.names(side, number)
        value = self.value
        if value.target is None or name not in (value.source if side == "left" else value.target):
            return []
        if side == "right" and name in value.source:
            # The map looks for a source first; turned round, the name is one.
            turned = WeightMap(
                tuple(WeightRow(r.targets, r.sources) for r in value.rows),
                value.target,
                value.source,
            )
            return [
                one._replace(why=f"{one.why}" if not one.fits else self._fit_back(one.name, name))
                for one in turned.candidates(name)
            ]
        return value.candidates(name)

    def _fit_back(self, source: str, target: str) -> str:
        first = self.value.fitting(source, target)[0]
        return "same shape" if first.kind == "copy" else f"fits by {first}"

    def details(self, left: Sequence[str], right: Sequence[str]) -> dict[str, Any]:
        """Transforms that fit, and what the values say."""
        value, row = self.value, self.value[left[0]]
        known = len(left) == len(right) == 1 and left[0] in value.source
        known = known and right[0] in (value.target or {})
        transforms = value.fitting(left[0], right[0]) if known else []
        if row.transform not in transforms:
            transforms = [row.transform, *transforms]
        return {
            "transforms": [str(one) for one in transforms],
            **self.preview(left, right, str(row.transform)),
        }

    def preview(self, left: Sequence[str], right: Sequence[str], transform: str) -> dict[str, Any]:
        """The shapes that a transform gives, or why it does not fit; and what the values say."""
        try:
            text = self.value.preview(left[0], transform)
        except WeightMapError as error:
            return {"ok": False, "text": _sentence(error), "evidence": ""}
        source, target = self._values
        evidence = ""
        if source is not None and target is not None:
            row = self.value[left[0]]
            made = WeightRow(row.sources, row.targets, Transform.parse(transform))
            evidence = row_evidence(made, source, target)
        return {"ok": True, "text": text, "evidence": evidence}

    def _on_transform(self, message: Message) -> dict[str, Any]:
        left, _ = self._row(message)
        text = str(message["transform"])
        return self.replace(self.value.transform(left[0], text), f"{text} for {left[0]}")

    def _on_accept(self, message: Message) -> dict[str, Any]:
        left, _ = self._row(message)
        return self.replace(self.value.accept(left[0]), f"take what values suggest of {left[0]}")

    def save(self, path: str, kind: str | None = None) -> Path:
        """Write the map as ``.yaml``, or as TroubleShooter's ``.json``."""
        if kind is not None:
            msg = f"a weight map has no kinds, got kind={kind!r}; a Pairing has"
            raise ValueError(msg)
        return write_weight_map(self.value, _from_home(path))


class PairingSession(Session[Pairing]):
    """A pairing being edited; names are numbered as the entries of its dumps are."""

    kind = "pairing"

    def _named(self, value: Pairing) -> Sides:
        sides = []
        for dump in (value.left, value.right):
            index = dump.index
            names = [str(name) for name in index["name"].values]
            shapes = [str(shape) or "?" for shape in index["shape"].values]
            sides.append((names, shapes))
        self._known_as = value.left.index, value.right.index
        return sides[0], sides[1]

    def _has_names_of(self, value: Pairing) -> bool:
        return value.left.index is self._known_as[0] and value.right.index is self._known_as[1]

    def _places(self) -> dict[str, Any]:
        columns = [
            {key: dump.index[key].values.astype(int).tolist() for key in ("step", "rank")}
            for dump in (self.value.left, self.value.right)
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
        index = (self.value.left if side == "left" else self.value.right).index
        return {name: int(index[name].values[number]) for name in ("step", "rank")}

    def _number(self, side: str, candidate: Candidate) -> int:
        return self._numbered[candidate.name]

    def _cells(self) -> list[Cells]:
        shapes = [side[1] for side in self._names]
        cells: list[Cells] = []
        for match in self.value.matches():
            if match.left < 0 or match.right < 0:
                continue
            own, theirs = shapes[0][match.left], shapes[1][match.right]
            method = match.method
            if match.confidence < 1:
                method += f" {match.confidence:.2f}"
            tone = "bad" if own != theirs else "warn" if match.confidence < 0.9 else ""
            remark = "; ".join(filter(None, ["shapes differ" if tone == "bad" else "", match.note]))
            text = own if own == theirs else f"{own} → {theirs}"
            key = f"{match.left}>{match.right}"
            cells.append((key, [match.left], [match.right], method, text, remark, tone, ""))
        return cells

    def _expected(self) -> list[list[int]]:
        found: list[list[int]] = [[], []]
        for match in self.value.matches():
            if match.expected and match.right < 0:
                found[0].append(match.left)
            elif match.expected and match.left < 0:
                found[1].append(match.right)
        return found

    def summary(self) -> list[str]:
        """What is matched and what is not, in a few words each."""
        value = self.value
        expected = sum(map(len, self._expected()))
        differ = sum(cells[6] == "bad" for cells in self._cells())
        left, right = len(value.unmatched_left), len(value.unmatched_right)
        counts = [
            (f"{value.matched:,} pairs", True),
            (f"{left:,} unmatched left", left),
            (f"{right:,} unmatched right", right),
            (f"{differ:,} of different shape", differ),
            (f"{expected:,} expected to be missing", expected),
        ]
        return [text for text, shown in counts if shown]

    def paired(self, left: int, right: int) -> Pairing:
        """The pairing with these two entries paired."""
        names = self.names("left", left), self.names("right", right)
        mine, theirs = self._place("left", left), self._place("right", right)
        if mine != theirs:
            return self.value.pair(names[0], names[1])  # which says why it cannot be
        return self.value.pair(names[0], names[1], step=mine["step"], rank=mine["rank"])

    def unpaired(self, cells: Cells) -> Pairing:
        """The pairing in which the two of a row are parted."""
        number = cells[1][0]
        return self.value.unpair(self.names("left", number), **self._place("left", number))

    def put_aside(self, side: str, number: int) -> tuple[Pairing, str]:
        """The pairing in which an entry is expected to have no partner."""
        name = self.names(side, number)
        place = self._place(side, number)
        chosen: Any = side
        return self.value.expect_missing(name, side=chosen, **place), "expect no partner of"

    def fits(self, side: str, number: int) -> list[str]:
        """For each shape sent how it fits this name: empty, or ``!`` and why not."""
        own = self._names[_SIDES.index(side)][1][number]
        return ["" if shape == own else "!another shape" for shape in self._all_shapes]

    def candidates(self, side: str, number: int) -> list[Candidate]:
        """The closest of the other side."""
        place, name = self._place(side, number), self.names(side, number)
        chosen: Any = side
        found = self.value.candidates(name, side=chosen, **place)
        index = (self.value.right if side == "left" else self.value.left).index
        columns = (index[key].values for key in ("name", "step", "rank"))
        self._numbered = {
            str(other): k
            for k, (other, step, rank) in enumerate(zip(*columns, strict=True))
            if (step, rank) == (place["step"], place["rank"])
        }
        return found

    def details(self, left: Sequence[str], right: Sequence[str]) -> dict[str, Any]:
        """What the values say."""
        return {"transforms": [], "ok": True, "text": "", "evidence": ""}

    def _on_row(self, message: Message) -> dict[str, Any]:
        answer = super()._on_row(message)
        cells = self._sent[str(message["key"])]
        pair = self.value.left.sources[cells[1][0]], self.value.right.sources[cells[2][0]]
        if pair[0] is not None and pair[1] is not None:
            answer["evidence"] = values_said([pair[0]], [pair[1]])
        return answer

    def preview(self, left: Sequence[str], right: Sequence[str], transform: str) -> dict[str, Any]:
        """Pairs have no transforms."""
        return {"ok": False, "text": "pairs have no transforms", "evidence": ""}

    def save(self, path: str, kind: str | None = None) -> Path:
        """Write the pairs as this kind of mapping.

        Without one as the last word of the file's name says (``net_layer.yaml``, ``cell.yaml``),
        else as a data mapping.
        """
        where = _from_home(path)
        if kind is None:
            said = _KIND_IN_STEM.search(where.stem)
            kind = said[1] if said else "data"
        chosen: Any = kind
        return write_mapping(self.value, where, kind=chosen)


def open_session(
    value: WeightMap | Pairing, source: Dump | None = None, target: Dump | None = None
) -> WeightMapSession | PairingSession:
    """A session for a weight map or a pairing."""
    if isinstance(value, WeightMap):
        return WeightMapSession(value, source, target)
    return PairingSession(value)


def _from_home(path: str) -> Path:
    """The path, ``~`` as the folder it stands for."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:  # of a user that is not there
        msg = f"{path}: {error}"
        raise ValueError(msg) from error


def _shape(spec: Spec) -> str:
    return shape_text(spec.shape) or "scalar"


def _contradicts(row: WeightRow) -> bool:
    """Whether values speak against a row, as `convert.evidence` notes it."""
    return any(word in row.note for word in ("values differ", "values are those of", "values: "))


def _sentence(error: Exception) -> str:
    """What an error says, on one line, without the folders of this machine."""
    if isinstance(error, OSError) and not isinstance(error, TroubleshooterError):
        name = Path(str(error.filename)).name if error.filename else "the file"
        return f"{name}: {error.strerror or 'cannot be written'}"
    return " ".join(str(error).split())
