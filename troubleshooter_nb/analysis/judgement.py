"""What becomes of verdicts once it is known where differences come from.

A verdict judges one pair by itself. Where nothing created what fails, it is rounding that grew;
where whatever uses a value agrees all the same, the two sides wrote one thing in two ways.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from troubleshooter_nb import catalogue, thresholds
from troubleshooter_nb.analysis.flow import Flow
from troubleshooter_nb.analysis.origin import Origins
from troubleshooter_nb.findings import Finding
from troubleshooter_nb.metrics.verdict import TRUTH_TABLE, VerdictName
from troubleshooter_nb.render.words import DIFFERING, reason_of

# Verdicts of values that are further apart than any rounding is.
_NO_ROUNDING = ("unrelated", "nan", "shape")


def excused_rows(
    flow: Flow, origins: Origins, findings: Sequence[Finding], set_otherwise: Collection[str] = ()
) -> dict[int, VerdictName]:
    """Rows that fail by themselves and are no error, with what they are.

    Parameters
    ----------
    flow : Flow
    origins : Origins
        As the questions left it.
    findings : sequence of Finding
    set_otherwise : collection of str
        Paths of layers of which a setting differs: what grows there may be more than rounding.

    Returns
    -------
    dict of int to str
        "no_effect" where whatever uses a value agrees, "grown_rounding" where only rounding was
        carried on.
    """
    found: dict[int, VerdictName] = {}
    found |= dict.fromkeys(_without_effect(flow, origins, findings), "no_effect")
    if not _settings_show(flow, origins, set_otherwise):
        found |= dict.fromkeys(_grown(flow, origins, findings), "grown_rounding")
    return found


def judged_again(flow: Flow, excused: Mapping[int, VerdictName]) -> dict[str, np.ndarray]:
    """Columns ``verdict, passed, reason_id, reason, detail``, in which rows that are excused pass.

    Parameters
    ----------
    flow : Flow
    excused : mapping of int to str
        As `excused_rows` gives them.
    """
    names = ("verdict", "passed", "reason_id", "reason", "detail")
    columns = {name: flow.result[name].copy() for name in names}
    for row, verdict in excused.items():
        left, right = (flow.result[f"{side}_shape"][row] for side in ("left", "right"))
        reason = "no_effect_shape" if verdict == "no_effect" and left != right else verdict
        values = {**flow.result.row(row), "reason_id": reason, "detail": ""}
        said = verdict, TRUTH_TABLE[verdict][0], reason, reason_of(values), ""
        for name, value in zip(names, said, strict=True):
            columns[name][row] = value
    return columns


def _settings_show(flow: Flow, origins: Origins, paths: Collection[str]) -> bool:
    """Whether an error grows in a layer, or a call, that was set otherwise on the two sides."""
    if (flow.is_value & (flow.result["verdict"] == "differs")).any():
        return True
    growth = origins.growth
    for node in flow.nodes if paths else ():
        if node.path in paths and node.direction != "backward":
            # What a layer with others inside does itself lies between these.
            made = [row for child in node.children for row in child.inputs] or node.outputs
            if any(growth[row] > thresholds.GROWS_BY_SETTING for row in made):
                return True
    return False


def _failing(flow: Flow) -> list[int]:
    return [int(row) for row in np.flatnonzero(np.isin(flow.result["verdict"], DIFFERING))]


def _grown(flow: Flow, origins: Origins, findings: Sequence[Finding]) -> list[int]:
    """Rows that fail by rounding alone, or carry it: before the first that created something.

    A tolerance knows the format of one pair, what rounding explains also where both sides come
    from.
    """
    fails = [
        row
        for row in _failing(flow)
        if row not in origins.harmless
        and (origins.state[row] == "carried" or not (origins.state[row] or origins.differs(row)))
    ]
    if not fails or origins.unordered() or not all(map(_is_harmless, findings)):
        return []
    given = _given(flow)
    if any(row in given and not _is_cast(flow, origins, row) for row in fails):
        return []
    created = origins.created()
    is_apart = (origins.state == "carried") & (origins.error > origins.noise)
    if not created and (origins.suspects() or (origins.is_scaled & is_apart).any()):
        return []  # rounding does not grow by so much in one call, as far as this one is known
    # What a call around others is given stands before them, and is entered behind them.
    first = min((*map(origins.time, created), *created), default=flow.count)
    verdicts = flow.result["verdict"]
    small = [
        row
        for row in fails
        if max(row, origins.time(row)) < first
        and (verdicts[row] not in _NO_ROUNDING or not origins.differs(row))
        and origins.error[row] <= thresholds.GROWN_ROUNDING
    ]
    # One that is too large to be rounding has it from somewhere: then nothing is excused.
    return small if created or len(small) == len(fails) else []


def _given(flow: Flow) -> set[int]:
    """Parameters, buffers and inputs of the network."""
    return {row for row in (*flow.roots, *flow.external) if not flow.is_backward[row]}


def _is_cast(flow: Flow, origins: Origins, row: int) -> bool:
    """Whether a value that nothing computed is as far apart as a cast leaves it at most."""
    if origins.state[row] == "carried":
        return True
    result = flow.result
    bits = min(int(result[f"{side}_significand_bits"][row]) for side in ("left", "right"))
    largest = max(abs(float(result[f"right_{end}"][row])) for end in ("min", "max"))
    apart = float(result["max_abs_error"][row])
    if np.isnan(apart):  # of two values of each side it is known
        ends = ("min", "max")
        apart = max(abs(float(result[f"left_{e}"][row] - result[f"right_{e}"][row])) for e in ends)
    return apart <= 2.0**-bits * largest and bool(origins.error[row] <= 2.0**-bits)


def _is_harmless(finding: Finding) -> bool:
    """Whether a finding leaves open that nothing is wrong."""
    return finding.confidence < thresholds.POSSIBLE or catalogue.of(finding.cause).changes_nothing


def _without_effect(flow: Flow, origins: Origins, findings: Sequence[Finding]) -> list[int]:
    """Rows whose difference is gone in all that is known to use them.

    A parameter only where it is known what was done to it: that what was computed this time does
    not show a difference proves nothing of other inputs.
    """
    orders = flow.result["order"]
    written_otherwise = {
        number
        for finding in findings
        if finding.confidence >= thresholds.LIKELY and catalogue.of(finding.cause).changes_nothing
        for number in finding.evidence["pairs"]
    }
    fails = [r for r in _failing(flow) if r in origins.harmless and origins.state[r] != "created"]
    # What a run was given differs, whatever its first layer makes of it.
    fails = [r for r in fails if r not in flow.external]
    if origins.created():
        # What is carried from there is no other way of writing anything.
        fails = [r for r in fails if not origins.state[r]]
    reordered = _reordered(flow)
    known = {
        row
        for row in fails
        if row not in flow.node_of and (orders[row] in written_otherwise or reordered[row])
    }
    modules = {(flow.place(row), flow.module_of(row)[0]) for row in known}
    given = _given(flow)
    if any(row in given and row not in known for row in _failing(flow)):
        return sorted(known)  # what is computed from it may be an error
    for row in fails:
        node = flow.node_of.get(row)
        if node is None:
            continue
        # What is computed from a parameter, and its gradient, are laid out as it is.
        if (flow.place(row), flow.module_of(row)[0]) in modules or (
            row not in node.gradients and _users_agree(flow, origins, row)
        ):
            known.add(row)
    return sorted(known)


def _reordered(flow: Flow) -> np.ndarray:
    """Which rows hold the same values in another order, by all that was recorded of them."""
    told: np.ndarray = flow.result["estimated_rel_l2"] > thresholds.REORDERED_ERROR
    with np.errstate(invalid="ignore"):
        for name in ("min", "max", "l2"):
            left, right = (flow.result[f"{side}_{name}"] for side in ("left", "right"))
            told = told & (np.abs(left - right) <= thresholds.FINGERPRINT_FLOOR * np.abs(right))
    return told


def _users_agree(flow: Flow, origins: Origins, row: int) -> bool:
    """Whether calls are known that use a value, and all their results agree, or have no effect."""
    node = flow.node_of[row]
    uses: Collection[int] = node.outputs if row in node.inputs else flow.consumers.get(row, ())
    return bool(uses) and all(r in origins.harmless or not origins.differs(r) for r in uses)
