"""Record what a network does while it runs."""

from __future__ import annotations

import atexit
import re
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from troubleshooter_nb.capture.cells import Cells
from troubleshooter_nb.capture.missing import Missing
from troubleshooter_nb.capture.plan import Event, Level, Plan, Sink
from troubleshooter_nb.capture.recorder import Recorder
from troubleshooter_nb.capture.schedule import Steps, is_recorded
from troubleshooter_nb.capture.selection import Keep, Names, check_found, choice_of, keep_of
from troubleshooter_nb.dump import ArrayInMemory, ArraySource, Dump
from troubleshooter_nb.errors import ArgumentError, ArgumentTypeError, NotOfferedError, path_of
from troubleshooter_nb.formats.record_entries import FORMAT, dump_of, missing_rows
from troubleshooter_nb.frameworks import Adapter, adapter_of_network, loaded, recording_of
from troubleshooter_nb.frameworks.recording import Compiled
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming import Site
from troubleshooter_nb.options import get_options
from troubleshooter_nb.render.recording_view import recording_html, recording_text
from troubleshooter_nb.run_card import RunCard

_UNITS = {"": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_UNITS |= {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)\s*", re.IGNORECASE)


def record(
    net: Any = None,
    *,
    to: str | PathLike[str] | None = None,
    level: Level = "module",
    inputs: bool = True,
    outputs: bool = True,
    gradients: bool = True,
    parameters: bool = True,
    names: Names = None,
    steps: Steps = None,
    keep: Keep | Callable[[Site], Keep | None] = "tensor",
    compiled: Compiled = "boundary",
    replayable: bool = False,
    limit: str | int = "4 GiB",
    rank: int | None = None,
    label: str | None = None,
) -> Recording:
    """Record the calls of a network: what each layer reads, holds, gives, and all gradients.

    No number changes by it, and nothing stays registered behind the block::

        with tnb.record(net) as rec:
            net(x).sum().backward()
        tnb.compare(rec.dump, other)

    Parameters
    ----------
    net : module or cell, list, or dict by name, optional
        Of torch or of MindSpore in PyNative mode. None: operators of the whole block, with
        ``level="api"``.
    to : path, optional
        A folder that is written while the network runs, one folder ``rank<k>`` per process;
        `open_dump` opens it at any time, also after a crash. An earlier recording there is
        replaced. Default: in memory.
    level : {"module", "api", "both"}
        Calls of modules, of operators (``Functional.linear``), or both.
    inputs, outputs : bool
        What calls are given, as it is before the call, and what they give.
    gradients : bool
        Of both, and of parameters. A gradient belongs to a value and is its whole gradient.
    parameters : bool
        Parameters and buffers of the layers called, as they are before the first call of a step.
    names : str, list of str or function, optional
        Paths to record, ``*`` and ``?`` stand for anything; ``f(site)`` says True or False.
    steps : int, range, list, Schedule or function, optional
        Steps to record; `Recording.step` counts them. Nothing is hooked in the others.
    keep : {"tensor", "sample", "statistics", "digest"} or function
        All values; every n-th value with statistics; min, max, mean, norm, NaN, infinities and a
        fingerprint; a CRC-32; or what ``f(site)`` says of each, None for nothing.
    compiled : {"boundary", "eager"}
        Compiled parts stay compiled and are recorded from outside, or run as they are written.
    replayable : bool
        Also the state of the random generator at each call.
    limit : str or int
        Values kept in memory, such as ``"4 GiB"`` or a number of bytes; beyond it statistics are
        kept.
    rank : int, optional
        Default the rank of this process.
    label : str, optional
        What the dump is called; default the name of the folder or of the framework.

    Returns
    -------
    Recording
        A context; in a notebook ``rec.start()`` and ``rec.stop()`` do in two cells what ``with``
        does in one.

    Raises
    ------
    TypeError
        For what is no network, or no way to say names or steps.
    ValueError
        For an unknown word among the arguments.

    Notes
    -----
    Different from msprobe: nothing is patched, the gradient of a layer that works in place or
    returns a dict is recorded, and what could not be recorded is in `Recording.missing`.
    """
    for name, given, known in (
        ("level", level, ("module", "api", "both")),
        ("compiled", compiled, ("boundary", "eager")),
    ):
        if given not in known:
            raise ArgumentError(Message("recorder.word", name=name, given=repr(given), known=known))
    plan = Plan(
        level,
        inputs,
        outputs,
        gradients,
        parameters,
        choice_of(names),
        keep_of(keep),
        compiled,
        replayable,
        bytes_of(limit) if to is None else float("inf"),
    )
    folder = None if to is None else path_of(to)
    return Recording(_networks(net, level), plan, is_recorded(steps), folder, rank, label, names)


def bytes_of(limit: str | int) -> int:
    """A number of bytes, such as ``"4 GiB"``.

    Raises
    ------
    ValueError
        For what is none.
    """
    if isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0:
        return limit
    match = _SIZE.fullmatch(limit) if isinstance(limit, str) else None
    unit = _UNITS.get(match[2].lower().removesuffix("ytes")) if match else None
    if match is None or unit is None:
        raise ArgumentError(Message("recorder.limit", given=repr(limit)))
    return int(float(match[1]) * unit)


def _networks(net: Any, level: str) -> dict[str, Any]:
    """Networks by the name in front of their paths."""
    if net is None:
        if level != "api":
            raise ArgumentError(Message("recorder.needs_net", level=level))
        return {}
    if isinstance(net, Mapping):
        named = {str(name): each for name, each in net.items()}
    elif isinstance(net, list | tuple):
        named = {str(number): each for number, each in enumerate(net)}
    else:
        named = {"": net}
    for name, each in named.items():
        if adapter_of_network(each) is None:
            kind = type(each).__name__
            raise ArgumentTypeError(Message("recorder.no_network", name=name, type=kind))
    return named


class _Memory:
    """Events and values in memory; what a dump is made of."""

    def __init__(self, rank: int = 0, header: Event | None = None) -> None:
        self.rank = rank
        self.header: Event = header or {}
        self.events: list[Event] = []
        self.arrays: dict[int, np.ndarray] = {}
        self.complete = False
        self.notes: Sequence[str] = ()

    def put(self, event: Event, array: np.ndarray | None = None) -> None:
        """Keep an event, and its values."""
        self.events.append(event)
        if array is not None:
            self.arrays[event["value"]] = array

    def source_of(self, number: int) -> ArraySource | None:
        """The values of a number, as they are in memory."""
        array = self.arrays.get(number)
        if array is None:
            return None
        array.flags.writeable = False
        return ArrayInMemory(array)


# What is to be done with a recording, by its state.
_NEXT = {"not started": "rec.start()", "running": "rec.stop()", "": "tnb.compare(rec.dump, other)"}
# Recordings that run, each by the cell and its execution, or the line, that started it.
_running: weakref.WeakSet[Recording] = weakref.WeakSet()


class Recording:
    """What a network did, and what of it could not be recorded; see `record`.

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
        plan: Plan,
        steps: Callable[[int], bool],
        folder: Path | None,
        rank: int | None,
        label: str | None,
        names: Names,
    ) -> None:
        self.folder = folder
        self._networks, self._plan, self._steps, self._names = networks, plan, steps, names
        self._adapter = _framework(networks)
        self._framework = recording_of(self._adapter)
        self.label = label or (folder.name if folder is not None else self._adapter.NAME)
        self._given_rank, self._rank = rank, rank or 0
        self._recorder: Recorder | None = None
        self._sink: Sink | None = None
        self._writer: Any = None
        self._memory = _Memory()
        self._cells: Cells | None = None
        self._origin: Any = None
        self._dump: tuple[int, Dump] | None = None
        self.state = "not started"

    # Starting and stopping

    def __enter__(self) -> Recording:
        self._start(None)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._stop("stopped" if error is None else "broken")

    def start(self) -> Recording:
        """Begin to record; what this recording held before is replaced.

        In a notebook, a cell that is run again replaces what it recorded before.
        """
        self._start(Cells.origin(sys._getframe(1)))
        return self

    def stop(self) -> Dump:
        """End the recording and take everything away; the dump of it."""
        self._stop("stopped")
        return self.dump

    def _start(self, origin: Any) -> None:
        if self.state in ("running", "paused"):
            self._stop("stopped")
        for other in list(_running):
            if origin is not None and origin.replaces(other._origin, self._shares(other)):
                other._stop("broken")
        self._framework.check_mode()
        self._dump = None
        recorder = self._new_recorder()
        try:
            if self._steps(0):
                self._install(recorder)
            else:
                recorder.find_layers()
        except BaseException:
            self._close(complete=False)
            raise
        self._origin = origin
        self.state = "running"
        _running.add(self)
        atexit.register(self._at_exit)
        self._cells = Cells.watch(recorder, self._interrupted)

    def _shares(self, other: Recording) -> bool:
        mine = {id(net) for net in self._networks.values()}
        return mine == {id(net) for net in other._networks.values()}

    def _new_recorder(self) -> Recorder:
        rank = self._adapter.rank_and_size()[0] if self._given_rank is None else self._given_rank
        self._rank = rank
        header = self._header(rank)
        self._memory, self._writer = _Memory(rank, header), None
        if self.folder is None:
            self._sink = self._memory
        else:
            self._sink = self._writer = _writer(self.folder / f"rank{rank}", header)
        self._recorder = Recorder(self._framework, self._networks, self._plan, self._sink)
        return self._recorder

    def _header(self, rank: int) -> dict[str, Any]:
        card = RunCard.current(self._adapter.NAME).to_dict()
        options = {
            "level": self._plan.level,
            "keep": self._plan.keep if isinstance(self._plan.keep, str) else "function",
            "compiled": self._plan.compiled,
        }
        return {
            "format": FORMAT,
            "framework": self._adapter.NAME,
            "module_word": self._framework.MODULE_WORD,
            "rank": rank,
            "card": card,
            "options": options,
        }

    def _install(self, recorder: Recorder) -> None:
        recorder.install()
        compiled = [where for kind, where in recorder.missing if kind == "compiled"]
        if compiled and self._plan.operators and self._plan.compiled == "boundary":
            recorder.remove()
            raise NotOfferedError(Message("recorder.compiled_operators", names=compiled))
        known = [layer.path for layer in recorder.layers]
        if self._plan.level == "module":
            wanted = self._plan.names
            found = sum(wanted is None or wanted(Site("module", path)) for path in known)
            check_found(self._names, found, known)

    def _stop(self, state: str) -> None:
        recorder = self._recorder
        if recorder is None or self.state not in ("running", "paused"):
            return
        try:
            with _closing(self._cells):
                recorder.never_called()
                recorder.remove()
                recorder.forget_step()
                self._put_missing()
        finally:
            self.state = state
            _running.discard(self)
            atexit.unregister(self._at_exit)
            self._close(complete=state == "stopped")

    def _close(self, *, complete: bool) -> None:
        if self._writer is not None:
            self._writer.close(complete=complete)
        else:
            self._memory.complete = complete
            self._memory.events.append({"end": {"complete": complete}})

    def _at_exit(self) -> None:
        self._stop("broken")

    def _interrupted(self) -> None:
        if self._recorder is not None:
            self._recorder.miss("interrupted", "")
        self._stop("broken")

    # While it runs

    def step(self) -> None:
        """Say that a step of the training is over; the next call belongs to the next one."""
        recorder = self._running_recorder()
        recorder.forget_step()
        recorder.step += 1
        recorder.sink.put({"step": recorder.step})
        self._put_missing()
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
        if self._writer is not None:
            self._writer.flush()

    def _running_recorder(self) -> Recorder:
        if self._recorder is None or self.state not in ("running", "paused"):
            raise ArgumentError(Message("recorder.not_running", state=self.state))
        return self._recorder

    # What came of it

    @property
    def dump(self) -> Dump:
        """What was recorded so far, as a dump."""
        recorder = self._recorder
        if recorder is None:
            raise ArgumentError(Message("recorder.not_running", state=self.state))
        if self.state in ("running", "paused"):
            recorder.drain()
        if self.folder is not None:
            return self._opened()
        count = len(self._memory.events)
        if self._dump is None or self._dump[0] != count:
            self._dump = count, dump_of([self._memory], self.label)
        return self._dump[1]

    @property
    def missing(self) -> Missing:
        """What could not be recorded so far, and what to do about it."""
        found = {} if self._recorder is None else self._recorder.missing
        return Missing(tuple(missing_rows(found)))

    @property
    def steps(self) -> list[int]:
        """Steps of which calls were recorded."""
        return [] if self._recorder is None else sorted(self._recorder.calls_of_steps)

    def __repr__(self) -> str:
        """What is recorded, what is missing and what to do next, at most 25 lines."""
        return recording_text(self._facts())

    def _repr_html_(self) -> str:
        return recording_html(self._facts())

    def _facts(self) -> dict[str, Any]:
        recorder, keep = self._recorder, self._plan.keep
        facts: dict[str, Any] = {
            "label": self.label,
            "framework": self._adapter.NAME,
            "state": self.state,
            "where": "" if self.folder is None else self.folder.name,
            "level": self._plan.level,
            "keep": keep if isinstance(keep, str) else "f(site)",
            "missing": list(self.missing),
            "next": _NEXT.get(self.state, _NEXT[""]),
            **get_options(),
        }
        if recorder is not None:
            facts |= {
                "steps": self.steps,
                "ranks": [self._rank],
                "calls": sum(recorder.calls_of_steps.values()),
                "values": recorder.values.counts["values"],
                "gradients": recorder.values.counts["gradients"],
                "size_bytes": recorder.values.size_bytes,
                "layers": recorder.called_layers(),
            }
        return facts

    def _opened(self) -> Dump:
        from troubleshooter_nb.formats.record_dir import open_record_dir

        assert self.folder is not None
        if self._writer is not None and self.state in ("running", "paused"):
            self._writer.flush()
        dump: Dump = open_record_dir(self.folder, label=self.label)
        return dump

    def _put_missing(self) -> None:
        recorder = self._recorder
        if recorder is None or self._sink is None:
            return
        for (kind, where), count in recorder.missing.items():
            self._sink.put({"missing": {"kind": kind, "where": [where], "count": count}})


def _writer(folder: Path, header: Event) -> Any:
    # Threads and files are asked for by those who want them.
    from troubleshooter_nb.formats.record_writer import RecordWriter

    return RecordWriter(folder, header)


def _framework(networks: Mapping[str, Any]) -> Adapter:
    """The framework of the networks, or the only one that is loaded."""
    found = {}
    for net in networks.values():
        adapter = adapter_of_network(net)
        if adapter is not None:
            found[adapter.NAME] = adapter
    found = found or loaded()
    if len(found) != 1:
        raise ArgumentError(Message("recorder.one_framework", names=[*found]))
    return next(iter(found.values()))


@contextmanager
def _closing(cells: Cells | None) -> Iterator[None]:
    try:
        yield
    finally:
        if cells is not None:
            cells.close()
