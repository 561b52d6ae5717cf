"""What was seen and not compared stands in the verdict line, and in the exit code."""

from __future__ import annotations

import json

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.analysis.shards.ranks import merge_ranks
from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.formats.checkpoint_save import save_checkpoint
from troubleshooter_nb.gaps import WEIGHT_OF_NOTES, Gap, exit_code_with, gaps_of_notes
from troubleshooter_nb.messages import Message, joined, told
from troubleshooter_nb.messages.sentences import SENTENCES
from troubleshooter_nb.naming import site_of_npy_stem
from troubleshooter_nb.saved_comparison import open_comparison


def random(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype("f4")


def dump_of(ranks):
    entries = [
        Entry(name, site_of_npy_stem(name), ArrayInMemory(values), rank=rank, order=order)
        for rank, arrays in enumerate(ranks)
        for order, (name, values) in enumerate(arrays.items())
    ]
    return Dump.from_entries(entries, label="ranks")


def gradients(unreduced):
    """Of two ranks, and of one; what was never reduced is another on each of the two."""
    names = [f"grads.layer{n}.weight" for n in range(4)]
    whole = {name: random(6, 5, seed=n) for n, name in enumerate(names)}
    ranks = [{}, {}]
    for number, name in enumerate(names):
        apart = random(6, 5, seed=90 + number) if number in unreduced else 0
        ranks[0][name], ranks[1][name] = whole[name] + apart, whole[name] - apart
    return dump_of(ranks), whole


def test_a_gradient_that_was_never_reduced_is_a_difference_although_all_pairs_agree():
    dump, whole = gradients({2})
    found = tnb.compare(merge_ranks(dump, like=whole), whole)
    assert found.columns["passed"].all()
    assert (found.exit_code, found.passed) == (1, False)
    assert "never reduced" in found.verdict
    assert "grads.layer2.weight" in found.verdict
    assert found.verdict.startswith("✗")
    assert "never reduced" in found._repr_html_()
    assert "never reduced" in str(found.explain())
    assert "No difference begins anywhere" not in str(found.explain())


def test_gradients_of_which_none_was_reduced_leave_it_open():
    dump, whole = gradients({0, 1, 2, 3})
    found = tnb.compare(merge_ranks(dump, like=whole), whole)
    assert found.exit_code == 2
    assert "4 averaged over ranks that differ" in found.verdict
    assert found.verdict.startswith("?")


def test_gradients_that_were_reduced_agree():
    dump, whole = gradients(())
    found = tnb.compare(merge_ranks(dump, like=whole), whole)
    assert (found.exit_code, found.gaps) == (0, ())


def test_what_was_declared_to_be_added_up_is_no_gap():
    whole = {"down.output": random(7, 3)}
    part = random(7, 3, seed=5)
    ranks = dump_of([{"down.output": part}, {"down.output": whole["down.output"] - part}])
    assert tnb.compare(merge_ranks(ranks, {"down.output": "sum"}), whole).exit_code == 0
    found = tnb.compare(merge_ranks(ranks, like=whole), whole)
    assert (found.exit_code, len(found.gaps)) == (2, 1)
    assert "summed" in found.verdict


@pytest.mark.parametrize("swapped", [False, True])
def test_ranks_merged_on_either_side_are_told(swapped):
    dump, whole = gradients({1})
    sides = merge_ranks(dump, like=whole), whole
    found = tnb.compare(*(sides[::-1] if swapped else sides))
    assert found.exit_code == 1
    assert ("right: " if swapped else "left: ") in found.verdict


def test_a_folder_that_was_not_followed_is_said_and_leaves_it_open(tmp_path):
    for side in ("left", "right"):
        tnb.save_dump({"a": np.ones(3)}, tmp_path / side)
    (tmp_path / "elsewhere").mkdir()
    np.save(tmp_path / "elsewhere" / "b.npy", np.ones(2))
    (tmp_path / "left" / "more").symlink_to(tmp_path / "elsewhere")
    found = tnb.compare(tmp_path / "left", tmp_path / "right")
    assert (found.exit_code, found.columns["passed"].all()) == (2, True)
    assert "left: more is a link to a folder: not followed" in found.verdict


def test_a_checkpoint_in_the_folder_that_was_not_opened_leaves_it_open(tmp_path):
    for side, factor in (("left", 2), ("right", 1)):
        tnb.save_dump({"h": np.ones(3)}, tmp_path / side)
        weights = {"w": factor * np.ones(3)}
        save_checkpoint(weights, tmp_path / side / "net.safetensors", "safetensors")
    found = tnb.compare(tmp_path / "left", tmp_path / "right")
    # A reader that opens it finds a difference; one that does not says so.
    was_opened = "w" in [name.rpartition("/")[2] for name in found.columns["left_display"]]
    assert found.exit_code == (1 if was_opened else 2)
    assert was_opened or "net.safetensors" in found.verdict


def test_every_note_that_counts_is_a_message_that_a_reader_says():
    assert not [id for id in WEIGHT_OF_NOTES if id not in SENTENCES]


def test_a_difference_outweighs_what_is_open():
    assert exit_code_with(0, [Gap("x", 0)]) == 0
    assert exit_code_with(0, [Gap("x", 2)]) == 2
    assert exit_code_with(1, [Gap("x", 2)]) == 1
    assert exit_code_with(2, [Gap("x", 1), Gap("y", 2)]) == 1


def test_notes_of_one_kind_are_one_gap_and_notes_of_a_file_count():
    links = [Message("dumps.link", name=name) for name in ("a", "b", "c")]
    inside = Message("files.in_file", file="x", what=Message("records.cut_line"))
    found = gaps_of_notes("right", [*links, inside, "words of a tool", joined(["a", "b"])])
    assert [gap.weight for gap in found] == [2, 2]
    assert (
        str(found[0].said) == "right: a is a link to a folder: not followed, and 2 more of the kind"
    )
    assert "另有 2 项" in told(found[0].said, "zh")


def test_a_share_that_was_compared_is_said():
    left = {f"layer{n}": random(3, seed=n) for n in range(32)}
    right = {name: left[name] for name in list(left)[:4]}
    found = tnb.compare(left, right)
    assert found.exit_code == 2
    assert "4 of 32 tensors were compared" in found.verdict
    expected = tnb.compare(left, right, mapping=dict.fromkeys(list(left)[4:]))
    assert "4 of 32 tensors were compared" in expected.verdict


def test_a_side_below_atol_does_not_pass_unseen():
    right = {f"grads.fc{n}.weight": 1e-6 * random(5, 5, seed=n) for n in range(3)}
    found = tnb.compare({name: -values for name, values in right.items()}, right)
    assert found.columns["passed"].all()
    assert found.exit_code == 2
    assert "3 pass unseen: all their values lie below atol = 1.0e-4" in found.verdict
    assert tnb.compare(right, right).exit_code == 0
    assert tnb.compare({n: -v for n, v in right.items()}, right, atol=1e-8).exit_code == 1


def test_one_small_tensor_among_others_is_said_and_fails_nothing():
    right = {f"h{n}": random(9, seed=n) for n in range(3)}
    found = tnb.compare(right | {"z": np.full(9, 2e-5)}, right | {"z": np.zeros(9)})
    assert found.exit_code == 0
    assert "1 pass unseen" in found.verdict


def test_a_side_of_statistics_alone_is_named():
    figures = {"min": -1.0, "max": 2.0, "mean": 0.1, "l2": 3.0, "nan_count": 0, "inf_count": 0}
    site = site_of_npy_stem("h")
    left = Dump.from_entries(
        [Entry("h", site, dtype="float32", shape=(4,), statistics=figures)], label="s"
    )
    found = tnb.compare(left, left)
    assert found.exit_code == 2
    assert "neither side holds values, only statistics" in found.verdict


@pytest.mark.parametrize(
    ("values", "reason"),
    [(np.zeros((0, 3)), "no_elements"), (np.full((2, 2), np.nan), "only_nan")],
)
def test_a_dump_that_holds_nothing_decides_nothing(values, reason):
    arrays = {"a": values, "b": values}
    found = tnb.compare(arrays, arrays)
    assert found.exit_code == 2
    assert found.columns["verdict"].tolist() == ["undecidable"] * 2
    assert found.columns["reason_id"].tolist() == [reason] * 2


def test_other_nan_on_both_sides_decide_nothing_unless_they_are_asked_to():
    left, right = np.full(3, np.nan, "f4"), -np.full(3, np.nan, "f4")
    assert tnb.compare({"a": left}, {"a": right}).exit_code == 2
    assert tnb.compare({"a": left}, {"a": right}, equal_nan=True).exit_code == 0


def test_an_empty_tensor_among_others_is_as_equal_as_its_bits():
    arrays = {"cache": np.zeros((0, 4)), "a": np.ones(3), "b": np.ones(2)}
    found = tnb.compare(arrays, arrays)
    assert (found.exit_code, found["cache"].verdict) == (0, "identical")


def test_a_few_values_beside_many_layers_of_nan_leave_it_open():
    arrays = {"x": np.ones(3)} | {f"h{n}": np.full(4, np.nan) for n in range(5)}
    found = tnb.compare(arrays, arrays)
    assert found.exit_code == 2
    assert found["x"].verdict == "identical"


def test_gaps_are_kept_in_a_record(tmp_path):
    dump, whole = gradients({2})
    found = tnb.compare(merge_ranks(dump, like=whole), whole)
    tnb.export(found, tmp_path / "found.json")
    content = json.loads((tmp_path / "found.json").read_text())
    assert content["gaps"][0]["weight"] == 1
    again = open_comparison(tmp_path / "found.json")
    assert (again.exit_code, [str(gap.said) for gap in again.gaps]) == (
        1,
        [str(gap.said) for gap in found.gaps],
    )
    assert "never reduced" in again.verdict
    assert told(again.gaps[0].said, "zh") == told(found.gaps[0].said, "zh")


@pytest.mark.parametrize(
    "name", ["act.NPY", "act.npy.gz", "act.h5", "act.zip", "act.npy.tmp", "act.bin"]
)
def test_arrays_in_files_of_other_kinds_are_named(tmp_path, name):
    for side in ("left", "right"):
        (tmp_path / side).mkdir()
        np.save(tmp_path / side / "y.npy", np.ones(3))
    (tmp_path / "left" / name).write_bytes(b"anything")
    found = tnb.compare(tmp_path / "left", tmp_path / "right")
    assert found.exit_code == 2
    assert name in found.verdict


@pytest.mark.torch
@pytest.mark.parametrize("value", ["text", 3.5, True])
def test_a_file_of_one_number_or_text_is_named(tmp_path, value):
    import torch

    for side in ("left", "right"):
        (tmp_path / side).mkdir()
        torch.save(torch.ones(3), tmp_path / side / "y.pt")
        torch.save(value, tmp_path / side / "tag.pt")
    found = tnb.compare(tmp_path / "left", tmp_path / "right")
    assert found.exit_code == 2
    assert "tag.pt" in found.verdict
