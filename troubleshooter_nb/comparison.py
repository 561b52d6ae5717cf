"""The result of comparing two dumps: a table of figures and verdicts, and one pair in detail."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from xarray.indexes import PandasIndex

from troubleshooter_nb.columns.column import attributes
from troubleshooter_nb.columns.pairs import MADE_OF_PAIRS
from troubleshooter_nb.dump import ArraySource
from troubleshooter_nb.edges import fed_otherwise
from troubleshooter_nb.errors import (
    AmbiguousEntryError,
    ArgumentError,
    EntryNotFoundError,
    ReadError,
)
from troubleshooter_nb.findings import Check, Checks, Finding, Findings
from troubleshooter_nb.gaps import Gap, exit_code_with
from troubleshooter_nb.messages import Message, plain
from troubleshooter_nb.metrics.floats import are_exact, computable, dtype_from_token
from troubleshooter_nb.metrics.locate import (
    Location,
    concentrated_range,
    locate,
    scattered_indices,
)
from troubleshooter_nb.metrics.pairwise import HISTOGRAM
from troubleshooter_nb.metrics.verdict import Tolerance, is_open
from troubleshooter_nb.naming.closeness import close_names
from troubleshooter_nb.options import get_options
from troubleshooter_nb.pairing import Pairing
from troubleshooter_nb.render.comparison_view import comparison_html, diff_html, rows_html
from troubleshooter_nb.render.explanation import explanation_html, explanation_text
from troubleshooter_nb.render.plots import ComparisonPlots, DiffPlots
from troubleshooter_nb.render.rows import Pairs
from troubleshooter_nb.render.text import comparison_text, diff_text, rows_text, verdict_line
from troubleshooter_nb.render.words import DIFFERING
from troubleshooter_nb.run_card import RunCard
from troubleshooter_nb.shapes import are_shape, is_shape, with_shape_texts, with_shape_tuples
from troubleshooter_nb.table import Table, finished, taken
from troubleshooter_nb.thresholds import DOUBTFUL
from troubleshooter_nb.version import VERSION

SCHEMA = "troubleshooter_nb.comparison/1"

_SIDES = ("left", "right")
# What a page tells its reader to write: for a pair, for the explanation, to be told more.
_CALLS = {
    "pairs": "cmp",
    "explain": "cmp.explain()",
    "diagnose": "compare(..., diagnose=True)",
}
_STATISTICS = ("min", "max", "mean", "l2", "zero_count")


@dataclass(frozen=True, repr=False)
class Comparison:
    """Figures and verdicts of all pairs of two dumps; what `troubleshooter_nb.compare` returns.

    Attributes
    ----------
    result : xarray.Dataset, dimension ``pair``
        One row per pair in execution order, with the variables of
        `troubleshooter_nb.columns.pairs.RESULT_COLUMNS`. The right side is the reference; figures
        are over positions finite on both sides::

            left, right                 str      entry names; empty where there is none
            left_display, right_display str      short names shown
            left_shape, right_shape     tuple    lengths of axes; () for a scalar, None unknown
            left_dtype, right_dtype     str      stored dtypes
            left_digest, right_digest   str      recorded checksums, such as crc32:0c7e77da
            step, rank                  int64
            role, direction             str      of the entry
            order                       int64    pair number: position in execution order, from 0
            order_known                 bool     its place is known; else names decide
            walked_backward             bool     listed from the loss backwards
            verdict                     str      of the truth table in `metrics.verdict`
            passed                      bool     the verdict counts as passed
            reason, reason_id, detail   str      the verdict in a sentence, its id and its gap
            origin                      str      created, carried, or empty
            origin_basis                str      what source_error is of: inputs, order, root, ...
            origin_order                int64    place among the rows that created a difference
            source_error                float64  error of what the row was computed from
            growth                      float64  rel_l2_error over source_error or rounding
            estimated_rel_l2            float64  rel_l2_error by fingerprints, without values
            identical                   bool     same dtype and the same bits everywhere
            allclose                    bool     |left - right| <= atol + rtol |right| everywhere
            allclose_ratio              float64  share of elements, 0 to 1
            smallest_passing_tolerance  float64  smallest t for which rtol = atol = t passes
            cosine, correlation         float64  -1 to 1; nan if undefined
            rmse                        float64  in the tensor's unit
            mape                        float64  percent, where right is not 0
            max_abs_error               float64  in the tensor's unit
            mean_abs_error              float64  in the tensor's unit
            max_rel_error               float64  dimensionless, where right is not 0
            mean_rel_error              float64  dimensionless, where right is not 0
            rel_l2_error                float64  norm of the error / norm of right
            nan_mismatch_count          int64    elements that are NaN on one side only
            inf_mismatch_count          int64    elements that are not the same infinity
            unequal_count               int64    elements whose values differ
            zero_reference_count        int64    elements left out of relative figures
            max_abs_index               int64    flat index of max_abs_error
            left_significand_bits, right_significand_bits
                                        int64    precision the stored values use
            left_min ... right_zero_count        statistics of each side
            error_histogram             int64    counts by power of two, dimension ``exponent``

        Where nothing was measured (shape, missing, unreadable) floats are nan and counts -1.
    pairing : Pairing
    tolerance : Tolerance
    left_label, right_label : str
    left_card, right_card : RunCard
    findings : tuple of Finding
        Proved causes, the one that explains the first difference before others; shows them.
    preflight : tuple of Check
        Whether the two runs can be compared at all; shows what holds and what does not.
    evidence : mapping of int to xarray.Dataset
        Drill-down data of at most 8 pairs, so that the display never needs the files again.
    notes : tuple of str
        What was left out or interrupted.
    observed : mapping
        What the values of the first difference show where no cause is proved, JSON-able: ``pair``,
        its number, ``tried`` (classes ``as`` which it was computed again, and what that leaves of
        ``left`` and ``right``, over what rounding leaves), ``given`` (number of the pair it was
        computed from, -1 where unknown), and those that apply of ``nets`` (sides whose network is
        at hand, to be replayed), ``made`` (what each side computed it from), ``scale``,
        ``relation``, ``place``, ``shift``, ``order`` and ``moments``.
    gaps : tuple of Gap
        What no verdict of a pair says: left out, unseen, or the same by construction.
    """

    result: xr.Dataset
    pairing: Pairing
    tolerance: Tolerance
    findings: tuple[Finding, ...] = Findings()
    evidence: Mapping[int, xr.Dataset] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    preflight: tuple[Check, ...] = Checks()
    observed: Mapping[str, Any] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()

    def __post_init__(self) -> None:
        # A table that was stored has shapes as text, and what was found beside it.
        table = with_shape_tuples(self.result)
        if "found" in table.attrs:
            table = table.copy(deep=False)
            del table.attrs["found"]
        object.__setattr__(self, "result", table)
        object.__setattr__(self, "findings", Findings(self.findings))
        object.__setattr__(self, "preflight", Checks(self.preflight))

    @cached_property
    def columns(self) -> Pairs:
        """The pairs as plain arrays by name, those of `result` themselves."""
        return Pairs.of(self.result)

    @property
    def left_label(self) -> str:
        """Label of the left dump, told apart from that of the right one."""
        return self.pairing.labels[0]

    @property
    def right_label(self) -> str:
        """Label of the right dump, the reference, told apart from that of the left one."""
        return self.pairing.labels[1]

    @property
    def left_card(self) -> RunCard:
        """Run card of the left dump."""
        return self.pairing.left.card

    @property
    def right_card(self) -> RunCard:
        """Run card of the right dump."""
        return self.pairing.right.card

    @property
    def passed(self) -> bool:
        """Whether most pairs were decided, all but ``undecidable`` passed, and no gap is open.

        A partner that is missing unless declared so, and an entry that could not be read, did not.
        """
        return self.exit_code == 0

    @property
    def verdict(self) -> str:
        """The answer in one line."""
        return verdict_line(self.columns, self._facts())

    @property
    def exit_code(self) -> int:
        """0 all passed, 1 something differs, 2 could not compare.

        1 as soon as the values or shapes of one pair differ. ``undecidable`` pairs are counted
        apart and fail nothing by themselves: 0 if most pairs were decided, and passed. 2 if more
        are ``undecidable`` than decided, or if something is ``unreadable``, or ``missing`` without
        having been declared so. `gaps` count as well: 2 where something was seen and not opened,
        1 where they prove a difference.
        """
        own = exit_code(self.result["verdict"].values, self.result["passed"].values)
        return exit_code_with(own, self.gaps)

    @property
    def first_divergence(self) -> TensorDiff | None:
        """The first pair that created a difference, see `first_difference`.

        A parameter, buffer or input that differs, or an output that differs more than what it was
        computed from; without diagnosis the first in execution order that differs. It may lie
        within the tolerance, if whatever follows from it does.

        Of a selection the first of its pairs; of `worst` that of the whole, if it is there. None
        when none differs.
        """
        first = self.result.attrs["first_divergence"]
        return self[int(first)] if first in self.result["order"].values else None

    @property
    def plot(self) -> ComparisonPlots:
        """Matplotlib pictures: ``plot.errors()``, ``plot.histograms()``; each returns its axes."""
        return ComparisonPlots(self.columns, self._facts())

    def __len__(self) -> int:
        """Number of pairs, unmatched entries included."""
        return int(self.result.sizes["pair"])

    def __iter__(self) -> Iterator[TensorDiff]:
        """The pairs, in order."""
        return (self[int(number)] for number in self.result["order"].values)

    def __getitem__(self, key: str | int) -> TensorDiff:
        """One pair, by left name, right name or pair number (also in a selection).

        Raises
        ------
        EntryNotFoundError
            If there is no such pair; the message lists the closest names.
        AmbiguousEntryError
            If the name belongs to several pairs; the message lists their numbers, steps and ranks.
        """
        row = self._row(key)
        evidence = self.evidence.get(row)
        return TensorDiff(
            self.result.isel(pair=row),
            self.tolerance,
            evidence,
            self._sources(row),
            self._labels(),
            self._neighbours(row),
        )

    def worst(self, n: int = 8) -> Comparison:
        """The n worst pairs: failed before passed, then by relative L2 error.

        They keep their pair numbers.
        """
        return self._rows(self.columns.worst_order()[:n])

    def select(self, **conditions: object) -> Comparison:
        """The pairs whose columns have these values; a list means any of its values.

        ``cmp.select(rank=1).first_divergence`` is the first that differs among them.
        """
        keep = np.ones(len(self), bool)
        for column, wanted in conditions.items():
            self._check_column(column)
            values, of_shapes = self.result[column].values, column in ("left_shape", "right_shape")
            is_one = of_shapes and is_shape(wanted)
            choices = wanted if isinstance(wanted, (list, tuple, set)) and not is_one else [wanted]
            if of_shapes:
                keep &= np.any([are_shape(values, choice) for choice in choices], axis=0)
            else:
                keep &= np.isin(values, list(choices))
        kept = self._rows(np.flatnonzero(keep))
        first = first_difference(kept.columns)
        return replace(kept, result=kept.result.assign_attrs(first_divergence=first))

    def around(self, key: str | int | None = None, rows: int = 5) -> PairRows:
        """The rows around a pair, in execution order: what still agreed, and what came of it.

        Parameters
        ----------
        key : str or int, optional
            As for ``cmp[key]``; default the first difference, or the first row where none differs.
        rows : int
            So many before it and so many after it.

        Raises
        ------
        EntryNotFoundError, AmbiguousEntryError
            As ``cmp[key]``.
        """
        first = self.columns.first
        row = (first or 0) if key is None else self._row(key)
        shown = np.arange(max(row - rows, 0), min(row + rows + 1, len(self)))
        return PairRows(self, tuple(shown.tolist()))

    def by(self, *columns: str) -> pd.DataFrame:
        """What became of the pairs, counted by the values of one or more columns of the table.

        ``cmp.by("step", "rank")`` tells steps and ranks apart, ``cmp.by("origin")`` what created a
        difference from what carries it, ``cmp.by("role", "direction")`` parameters and gradients.

        Returns
        -------
        pandas.DataFrame
            A row for each value, or combination of values, in order, with ``pairs``, ``passed``,
            ``failed`` and ``largest_rel_l2``, nan where nothing was measured.

        Raises
        ------
        EntryNotFoundError
            If the table has no such column.
        ArgumentError
            If none is named.
        """
        if not columns:
            raise ArgumentError(Message("arguments.no_columns_to_count"))
        for column in columns:
            self._check_column(column)
        table = self.to_dataframe()
        groups = table.groupby(list(columns), sort=True)
        passed = groups["passed"].sum().astype(int)
        counts = {"pairs": groups.size(), "passed": passed, "failed": groups.size() - passed}
        return pd.DataFrame({**counts, "largest_rel_l2": groups["rel_l2_error"].max()})

    def to_dataset(self) -> xr.Dataset:
        """The table, a copy of `result` in which shapes are text, such as 64x128.

        What was found besides is its attribute ``found``, as JSON: `open_comparison` takes the
        table from netcdf again.
        """
        table = self._with_texts()
        return table.assign_attrs(found=json.dumps(self.to_dict(), default=str))

    def _with_texts(self) -> xr.Dataset:
        return with_shape_texts(self.result).copy(deep=True)

    def to_dict(self) -> dict[str, Any]:
        """What it was made with and what it found, without its rows; JSON-able.

        Returns
        -------
        dict
            ``left, right`` (labels), ``left_card, right_card``, the tolerance, ``made_by`` (version
            of this package), ``first_divergence, notes, observed, gaps, checks, findings``.
        """
        left, right = self.pairing.labels
        return {
            "made_by": VERSION,
            "left": left,
            "right": right,
            "left_card": self.left_card.to_dict(),
            "right_card": self.right_card.to_dict(),
            **asdict(self.tolerance),
            "first_divergence": int(self.result.attrs["first_divergence"]),
            "notes": [plain(note) for note in self.notes],
            "observed": dict(self.observed),
            "gaps": [{"said": plain(gap.said), "weight": gap.weight} for gap in self.gaps],
            "checks": [asdict(check) for check in self.preflight],
            "findings": [asdict(finding) for finding in self.findings],
        }

    def to_dataframe(self) -> pd.DataFrame:
        """The table with one row per pair, without the histogram."""
        # Of a copy: pandas 3 writes through to arrays it was given.
        table = self._with_texts().drop_dims("exponent")
        return table.to_dataframe().reset_index(drop=True)

    def explain(self) -> Explanation:
        """Whether the runs can be compared, where they part, and why; in full sentences.

        Returns
        -------
        Explanation
            Shows itself in a notebook; ``str`` of it is plain text.
        """
        first = self.first_divergence
        row = first.row if first is not None else None
        pairs = self.columns
        excused = pairs.excused(str(get_options()["language"]))
        where = pairs.place(pairs.first) if pairs.first is not None else ""
        return Explanation(row, {**self._shown_facts(), "excused": excused, "where": where})

    def __repr__(self) -> str:
        """Verdict, first divergence, worst pairs and unmatched count, at most 25 lines."""
        return comparison_text(self.columns, self._shown_facts())

    def _repr_html_(self) -> str:
        return comparison_html(self.columns, self.evidence, self._shown_facts())

    def _shown_facts(self) -> dict[str, Any]:
        """The facts, and who made and reads the first difference: a verdict has no use for that."""
        first = self.columns.first
        return {**self._facts(), "neighbours": {} if first is None else self._neighbours(first)}

    def _facts(self) -> dict[str, Any]:
        unmatched = self.pairing.table
        alone = unmatched["method"].values == "unmatched"
        return {
            **self._labels(),
            "findings": [asdict(finding) for finding in self.findings],
            "checks": [asdict(check) for check in self.preflight],
            "observed": self.observed,
            "rtol": self.tolerance.rtol,
            "atol": self.tolerance.atol,
            "equal_nan": self.tolerance.equal_nan,
            "integer_tolerance": self.tolerance.integer_tolerance,
            "has_integers": _have_integers(self.columns),
            "left_card": self.left_card.to_dict(),
            "right_card": self.right_card.to_dict(),
            "unmatched": taken(unmatched, "pair", np.flatnonzero(alone)),
            "notes": self.notes,
            "gaps": [asdict(gap) for gap in self.gaps],
            "calls": _CALLS,
            **get_options(),
        }

    def _neighbours(self, row: int) -> dict[str, Any]:
        """Who made the value of a pair and who reads it, as `render.neighbours` takes it."""
        both = [self.pairing.left.edges, self.pairing.right.edges]
        entries = [int(self.columns[f"{side}_entry"][row]) for side in _SIDES]
        found: dict[str, Any] = {
            side: edges.neighbours(entry)
            for side, edges, entry in zip(_SIDES, both, entries, strict=True)
            if entry >= 0
        }
        is_told = all(edges.made(entry) >= 0 for edges, entry in zip(both, entries, strict=True))
        differs = self.columns["verdict"][row] in DIFFERING
        if is_told and differs and self.columns["role"][row] == "input":
            found["fed"] = fed_otherwise(both, entries, self._partners)
        return found

    @cached_property
    def _partners(self) -> dict[int, int]:
        """Entries of the left side to those of the right, where these are no guess."""
        pairs = self.pairing.columns
        is_sure = (pairs["confidence"] > DOUBTFUL) | (pairs["method"] == "user")
        both = (pairs[f"{side}_entry"][is_sure].tolist() for side in _SIDES)
        return {left: right for left, right in zip(*both, strict=True) if min(left, right) >= 0}

    def _labels(self) -> dict[str, str]:
        return dict(zip(("left_label", "right_label"), self.pairing.labels, strict=True))

    def _rows(self, rows: np.ndarray) -> Comparison:
        kept = {new: self.evidence[old] for new, old in enumerate(rows) if old in self.evidence}
        return replace(self, result=taken(self.result, "pair", rows), evidence=kept)

    def _check_column(self, column: str) -> None:
        if column not in self.result:
            known = list(self.result)
            raise EntryNotFoundError(Message("arguments.no_column", name=column, columns=known))

    def _row(self, key: str | int) -> int:
        if isinstance(key, (int, np.integer)):
            numbers = self.result["order"].values
            found = np.flatnonzero(numbers == key)
            if not len(found):
                raise EntryNotFoundError(
                    Message(
                        "comparisons.no_pair",
                        number=key,
                        count=len(self),
                        last=numbers.max(),
                        first=numbers.min(),
                    )
                    if len(self)
                    else Message("comparisons.no_pair_of_none", number=key)
                )
            return int(found[0])
        for column in ("left", "right", "left_display", "right_display"):
            found = np.flatnonzero(self.result[column].values == key)
            if len(found) == 1:
                return int(found[0])
            if len(found) > 1:
                raise AmbiguousEntryError(self._ambiguous(key, found))
        columns = ("left", "right", "left_display", "right_display")
        names = [str(name) for column in columns for name in self.result[column].values if name]
        # A name may be given by its end alone.
        ends = [name for name in names if name.endswith((f".{key}", f"/{key}"))]
        near = list(dict.fromkeys([*ends, *close_names(key, names)]))[:3]
        hint = Message("lists.closest", names=near) if near else ""
        raise EntryNotFoundError(
            Message("comparisons.no_pair_named", name=repr(key), count=len(self), closest=hint)
        )

    def _ambiguous(self, key: str, found: np.ndarray) -> Message:
        columns = (self.result[name].values[found] for name in ("order", "step", "rank"))
        places = [
            Message("comparisons.place", number=number, step=step, rank=rank)
            for number, step, rank in zip(*columns, strict=True)
        ]
        return Message("comparisons.ambiguous", name=key, count=len(found), places=places)

    def _sources(self, row: int) -> tuple[ArraySource | None, ArraySource | None]:
        found = []
        for side, dump in zip(_SIDES, (self.pairing.left, self.pairing.right), strict=True):
            entry = int(self.result[f"{side}_entry"].values[row])
            found.append(dump.sources[entry] if entry >= 0 else None)
        return found[0], found[1]


@dataclass(frozen=True, repr=False)
class TensorDiff:
    """One pair in detail.

    Attributes
    ----------
    row : xarray.Dataset
        The pair's row of `Comparison.result`, no dimension ``pair``.
    tolerance : Tolerance
    evidence : xarray.Dataset or None
        Where the error sits (see `evidence_dataset`); None until `located`.
    neighbours : mapping
        Of recorded runs, which call made the value of each side and which read it.
    """

    row: xr.Dataset
    tolerance: Tolerance
    evidence: xr.Dataset | None
    sources: tuple[ArraySource | None, ArraySource | None] = (None, None)
    labels: Mapping[str, str] = field(default_factory=dict)
    neighbours: Mapping[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """The verdict's name."""
        return str(self.row["verdict"].values)

    @property
    def left(self) -> xr.DataArray:
        """The left tensor, loaded in a computable dtype, dimensions ``axis_0 ...``."""
        return self._side(0)

    @property
    def right(self) -> xr.DataArray:
        """The right tensor, loaded in a computable dtype, dimensions ``axis_0 ...``."""
        return self._side(1)

    @property
    def plot(self) -> DiffPlots:
        """Matplotlib pictures: ``heat_map, profile, values, errors``; each returns its axes.

        Raises
        ------
        ReadError
            As `located`, when there is nothing to show.
        """
        return DiffPlots(self.row, self._evidence())

    def located(self) -> TensorDiff:
        """The same pair with its evidence, read from the files unless already there.

        Raises
        ------
        ReadError
            If there is nothing to read: shapes differ, a side is missing, or the files are gone.
        """
        return replace(self, evidence=self._evidence())

    def worst_elements(self) -> pd.DataFrame:
        """The worst elements, with columns ``index, left, right, abs_error, rel_error``.

        Reads the files unless the evidence is stored.
        """
        evidence = self._evidence()
        left, right = evidence["worst_left"].values, evidence["worst_right"].values
        shape = self.row["left_shape"].values[()]
        index = [
            tuple(map(int, np.unravel_index(i, shape))) for i in evidence["worst_index"].values
        ]
        with np.errstate(invalid="ignore", divide="ignore"):
            error = evidence["worst_error"].values
            relative = error / np.abs(right)
        return pd.DataFrame(
            {
                "index": index,
                "left": left,
                "right": right,
                "abs_error": error,
                "rel_error": relative,
            }
        )

    def __repr__(self) -> str:
        """Verdict, figures, worst elements and where on each axis, at most 25 lines."""
        return diff_text(self.row, self.evidence, self._facts())

    def _repr_html_(self) -> str:
        return diff_html(self.row, self.evidence, self._facts())

    def _facts(self) -> dict[str, Any]:
        return {**self.labels, "neighbours": self.neighbours, **get_options()}

    def _evidence(self) -> xr.Dataset:
        if self.evidence is not None:
            return self.evidence
        left, right = self.sources
        if left is None or right is None or left.shape != right.shape or 0 in left.shape:
            raise ReadError(
                Message("comparisons.not_located", name=self._name(), verdict=repr(self.verdict))
            )
        dtypes = left.dtype, right.dtype
        found = locate(left.read, right.read, left.shape, value_range(self.row), dtypes=dtypes)
        return evidence_dataset(found, left.shape)

    def _side(self, side: int) -> xr.DataArray:
        source = self.sources[side]
        if source is None:
            raise ReadError(Message(f"comparisons.no_tensor_{_SIDES[side]}", name=self._name()))
        values = source.read(0, int(np.prod(source.shape, dtype=np.int64))).reshape(source.shape)
        dims = [f"axis_{axis}" for axis in range(values.ndim)]
        return xr.DataArray(computable(values), dims=dims, attrs={"dtype": str(values.dtype)})

    def _name(self) -> str:
        return str(self.row["left"].values) or str(self.row["right"].values)


