"""What both the text and the HTML reprs select from a table: names, worst rows, blocks, counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from troubleshooter_nb.render.words import sentence

_DIFFERING = ("reduced", "differs", "unrelated", "nan", "shape")
_BLOCK = re.compile(r"^(.*?\d+)(?=[./]|$)")


def display_names(names: Sequence[str], paths: Sequence[str]) -> list[str]:
    """Paths where they tell entries apart, entry names where they do not."""
    seen = Counter(str(path) for path in paths)
    return [
        str(path) if path and seen[str(path)] == 1 else str(name)
        for name, path in zip(names, paths, strict=True)
    ]


@dataclass(frozen=True)
class Pairs:
    """A comparison's table as plain arrays: xarray's access would cost more than drawing a row."""

    columns: Mapping[str, np.ndarray]
    histogram: np.ndarray
    exponents: np.ndarray

    @classmethod
    def of(cls, result: xr.Dataset) -> Pairs:
        """The view of a `Comparison.result`."""
        columns = {
            str(name): variable.values
            for name, variable in result.data_vars.items()
            if variable.dims == ("pair",)
        }
        return cls(columns, result["error_histogram"].values, result["exponent"].values)

    def __len__(self) -> int:
        return len(self.columns["verdict"])

    def __getitem__(self, column: str) -> np.ndarray:
        return self.columns[column]

    def row(self, i: int) -> dict[str, Any]:
        """All values of one pair by name."""
        return {name: values[i] for name, values in self.columns.items()}

    def sides(self, i: int) -> tuple[str, str]:
        """Display names of both sides; empty where there is none."""
        return str(self["left_display"][i]), str(self["right_display"][i])

    def label(self, i: int) -> str:
        """``left -> right``, or one name where both are the same."""
        left, right = self.sides(i)
        return left if left == right else f"{left or '-'} -> {right or '-'}"

    def short(self, i: int) -> str:
        """One name: the left one where there is one."""
        left, right = self.sides(i)
        return left or right

    @cached_property
    def failed(self) -> np.ndarray:
        """Numbers of the pairs whose values were compared and differ."""
        return np.flatnonzero(np.isin(self["verdict"], _DIFFERING))

    @cached_property
    def first(self) -> int | None:
        """Number of the first differing pair in execution order."""
        return int(self.failed[0]) if len(self.failed) else None

    def worst(self, most: int) -> list[int]:
        """Numbers of the worst measured pairs that are not identical: failed first, NaN first."""
        verdict, error = self["verdict"], self["rel_l2_error"]
        measured = ~np.isnan(error)
        rank = np.where(verdict == "nan", 0, 1)
        size = -np.where(measured, error, 0.0)
        order = np.lexsort((np.arange(len(self)), size, rank, self["passed"]))
        shown = (measured & (verdict != "identical")) | (verdict == "nan")
        return [int(i) for i in order[shown[order]][: max(most, 0)]]

    @property
    def has_parameter_gradients(self) -> bool:
        """Whether pairs are walked from the loss backwards."""
        return bool(np.any((self["direction"] == "backward") & (self["role"] == "parameter")))

    def remarks(self, language: str) -> list[tuple[str, str]]:
        """What stands behind the verdict, as (tone, text)."""
        verdict, reason = self["verdict"], self["reason_id"]
        mismatches = {
            name: int(np.clip(self[name], 0, None).sum())
            for name in ("nan_mismatch_count", "inf_mismatch_count")
        }
        kinds = (
            ("warn", "shape_count", verdict == "shape"),
            ("warn", "without_partner", (verdict == "missing") & ~self["passed"]),
            ("warn", "unreadable_count", (verdict == "unreadable") & (reason != "interrupted")),
            ("warn", "undecidable_count", verdict == "undecidable"),
            ("", "rounding_count", verdict == "rounding"),
            ("warn", "blind_count", reason == "pass_blind"),
            ("warn", "interrupted_count", reason == "interrupted"),
        )
        found = [
            (tone, sentence(key, language, count=count))
            for tone, key, rows in kinds
            if (count := int(np.count_nonzero(rows)))
        ]
        if any(mismatches.values()):
            found.insert(0, ("miss", "◇ " + sentence("nan_mismatch", language, **mismatches)))
        return found


def blocks(labels: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Consecutive rows of the same block of the network: title and row numbers.

    A block is the name up to its first number (``layers.7``), or its first part. Names without
    such structure are cut into runs of 25.
    """
    keys = [_block_key(label) for label in labels]
    runs: list[tuple[str, list[int]]] = []
    for i, key in enumerate(keys):
        if runs and runs[-1][0] == key:
            runs[-1][1].append(i)
        else:
            runs.append((key, [i]))
    if len(labels) > 8 and len(runs) > len(labels) / 2:
        return [
            (
                f"{start}–{min(start + 25, len(labels)) - 1}",
                list(range(start, min(start + 25, len(labels)))),
            )
            for start in range(0, len(labels), 25)
        ]
    return runs


def health(index: xr.Dataset) -> list[str]:
    """What is wrong with entries of a dump, worst first."""
    found = []
    unread = index["status"].values != "ok"
    if unread.any():
        found.append(f"! {int(unread.sum())} not readable")
    for name, text in (("nan_count", "with NaN"), ("inf_count", "with Inf")):
        bad = index[name].values > 0
        if bad.any():
            first = index["name"].values[int(np.argmax(bad))]
            found.append(f"◇ {int(bad.sum())} {text}, first at {first}")
    size = index["size"].values
    zero = (index["zero_count"].values == size) & (size > 0)
    if zero.any():
        found.append(f"▲ {int(zero.sum())} all zero")
    ordinary = (index["nan_count"].values == 0) & (index["inf_count"].values == 0) & ~zero
    constant = (index["min"].values == index["max"].values) & (size > 1) & ordinary
    if constant.any():
        found.append(f"▲ {int(constant.sum())} constant")
    return found


def _block_key(label: str) -> str:
    match = _BLOCK.match(label)
    if match and re.search(r"[./]", label):
        return match[1]
    return re.split(r"[./]", label, maxsplit=1)[0]
