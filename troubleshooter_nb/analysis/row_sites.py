"""Where each row of a comparison was seen, in the words of the reference."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from troubleshooter_nb.comparison import Comparison
from troubleshooter_nb.metrics.floats import is_integer_name
from troubleshooter_nb.naming import CALL_KINDS, saved_calls

_COLUMNS = ("kind", "path", "call", "direction", "role", "slot", "layer", "parent", "value")
_OF_LAYER = ("parameter", "buffer")
_NOT_COMPUTED = ("input", "parameter", "buffer")
_OF_CALL = ("kind", "direction", "path", "role", "slot")


def sites_of_rows(comparison: Comparison) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Where each row was seen, by the reference or else by the other side.

    Returns
    -------
    dict of str to ndarray of object, shape (n,)
        Columns of a dump's index. What forward hooks of the user's own saved stands for calls of
        modules, and rows that only the left side has are at the call of the right that the rest of
        theirs met.
    ndarray of bool, shape (n,)
        Rows of calls of which nothing met a call of the right: their numbers count another side's
        calls, so that the first of the left may be one more than the first of the right.
    """
    site = _sites(comparison)
    _take_saved_calls(comparison, site)
    _take_given(comparison, site)
    return site, _move_to_their_calls(comparison, site)


def _sites(comparison: Comparison) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    dumps = comparison.pairing.left, comparison.pairing.right
    entries = comparison.columns["left_entry"], comparison.columns["right_entry"]
    sides = [np.flatnonzero(entry >= 0) for entry in entries]
    for column in _COLUMNS:
        merged = np.empty(len(comparison), object)
        # The reference last: it overwrites the other side.
        for rows, entry, dump in zip(sides, entries, dumps, strict=True):
            merged[rows] = dump.columns[column][entry[rows]]
        found[column] = merged
    return found


def _take_saved_calls(comparison: Comparison, site: dict[str, np.ndarray]) -> None:
    """Take what was saved by hand, as by forward hooks of the user's own, for calls of modules."""
    saved: dict[tuple[int, int], dict[int, str]] = defaultdict(dict)
    places = comparison.columns.rows("step", "rank")
    cells = (site[name].tolist() for name in ("kind", "direction", "path"))
    for row, (place, kind, direction, path) in enumerate(zip(places, *cells, strict=True)):
        if kind not in CALL_KINDS and not direction:
            saved[place][row] = path
    for paths in saved.values():
        calls = saved_calls(paths.values())
        for row, path in paths.items() if calls else ():
            if path not in calls or not _is_of_role(calls[path].role, site["role"][row]):
                continue
            way = "" if calls[path].role in _OF_LAYER else "forward"
            for column, value in zip(_OF_CALL, ("module", way, *calls[path][:3]), strict=True):
                site[column][row] = value
            # Files of one name are numbered already.
            site["call"][row] = calls[path].call or site["call"][row]


def _is_of_role(role: str, known: str) -> bool:
    """Whether what a name says of a call agrees with what is known of the tensor's role."""
    return known == "" or (role in _OF_LAYER and known in _OF_LAYER)


def _take_given(comparison: Comparison, site: dict[str, np.ndarray]) -> None:
    """Take integers saved before the first float result of a step for what the run was given."""
    columns = comparison.columns
    is_saved = ~np.isin(site["kind"], [*CALL_KINDS]) & (site["direction"] == "")
    roles, is_open = site["role"].tolist(), (is_saved & (site["role"] == "")).tolist()
    given: dict[tuple[int, int], list[int]] = defaultdict(list)
    computed: set[tuple[int, int]] = set()
    places = [*columns.rows("step", "rank")]
    left, right = (columns[f"{side}_dtype"].tolist() for side in ("left", "right"))
    for row in np.flatnonzero(columns["order_known"]).tolist():
        dtype = str(right[row] or left[row])
        if is_open[row] and is_integer_name(dtype):
            if places[row] not in computed:
                given[places[row]].append(row)
        elif dtype and roles[row] not in _NOT_COMPUTED:
            computed.add(places[row])
    for place in computed:
        site["role"][given[place]] = "input"


def _move_to_their_calls(comparison: Comparison, site: dict[str, np.ndarray]) -> np.ndarray:
    """Put rows that only the left side has to where the rest of their call is; which found none."""
    lone = np.zeros(len(comparison), bool)
    entries, others = comparison.columns["left_entry"], comparison.columns["right_entry"]
    alone = np.flatnonzero((entries >= 0) & (others < 0)).tolist()
    if not alone:
        return lone
    names = ("step", "rank", "kind", "path", "call", "direction")
    of_left = [*comparison.pairing.left.columns.rows(*names)]
    calls = [of_left[entry] for entry in entries.tolist()]
    wanted = {calls[row] for row in alone}
    met: dict[tuple[Any, ...], tuple[Any, Any]] = {}
    for row in np.flatnonzero((entries >= 0) & (others >= 0)).tolist():
        if calls[row] in wanted:
            met.setdefault(calls[row], (site["path"][row], site["call"][row]))
    for row in alone:
        found = met.get(calls[row])
        if found is None:
            lone[row] = True
        else:
            site["path"][row], site["call"][row] = found
    return lone
