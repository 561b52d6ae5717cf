"""The weight map: its rows, what is known of both sides, and its changes, each a new map."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pandas as pd
import xarray as xr

from troubleshooter_nb.errors import AmbiguousEntryError, WeightMapError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming.closeness import Candidate
from troubleshooter_nb.options import get_options
from troubleshooter_nb.render.weight_map_view import weight_map_html, weight_map_text
from troubleshooter_nb.shapes import with_shape_texts
from troubleshooter_nb.transforms import Spec, Transform
from troubleshooter_nb.undo import History
from troubleshooter_nb.weight_map.candidates import candidates, rest_of
from troubleshooter_nb.weight_map.doubts import doubts_of, is_contradicted
from troubleshooter_nb.weight_map.renaming import Renaming, renamed
from troubleshooter_nb.weight_map.rows import (
    JOIN,
    Side,
    WeightRow,
    beside,
    filled_by_several,
    filled_twice,
    position_of,
    said_of_filled,
    used_names,
)
from troubleshooter_nb.weight_map.suggestions import (
    counted,
    suggested_for,
    suggested_instead,
    suggestion_of,
    with_displaced,
)
from troubleshooter_nb.weight_map.table import table_of_rows
from troubleshooter_nb.weight_map.tensors import Tensors

_MOST_PROBLEMS = 8


@dataclass(frozen=True, repr=False)
class WeightMap:
    """Rows that say which parameters become which; a change returns a new map.

    Attributes
    ----------
    rows : tuple of WeightRow
        In the order of the source.
    source : mapping of str to Spec
        Every tensor of the source that has to go somewhere; empty where nothing is known of it, as
        of a map just read from a file.
    target : mapping of str to Spec, optional
        Every tensor the target wants; None where the target is known by its framework only.
    source_label, target_label : str
    notes : tuple of str
        What the maker of the map wants the user to know, such as differing defaults of layers.
    suggestions : tuple of WeightRow
        Rows that values prove instead of those that names made; `accept` takes them over. No two
        have a name in common.
    kept : tuple of str
        Targets that keep what they have, on purpose; see `keep`.
    unread : mapping of str to str
        Tensors of the source that cannot be read, and why.
    """

    rows: tuple[WeightRow, ...]
    source: Mapping[str, Spec]
    target: Mapping[str, Spec] | None = None
    source_label: str = "source"
    target_label: str = "target"
    notes: tuple[str, ...] = ()
    suggestions: tuple[WeightRow, ...] = ()
    kept: tuple[str, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.rows)

    def __iter__(self) -> Iterator[WeightRow]:
        """The rows."""
        return iter(self.rows)

    def __getitem__(self, name: str | int | tuple[str, str]) -> WeightRow:
        """The row of a source name, else of a target name; of ``source, target``, or at a position.

        Raises
        ------
        EntryNotFoundError
            If no row has it; the message lists the closest.
        AmbiguousEntryError
            If several have it, as of a weight that goes to two places; the message lists them.
        """
        return self.rows[position_of(self.rows, *(name if isinstance(name, tuple) else [name]))]

    @cached_property
    def tensors(self) -> Tensors:
        """What is known of both sides, with what follows from it for a row."""
        return Tensors(self.source, self.target, self.source_label, self.target_label)

    @property
    def unmatched_sources(self) -> list[str]:
        """Names of the source that no row mentions."""
        used = set(used_names(self.rows, "source"))
        return [name for name in self.source if name not in used]

    @property
    def unmatched_targets(self) -> list[str]:
        """Names of a known target that no row fills and nobody said to `keep`."""
        used = {*used_names(self.rows, "target"), *self.kept}
        return [name for name in self.target or () if name not in used]

    @property
    def coverage(self) -> float:
        """Share of the source's elements that some row takes to the target, 0 to 1.

        What is dropped on purpose, such as counters of batches, does not count.
        """
        dropped = {name for row in self.rows if not row.targets for name in row.sources}
        total = sum(spec.size for name, spec in self.source.items() if name not in dropped)
        taken = {name for row in self.rows if row.targets for name in row.sources}
        covered = sum(self.source[name].size for name in taken if name in self.source)
        return covered / total if total else 1.0

    @property
    def names(self) -> dict[str, str]:
        """``{source name: target name}`` of the rows with one of each; the last of a source."""
        return {
            row.sources[0]: row.targets[0]
            for row in self.rows
            if len(row.sources) == len(row.targets) == 1
        }

    def pair(
        self,
        source: str | Sequence[str],
        target: str | Sequence[str],
        transform: str = "copy",
        *,
        tied: bool = False,
    ) -> WeightMap:
        """A map in which these belong together; rows that had one of the names are taken out.

        A source that goes to this target already keeps the rows of its other targets.

        Parameters
        ----------
        source, target : str or list of str
            Names, as many of each side as the transform takes and gives.
        transform : str
            As `Transform.parse` reads it.
        tied : bool
            Whether a source goes to its other targets as well, as tied weights do.

        Raises
        ------
        EntryNotFoundError
            If a name is not in the source, or not in a known target.
        AmbiguousEntryError
            If a source goes to several other targets, of which none is said to be given up.
        WeightMapError
            If the transform is unknown or does not fit the shapes.
        """
        sources, targets = _names(source), _names(target)
        if twice := [name for name, count in Counter(targets).items() if count > 1]:
            names = {"name": twice[0], "names": list(targets)}
            raise WeightMapError(Message("weight_maps.target_twice_in_row", **names))
        row = self.tensors.checked(
            WeightRow(sources, targets, Transform.parse(transform), how="edited"),
        )
        kept = beside(self.rows, [row], tied=tied)
        for name in sources if targets and not tied else ():
            others = [one for one in kept if name in one.sources]
            before = [one for one in self.rows if one.targets and name in one.sources]
            if len(others) > 1 and len(others) == len(before):
                listed = [JOIN.join(one.targets) for one in others]
                names = {"name": name, "others": listed, "target": JOIN.join(targets)}
                raise AmbiguousEntryError(Message("weight_maps.goes_elsewhere", **names))
        return self.with_rows([*kept, row])

    def unpair(self, name: str | int, *, target: str | None = None) -> WeightMap:
        """A map without the row of this source, else target, name.

        Parameters
        ----------
        name : str or int
            Of rows that say the same twice the first is meant; the row's position, from 0, says
            which.
        target : str, optional
            One of the row's targets, where the source `name` goes to several; empty for the row
            that drops it.

        Raises
        ------
        EntryNotFoundError, AmbiguousEntryError
            As ``map[name]``, or ``map[name, target]``.
        """
        position = position_of(self.rows, name, target)
        return replace(self, rows=self.rows[:position] + self.rows[position + 1 :])

    def drop(self, *sources: str) -> WeightMap:
        """A map in which these tensors of the source go nowhere, on purpose.

        Raises
        ------
        EntryNotFoundError
            If a known source has no such name; the message lists the closest.
        """
        self.tensors.check_sources([name for name in sources if name not in self.unread])
        left = [row for row in self.rows if not set(sources) & set(row.sources)]
        dropped = [WeightRow((one,), (), Transform("drop"), how="edited") for one in sources]
        return self.with_rows([*left, *dropped])

    def keep(self, *targets: str) -> WeightMap:
        """A map in which these tensors of the target keep what they have, on purpose.

        Rows that fill them are taken out.

        Raises
        ------
        EntryNotFoundError
            If a known target has no such name; the message lists the closest.
        """
        self.tensors.check([], targets)
        rows = [row for row in self.rows if not set(targets) & set(row.targets)]
        return replace(self.with_rows(rows), kept=tuple(dict.fromkeys((*self.kept, *targets))))

    def doubts(self) -> list[Message]:
        """What speaks against the map though it can be converted: a sentence each.

        Rows that values contradict; targets that nothing fills; sources without a place, with their
        share of the elements; sources without elements. Whoever means it so says it: by `pair` or
        `transform` of a row, `keep` of a target, `drop` of a source.
        """
        sources, targets = self.unmatched_sources, self.unmatched_targets
        used = set(used_names(self.rows, "source"))
        unread = {name: why for name, why in self.unread.items() if name not in used}
        return doubts_of(self.rows, self.source, sources, targets, unread)

    def transform(self, name: str | int, transform: str, *, target: str | None = None) -> WeightMap:
        """A map in which this row, named as for `unpair`, has another transform.

        The same map where the row has this one already.

        Raises
        ------
        EntryNotFoundError, AmbiguousEntryError
            As ``map[name]``, or if one of the row's names is not known.
        WeightMapError
            As `pair`.
        """
        position = position_of(self.rows, name, target)
        before, wanted = self.rows[position], Transform.parse(transform)
        row = before
        if wanted != before.transform or is_contradicted(before.note):
            row = replace(before, transform=wanted, how="edited", note="")
        elif not self.problem(before):
            return self
        rows = (*self.rows[:position], self.tensors.checked(row), *self.rows[position + 1 :])
        return self.with_rows(rows)

    def accept(self, name: str | None = None, *, together: bool = False) -> WeightMap:
        """A map with a suggested row in place of the rows that had its names.

        Parameters
        ----------
        name : str, optional
            A source, else a target, of the suggestion; default takes all suggestions at once.
        together : bool
            Whether what is suggested for names that lose their row by it is taken as well, as of
            tensors that lie in each other's place. One of those alone leaves the other unpaired.

        Raises
        ------
        EntryNotFoundError
            If no suggestion has this name; the message lists the closest.
        """
        accepted = list(self.suggestions)
        if name is not None:
            first = suggestion_of(self.suggestions, name)
            accepted = [first]
            if together:
                accepted = with_displaced(self.rows, self.suggestions, first)
        edited = [replace(row, how="edited") for row in accepted]
        notes = tuple(counted(note, len(edited)) for note in self.notes)
        accepted_map = self.with_rows([*beside(self.rows, edited), *edited])
        return replace(accepted_map, notes=notes)

    def fitting(
        self,
        source: str | Sequence[str],
        target: str | Sequence[str],
        *,
        everything: bool = False,
    ) -> list[Transform]:
        """Transforms that give the target's shape from this source, the likeliest first.

        Parameters
        ----------
        source, target : str or list of str
            As for `pair`: several targets are parts of one source, in this order, and several
            sources are joined in theirs, or added where their shapes are equal.
        everything : bool
            Whether those are given as well that nobody concludes from shapes: see
            `troubleshooter_nb.transforms.fitting`.

        Raises
        ------
        EntryNotFoundError
            If one of the names is not known.

        Notes
        -----
        By shapes alone: what the values say is for `convert.row_evidence`. Empty where the numbers
        of elements differ. Where nothing is known of the target, ``copy`` of one source, what joins
        several, and parts of equal size.
        """
        names = _names(source), _names(target)
        return list(self.tensors.fitting(*names, everything=everything))

    def misfit(self, source: str | Sequence[str], target: str | Sequence[str]) -> str:
        """Why no transform makes this target of this source, or nothing; raises as `fitting`."""
        return self.tensors.misfit(_names(source), _names(target))

    def candidates(
        self,
        name: str,
        *,
        side: Side | None = None,
        sources: Sequence[str] = (),
        targets: Sequence[str] = (),
        most: int = 3,
    ) -> list[Candidate]:
        """The closest names of the other side, and what speaks for or against each.

        What values suggest for a name that is in no row comes first.

        Parameters
        ----------
        name : str
            A source, else a target.
        side : {"source", "target"}, optional
            Where the name is, if both sides have it.
        sources, targets : sequence of str
            Names there are beside those in rows, of a side of which the map knows none. There names
            alone say what is close.
        most : int

        Raises
        ------
        EntryNotFoundError
            If neither side has it; the message lists the closest.
        """
        more = sources, targets
        return candidates(self.tensors, self.rows, self.suggestions, name, side, more, most)

    def match_rest(
        self,
        *,
        sources: Sequence[str] = (),
        targets: Sequence[str] = (),
        former: Sequence[WeightRow] = (),
    ) -> WeightMap:
        """A map in which what is left on both sides is paired where names and shapes say how.

        Equal names first, then names that are each other's closest and have the same numbers, then
        the only ones of their shape; the note of each row says which. The rest stays as it is.

        Parameters
        ----------
        sources, targets : sequence of str
            Names there are beside those in rows, of a side of which the map knows none. Names alone
            pair them then; that two are left over says nothing.
        former : sequence of WeightRow
            Rows the map had. What shapes do not tell goes through what it went through there.
        """
        made = rest_of(self.tensors, self.rows, (sources, targets), former)
        return self.with_rows([*self.rows, *made]) if made else self

    def preview(self, name: str | int, transform: str, *, target: str | None = None) -> str:
        """What a row, named as for `unpair`, would give with another transform: ``4x2 -> 2x4``.

        Raises
        ------
        EntryNotFoundError, AmbiguousEntryError
            If no row has the name, or several.
        WeightMapError
            If the transform is unknown, or does not fit the source or the target.
        """
        row = self.rows[position_of(self.rows, name, target)]
        return self.tensors.preview(replace(row, transform=Transform.parse(transform)))

    def preview_pair(
        self, source: str | Sequence[str], target: str | Sequence[str], transform: str
    ) -> str:
        """What `pair` would make of these names: ``48 -> 16 + 16 + 16``.

        Raises
        ------
        EntryNotFoundError
            If a name is not in the source, or not in a known target.
        WeightMapError
            If the transform is unknown, or does not fit the source or the target.
        """
        row = WeightRow(_names(source), _names(target), Transform.parse(transform))
        self.tensors.check(row.sources, row.targets)
        return self.tensors.preview(row)

    def suggested_instead(self) -> dict[int, WeightRow]:
        """By the position of a row what values suggest instead of it.

        Of a source that goes to several targets, one of them the suggested one, it is that row.
        """
        return suggested_instead(self.rows, self.suggestions)

    def suggested_for(self, name: str, *, side: Side = "source") -> WeightRow | None:
        """What values suggest of a name of one side; None where they suggest nothing."""
        return suggested_for(self.suggestions, name, side)

    def rename(
        self,
        *,
        prefix: str | None = None,
        pattern: tuple[str, str] | None = None,
        func: Renaming | None = None,
    ) -> WeightMap:
        """A map with other target names.

        Parameters
        ----------
        prefix : str, optional
            Put in front of every target name, with a dot between.
        pattern : (str, str), optional
            Regular expression and what replaces it.
        func : callable, optional
            Takes ``{source: target}`` and returns the same with other targets; for rows with
            several names, the joined ones.

        Raises
        ------
        WeightMapError
            If two targets would get the same name or one an empty name, the pattern is no regular
            expression, `func` returns something else, or nothing is given.

        Notes
        -----
        Where no name changes, a note of the map says so.
        """
        rows = renamed(self.rows, prefix, pattern, func)
        if rows == self.rows:
            note = Message("weight_maps.renamed_nothing")
            return replace(self, notes=(*(n for n in self.notes if n != note), note))
        return replace(self, rows=rows)

    def filled_twice(self) -> dict[int, str]:
        """By the position of a row that others fill a target of it as well, a sentence each."""
        return filled_twice(self.rows)

    def problems(self) -> list[str]:
        """Why the map cannot be converted: a sentence each, with the names; empty when it can."""
        several = filled_by_several(self.rows).items()
        found: list[str] = [said_of_filled(self.rows, *one) for one in several]
        filled = set(used_names(self.rows, "target"))
        if both := [name for name in self.kept if name in filled]:
            found.append(Message("weight_maps.kept_and_filled", names=both))
        for row in self.rows:
            if not row.targets and self.unread.keys() >= set(row.sources):
                continue  # what cannot be read goes nowhere all the same
            if problem := self.tensors.problem(row):
                names = {"sources": list(row.sources), "targets": list(row.targets)}
                found.append(Message("weight_maps.row_problem", **names, problem=problem))
        return found

    def check(self) -> None:
        """Raise unless every row can be converted.

        Raises
        ------
        WeightMapError
            With the first problems, each naming its parameter.
        """
        found = self.problems()
        if found:
            said = Message("weight_maps.not_convertible")
            for line in found[:_MOST_PROBLEMS]:
                said = Message("weight_maps.next_line", above=said, line=line)
            if (more := len(found) - _MOST_PROBLEMS) > 0:
                line = Message("weight_maps.and_more", count=more)
                said = Message("weight_maps.next_line", above=said, line=line)
            raise WeightMapError(said)

    @property
    def table(self) -> xr.Dataset:
        """The rows as a Dataset along ``row`` with the declared ``WEIGHT_MAP_COLUMNS``."""
        return table_of_rows(self.tensors, self.rows, self.suggestions)

    def to_dataset(self) -> xr.Dataset:
        """The table, in which shapes are text, such as 16x4 + 16x4."""
        return with_shape_texts(self.table)

    def to_dataframe(self) -> pd.DataFrame:
        """The table with one row per row of the map."""
        return self.to_dataset().to_dataframe().reset_index(drop=True)

    def __repr__(self) -> str:
        """Coverage, what needs attention, and the rows that change something, in 25 lines."""
        return weight_map_text(self.table, self._facts())

    def _repr_html_(self) -> str:
        return weight_map_html(self.table, self._facts())

    def _facts(self) -> dict[str, Any]:
        return {
            "source_label": self.source_label,
            "target_label": self.target_label,
            "coverage": self.coverage,
            "unmatched_sources": self.unmatched_sources,
            "unmatched_targets": self.unmatched_targets,
            "contradicted": any(is_contradicted(row.note) for row in self.rows),
            "notes": self.notes,
            "suggestions": len(self.suggestions),
            "known": bool(self.source) or not self.rows,
            **get_options(),
        }

    def problem(self, row: WeightRow) -> str:
        """Why a row cannot be converted, or nothing; for other rows see `filled_twice`."""
        return self.tensors.problem(row)

    def with_rows(self, rows: Sequence[WeightRow]) -> WeightMap:
        """The map with these rows in the order of the source; what they do is not suggested."""
        names = list(self.source) or used_names(self.rows, "source")
        order = {name: position for position, name in enumerate(dict.fromkeys(names))}
        ordered = tuple(sorted(rows, key=lambda row: order.get(row.sources[0], len(order))))
        done = {(row.sources, row.targets, row.transform) for row in rows}
        left = [r for r in self.suggestions if (r.sources, r.targets, r.transform) not in done]
        filled = set(used_names(ordered, "target"))
        kept = tuple(name for name in self.kept if name not in filled)
        return replace(self, rows=ordered, suggestions=tuple(left), kept=kept)


def _names(name: str | Sequence[str]) -> tuple[str, ...]:
    return (name,) if isinstance(name, str) else tuple(name)


class WeightMapHistory(History[WeightMap]):
    """The versions of a map that is being edited, with undo and redo.

    Attributes
    ----------
    value : WeightMap
        The current version.
    """
