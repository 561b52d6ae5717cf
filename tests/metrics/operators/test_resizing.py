import numpy as np
import pytest

from troubleshooter_nb.metrics.operators.resizing import (
    cubic_matrix,
    linear_matrix,
    nearest_matrix,
    resized,
)


def test_a_ramp_by_hand():
    ramp = np.array([[0.0, 1.0, 2.0]])
    one = np.eye(1)
    corners = resized(ramp, one, linear_matrix(3, 5, "align_corners"))
    np.testing.assert_allclose(corners, [[0, 0.5, 1, 1.5, 2]])
    half = resized(ramp, one, linear_matrix(3, 6, "half_pixel"))
    np.testing.assert_allclose(half, [[0, 0.25, 0.75, 1.25, 1.75, 2]])


@pytest.mark.parametrize(
    ("rounding", "cells"), [("floor", [0, 0, 1]), ("half up", [0, 1, 1]), ("half down", [0, 0, 1])]
)
def test_the_middle_is_rounded_as_asked(rounding, cells):
    weights = nearest_matrix(2, 3, "align_corners", rounding)
    assert weights.argmax(axis=1).tolist() == cells


@pytest.mark.torch
@pytest.mark.parametrize("size", [7, 13, 24])
@pytest.mark.parametrize(
    ("mode", "corners", "matrix"),
    [
        ("nearest", None, lambda n, m: nearest_matrix(n, m, "asymmetric", "floor")),
        ("nearest-exact", None, lambda n, m: nearest_matrix(n, m, "half_pixel", "half up")),
        ("bilinear", False, lambda n, m: linear_matrix(n, m, "half_pixel")),
        ("bilinear", True, lambda n, m: linear_matrix(n, m, "align_corners")),
        ("bicubic", False, lambda n, m: cubic_matrix(n, m, "half_pixel", -0.75)),
        ("bicubic", True, lambda n, m: cubic_matrix(n, m, "align_corners", -0.75)),
    ],
)
def test_resizes_are_torchs(mode, corners, matrix, size):
    import torch

    x = torch.randn(1, 1, 12, 12, dtype=torch.float64)
    expected = torch.nn.functional.interpolate(x, (size, size), mode=mode, align_corners=corners)
    weights = matrix(12, size)
    got = resized(x.numpy()[0, 0], weights, weights)
    np.testing.assert_allclose(got, expected.numpy()[0, 0], rtol=1e-9, atol=1e-9)


@pytest.mark.torch
@pytest.mark.parametrize(("size", "output"), [(112, 96), (224, 192), (7, 24), (100, 37)])
def test_the_nearest_of_float32_is_torchs(size, output):
    import torch

    x = torch.arange(size, dtype=torch.float32)
    expected = torch.nn.functional.interpolate(x[None, None], output, mode="nearest")[0, 0]
    weights = nearest_matrix(size, output, "asymmetric", "floor", steps="float32")
    np.testing.assert_array_equal(weights @ x.numpy(), expected.numpy())


@pytest.mark.torch
def test_antialias_is_torchs():
    import torch

    x = torch.randn(1, 1, 12, 12, dtype=torch.float64)
    expected = torch.nn.functional.interpolate(x, (5, 5), mode="bilinear", antialias=True)
    weights = linear_matrix(12, 5, "half_pixel", antialias=True)
    got = resized(x.numpy()[0, 0], weights, weights)
    np.testing.assert_allclose(got, expected.numpy()[0, 0], rtol=1e-9, atol=1e-9)
