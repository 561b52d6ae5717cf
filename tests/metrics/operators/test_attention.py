import numpy as np
import pytest

from troubleshooter_nb.metrics.operators.attention import capped, causal, probabilities, scores


def test_corners_of_the_causal_mask_by_hand():
    rows = np.arange(2)
    assert causal(rows, 2, 3, "top left").astype(int).tolist() == [[1, 0, 0], [1, 1, 0]]
    assert causal(rows, 2, 3, "bottom right").astype(int).tolist() == [[1, 1, 0], [1, 1, 1]]


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
