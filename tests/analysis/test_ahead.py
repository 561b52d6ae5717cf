"""Questions that others answer: whoever does, the comparison is the same to the byte."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis import ahead
from troubleshooter_nb.analysis.ahead import Ahead, Answer, LostError, Question, answer_apart
from troubleshooter_nb.analysis.budget import Budget, BudgetSpentError, Manner
from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.errors import IncompleteWarning
from troubleshooter_nb.formats.npy_file import open_npy
from troubleshooter_nb.messages import ids_of
from troubleshooter_nb.metrics.operators.activations import gelu_erf, gelu_tanh
from troubleshooter_nb.naming import Site

pytestmark = pytest.mark.once

# Just large enough to be sent.
SHAPE = (400, 384)
assert math.prod(SHAPE) > thresholds.SCREENED_FROM


SENT = {"recompute", "_root_causes", "unknown_layer"}


class _Run:
    """Calls as a module hook records them, in files or in memory."""

    def __init__(self, folder: Path | None) -> None:
        self.folder, self.entries = folder, list[Entry]()

    def add(self, path: str, word: str, role: str, slot: str, values: np.ndarray) -> None:
        name = f"Module.{path}.{word}.forward.0.{role}.{slot}"
        values = np.asarray(values, np.float32)
        source: Any = ArrayInMemory(values)
        if self.folder is not None:
            np.save(self.folder / f"{name}.npy", values)
            source = open_npy(self.folder / f"{name}.npy")
        site = Site("module", path, 0, "forward", role, slot)
        self.entries.append(Entry(name, site, source, order=len(self.entries), layer=word))


def _dump(folder: Path | None, *, is_left: bool) -> Dump:
    """Wrong and right calls, weights that lie otherwise, and four alike that nothing explains."""
    random, noise = np.random.default_rng(0), np.random.default_rng(1)
    if folder is not None:
        folder.mkdir()
    run, (rows, width) = _Run(folder), SHAPE

    def drawn(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    for n in range(4):
        x = drawn(rows, width)
        gelu = gelu_tanh if is_left and n == 1 else gelu_erf
        run.add(f"acts.{n}", "GELU", "input", "0", x)
        run.add(f"acts.{n}", "GELU", "output", "0", gelu(x.astype(np.float64)))
    for n in range(3):
        x, weight = drawn(rows, width), drawn(width, width) / np.float32(20)
        run.add(f"fcs.{n}", "Linear", "input", "0", x)
        stored = {0: weight[::-1], 2: weight.T}.get(n, weight) if is_left else weight
        run.add(f"fcs.{n}", "Linear", "parameter", "weight", stored)
        out = x.astype(np.float64) @ weight.T.astype(np.float64)
        run.add(f"fcs.{n}", "Linear", "output", "0", out * (1.25 if is_left and n == 1 else 1.0))
    for n in range(3):
        x = drawn(rows, width).astype(np.float64)
        eps = 1e-2 if is_left and n == 1 else 1e-5
        run.add(f"norms.{n}", "LayerNorm", "input", "0", x)
        x = x.astype(np.float32).astype(np.float64)
        made = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)
        run.add(f"norms.{n}", "LayerNorm", "output", "0", made)
    for n in range(4):
        x = drawn(rows, width)
        run.add(f"odd.{n}", "GELU", "input", "0", x)
        made = np.cos(3 * x)
        run.add(
            f"odd.{n}",
            "GELU",
            "output",
            "0",
            made + is_left * 0.1 * noise.standard_normal(SHAPE),
        )
    x = drawn(rows, width)
    for n, wrong in enumerate((1e-4, 1e-2, 1.0)):  # a class of the user's own that makes it worse
        run.add(f"own.{n}", "Mine", "input", "0", x)
        x = np.cumsum(x, 0, dtype=np.float64).astype(np.float32) / 16
        x[:: n + 2] *= np.float32(1 + wrong * is_left)
        run.add(f"own.{n}", "Mine", "output", "0", x)
    return Dump.from_entries(run.entries)


def _unrelated(folder: Path, *, is_left: bool) -> Dump:
    """Outputs that differ in ways of their own, and that no input carries on."""
    folder.mkdir()
    random, run = np.random.default_rng(2), _Run(folder)
    for n in range(4):
        x = random.standard_normal(SHAPE)
        run.add(f"own.{n}", "Mine", "input", "0", x)
        x = np.cumsum(x, 0)
        x[:: n + 2] *= 0.5 if is_left else 1.0
        run.add(f"own.{n}", "Mine", "output", "0", x)
    return Dump.from_entries(run.entries)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dump, Dump]:
    folder = tmp_path_factory.mktemp("runs")
    return _dump(folder / "left", is_left=True), _dump(folder / "right", is_left=False)


@pytest.fixture(scope="module")
def alone(runs: tuple[Dump, Dump]) -> tnb.Comparison:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ahead, "threads", lambda: 1)
        return tnb.compare(*runs)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Answer]]:
    """The answers that were there when they were asked for, with the questions' keys."""
    found: list[tuple[Any, Answer]] = []
    plain = Ahead.answer

    def answer(self: Ahead, key: Any) -> Answer | None:
        known = plain(self, key)
        if known is not None:
            found.append((key, known))
        return known

    monkeypatch.setattr(Ahead, "answer", answer)
    return found


