"""Shapes: tuples in tables, text where they are written, and back from what was written."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from troubleshooter_nb import Dump, EntryNotFoundError, compare, diff_checkpoints
from troubleshooter_nb.shapes import (
    are_known,
    are_shape,
    known_shape,
    parse_shape,
    shape_column,
    shape_text,
    shapes_text,
    with_shape_texts,
    with_shape_tuples,
)
from troubleshooter_nb.weight_map import Spec, WeightMap, WeightRow

SHAPES = shape_column([(64, 128), (), None, (64,)])


@pytest.mark.parametrize(
    ("shape", "text"), [((64, 128), "64x128"), ((3,), "3"), ((), "scalar"), (None, "")]
)
def test_the_text_of_a_shape_and_back(shape, text):
    assert shape_text(shape) == text
    assert parse_shape(text) == shape


@given(st.none() | st.lists(st.integers(0, 10**6), max_size=6).map(tuple))
def test_a_shape_comes_back_from_its_text(shape):
    assert parse_shape(shape_text(shape)) == shape


def test_how_shapes_are_shown():
    assert shape_text((2, 3), "×") == "2×3"
    assert shapes_text([(16, 4), ()], "×") == "16×4 + scalar"
    assert shapes_text([]) == ""


def test_a_scalar_is_known_and_nothing_is_not():
    assert known_shape(None, (), (2,)) == ()
    assert known_shape(None, None) is None
    assert are_known(SHAPES).tolist() == [True, True, False, True]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [((64, 128), [0]), ((), [1]), (None, [2]), ("64*", [0, 3]), ("scalar", [1]), ("", [2])],
)
def test_rows_are_found_by_tuple_or_text(wanted, found):
    assert np.flatnonzero(are_shape(SHAPES, wanted)).tolist() == found


def arrays():
    return {"a": np.ones((2, 3)), "b": np.float32(1), "c": np.ones((2, 3))}


def objects():
    """Each object with a table of shapes: its kind, the table, and a way to give it another."""
    comparison = compare(arrays(), {**arrays(), "d": np.ones(4)})
    diff = diff_checkpoints(arrays(), arrays())
    return {
        "dump": (Dump.from_arrays(arrays()), "index", "shape"),
        "pairing": (comparison.pairing, "table", "right_shape"),
        "comparison": (comparison, "result", "right_shape"),
        "checkpoints": (diff, "table", "right_shape"),
    }


@pytest.mark.parametrize("kind", ["dump", "pairing", "comparison", "checkpoints"])
def test_tables_hold_tuples_and_are_written_as_text(tmp_path, kind):
    obj, name, column = objects()[kind]
    table = getattr(obj, name)
    assert table[column].values.tolist()[:3] == [(2, 3), (), (2, 3)]
    written = obj.to_dataset()
    assert written[column].values.tolist()[:3] == ["2x3", "scalar", "2x3"]
    assert written[column].attrs == table[column].attrs
    assert obj.to_dataframe()[column].tolist()[:3] == ["2x3", "scalar", "2x3"]
    # The stored table is read back to tuples, also one that an earlier version wrote.
    again = replace(obj, **{name: written})
    xr.testing.assert_identical(getattr(again, name), table)
    pytest.importorskip("netCDF4")
    written.to_netcdf(tmp_path / "x.nc", engine="netcdf4")
    with xr.open_dataset(tmp_path / "x.nc", engine="netcdf4") as back:
        read = replace(obj, **{name: back.load()})
        assert getattr(read, name)[column].values.tolist() == table[column].values.tolist()
        assert repr(read) == repr(obj)


def test_no_partner_has_no_shape():
    comparison = compare({"a": np.ones(2)}, {"b": np.float32(1)})
    left, right = (comparison.result[f"{side}_shape"].values.tolist() for side in ("left", "right"))
    assert sorted(zip(left, right, strict=True), key=str) == [((2,), None), (None, ())]


def test_one_row_still_has_its_shape():
    comparison = compare(arrays(), arrays())
    assert comparison[0].row["left_shape"].values[()] == (2, 3)
    assert comparison["b"].row["left_shape"].item() == ()


def test_a_selection_by_shape():
    dump = Dump.from_arrays({**arrays(), "d": np.ones(3)})
    assert dump.select(shape=(2, 3)).names == ["a", "c"]
    assert dump.select(shape="2x*").names == ["a", "c"]
    assert dump.select(shape=[(2, 3), ()]).names == ["a", "b", "c"]
    assert dump.select(shape=()).names == ["b"]
    comparison = compare(dump, dump)
    assert len(comparison.select(left_shape=(2, 3))) == 2
    assert len(comparison.select(left_shape=["3", "scalar"])) == 2
    with pytest.raises(EntryNotFoundError, match="no column 'shapes'"):
        dump.select(shapes=(2, 3))


def test_the_shapes_of_a_weight_map_are_one_tuple_a_tensor():
    specs = {name: Spec((16, 4), np.dtype("f4")) for name in ("q", "k")} | {
        "s": Spec((), np.dtype("f4"))
    }
    rows = (WeightRow(("q",), ("q",)), WeightRow(("s",), ("s",)), WeightRow(("gone",), ("x",)))
    weight_map = WeightMap(rows, specs)
    table = weight_map.table
    assert table["source_shape"].values.tolist() == [((16, 4),), ((),), ()]
    written = weight_map.to_dataset()
    assert written["source_shape"].values.tolist() == ["16x4", "scalar", ""]
    assert weight_map.to_dataframe()["target_shape"].tolist()[:2] == ["16x4", "scalar"]
    xr.testing.assert_identical(with_shape_tuples(written), table)
    xr.testing.assert_identical(with_shape_texts(table), written)
