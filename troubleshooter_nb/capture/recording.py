"""Record what a network does while it runs."""

from __future__ import annotations

import atexit
import re
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

from troubleshooter_nb.capture.cells import Cells
from troubleshooter_nb.capture.kept import InFolder, InMemory
from troubleshooter_nb.capture.missing import Missing
from troubleshooter_nb.capture.plan import Level, Plan
from troubleshooter_nb.capture.recorder import Recorder
from troubleshooter_nb.capture.schedule import Steps, is_recorded
from troubleshooter_nb.capture.selection import Keep, Names, check_found, choice_of, keep_of
from troubleshooter_nb.capture.tally import Tally
from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import (
    ArgumentError,
    ArgumentTypeError,
    NotOfferedError,
    ReadError,
    TroubleshooterWarning,
    path_of,
)
from troubleshooter_nb.formats.record_entries import dump_of, missing_rows
from troubleshooter_nb.frameworks import Adapter, adapter_of_network, loaded, recording_of
from troubleshooter_nb.frameworks.recording import Compiled
from troubleshooter_nb.messages import Message, told
from troubleshooter_nb.metrics.verdict import Tolerance
from troubleshooter_nb.naming import Site
from troubleshooter_nb.options import get_options
from troubleshooter_nb.render.recording_view import recording_html, recording_text
from troubleshooter_nb.run_card import RunCard

if TYPE_CHECKING:
    from troubleshooter_nb.analysis.align import MappingLike
    from troubleshooter_nb.capture.against import Against, Reference
    from troubleshooter_nb.capture.differences import Differences
    from troubleshooter_nb.formats import DumpLike

