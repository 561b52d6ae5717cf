"""What the cases gave, a line each, and how their cost grows."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from measuring.bars import number

from at_size.judging import BARS_FROM, MOST_MIB, MOST_READINGS, Outcome

PROJECTED = (1 << 28, 1 << 30)
_NAME, _ANSWER = 27, 34
# Seconds below which growth is that of a clock's ticks.
_LEAST_SECONDS = 0.02


def size_of(elements: int) -> str:
    """Elements in powers of two: 16M is 2^24."""
    for power, unit in ((30, "G"), (20, "M"), (10, "K")):
        if elements >= 1 << power:
            return f"{elements / (1 << power):.3g}{unit}"
    return str(elements)


def heading() -> str:
    """Of `line`."""
    return (
        f"{'case':{_NAME}} {'size':>5}  {'answer':{_ANSWER}} place "
        f"{'CPU s':>7} {'clock s':>8} {'readings':>9} {'MiB':>6} {'read':>7}  from"
    )


def line(outcome: Outcome) -> str:
    """One case in one size; ``readings`` of CPU time, ``read`` in elements."""
    is_held = outcome.elements >= BARS_FROM
    marks = [
        "!" if is_held and value > most else " "
        for value, most in ((outcome.readings, MOST_READINGS), (outcome.mib, MOST_MIB))
    ]
    return (
        f"{outcome.name:{_NAME}} {size_of(outcome.elements):>5}  {told(outcome):{_ANSWER}} "
        f"{'right' if outcome.place_right else 'WRONG':5} "
        f"{outcome.cpu:7.2f} {outcome.seconds:8.2f} {outcome.readings:8.1f}{marks[0]} "
        f"{outcome.mib:5.0f}{marks[1]} {size_of(outcome.elements_read):>7}  {outcome.sampled}"
    ).rstrip()


def told(outcome: Outcome) -> str:
    """The answer in words; what is wrong in capitals."""
    sure = f"{outcome.cause} {outcome.confidence:.2f}" if outcome.cause else ""
    words = {
        "found": sure,
        "other": f"WRONG {sure}",
        "silent": "SILENT",
        "quiet": "quiet",
        "blamed": f"BLAMED {sure}",
    }[outcome.answer]
    if outcome.observed:
        words += f" ({', '.join(outcome.observed)})"
    return words + "".join(f" +{cause}" for cause in outcome.others)


def totals(outcomes: Sequence[Outcome]) -> list[str]:
    """For each size: how many cases have the right answer and place, and the largest costs."""
    lines = []
    for elements in sorted({outcome.elements for outcome in outcomes}):
        of = [outcome for outcome in outcomes if outcome.elements == elements]
        above = f"; {sum(not o.meets_bars for o in of)} above a bar"
        above = above if elements >= BARS_FROM else ""
        count = {a: sum(o.answer == a for o in of) for a in ("other", "silent", "blamed")}
        lines.append(
            f"{size_of(elements):>5}: {sum(o.is_right for o in of)} of {len(of)} right, "
            f"{count['silent']} silent, {count['other']} of another cause, "
            f"{count['blamed']} blamed for nothing; place right in "
            f"{sum(o.place_right for o in of)}; most readings "
            f"{number(max(o.readings for o in of))}, most memory {number(max(o.mib for o in of))} "
            f"MiB{above}"
        )
    return lines


def by_case(outcomes: Iterable[Outcome]) -> Mapping[str, list[Outcome]]:
    """Outcomes of each case, by size."""
    found: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in sorted(outcomes, key=lambda one: one.elements):
        found[outcome.name].append(outcome)
    return found


def fitted(sizes: Sequence[int], costs: Sequence[float]) -> tuple[float, float]:
    """Fixed part and cost of an element, neither negative: the line through the two largest."""
    (few, many), (less, more) = sizes[-2:], costs[-2:]
    each = max(more - less, 0.0) / (many - few)
    return max(more - each * many, 0.0), each


def growth(outcomes: Iterable[Outcome]) -> list[str]:
    """CPU time of each size, its exponent, and what the line through the last two projects.

    Of sizes with the right answer alone: whoever says nothing is quick.
    """
    right = by_case(outcome for outcome in outcomes if outcome.is_right)
    cases = {name: of for name, of in right.items() if len(of) > 1}
    if not cases:
        return []
    head = "".join(f" {f'projected {size_of(n)}':>15}" for n in PROJECTED)
    lines = ["CPU seconds of the diagnosis (of time n^k; a projection is no measurement)"]
    lines.append(f"{'case':{_NAME}} {'measured':40} {'k':>5}{head}")
    for name, of in cases.items():
        sizes, costs = [o.elements for o in of], [max(o.cpu, 0.0) for o in of]
        fixed, each = fitted(sizes, costs)
        measured = ", ".join(f"{size_of(n)} {c:.2f}" for n, c in zip(sizes, costs, strict=True))
        k = exponent(sizes, costs)
        far = "".join(f" {fixed + each * n:15.2f}" for n in PROJECTED)
        lines.append(f"{name:{_NAME}} {measured:40} {'-' if k is None else f'{k:.2f}':>5}{far}")
    return lines


def exponent(sizes: Sequence[int], costs: Sequence[float]) -> float | None:
    """Of the cost as a power of the size, from the smallest to the largest; None for little."""
    if costs[0] < _LEAST_SECONDS or costs[-1] < _LEAST_SECONDS:
        return None
    return math.log(costs[-1] / costs[0]) / math.log(sizes[-1] / sizes[0])
