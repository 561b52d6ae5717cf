"""Weights and gradients in a mapping are compared and diagnosed as the same files are."""

from __future__ import annotations

import numpy as np
import pytest

from troubleshooter_nb import Dump, compare, pair_dumps, save_dump


def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {f"l{i}.weight": rng.standard_normal((16, 16)).astype(np.float32) for i in range(4)}


def transposed(given):
    return {**given, "l2.weight": given["l2.weight"].T.copy()}


def swapped(given):
    return {**given, "l1.weight": given["l2.weight"], "l2.weight": given["l1.weight"]}


def not_loaded(given):
    return {**given, "l1.weight": np.zeros_like(given["l1.weight"])}


def scaled(given):
    return {name: w * np.float32(1.01) if name > "l2" else w for name, w in given.items()}


def said(comparison):
    """What must not depend on where the weights lie."""
    table = comparison.to_dataframe()[["role", "direction", "verdict", "origin"]]
    checks = {check.what: check.status for check in comparison.preflight if check.what != "cards"}
    causes = [(found.cause, found.confidence) for found in comparison.findings]
    return table.to_numpy().tolist(), checks, causes, str(comparison.first_divergence.row["order"])


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (transposed, ["linear_transposed"]),
        (swapped, ["wrong_layer_loaded"]),
        (not_loaded, ["tensor_not_loaded"]),
        (scaled, []),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".safetensors"])
def test_weights_in_memory_are_diagnosed_as_those_on_disk(tmp_path, change, cause, suffix):
    right = weights()
    left = change(right)
    for name, arrays in (("left", left), ("right", right)):
        save_dump(arrays, tmp_path / f"{name}{suffix}")
    got = compare(left, right)
    assert [found.cause for found in got.findings] == cause
    assert got.first_divergence.row["role"].item() == "parameter"
    assert said(got) == said(compare(tmp_path / f"left{suffix}", tmp_path / f"right{suffix}"))


def test_every_changed_parameter_is_a_difference_of_its_own():
    """None of them is computed from another, however they follow each other."""
    origins = compare(scaled(weights()), weights()).result["origin"].values.tolist()
    assert origins == ["", "", "created", "created"]


def test_preflight_knows_parameters_and_buffers_in_memory():
    right = {"bn.gamma": np.ones(3), "bn.moving_mean": np.zeros(3)}
    left = {"bn.weight": np.ones(3), "bn.running_mean": np.ones(3)}
    checks = {one.what: one.status for one in compare(left, right).preflight}
    assert checks["parameters"] == "ok"
    assert checks["buffers"] == "bad"


def test_gradients_in_memory_are_those_of_parameters():
    """A loss that is summed on one side and averaged over 8 samples on the other."""
    right = {f"grads.{name}": values for name, values in weights().items()}
    left = {name: values * np.float32(8) for name, values in right.items()}
    [found] = compare(left, right).findings
    assert found.cause == "loss_reduction"
    assert found.evidence["factor"] == pytest.approx(8)


@pytest.mark.torch
def test_the_state_of_two_networks():
    import torch

    def network() -> torch.nn.Module:
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8))

    left, right = network(), network()
    with torch.no_grad():
        left[0].weight.copy_(right[0].weight.T.clone())
    got = compare(left.state_dict(), right.state_dict())
    assert [found.cause for found in got.findings] == ["linear_transposed"]
    roles = Dump.from_arrays(right.state_dict()).index["role"].values.tolist()
    assert roles == ["parameter"] * 4 + ["buffer"] * 3


def test_arrays_are_compared_where_they_lie_and_stay_the_callers():
    left, right = weights(), weights()
    for name, dump in (("left", left), ("right", right)):
        [*sources] = getattr(compare(left, right).pairing, name).sources
        for source, array in zip(sources, dump.values(), strict=True):
            assert np.shares_memory(source.array, array)
            assert not source.array.flags.writeable
            assert array.flags.writeable


def test_a_pairing_alone_keeps_copies():
    left = weights()
    pairing = pair_dumps(left, weights())
    left["l0.weight"][:] = 0
    assert pairing.left.array("l0.weight").any()


def test_views_in_any_order_are_compared_like_copies():
    right = weights()
    left = {name: w.T.copy().T for name, w in right.items()}
    left["l1.weight"] = left["l1.weight"][::-1]
    copied = {name: w.copy() for name, w in left.items()}
    one, other = compare(left, right), compare(copied, right)
    assert one.result.equals(other.result)


@pytest.mark.torch
def test_tensors_of_the_host_are_compared_where_they_lie():
    import torch

    left = {"a": torch.ones(4, dtype=torch.bfloat16), "b": torch.ones(4, requires_grad=True)}
    sources = compare(left, left).pairing.left.sources
    with torch.no_grad():
        for tensor in left.values():
            tensor += 1
    assert [float(source.read(0, 1)[0]) for source in sources] == [2, 2]
    assert [source.dtype.name for source in sources] == ["bfloat16", "float32"]
