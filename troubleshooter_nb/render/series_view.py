"""Two curves over the steps, as text, HTML and a matplotlib picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from troubleshooter_nb.columns.column import in_view
from troubleshooter_nb.columns.series import SERIES_COLUMNS
from troubleshooter_nb.messages import told
from troubleshooter_nb.render.cells import cell_text, heads
from troubleshooter_nb.render.charts import depth_chart, spark
from troubleshooter_nb.render.html import (
    INKS,
    Markup,
    details,
    element,
    fragment,
    heading,
    left_cell,
    paragraph,
    row,
    samp,
    shortest,
    small,
    table,
    tone,
)
from troubleshooter_nb.render.lines import aligned
from troubleshooter_nb.render.numbers import factor_text, scientific
from troubleshooter_nb.render.tables import aligned_cell
from troubleshooter_nb.render.words import sentence
from troubleshooter_nb.thresholds import NO_GROWTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_POINTS = 400
_AROUND = 4
_WIDTH = 60
# Of a kind of growth: where it grows, and where it shrinks.
_LAWS = {
    "power": ("series.power", "series.power_shrinks"),
    "exponential": ("series.exponential", "series.exponential_shrinks"),
}
_MOST_TICKS, _MOST_OPEN_NOTES = 12, 3


def _figures(series: xr.Dataset) -> dict[str, np.ndarray]:
    return {name: series[name].values for name in ("step", "left", "right", "difference", "noise")}


def _verdict(series: xr.Dataset, facts: Mapping[str, Any]) -> str:
    language = facts["language"]
    steps, measure = series["step"].values, facts["measure"]
    said = {"measure": measure, "count": len(steps)}
    if (first := facts["first"]) >= 0:
        return sentence("series.part", language, step=int(steps[first]), place=first + 1, **said)
    if facts["back"] < 0:
        return sentence("series.together", language, **said)
    shown = {name: int(steps[facts[name]]) for name in ("outside", "back")}
    return sentence("series.returned", language, **shown, **said)


def _details(series: xr.Dataset, facts: Mapping[str, Any]) -> list[str]:
    """The sentences below the verdict."""
    language = facts["language"]
    found, figures = [], _figures(series)
    if (first := facts["first"]) >= 0:
        found += _both_sides("series.at", figures, first, language)
    elif facts["back"] >= 0:
        apart = np.abs(figures["difference"])
        farthest = int(np.argmax(np.where(np.isfinite(apart), apart, np.inf)))
        found += _both_sides("series.farthest", figures, farthest, language)
    elif len(figures["step"]):
        at = int(np.nanargmax(np.abs(np.nan_to_num(figures["difference"]))))
        shown = {name: scientific(abs(figures[name][at])) for name in ("difference", "noise")}
        found.append(sentence("series.largest", language, **shown))
    left, right = series.attrs.get("alone", (0, 0))
    if left or right:
        found.append(sentence("series.alone", language, count=left + right, left=left, right=right))
    return [*found, *_law(series, facts)]


def _both_sides(id: str, figures: Mapping[str, np.ndarray], at: int, language: str) -> list[str]:
    """What both sides hold at a step, and whether that is finite."""
    shown = {name: f"{figures[name][at]:.6g}" for name in ("left", "right")}
    shown |= {name: scientific(figures[name][at]) for name in ("difference", "noise")}
    found = [sentence(id, language, step=int(figures["step"][at]), **shown)]
    if not np.isfinite(figures["difference"][at]):
        found.append(sentence("series.infinite", language))
    return found


def _law(series: xr.Dataset, facts: Mapping[str, Any]) -> list[str]:
    """How the difference grows or shrinks from the first step on, where it follows a law."""
    language, growth, kind = facts["language"], facts["growth"], facts["growth_kind"]
    if not kind:
        return []
    steps = series["step"].values
    # What a step adds may be small and a hundred of them are not.
    span = 1 if kind == "power" else int(steps[-1] - steps[facts["first"]])
    if abs(growth) * max(span, 1) < NO_GROWTH:
        return [sentence("series.constant", language)]
    id = _LAWS[kind][bool(growth < 0)]
    shown = {"growth": f"{growth:.2g}", "factor": factor_text(np.exp(growth))}
    return [sentence(id, language, **shown)]


def _turn(facts: Mapping[str, Any]) -> int:
    """The place where the curves part, or where they are back together; -1 for neither."""
    return int(facts["back"] if facts["first"] < 0 else facts["first"])


def _shown_rows(series: xr.Dataset, facts: Mapping[str, Any], around: int) -> range:
    count, turn = int(series.sizes["step"]), _turn(facts)
    if turn < 0:
        return range(max(count - 2 * around - 1, 0), count)
    return range(max(turn - around, 0), min(turn + around + 1, count))


def _curve(values: np.ndarray, ascii_only: bool) -> str:
    """A curve in one line: the mean of equal parts, from its least to its largest value."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return ""
    parts = np.array_split(finite, min(_WIDTH, len(finite)))
    means = np.array([part.mean() for part in parts])
    low, high = float(means.min()), float(means.max())
    if high <= low:
        return spark(np.ones(len(means)), ascii_only=ascii_only)
    # The spark line draws square roots; a curve is to be drawn as it is.
    return spark(((means - low) / (high - low)) ** 2 + 1e-6, ascii_only=ascii_only)


