"""The outcome of a notebook, told in an output of a cell for whoever runs the notebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from troubleshooter_nb.errors import ArgumentError, ArgumentTypeError
from troubleshooter_nb.messages import Message, told
from troubleshooter_nb.templates.shipped import KEY

_PASSED, _DIFFERS, _UNDECIDED = 0, 1, 2
_SAID = {_PASSED: "passed", _DIFFERS: "differs", _UNDECIDED: "undecided"}


@dataclass(frozen=True, repr=False)
class Outcome:
    """What `outcome` gives: shown as the last value of a cell, its output holds the exit code.

    Attributes
    ----------
    exit_code : int
        0 passed, 1 differs, 2 could not be compared or decided.
    """

    exit_code: int

    def __repr__(self) -> str:
        """The outcome in words."""
        return told(Message(f"notebooks.{_SAID[self.exit_code]}"))

    def _repr_mimebundle_(self, **_: object) -> tuple[dict[str, str], dict[str, Any]]:
        # In the metadata, which every front end keeps and none shows.
        return {"text/plain": repr(self)}, {KEY: {"exit_code": self.exit_code}}


def outcome(*compared: Any) -> Outcome:
    """Tell whoever runs the notebook how it ended: what ``tnb notebook run`` ends with.

    Let it be the last value of the last cell.

    Parameters
    ----------
    *compared : Comparison, CheckpointDiff, SeriesComparison, Overflow or None
        None stands for what was not compared, and is left out.

    Returns
    -------
    Outcome
        Differs as soon as one of them does, also where another could not be decided; a proof of
        weights that has doubts differs, an overflow that was found, too.

    Raises
    ------
    ValueError
        If nothing was compared.
    TypeError
        For anything that can neither pass nor differ.
    """
    codes = {_code_of(one) for one in compared if one is not None}
    if not codes:
        raise ArgumentError(Message("notebooks.nothing_given"))
    return Outcome(_DIFFERS if _DIFFERS in codes else max(codes))


def _code_of(one: Any) -> int:
    from troubleshooter_nb.analysis.engine import interruptions
    from troubleshooter_nb.capture.overflow_found import Overflow
    from troubleshooter_nb.comparison import Comparison
    from troubleshooter_nb.weight_map.doubts import has_doubts

    if isinstance(one, Overflow):
        return _DIFFERS if one else _PASSED if one.calls else _UNDECIDED
    if isinstance(one, Comparison) and interruptions(one):
        return _UNDECIDED
    if isinstance(one, Comparison) and one.exit_code == _PASSED:
        return _DIFFERS if has_doubts(one.notes) else _PASSED
    code = getattr(one, "exit_code", None)
    if isinstance(code, int):
        return code
    if isinstance(getattr(one, "passed", None), bool):
        return _PASSED if one.passed else _DIFFERS
    raise ArgumentTypeError(Message("notebooks.no_outcome", type=type(one).__name__))


def exit_code_in(notebook: Mapping[str, Any]) -> int | None:
    """The exit code that the last outcome of an executed notebook has; None where none has one."""
    found = None
    for cell in notebook.get("cells", ()):
        for output in cell.get("outputs", ()):
            said = output.get("metadata", {}).get(KEY, {})
            if isinstance(said, Mapping) and said.get("exit_code") in _SAID:
                found = int(said["exit_code"])
    return found
