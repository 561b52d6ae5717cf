"""Whether two runs can be compared at all: inputs, parameters, settings, and who has a partner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.flow import Flow
from troubleshooter_nb.analysis.row_errors import measured_errors
from troubleshooter_nb.comparison import Comparison
from troubleshooter_nb.findings import Check
from troubleshooter_nb.messages import Message, joined
from troubleshooter_nb.metrics.floats import dtype_from_token, is_integer_name, unit_roundoff
from troubleshooter_nb.thresholds import EQUAL_ROUNDINGS

# Facts of a run card that two runs may differ in without any number changing.
_HARMLESS = ("framework", "version", "device", "python", "numpy", "ml_dtypes", "troubleshooter_nb")
_MOST_NAMED = 3


def preflight(comparison: Comparison, flow: Flow) -> tuple[Check, ...]:
    """What can be said before any output is looked at.

    Parameters
    ----------
    comparison : Comparison
        With the verdicts that the diagnosis left.
    flow : Flow
        Of that comparison as it was measured.

    Returns
    -------
    tuple of Check
        Of inputs, parameters, buffers, layouts, dtypes, layer settings, run cards and coverage, as
        far as the dumps know anything about them.
    """
    roots = np.array(flow.roots, np.int64)
    roots = roots[flow.result["step"][roots] == flow.first_step]
    role = np.asarray(flow.site["role"], object)[roots]
    inputs = np.array([row for row in sorted(flow.external) if _is_forward(flow, row)], np.int64)
    is_harmless = comparison.columns["verdict"] == "no_effect"
    otherwise = roots[is_harmless[roots]]
    roots, role = roots[~is_harmless[roots]], role[~is_harmless[roots]]
    parameters, buffers = roots[role == "parameter"], roots[role == "buffer"]
    checks = [
        _equality("inputs", flow, inputs),
        _equality("parameters", flow, parameters),
        _equality("buffers", flow, buffers),
        _written_otherwise(flow, otherwise),
        _dtypes(flow),
        _layer_settings(comparison, flow),
        _cards(comparison),
        _coverage(flow),
    ]
    return tuple(check for check in checks if check is not None)


def _is_forward(flow: Flow, row: int) -> bool:
    return bool(flow.site["direction"][row] != "backward") and not flow.is_value[row]


def _equality(what: str, flow: Flow, rows: np.ndarray) -> Check | None:
    """Whether values that nothing computed are the same on both sides."""
    verdicts = flow.result["verdict"]
    rows = rows[(verdicts[rows] != "missing") & (verdicts[rows] != "unreadable")]
    if not len(rows):
        return None
    other = rows[~_same(flow, rows)]
    equal = len(rows) - len(other)
    values = {"count": len(rows), "equal": equal, "names": _names(flow, other)}
    if not len(other):
        return Check(what, "ok", values)
    if (verdicts[other] == "padded").all():
        return Check("padding", "note", values)
    is_open = verdicts[other] == "undecidable"
    if is_open.all():
        return Check(what, "unknown", values)
    # Statistics that agree prove nothing: only what surely differs is counted and named.
    other = other[~is_open]
    is_rounded = _are_rounding(flow, other)
    values |= {"count": equal + len(other), "names": _names(flow, other)}
    if is_rounded.all():
        return Check(what, "note", values)
    other = other[~is_rounded]
    values |= {"equal": equal + int(is_rounded.sum()), "names": _names(flow, other)}
    exact = other[_are_exact(flow, other)]
    if len(exact):
        # A token or a pixel that differs is no rounding.
        values["names"] = _names(flow, exact)
    return Check(what, "bad", values)


def _written_otherwise(flow: Flow, rows: np.ndarray) -> Check | None:
    """What differs and gives the same all the same."""
    values = {"count": len(rows), "names": _names(flow, rows)}
    return Check("layouts", "note", values) if len(rows) else None


def _same(flow: Flow, rows: np.ndarray) -> np.ndarray:
    """Which rows are bit-equal, equal values in another dtype, or one and the same number."""
    found: np.ndarray = flow.result["identical"][rows] | (flow.result["unequal_count"][rows] == 0)
    # Of statistics those pass whose minimum is their maximum, and by fingerprints.
    is_unread = np.isnan(measured_errors(flow)[rows]) | (flow.result["estimated_rel_l2"][rows] == 0)
    same: np.ndarray = found | (is_unread & (flow.result["verdict"][rows] == "pass"))
    return same


def _are_exact(flow: Flow, rows: np.ndarray) -> np.ndarray:
    """Which rows hold integers or bool."""
    names = flow.result["right_dtype"][rows].tolist()
    return np.array([is_integer_name(name) for name in names], bool)


def _are_rounding(flow: Flow, rows: np.ndarray) -> np.ndarray:
    """Where a difference is no more than a conversion or a save in the coarser dtype leaves."""
    names = (flow.result[f"{side}_dtype"][rows].tolist() for side in ("left", "right"))
    limits = [_largest_rounding(*both) for both in zip(*names, strict=True)]
    # The error is that of what is finite on both sides.
    is_near = measured_errors(flow)[rows] <= np.array(limits, np.float64)
    found: np.ndarray = is_near & (flow.result["verdict"][rows] != "nan")
    return found


@cache
def _largest_rounding(left: str, right: str) -> float:
    """Relative error that a conversion or a save leaves at most; nan for unknown dtypes."""
    dtypes = _dtype(left), _dtype(right)
    roundoffs = [unit_roundoff(dtype) for dtype in dtypes if dtype is not None]
    return EQUAL_ROUNDINGS * max(roundoffs) if len(roundoffs) == len(dtypes) else np.nan


@cache
def _dtype(name: str) -> np.dtype | None:
    """The dtype of this name; None for none."""
    try:
        return dtype_from_token(name)
    except (ValueError, TypeError):
        return None


def _dtypes(flow: Flow) -> Check | None:
    left, right = flow.result["left_dtype"], flow.result["right_dtype"]
    both = (left != "") & (right != "") & ~flow.is_value
    other = [int(row) for row in np.flatnonzero(both & (left != right))]
    if not other:
        return None
    kinds = dict.fromkeys(f"{left[row]} / {right[row]}" for row in other)
    values = {
        "count": len(other),
        "of": int(both.sum()),
        "kinds": joined([*kinds][:_MOST_NAMED], by=","),
    }
    return Check("dtypes", "note", values)


def layers_set_otherwise(comparison: Comparison, flow: Flow) -> dict[str, list[str]]:
    """By path, on the right, of layers that are set otherwise: the settings that differ, said."""
    found: dict[str, list[str]] = {}
    for path, name, mine, theirs in _settings(comparison, flow):
        if mine != theirs:
            said = Message("evidence.set_to", name=name, left=str(mine), right=str(theirs))
            found.setdefault(path, []).append(said)
    return found


def _settings(comparison: Comparison, flow: Flow) -> Iterator[tuple[str, str, Any, Any]]:
    """Path on the right, name, and values of each setting that both sides recorded."""
    left, right = comparison.pairing.left.settings, comparison.pairing.right.settings
    for mine, theirs in _paired_paths(comparison, flow):
        ours, others = left.get(mine, {}), right.get(theirs, {})
        for name in ours.keys() & others.keys():
            yield theirs, name, ours[name], others[name]


def _layer_settings(comparison: Comparison, flow: Flow) -> Check | None:
    """Settings of layers that both sides recorded, and numbers that calls were given."""
    compared, apart = 0, []
    for path, name, mine, theirs in _settings(comparison, flow):
        compared += 1
        if mine != theirs:
            apart.append(f"{path}.{name} {mine} / {theirs}")
    for row in np.flatnonzero(flow.is_value):
        verdict = flow.result["verdict"][row]
        compared += verdict in ("identical", "pass", "differs")
        if verdict == "differs":
            said = (flow.result[column][row] for column in ("right_display", "detail"))
            apart.append(joined(said, by=" "))
    if not compared:
        return None
    values = {"count": compared, "apart": len(apart), "names": _listed(sorted(apart), len(apart))}
    return Check("settings", "bad" if apart else "ok", values)


def _paired_paths(comparison: Comparison, flow: Flow) -> list[tuple[str, str]]:
    """Places in the two networks that rows of the comparison bring together."""
    left, right = comparison.pairing.left, comparison.pairing.right
    if not (left.settings and right.settings):
        return []
    entries = flow.result["left_entry"], flow.result["right_entry"]
    both = (entries[0] >= 0) & (entries[1] >= 0)
    lefts, rights = (
        dump.index["path"].values[entry[both]].astype(str).tolist()
        for dump, entry in zip((left, right), entries, strict=True)
    )
    return list(dict.fromkeys(zip(lefts, rights, strict=True)))


def _cards(comparison: Comparison) -> Check | None:
    left, right = comparison.left_card.facts, comparison.right_card.facts
    shared = [key for key in left if key in right and key not in _HARMLESS]
    if not shared:
        return None
    apart = [f"{key} {left[key]} / {right[key]}" for key in shared if left[key] != right[key]]
    values = {"count": len(shared), "apart": len(apart), "names": _listed(apart, len(apart))}
    return Check("cards", "note" if apart else "ok", values)


def _coverage(flow: Flow) -> Check | None:
    verdicts, expected = flow.result["verdict"], flow.result["passed"]
    alone = np.flatnonzero((verdicts == "missing") & ~expected.astype(bool))
    if not flow.count:
        return None
    values = {"count": flow.count, "alone": len(alone), "names": _names(flow, alone)}
    return Check("coverage", "note" if len(alone) else "ok", values)


def _names(flow: Flow, rows: np.ndarray) -> str:
    """What the first few of the rows are called, and how many more there are."""
    shown = rows[:_MOST_NAMED].tolist()
    left, right = flow.result["left_display"], flow.result["right_display"]
    return _listed([str(right[row] or left[row]) for row in shown], len(rows))


def _listed(names: Sequence[str], count: int) -> str:
    """The first few of so many names, and how many more there are."""
    if count <= _MOST_NAMED:
        return joined(names, by=",")
    return Message("evidence.some_names", names=list(names[:_MOST_NAMED]), count=count)
