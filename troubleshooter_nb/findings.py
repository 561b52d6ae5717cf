"""What a comparison found besides its table: causes, and what had to hold before asking for one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from troubleshooter_nb.options import get_options
from troubleshooter_nb.render.explanation import (
    checks_html,
    checks_text,
    findings_text,
    findings_view,
)


@dataclass(frozen=True)
class Finding:
    """A proved cause of a difference.

    Attributes
    ----------
    cause : str
        Id of a cause; `catalogue.CAUSES` has all of them.
    pair : int
        Pair number where it acts.
    confidence : float
        0 to 1, from the residual left after undoing the cause and after undoing its best rival.
    evidence : mapping
        JSON-able numbers and texts that prove it. A text is a message, a name, or a word that
        code compares: `catalogue.WORDS` has its Chinese.
    advice : str
        Id of the cause whose `repair` in the catalogue says what to do.
    """

    cause: str
    pair: int
    confidence: float
    evidence: Mapping[str, Any]
    advice: str = ""


@dataclass(frozen=True)
class Check:
    """One thing that must hold before outputs of two runs mean anything side by side.

    Attributes
    ----------
    what : str
        "inputs", "padding" (inputs differ in padded tokens alone), "parameters", "buffers",
        "layouts", "dtypes", "settings", "cards" or "coverage".
    status : {"ok", "bad", "note", "unknown"}
        Holds; does not; does not, but need not; cannot be told from what was recorded.
    values : mapping
        JSON-able counts and names that fill its sentence.
    """

    what: str
    status: str
    values: Mapping[str, Any]


class Findings(tuple[Finding, ...]):
    """A tuple of findings that shows the numbers behind each cause."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Each cause with the figures of its proof, as the last part of an explanation."""
        return findings_text([asdict(one) for one in self], get_options())

    def _repr_html_(self) -> str:
        return findings_view([asdict(one) for one in self], str(get_options()["language"]))


class Checks(tuple[Check, ...]):
    """A tuple of checks that shows what holds and what does not, one in a line."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Each check in a sentence behind its mark."""
        return checks_text([asdict(one) for one in self], get_options())

    def _repr_html_(self) -> str:
        return checks_html([asdict(one) for one in self], str(get_options()["language"]))
