import numpy as np
import pytest

from tests.analysis.causes.decided import Tried, cause
from troubleshooter_nb.analysis.causes.case import Operands
from troubleshooter_nb.analysis.causes.layers import FITTERS, cause_of

ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def side(inputs, output, parameters=None, dtype="float32"):
    return Operands(inputs, parameters or {}, output, ROUNDOFF[dtype])


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


A, B = normal(4, 8, 64), normal(4, 8, 64, seed=1)


@pytest.mark.parametrize("factor", [1.0, 0.5, 1 / 3, 0.1])
@pytest.mark.parametrize(("word", "sign"), [("add", 1), ("sub", -1)])
def test_factors_of_both_terms_are_found(word, sign, factor):
    output = A + np.float32(sign * factor) * B
    best = FITTERS[word](side([A, B], output))[0]
    assert best.settings["first_factor"] == 1
    assert best.settings["second_factor"] == pytest.approx(factor, rel=1e-5)
    assert best.residual < 1e-6


@pytest.mark.parametrize(
    ("inputs", "word", "output", "scale"),
    [
        ([A, B], "mul", A * B, 1.0),
        ([A, None], "div", A / 8, 1 / 8),
        ([A], "mul", A * np.float32(8), 8.0),
        ([A, 1 + B**2], "div", A / (1 + B**2), 1.0),
    ],
)
def test_scales_of_products_and_quotients_are_found(inputs, word, output, scale):
    best = FITTERS[word](side(inputs, output))[0]
    assert best.settings["scale"] == pytest.approx(scale, rel=1e-6)


@pytest.mark.parametrize(
    ("value", "said"), [(-1e4, -1e4), (-np.inf, "-inf"), (np.finfo(np.float32).min, -3.4028235e38)]
)
def test_the_value_under_a_mask_is_read(value, said):
    mask = B > 1
    fits = FITTERS["maskedfill"](side([A, mask], np.where(mask, np.float32(value), A)))
    assert fits[0].settings["masked"] == "where true"
    got = fits[0].settings["mask_value"]
    assert got == said if isinstance(said, str) else got == pytest.approx(said)


def test_unrelated_values_fit_nothing():
    other = normal(4, 8, 64, seed=5)
    assert FITTERS["add"](side([A, B], other)) == []
    assert FITTERS["mul"](side([A, B], other)) == []
    assert FITTERS["maskedfill"](side([A, B > 1], other)) == []


def test_other_places_that_are_masked_are_another_mask():
    def tried(hidden, dtype="float32"):
        filled = np.where(hidden, np.float32(-1e4), A)
        return Tried(FITTERS, "maskedfill", side([A], filled, dtype=dtype))

    some, other = B > 1, B > 1.5
    assert cause(tried(some), tried(other)) == "none, different"
    assert cause(tried(some), tried(some)) is None
    seen = tried(some).operands.output
    assert seen.min() == -1e4


@pytest.mark.parametrize(
    ("stored", "dtype", "said"),
    [(-9984.0, "bfloat16", -1e4), (-1e4, "float32", -1e4), (-65504.0, "float16", -65504.0)],
)
def test_a_number_that_is_filled_in_is_told_as_it_was_before_it_was_stored(stored, dtype, said):
    filled = np.where(B > 1, np.float32(stored), A)
    best = FITTERS["maskedfill"](side([A], filled, dtype=dtype))[0]
    assert best.settings["mask_value"] == said


def shift(x, output):
    return FITTERS["add"](Operands([np.asarray(x)], {}, np.asarray(output), 0.0))


def test_a_number_added_to_positions_is_their_offset():
    found = shift(np.arange(12), np.arange(12) + 2)
    assert [fit.settings for fit in found] == [{"position_offset": 2}]
    assert cause_of("add", ["position_offset"], (found[0], found[0])) == (
        "position_offset",
        "position_offset",
    )


def test_a_number_added_to_other_whole_numbers_is_no_offset_of_positions():
    ids = np.array([7, 7, 3, 9])
    assert shift(ids, ids + 1)[0].settings == {"offset": 1}
    assert cause_of("add", ["offset"], (shift(ids, ids)[0], shift(ids, ids + 1)[0])) is None
    assert shift(ids, ids * 2) == []
    assert shift(ids, np.ones(4)) == []


@pytest.mark.parametrize("word", sorted(FITTERS))
def test_a_call_without_inputs_is_explained_by_nothing(word):
    assert FITTERS[word](side([], A)) == []


@pytest.mark.parametrize(
    ("word", "number", "said"),
    [("mul", 0.35, 0.35), ("add", 0.35, 0.35), ("sub", -2.5, -2.5), ("add", 1e-3, 1e-3)],
)
def test_the_number_beside_one_input_is_fitted(word, number, said):
    x = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)
    made = {"mul": x * np.float32(number), "add": x + np.float32(number)}
    made["sub"] = x - np.float32(number)
    best = FITTERS[word](side([x], made[word]))[0]
    name = "scale" if word == "mul" else "constant"
    assert best.settings[name] == pytest.approx(said, rel=1e-6)
    assert best.residual < 1e-7
