"""A run, a checkpoint or a folder of arrays as one table of entries with tensors behind it."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd
import xarray as xr

from troubleshooter_nb.errors import AmbiguousEntryError, EntryNotFoundError, ReadError
from troubleshooter_nb.frameworks import to_numpy
from troubleshooter_nb.metrics.floats import arithmetic_of, computable
from troubleshooter_nb.metrics.summary import SUMMARY_FIGURES, summarise
from troubleshooter_nb.naming import Site
from troubleshooter_nb.options import get_options
from troubleshooter_nb.render.page import dump_html
from troubleshooter_nb.render.text import dump_text, shape_text
from troubleshooter_nb.run_card import RunCard

SCHEMA = "troubleshooter_nb.dump/1"

# name -> (dtype, unit, meaning, value where unknown)
DUMP_COLUMNS = {
    "name": ("str", "", "entry name, unique within step and rank", ""),
    "kind": ("str", "", "level of the record: file, module, api, kernel", ""),
    "path": ("str", "", "place in the network, dotted", ""),
    "call": ("int64", "", "repeated visit of the same place, from 0", "0"),
    "direction": ("str", "", "forward, backward or empty", ""),
    "role": ("str", "", "input, output, parameter, buffer, gradient or empty", ""),
    "slot": ("str", "", "argument position or key", ""),
    "step": ("int64", "", "training step", "0"),
    "rank": ("int64", "", "process of a distributed run", "0"),
    "dtype": ("str", "", "stored dtype", ""),
    "shape": ("str", "", "such as 64x128; scalar for no axes", ""),
    "ndim": ("int64", "axes", "number of axes", "-1"),
    "size": ("int64", "elements", "number of elements", "-1"),
    "size_bytes": ("int64", "bytes", "stored size of the values", "-1"),
    "order": ("int64", "", "position in the order of saving, from 0", "-1"),
    "producer": ("str", "", "entry that made this value, where known", ""),
    "status": ("str", "", "ok or unreadable", ""),
    "reason": ("str", "", "why an entry is unreadable", ""),
    **SUMMARY_FIGURES,
    "crc32": ("int64", "", "CRC-32 of the stored bytes in C order", "-1"),
}


@runtime_checkable
class ArraySource(Protocol):
    """A small picklable handle to one stored tensor; reading is lazy and by flat range."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""

    @property
    def dtype(self) -> np.dtype:
        """Stored dtype, of ml_dtypes for bfloat16 and float8."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the stored values."""

    def read(self, start: int, stop: int) -> np.ndarray:
        """Stored values of the flat C-order range, shape (stop - start,).

        Raises
        ------
        ReadError
            If the file changed, shrank or vanished since it was opened.
        """


@dataclass(frozen=True)
class ArrayInMemory:
    """An `ArraySource` over an array that is already loaded."""

    array: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype:
        """Dtype of the array."""
        dtype: np.dtype = self.array.dtype
        return dtype

    @property
    def size_bytes(self) -> int:
        """Bytes of the values."""
        return int(self.array.nbytes)

    def read(self, start: int, stop: int) -> np.ndarray:
        """Values of the flat C-order range; a view where the array is contiguous."""
        if self.array.flags.c_contiguous:
            return self.array.reshape(-1)[start:stop]
        return self.array.flat[start:stop]


