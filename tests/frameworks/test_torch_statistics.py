"""Statistics of torch tensors are those of their arrays, on the host and on a device."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from troubleshooter_nb.metrics.sketches import statistics_of

if importlib.util.find_spec("torch"):  # else all of these tests are deselected
    import torch

    from troubleshooter_nb.frameworks import torch_statistics
    from troubleshooter_nb.frameworks.torch_ import to_numpy
    from troubleshooter_nb.frameworks.torch_statistics import (
        OnDevice,
        measured,
        measured_on_device,
        read_measured,
    )

    ROADS = {"host": measured, "device": measured_on_device}

pytestmark = pytest.mark.torch
FLOATS = ["float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
INTEGERS = ["bool", "int8", "uint8", "int16", "int32", "int64"]
# float64 sums in another order, relative to the norm of the values.
ROUNDING = 1e-12


@pytest.fixture(autouse=True, scope="module")
def quiet():
    with torch.no_grad():
        yield


def values_of(token, size, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(size, generator=generator) * 30).to(getattr(torch, token))


def same(found, expected):
    assert list(found) == list(expected)
    for name, value in expected.items():
        if name in ("mean", "l2", "fingerprint"):
            atol = ROUNDING * expected["l2"]
            np.testing.assert_allclose(found[name], value, ROUNDING, atol, err_msg=name)
        else:
            np.testing.assert_equal(found[name], value, err_msg=name)


def both(tensor, fingerprint=True):
    array = to_numpy(tensor)
    for road in ROADS.values():
        (found,) = read_measured([road(tensor, fingerprint)])
        same(found, statistics_of(array, fingerprint))


@pytest.mark.parametrize("token", [*FLOATS, *INTEGERS])
def test_both_roads_give_what_numpy_gives(token):
    for size in (0, 1, 511, 512, 513, 20_000):
        both(values_of(token, size))
    both(values_of(token, 1000), fingerprint=False)


@pytest.mark.parametrize("token", ["float32", "float64", "float16", "bfloat16"])
def test_nan_and_infinities_are_counted_on_both_roads(token):
    tensor = values_of(token, 3000)
    tensor[5:900:3] = torch.nan
    tensor[6:900:3] = torch.inf
    tensor[7:900:6] = -torch.inf
    both(tensor)
    both(tensor[5:900:3].contiguous())  # nothing is finite


@pytest.mark.parametrize("road", ["host", "device"])
def test_layouts_are_read_in_c_order(road):
    plain = values_of("float32", 6000)
    layouts = {
        "transposed": plain.view(60, 100).t(),
        "sliced": plain.view(60, 100)[3:, ::7],
        "expanded": plain[:60].view(60, 1).expand(60, 40),
        "channels last": plain.view(5, 4, 15, 20).contiguous(memory_format=torch.channels_last),
        "scalar": plain[7],
    }
    for name, tensor in layouts.items():
        (found,) = read_measured([ROADS[road](tensor, True)])
        same(found, statistics_of(to_numpy(tensor).copy(order="C"), True)), name


def test_a_gradient_may_be_asked_for():
    tensor = torch.nn.Parameter(values_of("float32", 100))
    with torch.enable_grad():
        both((tensor * 2).detach())
        same(measured(tensor * 2, True), statistics_of(to_numpy(tensor * 2), True))


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.view_as_complex(torch.ones(50, 2)),
        lambda: torch.view_as_complex(torch.ones(50, 2)).conj(),
        lambda: torch.view_as_complex(torch.arange(100.0).view(50, 2)).conj().imag,
        lambda: torch.eye(9).to_sparse(),
    ],
    ids=["complex", "conjugate", "negated view", "sparse"],
)
def test_what_does_not_lie_in_memory_as_it_is_goes_through_numpy(make):
    same(measured(make(), True), statistics_of(to_numpy(make()), True))


@pytest.mark.parametrize("value", [1e-30, 1e30, 3e38])
def test_squares_that_float32_does_not_hold_keep_their_norm(value):
    tensor = torch.full((700,), value)
    expected = np.linalg.norm(tensor.numpy().astype(np.float64))
    for road in ROADS.values():
        (found,) = read_measured([road(tensor, True)])
        np.testing.assert_allclose(found["l2"], expected, rtol=1e-12)


def test_a_device_is_measured_in_chunks_of_whole_rows(monkeypatch):
    tensor = values_of("float32", 5000)
    tensor[4000:] = torch.nan
    whole = read_measured([measured_on_device(tensor, True)])[0]
    monkeypatch.setattr(torch_statistics, "DEVICE_BLOCK", 1024)
    same(read_measured([measured_on_device(tensor, True)])[0], whole)


def test_a_device_without_float64_agrees_to_rounding_of_float32(monkeypatch):
    monkeypatch.setattr(torch_statistics, "_WITHOUT_FLOAT64", ("cpu",))
    tensor = values_of("bfloat16", 20_000)
    (found,) = read_measured([measured_on_device(tensor, True)])
    expected = statistics_of(to_numpy(tensor), True)
    # Sums of 20,000 float32 terms; relative to the norm, as distances are.
    for name, value in expected.items():
        atol = 1e-5 * expected["l2"]
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=atol, err_msg=name)


def test_what_was_begun_does_not_change_with_the_tensor():
    for road in ROADS.values():
        tensor = torch.ones(1000)
        begun = road(tensor, True)
        tensor.mul_(torch.nan)
        (found,) = read_measured([begun])
        same(found, statistics_of(np.ones(1000), True))


def test_statistics_of_all_kinds_are_read_together_in_their_sequence():
    tensors = [values_of(token, 100 + k, k) for k, token in enumerate(FLOATS[:4])]
    begun = [
        road(tensor, fingerprint)
        for tensor in tensors
        for road in ROADS.values()
        for fingerprint in (True, False)
    ]
    assert sum(isinstance(one, OnDevice) for one in begun) == 8
    found = read_measured(begun)
    expected = [
        statistics_of(to_numpy(t), f) for t in tensors for _ in ROADS for f in (True, False)
    ]
    for ours, theirs in zip(found, expected, strict=True):
        same(ours, theirs)
    assert read_measured([]) == []


def test_tensors_without_values_are_refused():
    with pytest.raises(ValueError, match="a meta tensor has no values"):
        measured(torch.ones(3, device="meta"), True)
    refused = []

    def mapped(x):
        with pytest.raises(ValueError, match="makes no array"):
            measured(x, True)
        refused.append("vmap")
        return x

    def functional(x):
        with pytest.raises(ValueError, match="no memory of its own"):
            measured(x, True)
        refused.append("functionalize")
        return x

    torch.vmap(mapped)(torch.ones(2, 3))
    torch.func.functionalize(functional)(torch.ones(3))
    assert refused == ["vmap", "functionalize"]


def test_fake_tensors_are_refused():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(100)
    with pytest.raises(ValueError, match="makes no array"):
        measured(fake, True)


def test_measuring_leaves_the_random_state_and_the_tensor_alone():
    tensor = values_of("float32", 3000).requires_grad_()
    before, version = torch.get_rng_state(), tensor._version
    for road in ROADS.values():
        read_measured([road(tensor, True)])
    assert torch.equal(torch.get_rng_state(), before)
    assert (tensor._version, tensor.grad) == (version, None)
