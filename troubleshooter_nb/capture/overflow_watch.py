"""Watch a network for values that are not finite, or come near to it, while it runs."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from troubleshooter_nb.capture.arguments import check_words, framework_of, networks_of
from troubleshooter_nb.capture.cells import Cells
from troubleshooter_nb.capture.missing import Missing
from troubleshooter_nb.capture.overflow import Judge, Row, classify, constants_of
from troubleshooter_nb.capture.overflow_calls import StepCalls
from troubleshooter_nb.capture.overflow_found import Findings, Overflow
from troubleshooter_nb.capture.plan import Event, Level, Plan, Store
from troubleshooter_nb.capture.recorder import Recorder
from troubleshooter_nb.capture.run import Run
from troubleshooter_nb.capture.schedule import Steps, is_recorded
from troubleshooter_nb.capture.selection import Names, choice_of
from troubleshooter_nb.errors import ArgumentError, OverflowFoundError
from troubleshooter_nb.frameworks.recording import Compiled
from troubleshooter_nb.messages import Message
from troubleshooter_nb.render.missing_words import missing_rows
from troubleshooter_nb.render.overflow_view import message_of_row
from troubleshooter_nb.thresholds import CALLS_OF_A_STEP, NEAR_OVERFLOW

Action = Literal["collect", "raise"]
# Kinds of rows at which a watch raises; near the limit too, where the user said what near is.
_RAISED = ("starts", "passed_on", "saturated")


def watch_overflow(
    net: Any = None,
    *,
    action: Action = "collect",
    near: float | None = None,
    level: Level = "module",
    names: Names = None,
    steps: Steps = None,
    gradients: bool = True,
    compiled: Compiled = "boundary",
    framework: str | None = None,
) -> OverflowWatch:
    """Find the first layer that makes NaN, Inf, or values at the limit of their dtype.

    Of each call it is known what it was given and what it gave, forward and backward::

        with tnb.watch_overflow(net) as watch:
            for batch in loader:
                train(batch)
                watch.step()
        watch.overflow

    Parameters
    ----------
    net : module or cell, list, or dict by name, optional
        Of torch or of MindSpore in PyNative mode. None: operators of the whole block, with
        ``level="api"``.
    action : {"collect", "raise"}
        Look at all, or raise at the first that starts, comes in from outside, or is saturated.
    near : float, optional
        Share of the largest finite number of its dtype from which a value is near the limit, above
        0 and at most 1; default 1/8. With ``action="raise"`` what comes so near is raised too, if
        this is given.
    level : {"module", "api", "both"}
        Modules: layers, and the containers for what is computed between layers. "both" also names
        the operator, in forward.
    names : str, list of str or function, optional
        Layers to watch, as in `record`. What comes from others has no start.
    steps : int, range, list, Schedule or function, optional
        Steps to watch; `OverflowWatch.step` counts them. Nothing is hooked in the others.
    gradients : bool
        Also the backward pass.
    compiled : {"boundary", "eager"}
        Compiled parts are watched from outside, or run as they are written.
    framework : {"torch", "mindspore"}, optional
        Whose operators are watched without a network; default the one that is loaded.

    Returns
    -------
    OverflowWatch
        A context with ``start()``, ``stop()`` and ``step()``; `OverflowWatch.overflow` is the
        answer, at any time.

    Raises
    ------
    OverflowFoundError
        While the network runs, with ``action="raise"``: an ArithmeticError.
    TypeError
        For what is no network, or no way to say names or steps.
    ValueError
        For an unknown word among the arguments, or a share that is none.

    Notes
    -----
    No number changes by it. Only statistics are kept, of the step that runs; after `step` the
    counts and the first row of each place are. On an accelerator, "collect" reads them once a
    step, and "raise" waits for the device at every call.
    """
    check_words(action=action, level=level, compiled=compiled)
    is_number = isinstance(near, int | float) and not isinstance(near, bool)
    if near is not None and not (is_number and 0 < near <= 1):
        raise ArgumentError(Message("recorder.near", given=repr(near)))
    plan = Plan(
        level,
        gradients=gradients,
        names=choice_of(names),
        keep="statistics",
        compiled=compiled,
        own_parts=True,
        fingerprints=False,
    )
    kinds = () if action == "collect" else _RAISED if near is None else (*_RAISED, "near_limit")
    found = _Found(kinds, NEAR_OVERFLOW if near is None else float(near))
    networks = networks_of(net, level)
    adapter = framework_of(networks, framework)
    recording = _Silent(networks, adapter, plan, is_recorded(steps), names)
    return OverflowWatch(recording, found)


class OverflowWatch:
    """Looks at the values of a network while it runs; see `watch_overflow`."""

    def __init__(self, recording: _Silent, found: _Found) -> None:
        self._recording, self._found = recording, found
        recording.found, found.recording = found, weakref.ref(recording)

    def __enter__(self) -> OverflowWatch:
        return self.start()

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._recording.__exit__(kind, error, trace)
        self._recording.take_away()
        self._found.raise_if_hidden(error)

    def start(self) -> OverflowWatch:
        """Begin to watch; what this watch found before is forgotten.

        It runs as long as it has a name, as a recording does.
        """
        self._recording.take_away()
        self._recording.start()
        return self

    def stop(self) -> Overflow:
        """End the watch and take everything away; what it found."""
        self._recording.end("stopped")
        return self.overflow

    def step(self) -> None:
        """Say that a step of the training is over: what was seen in it is judged now."""
        self._recording.take_away()
        self._recording.step()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """A context in which nothing is watched."""
        with self._recording.pause():
            yield

    @property
    def state(self) -> str:
        """``not started``, ``running``, ``paused``, ``stopped`` or ``broken``."""
        return self._recording.state

    @property
    def overflow(self) -> Overflow:
        """What was found so far."""
        self._recording.take_away()
        if self.state in ("running", "paused"):
            self._recording.flush()
        return self._found.now().overflow(self.missing.rows, self.state)

    @property
    def missing(self) -> Missing:
        """What could not be watched, and what to do about it."""
        return Missing(tuple(missing_rows(self._recording.missing_counts)))

    def __repr__(self) -> str:
        """What was found so far."""
        return repr(self.overflow)

    def _repr_html_(self) -> str:
        return self.overflow._repr_html_()


class _Silent(Run):
    """A recording of which nothing stays: its events go to what looks for overflow."""

    found: _Found

    def _store(self, header: dict[str, Any], rank: int) -> Store:
        self.found.begin(rank)
        return self.found

    def end(self, state: str) -> None:
        """End, and take everything away."""
        self._stop(state)

    def break_off(self) -> None:
        """Look at nothing any more, and take everything away as soon as it can be."""
        self.end("broken")
        if self._plan.operators:
            # What sees operators may be inside a call of its own, and come back at its end.
            Cells.at_end(self.take_away)

    def take_away(self) -> None:
        """Take away what could not be when this ended."""
        self._framework.remove_waiting()


class _Found:
    """Takes the events of a recorder, and judges them: at the end of a step, or at each call."""

    is_failed = False

    def __init__(self, raised: Sequence[str], near: float) -> None:
        self.recording: Callable[[], _Silent | None] = lambda: None
        self._raised, self._near = raised, near
        self.begin(0)

    def begin(self, rank: int) -> None:
        """Know nothing."""
        self._step, self._findings = StepCalls(rank), Findings()
        self._error: OverflowFoundError | None = None
        self._new_judge()

    def _recorder(self) -> Recorder | None:
        recording = self.recording()
        return None if recording is None else recording._recorder

    def _new_judge(self) -> None:
        self._judge = Judge(self._near)
        self._constants: dict[int, list[float]] = {}

    def forget(self, run: int) -> int:
        """Nothing is kept but what was found, which an event says is void."""
        return 0

    def flush(self, *, to_disk: bool = True) -> None:
        """Nothing is on its way."""

    def close(self, *, complete: bool) -> None:
        """Judge what is left."""
        self.end_step()

    def put(self, event: Event, array: np.ndarray | None = None) -> None:
        """Take an event; raise if that is asked for and there is reason to."""
        self._step.put(event)
        if "ended" in event:
            if self._raised and self._error is None and event["status"] == "ok":
                self._look_forward(event["ended"])
            if len(self._step) >= CALLS_OF_A_STEP:
                self._end_long_step(event["ended"])
        elif "step" in event and len(event) == 1:
            self.end_step()
        elif "replaced" in event:
            self.end_step()
            self._findings.forget_run(event["replaced"])
        elif "pass" in event and self._raised and self._error is None:
            self._look_backward(event["value"])

    def _end_long_step(self, number: int) -> None:
        """Judge what was seen although no step was told of, lest memory fill up."""
        recorder = self._recorder()
        if recorder is not None and self._step.is_outermost(number):
            recorder.forget_step()
            self.end_step()

    # Raising

    def _look_forward(self, number: int) -> None:
        """Judge the call that ended now; those in it were judged before."""
        self._read()
        call = self._step.ended(number)
        if call is None:
            return
        inner = [self._constants.get(each, []) for each in self._step.inner_of(number)]
        constants = self._constants[number] = constants_of(call, inner)
        row = self._judge.row_of(call, constants)
        if row is not None and row["kind"] in self._raised:
            row["inside"] = self._step.module_around(number)
            if row["kind"] == "passed_on":
                row["between"] = self._step.made_between(number)
            self._raise(row)

    def _look_backward(self, number: int) -> None:
        """Judge all calls, if a gradient is such that there may be something."""
        self._read()
        share = self._near if "near_limit" in self._raised else 1.0
        if not self._step.is_suspect(number, share):
            return
        rows = classify(self._step.calls(), self._near)
        new = (r for r in rows if r["direction"] == "backward" and r["kind"] in self._raised)
        if (row := next(new, None)) is not None:
            self._raise(row)

    def _read(self) -> None:
        recorder = self._recorder()
        if recorder is not None:
            recorder.values.drain()

    def _raise(self, row: Row) -> None:
        self._error = OverflowFoundError(message_of_row(row))
        recording = self.recording()
        if recording is not None:
            recording.break_off()
        raise self._error

    def raise_if_hidden(self, error: BaseException | None) -> None:
        """Raise again what a framework, on its way through a backward pass, made another error."""
        if self._error is None or error is None:
            return
        seen: BaseException | None = error
        while seen is not None:
            if seen is self._error:
                return
            seen = seen.__cause__ or seen.__context__
        if str(self._error) in str(error):
            raise self._error from error

    # Collecting

    def end_step(self) -> None:
        """Judge the calls of the step; their rows stay."""
        self._judge_step(self._findings)
        self._step.clear()
        self._new_judge()

    def now(self) -> Findings:
        """What was found until now, the step that runs included."""
        if not len(self._step):
            return self._findings
        found = self._findings.copy()
        self._judge_step(found)
        return found

    def _judge_step(self, found: Findings) -> None:
        calls = self._step.calls()
        found.add(classify(calls, self._near), calls, self._step.count_of_values)
