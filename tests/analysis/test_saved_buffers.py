"""Buffers among arrays saved by hand: by name, and by what they and the other side hold."""

from __future__ import annotations

import numpy as np
import pytest

import troubleshooter_nb as tnb

MEMORY = np.array([8.4e-45, 2.3e7, np.nan, 1.1e-41], np.float32)  # as torch.empty left it


def rotary(frequencies, name, seed=0):
    """What hooks of one's own save around a projection and a rotary embedding."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(2, 6, 8)).astype(np.float32)
    weight = rng.normal(size=(8, 8)).astype(np.float32)
    angles = np.arange(6, dtype=np.float32)[:, None] * frequencies
    angles = np.concatenate([angles, angles], -1)
    query = hidden @ weight.T
    half = np.concatenate([-query[..., 4:], query[..., :4]], -1)
    return {
        "q_proj.input": hidden,
        "q_proj.output": query,
        "q_proj.weight": weight,
        name: frequencies,
        "rotary_emb.input": np.arange(6),
        "rotary_emb.output_0": np.cos(angles),
        "rotary_emb.output_1": np.sin(angles),
        "attn.rotated": query * np.cos(angles) + half * np.sin(angles),
    }


@pytest.mark.parametrize("name", ["rotary_emb.inv_freq", "rotary_emb.freqs", "rope.table"])
def test_a_buffer_that_was_never_initialised_is_told(tmp_path, name):
    good = (1 / 10000 ** (np.arange(0, 8, 2) / 8)).astype(np.float32)
    for side, frequencies in (("left", MEMORY), ("right", good)):
        (tmp_path / side).mkdir()
        for place, array in rotary(frequencies, name).items():
            np.save(tmp_path / side / f"{place}.npy", array)
    cmp = tnb.compare(tmp_path / "left", tmp_path / "right")
    assert str(cmp.first_divergence.row["right"].values) == name
    assert cmp.findings[0].cause == "buffer_uninitialised"
    assert cmp.findings[0].confidence > 0.5


def test_a_scaled_table_is_not_uninitialised():
    good = (1 / 10000 ** (np.arange(0, 16, 2) / 16)).astype(np.float32)
    left, right = ({"rope.inv_freq": table, "z": 2 * table} for table in (1e6 * good, good))
    cmp = tnb.compare(left, right)
    assert "buffer_uninitialised" not in [one.cause for one in cmp.findings]


def test_names_of_tables_are_buffers_among_arrays_and_in_checkpoints(tmp_path):
    arrays = {"rope.inv_freq": np.ones(4), "attn.relative_position_index": np.ones((2, 2))}
    for path in (tmp_path / "arrays", tmp_path / "c.pth"):
        tnb.save_dump(arrays, path)
        assert set(tnb.open_dump(path).columns["role"]) == {"buffer"}
