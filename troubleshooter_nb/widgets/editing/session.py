"""What an editor does whatever it edits: it keeps the versions, and answers the page."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Literal, NoReturn

from troubleshooter_nb.errors import ArgumentError, TroubleshooterError
from troubleshooter_nb.messages import Message, ids_of, message_of, told
from troubleshooter_nb.naming.closeness import Candidate
from troubleshooter_nb.undo import History
from troubleshooter_nb.widgets.editing.offered_names import Value, Version
from troubleshooter_nb.widgets.editing.page import Cells, NumberedNames, Page
from troubleshooter_nb.widgets.editing.saving import Saver, not_saved
from troubleshooter_nb.widgets.words import editor_word

Asked = Mapping[str, Any]  # a message of the page
Answer = dict[str, Any]
Numbers = Sequence[int]  # of names
Side = Literal["left", "right"]
SIDES: tuple[Side, Side] = ("left", "right")
# What `fits` says of a shape that is not known, on either side.
UNKNOWN = "?"


class Session(ABC, Generic[Value]):
    """One value being edited: its versions, and the names of both sides by number.

    Messages are plain, as are the answers, so that everything the page can ask for can be asked
    for in a test as well.
    """

    kind = ""

    def __init__(self, version: Version[Value], language: str) -> None:
        self.language = language
        self.history: History[Version[Value]] = History(version)
        self.revision = 0
        self.numbering = 0  # how often the names were numbered anew
        self._made: tuple[Value, dict[str, Cells]] | None = None
        self._saver = Saver()
        self.number_names()

    @property
    def value(self) -> Value:
        """The current version, complete and frozen."""
        return self.history.value.value

    def word(self, key: str, **values: object) -> str:
        """Words of the editor in the session's language."""
        return editor_word(key, self.language, **values)

    def said(self, text: str) -> str:
        """A message in the session's language, any other text as it is."""
        return told(text, self.language)

    def counted(self, counts: Mapping[str, int]) -> list[str]:
        """Counts in words, by the ids of these; nothing of those that are 0."""
        return [self.word(key, count=f"{count:,}") for key, count in counts.items() if count]

    def refuse(self, key: str, **values: object) -> NoReturn:
        """Raise the words of this key."""
        raise ArgumentError(Message(f"editor.{key}", **values))

    def answer(self, message: Asked) -> Answer:
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
            answer: Answer = act(message)
        except (TroubleshooterError, OSError, ValueError, IndexError) as error:
            answer = {"type": "error", "text": self.why(error)}
        return answer | {"re": message.get("re"), "revision": self.revision}

    def why(self, error: Exception) -> str:
        """What an error says, on one line, without the folders of this machine."""
        said = message_of(error)
        if isinstance(error, OSError) and not isinstance(error, TroubleshooterError):
            name = Path(str(error.filename)).name if error.filename else Message("editor.the_file")
            said = not_saved(error, name)
        return " ".join(self.said(said).split())

    # The versions, and what the page is told of them.

    def replace(self, value: Value, what: str) -> Answer:
        """Make this the current version; the answer tells what changed."""
        version = self.version(value)
        if version.value is not self.value:
            self.history.do(version, what)
            self.revision += 1
        return self._told()

    def version(self, value: Value) -> Version[Value]:
        """The version that a value is after the current one."""
        return Version(value)

    def _on_undo(self, _: Asked) -> Answer:
        return self._moved(self.history.undo)

    def _on_redo(self, _: Asked) -> Answer:
        return self._moved(self.history.redo)

    def _moved(self, move: Callable[[], Version[Value]]) -> Answer:
        before = self.value
        if move().value is not before:
            self.revision += 1
        return self._told()

    def _told(self) -> Answer:
        """What changed; all of it where another value brought other names or labels."""
        labels, sides = self._numbered_for
        if labels == self.labels() and all(map(operator.is_, sides, self.known_sides())):
            return self.changes()
        self.number_names()
        self.numbering += 1
        return self._state()

    def number_names(self) -> None:
        """Number the names of both sides from 0; the page has to be told all then."""
        self._numbered_for = self.labels(), self.known_sides()
        self.page = Page(*self.numbered_names())

    def changes(self) -> Answer:
        """Names that came or went, and rows that are not as they were when they were sent last."""
        # Names first: a new row may have a new one.
        names = self.changed_names()
        rows = self.page.update_rows(self.rows())
        return {"type": "rows", "names": names, **rows, **self._facts()}

    def changed_names(self) -> list[list[Any]]:
        """What `Page.update_names` tells; nothing where no name ever comes or goes."""
        return []

    def rows(self) -> dict[str, Cells]:
        """The rows of the current version by their keys, made once for each version."""
        if self._made is None or self._made[0] is not self.value:
            self._made = self.value, self.drawn_rows()
        return self._made[1]

    def _facts(self) -> Answer:
        return {
            "undo": self.history.undo_of,
            "redo": self.history.redo_of,
            "expected": self.expected(),
            "summary": self.summary(),
        }

    def _on_ready(self, _: Asked) -> Answer:
        """All there is, for a new view alone: others have it."""
        return self._state() | {"first": True}

    def _state(self) -> Answer:
        return {
            "type": "state",
            "kind": self.kind,
            "numbering": self.numbering,
            "labels": list(self.labels()),
            "open_target": False,
            **self.page.state(self.rows()),
            **self.places(),
            **self._facts(),
        }

    # Names and rows that a message is about.

    def name(self, side: Side, number: object) -> str:
        """The name with this number."""
        names = self.page.sides[SIDES.index(side)].names
        if not isinstance(number, int) or not 0 <= number < len(names):
            where = Message(f"editor.{side}")
            self.refuse("no_name", number=repr(number), side=where)
        return names[number]

    def shape(self, side: Side, number: int) -> str:
        """The shape of the name with this number."""
        return self.page.sides[SIDES.index(side)].shapes[number]

    def both(self, left: Numbers, right: Numbers) -> tuple[list[str], list[str]]:
        """The names of these numbers of both sides."""
        return [self.name("left", k) for k in left], [self.name("right", k) for k in right]

    def _numbers(self, message: Asked) -> tuple[list[int], list[int]]:
        """The numbers of names of both sides, one or several, each once."""
        left, right = (self._numbers_of(side, message[side]) for side in SIDES)
        return left, right

    def _numbers_of(self, side: Side, given: object) -> list[int]:
        numbers = list(dict.fromkeys(given if isinstance(given, list) else [given]))
        if not numbers:
            self.refuse("choose_one", side=Message(f"editor.{side}"))
        for number in numbers:
            self.name(side, number)
        return numbers

    def row(self, message: Asked) -> Cells:
        """The row with the key of a message, as the page has it."""
        cells = self.page.rows.get(str(message.get("key")))
        if cells is None:
            self.refuse("no_row")
        return cells

    def first_name(self, cells: Cells) -> str:
        """What a row is called in a sentence."""
        return self.name("left", cells.left[0])

    # What the page asks.

    def _on_pair(self, message: Asked) -> Answer:
        left, right = self._numbers(message)
        instead = self.page.rows.get(str(message.get("key")))
        value = self.paired(left, right, instead, str(message.get("transform") or "").strip())
        names = dict(zip(SIDES, map(" + ".join, self.both(left, right)), strict=True))
        return self.replace(value, self.word("did_pair", **names))

    def _on_together(self, message: Asked) -> Answer:
        """What would make these names of the right of these of the left."""
        given = {"left": message["left"], "right": message["right"]}
        return {"type": "together", **given, **self.together(*self._numbers(message))}

    def _on_unpair(self, message: Asked) -> Answer:
        cells = self.row(message)
        return self.replace(
            self.unpaired(cells), self.word("did_unpair", name=self.first_name(cells))
        )

    def _on_name(self, message: Asked) -> Answer:
        left, right = self.name("left", message["left"]), str(message.get("name", "")).strip()
        if not right:
            self.refuse("no_target_name")
        value = self.paired_with(left, right)
        return self.replace(value, self.word("did_pair", left=left, right=right))

    def _on_rest(self, _: Asked) -> Answer:
        before, left = len(self.rows()), self.left_over()
        answer = self.replace(self.rested(), self.word("did_rest"))
        made = len(self.rows()) - before
        said = self.word("rest_made", count=f"{made:,}")
        if not made:
            empty = "rest_both" if not any(left) else "rest_left" if not left[0] else "rest_right"
            said = self.word("rest_none" if all(left) else empty)
        return answer | {"said": said}

    def _on_aside(self, message: Asked) -> Answer:
        side, number = message["side"], message["number"]
        name = self.name(side, number)
        value, did = self.put_aside(side, number)
        return self.replace(value, self.word(did, name=name))

    def _on_fits(self, message: Asked) -> Answer:
        """How each shape of the other side fits this name."""
        side, number = message["side"], message["number"]
        self.name(side, number)
        return {
            "type": "fits",
            "side": side,
            "number": number,
            "former": self.former(side, number),
            "fits": self.fits(side, number),
            "candidates": [
                [other, self.said(one.why), _how_well(one)]
                for other, one in self.candidates(side, number)
            ],
        }

    def _on_row(self, message: Asked) -> Answer:
        return {"type": "row", "key": message["key"], **self.details(self.row(message))}

    def _on_preview(self, message: Asked) -> Answer:
        said = self.preview(self.row(message), str(message["transform"]))
        return {"type": "preview", "key": message["key"], **said}

    def _on_save(self, message: Asked) -> Answer:
        """Saves; a file that somebody else wrote is overwritten when it is asked for twice."""
        path = str(message.get("path", "")).strip()
        if not path:
            self.refuse("no_path")
        kind = message.get("kind")
        try:
            if self._saver.is_of_others(path, self.revision):
                return {"type": "exists", "text": self.word("exists", path=path)}
            written, left_out = self.saved(path, None if kind is None else str(kind))
        except OSError as error:
            if isinstance(error, TroubleshooterError):
                raise
            raise ArgumentError(not_saved(error, path)) from error
        text = self.word("saved", name=written.name)
        return {"type": "saved", "text": text, "left_out": left_out}

    def saved(self, path: str, kind: str | None = None) -> tuple[Path, list[str]]:
        """Write the value to a file; also what the file leaves out, a sentence each."""
        return self._saver.save(path, lambda where: self.write(where, kind), self.language)

    # What depends on what is edited.

    @abstractmethod
    def known_sides(self) -> tuple[object, object]:
        """What is known of both sides; another object is another side."""

    @abstractmethod
    def numbered_names(self) -> tuple[NumberedNames, NumberedNames]:
        """Names and shapes of both sides by the numbers that messages use."""

    @abstractmethod
    def drawn_rows(self) -> dict[str, Cells]:
        """The rows of the current version by their keys."""

    @abstractmethod
    def labels(self) -> tuple[str, str]:
        """What the two sides are called."""

    def places(self) -> Answer:
        """Where names are that occur in several steps or ranks; nothing where there is one."""
        return {"places": [], "left_places": [], "right_places": []}

    def expected(self) -> list[list[int]]:
        """Numbers that are without a partner on purpose, of both sides."""
        return [[], []]

    @abstractmethod
    def summary(self) -> list[str]:
        """What is matched and what is not, in a few words each."""

    @abstractmethod
    def paired(
        self, left: Numbers, right: Numbers, instead: Cells | None = None, transform: str = ""
    ) -> Value:
        """The value with these numbers paired, in place of a row where one is given."""

    @abstractmethod
    def together(self, left: Numbers, right: Numbers) -> Answer:
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

    def former(self, side: Side, number: int) -> str:
        """What a name was paired with that may not be known any more; empty for nothing."""
        return ""

    @abstractmethod
    def unpaired(self, cells: Cells) -> Value:
        """The value without this row."""

    @abstractmethod
    def put_aside(self, side: Side, number: int) -> tuple[Value, str]:
        """The value in which a name has no partner on purpose, and the id of what was done."""

    @abstractmethod
    def fits(self, side: Side, number: int) -> list[str]:
        """For each shape sent how it fits this name.

        Empty, a transform, ``!`` and why not, or ``?`` where a shape is not known.
        """

    @abstractmethod
    def candidates(self, side: Side, number: int) -> list[tuple[int, Candidate]]:
        """The closest of the other side, with their numbers."""

    @abstractmethod
    def details(self, cells: Cells) -> Answer:
        """What else is known of a row."""

    @abstractmethod
    def preview(self, cells: Cells, transform: str) -> Answer:
        """What another transform would make of a row."""

    @abstractmethod
    def write(self, path: Path, kind: str | None = None) -> Path:
        """Write the value to a file."""


def _how_well(candidate: Candidate) -> str:
    """Of a name: whether it ``fits``, does ``not``, or is free while a shape is not known."""
    if not candidate.fits:
        return "not"
    return "open" if "pairings.unknown_shape" in ids_of(candidate.why) else "fits"
