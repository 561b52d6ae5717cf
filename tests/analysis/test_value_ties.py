"""Values break ties between equal calls, and nothing else."""

import hashlib
import json
import re
import zlib
from pathlib import Path

import numpy as np
import pytest

from troubleshooter_nb import open_dump, pair_dumps
from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.errors import ReadError
from troubleshooter_nb.naming import Site

FIXTURES = Path(__file__).parents[1] / "data" / "torch_npu_hooks"


class Counted(ArrayInMemory):
    """A source that counts what is read of it."""

    bytes_read = 0

    def read(self, start, stop, into=None):
        values = super().read(start, stop)
        Counted.bytes_read += values.nbytes
        return values


class Broken(ArrayInMemory):
    def read(self, start, stop, into=None):
        msg = "gone"
        raise ReadError(msg)


def figures_of(array):
    return {
        "min": float(array.min()),
        "max": float(array.max()),
        "mean": float(array.mean()),
        "l2": float(np.linalg.norm(array)),
    }


def run(values, *, as_="arrays", make=ArrayInMemory, op="Tensor.mul", first=()):
    """A run of one operator: what goes in and out of call k are values k and k + 1.

    `as_` is what is kept of the values: arrays, statistics, crc or md5.
    """
    entries = []
    for k in range(len(values) - 1):
        for role, array in (("input", values[k]), ("output", values[k + 1])):
            array = np.asarray(array, np.float32) if array.dtype == np.float64 else array
            more = {"shape": array.shape, "dtype": str(array.dtype)}
            if as_ == "arrays":
                more = {"source": make(array)}
            elif as_ == "statistics":
                more["statistics"] = figures_of(array.astype(np.float64))
            elif as_ == "crc":
                more["statistics"] = {"crc32": zlib.crc32(array.tobytes())}
            elif as_ == "md5":
                more["digest"] = f"md5:{hashlib.md5(array.tobytes()).hexdigest()}"
            name = f"{op}.{k}.forward.{role}.0"
            site = Site("api", op, k, "forward", role, "0")
            entries.append(Entry(name, site, order=len(entries), layer=op[7:], **more))
    return Dump.from_entries(entries, label="run")


def calls(pairing):
    """Numbers of the calls that belong together, in the order of the left side."""
    table = pairing.to_dataframe()
    both = table[(table["left"] != "") & (table["right"] != "")]
    numbers = [
        tuple(int(re.search(r"\.(\d+)\.", name)[1]) for name in pair)
        for pair in zip(both["left"], both["right"], strict=True)
    ]
    return sorted(set(numbers))


def noise(count, *, seed=0, shape=(5, 7)):
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape) for _ in range(count)]


def without(values, *numbers):
    return [value for k, value in enumerate(values) if k not in numbers]


@pytest.mark.parametrize("name", ["shifted_chain", "same_name_extra"])
@pytest.mark.parametrize("swapped", [False, True])
def test_the_true_alignment_of_shifted_chains_is_met(name, swapped):
    folder = FIXTURES / name
    truth = json.loads((folder / "true_alignment.json").read_text())["npu_line_of_bench_line"]
    sides = [open_dump(folder / f"{who}.pkl") for who in ("npu", "bench")]
    pairing = pair_dumps(*sides[:: -1 if swapped else 1])
    table = pairing.to_dataframe()
    both = table[(table["left"] != "") & (table["right"] != "")]
    # Lines of these files begin with their number.
    lines = {
        tuple(int(name.partition("_")[0]) for name in pair)
        for pair in zip(both["left"], both["right"], strict=True)
    }
    assert lines == {(n, b)[:: -1 if swapped else 1] for b, n in enumerate(truth)}
    decided = both[both["method"] == "values"]
    assert decided["note"].str.startswith("values decide between 2 equal candidates").all()
    # Of one network forward speaks for one and backward for the other: nobody can be sure.
    surest = {"shifted_chain": 0.85, "same_name_extra": 0.5}[name]
    assert decided["confidence"].max() == surest


@pytest.mark.parametrize("as_", ["arrays", "statistics", "crc", "md5"])
@pytest.mark.parametrize("extra", [0, 1, 3, 5])
def test_an_additional_call_that_changes_nothing_behind_it_is_found(as_, extra):
    values = noise(7)
    # Call `extra` of the longer run gives what goes into it, so that it looks like no other call.
    longer = [*values[: extra + 1], values[extra], *values[extra + 1 :]]
    left, right = run(longer, as_=as_), run(values, as_=as_)
    expected = [(k + (k >= extra), k) for k in range(6)]
    found = pair_dumps(left, right)
    assert calls(found) == expected
    assert calls(pair_dumps(right, left)) == [(b, a) for a, b in expected]
    alone = found.to_dataframe().query("method == 'unmatched'")
    assert set(alone["note"]) == {
        "one of 7 equal calls against 6; the values fit the others better"
    }


def test_a_call_is_known_by_what_it_does_where_all_values_are_scaled():
    start = noise(1)[0]
    factors = [1.1, 0.7, -1.3, 0.9, 2.0]
    bench = [start * f for f in np.cumprod([1.0, *factors])]
    longer = [start * f for f in np.cumprod([1.0, *factors[:2], 1.05, *factors[2:]])]
    found = pair_dumps(run(longer), run(bench))
    assert calls(found) == [(0, 0), (1, 1), (3, 2), (4, 3), (5, 4)]


def test_a_fault_leaves_the_pairs_where_the_order_puts_them():
    """From some call on nothing agrees: what is paired there does not depend on values."""
    right = noise(9)
    for good in range(8):
        wrong = noise(10, seed=1)
        left = [*right[:good], *wrong[good:]]
        by_order = calls(pair_dumps(run(left, as_=""), run(right, as_="")))
        assert calls(pair_dumps(run(left), run(right))) == by_order
        assert calls(pair_dumps(run(left, as_="statistics"), run(right))) == by_order


