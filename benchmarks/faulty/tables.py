"""Prints what the runs showed, and holds it to the bars."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from faulty.judging import SURE, Outcome

BINS = ((0.0, 0.3), (0.3, 0.5), (0.5, 0.7), (0.7, 0.8), (0.8, 0.9), (0.9, 0.95), (0.95, 1.01))
FEWEST_IN_BIN = 20


def share(part: int, whole: int) -> str:
    """``12 of 20 (60 %)``."""
    return f"{part:4} of {whole:4} ({part / whole:6.1%})" if whole else f"{part:4} of {whole:4}"


def rate(outcomes: Iterable[Outcome], holds: Callable[[Outcome], bool]) -> float:
    """Share of the outcomes for which it holds; nan for none."""
    judged = [holds(outcome) for outcome in outcomes]
    return sum(judged) / len(judged) if judged else float("nan")


def print_tables(outcomes: list[Outcome]) -> bool:
    """Print every table; whether all bars hold."""
    faults = [o for o in outcomes if o.cause != "control"]
    planted = [o for o in faults if not o.cause.startswith("outside.")]
    outside = [o for o in faults if o.cause.startswith("outside.")]
    controls = [o for o in outcomes if o.cause == "control"]
    print(f"{len(outcomes)} runs: {len(planted)} causes planted, {len(outside)} faults outside,")
    print(f"{len(controls)} controls; hard {sum(o.is_hard for o in outcomes)}")
    _by_cause(planted)
    for title, key in (
        ("family", lambda o: o.family),
        ("hard class", lambda o: o.hard),
        ("frameworks", lambda o: "torch, MindSpore" if o.is_other else "torch, torch"),
        ("level, kept", lambda o: f"{o.level}, {o.keep}"),
    ):
        _grouped(title, faults, key)
    _grouped("outside", outside, lambda o: o.cause)
    _controls(controls)
    bins_hold = _bins(faults + controls)
    return _bars(planted, outside, controls, bins_hold)


def _by_cause(planted: list[Outcome]) -> None:
    print("\ncause                          planted  origin    old  top   sure&wrong  none")
    for cause in sorted({o.cause for o in planted}):
        of = [o for o in planted if o.cause == cause]
        decidable = [o for o in of if o.decides]
        wrong = sum(is_surely_wrong(o) for o in of)
        print(
            f"{cause:30} {len(of):7} {sum(o.origin_right for o in of):7} "
            f"{sum(o.old_right for o in of):6} "
            f"{sum(o.top_right for o in decidable):4}/{len(decidable):<3} {wrong:7} "
            f"{sum(not o.findings for o in decidable):7}"
        )


def _grouped(title: str, outcomes: list[Outcome], key: Callable[[Outcome], str]) -> None:
    print(f"\n{title:28} runs   origin     old rule   top of decidable")
    for group in sorted({key(o) for o in outcomes}):
        of = [o for o in outcomes if key(o) == group]
        top = [o for o in of if o.decides and not o.cause.startswith("outside.")]
        print(
            f"{group:28} {len(of):4}  {rate(of, lambda o: o.origin_right):7.1%}  "
            f"{rate(of, lambda o: o.old_right):9.1%}  {rate(top, lambda o: o.top_right):9.1%}"
        )


def _controls(controls: list[Outcome]) -> None:
    head = "runs  quiet    quiet(literal)  origin named  old alarm"
    print(f"\n{'controls':28} {head}")
    for group in [*sorted({o.name for o in controls}), "all"]:
        of = [o for o in controls if group in (o.name, "all")]
        quiet, literally = rate(of, is_quiet), rate(of, is_literally_quiet)
        print(
            f"{group:28} {len(of):4}  {quiet:6.1%}  {literally:9.1%}"
            f"  {rate(of, lambda o: not o.origin_right):12.1%}"
            f"  {rate(of, lambda o: not o.old_right):9.1%}"
        )


def is_surely_wrong(outcome: Outcome) -> bool:
    """Whether a finding above 0.5 is not true of the run."""
    pairs = zip(outcome.findings, outcome.hits, strict=True)
    return any(confidence > SURE and not hit for (_, confidence, _), hit in pairs)


def is_quiet(outcome: Outcome) -> bool:
    """No finding above 0.5 but such as are true: the other precision, the other layout."""
    return not is_surely_wrong(outcome)


def is_literally_quiet(outcome: Outcome) -> bool:
    """No finding above 0.5 at all."""
    return all(confidence <= SURE for _, confidence, _ in outcome.findings)


def _bins(outcomes: list[Outcome]) -> bool:
    print("\nconfidence     findings  stated   hit rate")
    findings = [
        (confidence, hit)
        for o in outcomes
        for (_, confidence, _), hit in zip(o.findings, o.hits, strict=True)
    ]
    holds = True
    for low, high in BINS:
        of = [(c, hit) for c, hit in findings if low <= c < high]
        if not of:
            continue
        stated, hits = sum(c for c, _ in of) / len(of), sum(h for _, h in of) / len(of)
        is_off = len(of) >= FEWEST_IN_BIN and abs(stated - hits) > 0.1
        holds &= not is_off
        print(f"{low:.2f} to {min(high, 1):.2f}  {len(of):8}  {stated:6.2f}  {hits:8.2f}", end="")
        print("  off" if is_off else "")
    return holds


def _bars(
    planted: list[Outcome], outside: list[Outcome], controls: list[Outcome], bins_hold: bool
) -> bool:
    faults = planted + outside
    hard = [o for o in faults if o.is_hard]
    decidable = [o for o in planted if o.decides]
    figures = [
        ("origin right", rate(faults, lambda o: o.origin_right), 0.95),
        ("origin right, hard runs", rate(hard, lambda o: o.origin_right), 0.80),
        ("top finding right", rate(decidable, lambda o: o.top_right), 0.80),
        ("controls quiet", rate(controls, is_quiet), 0.98),
        ("outside not surely wrong", rate(outside, lambda o: not is_surely_wrong(o)), 0.95),
    ]
    strict = rate(decidable, lambda o: o.strictly_right)
    old = rate(faults, lambda o: o.old_right), rate(hard, lambda o: o.old_right)
    print(f"\nold rule: origin right {old[0]:.1%}, hard runs {old[1]:.1%}")
    print(f"top finding right with no other true one before it: {strict:.1%}")
    print(f"hard share of runs with a fault: {len(hard) / max(1, len(faults)):.0%}")
    seconds = [o.seconds for o in faults + controls]
    print(f"seconds a comparison: mean {sum(seconds) / max(1, len(seconds)):.2f}")
    print(f"longest {max(seconds, default=0):.2f}")
    holds = bins_hold
    for title, figure, bar in figures:
        holds &= not figure < bar
        print(f"{'  ' if not figure < bar else '! '}{title:28} {figure:7.1%}  bar {bar:.0%}")
    print(f"{'  ' if bins_hold else '! '}{'stated confidence':28} within 0.1 of the hit rate")
    return holds
