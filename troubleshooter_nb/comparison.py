"""The result of comparing two dumps: a table of figures and verdicts, and one pair in detail."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from troubleshooter_nb.dump import ArraySource
from troubleshooter_nb.errors import AmbiguousEntryError, EntryNotFoundError, ReadError
from troubleshooter_nb.metrics.floats import computable
from troubleshooter_nb.metrics.locate import Location, concentrated_range, locate
from troubleshooter_nb.metrics.pairwise import HISTOGRAM, PAIR_FIGURES
from troubleshooter_nb.metrics.summary import SUMMARY_FIGURES
from troubleshooter_nb.metrics.verdict import TRUTH_TABLE, Tolerance
from troubleshooter_nb.naming import ROLES
from troubleshooter_nb.options import get_options
from troubleshooter_nb.pairing import Pairing
from troubleshooter_nb.render.comparison_view import comparison_html, diff_html
from troubleshooter_nb.render.plots import ComparisonPlots, DiffPlots
from troubleshooter_nb.render.rows import Pairs
from troubleshooter_nb.render.text import comparison_text, diff_text, parse_shape, verdict_line
from troubleshooter_nb.render.words import DIFFERING
from troubleshooter_nb.run_card import RunCard

SCHEMA = "troubleshooter_nb.comparison/1"

_SIDES = ("left", "right")
# name -> (dtype, unit, meaning, value where nothing was measured)
RESULT_COLUMNS = {
    "left": ("str", "", "entry name on the left", ""),
    "right": ("str", "", "entry name on the right, the reference", ""),
    "left_display": ("str", "", "short name shown: the path where it is unique", ""),
    "right_display": ("str", "", "short name shown: the path where it is unique", ""),
    "left_shape": ("str", "", "such as 64x128; scalar for no axes", ""),
    "right_shape": ("str", "", "such as 64x128; scalar for no axes", ""),
    "left_dtype": ("str", "", "stored dtype", ""),
    "right_dtype": ("str", "", "stored dtype", ""),
    "step": ("int64", "", "training step", "0"),
    "rank": ("int64", "", "process of a distributed run", "0"),
    "role": ("str", "", f"one of {', '.join(ROLES)}, or empty", ""),
    "direction": ("str", "", "forward, backward or empty", ""),
    "order": ("int64", "", "pair number: position in execution order, from 0", "-1"),
    "order_known": ("bool", "", "a side has a saving order; else names decide", "False"),
    "walked_backward": ("bool", "", "listed from the loss backwards", "False"),
    "verdict": ("str", "", f"one of {', '.join(TRUTH_TABLE)}", ""),
    "passed": ("bool", "", "the verdict counts as passed", "False"),
    "reason": ("str", "", "the verdict in a sentence", ""),
    "reason_id": ("str", "", "id of that sentence", ""),
    "detail": ("str", "", "what fills its gap, such as a format or an error text", ""),
    **PAIR_FIGURES,
    **{
        f"{side}_{name}": (dtype, unit, f"{meaning}, {side} side", empty)
        for side in _SIDES
        for name, (dtype, unit, meaning, empty) in SUMMARY_FIGURES.items()
    },
}


@dataclass(frozen=True)
class Finding:
    """A proved cause of a difference.

    Attributes
    ----------
    cause : str
        Id in ``facts/causes.csv``.
    pair : int
        Pair number where it acts.
    confidence : float
        0 to 1, from the residual left after undoing the cause and after undoing its best rival.
    evidence : mapping
        JSON-able numbers that prove it.
    advice : str
        Id of a sentence in ``render.words``.
    """

    cause: str
    pair: int
    confidence: float
    evidence: Mapping[str, Any]
    advice: str = ""


@dataclass(frozen=True, repr=False)
class Comparison:
    """Figures and verdicts of all pairs of two dumps; what `troubleshooter_nb.compare` returns.

    Attributes
    ----------
    result : xarray.Dataset, dimension ``pair``
        One row per pair in execution order, with the variables of
        `troubleshooter_nb.comparison.RESULT_COLUMNS`. The right side is the reference; figures
        are over positions finite on both sides::

            left, right                 str      entry names; empty where there is none
            left_display, right_display str      short names shown
            left_shape, right_shape     str      such as 64x128; scalar for no axes
            left_dtype, right_dtype     str      stored dtypes
            step, rank                  int64
            role, direction             str      of the entry
            order                       int64    pair number: position in execution order, from 0
            order_known                 bool     a side has a saving order; else names decide
            walked_backward             bool     listed from the loss backwards
            verdict                     str      of the truth table in `metrics.verdict`
            passed                      bool     the verdict counts as passed
            reason, reason_id, detail   str      the verdict in a sentence, its id and its gap
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
    evidence : mapping of int to xarray.Dataset
        Drill-down data of at most 8 pairs, so that the display never needs the files again.
    notes : tuple of str
        What was left out or interrupted.
    """

    result: xr.Dataset
    pairing: Pairing
    tolerance: Tolerance
    findings: tuple[Finding, ...] = ()
    evidence: Mapping[int, xr.Dataset] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def left_label(self) -> str:
        """Label of the left dump."""
        return self.pairing.left.label

    @property
    def right_label(self) -> str:
        """Label of the right dump, the reference."""
        return self.pairing.right.label

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
        """Whether every decidable pair passed and there was at least one."""
        verdicts = self.result["verdict"].values
        passed = self.result["passed"].values | (verdicts == "undecidable")
        # Nothing compared is nothing proved.
        compared = np.isin(verdicts, ("missing", "undecidable"), invert=True)
        return bool(compared.any() and passed.all())

    @property
    def verdict(self) -> str:
        """The answer in one line."""
        return verdict_line(Pairs.of(self.result), self._facts())

    @property
    def exit_code(self) -> int:
        """0 all passed, 1 something differs, 2 nothing differs but something has no answer."""
        if self.passed:
            return 0
        return 1 if np.isin(self.result["verdict"].values, DIFFERING).any() else 2

    @property
    def first_divergence(self) -> TensorDiff | None:
        """The first pair in execution order whose values differ.

        None when none does, and in a selection without it.
        """
        first = self.result.attrs["first_divergence"]
        return self[int(first)] if first in self.result["order"].values else None

    @property
    def plot(self) -> ComparisonPlots:
        """Matplotlib pictures: ``plot.errors()``, ``plot.histograms()``; each returns its axes."""
        return ComparisonPlots(self.result, self._facts())

    def __len__(self) -> int:
        """Number of pairs, unmatched entries included."""
        return int(self.result.sizes["pair"])

    def __getitem__(self, key: str | int) -> TensorDiff:
        """One pair, by left name, right name or pair number (also in a selection).

        Raises
        ------
        EntryNotFoundError
            If there is no such pair; the message lists the closest names.
        AmbiguousEntryError
            If the name belongs to several pairs (steps, ranks).
        """
        row = self._row(key)
        evidence = self.evidence.get(row)
        return TensorDiff(
            self.result.isel(pair=row), self.tolerance, evidence, self._sources(row), self._labels()
        )

    def worst(self, n: int = 8) -> Comparison:
        """The n worst pairs: failed before passed, then by relative L2 error.

        They keep their pair numbers.
        """
        return self._rows(Pairs.of(self.result).worst_order()[:n])

    def select(self, **conditions: object) -> Comparison:
        """The pairs whose columns have these values; a list means any of its values."""
        keep = np.ones(len(self), bool)
        for column, wanted in conditions.items():
            if column not in self.result:
                msg = f"no column {column!r}; columns: {', '.join(map(str, self.result))}"
                raise EntryNotFoundError(msg)
            choices = wanted if isinstance(wanted, (list, tuple, set)) else [wanted]
            keep &= np.isin(self.result[column].values, list(choices))
        return self._rows(np.flatnonzero(keep))

    def to_dataset(self) -> xr.Dataset:
        """The table, a copy of `result`."""
        return self.result.copy(deep=True)

    def to_dataframe(self) -> pd.DataFrame:
        """The table with one row per pair, without the histogram."""
        # Of a copy: pandas 3 writes through to arrays it was given.
        table = self.to_dataset().drop_dims("exponent")
        return table.to_dataframe().reset_index(drop=True)

    def __repr__(self) -> str:
        """Verdict, first divergence, worst pairs and unmatched count, at most 25 lines."""
        return comparison_text(self.result, self._facts())

    def _repr_html_(self) -> str:
        return comparison_html(self.result, self.evidence, self._facts())

    def _facts(self) -> dict[str, Any]:
        unmatched = self.pairing.table
        alone = unmatched["method"].values == "unmatched"
        return {
            **self._labels(),
            "rtol": self.tolerance.rtol,
            "atol": self.tolerance.atol,
            "equal_nan": self.tolerance.equal_nan,
            "left_card": self.left_card.to_dict(),
            "right_card": self.right_card.to_dict(),
            "unmatched": unmatched.isel(pair=np.flatnonzero(alone)),
            "notes": self.notes,
            **get_options(),
        }

    def _labels(self) -> dict[str, str]:
        return {
            "left_label": self.left_label or "left",
            "right_label": self.right_label or "right",
        }

    def _rows(self, rows: np.ndarray) -> Comparison:
        kept = {new: self.evidence[old] for new, old in enumerate(rows) if old in self.evidence}
        return replace(self, result=self.result.isel(pair=rows), evidence=kept)

    def _row(self, key: str | int) -> int:
        if isinstance(key, (int, np.integer)):
            numbers = self.result["order"].values
            found = np.flatnonzero(numbers == key)
            if not len(found):
                where = f"from {numbers.min()} to {numbers.max()}" if len(self) else "none"
                msg = f"no pair {key}; there are {len(self)}, numbered {where}; or use a name"
                raise EntryNotFoundError(msg)
            return int(found[0])
        for column in ("left", "right", "left_display", "right_display"):
            found = np.flatnonzero(self.result[column].values == key)
            if len(found) == 1:
                return int(found[0])
            if len(found) > 1:
                some = ", ".join(map(str, self.result["order"].values[found[:8]]))
                msg = f"{key!r} belongs to {len(found)} pairs: use a pair number ({some})"
                raise AmbiguousEntryError(msg)
        names = dict.fromkeys(str(n) for side in _SIDES for n in self.result[side].values if n)
        close = difflib.get_close_matches(str(key), list(names), n=3, cutoff=0.4)
        hint = f"; closest: {', '.join(map(repr, close))}" if close else ""
        msg = f"no pair named {key!r} among {len(self)}{hint}"
        raise EntryNotFoundError(msg)

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
    """

    row: xr.Dataset
    tolerance: Tolerance
    evidence: xr.Dataset | None
    sources: tuple[ArraySource | None, ArraySource | None] = (None, None)
    labels: Mapping[str, str] = field(default_factory=dict)

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
        shape = parse_shape(str(self.row["left_shape"].values))
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
        return diff_text(self.row, self.evidence, {**self.labels, **get_options()})

    def _repr_html_(self) -> str:
        return diff_html(self.row, self.evidence, {**self.labels, **get_options()})

    def _evidence(self) -> xr.Dataset:
        if self.evidence is not None:
            return self.evidence
        left, right = self.sources
        if left is None or right is None or left.shape != right.shape or 0 in left.shape:
            msg = f"{self._name()}: nothing to locate, verdict is {self.verdict!r}"
            raise ReadError(msg)
        return evidence_dataset(
            locate(left.read, right.read, left.shape, value_range(self.row)), left.shape
        )

    def _side(self, side: int) -> xr.DataArray:
        source = self.sources[side]
        if source is None:
            msg = f"{self._name()}: the {_SIDES[side]} side has no stored tensor"
            raise ReadError(msg)
        values = source.read(0, int(np.prod(source.shape, dtype=np.int64))).reshape(source.shape)
        dims = [f"axis_{axis}" for axis in range(values.ndim)]
        return xr.DataArray(computable(values), dims=dims, attrs={"dtype": str(values.dtype)})

    def _name(self) -> str:
        return str(self.row["left"].values) or str(self.row["right"].values)


