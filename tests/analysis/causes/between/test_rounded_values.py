"""Earlier values that one side rounded on their way."""

import numpy as np
import pytest

from troubleshooter_nb.analysis.causes.between.earlier_values import EarlierValues, Source
from troubleshooter_nb.analysis.causes.between.rounded_values import rounded_suspicions
from troubleshooter_nb.analysis.causes.case import TensorPair
from troubleshooter_nb.metrics.float_formats import in_format

FLOOR = 2.0**-23


def scores():
    values = np.random.default_rng(3).standard_normal((2, 2, 6, 6)).astype(np.float32)
    return np.where(np.tril(np.ones((6, 6), bool)), values, np.float32(-np.inf))


def side(target, source, word="softmax"):
    return EarlierValues(target, (Source("scores", 0, "mul", source),), (), FLOOR, FLOOR / 2, word)


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
@pytest.mark.parametrize(
    ("word", "cause"), [("softmax", "softmax_precision_path"), ("linear", "low_precision_cast")]
)
def test_the_format_of_a_cast_before_a_call_is_told(name, word, cause):
    given = scores()
    short = in_format(given, name).astype(np.float32)
    (found,) = rounded_suspicions(
        TensorPair(7, "x", rel_l2=1e-3), side(short, given, word), side(given, given, word)
    )
    assert (found.cause, found.pair, found.residual) == (cause, 7, 0.0)
    assert (found.evidence["side"], found.evidence["format"]) == ("left", name)


def test_a_cast_on_both_sides_and_other_values_are_none():
    given = scores()
    short = in_format(given, "bfloat16").astype(np.float32)
    both = side(short, given), side(short, given)
    assert rounded_suspicions(TensorPair(7, "x"), *both) == []
    near = (given * np.float32(1.001)).astype(np.float32)
    assert rounded_suspicions(TensorPair(7, "x"), side(near, given), side(given, given)) == []
