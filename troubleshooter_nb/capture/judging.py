"""How far a value that a run just gave is from its partner in a reference."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from troubleshooter_nb.analysis.measuring import Found, Piece, measure_batch
from troubleshooter_nb.analysis.recorded import (
    Recorded,
    fingerprint_distance,
    judge_recorded,
    over_all_values,
)
from troubleshooter_nb.analysis.rows import SideRows
from troubleshooter_nb.capture.values import crc32_of
from troubleshooter_nb.dump import ArrayInMemory, ArraySource, Dump
from troubleshooter_nb.errors import ReadError
from troubleshooter_nb.metrics.noise import noise_bound
from troubleshooter_nb.metrics.pairwise import figures_of
from troubleshooter_nb.metrics.partial import Partial, Partials
from troubleshooter_nb.metrics.sketches import statistics_of
from troubleshooter_nb.metrics.verdict import Tolerance, judge_all
from troubleshooter_nb.render.words import DIFFERING
from troubleshooter_nb.thresholds import BLIND_TOLERANCES

Basis = Literal["values", "fingerprint", "statistics", ""]
# Of the allowance that one look grants without measuring: its own rounding takes the rest.
_SURE = 0.9
_FEW = 4096  # bytes


class Judged(NamedTuple):
    """One value beside its partner.

    `verdict` is of the truth table of `metrics.verdict`; the errors are nan where they are not
    known, `rel_l2_error` an estimate where `basis` is ``fingerprint``.
    """

    verdict: str
    rel_l2_error: float = math.nan
    max_abs_error: float = math.nan
    basis: Basis = ""

    @property
    def differs(self) -> bool:
        """Whether the two are not the same value."""
        return self.verdict in DIFFERING

    @property
    def is_open(self) -> bool:
        """Whether nothing was found out."""
        return self.verdict in ("undecidable", "unreadable", "missing")


class Judge:
    """Holds values against the entries of a reference, each as `compare` would.

    Values where both have them, else checksum, statistics and fingerprint. What is the same in
    every bit, or nearer than the tolerance at a glance, is not measured further.
    """

    def __init__(self, reference: Dump, tolerance: Tolerance) -> None:
        self._reference, self._tolerance = reference, tolerance
        self._rows = SideRows(reference, np.arange(len(reference.sources)))
        self._known: dict[Hashable, Judged] = {}
        self._figures: dict[int, Mapping[str, Any]] = {}
        # Used again and again: new pages cost more than what is done in them.
        self._memory, self._apart = np.empty(0, np.uint8), np.empty(0, np.uint8)

    def of(self, number: int, values: np.ndarray | None, row: int) -> Judged:
        """A value of the run, by its number, beside a row of the reference.

        `values` is None where they could not be read.
        """
        source = self._reference.sources[row]
        key = number, _key_of(source, row)
        found = self._known.get(key)
        if found is None:
            figures = self._figures.get(number, {})
            found = self._known[key] = self._judged(values, source, row, figures)
        return found

    def note(self, number: int, figures: Mapping[str, Any]) -> None:
        """Take statistics and fingerprint of a value that were measured for the recording."""
        self._figures[number] = figures

    def forget(self) -> None:
        """Values that come have other numbers."""
        self._known.clear()
        self._figures.clear()

    def _judged(
        self,
        left: np.ndarray | None,
        source: ArraySource | None,
        row: int,
        figures: Mapping[str, Any],
    ) -> Judged:
        if left is None:
            return Judged("unreadable")
        if source is None:
            return self._by_figures(left, row, figures)
        if left.shape != source.shape:
            return Judged("shape", basis="values")
        try:
            right = self._read(source)
        except ReadError:
            return Judged("unreadable")
        return self._at_a_glance(left, right) or _measured(left, right, self._tolerance)

    def _at_a_glance(self, left: np.ndarray, right: np.ndarray) -> Judged | None:
        """The verdict of two tensors that are the same, or surely pass; None for all others."""
        if left.dtype != right.dtype or not left.size:
            return None
        mine, theirs = (np.ascontiguousarray(side).reshape(-1) for side in (left, right))
        if _are_same(mine, theirs):
            return Judged("identical", 0.0, 0.0, "values")
        if left.dtype not in (np.float32, np.float64):
            return None
        asked = self._tolerance
        if len(self._apart) < left.nbytes:
            self._apart = np.empty(left.nbytes, np.uint8)
        apart = self._apart[: left.nbytes].view(left.dtype)
        with np.errstate(all="ignore"):
            np.subtract(mine, theirs, out=apart)
            error = math.sqrt(float(np.dot(apart, apart)))
            norm = math.sqrt(float(np.dot(theirs, theirs)))
            # No element is larger than the norm of all. NaN and overflow make these false.
            largest = error
            if not error <= _SURE * asked.atol:
                largest = float(max(apart.max(), -apart.min()))
            if not largest <= _SURE * asked.atol:
                return None
        allowed = max(BLIND_TOLERANCES * asked.rtol, noise_bound(left.dtype, right.dtype).rel_l2)
        if not 0 < error <= _SURE * allowed * norm < math.inf:
            return None
        return Judged("pass", error / norm, basis="values")

    def _read(self, source: ArraySource) -> np.ndarray:
        """All values of a source, where they lie or in memory that the next one uses again."""
        if isinstance(source, ArrayInMemory):
            return source.array
        if len(self._memory) < source.size_bytes:
            self._memory = np.empty(source.size_bytes, np.uint8)
        into = self._memory[: source.size_bytes].view(source.dtype)
        return source.read(0, into.size, into).reshape(source.shape)

    def _by_figures(self, left: np.ndarray, row: int, figures: Mapping[str, Any]) -> Judged:
        """By what a reference without values knows."""
        theirs = self._rows.recorded(row)
        wanted = bool(theirs.fingerprint)
        known = {**figures.get("statistics", {}), "fingerprint": figures.get("fingerprint", ())}
        if not figures or (wanted and not known["fingerprint"]):
            known = statistics_of(left, wanted)
        mine = _recorded(left, theirs.crc32 >= 0, known)
        found = judge_recorded(mine, theirs, self._tolerance)
        apart, norm = fingerprint_distance(mine, theirs)
        if math.isnan(apart):
            return Judged(found.name, basis="statistics")
        error = apart / norm if norm else math.inf if apart else 0.0
        by_sums = found.reason.startswith("fingerprints_")
        return Judged(found.name, error, basis="fingerprint" if by_sums else "statistics")


def _recorded(array: np.ndarray, with_checksum: bool, known: Mapping[str, Any]) -> Recorded:
    """What a recording without values would know of an array, of which statistics are known."""
    statistics = dict(known)
    fingerprint = tuple(statistics.pop("fingerprint", ()))
    above = statistics.pop("posinf_count", 0)
    if statistics["inf_count"]:
        statistics["negative_inf_count"] = statistics["inf_count"] - above
    return Recorded(
        dtype=array.dtype.name,
        shape=array.shape,
        size=array.size,
        crc32=crc32_of(array) if with_checksum else -1,
        statistics=over_all_values(statistics),
        fingerprint=fingerprint,
    )


def _key_of(source: Any, row: int) -> Hashable:
    """What is the same for rows that hold one value."""
    if isinstance(source, ArrayInMemory):
        return id(source.array)
    found: Hashable = ("row", row) if source is None else source
    return found


def _are_same(mine: np.ndarray, theirs: np.ndarray) -> bool:
    """Whether two contiguous arrays of one dtype and length are the same in every bit."""
    sides = mine.view(np.uint8), theirs.view(np.uint8)
    if sides[0][:_FEW].tobytes() != sides[1][:_FEW].tobytes():
        return False  # as it mostly is where anything differs
    if len(sides[0]) <= _FEW:
        return True
    whole = len(sides[0]) // 8 * 8
    if not np.array_equal(sides[0][whole:], sides[1][whole:]):
        return False
    words = [side[:whole].view(np.uint64) for side in sides]
    return bool(np.array_equal(words[0], words[1]))


def _measured(left: np.ndarray, right: np.ndarray, asked: Tolerance) -> Judged:
    """What `compare` finds of two tensors."""
    piece = Piece(0, ArrayInMemory(left), ArrayInMemory(right), 0, left.size)
    found: Found = measure_batch([piece], asked)
    partials = found.partials
    if found.slices:
        partial: Any = found.slices[0][2]
        assert isinstance(partial, Partial)
        partials = Partials.empty(1)
        partials.put(0, partial)
    dtypes = [left.dtype], [right.dtype]
    figures = figures_of(partials, *dtypes)
    verdicts = judge_all(figures, asked, *dtypes, np.array([left.size]))
    error, largest = (float(figures[name][0]) for name in ("rel_l2_error", "max_abs_error"))
    # What only atol lets pass was compared with nothing.
    is_blind = verdicts.reason[0] == "pass_blind"
    return Judged("undecidable" if is_blind else str(verdicts.name[0]), error, largest, "values")
