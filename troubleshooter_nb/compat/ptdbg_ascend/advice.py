"""What the tool's advisor made of the first row whose accuracy is not reached."""

from __future__ import annotations

from collections.abc import Sequence

from troubleshooter_nb.compat.msprobe.compare.advice import Advice, advice_text
from troubleshooter_nb.compat.msprobe.compare.verdicts import NO
from troubleshooter_nb.compat.ptdbg_ascend.rows import CsvRow
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming.hooks import parse_hook_name

_NOTHING = "NA"
_FIRST_LINE = 2  # of the csv, behind the headings


def advice_on(rows: Sequence[CsvRow]) -> Advice:
    """The advice on the first row that is ``No``; ``NA`` twice where none is.

    Notes
    -----
    Source: runs of ptdbg_ascend. It reads nothing but verdicts and names: rows without a partner
    are passed over, and the first ``No`` may be an output of indices that a near tie moved. The
    words are those of msprobe's advisor. Other than there, lines are those of the csv, and of the
    inputs of a batch normalisation only the second one is told apart.
    """
    for line, row in enumerate(rows, _FIRST_LINE):
        if row.verdict == NO:
            return Advice(line, row.name, advice_text(*_kind(row.name)))
    return Advice(_NOTHING, _NOTHING, Message("msprobe_compare.all_reached"))


def _kind(name: str) -> tuple[str, str, bool]:
    """Operator, direction and whether it is an input; of a name in no known form an output."""
    hook = parse_hook_name(name)
    if hook is None:
        return "", "forward", False
    is_other_input = hook.op == "batch_norm" and hook.position[:1] != (1,)
    operator = "" if is_other_input else hook.op
    direction = "backward" if hook.direction == "backward" else "forward"
    return operator, direction, hook.io == "input"
