"""Dump: the table, the tensors behind it, and what may be asked of both."""

from __future__ import annotations

import dataclasses
import pickle
import re
import zlib

import ml_dtypes
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import troubleshooter_nb as tnb
from troubleshooter_nb import Dump, open_dump, save_dump
from troubleshooter_nb.columns.entries import DUMP_COLUMNS
from troubleshooter_nb.dump import (
    ArrayInMemory,
    ArraySource,
    Entry,
    fingerprints_of,
)
from troubleshooter_nb.errors import (
    AmbiguousEntryError,
    EntryNotFoundError,
    FormatError,
    ReadError,
)
from troubleshooter_nb.metrics.sketches import sketch
from troubleshooter_nb.metrics.summary import SUMMARY_FIGURES
from troubleshooter_nb.naming import Site
from troubleshooter_nb.run_card import RunCard

ALWAYS_KNOWN = ("call", "step", "rank")
STORED = {"str": object, "tuple": object, "int64": np.int64, "float64": np.float64}


def entry(name, array=None, *, step=0, rank=0, order=-1, path=None, **site):
    """An entry with this array in memory, or an unreadable one."""
    source = None if array is None else ArrayInMemory(np.asarray(array))
    reason = "" if source else "broken"
    where = Site("file", path or name, **site)
    return Entry(name, where, source, step=step, rank=rank, order=order, reason=reason)


def dump_of(*entries, label="d"):
    return Dump.from_entries(entries, label=label, format="test")


@pytest.fixture
def steps():
    """The same two names in two steps and two ranks, with a value that tells them apart."""
    return dump_of(
        *(
            entry(name, np.full(2, 100.0 * step + 10 * rank + k), step=step, rank=rank, order=k)
            for step in (0, 3)
            for rank in (0, 1)
            for k, name in enumerate(("a", "b"))
        )
    )


def documented(docstring):
    """The rows of a column table in a docstring: name -> (dtype, meaning)."""
    table = re.search(r"::\n\n(.*?)\n\n", docstring, re.S)[1]
    rows = {}
    for line in table.splitlines():
        names, dtype, *meaning = re.split(r"\s{2,}", line.strip(), maxsplit=2)
        for name in names.split(", "):
            rows[name] = (dtype, " ".join(meaning))
    return rows


def test_the_documented_columns_are_the_columns():
    rows = documented(Dump.__doc__)
    assert list(rows) == list(DUMP_COLUMNS)
    for name, column in DUMP_COLUMNS.items():
        assert rows[name][0] == column.dtype, name
        if str(column.unknown) in ("-1", "nan") and name not in ALWAYS_KNOWN:
            assert f"{column.unknown} unknown" in rows[name][1], name
        if column.unit in ("axes", "elements", "bytes") and name not in SUMMARY_FIGURES:
            assert column.unit in rows[name][1], name


def test_the_columns_of_real_data_are_the_documented_ones():
    dump = dump_of(entry("a", np.ones((2, 3), np.float16), order=4), entry("bad"))
    assert list(dump.index) == list(DUMP_COLUMNS)
    assert set(dump.index.dims) == {"entry"}
    for name, declared in DUMP_COLUMNS.items():
        column = dump.index[name]
        assert column.dtype == STORED[declared.dtype], name
        said = {"description": declared.meaning}
        assert column.attrs == said | ({"units": declared.unit} if declared.unit else {})
    assert dump.index.attrs["schema"] == "troubleshooter_nb.dump/2"


def test_what_is_unknown_has_the_documented_value():
    row = dump_of(entry("bad")).index.isel(entry=0)
    for name, column in DUMP_COLUMNS.items():
        if name in ("name", "kind", "path", "status", "reason"):
            continue
        expected = 0 if name in ALWAYS_KNOWN else column.unknown
        np.testing.assert_equal(row[name].item(), expected, name)
    assert (row["status"].item(), row["reason"].item()) == ("unreadable", "broken")


def test_the_table_of_an_array():
    dump = dump_of(
        entry("x", np.ones((2, 3), ml_dtypes.bfloat16), order=1, path="net.x", role="output"),
        entry("one", np.float64(3).reshape(()), order=2),
    )
    rows = dump.to_dataframe()
    got = rows.loc[0, ["name", "path", "role", "dtype", "shape", "ndim", "size", "size_bytes"]]
    assert got.tolist() == ["x", "net.x", "output", "bfloat16", "2x3", 2, 6, 12]
    assert rows.loc[1, ["shape", "ndim", "size"]].tolist() == ["scalar", 0, 1]
    assert dump.size_bytes == 20


