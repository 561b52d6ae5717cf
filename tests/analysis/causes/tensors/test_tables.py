"""Padding rows of embeddings, and frequencies of rotary positions."""

import numpy as np
import pytest

from tests.analysis.causes.tensors.kit import causes, tensor
from troubleshooter_nb.analysis.causes.confidence import confidence
from troubleshooter_nb.analysis.causes.tensors.frequencies import detect_frequencies
from troubleshooter_nb.analysis.causes.tensors.large import sides_of_any_size as sides_of
from troubleshooter_nb.analysis.causes.tensors.padding import detect_padding_row


def table(rows=32, width=16, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, width)).astype(np.float32)


def without(values, *rows):
    changed = values.copy()
    changed[list(rows)] = 0
    return changed


@pytest.mark.parametrize("row", [0, 5, 31])
@pytest.mark.parametrize("side", ["left", "right"])
def test_the_row_that_is_zero_on_one_side_is_the_padding_row(row, side):
    pair = (without(table(), row), table())
    pair = pair if side == "left" else pair[::-1]
    (found,) = detect_padding_row(sides_of(tensor(*pair, name="tok_emb.weight")))
    assert found.cause == "padding_idx_row"
    assert (found.evidence["row"], found.evidence["side"]) == (row, side)
    assert found.residual == 0.0
    assert confidence(found) > 0.9


@pytest.mark.parametrize(
    ("left", "right", "name"),
    [
        (without(table(), 0), without(table(), 0), "tok_emb.weight"),
        (without(table(), 0, 1), table(), "tok_emb.weight"),
        (without(table(seed=1), 0), table(), "tok_emb.weight"),
        (without(table(), 0), table(), "fc.weight"),
        (without(table(3), 0), table(3), "tok_emb.weight"),
    ],
)
def test_other_rows_are_no_padding_row(left, right, name):
    assert detect_padding_row(sides_of(tensor(left, right, name=name))) == []


def powers(theta, size=16, factor=1.0):
    return (factor * theta ** (-np.arange(size) / size)).astype(np.float32)


@pytest.mark.parametrize(("one", "other"), [(1e4, 5e5), (1e6, 1e4), (1e4, 10050.0)])
@pytest.mark.parametrize("size", [3, 16, 64])
def test_two_bases_are_told(one, other, size):
    pair = tensor(powers(one, size), powers(other, size), "rope.inv_freq", "buffer")
    (found,) = detect_frequencies(sides_of(pair))
    assert found.cause == "rope_theta"
    assert found.evidence["left"] == pytest.approx(one, rel=1e-4)
    assert found.evidence["right"] == pytest.approx(other, rel=1e-4)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (powers(1e4, factor=0.25), powers(1e4)),
        (powers(1e4), powers(1e4)[::-1]),
        (powers(1e4), -powers(5e5)),
        (powers(1e4), np.linspace(1, 0.1, 16, dtype=np.float32)),
        (powers(1e4, 2), powers(5e5, 2)),
        (powers(1e4, 16), powers(5e5, 8)),
    ],
)
def test_no_other_base_is_said_of(left, right):
    pair = sides_of(tensor(left, right, "rope.inv_freq", "buffer"))
    assert causes(detect_frequencies(pair)) == []