@dataclass(frozen=True)
class Entry:
    """What a reader knows about one stored tensor when it opens a dump.

    `source` is None for an entry that cannot be read; `reason` then says why.
    """

    name: str
    site: Site
    source: ArraySource | None = None
    step: int = 0
    rank: int = 0
    order: int = -1
    producer: str = ""
    reason: str = ""
    statistics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class Dump:
    """Named tensors of one run, checkpoint or folder: a light table, tensors on demand.

    Attributes
    ----------
    index : xarray.Dataset, dimension ``entry``
        One row per entry with the variables of `troubleshooter_nb.dump.DUMP_COLUMNS`::

            name        str       entry name, unique within step and rank
            kind        str       level of the record: file, module, api, kernel
            path        str       place in the network, dotted
            call        int64     repeated visit of the same place, from 0
            direction   str       forward, backward or empty
            role        str       input, output, parameter, buffer, gradient or empty
            slot        str       argument position or key
            step, rank  int64     training step, process of a distributed run
            dtype       str       stored dtype
            shape       str       such as 64x128; scalar for no axes
            ndim        int64     axes; -1 unknown
            size        int64     elements; -1 unknown
            size_bytes  int64     bytes of the values; -1 unknown
            order       int64     position in the order of saving, from 0; -1 unknown
            producer    str       entry that made this value, where known
            status      str       ok or unreadable
            reason      str       why an entry is unreadable
            min, max    float64   of the finite values; nan unknown or none
            mean        float64   of the finite values; nan unknown or none
            l2          float64   norm of the finite values; nan unknown
            nan_count   int64     elements; -1 unknown
            inf_count   int64     elements; -1 unknown
            zero_count  int64     elements; -1 unknown
            crc32       int64     of the stored bytes; -1 unknown

        Statistics are known where the file holds them or after `summarise`.
    label : str
        Short name of the side, shown in tables; a base name, never a full path.
    format : str
        Format it was read from.
    card : RunCard
        Versions, device and settings of the run, where recorded.
    sources : tuple of ArraySource or None
        One per entry, in the order of `index`.
    notes : tuple of str
        What the reader wants the user to know.
    """

    index: xr.Dataset
    sources: tuple[ArraySource | None, ...]
    label: str = ""
    format: str = ""
    card: RunCard = field(default_factory=RunCard)
    notes: tuple[str, ...] = ()

    @classmethod
    def from_entries(
        cls,
        entries: Sequence[Entry],
        *,
        label: str = "",
        format: str = "",
        card: RunCard | None = None,
        notes: Sequence[str] = (),
    ) -> Dump:
        """Build the table from what a reader found; entries keep their sequence."""
        return cls(
            _index(entries, format),
            tuple(entry.source for entry in entries),
            label,
            format,
            card or RunCard(),
            tuple(notes),
        )

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any], *, label: str = "") -> Dump:
        """A dump of arrays in memory, in the order of the mapping.

        Parameters
        ----------
        arrays : mapping of str to array
            Arrays, numbers or tensors of torch and MindSpore. What holds no numbers becomes an
            entry with a reason.
        """
        entries = []
        for order, (name, value) in enumerate(arrays.items()):
            array = to_numpy(value)
            entry = Entry(name, Site("memory", name), order=order)
            if arithmetic_of(array.dtype) == "unsupported":
                entries.append(replace(entry, reason=f"holds {array.dtype}, not numbers"))
            else:
                entries.append(replace(entry, source=ArrayInMemory(array)))
        return cls.from_entries(entries, label=label, format="memory")

    def __len__(self) -> int:
        """Number of entries."""
        return len(self.sources)

    def __iter__(self) -> Iterator[str]:
        """Names of the entries, in order; a name repeats over steps and ranks."""
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        """Whether an entry has this name in any step and rank."""
        return name in set(self.names)

    @property
    def names(self) -> list[str]:
        """Names of the entries, in order."""
        return [str(name) for name in self.index["name"].values]

    @property
    def size_bytes(self) -> int:
        """Bytes of all readable tensors."""
        sizes = self.index["size_bytes"].values
        return int(sizes[sizes > 0].sum())

    def array(self, name: str) -> np.ndarray:
        """The stored values of an entry, loaded, in their stored dtype and shape.

        Raises
        ------
        EntryNotFoundError
            If no entry has this name; the message lists the closest.
        AmbiguousEntryError
            If several steps or ranks have it.
        ReadError
            If the values cannot be read.
        """
        source = self._readable(self.position(name))
        return source.read(0, int(np.prod(source.shape, dtype=np.int64))).reshape(source.shape)

    def __getitem__(self, name: str) -> xr.DataArray:
        """An entry as a DataArray with dimensions ``axis_0 ...``, loaded in a computable dtype.

        bfloat16 and float8 come widened to float32; ``attrs["dtype"]`` holds the stored dtype.
        Raises like `array`.
        """
        stored = self.array(name)
        row = self.index.isel(entry=self.position(name))
        return xr.DataArray(
            computable(stored),
            dims=[f"axis_{axis}" for axis in range(stored.ndim)],
            name=name,
            attrs={
                "dtype": str(stored.dtype),
                "step": int(row["step"]),
                "rank": int(row["rank"]),
                "dump": self.label,
            },
        )

    def position(self, name: str) -> int:
        """Row number of the only entry with this name, else with this path; raises like `array`."""
        found = np.flatnonzero(self.index["name"].values == name)
        if not len(found):
            found = np.flatnonzero(self.index["path"].values == name)
        if len(found) == 1:
            return int(found[0])
        if not len(found):
            raise EntryNotFoundError(self._not_found(name))
        rows = self.index.isel(entry=found[:4])
        where = ", ".join(
            f"step={int(s)}, rank={int(r)}"
            for s, r in zip(rows["step"].values, rows["rank"].values, strict=True)
        )
        first = f"step={int(rows['step'][0])}, rank={int(rows['rank'][0])}"
        msg = (
            f"{name!r} exists {len(found)} times in {self.label!r} ({where}"
            f"{', ...' if len(found) > 4 else ''}); "
            f"choose one first: dump.select({first})[{name!r}]"
        )
        raise AmbiguousEntryError(msg)

    def select(self, **conditions: object) -> Dump:
        """A dump of the entries that meet every condition.

        Parameters
        ----------
        **conditions
            A column of `index` and the value wanted; text may hold ``*`` and ``?``, a list means
            any of its values. ``dump.select(step=0, role="output", path="layers.*")``

        Raises
        ------
        EntryNotFoundError
            For a column that does not exist. Nothing found gives an empty dump.
        """
        keep = np.ones(len(self), bool)
        for column, wanted in conditions.items():
            if column not in self.index:
                msg = f"no column {column!r}; columns: {', '.join(map(str, self.index))}"
                raise EntryNotFoundError(msg)
            choices = wanted if isinstance(wanted, (list, tuple, set, range)) else [wanted]
            values = self.index[column].values
            keep &= np.logical_or.reduce([_matches(values, choice) for choice in choices])
        return self._rows(np.flatnonzero(keep))

    def relabel(self, label: str) -> Dump:
        """The same dump under another label."""
        return replace(self, label=label)

    def summarise(self, progress: Callable[[int, int], None] | None = None) -> Dump:
        """A dump whose statistics and CRC are computed for every readable entry.

        Parameters
        ----------
        progress : callable, optional
            Called as ``progress(done, total)`` in entries.
        """
        columns = {name: self.index[name].values.copy() for name in (*SUMMARY_FIGURES, "crc32")}
        status = self.index["status"].values.copy()
        reason = self.index["reason"].values.copy()
        for row, source in enumerate(self.sources):
            if source is not None:
                try:
                    figures = summarise(source.read, int(np.prod(source.shape, dtype=np.int64)))
                except ReadError as error:
                    status[row], reason[row] = "unreadable", str(error)
                else:
                    for name, values in columns.items():
                        values[row] = figures[name]
            if progress is not None:
                progress(row + 1, len(self))
        columns |= {"status": status, "reason": reason}
        return replace(self, index=self.index.assign({k: ("entry", v) for k, v in columns.items()}))

    def tree(self) -> xr.DataTree:
        """The entries along their dotted paths, arrays on the leaves only; loads every tensor.

        A path that is both a leaf and a parent keeps its array in a child called ``value``.
        Entries of several steps or ranks lie under ``step_*/rank_*``.
        """
        several = (
            len(set(zip(self.index["step"].values, self.index["rank"].values, strict=True))) > 1
        )
        leaves: dict[str, int] = {}
        for row, source in enumerate(self.sources):
            if source is None:
                continue
            place = self.index.isel(entry=row)
            parts = [part for part in self.names[row].replace("/", ".").split(".") if part]
            prefix = [f"step_{int(place['step'])}", f"rank_{int(place['rank'])}"] if several else []
            leaves["/" + "/".join([*prefix, *parts])] = row
        parents = {path.rsplit("/", 1)[0] for path in leaves}
        parents |= {up for path in parents for up in _ancestors(path)}
        datasets = {}
        for path, row in leaves.items():
            where = f"{path}/value" if path in parents else path
            values = self._rows([row])[self.names[row]]
            datasets[where] = xr.Dataset({"value": values.rename("value")})
        return xr.DataTree.from_dict(datasets)

    def to_dataset(self) -> xr.Dataset:
        """The table of entries, a copy of `index`."""
        return self.index.copy()

    def to_dataframe(self) -> pd.DataFrame:
        """The table of entries with one row per entry."""
        return self.index.to_dataframe().reset_index(drop=True)

    def __repr__(self) -> str:
        """What is in the dump, its health and its largest entries, at most 25 lines."""
        return dump_text(self.index, self._facts())

    def _repr_html_(self) -> str:
        return dump_html(self.index, self._facts())

    def _facts(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "format": self.format,
            "notes": self.notes,
            "card": self.card.to_dict(),
            **get_options(),
        }

    def _rows(self, rows: Sequence[int] | np.ndarray) -> Dump:
        return replace(
            self, index=self.index.isel(entry=rows), sources=tuple(self.sources[i] for i in rows)
        )

    def _readable(self, row: int) -> ArraySource:
        source = self.sources[row]
        if source is None:
            reason = str(self.index["reason"].values[row])
            msg = f"{self.names[row]!r} of {self.label!r} cannot be read: {reason}"
            raise ReadError(msg)
        return source

    def _not_found(self, name: str) -> str:
        close = difflib.get_close_matches(
            str(name), list(dict.fromkeys(self.names)), n=3, cutoff=0.4
        )
        hint = f"closest: {', '.join(map(repr, close))}" if close else "see dump.names"
        return f"no entry {name!r} in {self.label!r} ({len(self)} entries); {hint}"


