"""Questions of the diagnosis that are answered beside it, by an executor, before they are put."""

from __future__ import annotations

import os
import platform
import time
import zlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import cache
from pickle import PicklingError
from typing import Any, NamedTuple

import numpy as np

from troubleshooter_nb.analysis.budget import Asked, Budget, Manner, apart
from troubleshooter_nb.analysis.causes.case import Call, TensorPair
from troubleshooter_nb.analysis.measuring import threads

# Questions that an executor is given at a time: what its workers keep busy with, and what is lost
# where a budget ends.
_WINDOW = 8
# What a question that cannot travel is told by.
_NO_TRAVELLERS = (PicklingError, AttributeError, TypeError)


# Where the numbers of threads of OpenBLAS, MKL, BLIS and Accelerate stand, the first that is set.
_THREADS_OF_BLAS = (
    ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"),
    ("MKL_NUM_THREADS", "OMP_NUM_THREADS"),
    ("BLIS_NUM_THREADS", "OMP_NUM_THREADS"),
    ("VECLIB_MAXIMUM_THREADS", "OMP_NUM_THREADS"),
)


class LostError(Exception):
    """The worker that was to answer a question died."""


class Question(NamedTuple):
    """A question that will be put later on, unless the budget has no room for it by then.

    Attributes
    ----------
    key : hashable
    ask : callable
        A function of its arguments alone.
    arguments : callable
        Makes the arguments, when it is sent.
    manner : Manner or None
    is_first : bool
        Whether it is about the first difference.
    """

    key: Hashable
    ask: Callable[..., Any]
    arguments: Callable[[], tuple[Any, ...]]
    manner: Manner | None = None
    is_first: bool = False


class Answer(NamedTuple):
    """What came of a question, what it asked of the budget, and the seconds that it computed.

    Unless it `is_told`, who puts the question has to ask: it met an error, or `is_other`: it
    computes with other last bits.
    """

    value: Any
    asked: list[Asked]
    seconds: float
    is_told: bool = True
    is_other: bool = False


_NOT_ANSWERED = Answer(None, [], 0.0, is_told=False)


class _Out(NamedTuple):
    """A question that was given out, how much it may read, and who answers it."""

    question: Question
    most: float | None
    by: Future[Answer] | Answer