def test_a_fault_behind_the_additional_call_does_not_hide_it():
    right = noise(9)
    left = [*right[:3], right[2], *right[3:5], *noise(4, seed=1)]
    found = pair_dumps(run(left), run(right))
    assert calls(found) == [(k + (k >= 2), k) for k in range(8)]
    table = found.to_dataframe().set_index("left")
    assert table.loc["Tensor.mul.3.forward.output.0", "confidence"] >= 0.7
    assert table.loc["Tensor.mul.8.forward.output.0", "confidence"] <= 0.5


@pytest.mark.parametrize("as_", ["arrays", "statistics", "crc", "md5"])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_constant_tensors_are_no_agreement(as_, value):
    left, right = noise(8), noise(7, seed=1)
    # Zeros go through one call on each side: at places that would shift all others.
    left[4] = left[5] = np.full_like(left[0], value)
    right[3] = right[4] = np.full_like(left[0], value)
    by_order = calls(pair_dumps(run(left, as_=""), run(right, as_="")))
    assert calls(pair_dumps(run(left, as_=as_), run(right, as_=as_))) == by_order


def test_tensors_that_all_calls_share_are_no_agreement():
    value = noise(1)[0]
    left, right = run([value] * 6), run([value] * 5)
    by_order = pair_dumps(run([value] * 6, as_=""), run([value] * 5, as_=""))
    assert calls(pair_dumps(left, right)) == calls(by_order)
    assert "values" not in pair_dumps(left, right).to_dataframe()["method"].tolist()


def test_integers_decide_nothing():
    left = [np.arange(6) + k for k in range(5)]
    pairing = pair_dumps(run(left), run(left[1:]))
    assert "values" not in pairing.to_dataframe()["method"].tolist()


def test_equally_many_calls_keep_their_order_whatever_their_values():
    values = noise(6)
    found = pair_dumps(run([*values, values[0]]), run([values[5], *values]), fuzzy=True)
    assert calls(found) == [(k, k) for k in range(6)]


def test_names_go_before_values():
    """A call of another operator is no partner, however equal its values."""
    values = noise(6)
    left = run(values, op="Tensor.relu")
    right = run(values[1:], op="Tensor.gelu")
    assert calls(pair_dumps(left, right)) == []


def test_half_precision_counts_as_equal_within_its_rounding():
    values = noise(7)
    exact = [value.astype(np.float16) for value in values]
    rounded = [(v * (1 + 4e-4)).astype(np.float16) for v in [*values[:3], values[2], *values[3:]]]
    assert calls(pair_dumps(run(rounded), run(exact))) == [(k + (k >= 2), k) for k in range(6)]


def test_nothing_is_read_where_no_call_is_additional():
    Counted.bytes_read = 0
    values = noise(6)
    pair_dumps(run(values, make=Counted), run(values[::-1], make=Counted))
    pair_dumps(run(values, make=Counted), run(values[1:], make=Counted, op="Torch.tanh"))
    assert Counted.bytes_read == 0


def test_reading_is_bounded(monkeypatch):
    values = noise(4, shape=(300, 1000))
    Counted.bytes_read = 0
    longer = [*values[:2], values[1], *values[2:]]
    found = pair_dumps(run(longer, make=Counted), run(values, make=Counted))
    assert calls(found) == [(0, 0), (2, 1), (3, 2)]
    # 8 and 6 entries, 64 Ki values of four bytes of each, once.
    assert Counted.bytes_read == 14 * 4 * (1 << 16)
    Counted.bytes_read = 0
    monkeypatch.setattr("troubleshooter_nb.analysis.align.TIES_BYTES", 1 << 20)
    pair_dumps(run(longer, make=Counted), run(values, make=Counted))
    assert Counted.bytes_read == 0


def test_recorded_statistics_need_no_reading():
    values = noise(5)
    longer = [*values[:2], values[1], *values[2:]]
    sides = [run(side, make=Counted).summarise() for side in (longer, values)]
    Counted.bytes_read = 0
    assert calls(pair_dumps(*sides)) == [(0, 0), (2, 1), (3, 2), (4, 3)]
    assert Counted.bytes_read == 0


def test_what_cannot_be_read_breaks_no_tie():
    values = noise(5)
    found = pair_dumps(run([*values, values[0]], make=Broken), run(values, make=Broken))
    assert len(calls(found)) == 4


def test_a_given_pair_stays():
    values = noise(6)
    longer = [*values[:2], values[1], *values[2:]]
    given = [(f"Tensor.mul.4.forward.{role}.0",) * 2 for role in ("input", "output")]
    found = pair_dumps(run(longer), run(values), mapping=given)
    assert (4, 4) in calls(found)


def test_arguments_that_are_no_tensors_decide_as_well():
    def with_factors(factors):
        dump = run(noise(len(factors) + 1), as_="")
        entries = []
        for k, factor in enumerate(factors):
            for role, slot in (("input", "0"), ("input", "1"), ("output", "0")):
                name = f"Tensor.mul.{k}.forward.{role}.{slot}"
                site = Site("api", "Tensor.mul", k, "forward", role, slot)
                more = {"value": str(factor)} if slot == "1" else {"shape": (2, 3)}
                entries.append(Entry(name, site, order=len(entries), layer="mul", **more))
        return Dump.from_entries(entries, label=dump.label)

    found = pair_dumps(with_factors([1, 2, 9, 3, 4]), with_factors([1, 2, 3, 4]))
    assert calls(found) == [(0, 0), (1, 1), (3, 2), (4, 3)]
