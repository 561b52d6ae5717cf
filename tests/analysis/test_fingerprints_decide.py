"""Where a side keeps no values, fingerprints tell how far the tensors are apart as a whole."""

from __future__ import annotations

import os

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.analysis.recorded import Recorded, judge_recorded
from troubleshooter_nb.dump import Dump
from troubleshooter_nb.metrics.sketches import sketch
from troubleshooter_nb.metrics.summary import summarise
from troubleshooter_nb.metrics.verdict import Tolerance

MANY = 2000 if os.environ.get("TNB_LONG") == "1" else 60
ASKED = Tolerance(1e-3, 0.0)


def moved_rows(rng, right):
    left, size = right.copy(), rng.integers(2, len(right) + 1)
    chosen = rng.choice(len(right), size, replace=False)
    left[chosen] = right[np.roll(chosen, 1)]
    return left


def one_element(rng, right):
    left = right.copy()
    left.reshape(-1)[rng.integers(right.size)] += 10.0 ** rng.uniform(-5, 2)
    return left


def swapped(rng, right):
    left = right.reshape(-1).copy()
    two = rng.choice(right.size, 2, replace=False)
    left[two] = left[two[::-1]]
    return left.reshape(right.shape)


def one_row(rng, right):
    left = right.copy()
    left[rng.integers(len(right))] *= 1 + 10.0 ** rng.uniform(-5, 0)
    return left


KINDS = {
    "noise": lambda rng, right: right + 10.0 ** rng.uniform(-6, 0) * rng.normal(size=right.shape),
    "scaled": lambda rng, right: right * (1 + 10.0 ** rng.uniform(-6, 0)),
    "shifted": lambda rng, right: right + 10.0 ** rng.uniform(-6, 0),
    "rows": moved_rows,
    "element": one_element,
    "swapped": swapped,
    "row": one_row,
    "rolled": lambda rng, right: np.roll(right, rng.integers(1, right.size)),
}


def recorded(values):
    values = np.asarray(values, np.float32)
    facts = {"dtype": "float32", "shape": values.shape, "size": values.size}
    flat = values.reshape(-1)
    figures, _ = summarise(lambda start, stop: flat[start:stop], flat.size)
    return Recorded(**facts, statistics=figures, fingerprint=tuple(sketch(values).tolist()))


@pytest.mark.parametrize("kind", KINDS)
def test_random_differences_are_judged_rightly_or_left_open(kind):
    rng = np.random.default_rng(sum(map(ord, kind)))
    wrong = decided = 0
    for _ in range(MANY):
        shape = rng.integers(2, 90), rng.integers(1, 700)
        right = (rng.normal(size=shape) * 10.0 ** rng.uniform(-3, 3)).astype("f4")
        left = KINDS[kind](rng, right).astype("f4")
        apart = np.linalg.norm((left - right).astype("f8")) / np.linalg.norm(right.astype("f8"))
        found = judge_recorded(recorded(left), recorded(right), ASKED)
        decided += found.name != "undecidable"
        wrong += found.passed and apart > ASKED.rtol
        wrong += found.name == "differs" and apart <= 1e-5
    assert wrong <= MANY // 1000
    assert decided >= 0.6 * MANY


def without_values(arrays):
    dump = Dump.from_arrays(arrays).summarise()
    index = dump.index.assign(crc32=("entry", np.full(len(dump), -1)))
    return Dump(index, (None,) * len(dump), "recorded")


def arrays():
    rng = np.random.default_rng(0)
    return {f"layers.{n}.weight": rng.normal(size=(40, 30)).astype("f4") for n in range(3)}


@pytest.mark.parametrize("values", ["none", "left", "right"])
def test_the_same_tensors_pass_and_permuted_ones_do_not(values):
    ours, theirs = arrays(), arrays()
    theirs["layers.1.weight"] = np.ascontiguousarray(theirs["layers.1.weight"][::-1])
    theirs["layers.2.weight"] = theirs["layers.2.weight"] * np.float32(1 + 1e-6)
    left = ours if values == "left" else without_values(ours)
    right = theirs if values == "right" else without_values(theirs)
    found = tnb.compare(left, right)
    assert found.result["verdict"].values.tolist() == ["pass", "differs", "pass"]
    told = found.result["estimated_rel_l2"].values
    assert told[0] <= 1e-12
    assert 0.8 < told[1] < 2.5
    assert 2e-7 < told[2] < 3e-6
    assert np.isnan(found.result["rel_l2_error"].values).all()
    assert "2 pass by their fingerprints, each tensor as a whole" in repr(found)
    assert "apart by about" in repr(found[1])


def test_integers_that_differ_at_all_differ():
    ours = {"ids": np.arange(4000)}
    theirs = {"ids": np.arange(4000)}
    theirs["ids"][[5, 9]] = theirs["ids"][[9, 5]]
    assert tnb.compare(without_values(ours), without_values(theirs)).exit_code == 1
    assert tnb.compare(without_values(ours), without_values(ours)).exit_code == 0


def test_nothing_is_decided_of_what_holds_nan():
    ours = arrays()
    ours["layers.0.weight"][3, 4] = np.nan
    found = tnb.compare(without_values(ours), without_values(ours))
    assert found.result["verdict"].values.tolist() == ["undecidable", "pass", "pass"]


@pytest.mark.torch
def test_without_values_the_place_is_found_and_the_setting_that_differs_is_named():
    import torch
    from torch import nn

    def run(eps):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32, eps=eps), nn.GELU())
        with tnb.record(net, keep="statistics") as recording:
            net(0.01 * torch.ones(8, 16)).square().sum().backward()
        return recording.dump

    found = tnb.compare(run(1e-5), run(1e-2))
    assert "first at 1 output 0" in repr(found)
    (finding,) = found.findings
    assert (finding.cause, finding.confidence) == ("set_otherwise", 0.7)
    assert "eps 1e-05 on the left, 0.01 on the right" in repr(found)
    assert tnb.compare(run(1e-5), run(1e-5)).exit_code == 0