def test_statistics_alone_are_a_readable_entry():
    told = Entry("x", Site("api", "x"), statistics={"max": 3.0, "nan_count": 2})
    dump = dump_of(told)
    assert dump.index["status"].item() == "ok"
    assert dump.index["max"].item() == 3.0
    assert dump.index["nan_count"].item() == 2
    assert dump.index["inf_count"].item() == -1
    with pytest.raises(ReadError, match="'x' of 'd' cannot be read"):
        dump.array("x")


def test_two_entries_of_one_place_may_not_share_a_name():
    twice = entry("x", [1.0]), entry("x", [2.0])
    with pytest.raises(FormatError, match="2 entries of step 0, rank 0 are called 'x'"):
        dump_of(*twice)
    assert len(dump_of(twice[0], twice[1]._replace(rank=1))) == 2


def test_a_dump_is_a_collection_of_names(steps):
    assert len(steps) == 8
    assert list(steps) == ["a", "b"] * 4 == steps.names
    assert "a" in steps
    assert "c" not in steps
    assert 3 not in steps
    assert None not in steps
    assert len(Dump.from_arrays({})) == 0
    assert "a" not in Dump.from_arrays({})


@pytest.mark.parametrize(
    ("dtype", "computed"),
    [
        (ml_dtypes.bfloat16, np.float32),
        (ml_dtypes.float8_e4m3fn, np.float32),
        (ml_dtypes.int4, np.int8),
        (np.float16, np.float16),
        (">f4", np.float32),
        (np.int64, np.int64),
        (bool, bool),
    ],
)
def test_getitem_computes_and_array_is_what_is_stored(dtype, computed):
    stored = np.array([[1, 0, 1], [1, 1, 0]]).astype(dtype)
    dump = dump_of(entry("x", stored, step=2, rank=1, order=0), label="run")
    got = dump["x"]
    assert isinstance(got, xr.DataArray)
    assert got.dtype == computed
    assert got.dims == ("axis_0", "axis_1")
    assert got.attrs == {"dtype": str(np.dtype(dtype)), "step": 2, "rank": 1, "dump": "run"}
    np.testing.assert_array_equal(got.values.astype(float), stored.astype(float))
    assert dump.array("x").dtype == np.dtype(dtype)
    assert dump.array("x").tobytes() == stored.tobytes()


def test_the_mean_of_bfloat16_is_right_through_getitem():
    # numpy and xarray sum bfloat16 in bfloat16: 1024 times 1.01 ends near 256.
    stored = np.full(1024, 1.01).astype(ml_dtypes.bfloat16)
    got = Dump.from_arrays({"x": stored})["x"].mean().item()
    assert got == pytest.approx(float(stored[0]), rel=1e-6)  # float32 sums


def test_an_entry_may_be_called_by_shorter_names(tmp_path):
    arrays = {"dense": [1.0], "dense_backward": [2.0], "sub/x": [3.0], "fc.weight": [4.0]}
    dump = open_dump(save_dump(arrays, tmp_path / "d", card=RunCard()))
    for name, value in {
        "dense_float64_0": 1,  # the name
        "dense_float64_0.npy": 1,  # the file
        "dense": 1,  # the name without number and dtype, which no other entry has
        "dense_backward": 2,
        "sub/x": 3,
        "fc.weight": 4,
    }.items():
        assert name in dump
        assert dump.array(name)[0] == value
        assert dump[name].values[0] == value
        assert dump[name].name == dump.names[dump.position(name)]


def test_an_unknown_name_lists_the_closest(steps):
    dump = Dump.from_arrays({"layer1.conv": 1.0, "layer2.conv": 1.0, "head": 1.0}, label="run")
    with pytest.raises(EntryNotFoundError, match=r"no entry 'layer1.con' .* 'layer1.conv'"):
        dump["layer1.con"]
    with pytest.raises(KeyError, match=r"see dump\.names"):
        dump.array("zzzzzzz")
    with pytest.raises(EntryNotFoundError, match="no entry 0 in"):
        dump[0]