def _index(entries: Sequence[Entry], kind: str) -> xr.Dataset:
    def column(name: str) -> list[Any]:
        return [_cell(entry, name) for entry in entries]

    kinds = {"str": object, "int64": np.int64, "float64": np.float64}
    variables = {}
    for name, (dtype, unit, meaning, _) in DUMP_COLUMNS.items():
        values = np.empty(len(entries), kinds[dtype])
        values[:] = column(name)
        attrs = {"description": meaning} | ({"units": unit} if unit else {})
        variables[name] = ("entry", values, attrs)
    return xr.Dataset(variables, attrs={"schema": SCHEMA, "format": kind})


def _cell(entry: Entry, name: str) -> Any:
    source = entry.source
    if name in ("kind", "path", "call", "direction", "role", "slot"):
        return getattr(entry.site, name)
    if name in ("name", "step", "rank", "order", "producer", "reason"):
        return getattr(entry, name)
    if name == "status":
        # Statistics alone are a readable entry too.
        return (
            "ok" if source is not None or (entry.statistics and not entry.reason) else "unreadable"
        )
    if name in SUMMARY_FIGURES or name == "crc32":
        unknown = -1 if DUMP_COLUMNS[name][0] == "int64" else np.nan
        return entry.statistics.get(name, unknown)
    if source is None:
        return "" if DUMP_COLUMNS[name][0] == "str" else -1
    return {
        "dtype": str(source.dtype),
        "shape": shape_text(source.shape),
        "ndim": len(source.shape),
        "size": int(np.prod(source.shape, dtype=np.int64)),
        "size_bytes": source.size_bytes,
    }[name]


def _matches(values: np.ndarray, wanted: object) -> np.ndarray:
    if isinstance(wanted, str) and any(mark in wanted for mark in "*?"):
        return np.array([fnmatch.fnmatchcase(str(value), wanted) for value in values], bool)
    return np.asarray(values == wanted, bool)


def _ancestors(path: str) -> Iterator[str]:
    while "/" in path.strip("/"):
        path = path.rsplit("/", 1)[0]
        yield path
