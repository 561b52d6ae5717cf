"""Comparison and TensorDiff: access, selection, documented columns, display without files."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import troubleshooter_nb as tnb
from troubleshooter_nb import comparison
from troubleshooter_nb.columns.pairs import RESULT_COLUMNS
from troubleshooter_nb.comparison import concentrated_range
from troubleshooter_nb.dump import Dump, Entry
from troubleshooter_nb.messages import told
from troubleshooter_nb.naming import Site


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
    kinds = {"str": "O", "tuple": "O", "int64": "i", "float64": "f", "bool": "b"}
    for name, column in RESULT_COLUMNS.items():
        variable = cmp.result[name]
        assert variable.dims == ("pair",), name
        assert variable.dtype.kind == kinds[column.dtype], name
        assert variable.attrs["description"] == column.meaning
        assert variable.attrs.get("units", "") == column.unit


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


# --- what a dump says besides values -------------------------------------------------------------


def entry(name, *, role="output", direction="forward", kind="api", slot="0", **facts):
    site = Site(kind, facts.pop("path", name), 0, direction, role, slot)
    return Entry(name, site, **({"dtype": "float32", "shape": (4,)} | facts))


def of_verdicts(*wanted):
    """Two dumps that compare with these verdicts, in order."""
    sides = [], []
    for order, verdict in enumerate(wanted):
        name = f"x{order}"
        crcs = {"identical": (5, 5), "differs": (5, 6), "undecidable": (-1, -1)}.get(verdict)
        if verdict == "unreadable":
            lost = entry(name, order=order, reason="no file", shape=None)
            for side in sides:
                side.append(lost)
        elif verdict == "missing":
            sides[0].append(entry(name, order=order))
        else:
            for side, crc in zip(sides, crcs, strict=True):
                statistics = {"crc32": crc} if crc >= 0 else {}
                side.append(entry(name, order=order, statistics=statistics))
    left, right = (Dump.from_entries(side) for side in sides)
    found = tnb.compare(left, right, pairing="name")
    assert found.result["verdict"].values.tolist() == list(wanted)
    return found


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        (["identical"], 0),
        (["identical", "identical", "undecidable"], 0),
        (["identical", "undecidable", "undecidable"], 2),
        (["undecidable", "undecidable"], 2),
        (["missing"], 2),
        (["undecidable", "missing"], 2),
        (["identical", "missing"], 2),
        (["identical", "unreadable"], 2),
        (["identical", "undecidable", "differs"], 1),
        (["differs", "unreadable", "missing"], 1),
        ([], 2),
    ],
)
def test_the_exit_code_says_passed_differs_or_could_not_compare(verdicts, code):
    cmp = of_verdicts(*verdicts)
    assert cmp.exit_code == code
    assert cmp.passed == (code == 0)


def test_the_mark_of_the_headline_agrees_with_the_exit_code():
    assert of_verdicts("identical", "undecidable").verdict.startswith("✓ 1 of 2 pairs agree")
    assert of_verdicts("undecidable").verdict.startswith("? 0 of 1 pairs agree")
    assert of_verdicts("identical", "missing").verdict.startswith("○ 1 of 1 pairs agree")


def test_recorded_checksums_are_columns_and_stand_in_the_drill_down(tmp_path):
    left = Dump.from_entries(
        [entry("a", statistics={"crc32": 0x0C7E77DA}), entry("b", digest="xor:1f")]
    )
    right = Dump.from_entries([entry("a", statistics={"crc32": 5}), entry("b"), entry("c")])
    cmp = tnb.compare(left, right)
    frame = cmp.to_dataframe().set_index("right")
    assert frame["left_digest"].to_dict() == {"a": "crc32:0c7e77da", "b": "xor:1f", "c": ""}
    assert frame["right_digest"].to_dict() == {"a": "crc32:00000005", "b": "", "c": ""}
    assert "checksums: left crc32:0c7e77da, right crc32:00000005" in repr(cmp["a"])
    assert "crc32:0c7e77da" in cmp["a"]._repr_html_()
    assert "checksums: left xor:1f, right –" in repr(cmp["b"])
    assert "checksum" not in repr(cmp["c"])
    exported = tnb.export(cmp, tmp_path / "record.csv").read_text()
    assert "left_digest,right_digest" in exported
    assert "crc32:0c7e77da" in exported


# --- names, labels, selections -------------------------------------------------------------------


def test_a_name_that_is_the_end_of_one_comes_first_among_the_closest():
    names = ["fc1.weigth", "fc1_weight", "module.fc1.weight", "fc1.weights", "fc2.weight"]
    dump = Dump.from_arrays({name: np.ones(2) for name in names})
    with pytest.raises(tnb.EntryNotFoundError, match=r"closest: 'module\.fc1\.weight', 'fc1"):
        tnb.compare(dump, dump)["fc1.weight"]


def test_a_name_of_several_pairs_lists_their_steps_and_ranks():
    dump = Dump.from_entries(
        [entry("x", step=step, rank=rank) for step in (0, 3) for rank in (0, 1)]
    )
    said = (
        r"'x' belongs to 4 pairs: use a pair number, 0 \(step 0, rank 0\), 1 \(step 0, rank 1\), 2 "
    )
    with pytest.raises(tnb.AmbiguousEntryError, match=said):
        tnb.compare(dump, dump)["x"]


def test_equal_labels_are_told_apart(tmp_path):
    arrays = {"x": np.ones(2)}
    for side in ("npu", "bench"):
        tnb.save_dump(arrays, tmp_path / side / "v1" / "rank0")
        tnb.save_dump(arrays, tmp_path / side / "rank0")
    near = tnb.compare(tmp_path / "npu" / "rank0", tmp_path / "bench" / "rank0")
    assert (near.left_label, near.right_label) == ("npu/rank0", "bench/rank0")
    far = tnb.compare(tmp_path / "npu" / "v1" / "rank0", tmp_path / "bench" / "v1" / "rank0")
    assert (far.left_label, far.right_label) == ("npu/…/rank0", "bench/…/rank0")
    dumps = [tnb.open_dump(tmp_path / side / "rank0") for side in ("npu", "bench")]
    for same in (tnb.compare(*dumps), tnb.compare(*[tmp_path / "npu" / "rank0"] * 2)):
        assert (same.left_label, same.right_label) == ("rank0 (left)", "rank0 (right)")
        assert "rank0 (left) against rank0 (right)" in repr(same)
        assert "'rank0 (left)' with 'rank0 (right)'" in repr(same.pairing)


def test_a_selection_has_a_first_difference_of_its_own():
    sides = [
        Dump.from_entries(
            [
                entry(f"x{i}", rank=rank, order=i, statistics={"crc32": off * (i > rank)})
                for rank in (0, 1)
                for i in range(3)
            ]
        )
        for off in (0, 1)
    ]
    cmp = tnb.compare(*sides)
    assert int(cmp.first_divergence.row["order"]) == 1
    first = cmp.select(rank=1).first_divergence
    assert (str(first.row["left"].values), int(first.row["rank"])) == ("x2", 1)
    assert "first at x2 output 0 (#5)" in cmp.select(rank=1).verdict
    assert cmp.select(rank=1, left="x0").first_divergence is None


@pytest.mark.parametrize("known", ["crc32", "statistics"])
def test_a_parameter_is_named_before_the_operator_that_is_given_it(known):
    def dump(off):
        def facts(value):
            if known == "crc32":
                return {"statistics": {"crc32": value}}
            names = ("min", "max", "mean", "l2")
            return {"statistics": dict(zip(names, (-value, value, 0.5, 2.0 * value), strict=True))}

        return Dump.from_entries(
            [
                entry("F.linear.in.0", role="input", order=0, **facts(3)),
                entry("F.linear.in.1", role="input", slot="1", order=1, **facts(7 + off)),
                entry("F.linear.out", order=2, **facts(20 + off)),
                entry("m.fc1.bias", role="parameter", kind="module", order=3, **facts(9 + off)),
                entry("m.fc1.weight", role="parameter", kind="module", order=4, **facts(7 + off)),
            ]
        )

    assert str(tnb.compare(dump(4), dump(0)).first_divergence.row["left"].values) == "m.fc1.weight"
    cmp = tnb.compare(dump(4), dump(0), diagnose=False)
    assert str(cmp.first_divergence.row["left"].values) == "m.fc1.weight"
    assert "F.linear.in.0" in cmp._repr_html_()
    # Where no parameter holds the same, the first is the first.
    rest = cmp.select(left=["F.linear.in.1", "F.linear.out", "m.fc1.bias"])
    assert str(rest.first_divergence.row["left"].values) == "F.linear.in.1"


def test_the_pair_before_a_parameter_is_the_last_that_agrees_before_its_copies():
    folder = Path(__file__).parent / "data" / "msprobe" / "v26_2_0" / "torch"
    cmp = tnb.compare(folder / "t_mlp_mix_tensorB", folder / "t_mlp_mix_tensor")
    assert str(cmp.first_divergence.row["left_display"].values) == "fc1.weight"
    assert cmp.first_divergence.evidence is not None
    page = re.sub("<[^>]+>", "", cmp._repr_html_())
    assert "still agrees: Functional.linear input 0, relative error 0" in page


def test_a_comparison_and_a_selection_can_be_gone_through():
    arrays = {name: np.arange(4.0) for name in "abc"}
    cmp = tnb.compare(arrays, arrays)
    assert [diff.row["left"].item() for diff in cmp] == ["a", "b", "c"]
    assert [diff.row["left"].item() for diff in cmp.select(left=["a", "c"])] == ["a", "c"]


def test_a_reason_is_a_message_with_what_it_is_made_of():
    left, right = entry("x", statistics={"nan_count": 3}), entry("x", statistics={"nan_count": 2})
    cmp = tnb.compare(*(Dump.from_entries([one]) for one in (left, right)))
    reason, detail = (cmp.result[name].values[0] for name in ("reason", "detail"))
    assert reason == "other numbers of NaN or Inf, by the statistics: left 3 NaN, right 2 NaN"
    assert (reason.id, dict(detail.values)) == (
        "verdicts.statistics_counts",
        {"left": "3 NaN", "right": "2 NaN"},
    )
    assert told(reason, "zh") == "由统计量可知 NaN 或 Inf 的数量不同：左 3 NaN，右 2 NaN"
    assert cmp.result["reason_id"].values[0] == "statistics_counts"
    with tnb.option_context(language="zh"):
        assert told(reason, "zh") in repr(cmp)
        assert cmp.to_dataframe()["reason"][0] == str(reason)


def test_the_table_goes_to_netcdf_with_its_reasons(tmp_path):
    pytest.importorskip("netCDF4")
    table = of_verdicts("identical", "unreadable", "missing", "differs").to_dataset()
    table.to_netcdf(tmp_path / "x.nc", engine="netcdf4")
    with xr.open_dataset(tmp_path / "x.nc", engine="netcdf4") as back:
        for name in ("reason", "detail", "reason_id"):
            assert back[name].values.tolist() == [str(text) for text in table[name].values]
