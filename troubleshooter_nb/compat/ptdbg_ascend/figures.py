"""The figures of two arrays as ptdbg_ascend printed them: msprobe's, with its own words and steps.

They exist to write the tool's csv. What this package itself reports is computed in
`troubleshooter_nb.metrics`; nothing from here enters a `Comparison`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from troubleshooter_nb.compat.msprobe.compare.metrics import METRICS, UNMATCHED, measure
from troubleshooter_nb.compat.ptdbg_ascend.releases import Release
from troubleshooter_nb.compat.ptdbg_ascend.verdicts import NAN, Figure
from troubleshooter_nb.dump import ArraySource
from troubleshooter_nb.messages import Message

FIGURES = tuple(one for one in METRICS if one != "EucDist")
_GREATEST_COSINE = 0.99999  # above it the tool says 1.0
_TROUBLES = {
    "empty": "ptdbg_ascend.no_elements",
    "places": "ptdbg_ascend.not_finite",
    "scalar": "ptdbg_ascend.no_axes",
    "one": "ptdbg_ascend.one_element",
    "zero_target": "ptdbg_ascend.one_side_zero",
    "zero_golden": "ptdbg_ascend.one_side_zero",
}


class CsvFigures(NamedTuple):
    """For each of `FIGURES` a number, or the word in its place; `problem` is why it is a word."""

    cells: tuple[Figure, ...]
    problem: str = ""


def not_measured(problem: str) -> CsvFigures:
    """The figures where there is nothing to measure."""
    return CsvFigures((NAN,) * len(FIGURES), problem)


def figures_of(left: ArraySource, right: ArraySource, release: Release) -> CsvFigures:
    """The figures of two arrays, as a release rounds them.

    Parameters
    ----------
    left, right : ArraySource
        Any dtype of numbers; errors are relative to `right`, the reference.
    release : Release

    Returns
    -------
    Figures
        ``shape unmatched``, ``N/A`` and ``unsupported`` where msprobe has them too.

    Raises
    ------
    ReadError
        If a file cannot be read.

    Notes
    -----
    Source: tables of ptdbg_ascend. Its formulas are those of msprobe before 26.2, with the machine
    epsilon of the reference's dtype where that is 0, as 26.2 has it. Other than there a cosine
    above 0.99999 is 1.0, and a value without axes has ``Nan`` for its ratios. Cosines between
    0.9999 and that have six decimals, as msprobe prints them, where the tool had twelve.
    """
    measured = measure(left, right, squeezes=False, own_step=True)
    found = dict(zip(METRICS, measured.cells, strict=True))
    cosine, trouble = found["Cosine"], measured.trouble
    if isinstance(cosine, float) and cosine > _GREATEST_COSINE:
        found["Cosine"] = 1.0
    if trouble == "one":
        found["Cosine"] = release.cosine_of_one
        trouble = trouble if isinstance(release.cosine_of_one, str) else ""
    if trouble == "scalar":
        found |= dict.fromkeys(FIGURES[3:], NAN)
    problem = Message(_TROUBLES[trouble]) if trouble else ""
    if cosine == UNMATCHED:
        shapes = {"left": str([*left.shape]), "right": str([*right.shape])}
        problem = Message("ptdbg_ascend.shapes_differ", **shapes)
    return CsvFigures(tuple(_rounded(found[one], release.decimals) for one in FIGURES), problem)


def _rounded(cell: Figure, decimals: int) -> Figure:
    if isinstance(cell, str):
        return cell
    return NAN if math.isnan(cell) else round(cell, decimals)
