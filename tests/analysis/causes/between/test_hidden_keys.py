"""Tokens that an attention hides from all queries are padding; what sees itself is not."""

from __future__ import annotations

import numpy as np
import pytest

from troubleshooter_nb.analysis.causes.between.earlier_values import EarlierValues, Source
from troubleshooter_nb.analysis.causes.between.hidden_keys import hides_keys

ITEMS, ROWS, HEADS, SIZE = 3, 10, 4, 8
WIDTH = HEADS * SIZE
AT_START = np.zeros((ITEMS, ROWS), bool)
AT_START[0, :3] = True
AT_END = np.zeros((ITEMS, ROWS), bool)
AT_END[1, 7:] = True
LATER = ~np.tri(ROWS, dtype=bool)


def attention(hides: np.ndarray, value: float = -1e9) -> EarlierValues:
    """Attention whose scores are filled where `hides` (samples, queries, keys) is true."""
    random = np.random.default_rng(0)
    packed = random.standard_normal((ITEMS, ROWS, 3 * WIDTH)).astype(np.float32)
    q, k, v = packed.reshape(ITEMS, ROWS, 3, HEADS, SIZE).transpose(2, 0, 3, 1, 4).astype(float)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(SIZE)
    scores = np.where(hides[:, None], value, scores)
    with np.errstate(invalid="ignore"):
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares = shares / shares.sum(-1, keepdims=True)
    made = (shares @ v).swapaxes(1, 2).reshape(ITEMS, ROWS, WIDTH).astype(np.float32)
    source = Source("qkv.output", 0, "linear", packed)
    return EarlierValues(made, (source,), (), 2.0**-23, 2.0**-24)


def hidden_from_all(padded: np.ndarray) -> np.ndarray:
    return np.broadcast_to(padded[:, None], (ITEMS, ROWS, ROWS))


@pytest.mark.parametrize("padded", [AT_START, AT_END])
@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("value", [-1e9, -np.inf])
def test_padding_is_seen_by_no_query_and_that_shows(padded, is_causal, value):
    hides = hidden_from_all(padded) | (LATER if is_causal else False)
    assert hides_keys(attention(hides, value), padded)


def test_without_a_mask_nothing_is_hidden():
    for hides in (np.zeros((ITEMS, ROWS, ROWS), bool), np.broadcast_to(LATER, (ITEMS, ROWS, ROWS))):
        for padded in (AT_START, AT_END):
            assert not hides_keys(attention(hides), padded)


def test_the_last_token_of_a_causal_text_sees_itself():
    last = np.zeros((ITEMS, ROWS), bool)
    last[2, -1] = True
    assert not hides_keys(attention(np.broadcast_to(LATER, (ITEMS, ROWS, ROWS))), last)


@pytest.mark.parametrize("is_causal", [True, False])
def test_a_text_beside_another_one_sees_itself(is_causal):
    first = AT_START[:, None] != AT_START[:, :, None]  # of two texts neither sees the other
    hides = first | (LATER if is_causal else False)
    assert not hides_keys(attention(hides), AT_START)


def test_a_window_that_leaves_the_first_tokens_behind_hides_none_of_them():
    behind = ~np.tri(ROWS, k=-3, dtype=bool)
    hides = np.broadcast_to(~behind | LATER, (ITEMS, ROWS, ROWS))
    assert not hides_keys(attention(hides), AT_START)


@pytest.mark.parametrize(
    "place",
    [(0, 3), (0, 2), (2, 9)],
    ids=["one more", "one less", "another sample"],
)
def test_it_is_held_against_exactly_these_tokens(place):
    other = AT_START.copy()
    other[place] = ~other[place]
    hides = hidden_from_all(AT_START) | LATER
    assert not hides_keys(attention(hides), other)
