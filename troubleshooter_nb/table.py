"""The columns of a Dataset by name, as plain arrays."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of one length by name: xarray's access would cost more than using what it gives.

    Attributes
    ----------
    columns : mapping of str to ndarray, shape (n,)
    """

    columns: Mapping[str, np.ndarray]

    def __len__(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, column: str) -> np.ndarray:
        """One column, shape (n,)."""
        return self.columns[column]

    def row(self, i: int) -> dict[str, Any]:
        """All values of one row by name."""
        return {name: values[i] for name, values in self.columns.items()}

    def lists(self, *names: str) -> dict[str, list[Any]]:
        """The columns of these names, or all, as lists of Python's own values."""
        return {name: self.columns[name].tolist() for name in names or self.columns}

    def rows(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """The values of these columns row by row, Python's own."""
        return zip(*self.lists(*names).values(), strict=True)


@dataclass(frozen=True, slots=True)
class Row(Mapping[str, Any]):
    """One row of columns: a value is looked up when it is asked for, as most are not.

    Attributes
    ----------
    columns : mapping of str to sequence, length n
    number : int
    """

    columns: Mapping[str, Sequence[Any]]
    number: int

    def __getitem__(self, column: str) -> Any:
        """The value in one column."""
        return self.columns[column][self.number]

    def __iter__(self) -> Iterator[str]:
        """The names of the columns."""
        return iter(self.columns)

    def __len__(self) -> int:
        """Number of columns."""
        return len(self.columns)


def finished(
    dimensions: tuple[Hashable, ...], values: np.ndarray, attrs: Mapping[Any, Any] | None = None
) -> xr.Variable:
    """A variable of an array that xarray takes as it is.

    Otherwise it looks through every object of a column, and imports dask where that is installed,
    for a fifth of a second, only to ask whether the array is one of dask.
    """
    return xr.Variable(dimensions, values, dict(attrs or {}), fastpath=True)


def taken(dataset: xr.Dataset, dimension: str, rows: np.ndarray) -> xr.Dataset:
    """The rows of these numbers, as ``isel`` gives them, which asks after dask, see `finished`.

    Parameters
    ----------
    dataset : xarray.Dataset
    dimension : str
        Without a coordinate.
    rows : ndarray of int, shape (n,)
    """
    variables = {
        name: finished(one.dims, one.values.take(rows, one.dims.index(dimension)), one.attrs)
        if dimension in one.dims
        else one
        for name, one in dataset.variables.items()
        if name in dataset.data_vars
    }
    return xr.Dataset(variables, coords=dataset.coords, attrs=dataset.attrs)


def table_of(dataset: xr.Dataset) -> Table:
    """The variables of a Dataset along the only dimension of its first one, without copying."""
    found = {str(name): dataset.variables[name] for name in dataset.data_vars}
    along = next((variable.dims for variable in found.values()), ())
    return Table({name: one.values for name, one in found.items() if one.dims == along})
