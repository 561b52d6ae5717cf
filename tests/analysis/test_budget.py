"""What the diagnosis may read and ask."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.budget import Budget, BudgetSpentError, Manner
from troubleshooter_nb.analysis.causes.tensors.streams import Charged
from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.messages import ids_of
from troubleshooter_nb.naming import Site
from troubleshooter_nb.ranges import read_rows

NORMAL = Manner(("root", "weight"), rel_l2=1e-3, evenness=0.8, unequal=1.0)


@dataclass(frozen=True, eq=False)
class Counted(ArrayInMemory):
    """An array that notes what is read of it, in elements, and may stop a read."""

    reads: list[int] = field(default_factory=list)
    stop_at: int = 1 << 60

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """As the array's own."""
        self.reads.append(stop - start)
        if len(self.reads) >= self.stop_at:
            raise KeyboardInterrupt
        return self.array.reshape(-1)[start:stop]

    def read_rows(self, starts: Sequence[int], length: int) -> np.ndarray:
        """As the array's own, each row a read."""
        return np.stack([self.read(start, start + length) for start in starts])


def dump_of(arrays: dict[str, np.ndarray], reads: list[int], stop_at: int = 1 << 60) -> Dump:
    """Parameters whose reads are counted together."""
    entries = [
        Entry(
            name,
            Site("file", name, 0, "", "parameter", name.rpartition(".")[2]),
            Counted(values, reads, stop_at),
            order=order,
        )
        for order, (name, values) in enumerate(arrays.items())
    ]
    return Dump.from_entries(entries, format="memory")


