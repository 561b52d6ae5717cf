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

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_POINTS = 400
_AROUND = 4
_WIDTH = 60
_CONSTANT = 0.05  # exponent of a growth below which there is none


def _figures(series: xr.Dataset) -> dict[str, np.ndarray]:
    return {name: series[name].values for name in ("step", "left", "right", "difference", "noise")}


def _verdict(series: xr.Dataset, facts: Mapping[str, Any]) -> str:
    language = facts["language"]
    first, count = int(facts["first"]), int(series.sizes["step"])
    measure = facts["measure"]
    if first < 0:
        return sentence("series.together", language, measure=measure, count=count)
    step = int(series["step"].values[first])
    return sentence(
        "series.part", language, measure=measure, step=step, place=first + 1, count=count
    )


def _details(series: xr.Dataset, facts: Mapping[str, Any]) -> list[str]:
    """The sentences below the verdict."""
    language = facts["language"]
    found, figures = [], _figures(series)
    first = int(facts["first"])
    if first >= 0:
        shown = {name: f"{figures[name][first]:.6g}" for name in ("left", "right")}
        shown |= {name: scientific(figures[name][first]) for name in ("difference", "noise")}
        found.append(sentence("series.at", language, **shown))
        if not np.isfinite(figures["difference"][first]):
            found.append(sentence("series.infinite", language))
    elif len(figures["step"]):
        at = int(np.nanargmax(np.abs(np.nan_to_num(figures["difference"]))))
        shown = {name: scientific(abs(figures[name][at])) for name in ("difference", "noise")}
        found.append(sentence("series.largest", language, **shown))
    left, right = series.attrs.get("alone", (0, 0))
    if left or right:
        found.append(sentence("series.alone", language, count=left + right, left=left, right=right))
    if facts["growth_kind"] == "power":
        if abs(facts["growth"]) < _CONSTANT:
            found.append(sentence("series.constant", language))
            return found
        found.append(sentence("series.power", language, growth=f"{facts['growth']:.2g}"))
    elif facts["growth_kind"]:
        # What a step adds may be small and a hundred of them are not.
        steps = max(int(series.sizes["step"]) - first, 1)
        if abs(facts["growth"]) * steps < _CONSTANT:
            found.append(sentence("series.constant", language))
        else:
            found.append(
                sentence(
                    "series.exponential", language, factor=factor_text(np.exp(facts["growth"]))
                )
            )
    return found


def _shown_rows(series: xr.Dataset, facts: Mapping[str, Any], around: int) -> range:
    count, first = int(series.sizes["step"]), int(facts["first"])
    if first < 0:
        return range(max(count - 2 * around - 1, 0), count)
    return range(max(first - around, 0), min(first + around + 1, count))


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


def series_text(series: xr.Dataset, facts: Mapping[str, Any]) -> str:
    """Where the curves part and the steps around, at most 25 lines of 100 columns."""
    language = facts["language"]
    ascii_only = bool(facts["ascii"])
    bad, good = ("x", "=") if ascii_only else ("✗", "✓")
    mark = good if int(facts["first"]) < 0 else bad
    lines = [f"{mark} {_verdict(series, facts)}"]
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
        *((">" if ascii_only else "➤") if i == int(facts["first"]) else " " for i in shown),
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
    first = int(facts["first"])
    glyph = tone("ok", "✓") if first < 0 else tone("bad", "✗")
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
        heading(sentence("series.rows" if first >= 0 else "series.last", language)),
        _table(series, facts, around),
        _notes(facts),
    )


def _chart(series: xr.Dataset, facts: Mapping[str, Any]) -> Markup | None:
    language = facts["language"]
    figures = _figures(series)
    count = len(figures["step"])
    if count < 2:
        return None
    stride = max(1, -(-count // _MOST_POINTS))
    apart, first = np.abs(figures["difference"]), int(facts["first"])
    # Of each stretch of steps the largest difference is drawn.
    blocks = [slice(start, start + stride) for start in range(0, count, stride)]
    drawn = [float(np.nanmax(np.append(apart[block], 0.0))) for block in blocks]
    tones = [
        "bad" if (~(apart[block] <= figures["noise"][block])).any() else "ok" for block in blocks
    ]
    ticks = sorted({int(i) for i in np.linspace(0, len(blocks) - 1, min(6, len(blocks)))})
    steps = figures["step"]
    noise = float(np.median(figures["noise"]))
    return depth_chart(
        drawn,
        tones,
        line=(noise, sentence("series.noise", language)) if noise > 0 else None,
        first=None if first < 0 else first // stride,
        first_label="" if first < 0 else sentence("series.first", language, step=int(steps[first])),
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
        if i == int(facts["first"]):
            cells["step"] = f"➤ {texts['step']}"
        rows.append(row(*(aligned_cell(column, cells[column.name]) for column in columns)))
    return table(heads(columns, language), rows)


def _notes(facts: Mapping[str, Any]) -> Markup | None:
    language = facts["language"]
    notes = facts["notes"]
    if not notes:
        return None
    title = sentence("pages.notes", language, count=len(notes))
    return details([title], *(paragraph(told(note, language)) for note in notes[:20]))


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
    if int(facts["first"]) >= 0:
        ax.axvline(figures["step"][int(facts["first"])], color=INKS["bad"], linestyle=":")
    ax.set_xlabel("step")
    ax.set_ylabel(facts["measure"])
    ax.legend(fontsize=8)
    return ax