@dataclass(frozen=True, repr=False)
class PairRows:
    """Some rows of a comparison's table; see `Comparison.around`.

    Attributes
    ----------
    comparison : Comparison
        The whole one.
    rows : tuple of int
        Places in its table.
    """

    comparison: Comparison
    rows: tuple[int, ...]

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.rows)

    def to_dataframe(self) -> pd.DataFrame:
        """These rows with every column."""
        return self.comparison.to_dataframe().iloc[list(self.rows)]

    def __repr__(self) -> str:
        """The table with its titles, what created a difference marked."""
        return rows_text(self.comparison.columns, self.rows, self.comparison._facts())

    def _repr_html_(self) -> str:
        return rows_html(self.comparison.columns, self.rows, self.comparison._facts())


@dataclass(frozen=True, repr=False)
class Explanation:
    """What a comparison found out about the first difference; see `Comparison.explain`.

    Attributes
    ----------
    row : xarray.Dataset or None
        The pair that created the first difference.
    facts : mapping
        Findings, checks and display options.
    """

    row: xr.Dataset | None
    facts: Mapping[str, Any]

    def __str__(self) -> str:
        """Plain text, one sentence a line."""
        return explanation_text(self.row, self.facts)

    def __repr__(self) -> str:
        """As `str`."""
        return str(self)

    def _repr_html_(self) -> str:
        return explanation_html(self.row, self.facts)