def assert_same(found: tnb.Comparison, expected: tnb.Comparison) -> None:
    assert found.result.identical(expected.result)
    assert found.findings == expected.findings
    assert found.notes == expected.notes
    assert found.observed == expected.observed
    assert found.preflight == expected.preflight
    assert found._repr_html_() == expected._repr_html_()


def test_the_reference_has_what_is_asked_about(alone: tnb.Comparison) -> None:
    causes = {finding.cause for finding in alone.findings}
    assert {"gelu_variant", "norm_eps"} <= causes
    assert alone.first_divergence is not None


def test_a_helping_thread_changes_nothing(
    runs: tuple[Dump, Dump], alone: tnb.Comparison, taken: list[Any]
) -> None:
    assert_same(tnb.compare(*runs), alone)
    assert taken or ahead.threads() < 2


@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.long), 4])
def test_threads_change_nothing(
    runs: tuple[Dump, Dump], alone: tnb.Comparison, taken: list[Any], count: int
) -> None:
    with ThreadPoolExecutor(count) as executor:
        assert_same(tnb.compare(*runs, executor=executor), alone)
    assert {key.name for key, _ in taken} >= SENT


def test_values_are_looked_at_elsewhere(tmp_path: Path, taken: list[Any]) -> None:
    sides = [_unrelated(tmp_path / str(is_left), is_left=is_left) for is_left in (True, False)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ahead, "threads", lambda: 1)
        expected = tnb.compare(*sides)
    with ThreadPoolExecutor(2) as executor:
        assert_same(tnb.compare(*sides, executor=executor), expected)
    assert "detect_values" in {key.name for key, _ in taken}


@pytest.mark.parametrize("window", [1, pytest.param(100, marks=pytest.mark.long)])
def test_how_many_are_sent_changes_nothing(
    runs: tuple[Dump, Dump],
    alone: tnb.Comparison,
    monkeypatch: pytest.MonkeyPatch,
    window: int,
) -> None:
    monkeypatch.setattr(ahead, "_WINDOW", window)
    with ThreadPoolExecutor(3) as executor:
        assert_same(tnb.compare(*runs, executor=executor), alone)


def test_processes_change_nothing(
    runs: tuple[Dump, Dump], alone: tnb.Comparison, taken: list[Any]
) -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        assert_same(tnb.compare(*runs, executor=executor), alone)
    # While workers start, the caller answers some itself.
    assert {key.name for key, _ in taken} & SENT


@pytest.mark.extra
def test_distributed_workers_change_nothing(
    runs: tuple[Dump, Dump], alone: tnb.Comparison, taken: list[Any]
) -> None:
    import distributed

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            found = tnb.compare(*runs, executor=client.get_executor())
    assert_same(found, alone)
    assert {key.name for key, _ in taken} & SENT


