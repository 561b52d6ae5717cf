"""Sampled dumps of torch_npu.hooks: samples follow their tensors, and meet whole tensors."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from troubleshooter_nb import Dump, compare, open_dump, pair_dumps, write_mapping
from troubleshooter_nb.analysis.recorded_samples import with_first_values, without_views
from troubleshooter_nb.dump import ArrayInMemory, Entry
from troubleshooter_nb.formats.hooks_sample import FirstValues
from troubleshooter_nb.naming import Site
from troubleshooter_nb.naming.hooks import sample_slot, sampled_name, sampled_slot
from troubleshooter_nb.pairing import Pairing

DATA = Path(__file__).parents[1] / "data" / "torch_npu_hooks"
# Tensors with a partner, samples with one, and what stays alone on either side.
COUNTS = {
    "identical": (49, 41, 0, 0),
    "module_sampled": (49, 41, 0, 0),
    "extra_ops": (49, 41, 16, 0),
    # The weight is transposed on one side, so that its first values are others.
    "fused_op": (49, 40, 9, 1),
    "same_name_extra": (49, 41, 16, 0),
}


def both(case):
    return (open_dump(DATA / case / f"{side}.pkl") for side in ("npu", "bench"))


def pairs(pairing):
    rows = pairing.to_dataframe()
    rows = rows[(rows["left"] != "") & (rows["right"] != "")]
    return dict(zip(rows["left"], rows["right"], strict=True))


@pytest.mark.parametrize("case", COUNTS)
@pytest.mark.parametrize("swapped", [False, True])
def test_a_sample_goes_wherever_its_tensor_goes(case, swapped):
    left, right = list(both(case))[:: -1 if swapped else 1]
    pairing = pair_dumps(left, right)
    found = pairs(pairing)
    tensors = {a: b for a, b in found.items() if not sampled_name(a)}
    samples = {a: b for a, b in found.items() if sampled_name(a)}
    assert {sampled_name(a): sampled_name(b) for a, b in samples.items()}.items() <= tensors.items()
    alone = len(pairing.unmatched_left), len(pairing.unmatched_right)
    assert (len(tensors), len(samples), *alone[:: -1 if swapped else 1]) == COUNTS[case]


def test_samples_do_not_hide_that_a_linear_is_a_product_and_a_sum():
    found = pairs(pair_dumps(*both("fused_op")))
    linear = "8_Functional_linear_forward_input.0", "11_Functional_linear_forward_output"
    assert found["8_Torch_matmul_forward_input.0"] == linear[0]
    assert found["8_Torch_matmul_forward_input.0#10_of_42"] == f"{linear[0]}#10_of_42"
    assert found["12_Torch_add_forward_input.1"] == "10_Functional_linear_forward_input.2"
    assert found["13_Torch_add_forward_output"] == linear[1]
    assert found["13_Torch_add_forward_output#10_of_24"] == f"{linear[1]}#10_of_24"
    assert found["41_Torch_add_backward_input.1"] == "38_Functional_linear_backward_input.0"
    assert found["43_Torch_matmul_backward_input.0"] == "39_Functional_linear_backward_input.1"


def test_a_weight_that_one_operator_takes_transposed_is_paired_and_not_judged():
    comparison = compare(*both("fused_op"))
    frame = comparison.to_dataframe().set_index("left")
    row = frame.loc["9_Torch_matmul_forward_input.1"]
    assert row["right"] == "9_Functional_linear_forward_input.1"
    assert (row["left_shape"], row["right_shape"]) == ("7x4", "4x7")
    assert row["verdict"] == "undecidable"
    table = comparison.pairing.to_dataframe().set_index("left")
    assert "transposed" in table.loc["9_Torch_matmul_forward_input.1", "note"]
    assert table.loc["9_Torch_matmul_forward_input.1", "confidence"] <= 0.5


def test_backward_samples_are_not_crossed_where_one_side_has_more_operators():
    found = pairs(pair_dumps(*both("extra_ops")))
    backward = {a: b for a, b in found.items() if "_backward_" in a and sampled_name(a)}
    assert len(backward) > 10
    for mine, theirs in backward.items():
        assert mine.partition("_")[2] == theirs.partition("_")[2]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("run", ["npu", "bench"])
def test_a_sampled_dump_is_compared_with_a_full_one_as_with_a_sampled_one(swapped, run):
    sampled = open_dump(DATA / "module_sampled" / "npu.pkl")
    full = open_dump(DATA / "module_full" / f"{run}.pkl")
    sides = (full, sampled) if swapped else (sampled, full)
    pairing = with_first_values(pair_dumps(*sides))
    assert pairing.matched == len(pairing) == 90
    found = pairs(pairing)
    assert list(found.items()) == [(name, name) for name in sampled.names]
    got = compare(pairing.left, pairing.right, pairing=pairing).to_dataframe().set_index("left")
    other = open_dump(DATA / "module_sampled" / f"{run}.pkl")
    both_sampled = (other, sampled) if swapped else (sampled, other)
    expected = compare(*both_sampled).to_dataframe().set_index("left")
    samples = [name for name in sampled.names if sampled_name(name)]
    for name in samples:
        assert got.loc[name, "verdict"] == expected.loc[name, "verdict"]
        for figure in ("cosine", "max_abs_error"):
            np.testing.assert_equal(got.loc[name, figure], expected.loc[name, figure])
        tensor = sampled_name(name)
        assert got.loc[tensor, "verdict"] == expected.loc[tensor, "verdict"]
        for figure in ("max", "min", "mean"):
            for side in ("left", "right"):
                # Statistics of the file were computed in float32, ours are in float64.
                assert got.loc[tensor, f"{side}_{figure}"] == pytest.approx(
                    expected.loc[tensor, f"{side}_{figure}"], rel=1e-5, abs=1e-6
                )


def test_first_values_of_a_whole_tensor_are_an_entry_like_the_sample():
    sampled, full = (open_dump(DATA / f"module_{kind}" / "npu.pkl") for kind in ("sampled", "full"))
    pairing = with_first_values(pair_dumps(sampled, full.summarise()))
    name = "0_Functional_linear_forward_input.0"
    right = pairing.right
    row = {
        key: variable.values[right.position(f"{name}#10_of_30")]
        for key, variable in right.index.data_vars.items()
    }
    assert [row[key] for key in ("slot", "shape", "ndim", "size", "size_bytes")] == [
        *("0#first", (10,), 1, 10, 40)
    ]
    assert np.isnan(row["max"])
    assert (row["crc32"], row["magnitude_histogram"].sum()) == (-1, 0)
    assert np.isnan(row["fingerprint"]).all()
    np.testing.assert_array_equal(
        right.array(f"{name}#10_of_30"), full.array(name).reshape(-1)[:10]
    )
    assert len(right) == 90
    assert right.notes[-1].startswith("the first values of 41 tensors are entries of their own")
    assert without_views(right).is_same_as(full)
    assert without_views(right).notes == full.notes
    assert without_views(full) is full
    assert with_first_values(pairing).to_dataframe().equals(pairing.to_dataframe())


def test_a_sample_against_statistics_alone_is_expected_to_be_alone():
    sampled = open_dump(DATA / "module_sampled" / "npu.pkl")
    bare = Dump(sampled.index, (None,) * len(sampled), "bare", sampled.format)
    without = bare.select(name=[n for n in sampled.names if not sampled_name(n)])
    pairing = with_first_values(pair_dumps(sampled, without))
    rows = pairing.to_dataframe()
    samples = rows[rows["right"] == ""]
    assert len(samples) == 41
    assert samples["expected"].all()
    assert set(samples["note"]) == {"the other side keeps no values of this tensor"}
    assert pairing.right is without


def run_of(shape, *, slot="0", kept=None, word="first", source=True):
    """One output of a call: its tensor, and a sample of it if `kept` is a number."""
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    site = Site("api", "Torch.a", 0, "forward", "output", slot)
    tensor = ArrayInMemory(values) if source and kept is None else None
    entries = [Entry("Torch_a_output", site, tensor, dtype="float32", shape=shape)]
    if kept is not None:
        part = Site("api", "Torch.a", 0, "forward", "output", sample_slot(slot, word))
        few = ArrayInMemory(values.reshape(-1)[:kept])
        entries.append(Entry(f"Torch_a_output#{kept}_of_{values.size}", part, few))
    return Dump.from_entries(entries)


@pytest.mark.parametrize(
    ("left", "right", "note"),
    [
        (run_of((4, 5), kept=10), run_of((2, 10)), "first values of tensors of two shapes"),
        (run_of((4, 5), kept=10), run_of((5, 4)), "transposed tensor are other elements"),
        (run_of((4, 5), kept=10, word="rows"), run_of((4, 5)), "rows drawn at random"),
        (run_of((4, 5), kept=10), run_of((4, 5), kept=6), "another part of the tensor"),
        (run_of((4, 5), kept=10), run_of((4, 5), kept=10, word="rows"), "another part"),
        (run_of((4, 5), kept=10), run_of((4, 5), source=False), "keeps no values"),
    ],
)
def test_a_sample_with_nothing_to_be_compared_with_says_why(left, right, note):
    rows = with_first_values(pair_dumps(left, right)).to_dataframe()
    alone = rows[rows["left"].str.contains("#") & (rows["right"] == "")]
    assert len(alone) == 1
    assert note in alone["note"].iloc[0]
    assert alone["expected"].all()


def test_a_sample_of_a_tensor_without_a_partner_counts_once():
    left, right = both("extra_ops")
    rows = with_first_values(pair_dumps(left, right)).to_dataframe()
    alone = rows[rows["right"] == ""]
    is_sample = alone["left"].map(lambda name: bool(sampled_name(name)))
    assert (is_sample.sum(), len(alone)) == (8, 16)
    assert alone["expected"].tolist() == is_sample.tolist()


def test_pairs_of_tensors_made_by_hand_take_their_samples_along():
    left, right = both("module_sampled")
    tensors = [name for name in left.names if not sampled_name(name)]
    matches = [m for m in pair_dumps(left, right).matches() if left.names[m.left] in tensors]
    samples = [n for n in range(len(left)) if left.names[n] not in tensors]
    alone = [type(matches[0])(n, -1, "unmatched", np.nan) for n in samples]
    alone += [type(matches[0])(-1, n, "unmatched", np.nan) for n in samples]
    pairing = with_first_values(Pairing.from_matches(left, right, [*matches, *alone]))
    assert pairs(pairing) == {name: name for name in left.names}


def test_first_values_are_read_from_the_whole_and_travel_to_other_processes():
    whole = np.arange(12, dtype=np.float16).reshape(3, 4)
    first = FirstValues(ArrayInMemory(whole), 5)
    assert (first.shape, first.dtype, first.size_bytes) == ((5,), np.float16, 10)
    assert first.read(1, 3).tolist() == [1.0, 2.0]
    assert first.read(0, 99).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert pickle.loads(pickle.dumps(first)).read(0, 5).tolist() == first.read(0, 5).tolist()


def test_slots_and_names_of_samples():
    assert sampled_slot(sample_slot("0.1", "rows")) == ("0.1", "rows")
    assert sampled_slot(sample_slot("", "first")) == ("", "first")
    assert sampled_slot("0") == ("0", "")
    assert sampled_name("0_Torch_a_forward_output#10_of_42") == "0_Torch_a_forward_output"
    assert sampled_name("0_Torch_a_forward_output#1") == ""


def test_the_true_alignment_holds_for_samples_as_well():
    left, right = both("same_name_extra")
    truth = json.loads((DATA / "same_name_extra" / "true_alignment.json").read_text())
    mine, theirs = ([n for n in dump.names if not sampled_name(n)] for dump in (left, right))
    expected = {mine[i]: theirs[j] for j, i in enumerate(truth["npu_line_of_bench_line"])}
    found = pairs(pair_dumps(left, right))
    assert {a: b for a, b in found.items() if not sampled_name(a)} == expected
    samples = {sampled_name(a): sampled_name(b) for a, b in found.items() if sampled_name(a)}
    assert samples.items() <= expected.items()


def test_a_mapping_file_may_name_first_values_that_no_dump_has(tmp_path):
    sampled, full = (open_dump(DATA / f"module_{kind}" / "npu.pkl") for kind in ("sampled", "full"))
    pairing = with_first_values(pair_dumps(sampled, full))
    file = write_mapping(pairing, tmp_path / "pairs.yaml")
    assert "#10_of_30" in file.read_text()
    again = with_first_values(pair_dumps(sampled, full, mapping=file))
    assert pairs(again) == pairs(pairing)
