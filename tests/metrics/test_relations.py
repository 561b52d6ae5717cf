import importlib.util
import json
import math
import os
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from troubleshooter_nb.metrics.float_formats import stored_as
from troubleshooter_nb.metrics.relations import (
    find_relation,
    made_and_wanted,
    not_related,
    relation_between,
)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def noisy(values, seed=9):
    return values + np.float32(1e-3) * normal(*values.shape, seed=seed)


def interleaved(values, head):
    """Rows of each head as rotary code of the other convention has them."""
    shape = values.shape
    return values.reshape(-1, 2, head // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


MATRIX, SQUARE, KERNEL, BIAS = normal(48, 32), normal(64, 64), normal(8, 6, 3, 3), normal(64)
MIXED = np.random.default_rng(5).permutation(48)


class Counting:
    """A source that counts what is read, and never gives more than so many elements at once."""

    def __init__(self, array, most):
        self.shape, self.dtype, self.most = array.shape, array.dtype, most
        self.flat = np.ascontiguousarray(array).reshape(-1)
        self.count = 0

    def read(self, start, stop, into=None):
        assert 0 <= start <= stop <= len(self.flat)
        assert stop - start <= self.most
        self.count += stop - start
        return self.flat[start:stop].copy()


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks and boxes so small that every tensor of the cases takes several, in memory none."""
    metrics = "troubleshooter_nb.metrics"
    blocks = {"READ_BLOCK": 100, "READ_BOX": 200, "READ_RUN": 8, "READ_THROUGH_BYTES": 20}
    for name in ("READ_BLOCK", "READ_THROUGH_BYTES"):
        monkeypatch.setattr(f"troubleshooter_nb.ranges.{name}", blocks[name])
    for name, value in {"LARGEST_HELD": 0, **blocks}.items():
        monkeypatch.setattr(f"{metrics}.ranges.{name}", value)
    for name in ("READ_BLOCK", "READ_BOX"):
        monkeypatch.setattr(f"{metrics}.streamed.{name}", blocks[name])
    monkeypatch.setattr(f"{metrics}.streamed.SIGNATURES_BLOCK", 128)
    monkeypatch.setattr(f"{metrics}.relations.READ_BLOCK", 100)


def in_parts(left, right, **options):
    return relation_between(Counting(left, 256), Counting(right, 256), **options)


CASES = {
    "identical": (MATRIX, MATRIX.copy(), "identical", {}),
    "close": (MATRIX, noisy(MATRIX), "close", {}),
    "transpose": (MATRIX, MATRIX.T, "transpose", {"axes": (1, 0)}),
    "square transpose": (SQUARE, SQUARE.T, "transpose", {"axes": (1, 0)}),
    "noisy transpose": (SQUARE, noisy(SQUARE.T), "transpose", {"axes": (1, 0)}),
    "kernel axes": (KERNEL, KERNEL.transpose(2, 3, 1, 0), "permute", {"axes": (2, 3, 1, 0)}),
    "flipped kernel of a transposed convolution": (
        KERNEL,
        KERNEL.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1],
        "permute",
        {"axes": (1, 0, 2, 3), "flip": (2, 3)},
    ),
    "1-D kernel as 2-D": (KERNEL[..., 0], KERNEL[..., :1], "reshape", {"shape": (8, 6, 3, 1)}),
    "dense as a 1x1 kernel": (
        MATRIX,
        MATRIX.T[..., None, None],
        "permute",
        {"axes": (1, 0), "shape": (32, 48, 1, 1)},
    ),
    "view for transpose": (
        MATRIX,
        MATRIX.T.reshape(48, 32),
        "permute",
        {"axes": (1, 0), "shape": (48, 32)},
    ),
    "heads split and moved": (
        MATRIX,
        MATRIX.reshape(4, 12, 32).transpose(2, 0, 1),
        "permute",
        {"axes": (1, 0), "shape": (32, 4, 12)},
    ),
    "flip": (KERNEL, KERNEL[:, ::-1], "flip", {"axes": (1,)}),
    "scale": (MATRIX, MATRIX * 2, "scale", {"scale": 2.0}),
    "offset": (BIAS, BIAS + 1, "offset", {"offset": pytest.approx(1.0, abs=1e-6)}),
    "rotary": (
        SQUARE,
        interleaved(SQUARE, 16),
        "row_permutation",
        {"axis": 0, "period": 16, "factors": (2, 8), "inner": 1},
    ),
    "noisy rotary bias": (
        BIAS,
        noisy(interleaved(BIAS, 16)),
        "row_permutation",
        {"axis": 0, "period": 16, "factors": (2, 8), "inner": 1},
    ),
    "channels first and last before a dense layer": (
        SQUARE,
        SQUARE.reshape(64, 4, 16).swapaxes(1, 2).reshape(64, 64),
        "row_permutation",
        {"axis": 1, "period": 64, "factors": (4, 16), "inner": 1},
    ),
    "any rows": (
        MATRIX,
        MATRIX[MIXED],
        "row_permutation",
        {"axis": 0, "order": tuple(MIXED.tolist())},
    ),
    "gates": (
        MATRIX,
        MATRIX.reshape(4, 12, 32)[[0, 2, 1, 3]].reshape(48, 32),
        "blocks",
        {"axis": 0, "blocks": 4, "order": (0, 2, 1, 3)},
    ),
    "noisy gates of a bias": (
        BIAS,
        noisy(np.roll(BIAS, 32)),
        "blocks",
        {"axis": 0, "blocks": 2, "order": (1, 0)},
    ),
    "grouped heads": (
        MATRIX,
        MATRIX.reshape(4, 1, 12, 32).repeat(2, 1).reshape(96, 32),
        "repeat",
        {"axis": 0, "times": 2, "block": 12},
    ),
    "tile": (BIAS, np.tile(BIAS, 3), "repeat", {"axis": 0, "times": 3, "block": 64}),
    "rows of a vocabulary": (MATRIX, MATRIX[:40], "slice", {"starts": (0, 0), "sizes": (40, 32)}),
    "middle columns": (
        MATRIX,
        MATRIX[:, 5:20],
        "slice",
        {"starts": (0, 5), "sizes": (48, 15)},
    ),
    "one expert": (
        KERNEL,
        KERNEL[3],
        "slice",
        {"starts": (3, 0, 0, 0), "sizes": (1, 6, 3, 3), "shape": (6, 3, 3)},
    ),
    "corner": (SQUARE, SQUARE[:9, :7], "slice", {"starts": (0, 0), "sizes": (9, 7)}),
    "padded vocabulary": (
        MATRIX,
        np.concatenate([MATRIX, np.zeros((16, 32), np.float32)]),
        "pad",
        {"starts": (0, 0), "sizes": (64, 32)},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_planted_relation_is_found_with_its_arguments(name):
    left, right, kind, arguments = CASES[name]
    found = find_relation(left, right)
    assert found is not None
    assert (found.kind, dict(found.arguments)) == (kind, arguments)
    # Noise of 1e-3 was planted where any was; all else is exact but for float32 rounding.
    assert found.residual < 2e-3
    assert found.rival > 0.3
    assert json.loads(json.dumps(dict(found.arguments))) is not None


@pytest.mark.parametrize("name", CASES)
def test_a_planted_relation_is_found_in_parts_as_in_whole_arrays(name, small_blocks):
    left, right, _, _ = CASES[name]
    found, whole = in_parts(left, right), find_relation(left, right)
    assert found is not None
    assert (found.kind, found.arguments) == (whole.kind, whole.arguments)
    # Sums of other blocks round otherwise.
    assert found.residual == pytest.approx(whole.residual, rel=1e-6)
    assert found.rival == pytest.approx(whole.rival, rel=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "int8", "float64"])
def test_a_cast_is_told_from_noise_in_parts(dtype, small_blocks):
    values = 8 * normal(20, 10)
    found = in_parts(values, values.astype(np.dtype(dtype)))
    assert (found.kind, found.residual) == ("cast", 0.0)
    last = values.astype(np.dtype(dtype))
    last[-1, -1] = 99  # what only the last block shows
    assert getattr(in_parts(values, last), "kind", None) != "cast"


def test_of_unrelated_or_nearly_symmetric_tensors_nothing_else_is_said_in_parts(small_blocks):
    symmetric = SQUARE + SQUARE.T
    assert in_parts(symmetric, noisy(symmetric)).kind == "close"
    assert in_parts(symmetric, noisy(symmetric)).rival < 2e-3
    nearly = symmetric + np.float32(0.1) * normal(64, 64, seed=3)
    assert in_parts(nearly, nearly.T.copy()).kind == "transpose"
    for seed in range(20):
        other = normal(64, 64, seed=100 + seed)
        assert in_parts(SQUARE, other) is None
        assert in_parts(SQUARE, other[:40]) is None
        assert in_parts(SQUARE, np.tile(other, (2, 1))) is None
    # All rows but one pair are equal: any order of the others serves.
    tied = np.repeat(normal(1, 32), 48, axis=0)
    tied[3], tied[30] = normal(2, 32, seed=8)
    moved = tied[MIXED]
    found = in_parts(tied, moved)
    assert found is None or np.array_equal(found.apply(tied), moved)
    # One element that is not in order is an error of all elements.
    wrong = SQUARE.T.copy()
    wrong[-1, -1] += 5
    found = in_parts(SQUARE, wrong, tolerance=0.1)
    assert (found.kind, found.residual) == ("transpose", pytest.approx(5 / 64, rel=0.1))
    assert in_parts(SQUARE, wrong) is None


def test_nan_inf_and_extreme_values_are_related_in_parts(small_blocks):
    left = SQUARE.copy()
    left[3, 5], left[7, 1] = np.nan, np.inf
    assert in_parts(left, left.T).kind == "transpose"
    assert in_parts(left, SQUARE.T) is None
    for scale in (1e-200, 1e300):
        wide = SQUARE.astype(np.float64) * scale
        assert in_parts(wide, wide.T).kind == "transpose"
        assert in_parts(wide, wide[::-1] * (1 + 1e-4)).kind == "flip"


@pytest.mark.parametrize("name", [*CASES, "rounded"])
def test_what_a_relation_makes_comes_in_pieces_that_cover_all(name, small_blocks):
    rounded = (MATRIX, MATRIX.astype(np.float16), "cast", {})
    left, right, kind, _ = CASES.get(name, rounded)
    found = find_relation(left, right)
    pieces = list(made_and_wanted(found, Counting(left, 256), Counting(right, 256)))
    made, wanted = (np.concatenate([one[k].reshape(-1) for one in pieces]) for k in range(2))
    whole = left if kind == "pad" else right
    assert np.array_equal(np.sort(wanted), np.sort(whole, axis=None))
    error = np.linalg.norm(made - wanted) / np.linalg.norm(whole - whole.mean())
    assert error == pytest.approx(found.residual, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("spread", [0.0, 1e-6, 1e-4])
def test_of_many_rows_only_those_that_are_not_equal_are_searched(spread, monkeypatch):
    order = np.random.default_rng(1).permutation(len(ROWS))
    right = ROWS[order] + np.float32(spread) * normal(*ROWS.shape, seed=9)
    expected = find_relation(ROWS, right)
    assert expected.arguments["order"] == tuple(order.tolist())
    monkeypatch.setattr("troubleshooter_nb.metrics.signatures.SIGNATURE_DISTANCES", 1000)
    assert find_relation(ROWS, right) == expected


ROWS = normal(3000, 24)
LARGE = normal(2560, 2048)
LARGE_CASES = {
    "transpose": LARGE.T,
    "row_permutation": LARGE[np.random.default_rng(1).permutation(2560)],
    "blocks": np.roll(LARGE, 1280, axis=0),
    "slice": LARGE[5:2300],
    "flip": LARGE[:, ::-1],
    "scale": LARGE * np.float32(1.5),
    "cast": LARGE.astype(ml_dtypes.bfloat16),
    "pad": np.pad(LARGE, ((0, 7), (0, 0))),
    "permute": LARGE.reshape(80, 32, 2048).transpose(2, 0, 1),
    "": normal(2560, 2048, seed=1),
}


@pytest.mark.parametrize("kind", LARGE_CASES)
def test_five_million_elements_are_related_by_blocks_of_them(kind):
    most = 1 << 20
    sides = [Counting(side, most) for side in (LARGE, LARGE_CASES[kind])]
    found = relation_between(*sides)
    assert (found.kind if found else "") == kind
    for side in sides:
        assert side.count <= 9 * len(side.flat)


def test_an_order_of_too_many_rows_is_said_not_to_be_looked_for(monkeypatch, small_blocks):
    monkeypatch.setattr("troubleshooter_nb.metrics.explanations.MOST_MATCHED_ROWS", 32)
    monkeypatch.setattr("troubleshooter_nb.metrics.relations.MOST_MATCHED_ROWS", 32)
    assert in_parts(MATRIX, MATRIX[MIXED]) is None
    assert not_related((48, 32), (48, 32)).id == "values.no_order_of_many_rows"
    assert in_parts(MATRIX, MATRIX[3:40]) is None
    assert not_related((48, 32), (37, 32)).id == "values.no_place_of_many_rows"
    # What can be tried is: parts at both ends, blocks and groups.
    assert in_parts(MATRIX, MATRIX[8:]).arguments["starts"] == (8, 0)
    assert in_parts(MATRIX, MATRIX[:40]).arguments["starts"] == (0, 0)
    assert in_parts(MATRIX, np.roll(MATRIX, 24, axis=0)).kind == "blocks"
    assert in_parts(SQUARE, interleaved(SQUARE, 16)).arguments["period"] == 16
    assert not_related((32, 32), (32, 32)) is None
    assert not_related((48, 32), (32, 48)) is None


@pytest.mark.parametrize("name", CASES)
def test_a_relation_applied_to_left_gives_right(name):
    left, right, _, _ = CASES[name]
    made = find_relation(left, right).apply(left)
    assert made.shape == right.shape
    # Rounding of a fitted constant, or the planted noise of 1e-3 (five deviations).
    atol = 6e-3 if "noisy" in name or name == "close" else 1e-6
    np.testing.assert_allclose(made, right, rtol=0, atol=atol)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "int8", "float64"])
def test_a_cast_is_told_from_noise(dtype):
    values = 8 * normal(20, 10)
    stored = values.astype(np.dtype(dtype))
    found = find_relation(values, stored)
    side = "left" if dtype == "float64" else "right"
    name = "float32" if dtype == "float64" else dtype
    assert (found.kind, found.residual) == ("cast", 0.0)
    assert found.arguments == {"dtype": name, "side": side}
    assert np.array_equal(found.apply(values).astype(np.float64), stored.astype(np.float64))


def test_rounding_away_all_values_is_no_cast():
    assert find_relation(0.1 * MATRIX, np.zeros(MATRIX.shape, np.int8)) is None
    assert find_relation(MATRIX, np.ones(MATRIX.shape, bool)) is None
    assert find_relation(np.ones(5), np.ones(5, bool)).kind == "cast"
    found = find_relation(MATRIX.astype(np.complex64), MATRIX)
    assert found.arguments == {"dtype": "complex64", "side": "left"}
    assert find_relation(MATRIX + 1j * MATRIX[::-1], MATRIX) is None


@pytest.mark.parametrize("side", ["left", "right"])
def test_values_rounded_and_widened_again_are_a_cast(side):
    pair = {"left": MATRIX, "right": MATRIX.copy()}
    pair[side] = MATRIX.astype(ml_dtypes.bfloat16).astype(np.float32)
    found = find_relation(**pair)
    assert (found.kind, found.arguments) == ("cast", {"dtype": "bfloat16", "side": side})


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_rearrangements_survive_low_precision_on_one_side(dtype):
    found = find_relation(SQUARE, SQUARE.T.astype(dtype))
    assert found.kind == "transpose"
    assert find_relation(SQUARE.astype(dtype), SQUARE[::-1]).kind == "flip"


def test_a_symmetric_matrix_is_not_called_transposed():
    symmetric = SQUARE + SQUARE.T
    assert find_relation(symmetric, symmetric.T).kind == "identical"
    found = find_relation(symmetric, noisy(symmetric))
    assert found.kind == "close"
    # The transpose explains it as well, and the rival says so.
    assert found.rival < 2e-3


def test_the_simpler_of_two_exact_explanations_is_taken():
    palindrome = np.concatenate([MATRIX, MATRIX[::-1]], axis=0)
    assert find_relation(palindrome, palindrome[::-1]).kind == "identical"
    assert find_relation(MATRIX, -MATRIX).arguments == {"scale": -1.0}


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (np.ones((8, 8)), np.zeros((8, 8))),
        (np.ones((8, 4)), np.ones((4, 8))),
        (np.ones(64), np.full(64, 3.0)),
        (np.ones(64), 1 + 1e-3 * normal(64)),
        (np.float32(2), np.float32(3)),
        (np.zeros((0, 3)), np.zeros((3, 0))),
        (np.array([1.0, 2.0]), np.array([2.0, 4.0])),
        (np.array([1.0, 2.0]), np.array([2.0, 3.0])),
        (np.eye(1, 64, 3)[0], np.eye(1, 64, 60)[0]),
        (np.sort(MIXED[:40] < 9), MIXED[:40] < 9),
    ],
    ids=[
        "ones and zeros",
        "ones in two shapes",
        "two constants",
        "nearly constant",
        "two scalars",
        "two empty shapes",
        "two values scaled",
        "two values moved",
        "one among zeros",
        "bool with equal counts",
    ],
)
def test_nothing_is_claimed_where_chance_explains_it(left, right):
    assert find_relation(np.asarray(left), np.asarray(right)) is None


def test_norm_weights_near_one_are_not_close_to_each_other():
    # Relative to the whole norm they differ by 0.4 per cent only.
    left, right = (1 + 0.003 * normal(256, seed=seed) for seed in (1, 2))
    assert find_relation(left, right) is None
    assert find_relation(left, left[::-1]).kind == "flip"


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1,)])
def test_tensors_without_elements_or_axes_are_identical_or_nothing(shape):
    values = np.ones(shape, np.float32)
    assert find_relation(values, values.copy()).kind == "identical"
    assert find_relation(values, values.astype(np.float16)).kind == "cast"


def test_nan_and_inf_must_be_equal_at_their_places():
    left = SQUARE.copy()
    left[3, 5], left[7, 1] = np.nan, np.inf
    assert find_relation(left, left.copy()).kind == "identical"
    assert find_relation(left, left.T).kind == "transpose"
    assert find_relation(left, SQUARE.T) is None
    moved = left.T.copy()
    moved[1, 7] = -np.inf
    assert find_relation(left, moved) is None
    assert find_relation(np.full((4, 4), np.nan), np.full((16,), np.nan)) is None


@pytest.mark.parametrize("scale", [1e-200, 1e200, 1e300])
def test_values_at_the_ends_of_float64_are_related(scale):
    left = SQUARE.astype(np.float64) * scale
    assert find_relation(left, left.T).kind == "transpose"
    assert find_relation(left, left[::-1] * (1 + 1e-4)).kind == "flip"
    offset = find_relation(left, left + scale)
    assert offset.kind == "offset"
    assert offset.arguments["offset"] == pytest.approx(scale, rel=1e-9)


def test_integers_bool_and_complex_are_related():
    counts = np.random.default_rng(1).integers(0, 50_000, (30, 20))
    assert find_relation(counts, counts.T).kind == "transpose"
    assert find_relation(counts, counts + 1).arguments == {"offset": 1.0}
    assert find_relation(counts.astype(np.int64), counts.astype(np.int32)).kind == "cast"
    mask = np.tril(np.ones((32, 32), bool))
    assert find_relation(mask, mask.T).kind == "transpose"
    waves = SQUARE + 1j * normal(64, 64, seed=3)
    assert find_relation(waves, waves.T).kind == "transpose"
    assert find_relation(waves, waves.T.conj()) is None


def test_rows_of_zeros_do_not_hide_a_permutation():
    padded = np.concatenate([MATRIX, np.zeros((9, 32), np.float32)])
    order = np.random.default_rng(2).permutation(len(padded))
    found = find_relation(padded, padded[order])
    assert found.kind == "row_permutation"
    assert found.residual == 0.0


def test_a_coarser_tolerance_admits_more_noise():
    right = SQUARE.T + np.float32(0.05) * normal(64, 64, seed=4)
    assert find_relation(SQUARE, right) is None
    assert find_relation(SQUARE, right, tolerance=0.1).kind == "transpose"


def test_text_is_no_tensor():
    with pytest.raises(ValueError, match=r"find_relation needs numbers, got dtype <U1"):
        find_relation(np.array(["a"]), np.array(["a"]))


@given(
    seed=st.integers(0, 1000),
    shape=st.lists(st.integers(2, 6), min_size=1, max_size=4).map(tuple),
    data=st.data(),
)
def test_whatever_is_found_holds(seed, shape, data):
    left = normal(*shape, seed=seed)
    axes = data.draw(st.permutations(range(left.ndim)))
    right = left.transpose(axes)
    found = find_relation(left, right)
    if found is not None:
        np.testing.assert_allclose(found.apply(left), right, rtol=1e-5, atol=1e-5)
    # Fewer than eight values are related by chance too often to claim anything.
    assert found is not None or left.size < 8


def benchmark():
    path = Path(__file__).parents[2] / "benchmarks" / "relations.py"
    spec = importlib.util.spec_from_file_location("benchmark_of_relations", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_plantings_are_recognised_and_unrelated_pairs_are_not():
    module = benchmark()
    count = 200 if os.environ.get("TNB_LONG") else 40
    missed = []
    for seed in range(count):
        random = np.random.default_rng(50_000 + seed)
        place = seed % (len(module.KINDS) + 3)
        packed = place >= len(module.KINDS)
        right, text = (
            module.packed(random) if packed else module.related(random, module.KINDS[place])
        )
        missed += [] if right else [(seed, text)]
    assert len(missed) <= math.floor(0.01 * count), missed
    assert module.false_claims(count // 4) == []


@pytest.mark.parametrize("by_way", [False, True])
def test_a_cast_is_one_whether_it_rounds_once_or_as_frameworks_do(by_way):
    wide = np.random.default_rng(0).standard_normal(512)
    wide[200], bfloat16 = 1 + 2**-8 + 2**-40, np.dtype(ml_dtypes.bfloat16)
    narrow = (wide.astype(np.float32) if by_way else stored_as(wide, bfloat16)).astype(bfloat16)
    assert float(narrow[200]) == (1.0 if by_way else 1.0078125)
    found = find_relation(wide, narrow)
    assert (found.kind, found.arguments["dtype"]) == ("cast", "bfloat16")
    assert float(found.apply(wide)[200]) == 1.0078125
