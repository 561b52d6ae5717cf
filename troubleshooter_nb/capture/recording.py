"""Record what a network does while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from troubleshooter_nb.capture.arguments import (
    bytes_of,
    check_rank,
    check_words,
    framework_of,
    networks_of,
)
from troubleshooter_nb.capture.in_folder import InFolder, Nowhere
from troubleshooter_nb.capture.in_memory import InMemory
from troubleshooter_nb.capture.missing import Missing
from troubleshooter_nb.capture.plan import Level, Plan, Store
from troubleshooter_nb.capture.recorder import Recorder
from troubleshooter_nb.capture.run import Run
from troubleshooter_nb.capture.schedule import Steps, is_recorded
from troubleshooter_nb.capture.selection import Keep, Names, choice_of, keep_of
from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import ArgumentError, ReadError, path_of
from troubleshooter_nb.formats.record_entries import dump_of
from troubleshooter_nb.formats.used_places import Exist, check_exist, first_free, refuse_used
from troubleshooter_nb.frameworks.recording import Compiled
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.verdict import Tolerance
from troubleshooter_nb.naming import Site
from troubleshooter_nb.options import get_options
from troubleshooter_nb.render.missing_words import missing_rows
from troubleshooter_nb.render.recording_view import recording_html, recording_text

if TYPE_CHECKING:
    from troubleshooter_nb.analysis.align import MappingLike
    from troubleshooter_nb.capture.against import Against, Reference
    from troubleshooter_nb.capture.differences import Differences
    from troubleshooter_nb.formats import DumpLike


def record(
    net: Any = None,
    *,
    to: str | PathLike[str] | None = None,
    exist: Exist = "replace",
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
        `open_dump` opens it at any time, also after a crash. Default: in memory.
    exist : {"replace", "error", "new"}
        If `to` holds an earlier recording: it is replaced; an error; or the recording goes to
        ``run-2``, or the next number that is free, see `Recording.folder`.
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
        if the block had been done. Between `start` and `stop` there is none: what runs there runs
        on, and is not recorded any more.
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
        a reference that holds no calls or would be overwritten, a folder that is used, with
        ``exist="error"``, and ``exist="new"`` in a run of several processes.
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
    check_rank(rank)
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
    check_exist(exist)
    folder = None if to is None else path_of(to)
    tolerance = Tolerance(rtol, atol)
    reference = _reference(against, mapping, tolerance, stop_after, folder)
    networks = networks_of(net, level)
    adapter = framework_of(networks, framework)
    if folder is not None:
        folder = _free_folder(folder, exist, *adapter.rank_and_size(), rank)
    when = is_recorded(steps)
    given = networks, adapter, plan, when, names, folder, rank, label
    return Recording(*given, reference=reference)


def _free_folder(folder: Path, exist: Exist, own: int, count: int, rank: int | None) -> Path:
    """Where to record, by whether an earlier recording is there."""
    if exist == "error":
        # Of several processes the others may have begun.
        refuse_used(folder / f"rank{own if rank is None else rank}")
    if exist == "new":
        if count > 1:
            raise ArgumentError(Message("recording.new_of_several", count=count))
        return first_free(folder, is_folder=True)
    return folder


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


# What is to be done with a recording, by its state.
_NEXT = {"not started": "rec.start()", "running": "rec.stop()", "": "tnb.compare(rec.dump, other)"}


_Own = TypeVar("_Own", bound="Recording")


class Recording(Run):
    """What a network did, and what of it could not be recorded; see `record`.

    Its label, folder and state are those of a `Run`, which takes the same arguments.
    """

    def __init__(self, *of_run: Any, reference: Reference | None = None) -> None:
        super().__init__(*of_run)
        self._reference = reference
        self._against: Against | None = None
        self._is_block = False
        self._dump: tuple[tuple[int, int], Dump] | None = None

    def __enter__(self: _Own) -> _Own:
        self._is_block = True
        return super().__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        self._is_block = False
        return super().__exit__(kind, error, trace)

    def stop(self) -> Dump:
        """End the recording and take everything away; the dump of it."""
        self._stop("stopped")
        return self.dump

    def _has_stopped(self, error: BaseException | None) -> bool:
        """Whether an exception is how this recording ended its block at a difference."""
        against = self._against
        return against is not None and error is not None and against.stopped_by is error

    def _store(self, header: dict[str, Any], rank: int) -> Store:
        return InMemory(header, rank) if self.folder is None else super()._store(header, rank)

    def _new_recorder(self) -> Recorder:
        recorder = super()._new_recorder()
        if self._reference is None:
            return recorder
        try:
            against = self._against = self._new_against(self._reference, self._rank)
        except BaseException:
            self._kept.close(complete=False)
            raise
        plan = replace(self._plan, see=against.see)
        recorder = Recorder(self._framework, self._networks, plan, against)

        def grow(count: int) -> None:
            recorder.values.size_bytes += count

        against.stop, against.grow = recorder.give_up, grow
        against.ends_block = self._is_block
        return recorder

    def _new_against(self, reference: Reference, rank: int) -> Against:
        from troubleshooter_nb.capture.against import Against
        from troubleshooter_nb.capture.partners import Layer

        trial = Recorder(self._framework, self._networks, self._plan, Nowhere())
        layers = []
        for seen in trial.find_layers():
            if seen.has_forward:
                owned = self._framework.owned(seen)
                facts = [(one.leaf, one.role, self._framework.facts(one.tensor)) for one in owned]
                leaves = [(leaf, role, of.shape, of.dtype) for leaf, role, of in facts]
                layers.append(Layer(seen.path, seen.layer, leaves))
        word = self._framework.MODULE_WORD
        return Against(reference, layers, word, self._plan, rank, self._steps, self._kept)

    # What came of it

    @property
    def dump(self) -> Dump:
        """What was recorded so far, as a dump."""
        self._settle()
        if not isinstance(self._kept, InMemory):
            return self._opened()
        key = self._edition, len(self._kept.events)
        if self._dump is None or self._dump[0] != key:
            self._dump = key, dump_of([self._kept], self.label)
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
        return self._against.differences(is_running=self.is_running)

    @property
    def missing(self) -> Missing:
        """What could not be recorded so far, and what to do about it."""
        return Missing(tuple(missing_rows(self.missing_counts)))

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
            facts["next"] = facts["next"] if self.is_running else "rec.differences"
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
        if self.is_running:
            self._kept.flush()
        elif isinstance(self._kept, InFolder) and self._kept.is_replaced():
            raise ReadError(Message("recorder.replaced", folder=self.folder.name))
        dump: Dump = open_record_dir(self.folder, label=self.label)
        return dump
