"""What the diagnosis may read and ask: elements decide, the clock only stops."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from troubleshooter_nb import thresholds
from troubleshooter_nb.errors import ArgumentError, ArgumentTypeError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import is_number

# Why a question is left out, and the words for it.
_REASONS = {
    "alike": "explanations.not_asked_alike",
    "clock": "explanations.not_asked_clock",
    "elements": "explanations.not_asked_elements",
    "large": "explanations.not_asked_large",
    "lost": "explanations.not_asked_lost",
    "number": "explanations.not_asked_number",
}


class BudgetSpentError(Exception):
    """A question would have read more than the budget has left; it stays unanswered."""

    why = "elements"


class TooLargeError(BudgetSpentError):
    """A question would have read a tensor whole that is too large for it, whatever the budget."""

    why = "large"


@dataclass(frozen=True)
class Manner:
    """In what manner a pair differs: differences of one kind are asked about once or twice.

    Attributes
    ----------
    kind : hashable
        What has to be equal: role, direction, layer, axes, formats.
    rel_l2 : float
        Relative error; alike within a factor of two.
    evenness : float
        Mean over root mean square of the error: 0.8 of normal noise, near 0 of few elements.
    unequal : float
        Share of the elements that differ.
    """

    kind: Hashable
    rel_l2: float
    evenness: float
    unequal: float

    def is_like(self, other: Manner) -> bool:
        """Whether the same question would be put to both."""
        return (
            self.kind == other.kind
            and _within(self.rel_l2, other.rel_l2, thresholds.LIKE_ERROR)
            and _within(self.evenness, other.evenness, thresholds.LIKE_EVENNESS)
            and abs(self.unequal - other.unequal) <= thresholds.LIKE_UNEQUAL
        )


def _within(one: float, other: float, times: float) -> bool:
    """Whether two numbers are at most so many times apart; those that are not finite if equal."""
    if not (math.isfinite(one) and math.isfinite(other)):
        return one == other or (math.isnan(one) and math.isnan(other))
    return max(one, other) <= times * min(one, other)


class Asked(NamedTuple):
    """Elements that a question wanted to read, and whether it went on to read them at once."""

    elements: int
    is_read: bool


class _Ledger:
    """What a question asks for where it is answered apart, and how much it may read there."""

    def __init__(self, limit: float | None) -> None:
        self.limit, self.asked = limit, list[Asked]()

    def enter(self, asked: Asked) -> None:
        read = sum(one.elements for one in self.asked if one.is_read)
        self.asked.append(asked)
        if self.limit is not None and read + asked.elements > self.limit:
            raise BudgetSpentError


_ledgers = threading.local()


@contextmanager
def apart(limit: float | None) -> Iterator[list[Asked]]:
    """One question that this thread answers by itself: every budget only notes what it asks for.

    Parameters
    ----------
    limit : float or None
        Elements that it may read, see `Budget.of_question`; None for the first difference.
    """
    _ledgers.own = _Ledger(limit)
    try:
        yield _ledgers.own.asked
    finally:
        _ledgers.own = None


@dataclass
class _Asked:
    """Questions about differences of one kind."""

    manner: Manner
    silent: int = 0  # without an answer
    answered: bool = False


@dataclass
class Budget:
    """Elements that the diagnosis may still read, and the time after which it asks no more.

    Which questions are asked follows from shapes and figures, so that every machine asks the same
    ones; only where all of it takes too long, the clock stops, and the note says so.

    Parameters
    ----------
    compared : int
        Elements that comparing read, of both sides.
    times : float, >= 0
        Of the default; `math.inf` asks everything.
    seconds : float
        How long comparing took.
    """

    compared: int
    times: float = 1.0
    seconds: float = 0.0
    asked: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    read: int = 0  # elements that were read so far

    def __post_init__(self) -> None:
        self._started = time.thread_time()
        self._of_question = 0
        self._is_free = False
        self._kinds: dict[Hashable, list[_Asked]] = {}
        self._elsewhere = 0.0  # seconds that others computed

    def __reduce__(self) -> tuple[Any, ...]:
        """Elsewhere nothing is known of what was read; see `apart`."""
        return Budget, (self.compared, self.times, self.seconds)

    @property
    def elements(self) -> float:
        """Elements, of both sides, that may be read in all."""
        share = thresholds.READ_AGAIN * self.compared + thresholds.FREE_ELEMENTS
        return self.times * share if self.times else 0.0

    @property
    def is_endless(self) -> bool:
        """Whether everything is to be asked, of all elements."""
        return math.isinf(self.times)

    @property
    def elapsed(self) -> float:
        """Seconds that the diagnosis computed so far; waiting for a disk is bounded by elements."""
        return time.thread_time() - self._started + self._elsewhere

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        least = thresholds.LEAST_SECONDS
        return self.elapsed > self.times * (least + thresholds.SECONDS_AGAIN * self.seconds)

    def most(self, count: int) -> int:
        """So many questions of one sort, of `count` in the default budget."""
        return round(min(self.times * count, 1 << 30))

    @property
    def left(self) -> float:
        """Elements that may still be read."""
        return self.elements - self.read

    @property
    def of_question(self) -> float:
        """Elements that one question may read."""
        return self.times * thresholds.QUESTION_ELEMENTS

    def require(self, elements: int) -> None:
        """Raise unless so many elements may be read.

        Raises
        ------
        BudgetSpentError
            If it is more than one question may read, or than is left.
        """
        if (ledger := _ledger()) is not None:
            ledger.enter(Asked(elements, is_read=False))
            return
        fits = self._of_question + elements <= self.of_question
        if not self._is_free and not (fits and self.read + elements <= self.elements):
            raise BudgetSpentError

    def charge(self, elements: int) -> None:
        """Count what is about to be read; raises as `require`."""
        if (ledger := _ledger()) is not None:
            ledger.enter(Asked(elements, is_read=True))
            return
        self.require(elements)
        self._of_question += elements
        self.read += elements

    def takes(self, asked: Iterable[Asked], seconds: float, *, is_first: bool = False) -> bool:
        """Whether a question that was answered apart may have read what it did; counts it if so."""
        before = self.read
        try:
            with self.question(is_first=is_first):
                for one in asked:
                    (self.charge if one.is_read else self.require)(one.elements)
        except BudgetSpentError:
            self.read = before
            return False
        self._elsewhere += seconds
        return True

    def will_ask(self, manner: Manner | None, waiting: Iterable[Manner | None]) -> bool:
        """Whether a question will surely be put, whatever comes of those that others answer now.

        As far as can be known: it may read more than is left.
        """
        if self.is_over or manner is None:
            return not self.is_over
        known = self._alike(manner)
        if known is not None and known.answered:
            return True
        silent = known.silent if known is not None else 0
        silent += sum(1 for one in waiting if one is not None and one.is_like(manner))
        return silent < self.most(thresholds.ASKED_OF_A_KIND)

    def may_ask(self, manner: Manner | None, *, is_first: bool = False) -> bool:
        """Whether a question about a difference is put; counts it if not.

        `is_first`: it is the first difference, which is always asked about.
        """
        if is_first:
            return True
        why = "clock" if self.is_over else "alike" if self._is_done(manner) else ""
        if why:
            self.leave_out(why)
        return not why

    @contextmanager
    def question(self, *, is_first: bool = False) -> Iterator[None]:
        """One question: what it reads counts from here on; without limit for the first one."""
        self._of_question, self._is_free = 0, is_first
        try:
            yield
        finally:
            self._of_question, self._is_free = 0, False

    def tell(self, manner: Manner | None, *, answered: bool) -> None:
        """Note what came of a question: a kind without answers is not asked about for ever."""
        self.asked += 1
        if manner is None:
            return
        known = self._alike(manner)
        if known is None:
            known = _Asked(manner)
            self._kinds.setdefault(manner.kind, []).append(known)
        known.answered |= answered
        known.silent += not answered

    def leave_out(self, why: str, count: int = 1) -> None:
        """Count questions that are not asked, by one of the reasons of `_REASONS`."""
        self.left_out[why] += count

    def note(self) -> list[Message]:
        """One line on what was not asked; none where everything was."""
        left_out = {why: count for why, count in self.left_out.items() if count}
        if not left_out:
            return []
        total = self.asked + sum(left_out.values())
        reasons = [
            Message(_REASONS[why], count=count, seconds=self.elapsed)
            for why, count in sorted(left_out.items())
        ]
        more = f"{4.0 * self.times or 1.0:g}"
        given = {"asked": self.asked, "total": total, "reasons": reasons, "more": more}
        return [Message("explanations.not_asked", **given)]

    def _alike(self, manner: Manner) -> _Asked | None:
        known = self._kinds.get(manner.kind, ())
        return next((one for one in known if one.manner.is_like(manner)), None)

    def _is_done(self, manner: Manner | None) -> bool:
        known = self._alike(manner) if manner is not None else None
        if known is None or known.answered:
            return False
        return known.silent >= self.most(thresholds.ASKED_OF_A_KIND)


def _ledger() -> _Ledger | None:
    return getattr(_ledgers, "own", None)


def check_budget(budget: object) -> None:
    """Raise unless it is a number from 0 on.

    Raises
    ------
    ValueError, TypeError
    """
    if not is_number(budget):
        raise ArgumentTypeError(Message("arguments.budget", value=repr(budget)))
    try:
        allowed = float(budget) >= 0
    except OverflowError:  # a whole number beyond float64
        allowed = False
    if not allowed:
        raise ArgumentError(Message("arguments.budget", value=repr(budget)))
