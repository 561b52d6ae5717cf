"""Integers, booleans and text are exact; what a run is given is an input, and explains the rest."""

from __future__ import annotations

import numpy as np
import pytest

import troubleshooter_nb as tnb
from tests.analysis.test_preflight import check_of
from troubleshooter_nb.dump import Dump, Entry
from troubleshooter_nb.naming import Site


def pipelines():
    """Two data pipelines: the last ids of a row are other ones, and everything behind them is."""
    rng = np.random.default_rng(48)
    vocabulary = 60_000
    ids = rng.integers(40_000, vocabulary - 5, (2, 12))
    left = ids.copy()
    left[0, 9:] += [1, 2, 3]
    table = rng.normal(size=(vocabulary, 4)).astype("f4")
    return [
        {"0_input_ids": i, "1_embed.output": table[i], "2_fc.output": np.tanh(table[i])}
        for i in (left, ids)
    ]


@pytest.fixture
def folders(tmp_path):
    places = []
    for side, arrays in zip(("left", "right"), pipelines(), strict=True):
        place = tmp_path / side
        place.mkdir()
        for name, values in arrays.items():
            np.save(place / f"{name}.npy", values)
        places.append(place)
    return places


def test_ids_a_few_apart_are_other_ids_and_the_embedding_carries_them(folders):
    found = tnb.compare(*folders)
    assert found.exit_code == 1
    assert found.first_divergence.row["left_display"].values == "input_ids"
    assert found["input_ids"].verdict == "differs"
    assert int(found["input_ids"].row["unequal_count"]) == 3
    assert found.columns["origin"].tolist() == ["created", "carried", "carried"]
    assert found.columns["role"][0] == "input"
    inputs = next(check for check in found.preflight if check.what == "inputs")
    assert (inputs.status, str(inputs.values["names"])) == ("bad", "input_ids")
    assert "inputs differ" in str(found.explain())


def test_ids_alone_do_not_pass_by_a_tolerance_for_floats():
    left, right = ({"input_ids": side["0_input_ids"]} for side in pipelines())
    found = tnb.compare(left, right)
    assert (found.exit_code, found["input_ids"].verdict) == (1, "differs")
    assert "3 elements differ, by up to 3" in found.columns["reason"][0]
    assert "integers exactly equal" in repr(found)
    assert float(found.result["allclose_ratio"][0]) == 21 / 24


def test_a_tolerance_for_integers_is_one_that_was_asked_for():
    left, right = ({"input_ids": side["0_input_ids"]} for side in pipelines())
    assert tnb.compare(left, right, rtol=1.0, atol=100.0).exit_code == 1
    assert tnb.compare(left, right, integer_tolerance=2).exit_code == 1
    found = tnb.compare(left, right, integer_tolerance=3)
    assert (found.exit_code, found["input_ids"].verdict) == (0, "pass")
    assert "within the 3 asked for integers" in found.columns["reason"][0]


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64", "uint64", "bool"])
def test_integers_of_any_width_are_exact(dtype):
    right = np.ones(70_000, dtype)  # larger than a block of figures
    left = right.copy()
    left[-1] = 0
    found = tnb.compare({"x": left}, {"x": right}, atol=2.0)
    assert (found.exit_code, int(found.result["unequal_count"][0])) == (1, 1)


def test_integers_against_floats_are_exact_and_equal_values_pass():
    ids = np.arange(40_000, 40_064)
    assert tnb.compare({"ids": ids}, {"ids": ids.astype("f4")}).exit_code == 0
    other = ids.astype("f4")
    other[5] += 1
    assert tnb.compare({"ids": ids}, {"ids": other}).exit_code == 1


def test_extremes_of_integers_refute_where_only_statistics_are_known():
    def side(largest, dtype):
        figures = {"min": 0.0, "max": largest, "nan_count": 0, "inf_count": 0}
        site = Site("file", "y")
        return Dump.from_entries([Entry("y", site, dtype=dtype, shape=(9,), statistics=figures)])

    assert tnb.compare(side(40_001.0, "int64"), side(40_000.0, "int64")).exit_code == 1
    assert tnb.compare(side(40_001.0, "float32"), side(40_000.0, "float32")).exit_code == 2


@pytest.mark.parametrize(("left", "right", "code"), [("1", "2", 1), ("20000", "20001", 1)])
def test_integers_that_calls_were_given_are_exact(left, right, code):
    def side(value):
        site = Site("api", "Functional.topk", 0, "forward", "input", "1")
        return Dump.from_entries([Entry("k", site, value=value)])

    assert tnb.compare(side(left), side(right), integer_tolerance=5).exit_code == code


