"""The fault benchmark in small: what it plants is where it says, and both rules are judged."""

import sys
from pathlib import Path

import numpy as np
import pytest

from troubleshooter_nb.catalogue import CAUSES

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def faulty():
    # Not a package of ours: the scripts put this folder on the path as well.
    sys.path.insert(0, str(BENCHMARKS))
    try:
        from faulty import judging, plan, registry, tables
    finally:
        sys.path.remove(str(BENCHMARKS))
    return {"plan": plan, "judging": judging, "registry": registry, "tables": tables}


def test_catalogue_is_planted_or_excused(faulty):
    registry = faulty["registry"]
    planted = {f.cause for f in registry.FAULTS if not f.cause.startswith("outside.")}
    assert planted | set(registry.NOT_PLANTED) == set(CAUSES)
    assert not planted & set(registry.NOT_PLANTED)


@pytest.mark.parametrize("number", range(3))
def test_fault_first_shows_where_the_truth_says(faulty, number):
    run = faulty["plan"].draw(number, 11)
    if run.fault is None:
        assert not run.truth.origins
        return
    step, name = run.first.split(":", 1)
    where = run.where[int(step), name]
    assert not run.truth.origins or where in run.truth.origins


def test_same_seed_draws_the_same_run(faulty):
    runs = [faulty["plan"].draw(3, 12) for _ in range(2)]
    assert runs[0].family == runs[1].family
    assert runs[0].left.names == runs[1].left.names
    for name in runs[0].left.names[:40]:
        arrays = [run.left.select(step=0).array(name) for run in runs]
        np.testing.assert_array_equal(*arrays)


def test_an_easy_fault_is_found_by_the_old_rule_and_a_wrong_place_is_not_right(faulty):
    run = faulty["plan"].draw(0, 13, "activation_changed", "gpt")
    number = 0
    while run.hard != "easy" or run.level != "module":
        number += 1
        run = faulty["plan"].draw(number, 13, "activation_changed", "gpt")
    outcome = faulty["judging"].judged(run)
    assert outcome.old_right
    run.truth.origins = {"nowhere"}
    assert not faulty["judging"].judged(run).old_right


def test_tables_print_and_hold_the_bars_of_no_run(faulty, capsys):
    run = faulty["plan"].draw(1, 14, "control")
    faulty["tables"].print_tables([faulty["judging"].judged(run)])
    assert "controls quiet" in capsys.readouterr().out


@pytest.mark.long
def test_a_norm_that_operators_were_given_is_found_in_the_weight_before_it(faulty):
    """Running variances have no name there, only a position."""
    draws = (faulty["plan"].draw(number, 21, "bn_folded", "resnet") for number in range(60))
    run = next(one for one in draws if one.level == "api" and one.keep == "all")
    assert faulty["judging"].judged(run).top_right
