"""What a recording could not record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from troubleshooter_nb.errors import ArgumentTypeError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.options import get_options
from troubleshooter_nb.render.missing_words import KINDS as KINDS
from troubleshooter_nb.render.missing_words import MissingRow as MissingRow
from troubleshooter_nb.render.missing_words import cure_of, together, what_of
from troubleshooter_nb.render.recording_view import missing_html, missing_text

_COLUMNS = ("kind", "where", "count", "detail", "what", "cure", "code")


@dataclass(frozen=True, repr=False)
class Missing:
    """What a recording lacks, and what to do about each; false where nothing is missing.

    Attributes
    ----------
    rows : tuple of MissingRow
        One for each kind and detail: rows of one are put together, their names in the order in
        which they came and each once, their counts added. The kinds that hide most come first.
    """

    rows: tuple[MissingRow, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(together(map(_as_row, self.rows))))

    @classmethod
    def of_events(cls, events: Iterable[Mapping[str, Any]]) -> Missing:
        """From what stands under ``missing`` in the lines of a record.

        What a line leaves out has its default, and keys that are not known are passed over.

        Parameters
        ----------
        events : iterable of mapping
            With ``kind``, and perhaps ``where`` (list of str), ``count`` and ``detail``.
        """
        return cls(tuple(map(_of_event, events)))

    def __iter__(self) -> Iterator[MissingRow]:
        """The rows, each ``(kind, where, count, detail)``."""
        return iter(self.rows)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.rows)

    def __bool__(self) -> bool:
        """Whether anything is missing."""
        return bool(self.rows)

    def of_kind(self, kind: str) -> tuple[str, ...]:
        """The names that rows of one kind name; nothing where there is none."""
        return tuple(name for row in self.rows if row.kind == kind for name in row.where)

    def to_dataframe(self) -> pd.DataFrame:
        """One row per kind and detail, with what happened and its cure in the language in force.

        Columns ``kind, where`` (tuple of str), ``count, detail, what, cure, code``.
        """
        language = str(get_options()["language"])
        rows = [(*row, what_of(row, language), *cure_of(row, language)) for row in self.rows]
        return pd.DataFrame(rows, columns=list(_COLUMNS))

    def __repr__(self) -> str:
        """What is missing, where and what to do, at most 25 lines."""
        return missing_text(self.rows, get_options())

    def _repr_html_(self) -> str:
        return missing_html(self.rows, get_options())


def _of_event(event: Mapping[str, Any]) -> MissingRow:
    where, count = _names(event.get("where")), event.get("count")
    if isinstance(count, bool) or not isinstance(count, int):
        count = max(len(where), 1)
    return MissingRow(str(event.get("kind", "")), where, count, str(event.get("detail") or ""))


def _as_row(given: object) -> MissingRow:
    if isinstance(given, MissingRow):
        return given
    if isinstance(given, (tuple, list)) and len(given) in (2, 3, 4):
        kind, where, *others = given
        return MissingRow(str(kind), _names(where), *others)
    raise ArgumentTypeError(Message("capture.missing_row", given=type(given).__name__))


def _names(where: object) -> tuple[str, ...]:
    if isinstance(where, (list, tuple)):
        return tuple(map(str, where))
    return (str(where),) if where else ()