def noisy(
    count: int, shape: tuple[int, ...], noise: float = 1e-5
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Two sets of weights that differ by noise."""
    random = np.random.default_rng(3)
    right = {
        f"layers.{i}.fc.weight": random.standard_normal(shape, np.float32) for i in range(count)
    }
    left = {
        name: values + np.float32(noise) * random.standard_normal(shape, np.float32)
        for name, values in right.items()
    }
    return left, right


def not_asked(comparison: tnb.Comparison) -> list[Any]:
    """Notes that say what was not asked."""
    return [note for note in comparison.notes if "explanations.not_asked" in ids_of(note)]


@pytest.mark.parametrize(
    ("change", "alike"),
    [
        ({}, True),
        ({"rel_l2": 1.9e-3}, True),
        ({"rel_l2": 2.1e-3}, False),
        ({"rel_l2": math.inf}, False),
        ({"evenness": 0.75}, True),
        ({"evenness": 0.6}, False),
        ({"unequal": 0.95}, True),
        ({"unequal": 0.5}, False),
        ({"kind": ("root", "bias")}, False),
    ],
)
def test_differences_are_alike_within_a_factor_of_two(change: dict[str, Any], alike: bool) -> None:
    assert NORMAL.is_like(replace(NORMAL, **change)) is alike
    assert replace(NORMAL, **change).is_like(NORMAL) is alike


def test_unknown_errors_are_alike_to_each_other() -> None:
    unknown = replace(NORMAL, rel_l2=math.nan)
    assert unknown.is_like(replace(unknown))
    assert not unknown.is_like(NORMAL)


def test_a_kind_without_answers_is_asked_about_twice() -> None:
    budget = Budget(1 << 20)
    for _ in range(2):
        assert budget.may_ask(NORMAL)
        budget.tell(NORMAL, answered=False)
    assert not budget.may_ask(NORMAL)
    assert budget.may_ask(replace(NORMAL, rel_l2=0.5))
    assert budget.may_ask(NORMAL, is_first=True)


def test_a_cause_found_is_looked_for_in_all_of_its_kind() -> None:
    budget = Budget(1 << 20)
    budget.tell(NORMAL, answered=False)
    budget.tell(NORMAL, answered=True)
    for _ in range(5):
        assert budget.may_ask(NORMAL)
        budget.tell(NORMAL, answered=False)


def test_a_larger_budget_asks_more_of_a_kind_and_more_of_a_sort() -> None:
    budget = Budget(1 << 20, times=4)
    for _ in range(8):
        assert budget.may_ask(NORMAL)
        budget.tell(NORMAL, answered=False)
    assert not budget.may_ask(NORMAL)
    assert (budget.most(24), Budget(1).most(24)) == (96, 24)
    assert Budget(1, times=math.inf).most(24) > 1 << 20


def test_reading_is_bounded_in_all_and_for_one_question() -> None:
    budget = Budget(1 << 28)  # a quarter of it, and 2^24 besides
    assert budget.elements == (1 << 26) + (1 << 24)
    with budget.question():
        budget.charge(1 << 25)
        with pytest.raises(BudgetSpentError):
            budget.charge(1)
    with budget.question():
        budget.charge(1 << 25)
    with budget.question():
        budget.charge(1 << 24)
    with budget.question(), pytest.raises(BudgetSpentError):
        budget.charge(1)
    with budget.question(is_first=True):
        budget.charge(1 << 30)


def test_the_clock_stops_and_the_note_says_when(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thresholds, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(thresholds, "SECONDS_AGAIN", 0.0)
    left, right = noisy(6, (16, 16), noise=1.0)
    found = tnb.compare(left, right)
    (note,) = not_asked(found)
    assert [reason.id for reason in note.values["reasons"]] == ["explanations.not_asked_clock"]
    assert "The diagnosis asked 1 of " in note
    # It is by the clock alone that questions are left out.
    assert not_asked(tnb.compare(left, right, budget=math.inf)) == []


def test_noise_of_one_kind_is_asked_about_twice_and_the_rest_in_one_line() -> None:
    left, right = noisy(9, (512, 300))
    found = tnb.compare(left, right)
    assert found.findings == ()
    assert not_asked(found) == [
        "The diagnosis asked 2 of 9 questions, not 7 like others without an answer;"
        " budget=4 asks on."
    ]
    assert not_asked(tnb.compare(left, right, budget=5)) == []


def test_without_a_budget_only_the_first_difference_is_asked_about() -> None:
    left, right = noisy(6, (48, 48))
    for name in list(left)[2:]:
        left[name] = np.ascontiguousarray(right[name].T)
    left["layers.0.fc.weight"] = right["layers.0.fc.weight"]
    left["layers.1.fc.weight"] = right["layers.1.fc.weight"]
    none, default = (tnb.compare(left, right, budget=budget) for budget in (0, 1.0))
    assert [finding.pair for finding in none.findings] == [2]
    assert none.findings[0].cause == default.findings[0].cause
    assert default.findings[0].evidence["pairs"] == [2, 3, 4, 5]
    assert len(not_asked(none)) == 1


@pytest.mark.parametrize("budget", [-1, math.nan])
def test_a_budget_is_a_number_from_0_on(budget: float) -> None:
    with pytest.raises(tnb.ArgumentError, match="budget must be a number of 0 or larger"):
        tnb.compare({"a": np.ones(3)}, {"a": np.ones(3)}, budget=budget)


@pytest.mark.parametrize("budget", ["much", None, True])
def test_a_budget_of_another_type_is_refused(budget: Any) -> None:
    with pytest.raises(tnb.ArgumentTypeError, match="budget must be a number"):
        tnb.compare({"a": np.ones(3)}, {"a": np.ones(3)}, budget=budget)


def test_large_noise_is_judged_from_a_sample() -> None:
    left, right = noisy(4, (1024, 512))
    reads: list[int] = []
    size = 1024 * 512
    tnb.compare(dump_of(left, reads), dump_of(right, reads), diagnose=False)
    comparing = sum(reads)
    assert comparing == 2 * 4 * size
    reads.clear()
    tnb.compare(dump_of(left, reads), dump_of(right, reads))
    assert sum(reads) - comparing < 0.25 * comparing
    assert max(reads) <= size


def test_diagnosis_reads_no_more_than_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    # Every one of them would have to be read whole.
    monkeypatch.setattr(thresholds, "FREE_ELEMENTS", 0)
    left, right = noisy(12, (512, 512), noise=1.0)
    for number, name in enumerate(left):
        left[name] = left[name] * np.float32(4.0**number)  # twelve kinds
    reads: list[int] = []
    tnb.compare(dump_of(left, reads), dump_of(right, reads), diagnose=False)
    comparing = sum(reads)
    reads.clear()
    found = tnb.compare(dump_of(left, reads), dump_of(right, reads))
    first = 2 * 2 * 512 * 512  # asked and observed, whatever the budget
    assert sum(reads) - comparing <= 0.25 * comparing + first
    (note,) = not_asked(found)
    assert "explanations.not_asked_elements" in [reason.id for reason in note.values["reasons"]]


def test_an_interrupt_keeps_what_was_found() -> None:
    left, right = noisy(6, (48, 48))
    for name in left:
        left[name] = np.ascontiguousarray(right[name].T)
    reads: list[int] = []
    whole = tnb.compare(dump_of(left, reads), dump_of(right, reads))
    assert whole.findings[0].evidence["pairs"] == [0, 1, 2, 3, 4, 5]
    total = len(reads)
    reads.clear()
    tnb.compare(dump_of(left, reads), dump_of(right, reads), diagnose=False)
    halfway = (len(reads) + total) // 2
    reads.clear()
    with pytest.warns(tnb.IncompleteWarning, match="The diagnosis was interrupted"):
        part = tnb.compare(dump_of(left, reads, halfway), dump_of(right, reads, halfway))
    assert (part.result["verdict"] == whole.result["verdict"]).all()
    assert part.first_divergence is not None
    # The first two were asked about until then.
    assert part.findings[0].cause == whole.findings[0].cause
    assert 0 in part.findings[0].evidence["pairs"]
    assert len(part.findings[0].evidence["pairs"]) < 6
    assert "The diagnosis was interrupted: causes and origins found until then are kept." in [
        str(note) for note in part.notes
    ]


Change = Callable[[np.ndarray, np.random.Generator], np.ndarray]
ROWS, COLUMNS = 512, 384  # more elements than are read whole without a look


def _with(values: np.ndarray, place: Any, new: Any) -> np.ndarray:
    values = values.copy()
    values[place] = new
    return values


def _noise(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    return values + np.float32(1e-5) * random.standard_normal(values.shape, np.float32)


CHANGES: dict[str, Change] = {
    "noise": _noise,
    "relative noise": lambda v, r: v * (1 + np.float32(1e-5) * r.standard_normal(v.shape)),
    "transposed": lambda v, r: np.ascontiguousarray(v.reshape(COLUMNS, ROWS).T),
    "bfloat16": lambda v, r: (v.view(np.uint32) + 0x8000 & 0xFFFF0000).view(np.float32),
    "float16": lambda v, r: v.astype(np.float16).astype(np.float32),
    "scaled": lambda v, r: v * np.float32(1.01),
    "scaled by a channel": lambda v, r: v * (1 + 0.01 * r.standard_normal(COLUMNS)),
    "another draw": lambda v, r: r.standard_normal(v.shape, np.float32),
    "zeros": lambda v, r: np.zeros_like(v),
    "one row of zeros": lambda v, r: _with(_noise(v, r), 100, 0.0),
    "one block": lambda v, r: _with(_noise(v, r), (100, slice(0, 64)), 7.5),
    "one element": lambda v, r: _with(v, (7, 9), v[7, 9] * np.float32(65536.0)),
    "one NaN": lambda v, r: _with(_noise(v, r), (7, 9), np.nan),
    "infinities": lambda v, r: _with(_noise(v, r), v > 3.5, np.inf),
    "small values lost": lambda v, r: np.where(np.abs(v) < 1e-3, 0, v).astype(np.float32),
    "two rows exchanged": lambda v, r: v[[1, 0, *range(2, ROWS)]],
    "rows in reverse": lambda v, r: np.ascontiguousarray(v[::-1]),
    "clipped": lambda v, r: np.clip(v, -2, 2),
    "saturated": lambda v, r: np.clip(_noise(v, r), -3.0, np.float32(448.0)),
    "shifted": lambda v, r: np.roll(v, 1, axis=1),
    "copy of another": lambda v, r: v,
}


@pytest.mark.few(14)
@pytest.mark.parametrize("name", ["blocks.3.proj.weight", "input"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_look_at_a_sample_loses_no_cause(
    change: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(11)
    right = {
        key: random.standard_normal((ROWS, COLUMNS), np.float32)
        for key in (name, "blocks.0.fc.weight", "blocks.1.fc.weight", "lm_head.weight")
    }
    left = {key: values.copy() for key, values in right.items()}
    left[name] = np.asarray(CHANGES[change](right[name], random), np.float32)
    if change == "copy of another":
        left[name] = right["blocks.1.fc.weight"].copy()
    looked = tnb.compare(left, right)
    monkeypatch.setattr(thresholds, "SCREENED_FROM", 1 << 40)
    whole = tnb.compare(left, right)
    assert looked.findings == whole.findings
    assert looked.observed == whole.observed


def test_a_head_that_left_its_embedding_a_little_is_still_seen() -> None:
    random = np.random.default_rng(5)
    table = random.standard_normal((ROWS, COLUMNS), np.float32)
    right = {"embed_tokens.weight": table, "lm_head.weight": table}
    left = {
        "embed_tokens.weight": table,
        "lm_head.weight": table + np.float32(1e-3) * random.standard_normal(table.shape, "f"),
    }
    assert [f.cause for f in tnb.compare(left, right).findings] == ["tied_weights_broken"]


def _transposed_inside(values: np.ndarray) -> np.ndarray:
    rows = values.reshape(len(values), 64, -1)
    return np.ascontiguousarray(rows.swapaxes(1, 2)).reshape(values.shape)


def _symmetric(random: np.random.Generator) -> np.ndarray:
    values = random.standard_normal((600, 600))
    return (values + values.T) / 2 + 5e-4 * random.standard_normal(values.shape)


Made = Callable[[np.random.Generator], np.ndarray]
# Whose values hardly differ from themselves in another order: name, values, what was done to them.
HIDDEN: dict[str, tuple[str, Made, Callable[[np.ndarray], np.ndarray]]] = {
    "a nearly symmetric matrix": ("cov.weight", _symmetric, np.transpose),
    "far from zero, rows in another order": (
        "input",
        lambda random: -10.8 + 0.05 * random.standard_normal((2048, 256)),
        lambda values: values[np.random.default_rng(1).permutation(len(values))],
    ),
    "far from zero, shifted": (
        "lm.output",
        lambda random: -10.8 + 0.05 * random.standard_normal((2048, 256)),
        lambda values: np.roll(values, 1, 0),
    ),
    "whole numbers kept as floats": (
        "position_ids",
        lambda random: np.arange(1000.0, 301000.0),
        lambda values: values.astype("bfloat16").astype("f"),
    ),
    "whole numbers, reversed": (
        "input",
        lambda random: 50000.0 + random.integers(0, 2000, (600, 400)),
        lambda values: values[::-1],
    ),
    "scales near one, another layout": (
        "norms.weight",
        lambda random: 1 + 0.02 * random.standard_normal((48, 4096)),
        _transposed_inside,
    ),
}


@pytest.mark.parametrize("case", HIDDEN)
def test_values_that_hide_their_order_are_read_whole(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, made, changed = HIDDEN[case]
    right = made(np.random.default_rng(8)).astype(np.float32)
    left = np.ascontiguousarray(changed(right))
    looked = tnb.compare({name: left}, {name: right})
    monkeypatch.setattr(thresholds, "SCREENED_FROM", 1 << 40)
    whole = tnb.compare({name: left}, {name: right})
    assert looked.findings == whole.findings
    assert looked.observed == whole.observed
    assert looked.findings or looked.observed


def test_an_endless_budget_reads_everything() -> None:
    left, right = noisy(3, (512, 512))
    reads: list[int] = []
    tnb.compare(dump_of(left, reads), dump_of(right, reads), budget=math.inf)
    # Compared, and then asked about; the first one is looked at once more.
    assert sum(reads) >= 2 * 2 * 3 * 512 * 512


def test_the_note_names_a_larger_budget() -> None:
    left, right = noisy(40, (512, 300))
    for budget, more in ((0, "budget=1 "), (1, "budget=4 "), (4, "budget=16 ")):
        (note,) = not_asked(tnb.compare(left, right, budget=budget))
        assert more in note


def test_a_number_beyond_float64_is_no_budget() -> None:
    with pytest.raises(tnb.ArgumentError, match="budget must be a number"):
        tnb.compare({"a": np.ones(3)}, {"a": np.ones(3)}, budget=10**400)


def test_far_elements_count_as_what_is_asked_for() -> None:
    """What a source reads between them, or of a packed file before them, is its own affair."""
    budget = Budget(compared=0)
    source = Counted(np.arange(1000.0))
    charged = Charged(source, budget)
    rows = read_rows(charged, [900, 0, 500], 2)
    np.testing.assert_array_equal(rows, [[900, 901], [0, 1], [500, 501]])
    assert (budget.read, source.reads) == (6, [2, 2, 2])
    with pytest.raises(BudgetSpentError):
        read_rows(Charged(source, Budget(compared=0, times=0)), [0], 1)