def series_verdict(series: xr.Dataset, facts: Mapping[str, Any]) -> str:
    """Whether the curves stay together, and where they part, behind a mark."""
    bad, good = ("x", "=") if facts["ascii"] else ("✗", "✓")
    return f"{good if _turn(facts) < 0 else bad} {_verdict(series, facts)}"


def series_text(series: xr.Dataset, facts: Mapping[str, Any]) -> str:
    """Where the curves part and the steps around, at most 25 lines of 100 columns."""
    language = facts["language"]
    ascii_only = bool(facts["ascii"])
    lines = [series_verdict(series, facts)]
    lines.append(
        sentence("pages.sides", language, left=facts["left_label"], right=facts["right_label"])
    )
    lines += _details(series, facts)
    figures = _figures(series)
    for side in ("left", "right"):
        lines.append(f"  {side:<5} {_curve(figures[side], ascii_only)}")
    columns, shown = in_view("text", SERIES_COLUMNS.values()), _shown_rows(series, facts, _AROUND)
    texts = [[title for title, _ in heads(columns, language)]]
    for i in shown:
        values = {name: column[i] for name, column in figures.items()}
        texts.append([cell_text(column, values, language, "text") for column in columns])
    pointers = [
        " ",
        *((">" if ascii_only else "➤") if i == _turn(facts) else " " for i in shown),
    ]
    table_lines = aligned(texts, [column.is_left for column in columns], facts)
    lines += [f"{mark} {line}" for mark, line in zip(pointers, table_lines, strict=True)]
    lines += [f"  {told(note, language)}" for note in facts["notes"][:4]]
    text = "\n".join(line[:100] for line in lines[:25])
    return text.encode("ascii", "replace").decode() if ascii_only else text


def series_html(series: xr.Dataset, facts: Mapping[str, Any]) -> str:
    """The answer, the difference along the steps, and the steps around the first."""
    return shortest(lambda around: _html(series, facts, around), facts, 2 * _AROUND)


def _html(series: xr.Dataset, facts: Mapping[str, Any], around: int) -> str:
    language = facts["language"]
    turn = _turn(facts)
    glyph = tone("ok", "✓") if turn < 0 else tone("bad", "✗")
    sides = sentence("pages.sides", language, left=facts["left_label"], right=facts["right_label"])
    figures = _figures(series)
    curves = [
        row(left_cell(side), left_cell(samp(_curve(figures[side], ascii_only=False))))
        for side in ("left", "right")
    ]
    return fragment(
        paragraph(glyph, " ", element("b", _verdict(series, facts))),
        paragraph(small(sides)),
        *(paragraph(text) for text in _details(series, facts)),
        table([("", True), (facts["measure"], True)], curves),
        heading(sentence("series.along", language), sentence("series.along_remark", language)),
        _chart(series, facts),
        heading(sentence("series.rows" if turn >= 0 else "series.last", language)),
        _table(series, facts, around),
        *_notes(facts),
    )


