"""The difference of two checkpoints: their structure, and how much each parameter changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from troubleshooter_nb.columns.checkpoints import BLOCK_COLUMNS, STRUCTURE
from troubleshooter_nb.comparison import Comparison
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming import TRAINING_ROLES
from troubleshooter_nb.options import get_options
from troubleshooter_nb.pairing import Pairing
from troubleshooter_nb.render.checkpoint_view import (
    checkpoint_html,
    checkpoint_text,
    was_compared,
)
from troubleshooter_nb.shapes import with_shape_texts, with_shape_tuples

SCHEMA = "troubleshooter_nb.checkpoint_diff/1"

_DIFFERING = STRUCTURE[:4]


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
        All figures of every pair; None when only the structure was asked for.
    learning_rate : float
        Given, or found in one of the checkpoints; nan where unknown.
    notes : tuple of str
        What is tied on one side only.
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
    def passed(self) -> bool:
        """Same structure, and all values within the tolerance if they were compared."""
        values = self.comparison is None or self.comparison.passed
        return self.same_structure and values

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
        rows = self._compared & (self.table["role"].values == "parameter")
        for side in ("left", "right"):
            dtypes = self.table[f"{side}_dtype"].values
            rows &= np.array(["float" in str(dtype) for dtype in dtypes], bool)
        norm = np.nansum(self.table["squared_norm"].values[rows])
        change = np.nansum(self.table["squared_change"].values[rows])
        return float(np.sqrt(change / norm)) if 0 < norm < np.inf else float("nan")

    def blocks(self) -> pd.DataFrame:
        """The rows grouped by block and role.

        Returns
        -------
        DataFrame
            ``block, role, tensors, elements, changed`` (not bit-equal), ``failed`` (of those, by
            more than the tolerance), ``untouched, other`` (without partner, other shape,
            unreadable), ``relative_change`` of the group as a whole, ``rms_change``, and
            ``rms_per_learning_rate`` of parameters where the rate is known. In the order of the
            rows, training state last.
        """
        table = self.to_dataframe()
        table["elements"] = table["size"]
        table["compared"] = self._compared
        table["untouched"] = table["verdict"] == "identical"
        table["failed"] = table["compared"] & ~table["passed"]
        table["compared_elements"] = table["size"].where(table["compared"], 0)
        table["training"] = table["role"].isin(TRAINING_ROLES)
        table = table.sort_values("training", kind="stable")
        groups = table.groupby(["block", "role"], sort=False)
        counted = ["elements", "compared", "compared_elements", "untouched", "failed"]
        sums = groups[counted].sum()
        # Where no position is finite on both sides, nothing is known, which is not nothing.
        squares = ["squared_change", "squared_norm"]
        sums[squares] = groups[squares].sum(min_count=1)
        sums["tensors"] = groups.size()
        sums["changed"] = sums["compared"] - sums["untouched"]
        sums["other"] = sums["tensors"] - sums["compared"]
        measured = sums["compared"] > 0
        change, norm = (sums[f"squared_{name}"].where(measured) for name in ("change", "norm"))
        sums["relative_change"] = np.sqrt(change / norm.where(norm > 0))
        sums["rms_change"] = np.sqrt(change / sums["compared_elements"].where(measured))
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
        """Structure, what changed by block, and the largest changes, at most 25 lines."""
        return checkpoint_text(self.table, self.blocks(), self._facts())

    def _repr_html_(self) -> str:
        return checkpoint_html(self.table, self.blocks(), self._facts())

    @property
    def _compared(self) -> np.ndarray:
        return was_compared(self.table["verdict"].values)

    def _names(self, rows: np.ndarray) -> list[str]:
        sides = self.table["left"].values[rows], self.table["right"].values[rows]
        return [str(left or right) for left, right in zip(*sides, strict=True)]

    def _facts(self) -> dict[str, Any]:
        left, right = self.pairing.left, self.pairing.right
        return {
            "left_label": left.label or "left",
            "right_label": right.label or "right",
            "notes": [
                *self.notes,
                *(
                    Message("dumps.note_of", label=dump.label, note=note)
                    for dump in (left, right)
                    for note in dump.notes
                ),
            ],
            "verdict": None if self.comparison is None else self.comparison.verdict,
            "passed": self.passed,
            "same_structure": self.same_structure,
            "learning_rate": self.learning_rate,
            "relative_change": self.relative_change,
            "renames": self.renames(),
            **get_options(),
        }
