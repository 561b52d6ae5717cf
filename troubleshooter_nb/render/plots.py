"""matplotlib pictures of a comparison, for papers and slides; every method returns its axes.

Their words are English in every language: the fonts of matplotlib have no Chinese.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.render.html import INKS
from troubleshooter_nb.render.rows import Pairs
from troubleshooter_nb.render.text import scalar_row
from troubleshooter_nb.render.words import sentence, word

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Different marks, so that the verdicts can be told apart without colour.
_MARKS = {"ok": ".", "bad": "x", "warn": "|", "miss": "^"}


@dataclass(frozen=True)
class ComparisonPlots:
    """Pictures of a `Comparison`; calling it draws `errors`."""

    pairs: Pairs
    facts: Mapping[str, Any]

    def __call__(self, ax: Axes | None = None) -> Axes:
        """Draw `errors`."""
        return self.errors(ax=ax)

    def errors(self, figure: str = "max_abs_error", ax: Axes | None = None) -> Axes:
        """One figure of every pair in execution order, on a log scale, marked by verdict.

        Parameters
        ----------
        figure : str
            A float column of `Comparison.result`, such as ``rel_l2_error``.
        ax : matplotlib Axes, optional
            Drawn into; default a new figure.

        Returns
        -------
        matplotlib Axes
        """
        ax = ax or _new_axes(9, 3)
        values = np.asarray(self.pairs[figure], float)
        tones = np.array([self.pairs.mark(i) for i in range(len(self.pairs))], object)
        shown = np.isfinite(values) & (values > 0)
        ax.plot(np.flatnonzero(shown), values[shown], color=INKS[""], linewidth=0.6, alpha=0.6)
        for tone, mark in _MARKS.items():
            rows = np.flatnonzero(shown & (tones == tone))
            if len(rows):
                label = ", ".join(sorted({word(str(s)) for s in self.pairs.states[rows]}))
                ax.plot(rows, values[rows], mark, color=INKS[tone], label=label)
        if shown.any():
            ax.set_yscale("log")
        if figure == "max_abs_error" and self.facts["atol"] > 0:
            ax.axhline(self.facts["atol"], color=INKS[""], linestyle="--", linewidth=0.8)
        if self.pairs.first is not None:
            ax.axvline(self.pairs.first, color=INKS["bad"], linestyle=":", linewidth=1)
            number, name = self.pairs.number(self.pairs.first), self.pairs.short(self.pairs.first)
            title = sentence("pages.first_divergence", "en")
            ax.set_title(f"{title} #{number}: {name}", fontsize=10)
        ax.set_xlabel("number of the pair")
        ax.set_ylabel(figure)
        if ax.get_legend_handles_labels()[0]:
            ax.legend(fontsize=8)
        return ax

    def histograms(self, ax: Axes | None = None) -> Axes:
        """|error| of every pair by powers of two: the mass moves right where the error is born.

        Returns
        -------
        matplotlib Axes
            Pairs from top to bottom, share of the pair's elements as brightness.
        """
        ax = ax or _new_axes(7, 5)
        totals = self.pairs.histogram.sum(axis=1, keepdims=True)
        share = self.pairs.histogram / np.maximum(totals, 1)
        first, last = _occupied(self.pairs.histogram.sum(axis=0))
        extent = (
            float(self.pairs.exponents[first]),
            float(self.pairs.exponents[last] + 1),
            len(self.pairs) - 0.5,
            -0.5,
        )
        ax.imshow(
            share[:, first : last + 1],
            aspect="auto",
            interpolation="nearest",
            extent=extent,
            cmap="cividis",
        )
        ax.set_xlabel("log2 |left - right|")
        ax.set_ylabel("number of the pair")
        return ax


@dataclass(frozen=True)
class DiffPlots:
    """Pictures of a `TensorDiff`; calling it draws `heat_map`."""

    row: xr.Dataset
    evidence: xr.Dataset

    def __call__(self, ax: Axes | None = None) -> Axes:
        """Draw `heat_map`."""
        return self.heat_map(ax=ax)

    def heat_map(self, ax: Axes | None = None) -> Axes:
        """Largest |left - right| of each tile, on a log scale; leading axes are the rows.

        Returns
        -------
        matplotlib Axes
            Ticks are rows and columns of the two-dimensional view of the tensor.
        """
        from matplotlib.colors import LogNorm

        ax = ax or _new_axes(7, 4)
        maxima = self.evidence["tile_max"].values
        largest = float(maxima.max(initial=0.0)) or 1.0
        rows, columns = int(self.evidence.attrs["rows"]), int(self.evidence.attrs["columns"])
        picture = ax.imshow(
            np.maximum(maxima, largest * 1e-4),
            norm=LogNorm(largest * 1e-4, largest),
            aspect="auto",
            interpolation="nearest",
            cmap="YlOrRd",
            extent=(0, columns, rows, 0),
        )
        ax.figure.colorbar(picture, ax=ax, label="largest |left - right| of the tile")
        ax.set_title(self._title(), fontsize=10)
        return ax

    def profile(self, axis: int = -1, ax: Axes | None = None) -> Axes:
        """Sum of squared error along one axis, with the shortest range that holds 99 %.

        Raises
        ------
        ValueError
            If the tensor has no such axis.
        """
        count = len(self.row["left_shape"].values[()])
        if not -count <= axis < count:
            raise ArgumentError(Message("arguments.no_axis", axis=axis, count=count))
        ax = ax or _new_axes(7, 2.5)
        variable = self.evidence[f"profile_{axis % count}"]
        length = int(variable.attrs["length"])
        edges = np.linspace(0, length, variable.size + 1)
        ax.stairs(variable.values, edges, fill=True, color=INKS["bad"])
        ax.axvspan(variable.attrs["start"], variable.attrs["stop"], color=INKS["warn"], alpha=0.2)
        ax.set_xlabel(f"index on axis {axis % count}")
        ax.set_ylabel("sum of squared error")
        return ax

    def values(self, ax: Axes | None = None) -> Axes:
        """Histograms of the values of both sides over their common range."""
        ax = ax or _new_axes(5, 3)
        low, high = float(self.evidence.attrs["low"]), float(self.evidence.attrs["high"])
        for side, style in (("left", "-"), ("right", "--")):
            counts = self.evidence[f"{side}_histogram"].values
            edges = np.linspace(low, high if high > low else low + 1, len(counts) + 1)
            ax.stairs(counts, edges, linestyle=style, label=side)
        ax.set_xlabel("value")
        ax.set_ylabel("elements")
        ax.legend(fontsize=8)
        return ax

    def errors(self, ax: Axes | None = None) -> Axes:
        """Histogram of |left - right| by powers of two; equal elements are not counted."""
        ax = ax or _new_axes(5, 3)
        counts = self.row["error_histogram"].values
        exponents = self.row["exponent"].values.astype(float)
        first, last = _occupied(counts)
        edges = np.append(exponents[first : last + 1], exponents[last] + 1)
        ax.stairs(counts[first : last + 1], edges, fill=True, color=INKS["bad"])
        ax.set_xlabel("log2 |left - right|")
        ax.set_ylabel("elements")
        return ax

    def _title(self) -> str:
        values = scalar_row(self.row)
        return f"{values['left_display'] or values['left']} ({values['verdict']})"


def _occupied(counts: np.ndarray) -> tuple[int, int]:
    """First and last bin that count something; all bins when none does."""
    used = np.flatnonzero(counts)
    return (int(used[0]), int(used[-1])) if len(used) else (0, len(counts) - 1)


def _new_axes(width: float, height: float) -> Axes:
    # pyplot, because a notebook shows its figures without being asked.
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]
