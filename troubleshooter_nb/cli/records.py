"""Saved comparisons read back: the ``.json`` that `export` writes, and a table as netcdf."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from troubleshooter_nb.columns.column import described
from troubleshooter_nb.columns.pairs import RESULT_COLUMNS
from troubleshooter_nb.comparison import SCHEMA, Check, Comparison, Finding, with_histogram
from troubleshooter_nb.dump import Dump, Entry, object_array
from troubleshooter_nb.errors import ExtraMissingError, FormatError, check_extra
from troubleshooter_nb.gaps import Gap
from troubleshooter_nb.messages import Foreign, Message, message_of, restored
from troubleshooter_nb.metrics.pairwise import HISTOGRAM
from troubleshooter_nb.metrics.summary import histogram_exponents
from troubleshooter_nb.metrics.verdict import TRUTH_TABLE, Tolerance
from troubleshooter_nb.naming import Site
from troubleshooter_nb.pairing import Match, Pairing
from troubleshooter_nb.table import finished

_SIDES = ("left", "right")
_LARGEST = 1 << 30  # bytes


def read_record(path: Path) -> Comparison:
    """The comparison that a file keeps, with what that kind of file keeps of it.

    Parameters
    ----------
    path : Path
        ``.json`` as `export` writes it: figures, findings and checks, no histograms. ``.nc``:
        ``comparison.to_dataset().to_netcdf(path)``, figures and histograms only.

    Raises
    ------
    FormatError
        If it is none, or damaged.
    ExtraMissingError
        If netcdf is not installed.
    OSError
        If it cannot be opened.
    """
    try:
        return _of_netcdf(path) if path.suffix.lower() == ".nc" else _of_json(path)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        if isinstance(error, FormatError | ExtraMissingError | OSError):
            raise
        problem = Foreign(f"{type(error).__name__}: {error}"[:200])
        said = Message("command.no_record", file=path.name, problem=problem)
        raise FormatError(said) from None


def _of_json(path: Path) -> Comparison:
    if path.stat().st_size > _LARGEST:
        raise FormatError(Message("command.record_too_large", file=path.name))
    content = json.loads(path.read_text(encoding="utf-8"))
    rows = content["pairs"]
    columns = {name: [row.get(name) for row in rows] for name in RESULT_COLUMNS}
    labels = [str(content.get(side, side)) for side in _SIDES]
    known = {name: content[name] for name in ("rtol", "atol", "equal_nan")}
    known["integer_tolerance"] = content.get("integer_tolerance", 0.0)
    first = int(content.get("first_divergence", _first_created(columns)))
    findings = [
        Finding(one["cause"], one["pair"], one["confidence"], one["evidence"])
        for one in content["findings"]
    ]
    checks = [Check(one["what"], one["status"], one["values"]) for one in content["checks"]]
    return _comparison(
        columns,
        labels,
        Tolerance(**known),
        first,
        findings=tuple(findings),
        preflight=tuple(checks),
        notes=tuple(map(str, content.get("notes", ()))),
        observed=content.get("observed", {}),
        gaps=tuple(Gap(restored(g["said"]), g["weight"]) for g in content.get("gaps", ())),
    )


def _first_created(columns: Mapping[str, Sequence[Any]]) -> int:
    """The first difference of a record that does not name it; -1 for none."""
    places = zip(columns["origin_order"], columns["order"], strict=True)
    created = sorted((place, order) for place, order in places if place is not None and place >= 0)
    return int(created[0][1]) if created else -1


def _of_netcdf(path: Path) -> Comparison:
    check_extra("netCDF4", Message("command.no_netcdf"))
    try:
        with xr.open_dataset(path, engine="netcdf4") as opened:
            table = opened.load()
    except OSError as error:
        said = Message("command.no_record", file=path.name, problem=message_of(error))
        raise FormatError(said) from None
    if table.attrs.get("schema") != SCHEMA:
        problem = Message("command.other_schema", schema=str(table.attrs.get("schema", "-")))
        raise FormatError(Message("command.no_record", file=path.name, problem=problem))
    columns = {name: table[name].values.tolist() for name in RESULT_COLUMNS if name in table}
    known = {name: float(table.attrs[name]) for name in ("rtol", "atol")}
    known["integer_tolerance"] = float(table.attrs.get("integer_tolerance", 0.0))
    tolerance = Tolerance(**known, equal_nan=bool(table.attrs["equal_nan"]))
    histogram = table[HISTOGRAM].values, table["exponent"].values
    first = int(table.attrs["first_divergence"])
    return _comparison(columns, [*_SIDES], tolerance, first, histogram)


def _comparison(
    columns: Mapping[str, Sequence[Any]],
    labels: Sequence[str],
    tolerance: Tolerance,
    first: int,
    histogram: tuple[np.ndarray, np.ndarray] | None = None,
    **found: Any,
) -> Comparison:
    """A comparison of entries of which nothing but these columns is known."""
    count = len(columns["verdict"])
    if unknown := {*columns["verdict"]} - {*TRUTH_TABLE}:
        raise FormatError(Message("command.other_verdicts", verdicts=sorted(map(str, unknown))))
    values = {name: _column(name, columns.get(name), count) for name in RESULT_COLUMNS}
    variables = described("pair", RESULT_COLUMNS, values)
    pairing = _pairing(values, labels)
    for side in _SIDES:
        variables[f"{side}_entry"] = finished(("pair",), pairing.columns[f"{side}_entry"])
    exponents = histogram_exponents()
    counts, exponents = histogram or (np.zeros((count, len(exponents)), np.int64), exponents)
    attrs = {"schema": SCHEMA, "first_divergence": first}
    table = with_histogram(variables, counts, exponents, attrs)
    return Comparison(table, pairing, tolerance, **found)


def _column(name: str, cells: Sequence[Any] | None, count: int) -> np.ndarray:
    """A column in its type; what is unknown is as where nothing was measured.

    JSON has no word for NaN and infinities: of figures both come back as NaN.
    """
    column = RESULT_COLUMNS[name]
    given = [None] * count if cells is None else [*cells]
    if column.numpy_dtype is object:
        return object_array(["" if cell is None else str(cell) for cell in given])
    filled = [column.unknown if cell is None else cell for cell in given]
    return np.array(filled, column.numpy_dtype)


def _pairing(columns: Mapping[str, np.ndarray], labels: Sequence[str]) -> Pairing:
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
        Dump.from_entries(kept, label=label) for kept, label in zip(entries, labels, strict=True)
    ]
    return Pairing.from_matches(dumps[0], dumps[1], rows)
