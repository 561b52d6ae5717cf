"""The files and maps that a call of the old tool was given."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike

from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import MissingFileError, PathNotFoundError
from troubleshooter_nb.formats import as_dump
from troubleshooter_nb.formats.mapping_file import peer_rows, read_weight_map
from troubleshooter_nb.weight_map import WeightRow

File = str | PathLike[str]
# Names, and functions for values, as `get_weight_map` returns them.
MapParts = tuple[Mapping[str, str], Mapping[str, str]]


def opened(file: File, argument: str) -> Dump:
    """The checkpoint in a file.

    Raises
    ------
    MissingFileError
        If it does not exist: a ValueError, as it was of the old tool.
    FormatError, OSError
        If it is no checkpoint, or cannot be opened.
    """
    try:
        return as_dump(file, argument)
    except PathNotFoundError as error:
        raise MissingFileError(*error.args) from None


def map_rows(file: File | None, given: MapParts | None) -> list[WeightRow] | None:
    """The rows of a weight map, given or in a file; None where there is neither.

    Raises
    ------
    MissingFileError
        If the file does not exist.
    FormatError, OSError
        If it is no weight map, or cannot be opened.
    """
    if given is not None:
        return peer_rows(given)
    if file is None:
        return None
    try:
        return list(read_weight_map(file))
    except PathNotFoundError as error:
        raise MissingFileError(*error.args) from None
