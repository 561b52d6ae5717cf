import numpy as np
import pytest

from troubleshooter_nb.analysis.causes.case import Operands
from troubleshooter_nb.analysis.causes.searches.rotary import fit_rotary
from troubleshooter_nb.metrics.float_formats import in_format

ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def side(inputs, output, parameters=None, dtype="float32"):
    return Operands(inputs, parameters or {}, output, ROUNDOFF[dtype])


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


X = normal(2, 4, 400, 64)


def turned(x=X, theta=1e4, layout="halves", rotated=None, offset=0, factor=1.0, sin=1.0, form=""):
    """Written out in real numbers and float32, as models do it."""
    size = rotated or x.shape[-1]
    rates = np.float32(factor * theta ** (-np.arange(0, size, 2) / size))
    places = np.arange(x.shape[-2], dtype=np.float32) + np.float32(offset)
    kind, _, what = form.partition(" ")
    places = in_format(places, kind).astype(np.float32) if what == "positions" else places
    angle = places[:, None] * rates
    angle = in_format(angle, kind).astype(np.float32) if what == "angles" else angle
    c, s, part = np.cos(angle), np.float32(sin) * np.sin(angle), x[..., :size]
    out = x.copy()
    if layout == "halves":
        a, b = part[..., : size // 2], part[..., size // 2 :]
        out[..., :size] = np.concatenate([a * c - b * s, b * c + a * s], axis=-1)
    else:
        a, b = part[..., 0::2], part[..., 1::2]
        out[..., :size:2], out[..., 1:size:2] = a * c - b * s, b * c + a * s
    return out


STANDARD = {
    "norm": "kept",
    "theta": 1e4,
    "layout": "halves",
    "rotated": 64,
    "position_offset": 0,
    "frequency_scale": 1.0,
    "angle_precision": "float32",
}


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        ({}, {}),
        ({"theta": 5e5}, {"theta": 5e5}),
        ({"theta": 123456.0}, {"theta": pytest.approx(123456, rel=1e-4)}),
        ({"layout": "interleaved"}, {"layout": "interleaved"}),
        ({"rotated": 32}, {"rotated": 32}),
        ({"offset": 17}, {"position_offset": 17}),
        ({"factor": 0.25}, {"frequency_scale": 0.25}),
        ({"form": "bfloat16 positions"}, {"angle_precision": "bfloat16 positions"}),
        ({"form": "bfloat16 angles"}, {"angle_precision": "bfloat16 angles"}),
    ],
)
def test_rotary_encodings_say_what_they_did(arguments, changed):
    best = fit_rotary(side([X], turned(**arguments)))[0]
    assert best.residual < 1e-6
    assert {key: best.settings[key] for key in STANDARD} == {**STANDARD, **changed}


@pytest.mark.parametrize(("offset", "theta"), [(250, 1e4), (1000, 5e5)])
def test_few_positions_that_a_short_format_counts_twice(offset, theta):
    x = X[:, :, :12]
    output = turned(x, theta=theta, offset=offset, form="bfloat16 positions")
    best = fit_rotary(side([x], output))[0]
    assert best.residual < 1e-6
    found = {name: best.settings[name] for name in ("theta", "angle_precision")}
    assert found == {"theta": theta, "angle_precision": "bfloat16 positions"}


@pytest.mark.parametrize("length", [12, 60])
def test_short_texts_and_the_other_layout_of_axes_do(length):
    x = X[:, :, :length]
    output = turned(x, theta=1e6, offset=3)
    inputs = [x.swapaxes(1, 2)]
    best = fit_rotary(side(inputs, output.swapaxes(1, 2)))[0]
    assert best.settings["position_axis"] == 1
    assert best.settings["position_offset"] == 3
    assert best.settings["theta"] == pytest.approx(1e6, rel=1e-3)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_theta_is_found_under_rounding(dtype):
    x = in_format(X, dtype).astype(np.float32)
    output = in_format(turned(x, theta=1e6), dtype).astype(np.float32)
    best = fit_rotary(side([x], output, dtype=dtype))[0]
    assert best.settings["theta"] == pytest.approx(1e6, rel=1e-2)
    assert best.residual < ROUNDOFF[dtype]


def test_a_kernel_that_changes_lengths_is_seen():
    best = fit_rotary(side([X], turned(sin=0.9)))[0]
    assert best.settings["norm"] == "not kept"


def test_unrelated_equal_and_short_values_fit_nothing():
    assert fit_rotary(side([X], normal(*X.shape, seed=5))) == []
    assert fit_rotary(side([X], X)) == []
    assert fit_rotary(side([X[:, :, :3]], turned(X[:, :, :3]))) == []
