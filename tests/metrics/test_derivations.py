"""Two steps from one tensor to another, each of which some transform is."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.messages import told
from troubleshooter_nb.metrics.derivations import derivation_between
from troubleshooter_nb.metrics.ranges import InMemory

RANDOM = np.random.default_rng(0)
MATRIX = RANDOM.normal(size=(24, 36)).astype("f4")
KERNEL = RANDOM.normal(size=(8, 5, 3, 3)).astype("f4")
ROWS, COLUMNS = RANDOM.permutation(24), RANDOM.permutation(36)


def found(left, right):
    return derivation_between(InMemory(left), InMemory(np.ascontiguousarray(right)))


TWO_STEPS = {
    "transpose, rows": (MATRIX, MATRIX.T[COLUMNS]),
    "transpose, part": (MATRIX, MATRIX.T[5:20]),
    "transpose, repeated": (MATRIX, np.repeat(MATRIX.T, 3, 0)),
    "scale, transpose": (MATRIX, 3.7 * MATRIX.T),
    "negative scale, rows": (MATRIX, -2 * MATRIX[ROWS]),
    "scale, part": (MATRIX, 3 * MATRIX[3:15]),
    "scale, repeated": (MATRIX, 3 * np.repeat(MATRIX, 2, 0)),
    "offset, transpose": (MATRIX, MATRIX.T + np.float32(0.5)),
    "offset, part": (MATRIX, MATRIX[:, 3:30] + np.float32(0.5)),
    "scale, offset": (MATRIX, MATRIX * np.float32(3) + np.float32(0.5)),
    "rows, columns": (MATRIX, MATRIX[ROWS][:, COLUMNS]),
    "flip, rows": (MATRIX, MATRIX[:, ::-1][ROWS]),
    "reshape, rows": (MATRIX, MATRIX.reshape(72, 12)[RANDOM.permutation(72)]),
    "rows, reshape": (MATRIX, MATRIX[ROWS].reshape(6, 4, 36)),
    "reshape, part": (MATRIX, MATRIX.reshape(72, 12)[5:30]),
    "axes, rows": (KERNEL, KERNEL.transpose(2, 3, 1, 0)[:, :, [3, 1, 0, 4, 2]]),
    "axes, chosen rows": (KERNEL, KERNEL.transpose(2, 3, 1, 0)[..., ::2]),
}


@pytest.mark.parametrize("case", TWO_STEPS)
@pytest.mark.parametrize("dtype", ["f4", "bfloat16"])
def test_two_steps_are_found_and_give_right(case, dtype):
    left, right = TWO_STEPS[case]
    right = right.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    relation = found(left, right)
    assert relation is not None
    assert relation.kind == "steps"
    made, wanted = relation.apply(left).astype("f8"), right.astype("f8")
    assert made.shape == wanted.shape
    assert np.abs(made - wanted).max() <= 2.0 ** (-4 if dtype == "bfloat16" else -18)
    assert relation.residual <= 1e-2
    assert str(relation.said()).startswith("an array between is left")
    assert told(relation.said(), "zh").startswith("中间数组")


def test_one_step_is_one():
    relation = found(MATRIX, MATRIX.T)
    assert (relation.kind, len(relation.steps)) == ("transpose", 1)
    assert str(relation.said()) == "right is left transposed"


def test_any_choice_of_rows_is_one_step():
    repeated = np.repeat(MATRIX.reshape(4, 6, 36), 2, axis=1).reshape(-1, 36)
    for left, right in ((MATRIX, MATRIX[RANDOM.integers(0, 24, 13)]), (repeated, MATRIX)):
        relation = found(left, right)
        assert relation.kind == "rows"
        assert np.array_equal(relation.apply(left), right)


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_claimed_of_unrelated_values(seed):
    random = np.random.default_rng(seed)
    shapes = [(24, 36), (36, 24), (12, 36), (48, 36), (24, 6, 6), (864,), (36, 10), (8,), (16, 4)]
    left, right = (
        random.normal(size=shapes[random.integers(len(shapes))]).astype("f4") for _ in range(2)
    )
    assert found(left, right) is None


def test_constants_and_what_holds_no_numbers():
    assert found(np.ones((8, 8), "f4"), np.full((8, 8), 2, "f4")) is None
    with pytest.raises(ArgumentError):
        found(np.array(["a", "b"]), MATRIX)


def test_the_plantings_of_the_benchmark_are_expressed():
    path = Path(__file__).parents[2] / "benchmarks" / "weight_maps.py"
    spec = importlib.util.spec_from_file_location("benchmark_of_weight_maps", path)
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    for number in range(40):
        random = np.random.default_rng([3, number])
        said, ours, theirs, exact = benchmark.planted(random, number)
        value = benchmark.drafted(ours, theirs, benchmark.beside(random))
        assert not benchmark.expressed(value, ours, theirs, exact), said


def test_rows_of_a_bias_are_told_by_their_values():
    bias = RANDOM.normal(size=64).astype("f4")
    order = np.concatenate([np.arange(40, 64), np.arange(40)])
    for right in (bias[order], bias.reshape(8, 8)[::2].reshape(-1), np.repeat(bias, 2)):
        relation = found(bias, right)
        assert np.array_equal(relation.apply(bias), right)
    assert found(bias, RANDOM.normal(size=48).astype("f4")) is None
    assert found(np.repeat(bias[:4], 16), np.repeat(bias[:3], 12)) is None
