"""Where to begin: what lies at a path, and the line to type next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import TroubleshooterError, UnknownFormatError, path_of
from troubleshooter_nb.formats import open_dump
from troubleshooter_nb.formats.file_source import head_of
from troubleshooter_nb.formats.mapping_file import is_weight_map
from troubleshooter_nb.formats.pairing_files import read_mapping
from troubleshooter_nb.formats.series import Series, open_series
from troubleshooter_nb.messages import Message, message_of
from troubleshooter_nb.naming import CHECKPOINT_ROLES, natural_key
from troubleshooter_nb.options import get_options
from troubleshooter_nb.render.first_steps import start_html, start_text
from troubleshooter_nb.render.text import dump_headline
from troubleshooter_nb.saved_comparison import open_comparison

# Of a folder that is nothing itself: what is looked at, which reads headers, and what is shown.
_MOST_LOOKED_AT, _MOST_FOUND = 200, 24
_MOST_ALONE = 3  # of several things, those whose lines are shown
_MAPPINGS = (".yaml", ".yml", ".json")
_HEAD = 1024  # bytes in which the answer of a saved comparison begins
_OF_OTHERS = {"map", "mapping", "comparison"}  # kinds that are about two things themselves
_OF_CALLS = {"input", "output"}


class Found(NamedTuple):
    """One thing that was found.

    Attributes
    ----------
    path : str
    kind : str
        "run", "gradients", "weights", "tensors", "curve", "map", "mapping", "comparison" or
        "unknown".
    said : str
        What is known of it; of what is unknown the reason.
    """

    path: str
    kind: str
    said: str


class Step(NamedTuple):
    """One thing that can be done: what it tells, and the line to type."""

    what: str
    line: str


@dataclass(frozen=True, repr=False)
class Start:
    """What was found and what can be done with it; see `start`.

    Attributes
    ----------
    found : tuple of Found
    steps : tuple of Step
        The most useful first.
    notes : tuple of str
    """

    found: tuple[Found, ...]
    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """What was found, then each step with its line."""
        return start_text(self._facts())

    def _repr_html_(self) -> str:
        return start_html(self._facts())

    def _facts(self) -> dict[str, Any]:
        return {
            "found": [one._asdict() for one in self.found],
            "steps": [one._asdict() for one in self.steps],
            "notes": self.notes,
            **get_options(),
        }


def start(*paths: str | PathLike[str]) -> Start:
    """Show what can be done with files or folders, and the line to type next.

    Parameters
    ----------
    *paths : str or path-like
        Whatever there is: a run, a checkpoint, a log, a mapping, a saved comparison, or a folder
        of such. Of tensors only headers are read; a log, a mapping or a comparison is read whole.
        With none, the ways to begin.

    Returns
    -------
    Start
        Shows itself; `Start.steps` has the lines.

    Raises
    ------
    FileNotFoundError
        If a path does not exist.
    """
    if not paths:
        return Start((), _filled(_BEGINNINGS))
    found, notes = [], []
    for path in map(path_of, paths):
        if not path.exists():
            open_dump(path)  # which says what is missing
        several, left_out = _found(path)
        found += several
        if left_out:
            notes.append(Message("first_steps.not_looked", count=left_out))
    known = [one for one in found if one.kind != "unknown"]
    steps, remarks = _steps(known)
    if not known:
        notes.append(Message("first_steps.nothing_known"))
        steps = _filled(_BEGINNINGS)
    return Start(tuple(found), steps, (*remarks, *notes))


def _found(path: Path) -> tuple[list[Found], int]:
    """What a path is; or what lies in a folder that is nothing itself, and how many were left."""
    itself = _looked_at(path)
    if itself.kind != "unknown" or not path.is_dir():
        return [itself], 0
    below = sorted((one for one in path.iterdir() if not one.name.startswith(".")), key=_name)
    known: list[Found] = []
    for number, one in enumerate(below):
        if number == _MOST_LOOKED_AT or len(known) == _MOST_FOUND:
            return known or [itself], len(below) - number
        found = _looked_at(one)
        if found.kind != "unknown":
            known.append(found)
    return known or [itself], 0


def _name(path: Path) -> tuple[object, ...]:
    return natural_key(path.name)


def _looked_at(path: Path) -> Found:
    """What one file or folder is; who reads no more than a head is asked first."""
    name, suffix = str(path), path.suffix.lower()
    if is_weight_map(path):
        return Found(name, "map", "")
    if _may_be_comparison(path) and (said := _tried(_comparison, path)):
        return Found(name, "comparison", said)
    try:
        dump = open_dump(path)
    except UnknownFormatError as error:
        if path.is_file() and suffix in _MAPPINGS and (said := _tried(_mapping, path)):
            return Found(name, "mapping", said)
        if said := _tried(_curve, path):
            return Found(name, "curve", said)
        return Found(name, "unknown", message_of(error))
    except (TroubleshooterError, OSError) as error:
        return Found(name, "unknown", message_of(error))
    return Found(name, _kind(dump), dump_headline(dump.index))


def _may_be_comparison(path: Path) -> bool:
    """Whether a file begins as `export` writes one: a dump of msprobe is a json of a gigabyte."""
    suffix = path.suffix.lower()
    return suffix == ".nc" or (suffix == ".json" and b'"verdict"' in head_of(path, _HEAD))


def _tried(read: Callable[[Path], str], path: Path) -> str:
    """What is said of a file that this reader takes; nothing of another."""
    try:
        return read(path)
    except (TroubleshooterError, OSError):
        return ""


def _comparison(path: Path) -> str:
    return open_comparison(path).verdict


def _mapping(path: Path) -> str:
    return read_mapping(path).kind


def _curve(path: Path) -> str:
    series = open_series(path)
    if not isinstance(series, Series):
        return ""  # checkpoints, which lie here each on its own
    return Message("first_steps.curve_head", count=len(series), names=series.measures)


def _kind(dump: Dump) -> str:
    """What the entries of a dump are."""
    roles = {*dump.columns["role"].tolist()}
    if roles & _OF_CALLS:
        return "run"
    if (dump.columns["direction"] == "backward").all():
        return "gradients"
    return "weights" if roles <= CHECKPOINT_ROLES else "tensors"


def _steps(found: list[Found]) -> tuple[tuple[Step, ...], list[str]]:
    """What can be done with what was found: two against each other, any other number alone."""
    remarks: list[str] = []
    if len(found) == 2:
        kinds = [one.kind for one in found]
        for together, steps in _OF_TWO.items():
            if all(kind in together for kind in kinds):
                return _filled(steps, *(repr(one.path) for one in found)), []
        if not {*kinds} & _OF_OTHERS:
            remarks.append(_nothing_in_common(kinds))
    alone = (_filled(_OF_ONE[one.kind], repr(one.path)) for one in found[:_MOST_ALONE])
    return tuple(dict.fromkeys(chain.from_iterable(alone))), remarks


def _nothing_in_common(kinds: list[str]) -> Message:
    left, right = (Message(f"first_steps.{kind}") for kind in kinds)
    return Message("first_steps.of_two_kinds", left=left, right=right)


def _filled(steps: Mapping[str, str], *paths: str) -> tuple[Step, ...]:
    return tuple(
        Step(Message(f"first_steps.{what}"), line.format(*paths)) for what, line in steps.items()
    )


_BEGINNINGS = {
    "compare": "tnb.compare('left', 'right')",
    "record": "with tnb.record(net, to='run'): net(x)",
    "diff": "tnb.diff_checkpoints('left.pth', 'right.ckpt')",
    "draft": "tnb.draft_weight_map('model.pth', 'model.ckpt')",
    "curves": "tnb.compare_series('left.log', 'right.log')",
    "sniff": "tnb.start('path')",
    "notebook": "!tnb notebook list",
}
_RUN_ALONE = {
    "compare_with": "tnb.compare({0}, 'the other run')",
    "look": "tnb.open_dump({0}).summarise()",
}
_OF_ONE: Mapping[str, Mapping[str, str]] = {
    "run": {**_RUN_ALONE, "replay": "tnb.replay(net, {0})"},
    "gradients": _RUN_ALONE,
    "tensors": _RUN_ALONE,
    "weights": {
        "diff_with": "tnb.diff_checkpoints({0}, 'the other checkpoint')",
        "draft": "tnb.draft_weight_map({0}, 'the other checkpoint')",
        "look": "tnb.open_dump({0}).summarise()",
    },
    "curve": {
        "curves_with": "tnb.compare_series({0}, 'the other log')",
        "curve_look": "tnb.open_series({0})",
    },
    "map": {
        "edit": "tnb.edit(tnb.read_weight_map({0}))",
        "convert": "tnb.convert_weights('model.pth', 'model.ckpt', {0})",
    },
    "mapping": {"with_map": "tnb.compare('left', 'right', mapping=tnb.read_mapping({0}))"},
    "comparison": {"open": "tnb.open_comparison({0})"},
}
# The kinds that go together; the first that holds both decides.
_OF_TWO: Mapping[tuple[str, ...], Mapping[str, str]] = {
    ("weights",): {
        "diff": "tnb.diff_checkpoints({0}, {1})",
        "draft": "tnb.draft_weight_map({0}, {1})",
        "notebook": "!tnb notebook run checkpoint_diff -p left {0} -p right {1}",
    },
    ("curve",): {
        "curves": "tnb.compare_series({0}, {1})",
        "notebook": "!tnb notebook run training_divergence -p left_log {0} -p right_log {1}",
    },
    ("run", "gradients", "tensors", "weights"): {
        "compare": "tnb.compare({0}, {1})",
        "notebook": "!tnb notebook run why_do_they_differ -p left {0} -p right {1}",
    },
}
