"""Small dumps as ptdbg_ascend writes them, and its tables read back."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np

DATA = Path(__file__).parents[2] / "data/torch_npu_hooks"
WANTED = DATA / "ptdbg_compare"
DUMPS = {"npu": DATA / "ptdbg/v4/npu/ptdbg_dump_v4.0", "bench": WANTED / "bench/ptdbg_dump_v4.0"}
LINEAR = [f"Functional_linear_0_forward_{one}" for one in ("input.0", "input.1", "output")]


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return [*csv.DictReader(file)]


def headings(path: Path) -> list[str]:
    with path.open(newline="", encoding="utf-8") as file:
        return next(csv.reader(file))


def v4(*, arrays: bool = True) -> dict[str, object]:
    """The `input_param` of the two runs of December 2023."""
    param: dict[str, object] = {"is_print_compare_log": False}
    for side, folder in DUMPS.items():
        param[f"{side}_pkl_path"] = str(folder / "rank0/api_stack_dump.pkl")
        if arrays:
            param[f"{side}_dump_data_dir"] = str(folder / "rank0/api_stack_dump")
    return param


def line(name: str, array: np.ndarray | None = None, dtype: str = "", shape: object = None) -> list:
    """A line of a text file; a call stack where the name is that of one."""
    if name.endswith("stack_info"):
        return [name, [["net.py", "3", "forward", f"{name}()"]]]
    statistics: list[object] = []
    if array is not None and array.size and array.dtype.kind in "iuf":
        norm = float(np.linalg.norm(array))
        statistics = [float(array.max()), float(array.min()), float(array.mean()), norm]
    if array is not None:
        dtype = dtype or f"torch.{array.dtype}"
        shape = [*array.shape] if shape is None else shape
    return [name, 0, [], dtype or "torch.float32", [1] if shape is None else shape, statistics]


def written(folder: Path, lines: list[list], arrays: dict[str, np.ndarray] | None = None) -> Path:
    """A rank: ``dump.pkl``, and the folder ``dump`` if there are arrays."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dump.pkl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    if arrays is not None:
        (folder / "dump").mkdir(exist_ok=True)
        for name, array in arrays.items():
            np.save(folder / "dump" / f"{name}.npy", array)
    return folder


def run(folder: Path, tensors: dict[str, np.ndarray], *more: str) -> Path:
    """A rank with these arrays, and lines for them and for `more` names behind."""
    lines = [line(name, array) for name, array in tensors.items()] + [line(one) for one in more]
    return written(folder, lines, tensors)


def param(left: Path, right: Path, *, arrays: bool = True, log: bool = False) -> dict[str, object]:
    """The `input_param` of two ranks that `written` has made."""
    found: dict[str, object] = {"is_print_compare_log": log}
    for side, folder in (("npu", left), ("bench", right)):
        found[f"{side}_pkl_path"] = folder / "dump.pkl"
        if arrays:
            found[f"{side}_dump_data_dir"] = folder / "dump"
    return found
