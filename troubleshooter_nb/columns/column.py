"""A column of a table as data: what it holds, what it is called, how and where it is shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal

import numpy as np
import xarray as xr

from troubleshooter_nb.table import Table, finished

Dtype = Literal["str", "tuple", "int64", "float64", "bool"]
# Tables of a page, those of a comparison in which all passed, of a text, of the explorer and of
# Markdown; and what is told of one row that is opened. Files of data hold every column.
View = Literal["html", "passed", "text", "explorer", "markdown", "opened"]

# dtype -> (as numpy has it, what stands for unknown, how it is written, on which side)
_OF_DTYPE: Mapping[str, tuple[Any, Any, str, Literal["left", "right"]]] = {
    "str": (object, "", "text", "left"),
    "tuple": (object, None, "shape", "right"),
    "int64": (np.int64, -1, "count", "right"),
    "float64": (np.float64, np.nan, "scientific", "right"),
    "bool": (bool, False, "flag", "left"),
}


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    name : str
        Of the Dataset, the DataFrame and the files: it is API and does not change.
    dtype : {"str", "tuple", "int64", "float64", "bool"}
    meaning : str
        What a value says; the ``description`` of the variable.
    title : str or (English, Chinese)
        What a person reads above the column; default its name.
    unit : str
    format : str
        One of `render.cells.FORMATS`; default by the dtype.
    formats : mapping of str to str
        View and format, where a view writes it otherwise.
    align : {"left", "right"}
        Default by the dtype: numbers and shapes right.
    shown : mapping of str to int
        View and place: a view shows its columns in ascending order of their places.
    is_figure : bool
        It is measured: where nothing was, a reason stands in its place.
    where_several : bool
        It is shown only where rows differ in it; a number also where all have one above 0.
    needs : str
        Name of a column, be it this one: it is shown only where that one says something of a row.
    instead_of : str
        Name of a column; this one is shown only where that one is not.
    bar : (low, high), optional
        Behind the figure lies a bar, on a log scale between the two.
    of_empty : bool, int or float, optional
        The figure of tensors without elements.
    """

    name: str
    dtype: Dtype
    meaning: str
    title: str | tuple[str, str] = ""
    _: KW_ONLY
    unit: str = ""
    format: str = ""
    formats: Mapping[str, str] = field(default_factory=dict)
    align: Literal["", "left", "right"] = ""
    shown: Mapping[str, int] = field(default_factory=dict)
    is_figure: bool = False
    where_several: bool = False
    needs: str = ""
    instead_of: str = ""
    bar: tuple[float, float] | None = None
    of_empty: Any = None

    def titled(self, language: str) -> str:
        """The title in a language."""
        titles = (self.title, self.title) if isinstance(self.title, str) else self.title
        return titles[language == "zh"] or self.name

    def format_in(self, view: View) -> str:
        """How a view writes it."""
        return self.formats.get(view) or self.format or _OF_DTYPE[self.dtype][2]

    @property
    def is_left(self) -> bool:
        """Whether it is aligned left."""
        return (self.align or _OF_DTYPE[self.dtype][3]) == "left"

    @property
    def numpy_dtype(self) -> Any:
        """What numpy keeps it in."""
        return _OF_DTYPE[self.dtype][0]

    @property
    def unknown(self) -> Any:
        """What stands where nothing is known: nan, -1, False, None, or no text."""
        return _OF_DTYPE[self.dtype][1]

    def blank(self, count: int) -> np.ndarray:
        """The column of a table of which nothing is known yet, shape (count,)."""
        return np.full(count, self.unknown, self.numpy_dtype)


def at(place: int, *views: View) -> dict[str, int]:
    """For `Column.shown`: the same place in several views."""
    return dict.fromkeys(views, place)


def by_name(*columns: Column) -> dict[str, Column]:
    """Columns by their names, in the order in which a table holds them."""
    return {column.name: column for column in columns}


def in_view(view: View, declared: Iterable[Column]) -> list[Column]:
    """The columns that a view may show, from left to right."""
    found = [column for column in declared if view in column.shown]
    return sorted(found, key=lambda column: column.shown[view])


def shown_columns(view: View, declared: Iterable[Column], table: Table) -> list[Column]:
    """The columns that a view shows of a table, from left to right.

    Parameters
    ----------
    view : str
    declared : iterable of Column
    table : Table
        Whole, so that all parts of a page show the same columns.
    """
    found = [column for column in in_view(view, declared) if _has_what_it_needs(column, table)]
    names = {column.name for column in found}
    return [column for column in found if column.instead_of not in names]


def figures_span(columns: Sequence[Column]) -> tuple[int, int]:
    """The places of the first figure and behind the last: a reason stands there instead."""
    places = [at for at, column in enumerate(columns) if column.is_figure]
    return (places[0], places[-1] + 1) if places else (len(columns), len(columns))


def _has_what_it_needs(column: Column, table: Table) -> bool:
    if column.where_several and len(values := {*table[column.name].tolist()}) < 2:
        # The only step or rank that is not the first is worth being told.
        return column.dtype == "int64" and max(values, default=0) > 0
    return not column.needs or says_something(table[column.needs])


def says_something(values: np.ndarray) -> bool:
    """Whether any value of a column is known."""
    if values.dtype.kind == "f":
        return not np.isnan(values).all()
    if values.dtype.kind == "U":
        return bool((values != "").any())
    return bool((values >= 0).any() if values.dtype.kind == "i" else values.any())


def described(
    dimension: str, declared: Mapping[str, Column], columns: Mapping[str, np.ndarray]
) -> dict[str, xr.Variable]:
    """The columns of a table as variables that say what they mean.

    Parameters
    ----------
    dimension : str
    declared : mapping of str to Column
        In the order of the variables.
    columns : mapping of str to ndarray, shape (n,)
    """
    return {
        name: finished((dimension,), columns[name], attributes(column))
        for name, column in declared.items()
    }


def attributes(column: Column) -> dict[str, str]:
    """What a variable says of itself."""
    return {"description": column.meaning} | ({"units": column.unit} if column.unit else {})
