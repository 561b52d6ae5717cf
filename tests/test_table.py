"""The columns of a Dataset by name: which there are, a row, and that nothing is copied."""

from __future__ import annotations

import numpy as np
import xarray as xr

from troubleshooter_nb import Dump, compare
from troubleshooter_nb.table import Row, Table, finished, table_of, taken


def dataset():
    return xr.Dataset(
        {
            "name": ("entry", np.array(["a", "b"], object)),
            "size": ("entry", np.array([3, 4])),
            "histogram": (("entry", "exponent"), np.zeros((2, 3))),
        },
        coords={"exponent": [1, 2, 3]},
    )


def test_a_table_has_the_columns_along_the_rows_only():
    made = dataset()
    table = table_of(made)
    assert list(table.columns) == ["name", "size"]
    assert table["size"] is made["size"].values
    assert len(table) == 2
    assert table.row(1) == {"name": "b", "size": 4}
    assert table.lists("size") == {"size": [3, 4]}
    assert list(table.lists()) == ["name", "size"]


def test_a_row_is_looked_up_and_not_copied():
    row = Row({"name": ["a", "b"], "size": [3, 4]}, 1)
    assert row["size"] == 4
    assert dict(row) == {"name": "b", "size": 4}
    assert len(row) == 2
    row.columns["size"][1] = 5
    assert row["size"] == 5


def test_a_table_may_be_empty():
    assert len(table_of(xr.Dataset())) == len(Table({})) == 0
    assert len(table_of(dataset().isel(entry=[]))) == 0


def test_objects_build_their_table_once():
    made = compare({"x": np.ones(2)}, {"x": np.ones(2)})
    dump = Dump.from_arrays({"x": np.ones(2)})
    for one, held in ((dump, dump.index), (made, made.result), (made.pairing, made.pairing.table)):
        assert one.columns is one.columns
        for name, values in one.columns.columns.items():
            assert values is held[name].values
    chosen = made.select(verdict="missing")
    assert len(chosen.columns) == 0


def test_rows_that_are_taken_are_those_of_isel():
    counts = xr.Variable(("pair", "bin"), np.arange(8).reshape(4, 2), {"units": "elements"})
    dataset = xr.Dataset(
        {"name": ("pair", list("abcd")), "count": counts, "sums": ("bin", [1, 2])},
        {"bin": [10, 20]},
        {"schema": "x"},
    )
    for rows in ([2, 0], [], [1, 1]):
        chosen = np.array(rows, np.intp)
        xr.testing.assert_identical(taken(dataset, "pair", chosen), dataset.isel(pair=chosen))


def test_a_finished_variable_is_as_xarray_makes_one():
    values = np.array(["a", (1, 2)], object)
    made = finished(("row",), values, {"units": "x"})
    xr.testing.assert_identical(made, xr.Variable("row", values, {"units": "x"}))
    assert made.values is values
