"""One network run in two environments: the same weights and batch, another engine underneath."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

NET = "gpt"
# fault -> what is true of the environment under test.
ENVIRONMENTS = {
    "none": "nothing: another number of threads and another library of kernels, so rounding alone",
    "autocast": "it runs under bfloat16 autocast, which nobody asked for",
    "gelu_tanh": "its GELU is the tanh form, as of an engine that approximates it",
    "old_weights": "it loaded a checkpoint of one training step before",
}


def make_environment_runs(
    folder: str | Path, fault: str = "gelu_tanh", seed: int = 0
) -> tuple[Path, Path, Path]:
    """Record one forward and backward pass in three processes of their own.

    Parameters
    ----------
    folder : path
        Gets ``tested``, ``reference`` and ``reference_again``; earlier recordings are replaced.
    fault : str
        A key of `ENVIRONMENTS`: what is true of the environment under test.
    seed : int

    Returns
    -------
    tested, reference, reference_again : Path
        The third is the reference run once more, with another number of threads.

    Raises
    ------
    ValueError
        If the fault is not known.
    RuntimeError
        If a process fails; with what it said.
    """
    if fault not in ENVIRONMENTS:
        msg = f"fault must be one of {', '.join(ENVIRONMENTS)}; got {fault!r}"
        raise ValueError(msg)
    runs = (("tested", fault, 2), ("reference", "", 1), ("reference_again", "", 2))
    folders = []
    for name, wrong, threads in runs:
        folders.append(Path(folder) / name)
        _run_alone(folders[-1], wrong, threads, seed)
    return folders[0], folders[1], folders[2]


def _run_alone(folder: Path, fault: str, threads: int, seed: int) -> None:
    """Record in a process whose environment is its own."""
    words = [sys.executable, "-m", "example_nets.environments", str(folder), fault, str(seed)]
    places = [str(Path(__file__).parents[1]), *sys.path]
    own = {"PYTHONPATH": os.pathsep.join(filter(None, places)), "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(
        words, env={**os.environ, **own}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        msg = f"the run for {folder.name} failed: {done.stderr[-2000:]}"
        raise RuntimeError(msg)


def main() -> None:
    """Record one step: ``python -m example_nets.environments FOLDER FAULT SEED``."""
    from example_nets.gradients import import_step_torch
    from troubleshooter_nb import record

    folder, fault, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    step_torch = import_step_torch()
    from example_nets import environments_torch

    model = step_torch.build(NET, seed)
    environments_torch.prepare(model, fault)
    with record(model, to=folder), environments_torch.engine(fault):
        step_torch.run_step(model, NET, seed)


if __name__ == "__main__":
    main()