@pytest.mark.parametrize(
    "budget", [0.1, *(pytest.param(one, marks=pytest.mark.long) for one in (0.02, 0.5, math.inf))]
)
def test_what_a_budget_leaves_out_is_the_same(
    runs: tuple[Dump, Dump], monkeypatch: pytest.MonkeyPatch, budget: float
) -> None:
    monkeypatch.setattr(thresholds, "FREE_ELEMENTS", 1 << 18)
    monkeypatch.setattr(thresholds, "LEAST_SECONDS", 1e9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ahead, "threads", lambda: 1)
        expected = tnb.compare(*runs, budget=budget)
    with ThreadPoolExecutor(4) as executor:
        assert_same(tnb.compare(*runs, budget=budget, executor=executor), expected)
    assert_same(tnb.compare(*runs, budget=budget), expected)
    assert bool(expected.notes) == (budget < 1)


def test_small_differences_and_values_in_memory_are_not_sent(
    monkeypatch: pytest.MonkeyPatch, taken: list[Any]
) -> None:
    memory = [_dump(None, is_left=is_left) for is_left in (True, False)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ahead, "threads", lambda: 1)
        expected = tnb.compare(*memory)
    sent: list[Callable[..., Any]] = []

    class Elsewhere(Executor):
        """Looks as if it were another process."""

        def submit(self, function: Any, /, *arguments: Any, **_: Any) -> Future[Any]:
            sent.append(function)
            future: Future[Any] = Future()
            future.set_result(function(*arguments))
            return future

    assert_same(tnb.compare(*memory, executor=Elsewhere()), expected)
    assert answer_apart not in sent
    assert not taken
    monkeypatch.setattr(thresholds, "SCREENED_FROM", 1 << 30)
    with ThreadPoolExecutor(1) as executor:
        tnb.compare(*memory, executor=executor)
    assert not taken


