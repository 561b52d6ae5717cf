"""Compare two dumps: pair, measure and judge them, and find where and why they part."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Any, ParamSpec, TypeVar, get_args

import numpy as np
import xarray as xr

from troubleshooter_nb.analysis.align import MappingLike, PairingMethod, check_fuzzy, pair_dumps
from troubleshooter_nb.analysis.budget import check_budget
from troubleshooter_nb.analysis.interrupts import Interrupts
from troubleshooter_nb.analysis.measuring import (
    Measurements,
    are_quick,
    batches_of,
    measure,
    pieces_of,
    threads,
)
from troubleshooter_nb.analysis.omissions import gaps_of
from troubleshooter_nb.analysis.pair_table import pair_table
from troubleshooter_nb.analysis.progress import Watch, watched
from troubleshooter_nb.analysis.recorded_samples import without_views
from troubleshooter_nb.analysis.rows import Rows, Walk, rows_of
from troubleshooter_nb.analysis.shards.ranks import missing_places
from troubleshooter_nb.collector import uncollected
from troubleshooter_nb.comparison import Comparison, evidence_dataset, value_range
from troubleshooter_nb.dump import ArraySource, Dump, as_gradients
from troubleshooter_nb.errors import (
    ArgumentError,
    ArgumentTypeError,
    IncompleteWarning,
    PairingError,
    ReadError,
    check_kind,
)
from troubleshooter_nb.formats import DumpLike, as_dumps
from troubleshooter_nb.messages import Message, ids_of, message_of, told
from troubleshooter_nb.metrics.locate import Location, locate
from troubleshooter_nb.metrics.noise import NoiseModel
from troubleshooter_nb.metrics.verdict import Tolerance
from troubleshooter_nb.pairing import Pairing
from troubleshooter_nb.ranges import reading
from troubleshooter_nb.render.rows import Pairs
from troubleshooter_nb.render.words import DIFFERING
from troubleshooter_nb.table import table_of
from troubleshooter_nb.thresholds import MOST_DRILL_DOWNS

_INTERRUPTED = {"comparisons.interrupted", "comparisons.interrupted_after"}
_AFTER = Message("comparisons.interrupted_after")
_Asked = ParamSpec("_Asked")
_Answer = TypeVar("_Answer")


def compare(
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
    layers: Mapping[str, str] | None = None,
    left_net: Any = None,
    right_net: Any = None,
    walk: Walk = "auto",
    executor: Executor | None = None,
    diagnose: bool = True,
    noise: NoiseModel | None = None,
    budget: float = 1.0,
    progress: bool | Callable[[int, int], None] | None = None,
) -> Comparison:
    """Pair two dumps, measure every pair, judge it, and find where and why they part.

    Parameters
    ----------
    left, right : Dump, path, or mapping of str to array
        The right side is the reference of every relative figure. Arrays and tensors of the host
        in a mapping are not copied: what is changed in them afterwards changes what is read of
        them later, such as values of the explorer. ``Dump.from_arrays`` keeps a copy.
    rtol, atol : float, >= 0
        ``|left - right| <= atol + rtol * |right|`` must hold for every element; `atol` is in the
        tensor's unit.
    equal_nan : bool
        Two NaN at the same place are equal.
    integer_tolerance : float, >= 0
        How far integers and booleans may be apart, for which `rtol` and `atol` do not count; by
        default they are exact. So is a tensor of integers against one of floats.
    pairing : Pairing or {"auto", "name", "order", "shape"}, optional
        A finished pairing, or the method that makes one, see `pair_dumps`; default "auto".
    mapping : dict, list of pairs or path, optional
        Known pairs ``{left name: right name}``, a mapping file, or a weight map, see `pair_dumps`;
        the method pairs the rest.
    fuzzy : bool
        Ignore the numbers of calls of operators and keep their order, see `pair_dumps`.
    layers : dict of str to str, optional
        Classes of layers that the dumps do not say, in torch's or MindSpore's words:
        ``{"bn1": "BatchNorm2d"}``, by place in the network or the end of it. Without one, shapes
        and values decide what a call may be.
    left_net, right_net : torch.nn.Module or mindspore.nn.Cell, optional
        The networks that the dumps are of: their classes and settings are used.
    walk : {"auto", "forward", "backward"}
        Order in which parameters are listed. Their gradients are saved in parameter order but
        computed from the loss backwards; "auto" walks back where a name or folder says ``grad``.
        "backward" says that what is called like parameters, by files that do not say what they
        hold, are gradients of these, and they are looked at as such.
    executor : concurrent.futures.Executor, optional
        Runs the blocks, and what the diagnosis asks about large tensors in files: default threads
        of this process. A process pool started with ``spawn``,
        ``dask.distributed.Client(...).get_executor()`` and ``mpi4py.futures`` work as well; the
        result is the same to the byte. Where a worker dies, this process does what is left. One
        that this call runs in itself is left alone.
    diagnose : bool
        Find the rows that created a difference and look for its cause. The tensors around them
        are read again.
    noise : NoiseModel, optional
        What rounding leaves, see `measure_noise`; default the fitted one.
    budget : float, >= 0
        How much the diagnosis may read and ask, in times of the default, which reads again a
        quarter of what comparing read, and 16 million elements besides, and stops after computing
        for 10 seconds and half the time that comparing took. The first difference is always asked
        about; a note says what was not. ``math.inf`` asks everything, of all elements.
    progress : bool or callable, optional
        ``progress(done, total)`` in bytes of both sides; True and False switch the built-in
        display on and off; default: shown when the work takes longer than a second.

    Returns
    -------
    Comparison
        Every entry of both dumps is in exactly one row. An entry that cannot be read, compared
        or paired is a row with a reason. After an interrupt (Ctrl-C, the stop button) the pairs
        measured so far are kept, the others are ``unreadable``, and an `IncompleteWarning` says
        how many; one that comes later keeps what was found so far, and a note says so.

    Raises
    ------
    ValueError
        For a negative tolerance or budget, and for a class of layers that no formula explains.
    TypeError
        If `fuzzy` is neither True nor False, or a network is none.
    PairingError, MappingFileError
        If `pairing` or `mapping` does not fit the dumps.
    UnknownFormatError, FileNotFoundError
        If a path cannot be opened.
    """
    tolerance = Tolerance(rtol, atol, equal_nan, integer_tolerance)
    check_fuzzy(fuzzy)
    _check_options(walk, executor, progress)
    check_diagnosis(noise, budget)
    known: Any = None
    if layers is not None or left_net is not None or right_net is not None:
        # It knows which formulas there are, and loads them.
        from troubleshooter_nb.analysis.layers_said import known_layers

        known = known_layers(layers, left_net, right_net)
    executor = _of_others(executor)
    with Interrupts() as interrupts, watched(progress) as watch:
        watch.begin(Message("comparisons.opening"))
        left, right = as_dumps(left, right)
        watch.begin(Message("comparisons.pairing"))
        if isinstance(pairing, Pairing):
            _check_pairing(pairing, left, right, mapping)
        else:
            method = pairing or "auto"
            pairing = pair_dumps(left, right, method=method, mapping=mapping, fuzzy=fuzzy)
        if walk == "backward":
            sides = (as_gradients(side) for side in (pairing.left, pairing.right))
            pairing = Pairing(pairing.table, *sides)
        explain = partial(_explained, noise=noise, known=known, budget=budget, executor=executor)
        asked = explain if diagnose else None
        found = _whole(pairing, tolerance, walk, executor, watch, asked, interrupts=interrupts)
        found = _with_networks(found, left=left_net, right=right_net)
    _warn_of(found)
    return found


def _with_networks(found: Comparison, **nets: Any) -> Comparison:
    """The comparison that says of which sides the networks are at hand, to be replayed.

    Only where no cause is known, and the other side is of calls.
    """
    if not found.observed:
        return found
    others = {"left": found.pairing.right, "right": found.pairing.left}
    sides = [
        side
        for side, net in nets.items()
        if net is not None and (others[side].columns["kind"] == "module").any()
    ]
    return replace(found, observed={**found.observed, "nets": sides}) if sides else found


def compare_pairing(
    pairing: Pairing,
    tolerance: Tolerance,
    *,
    walk: Walk = "auto",
    executor: Executor | None = None,
    diagnose: bool = False,
    noise: NoiseModel | None = None,
    budget: float = 1.0,
    progress: bool | Callable[[int, int], None] | None = None,
    drill_downs: int = MOST_DRILL_DOWNS,
) -> Comparison:
    """What `compare` does with a finished pairing; `drill_downs` tensors are read a second time."""
    executor = _of_others(executor)
    explain = partial(_explained, noise=noise, budget=budget, executor=executor)
    asked = explain if diagnose else None
    with Interrupts() as interrupts, watched(progress) as watch:
        found = _whole(
            *(pairing, tolerance, walk, executor, watch, asked, drill_downs), interrupts=interrupts
        )
    _warn_of(found)
    return found


def _whole(
    pairing: Pairing,
    tolerance: Tolerance,
    walk: Walk,
    executor: Executor | None,
    watch: Watch,
    explain: Callable[..., Comparison] | None,
    drill_downs: int = MOST_DRILL_DOWNS,
    *,
    interrupts: Interrupts,
) -> Comparison:
    """The comparison as measured and, where that is asked for, explained."""
    started = time.perf_counter()
    found = _compared(pairing, tolerance, walk, executor, watch, drill_downs, interrupts)
    seconds = time.perf_counter() - started
    # What was interrupted has no order of events to be read from, or is to end.
    if explain is None or interruptions(found):
        return found
    watch.begin(Message("comparisons.diagnosing"))
    explained, _ = interrupts.part(explain, found, seconds=seconds)
    # One of no pairs is false.
    return replace(found, notes=(*found.notes, _AFTER)) if explained is None else explained


def _compared(
    pairing: Pairing,
    tolerance: Tolerance,
    walk: Walk,
    executor: Executor | None,
    watch: Watch,
    drill_downs: int,
    interrupts: Interrupts,
) -> Comparison:
    """The comparison as measured; what an interrupt left is in its notes."""
    with uncollected():
        rows = rows_of(pairing, walk)
        pieces = pieces_of(rows)
        batches, measured = batches_of(pieces), Measurements(pieces, rows)
    watch.count(sum(batch.size_bytes for batch in batches))
    result, is_whole = None, False
    evidence: dict[int, xr.Dataset] = {}
    try:
        with ExitStack() as stack:
            workers = executor or stack.enter_context(ThreadPoolExecutor(threads()))
            measuring = None if executor is None and are_quick(batches) else workers
            went_on, _ = interrupts.part(
                measure, batches, tolerance, measuring, watch.advance, measured
            )
            result, is_unbroken = _despite_an_interrupt(pair_table, rows, measured, tolerance)
            if went_on and is_unbroken:
                watch.begin(Message("comparisons.locating"))
                asked = evidence, rows, Pairs.of(result), workers, drill_downs
                _, is_whole = interrupts.part(_locate, *asked)
    except KeyboardInterrupt:
        if result is None:
            raise
        is_whole = False
    notes = _notes(pairing, rows, None if is_whole else measured.unfinished)
    if measured.taken_over:
        taken = Message("comparisons.worker_died", count=measured.taken_over, total=len(batches))
        notes = (*notes, taken)
    gaps = gaps_of(table_of(result), pairing, tolerance)
    return Comparison(result, pairing, tolerance, evidence=evidence, notes=notes, gaps=gaps)


def _despite_an_interrupt(
    step: Callable[_Asked, _Answer], *asked: _Asked.args, **options: _Asked.kwargs
) -> tuple[_Answer, bool]:
    """What a step gives, done again if one interrupt comes amid it, and whether none did."""
    try:
        return step(*asked, **options), True
    except KeyboardInterrupt:
        return step(*asked, **options), False


def _explained(
    measured: Comparison,
    *,
    noise: NoiseModel | None,
    known: Any = None,
    budget: float,
    seconds: float,
    executor: Executor | None,
) -> Comparison:
    """The comparison with what diagnosis finds, or found before an interrupt."""
    # A fifth of the time of importing the package, for which not every call asks.
    from troubleshooter_nb.analysis.diagnosis import diagnosed

    found = measured
    try:
        found = diagnosed(
            measured, noise, known=known, budget=budget, seconds=seconds, executor=executor
        )
        return _with_first_inside(found)
    except KeyboardInterrupt:
        return replace(found, notes=(*found.notes, _AFTER))


def _with_first_inside(comparison: Comparison) -> Comparison:
    """The comparison with what is inside the first difference, if that is not among the worst."""
    first = comparison.first_divergence
    if first is None or first.evidence is not None or first.verdict not in DIFFERING:
        return comparison
    try:
        inside = first.located().evidence
    except ReadError:
        return comparison
    if inside is None:
        return comparison
    number = int(first.row["order"].values)
    return replace(comparison, evidence={**comparison.evidence, number: inside})


def locate_pair(left: ArraySource, right: ArraySource, low: float, high: float) -> Location | str:
    """What one drill-down task does; the text of a read error instead of raising it."""
    dtypes = left.dtype, right.dtype
    try:
        with reading(left) as one, reading(right) as other:
            return locate(one.read, other.read, left.shape, (low, high), dtypes=dtypes)
    except ReadError as error:
        return message_of(error)


def _locate(
    evidence: dict[int, xr.Dataset], rows: Rows, pairs: Pairs, executor: Executor, most: int
) -> None:
    """Enter drill-down data of the pairs worth it, one by one."""
    futures: dict[int, Future[Location | str]] = {}
    asked: dict[int, tuple[ArraySource, ArraySource, float, float]] = {}
    try:
        for row in _worth_locating(pairs, most):
            left, right = rows.left.sources[row], rows.right.sources[row]
            if left is not None and right is not None and rows.sizes[row]:
                asked[row] = left, right, *value_range(pairs.row(row))
                with suppress(BrokenExecutor):  # a worker died: this thread does it
                    futures[row] = executor.submit(locate_pair, *asked[row])
        for row in asked:
            try:
                location = futures[row].result()
            except (KeyError, BrokenExecutor):
                location = locate_pair(*asked[row])
            if isinstance(location, Location):
                evidence[row] = evidence_dataset(location, rows.left.stored_shapes[row] or ())
    finally:
        for future in futures.values():
            future.cancel()


def _worth_locating(pairs: Pairs, most: int) -> list[int]:
    """Numbers of the first divergence and of the worst pairs that differ."""
    verdicts = pairs["verdict"]
    differing = np.isin(verdicts, DIFFERING) & (verdicts != "shape")
    # A pair that only rounds differently has something to show as well, once the real ones had.
    interesting = differing | (verdicts == "rounding")
    if not interesting.any():
        return []
    order = pairs.worst_order()
    named = pairs.first_order
    first = [named] if named >= 0 and verdicts[named] != "shape" else []
    first += np.flatnonzero(differing)[:1].tolist()
    return list(dict.fromkeys([*first, *order[interesting[order]].tolist()]))[:most]


def check_diagnosis(noise: object, budget: object) -> None:
    """Raise unless these may be given to a diagnosis.

    Raises
    ------
    ValueError, TypeError
        As `compare` does.
    """
    check_budget(budget)
    if noise is not None:
        check_kind("noise", noise, NoiseModel)


def _check_options(walk: object, executor: object, progress: object) -> None:
    if walk not in get_args(Walk):
        raise ArgumentError(
            Message("arguments.choice", name="walk", known=get_args(Walk), value=repr(walk))
        )
    if executor is not None and not hasattr(executor, "submit"):
        raise ArgumentTypeError(Message("arguments.executor", value=repr(executor)))
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise ArgumentTypeError(Message("arguments.progress", value=repr(progress)))


def _of_others(executor: Executor | None) -> Executor | None:
    """The executor, unless this thread is one of it, which would wait for itself."""
    # By its name: a thread may run before the pool has it in its list.
    prefix = getattr(executor, "_thread_name_prefix", "")
    own = prefix and threading.current_thread().name.startswith(f"{prefix}_")
    return None if own else executor


def _check_pairing(pairing: Pairing, left: Dump, right: Dump, mapping: object) -> None:
    """Raise unless the pairing was made for these two dumps."""
    if mapping is not None:
        raise PairingError(Message("comparisons.pairing_and_mapping"))
    for side, given, paired in (("left", left, pairing.left), ("right", right, pairing.right)):
        if not without_views(given).is_same_as(without_views(paired)):
            label = repr(paired.label)
            raise PairingError(Message(f"comparisons.other_dump_{side}", label=label))


def _notes(pairing: Pairing, rows: Rows, unfinished: int | None) -> tuple[str, ...]:
    """What the two dumps say of themselves, and after an interrupt what it left undone."""
    notes: list[str] = []
    if len(rows):
        notes += [*pairing.left.notes, *pairing.right.notes]
        notes += missing_places(pairing.left, pairing.right)
    if unfinished:
        notes.append(Message("comparisons.interrupted", count=unfinished, total=len(rows)))
    elif unfinished is not None:
        notes.append(_AFTER)
    return tuple(notes)


def interruptions(found: Comparison) -> list[str]:
    """The notes that say that an interrupt left something undone; none of a whole comparison."""
    return [note for note in found.notes if not _INTERRUPTED.isdisjoint(ids_of(note))]


def _warn_of(found: Comparison) -> None:
    for note in interruptions(found):
        warnings.warn(told(note), IncompleteWarning, stacklevel=3)
