"""Masks and values that stay on one side what they were at the first step."""

import numpy as np
import pytest

from tests.analysis.runs import Recorder, draws, linear
from troubleshooter_nb import compare

ITEMS, ROWS, HEADS, SIZE = 3, 9, 2, 8
WIDTH = HEADS * SIZE
STEPS = 2


class Steps(Recorder):
    """Records what it is given as of its step."""

    step = 0

    def add(self, *entry):
        super().add(*entry, step=self.step)


def padding(step, at=None):
    """Other items and other lengths at every step."""
    hidden = np.zeros((ITEMS, ROWS), bool)
    hidden[(step if at is None else at) % ITEMS, -2 - step :] = True
    return hidden


def attention(packed, hidden):
    laid = packed.reshape(ITEMS, ROWS, 3, HEADS, SIZE).transpose(2, 0, 3, 1, 4).astype(np.float64)
    q, k, v = laid
    seen = np.tril(np.ones((ROWS, ROWS), bool)) & ~hidden[:, None, None]
    scores = np.where(seen, q @ k.swapaxes(-1, -2) / SIZE**0.5, -1e4)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mixed = powers / powers.sum(axis=-1, keepdims=True) @ v
    return mixed.swapaxes(1, 2).reshape(ITEMS, ROWS, WIDTH).astype(np.float32)


def run(mask_of, *, recorded=True):
    """Two steps of attention between recorded projections, with the mask of `mask_of(step)`."""
    recorder = Steps()
    weights = draws(1, w=(3 * WIDTH, WIDTH), b=(3 * WIDTH,), o=(WIDTH, WIDTH), c=(WIDTH,))
    for step in range(STEPS):
        recorder.step = step
        x = draws(10 + step, x=(ITEMS, ROWS, WIDTH))["x"]
        if recorded:
            for number, values in enumerate((x, padding(step))):
                name = f"Module.attn.Attention.forward.0.input.{number}"
                recorder.add(name, "attn", "forward", "input", str(number), values, "Attention")
        packed = recorder.call(
            "attn.qkv", "Linear", linear, x, weight=weights["w"] / 4, bias=weights["b"]
        )
        mixed = attention(packed, mask_of(step))
        y = recorder.call(
            "attn.proj", "Linear", linear, mixed, weight=weights["o"] / 4, bias=weights["c"]
        )
        if recorded:
            name = "Module.attn.Attention.forward.0.output.0"
            recorder.add(name, "attn", "forward", "output", "0", y, "Attention")
    return recorder.dump()


@pytest.mark.parametrize("recorded", [True, False])
def test_the_mask_of_the_first_step_is_told_from_a_missing_one(recorded):
    frozen = compare(
        run(lambda step: padding(0), recorded=recorded), run(padding, recorded=recorded)
    )
    best = frozen.findings[0]
    assert best.cause == "constant_baked"
    assert best.confidence > 0.9
    assert (best.evidence["side"], best.evidence["left"]) == ("left", "7-8; none; none")
    assert frozen.first_divergence.row["step"].item() == 1


@pytest.mark.parametrize("recorded", [True, False])
def test_a_mask_that_is_missing_from_the_second_step_on_is_no_constant(recorded):
    def lost(step):
        return padding(step) & (step == 0)

    found = compare(run(lost, recorded=recorded), run(padding, recorded=recorded))
    if recorded:
        # Tokens before the padding never saw it: it is known that no valid one differs.
        assert found.passed
        assert "padded" in {*found.columns["verdict"]}
    else:
        assert found.findings[0].cause == "mask_missing"


@pytest.mark.parametrize("recorded", [True, False])
def test_a_mask_of_other_places_that_is_not_the_first_one_is_no_constant(recorded):
    def moved(step):
        return padding(step, at=step + (step > 0))

    found = compare(run(moved, recorded=recorded), run(padding, recorded=recorded)).findings
    assert [f.cause for f in found if f.confidence > 0.5] == ["mask_shape"]


def bits(mask_of):
    """An operator that is given a mask, which nothing recorded made."""
    recorder = Steps()
    for step in range(STEPS):
        recorder.step = step
        x = draws(step, x=(ITEMS, ROWS))["x"]
        y = recorder.call("first", "Own", np.negative, x)
        recorder.call("fill", "Own", lambda v, m: np.where(m, -1e4, v), y, mask_of(step))
    return recorder.dump()


def test_an_argument_that_repeats_its_first_values_is_a_constant():
    best = compare(bits(lambda step: padding(0)), bits(padding)).findings[0]
    assert (best.cause, best.evidence["side"]) == ("constant_baked", "left")
    assert best.confidence > 0.5


def test_an_argument_that_is_off_otherwise_is_no_constant():
    found = compare(bits(lambda step: padding(step, at=2 * step)), bits(padding)).findings
    assert "constant_baked" not in [f.cause for f in found]
