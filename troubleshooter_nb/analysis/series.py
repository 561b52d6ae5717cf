"""Two runs over their steps: where the curves part, and how fast they do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from troubleshooter_nb import thresholds
from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats import labels_of_paths
from troubleshooter_nb.formats.series import Series, open_series
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.float_formats import FLOAT32
from troubleshooter_nb.options import get_options
from troubleshooter_nb.render.series_view import (
    plot_series,
    series_html,
    series_text,
    series_verdict,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SeriesLike = Series | Dump | str | PathLike[str] | Mapping[str, Any] | Sequence[float] | np.ndarray

_FLOAT32 = FLOAT32.unit_roundoff
_PATHS = (str, PathLike)


@dataclass(frozen=True, repr=False)
class SeriesComparison:
    """What `compare_series` found.

    Attributes
    ----------
    table : xarray.Dataset, dimension ``step``
        ``left, right, difference`` (left - right) and ``noise``, what abs(difference) may be
        without any cause; float64, in the unit of the measure. Steps that both runs have.
    measure : str
        Which number it is.
    labels : tuple of str
        Left, right.
    growth : float
        Exponent of the growth after `first_step`, negative where the difference shrinks:
        abs(difference) ~ (steps since then)**growth, or exp(growth) per step where `growth_kind` is
        "exponential"; nan where too few steps follow, or follow no law.
    growth_kind : {"power", "exponential", ""}
    notes : tuple of str
    """

    table: xr.Dataset
    measure: str
    labels: tuple[str, str] = ("left", "right")
    first: int = -1
    outside: int = -1
    back: int = -1
    growth: float = math.nan
    growth_kind: str = ""
    notes: tuple[str, ...] = ()

    @property
    def first_step(self) -> int | None:
        """First step whose difference leaves the self-noise for good; None where none does."""
        return self._step(self.first)

    @property
    def outside_step(self) -> int | None:
        """First step whose difference leaves the self-noise, for good or not; None for none.

        A single step counts where the self-noise was given, and where one side is not finite.
        """
        return self._step(self.outside)

    @property
    def back_step(self) -> int | None:
        """Step from which the difference is back in the self-noise; None where it never left it.

        None as well where it is outside for good.
        """
        return self._step(self.back)

    @property
    def left_label(self) -> str:
        """Label of the left run."""
        return self.labels[0]

    @property
    def right_label(self) -> str:
        """Label of the right run, the reference."""
        return self.labels[1]

    @property
    def verdict(self) -> str:
        """The answer in one line."""
        return series_verdict(self.table, self._facts())

    @property
    def passed(self) -> bool:
        """Whether the curves stay together, at every step."""
        return self.outside < 0

    def _step(self, place: int) -> int | None:
        return None if place < 0 else int(self.table["step"].values[place])

    def __len__(self) -> int:
        """Number of steps that both have."""
        return int(self.table.sizes["step"])

    def to_dataset(self) -> xr.Dataset:
        """The table, a copy."""
        return self.table.copy(deep=True)

    def to_dataframe(self) -> pd.DataFrame:
        """The table with one row per step."""
        return self.to_dataset().to_dataframe().reset_index()

    def plot(self, ax: Axes | None = None) -> Axes:
        """Both curves, with the step where they part; the axes are returned."""
        return plot_series(self.table, self._facts(), ax)

    def __repr__(self) -> str:
        """Where the curves part, and the steps around, at most 25 lines."""
        return series_text(self.table, self._facts())

    def _repr_html_(self) -> str:
        return series_html(self.table, self._facts())

    def _facts(self) -> dict[str, Any]:
        return {
            "measure": self.measure,
            "left_label": self.labels[0],
            "right_label": self.labels[1],
            "first": self.first,
            "outside": self.outside,
            "back": self.back,
            "growth": self.growth,
            "growth_kind": self.growth_kind,
            "notes": self.notes,
            **get_options(),
        }


def compare_series(
    left: SeriesLike,
    right: SeriesLike,
    self_noise: SeriesLike | float | None = None,
    *,
    measure: str | None = None,
) -> SeriesComparison:
    """Find the step at which two runs part.

    Parameters
    ----------
    left, right : Series, path, mapping, sequence or Dump
        What `open_series` takes or gives; a mapping of steps, or of names of measures, to numbers;
        numbers of steps 0, 1, ...; of a Dump with steps the norm of all its parameters.
    self_noise : as left, or float, optional
        A repeated run of the right side; or the largest difference that says nothing, in the
        measure's unit. Default: estimated from that part of the local fluctuation of both series
        that they do not share, and from the digits that were written.
    measure : str, optional
        Default ``loss``, else of all that both have the one that parts first; what the others do
        is in the notes.

    Returns
    -------
    SeriesComparison

    Raises
    ------
    FormatError
        If the two have no measure or no step in common.
    """
    one, other = _as_series(left, "left"), _as_series(right, "right")
    if one.label == other.label and isinstance(left, _PATHS) and isinstance(right, _PATHS):
        labels = labels_of_paths(left, right)
        one, other = replace(one, label=labels[0]), replace(other, label=labels[1])
    pairs = _measures(one, other, measure)
    found = [_compared(one, other, pairs[0], self_noise)]
    # The numbers of a run without losses are alike; a float is in the unit of each.
    alike = "loss" not in pairs[0][0]
    for names in pairs[1 : thresholds.MOST_MEASURES]:
        noise = self_noise
        if isinstance(noise, (int, float)) and not alike:
            noise = None
        if noise is not None and not isinstance(noise, (int, float)):
            repeated = _as_series(noise, "repeat")
            noise = repeated if names[1] in repeated.measures else None
        try:
            found.append(_compared(one, other, names, noise))
        except FormatError:
            continue
    chief = found[0]
    if alike:
        parted = [each for each in found if not each.passed]
        chief = min(parted, key=_when_it_parts, default=chief)
    others = _of_others([each for each in found if each is not chief])
    if len(pairs) > thresholds.MOST_MEASURES:
        others.append(Message("series.not_compared", count=len(pairs) - thresholds.MOST_MEASURES))
    return replace(chief, notes=(*others, *chief.notes))


def _when_it_parts(found: SeriesComparison) -> tuple[bool, int]:
    """For the order of measures that part: those for good, by their step, before the others."""
    step = found.outside_step if found.first_step is None else found.first_step
    return found.first < 0, step or 0


def _of_others(found: Sequence[SeriesComparison]) -> list[str]:
    """What the other measures say, those that part first."""
    notes: list[str] = []
    apart = sorted((each for each in found if not each.passed), key=_when_it_parts)
    together = [each.measure for each in found if each.passed]
    for id, returns in (("series.also_part", False), ("series.also_back", True)):
        places = [
            Message("series.at_step", name=each.measure, step=_when_it_parts(each)[1])
            for each in apart
            if (each.first < 0) == returns
        ]
        if places:
            notes.append(Message(id, names=places))
    if together:
        notes.append(Message("series.also_together", names=together))
    return notes


def _compared(
    one: Series, other: Series, names: tuple[str, str], self_noise: SeriesLike | float | None
) -> SeriesComparison:
    """Two runs by one measure."""
    pieces = [_column(series, name) for series, name in zip((one, other), names, strict=True)]
    steps = np.intersect1d(pieces[0][0], pieces[1][0])
    if not len(steps):
        sides = {"left": one.label, "right": other.label}
        raise FormatError(Message("series.no_common_step", measure=names[0], **sides))
    ours, theirs = (values[np.isin(at, steps)] for at, values in pieces)
    quantum = sum(
        float(series.table[name].attrs.get("quantum", 0.0))
        for series, name in zip((one, other), names, strict=True)
    )
    with np.errstate(invalid="ignore"):  # inf - inf
        noise = _noise(ours, theirs, quantum, _repeat(self_noise, names[1], steps))
    apart = _apart(ours, theirs)
    stretches = _stretches(apart, noise, given=self_noise is not None)
    back = _returns(apart, noise, stretches[-1]) if stretches else -1
    first = stretches[-1].start if stretches and back < 0 else -1
    growth, kind = _growth(np.abs(apart), first, noise, steps)
    columns = {"left": ours, "right": theirs, "difference": apart, "noise": noise}
    table = xr.Dataset(
        {name: ("step", values) for name, values in columns.items()},
        {"step": steps.astype(np.int64)},
        {"schema": "troubleshooter_nb.series_comparison/1", "measure": names[0]},
    )
    labels = (one.label or "left", other.label or "right")
    table.attrs["alone"] = [len(at) - len(steps) for at, _ in pieces]
    notes = [
        Message("dumps.note_of", label=series.label, note=note)
        for series in (one, other)
        for note in series.notes
    ]
    if first >= 0 and len(stretches) > 1:
        before = [_steps_of(steps, stretch) for stretch in stretches[:-1]]
        notes.insert(0, Message("series.outside_before", steps=before))
    outside = stretches[0].start if stretches else -1
    places = {"first": first, "outside": outside, "back": back}
    return SeriesComparison(
        table, names[0], labels, **places, growth=growth, growth_kind=kind, notes=tuple(notes)
    )


def _steps_of(steps: np.ndarray, stretch: range) -> str:
    first, last = int(steps[stretch.start]), int(steps[stretch.stop - 1])
    if first == last:
        return Message("series.one_step", step=first)
    return Message("series.some_steps", first=first, last=last)


def _as_series(value: SeriesLike, label: str) -> Series:
    if isinstance(value, _PATHS):
        value = open_series(value)
    if isinstance(value, Series):
        return value
    if isinstance(value, Dump):
        return _norms(value)
    if isinstance(value, Mapping):
        if all(isinstance(key, (int, np.integer)) for key in value):
            steps = np.array(sorted(value), np.int64)
            numbers = {"value": np.array([float(value[step]) for step in steps.tolist()])}
        else:
            numbers = {str(name): np.asarray(one, float).ravel() for name, one in value.items()}
            steps = np.arange(max((len(one) for one in numbers.values()), default=0))
    else:
        numbers = {"value": np.asarray(value, float).ravel()}
        steps = np.arange(len(numbers["value"]))
    columns = {
        name: ("step", one, {"nan_steps": steps[np.isnan(one)].tolist()})
        for name, one in numbers.items()
    }
    return Series(xr.Dataset(columns, {"step": steps}), label)


def _norms(dump: Dump) -> Series:
    """The norm of all float parameters of each step."""
    chosen = dump.select(role="parameter")
    if np.isnan(chosen.index["l2"].values).any():
        chosen = chosen.summarise()
    steps, norms = chosen.index["step"].values, chosen.index["l2"].values
    order = np.unique(steps)
    totals = [float(np.sqrt(np.nansum(norms[steps == step] ** 2))) for step in order]
    table = xr.Dataset({"parameter_norm": ("step", np.array(totals))}, {"step": order})
    return Series(table, dump.label, dump.notes)


def _measures(left: Series, right: Series, wanted: str | None) -> list[tuple[str, str]]:
    """The measures to compare, the chief one first, as each side calls them."""
    shared = [name for name in left.measures if name in right.measures]
    if wanted is not None:
        if wanted not in shared:
            sides = {"left": left.measures, "right": right.measures}
            raise FormatError(Message("series.no_such_measure", name=wanted, **sides))
        return [(wanted, wanted)]
    if shared:
        name = next((one for one in shared if one == "loss"), None)
        name = name or next((one for one in shared if "loss" in one), shared[0])
        return [(name, name), *((one, one) for one in shared if one != name)]
    losses = [[one for one in side.measures if "loss" in one] for side in (left, right)]
    if all(len(names) == 1 for names in losses):
        return [(losses[0][0], losses[1][0])]
    mine, theirs = (side.measures or [Message("series.no_measures")] for side in (left, right))
    raise FormatError(Message("series.no_common_measure", left=mine, right=theirs))


def _column(series: Series, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values of a measure; steps that have none are left out, NaN of a loss are not."""
    values = series.table[name].values.astype(float)
    several = len(series.measures) > 1
    known = ~np.isnan(values) if several else np.ones(len(values), bool)
    known |= np.isin(series.steps, series.table[name].attrs.get("nan_steps", []))
    return series.steps[known], values[known]


