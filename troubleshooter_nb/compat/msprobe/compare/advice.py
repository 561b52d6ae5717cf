"""What msprobe's advisor says of the first row that a verdict flags."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from troubleshooter_nb.compat.msprobe.compare.rows import Row
from troubleshooter_nb.compat.msprobe.compare.verdicts import DIFFERENT, NO, WARNING
from troubleshooter_nb.messages import Message, told

_NOTHING = "NA"
# Operators that may give other results from run to run.
_VARYING = ("conv2d", "conv3d", "matmul", "nll_loss", "layer_norm", "lstm")
_NORM = "batch_norm"


class Advice(NamedTuple):
    """The row from 0, its name and what to look at; ``NA`` twice where nothing is flagged."""

    line: int | str
    name: str
    text: str

    @property
    def lines(self) -> list[str]:
        """As the file and the screen have it."""
        return [
            f"Line: {self.line}",
            f"Suspect Nodes: {self.name}",
            f"Expert Advice: {told(self.text)}",
        ]


def advice_on(rows: Sequence[Row]) -> Advice:
    """The advice on the first row that is No, Warning or Different.

    Notes
    -----
    Source: runs of msprobe 1.2.2 and 8.3.3. It reads nothing but verdicts and names, so that rows
    without a partner are passed over.
    """
    for line, row in enumerate(rows):
        if row.verdict in (NO, WARNING, DIFFERENT):
            return Advice(line, row.pair.value.name, advice_text(*_kind(row)))
    return Advice(_NOTHING, _NOTHING, Message("msprobe_compare.all_reached"))


def _kind(row: Row) -> tuple[str, str, bool]:
    value = row.pair.value
    operator = value.call.path.rpartition(".")[2] if value.call else ""
    event = value.call.event if value.call else "forward"
    is_backward = event in ("backward", "parameters_grad")
    return operator, "backward" if is_backward else "forward", not value.is_output


def advice_text(operator: str, direction: str, is_input: bool) -> Message:
    """What to look at, of an operator's input or output, forward or backward."""
    if operator == _NORM and is_input:
        return Message("msprobe_compare.advice_norm")
    if operator in _VARYING and not (direction == "forward" and is_input):
        return Message("msprobe_compare.advice_varying")
    return Message(f"msprobe_compare.advice_{direction}_{'input' if is_input else 'output'}")


def write_advice(path: Path, advice: Advice) -> None:
    """Write the three lines."""
    path.write_text("\n".join(advice.lines) + "\n", encoding="utf-8")
