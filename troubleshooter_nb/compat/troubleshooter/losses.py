"""``ts.widget.loss_compare``: the losses in two logs, side by side."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from troubleshooter_nb.compat.troubleshooter.log import user_attention, user_warning
from troubleshooter_nb.errors import ArgumentTypeError, MissingFileError
from troubleshooter_nb.formats.file_source import refuse_special
from troubleshooter_nb.formats.missing_path import not_there
from troubleshooter_nb.messages import Message

_FOLDER = "loss_compare"
_STATISTIC = "statistic.csv"
_KEYS = ("path", "loss_tag", "label")
_NUMBER = re.compile(r"(?i)[+-]?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|nan|inf)")
_NOTHING = "Nan"  # the old tool's word for the figures of no losses


@dataclass(frozen=True)
class _Losses:
    """The losses of one log, in the order of its lines."""

    file: Path
    label: str
    values: np.ndarray

    def extremes_and_mean(self) -> list[object]:
        """Of the finite ones."""
        finite = self.values[np.isfinite(self.values)]
        if not len(finite):
            return [_NOTHING] * 3
        return [float(finite.max()), float(finite.min()), float(finite.mean())]


def loss_compare(
    left_file: Mapping[str, str], right_file: Mapping[str, str], title: str = "Loss Compare"
) -> None:
    """Draw the losses of two logs, and write them and their differences as csv.

    Parameters
    ----------
    left_file, right_file : dict
        ``path`` of the log, ``loss_tag`` that stands in front of each loss, ``label`` of the curve.
        The first number of the word behind the tag counts, once a line.
    title : str
        Above the curves.

    Raises
    ------
    TypeError
        If a description is no dictionary with these keys.
    MissingFileError
        If a log does not exist.

    Warns
    -----
    Through logging, where a log has no loss, or one has more than the other.

    Notes
    -----
    Written to ``loss_compare`` in the working directory: ``loss_compare.png``, ``error.png``,
    ``<log>.csv`` of both (``<log>_2.csv`` where that name is taken), and ``statistic.csv``, whose
    ``MAX_REL_ERROR`` is relative to the left loss with its sign, as in the old tool. Different: a
    loss that is nan keeps its place, where the old tool left it out and compared all that followed
    with their neighbours; largest, smallest and mean are of finite losses.
    """
    left, right = _losses(left_file, "left_file"), _losses(right_file, "right_file")
    count = min(len(left.values), len(right.values))
    if len(left.values) != len(right.values):
        counts = {"left_count": len(left.values), "right_count": len(right.values)}
        alike = left.file.name == right.file.name
        names = {
            "left": str(left.file) if alike else left.file.name,
            "right": str(right.file) if alike else right.file.name,
        }
        user_warning(Message("compat.losses_unequal", **names, **counts))
    with np.errstate(all="ignore"):
        errors = left.values[:count] - right.values[:count]
        relative = np.abs(errors) / left.values[:count]
    folder = Path.cwd() / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    curves = [(left.label, left.values), (right.label, right.values)]
    _draw(folder / "loss_compare.png", curves, "loss", title)
    _draw(folder / "error.png", [("error", errors)], "error", "")
    taken = {_STATISTIC}
    for side in (left, right):
        name = _free_name(side.file.name, taken)
        _write(folder / name, ["", "loss"], enumerate(side.values.tolist()))
    statistic = {
        **_named("LEFT", left),
        **_named("RIGHT", right),
        "MAX_ABS_ERROR": _largest(np.abs(errors)),
        "MAX_REL_ERROR": _largest(relative),
    }
    _write(folder / _STATISTIC, [*statistic], [[*statistic.values()]])
    user_attention(Message("compat.losses_saved", folder=folder))


def _losses(described: Mapping[str, str], argument: str) -> _Losses:
    if not isinstance(described, Mapping) or not {*_KEYS} <= {*described}:
        said = {"argument": argument, "given": repr(described)}
        raise ArgumentTypeError(Message("compat.losses_of", keys=[*_KEYS], **said))
    path, tag, label = (described[key] for key in _KEYS)
    file = Path(path)
    if not file.exists():
        raise MissingFileError(not_there(file))
    refuse_special(file)
    values = []
    with open(file, encoding="utf-8", errors="backslashreplace") as lines:
        for line in lines:
            words = line.partition(tag)[2].split(maxsplit=1)
            if words and (number := _NUMBER.search(words[0])):
                values.append(float(number[0]))
    if not values:
        user_warning(Message("compat.no_losses", file=file.name, tag=tag))
    return _Losses(file, label, np.array(values, float))


def _free_name(log: str, taken: set[str]) -> str:
    """Name of a log's csv, with a number where another file of this call has that name.

    Case does not count: there are disks on which it does not.
    """
    name = next(
        name
        for name in (f"{log}.csv", *(f"{log}_{number}.csv" for number in range(2, len(taken) + 3)))
        if name.casefold() not in taken
    )
    taken.add(name.casefold())
    return name


def _named(side: str, losses: _Losses) -> dict[str, object]:
    names = (f"{side}_{figure}" for figure in ("MAX", "MIN", "MEAN"))
    return dict(zip(names, losses.extremes_and_mean(), strict=True))


def _largest(values: np.ndarray) -> object:
    known = values[~np.isnan(values)]
    return float(known.max()) if len(known) else _NOTHING


def _write(file: Path, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with open(file, "w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([heads, *rows])


def _draw(file: Path, curves: Sequence[tuple[str, np.ndarray]], heading: str, title: str) -> None:
    # Not pyplot, which would keep the figure and show it in a notebook.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.8), dpi=150, layout="constrained")
    axes = figure.subplots()
    for label, values in curves:
        axes.plot(values, label=label)
    axes.set(title=title, xlabel="iter", ylabel=heading)
    axes.legend(loc="best")
    figure.savefig(file)
