"""A recording while it runs: started, stepped, paused and stopped, whoever reads it later."""

from __future__ import annotations

import atexit
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from traceback import walk_tb
from typing import Any, TypeVar

from troubleshooter_nb.capture.cells import Cells
from troubleshooter_nb.capture.in_folder import InFolder, Nowhere
from troubleshooter_nb.capture.plan import Plan, Store
from troubleshooter_nb.capture.recorder import Recorder
from troubleshooter_nb.capture.selection import Names, check_found
from troubleshooter_nb.capture.tally import Tally
from troubleshooter_nb.errors import (
    ArgumentError,
    ArgumentTypeError,
    NotOfferedError,
    TroubleshooterWarning,
)
from troubleshooter_nb.frameworks import Adapter, recording_of
from troubleshooter_nb.messages import Message, told
from troubleshooter_nb.naming import Site
from troubleshooter_nb.run_card import RunCard

_RUNS = ("running", "paused")
# Recordings that run; who holds them is the user alone.
_running: weakref.WeakSet[Run] = weakref.WeakSet()
_LONGEST_WAIT = 5.0  # seconds that dropping a recording waits for its end
Own = TypeVar("Own", bound="Run")


class Run:
    """What watches a network, and writes what it sees; see `record`.

    Attributes
    ----------
    label : str
    folder : Path or None
        Where it is written; None in memory.
    state : str
        ``not started``, ``running``, ``paused``, ``stopped`` or ``broken``.
    """

    def __init__(
        self,
        networks: Mapping[str, Any],
        adapter: Adapter,
        plan: Plan,
        steps: Callable[[int], bool],
        names: Names,
        folder: Path | None = None,
        rank: int | None = None,
        label: str | None = None,
    ) -> None:
        self.folder = folder
        self._networks, self._plan, self._steps, self._names = networks, plan, steps, names
        self._adapter = adapter
        self._framework = recording_of(self._adapter)
        self.label = label or (folder.name if folder is not None else self._adapter.NAME)
        self._given_rank, self._rank = rank, rank or 0
        self._recorder: Recorder | None = None
        self._kept: Store = Nowhere()
        self._cells: Cells | None = None
        self._tally: Tally | None = None
        self._when_dropped: Any = None
        self._grad = True
        self._edition = 0  # raised whenever what was recorded before is void
        self.state = "not started"

    # Starting and stopping

    def __enter__(self: Own) -> Own:
        return self.start()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if self._has_stopped(error):
            self._stop("stopped")
            self._framework.abandon()
            return True
        if error is not None and not self._kept.is_failed:
            self._miss_the_rest()
        self._stop("stopped" if error is None else "broken")
        self._recover(error)
        return False

    def _has_stopped(self, error: BaseException | None) -> bool:
        """Whether an exception is how this recording ended its block."""
        return False

    def start(self: Own) -> Own:
        """Begin to record; what this recording held before is replaced.

        In a notebook, a cell that is run again replaces what it recorded before. A recording runs
        as long as it has a name: one that is dropped is stopped, with a warning.
        """
        self._stop("stopped")
        self._framework.check_mode(self._plan.operators, self._plan.compiled)
        self._check_asked()
        self._edition += 1
        recorder = self._recorder = self._new_recorder()
        self._grad = self._framework.state()[0]
        try:
            if self._steps(0):
                recorder.install()
            else:
                recorder.find_layers()
        except BaseException:
            self._kept.close(complete=False)
            raise
        self.state = "running"
        self._tally = Tally(recorder)
        self._cells = Cells.watch(_ToldByCells(self))
        given = (recorder, self._kept, self._tally, self._cells, self.label)
        self._when_dropped = weakref.finalize(self, _drop, *given)
        self._when_dropped.atexit = False
        _running.add(self)
        # The last one registered is the first to run: the files are still open then.
        atexit.unregister(_stop_all)
        atexit.register(_stop_all)
        return self

    def stop(self) -> Any:
        """End the recording and take everything away."""
        self._stop("stopped")

    def _check_asked(self) -> None:
        """Refuse what cannot be recorded, before an earlier recording is replaced."""
        trial = Recorder(self._framework, self._networks, self._plan, Nowhere())
        known = [layer.path for layer in trial.find_layers()]
        compiled = [where for kind, where in trial.missing if kind == "compiled"]
        if compiled and self._plan.operators and self._plan.compiled == "boundary":
            raise NotOfferedError(Message("recorder.compiled_operators", names=compiled))
        if self._plan.level == "module":
            wanted = self._plan.names
            found = sum(wanted is None or wanted(Site("module", path)) for path in known)
            check_found(self._names, found, known)

    def _new_recorder(self) -> Recorder:
        rank = self._adapter.rank_and_size()[0] if self._given_rank is None else self._given_rank
        self._rank = rank
        self._kept = self._store(self._header(rank), rank)
        return Recorder(self._framework, self._networks, self._plan, self._kept)

    def _store(self, header: dict[str, Any], rank: int) -> Store:
        """Where what is recorded goes."""
        assert self.folder is not None
        return InFolder(self.folder / f"rank{rank}", header, self._cannot_write)

    def _header(self, rank: int) -> dict[str, Any]:
        card = RunCard.current(self._adapter.NAME).to_dict()
        options = {
            "level": self._plan.level,
            "keep": self._plan.keep if isinstance(self._plan.keep, str) else "function",
            "compiled": self._plan.compiled,
        }
        is_given = self._given_rank is not None  # of how many, only the user knows
        ranks = {} if is_given else {"ranks": self._adapter.rank_and_size()[1]}
        return {
            "framework": self._adapter.NAME,
            "module_word": self._framework.MODULE_WORD,
            "rank": rank,
            **ranks,
            "card": card,
            "options": options,
        }

    def _stop(self, state: str) -> None:
        recorder, tally = self._recorder, self._tally
        if recorder is None or tally is None or not self.is_running:
            return
        self._when_dropped.detach()
        self.state = state
        _running.discard(self)
        if self._cells is not None:
            self._cells.close()
        _end(recorder, self._kept, tally, complete=state == "stopped")

    def _miss_the_rest(self) -> None:
        if self._recorder is not None and self.is_running:
            self._recorder.miss("interrupted", "")

    def _recover(self, error: BaseException | None) -> None:
        """After an interrupt within what records, have the framework as it was at the start."""
        if isinstance(error, KeyboardInterrupt) and _is_inside(error):
            self._framework.recover(self._grad)

    def _cannot_write(self) -> None:
        """Record nothing more: the error is on its way to the step that runs."""
        recorder = self._recorder
        if recorder is None or not self.is_running:
            return
        recorder.is_paused = True
        recorder.miss("interrupted", "")
        if not self._plan.operators:
            self._stop("broken")
        # What sees operators is inside one of them now and cannot be taken away before its end.

    # What cells of a notebook say

    def _begin_run(self, run: int, step: int, replaced: int | None) -> None:
        """What comes belongs to this run of a cell; what the replaced run gave is void."""
        recorder, tally = self._recorder, self._tally
        if recorder is None or tally is None or not self.is_running:
            return
        recorder.begin_run(replaced)
        if replaced is None and step != recorder.step:
            recorder.forget_step()
        tally.begin(run, replaced)
        recorder.step, recorder.run = step, run
        if replaced is not None:
            self._edition += 1
            recorder.values.size_bytes -= self._kept.forget(replaced)
        self._follow_steps(recorder)

    def _end_run(self, error: BaseException | None) -> None:
        """A cell has ended; one that was interrupted, or could not be recorded, ends this too."""
        if self._has_stopped(error):
            self._stop("stopped")
            self._framework.abandon()
        elif isinstance(error, KeyboardInterrupt):
            self._miss_the_rest()
            self._stop("broken")
            self._recover(error)
        elif self._kept.is_failed:
            self._stop("broken")

    # While it runs

    def step(self) -> None:
        """Say that a step of the training is over; the next call belongs to the next one."""
        recorder = self._running_recorder()
        recorder.forget_step()
        recorder.step += 1
        recorder.sink.put({"step": recorder.step})
        _put_missing(recorder, self._tally)
        self._kept.flush(to_disk=False)  # a step that is over survives whatever comes
        self._follow_steps(recorder)

    def _follow_steps(self, recorder: Recorder) -> None:
        """Have hooks in the steps that are recorded, and none in the others."""
        wanted = self._steps(recorder.step)
        if wanted and not recorder.is_installed:
            recorder.install()
        elif not wanted and recorder.is_installed:
            recorder.remove()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """A context in which nothing is recorded, such as a warm-up or an evaluation."""
        recorder = self._running_recorder()
        earlier, recorder.is_paused, self.state = recorder.is_paused, True, "paused"
        try:
            yield
        finally:
            recorder.is_paused = earlier
            if self.state == "paused" and not earlier:
                self.state = "running"

    def mark(self, name: str, value: Any) -> None:
        """Record a tensor, or a nested value, by a name of one's own; its gradient too."""
        if not isinstance(name, str) or not name:
            raise ArgumentTypeError(Message("recorder.mark_name", given=repr(name)))
        recorder = self._running_recorder()
        if recorder.is_installed and not recorder.is_paused:
            recorder.mark(name, value)

    def flush(self) -> None:
        """Have everything so far in the files, also after a loss of power."""
        recorder = self._running_recorder()
        recorder.drain()
        self._kept.flush()

    def _running_recorder(self) -> Recorder:
        if self._kept.is_failed:
            self._stop("broken")
        if self._recorder is None or not self.is_running:
            raise ArgumentError(Message("recorder.not_running", state=self.state))
        return self._recorder

    # What came of it

    @property
    def is_running(self) -> bool:
        """Whether it was started and not stopped; also while it is paused."""
        return self.state in _RUNS

    @property
    def missing_counts(self) -> dict[tuple[str, str], int]:
        """How often what could not be recorded, by kind and place."""
        return {} if self._tally is None else self._tally.missing()

    def _settle(self) -> None:
        """Hand over what is measured but not told yet."""
        recorder = self._recorder
        if recorder is None:
            raise ArgumentError(Message("recorder.not_running", state=self.state))
        if self.is_running:
            recorder.drain()
            _put_missing(recorder, self._tally)

    @property
    def steps(self) -> list[int]:
        """Steps of which calls were recorded."""
        return [] if self._tally is None else sorted(self._tally.calls_of_steps())