class Ahead:
    """Has questions answered before they are put, and gives each answer when it is.

    What is asked, and what an answer counts, follows from the order in which questions are put:
    who answers them decides nothing. Without an executor one thread helps the calling one: eight
    calls of 1M elements took 0.6 to 0.85 of the time, as numpy computes without the interpreter's
    lock; more threads would each hold the operands of a call.

    Processes whose sums may have other last bits, as of another processor, another numpy or another
    number of threads of its matrix products (dask gives its workers one, unless ``OMP_NUM_THREADS``
    is 1 here as well), answer nothing; the thread helps instead.

    Parameters
    ----------
    executor : Executor or None
    budget : Budget
    """

    def __init__(self, executor: Executor | None, budget: Budget) -> None:
        self._executor, self._budget = executor, budget
        self._is_own = executor is None
        # Values in memory do not travel: sending them costs more than what is asked of them.
        self._travels = executor is not None and not isinstance(executor, ThreadPoolExecutor)
        self._is_off = executor is None and threads() < 2
        self._planned: dict[Hashable, Question] = {}
        self._out: dict[Hashable, _Out] = {}

    def plan(self, questions: Iterable[Question]) -> None:
        """What will be put from now on, in this order; what was planned before is dropped."""
        self._drop()
        if not self._is_off:
            self._planned = {question.key: question for question in questions}

    def answer(self, key: Hashable) -> Answer | None:
        """The answer to a question that is put now; None where it has to be asked.

        Raises
        ------
        LostError
            If the worker that had it died; no more questions are sent then.
        """
        self._planned.pop(key, None)
        self._send()
        out = self._out.get(key)
        if out is None:
            return None
        try:
            return _told(out.by if isinstance(out.by, Answer) else self._waited(out.by))
        finally:
            self._out.pop(key, None)

    def _waited(self, future: Future[Answer]) -> Answer:
        if self._is_own and future.cancel():
            return _NOT_ANSWERED
        while self._is_own and not future.done() and (question := self._next()) is not None:
            most = self._most(question)
            answer = answer_apart(question.ask, question.arguments(), most)
            # The budget counts the seconds of this thread itself.
            self._out[question.key] = _Out(question, most, answer._replace(seconds=0.0))
        try:
            answer = future.result()
        except _NO_TRAVELLERS:
            return _NOT_ANSWERED
        except Exception as error:
            self._is_off = True
            self._drop()
            raise LostError from error
        if answer.is_other:
            self._drop()
            self._executor, self._is_own, self._travels = None, True, False
            self._is_off = threads() < 2
        return answer

    def forget(self, key: Hashable) -> None:
        """A question that is not put after all."""
        self._planned.pop(key, None)
        out = self._out.pop(key, None)
        if out is not None and not isinstance(out.by, Answer):
            out.by.cancel()

    def close(self, *, wait: bool = True) -> None:
        """Drop what was not asked for; wait for the helping thread unless there is no time."""
        self._is_off = True
        self._drop()
        if self._is_own and self._executor is not None:
            self._executor.shutdown(wait=wait, cancel_futures=True)

    def _drop(self) -> None:
        for key in [*self._planned, *self._out]:
            self.forget(key)

    def _send(self) -> None:
        """Give out questions, as many as are surely put."""
        most = 1 if self._is_own else _WINDOW
        while len(self._out) < most and (question := self._next()) is not None:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1)
            arguments, limit = question.arguments(), self._most(question)
            if self._travels and not _lies_in_files(arguments):
                continue
            try:
                own = None if self._is_own else arithmetic()
                future = self._executor.submit(answer_apart, question.ask, arguments, limit, own)
            except RuntimeError:  # as of a pool that was shut down or is broken
                self._is_off = True
                self._planned.clear()
            else:
                self._out[question.key] = _Out(question, limit, future)

    def _next(self) -> Question | None:
        """The first question that is surely put, whatever comes of those that are out."""
        waiting = [out.question.manner for out in self._out.values()]
        for key, question in self._planned.items():
            if question.is_first or self._budget.will_ask(question.manner, waiting):
                return self._planned.pop(key)
        return None

    def _most(self, question: Question) -> float | None:
        """Elements that a question may read, so that hardly any answer is thrown away.

        None for the first difference, which is asked about whatever it reads.
        """
        if question.is_first:
            return None
        taken = sum(out.most for out in self._out.values() if out.most is not None)
        return min(self._budget.of_question, (self._budget.left - taken) / 2)


@cache
def arithmetic() -> Hashable:
    """What the last bits of numpy's results depend on in this process."""
    # Where it is not said, BLAS takes all processors that it may.
    free = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    said = [[os.environ[one] for one in names if one in os.environ] for names in _THREADS_OF_BLAS]
    number = tuple(first[0] if first else str(free) for first in said)
    seen = 0
    for dtype in (np.float32, np.float64):  # which loops a processor is given shows in the bits
        values: np.ndarray = np.linspace(0.1, 3.0, 96 * 96, dtype=dtype)
        square: np.ndarray = values.reshape(96, 96)
        for made in (square @ square, square @ values[:96], values @ values, values.sum()):
            seen = zlib.crc32(np.asarray(made).tobytes(), seen)
        for formula in (np.exp, np.tanh, np.sin, np.log):
            seen = zlib.crc32(formula(values).tobytes(), seen)
    return np.__version__, platform.machine(), number, seen


def answer_apart(
    ask: Callable[..., Any],
    arguments: Sequence[Any],
    limit: float | None,
    wanted: Hashable | None = None,
) -> Answer:
    """What a worker does: one question, of at most so many elements, in any thread or process.

    With `wanted` only where the `arithmetic` is that.
    """
    if wanted is not None and wanted != arithmetic():
        return Answer(None, [], 0.0, is_told=False, is_other=True)
    began = time.thread_time()
    value, is_told = None, True
    with apart(limit) as asked:
        try:
            value = ask(*arguments)
        except Exception:
            is_told = False  # who puts the question meets it as well
    return Answer(value, asked, time.thread_time() - began, is_told)


def _told(answer: Answer) -> Answer | None:
    return answer if answer.is_told else None


def _lies_in_files(asked: Any) -> bool:
    """Whether all values of tensors and calls among the arguments of a question lie in files."""
    if isinstance(asked, TensorPair):
        return all(source is None or source.files() for source in asked.sources)
    if isinstance(asked, Call):
        tensors = [*asked.inputs, *asked.outputs, *asked.parameters.values()]
        return _lies_in_files([*tensors, *filter(None, [asked.forward])])
    if isinstance(asked, (list, tuple)):
        return all(map(_lies_in_files, asked))
    return True
