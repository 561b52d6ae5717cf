"""Files that say which parameter of one network is which of the other."""

from __future__ import annotations

import json
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal

from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.file_source import named, opened

Transform = Literal["copy", "expand_dims_axis2"]

_LARGEST = 64 * 1024**2  # bytes
# The functions TroubleShooter's maps name for values, and what they do. Its own reader imported
# and called whatever function a map named.
# Source: spec/troubleshooter.md 3.5.
_PEER_FUNCTIONS: dict[str, Transform] = {
    "troubleshooter.migrator.mapping_relation.weight_adapter.trans_conv1d_weight_value": (
        "expand_dims_axis2"
    ),
}


@dataclass(frozen=True)
class WeightRow:
    """One parameter: its name in the source and in the target, and what its values go through."""

    source: str
    target: str
    transform: Transform = "copy"


def read_weight_map_json(path: str | PathLike[str]) -> list[WeightRow]:
    """The rows of TroubleShooter's weight map: ``[{torch: MindSpore}, {torch: function}]``.

    Raises
    ------
    FormatError
        If the file is no such map, or names a function that is not one of TroubleShooter's own:
        no function of a file is ever called.
    OSError
        If it cannot be opened.
    """
    path = Path(path)
    with named(path):
        with opened(path) as (file, (size, _)):
            if size > _LARGEST:
                msg = f"{size:,} bytes are too many for a weight map"
                raise FormatError(msg)
            content = file.read(_LARGEST)
        try:
            parts = json.loads(content)
        except (ValueError, RecursionError) as error:
            msg = f"not a weight map: {error}"
            raise FormatError(msg) from None
        return weight_rows(parts)


def weight_rows(parts: object) -> list[WeightRow]:
    """The rows of a weight map that is already loaded; raises as `read_weight_map_json`."""
    if not isinstance(parts, (list, tuple)) or len(parts) != 2:
        msg = "a weight map is a list of two objects, of names and of value functions"
        raise FormatError(msg)
    names, functions = (_texts(part) for part in parts)
    if strangers := sorted(set(functions) - set(names)):
        msg = f"value functions for names it does not map: {', '.join(strangers[:4])}"
        raise FormatError(msg)
    rows = []
    for source, target in names.items():
        function = functions.get(source)
        if function is not None and function not in _PEER_FUNCTIONS:
            known = ", ".join(_PEER_FUNCTIONS)
            msg = f"{source!r}: the function {function[:120]!r} is not called; known is {known}"
            raise FormatError(msg)
        rows.append(WeightRow(source, target, _PEER_FUNCTIONS.get(function or "", "copy")))
    return rows


def _texts(part: object) -> dict[str, str]:
    if isinstance(part, dict) and all(
        isinstance(text, str) for pair in part.items() for text in pair
    ):
        return part
    msg = "a weight map holds objects of names only"
    raise FormatError(msg)
