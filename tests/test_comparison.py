"""Comparison and TensorDiff: access, selection, documented columns, display without files."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
import shutil

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb import comparison
from troubleshooter_nb.comparison import RESULT_COLUMNS, concentrated_range


@pytest.fixture
def paths(tmp_path):
    rng = np.random.default_rng(0)
    clean = {f"layer{i}.weight": rng.normal(size=(32, 48)).astype(np.float32) for i in range(4)}
    wrong = {name: array.copy() for name, array in clean.items()}
    wrong["layer2.weight"][:, 12:24] += 0.5
    wrong["layer2.weight"][7, 13] += 9
    wrong["layer3.weight"] = wrong["layer3.weight"] + np.float32(1e-7)
    left = tnb.save_dump(wrong, tmp_path / "left", card=tnb.RunCard({"seed": 1}))
    right = tnb.save_dump(clean, tmp_path / "right", card=tnb.RunCard({"seed": 2}))
    return left, right


@pytest.fixture
def cmp(paths):
    return tnb.compare(*paths)


def test_a_pair_is_found_by_left_name_right_name_display_name_and_number(cmp):
    names = ["layer2.weight_float32_2", "layer2.weight", 2, np.int64(2)]
    assert {str(cmp[name].row["left"].values) for name in names} == {"layer2.weight_float32_2"}


def test_an_unknown_pair_lists_the_closest_names(cmp):
    with pytest.raises(tnb.EntryNotFoundError, match=r"layer2\.weigth.*closest.*layer2\.weight"):
        cmp["layer2.weigth"]
    with pytest.raises(tnb.EntryNotFoundError, match="numbered from 0 to 3"):
        cmp[99]


def test_the_drill_down_names_the_planted_columns_and_the_planted_outlier(cmp):
    diff = cmp.first_divergence
    assert str(diff.row["left_display"].values) == "layer2.weight"
    attrs = diff.evidence["profile_1"].attrs
    assert (attrs["start"], attrs["stop"]) == (12, 24) or attrs["stop"] - attrs["start"] <= 12
    worst = diff.worst_elements()
    assert worst["index"][0] == (7, 13)
    assert worst["abs_error"][0] == pytest.approx(9.5, rel=1e-6)  # one float32 addition


def test_worst_puts_failed_pairs_first(cmp):
    assert str(cmp.worst(2).result["verdict"].values[0]) == "differs"
    assert len(cmp.worst(2)) == 2


def test_select_keeps_the_evidence_of_the_rows_it_keeps(cmp):
    picked = cmp.select(verdict=["differs"])
    assert len(picked) == 1
    assert picked[2].evidence is not None
    with pytest.raises(tnb.EntryNotFoundError, match="no column 'colour'"):
        cmp.select(colour=1)


def test_left_and_right_load_in_a_computable_dtype(cmp):
    diff = cmp["layer2.weight"]
    assert diff.left.dims == ("axis_0", "axis_1")
    # float64, as the figures are: one float32 subtraction would round.
    error = np.abs(diff.left.astype(float) - diff.right.astype(float))
    assert float(error.max()) == float(diff.row["max_abs_error"])


def test_every_repr_is_the_same_after_the_files_are_deleted(paths):
    cmp = tnb.compare(*paths)
    before = repr(cmp), cmp._repr_html_(), cmp[2]._repr_html_(), repr(cmp[2]), repr(cmp.pairing)
    for path in paths:
        shutil.rmtree(path)
    again = repr(cmp), cmp._repr_html_(), cmp[2]._repr_html_(), repr(cmp[2]), repr(cmp.pairing)
    assert again == before


def test_a_pair_without_stored_evidence_is_read_on_demand_or_says_why_not(paths):
    cmp = tnb.compare(*paths)
    passing = cmp["layer3.weight"]
    assert passing.evidence is None
    assert passing.located().evidence is not None
    for path in paths:
        shutil.rmtree(path)
    with pytest.raises(tnb.ReadError, match=r"layer3\.weight_float32_3\.npy"):
        passing.located()


def test_objects_are_frozen(cmp):
    for obj, name in ((cmp, "result"), (cmp[0], "row"), (cmp.pairing, "table")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(obj, name, None)


def test_every_documented_column_is_in_the_result_with_its_dtype(cmp):
    kinds = {"str": "O", "int64": "i", "float64": "f", "bool": "b"}
    for name, (dtype, unit, meaning, _) in RESULT_COLUMNS.items():
        variable = cmp.result[name]
        assert variable.dims == ("pair",), name
        assert variable.dtype.kind == kinds[dtype], name
        assert variable.attrs["description"] == meaning
        assert variable.attrs.get("units", "") == unit


def test_every_result_column_is_named_in_the_docstring_or_is_a_side_statistic():
    text = comparison.Comparison.__doc__
    # "left_min ... right_zero_count" stands for the statistics of both sides.
    sides = re.compile(r"(left|right)_(min|max|mean|l2|nan_count|inf_count|zero_count)")
    named = set(re.findall(r"\w+", text))
    assert not [n for n in RESULT_COLUMNS if n not in named and not sides.fullmatch(n)]


def test_a_selection_keeps_pair_numbers_and_does_not_invent_a_first_difference(cmp):
    rest = cmp.select(left_display=["layer1.weight", "layer3.weight"])
    assert str(rest[3].row["left_display"].values) == "layer3.weight"
    assert rest.first_divergence is None
    assert "first at" not in rest.verdict
    assert str(cmp.worst(1).first_divergence.row["left_display"].values) == "layer2.weight"


def test_objects_can_be_pickled_and_copied(cmp):
    again = pickle.loads(pickle.dumps(cmp))
    assert again.result.identical(cmp.result)
    assert again._repr_html_() == cmp._repr_html_()
    assert copy.deepcopy(cmp.pairing).table.identical(cmp.pairing.table)


def test_to_dataframe_has_one_row_per_pair_and_no_histogram(cmp):
    frame = cmp.to_dataframe()
    assert len(frame) == len(cmp)
    assert "error_histogram" not in frame
    assert set(RESULT_COLUMNS) <= set(frame.columns)


def test_the_histogram_counts_every_unequal_element(cmp):
    counted = cmp.result["error_histogram"].sum("exponent").values
    np.testing.assert_array_equal(counted, cmp.result["unequal_count"].values)


def test_swapping_the_sides_keeps_symmetric_figures(paths):
    here, there = tnb.compare(*paths).result, tnb.compare(*paths[::-1]).result
    for name in ("max_abs_error", "rmse", "cosine", "mean_abs_error", "unequal_count"):
        np.testing.assert_array_equal(here[name].values, there[name].values)


def test_a_dump_against_itself_is_identical_everywhere(paths):
    cmp = tnb.compare(paths[0], paths[0])
    assert cmp.passed
    assert set(cmp.result["verdict"].values) == {"identical"}
    assert cmp.first_divergence is None


def test_all_zero_profile_has_the_whole_axis_as_range():
    assert concentrated_range(np.zeros(5)) == (0, 5)