def advised(message):
    """The expressions that an ambiguity advises."""
    return re.findall(r"dump(?:\.select\([^)]*\))?\['[^']*'\]", message)


def test_an_ambiguous_name_shows_selections_that_work(steps):
    with pytest.raises(AmbiguousEntryError, match="'a' means 4 entries of 'd'") as caught:
        steps["a"]
    expressions = advised(str(caught.value))
    assert expressions[0] == "dump.select(step=0, rank=0)['a']"
    values = [eval(e, {"dump": steps}).values[0] for e in expressions]
    assert values == [0, 10, 300, 310]
    assert issubclass(AmbiguousEntryError, EntryNotFoundError)


def test_an_ambiguous_short_name_shows_the_whole_names():
    dump = dump_of(
        entry("x_float32_0", [1.0], path="x", order=0),
        entry("x_float32_1", [2.0], path="x", order=1, call=1),
        entry("x_float32_2", [3.0], path="x", step=1, order=0),
    )
    with pytest.raises(AmbiguousEntryError) as caught:
        dump["x"]
    expressions = advised(str(caught.value))
    assert expressions == [
        "dump.select(step=0, rank=0)['x_float32_0']",
        "dump.select(step=0, rank=0)['x_float32_1']",
        "dump.select(step=1, rank=0)['x']",
    ]
    assert [eval(e, {"dump": dump}).values[0] for e in expressions] == [1, 2, 3]
    with pytest.raises(AmbiguousEntryError) as caught:
        dump.select(step=0)["x"]
    assert advised(str(caught.value)) == ["dump['x_float32_0']", "dump['x_float32_1']"]


def test_many_ambiguous_entries_make_no_long_message():
    dump = dump_of(*(entry(f"x_float32_{k}", [1.0], path="x", call=k) for k in range(500)))
    with pytest.raises(AmbiguousEntryError, match=r"means 500 entries .*, \.\.\.$") as caught:
        dump["x"]
    assert len(str(caught.value)) < 300


def test_an_unreadable_entry_says_why():
    with pytest.raises(ReadError, match="'bad' of 'd' cannot be read: broken"):
        dump_of(entry("bad"))["bad"]


@pytest.mark.parametrize(
    ("conditions", "names"),
    [
        ({}, ["conv1", "conv2", "layers[0].x", "layers0.x", "fc"]),
        ({"name": "fc"}, ["fc"]),
        ({"name": "conv*"}, ["conv1", "conv2"]),
        ({"name": "conv?"}, ["conv1", "conv2"]),
        ({"name": "*"}, ["conv1", "conv2", "layers[0].x", "layers0.x", "fc"]),
        ({"name": "layers[0].*"}, ["layers[0].x"]),  # brackets mean themselves
        ({"name": ["fc", "conv?"]}, ["conv1", "conv2", "fc"]),
        ({"name": {"fc"}}, ["fc"]),
        ({"name": np.array(["fc", "conv1"])}, ["conv1", "fc"]),
        pytest.param({"name": (name for name in ["fc"])}, ["fc"], id="generator"),
        ({"name": []}, []),
        ({"name": "FC"}, []),
        ({"role": "output"}, ["conv2"]),
        ({"order": 1}, ["conv2"]),
        ({"order": [0, 4]}, ["conv1", "fc"]),
        ({"order": range(2)}, ["conv1", "conv2"]),
        ({"order": np.int64(1)}, ["conv2"]),
        ({"order": "1"}, []),
        ({"name": 1}, []),
        ({"name": "conv*", "order": 1}, ["conv2"]),
        ({"min": 0.0}, []),
    ],
    ids=str,
)
def test_select(conditions, names):
    dump = dump_of(
        entry("conv1", [1.0], order=0),
        entry("conv2", [2.0], order=1, role="output"),
        entry("layers[0].x", [3.0], order=2),
        entry("layers0.x", [4.0], order=3),
        entry("fc", [5.0], order=4),
    )
    chosen = dump.select(**conditions)
    assert chosen.names == names
    assert [chosen.array(name)[0] for name in names] == [dump.array(name)[0] for name in names]
    assert chosen.label == dump.label
    assert len(dump) == 5


def test_select_by_an_unknown_column_names_the_columns(steps):
    with pytest.raises(EntryNotFoundError, match="no column 'nam'; columns: name, kind, path"):
        steps.select(nam="a")


