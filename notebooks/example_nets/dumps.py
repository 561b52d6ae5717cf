"""Dump folders for the template that compares them: real ones of msprobe, made ones of ranks."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np

from troubleshooter_nb import save_dump

TWINS = Path(__file__).with_name("bundled") / "transformer_twins.zip"
DUMP_FAULTS = {
    "none": "nothing; the dumps as msprobe wrote them",
    "bfloat16": "from blocks.1.up on, every activation and gradient is rounded to bfloat16",
}
# How the names of the forward entries begin that the fault reaches.
_ROUNDED = (
    "Cell.blocks.1.up.Dense.forward.0.output.",
    "Cell.blocks.1.down.",
    "Cell.blocks.1.DecoderCell.forward.0.output.",
    "Cell.final_norm.",
    "Cell.lm_head.",
)


def make_dumps(folder: str | Path, fault: str = "bfloat16") -> tuple[Path, Path]:
    """Unpack two dumps of one small transformer under two sets of layer names.

    msprobe 26.2.0 wrote them from runs of our own network in MindSpore 2.10 (PyNative) and
    PyTorch 2.13, level L0 with tensors: one step, one process, 125 tensors on each side.
    Neither framework is needed to read them, and msprobe is not either. The rounding is done to
    these files; no network ran in bfloat16.

    Parameters
    ----------
    folder : path
        Gets the subfolders ``mindspore`` and ``torch``; earlier ones are replaced.
    fault : str
        A key of `DUMP_FAULTS`: what is done to the values on the MindSpore side.

    Returns
    -------
    mindspore_folder, torch_folder : Path

    Raises
    ------
    ValueError
        If the fault is not known.
    """
    if fault not in DUMP_FAULTS:
        msg = f"fault must be one of {', '.join(DUMP_FAULTS)}; got {fault!r}"
        raise ValueError(msg)
    left, right = (Path(folder) / name for name in ("mindspore", "torch"))
    for old in (left, right):
        shutil.rmtree(old, ignore_errors=True)
    with zipfile.ZipFile(TWINS) as archive:
        archive.extractall(folder)
    if fault == "bfloat16":
        for path in left.rglob("*.npy"):
            if _is_behind_the_fault(path.stem):
                exact = np.load(path)
                np.save(path, exact.astype(ml_dtypes.bfloat16).astype(exact.dtype))
    return left, right


def _is_behind_the_fault(name: str) -> bool:
    """Whether a tensor comes from the first rounded one: the rest of the forward, all back."""
    if ".parameters." in name:
        return False
    if ".backward." in name or ".parameters_grad." in name:
        return True
    return name.startswith(_ROUNDED)


def make_rank_dumps(folder: str | Path, seed: int = 0) -> tuple[Path, Path, Path]:
    """Make dumps of two ranks and two steps, of which one rank goes wrong in the last step.

    Parameters
    ----------
    folder : path
        Gets the subfolders ``two_ranks``, ``two_ranks_before`` and ``one_rank``.
    seed : int

    Returns
    -------
    left, right, whole : Path
        Two runs with two tensor-parallel ranks, and the same network on one rank. In the first
        one, rank 1 still uses the weights of step 0 in step 1.
    """
    rng = np.random.default_rng(seed)
    folders = [Path(folder) / name for name in ("two_ranks", "two_ranks_before", "one_rank")]
    for path in folders:
        shutil.rmtree(path, ignore_errors=True)
    steps = [_mlp(rng) for _ in range(2)]
    for step, arrays in enumerate(steps):
        save_dump(arrays, folders[2] / f"step{step}" / "rank0")
        for rank in range(2):
            place = Path(f"step{step}") / f"rank{rank}"
            save_dump(_shard(arrays, rank), folders[1] / place)
            stale = steps[0]["up.weight"] if (step, rank) == (1, 1) else None
            save_dump(_shard(arrays, rank, stale), folders[0] / place)
    return folders[0], folders[1], folders[2]


def _mlp(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """What one layer of a network reads, holds and gives."""
    x = rng.normal(size=(6, 8)).astype(np.float32)
    weight = rng.normal(size=(16, 8)).astype(np.float32) * np.float32(0.3)
    return {"x": x, "up.weight": weight, "up.output": x @ weight.T}


def _shard(
    arrays: dict[str, np.ndarray], rank: int, stale: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """What one of two ranks has: half of the rows of the weight, half of the columns behind."""
    weight = np.split(arrays["up.weight"] if stale is None else stale, 2)[rank]
    return {"x": arrays["x"], "up.weight": weight, "up.output": arrays["x"] @ weight.T}
