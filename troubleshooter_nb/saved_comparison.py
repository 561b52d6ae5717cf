"""Saved comparisons: the ``.json`` and ``.nc`` that `export` writes, opened again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from troubleshooter_nb.columns.column import described
from troubleshooter_nb.columns.pairs import RESULT_COLUMNS
from troubleshooter_nb.comparison import SCHEMA, Comparison, with_histogram
from troubleshooter_nb.dump import Dump, Entry, object_array
from troubleshooter_nb.errors import ExtraMissingError, FormatError, check_extra, path_of
from troubleshooter_nb.findings import Check, Finding
from troubleshooter_nb.formats.file_source import named, opened
from troubleshooter_nb.formats.limits import beyond, most
from troubleshooter_nb.formats.netcdf_sums import is_broken
from troubleshooter_nb.gaps import Gap
from troubleshooter_nb.messages import Foreign, Message, message_of, restored
from troubleshooter_nb.metrics.pairwise import HISTOGRAM
from troubleshooter_nb.metrics.summary import histogram_exponents
from troubleshooter_nb.metrics.verdict import TRUTH_TABLE, Tolerance
from troubleshooter_nb.naming import Site
from troubleshooter_nb.pairing import Match, Pairing
from troubleshooter_nb.run_card import RunCard
from troubleshooter_nb.table import finished

_SIDES = ("left", "right")
# What parsers and the making of objects raise of a damaged record; RuntimeError is netcdf's, and
# what Python raises of JSON that nests too deep.
_DAMAGE = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RuntimeError)
_FINDING = [part.name for part in fields(Finding)]


def open_comparison(path: str | PathLike[str]) -> Comparison:
    """The comparison that a file keeps: figures, verdicts, findings, explanation; no tensors.

    Parameters
    ----------
    path : str or path-like
        ``.json`` as `export` writes it, or ``.nc`` (extra ``netcdf``), as `export` or
        ``cmp.to_dataset().to_netcdf(path)`` do. Files of older versions open with what they have.

    Returns
    -------
    Comparison
        Shows what the one that was saved showed, but for what needs values: heat maps, elements,
        and who made and reads a value.

    Raises
    ------
    FormatError
        If it is none, or damaged.
    ExtraMissingError
        If netcdf is not installed.
    OSError
        If it cannot be opened.
    """
    file = path_of(path)
    try:
        return _of_netcdf(file) if file.suffix.lower() == ".nc" else _of_json(file)
    except _DAMAGE as error:
        if isinstance(error, FormatError | ExtraMissingError | OSError):
            raise
        said = message_of(error)
        is_ours = isinstance(said, Message)
        problem = said if is_ours else Foreign(f"{type(error).__name__}: {error}"[:200])
        said = Message("comparisons.no_record", file=file.name, problem=problem)
        raise FormatError(said) from None


def _content(path: Path) -> bytes:
    with named(path), opened(path) as (file, (size, _)):
        content: bytes = file.read(size) if size <= most("comparison") else b""
    if size > most("comparison"):
        said = Message("comparisons.record_too_large", file=path.name)
        raise FormatError(beyond("comparison", said, size))
    return content


def _of_json(path: Path) -> Comparison:
    content = json.loads(_content(path))
    rows = content["pairs"]
    columns = {name: [row.get(name) for row in rows] for name in RESULT_COLUMNS}
    for name, places in content.get("infinite", {}).items():
        for sign in ("inf", "-inf"):
            for row in places[sign]:
                columns[name][row] = float(sign)
    first = int(content.get("first_divergence", _first_created(columns)))
    histogram = None
    if "histogram" in content:
        kept = content["histogram"]
        shape = len(rows), len(kept["exponents"])
        counts = np.array(kept["counts"], np.int64).reshape(shape)
        histogram = counts, np.array(kept["exponents"], np.int64)
    return _comparison(columns, content, first, histogram)


def _first_created(columns: Mapping[str, Sequence[Any]]) -> int:
    """The first difference of a record that does not name it; -1 for none."""
    places = zip(columns["origin_order"], columns["order"], strict=True)
    created = sorted((place, order) for place, order in places if place is not None and place >= 0)
    return int(created[0][1]) if created else -1


def _of_netcdf(path: Path) -> Comparison:
    check_extra("netCDF4", Message("comparisons.no_netcdf"))
    content = _content(path)
    if is_broken(BytesIO(content), len(content)):
        problem = Message("checksums.other_bytes")
        raise FormatError(Message("comparisons.no_record", file=path.name, problem=problem))
    import netCDF4  # an extra, see above

    # From memory: of a file that could not be read, xarray and HDF5 keep it open, and give what
    # stood in it to whoever opens a sound file at its place.
    try:
        store: Any = xr.backends.NetCDF4DataStore  # is not typed
        with xr.open_dataset(store(netCDF4.Dataset(path.name, memory=content))) as dataset:
            table = dataset.load()
    except OSError as error:
        said = Message("comparisons.no_record", file=path.name, problem=message_of(error))
        raise FormatError(said) from None
    if table.attrs.get("schema") != SCHEMA:
        problem = Message("comparisons.other_schema", schema=str(table.attrs.get("schema", "-")))
        raise FormatError(Message("comparisons.no_record", file=path.name, problem=problem))
    columns = {name: table[name].values.tolist() for name in RESULT_COLUMNS if name in table}
    histogram = table[HISTOGRAM].values, table["exponent"].values
    first = int(table.attrs["first_divergence"])
    # Tables of older versions say the tolerance themselves, and nothing of what was found.
    found = json.loads(table.attrs.get("found", "{}"))
    return _comparison(columns, {**table.attrs, **found}, first, histogram)


def _comparison(
    columns: Mapping[str, Sequence[Any]],
    found: Mapping[str, Any],
    first: int,
    histogram: tuple[np.ndarray, np.ndarray] | None = None,
) -> Comparison:
    """A comparison of entries of which nothing but these columns is known."""
    count = len(columns["verdict"])
    if unknown := {*columns["verdict"]} - {*TRUTH_TABLE}:
        raise ValueError(Message("comparisons.other_verdicts", verdicts=sorted(map(str, unknown))))
    values = {name: _column(name, columns.get(name), count) for name in RESULT_COLUMNS}
    variables = described("pair", RESULT_COLUMNS, values)
    pairing = _pairing(values, found)
    for side in _SIDES:
        variables[f"{side}_entry"] = finished(("pair",), pairing.columns[f"{side}_entry"])
    exponents = histogram_exponents()
    counts, exponents = histogram or (np.zeros((count, len(exponents)), np.int64), exponents)
    known = {name: float(found[name]) for name in ("rtol", "atol")}
    known["integer_tolerance"] = float(found.get("integer_tolerance", 0.0))
    tolerance = Tolerance(**known, equal_nan=bool(found["equal_nan"]))
    facts = {**asdict(tolerance), "equal_nan": int(tolerance.equal_nan)}  # netcdf has no bool
    attrs = {"schema": SCHEMA, **facts, "first_divergence": first}
    return Comparison(
        with_histogram(variables, counts, exponents, attrs),
        pairing,
        tolerance,
        findings=tuple(
            Finding(**{part: one[part] for part in _FINDING if part in one})
            for one in found.get("findings", ())
        ),
        preflight=tuple(
            Check(one["what"], one["status"], one["values"]) for one in found.get("checks", ())
        ),
        notes=tuple(map(restored, found.get("notes", ()))),
        observed=found.get("observed", {}),
        gaps=tuple(Gap(restored(g["said"]), g["weight"]) for g in found.get("gaps", ())),
    )


def _column(name: str, cells: Sequence[Any] | None, count: int) -> np.ndarray:
    """A column in its type; what is unknown is as where nothing was measured.

    JSON has no word for NaN and infinities: what it lacks is NaN here, where nothing else is known.
    """
    column = RESULT_COLUMNS[name]
    given = [None] * count if cells is None else [*cells]
    if column.numpy_dtype is object:
        return object_array(["" if cell is None else str(cell) for cell in given])
    filled = [column.unknown if cell is None else cell for cell in given]
    return np.array(filled, column.numpy_dtype)


def _pairing(columns: Mapping[str, np.ndarray], found: Mapping[str, Any]) -> Pairing:
    """The rows as pairs of two dumps without values."""
    entries: tuple[list[Entry], list[Entry]] = ([], [])
    rows = []
    for row in range(len(columns["verdict"])):
        at = []
        for side, kept in zip(_SIDES, entries, strict=True):
            name = str(columns[side][row])
            at.append(len(kept) if name else -1)
            if name:
                step, rank = (int(columns[one][row]) for one in ("step", "rank"))
                kept.append(Entry(name, Site("file", name), step=step, rank=rank))
        is_alone = min(at) < 0
        method = "unmatched" if is_alone else "name"
        expected = is_alone and bool(columns["passed"][row])
        rows.append(Match(at[0], at[1], method, np.nan if is_alone else 1.0, expected=expected))
    dumps = [
        Dump.from_entries(
            kept,
            label=str(found.get(side, side)),
            card=RunCard.from_dict(found.get(f"{side}_card", {})),
        )
        for kept, side in zip(entries, _SIDES, strict=True)
    ]
    return Pairing.from_matches(dumps[0], dumps[1], rows)