class _Faulty(Executor):
    """Runs tasks at once, but those of the diagnosis in the way of a test."""

    def __init__(self, way: Callable[[Future[Any], Callable[[], Any]], None]) -> None:
        self.way, self.asked = way, 0

    def submit(self, function: Any, /, *arguments: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if function is answer_apart:
            self.asked += 1
            self.way(future, lambda: function(*arguments))
        else:
            future.set_result(function(*arguments))
        return future


def test_a_dead_worker_costs_its_question(runs: tuple[Dump, Dump], alone: tnb.Comparison) -> None:
    def die(future: Future[Any], _: Any) -> None:
        future.set_exception(BrokenExecutor("gone"))

    executor = _Faulty(die)
    found = tnb.compare(*runs, executor=executor)
    # The others are asked here.
    (note,) = [note for note in found.notes if "explanations.not_asked" in ids_of(note)]
    reasons = {reason.id: reason.values["count"] for reason in note.values["reasons"]}
    assert reasons["explanations.not_asked_lost"] == 1
    assert len(found.findings) >= len(alone.findings) - 1
    assert len(found.findings) > 1


def test_what_cannot_travel_is_asked_here(runs: tuple[Dump, Dump], alone: tnb.Comparison) -> None:
    def refuse(future: Future[Any], _: Any) -> None:
        future.set_exception(TypeError("cannot pickle"))

    executor = _Faulty(refuse)
    assert_same(tnb.compare(*runs, executor=executor), alone)
    assert executor.asked


def test_an_interrupt_keeps_what_was_found(runs: tuple[Dump, Dump]) -> None:
    done: list[int] = []

    def stop(future: Future[Any], answer: Callable[[], Any]) -> None:
        done.append(1)
        if len(done) < 12:
            future.set_result(answer())
        else:
            future.set_exception(KeyboardInterrupt())

    with pytest.warns(IncompleteWarning, match="interrupted"):
        found = tnb.compare(*runs, executor=_Faulty(stop))
    assert "gelu_variant" in {finding.cause for finding in found.findings}
    assert "explanations.interrupted" in [one for note in found.notes for one in ids_of(note)]


def test_a_file_that_goes_away_costs_its_question(tmp_path: Path) -> None:
    sides = [_dump(tmp_path / str(is_left), is_left=is_left) for is_left in (True, False)]
    gone = tmp_path / "True" / "Module.norms.1.LayerNorm.forward.0.output.0.npy"

    def remove(future: Future[Any], answer: Callable[[], Any]) -> None:
        gone.unlink(missing_ok=True)
        future.set_result(answer())

    found = tnb.compare(*sides, executor=_Faulty(remove))
    causes = {finding.cause for finding in found.findings}
    assert "gelu_variant" in causes
    assert "norm_eps" not in causes


def test_no_thread_is_left_behind(runs: tuple[Dump, Dump]) -> None:
    before = threading.active_count()
    tnb.compare(*runs)
    assert threading.active_count() == before


def test_who_rounds_in_another_way_answers_nothing(
    runs: tuple[Dump, Dump], alone: tnb.Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(future: Future[Any], answer: Callable[[], Any]) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(ahead, "arithmetic", lambda: ("numpy 3",))
            future.set_result(answer())

    executor = _Faulty(other)
    assert_same(tnb.compare(*runs, executor=executor), alone)
    assert 1 <= executor.asked <= ahead._WINDOW


def test_arithmetic_is_that_of_the_threads_of_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = ahead.arithmetic.__wrapped__
    names = {name for some in ahead._THREADS_OF_BLAS for name in some}
    for name in names:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    three = plain()
    assert plain() == three
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert plain() != three
    for name in names - {"OMP_NUM_THREADS"}:  # these come first
        monkeypatch.setenv(name, "3")
    assert plain() == three


def _told(number: int) -> int:
    return number


def _questions(count: int, manner: Manner | None = None) -> Iterator[Question]:
    for number in range(count):
        yield Question(number, _told, lambda number=number: (number,), manner)


def test_answers_come_in_any_order_and_unasked_ones_are_dropped() -> None:
    with ThreadPoolExecutor(2) as executor:
        waiting = Ahead(executor, Budget(1 << 30))
        waiting.plan(_questions(20))
        assert waiting.answer(0) is None  # nothing was sent before
        for key in (3, 1, 2):
            found = waiting.answer(key)
            assert found is not None
            assert found.value == key
        waiting.forget(4)
        assert waiting.answer(4) is None
        waiting.plan([])
        assert waiting.answer(5) is None
        waiting.close()


def test_of_a_kind_no_more_are_sent_than_will_be_asked() -> None:
    alike = Manner("x", 1e-3, 0.8, 1.0)
    budget = Budget(1 << 30)
    with ThreadPoolExecutor(2) as executor:
        waiting = Ahead(executor, budget)
        waiting.plan(_questions(9, alike))
        waiting.answer(0)
        assert [*waiting._out] == [1, 2]
        budget.tell(alike, answered=True)
        waiting.answer(1)
        assert len(waiting._out) > 2
        waiting.close()


def test_a_budget_notes_what_is_asked_apart_and_takes_it_later() -> None:
    budget = Budget(0)
    room = thresholds.FREE_ELEMENTS

    def read(*elements: int) -> int:
        budget.require(sum(elements))
        for one in elements:
            budget.charge(one)
        return len(elements)

    answer = answer_apart(read, (room // 4, room // 2), budget.of_question)
    assert (answer.value, budget.read) == (2, 0)
    assert budget.takes(answer.asked, 0.0)
    assert budget.read == room // 4 + room // 2
    # A second one has no room: nothing of it counts, and whoever asks it is refused alike.
    assert not budget.takes(answer.asked, 0.0)
    assert budget.read == room // 4 + room // 2
    with pytest.raises(BudgetSpentError), budget.question():
        read(room // 4, room // 2)
    assert budget.takes(answer.asked, 0.0, is_first=True)
    refused = answer_apart(read, (thresholds.QUESTION_ELEMENTS + 1,), budget.of_question)
    assert not refused.is_told
    free = answer_apart(read, (thresholds.QUESTION_ELEMENTS + 1,), None)
    assert free.is_told


def test_a_lost_worker_ends_the_sending() -> None:
    def die(future: Future[Any], _: Any) -> None:
        future.set_exception(BrokenExecutor("gone"))

    waiting = Ahead(_Faulty(die), Budget(1 << 30))
    waiting.plan(_questions(9))
    waiting.answer(0)
    with pytest.raises(LostError):
        waiting.answer(1)
    assert waiting.answer(2) is None
