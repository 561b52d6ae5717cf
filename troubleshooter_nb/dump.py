"""A run, a checkpoint or a folder of arrays as one table of entries with tensors behind it."""

from __future__ import annotations

import fnmatch
import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import pandas as pd
import xarray as xr
from numpy.lib.stride_tricks import sliding_window_view

from troubleshooter_nb.collector import uncollected
from troubleshooter_nb.columns.column import described
from troubleshooter_nb.columns.entries import DUMP_COLUMNS
from troubleshooter_nb.edges import Edges
from troubleshooter_nb.errors import (
    AmbiguousEntryError,
    ArgumentError,
    EntryNotFoundError,
    FormatError,
    ReadError,
    check_kind,
)
from troubleshooter_nb.frameworks import adapter_of
from troubleshooter_nb.messages import Message, message_of, messages_in, of_one_class
from troubleshooter_nb.metrics.floats import arithmetic_of, computable, is_integer_name
from troubleshooter_nb.metrics.sketches import NUMBERS, summarise_with_sketch
from troubleshooter_nb.metrics.summary import SUMMARY_FIGURES, histogram_exponents
from troubleshooter_nb.naming import CALL_KINDS, Site, parse_npy_name, site_of_npy_stem
from troubleshooter_nb.naming.closeness import closest
from troubleshooter_nb.naming.roles import is_given
from troubleshooter_nb.options import get_options
from troubleshooter_nb.ranges import Starts, unsigned, whole
from troubleshooter_nb.render.dump_view import dump_html
from troubleshooter_nb.render.text import dump_text
from troubleshooter_nb.run_card import RunCard
from troubleshooter_nb.shapes import Shape, are_shape, is_shape, with_shape_texts, with_shape_tuples
from troubleshooter_nb.table import Table, table_of, taken
from troubleshooter_nb.thresholds import READ_BLOCK

# Since 2 there may be a variable FINGERPRINT; what was stored as 1 is read as ever.
SCHEMA = "troubleshooter_nb.dump/2"
FINGERPRINT = "fingerprint"  # not a column: its rows are 17 numbers
_NUMBER = "fingerprint_number"  # its second dimension
StepRank = tuple[int, int]  # where an entry is from: step, rank

_OF_SITE = ("kind", "path", "call", "direction", "role", "slot")
_OF_ENTRY = (
    *("name", "step", "rank", "order", "producer", "reason"),
    *("value", "layer", "parent", "stack", "digest"),
)
_OF_ARRAY = ("dtype", "shape", "ndim", "size", "size_bytes")
# Messages of readers, with the names of what they left.
_SAYS_UNOPENED = ("files.unopened", "dumps.below_checkpoints", "dumps.below_pickles")
_STATISTICS = (*SUMMARY_FIGURES, "crc32")


@runtime_checkable
class ArraySource(Protocol):
    """A small picklable handle to one stored tensor; reading is lazy and by flat range.

    A source may also offer ``opened()``: a context in which several ranges are read, by the method
    ``read`` of what it gives, while its file is opened and checked once. `reading` asks for it. It,
    or what is opened, may offer ``read_rows(starts, length)`` as well, where many short ranges can
    be had for less than by reading what lies around them; `read_rows` asks for that.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""

    @property
    def dtype(self) -> np.dtype:
        """Stored dtype, of ml_dtypes for bfloat16 and float8."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the stored values."""

    def files(self) -> tuple[str, ...]:
        """Paths of the files that are read, in order, each once; none of what lies in memory."""

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """Stored values of the flat C-order range, shape (stop - start,).

        Parameters
        ----------
        start, stop : int
        into : ndarray of `dtype`, shape (stop - start,), contiguous, optional
            Memory that may be read into, and is returned then: asking the system for new pages
            costs as much as the reading. A source whose values come in memory of their own
            returns that and leaves `into` as it is.

        Raises
        ------
        ReadError
            If the file changed, shrank or vanished since it was opened.
        """