def test_a_selection_can_be_shown_and_selected_from(steps):
    nothing = steps.select(name="zzz")
    assert len(nothing) == 0
    for dump in (nothing, steps.select(step=3).select(rank=[0])):
        assert repr(dump)
        assert "<table" in dump._repr_html_() or len(dump) == 0
        assert len(dump.to_dataframe()) == len(dump)


def leaves(tree):
    return {node.path: node["value"].values for node in tree.leaves if node.has_data}


def test_the_tree_follows_the_paths():
    dump = dump_of(
        entry("net.fc.weight_float32_0", [1.0], path="net.fc.weight"),
        entry("net.fc.bias_float32_1", [[2.0, 3.0]], path="net.fc.bias"),
        entry("grads/x_float32_2", 4.0, path="grads/x"),
        entry("bad"),
    )
    found = leaves(dump.tree())
    assert {path: values.shape for path, values in found.items()} == {
        "/net/fc/weight": (1,),
        "/net/fc/bias": (1, 2),
        "/grads/x": (),
    }


def test_a_path_that_is_leaf_and_parent_keeps_its_array_as_value():
    dump = dump_of(
        entry("net", [1.0]),
        entry("net.fc", [2.0]),
        entry("net.fc.weight", [3.0]),
        entry("net.value", [4.0]),
    )
    found = leaves(dump.tree())
    assert {path: values[0] for path, values in found.items()} == {
        "/net/value_": 1,
        "/net/fc/value": 2,
        "/net/fc/weight": 3,
        "/net/value": 4,
    }


def test_no_entry_gets_lost_in_the_tree():
    names = ["a.b", "a/b", "a..b", ".a.b.", "...", "/", "x", "x_", "权.重"]
    dump = dump_of(*(entry(name, [float(k)]) for k, name in enumerate(names)))
    assert sorted(values[0] for values in leaves(dump.tree()).values()) == list(range(len(names)))


def test_entries_that_share_a_path_lie_under_their_names(tmp_path):
    arrays = {"dense": [1.0], "dense_backward": [2.0]}
    dump = open_dump(save_dump(arrays, tmp_path / "d", card=RunCard()))
    assert list(leaves(dump.tree())) == ["/dense_float64_0", "/dense_backward_float64_1"]


def test_several_steps_and_ranks_are_the_upper_levels_of_the_tree(steps):
    found = leaves(steps.tree())
    assert found["/step_3/rank_1/b"][0] == 311
    assert len(found) == 8
    assert list(leaves(steps.select(step=0, rank=1).tree())) == ["/a", "/b"]


def test_an_empty_tree():
    assert leaves(dump_of(entry("bad")).tree()) == {}
    assert leaves(dump_of().tree()) == {}


SAMPLES = {
    "plain": np.random.default_rng(0).normal(size=(200, 500)).astype(np.float32),
    "holed": np.array([np.nan, 1.0, np.inf, -np.inf, 0.0, -2.0, np.nan]),
    "empty": np.zeros((0, 4)),
    "scalar": np.array(-3, np.int8),
    "flags": np.array([True, False, True]),
    "narrow": np.arange(-4, 4).astype(ml_dtypes.bfloat16),
    "big": np.arange(5, dtype=">i4"),
    "nothing_finite": np.full(3, np.nan, np.float16),
}


@pytest.mark.parametrize("where", ["memory", "files"])
def test_summaries_agree_with_numpy(tmp_path, where):
    if where == "memory":
        dump = Dump.from_arrays(SAMPLES)
    else:
        dump = open_dump(save_dump(SAMPLES, tmp_path / "d", card=RunCard()))
    assert np.isnan(dump.index["max"].values).all()
    done = []
    summed = dump.summarise(progress=lambda *count: done.append(count))
    assert done == [(k + 1, len(SAMPLES)) for k in range(len(SAMPLES))]
    for row, array in enumerate(SAMPLES.values()):
        got = {name: summed.index[name].values[row] for name in (*SUMMARY_FIGURES, "crc32")}
        values = array.astype(np.float64)
        finite = values[np.isfinite(values)]
        expected = {
            "min": finite.min() if finite.size else np.nan,
            "max": finite.max() if finite.size else np.nan,
            "mean": finite.mean() if finite.size else np.nan,
            "l2": np.sqrt((finite**2).sum()),
            "nan_count": np.isnan(values).sum(),
            "inf_count": np.isinf(values).sum(),
            "zero_count": (values == 0).sum(),
            "crc32": zlib.crc32(array.tobytes()),
        }
        for name, value in expected.items():
            # Both sum in float64, in another order.
            np.testing.assert_allclose(got[name], value, rtol=1e-12, atol=1e-15, err_msg=name)
    assert np.isnan(dump.index["max"].values).all()  # the first dump stays as it was


