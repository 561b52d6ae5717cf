"""The benchmark of large tensors in small: what it plants is found where all is read."""

from __future__ import annotations

import argparse
import importlib
import itertools
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb import thresholds
from troubleshooter_nb.catalogue import CAUSES

pytest.importorskip("torch")

pytestmark = pytest.mark.torch
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
ELEMENTS = 1 << 14  # fewer than any sample has
# What the values alone do not decide: the benchmark counts it as not found.
UNDECIDED = {
    "activation_missing": "a recorder that kept the value before an activation in place gives it",
}


def modules():
    # Not a package of ours: the scripts have this folder on the path as well.
    sys.path.insert(0, str(BENCHMARKS))
    try:
        names = ("cases", "dumps", "judging", "measured", "registry", "tables")
        found = {name: importlib.import_module(f"at_size.{name}") for name in names}
        found["script"] = importlib.import_module("causes_at_size")
        found["sampled"] = importlib.import_module("faulty.sampled")
        found["run"] = importlib.import_module("run")
    finally:
        sys.path.remove(str(BENCHMARKS))
    return SimpleNamespace(**found)


AT_SIZE = modules()
ALL = AT_SIZE.cases.CASES


@pytest.mark.few(16)
# Garbage may hold numbers that float32 only just does.
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("name", ALL)
def test_what_is_planted_is_found_where_all_is_read(name, tmp_path):
    case = ALL[name]
    paths, place = AT_SIZE.judging.planted(case, ELEMENTS, tmp_path)
    comparison = tnb.compare(*paths, progress=False)
    outcome = AT_SIZE.judging.judged(case, ELEMENTS, place, AT_SIZE.measured.seen(comparison))
    assert outcome.place_right
    assert not outcome.sampled
    assert not outcome.others
    if name in UNDECIDED:
        assert outcome.confidence <= 0.5
    else:
        assert outcome.is_right
    shapes = [s for side in ("left_shape", "right_shape") for s in comparison.result[side].values]
    sizes = [math.prod(map(int, shape)) for shape in shapes]
    # One tensor has about the given number; none is much larger than what a stride leaves of it.
    assert any(0.4 < size / ELEMENTS < 1.6 for size in sizes)
    assert max(sizes) <= 4 * ELEMENTS


def test_cases_name_causes_of_the_catalogue_and_a_third_have_no_hints():
    assert {cause for case in ALL.values() for cause in case.causes} <= set(CAUSES)
    assert sum(not case.hints for case in ALL.values()) >= len(ALL) / 3
    assert set(UNDECIDED) <= set(ALL)
    assert set(AT_SIZE.script.FEW) <= set(ALL)
    # Whoever has no cause is right, or a fault that the catalogue does not hold.
    right = {name for name, case in ALL.items() if not case.causes and not case.outside}
    assert right == {name for name in ALL if name.startswith("right_")} - {"right_after_wrong"}


def test_both_sides_are_rounded_in_their_own_way(tmp_path):
    paths, _ = AT_SIZE.judging.planted(ALL["right_norm"], ELEMENTS, tmp_path)
    result = tnb.compare(*paths, progress=False).result
    computed = result.where(result["role"].isin(["input", "output"]), drop=True)
    error = computed["rel_l2_error"].values
    assert (error > 1e-8).all()
    assert (error < 1e-6).all()
    assert (computed["unequal_count"].values > 0).all()


def test_the_blocks_of_a_large_tensor_are_all_of_it():
    size = 3 * AT_SIZE.dumps.BLOCK + 7
    parts = [*AT_SIZE.dumps.blocks(size, size)]
    assert parts[0].start == 0
    assert parts[-1].stop == size
    assert all(a.stop == b.start for a, b in itertools.pairwise(parts))
    assert [*AT_SIZE.dumps.blocks(2, 1 << 40)] == [slice(0, 1), slice(1, 2)]


