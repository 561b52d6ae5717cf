"""Tables of cosines and sines that modules of people's own make of positions."""

from __future__ import annotations

import numpy as np
import pytest

import troubleshooter_nb as tnb
from tests.analysis.causes.decided import Tried, decided
from troubleshooter_nb.analysis.causes.case import Operands
from troubleshooter_nb.analysis.causes.searches.rotary_tables import ROTARY_TABLE
from troubleshooter_nb.metrics.float_formats import in_format

FITTERS = {"rotarytable": ROTARY_TABLE.fit}


def table(rows, size, theta=1e4, *, offset=0, function=np.cos, repeated="halves", form=""):
    """As models write it, in float32."""
    rates = np.float32(theta ** (-np.arange(0, size, 2) / size))
    places = np.arange(rows, dtype=np.float32) + np.float32(offset)
    places = in_format(places, form).astype(np.float32) if form else places
    made = function(places[:, None] * rates).astype(np.float32)
    if repeated == "neighbours":
        return np.repeat(made, 2, axis=-1)
    return np.concatenate([made, made], axis=-1) if repeated == "halves" else made


def tried(values, positions=None):
    positions = np.arange(len(values)) if positions is None else positions
    return Tried(FITTERS, "rotarytable", Operands([positions], {}, values, 2.0**-24))


@pytest.mark.parametrize("function", [np.cos, np.sin])
@pytest.mark.parametrize(
    ("rows", "size", "theta", "offset"),
    [(8, 8, 1e4, 0), (16, 64, 5e5, 0), (11, 16, 1e4, 250), (512, 128, 1e6, 1), (8, 12, 1.001e4, 3)],
)
def test_base_and_offset_are_those_it_was_made_with(rows, size, theta, offset, function):
    (best, *_) = tried(table(rows, size, theta, offset=offset, function=function))
    assert best.residual < 1e-6
    assert best.settings["theta"] == pytest.approx(theta, rel=1e-6)
    said = [best.settings[name] for name in ("function", "position_offset", "frequency_scale")]
    assert said == [function.__name__, offset, 1.0]


@pytest.mark.parametrize("repeated", ["halves", "neighbours", "once"])
def test_how_often_an_angle_is_stored_is_told(repeated):
    (best, *_) = tried(table(16, 16, repeated=repeated))
    assert (best.settings["repeated"], best.residual < 1e-6) == (repeated, True)


def test_a_table_for_each_item_is_read_by_its_positions():
    positions = np.array([[0, 1, 2, 3, 4, 5], [0, 0, 1, 2, 3, 4]])
    (best, *_) = tried(table(6, 16)[positions], positions)
    assert (best.settings["theta"], best.residual < 1e-6) == (1e4, True)


@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({"theta": 5e5}, "rope_theta"),
        ({"offset": 2}, "position_offset"),
        ({"form": "bfloat16", "offset": 255}, "position_low_precision"),
        ({"repeated": "neighbours"}, "rope_interleave"),
    ],
)
def test_what_two_tables_differ_in_is_the_cause(changed, cause):
    usual = {"offset": changed["offset"]} if "form" in changed else {}
    found = decided(tried(table(40, 32, **changed)), tried(table(40, 32, **usual)))
    assert (found.outcome, found.suspicion.cause) == ("different", cause)


@pytest.mark.parametrize("values", ["noise", "constant", "ramp"])
def test_other_tables_are_none(values):
    made = {
        "noise": np.random.default_rng(0).uniform(-1, 1, (16, 16)),
        "constant": np.ones((16, 16)),
        "ramp": np.linspace(0, 1, 16)[:, None] * np.linspace(1, 0.1, 16),
    }
    found = tried(made[values].astype(np.float32))
    assert not found or found[0].residual > 1e-3


def test_a_module_of_an_own_class_is_asked(tmp_path):
    for side, theta in (("left", 5e5), ("right", 1e4)):
        folder = tmp_path / side
        folder.mkdir()
        np.save(folder / "0_angles.in.npy", np.arange(12))
        np.save(folder / "1_angles.out.npy", table(12, 16, theta))
    found = tnb.compare(tmp_path / "left", tmp_path / "right", progress=False)
    assert [one.cause for one in found.findings] == ["rope_theta"]
