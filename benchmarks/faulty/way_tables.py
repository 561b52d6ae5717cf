"""Prints what the runs showed per way of recording, and holds each way to the bars."""

from __future__ import annotations

import statistics

from faulty.judging import SURE, Outcome
from faulty.tables import is_literally_quiet, is_surely_wrong, rate

# Shares: place, its hard runs, first finding where the files decide, wrong findings above 0.5.
PLACE, HARD_PLACE, TOP, WRONG = 0.95, 0.88, 0.80, 0.02
# Of right runs, how many may be said to differ; weights in two layouts do, where no call shows that
# they give the same.
CROSSED = 0.04
_WITHOUT_CALLS = ("checkpoints", "gradients")
# Below this no way may be; so many findings make a bin of confidence.
LEAST, FEWEST_IN_BIN, WIDTH = 0.65, 20, 0.2
_HEADS = (
    "way             runs  place   hard    old    top of        wrong of    controls  lost error"
    "  median    max\n"
    "                                           decided   sure findings      loud              "
    "       s      s"
)


def print_ways(outcomes: list[Outcome]) -> bool:
    """Print a line per way, the same of nets and causes, and confidence; whether all bars hold."""
    print(f"\n{_HEADS}")
    ways = list(dict.fromkeys(o.way for o in outcomes))
    for name in [*ways, "all"]:
        print(_line(name, [o for o in outcomes if name in (o.way, "all")]))
    print(f"\n{'net':16}runs  place   old    top of decided")
    for family in sorted({o.family for o in outcomes}):
        of = [o for o in outcomes if o.family == family and o.cause != "control"]
        print(
            f"{family:16}{len(of):4} {rate(of, _placed):6.1%} {rate(of, _old):6.1%} "
            f"{_part(_decided(of))}"
        )
    _print_causes(outcomes)
    bins_hold = _print_bins(outcomes)
    return _bars(outcomes, ways, bins_hold)


def _placed(outcome: Outcome) -> bool:
    return outcome.origin_right


def _old(outcome: Outcome) -> bool:
    return outcome.old_right


def _decided(outcomes: list[Outcome]) -> list[Outcome]:
    """Runs of a catalogued cause that the files of the way prove."""
    return [o for o in outcomes if o.decides and o.expected["causes"]]


def _part(decided: list[Outcome]) -> str:
    return f"{sum(o.top_right for o in decided):4}/{len(decided):<4}"


def _sure(outcomes: list[Outcome]) -> list[bool]:
    """Of each finding above 0.5 whether it is true."""
    return [
        hit
        for o in outcomes
        for (_, confidence, _), hit in zip(o.findings, o.hits, strict=True)
        if confidence > SURE
    ]


def _line(name: str, of: list[Outcome]) -> str:
    faults = [o for o in of if o.cause != "control"]
    controls = [o for o in of if o.cause == "control"]
    hard, sure = [o for o in faults if o.is_hard], _sure(of)
    loud = sum(is_surely_wrong(o) for o in controls)
    said = sum(not is_literally_quiet(o) for o in controls)
    seconds = [o.seconds for o in of]
    return (
        f"{name:15} {len(of):4} {rate(faults, _placed):6.1%} {rate(hard, _placed):6.1%} "
        f"{rate(faults, _old):6.1%} {_part(_decided(faults))} {sure.count(False):6}/{len(sure):<4} "
        f"{loud:4}+{said - loud}/{len(controls):<4} {sum(o.is_lost for o in of):4} "
        f"{sum(bool(o.error) for o in of):5} {statistics.median(seconds):7.2f} {max(seconds):6.2f}"
    )


def _is_harmless(o: Outcome) -> bool:
    """Whether a run is right, and its files show that what differs in them is."""
    is_seen = o.hard != "layout" or o.way not in _WITHOUT_CALLS
    return o.cause == "control" and is_seen


def _print_causes(outcomes: list[Outcome]) -> None:
    print("\ncause                          planted  place   old   top  sure&wrong")
    planted = [o for o in outcomes if o.cause != "control"]
    for cause in sorted({o.cause for o in planted}):
        of = [o for o in planted if o.cause == cause]
        print(
            f"{cause:30} {len(of):7} {sum(map(_placed, of)):6} {sum(map(_old, of)):5} "
            f"{_part(_decided(of))} {sum(map(is_surely_wrong, of)):6}"
        )


def _print_bins(outcomes: list[Outcome]) -> bool:
    """Confidence against hits in bins of a fifth."""
    print("\nconfidence     findings  stated  hit rate")
    findings = [
        (confidence, hit)
        for o in outcomes
        for (_, confidence, _), hit in zip(o.findings, o.hits, strict=True)
    ]
    holds = True
    for fifth in range(round(1 / WIDTH)):
        of = [one for one in findings if min(int(one[0] / WIDTH), 4) == fifth]
        if not of:
            continue
        stated, hits = (sum(column) / len(of) for column in zip(*of, strict=True))
        is_off = len(of) >= FEWEST_IN_BIN and abs(stated - hits) > 0.1
        holds &= not is_off
        print(
            f"{fifth * WIDTH:.1f} to {(fifth + 1) * WIDTH:.1f} {len(of):12} {stated:7.2f} "
            f"{hits:9.2f}{'  off' if is_off else ''}"
        )
    return holds


def _bars(outcomes: list[Outcome], ways: list[str], bins_hold: bool) -> bool:
    faults = [o for o in outcomes if o.cause != "control"]
    hard, decided, sure = [o for o in faults if o.is_hard], _decided(faults), _sure(outcomes)
    quiet = all(not is_surely_wrong(o) for o in outcomes if o.cause == "control")
    harmless = [o for o in outcomes if _is_harmless(o)]
    crossed = rate(harmless, lambda o: o.is_crossed)
    wrong = sure.count(False) / max(len(sure), 1)
    below, beaten = [], []
    for way in ways:
        of = [o for o in faults if o.way == way]
        if min(rate(of, _placed), rate(_decided(of), lambda o: o.top_right)) < LEAST:
            below.append(way)
        if rate(of, _placed) <= rate(of, _old):
            beaten.append(way)
    figures = [
        (f"place {rate(faults, _placed):.1%}, bar {PLACE:.0%}", rate(faults, _placed) >= PLACE),
        (
            f"place, hard runs {rate(hard, _placed):.1%}, bar {HARD_PLACE:.0%}",
            not rate(hard, _placed) < HARD_PLACE,
        ),
        (
            f"first finding {rate(decided, lambda o: o.top_right):.1%}, bar {TOP:.0%}",
            not rate(decided, lambda o: o.top_right) < TOP,
        ),
        (f"wrong above 0.5 {wrong:.1%}, at most {WRONG:.0%}", wrong <= WRONG),
        ("no wrong finding above 0.5 on a control", quiet),
        (
            f"right runs with a cross {crossed:.1%} of {len(harmless)}, at most {CROSSED:.0%}",
            not crossed > CROSSED,
        ),
        (f"below {LEAST:.0%}: {', '.join(below) or 'none'}", not below),
        (f"not ahead of the old rule: {', '.join(beaten) or 'none'}", not beaten),
        ("stated confidence within 0.1 of the hit rate", bins_hold),
    ]
    print()
    for text, holds in figures:
        print(f"{'  ' if holds else '! '}{text}")
    return all(holds for _, holds in figures)
