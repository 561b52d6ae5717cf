"""``compare_ms_ckpt`` and ``compare_pth_and_ckpt``: two checkpoints in the old tool's tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.progress import reporter
from troubleshooter_nb.compat.troubleshooter.given import File, MapParts, map_rows
from troubleshooter_nb.compat.troubleshooter.kernels import UNREADABLE, Figures, measure
from troubleshooter_nb.compat.troubleshooter.log import user_attention, user_warning
from troubleshooter_nb.compat.troubleshooter.npy_compare import check_tolerances, headings_wanted
from troubleshooter_nb.compat.troubleshooter.table import text_table
from troubleshooter_nb.compat.troubleshooter.weights import (
    conversion_table,
    listed,
    opened_checkpoint,
    plus,
)
from troubleshooter_nb.dump import ArraySource, Dump
from troubleshooter_nb.errors import OptionError, PairingError, ReadError
from troubleshooter_nb.formats import as_dump
from troubleshooter_nb.formats.transformed_source import transformed
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import computable, same_dtype
from troubleshooter_nb.naming import ASIDE_ROLES
from troubleshooter_nb.weight_map import Spec, Transform, WeightRow

TITLE = "The list of comparison results"
_EVERYTHING, _DIFFERENCES, _NOTHING = 1, 2, 0
_FIGURES = ("result of allclose", "ratio of allclose", "cosine similarity", "mean & max diffs")
# MindSpore counts no batches, so a torch network always has one entry more per normalisation.
_ONLY_IN_TORCH = "num_batches_tracked"


def compare_ms_ckpt(
    orig_file_path: File | None = None,
    target_file_path: File | None = None,
    compare_value: bool = True,
    print_level: int = 1,
    rtol: float = 1e-4,
    atol: float = 1e-4,
    equal_nan: bool = False,
    *,
    weight_map_path: File | None = None,
    weight_map: MapParts | None = None,
    orig_ckpt_dict: Mapping[str, Any] | None = None,
    target_ckpt_dict: Mapping[str, Any] | None = None,
    title: str | None = None,
    shape_field_names: Sequence[str] | None = None,
    value_field_names: Sequence[str] | None = None,
    **unknown: object,
) -> str:
    """Compare two checkpoints: print a table of shapes and one of values, and return both.

    Parameters
    ----------
    orig_file_path, target_file_path : str or path-like
        ``.ckpt``, or any other file `troubleshooter_nb.open_dump` takes; MindSpore is not needed.
        The second one is the reference.
    compare_value : bool
        Whether to compare values too; without them only headers are read.
    print_level : {1, 2, 0}
        1 prints all rows, 2 those that differ, 0 nothing.
    rtol, atol : float or int
        An element is close when ``|orig - target| <= atol + rtol * |target|``.
    equal_nan : bool
        Whether nan is close to nan.
    weight_map_path, weight_map : str, or (dict of names, dict of functions), optional
        What `get_weight_map` made. Both files have MindSpore's names, and are paired by them; the
        map only puts the torch name of an entry in the place of the first one.
    orig_ckpt_dict, target_ckpt_dict : dict of str to tensor or array, optional
        In place of a file.
    title : str, optional
        Title of the table of values.
    shape_field_names, value_field_names : list of 5 or 6 str, optional
        Headings.
    **unknown
        Ignored with a warning.

    Returns
    -------
    str
        The tables as printed; all rows with `print_level` 0. Entries of equal name in the order
        of the first file, those without partner with ``None``, those of the second alone last.

    Raises
    ------
    OptionError
        For another `print_level`, or the wrong number of headings.
    MissingFileError
        If a file or map does not exist.
    FormatError, OSError
        If a file cannot be opened, or is none.

    Warns
    -----
    Through logging, about entries whose dtypes differ or that cannot be read.
    """
    if unknown:
        user_warning(Message("compat.not_known", call="compare_ms_ckpt", names=[*unknown]))
    rows = map_rows(weight_map_path, weight_map)
    sides = "original ckpt", "target ckpt"
    orig = _side(orig_ckpt_dict, orig_file_path, "orig_file_path")
    target = _side(target_ckpt_dict, target_file_path, "target_file_path")
    of_torch = {name: plus(row.sources) for row in rows or () for name in row.targets}
    return _compare(
        _pairs(_entries(orig), _entries(target), of_torch),
        sides,
        _Asked(compare_value, print_level, rtol, atol, equal_nan),
        _headings(sides, title, shape_field_names, value_field_names),
    )


def compare_pth_and_ckpt(
    weight_map_path: File | None,
    pt_file_path: File,
    ms_file_path: File,
    compare_value: bool = True,
    print_level: int = 1,
    rtol: float = 1e-4,
    atol: float = 1e-4,
    equal_nan: bool = False,
    *,
    print_conv_info: bool = False,
    weight_map: MapParts | None = None,
    **unknown: object,
) -> None:
    """Compare torch weights with a MindSpore checkpoint through a weight map; print both tables.

    Parameters
    ----------
    weight_map_path : str or path-like
        What ``get_weight_map`` saved, or ``troubleshooter_nb.write_weight_map`` as yaml. Rows of
        several names join them by ``+``; what the map drops has no partner.
    pt_file_path, ms_file_path : str or path-like
        Neither framework is needed. The MindSpore side is the reference. A weight whose shape
        the map changes (Conv1d) shows both shapes.
    compare_value, print_level, rtol, atol, equal_nan
        As in `compare_ms_ckpt`.
    print_conv_info : bool
        Print the table of `convert_weight` first; it says what the MindSpore side lacks.
    weight_map : (dict of names, dict of functions), optional
        In place of the file.
    **unknown
        Ignored with a warning.

    Raises
    ------
    PairingError
        If the map and the torch file do not name the same entries.
    OptionError, MissingFileError, FormatError, OSError
        As in `compare_ms_ckpt`.
    """
    if unknown:
        user_warning(Message("compat.not_known", call="compare_pth_and_ckpt", names=[*unknown]))
    rows = map_rows(weight_map_path, weight_map)
    if rows is None:
        raise OptionError(Message("compat.needs_weight_map"))
    orig = _entries(opened_checkpoint(pt_file_path, "pt_file_path"), weights_only=True)
    rows = _mapped(rows, orig, pt_file_path)
    target = _entries(opened_checkpoint(ms_file_path, "ms_file_path"))
    pairs = _mapped_pairs(orig, target, rows)
    sides = "torch", "MindSpore"
    asked = _Asked(compare_value, print_level, rtol, atol, equal_nan)
    if print_conv_info:
        specs = {name: entry.spec for name, entry in orig.items() if entry.spec is not None}
        shown = [row for row in rows if all(name in specs for name in row.sources)]
        print(conversion_table(shown, specs, _absent(rows, target)))
    _compare(pairs, sides, asked, _headings(sides, None, None, None))
    names = [pair.orig.name for pair in pairs if pair.orig is not None and pair.target is None]
    if alone := [name for name in names if name.endswith(_ONLY_IN_TORCH)]:
        user_attention(Message("compat.counts_no_batches", names=alone))
    dropped = [name for row in rows if not row.targets for name in row.sources]
    if others := [name for name in dropped if name not in alone]:
        user_attention(Message("compat.drops", names=others))


@dataclass(frozen=True)
class _Asked:
    """What the caller wants compared and shown."""

    compare_value: bool
    print_level: int
    rtol: float
    atol: float
    equal_nan: bool

    def __post_init__(self) -> None:
        check_tolerances(self.rtol, self.atol)
        levels = (_NOTHING, _EVERYTHING, _DIFFERENCES)
        if isinstance(self.print_level, bool) or self.print_level not in levels:
            raise OptionError(Message("compat.print_level", given=repr(self.print_level)))

    def shown(self, rows: list[list[object]]) -> list[list[object]]:
        """The rows to show; those whose verdict, in the third cell, is True are no differences."""
        if self.print_level != _DIFFERENCES:
            return rows
        return [row for row in rows if str(row[2]) != "True"]


@dataclass(frozen=True)
class _Entry:
    """One entry of a checkpoint; without source, `problem` says why it cannot be read."""

    name: str
    source: ArraySource | None
    problem: str

    @property
    def spec(self) -> Spec | None:
        """Shape and dtype."""
        return None if self.source is None else Spec(self.source.shape, self.source.dtype)

    def values(self) -> np.ndarray:
        """In a dtype numpy computes with; ReadError with the reason."""
        if self.source is None:
            raise ReadError(self.problem)
        stored = self.source.read(0, math.prod(self.source.shape))
        return computable(stored).reshape(self.source.shape)


_Entries = dict[str, _Entry]


@dataclass(frozen=True)
class _EntryPair:
    """Two entries that belong together, or one without partner."""

    orig: _Entry | None
    target: _Entry | None
    transform: Transform = field(default_factory=Transform)
    label: str | None = None  # the name to show for the first, where it is not its own
    before: str | None = None  # the shapes that the first had, where it is made of others

    @property
    def names(self) -> tuple[str | None, str | None]:
        left, right = (None if entry is None else entry.name for entry in self._both)
        return left if left is None else self.label or left, right

    @property
    def sources(self) -> tuple[ArraySource | None, ArraySource | None]:
        left, right = (None if entry is None else entry.source for entry in self._both)
        return left, right

    @property
    def shapes(self) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
        left, right = (None if source is None else source.shape for source in self.sources)
        return left, right

    @property
    def _both(self) -> tuple[_Entry | None, _Entry | None]:
        return self.orig, self.target

    @property
    def converted(self) -> tuple[int, ...] | None:
        """Shape of the first entry after its transform."""
        spec = None if self.orig is None else self.orig.spec
        return None if spec is None else self.transform.specs([spec])[0].shape

    def shape_row(self) -> list[object]:
        shapes, converted = self.shapes, self.converted
        equal = None if None in shapes else converted == shapes[1]
        # The old tool showed the converted shape as the one of torch.
        before = self.before or str(shapes[0])
        shown = shapes[0] if before == str(converted) else f"{before} -> {converted}"
        return [*self.names, equal, shown, shapes[1]]

    def value_row(self, asked: _Asked) -> list[object]:
        return [*self.names, *self._figures(asked).cells()]

    def _figures(self, asked: _Asked) -> Figures:
        if self.orig is None or self.target is None:
            return Figures(result=False)
        try:
            left, right = self.orig.values(), self.target.values()
        except ReadError as error:
            user_warning(Message("compat.of_entry", name=self.orig.name, problem=error))
            return Figures(result=UNREADABLE)
        return measure(
            left.reshape(self.converted or ()),
            right,
            rtol=asked.rtol,
            atol=asked.atol,
            equal_nan=asked.equal_nan,
        )

    def size_bytes(self) -> int:
        return sum(source.size_bytes for source in self.sources if source is not None)


def _side(given: Mapping[str, Any] | None, path: File | None, argument: str) -> Dump:
    if given is not None:
        return as_dump(
            {name: value for name, value in given.items() if value is not None}, argument
        )
    if path is None:
        raise OptionError(Message("compat.missing", argument=argument))
    return opened_checkpoint(path, argument)


def _entries(dump: Dump, *, weights_only: bool = False) -> _Entries:
    reasons, roles = (dump.index[column].values for column in ("reason", "role"))
    return {
        name: _Entry(name, source, reason)
        for name, source, reason, role in zip(dump.names, dump.sources, reasons, roles, strict=True)
        if not (weights_only and role in ASIDE_ROLES)
    }


def _mapped(rows: list[WeightRow], orig: _Entries, file: File) -> list[WeightRow]:
    """The rows with the names of the torch file, in its order.

    A wrapper's ``module.`` may be on either.
    """

    def own(name: str) -> str:
        bare = name.removeprefix("module.")
        return name if name in orig or bare not in orig else bare

    mapped = [replace(row, sources=tuple(map(own, row.sources))) for row in rows]
    known = {name for row in mapped for name in row.sources}
    unwanted, missing = sorted(orig.keys() - known), sorted(known - orig.keys())
    if unwanted or missing:
        differing = {"unwanted": listed(unwanted), "missing": listed(missing)}
        raise PairingError(Message("compat.map_unfit_file", file=str(file), **differing))
    order = {name: place for place, name in enumerate(orig)}
    return sorted(mapped, key=lambda row: order[row.sources[0]])


def _absent(rows: Sequence[WeightRow], target: _Entries) -> dict[str, str]:
    """The names that the MindSpore side lacks, and what the table of the conversion says."""
    names = [name for row in rows for name in row.targets if name not in target]
    said = Message("compat.not_in_checkpoint")
    return {name: said for name in names if not name.endswith(_ONLY_IN_TORCH)}


_Headings = tuple[str, list[str], list[str]]  # title of the values, then both rows of headings


def _headings(
    sides: tuple[str, str],
    title: str | None,
    shapes: Sequence[str] | None,
    values: Sequence[str] | None,
) -> _Headings:
    names = [f"Parameter name of {side}" for side in sides]
    of_shapes = [*names, "Whether shape are equal"]
    of_shapes += [f"Parameter shape of {side}" for side in sides]
    of_values = [*names, *_FIGURES]
    for given, usual, argument in (
        (shapes, of_shapes, "shape_field_names"),
        (values, of_values, "value_field_names"),
    ):
        if given is not None and (isinstance(given, str) or len(given) != len(usual)):
            raise OptionError(headings_wanted(argument, usual, given))
    title = f"{TITLE} for values" if title is None else title
    return title, list(shapes or of_shapes), list(values or of_values)


def _compare(
    pairs: Sequence[_EntryPair],
    sides: tuple[str, str],
    asked: _Asked,
    headings: _Headings,
) -> str:
    title, shape_fields, value_fields = headings
    _warn(pairs, sides)
    rows = [pair.shape_row() for pair in pairs]
    tables = [text_table(f"{TITLE} for shapes", shape_fields, asked.shown(rows))]
    if asked.compare_value:
        rows = _value_rows([pair for pair in pairs if None not in pair.names], asked)
        tables.append(text_table(title, value_fields, asked.shown(rows)))
    text = "\n".join(tables)
    if asked.print_level != _NOTHING:
        print(text)
    return text


def _value_rows(pairs: Sequence[_EntryPair], asked: _Asked) -> list[list[object]]:
    rows = []
    with reporter(None, sum(pair.size_bytes() for pair in pairs)) as advance:
        for pair in pairs:
            rows.append(pair.value_row(asked))
            advance(pair.size_bytes())
    return rows


def _pairs(orig: _Entries, target: _Entries, labels: Mapping[str, str | None]) -> list[_EntryPair]:
    """Each entry of the first file with its namesake, then what only the second has."""
    left_over = dict(target)
    pairs = [
        _EntryPair(entry, left_over.pop(name, None), label=labels.get(name))
        for name, entry in orig.items()
    ]
    return pairs + [_EntryPair(None, entry) for entry in left_over.values()]


def _mapped_pairs(orig: _Entries, target: _Entries, rows: Sequence[WeightRow]) -> list[_EntryPair]:
    """What the rows make of the first file with its partners, then what only the second has."""
    left_over = dict(target)
    pairs = [pair for row in rows for pair in _pairs_of_row(row, orig, left_over)]
    return pairs + [_EntryPair(None, entry) for entry in left_over.values()]


def _pairs_of_row(row: WeightRow, orig: _Entries, left_over: _Entries) -> list[_EntryPair]:
    entries = [orig[name] for name in row.sources]
    if not row.targets:
        return [_EntryPair(entry, None) for entry in entries]
    partners = [left_over.pop(name, None) for name in row.targets]
    if row.transform.keeps_order:
        return [_EntryPair(entries[0], partners[0], row.transform)]
    name = plus(row.sources) or ""
    sources = [entry.source for entry in entries if entry.source is not None]
    if len(sources) < len(entries):
        problem = next(entry.problem for entry in entries if entry.source is None)
        return [_EntryPair(_Entry(name, None, problem), partner) for partner in partners]
    before = plus([source.shape for source in sources])
    return [
        _EntryPair(_Entry(name, source, ""), partner, before=before)
        for source, partner in zip(transformed(sources, row.transform), partners, strict=True)
    ]


def _warn(pairs: Sequence[_EntryPair], sides: tuple[str, str]) -> None:
    for pair in pairs:
        for entry, side in zip((pair.orig, pair.target), sides, strict=True):
            if entry is not None and entry.source is None:
                said = {"name": entry.name, "where": side}
                user_warning(Message("compat.not_read", **said, problem=entry.problem))
        left, right = pair.sources
        if left is not None and right is not None and not same_dtype(left.dtype, right.dtype):
            names = {"left": pair.names[0], "right": pair.names[1]}
            dtypes = {"left_dtype": left.dtype, "right_dtype": right.dtype}
            user_warning(Message("compat.dtypes", **names, **dtypes))
