"""Dumps of calls in the layout of msprobe 26.2.0."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import ArgumentError, TroubleshooterWarning
from troubleshooter_nb.formats.aside import folder_whole
from troubleshooter_nb.formats.checkpoint import Item, item_of
from troubleshooter_nb.formats.msprobe_layout import CONSTRUCT, DOCUMENTS, STACK
from troubleshooter_nb.formats.msprobe_records import (
    TORCH,
    record,
    shared_stacks,
    tensor_leaf,
    value_leaf,
)
from troubleshooter_nb.formats.msprobe_tensors import FOLDER
from troubleshooter_nb.formats.npy_dir import safe_name
from troubleshooter_nb.formats.npy_file import write_npy_blocks
from troubleshooter_nb.formats.pth_writer import torch_holds, write_pth_tensor
from troubleshooter_nb.formats.record_entries import TOTAL
from troubleshooter_nb.messages import Message, joined, told
from troubleshooter_nb.metrics.floats import computable, dtype_from_token, same_dtype
from troubleshooter_nb.metrics.partial import Partial, merge_tree
from troubleshooter_nb.metrics.summary import magnitudes, summary_figures, summary_partial
from troubleshooter_nb.naming import (
    MsprobeCall,
    RowName,
    format_msprobe_call,
    forward_of,
    parse_msprobe_call,
    parse_row_name,
)

_FIGURES = ("max", "min", "mean", "l2")
_FRAMEWORKS = {"torch": TORCH, TORCH: TORCH, "mindspore": "mindspore", "mindtorch": "mindtorch"}
_OF_MINDSPORE = ("Cell", "Primitive", "Mint", "MintFunctional", "MintDistributed")
_LEVELS = ("L0", "L1", "mix")
_CELLS = (
    *("name", "dtype", "shape", "value", "reason", "digest", "crc32"),
    *(*_FIGURES, "nan_count", "inf_count"),
)


@dataclass
class _CallRows:
    """One call in one step of one rank, and the rows of the Dump that are its values."""

    parts: MsprobeCall
    rows: list[tuple[RowName, int]] = field(default_factory=list)


_Calls = dict[str, _CallRows]


def save_msprobe_dir(dump: Dump, folder: Path) -> Path:
    """Write a dump of calls as ``step<n>/rank<k>`` with json and a file per tensor.

    Parameters
    ----------
    dump : Dump
        Entries are named as msprobe names them: ``Module.fc1.Linear.forward.0.input.0``. Tensors
        are copied block by block; of torch into ``.pt``, else into ``.npy``, where bfloat16 is
        widened to float32 as msprobe does it. Statistics are those of the Dump, or found while
        copying. Values that are no tensors, parents and stacks are kept.
    folder : Path
        New or empty; it appears whole or not at all.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    ValueError
        If no entry is named as one of a call, or the folder is not empty.
    ReadError
        If values cannot be read.

    Warns
    -----
    TroubleshooterWarning
        With the number of entries that msprobe has no words for, which were left out, and of those
        whose values could not be written. Whole gradients of arguments that no call made, as a
        recording has them, are left out without a word: msprobe records none.
    """
    _refuse_taken(folder)
    lost: dict[str, list[str]] = {}
    places = _places_of(dump, lost)
    if not places:
        raise ArgumentError(Message("msprobe.no_calls", dump=dump.label))
    with folder_whole(folder) as aside:
        for (step, rank), calls in places.items():
            below = Path(f"step{step}", f"rank{rank}")
            writer = _Writer(dump, calls, _framework_of(dump, places), lost)
            writer.write(aside / below, os.path.abspath(folder / below / FOLDER))
    if said := [
        Message(f"msprobe.{why}", count=len(names), example=names[0]) for why, names in lost.items()
    ]:
        text = told(Message("msprobe.written_without", dump=dump.label, problems=joined(said)))
        warnings.warn(text, TroubleshooterWarning, stacklevel=3)
    return folder


def _refuse_taken(folder: Path) -> None:
    if os.path.lexists(folder) and not (folder.is_dir() and next(folder.iterdir(), None) is None):
        raise ArgumentError(Message("msprobe.folder_taken", folder=folder.name))


def _places_of(dump: Dump, lost: dict[str, list[str]]) -> dict[tuple[int, int], _Calls]:
    """The calls of each step and rank in the order of completion; `lost` gets the other entries."""
    places: dict[tuple[int, int], _Calls] = {}
    columns = (
        dump.columns[name].tolist() for name in ("name", "step", "rank", "shape", "value", "call")
    )
    parsed = cache(_parsed)
    for row, (name, step, rank, shape, value, call) in enumerate(zip(*columns, strict=True)):
        found = parsed(name)
        if found is None and f".backward.{call}.{TOTAL}." in name:
            continue
        if found is None or (shape is None and not value):
            why = "other_names" if found is None else "nothing_known"
            lost.setdefault(why, []).append(name)
            continue
        key, parts = found
        calls = places.setdefault((step, rank), {})
        # Behind those that ended before: a call holds others between its inputs and outputs.
        calls[key.entry] = one = calls.pop(key.entry, None) or _CallRows(parts)
        one.rows.append((key, row))
    return dict(sorted(places.items()))


def _parsed(name: str) -> tuple[RowName, MsprobeCall] | None:
    key = parse_row_name(name)
    parts = parse_msprobe_call(key.entry) if key else None
    return None if key is None or parts is None else (key, parts)


def _framework_of(dump: Dump, places: Mapping[tuple[int, int], _Calls]) -> str:
    said = _FRAMEWORKS.get(str(dump.card.facts.get("framework", "")))
    prefixes = {call.parts.prefix for calls in places.values() for call in calls.values()}
    return said or ("mindspore" if prefixes.intersection(_OF_MINDSPORE) else TORCH)


class _Writer:
    """Writes the calls of one step and rank; `lost` gets the entries whose values stay behind."""

    def __init__(
        self, dump: Dump, calls: _Calls, framework: str, lost: dict[str, list[str]]
    ) -> None:
        self._dump = dump
        self._calls = calls
        self._framework = framework
        self._lost = lost
        self._taken: set[str] = set()
        self._is_torch = framework == TORCH

    def write(self, folder: Path, final: str) -> None:
        """Write the files of the calls; `final` is where the tensors will be in the end."""
        tensors = folder / FOLDER
        tensors.mkdir(parents=True)
        data = {
            entry: record(
                call.parts,
                [(key.section, key.slot, self._leaf(row, tensors)) for key, row in call.rows],
            )
            for entry, call in self._calls.items()
        }
        if not self._taken:
            tensors.rmdir()
        head = {
            "task": "tensor" if self._taken else "statistics",
            "level": "",
            "framework": self._framework,
            "dump_data_dir": final if self._taken else None,
        }
        debug = {entry for entry, call in self._calls.items() if call.parts.event == "debug"}
        for file, level, mine in zip(
            DOCUMENTS, (self._level(), "debug"), (data.keys() - debug, debug), strict=True
        ):
            if mine:
                of_file = {entry: one for entry, one in data.items() if entry in mine}
                _write_json(folder / file, {**head, "level": level, "data": of_file})
        stacks, parents = self._texts("stack"), self._texts("parent")
        # msprobe writes neither beside debug entries.
        if len(debug) < len(data) or stacks or parents:
            _write_json(folder / STACK, shared_stacks(stacks))
            _write_json(folder / CONSTRUCT, _construct(self._calls, parents))

    def _level(self) -> str:
        said = str(self._dump.card.facts.get("level", ""))
        kinds = {c.parts.is_module for c in self._calls.values() if c.parts.event != "debug"}
        of_kinds = "mix" if len(kinds) > 1 else "L0" if True in kinds else "L1"
        return said if said in _LEVELS else of_kinds

    def _texts(self, column: str) -> dict[str, str]:
        """The text of a column by call, where it has one."""
        values = self._dump.columns[column]
        texts = {
            entry: next((values[row] for _, row in call.rows if values[row]), "")
            for entry, call in self._calls.items()
        }
        return {entry: text for entry, text in texts.items() if text}

    def _leaf(self, row: int, tensors: Path) -> Any:
        """What the json says of one entry, whose values are written where it has any."""
        cell = {name: self._dump.columns[name][row] for name in _CELLS}
        if cell["value"]:
            return value_leaf(cell["dtype"], cell["value"])
        source, figures = self._dump.sources[row], _figures_of(cell)
        stored = None if source is None else self._stored(source.dtype)
        if source is not None and stored is not None and source.size_bytes:
            file = self._file(cell["name"])
            item = _widened(item_of(cell["name"], source), stored)
            seen = _Seen() if figures is None else None
            write = write_pth_tensor if self._is_torch else write_npy_blocks
            write(tensors / file, seen.through(item) if seen else item)
            figures = seen.figures() if seen else figures
            # Of a widened bfloat16 msprobe says what it was.
            said = source.dtype.name if source.dtype.name == "bfloat16" else stored.name
            return self._tensor(said, cell["shape"], figures, data_name=file)
        if cell["reason"] or (source is not None and stored is None):
            self._lost.setdefault("without_values", []).append(cell["name"])
        dtype = cell["dtype"] if source is None else source.dtype.name
        more = {} if source is not None else _digest_of(cell, self._framework)
        return self._tensor(dtype, cell["shape"], figures, **more)

    def _tensor(
        self,
        dtype: str,
        shape: tuple[int, ...],
        figures: Mapping[str, float] | None,
        **more: str,
    ) -> dict[str, Any]:
        return tensor_leaf(dtype, shape, figures or {}, self._framework, **more)

    def _stored(self, dtype: np.dtype) -> np.dtype | None:
        """The dtype that values are stored in, None where there is none."""
        wide = computable(np.empty(0, dtype)).dtype
        holds = torch_holds if self._is_torch else _npy_holds
        return next((one for one in (dtype, wide) if holds(one)), None)

    def _file(self, name: str) -> str:
        """A name for the file of an entry, which every file system takes and no other has."""
        suffix = ".pt" if self._is_torch else ".npy"
        file = f"{name}{suffix}"
        try:
            safe = "/" not in name and not safe_name(name).startswith(".")
        except ValueError:
            safe = False
        if not safe or file.casefold() in self._taken:
            file = f"entry.{len(self._taken)}{suffix}"
        self._taken.add(file.casefold())
        return file


def _npy_holds(dtype: np.dtype) -> bool:
    # Those of ml_dtypes would be raw bytes, of which the json does not say what they are.
    try:
        return dtype.kind in "biufc" and same_dtype(dtype_from_token(dtype.name), dtype)
    except ValueError:
        return False


def _widened(item: Item, dtype: np.dtype) -> Item:
    """The item with its values in a dtype that holds them all."""
    if item.dtype == dtype:
        return item
    return item._replace(dtype=dtype, chunks=lambda: map(computable, item.chunks()))


class _Seen:
    """Figures of a tensor that are found while its blocks pass."""

    def __init__(self) -> None:
        self._partials: list[Partial] = []
        self._infinities: set[float] = set()

    def through(self, item: Item) -> Item:
        """The item, whose values are looked at on their way."""
        return item._replace(chunks=lambda: map(self._look, item.chunks()))

    def _look(self, chunk: np.ndarray) -> np.ndarray:
        partial = summary_partial(chunk)
        self._partials.append(partial)
        if partial.counts[2]:  # infinities
            values = magnitudes(computable(chunk))
            self._infinities |= {one for one in (-math.inf, math.inf) if (values == one).any()}
        return chunk

    def figures(self) -> dict[str, float]:
        """Extremes, mean and norm of all values, NaN and infinities included."""
        found = summary_figures(merge_tree(self._partials))
        if found["nan_count"]:
            return dict.fromkeys(_FIGURES, math.nan)
        if self._infinities:
            extremes = [found[name] for name in ("min", "max") if not math.isnan(found[name])]
            found["max"] = max(*self._infinities, *extremes, -math.inf)
            found["min"] = min(*self._infinities, *extremes, math.inf)
            found |= {"mean": sum(self._infinities), "l2": math.inf}
        return {name: found[name] for name in _FIGURES}


def _figures_of(cell: Mapping[str, Any]) -> dict[str, float] | None:
    """Figures that the Dump knows, with what msprobe writes for NaN; None where they are to find.

    A Dump that was summarised has those of the finite values, which do not tell the signs of
    infinities.
    """
    if cell["nan_count"] > 0:
        return dict.fromkeys(_FIGURES, math.nan)
    known = {name: float(cell[name]) for name in _FIGURES if not math.isnan(cell[name])}
    of_finite = cell["inf_count"] > 0 and not {"min", "max"} & {
        name for name, value in known.items() if math.isinf(value)
    }
    return known if known and not of_finite else None


def _digest_of(cell: Mapping[str, Any], framework: str) -> dict[str, str]:
    """The checksum of a tensor without values, where reading gives the same again."""
    kind, _, text = cell["digest"].partition(":")
    of_own_bytes = framework == TORCH or cell["dtype"] != "bfloat16"
    if cell["crc32"] >= 0 and of_own_bytes:
        return {"md5": f"{cell['crc32']:08x}"}
    if not text or (kind.startswith("crc32") and framework == TORCH):
        return {}
    return {"md5": f"0x{text}" if kind == "xor" else text}


def _construct(calls: _Calls, parents: Mapping[str, str]) -> dict[str, str | None]:
    """The call that each one ran in; those of backward calls are found by the forward ones."""
    made: dict[str, str | None] = {}
    for entry, call in calls.items():
        parent = parents.get(entry)
        forward = format_msprobe_call(forward_of(call.parts))
        if call.parts.event == "forward" or parent:
            made[forward] = made.get(forward) or parent
        if call.parts.event == "backward":
            made[entry] = _backward_of(parent, calls)
    for parent in parents.values():
        made.setdefault(parent, None)
    return made


def _backward_of(forward: str | None, calls: _Calls) -> str | None:
    """The backward call of a forward one, if it is in the dump."""
    parts = parse_msprobe_call(forward) if forward else None
    if parts is None:
        return None
    backward = format_msprobe_call(replace(parts, event="backward"))
    return backward if backward in calls else None


def _write_json(file: Path, content: Any) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False)
    file.write_bytes(text.encode(errors="backslashreplace"))
