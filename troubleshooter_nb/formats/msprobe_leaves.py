"""What msprobe's json says about one tensor or other value of a call."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from troubleshooter_nb.dump import ArrayInMemory, ArraySource
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.file_source import check_shape
from troubleshooter_nb.formats.links import refuse_outside
from troubleshooter_nb.formats.msprobe_json import DEEPEST, Stacks
from troubleshooter_nb.formats.msprobe_tensors import FOLDER, DumpedTensor
from troubleshooter_nb.formats.recorded import with_nonfinite
from troubleshooter_nb.messages import Message, ids_of, message_of
from troubleshooter_nb.metrics.floats import dtype_from_token
from troubleshooter_nb.naming.characters import printable

Release = Literal["", "1.2.2", "8.3.3", "26.2.0"]

_STATISTICS = {"Max": "max", "Min": "min", "Mean": "mean", "Norm": "l2"}
_HEXADECIMAL = set("0123456789abcdef")
_MISSING = {"msprobe.no_file", "msprobe.no_folder"}


@dataclass(frozen=True)
class Beside:
    """What lies beside the json of one rank in one step.

    `files` is None without a folder of tensors, `release` empty where nothing tells it; `named`
    gets the files that a json speaks of.
    """

    folder: Path
    step: int
    rank: int
    files: set[str] | None
    stacks: Stacks
    parents: Mapping[str, str]
    framework: str = ""
    release: Release = ""
    named: set[str] = field(default_factory=set)

    @cached_property
    def tensors(self) -> str:
        """Folder of the tensor files."""
        return str(self.folder / FOLDER)


def fields_of(leaf: Any, beside: Beside, counts: Counter[str]) -> dict[str, Any]:
    """What the json says about one leaf, as fields of its entry.

    Parameters
    ----------
    leaf : object
        Whatever the json holds there.
    beside : Beside
    counts : Counter
        Counts what is worth a note, by the id of that.

    Raises
    ------
    FormatError
        If a value is nested too deep.
    """
    if not isinstance(leaf, dict) or "dtype" not in leaf or "shape" not in leaf:
        kind, value = _value_of(leaf)
        return {"dtype": kind, "value": value}
    token, dtype = _dtype_of(str(leaf["dtype"]))
    file = leaf.get("data_name")
    if token == "bfloat16" and isinstance(file, str) and file.endswith(".npy"):
        token, dtype = _dtype_of("float32")
        counts["msprobe.widened"] += 1
    shape, impossible = _shape_of(leaf["shape"], dtype)
    statistics = _statistics_of(leaf)
    crc, digest = _digest_of(leaf.get("md5"), token, beside)
    if crc is not None:
        statistics["crc32"] = crc
    source, reason = None, impossible
    if shape is not None:
        source, reason = _source_of(shape, dtype, token, file, beside)
    counts["msprobe.missing_files"] += not _MISSING.isdisjoint(ids_of(reason))
    return {
        "source": source,
        "reason": reason,
        "statistics": statistics,
        "dtype": token,
        "shape": shape,
        "digest": digest,
    }


def _source_of(
    shape: tuple[int, ...], dtype: np.dtype | None, token: str, file: Any, beside: Beside
) -> tuple[ArraySource | None, str]:
    """A handle to the values, or why there is none although there should be."""
    wanted = isinstance(file, str)
    if wanted:
        beside.named.add(file)
    if dtype is None:
        return None, Message("msprobe.dtype_not_read", dtype=token[:40]) if wanted else ""
    if not math.prod(shape) and (not wanted or file not in (beside.files or ())):
        # msprobe writes no file for an empty tensor, even where it names one.
        return ArrayInMemory(np.empty(shape, dtype)), ""
    if not wanted:
        return None, ""
    if beside.files is None:
        return None, Message("msprobe.no_folder", file=printable(file), folder=FOLDER)
    if file not in beside.files:
        return None, Message("msprobe.no_file", file=printable(file), folder=FOLDER)
    try:
        refuse_outside(os.path.join(beside.tensors, file))
    except FormatError as error:
        return None, message_of(error)
    return DumpedTensor(beside.tensors, file, shape, dtype), ""


def _digest_of(md5: Any, token: str, beside: Beside) -> tuple[int | None, str]:
    """The CRC-32 of the stored bytes where it is that, else a text that names what it is.

    What msprobe calls md5 is a CRC-32. Of bfloat16 it is that of the values as float32 in 1.2.2
    and with MindSpore (also under MSAdapter); where the release is unknown, of either.
    """
    if not isinstance(md5, str) or not md5:
        return None, ""
    text = md5.lower()
    bare = text.removeprefix("0x")
    if not set(bare) <= _HEXADECIMAL or not bare:
        return None, f"unknown:{printable(md5)[:64]}"
    if text != bare:
        return None, f"xor:{bare.zfill(16)}"
    if len(bare) != 8:
        return None, f"{'md5' if len(bare) == 32 else 'unknown'}:{bare[:64]}"
    if token != "bfloat16":
        return int(bare, 16), ""
    if beside.release == "1.2.2" or beside.framework in ("mindspore", "mindtorch"):
        return None, f"crc32-of-float32:{bare}"
    return (int(bare, 16), "") if beside.release else (None, f"crc32-of-any-width:{bare}")


def _statistics_of(leaf: Mapping[str, Any]) -> dict[str, float]:
    statistics = {}
    for key, figure in _STATISTICS.items():
        value = leaf.get(key)
        if isinstance(value, int | float):
            try:
                statistics[figure] = float(value)
            except OverflowError:
                statistics[figure] = math.copysign(math.inf, value)
    if not statistics and _is_one_number(leaf):
        # Of a single number, what stands for the xor of its bits is the number.
        statistics = dict.fromkeys(_STATISTICS.values(), float(leaf["md5"]))
    if "l2" in statistics:
        # The norm msprobe gives of one element is that element, with its sign.
        statistics["l2"] = abs(statistics["l2"])
    return with_nonfinite(statistics)


def _is_one_number(leaf: Mapping[str, Any]) -> bool:
    return leaf["shape"] == [] and isinstance(leaf.get("md5"), int | float)


def _value_of(leaf: Any) -> tuple[str, str]:
    """Type and JSON text of what is no tensor."""
    if not isinstance(leaf, dict):
        return type(leaf).__name__, printable(json.dumps(leaf, ensure_ascii=False))
    rest = {key: value for key, value in leaf.items() if key != "type"}
    # Most have a single "value", a memory format its "format".
    value = next(iter(rest.values())) if len(rest) == 1 else rest
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        raise FormatError(Message("msprobe.too_deep", levels=DEEPEST)) from None
    return printable(leaf["type"]), printable(text)


@lru_cache(1024)
def _dtype_of(text: str) -> tuple[str, np.dtype | None]:
    """Name and dtype in numpy for ``torch.float32``, ``Float32``, ...; None for unknown ones."""
    token = text.rpartition(".")[2].lower()
    try:
        dtype = dtype_from_token(token)
    except ValueError:
        return printable(text), None
    return str(dtype), dtype


def _shape_of(value: Any, dtype: np.dtype | None) -> tuple[tuple[int, ...] | None, str]:
    """A shape, or None and what is wrong with it."""
    if isinstance(value, list) and all(type(length) is int for length in value):
        return _checked_shape(tuple(value), dtype)
    return None, Message("msprobe.no_shape")


@lru_cache(4096)
def _checked_shape(
    shape: tuple[int, ...], dtype: np.dtype | None
) -> tuple[tuple[int, ...] | None, str]:
    try:
        check_shape(shape, np.dtype(np.int8) if dtype is None else dtype)
    except FormatError as error:
        return None, message_of(error)
    return shape, ""
