"""Marks and names of verdicts, the reason of each row, and how figures are written in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from string import Formatter
from typing import Any

from troubleshooter_nb.messages import Message, told
from troubleshooter_nb.messages.sentences import SENTENCES
from troubleshooter_nb.metrics.float_formats import coarser
from troubleshooter_nb.render.numbers import percent, scientific
from troubleshooter_nb.shapes import shape_text

# Verdict, or what became known of where a pair's difference comes from, which is shown in its
# place -> (glyph, ASCII glyph, tone); what they are called: `messages.verdicts`.
_MARKS: Mapping[str, tuple[str, str, str]] = {
    "identical": ("=", "=", "ok"),
    "pass": ("✓", "ok", "ok"),
    "rounding": ("≈", "~", "ok"),
    "padded": ("≈", "~", "ok"),
    "grown_rounding": ("≈", "~", "ok"),
    "no_effect": ("≅", "~", "ok"),
    "reduced": ("✗", "x", "bad"),
    "differs": ("✗", "x", "bad"),
    "unrelated": ("✗", "x", "bad"),
    "nan": ("◇", "N", "miss"),
    "shape": ("▲", "S", "warn"),
    "missing": ("○", "-", "warn"),
    "alone": ("○", "-", "ok"),  # missing, as expected
    "unreadable": ("!", "!", "warn"),
    "undecidable": ("?", "?", "warn"),
    "created": ("✗", "x", "bad"),
    # The verdict passed, and what follows from the difference may not.
    "within": ("✓", "ok", "warn"),
    "carried": ("↳", ">", "warn"),
}

# Verdicts that say values differ, as opposed to "could not be compared".
DIFFERING = ("reduced", "differs", "unrelated", "nan", "shape")

_FIGURES = {
    "rel": "rel_l2_error",
    "largest": "max_abs_error",
    "smallest": "smallest_passing_tolerance",
    "likeness": "correlation",
    "estimate": "estimated_rel_l2",
}


def sentence(id: str, language: str = "en", **values: object) -> str:
    """A sentence by its id."""
    return Message(id, **values).told(language)


def glyph(verdict: str, *, ascii_only: bool = False) -> str:
    """The mark of a verdict or an origin."""
    return _MARKS[verdict][1 if ascii_only else 0]


def tone_of(verdict: str) -> str:
    """The tone of a verdict or an origin: ok, bad, warn or miss."""
    return _MARKS[verdict][2]


def word(verdict: str, language: str = "en") -> str:
    """The verdict or the origin in a word."""
    return Message(f"verdicts.name_{verdict}").told(language)


def reason_of(row: Mapping[str, Any]) -> str:
    """The reason of a row of a comparison, from its id, its detail and its figures."""
    id = f"verdicts.{row['reason_id']}"
    return Message(id, **{gap: _filled(row, gap) for gap in _gaps(id)}) if row["reason_id"] else ""


def reason_text(row: Mapping[str, Any], language: str = "en") -> str:
    """The reason of a row of a comparison in a sentence."""
    return told(row["reason"], language)


@cache
def _gaps(id: str) -> list[str]:
    return [name for _, name, _, _ in Formatter().parse(SENTENCES[id][0]) if name]


def _filled(row: Mapping[str, Any], gap: str) -> Any:
    if gap in _FIGURES:
        return scientific(float(row[_FIGURES[gap]]))
    match gap:
        case "left_statistic" | "right_statistic":
            # As many digits as tell them apart.
            return f"{float(row[gap.replace('statistic', row['detail'])]):.6g}"
        case "left_value" | "right_value":
            return row["detail"].values[gap.removesuffix("_value")]
        case "scale":
            return scientific(max(abs(float(row["right_max"])), abs(float(row["right_min"]))))
        case "apart":
            return f"{float(row['max_abs_error']):.6g}"
        case "share":
            return percent(float(row["allclose_ratio"]))
        case "mismatches":
            return mismatches(int(row["nan_mismatch_count"]), int(row["inf_mismatch_count"]))
        case "left_shape" | "right_shape":
            return shape_text(row[gap])
        case "coarser":
            return coarser(str(row["left_dtype"]), str(row["right_dtype"]))
        case _:
            return row[gap]


def mismatches(nan: int, inf: int) -> str:
    """``4 NaN, 2 Inf``; what there is none of is left out."""
    counted = ((nan, "NaN"), (inf, "Inf"))
    return ", ".join(f"{count:,} {name}" for count, name in counted if count)
