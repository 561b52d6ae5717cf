"""Whether two runs can be compared at all: inputs, parameters, settings, and who has a partner."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from troubleshooter_nb.analysis.flow import Flow
from troubleshooter_nb.comparison import Check, Comparison
from troubleshooter_nb.messages import Message, joined
from troubleshooter_nb.metrics.floats import arithmetic_of, dtype_from_token, unit_roundoff
from troubleshooter_nb.thresholds import EQUAL_ROUNDINGS

# Facts of a run card that two runs may differ in without any number changing.
_HARMLESS = ("framework", "version", "device", "python", "numpy", "ml_dtypes", "troubleshooter_nb")
_MOST_NAMED = 3


def preflight(comparison: Comparison, flow: Flow) -> tuple[Check, ...]:
    """What can be said before any output is looked at.

    Parameters
    ----------
    comparison : Comparison
        As measured.
    flow : Flow
        Of that comparison.

    Returns
    -------
    tuple of Check
        Of inputs, parameters, buffers, dtypes, layer settings, run cards and coverage, as far as
        the dumps know anything about them.
    """
    first = min((flow.place(row) for row in range(flow.count)), default=(0, 0))
    inputs = [row for row in sorted(flow.external) if _is_forward(flow, row)]
    roots = [row for row in flow.roots if flow.place(row)[0] == first[0]]
    parameters = [row for row in roots if flow.site["role"][row] == "parameter"]
    buffers = [row for row in roots if flow.site["role"][row] == "buffer"]
    checks = [
        _equality("inputs", flow, inputs),
        _equality("parameters", flow, parameters),
        _equality("buffers", flow, buffers),
        _dtypes(flow),
        _settings(comparison, flow),
        _cards(comparison),
        _coverage(flow),
    ]
    return tuple(check for check in checks if check is not None)


def _is_forward(flow: Flow, row: int) -> bool:
    return bool(flow.site["direction"][row] != "backward") and not flow.is_value[row]


def _equality(what: str, flow: Flow, rows: Sequence[int]) -> Check | None:
    """Whether values that nothing computed are the same on both sides."""
    verdicts = flow.result["verdict"]
    compared = [row for row in rows if verdicts[row] not in ("missing", "unreadable")]
    if not compared:
        return None
    equal = [row for row in compared if _same(flow, row)]
    other = [row for row in compared if row not in set(equal)]
    values = {"count": len(compared), "equal": len(equal), "names": _names(flow, other)}
    if not other:
        return Check(what, "ok", values)
    if all(verdicts[row] == "undecidable" for row in other):
        return Check(what, "unknown", values)
    # Statistics that agree prove nothing: only what surely differs is counted and named.
    other = [row for row in other if verdicts[row] != "undecidable"]
    rounded = [row for row in other if _is_rounding(flow, row)]
    values |= {"count": len(equal) + len(other), "names": _names(flow, other)}
    if len(rounded) == len(other):
        return Check(what, "note", values)
    other = [row for row in other if row not in set(rounded)]
    values |= {"equal": len(equal) + len(rounded), "names": _names(flow, other)}
    exact = [row for row in other if _is_exact(flow, row)]
    if exact:
        # A token or a pixel that differs is no rounding.
        values["names"] = _names(flow, exact)
    return Check(what, "bad", values)


def _same(flow: Flow, row: int) -> bool:
    """Bit-equal, or equal values in another dtype."""
    unequal = flow.result["unequal_count"][row]
    return bool(flow.result["identical"][row] or unequal == 0)


def _is_exact(flow: Flow, row: int) -> bool:
    dtype = _dtype(flow, row, "right")
    return dtype is not None and arithmetic_of(dtype) in ("integer", "bool")


def _is_rounding(flow: Flow, row: int) -> bool:
    """Whether a difference is no more than a conversion or a save in the coarser dtype leaves."""
    dtypes = [_dtype(flow, row, side) for side in ("left", "right")]
    if None in dtypes:
        return False
    coarse = max(unit_roundoff(dtype) for dtype in dtypes if dtype is not None)
    return bool(flow.result["rel_l2_error"][row] <= EQUAL_ROUNDINGS * coarse)


def _dtype(flow: Flow, row: int, side: str) -> np.dtype | None:
    try:
        return dtype_from_token(str(flow.result[f"{side}_dtype"][row]))
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


def _settings(comparison: Comparison, flow: Flow) -> Check | None:
    """Settings of layers that both sides recorded, and numbers that calls were given."""
    sides = comparison.pairing.left.settings, comparison.pairing.right.settings
    paths = _paired_paths(comparison, flow)
    compared, apart = 0, []
    for left, right in paths:
        mine, theirs = sides[0].get(left, {}), sides[1].get(right, {})
        for name in mine.keys() & theirs.keys():
            compared += 1
            if mine[name] != theirs[name]:
                apart.append(f"{right}.{name} {mine[name]} / {theirs[name]}")
    for row in np.flatnonzero(flow.is_value):
        verdict = flow.result["verdict"][row]
        compared += verdict in ("identical", "pass", "differs")
        if verdict == "differs":
            said = (flow.result[column][row] for column in ("right_display", "detail"))
            apart.append(joined(said, by=" "))
    if not compared:
        return None
    values = {"count": compared, "apart": len(apart), "names": _listed(sorted(apart))}
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
    values = {"count": len(shared), "apart": len(apart), "names": _listed(apart)}
    return Check("cards", "note" if apart else "ok", values)


def _coverage(flow: Flow) -> Check | None:
    verdicts, expected = flow.result["verdict"], flow.result["passed"]
    alone = np.flatnonzero((verdicts == "missing") & ~expected.astype(bool))
    if not flow.count:
        return None
    values = {"count": flow.count, "alone": len(alone), "names": _names(flow, alone)}
    return Check("coverage", "note" if len(alone) else "ok", values)


def _names(flow: Flow, rows: Iterable[int]) -> str:
    result = flow.result
    return _listed(
        [str(result["right_display"][row] or result["left_display"][row]) for row in rows]
    )


def _listed(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    if len(names) <= _MOST_NAMED:
        return joined(names, by=",")
    return Message("evidence.some_names", names=names[:_MOST_NAMED], count=len(names))