def _chart(series: xr.Dataset, facts: Mapping[str, Any]) -> Markup | None:
    language = facts["language"]
    figures = _figures(series)
    count = len(figures["step"])
    if count < 2:
        return None
    stride = max(1, -(-count // _MOST_POINTS))
    apart, turn = np.abs(figures["difference"]), _turn(facts)
    # Of each stretch of steps the largest difference is drawn.
    blocks = [slice(start, start + stride) for start in range(0, count, stride)]
    drawn = [float(np.nanmax(np.append(apart[block], 0.0))) for block in blocks]
    tones = [
        "bad" if (~(apart[block] <= figures["noise"][block])).any() else "ok" for block in blocks
    ]
    many = len(blocks) > _MOST_TICKS
    ticks = sorted({int(i) for i in np.linspace(0, len(blocks) - 1, 6 if many else len(blocks))})
    steps, id = figures["step"], "series.back" if facts["first"] < 0 else "series.first"
    noise = float(np.median(figures["noise"]))
    return depth_chart(
        drawn,
        tones,
        line=(noise, sentence("series.noise", language)) if noise > 0 else None,
        first=None if turn < 0 else turn // stride,
        first_label="" if turn < 0 else sentence(id, language, step=int(steps[turn])),
        labels=[(i, str(int(steps[blocks[i].start]))) for i in ticks[:-1]],
        alt=sentence(
            "series.alt", language, measure=facts["measure"], largest=scientific(max(drawn))
        ),
    )


def _table(series: xr.Dataset, facts: Mapping[str, Any], around: int) -> Markup:
    columns, language = in_view("html", SERIES_COLUMNS.values()), facts["language"]
    figures = _figures(series)
    rows = []
    for i in _shown_rows(series, facts, around):
        values = {name: column[i] for name, column in figures.items()}
        texts = {one.name: cell_text(one, values, language, "html") for one in columns}
        cells: dict[str, object] = {**texts}
        if not abs(values["difference"]) <= values["noise"]:
            cells["difference"] = tone("bad", "✗ ", texts["difference"])
        if i == _turn(facts):
            cells["step"] = f"➤ {texts['step']}"
        rows.append(row(*(aligned_cell(column, cells[column.name]) for column in columns)))
    return table(heads(columns, language), rows)


def _notes(facts: Mapping[str, Any]) -> list[Markup]:
    """A few notes as they are, many folded."""
    language, notes = facts["language"], facts["notes"]
    shown = [paragraph(small(told(note, language))) for note in notes[:20]]
    if len(notes) <= _MOST_OPEN_NOTES:
        return shown
    return [details([sentence("pages.notes", language, count=len(notes))], *shown)]


def plot_series(series: xr.Dataset, facts: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Both curves, the band of the noise around the right one, and the step where they part."""
    if ax is None:
        # pyplot, because a notebook shows its figures without being asked.
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(8, 3), layout="constrained")[1]
    figures = _figures(series)
    low, high = (figures["right"] + sign * figures["noise"] for sign in (-1, 1))
    ax.fill_between(figures["step"], low, high, color=INKS[""], alpha=0.3, linewidth=0)
    ax.plot(figures["step"], figures["right"], "-", color=INKS["ok"], label=facts["right_label"])
    ax.plot(figures["step"], figures["left"], "--", color=INKS["bad"], label=facts["left_label"])
    if (turn := _turn(facts)) >= 0:
        ax.axvline(figures["step"][turn], color=INKS["bad"], linestyle=":")
    ax.set_xlabel("step")
    ax.set_ylabel(facts["measure"])
    ax.legend(fontsize=8)
    return ax