def _repeat(
    noise: SeriesLike | float | None, measure: str, steps: np.ndarray
) -> np.ndarray | float | None:
    if noise is None or isinstance(noise, (int, float)):
        return noise
    repeated = _as_series(noise, "repeat")
    name = measure if measure in repeated.measures else repeated.measures[0]
    at, values = _column(repeated, name)
    return np.interp(steps, at, values, right=values[-1] if len(values) else math.nan)


def _noise(
    left: np.ndarray, right: np.ndarray, quantum: float, repeat: np.ndarray | float | None
) -> np.ndarray:
    """What |left - right| may be at each step without a cause."""
    scale = np.maximum(np.abs(left), np.abs(right))
    scale[~np.isfinite(scale)] = 0.0
    least = quantum * (1 + 1e-9) + thresholds.LOSS_ROUNDINGS * _FLOAT32 * scale
    if isinstance(repeat, (int, float)):
        flat: np.ndarray = np.maximum(least, float(repeat))
        return flat
    if repeat is not None:
        own = np.abs(repeat - right)
        own[~np.isfinite(own)] = 0.0
        # What a run differs from itself grows with the steps, and is one draw of it.
        level = np.maximum.accumulate(own)
    else:
        own = np.hypot(_fluctuation(left), _fluctuation(right))
        level = np.minimum(own, _roughness(left - right))
    noise: np.ndarray = np.maximum(least, thresholds.SERIES_SIGMAS * level)
    return noise


