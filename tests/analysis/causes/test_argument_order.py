import numpy as np
import pytest

from troubleshooter_nb.analysis.causes.case import Fit, Operands
from troubleshooter_nb.analysis.causes.layers.argument_order import FITTERS, argument_order
from troubleshooter_nb.analysis.causes.layers.ranking import differing, ranked


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("word", "operation"), [("sub", np.subtract), ("div", np.divide)])
@pytest.mark.parametrize("shape", [(30,), (20, 30)])
def test_swapped_arguments(word, operation, shape):
    first, second = normal(*shape), normal(*shape[-1:], seed=1)
    fits = []
    for pair in ((first, second), (second, first)):
        operands = Operands([first, second], {}, operation(*pair), 2.0**-24)
        fits.append(FITTERS[word](operands))
    assert [side[0].settings["arguments"] for side in fits] == ["in order", "swapped"]
    assert differing(fits[0][0], fits[1][0]) == ["arguments"]
    assert max(side[0].residual for side in fits) < 1e-7


def test_equal_arguments_do_not_tell_their_order():
    x = np.abs(normal(40)) + 1
    found = FITTERS["div"](Operands([x, x], {}, x / x, 2.0**-24))
    assert found[0].uncertainty["arguments"] == np.inf
    assert FITTERS["sub"](Operands([x, normal(3)], {}, x, 2.0**-24)) == []
    assert FITTERS["sub"](Operands([x], {}, x, 2.0**-24)) == []


def eps_fit(eps):
    return Fit({"statistics": "running", "eps": eps}, 1e-7, {"eps": 1e-6})


KNOWN = {"eps": 1e-5, "momentum": 0.1, "training": False}


def test_a_momentum_taken_for_eps():
    found = argument_order((eps_fit(0.1), eps_fit(1e-5)), ({}, KNOWN), 0.05, 1e-6)
    assert found.cause == "argument_order"
    assert found.evidence["setting"] == "eps"
    assert found.evidence["meant"] == "momentum"
    assert found.evidence["side"] == "left"


@pytest.mark.parametrize(
    ("left", "right", "known"),
    [
        (1e-5, 1e-5, KNOWN),
        (0.3, 1e-5, KNOWN),  # called nothing
        (0.1, 1e-3, KNOWN),  # the other side does not use its own record either
        (0.1, 1e-5, KNOWN | {"drop": 0.1}),  # called two things
        (0.1, 1e-5, {}),
    ],
)
def test_numbers_without_another_name_are_no_order(left, right, known):
    assert argument_order((eps_fit(left), eps_fit(right)), ({}, known), 0.05, 1e-6) is None


def test_fits_are_ranked_and_the_best_of_each_choice_kept():
    fits = [
        Fit({"form": "a", "eps": 1.0}, 0.3),
        Fit({"form": "b", "eps": 1.0}, 0.1),
        Fit({"form": "b", "eps": 2.0}, 0.2),
        Fit({"form": "c", "eps": 2.0}, np.nan),
    ]
    found = ranked(fits, 100, 1e-7)
    assert [(fit.settings["form"], fit.residual) for fit in found] == [("b", 0.1), ("a", 0.3)]
    # by hand: 0.1 / sqrt(100 (0.09 - 0.01))
    assert found[0].uncertainty["form"] == pytest.approx(0.1 / 8**0.5)
    assert "eps" not in found[0].uncertainty


def test_the_projection_tells_how_sure_a_choice_is():
    # Of two formulas a tenth of the noise apart, 400 elements do not tell; 40000 do.
    rng = np.random.default_rng(0)
    doubts = []
    for count in (400, 40000):
        first = rng.standard_normal(count)
        second = first + 0.01 * rng.standard_normal(count)
        output = first + 0.1 * rng.standard_normal(count)
        norm = np.linalg.norm(output)
        fits = [Fit({"form": name}, float(np.linalg.norm(output - formula) / norm))
                for name, formula in (("first", first), ("second", second))]  # fmt: skip
        doubts.append(ranked(fits, count, 1e-7)[0].uncertainty["form"])
    assert doubts[0] > 0.25 > doubts[1]
