"""The rows of one dump of msprobe as its comparison flattens them: a value of a call each."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from troubleshooter_nb.errors import FormatError, PathNotFoundError
from troubleshooter_nb.formats.missing_path import not_there
from troubleshooter_nb.formats.msprobe_entries import leaves_of
from troubleshooter_nb.formats.msprobe_json import Stacks, read_document, read_parents, read_stacks
from troubleshooter_nb.formats.msprobe_layout import CONSTRUCT, DOCUMENTS, STACK
from troubleshooter_nb.formats.msprobe_records import FIGURE_KEYS, TORCH
from troubleshooter_nb.formats.msprobe_tensors import FOLDER
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming import (
    MsprobeCall,
    RowName,
    format_row_name,
    is_process_group,
    parse_msprobe_call,
)

NOTHING = "N/A"
_FIGURES = tuple(FIGURE_KEYS.values())


@dataclass(frozen=True)
class Value:
    """What a dump says of one value of a call, in its own words.

    Attributes
    ----------
    name : str
        Of the row: that of the tensor's file without suffix where it has one.
    entry : str
        Name of the call.
    call : MsprobeCall or None
        Its parts, None where it has no known form.
    section, slot : str
        ``input``, ``kwargs``, ``parameters``, ``output`` or nothing, and the place therein.
    dtype, shape : str
        As tables show them: ``torch.float32``, ``<class 'int'>``; ``[4, 8]``.
    figures : tuple
        Largest, smallest, mean and norm as the json has them; of what is no tensor its value,
        four times.
    requires_grad : str
        ``True``, ``False`` or ``N/A``.
    digest, file : str
        The checksum and the name of the file; empty without one.
    is_tensor, is_process_group : bool
    has_digest : bool
        Whether the dump was made with checksums, also where this one has none.
    """

    name: str
    entry: str
    call: MsprobeCall | None
    section: str
    slot: str
    dtype: str
    shape: str
    figures: tuple[Any, ...]
    requires_grad: str = NOTHING
    digest: str = ""
    file: str = ""
    is_tensor: bool = False
    is_process_group: bool = False
    has_digest: bool = False

    @property
    def checksum(self) -> str:
        """What the column of checksums says: of what is no tensor that of its text."""
        if self.is_tensor:
            return self.digest
        value = self.figures[0]
        if value is None:
            return "" if self.dtype == "None" else f"{0:08x}"
        return f"{zlib.crc32(str(value).encode()):08x}"

    @property
    def entry_name(self) -> str:
        """What a `Dump` calls it: there a keyword argument has one name in every task."""
        is_keyword = self.section == "input" and not self.slot[:1].isdigit()
        return format_row_name(
            RowName(self.entry, "kwargs" if is_keyword else self.section, self.slot)
        )

    @property
    def is_output(self) -> bool:
        """Whether its row is one of the outputs; everything else went into the call."""
        return self.section == "output"


@dataclass(frozen=True)
class Side:
    """One rank of one dump: the folder, its header and its values in the order of the file."""

    folder: Path
    facts: Mapping[str, str]
    values: tuple[Value, ...]
    stacks: Stacks = field(default_factory=Stacks)
    parents: Mapping[str, str] = field(default_factory=dict)
    is_debug: bool = False

    @property
    def is_torch(self) -> bool:
        """Whether torch wrote it; MSAdapter's count as MindSpore's."""
        return self.facts.get("framework") == TORCH

    @property
    def has_torch_names(self) -> bool:
        """Whether its calls have torch's names: of torch, or of MSAdapter."""
        return self.facts.get("framework") != "mindspore"

    @property
    def has_tensors(self) -> bool:
        """Whether the tensors themselves were stored, not only some beside their statistics."""
        task = self.facts.get("task")
        return task == "tensor" if task else any(value.file for value in self.values)

    @property
    def has_figures(self) -> bool:
        """Whether there are statistics of tensors."""
        tensors = [value for value in self.values if value.is_tensor]
        return not tensors or any(is_number(value.figures[0]) for value in tensors)

    @property
    def has_digests(self) -> bool:
        """Whether tensors have checksums."""
        return any(value.has_digest for value in self.values)

    @property
    def has_stacks(self) -> bool:
        """Whether there is a file of stacks, also an empty one."""
        return bool(self.stacks.texts) or (self.folder / STACK).is_file()

    @property
    def tensors(self) -> Path:
        """Folder of the tensor files: beside the json, wherever the dump was made."""
        return self.folder / FOLDER

    @cached_property
    def by_name(self) -> dict[str, Value]:
        """The values by name of their rows; the first of those with one name."""
        found: dict[str, Value] = {}
        for value in self.values:
            found.setdefault(value.name, value)
        return found