def classifier(labels, logits):
    loss = np.float32([np.mean(logits[np.arange(len(labels)), labels])])
    return {"0_labels": labels, "1_head.output": logits, "2_loss": loss}


def test_labels_that_differ_are_inputs_and_the_loss_carries_them():
    logits = np.random.default_rng(3).normal(size=(8, 1000)).astype("f4")
    labels = np.arange(100, 108)
    other = labels.copy()
    other[2] += 1
    found = tnb.compare(classifier(other, logits), classifier(labels, logits))
    assert (found.exit_code, found.first_divergence.row["left"].values) == (1, "0_labels")
    assert found["2_loss"].row["origin"].values == "carried"


def test_integers_before_the_first_float_are_what_the_run_was_given():
    def side(x):
        table = np.random.default_rng(0).normal(size=(50_000, 3)).astype("f4")
        return {"x0": x, "h1": table[x], "top2": np.argsort(table[x][:, 0])}

    ids = np.arange(30_000, 30_016)
    check = check_of("inputs", side(ids + 1), side(ids))
    assert (check.status, check.values["count"], str(check.values["names"])) == ("bad", 1, "x0")


def test_a_call_that_is_given_other_ids_carries_them():
    rng = np.random.default_rng(1)
    table = rng.normal(size=(50_000, 8)).astype("f4")
    weight = rng.normal(size=(8, 8)).astype("f4")

    def side(ids):
        hidden = table[ids]
        calls = {"wte.input": ids, "wte.output": hidden, "proj.input": hidden}
        return calls | {"proj.output": hidden @ weight}

    ids = rng.integers(40_000, 50_000, 32)
    other = ids.copy()
    other[:3] -= 1
    found = tnb.compare(side(other), side(ids))
    assert found.first_divergence.row["left"].values == "wte.input"
    assert found["wte.output"].row["origin"].values == "carried"


def half(outputs):
    """What an engine in half precision gives, and where it is really wrong."""
    return {name: values.astype("float16") for name, values in outputs.items()}


def test_outputs_in_half_precision_round_and_only_the_wrong_one_differs():
    rng = np.random.default_rng(69)
    big = np.clip(rng.normal(size=(64, 64)) * 11_000, -44_000, 44_000).astype("f4")
    one = rng.uniform(-1, 1, (64, 64)).astype("f4")
    right = {"logits_0": big, "probs_1": one, "wrong_2": one}
    left = half(right | {"wrong_2": one * 1.02})
    found = tnb.compare(left, right)
    assert found.columns["verdict"].tolist() == ["rounding", "rounding", "differs"]
    assert found.first_divergence.row["left"].values == "wrong_2"
    smallest = found.columns["smallest_passing_tolerance"][:2]
    assert f"pass from rtol = atol = {max(smallest):.1e}".replace("e-0", "e-") in found.verdict
    assert tnb.compare(left, right, rtol=max(smallest), atol=max(smallest)).exit_code == 1
    assert tnb.compare(half(right), right, rtol=max(smallest), atol=max(smallest)).exit_code == 0


def test_two_outputs_in_bfloat16_round_and_nothing_is_first():
    rng = np.random.default_rng(2)
    right = {"scores": rng.normal(size=(40, 40)).astype("f4"), "boxes": 700 * rng.random((40, 4))}
    left = {name: values.astype("bfloat16") for name, values in right.items()}
    found = tnb.compare(left, right)
    assert found.exit_code == 0
    assert found.columns["verdict"].tolist() == ["rounding", "rounding"]
    assert found.first_divergence is None


def test_most_of_a_few_outputs_say_what_precision_a_side_has():
    one = np.random.default_rng(1).uniform(-1, 1, (64, 64)).astype("f4")
    right = {"a_scores": one, "b_boxes": 700 * one, "c_wrong": one}
    left = half(right | {"c_wrong": one * 1.02}) | {"b_boxes": right["b_boxes"]}
    assert tnb.compare(left, right).first_divergence.row["left"].values == "c_wrong"
    # One alone is where a side turns coarse.
    left = right | {"b_boxes": right["b_boxes"].astype("float16")}
    assert tnb.compare(left, right).first_divergence.row["left"].values == "b_boxes"


def test_integers_beside_outputs_in_half_precision_say_nothing_of_precision():
    one = np.random.default_rng(1).uniform(-1, 1, (64, 64)).astype("f4")
    right = {"scores": one, "boxes": 700 * one}
    classes = {"classes": np.arange(2_000, 2_064), "keep": one[0] > 0}
    found = tnb.compare(half(right) | classes, right | classes)
    assert (found.exit_code, found.first_divergence) == (0, None)