def exit_code(verdicts: np.ndarray, passed: np.ndarray) -> int:
    """0 all passed, 1 something differs, 2 could not compare; see `Comparison.exit_code`."""
    if np.isin(verdicts, DIFFERING).any():
        return 1
    failed = ~passed & (verdicts != "undecidable")
    return 2 if failed.any() or is_open(verdicts) else 0


def _have_integers(columns: Table) -> bool:
    """Whether pairs were compared as integers."""
    measured = ~np.isnan(columns["max_abs_error"])
    pairs = zip(*(columns[f"{side}_dtype"][measured].tolist() for side in _SIDES), strict=True)
    known = [[dtype_from_token(name) for name in pair] for pair in {*pairs} if all(pair)]
    return any(are_exact(*pair) for pair in known)


def first_difference(columns: Table) -> int:
    """Pair number of the first pair that created a difference; -1 for none.

    Where no origin is known, the first in execution order that differs. An operator that is given
    a parameter records it as an input, before the module does: where both differ and hold the same
    on either side, the parameter is meant.

    Parameters
    ----------
    columns : Table
        Of a `Comparison.result`.
    """
    order, places = columns["order"], columns["origin_order"]
    created = np.flatnonzero(places >= 0)
    if len(created):
        return int(order[created[np.argmin(places[created])]])
    differing = np.flatnonzero(np.isin(columns["verdict"], DIFFERING))
    if not len(differing):
        return -1
    # Nothing created it: rounding that grew. What only looks different is passed over.
    grown = np.nan_to_num(columns["growth"][differing], nan=0.0)
    if columns["origin"].any() and grown.any():
        return int(order[differing[np.argmax(grown)]])
    first, *others = differing[np.argsort(order[differing], kind="stable")]
    if columns["role"][first] == "input":
        for row in others:
            is_root = columns["role"][row] in ("parameter", "buffer")
            is_forward = columns["direction"][row] != "backward"
            if is_root and is_forward and _hold_the_same(columns, first, row):
                return int(order[row])
    return int(order[first])


