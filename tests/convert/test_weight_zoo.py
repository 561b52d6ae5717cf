"""The zoo of public shapes in `benchmarks`: what it is made of, and a part of what it measures."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import troubleshooter_nb as tnb

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def script():
    # Not a package of ours: the script has this folder on the path as well.
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module("weight_zoo")
    finally:
        sys.path.remove(str(BENCHMARKS))


ZOO = script()
FAMILIES = {name: make for half in ZOO.HALVES.values() for name, make in half.items()}


def family(name):
    return FAMILIES[name](np.random.default_rng(3))


@pytest.mark.parametrize("name", FAMILIES)
def test_both_sides_of_a_family_hold_the_same_values(name):
    pair = family(name)
    sides = [
        np.sort(np.concatenate([one.reshape(-1) for one in side.values() if one.dtype.kind == "f"]))
        for side in (pair.source, pair.target)
    ]
    assert np.array_equal(*sides)


@pytest.mark.parametrize(
    "name", ["GPT-2, linear", "Mixtral, stacked", "Megatron, by group", "T5, T5X"]
)
def test_values_leave_nothing_to_say(name):
    score, against = ZOO.by_values(family(name))
    assert score == ZOO.Score(1.0, {}, ())
    assert against == set()


@pytest.mark.parametrize("name", ["Llama, fused", "Mixtral, stacked", "GPT-2, linear"])
def test_names_and_shapes_alone_may_be_enough(name):
    assert ZOO.by_names(family(name), np.random.default_rng(4)) == ZOO.Score(1.0, {}, ())


@pytest.mark.parametrize("name", ["Megatron, 2 ranks", "Llama, Meta"])
def test_where_names_do_not_say_the_order_no_row_is_sure(name):
    score = ZOO.by_names(family(name), np.random.default_rng(4))
    assert score.wrong
    assert score.loud == []


def test_a_wrong_row_counts_with_its_confidence_and_values_speak_against_it():
    values = np.random.default_rng(0).standard_normal((2, 8, 8)).astype(np.float32)
    pair = ZOO.Family({"a.weight": values[0]}, {"a.weight": values[1]})
    drafted = tnb.draft_weight_map(pair.source, pair.target)
    assert ZOO.scored(drafted, pair) == ZOO.Score(0.0, {"a.weight": 1.0}, ())
    assert ZOO.scored(drafted.unpair("a.weight"), pair) == ZOO.Score(0.0, {}, ("a.weight",))
