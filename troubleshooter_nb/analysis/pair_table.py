"""The table of a comparison, made column by column: figures, verdicts and reasons of all rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from troubleshooter_nb.analysis.measuring import Measurements
from troubleshooter_nb.analysis.recorded import fingerprint_distance, judge_recorded
from troubleshooter_nb.analysis.rows import Rows
from troubleshooter_nb.collector import uncollected
from troubleshooter_nb.columns.column import described
from troubleshooter_nb.columns.pairs import RESULT_COLUMNS
from troubleshooter_nb.comparison import SCHEMA, first_difference, with_histogram
from troubleshooter_nb.dump import object_array
from troubleshooter_nb.messages import ids_of, of_one_class
from troubleshooter_nb.metrics.pairwise import figures_of
from troubleshooter_nb.metrics.summary import SUMMARY_FIGURES, histogram_exponents
from troubleshooter_nb.metrics.verdict import (
    Tolerance,
    Verdict,
    Verdicts,
    estimated_relative,
    judge_all,
    verdict,
)
from troubleshooter_nb.render.words import DIFFERING, reason_of
from troubleshooter_nb.table import Row, Table, finished

_SIDES = ("left", "right")


@uncollected()
def pair_table(rows: Rows, measured: Measurements, tolerance: Tolerance) -> xr.Dataset:
    """`Comparison.result`: one row each, those that were not measured included."""
    columns = {name: column.blank(len(rows)) for name, column in RESULT_COLUMNS.items()}
    columns |= _known(rows)
    exponents = histogram_exponents()
    histogram = np.zeros((len(rows), len(exponents)), np.int64)
    judged = rows.obstacles.copy()
    free = judged.name == ""
    _enter_measured(rows, measured, tolerance, columns, histogram, judged)
    _enter_others(rows, measured, tolerance, columns, judged, np.flatnonzero(free).tolist())
    _set_undecidable(rows, judged)
    _set_vacuous(rows, measured, columns, tolerance, judged)
    columns |= {"verdict": judged.name, "passed": judged.passed, "reason_id": judged.reason}
    columns["detail"] = object_array(of_one_class(judged.detail.tolist()))
    _enter_reasons(columns, judged.detail)
    variables = described("pair", RESULT_COLUMNS, columns)
    for name, side in zip(_SIDES, rows.sides, strict=True):
        attrs = {"description": "row in the dump; -1 for none"}
        variables[f"{name}_entry"] = finished(("pair",), side.entries.astype(np.int64), attrs)
    settings: dict[str, Any] = {
        "schema": SCHEMA,
        "rtol": tolerance.rtol,
        "atol": tolerance.atol,
        "equal_nan": int(tolerance.equal_nan),
        "integer_tolerance": tolerance.integer_tolerance,
        "first_divergence": first_difference(Table(columns)),
    }
    return with_histogram(variables, histogram, exponents, settings)


def _known(rows: Rows) -> dict[str, np.ndarray]:
    """The columns that are known without measuring."""
    found = {name: rows.known[name] for name in ("left", "right", "step", "rank")}
    for name, side in zip(_SIDES, rows.sides, strict=True):
        found[f"{name}_display"] = side.display
        found[f"{name}_shape"] = side.column("shape", None)
        found[f"{name}_dtype"] = side.column("dtype")
        found[f"{name}_digest"] = side.digests
    found |= {name: rows.either(name) for name in ("role", "direction")}
    found |= {"order": np.arange(len(rows)), "order_known": rows.order_known}
    return found | {"walked_backward": rows.walked_backward}


def _enter_measured(
    rows: Rows,
    measured: Measurements,
    tolerance: Tolerance,
    columns: Mapping[str, np.ndarray],
    histogram: np.ndarray,
    judged: Verdicts,
) -> None:
    """Enter the figures, histograms and verdicts of the pairs whose values were compared."""
    numbers = measured.with_figures
    place = measured.place[numbers]
    every = np.flatnonzero(measured.place >= 0).tolist()
    dtypes = [[side.dtypes[row] for row in every] for side in rows.sides]
    figures = figures_of(measured.partials, *dtypes)
    found = {name: column[place] for name, column in figures.items()}
    for name, column in found.items():
        columns[name][numbers] = column
    histogram[numbers] = measured.partials.histogram[place]
    left, right = ([side[k] for k in place.tolist()] for side in dtypes)
    judged.put_rows(numbers, judge_all(found, tolerance, left, right, rows.sizes[numbers]))


def _enter_others(
    rows: Rows,
    measured: Measurements,
    tolerance: Tolerance,
    columns: Mapping[str, np.ndarray],
    judged: Verdicts,
    free: Iterable[int],
) -> None:
    """Enter what could not be read or was not measured, and what recorded figures say."""
    for row in (row for row in free if not judged.name[row]):
        other = measured.others.get(row)
        if isinstance(other, str):
            judged.put(row, verdict("unreadable", "unreadable", other))
        elif other is None and measured.asked[row]:
            judged.put(row, verdict("unreadable", "interrupted"))
        else:
            found, figures = _judge_recorded(rows, row, other, tolerance)
            judged.put(row, found)
            for name, value in figures.items():
                columns[name][row] = value


def _judge_recorded(
    rows: Rows, row: int, computed: Mapping[str, float] | None, tolerance: Tolerance
) -> tuple[Verdict, dict[str, float]]:
    """Verdict of a row that lacks the values of a side, and the statistics of both."""
    has = [bool(side.has_values[row]) for side in rows.sides]
    sides = [
        side.recorded(row, computed if there else None)
        for side, there in zip(rows.sides, has, strict=True)
    ]
    judged = judge_recorded(sides[0], sides[1], tolerance)
    if judged.name == "undecidable":
        judged = _unread(rows, row) or judged
    figures: dict[str, float] = {"identical": judged.name == "identical"}
    apart, norm = fingerprint_distance(*sides)
    if not math.isnan(apart):
        figures["estimated_rel_l2"] = estimated_relative(apart, norm)
    for name, side in zip(_SIDES, sides, strict=True):
        figures[f"{name}_significand_bits"] = side.significand_bits
    for name, side, there in zip(_SIDES, sides, has, strict=True):
        # Those of a tensor that is there are over its finite values, as everywhere.
        known = side.statistics if computed is None or not there else computed
        figures |= {f"{name}_{figure}": known[figure] for figure in SUMMARY_FIGURES}
    return judged, figures


def _unread(rows: Rows, row: int) -> Verdict | None:
    """That the values of a side should be there and are not; None where there never were any."""
    for name, side in zip(_SIDES, rows.sides, strict=True):
        entry, columns = side.entries[row], side.dump.columns
        if entry >= 0 and columns["status"][entry] == "unreadable":
            return verdict("unreadable", f"unreadable_{name}", columns["reason"][entry])
    return None


def _set_undecidable(rows: Rows, judged: Verdicts) -> None:
    """What the two sides define differently is no difference of theirs."""
    notes = rows.known["note"]
    for row in np.flatnonzero(notes != "").tolist():
        if "calls.defined_differently" in ids_of(notes[row]) and judged.name[row] in DIFFERING:
            judged.put(row, verdict("undecidable", "defined_differently", notes[row]))


def _set_vacuous(
    rows: Rows,
    measured: Measurements,
    columns: Mapping[str, np.ndarray],
    tolerance: Tolerance,
    judged: Verdicts,
) -> None:
    """Nothing follows from pairs of no elements, or of nothing but NaN, where there is no other.

    Beside pairs that hold something they are as equal as their bits; where most pass only so,
    and no value was ever compared in them, they are left open as well.
    """
    read = np.zeros(len(rows), bool)
    read[measured.with_figures] = True
    read &= np.isin(judged.name, ("identical", "pass", "nan"))
    empty = read & (rows.sizes == 0)
    counts = np.minimum(columns["left_nan_count"], columns["right_nan_count"])
    all_nan = read & (rows.sizes > 0) & (counts == rows.sizes)
    if tolerance.equal_nan:
        all_nan[:] = False
    vacuous = empty | all_nan
    decided = ~np.isin(judged.name, ("missing", "undecidable"))
    passing = vacuous & judged.passed
    others = np.count_nonzero(decided & ~vacuous)
    if others:
        if np.count_nonzero(passing) <= others:
            return
        empty, all_nan = empty & passing, all_nan & passing
    judged.put(empty, verdict("undecidable", "no_elements"))
    judged.put(all_nan, verdict("undecidable", "only_nan"))


def _enter_reasons(columns: dict[str, np.ndarray], details: np.ndarray) -> None:
    """Write the sentence of each row that has a reason."""
    numbers = np.flatnonzero(columns["reason_id"] != "")
    table = {name: column[numbers].tolist() for name, column in columns.items()}
    table["detail"] = details[numbers].tolist()
    reasons = columns["reason"].tolist()
    for at, row in enumerate(numbers.tolist()):
        reasons[row] = reason_of(Row(table, at))
    columns["reason"] = object_array(of_one_class(reasons))
