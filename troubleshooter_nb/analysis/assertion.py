"""Assert that two runs are the same, for tests."""

from __future__ import annotations

import numpy as np

from troubleshooter_nb.analysis.align import MappingLike, PairingMethod
from troubleshooter_nb.analysis.engine import compare
from troubleshooter_nb.comparison import Comparison
from troubleshooter_nb.errors import NotSameError
from troubleshooter_nb.formats import DumpLike
from troubleshooter_nb.messages import Foreign, Message, told
from troubleshooter_nb.pairing import Pairing


def assert_same(
    left: DumpLike,
    right: DumpLike,
    *,
    rtol: float = 1e-4,
    atol: float = 1e-4,
    equal_nan: bool = False,
    integer_tolerance: float = 0.0,
    pairing: Pairing | PairingMethod | None = None,
    mapping: MappingLike | None = None,
    fuzzy: bool = False,
) -> Comparison:
    """Fail unless `compare` passes; for pytest and other tests.

    Parameters
    ----------
    left, right : Dump, path, or mapping of str to array
        The right side is the reference.
    rtol, atol, equal_nan, integer_tolerance, pairing, mapping, fuzzy
        As in `compare`.

    Returns
    -------
    Comparison
        One that passed.

    Raises
    ------
    NotSameError
        An AssertionError that says what differs, first where, and why as far as that is known. Also
        where an entry has no partner and none was declared (``mapping={name: None}``), could not be
        read, or where more pairs are undecidable than decided, as statistics of both sides are.
    ValueError, TypeError, PairingError, UnknownFormatError, FileNotFoundError
        As `compare`.
    """
    __tracebackhide__ = True  # pytest shows the line that called
    found = compare(
        left,
        right,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        integer_tolerance=integer_tolerance,
        pairing=pairing,
        mapping=mapping,
        fuzzy=fuzzy,
        progress=False,
    )
    if found.passed:
        return found
    parts = [repr(found)]
    for verdict in ("missing", "unreadable"):
        if names := _names(found, verdict):
            parts.append(told(Message(f"assertions.{verdict}", names=names)))
    raise NotSameError(Message("assertions.not_same", text=Foreign("\n".join(parts))))


def _names(found: Comparison, verdict: str) -> list[str]:
    """Names of the pairs that have a verdict and did not pass."""
    columns = found.columns
    rows = np.flatnonzero((columns["verdict"] == verdict) & ~columns["passed"])
    return [str(columns["left"][row] or columns["right"][row]) for row in rows]
