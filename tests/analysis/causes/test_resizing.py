import numpy as np
import pytest

from troubleshooter_nb.analysis.causes.case import Operands
from troubleshooter_nb.analysis.causes.laws.resizing import RESIZING

ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def side(inputs, output, parameters=None, dtype="float32"):
    return Operands(inputs, parameters or {}, output, ROUNDOFF[dtype])


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.torch
@pytest.mark.parametrize("size", [(20, 21), (50, 47), (66, 68)])
@pytest.mark.parametrize(
    ("arguments", "resize", "coordinates"),
    [
        ({"mode": "nearest"}, "nearest", "asymmetric"),
        ({"mode": "bilinear"}, "linear", "half_pixel"),
        ({"mode": "bilinear", "align_corners": True}, "linear", "align_corners"),
        ({"mode": "bicubic"}, "cubic", "half_pixel"),
        ({"mode": "bicubic", "align_corners": True}, "cubic", "align_corners"),
    ],
)
def test_conventions_of_torch_are_found(arguments, resize, coordinates, size):
    import torch

    x = torch.randn(2, 3, 33, 34)
    output = torch.nn.functional.interpolate(x, size, **arguments).numpy()
    fits = RESIZING.fit(side([x.numpy()], output))
    assert (fits[0].settings["resize"], fits[0].settings["coordinates"]) == (resize, coordinates)
    # Coordinates are computed in float32 there.
    assert fits[0].residual < 1e-5
    assert fits[1].residual > 1e-2


@pytest.mark.torch
def test_antialias_and_the_nearest_rounding_are_seen():
    import torch

    x = torch.randn(2, 3, 33, 34)
    smooth = torch.nn.functional.interpolate(x, (10, 11), mode="bilinear", antialias=True).numpy()
    assert RESIZING.fit(side([x.numpy()], smooth))[0].settings["antialias"] is True
    exact = torch.nn.functional.interpolate(x, (20, 21), mode="nearest-exact").numpy()
    assert RESIZING.fit(side([x.numpy()], exact))[0].settings["coordinates"] == "half_pixel"


def test_constant_unrelated_and_unresized_values_fit_nothing():
    x = normal(2, 3, 8, 8)
    assert RESIZING.fit(side([np.ones_like(x)], np.ones((2, 3, 16, 16), np.float32))) == []
    assert RESIZING.fit(side([x], normal(2, 3, 16, 16, seed=1))) == []
    assert RESIZING.fit(side([x], x)) == []