def evidence_dataset(location: Location, shape: tuple[int, ...]) -> xr.Dataset:
    """A `Location` as a Dataset that can be stored.

    Variables: ``tile_max, tile_mismatch`` (tile_row, tile_column), ``worst_index, worst_error,
    worst_left, worst_right`` (worst), ``left_histogram, right_histogram`` (bin), and per axis k
    ``profile_k`` (profile_bin_k) with the attributes ``length, start, stop``: the shortest index
    range that holds 99 % of the squared error.
    """
    dataset = xr.Dataset(
        {
            "tile_max": (("tile_row", "tile_column"), location.tile_max),
            "tile_mismatch": (("tile_row", "tile_column"), location.tile_mismatch),
            "worst_index": ("worst", location.worst_index),
            "worst_error": ("worst", location.worst_error),
            "worst_left": ("worst", location.worst_left),
            "worst_right": ("worst", location.worst_right),
            "left_histogram": ("bin", location.left_histogram),
            "right_histogram": ("bin", location.right_histogram),
        },
        attrs={
            "rows": location.rows,
            "columns": location.columns,
            "low": location.value_range[0],
            "high": location.value_range[1],
        },
    )
    for axis, profile in enumerate(location.profiles):
        start, stop = concentrated_range(profile)
        scale = shape[axis] / len(profile)
        # The display needs a few dozen bins; the range is exact before they are formed.
        bins = np.array([part.sum() for part in np.array_split(profile, min(len(profile), 32))])
        dataset[f"profile_{axis}"] = (
            f"profile_bin_{axis}",
            bins,
            {
                "length": shape[axis],
                "start": int(start * scale),
                "stop": int(np.ceil(stop * scale)),
            },
        )
    return dataset


def value_range(row: xr.Dataset) -> tuple[float, float]:
    """Smallest and largest finite value of both sides of one pair."""
    low = np.fmin(float(row["left_min"]), float(row["right_min"]))
    high = np.fmax(float(row["left_max"]), float(row["right_max"]))
    return float(low), float(high)


def histogram_variable(counts: np.ndarray, exponents: np.ndarray) -> dict[str, Any]:
    """The histogram of |error| and its coordinate, as variables of `Comparison.result`."""
    attrs = {
        "description": "elements with 2**e <= |left - right| < 2**(e + 1)",
        "units": "elements",
    }
    return {HISTOGRAM: (("pair", "exponent"), counts, attrs), "exponent": ("exponent", exponents)}