class _ToldByCells:
    """What cells tell a recording, which it does not keep alive."""

    def __init__(self, recording: Run) -> None:
        self._recording = weakref.ref(recording)

    @property
    def current_step(self) -> int:
        recording = self._recording()
        recorder = None if recording is None else recording._recorder
        return 0 if recorder is None else recorder.step

    def begin_run(self, run: int, step: int, replaced: int | None) -> None:
        recording = self._recording()
        if recording is not None:
            recording._begin_run(run, step, replaced)

    def begin_again(self) -> None:
        recording = self._recording()
        if recording is not None:
            recording._stop("stopped")

    def end_run(self, error: BaseException | None) -> None:
        recording = self._recording()
        if recording is not None:
            recording._end_run(error)


def _end(recorder: Recorder, kept: Store, tally: Tally, *, complete: bool) -> None:
    """Take everything away and write the end, whatever fails on the way."""
    with ExitStack() as last:
        last.callback(kept.close, complete=complete)
        last.callback(_put_missing, recorder, tally)
        last.callback(recorder.forget_step)
        last.callback(recorder.remove)
        recorder.never_called()


def _put_missing(recorder: Recorder, tally: Tally | None) -> None:
    for (kind, where), count in ({} if tally is None else tally.news()).items():
        recorder.sink.put({"missing": {"kind": kind, "where": [where], "count": count}})


def _drop(
    recorder: Recorder,
    kept: Store,
    tally: Tally,
    cells: Cells | None,
    label: str,
) -> None:
    """End a recording that nobody holds any more."""
    recorder.is_paused = True
    if cells is not None:
        cells.close()
    recorder.leave()
    recorder.miss("interrupted", "")
    # The collector may have come here in the middle of a `put`, whose lock is held by this thread.
    ending = threading.Thread(
        target=_end, args=(recorder, kept, tally), kwargs={"complete": False}, daemon=True
    )
    ending.start()
    ending.join(_LONGEST_WAIT)
    text = Message("recorder.dropped", label=label)
    warnings.warn(told(text), TroubleshooterWarning, stacklevel=3)


def _is_inside(error: BaseException) -> bool:
    """Whether an exception came out of code of this package."""
    own = __name__.rpartition(".capture.")[0]
    frames = (frame for frame, _ in walk_tb(error.__traceback__))
    names = (str(frame.f_globals.get("__name__", "")) for frame in frames)
    return any(name.startswith(f"{own}.") for name in names)


def _stop_all() -> None:
    """What the end of the program does with recordings that run."""
    for recording in list(_running):
        recording._stop("broken")
