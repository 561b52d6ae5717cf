"""What only one side has is where two runs part, if nothing else differs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.analysis.runs import chain
from troubleshooter_nb import compare, draft_weight_map
from troubleshooter_nb.dump import Dump, Entry
from troubleshooter_nb.naming import Site


def weights(prefix: str = "") -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {"weight": (8, 8), "bias": (8,)}
    return {
        f"{prefix}fc{k}.{leaf}": rng.standard_normal(shape).astype(np.float32)
        for k in range(3)
        for leaf, shape in shapes.items()
    }


def without(arrays: dict[str, np.ndarray], *names: str) -> dict[str, np.ndarray]:
    return {name: array for name, array in arrays.items() if name not in names}


def first_of(found) -> str:
    row = found.first_divergence.row
    return str(row["left_display"].values) or str(row["right_display"].values)


@pytest.mark.parametrize("turned", [False, True])
def test_a_bias_that_only_one_side_has_is_the_origin_and_the_cause(turned):
    sides = [without(weights(), "fc1.bias"), weights()]
    found = compare(*(sides[::-1] if turned else sides))
    assert first_of(found) == "fc1.bias"
    [cause] = found.findings
    assert (cause.cause, cause.evidence["left"]) == (
        ("bias_missing", "applied") if turned else ("bias_missing", "absent")
    )
    assert "No difference begins anywhere" not in str(found.explain())
    assert "only one side has fc1.bias" in found.verdict
    assert found.exit_code == 2


def test_a_bias_of_zeros_changes_nothing():
    right = weights()
    right["fc1.bias"] = np.zeros(8, np.float32)
    found = compare(without(right, "fc1.bias"), right)
    assert first_of(found) == "fc1.bias"
    assert found.findings == ()


def test_a_gradient_that_only_one_side_has():
    right = weights("grads.")
    found = compare(without(right, "grads.fc0.weight"), right)
    assert first_of(found) == "grads.fc0.weight"
    assert [one.cause for one in found.findings] == ["gradient_missing"]


def test_a_call_that_only_one_side_made():
    left, right = chain(layers=4), chain(layers=3)
    found = compare(left, right)
    assert "fc3" in first_of(found)
    assert found.findings[0].cause == "call_missing"
    assert found.findings[0].confidence < 0.5


def test_what_both_sides_have_left_over_may_be_the_same_and_is_no_origin():
    right = weights()
    left = without(right, "fc1.bias") | {"other.bias": np.zeros(5, np.float32)}
    found = compare(left, right)
    assert found.findings == ()


def test_beside_pairs_that_differ_what_is_missing_is_none():
    right = weights()
    left = without(right, "fc1.bias")
    left["fc2.weight"] = left["fc2.weight"] * np.float32(1.5)
    found = compare(left, right)
    assert first_of(found) == "fc2.weight"
    assert "bias_missing" not in [one.cause for one in found.findings]


def recorded(noise: float, nan_from: int) -> Dump:
    """Statistics alone of a chain of dense layers, of which one gives NaN."""
    rng, entries = np.random.default_rng(0), []
    x = rng.standard_normal((32, 16))
    for k in range(8):
        y = np.tanh(x @ rng.standard_normal((16, 16)))
        y = y * (1 + noise * np.random.default_rng(k).standard_normal(y.shape))
        y = y * np.nan if k == nan_from else y
        for role, values in (("input", x), ("output", y)):
            counts = {"nan_count": float(np.isnan(values).sum()), "inf_count": 0.0}
            figures = {"min": values.min(), "max": values.max(), "mean": values.mean()}
            figures["l2"] = np.linalg.norm(values)
            known = {name: float(figure) for name, figure in figures.items()}
            is_nan = counts["nan_count"] > 0
            site = Site("module", f"l{k}", 0, "forward", role, "0")
            entries.append(
                Entry(
                    f"Module.l{k}.Linear.forward.0.{role}.0",
                    site,
                    None,
                    order=len(entries),
                    layer="Linear",
                    statistics=counts | (dict.fromkeys(known, math.nan) if is_nan else known),
                    shape=values.shape,
                    dtype="float32",
                )
            )
        x = y
    return Dump.from_entries(entries)


@pytest.mark.parametrize("noise", [0.0, 1e-6, 1e-5, 1e-4])
def test_statistics_that_agree_are_no_origin_beside_nan(noise):
    found = compare(recorded(noise, 4), recorded(0.0, 99))
    assert first_of(found) == "l4 output 0"
    columns = found.columns
    is_open = columns["verdict"] == "undecidable"
    assert not (columns["origin"][is_open] == "created").any()


def matrices(*names):
    return {
        name: np.random.default_rng(number).normal(size=(24, 16)).astype("f4")
        for number, name in enumerate(names)
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda a: a.T.copy(), "right is left transposed"),
        (lambda a: np.concatenate([a, 2 * a[::-1]]), "left is the part of right"),
        (lambda a: 3 * a.T, "an array between is left times 3"),
    ],
)
def test_a_weight_under_another_name_is_no_tensor_that_a_side_lacks(change, said):
    left = matrices("a.weight", "b.weight", "c.weight")
    right = {**left, "blk.kernel": change(left["c.weight"])}
    del right["c.weight"]
    found = compare(left, right)
    finding = next(one for one in found.findings if one.cause == "tensor_renamed")
    assert finding.evidence["other"] in ("blk.kernel", "c.weight")
    assert said in finding.evidence["text"]
    text = str(found.explain())
    assert "tnb.draft_weight_map(left, right)" in " ".join(text.split())
    assert found.exit_code == 2
    assert passes_by_map(left, right) != ("part" in said)


def passes_by_map(left, right):
    return compare(left, right, mapping=draft_weight_map(left, right)).passed


def test_an_unrelated_weight_is_still_one_that_a_side_lacks():
    left = matrices("a.weight", "b.weight", "c.weight")
    right = {
        **matrices("a.weight", "b.weight"),
        "blk.kernel": 1 + matrices("x", "y", "z", "u")["u"],
    }
    causes = {one.cause for one in compare(left, right).findings}
    assert "tensor_renamed" not in causes