_WORDS = {
    "level": ("module", "api", "both"),
    "compiled": ("boundary", "eager"),
    "action": ("collect", "raise"),
}
_UNITS = {"": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_UNITS |= {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_LARGEST_RANK = 999_999_999  # whose folder readers find
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
    against: DumpLike | None = None,
    mapping: MappingLike | None = None,
    rtol: float = 1e-4,
    atol: float = 1e-4,
    stop_after: int | None = None,
    replayable: bool = False,
    limit: str | int = "4 GiB",
    rank: int | None = None,
    label: str | None = None,
    framework: str | None = None,
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
        Of both, and of parameters. A gradient belongs to a value and is its whole gradient. Where
        values are kept, torch also tells what each call alone adds to those of its inputs.
    parameters : bool
        Parameters and buffers of the layers called, as they are before the first call of a step and
        before each later one by which they have changed.
    names : str, list of str or function, optional
        Paths to record, ``*`` and ``?`` stand for anything; ``f(site)`` says True or False.
    steps : int, range, list, Schedule or function, optional
        Steps to record; `Recording.step` counts them. Nothing is hooked in the others.
    keep : {"tensor", "sample", "statistics", "digest"} or function
        All values; every n-th value with statistics; min, max, mean, norm, NaN, infinities and a
        fingerprint; a CRC-32; or what ``f(site)`` says of each, None for nothing.
    compiled : {"boundary", "eager"}
        Compiled parts stay compiled and are recorded from outside, or run as they are written.
    against : Dump, path, or mapping of str to array, optional
        A reference, a recording or a dump of layers: each call is held against its partner there
        when it ends, and what differs is in `Recording.differences`. Layers are paired before they
        run, as `compare` pairs them by name, class and parameters, and their calls by number;
        operators by name and number. Values decide where both sides have them, else checksums,
        statistics and fingerprints. What is compared is copied to the host; the values of a call
        that differs are kept, whatever `keep` says.
    mapping : dict, list of pairs or path, optional
        Known pairs ``{name here: name in the reference}`` or a mapping file, see `pair_dumps`.
    rtol, atol : float, >= 0
        As in `compare`.
    stop_after : int, optional
        End the block, and the code in it, at so many calls that differ; the recording ends as
        if the block had been done.
    replayable : bool
        Also the state of the random generator at each call, and how its arguments are nested: what
        `replay` needs besides values and parameters.
    limit : str or int
        Values kept in memory, such as ``"4 GiB"`` or a number of bytes; beyond it statistics are
        kept.
    rank : int, optional
        Default the rank of this process.
    label : str, optional
        What the dump is called; default the name of the folder or of the framework.
    framework : {"torch", "mindspore"}, optional
        Whose operators are recorded without a network; default the one that is loaded.

    Returns
    -------
    Recording
        A context; in a notebook ``rec.start()`` and ``rec.stop()`` do in two cells what ``with``
        does in one.

    Raises
    ------
    TypeError
        For what is no network, no number of a rank, or no way to say names or steps.
    ValueError
        For an unknown word among the arguments, a rank, limit, tolerance or number that cannot be,
        and a reference that holds no calls or would be overwritten.
    NotImplementedError
        For a weight map as `mapping`: record, then `compare`.
    PairingError, MappingFileError
        When it starts, if `mapping` does not fit.

    Notes
    -----
    Different from msprobe: nothing stays patched, the gradient of a layer that works in place or
    returns a dict is recorded, and what could not be recorded is in `Recording.missing`.
    """
    check_words(level=level, compiled=compiled)
    _check_rank(rank)
    most_bytes = bytes_of(limit)
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
        most_bytes if to is None else float("inf"),
    )
    folder = None if to is None else path_of(to)
    tolerance = Tolerance(rtol, atol)
    reference = _reference(against, mapping, tolerance, stop_after, folder)
    networks = networks_of(net, level)
    adapter = framework_of(networks, framework)
    when = is_recorded(steps)
    return Recording(networks, adapter, plan, when, names, folder, rank, label, reference)


def _reference(
    against: DumpLike | None,
    mapping: MappingLike | None,
    tolerance: Tolerance,
    stop_after: int | None,
    folder: Path | None,
) -> Reference | None:
    """What is compared with; None where nothing is."""
    if against is not None:
        # Who only records does not wait for what pairs.
        from troubleshooter_nb.capture.against import Reference

        return Reference.of(against, mapping, tolerance, stop_after, folder)
    for name, value in (("mapping", mapping), ("stop_after", stop_after)):
        if value is not None:
            raise ArgumentError(Message("against.needs_reference", name=name))
    return None


def check_words(**given: str) -> None:
    """Refuse unknown words among the arguments.

    Raises
    ------
    ValueError
        With the words that are known.
    """
    for name, word in given.items():
        known = _WORDS[name]
        if word not in known:
            raise ArgumentError(Message("recorder.word", name=name, given=repr(word), known=known))


def _check_rank(rank: object) -> None:
    """Refuse what names no folder of a rank."""
    if rank is None:
        return
    if not isinstance(rank, int) or isinstance(rank, bool):
        raise ArgumentTypeError(Message("recorder.rank_kind", given=repr(rank)))
    if not 0 <= rank <= _LARGEST_RANK:
        raise ArgumentError(Message("recorder.rank_range", given=rank, most=_LARGEST_RANK))


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


def networks_of(net: Any, level: str) -> dict[str, Any]:
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


# States of one that records, and what is to be done with it, by its state.
_RUNS = ("running", "paused")
_NEXT = {"not started": "rec.start()", "running": "rec.stop()", "": "tnb.compare(rec.dump, other)"}
# Recordings that run; who holds them is the user alone.
_running: weakref.WeakSet[Recording] = weakref.WeakSet()
_LONGEST_WAIT = 5.0  # seconds that dropping a recording waits for its end


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
        adapter: Adapter,
        plan: Plan,
        steps: Callable[[int], bool],
        names: Names,
        folder: Path | None = None,
        rank: int | None = None,
        label: str | None = None,
        reference: Reference | None = None,
    ) -> None:
        self.folder = folder
        self._reference = reference
        self._against: Against | None = None
        self._networks, self._plan, self._steps, self._names = networks, plan, steps, names
        self._adapter = adapter
        self._framework = recording_of(self._adapter)
        self.label = label or (folder.name if folder is not None else self._adapter.NAME)
        self._given_rank, self._rank = rank, rank or 0
        self._recorder: Recorder | None = None
        self._kept: InMemory | InFolder = InMemory({})
        self._cells: Cells | None = None
        self._tally: Tally | None = None
        self._when_dropped: Any = None
        self._grad = True
        self._dump: tuple[int, Dump] | None = None
        self.state = "not started"

    # Starting and stopping

    def __enter__(self) -> Recording:
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
        """Whether an exception is how this recording ended its block at a difference."""
        against = self._against
        return against is not None and error is not None and against.stopped_by is error

    def start(self) -> Recording:
        """Begin to record; what this recording held before is replaced.

        In a notebook, a cell that is run again replaces what it recorded before. A recording runs
        as long as it has a name: one that is dropped is stopped, with a warning.
        """
        self._stop("stopped")
        self._framework.check_mode()
        self._check_asked()
        self._dump = None
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

    def stop(self) -> Dump:
        """End the recording and take everything away; the dump of it."""
        self._stop("stopped")
        return self.dump

    def _check_asked(self) -> None:
        """Refuse what cannot be recorded, before an earlier recording is replaced."""
        trial = Recorder(self._framework, self._networks, self._plan, InMemory({}))
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
        header = self._header(rank)
        if self.folder is None:
            self._kept = InMemory(header, rank)
        else:
            self._kept = InFolder(self.folder / f"rank{rank}", header, self._cannot_write)
        if self._reference is None:
            return Recorder(self._framework, self._networks, self._plan, self._kept)
        try:
            against = self._against = self._new_against(self._reference, rank)
        except BaseException:
            self._kept.close(complete=False)
            raise
        plan = replace(self._plan, see=against.see)
        recorder = Recorder(self._framework, self._networks, plan, against)

        def grow(count: int) -> None:
            recorder.values.size_bytes += count

        against.stop, against.grow = recorder.give_up, grow
        return recorder

    def _new_against(self, reference: Reference, rank: int) -> Against:
        from troubleshooter_nb.capture.against import Against
        from troubleshooter_nb.capture.partners import Layer

        trial = Recorder(self._framework, self._networks, self._plan, InMemory({}))
        layers = []
        for seen in trial.find_layers():
            if seen.has_forward:
                owned = self._framework.owned(seen)
                facts = [(one.leaf, one.role, self._framework.facts(one.tensor)) for one in owned]
                leaves = [(leaf, role, of.shape, of.dtype) for leaf, role, of in facts]
                layers.append(Layer(seen.path, seen.layer, leaves))
        word = self._framework.MODULE_WORD
        return Against(reference, layers, word, self._plan, rank, self._kept)

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
        if recorder is None or tally is None or self.state not in _RUNS:
            return
        self._when_dropped.detach()
        self.state = state
        _running.discard(self)
        if self._cells is not None:
            self._cells.close()
        _end(recorder, self._kept, tally, complete=state == "stopped")

    def _miss_the_rest(self) -> None:
        if self._recorder is not None and self.state in _RUNS:
            self._recorder.miss("interrupted", "")

    def _recover(self, error: BaseException | None) -> None:
        """After an interrupt within what records, have the framework as it was at the start."""
        if isinstance(error, KeyboardInterrupt) and _is_inside(error):
            self._framework.recover(self._grad)

    def _cannot_write(self) -> None:
        """Record nothing more: the error is on its way to the step that runs."""
        recorder = self._recorder
        if recorder is None or self.state not in _RUNS:
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
        if recorder is None or tally is None or self.state not in _RUNS:
            return
        recorder.begin_run(replaced)
        if replaced is None and step != recorder.step:
            recorder.forget_step()
        tally.begin(run, replaced)
        recorder.step, recorder.run = step, run
        if replaced is not None:
            self._dump = None
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
        if self._recorder is None or self.state not in _RUNS:
            raise ArgumentError(Message("recorder.not_running", state=self.state))
        return self._recorder

    # What came of it

    @property
    def dump(self) -> Dump:
        """What was recorded so far, as a dump."""
        recorder = self._recorder
        if recorder is None:
            raise ArgumentError(Message("recorder.not_running", state=self.state))
        if self.state in _RUNS:
            recorder.drain()
            _put_missing(recorder, self._tally)
        if not isinstance(self._kept, InMemory):
            return self._opened()
        count = len(self._kept.events)
        if self._dump is None or self._dump[0] != count:
            self._dump = count, dump_of([self._kept], self.label)
        return self._dump[1]

    @property
    def differences(self) -> Differences:
        """What differs from the reference so far, and what of both sides has no partner.

        Raises
        ------
        ValueError
            If there is none, see ``against`` of `record`, or before the start.
        """
        if self._against is None:
            raise ArgumentError(Message("against.none"))
        return self._against.differences(is_running=self.state in _RUNS)

    @property
    def missing(self) -> Missing:
        """What could not be recorded so far, and what to do about it."""
        found = {} if self._tally is None else self._tally.missing()
        return Missing(tuple(missing_rows(found)))

    @property
    def steps(self) -> list[int]:
        """Steps of which calls were recorded."""
        return [] if self._tally is None else sorted(self._tally.calls_of_steps())

    def __repr__(self) -> str:
        """What is recorded, what is missing and what to do next, at most 25 lines."""
        return recording_text(self._facts())

    def _repr_html_(self) -> str:
        return recording_html(self._facts())

    def _facts(self) -> dict[str, Any]:
        recorder, tally, keep = self._recorder, self._tally, self._plan.keep
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
        if self._against is not None:
            facts["notes"] = [self.differences.headline]
            facts["next"] = facts["next"] if self.state in _RUNS else "rec.differences"
        if recorder is not None and tally is not None:
            counts = tally.counts()
            facts |= {
                "steps": self.steps,
                "ranks": [self._rank],
                "calls": sum(tally.calls_of_steps().values()),
                "values": counts["values"],
                "gradients": counts["gradients"],
                "size_bytes": recorder.values.size_bytes,
                "layers": tally.layers(),
            }
        return facts

    def _opened(self) -> Dump:
        from troubleshooter_nb.formats.record_dir import open_record_dir

        assert self.folder is not None
        if self.state in _RUNS:
            self._kept.flush()
        elif isinstance(self._kept, InFolder) and self._kept.is_replaced():
            raise ReadError(Message("recorder.replaced", folder=self.folder.name))
        dump: Dump = open_record_dir(self.folder, label=self.label)
        return dump


class _ToldByCells:
    """What cells tell a recording, which it does not keep alive."""

    def __init__(self, recording: Recording) -> None:
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


def _end(recorder: Recorder, kept: InMemory | InFolder, tally: Tally, *, complete: bool) -> None:
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
    kept: InMemory | InFolder,
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
    frames = (frame for frame, _ in walk_tb(error.__traceback__))
    names = (str(frame.f_globals.get("__name__", "")) for frame in frames)
    return any(name.startswith("troubleshooter_nb.") for name in names)


def _stop_all() -> None:
    """What the end of the program does with recordings that run."""
    for recording in list(_running):
        recording._stop("broken")


def framework_of(networks: Mapping[str, Any], name: str | None = None) -> Adapter:
    """The framework of the networks; without any, the one of this name or the only one loaded.

    Raises
    ------
    ValueError
        If that is not exactly one, or not the one that is named.
    """
    found = {}
    for net in networks.values():
        adapter = adapter_of_network(net)
        if adapter is not None:
            found[adapter.NAME] = adapter
    found = found or loaded()
    if name is not None:
        found = {known: adapter for known, adapter in found.items() if known == name}
    if len(found) != 1:
        raise ArgumentError(Message("recorder.one_framework", names=[*found]))
    return next(iter(found.values()))
