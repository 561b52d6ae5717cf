import numpy as np
import pytest

from troubleshooter_nb.metrics.operators.attention import (
    capped,
    causal,
    probabilities,
    scores,
    window_of,
)


def test_corners_of_the_causal_mask_by_hand():
    rows = np.arange(2)
    assert causal(rows, 2, 3, "top left").astype(int).tolist() == [[1, 0, 0], [1, 1, 0]]
    assert causal(rows, 2, 3, "bottom right").astype(int).tolist() == [[1, 1, 0], [1, 1, 1]]


def banded(width, is_causal, size=8):
    back = np.arange(size)[:, None] - np.arange(size)
    return (back >= width) | ((back < 0) if is_causal else (back <= -width))


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("width", [1, 3, 6])
def test_the_window_of_a_mask_is_how_many_keys_a_query_sees_back(width, is_causal):
    hidden = banded(width, is_causal)
    assert window_of(np.stack([hidden, hidden]), is_causal=is_causal) == width
    # Of a key alone there is no other side.
    assert window_of(hidden, is_causal=not is_causal) == (width == 1)
    hidden[5, 5] = True
    assert window_of(hidden, is_causal=is_causal) == 0


def test_a_mask_of_no_window_has_none():
    assert window_of(banded(8, True), is_causal=True) == 0
    assert window_of(np.zeros((8, 8), bool), is_causal=False) == 0
    # The last query alone does not see the first key.
    assert window_of(banded(7, True), is_causal=True) == 0


def test_rows_that_see_nothing_are_nan():
    seen = np.array([[True, False], [False, False]])
    np.testing.assert_array_equal(probabilities(np.zeros((2, 2)), seen), [[1, 0], [np.nan] * 2])


def test_a_cap_bends_large_scores_only():
    assert capped(np.array(1e6), 50.0) == 50
    assert capped(np.array(1e6), np.inf) == 1e6


@pytest.mark.torch
def test_attention_is_torchs():
    import torch

    q, k, v = torch.randn(3, 1, 2, 6, 8, dtype=torch.float64)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    seen = causal(np.arange(6), 6, 6, "top left")
    got = probabilities(scores(q.numpy(), k.numpy()) / 8**0.5, seen) @ v.numpy()
    np.testing.assert_allclose(got, expected.numpy(), rtol=1e-10)