def test_a_file_that_vanished_becomes_unreadable_in_the_summary(tmp_path):
    folder = save_dump({"a": [1.0], "b": [2.0]}, tmp_path / "d", card=RunCard())
    dump = open_dump(folder)
    (folder / "a_float64_0.npy").unlink()
    summed = dump.summarise()
    assert summed.index["status"].values.tolist() == ["unreadable", "ok"]
    assert "No such file" in summed.index["reason"].values[0]
    assert summed.index["max"].values[1] == 2.0


def test_a_dump_is_frozen(steps):
    with pytest.raises(dataclasses.FrozenInstanceError):
        steps.label = "other"
    table = steps.to_dataset()
    table["name"].values[:] = "changed"
    frame = steps.to_dataframe()
    frame.loc[:, "name"] = "changed"
    assert steps.names == ["a", "b"] * 4
    renamed = steps.relabel("other")
    assert (renamed.label, steps.label) == ("other", "d")


def test_arrays_in_memory_are_copies_that_cannot_be_changed():
    weights = np.zeros(3)
    dump = Dump.from_arrays({"w": weights})
    weights += 1  # training goes on
    assert dump.array("w").sum() == 0
    with pytest.raises(ValueError, match="read-only"):
        dump.array("w")[0] = 7


def test_arrays_of_any_kind_become_a_dump():
    dump = Dump.from_arrays(
        {
            "array": np.arange(6.0).reshape(2, 3).T,
            "number": 3,
            "list": [1.5, 2.5],
            "text": "hello",
            "nothing": None,
            "ragged": [[1], [2, 3]],
            7: 1.0,
        },
        label="m",
    )
    assert dump.names == ["array", "number", "list", "text", "nothing", "ragged", "7"]
    assert dump.index["order"].values.tolist() == list(range(7))
    assert dump.index["kind"].values.tolist() == ["memory"] * 7
    status = dump.index["status"].values.tolist()
    assert status == ["ok", "ok", "ok", "unreadable", "unreadable", "unreadable", "ok"]
    reasons = dump.index["reason"].values.tolist()
    assert "not numbers" in reasons[3]
    assert "inhomogeneous" in reasons[5]
    np.testing.assert_array_equal(dump.array("array"), np.arange(6.0).reshape(2, 3).T)
    assert repr(dump)
    assert dump._repr_html_()


def test_names_of_arrays_in_memory_say_what_those_of_files_say(tmp_path):
    names = ["fc.weight", "bn.moving_mean", "fc.weight_backward", "grads.fc.bias", "fc.bias.grad"]
    names += ["act", "act_backward", "act.input", "blocks.0", "3"]
    arrays = {name: np.ones(2) for name in names}
    dump = Dump.from_arrays(arrays)
    columns = ["path", "call", "direction", "role", "slot"]
    stored = open_dump(save_dump(arrays, tmp_path / "d")).to_dataframe()
    assert dump.to_dataframe()[columns].equals(stored[columns])
    assert set(dump.index["kind"].values) == {"memory"}
    assert dump.index["role"].values.tolist()[:6] == [
        *("parameter", "buffer", "parameter", "parameter", "parameter", "")
    ]


def test_activations_in_memory_are_what_they_are_called():
    names = ["x", "act", "blocks.0.act.input", "0_relu", "logits_float32_3", "out.npy"]
    dump = Dump.from_arrays({name: 1.0 for name in names})
    assert dump.names == dump.index["path"].values.tolist() == names
    for column in ("direction", "role", "slot"):
        assert set(dump.index[column].values) == {""}


