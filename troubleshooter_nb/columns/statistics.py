"""Columns of figures of one tensor, as a dump keeps them of an entry."""

from __future__ import annotations

import math

from troubleshooter_nb.columns.column import Column, View, at, by_name


def _length(
    name: str, meaning: str, title: tuple[str, str], shown: dict[str, int], of_empty: float
) -> Column:
    """A figure in the tensor's own unit."""
    return Column(
        name,
        "float64",
        meaning,
        title,
        unit="tensor",
        format="four_digits",
        formats={"opened": "six_digits", "explorer": "scientific"},
        shown=shown,
        is_figure=True,
        of_empty=of_empty,
    )


def _count(name: str, meaning: str, title: tuple[str, str], place: int) -> Column:
    shown = at(place, "explorer", "markdown", "opened")
    return Column(
        name, "int64", meaning, title, unit="elements", shown=shown, is_figure=True, of_empty=0
    )


_PAGES: tuple[View, ...] = ("html", "markdown", "opened")
# fmt: off
STATISTICS = by_name(
    _length("min", "smallest finite value", ("min", "最小值"), at(50, *_PAGES), math.nan),
    _length("max", "largest finite value", ("max", "最大值"), at(52, *_PAGES), math.nan),
    _length("mean", "mean of the finite values", ("mean", "均值"), at(54, *_PAGES, "explorer"),
        math.nan),
    _length("l2", "Euclidean norm of the finite values", ("L2", "L2"), at(56, *_PAGES, "explorer"),
        0.0),
    _count("nan_count", "NaN values", ("NaN", "NaN"), 60),
    _count("inf_count", "infinities of either sign", ("Inf", "Inf"), 62),
    _count("zero_count", "values equal to zero", ("zeros", "零"), 64),
)
