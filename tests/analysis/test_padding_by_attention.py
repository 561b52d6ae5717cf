"""Padding that no recorded mask tells, but an attention between calls: ids that differ there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from troubleshooter_nb import compare

BATCH, LENGTH, WIDTH, HEADS = 3, 10, 32, 4
AT_START = np.zeros((BATCH, LENGTH), bool)
AT_START[0, :2] = True
AT_END = np.zeros((BATCH, LENGTH), bool)
AT_END[1, 7:] = True


def saved(folder: Path, ids: np.ndarray, padded: np.ndarray, change: float = 0.0) -> Path:
    """A decoder by hand, numbered, of which only leaf layers are saved.

    Parameters
    ----------
    folder : Path
    ids : ndarray of int, shape (BATCH, LENGTH)
    padded : ndarray of bool, shape (BATCH, LENGTH)
        Hidden from all queries, by a mask that nobody saves.
    change : float
        Added to one value of a valid token behind the attention.
    """
    random, values = np.random.default_rng(0), dict[str, np.ndarray]()

    def draw(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    def dense(path: str, x: np.ndarray, size: int) -> np.ndarray:
        weight, bias = draw(size, x.shape[-1]) / 6, draw(size) / 6
        made = x @ weight.T + bias
        values.update({f"{path}.input": x, f"{path}.weight": weight, f"{path}.bias": bias})
        values[f"{path}.output"] = made
        return made

    table = draw(50, WIDTH)
    values |= {"tok.input": ids, "tok.weight": table, "tok.output": table[ids]}
    x = table[ids]
    for number in range(2):
        packed = dense(f"blocks.{number}.attn.qkv", x, 3 * WIDTH)
        q, k, v = packed.reshape(BATCH, LENGTH, 3, HEADS, -1).transpose(2, 0, 3, 1, 4)
        scores = q @ k.swapaxes(-1, -2) / np.float32(np.sqrt(WIDTH / HEADS))
        hides = padded[:, None, None] | ~np.tri(LENGTH, dtype=bool)
        scores = np.where(hides, np.float32(-1e9), scores)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (shares / shares.sum(-1, keepdims=True)) @ v
        mixed = mixed.swapaxes(1, 2).reshape(BATCH, LENGTH, WIDTH)
        x = x + dense(f"blocks.{number}.attn.proj", mixed, WIDTH)
        x[2, 4, 3] += np.float32(change)
    dense("head", x, 20)
    folder.mkdir()
    for number, (name, array) in enumerate(values.items()):
        np.save(folder / f"{number:03d}_{name}.npy", array)
    return folder


IDS = np.arange(BATCH * LENGTH).reshape(BATCH, LENGTH) * 7 % 47


def other_at(places: np.ndarray) -> np.ndarray:
    return np.where(places, IDS + 2, IDS)


@pytest.mark.parametrize("padded", [AT_START, AT_END])
def test_ids_that_differ_where_an_attention_hides_them_are_no_error(padded, tmp_path):
    sides = saved(tmp_path / "a", other_at(padded), padded), saved(tmp_path / "b", IDS, padded)
    found = compare(*sides)
    assert (found.exit_code, found.findings) == (0, ())
    assert "padded" in {*found.columns["verdict"]}
    told = " ".join(str(found.explain()).split())
    assert "by the attention in front of blocks.0.attn.proj.input" in told


@pytest.mark.parametrize("padded", [AT_START, AT_END])
def test_ids_of_valid_tokens_that_differ_as_well_are_an_error(padded, tmp_path):
    for number, place in enumerate([(0, 2), (1, 6), (2, 9)]):
        some = padded.copy()
        some[place] = True
        folder = tmp_path / str(number)
        folder.mkdir()
        sides = saved(folder / "a", other_at(some), padded), saved(folder / "b", IDS, padded)
        found = compare(*sides)
        assert found.exit_code == 1
        assert "padded" not in {*found.columns["verdict"]}


@pytest.mark.parametrize("padded", [AT_START, AT_END])
def test_what_only_one_side_hides_is_an_error(padded, tmp_path):
    nothing = np.zeros_like(padded)
    for number, hidden in enumerate([(padded, nothing), (nothing, padded), (nothing, nothing)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        sides = (
            saved(folder / "a", other_at(padded), hidden[0]),
            saved(folder / "b", IDS, hidden[1]),
        )
        assert compare(*sides).exit_code == 1


def test_a_valid_token_that_differs_behind_the_attention_is_an_error(tmp_path):
    left = saved(tmp_path / "a", other_at(AT_START), AT_START, change=0.01)
    found = compare(left, saved(tmp_path / "b", IDS, AT_START))
    assert found.exit_code == 1
    assert "padded" in {*found.columns["verdict"]}


def test_the_last_tokens_of_a_causal_text_are_no_padding(tmp_path):
    nothing = np.zeros_like(AT_END)
    sides = saved(tmp_path / "a", other_at(AT_END), nothing), saved(tmp_path / "b", IDS, nothing)
    found = compare(*sides)
    assert found.exit_code == 1
    assert "padded" not in {*found.columns["verdict"]}
