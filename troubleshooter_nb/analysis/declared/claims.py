"""The pairs a mapping file declares, one partner each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from troubleshooter_nb.analysis.declared.side import DumpNames
from troubleshooter_nb.formats.pairing_rules import ApiRule, MappingFile, NameRule
from troubleshooter_nb.formats.yaml_nodes import mapping_error, shown
from troubleshooter_nb.messages import Message, joined, message_of, parts_of
from troubleshooter_nb.naming.closeness import closest
from troubleshooter_nb.pairing import Match

Unknown = Literal["error", "skip"]
_OF_LINES = ("mappings.of_line", "mappings.of_lines")


@dataclass
class Claims:
    """The pairs one file declares so far.

    `source` is the side that the left names of the file belong to, `target` the other one.
    """

    file: MappingFile
    source: DumpNames
    target: DumpNames
    unknown: Unknown
    notes: list[str]
    swapped: bool = False
    used: tuple[dict[int, str], dict[int, str]] = field(default_factory=lambda: ({}, {}))
    found: list[Match] = field(default_factory=list)  # with source left and target right

    def where(self, rules: Iterable[NameRule | ApiRule]) -> Message:
        """File and lines, as a note."""
        lines = list(dict.fromkeys(str(rule.line) for rule in rules))
        if not lines:
            return Message("mappings.of_same_name", file=self.file.file)
        return Message(_OF_LINES[len(lines) > 1], file=self.file.file, lines=lines)

    def pair(
        self,
        source: int,
        target: int,
        note: str,
        *,
        weak: bool = False,
        rule: NameRule | ApiRule | None = None,
        key: str = "",
        confidence: float = 1.0,
    ) -> None:
        """Declare a pair; a weak one yields to what is declared already, others must not clash."""
        for row, used, side in (
            (source, self.used[0], self.source),
            (target, self.used[1], self.target),
        ):
            if row not in used:
                continue
            # Earlier files win; within one the user must say which is meant.
            if weak or rule is None or not self._is_of_lines(used[row]):
                return
            name = shown(side.columns["name"][row])
            said = Message("mappings.has_partner", name=name, where=used[row])
            raise mapping_error(self.file.file, rule.line, key, said)
        self.used[0][source] = self.used[1][target] = note
        self.found.append(Match(source, target, "user", confidence, note))

    def _is_of_lines(self, note: str) -> bool:
        """Whether a note says that lines of this file made the pair."""
        first = parts_of(note)[0]
        if not isinstance(first, Message) or first.id not in _OF_LINES:
            return False
        return bool(first.values["file"] == self.file.file)

    def alone(self, row: int, note: str, *, in_source: bool = True) -> None:
        """Declare that a row has no partner."""
        used = self.used[0 if in_source else 1]
        if row not in used:
            used[row] = note
            pair = (row, -1) if in_source else (-1, row)
            self.found.append(Match(*pair, "unmatched", np.nan, note, expected=True))

    def lacks(
        self, line: int, key: str, text: Message, *, name: str = "", known: Iterable[str] = ()
    ) -> None:
        """A name is unknown: raise, with those most like it, or note it."""
        if self.unknown == "error":
            raise mapping_error(self.file.file, line, key, with_closest(text, name, known))
        self.note(line, key, Message("mappings.not_used", said=text))

    def note(self, line: int, key: str, text: Message) -> None:
        """Note what is to be known of a line of the file, such as that it met nothing."""
        self.notes.append(message_of(mapping_error(self.file.file, line, key, text)))

    def matches(self) -> list[Match]:
        """What was declared, with the sides as they are in the dumps."""
        if not self.swapped:
            return list(self.found)
        order = Message("mappings.turned")
        return [
            match._replace(left=match.right, right=match.left, note=joined([match.note, order]))
            for match in self.found
        ]


def with_closest(text: Message, name: str, known: Iterable[str]) -> Message:
    """What is said of a name that is unknown, with those most like it."""
    if not name:
        return text
    near = closest(name, known) or Message("mappings.nothing_like_it")
    return Message("mappings.with_closest", said=text, closest=near)