def _hold_the_same(columns: Table, row: int, other: int) -> bool:
    """Whether two pairs of one step and rank are of the same tensors, as far as recorded."""

    def same(names: Iterable[str]) -> bool:
        return all(columns[name][row] == columns[name][other] for name in names)

    if not same(("step", "rank")):
        return False
    for side in _SIDES:
        if not same((f"{side}_shape", f"{side}_dtype")):
            return False
        digests = [columns[f"{side}_digest"][one] for one in (row, other)]
        # Figures of all elements, to the last bit: no two tensors of a network have the same.
        if not (
            same((f"{side}_digest",))
            if all(digests)
            else same(f"{side}_{name}" for name in _STATISTICS)
        ):
            return False
    return True


def evidence_dataset(location: Location, shape: tuple[int, ...]) -> xr.Dataset:
    """A `Location` as a Dataset that can be stored.

    Variables: ``tile_max, tile_mismatch`` (tile_row, tile_column), ``worst_index, worst_error,
    worst_left, worst_right`` (worst), ``left_histogram, right_histogram`` (bin), and per axis k
    ``profile_k`` (profile_bin_k) with the attributes ``length, start, stop``: the shortest index
    range that holds 99 % of the squared error. Where `scattered_indices` do, ``indices`` has
    them.
    """
    columns = {
        "tile_max": (("tile_row", "tile_column"), location.tile_max),
        "tile_mismatch": (("tile_row", "tile_column"), location.tile_mismatch),
        "worst_index": (("worst",), location.worst_index),
        "worst_error": (("worst",), location.worst_error),
        "worst_left": (("worst",), location.worst_left),
        "worst_right": (("worst",), location.worst_right),
        "left_histogram": (("bin",), location.left_histogram),
        "right_histogram": (("bin",), location.right_histogram),
    }
    variables = {name: finished(dims, values) for name, (dims, values) in columns.items()}
    for axis, profile in enumerate(location.profiles):
        start, stop = concentrated_range(profile)
        scale = shape[axis] / len(profile)
        # The display needs a few dozen bins; the range is exact before they are formed.
        bins = np.array([part.sum() for part in np.array_split(profile, min(len(profile), 32))])
        bounds = {"start": int(start * scale), "stop": int(np.ceil(stop * scale))}
        attrs: dict[str, Any] = {"length": shape[axis], **bounds}
        if len(profile) == shape[axis] and len(held := scattered_indices(profile)):
            attrs["indices"] = held
        variables[f"profile_{axis}"] = finished((f"profile_bin_{axis}",), bins, attrs)
    about = {
        "rows": location.rows,
        "columns": location.columns,
        "low": location.value_range[0],
        "high": location.value_range[1],
    }
    return xr.Dataset(variables, attrs=about)


def value_range(row: Mapping[Any, Any]) -> tuple[float, float]:
    """Smallest and largest finite value of both sides of one pair."""
    low = np.fmin(float(row["left_min"]), float(row["right_min"]))
    high = np.fmax(float(row["left_max"]), float(row["right_max"]))
    return float(low), float(high)


def with_histogram(
    variables: Mapping[str, xr.Variable],
    counts: np.ndarray,
    exponents: np.ndarray,
    attrs: Mapping[str, Any],
) -> xr.Dataset:
    """A `Comparison.result` of its variables and the histogram of |error| with its coordinate."""
    index = PandasIndex(pd.Index(exponents), "exponent")
    coordinates = xr.Coordinates(index.create_variables(), indexes={"exponent": index})
    about = attributes(MADE_OF_PAIRS[HISTOGRAM])
    histogram = finished(("pair", "exponent"), counts, about)
    return xr.Dataset({**variables, HISTOGRAM: histogram}, coords=coordinates, attrs=attrs)
