"""How many values of each tensor the lines of a ``torch_npu.hooks`` file hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from troubleshooter_nb.formats.hooks_lines import Line
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming.hooks import HookName

FIRST = 10  # values of each tensor in a sampled file


@dataclass(frozen=True)
class Rule:
    """How many values of a tensor stand in its line."""

    key: str
    extra: int = 0  # statistics behind the values

    @property
    def text(self) -> str:
        """What there is of each tensor."""
        return Message(f"hooks.rule_{self.key}")

    def expected(self, shape: tuple[int, ...]) -> int:
        """Numbers in the line of a tensor of this shape."""
        size = math.prod(shape)
        if self.extra:
            return min(size, FIRST) + self.extra
        if self.key == "rows" and shape and shape[0] >= 16:
            return shape[0] // 16 * math.prod(shape[1:])
        return size

    def statistics(self, few: tuple[float, ...]) -> dict[str, float]:
        """The statistics behind the values, by their column."""
        if self.key == "first_max_min_mean":
            return dict(zip(("max", "min", "mean"), few[-3:], strict=True))
        return {"mean": few[-1]} if self.key == "first_sum_mean" else {}


# In the order in which they are preferred where several fit alike.
RULES = (
    Rule("full"),
    Rule("first_max_min_mean", 3),
    Rule("first_sum_mean", 2),
    Rule("rows"),
)


def rule_of(
    lines: Sequence[Line], hooks: Mapping[int, HookName | None]
) -> tuple[Rule | None, list[str]]:
    """What the lines of four elements hold of each tensor, decided for the whole file.

    Parameters
    ----------
    lines : sequence of Line
    hooks : mapping of int to HookName or None
        The parts of each line's name by the number of the line.

    Returns
    -------
    rule : Rule or None
        The one that most lines follow, so that a damaged line does not change it; None without
        such lines.
    notes : list of str
        The release, how the lines are numbered, and whether the rule is certain.

    Notes
    -----
    Source: files of torch_npu.hooks. A tensor of 13 elements fits two rules; where all have 13,
    what would be the statistics decides.
    """
    four = [line for line in lines if line.source is not None and line.mode is None]
    if not four:
        return None, []
    numbers = [hook.number for line in four if (hook := hooks[line.number])]
    first = next((number for number in numbers if number is not None), None)
    fits = {
        rule.key: sum(line.count == rule.expected(line.shape or ()) for line in four)
        for rule in RULES
        if first is None or rule.key not in ("first_sum_mean", "rows")
    }
    likely = [rule for rule in RULES if fits.get(rule.key) == max(fits.values())]
    rule, doubt = likely[0], []
    if len(likely) > 1 and rule.key == "full" and likely[1].extra:
        if all(_ends_in_statistics(line, likely[1]) for line in four):
            rule = likely[1]
        if all(line.count == likely[1].expected(line.shape or ()) for line in four):
            doubt = [Message("hooks.undecidable", count=four[0].count)]
    modules = any((hook := hooks[line.number]) and hook.category == "Module" for line in four)
    if first is None:
        release = {"full": "D0", "rows": "D0s"}.get(rule.key, "D1")
    else:
        release = "D2" if modules else Message("hooks.release_3")
    said = {"release": release, "rule": rule.text}
    if first:
        return rule, [Message("hooks.release_from", **said, first=first), *doubt]
    return rule, [Message("hooks.release", **said), *doubt]


def _ends_in_statistics(line: Line, rule: Rule) -> bool:
    """Whether what would be the statistics fits the values in front of it."""
    values, figures = line.few[: -rule.extra], line.few[-rule.extra :]
    if not values:
        return False
    if rule.extra == 2:
        size = math.prod(line.shape or ())
        return math.isclose(figures[0], figures[1] * size, rel_tol=1e-2, abs_tol=1e-6)
    high, low, mean = figures
    return high >= max(values) and low <= min(values) and low <= mean <= high
