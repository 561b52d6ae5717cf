import numpy as np
import pytest

from troubleshooter_nb.metrics.operators.convolution import (
    Geometry,
    Places,
    bordered,
    convolve_windows,
    stuffed,
    transposed_kernel,
    windows_at,
)


def test_a_window_by_hand():
    image = np.arange(12.0).reshape(1, 1, 3, 4)
    places = Places(np.array([0, 0]), np.array([0, 1]), np.array([0, 1]))
    geometry = Geometry(stride=(1, 2), before=(1, 0))
    seen = windows_at(bordered(image, (1, 1)), places, (2, 2), geometry, (1, 1))
    np.testing.assert_array_equal(seen[0, 0], [[0, 0], [0, 1]])
    np.testing.assert_array_equal(seen[1, 0], [[2, 3], [6, 7]])


def test_groups_see_their_own_channels():
    windows = np.ones((1, 4, 1, 1)) * np.arange(4).reshape(1, 4, 1, 1)
    sums = convolve_windows(windows, np.ones((2, 2, 1, 1)), np.array([0, 1]))
    np.testing.assert_array_equal(sums, [[0 + 1, 2 + 3]])


@pytest.mark.torch
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 1), (1, 2, 2)])
def test_convolutions_are_torchs(groups, stride, padding, dilation):
    import torch

    x = torch.randn(2, 4, 9, 8, dtype=torch.float64)
    weight = torch.randn(6, 4 // groups, 3, 3, dtype=torch.float64)
    expected = torch.nn.functional.conv2d(
        x, weight, stride=stride, padding=padding, dilation=dilation, groups=groups
    ).numpy()
    grid = np.meshgrid(*map(np.arange, (2, *expected.shape[2:])), indexing="ij")
    places = Places(*(axis.ravel() for axis in grid))
    geometry = Geometry((stride,) * 2, (dilation,) * 2, (padding,) * 2)
    seen = windows_at(bordered(x.numpy(), (5, 5)), places, (3, 3), geometry, (5, 5))
    got = convolve_windows(seen, weight.numpy(), np.arange(6) // (6 // groups))
    wanted = expected.transpose(0, 2, 3, 1).reshape(-1, 6)
    np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.torch
@pytest.mark.parametrize("groups", [1, 2])
def test_a_transposed_convolution_is_one_of_the_stuffed_image(groups):
    import torch
    from torch.nn import functional

    x = torch.randn(1, 4, 5, 6, dtype=torch.float64)
    weight = torch.randn(4, 3, 3, 3, dtype=torch.float64)
    expected = functional.conv_transpose2d(x, weight, stride=2, groups=groups)
    spaced = torch.tensor(stuffed(x.numpy(), (2, 2)))
    kernels = torch.tensor(transposed_kernel(weight.numpy(), groups).copy())
    got = functional.conv2d(spaced, kernels, padding=2, groups=groups)
    torch.testing.assert_close(got, expected)


@pytest.mark.torch
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_borders_are_torchs(mode):
    import torch

    x = torch.randn(1, 2, 5, 6)
    expected = torch.nn.functional.pad(x, (2, 2, 1, 1), mode=mode).numpy()
    np.testing.assert_array_equal(bordered(x.numpy(), (1, 2), mode), expected)