def files_of(sources: Iterable[ArraySource]) -> tuple[str, ...]:
    """Paths of the files that any of the sources reads, in order, each once."""
    return tuple(dict.fromkeys(file for source in sources for file in source.files()))


class SizedByShape:
    """What most sources share: how many bytes their values are."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def size_bytes(self) -> int:
        """Bytes of the values."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, eq=False)
class ArrayInMemory:
    """An `ArraySource` over an array that is already loaded; equal to itself only."""

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

    def files(self) -> tuple[str, ...]:
        """No file."""
        return ()

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """Values of the flat C-order range; a view where the array is contiguous."""
        if self.array.flags.c_contiguous:
            return self.array.reshape(-1)[start:stop]
        values = np.empty(stop - start, self.dtype) if into is None else into
        _fill_in_c_order(values, self.array, start)
        return values

    def read_rows(self, starts: Starts, length: int) -> np.ndarray:
        """Values of flat ranges of one length; see `troubleshooter_nb.dump.read_rows`."""
        rows = np.empty((len(starts), length), self.dtype)
        if not rows.size:
            return rows
        raw, array = unsigned(rows), unsigned(self.array)
        firsts, most = np.asarray(starts, np.int64), max(READ_BLOCK // length, 1)
        for at in range(0, len(rows), most):
            some = firsts[at : at + most]
            if array.flags.c_contiguous:
                raw[at : at + most] = sliding_window_view(array.reshape(-1), length)[some]
            else:
                flat = some[:, None] + np.arange(length)
                raw[at : at + most] = array[np.unravel_index(flat, array.shape)]
        return rows


def _fill_in_c_order(into: np.ndarray, array: np.ndarray, start: int) -> None:
    """Fill with what stands from `start` on in C order, of an array that lies in memory otherwise.

    Rows that the range holds whole are copied by one call of numpy, which knows the way through
    any strides; only the two at its ends are cut.
    """
    if array.ndim < 2:
        into[:] = array[start : start + len(into)]
        return
    while len(into):
        row, within = divmod(start, array[0].size)
        rows = 0 if within else len(into) // array[0].size
        if rows:
            count = rows * array[0].size
            into[:count].reshape(rows, *array.shape[1:])[:] = array[row : row + rows]
        else:
            count = min(array[0].size - within, len(into))
            _fill_in_c_order(into[:count], array[row], within)
        start, into = start + count, into[count:]


_NO_STATISTICS: Mapping[str, float] = {}


class Entry(NamedTuple):
    """What a reader knows about one stored tensor, or other value, when it opens a dump.

    `source` is None where there are no values to load: the dump holds only statistics, a digest or
    the dtype and shape of the tensor; the entry is no tensor but a `value`; or it cannot be read,
    and `reason` says why.
    """

    name: str
    site: Site
    source: ArraySource | None = None
    step: int = 0
    rank: int = 0
    order: int = -1
    producer: str = ""
    reason: str = ""
    statistics: Mapping[str, float] = _NO_STATISTICS
    dtype: str = ""
    shape: tuple[int, ...] | None = None
    value: str = ""
    layer: str = ""
    parent: str = ""
    stack: str = ""
    digest: str = ""
    fingerprint: tuple[float, ...] = ()


class CallState(NamedTuple):
    """What a recorded call ran with besides its values.

    Attributes
    ----------
    training : bool or None
        The mode of the layer; None where nothing tells, as of the next two.
    gradients : bool or None
        Whether gradients were on.
    autocast : str or None
        Its dtype; empty where it was off.
    random : ArraySource or None
        The state of the random generator before the call, as bytes.
    nesting : str
        How the arguments were nested, see `troubleshooter_nb.capture.nesting`; empty unknown.
    strides : mapping of str to tuple of int
        In elements, of the arguments that did not lie in C order, by slot.
    lost : mapping of str to str
        Classes of the arguments that no record can hold, by slot.
    """

    training: bool | None = None
    gradients: bool | None = None
    autocast: str | None = None
    random: ArraySource | None = None
    nesting: str = ""
    strides: Mapping[str, tuple[int, ...]] = {}
    lost: Mapping[str, str] = {}


@dataclass(frozen=True, repr=False)
class Dump:
    """Named tensors of one run, checkpoint or folder: a light table, tensors on demand.

    Attributes
    ----------
    index : xarray.Dataset, dimension ``entry``
        One row per entry with the variables of `troubleshooter_nb.columns.entries.DUMP_COLUMNS`::

            name        str       entry name, unique within step and rank
            kind        str       level of the record: file, module, api, kernel
            path        str       place in the network, dotted
            call        int64     repeated visit of the same place, from 0
            direction   str       forward, backward or empty
            role        str       one of `troubleshooter_nb.naming.ROLES`, or empty
            slot        str       argument position or key
            step, rank  int64     training step, process of a distributed run
            dtype       str       stored dtype
            shape       tuple     lengths of the axes; () for a scalar, None unknown
            ndim        int64     axes; -1 unknown
            size        int64     elements; -1 unknown
            size_bytes  int64     bytes of the values; -1 unknown
            order       int64     position in the order of saving, from 0; -1 unknown
            producer    str       entry as which another call made this value, where known
            status      str       ok or unreadable
            reason      str       why an entry is unreadable
            value       str       what is no tensor, as JSON: a number, text or null
            layer       str       class of the module or operator, such as Linear
            parent      str       the call this one ran in, as the dump names it
            stack       str       where the call stands in the user's code, innermost first
            digest      str       checksum other than CRC-32, with its kind in front
            min, max    float64   of the finite values; nan unknown or none
            mean        float64   of the finite values; nan unknown or none
            l2          float64   norm of the finite values; nan unknown
            nan_count   int64     elements; -1 unknown
            inf_count   int64     elements; -1 unknown
            zero_count  int64     elements; -1 unknown
            crc32       int64     of the stored bytes; -1 unknown

        Statistics are known where the file holds them or after `summarise`. Of a dump that holds
        nothing else, a count of 1 NaN or infinity may mean at least 1.

        Where any is known there is ``fingerprint``, float64, with dimensions ``entry`` and
        ``fingerprint_number``: 17 sums that tell how far two tensors lie apart without either
        (`troubleshooter_nb.metrics.sketches`); nan unknown.
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
    settings : mapping of str to mapping
        By place in the network, what is known of the layer's settings: ``eps``, ``momentum``,
        ``training``, in torch's words.
    calls : mapping of (int, int, str) to CallState
        By step, rank and name of a call (``Module.fc.Linear.forward.0``), what it ran with; of
        formats that tell.
    """

    index: xr.Dataset
    sources: tuple[ArraySource | None, ...]
    label: str = ""
    format: str = ""
    card: RunCard = field(default_factory=RunCard)
    notes: tuple[str, ...] = ()
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    calls: Mapping[tuple[int, int, str], CallState] = field(default_factory=dict)

    @classmethod
    def from_entries(
        cls,
        entries: Sequence[Entry],
        *,
        label: str = "",
        format: str = "",
        card: RunCard | None = None,
        notes: Sequence[str] = (),
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        calls: Mapping[tuple[int, int, str], CallState] | None = None,
    ) -> Dump:
        """Build the table from what a reader found; entries keep their sequence.

        Raises
        ------
        FormatError
            If two entries of one step and rank have the same name.
        """
        places = [(entry.step, entry.rank, entry.name) for entry in entries]
        if len(set(places)) < len(places):
            seen = Counter(places)
            step, rank, name = place = next(key for key, count in seen.items() if count > 1)
            said = {"count": seen[place], "step": step, "rank": rank, "name": name}
            raise FormatError(Message("dumps.name_twice", **said))
        return cls(
            _index(entries, format),
            tuple(entry.source for entry in entries),
            label,
            format,
            card or RunCard(),
            tuple(notes),
            dict(settings or {}),
            dict(calls or {}),
        )

    @classmethod
    @uncollected()
    def from_arrays(cls, arrays: Mapping[str, Any], *, label: str = "", copy: bool = True) -> Dump:
        """A dump of arrays in memory, in the order of the mapping.

        A name says as much as that of a saved array does: ``fc.weight`` is a parameter,
        ``bn.running_mean`` a buffer and ``grads.fc.weight`` the gradient of a parameter. So a
        ``state_dict()`` is compared as its file is.

        Parameters
        ----------
        arrays : mapping of str to array
            Arrays, numbers or tensors of torch and MindSpore. What holds no numbers becomes an
            entry with a reason.
        label : str
            Label of the dump.
        copy : bool
            True: the dump stays as it is when training goes on. False: arrays and tensors of the
            host are read where they lie, so that what is changed there changes in the dump.
        """
        check_kind("arrays", arrays, Mapping)
        entries = []
        for order, (key, value) in enumerate(arrays.items()):
            name, source, reason = str(key), None, ""
            try:
                source = _in_memory(value, copy=copy)
            except (ValueError, TypeError) as error:
                reason = message_of(error)
            site = site_of_npy_stem(name, kind="memory")
            entries.append(Entry(name, site, source, order=order, reason=reason))
        return cls.from_entries(entries, label=label, format="memory")

    def __len__(self) -> int:
        """Number of entries."""
        return len(self.sources)

    def __iter__(self) -> Iterator[str]:
        """Names of the entries, in order; a name repeats over steps and ranks."""
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        """Whether ``dump[name]`` means an entry, in any step and rank."""
        return len(self._found(name)) > 0

    def __post_init__(self) -> None:
        # A table that was stored has them as text.
        object.__setattr__(self, "index", with_shape_tuples(self.index))

    @cached_property
    def columns(self) -> Table:
        """The table of entries as plain arrays by name, those of `index` themselves."""
        return table_of(self.index)

    @cached_property
    def edges(self) -> Edges:
        """Who made each value and who reads it, of recorded runs."""
        return Edges(self.columns)

    def producer_of(self, name: str) -> str:
        """The entry of the call that made a value, which the entry of this name holds.

        Takes the names that `array` takes and raises like it. Empty where it is not known: of what
        the run was given, of what was made between recorded calls, of parameters and gradients,
        and of formats that do not tell; and for the entry that is this result itself.
        """
        found = self.edges.maker(self.position(name))
        return self.names[found] if found >= 0 else ""

    def consumers_of(self, name: str) -> list[str]:
        """The arguments of the calls that read the value of an entry, one a call, in their order.

        The innermost layers where one hands it to another; the entry itself where it is an
        argument. Takes the names that `array` takes and raises like it; empty where not known.
        """
        return [self.names[row] for row in self.edges.readers(self.position(name))]

    @property
    def unopened(self) -> tuple[str, ...]:
        """What lies in the folder, may hold tensors and was not opened, by `notes`.

        Names relative to the folder, in their order; a comparison of the rest is not one of all.
        """
        found = (one for note in self.notes for one in messages_in(note))
        names = (one.values["names"] for one in found if one.id in _SAYS_UNOPENED)
        return tuple(dict.fromkeys(str(name) for some in names for name in some))

    @property
    def names(self) -> list[str]:
        """Names of the entries, in order."""
        return [str(name) for name in self.index["name"].values]

    @property
    def tied(self) -> list[list[str]]:
        """Names that mean one and the same stored tensor, such as shared embeddings."""
        groups: dict[tuple[int, int, ArraySource], list[str]] = {}
        steps, ranks = (self.index[column].values for column in ("step", "rank"))
        for row, (name, source) in enumerate(zip(self.names, self.sources, strict=True)):
            if isinstance(source, Hashable) and source is not None and source.size_bytes:
                groups.setdefault((int(steps[row]), int(ranks[row]), source), []).append(name)
        return [names for names in groups.values() if len(names) > 1]

    @property
    def size_bytes(self) -> int:
        """Bytes of all readable tensors."""
        sizes = self.index["size_bytes"].values
        return int(sizes[sizes > 0].sum())

    def array(self, name: str) -> np.ndarray:
        """The stored values of an entry, loaded, in their stored dtype and shape.

        Parameters
        ----------
        name : str
            Name of the entry, with or without ``.npy``; or a shorter form that means one entry
            only: its name without number and dtype (``dense_backward``), or its path (``dense``).

        Raises
        ------
        EntryNotFoundError
            If no entry has this name; the message lists the closest.
        AmbiguousEntryError
            If several have it; the message shows how to choose one.
        ReadError
            If the values cannot be read.
        """
        return self._load(self.position(name))

    def __getitem__(self, name: str) -> xr.DataArray:
        """An entry as a DataArray with dimensions ``axis_0 ...``, loaded in a computable dtype.

        bfloat16 and float8 come widened to float32; ``attrs["dtype"]`` holds the stored dtype.
        Takes the names that `array` takes and raises like it.
        """
        return self._data_array(self.position(name))

    def position(self, name: str) -> int:
        """Row number of the entry this name means; takes the names of `array`, raises like it."""
        found = self._found(name)
        if not len(found):
            raise EntryNotFoundError(self._not_found(name))
        if len(found) > 1:
            raise AmbiguousEntryError(self._ambiguous(name, found))
        return int(found[0])

    def select(self, **conditions: object) -> Dump:
        """A dump of the entries that meet every condition.

        Parameters
        ----------
        **conditions
            A column of `index` and the value wanted; text may hold ``*`` and ``?``, a list (or
            any other collection) means any of its values. A shape is a tuple, or text as
            ``64x128``.
            ``dump.select(step=0, role="output", path="layers.*")``

        Raises
        ------
        EntryNotFoundError
            For a column that does not exist. Nothing found gives an empty dump.
        """
        keep = np.ones(len(self), bool)
        for column, wanted in conditions.items():
            if column not in self.index:
                raise EntryNotFoundError(
                    Message("arguments.no_column", name=column, columns=list(self.index))
                )
            is_one = isinstance(wanted, str) or (column == "shape" and is_shape(wanted))
            choices = wanted if isinstance(wanted, Iterable) and not is_one else [wanted]
            fits = np.zeros(len(self), bool)
            for choice in choices:
                matches = are_shape if column == "shape" else _matches
                fits |= matches(self.index[column].values, choice)
            keep &= fits
        rows = np.flatnonzero(keep)
        sources = tuple(self.sources[row] for row in rows)
        return replace(self, index=taken(self.index, "entry", rows), sources=sources)

    def is_same_as(self, other: Dump) -> bool:
        """Whether both hold the same entries of the same files, or the same arrays in memory."""
        if self is other:
            return True
        if self.names != other.names:
            return False
        return all(
            mine is theirs or (not isinstance(mine, ArrayInMemory) and mine == theirs)
            for mine, theirs in zip(self.sources, other.sources, strict=True)
        )

    def relabel(self, label: str) -> Dump:
        """The same dump under another label."""
        return replace(self, label=label)

    def summarise(self, progress: Callable[[int, int], None] | None = None) -> Dump:
        """A dump whose statistics and CRC are computed for every readable entry.

        The index also gets ``magnitude_histogram``, dimensions ``entry, exponent``: values that
        are not 0 by the power of two of their magnitude. It gets ``fingerprint``, too.

        Parameters
        ----------
        progress : callable, optional
            Called as ``progress(done, total)`` in entries.
        """
        columns = {name: self.columns[name].copy() for name in (*_STATISTICS, "status", "reason")}
        exponents = histogram_exponents()
        histogram = np.zeros((len(self), len(exponents)), np.int64)
        fingerprints = _fingerprints(fingerprints_of(self.index))
        for row, source in enumerate(self.sources):
            if source is not None:
                try:
                    size = math.prod(source.shape)
                    found = summarise_with_sketch(source.read, size)
                    figures, histogram[row], fingerprints[row] = found
                except ReadError as error:
                    columns["status"][row] = "unreadable"
                    columns["reason"][row] = message_of(error)
                else:
                    for name in _STATISTICS:
                        columns[name][row] = figures[name]
            if progress is not None:
                progress(row + 1, len(self))
        columns["reason"] = object_array(of_one_class(columns["reason"].tolist()))
        variables: dict[str, Any] = {name: ("entry", values) for name, values in columns.items()}
        variables["magnitude_histogram"] = (("entry", "exponent"), histogram)
        variables["exponent"] = ("exponent", exponents)
        variables[FINGERPRINT] = _fingerprint_variable(fingerprints)
        return replace(self, index=self.index.assign(variables))

    def tree(self) -> xr.DataTree:
        """The entries along their dotted paths, arrays on the leaves only; loads every tensor.

        Each leaf has one variable, ``value``. An entry whose path others share lies under its
        name. A path that is both a leaf and a parent keeps its array in a child ``value``; a
        place that is taken gets ``_`` appended. Entries of several steps or ranks lie under
        ``step_*/rank_*``. Entries that cannot be read are left out.

        Raises
        ------
        ReadError
            If the values of an entry that looked sound cannot be read.
        """
        steps, ranks, paths = (self.index[name].values for name in ("step", "rank", "path"))
        several = len(set(zip(steps, ranks, strict=True))) > 1
        shared = Counter(zip(steps, ranks, paths, strict=True))
        leaves: dict[str, int] = {}
        for row, name in enumerate(self.names):
            if self.sources[row] is None:
                continue
            own = shared[steps[row], ranks[row], paths[row]] == 1
            place = f"step_{steps[row]}/rank_{ranks[row]}/" if several else ""
            parts = re.findall(r"[^./]+", str(paths[row]) if own else name)
            leaves[_free(place + ("/".join(parts) or "_"), leaves)] = row
        parents = {up for path in leaves for up in _ancestors(path)}
        datasets = {}
        for path, row in leaves.items():
            taken = leaves.keys() | parents
            where = _free(f"{path}/value", taken) if path in parents else path
            datasets[f"/{where}"] = xr.Dataset({"value": self._data_array(row)})
        return xr.DataTree.from_dict(datasets)

    def to_dataset(self) -> xr.Dataset:
        """The table of entries, a copy of `index` in which shapes are text, such as 64x128."""
        return with_shape_texts(self.index).copy(deep=True)

    def to_dataframe(self) -> pd.DataFrame:
        """The table of entries with one row per entry."""
        # Of a copy: pandas 3 writes through to arrays it was given.
        table = self.to_dataset().drop_dims(("exponent", _NUMBER), errors="ignore")
        return table.to_dataframe().reset_index(drop=True)

    def __repr__(self) -> str:
        """What is in the dump, its health and its largest entries, at most 25 lines."""
        return dump_text(self.index, self._facts())

    def _repr_html_(self) -> str:
        return dump_html(self.index, self._facts())

    def _facts(self) -> dict[str, Any]:
        return {
            "label": self.label or "dump",
            "format": self.format,
            "notes": self.notes,
            "card": self.card.to_dict(),
            **get_options(),
        }

    def _found(self, name: object) -> np.ndarray:
        """Rows an entry name, else the stem of one, else a path means; see `array`."""
        if not isinstance(name, str):
            return np.empty(0, np.intp)
        known = self.index["name"].values
        for wanted in (name, name.removesuffix(".npy")):
            if len(rows := np.flatnonzero(known == wanted)):
                return rows
        stems = np.array([parse_npy_name(str(other)).stem for other in known], object)
        for column in (stems, self.index["path"].values):
            if len(rows := np.flatnonzero(column == name)):
                return rows
        return np.empty(0, np.intp)

    def _load(self, row: int) -> np.ndarray:
        source = self.sources[row]
        if source is None:
            name, reason = self.names[row], self.index["reason"].values[row]
            raise ReadError(
                Message("dumps.cannot_be_read", name=name, label=self.label, reason=reason)
            )
        return whole(source)

    def _data_array(self, row: int) -> xr.DataArray:
        stored = self._load(row)
        return xr.DataArray(
            computable(stored),
            dims=[f"axis_{axis}" for axis in range(stored.ndim)],
            name=str(self.index["name"].values[row]),
            attrs={
                "dtype": str(stored.dtype),
                "step": int(self.index["step"].values[row]),
                "rank": int(self.index["rank"].values[row]),
                "dump": self.label,
            },
        )

    def _ambiguous(self, name: str, found: np.ndarray) -> Message:
        columns = [self.columns[column][found] for column in ("step", "rank", "name")]
        rows = [*zip(*columns, strict=True)]
        places = Counter((step, rank) for step, rank, _ in rows)
        advice = []
        for step, rank, full in rows[:4]:
            select = f".select(step={step}, rank={rank})" if len(places) > 1 else ""
            # Within a step and rank only whole names are unique.
            advice.append(f"dump{select}[{name if places[step, rank] == 1 else full!r}]")
        advice += ["..."] * (len(rows) > 4)
        return Message(
            "dumps.ambiguous", name=name, count=len(found), label=self.label, advice=advice
        )

    def _not_found(self, name: str) -> Message:
        hint = closest(name, self.names) or Message("dumps.see_names")
        return Message(
            "dumps.no_entry", name=repr(name), label=self.label, count=len(self), closest=hint
        )


def as_gradients(dump: Dump) -> Dump:
    """The dump with what is called like parameters as gradients of them.

    Not where a recorder or the dump itself tells gradients from parameters.
    """
    columns = dump.columns
    is_backward = columns["direction"] == "backward"
    plain = (columns["role"] == "parameter") & (columns["direction"] == "")
    plain &= ~np.isin(columns["kind"], [*CALL_KINDS])
    if not plain.any() or is_backward.any():
        return dump
    direction = np.where(plain, "backward", columns["direction"]).astype(object)
    attrs = dump.index["direction"].attrs
    return replace(dump, index=dump.index.assign(direction=("entry", direction, attrs)))


def _index(entries: Sequence[Entry], kind: str) -> xr.Dataset:
    # Column by column: setting single cells of 30 arrays costs more than reading the file.
    of_entry = _by_field(Entry._fields, entries)
    found = {name: of_entry[name] for name in _OF_ENTRY}
    found["reason"] = of_one_class(of_entry["reason"])
    found |= _by_field(_OF_SITE, map(attrgetter(*_OF_SITE), of_entry["site"]))
    found |= _by_field(_OF_ARRAY, map(_facts_of_array, entries))
    found["status"] = ["ok" if _is_readable(e) else "unreadable" for e in entries]
    found["role"] = _roles(found)
    columns = {name: _column(name, values) for name, values in found.items()}
    for name in _STATISTICS:
        columns[name] = DUMP_COLUMNS[name].blank(len(entries))
    for row, statistics in enumerate(of_entry["statistics"]):
        for name, value in statistics.items() if statistics else ():
            columns[name][row] = value
    variables = described("entry", DUMP_COLUMNS, columns)
    if any(of_entry["fingerprint"]):
        variables[FINGERPRINT] = _fingerprint_variable(_fingerprints(of_entry["fingerprint"]))
    return xr.Dataset(variables, attrs={"schema": SCHEMA, "format": kind})


def _roles(found: Mapping[str, Sequence[Any]]) -> list[str]:
    """The role of each entry: what was saved alone may be what the run was given."""
    cells = (found[name] for name in ("kind", "direction", "role", "path", "dtype"))
    return [
        "input"
        if not (role or direction or kind in CALL_KINDS)
        and is_given(path, is_exact=is_integer_name(dtype))
        else role
        for kind, direction, role, path, dtype in zip(*cells, strict=True)
    ]


def _fingerprints(rows: Sequence[Sequence[float]]) -> np.ndarray:
    """Rows of numbers, or of none, as shape (n, 17); nan where there are none."""
    numbers = np.full((len(rows), NUMBERS), np.nan)
    for row, fingerprint in enumerate(rows):
        if len(fingerprint):
            numbers[row] = fingerprint
    return numbers


def _fingerprint_variable(numbers: np.ndarray) -> xr.Variable:
    attrs = {"description": "sum and 16 signed sums of the finite values, see metrics.sketches"}
    return xr.Variable(("entry", _NUMBER), numbers, attrs)


def fingerprints_of(index: xr.Dataset) -> list[tuple[float, ...]]:
    """The fingerprint of each entry of a `Dump.index`, as `Entry` has it: () where unknown."""
    if FINGERPRINT not in index:
        return [()] * index.sizes["entry"]
    numbers = index[FINGERPRINT].values
    unknown = np.isnan(numbers).any(axis=1).tolist()
    return [() if no else tuple(row) for no, row in zip(unknown, numbers.tolist(), strict=True)]


def _by_field(names: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> dict[str, Sequence[Any]]:
    """The values of rows by the names of their fields, empty for no rows."""
    columns = [*zip(*rows, strict=True)]
    return dict(zip(names, columns or [()] * len(names), strict=True))


def _column(name: str, values: Sequence[Any]) -> np.ndarray:
    dtype = DUMP_COLUMNS[name].numpy_dtype
    return object_array(values) if dtype is object else np.array(values, dtype)


def _is_readable(entry: Entry) -> bool:
    """Whether there is a tensor behind an entry, or all that the dump was to hold of it."""
    if entry.source is not None:
        return True
    known = entry.statistics or entry.digest or entry.value or entry.shape is not None
    return bool(known) and not entry.reason


def _facts_of_array(entry: Entry) -> tuple[str, Shape | None, int, int, int]:
    """The cells of `_OF_ARRAY`: of the tensor, or what the dump says about one it does not hold."""
    source = entry.source
    shape = entry.shape if source is None else source.shape
    dtype = entry.dtype if source is None else _dtype_text(source.dtype)
    if shape is None:
        return dtype, None, -1, -1, -1
    size_bytes = -1 if source is None else source.size_bytes
    return dtype, shape, len(shape), math.prod(shape), size_bytes


def object_array(values: Sequence[Any]) -> np.ndarray:
    """Values as an array of Python objects, shape (n,), whatever they are."""
    return np.fromiter(values, object, len(values))


@cache
def _dtype_text(dtype: np.dtype) -> str:
    # numpy puts the name together anew at every call.
    return str(dtype)


def _in_memory(value: Any, *, copy: bool) -> ArrayInMemory:
    """A copy nobody else can change, or a view; ArgumentError for what holds no numbers."""
    adapter = adapter_of(value)
    array = np.asarray(value) if adapter is None else adapter.to_numpy(value, copy=False)
    if arithmetic_of(array.dtype) == "unsupported":
        raise ArgumentError(Message("dumps.no_numbers", dtype=str(array.dtype)))
    # A field of records may begin at any byte, where a compiled loop must not read a number.
    own = copy or not array.flags.aligned
    array = np.array(array, order="C") if own else array.view()
    array.flags.writeable = False
    return ArrayInMemory(array)


def _matches(values: np.ndarray, wanted: object) -> np.ndarray:
    if values.dtype != object:
        return np.array([value == wanted for value in values.tolist()], bool)
    if isinstance(wanted, str) and any(mark in wanted for mark in "*?"):
        # fnmatch would take the brackets of "layers[0]" for a set of characters.
        fits = re.compile(fnmatch.translate(wanted.replace("[", "[[]"))).match
        return np.array([fits(str(value)) is not None for value in values], bool)
    return np.asarray(values == wanted, bool)


def _free(path: str, taken: Iterable[str]) -> str:
    while path in taken:
        path += "_"
    return path


def _ancestors(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rsplit("/", 1)[0]
        yield path
