"""Shapes of tensors: tuples inside, text where they are shown, written or read."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import xarray as xr

Shape = tuple[int, ...]

# Columns whose cells are a shape, and those whose cells are the shapes of several tensors.
_OF_ONE = ("shape", "left_shape", "right_shape")
_OF_SEVERAL = ("source_shape", "target_shape")
_JOIN = " + "


def shape_text(shape: Sequence[int] | None, times: str = "x") -> str:
    """``64x128``; "scalar" for no axes; empty for None, a shape that is not known."""
    if shape is None:
        return ""
    return times.join(map(str, shape)) if len(shape) else "scalar"


def shapes_text(shapes: Sequence[Sequence[int]], times: str = "x") -> str:
    """``16x4 + 16x4``; empty for none."""
    return _JOIN.join(shape_text(shape, times) for shape in shapes)


def parse_shape(text: str) -> Shape | None:
    """Inverse of `shape_text`."""
    if not text:
        return None
    return () if text == "scalar" else tuple(int(length) for length in text.split("x"))


def known_shape(*shapes: Shape | None) -> Shape | None:
    """The first that is known; None where none is."""
    return next((shape for shape in shapes if shape is not None), None)


def are_known(shapes: np.ndarray) -> np.ndarray:
    """Which cells of a column of shapes hold one, shape (n,)."""
    return np.array([shape is not None for shape in shapes.tolist()], bool)


def is_shape(value: object) -> bool:
    """Whether a value is a shape and no collection of other things."""
    return isinstance(value, tuple) and all(isinstance(n, (int, np.integer)) for n in value)


def are_shape(shapes: np.ndarray, wanted: object) -> np.ndarray:
    """Which cells of a column of shapes are this one, shape (n,).

    Parameters
    ----------
    shapes : ndarray of object, shape (n,)
    wanted : tuple of int, str or None
        Text as `shape_text` gives it may hold ``*`` and ``?``.
    """
    cells = shapes.tolist()
    if isinstance(wanted, str):
        return np.array([fnmatch.fnmatchcase(shape_text(one), wanted) for one in cells], bool)
    return np.array([one == wanted for one in cells], bool)


def shape_column(shapes: Sequence[object]) -> np.ndarray:
    """Shapes as a column of one object a cell, shape (n,)."""
    return np.fromiter(shapes, object, len(shapes))


def shape_texts(shapes: np.ndarray) -> np.ndarray:
    """A column of shapes as one of texts, shape (n,)."""
    return shape_column([shape_text(shape) for shape in shapes.tolist()])


def with_shape_texts(table: xr.Dataset) -> xr.Dataset:
    """A table as it is written: its shapes are text, which every kind of file can hold."""
    kinds: dict[str, Callable[[Any], str]]
    kinds = {**dict.fromkeys(_OF_ONE, shape_text), **dict.fromkeys(_OF_SEVERAL, shapes_text)}
    cells = {name: table.variables[name].values for name in kinds if name in table.data_vars}
    # Shapes repeat: each is written once.
    texts = {name: [*map(cache(kinds[name]), found)] for name, found in cells.items()}
    return _with_columns(table, texts)


def with_shape_tuples(table: xr.Dataset) -> xr.Dataset:
    """A table as it is used: shapes that are text, as in a file, become tuples; else itself."""
    changed: dict[str, list[Any]] = {}
    for name in (*_OF_ONE, *_OF_SEVERAL):
        cells = table.variables[name].values if name in table.data_vars else np.empty(0)
        if not len(cells) or not isinstance(cells[0], str):
            continue
        if name in _OF_SEVERAL:
            changed[name] = [tuple(map(parse_shape, filter(None, c.split(_JOIN)))) for c in cells]
        else:
            changed[name] = [parse_shape(cell) for cell in cells]
    return _with_columns(table, changed) if changed else table


def _with_columns(table: xr.Dataset, cells: Mapping[str, Sequence[object]]) -> xr.Dataset:
    variables = {}
    for name, values in cells.items():
        old = table.variables[name]
        variables[name] = xr.Variable(old.dims, shape_column(values), old.attrs)
    return table.assign(variables)