def test_a_case_is_measured_in_a_process_of_its_own():
    outcome = AT_SIZE.judging.carried_out(ALL["linear_bias"], ELEMENTS)
    assert (outcome.answer, outcome.cause, outcome.place_right) == ("found", "bias_missing", True)
    assert outcome.elements_read >= ELEMENTS  # the weight, at the least
    assert outcome.elements_read < 64 * ELEMENTS
    assert 0 <= outcome.mib < 1000
    assert outcome.cpu >= 0
    assert outcome.readings >= 0


FINDING = {"cause": "norm_eps", "confidence": 0.9, "row": "b", "sampled": "3 of 9 rows"}


@pytest.mark.parametrize(
    ("causes", "findings", "place", "answer", "told"),
    [
        ({"norm_eps"}, [FINDING], "b", "found", "norm_eps 0.90"),
        ({"bn_eps"}, [FINDING], "b", "other", "WRONG norm_eps 0.90"),
        ({"bn_eps"}, [], "b", "silent", "SILENT (scale)"),
        (set(), [], "", "quiet", "quiet (scale)"),
        (set(), [FINDING], "", "blamed", "BLAMED norm_eps 0.90"),
    ],
)
def test_answers_are_held_against_what_was_planted(causes, findings, place, answer, told):
    case = AT_SIZE.registry.Case("x", frozenset(causes), lambda pair: place, True)
    observed = ["pair", "scale"] if not findings else []
    seen = {"place": place, "observed": observed, "findings": findings}
    outcome = AT_SIZE.judging.judged(case, 1 << 20, place, seen)
    assert (outcome.answer, AT_SIZE.tables.told(outcome)) == (answer, told)
    assert outcome.place_right
    assert outcome.is_right == (answer in ("found", "quiet"))
    elsewhere = AT_SIZE.judging.judged(case, 1 << 20, place, {**seen, "place": "a"})
    assert not elsewhere.place_right


def test_silence_about_what_was_to_be_observed_is_not_right():
    more = {"outside": True, "observed": "place"}
    case = AT_SIZE.registry.Case("x", frozenset(), lambda pair: "b", True, **more)
    for observed, answer in ((["pair", "place"], "quiet"), (["pair"], "silent")):
        seen = {"place": "b", "observed": observed, "findings": []}
        assert AT_SIZE.judging.judged(case, 1 << 20, "b", seen).answer == answer


def test_a_second_cause_that_is_not_true_is_told():
    case = AT_SIZE.registry.Case("x", frozenset({"norm_eps"}), lambda pair: "b", True)
    other = {**FINDING, "cause": "bn_eps"}
    for confidence, others in ((0.9, ("bn_eps",)), (0.3, ())):
        findings = [FINDING, {**other, "confidence": confidence}]
        seen = {"place": "b", "observed": [], "findings": findings}
        assert AT_SIZE.judging.judged(case, 1 << 20, "b", seen).others == others


def outcome(elements, cpu, **more):
    case = AT_SIZE.registry.Case("x", frozenset({"norm_eps"}), lambda pair: "b", True)
    seen = {"place": "b", "observed": [], "findings": [FINDING]}
    found = AT_SIZE.judging.judged(case, elements, "b", seen)
    return AT_SIZE.judging.replace(found, cpu=cpu, **more)


def test_cost_is_projected_along_the_line_through_the_two_largest_sizes():
    sizes = [1 << 20, 1 << 24, 1 << 26]
    costs = [9.0, *(0.5 + n / (1 << 24) for n in sizes[1:])]
    fixed, each = AT_SIZE.tables.fitted(sizes, costs)
    assert (fixed, each * (1 << 24)) == pytest.approx((0.5, 1.0))
    assert AT_SIZE.tables.fitted(sizes, [0.1, 0.3, 0.2])[1] == 0  # less for more is no trend
    text = AT_SIZE.tables.growth([outcome(n, c) for n, c in zip(sizes, costs, strict=True)])
    assert "projected 256M" in text[1]
    assert "projected 1G" in text[1]
    assert text[2].split()[-2:] == ["16.50", "64.50"]
    assert AT_SIZE.tables.growth([outcome(1 << 20, 1.0)]) == []
    # Where nothing is said there is nothing to project.
    silent = outcome(1 << 24, 0.0, answer="silent")
    assert AT_SIZE.tables.growth([outcome(1 << 20, 1.0), silent]) == []
    assert AT_SIZE.tables.exponent(sizes[:2], [0.1, 1.6]) == pytest.approx(1.0)
    assert AT_SIZE.tables.exponent(sizes[:2], [0.001, 1.6]) is None


