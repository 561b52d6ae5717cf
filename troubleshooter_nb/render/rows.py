"""What both the text and the HTML reprs select from a table: names, worst rows, blocks, counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

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


def pair_label(result: xr.Dataset, i: int, *, short: bool = False) -> str:
    """``left -> right``, or one name where both are the same."""
    left, right = side_labels(result, i)
    if short or left == right:
        return left or right
    return f"{left or '-'} -> {right or '-'}"


def side_labels(result: xr.Dataset, i: int) -> tuple[str, str]:
    """Display names of both sides of a pair; empty where there is none."""
    left, right = (str(result[f"{side}_display"].values[i]) for side in ("left", "right"))
    return left, right


def failed_rows(result: xr.Dataset) -> np.ndarray:
    """Numbers of the pairs whose values were compared and differ."""
    return np.flatnonzero(np.isin(result["verdict"].values, _DIFFERING))


def first_divergence(result: xr.Dataset) -> int | None:
    """Number of the first differing pair in execution order."""
    failed = failed_rows(result)
    return int(failed[0]) if len(failed) else None


def worst_rows(result: xr.Dataset, most: int) -> list[int]:
    """Numbers of the worst measured pairs that are not identical: failed first, NaN first."""
    verdict = result["verdict"].values
    error = result["rel_l2_error"].values
    measured = ~np.isnan(error)
    rank = np.where(verdict == "nan", 0, 1)
    order = np.lexsort(
        (np.arange(len(error)), -np.where(measured, error, 0.0), rank, result["passed"].values)
    )
    shown = (measured & (verdict != "identical")) | (verdict == "nan")
    return [int(i) for i in order if shown[i]][: max(most, 0)]


def counts_by_kind(result: xr.Dataset, language: str) -> list[tuple[str, str]]:
    """Remarks behind the verdict, as (tone, text)."""
    verdict, reason = result["verdict"].values, result["reason_id"].values
    missing = (verdict == "missing") & ~result["passed"].values
    unread = (verdict == "unreadable") & (reason != "interrupted")
    kinds = (
        ("miss", "nan_mismatch", None),
        ("warn", "shape_count", verdict == "shape"),
        ("warn", "without_partner", missing),
        ("warn", "unreadable_count", unread),
        ("warn", "undecidable_count", verdict == "undecidable"),
        ("", "rounding_count", verdict == "rounding"),
        ("warn", "blind_count", reason == "pass_blind"),
        ("warn", "interrupted_count", reason == "interrupted"),
    )
    remarks = []
    for tone, key, rows in kinds:
        if rows is None:
            counts = {
                name: int(np.clip(result[name].values, 0, None).sum())
                for name in ("nan_mismatch_count", "inf_mismatch_count")
            }
            if any(counts.values()):
                remarks.append((tone, "◇ " + sentence(key, language, **counts)))
        elif count := int(np.count_nonzero(rows)):
            remarks.append((tone, sentence(key, language, count=count)))
    return remarks


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
    constant = (index["min"].values == index["max"].values) & (size > 1) & ~zero
    if constant.any():
        found.append(f"▲ {int(constant.sum())} constant")
    return found


def _block_key(label: str) -> str:
    match = _BLOCK.match(label)
    if match and re.search(r"[./]", label):
        return match[1]
    return re.split(r"[./]", label, maxsplit=1)[0]