def _fluctuation(values: np.ndarray) -> np.ndarray:
    """Standard deviation of the increments around each step, from their median magnitude."""
    steps = np.abs(np.diff(values))
    steps = np.where(np.isfinite(steps), steps, 0.0)
    if len(steps) < thresholds.FEWEST_STEPS_OF_SERIES:
        return np.zeros(len(values))
    padded = np.pad(
        steps,
        (thresholds.SERIES_WINDOW, thresholds.SERIES_WINDOW),
        mode="reflect" if len(steps) > thresholds.SERIES_WINDOW else "edge",
    )
    around = np.lib.stride_tricks.sliding_window_view(padded, 2 * thresholds.SERIES_WINDOW + 1)
    local = np.median(around, axis=1) * 1.4826
    # There is one increment less than there are values; an independent pair has sqrt(2) of one.
    level: np.ndarray = np.append(local, local[-1]) / math.sqrt(2)
    return level


def _roughness(apart: np.ndarray) -> float:
    """Standard deviation of the jumps in the difference, from its quietest beginning.

    Runs on the same batches in the same order go up and down together, and a difference that
    grows does so smoothly: second differences see neither.
    """
    bends = np.abs(np.diff(apart, 2))
    bends = bends[np.isfinite(bends)]
    if len(bends) < thresholds.FEWEST_BENDS:
        return 0.0
    parts = [bends[: max(len(bends) // part, thresholds.FEWEST_BENDS)] for part in (4, 3, 2, 1)]
    return min(float(np.median(part)) for part in parts) * 1.4826 / math.sqrt(6)


def _stretches(apart: np.ndarray, noise: np.ndarray, *, given: bool) -> list[range]:
    """Where the difference is outside the noise: places from the first to behind the last.

    Stretches lie a window apart. One counts where most places that follow its first are outside
    as well; a place that counts alone needs no others. One side that is not finite does; so does
    any outside a noise that was given. That of a repeated run is one draw, small at first: a step
    alone has to leave the largest of it.
    """
    window = 2 * thresholds.SERIES_WINDOW
    outside, alone = ~(np.abs(apart) <= noise), ~np.isfinite(apart)
    if given:
        alone |= np.abs(apart) > noise.max(initial=0.0)
    places = np.flatnonzero(outside)
    found = []
    for some in np.split(places, np.flatnonzero(np.diff(places) > window) + 1):
        starts = [p for p in some if alone[p] or outside[p : p + window].mean() >= 0.5]
        if starts:
            found.append(range(int(starts[0]), int(some[-1]) + 1))
    return found


def _returns(apart: np.ndarray, noise: np.ndarray, stretch: range) -> int:
    """The place behind the last stretch, from which the difference is back in the noise; or -1.

    A difference outside as often as it was until then would not stay inside for so many steps.
    """
    inside = len(apart) - stretch.stop
    count = np.count_nonzero(~(np.abs(apart) <= noise)[stretch.start : stretch.stop])
    often = (count + 1) / (len(stretch) + 2)
    chance = (1.0 - often) ** inside
    return stretch.stop if inside > 1 and chance < thresholds.CHANCE_OF_RETURN else -1


def _apart(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Left less right; 0 where both are NaN, or the same infinity."""
    with np.errstate(invalid="ignore"):
        apart: np.ndarray = left - right
    apart[(np.isnan(left) & np.isnan(right)) | (left == right)] = 0.0
    return apart


def _growth(
    apart: np.ndarray, first: int, noise: np.ndarray, steps: np.ndarray
) -> tuple[float, str]:
    """Exponent of the growth from the first place on, and whether of steps or per step."""
    if first < 0:
        return math.nan, ""
    rest, level = apart[first:], noise[first:]
    use = np.isfinite(rest) & (rest > level)
    if np.count_nonzero(use) < thresholds.FEWEST_STEPS_OF_LAW:
        return math.nan, ""
    # The first of them is one step, or stride, after the last that agreed.
    time = steps[first:] - steps[first] + np.median(np.diff(steps))
    time, height = time[use].astype(float), np.log(rest[use])
    fits = []
    for kind, axis in (("power", np.log(time)), ("exponential", time)):
        slope, start = np.polyfit(axis, height, 1)
        fits.append((float(((height - start - slope * axis) ** 2).sum()), kind, float(slope)))
    power, exponential = fits
    # The plainer law unless the other is clearly better.
    left, kind, slope = exponential if exponential[0] < 0.5 * power[0] else power
    # What goes up and down follows none, unless it stays where it is.
    spread = float(((height - height.mean()) ** 2).sum())
    stays = abs(power[2]) < thresholds.NO_GROWTH
    if left > thresholds.UNEXPLAINED_GROWTH * spread and not stays:
        return math.nan, ""
    return (power[2], "power") if stays else (slope, kind)
