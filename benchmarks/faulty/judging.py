"""What a comparison says of a run, held against the truth; and the rule it has to beat."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import troubleshooter_nb as tnb
from faulty.capture import Record
from faulty.mindspore_side import NAMES
from faulty.plan import Run
from faulty.ways import MEMORY
from faulty.writing import Filed, as_numpy

SURE = 0.5
# Of `compare` by default.
RTOL = ATOL = 1e-4


@dataclass(frozen=True)
class Place:
    """A row of the result as a place in the network."""

    name: str
    where: str
    role: str
    direction: str
    step: int


@dataclass
class Outcome:
    """One judged run, plain values only."""

    run: int
    family: str
    cause: str
    name: str
    hard: str
    level: str
    keep: str
    is_hard: bool
    decides: bool
    expected: dict[str, Any]
    origin: str
    origin_right: bool
    old: str
    old_right: bool
    findings: list[tuple[str, float, str]]
    top_right: bool
    strictly_right: bool
    hits: list[bool]
    seconds: float
    is_other: bool
    truth_first: str
    strength: float
    way: str = MEMORY
    # What was raised instead of an answer, and whether a place was named that no file has.
    error: str = ""
    is_lost: bool = False
    # Whether the comparison says that something differs.
    is_crossed: bool = False


def judged(run: Run) -> Outcome:
    """Compare the dumps of a run and judge the answer."""
    start = time.perf_counter()
    comparison = tnb.compare(run.left, run.right, progress=False)
    place, findings = answer(comparison, run)
    seconds = time.perf_counter() - start
    outcome = _outcome(run, place, findings, seconds, old_rule(comparison, run))
    return replace(outcome, is_crossed=comparison.exit_code == 1)


def judged_files(run: Run) -> Outcome:
    """Open and compare the files of a run by their paths alone, and judge the answer."""
    assert run.files is not None
    paths, error = [str(one.path) for one in run.files], ""
    place, findings, is_crossed, start = None, [], False, time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            comparison = tnb.compare(*paths, progress=False)
            place, findings = answer(comparison, run)
            is_crossed = comparison.exit_code == 1
        except tnb.TroubleshooterError as raised:
            error = f"{type(raised).__name__}: {raised}"
    seconds = time.perf_counter() - start
    outcome = _outcome(run, place, findings, seconds, first_over_tolerance(*run.files))
    is_lost = place is not None and place.where == "?"
    return replace(outcome, error=error, is_lost=is_lost, is_crossed=is_crossed)


def _outcome(
    run: Run,
    place: Place | None,
    findings: list[tuple[str, float, str]],
    seconds: float,
    old: Place | None,
) -> Outcome:
    truth = run.truth
    hits = [cause in truth.causes | truth.also for cause, _, _ in findings]
    told = [f for f in findings if f[0] not in truth.also or f[0] in truth.causes]
    return Outcome(
        run.number,
        run.family,
        run.fault.cause if run.fault else "control",
        run.fault.name if run.fault else run.hard,
        run.hard,
        run.level,
        run.keep,
        run.is_hard,
        run.decides_cause,
        {
            "origins": sorted(truth.origins),
            "causes": sorted(truth.causes),
            "also": sorted(truth.also),
            "direction": truth.direction,
            "role": truth.role,
            "step": truth.step,
        },
        shown(place),
        is_right(place, run),
        shown(old),
        is_right(old, run),
        findings,
        bool(told) and told[0][0] in truth.causes,
        bool(findings) and findings[0][0] in truth.causes,
        hits,
        seconds,
        run.is_other,
        run.first,
        run.strength,
        run.way.name if run.way else MEMORY,
    )


def answer(comparison: Any, run: Run) -> tuple[Place | None, list[tuple[str, float, str]]]:
    """Origin and findings ``(cause, confidence, place)`` of a comparison: the one adapter."""
    first = comparison.first_divergence
    place = None if first is None else place_of(first.row, run)
    findings = []
    rows = {int(order): i for i, order in enumerate(comparison.result["order"].values)}
    for finding in comparison.findings:
        row = rows.get(int(finding.pair))
        seen = None if row is None else place_of(comparison.result.isel(pair=row), run)
        findings.append((str(finding.cause), float(finding.confidence), shown(seen)))
    return place, findings


def place_of(row: Any, run: Run) -> Place:
    """Where in the network a row of the result was computed."""
    if run.files is not None:
        return _place_in_files(row, run.files)
    step = int(row["step"].values)
    names = [str(row[side].values) for side in ("left", "right")]
    where = next((w for n in names if n and (w := run.where.get((step, n))) is not None), "?")
    role, direction = str(row["role"].values), str(row["direction"].values)
    return Place(names[0] or names[1], where, role, direction, step)


def _place_in_files(row: Any, files: tuple[Filed, Filed]) -> Place:
    """The same of rows that are named as the files are; what they are is known, not read."""
    names = [str(row[side].values) for side in ("left", "right")]
    step, direction = int(row["step"].values), str(row["direction"].values)
    for name, filed in zip(names, files, strict=True):
        record = filed.find(name, step, direction) if name else None
        if record is not None:
            return place_of_record(record)
    return Place(names[0] or names[1], "?", "", "", step)


def place_of_record(record: Record) -> Place:
    """Where a record was computed."""
    site = record.site
    return Place(record.name, record.where, site.role, site.direction, record.step)


def first_over_tolerance(left: Filed, right: Filed) -> Place | None:
    """The old rule on files: the first over tolerance in the order in which they lie."""
    others = {_key(record): record for record in right.records}
    for record in left.records:
        other = others.get(_key(record))
        if other is None:
            continue
        a, b = as_numpy(record.array), as_numpy(other.array)
        with np.errstate(all="ignore"):
            if a.shape != b.shape or not np.allclose(a, b, RTOL, ATOL, equal_nan=True):
                return place_of_record(record)
    return None


def _key(record: Record) -> tuple[Any, ...]:
    """What both frameworks call alike."""
    site = record.site
    slot = NAMES.get(record.layer, {}).get(site.slot, site.slot)
    return record.step, site.path, site.call, site.direction, site.role, slot


def old_rule(comparison: Any, run: Run) -> Place | None:
    """The first row over tolerance in execution order."""
    result = comparison.result
    verdicts = result["verdict"].values
    measured = ~np.isnan(result["max_abs_error"].values.astype(float))
    over = measured & ~result["allclose"].values.astype(bool)
    over |= np.isin(verdicts, ("shape", "nan"))
    over |= ~measured & np.isin(verdicts, ("differs", "unrelated", "reduced"))
    found = np.flatnonzero(over)
    return place_of(result.isel(pair=int(found[0])), run) if len(found) else None


def is_right(place: Place | None, run: Run) -> bool:
    """Whether a place is an origin; for a control, whether none is named."""
    truth = run.truth
    if run.is_control:
        return place is None
    if place is None:
        return truth.is_absent
    return (
        (not truth.origins or place.where in truth.origins)
        and (not truth.direction or place.direction == truth.direction)
        and (not truth.role or place.role in (truth.role, "buffer"))
        and (truth.step is None or place.step == truth.step)
    )


def shown(place: Place | None) -> str:
    """A place in short."""
    if place is None:
        return ""
    return f"{place.step}:{place.name} @{place.where}"