def test_costs_above_a_bar_are_marked_where_the_size_counts():
    costly = {"readings": 6.1, "mib": 201.0}
    small, large = (outcome(n, 1.0, **costly) for n in (1 << 20, 1 << 24))
    assert "!" not in AT_SIZE.tables.line(small)
    assert AT_SIZE.tables.line(large).count("!") == 2
    (of_small, of_large) = AT_SIZE.tables.totals([small, large])
    assert "above a bar" not in of_small
    assert of_large.endswith("1 above a bar")
    assert [bar.is_met for bar in AT_SIZE.script.bars(large).bars] == [True, True, False, False]
    assert [bar.is_met for bar in AT_SIZE.script.bars(small).bars] == [True, True]


def test_sizes_are_read_and_written_in_powers_of_two():
    for text, count in (("16M", 1 << 24), ("64k", 1 << 16), ("0.5G", 1 << 29), ("5000", 5000)):
        assert AT_SIZE.script.elements_of(text) == count
    assert [AT_SIZE.tables.size_of(n) for n in (1 << 24, 1 << 30, 1 << 16, 12)] == [
        *("16M", "1G", "64K", "12"),
    ]
    for text in ("M", "many", "12"):
        with pytest.raises(argparse.ArgumentTypeError):
            AT_SIZE.script.elements_of(text)


def test_make_bench_runs_a_few_cases():
    assert AT_SIZE.run.GIVEN["causes_at_size"] == ["--few"]
    assert "causes_at_size" in AT_SIZE.run.SCRIPTS


@pytest.mark.parametrize("name", AT_SIZE.sampled.FORCED)
def test_what_is_forced_down_is_a_threshold(name):
    # An integer of its own there, and smaller than as it is.
    assert isinstance(getattr(thresholds, name), int)
    assert round(AT_SIZE.sampled.FORCED[name] * AT_SIZE.sampled.BASE) > 0
    assert round(AT_SIZE.sampled.FORCED[name] * AT_SIZE.sampled.BASE) < getattr(thresholds, name)


def test_forced_thresholds_are_those_of_all_modules_until_they_are_put_back():
    from troubleshooter_nb.analysis.causes.laws import products, softmax

    def held():
        large = thresholds.DENSE_COLUMNS, products.DENSE_COLUMNS
        return (*large, thresholds.LAYER_SAMPLE, softmax.LAYER_SAMPLE)

    def fails():
        with AT_SIZE.sampled.forced(64) as small:
            assert (small["DENSE_COLUMNS"], small["LAYER_SAMPLE"]) == (1, 32)
            assert held() == (1, 1, 32, 32)
            raise KeyboardInterrupt

    own = held()
    with pytest.raises(KeyboardInterrupt):
        fails()
    assert held() == own


def test_where_thresholds_are_forced_down_a_small_layer_is_told_from_a_sample(tmp_path):
    case = ALL["gelu_variant"]
    paths, _ = AT_SIZE.judging.planted(case, ELEMENTS, tmp_path)
    with AT_SIZE.sampled.forced():
        seen = AT_SIZE.measured.seen(tnb.compare(*paths, progress=False))
    assert seen["findings"][0]["cause"] == "gelu_variant"
    assert seen["findings"][0]["sampled"].endswith(" of 128 rows")
    assert np.all([finding["confidence"] > 0.5 for finding in seen["findings"]])
