"""pair_dumps across frameworks on captured runs, against the truth of the module objects."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("mindspore")

from tests.analysis import pairing_truth as truth

VARIATIONS = {title: (left, right) for title, left, right in truth.variations()}
# Every variation on both nets and both levels; the other two combinations are for a long run.
RUNS = [
    ("gpt", "module"),
    ("resnet", "api"),
    pytest.param("gpt", "api", marks=pytest.mark.long),
    pytest.param("resnet", "module", marks=pytest.mark.long),
]


@pytest.mark.few(7)
@pytest.mark.parametrize(("net", "level"), RUNS)
@pytest.mark.parametrize("variation", VARIATIONS)
def test_true_pairs_are_found_and_no_wrong_one_is_certain(net, level, variation):
    result = truth.measure(net, level, *VARIATIONS[variation])
    assert result.wanted > 50
    assert result.recall >= 0.99
    assert [row for row in result.wrong if row[0] > 0.9] == []


def test_a_shuffled_pairing_is_found_out():
    plans = [truth.Plan(truth.GPT_NAMES), truth.Plan(truth.GPT_NAMES, extra=0)]
    source, data = truth.gpt(truth.Torch(), plans[0])
    target, _ = truth.gpt(truth.MindSpore(), plans[1])
    left = truth.run_mindspore(target, plans[1], data, "module")
    right = truth.run_torch(source, plans[0], data, "module")
    shifted = truth.pair_dumps(left.dump("m"), right.dump("t"), method="order")
    result = truth.judge(shifted, left, right, "module")
    assert result.recall < 0.9
    assert len(result.wrong) > 10
