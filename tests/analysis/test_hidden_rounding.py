"""Rounding that norms bring to light behind sums that hide it, and faults beside it.

A large constant in the residual stream makes what a block adds small beside it: a norm takes the
constant away and shows rounding, the next sum hides it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from troubleshooter_nb import compare

BATCH, LENGTH, WIDTH, HEADS, BLOCKS = 3, 12, 32, 4, 3
SINGLE = np.float32


@dataclass
class Decoder:
    """A small decoder in float32, saved by hand under paths alone, without its attention's inside.

    Attributes
    ----------
    seed : int
        Of the order in which products are summed.
    eps : mapping of str to float
        Of norms that have another one than the others.
    scale, hides : mapping of int to float
        Of blocks, by what their scores are multiplied, and what is added to those of later tokens.
    gain : mapping of str to float
        Of dense layers by how much too large their output is.
    """

    seed: int
    eps: Mapping[str, float] = field(default_factory=dict)
    scale: Mapping[int, float] = field(default_factory=dict)
    hides: Mapping[int, float] = field(default_factory=dict)
    gain: Mapping[str, float] = field(default_factory=dict)
    level: float = 300.0
    saved: dict[str, np.ndarray] = field(default_factory=dict)

    def run(self, folder: Path) -> Path:
        """All values in a folder, numbered in the order of execution."""
        random = np.random.default_rng(0)
        self.weights, self.order = random, np.random.default_rng(self.seed)
        x = random.standard_normal((BATCH, LENGTH, WIDTH)).astype(SINGLE)
        for block in range(BLOCKS):
            made = self._norm(f"blocks.{block}.ln1", x)
            made = self._dense(f"blocks.{block}.attn.qkv", made, 3 * WIDTH)
            made = self._mixed(block, made)
            x = x + self._dense(f"blocks.{block}.attn.proj", made, WIDTH)
            made = self._norm(f"blocks.{block}.ln2", x)
            made = self._dense(f"blocks.{block}.fc", made, 2 * WIDTH)
            made = self._call(f"blocks.{block}.act", made, np.maximum(made, 0))
            level = self.level if block == 0 else 0.0
            x = x + self._dense(f"blocks.{block}.out", made, WIDTH, level)
        self._dense("head", self._norm("norm", x), 20)
        folder.mkdir()
        for name, values in self.saved.items():
            np.save(folder / f"{name}.npy", values)
        return folder

    def _call(self, path: str, given: np.ndarray, made: np.ndarray, **held: np.ndarray):
        made = made.astype(SINGLE)
        for name, values in {"input": given, **held, "output": made}.items():
            self.saved[f"{len(self.saved):03d}_{path}.{name}"] = np.array(values)
        return made

    def _norm(self, path: str, x: np.ndarray) -> np.ndarray:
        weight, bias = (self.weights.standard_normal((2, WIDTH)) / 4 + [[1], [0]]).astype(SINGLE)
        order = self.order.permutation(WIDTH)
        distance = x - x[..., order].mean(-1, keepdims=True, dtype=SINGLE)
        variance = np.square(distance[..., order]).mean(-1, keepdims=True, dtype=SINGLE)
        made = distance / np.sqrt(variance + SINGLE(self.eps.get(path, 1e-5)))
        return self._call(path, x, made * weight + bias, weight=weight, bias=bias)

    def _dense(self, path: str, x: np.ndarray, size: int, level: float = 0.0) -> np.ndarray:
        weight = (self.weights.standard_normal((size, WIDTH * x.shape[-1] // WIDTH)) / 6).astype(
            SINGLE
        )
        bias = (self.weights.standard_normal(size) / 6 + level).astype(SINGLE)
        order = self.order.permutation(x.shape[-1])
        made = (x[..., order] @ weight[:, order].T + bias) * SINGLE(self.gain.get(path, 1.0))
        return self._call(path, x, made, weight=weight, bias=bias)

    def _mixed(self, block: int, packed: np.ndarray) -> np.ndarray:
        """What attention makes of queries, keys and values; no call says so."""
        heads = packed.reshape(BATCH, LENGTH, 3, HEADS, -1).transpose(2, 0, 3, 1, 4)
        scores = heads[0] @ heads[1].swapaxes(-1, -2) / SINGLE(np.sqrt(WIDTH / HEADS))
        scores = scores * SINGLE(self.scale.get(block, 1.0))
        later = ~np.tri(LENGTH, dtype=bool)
        scores = scores + np.where(later, SINGLE(self.hides.get(block, -1e9)), SINGLE(0))
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares = shares / shares.sum(-1, keepdims=True)
        return (shares @ heads[2]).transpose(0, 2, 1, 3).reshape(BATCH, LENGTH, WIDTH)


@pytest.mark.parametrize("level", [300.0, 1000.0])
def test_what_norms_bring_to_light_again_and_again_is_rounding(level, tmp_path):
    sides = [Decoder(seed, level=level).run(tmp_path / str(seed)) for seed in (1, 2)]
    found = compare(*sides)
    assert "grown_rounding" in {*found.columns["verdict"]}
    assert (found.exit_code, found.first_divergence, found.findings) == (0, None, ())


@pytest.mark.parametrize(
    "fault",
    [
        {"eps": {"blocks.1.ln1": 1e-3}},
        {"eps": {"blocks.2.ln2": 1e-3}},
        {"eps": {"norm": 1e-3}},
        {"scale": {1: 1.01}},
        {"scale": {2: 1.01}},
        {"hides": {1: -3.0}},
        {"gain": {"blocks.1.attn.qkv": 1.001}},
        {"gain": {"blocks.1.fc": 1.001}},
        {"gain": {"blocks.2.attn.proj": 1.001}},
    ],
    ids=str,
)
def test_what_is_computed_otherwise_beside_such_rounding_still_fails(fault, tmp_path):
    found = compare(Decoder(1, **fault).run(tmp_path / "1"), Decoder(2).run(tmp_path / "2"))
    assert found.exit_code == 1
