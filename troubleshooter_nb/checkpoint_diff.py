"""The difference of two checkpoints: structure, how much each parameter changed, and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from troubleshooter_nb.columns.checkpoints import BLOCK_COLUMNS, STRUCTURE
from troubleshooter_nb.comparison import Comparison, Explanation, exit_code
from troubleshooter_nb.findings import Finding
from troubleshooter_nb.gaps import Gap, exit_code_with, gaps_of_notes
from troubleshooter_nb.messages import Message, ids_of
from troubleshooter_nb.naming import ASIDE_ROLES
from troubleshooter_nb.options import get_options
from troubleshooter_nb.pairing import Pairing
from troubleshooter_nb.render.checkpoint_view import (
    are_measured,
    checkpoint_html,
    checkpoint_text,
    structure_answer,
    was_compared,
)
from troubleshooter_nb.shapes import with_shape_texts, with_shape_tuples
from troubleshooter_nb.table import table_of

SCHEMA = "troubleshooter_nb.checkpoint_diff/1"

_DIFFERING = STRUCTURE[:4]
# What a comparison of the values would say of a row by its headers alone.
_VERDICTS = {
    "left_only": "missing",
    "right_only": "missing",
    "unreadable": "unreadable",
    "shape": "shape",
}


@dataclass(frozen=True, repr=False)
class CheckpointDiff:
    """What `troubleshooter_nb.diff_checkpoints` found.

    Attributes
    ----------
    table : xarray.Dataset, dimension ``row``
        One row per pair or entry without partner, in the order of the comparison, with the
        variables of `troubleshooter_nb.columns.checkpoints.DIFF_COLUMNS`::

            left, right              str      entry names; the right side is the reference
            block, role              str      part of the network, what the tensor is
            step, rank               int64
            left_shape, right_shape  tuple    () for a scalar, None unknown
            left_dtype, right_dtype  str
            size                     int64    elements
            structure                str      left_only, right_only, unreadable, shape, dtype,
                                              guessed (names alone do not prove the pair), renamed
                                              or same
            expected                 bool     that it has no partner is expected
            rename                   str      what differs in the names, such as gamma -> weight
            tied_to                  str      first name of a tensor with several
            pair                     int64    pair number in the comparison; -1 without values
            verdict, passed          str, bool  of the comparison
            relative_change          float64  norm of left - right / norm of right
            rms_change, max_change   float64  in the parameter's unit
            squared_change           float64  sum of (left - right)**2
            squared_norm             float64  sum of right**2

        Where values were not compared, floats are nan.
    pairing : Pairing
    comparison : Comparison or None
        All figures of every pair, and the findings; None when only the structure was asked for.
    learning_rate : float
        Given, or found in one of the checkpoints; nan where unknown.
    notes : tuple of str
        What is tied on one side only, and that the two are of different steps.
    """

    table: xr.Dataset
    pairing: Pairing
    comparison: Comparison | None = None
    learning_rate: float = np.nan
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Number of rows: pairs and entries without partner."""
        return int(self.table.sizes["row"])

    def __post_init__(self) -> None:
        # A table that was stored has them as text.
        object.__setattr__(self, "table", with_shape_tuples(self.table))

    @property
    def same_structure(self) -> bool:
        """Every entry has a partner of its shape, or is expected to have none."""
        broken = np.isin(self.table["structure"].values, _DIFFERING)
        return not bool((broken & ~self.table["expected"].values).any())

    @property
    def exit_code(self) -> int:
        """0 all passed, 1 something differs, 2 could not compare: `Comparison.exit_code`.

        Where values were not compared, what that would be if they were all alike.
        """
        if self.comparison is not None:
            return self.comparison.exit_code
        structure = self.table["structure"].values
        verdicts = np.array([_VERDICTS.get(one, "pass") for one in structure], object)
        passed = (verdicts == "pass") | self.table["expected"].values
        return exit_code_with(exit_code(verdicts, passed), self._gaps())

    @property
    def passed(self) -> bool:
        """Same structure, all values within the tolerance if they were compared, no gap open."""
        return self.exit_code == 0

    @property
    def verdict(self) -> str:
        """The answer in one line; without values, what the structure says."""
        if self.comparison is not None:
            return self.comparison.verdict
        return structure_answer(self.table, self._gaps(), self._facts())

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Proved causes of the comparison, the one that explains the first difference first."""
        return () if self.comparison is None else self.comparison.findings

    def explain(self) -> Explanation:
        """Where the two begin to differ, why, and what to do: as `Comparison.explain`."""
        first = None if self.comparison is None else self.comparison.first_divergence
        return Explanation(None if first is None else first.row, self._facts())

    @property
    def changed(self) -> list[str]:
        """Names on the left (else the right) of compared tensors that are not bit-equal."""
        return self._names(self._compared & (self.table["verdict"].values != "identical"))

    @property
    def untouched(self) -> list[str]:
        """Names of tensors that are bit-equal on both sides."""
        return self._names(self.table["verdict"].values == "identical")

    @property
    def relative_change(self) -> float:
        """Norm of all differences / norm of all parameters on the right; nan without values.

        Over parameters that are stored as floats on both sides.
        """
        rows = (
            self._compared
            & are_measured(table_of(self.table))
            & (self.table["role"].values == "parameter")
        )
        norm = np.nansum(self.table["squared_norm"].values[rows])
        change = np.nansum(self.table["squared_change"].values[rows])
        return float(np.sqrt(change / norm)) if 0 < norm < np.inf else float("nan")

    def blocks(self) -> pd.DataFrame:
        """The rows grouped by block and role.

        Returns
        -------
        DataFrame
            ``block, role, tensors, elements, changed`` (not bit-equal), ``failed`` (of those, by
            more than the tolerance), ``untouched, other`` (not compared: without partner
            and not expected to be, of other shape, unreadable), ``relative_change`` of the group
            as a whole, ``rms_change``, and ``rms_per_learning_rate`` of parameters where the rate
            is known. Integers and counters of steps are in none of the last three. In the order
            of the rows, training state last.
        """
        return self._grouped(self.to_dataframe())

    def shown_blocks(self) -> pd.DataFrame:
        """As `blocks`, with the training state of all blocks as one, whose block is empty."""
        table = self.to_dataframe()
        state = table[table["role"].isin(ASIDE_ROLES)]
        several = state.groupby("role")["block"].transform("nunique") > 1
        table.loc[several.index[several], "block"] = ""
        return self._grouped(table)

    def _grouped(self, table: pd.DataFrame) -> pd.DataFrame:
        table["elements"] = table["size"]
        table["compared"] = self._compared
        table["untouched"] = table["verdict"] == "identical"
        table["failed"] = table["compared"] & ~table["passed"]
        table["measured"] = table["compared"] & are_measured(table_of(self.table))
        table["measured_elements"] = table["size"].where(table["measured"], 0)
        table["training"] = table["role"].isin(ASIDE_ROLES)
        table = table.sort_values("training", kind="stable")
        table["other"] = ~table["compared"] & ~table["expected"]
        squares = ["squared_change", "squared_norm"]
        table[squares] = table[squares].where(table["measured"])
        groups = table.groupby(["block", "role"], sort=False)
        counted = ["elements", "compared", "measured", "measured_elements"]
        sums = groups[[*counted, "untouched", "failed", "other"]].sum()
        # Where no position is finite on both sides, nothing is known, which is not nothing.
        sums[squares] = groups[squares].sum(min_count=1)
        sums["tensors"] = groups.size()
        sums["changed"] = sums["compared"] - sums["untouched"]
        known = sums["measured"] > 0
        change, norm = (sums[f"squared_{name}"].where(known) for name in ("change", "norm"))
        sums["relative_change"] = np.sqrt(change / norm.where(norm > 0))
        sums["rms_change"] = np.sqrt(change / sums["measured_elements"].where(known))
        # What an optimizer moves; statistics and its own states have other units.
        moved = sums.index.get_level_values("role") == "parameter"
        sums["rms_per_learning_rate"] = sums["rms_change"].where(moved) / self.learning_rate
        return sums.reset_index()[[*BLOCK_COLUMNS]]

    def renames(self) -> dict[str, int]:
        """What differs in the names of pairs, and how often: ``{"gamma -> weight": 9}``."""
        found = [text for text in self.table["rename"].values if text]
        return {text: found.count(text) for text in sorted(set(found), key=found.index)}

    def to_dataset(self) -> xr.Dataset:
        """The table, a copy of `table` in which shapes are text, such as 64x128."""
        return with_shape_texts(self.table).copy(deep=True)

    def to_dataframe(self) -> pd.DataFrame:
        """The table with one row per pair or entry without partner."""
        return self.to_dataset().to_dataframe().reset_index(drop=True)

    def __repr__(self) -> str:
        """Verdict, structure, what changed by block, the first difference; at most 25 lines."""
        pairs = None if self.comparison is None else self.comparison.columns
        return checkpoint_text(self.table, self.shown_blocks(), pairs, self._facts())

    def _repr_html_(self) -> str:
        inside = {} if self.comparison is None else self.comparison.evidence
        pairs = None if self.comparison is None else self.comparison.columns
        return checkpoint_html(self.table, self.shown_blocks(), pairs, inside, self._facts())

    @property
    def _compared(self) -> np.ndarray:
        return was_compared(self.table["verdict"].values)

    def _gaps(self) -> list[Gap]:
        """What was seen and is in neither dump; of a comparison also what its rows leave open."""
        if self.comparison is not None:
            return [*self.comparison.gaps]
        left, right = self.pairing.left, self.pairing.right
        return [*gaps_of_notes("left", left.notes), *gaps_of_notes("right", right.notes)]

    def _names(self, rows: np.ndarray) -> list[str]:
        sides = self.table["left"].values[rows], self.table["right"].values[rows]
        return [str(left or right) for left, right in zip(*sides, strict=True)]

    def _facts(self) -> dict[str, Any]:
        """What a Comparison tells its pages, and what is told of checkpoints besides."""
        left, right = self.pairing.left, self.pairing.right
        labels = self.pairing.labels
        of_dumps = [
            Message("dumps.note_of", label=label, note=note)
            for label, dump in zip(labels, (left, right), strict=True)
            for note in dump.notes
        ]
        steps = [note for note in self.notes if "checkpoints.other_step" in ids_of(note)]
        of_pairs = [note for note in self.notes if note not in steps]
        own: dict[str, Any] = {
            "left_label": labels[0],
            "right_label": labels[1],
            "has_values": self.comparison is not None,
            "same_structure": self.same_structure,
            "learning_rate": self.learning_rate,
            "relative_change": self.relative_change,
            "renames": self.renames(),
            "other_step": steps,
            "calls": _CALLS,
            **get_options(),
        }
        if self.comparison is None:
            # Nothing said of the values is no answer to whether they differ.
            unread = Gap(Message("pages.values_not_compared"), 2)
            gaps = [asdict(gap) for gap in (*self._gaps(), unread)]
            nothing = {"findings": [], "checks": [], "observed": {}, "gaps": gaps}
            return {**nothing, **own, "notes": [*of_pairs, *of_dumps]}
        known = {*left.notes, *right.notes}
        others = [note for note in self.comparison.notes if note not in known]
        facts = self.comparison.explain().facts
        return {**facts, **own, "notes": [*of_pairs, *others, *of_dumps]}


# What a page tells its reader to write, see `Comparison`.
_CALLS = {
    "pairs": "diff.comparison",
    "explain": "diff.explain()",
    "diagnose": "diff_checkpoints(..., diagnose=True)",
}