@pytest.mark.torch
def test_torch_tensors_become_a_dump():
    import torch

    live = torch.zeros(2, 2, requires_grad=True)
    dump = Dump.from_arrays(
        {
            "w": torch.nn.Parameter(torch.arange(6.0).reshape(2, 3).T),
            "b": torch.tensor([1.0, -2.5], dtype=torch.bfloat16),
            "live": live,
            "meta": torch.empty(2, device="meta"),
        }
    )
    with torch.no_grad():
        live += 1
    assert dump.index["dtype"].values.tolist() == ["float32", "bfloat16", "float32", ""]
    assert dump.index["reason"].values[3] == "a meta tensor has no values"
    assert dump.array("live").sum() == 0
    np.testing.assert_array_equal(dump["b"].values, [1.0, -2.5])


@pytest.mark.mindspore
def test_mindspore_tensors_become_a_dump():
    import mindspore

    dump = Dump.from_arrays(
        {
            "w": mindspore.Parameter(mindspore.Tensor(np.ones((2, 3), np.float32))),
            "b": mindspore.Tensor([1.0, -2.5], mindspore.bfloat16),
        }
    )
    assert dump.index["dtype"].values.tolist() == ["float32", "bfloat16"]
    np.testing.assert_array_equal(dump["b"].values, [1.0, -2.5])
    assert dump.array("b").dtype == np.dtype(ml_dtypes.bfloat16)


@pytest.mark.parametrize("order", ["C", "F"])
def test_memory_reads_flat_ranges_in_c_order(order):
    array = np.arange(12.0).reshape(3, 4).copy(order)
    source = ArrayInMemory(array)
    assert isinstance(source, ArraySource)
    assert (source.shape, source.dtype, source.size_bytes) == ((3, 4), np.dtype(float), 96)
    np.testing.assert_array_equal(source.read(2, 9), np.arange(2.0, 9.0))
    assert source.read(5, 5).shape == (0,)
    copy = pickle.loads(pickle.dumps(source))
    np.testing.assert_array_equal(copy.read(0, 12), np.arange(12.0))


def test_the_table_goes_to_netcdf_and_back(tmp_path, steps):
    pytest.importorskip("netCDF4")
    table = steps.summarise().to_dataset()
    table.to_netcdf(tmp_path / "x.nc", engine="netcdf4")
    with xr.open_dataset(tmp_path / "x.nc", engine="netcdf4") as back:
        for name, column in DUMP_COLUMNS.items():
            kinds = {"str": "OUT", "tuple": "OUT", "int64": "i", "float64": "f"}
            assert back[name].dtype.kind in kinds[column.dtype], name
            if column.dtype in ("str", "tuple"):
                assert back[name].values.tolist() == table[name].values.tolist()
            else:
                np.testing.assert_array_equal(back[name].values, table[name].values)
        assert back.attrs == table.attrs


def test_thousands_of_entries_make_a_table_in_a_moment(steps):
    import time

    entries = [entry(f"layers.{k}.weight", [1.0], order=k) for k in range(5000)]
    started = time.process_time()
    dump = dump_of(*entries)
    assert dump.array("layers.4999.weight")[0] == 1
    assert len(dump.select(path="layers.1*")) == 1111
    # Measured 0.2 s on an idle core.
    assert time.process_time() - started < 4.0


def test_the_public_names():
    assert tnb.Dump is Dump


def test_a_dump_of_arrays_keeps_a_copy_unless_told_to_look_where_they_lie():
    arrays = {"w": np.arange(6.0).reshape(2, 3), "b": [1.0, 2.0]}
    kept, seen = Dump.from_arrays(arrays), Dump.from_arrays(arrays, copy=False)
    arrays["w"][1, 2] = 50.0  # still theirs to change
    assert kept.array("w")[1, 2] == 5.0
    assert seen.array("w")[1, 2] == 50.0
    for dump in (kept, seen):
        with pytest.raises(ValueError, match="read-only"):
            dump.array("w")[:] = 0
        assert dump.array("b").tolist() == [1.0, 2.0]


def test_numbers_at_odd_places_are_copied_nevertheless():
    records = np.zeros(3, [("flag", "i1"), ("value", "<f4")])
    records["value"] = [1, 2, 3]
    [source] = Dump.from_arrays({"x": records["value"]}, copy=False).sources
    assert source.array.flags.aligned
    assert source.read(0, 3).tolist() == [1, 2, 3]


