"""Compare two checkpoints: structure from headers alone first, then the values, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor

import numpy as np
import xarray as xr

from troubleshooter_nb.analysis.align import MappingLike, PairingMethod, pair_dumps
from troubleshooter_nb.analysis.engine import check_diagnosis, compare_pairing
from troubleshooter_nb.checkpoint_diff import SCHEMA, CheckpointDiff
from troubleshooter_nb.columns.checkpoints import DIFF_COLUMNS
from troubleshooter_nb.columns.column import described
from troubleshooter_nb.comparison import Comparison
from troubleshooter_nb.dump import Dump, object_array
from troubleshooter_nb.errors import ArgumentError, ReadError
from troubleshooter_nb.formats import DumpLike, as_dump
from troubleshooter_nb.formats.checkpoint import Stored, checkpoint_dump
from troubleshooter_nb.messages import Message, of_one_class
from troubleshooter_nb.metrics.floats import is_number, same_dtype
from troubleshooter_nb.metrics.noise import NoiseModel
from troubleshooter_nb.metrics.verdict import Tolerance
from troubleshooter_nb.naming.roles import without_layer_numbers
from troubleshooter_nb.pairing import Pairing
from troubleshooter_nb.render.checkpoint_view import was_compared
from troubleshooter_nb.render.rows import block_of
from troubleshooter_nb.table import Table
from troubleshooter_nb.thresholds import DRILL_DOWNS, PROVED_BY_NAMES

_SIDES = ("left", "right")
_MOST_COUNTERS = 8  # that are read to learn whether two checkpoints are of one step


def diff_checkpoints(
    left: DumpLike,
    right: DumpLike,
    *,
    rtol: float = 1e-4,
    atol: float = 1e-4,
    equal_nan: bool = False,
    values: bool = True,
    integer_tolerance: float = 0.0,
    learning_rate: float | None = None,
    pairing: Pairing | PairingMethod | None = None,
    mapping: MappingLike | None = None,
    executor: Executor | None = None,
    diagnose: bool = True,
    noise: NoiseModel | None = None,
    budget: float = 1.0,
    progress: bool | Callable[[int, int], None] | None = None,
) -> CheckpointDiff:
    """Say what differs between two checkpoints, of whatever files, by structure and value, and why.

    Parameters
    ----------
    left, right : Dump, path, or mapping of str to array
        The right side is the reference: the checkpoint before training, or the original that the
        left one was converted from.
    rtol, atol, equal_nan, integer_tolerance, executor, progress
        As in `compare`.
    diagnose, noise, budget
        As in `compare`, which finds the same causes: a weight that is transposed, folded, never
        loaded, rounded ... Between two steps of one training most parameters differ, and that is
        no cause.
    values : bool
        False reads headers only, however large the files are, and asks for no cause.
    learning_rate : float, optional
        What changes are put in relation to; default the one of the checkpoints, if they hold
        exactly one.
    pairing, mapping
        As in `compare`; by default names decide, in either framework's spelling.

    Returns
    -------
    CheckpointDiff
        Tensors are read in blocks: memory does not grow with the files.

    Raises
    ------
    ValueError, PairingError, UnknownFormatError, FileNotFoundError
        As `compare` does; ValueError also for a learning rate that is none.
    """
    is_rate = is_number(learning_rate) and 0 < learning_rate < np.inf
    if learning_rate is not None and not is_rate:
        raise ArgumentError(Message("arguments.learning_rate", given=repr(learning_rate)))
    check_diagnosis(noise, budget)
    left, right = _as_checkpoint(left, "left"), _as_checkpoint(right, "right")
    if not isinstance(pairing, Pairing):
        pairing = pair_dumps(left, right, method=pairing or "auto", mapping=mapping)
    comparison = None
    if values:
        comparison = compare_pairing(
            pairing,
            Tolerance(rtol, atol, equal_nan, integer_tolerance),
            executor=executor,
            diagnose=diagnose,
            noise=noise,
            budget=budget,
            progress=progress,
            drill_downs=DRILL_DOWNS,
        )
    rate = _learning_rate(right, left) if learning_rate is None else float(learning_rate)
    table = _table(pairing, comparison)
    notes = [*_other_step(pairing, table), *_ties_of_one_side(pairing)]
    return CheckpointDiff(table, pairing, comparison, rate, tuple(notes))


def _as_checkpoint(value: DumpLike, side: str) -> Dump:
    """A dump; the names of a mapping say what its tensors are, as those in a file do."""
    dump = as_dump(value, side)
    if not isinstance(value, Mapping):
        return dump
    reasons = dump.index["reason"].values
    stored = [Stored(*one) for one in zip(dump.names, dump.sources, reasons, strict=True)]
    return checkpoint_dump(stored, label=dump.label, format=dump.format)


def _other_step(pairing: Pairing, table: xr.Dataset) -> list[str]:
    """That the two were saved at different steps of training, by what counts them.

    A counter alone may have been left behind: most parameters have to have moved.
    """
    is_parameter = table["role"].values == "parameter"
    verdicts = table["verdict"].values[is_parameter]
    moved = np.count_nonzero(was_compared(verdicts) & (verdicts != "identical"))
    if 2 * moved <= len(verdicts):
        return []
    paired, dumps = pairing.columns, (pairing.left, pairing.right)
    both = np.flatnonzero((paired["left_entry"] >= 0) & (paired["right_entry"] >= 0))
    found = []
    for row in both.tolist():
        entries = [int(paired[f"{side}_entry"][row]) for side in _SIDES]
        name, role = str(paired["right"][row]), str(pairing.right.columns["role"][entries[1]])
        if role == "step_counter" or name.endswith("num_batches_tracked"):
            found.append((role != "step_counter", len(name), name, entries))
    # The counter of the whole run before those of single parameters and layers.
    for _, _, name, entries in sorted(found)[:_MOST_COUNTERS]:
        left, right = (_scalar(dump, entry) for dump, entry in zip(dumps, entries, strict=True))
        if left is not None and right is not None and left != right:
            said = {"left": f"{left:g}", "right": f"{right:g}"}
            return [Message("checkpoints.other_step", name=name, **said)]
    return []


def _scalar(dump: Dump, entry: int) -> float | None:
    """The value of an entry of one element; None for any other, and where it cannot be read."""
    source = dump.sources[entry]
    if source is None or source.shape not in ((), (1,)):
        return None
    try:
        return float(source.read(0, 1)[0])
    except ReadError:  # its row says so
        return None


def _ties_of_one_side(pairing: Pairing) -> tuple[str, ...]:
    """Tensors that are one on one side while their partners are two."""
    columns = [pairing.table[side].values for side in _SIDES]
    notes = []
    for side, (dump, other) in enumerate(
        ((pairing.left, pairing.right), (pairing.right, pairing.left))
    ):
        partners = dict(zip(columns[side], columns[1 - side], strict=True))
        together = [set(names) for names in other.tied]
        for names in dump.tied:
            found = {partners.get(name, "") for name in names} - {""}
            if len(found) > 1 and not any(found <= tied for tied in together):
                notes.append(Message(f"checkpoints.tied_{_SIDES[side]}", names=names))
    return tuple(notes)


def _learning_rate(*dumps: Dump) -> float:
    """The one learning rate of the first dump that holds any; nan where it is none, or several."""
    for dump in dumps:
        rows = np.flatnonzero(dump.index["role"].values == "learning_rate")
        if len(rows):
            rates = {rate for row in rows if (rate := _scalar(dump, int(row))) is not None}
            known = rates.pop() if len(rates) == 1 else float("nan")
            return known if known > 0 else float("nan")
    return float("nan")


def _table(pairing: Pairing, comparison: Comparison | None) -> xr.Dataset:
    paired = pairing.columns
    entries = [paired[f"{side}_entry"] for side in _SIDES]
    dumps = pairing.left, pairing.right
    count = len(pairing)
    rows = np.arange(count)

    def of_side(side: int, column: str, nothing: object) -> np.ndarray:
        values = dumps[side].columns[column]
        return object_array([values[e] if e >= 0 else nothing for e in entries[side]])

    def either(column: str) -> np.ndarray:
        # Of the reference where there is one.
        sources = [dump.index[column].values for dump in dumps]
        return np.array(
            [sources[1][r] if r >= 0 else sources[0][e] for e, r in zip(*entries, strict=True)],
            sources[0].dtype if count else object,
        )

    columns: dict[str, np.ndarray] = {
        **{name: paired[name] for name in ("left", "right", "step", "rank", "expected")},
        **{
            f"{side}_{column}": of_side(number, column, nothing)
            for number, side in enumerate(_SIDES)
            for column, nothing in (("shape", None), ("dtype", ""))
        },
        "block": object_array([block_of(str(path)) for path in either("path")]),
        "role": either("role"),
        "size": either("size").astype(np.int64),
        "structure": object_array([_structure(pairing, paired, int(row)) for row in rows]),
        "rename": object_array(
            of_one_class(
                [
                    _rename(str(left), str(right)) if left and right else ""
                    for left, right in zip(paired["left"], paired["right"], strict=True)
                ]
            )
        ),
        "tied_to": _tied(pairing, paired),
        **_values(pairing, comparison),
    }
    if comparison is not None:
        order = np.argsort(columns["pair"], kind="stable")
        columns = {name: values[order] for name, values in columns.items()}
    return xr.Dataset(described("row", DIFF_COLUMNS, columns), attrs={"schema": SCHEMA})


def _structure(pairing: Pairing, paired: Table, row: int) -> str:
    """What headers alone say: see `troubleshooter_nb.checkpoint_diff.STRUCTURE`."""
    entries = [int(paired[f"{side}_entry"][row]) for side in _SIDES]
    if entries[1] < 0:
        return "left_only"
    if entries[0] < 0:
        return "right_only"
    left, right = (
        dump.columns.row(entry)
        for dump, entry in zip((pairing.left, pairing.right), entries, strict=True)
    )
    if "unreadable" in (left["status"], right["status"]):
        return "unreadable"
    if left["shape"] != right["shape"]:
        return "shape"
    if paired["confidence"][row] < PROVED_BY_NAMES:
        return "guessed"
    sources = pairing.left.sources[entries[0]], pairing.right.sources[entries[1]]
    # Where no values were stored, the recorded name of the dtype is all there is.
    stored = [one.dtype for one in sources if one is not None]
    alike = same_dtype(*stored) if len(stored) == 2 else left["dtype"] == right["dtype"]
    if not alike:
        return "dtype"
    return "same" if paired["left"][row] == paired["right"][row] else "renamed"


def _rename(left: str, right: str) -> str:
    """The parts of two names that differ, without what is equal in front and behind."""
    # The same change in every layer is one change.
    mine, theirs = (without_layer_numbers(name).split(".") for name in (left, right))
    if mine == theirs:
        mine, theirs = left.split("."), right.split(".")
    while len(mine) > 1 and len(theirs) > 1 and mine[0] == theirs[0]:
        mine, theirs = mine[1:], theirs[1:]
    while mine and theirs and mine[-1] == theirs[-1]:
        mine, theirs = mine[:-1], theirs[:-1]
    if not mine and not theirs:
        return ""
    none = Message("checkpoints.nothing_there")
    parts = ".".join(mine) or none, ".".join(theirs) or none
    return Message("checkpoints.renamed", left=parts[0], right=parts[1])


def _tied(pairing: Pairing, paired: Table) -> np.ndarray:
    first = [
        {name: names[0] for names in dump.tied for name in names[1:]}
        for dump in (pairing.left, pairing.right)
    ]
    return object_array(
        [
            first[0].get(str(left), "") or first[1].get(str(right), "")
            for left, right in zip(paired["left"], paired["right"], strict=True)
        ]
    )


def _values(pairing: Pairing, comparison: Comparison | None) -> dict[str, np.ndarray]:
    """What the comparison says about each row of the pairing."""
    count = len(pairing)
    unknown = np.full(count, np.nan)
    if comparison is None:
        return {
            "pair": np.full(count, -1),
            "verdict": object_array([""] * count),
            "passed": np.zeros(count, bool),
            **{name: unknown for name, column in DIFF_COLUMNS.items() if column.dtype == "float64"},
        }
    result = comparison.columns
    keys = zip(result["left_entry"], result["right_entry"], strict=True)
    place = {key: row for row, key in enumerate(keys)}
    rows = [
        place[key]
        for key in zip(*(pairing.table[f"{side}_entry"].values for side in _SIDES), strict=True)
    ]
    # Positions that are finite on both sides; where their sets differ, nearly.
    left_lost, right_lost = (
        np.clip(result[f"{side}_nan_count"], 0, None)
        + np.clip(result[f"{side}_inf_count"], 0, None)
        for side in _SIDES
    )
    lost = np.maximum(left_lost, right_lost)
    entries = pairing.right.index["size"].values
    sizes = np.array([entries[e] if e >= 0 else 0 for e in result["right_entry"]])
    with np.errstate(over="ignore", invalid="ignore"):
        squared_change = result["rmse"] ** 2 * np.clip(sizes - lost, 0, None)
        squared_norm = result["right_l2"] ** 2
    figures = {
        "pair": result["order"],
        "verdict": result["verdict"],
        "passed": result["passed"],
        "relative_change": result["rel_l2_error"],
        "rms_change": result["rmse"],
        "max_change": result["max_abs_error"],
        "squared_change": squared_change,
        "squared_norm": squared_norm,
    }
    return {name: values[rows] for name, values in figures.items()}
