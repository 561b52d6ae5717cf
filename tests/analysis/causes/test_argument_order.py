import numpy as np
import pytest

from tests.analysis.causes.decided import Tried, decided
from troubleshooter_nb.analysis.causes.argument_order import argument_order
from troubleshooter_nb.analysis.causes.case import Fit, Operands
from troubleshooter_nb.analysis.causes.fits import ranked
from troubleshooter_nb.analysis.causes.layers import FITTERS
from troubleshooter_nb.metrics.float_formats import in_format

ROUNDOFFS = {2.0**-24: "float32", 2.0**-11: "float16", 2.0**-8: "bfloat16"}


def stored(values, roundoff):
    """Values as a short format holds them."""
    return in_format(values, ROUNDOFFS[roundoff]).astype(np.float32)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("word", "operation"),
    [
        ("sub", np.subtract),
        ("subtract", np.subtract),
        ("div", np.divide),
        ("truediv", np.divide),
        ("pow", np.power),
        ("atan2", np.arctan2),
    ],
)
@pytest.mark.parametrize("roundoff", ROUNDOFFS)
@pytest.mark.parametrize("shape", [(30,), (20, 30)])
def test_swapped_arguments(word, operation, shape, roundoff):
    first, second = (
        stored(1 + normal(*shape) ** 2, roundoff),
        stored(normal(*shape[-1:], seed=1), roundoff),
    )
    fits = []
    for pair in ((first, second), (second, first)):
        with np.errstate(invalid="ignore"):
            output = stored(operation(*pair), roundoff)
        fits.append(Tried(FITTERS, word, Operands([first, second], {}, output, roundoff)))
    assert [side[0].settings["arguments"] for side in fits] == ["in order", "swapped"]
    found = decided(*fits)
    assert found.suspicion.cause == "argument_order"
    assert max(found.left_over) < 3.0
    assert all(decided(side, side).outcome == "same" for side in fits)


def test_equal_arguments_do_not_tell_their_order():
    x = np.abs(normal(40)) + 1
    found = FITTERS["divide"](Operands([x, x], {}, x / x, 2.0**-24))
    assert found[0].uncertainty["arguments"] == np.inf
    assert FITTERS["subtract"](Operands([x, normal(3)], {}, x, 2.0**-24)) == []
    assert FITTERS["subtract"](Operands([x], {}, x, 2.0**-24)) == []


def eps_fit(eps):
    return Fit({"statistics": "running", "eps": eps}, 1e-7, {"eps": 1e-6})


KNOWN = {"eps": 1e-5, "momentum": 0.1, "training": False}


def test_a_momentum_taken_for_eps():
    found = argument_order((eps_fit(0.1), eps_fit(1e-5)), ({}, KNOWN), 0.05, 1e-6)
    assert found.cause == "argument_order"
    assert found.evidence["setting"] == "eps"
    assert found.evidence["meant"] == "momentum"
    assert found.evidence["side"] == "left"


def test_who_has_the_number_under_both_names_took_none_for_another():
    known = {"eps": 0.1, "momentum": 0.1}, KNOWN
    assert argument_order((eps_fit(0.1), eps_fit(1e-5)), known, 0.05, 1e-6) is None
    taken = {"eps": 0.1, "momentum": 1e-5}, KNOWN
    assert argument_order((eps_fit(0.1), eps_fit(1e-5)), taken, 0.05, 1e-6) is not None


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


def test_fits_are_ranked_with_how_sure_the_choices_of_the_best_are():
    fits = [
        Fit({"form": "a", "eps": 1.0}, 0.3),
        Fit({"form": "b", "eps": 1.0}, 0.1),
        Fit({"form": "b", "eps": 2.0}, 0.2),
        Fit({"form": "c", "eps": 2.0}, np.nan),
    ]
    found = ranked(fits, 100, 1e-7, limit=0.2)
    said = [(*fit.settings.values(), fit.residual) for fit in found]
    assert said == [("b", 1.0, 0.1), ("b", 2.0, 0.2), ("a", 1.0, 0.3)]
    # by hand: 0.1 / sqrt(100 (0.09 - 0.01))
    assert found[0].uncertainty["form"] == pytest.approx(0.1 / 8**0.5)
    assert "eps" not in found[0].uncertainty
    assert ranked(fits, 100, 1e-7, limit=0.05) == []


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
        doubts.append(ranked(fits, count, 1e-7, limit=1.0)[0].uncertainty["form"])
    assert doubts[0] > 0.25 > doubts[1]
