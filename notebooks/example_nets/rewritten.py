"""Weights of one decoder layer as two code bases keep them: joined, reordered, stacked."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from troubleshooter_nb import save_dump

_DIM, _HEADS, _HIDDEN, _EXPERTS = 16, 2, 24, 4


def make_rewritten(folder: str | Path, seed: int = 0) -> tuple[Path, Path]:
    """Two files with the same values: ``decoder.pth``, and ``decoder_ms.ckpt`` as another has it.

    The second one joins query, key and value of ``attn``; has the rows of ``cross.query`` with the
    two halves of each head's rotary pairs one after the other; and stacks its experts.
    """
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype("f4")

    parts = {f"attn.{name}.weight": draw(_DIM, _DIM) for name in ("query", "key", "value")}
    experts = {f"experts.{n}.weight": draw(_HIDDEN, _DIM) for n in range(_EXPERTS)}
    rotary, plain = draw(_DIM, _DIM), draw(_DIM, _DIM)
    ours = {**parts, "cross.query.weight": rotary, **experts, "output.weight": plain}
    halves = rotary.reshape(_HEADS, -1, 2, _DIM).swapaxes(1, 2).reshape(_DIM, _DIM)
    theirs = {
        "attn.qkv.weight": np.concatenate(list(parts.values())),
        "cross.query.weight": halves,
        "experts.weight": np.stack(list(experts.values())),
        "output.weight": plain,
    }
    folder = Path(folder)
    return save_dump(ours, folder / "decoder.pth"), save_dump(theirs, folder / "decoder_ms.ckpt")