@st.composite
def viewed(draw):
    """An array whose memory is not in C order: axes turned, in strides, backwards, or repeated."""
    shape = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    array = np.arange(int(np.prod([2 * length for length in shape])), dtype=np.float32)
    array = array.reshape([2 * length for length in shape])
    steps = draw(st.tuples(*[st.sampled_from([-2, -1, 1, 2]) for _ in shape]))
    array = array[tuple(slice(None, None, step) for step in steps)]
    array = array.transpose(draw(st.permutations(range(array.ndim))))
    return np.broadcast_to(array, (2, *array.shape)) if draw(st.booleans()) else array


@given(array=viewed(), data=st.data())
def test_any_view_is_read_by_ranges_as_if_it_lay_in_order(array, data):
    [source] = Dump.from_arrays({"x": array}, copy=False).sources
    expected = np.ascontiguousarray(array).reshape(-1)
    start = data.draw(st.integers(0, array.size))
    stop = data.draw(st.integers(start, array.size))
    np.testing.assert_array_equal(source.read(start, stop), expected[start:stop])
    memory = np.full(stop - start, 77, np.float32)
    np.testing.assert_array_equal(source.read(start, stop, memory), expected[start:stop])


def test_the_statistics_of_one_entry_are_not_those_of_another():
    dump = dump_of(entry("a", [1.0]), entry("b")._replace(statistics={"max": 3.0}))
    assert np.isnan(dump.index["max"].values[0])
    assert dump.index["max"].values[1] == 3.0


FINGERPRINT = tuple(float(k) for k in range(17))


def told(name, fingerprint=(), **facts):
    site = Site("module", name)
    return Entry(name, site, statistics={"l2": 2.0}, fingerprint=fingerprint, **facts)


def test_fingerprints_are_rows_beside_the_columns():
    index = dump_of(told("a"), told("b", FINGERPRINT), entry("c", [1.0])).index
    assert index["fingerprint"].dims == ("entry", "fingerprint_number")
    assert index["fingerprint"].dtype == np.float64
    expected = [[np.nan] * 17, FINGERPRINT, [np.nan] * 17]
    np.testing.assert_array_equal(index["fingerprint"], expected)
    assert fingerprints_of(index) == [(), FINGERPRINT, ()]


def test_without_any_fingerprint_there_is_no_variable_of_them():
    for dump in (dump_of(told("a")), dump_of()):
        assert "fingerprint" not in dump.index
        assert fingerprints_of(dump.index) == [()] * len(dump)


def test_selecting_keeps_fingerprints_with_their_entries():
    dump = dump_of(told("a", step=1), told("b", FINGERPRINT, step=2), told("c", step=2))
    chosen = dump.select(step=2)
    assert chosen.names == ["b", "c"]
    assert fingerprints_of(chosen.index) == [FINGERPRINT, ()]


def test_frames_and_reprs_are_those_without_fingerprints():
    with_it, without = dump_of(told("a", FINGERPRINT), told("b")), dump_of(told("a"), told("b"))
    pd.testing.assert_frame_equal(with_it.to_dataframe(), without.to_dataframe())
    assert repr(with_it) == repr(without)
    assert with_it._repr_html_() == without._repr_html_()
    assert with_it.to_dataset()["fingerprint"].shape == (2, 17)


def test_summarising_adds_the_fingerprints_of_what_can_be_read():
    long = np.random.default_rng(0).normal(size=300_000).astype(np.float32)
    dump = dump_of(entry("a", long), told("b", FINGERPRINT), entry("c"), entry("d", [1 + 2j]))
    a, b, c, d = fingerprints_of(dump.summarise().index)
    np.testing.assert_allclose(a, sketch(long), rtol=1e-12, atol=1e-9)
    assert (b, c) == (FINGERPRINT, ())
    assert d[0] == 3.0
    assert list(dump.summarise().to_dataframe()) == list(dump.to_dataframe())


def test_a_table_stored_before_there_were_fingerprints_is_a_dump():
    dump = dump_of(entry("a", [1.0]), told("b"))
    stored = dump.to_dataset().assign_attrs(schema="troubleshooter_nb.dump/1")
    opened = Dump(stored, dump.sources)
    assert opened.index["shape"].values.tolist() == [(1,), None]
    assert opened.select(path="b").names == ["b"]
    assert fingerprints_of(opened.summarise().index)[0][0] == 1.0
    assert repr(opened)
