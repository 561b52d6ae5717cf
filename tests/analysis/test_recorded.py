"""Entries without values are judged by what their dump recorded, and by nothing else."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from troubleshooter_nb.analysis.engine import compare
from troubleshooter_nb.analysis.recorded import Recorded, judge_recorded
from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.formats import open_dump
from troubleshooter_nb.formats.pairing_writer import write_mapping
from troubleshooter_nb.formats.recorded import with_nonfinite
from troubleshooter_nb.messages import told
from troubleshooter_nb.metrics.verdict import Tolerance
from troubleshooter_nb.naming import Site
from troubleshooter_nb.render.words import reason_of

MSPROBE = Path(__file__).parents[1] / "data" / "msprobe" / "v26_2_0"
SEEN = {"min": -1.0, "max": 2.0, "mean": 0.5, "l2": 3.0}


def recorded(**facts):
    return Recorded(**({"dtype": "float32", "shape": (4, 3), "size": 12} | facts))


def judged(left, right, **tolerance):
    found = judge_recorded(recorded(**left), recorded(**right), Tolerance(**tolerance))
    return found.name, found.reason


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ({"crc32": 5}, {"crc32": 5}, ("identical", "digest_same")),
        ({"digest": "xor:1"}, {"digest": "xor:1"}, ("identical", "digest_same")),
        # Another kind of checksum, or of another dtype, says nothing.
        ({"digest": "xor:1"}, {"digest": "md5:1"}, ("undecidable", "digest_kinds")),
        ({"crc32": 5}, {"crc32": 5, "dtype": "int32"}, ("undecidable", "nothing_shared")),
        ({"crc32": 5}, {"crc32": 6}, ("differs", "digest_differs")),
        ({"crc32": 5, "statistics": SEEN}, {"crc32": 6, "statistics": SEEN},
         ("undecidable", "digest_differs")),
        ({"statistics": SEEN}, {"statistics": SEEN}, ("undecidable", "undecidable")),
        ({"statistics": SEEN}, {"statistics": SEEN | {"max": 3}}, ("differs", "statistics_differ")),
        ({"statistics": SEEN}, {"statistics": {}}, ("undecidable", "nothing_shared")),
        ({}, {}, ("undecidable", "nothing_shared")),
        ({"shape": (3, 4)}, {}, ("shape", "shape")),
        ({"shape": None}, {"statistics": SEEN}, ("undecidable", "nothing_shared")),
        ({"statistics": {"nan_count": 1}}, {"statistics": {"nan_count": 0}},
         ("nan", "statistics_only_left")),
        ({"statistics": {"nan_count": 1}}, {"statistics": {"nan_count": 1}},
         ("undecidable", "statistics_both")),
        ({"statistics": {"nan_count": 1}, "crc32": 5}, {"statistics": {"nan_count": 1}, "crc32": 6},
         ("nan", "digest_differs_nan")),
        ({"statistics": {"nan_count": 1}, "crc32": 5}, {"statistics": {"nan_count": 1}, "crc32": 5},
         ("identical", "digest_same")),
    ],
)  # fmt: skip
def test_checksums_prove_and_statistics_only_refute(left, right, expected):
    assert judged(left, right) == expected


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ((0.5, 0.5), (0.5, 0.5), ("pass", "constants_close")),
        ((0.5, 0.5), (0.50001, 0.50001), ("pass", "constants_close")),
        ((0.5, 0.5), (0.6, 0.6), ("differs", "constants_differ")),
        ((0.5, 0.5), (0.5, 0.6), ("differs", "statistics_differ")),
    ],
)
def test_where_minimum_is_maximum_statistics_say_everything(left, right, expected):
    sides = [
        {"statistics": {"min": low, "max": high, "nan_count": 0, "inf_count": 0}}
        for low, high in (left, right)
    ]
    assert judged(*sides) == expected


@pytest.mark.parametrize(
    ("dtype", "size", "off", "expected"),
    [
        ("float16", 1, 9e-4, "rounding"),  # one ulp is up to 2**-10 of the value
        ("bfloat16", 1, 7e-3, "rounding"),
        ("float16", 1, 3e-3, "differs"),
        ("float32", 1, 9e-4, "differs"),
        ("int32", 1, 9e-4, "differs"),
        ("float16", 4096, 9e-4, "rounding"),
        ("", 1, 9e-4, "differs"),
    ],
)
def test_one_number_is_held_to_the_rounding_of_its_dtype(dtype, size, off, expected):
    sides = [
        {
            "statistics": {"min": value, "max": value, "nan_count": 0, "inf_count": 0},
            "dtype": dtype,
            "size": size,
        }
        for value in (2.0 * (1 + off), 2.0)
    ]
    assert judged(*sides)[0] == expected


@pytest.mark.parametrize(
    ("extremes", "counts"),
    [
        ({"min": -math.inf, "max": math.inf, "mean": math.nan, "l2": math.inf}, {"inf_count": 1}),
        ({"min": 0.0, "max": math.inf, "mean": math.nan}, {"nan_count": 1}),
        ({"min": math.nan, "max": math.nan, "mean": math.nan, "l2": math.nan}, {"nan_count": 1}),
    ],
)
def test_a_mean_of_infinities_of_both_signs_is_no_proof_of_nan(extremes, counts):
    found = with_nonfinite(extremes)
    assert {name: found[name] for name in found.keys() - extremes.keys()} == counts


def test_what_two_values_are_is_said_with_the_side():
    for left, right, said in (
        ("0.01", "0.0", "left 0.01, right 0.0"),
        ("2", "", "only one side is a tensor: left 2, right 4x3"),
        ("", "2", "only one side is a tensor: left 4x3, right 2"),
    ):
        found = judge_recorded(recorded(value=left), recorded(value=right), Tolerance())
        assert reason_of({"reason_id": found.reason, "detail": found.detail}) == said
    found = judge_recorded(recorded(value="0.01"), recorded(value="0.0"), Tolerance())
    row = {"reason_id": found.reason, "detail": found.detail}
    assert told(reason_of(row), "zh") == "左 0.01，右 0.0"


def test_a_minimum_that_is_the_maximum_of_the_finite_values_only_is_not_enough():
    sides = {"statistics": {"min": 1.0, "max": 1.0, "nan_count": 2, "inf_count": 0}}
    assert judged(sides, sides)[0] == "undecidable"


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("null", "null", ("identical", "value_same")),
        ("false", "true", ("differs", "values_differ")),
        ("1", "true", ("pass", "values_close")),
        ("3", "4", ("differs", "values_differ")),
        ("1.0", "1.00001", ("pass", "values_close")),
        ("NaN", "NaN", ("identical", "value_same")),
        ("NaN", "1", ("nan", "values_differ")),
        ('"sum"', '"mean"', ("differs", "values_differ")),
        ('"sum"', "null", ("differs", "values_differ")),
        ("null", "", ("shape", "no_tensor")),
    ],
)
def test_what_is_no_tensor_is_compared_as_a_value(left, right, expected):
    assert judged({"value": left}, {"value": right}) == expected


def test_a_number_is_compared_with_a_tensor_of_one_element():
    one = Dump.from_entries([Entry("eps", Site("api", "eps"), dtype="float", value="0.125")])
    tensor = Dump.from_arrays({"eps": np.float32(0.125)})
    other = Dump.from_arrays({"eps": np.float32(0.25)})
    vector = Dump.from_arrays({"eps": np.zeros(3, np.float32)})
    for left, right, expected in (
        (one, tensor, ["pass"]),
        (tensor, one, ["pass"]),
        (one, other, ["differs"]),
        (one, vector, ["shape"]),
    ):
        assert compare(left, right).result["verdict"].values.tolist() == expected


def test_statistics_are_compared_with_a_tensor_by_computing_its_own():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4, 3)).astype(np.float32)
    entry = Entry("x", Site("api", "x"), ArrayInMemory(values))
    computed = Dump.from_entries([entry]).summarise()
    statistics = {name: computed.index[name].item() for name in ("min", "max", "mean", "l2")}
    shape = {"shape": (4, 3), "dtype": "float32"}
    only = Dump.from_entries([Entry("x", entry.site, statistics=statistics, **shape)])
    crc = {"crc32": computed.index["crc32"].item()}
    digest = Dump.from_entries([Entry("x", entry.site, statistics=crc, **shape)])
    other = Dump.from_entries([Entry("x", entry.site, ArrayInMemory(values + 1))])
    for left, right, expected in (
        (only, computed, "undecidable"),
        (computed, only, "undecidable"),
        (only, other, "differs"),
        (digest, computed, "identical"),
        (other, digest, "differs"),
    ):
        result = compare(left, right).result
        assert result["verdict"].values.tolist() == [expected]
        side = "right" if left is only or left is digest else "left"
        assert math.isfinite(result[f"{side}_max"].item())


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        # Cases 35 and 36 of the spec: the rows that differ are those of the tensors.
        ("t_mlp_mix_tensorB", "t_mlp_mix_tensor", {"identical": 13, "differs": 32}),
        ("t_mlp_mix_md5B", "t_mlp_mix_md5", {"identical": 13, "differs": 32}),
        (
            "t_mlp_mix_statisticsB",
            "t_mlp_mix_statistics",
            {"identical": 2, "differs": 32, "undecidable": 10, "pass": 1},
        ),
        # Case 58: nothing of a statistics dump is refuted by the tensors it was made of.
        (
            "t_mlp_mix_statistics",
            "t_mlp_mix_tensor",
            {"identical": 2, "undecidable": 41, "pass": 2},
        ),
    ],
)
def test_every_kind_of_dump_of_one_run_tells_the_same_story(left, right, expected):
    result = compare(MSPROBE / "torch" / left, MSPROBE / "torch" / right).result
    assert Counter(result["verdict"].values.tolist()) == expected


def test_equal_statistics_of_opposite_tensors_are_not_taken_for_equal_tensors():
    """Case 57: the norms are equal, the signs are not."""
    left, right = (open_dump(MSPROBE / "metric_cases" / f"{s}_stat") for s in ("target", "golden"))
    result = compare(left, right).result
    rows = dict(zip(result["left"].values.tolist(), result["verdict"].values.tolist(), strict=True))
    assert rows["Functional.opposite.0.forward.output.0"] in ("differs", "undecidable")
    assert rows["Functional.nan_other_place.0.forward.output.0"] == "undecidable"
    assert rows["Functional.scaled3.0.forward.output.0"] == "differs"
    reasons = dict(zip(result["left"].values, result["reason"].values, strict=True))
    assert reasons["Functional.nan_same_place.0.forward.output.0"].startswith("NaN on both sides")
    assert rows["Functional.inf_opposite_sign.0.forward.output.0"] == "nan"
    said = "infinities of opposite sign, by the statistics: left +Inf, right -Inf"
    assert reasons["Functional.inf_opposite_sign.0.forward.output.0"] == said


def test_gradients_that_frameworks_define_differently_are_labelled_and_not_failed():
    """Case 49: torch gives the gradient of the log-softmax output, MindSpore that of the logits."""
    cmp = compare(MSPROBE / "mindspore" / "m_mlp_L1_tensor", MSPROBE / "torch" / "t_mlp_L1_tensor")
    table = cmp.to_dataframe()
    rows = table[table["reason_id"] == "defined_differently"]
    assert len(rows)
    assert set(rows["verdict"]) == {"undecidable"}
    assert rows["reason"].str.startswith("defined differently").all()
    paired = table[(table["left"] != "") & (table["right"] != "")]
    forward = paired[paired["direction"] == "forward"]
    assert set(forward["verdict"]) <= {"identical", "pass", "rounding"}


def test_a_mapping_file_keeps_those_labels(tmp_path):
    sides = [MSPROBE / part for part in ("mindspore/m_mlp_L1_tensor", "torch/t_mlp_L1_tensor")]
    first = compare(*sides)
    write_mapping(first.pairing, tmp_path / "pairs.yaml", kind="data")
    again = compare(*sides, mapping=tmp_path / "pairs.yaml")
    for cmp in (first, again):
        assert not cmp.result["verdict"].isin(["differs", "shape"]).any()
    assert Counter(first.result["verdict"].values) == Counter(again.result["verdict"].values)


def test_within_one_framework_a_mapping_file_labels_nothing(tmp_path):
    sides = [MSPROBE / "torch" / one for one in ("t_mlp_mix_tensorB", "t_mlp_mix_tensor")]
    first = compare(*sides)
    write_mapping(first.pairing, tmp_path / "pairs.yaml", kind="data")
    again = compare(*sides, mapping=tmp_path / "pairs.yaml")
    assert first.result["reason_id"].values.tolist() == again.result["reason_id"].values.tolist()
    assert "defined_differently" not in again.result["reason_id"].values


def of_statistics(maxima, **place):
    facts = {"dtype": "float32", "shape": (4,)}
    return [
        Entry(
            f"x{i}", Site("api", f"x{i}"), statistics={"min": -9.0, "max": value}, **facts, **place
        )
        for i, value in enumerate(maxima)
    ]


def test_the_worst_of_statistics_are_those_that_differ_most():
    left = Dump.from_entries(of_statistics([1.0, 2.5, 3.1, 4.0]))
    right = Dump.from_entries(of_statistics([1.0, 2.0, 3.0, 4.0]))
    cmp = compare(left, right)
    assert cmp.worst(2).result["left"].values.tolist() == ["x1", "x2"]
    line = next(line for line in repr(cmp).splitlines() if line.endswith("x2"))
    assert "max is 3.1 and 3" in line


def test_rows_of_several_steps_and_ranks_say_which():
    sides = [
        Dump.from_entries(
            [
                entry
                for step in (0, 1)
                for rank in (0, 1)
                for entry in of_statistics([1.0 + off * step * rank], step=step, rank=rank)
            ]
        )
        for off in (1.0, 0.0)
    ]
    cmp = compare(*sides)
    assert "first at step 1, rank 1: x0" in repr(cmp).splitlines()[0]
    assert "s1 r1: " in cmp._repr_html_()
    assert "s1" not in repr(
        compare(sides[0].select(step=1, rank=1), sides[1].select(step=1, rank=1))
    )


def test_tensors_whose_files_are_gone_are_compared_by_what_was_recorded_of_them():
    lost = {"dtype": "float32", "shape": (4,), "reason": "no file x.npy"}
    with_statistics = [
        Dump.from_entries([Entry("x", Site("api", "x"), statistics={"min": 0.0, "max": m}, **lost)])
        for m in (1.0, 2.0)
    ]
    assert compare(*with_statistics).result["verdict"].values.tolist() == ["differs"]
    bare = Dump.from_entries([Entry("x", Site("api", "x"), **lost)])
    result = compare(bare, with_statistics[0]).result
    assert result["verdict"].values.tolist() == ["unreadable"]
    assert "no file x.npy" in result["reason"].item()


@pytest.mark.parametrize(
    ("computed", "recorded", "expected"),
    [
        ([1.0, -np.inf, 2.0], {"min": 1.0, "max": np.inf, "inf_count": 1}, "statistics_opposite"),
        ([1.0, np.inf, 2.0], {"min": -np.inf, "max": 2.0, "inf_count": 1}, "statistics_opposite"),
        ([np.inf], {"min": -np.inf, "max": -np.inf, "inf_count": 1}, "statistics_opposite"),
        ([1.0, np.inf, 2.0], {"min": 1.0, "max": np.inf, "inf_count": 1}, "statistics_both"),
        ([-np.inf, np.inf], {"min": -np.inf, "max": np.inf, "inf_count": 2}, "statistics_both"),
        ([1.0, np.inf, 2.0], {"min": 1.0, "max": 2.0}, "statistics_differ"),
        # Over finite values, as `Dump.summarise` has them: the sign is not known.
        ([1.0, -np.inf, 2.0], {"min": 1.0, "max": 2.0, "inf_count": 1}, "statistics_both"),
    ],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_infinities_of_values_meet_those_of_statistics(computed, recorded, expected, swapped):
    values = np.array(computed, np.float32)
    fields = {"dtype": "float32", "shape": values.shape, "statistics": recorded}
    whole = Dump.from_entries([Entry("x", Site("file", "x"), ArrayInMemory(values))])
    figures = Dump.from_entries([Entry("x", Site("file", "x"), None, **fields)])
    sides = (figures, whole) if swapped else (whole, figures)
    row = compare(*sides, diagnose=False).to_dataframe().iloc[0]
    assert row["reason_id"] == expected
    assert row["verdict"] == {"statistics_opposite": "nan", "statistics_both": "undecidable"}.get(
        expected, "differs"
    )
    finite = values[np.isfinite(values)]
    shown = row["right_max" if swapped else "left_max"]
    np.testing.assert_equal(shown, finite.max() if len(finite) else np.nan)


def test_digests_of_two_kinds_are_named():
    found = judge_recorded(Recorded(crc32=5), Recorded(digest="xor:1"), Tolerance())
    assert (found.name, found.detail) == ("undecidable", "crc32 / xor")
    both = judge_recorded(Recorded(crc32=5, dtype="int8"), Recorded(crc32=5), Tolerance())
    assert both.detail == ""
