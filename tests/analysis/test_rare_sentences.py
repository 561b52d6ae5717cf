"""Sentences that no planted fault of the benchmarks brings about: each by the run that makes it."""

import numpy as np
import pytest

import troubleshooter_nb as tnb
from tests.analysis.runs import Recorder


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def shuffled(values):
    return np.random.default_rng(1).permutation(values.reshape(-1)).reshape(values.shape)


WEIGHTS, BATCH = normal(2, 16, 16), normal(8, 16, seed=1)


def linear(x, weight):
    return x @ weight.T


def with_nan(values, *place):
    changed = values.copy()
    changed[place] = np.nan
    return changed


def trained(*, rounding=0, spoilt=""):
    """Two layers in a block, with work between them that was not recorded, and their gradients."""
    run, (first, second) = Recorder(rounding=rounding), WEIGHTS
    batch = with_nan(BATCH, 3, 4) if spoilt == "input" else BATCH
    given = "Module.block.Block.forward.0"
    run.add(f"{given}.input.0", "block", "forward", "input", "0", batch, "Block")
    hidden = np.maximum(run.call("block.fc1", "Linear", linear, batch, weight=first), 0)
    if spoilt == "between":
        hidden = with_nan(hidden, 2, 3)
    out = run.call("block.fc2", "Linear", linear, hidden, weight=second)
    run.add(f"{given}.output.0", "block", "forward", "output", "0", out, "Block")
    back = run.call("block.fc2", "Linear", lambda g: g @ second, out, direction="backward")

    def through(gradient):
        found = gradient @ first
        return with_nan(found, 1, 1) if spoilt == "backward" else found

    run.call("block.fc1", "Linear", through, back, direction="backward")
    return run.dump()


def updated(*, spoilt=False):
    """A layer in three steps."""
    run = Recorder()
    for step in range(3):
        weight = WEIGHTS[0] - np.float32(0.1 * step)
        weight = with_nan(weight, 0, 0) if spoilt and step == 2 else weight
        for role, slot, values in (
            ("parameter", "weight", weight),
            ("input", "0", BATCH),
            ("output", "0", linear(BATCH, weight)),
        ):
            name = f"Module.fc.Linear.forward.0.{role}.{slot}"
            run.add(name, "fc", "forward", role, slot, values, "Linear", step=step)
    return run.dump()


def layer(name, kind, values, given):
    run = Recorder()
    for role, tensor in (("input", given), ("output", values)):
        full = f"Module.{name}.{kind}.forward.0.{role}.0"
        run.add(full, name, "forward", role, "0", tensor, kind)
    return run.dump()


def explained(left, right):
    return " ".join(str(tnb.compare(left, right, progress=False).explain()).split())


@pytest.mark.parametrize(
    ("spoilt", "rounding", "said"),
    [
        ("backward", 0, "in the backward pass: the gradients and values it was given are equal."),
        ("backward", 3, "the gradients and values it was given differ by"),
        ("between", 0, "Made between recorded calls: nothing recorded before it differs."),
        ("between", 3, "Made between recorded calls: what was recorded before differs by"),
        ("input", 0, "An input of the network differs. So the cause is in front of the network"),
    ],
)
def test_what_is_not_a_number_was_created_somewhere(spoilt, rounding, said):
    text = explained(trained(spoilt=spoilt, rounding=rounding), trained())
    assert said in text
    # Rows that are alike agree at any lag, and an error is not that of the values beside a NaN.
    assert "shifted by" not in text
    assert "Its error" not in text


def test_an_update_that_makes_a_nan_is_named():
    text = explained(updated(spoilt=True), updated())
    assert "It agreed in the step before and now differs. So the cause is in the update" in text


def test_the_same_values_in_any_order_are_seen():
    right = normal(40, 50)
    left = shuffled(right)
    text = explained({"fc.weight": left}, {"fc.weight": right})
    assert "the same values stand in another order; sorted, they agree to 0." in text


def test_columns_of_a_picture_are_named():
    picture = normal(2, 3, 12, 12)
    changed = picture.copy()
    changed[..., 4:6] += 1
    text = explained(*(layer("conv", "Conv2d", 2 * one, one) for one in (changed, picture)))
    assert "only at columns 4 to 5 of 12" in text


def test_tokens_of_many_samples_are_told_in_part():
    right = normal(40, 16, 24)
    left, samples = right.copy(), np.arange(40)
    left[samples, samples * 5 % 16] += 1
    ids = np.arange(40 * 16).reshape(40, 16) % 50
    text = explained(*(layer("tok", "Embedding", one, ids) for one in (left, right)))
    assert "tokens, in 40 of 40 samples (sample 0: " in text
    assert "; 36 more)" in text


def test_moments_of_a_large_tensor_that_agree_are_seen(monkeypatch):
    limits = {"LARGEST_READ": 1 << 10, "LARGE_BLOCK": 512, "LARGE_RUN": 16, "LARGE_SAMPLE": 512}
    for name, value in limits.items():
        monkeypatch.setattr(f"troubleshooter_nb.thresholds.{name}", value)
    right = normal(60, 70)
    left = shuffled(right)
    text = explained({"x": left}, {"x": right})
    assert "mean, deviation and extremes agree, as of the same values in another order." in text
