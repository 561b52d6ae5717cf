"""Likeness of names: equal is 1, strangers are 0, and the likest is the one a reader would pick."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from troubleshooter_nb.naming import closeness as module
from troubleshooter_nb.naming.closeness import Likeness


def table(left, right):
    alike = Likeness(left, right)
    return np.array([alike.row(i) for i in range(len(left))])


NAMES = st.lists(st.text(alphabet="abW.01_/é ", max_size=8), min_size=1, max_size=5)


@given(left=NAMES, right=NAMES)
def test_likeness_lies_between_zero_and_one_and_is_symmetric(left, right):
    got = table(left, right)
    assert got.shape == (len(left), len(right))
    assert (got >= 0).all()
    # float32 rounds a sum of products of unit vectors.
    assert (got <= 1 + 1e-5).all()
    np.testing.assert_allclose(table(right, left), got.T, rtol=1e-5, atol=1e-6)


@given(names=NAMES)
def test_an_equal_name_is_entirely_alike(names):
    got = np.diag(table(names, names))
    for name, value in zip(names, got, strict=True):
        has_words = any(letter.isalpha() for letter in name)
        assert value == pytest.approx(1.0 if has_words else 0.0, abs=1e-5)


def test_names_without_words_are_like_no_other():
    assert (table(["0", "1"], ["fc.0", "1", ""]) == 0).all()


@pytest.mark.parametrize(
    ("name", "candidates"),
    [
        ("h.3.attn.c_attn.weight", ["layers.3.attention.qkv.weight", "layers.3.mlp.fc.weight"]),
        ("h.3.attn.weight", ["layers.3.attention.weight", "layers.4.attention.weight"]),
        ("layer1.0.conv1.weight", ["stage1.0.conv2d1.weight", "stage1.0.conv2d2.weight"]),
        ("norm.weight", ["layernorm.gamma", "embedding.embedding_table"]),
        ("bn.gamma", ["bn.weight", "bn.bias"]),
        ("selfAttn.q.weight", ["self_attn.q.weight", "self_attn.k.weight"]),
        ("block_007.fc", ["block7.fc", "block8.fc"]),
    ],
)
def test_the_likest_is_the_one_a_reader_would_pick(name, candidates):
    first, second = table([name, "other.thing.weight"], candidates)[0]
    assert first > second


def test_a_row_can_be_asked_for_some_columns():
    alike = Likeness(["a.b", "c.d"], ["a.b", "x", "c.d"])
    np.testing.assert_array_equal(alike.row(1, np.array([2, 0])), alike.row(1)[[2, 0]])


def test_too_many_different_names_are_not_compared(monkeypatch):
    monkeypatch.setattr(module, "LIKENESS_CELLS", 5)
    assert (table(["ab", "cd", "ef"], ["ab", "cd"]) == 0).all()


def test_nothing_has_no_likeness():
    assert len(Likeness(["a", "b"], []).row(1)) == 0
    Likeness([], ["a"])
