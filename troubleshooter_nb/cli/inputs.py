"""What the paths of a command line hold: dumps, some of their steps and ranks, curves, mappings."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from troubleshooter_nb.analysis.progress import watched
from troubleshooter_nb.cli.grammar import WrongWords
from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import EntryNotFoundError, FormatError, UnknownFormatError
from troubleshooter_nb.formats import as_dumps, open_dump
from troubleshooter_nb.formats.mapping_file import is_weight_map, read_weight_map
from troubleshooter_nb.formats.pairing_files import read_mapping
from troubleshooter_nb.formats.pairing_rules import MappingFile
from troubleshooter_nb.formats.series import Series, open_series
from troubleshooter_nb.messages import Message, ids_of, message_of, told
from troubleshooter_nb.weight_map import WeightMap

_SELECTED = ("step", "rank")


def mappings(asked: argparse.Namespace) -> WeightMap | list[MappingFile] | None:
    """The weight map of ``--mapping``, or its mapping files, the earlier first; None for none.

    Raises
    ------
    WrongWords
        If a weight map is not the only one.
    """
    maps = [path for path in asked.mapping if is_weight_map(path)]
    if maps and len(asked.mapping) > 1:
        raise WrongWords(Message("command.weight_map_alone", file=maps[0]))
    if maps:
        return read_weight_map(maps[0])
    return [read_mapping(path) for path in asked.mapping] or None


def layers(asked: argparse.Namespace) -> dict[str, str] | None:
    """Classes by place of ``--layer``; None for none.

    Raises
    ------
    WrongWords
        If one is no ``PLACE=CLASS``.
    """
    found: dict[str, str] = {}
    for text in asked.layer:
        place, _, word = text.partition("=")
        if not place or not word:
            raise WrongWords(Message("arguments.layer_flag", flag="--layer", value=text))
        found[place] = word
    return found or None


def opened(path: str) -> Dump | Series:
    """A dump, checkpoint or recording; or a series, of a log or a folder of checkpoints.

    Raises
    ------
    UnknownFormatError, OSError
        As `open_dump`, if it is no series either.
    """
    try:
        return open_dump(path)
    except UnknownFormatError as unknown:
        try:
            return open_series(path)
        except (FormatError, OSError) as error:
            if "files.not_recognised" in ids_of(message_of(unknown)):
                # As `add_note` of Python 3.11 does it.
                why = told(Message("command.no_curve", why=message_of(error)))
                unknown.__notes__ = [*getattr(unknown, "__notes__", ()), why]
        raise


def chosen_sides(asked: argparse.Namespace) -> tuple[Dump | str, Dump | str]:
    """Both sides with the steps and ranks asked for; as paths where all are.

    Raises
    ------
    EntryNotFoundError
        If a step or rank that is asked for is on neither side, or one side has none of them.
    UnknownFormatError, OSError
        As `open_dump`.
    """
    if asked.step is None and asked.rank is None:
        return asked.left, asked.right
    with watched(None) as watch:
        watch.begin(Message("comparisons.opening"))
        sides = as_dumps(asked.left, asked.right)
    return _selected(asked, *sides)


def series_sides(asked: argparse.Namespace) -> tuple[Dump | Series, Dump | Series] | None:
    """Both sides as series, of a folder of checkpoints as a dump; None where one is none.

    Raises
    ------
    EntryNotFoundError
        As `chosen_sides`, of dumps.
    """
    try:
        sides = open_series(asked.left), open_series(asked.right)
    except (FormatError, OSError):
        return None
    if isinstance(sides[0], Dump) and isinstance(sides[1], Dump):
        return _selected(asked, sides[0], sides[1])
    return sides


def _selected(asked: argparse.Namespace, left: Dump, right: Dump) -> tuple[Dump, Dump]:
    sides = left, right
    for column in _SELECTED:
        if (wanted := getattr(asked, column)) is not None:
            sides = _chosen(sides, column, wanted)
    return sides


def _chosen(sides: tuple[Dump, Dump], column: str, wanted: Sequence[range]) -> tuple[Dump, Dump]:
    known = [np.unique(dump.columns[column]).tolist() for dump in sides]
    for part in wanted:
        if not any(number in part for numbers in known for number in numbers):
            _refuse(column, part, sides, known)
    kept = []
    for dump, numbers in zip(sides, known, strict=True):
        here = [number for number in numbers if any(number in part for part in wanted)]
        if not here:
            _refuse(column, wanted[0], (dump,), (numbers,))
        kept.append(dump.select(**{column: here}))
    return kept[0], kept[1]


def _refuse(
    column: str, part: range, dumps: Sequence[Dump], known: Sequence[Sequence[int]]
) -> NoReturn:
    asked = str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}"
    has = [
        Message("command.has_numbers", label=dump.label, numbers=[*map(str, numbers)])
        for dump, numbers in zip(dumps, known, strict=True)
    ]
    raise EntryNotFoundError(Message(f"command.no_{column}", asked=asked, has=has))