def read_side(path: Path, stack: Path | None = None) -> Side:
    """The values of one rank.

    Parameters
    ----------
    path : Path
        A ``dump.json`` or ``debug.json``, or the folder that has one.
    stack : Path, optional
        The ``stack.json`` that is named; default the one beside it.

    Raises
    ------
    FileNotFoundError
        If there is none.
    FormatError
        If it is no dump of msprobe.
    """
    file = path
    if path.is_dir():
        present = [path / name for name in DOCUMENTS if (path / name).is_file()]
        if not present:
            raise FormatError(Message("msprobe_compare.no_document", folder=str(path)))
        file = present[0]
    if not file.exists():
        raise PathNotFoundError(Message("msprobe_compare.no_json", why=not_there(file)))
    folder = Path(os.path.abspath(file)).parent
    document = read_document(file)
    values = tuple(_values(document.data))
    beside = stack or folder / STACK
    stacks = read_stacks(beside, {}) if stack or beside.is_file() else Stacks()
    if stack and not stacks.texts:
        raise FormatError(Message("msprobe_compare.no_stacks", file=str(stack)))
    construct = folder / CONSTRUCT
    parents = read_parents(construct) if construct.is_file() else {}
    is_debug = file.name == DOCUMENTS[1] or document.facts.get("level") == "debug"
    return Side(folder, document.facts, values, stacks, parents, is_debug)


def _values(data: Mapping[str, Any]) -> list[Value]:
    found = []
    for entry, content in data.items():
        call = parse_msprobe_call(entry)
        for section, slot, leaf in leaves_of(content, call):
            found.append(_value(entry, call, section, slot, leaf))
    return found


def _value(entry: str, call: MsprobeCall | None, section: str, slot: str, leaf: Any) -> Value:
    # A keyword argument has two names: that of its file, and one among the other inputs.
    shown = "input" if section == "kwargs" else section
    name = format_row_name(RowName(entry, shown, slot))
    where = entry, call, "input" if section == "kwargs" else section, slot
    if leaf is None:
        return Value(name, *where, "None", "None", (None,) * len(_FIGURES))
    if not isinstance(leaf, dict):
        return Value(name, *where, f"<class '{type(leaf).__name__}'>", "[]", (leaf,) * 4)
    if "dtype" not in leaf or "shape" not in leaf:
        # What it is called is the type of what the json holds: a text for a dtype of torch.
        value = leaf.get("value")
        kind = f"<class '{type(value).__name__}'>"
        figures = (value,) * len(_FIGURES)
        is_group = is_process_group(str(leaf.get("type", "")))
        return Value(name, *where, kind, "[]", figures, is_process_group=is_group)
    file = leaf.get("data_name")
    file = file if isinstance(file, str) and file not in ("", "-1") else ""
    digest = leaf.get("md5")
    # Of a single number xor is the number.
    has_text = isinstance(digest, str | int | float)
    return Value(
        file.rpartition(".")[0] or name,
        *where,
        str(leaf["dtype"]),
        str(leaf["shape"]),
        tuple(leaf.get(key) for key in _FIGURES),
        str(leaf["requires_grad"]) if "requires_grad" in leaf else NOTHING,
        str(digest) if has_text else "",
        file,
        is_tensor=True,
        has_digest="md5" in leaf,
    )


def is_number(value: Any) -> bool:
    """Whether it is a number to compute with; truth values are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)
