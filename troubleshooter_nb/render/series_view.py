"""Two curves over the steps, as text, HTML and a matplotlib picture."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from troubleshooter_nb.render.charts import depth_chart, scientific, spark
from troubleshooter_nb.render.html import (
    INKS,
    Markup,
    cell,
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

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_POINTS = 400
_AROUND = 4
_WIDTH = 60
_CONSTANT = 0.05  # exponent of a growth below which there is none

# id -> (English, Chinese)
# ruff: noqa: RUF001  full-width marks belong to Chinese sentences
_SENTENCES = {
    "together": (
        "{measure}: the curves stay together over {count} steps",
        "{measure}：{count} 步内两条曲线一致",
    ),
    "part": (
        "{measure}: the curves part at step {step} ({place} of {count})",
        "{measure}：两条曲线在第 {step} 步分开（共 {count} 步中的第 {place} 个）",
    ),
    "at": (
        "left {left}, right {right}, difference {difference}, noise {noise}",
        "左 {left}，右 {right}，差 {difference}，噪声 {noise}",
    ),
    "largest": (
        "largest difference {difference}, noise there {noise}",
        "最大差 {difference}，该处噪声 {noise}",
    ),
    "alone": (
        "{count} steps have no partner (only left: {left}, only right: {right})",
        "{count} 步没有对应（仅左侧 {left}，仅右侧 {right}）",
    ),
    "infinite": (
        "one side is not finite there",
        "该处有一侧不是有限数",
    ),
    "power": (
        "then the difference grows like steps^{growth}",
        "此后差值按 steps^{growth} 增长",
    ),
    "constant": ("then the difference stays as large", "此后差值大致不变"),
    "exponential": (
        "then the difference grows by the factor {factor} per step",
        "此后差值每步增长 {factor} 倍",
    ),
    "sides": ("{left} against {right}, the reference", "{left} 对比基准 {right}"),
    "along": ("Difference over the steps", "差值随步数的变化"),
    "along_remark": (
        "|left − right|: – inside the noise, × outside",
        "|left − right|：– 在噪声内，× 超出",
    ),
    "alt": (
        "Absolute difference of {measure} by step, largest {largest}",
        "{measure} 的绝对差随步数的变化，最大 {largest}",
    ),
    "rows": ("Steps around it", "附近的步"),
    "last": ("Last steps", "最后几步"),
    "noise": ("noise", "噪声"),
    "first": ("first", "首个"),
    "notes": ("{count} notes", "{count} 条说明"),
}


def _say(key: str, facts: Mapping[str, Any], **values: object) -> str:
    return _SENTENCES[key][facts["language"] == "zh"].format(**values)


def _figures(series: xr.Dataset) -> dict[str, np.ndarray]:
    return {name: series[name].values for name in ("step", "left", "right", "difference", "noise")}


def _verdict(series: xr.Dataset, facts: Mapping[str, Any]) -> str:
    first, count = int(facts["first"]), int(series.sizes["step"])
    measure = facts["measure"]
    if first < 0:
        return _say("together", facts, measure=measure, count=count)
    step = int(series["step"].values[first])
    return _say("part", facts, measure=measure, step=step, place=first + 1, count=count)


def _details(series: xr.Dataset, facts: Mapping[str, Any]) -> list[str]:
    """The sentences below the verdict."""
    found, figures = [], _figures(series)
    first = int(facts["first"])
    if first >= 0:
        shown = {name: f"{figures[name][first]:.6g}" for name in ("left", "right")}
        shown |= {name: scientific(figures[name][first]) for name in ("difference", "noise")}
        found.append(_say("at", facts, **shown))
        if not np.isfinite(figures["difference"][first]):
            found.append(_say("infinite", facts))
    elif len(figures["step"]):
        at = int(np.nanargmax(np.abs(np.nan_to_num(figures["difference"]))))
        shown = {name: scientific(abs(figures[name][at])) for name in ("difference", "noise")}
        found.append(_say("largest", facts, **shown))
    left, right = series.attrs.get("alone", (0, 0))
    if left or right:
        found.append(_say("alone", facts, count=left + right, left=left, right=right))
    if facts["growth_kind"] == "power":
        if abs(facts["growth"]) < _CONSTANT:
            found.append(_say("constant", facts))
            return found
        found.append(_say("power", facts, growth=f"{facts['growth']:.2g}"))
    elif facts["growth_kind"]:
        # What a step adds may be small and a hundred of them are not.
        steps = max(int(series.sizes["step"]) - first, 1)
        if abs(facts["growth"]) * steps < _CONSTANT:
            found.append(_say("constant", facts))
        else:
            found.append(_say("exponential", facts, factor=_factor(np.exp(facts["growth"]))))
    return found


def _factor(value: float) -> str:
    """A factor in three digits, or in as many as tell it from 1."""
    digits = 3 if abs(value - 1.0) >= 0.005 else 2 + math.ceil(-math.log10(abs(value - 1.0)))
    return f"{value:.{digits}g}"


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
    ascii_only = bool(facts["ascii"])
    bad, good = ("x", "=") if ascii_only else ("✗", "✓")
    mark = good if int(facts["first"]) < 0 else bad
    lines = [f"{mark} {_verdict(series, facts)}"]
    lines.append(_say("sides", facts, left=facts["left_label"], right=facts["right_label"]))
    lines += _details(series, facts)
    figures = _figures(series)
    for side in ("left", "right"):
        lines.append(f"  {side:<5} {_curve(figures[side], ascii_only)}")
    lines.append(f"  {'step':>8} {'left':>13} {'right':>13} {'difference':>11} {'noise':>9}")
    for i in _shown_rows(series, facts, _AROUND):
        pointer = (">" if ascii_only else "➤") if i == int(facts["first"]) else " "
        lines.append(
            f"{pointer} {int(figures['step'][i]):>8} {figures['left'][i]:>13.7g} "
            f"{figures['right'][i]:>13.7g} {scientific(figures['difference'][i]):>11} "
            f"{scientific(figures['noise'][i]):>9}"
        )
    lines += [f"  {note}" for note in facts["notes"][:4]]
    text = "\n".join(line[:100] for line in lines[:25])
    return text.encode("ascii", "replace").decode() if ascii_only else text


def series_html(series: xr.Dataset, facts: Mapping[str, Any]) -> str:
    """The answer, the difference along the steps, and the steps around the first."""
    return shortest(lambda around: _html(series, facts, around), facts, 2 * _AROUND)


def _html(series: xr.Dataset, facts: Mapping[str, Any], around: int) -> str:
    first = int(facts["first"])
    glyph = tone("ok", "✓") if first < 0 else tone("bad", "✗")
    sides = _say("sides", facts, left=facts["left_label"], right=facts["right_label"])
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
        heading(_say("along", facts), _say("along_remark", facts)),
        _chart(series, facts),
        heading(_say("rows" if first >= 0 else "last", facts)),
        _table(series, facts, around),
        _notes(facts),
    )


def _chart(series: xr.Dataset, facts: Mapping[str, Any]) -> Markup | None:
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
        line=(noise, _say("noise", facts)) if noise > 0 else None,
        first=None if first < 0 else first // stride,
        first_label="" if first < 0 else f"{_say('first', facts)}: {int(steps[first])}",
        labels=[(i, str(int(steps[blocks[i].start]))) for i in ticks[:-1]],
        alt=_say("alt", facts, measure=facts["measure"], largest=scientific(max(drawn))),
    )


def _table(series: xr.Dataset, facts: Mapping[str, Any], around: int) -> Markup:
    figures = _figures(series)
    rows = []
    for i in _shown_rows(series, facts, around):
        outside = not abs(figures["difference"][i]) <= figures["noise"][i]
        shown = scientific(figures["difference"][i])
        rows.append(
            row(
                cell("➤ " if i == int(facts["first"]) else "", str(int(figures["step"][i]))),
                cell(f"{figures['left'][i]:.7g}"),
                cell(f"{figures['right'][i]:.7g}"),
                cell(tone("bad", "✗ ", shown) if outside else shown),
                cell(scientific(figures["noise"][i])),
            )
        )
    names = ("step", "left", "right", "difference", "noise")
    return table([(name, False) for name in names], rows)


def _notes(facts: Mapping[str, Any]) -> Markup | None:
    notes = facts["notes"]
    if not notes:
        return None
    return details(
        [_say("notes", facts, count=len(notes))], *(paragraph(note) for note in notes[:20])
    )


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
