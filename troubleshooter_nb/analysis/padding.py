"""Padded tokens: what masks say is no data, and values that differ there alone."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.budget import BudgetSpentError
from troubleshooter_nb.analysis.causes.between.earlier_values import earlier_values
from troubleshooter_nb.analysis.causes.between.hidden_keys import hides_keys
from troubleshooter_nb.analysis.causes.case import TensorPair
from troubleshooter_nb.analysis.causes.operands import Operators
from troubleshooter_nb.analysis.causes.tensors.large import sides_of_any_size
from troubleshooter_nb.analysis.causes.tensors.measure import Error, Sides
from troubleshooter_nb.analysis.flow import Flow
from troubleshooter_nb.analysis.origin import Origins
from troubleshooter_nb.analysis.token_axes import TokenAxes, token_axes
from troubleshooter_nb.comparison import Comparison, first_difference
from troubleshooter_nb.dump import StepRank, object_array
from troubleshooter_nb.errors import ReadError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import is_integer_name
from troubleshooter_nb.metrics.verdict import TRUTH_TABLE
from troubleshooter_nb.naming.roles import (
    is_attention,
    is_length,
    is_mask,
    is_padding_mask,
    is_position,
    is_token_type,
)
from troubleshooter_nb.render.numbers import scientific
from troubleshooter_nb.render.words import DIFFERING
from troubleshooter_nb.table import finished

# What a mask, or lengths, of a row say: which tokens are padding, shape (samples, tokens).
_Reading = Callable[[Flow, int, np.ndarray], np.ndarray | None]


@dataclass(frozen=True)
class Padding:
    """The padded tokens of one step and rank.

    Attributes
    ----------
    padded : ndarray of bool, shape (samples, tokens)
    name : str
        Of the mask, or of the lengths, as shown, or which attention hides them.
    """

    padded: np.ndarray
    name: str

    @property
    def count(self) -> int:
        """How many tokens are padding."""
        return int(self.padded.sum())

    def axes(self, shape: tuple[int, ...]) -> list[TokenAxes]:
        """The ways in which a value of a shape may hold these tokens."""
        sizes = (int(self.padded.shape[0]), int(self.padded.shape[1]))
        return [*token_axes(shape, sizes)]


@dataclass(frozen=True)
class PaddedRows:
    """What padding has to do with the differences of a comparison.

    Attributes
    ----------
    of_place : mapping of (step, rank) to tuple of Padding
        Of each size of sequences one.
    errors : mapping of int to float
        Rows to what counts of their error: of those whose valid tokens agree as rounding lets them,
        the error of these; nan of those that were not looked at, as nothing was left to read.
    excused : mapping of int to Padding
        Rows whose valid tokens agree, in the order of execution, and which tokens are not.
    """

    of_place: Mapping[StepRank, tuple[Padding, ...]] = field(default_factory=dict)
    errors: Mapping[int, float] = field(default_factory=dict)
    excused: Mapping[int, Padding] = field(default_factory=dict)

    def of(self, flow: Flow, row: int) -> Padding | None:
        """The padding that a row may hold; None for none, and where it may hold several."""
        fits = [one for one in self.of_place.get(flow.place(row), ()) if one.axes(flow.shape(row))]
        return fits[0] if len(fits) == 1 else None

    def verdicts(self, comparison: Comparison) -> Comparison:
        """The comparison in which the rows that are excused pass, and say why."""
        result = comparison.result
        columns = {n: result[n].values.copy() for n in ("verdict", "passed", "reason_id", "reason")}
        errors = result["rel_l2_error"].values
        for row, padding in self.excused.items():
            said = Message("verdicts.padded", rel=scientific(errors[row]), detail=padding.name)
            told = "padded", TRUTH_TABLE["padded"][0], "padded", said
            for name, value in zip(columns, told, strict=True):
                columns[name][row] = value
        changed = {
            name: finished(
                ("pair",),
                object_array([*values]) if name != "passed" else values,
                result[name].attrs,
            )
            for name, values in columns.items()
        }
        passing = replace(comparison, result=result.assign(changed))
        passing.result.attrs["first_divergence"] = first_difference(passing.columns)
        return passing

    def told(self) -> dict[str, int | str]:
        """How many rows are excused, and how many tokens the first of their masks hides."""
        padding = next(iter(self.excused.values()), None)
        if padding is None:
            return {}
        return {
            "rows": len(self.excused),
            "count": padding.count,
            "tokens": padding.padded.size,
            "name": padding.name,
        }


def padded_rows(flow: Flow, origins: Origins, operators: Operators) -> PaddedRows:
    """Which rows differ in padded tokens alone, by the masks of each step and rank.

    Where no mask was recorded, the tokens whose ids differ are padding if an attention of both
    sides is seen to hide them from all queries. Where that is not seen, or the masks of the two
    sides differ, nothing is excused.

    Parameters
    ----------
    flow : Flow
    origins : Origins
        By all tokens.
    operators : Operators
    """
    if not (origins.error > 0).any():
        return PaddedRows()
    candidates = dict(_candidates(flow))
    masks = _masks(flow, operators, candidates)
    for row in _ids_apart(flow):
        if (place := flow.place(row)) not in {*masks, *map(flow.place, candidates)}:
            seen = _hidden_by_attention(flow, origins, operators, row)
            masks |= {place: (seen,)} if seen is not None else {}
    of_place = {
        place: known
        for place, known in masks.items()
        if _reads_one_sequence(flow, place, candidates)
    }
    rows = [row for row in _rows_apart(flow, origins) if flow.place(row) in of_place]
    errors: dict[int, float] = {}
    excused: dict[int, Padding] = {}
    for number, row in enumerate(rows):
        known = of_place[flow.place(row)]
        try:
            with _question(operators):
                error, padding = _valid_error(operators.tensor(row), known)
        except BudgetSpentError:
            unread = [one for one in rows[number:] if any(p.axes(flow.shape(one)) for p in known)]
            errors |= dict.fromkeys(unread if excused else (), math.nan)
            if operators.budget is not None:
                operators.budget.leave_out("elements", len(unread))
            break
        except ReadError:
            continue
        if padding is not None and error <= origins.noise[row]:
            errors[row], excused[row] = error, padding
    return PaddedRows(of_place, errors, excused)


def _reads_one_sequence(flow: Flow, place: StepRank, masks: Collection[int]) -> bool:
    """Whether a run is given one thing but masks: of several, a mask may be of any."""
    read = {
        min(flow.same_input.get(row, (row,)))
        for row in flow.external
        if flow.place(row) == place
        and len(flow.shape(row)) > 1
        and not (flow.is_backward[row] or flow.is_value[row] or row in masks)
        and not is_mask(name := _name(flow, row))
        and not is_position(name)
        and not is_token_type(name)
    }
    return len(read) < 2


def _ids_apart(flow: Flow) -> list[int]:
    """Whole numbers, of samples and tokens, that a run was given and that differ."""
    dtypes = flow.result["right_dtype"]
    return [
        row
        for row in flow.external
        if len(flow.shape(row)) == 2
        and is_integer_name(str(dtypes[row]))
        and not (flow.is_backward[row] or flow.is_value[row] or flow.result["identical"][row])
        and not is_mask(_name(flow, row))
    ]


def _hidden_by_attention(
    flow: Flow, origins: Origins, operators: Operators, ids: int
) -> Padding | None:
    """The tokens whose ids differ, if they are those that an attention hides on both sides.

    None as well where they are not at an end of each sample, or all that a sample has.
    """
    try:
        with _question(operators):
            tensor = operators.tensor(ids)
            left, right = tensor.left, tensor.right
            if left is None or right is None or left.shape != right.shape:
                return None
            hidden = np.asarray(left != right)
            if hidden.all(1).any() or not _ends_rows(hidden):
                return None
        for row in _attended(flow, origins, hidden.shape, flow.place(ids)):
            with _question(operators):
                found = earlier_values(operators, row)
            if found is not None and all(hides_keys(side, hidden) for side in found[1:]):
                name = operators.tensor(row).name
                return Padding(hidden, Message("explanations.padding_by_attention", name=name))
    except (ReadError, BudgetSpentError):
        pass
    return None


def _attended(flow: Flow, origins: Origins, sizes: tuple[int, ...], place: StepRank) -> list[int]:
    """The first rows that an attention may have made which nothing recorded."""
    rows = [
        row
        for node in flow.nodes
        if node.direction == "forward" and node.place == place and is_attention(node.path)
        for row in node.inputs
        if row not in flow.producer and row not in flow.external and origins.differs(row)
    ]
    rows = [row for row in rows if len(flow.shape(row)) == 3 and flow.shape(row)[:2] == sizes]
    return origins.by_time(np.array(rows, int))[: thresholds.ATTENTIONS_LOOKED_AT]


def _question(operators: Operators) -> AbstractContextManager[None]:
    """One question; half of what may be read is for those about what is left then."""
    budget = operators.budget
    if budget is None:
        return nullcontext()
    if budget.left < thresholds.LEFT_OF_PADDING * budget.elements:
        raise BudgetSpentError
    return budget.question()


def _rows_apart(flow: Flow, origins: Origins) -> list[int]:
    """Rows of the forward pass that differ, in the order of execution, but parameters."""
    apart = (origins.error > origins.noise) | np.isin(flow.result["verdict"], DIFFERING)
    apart &= ~flow.is_backward & ~flow.is_value
    # NaN spreads to whatever is summed over it, times zero as well.
    apart &= (flow.result["nan_mismatch_count"] <= 0) & (flow.result["inf_mismatch_count"] <= 0)
    apart[flow.roots] = False
    return origins.by_time(np.flatnonzero(apart))


def _valid_error(tensor: TensorPair, known: Sequence[Padding]) -> tuple[float, Padding | None]:
    """Least relative error of valid tokens over the ways of holding them, and which are not."""
    sides = sides_of_any_size(tensor)
    if sides is None or not sides.same_shape:
        return math.inf, None
    shape = sides.shapes[0]
    if sides.few.integers is False and len(shape) == 2:
        # Scores of samples may be as many as there are tokens.
        known = [one for one in known if one.padded.shape != shape]
    ways = [(one, ~axes.spread(one.padded)) for one in known for axes in one.axes(shape)]
    errors = [(_error_at(sides, valid, shape), padding) for padding, valid in ways]
    return min(errors, key=lambda one: one[0], default=(math.inf, None))


def _error_at(sides: Sides, valid: np.ndarray, shape: tuple[int, ...]) -> float:
    """Relative error where `valid`, which broadcasts to the shape, is true."""
    total = Error(is_quick=sides.is_large)
    for start, left, right in sides.blocks():
        kept = _held(valid, shape, start, left.size)
        total.add(left.reshape(-1)[kept], right.reshape(-1)[kept])
    return total.value


def _held(valid: np.ndarray, shape: tuple[int, ...], start: int, size: int) -> np.ndarray:
    """The mask of a range of elements in flat order, shape (size,)."""
    if size == math.prod(shape):
        return np.broadcast_to(valid, shape).reshape(-1)
    places = np.unravel_index(np.arange(start, start + size), shape)
    chosen = [
        place if many > 1 else np.zeros_like(place)
        for place, many in zip(places, valid.shape, strict=True)
    ]
    return np.asarray(valid[tuple(chosen)])


def _masks(
    flow: Flow, operators: Operators, candidates: Mapping[int, _Reading]
) -> dict[StepRank, tuple[Padding, ...]]:
    """Of each step and rank the tokens that every mask there calls padding."""
    masks: dict[StepRank, list[Padding]] = defaultdict(list)
    for row, of in candidates.items():
        try:
            with _question(operators):
                tensor = operators.tensor(row)
                values = tensor.right
        except (ReadError, BudgetSpentError):
            continue
        padded = None if values is None else of(flow, row, values)
        if padded is not None and padded.ndim == 2 and padded.shape[1] > 1 and not padded.all():
            masks[flow.place(row)].append(Padding(padded, tensor.name))
    found = {}
    for place, known in masks.items():
        alike: dict[tuple[int, ...], list[Padding]] = defaultdict(list)
        for one in known:
            alike[one.padded.shape].append(one)
        # What one of them shows is no padding.
        both = [
            Padding(np.logical_and.reduce([one.padded for one in some]), some[0].name)
            for some in alike.values()
        ]
        if both := [one for one in both if one.count]:
            found[place] = tuple(both)
    return found


def _candidates(flow: Flow) -> Iterator[tuple[int, _Reading]]:
    """Small values, equal on both sides, that may be masks of tokens, or lengths; how they read."""
    roots = set(flow.roots)
    names = ("right_dtype", "right_min", "right_max", "right_inf_count", "right_nan_count")
    cells = flow.result.lists(*names)
    is_asked = flow.result["identical"] & ~flow.is_value & ~flow.is_backward
    for row in np.flatnonzero(is_asked).tolist():
        dtype, low, high, inf, nan = (cells[name][row] for name in names)
        if row in roots or not 0 < math.prod(flow.shape(row)) <= thresholds.LARGEST_MASK:
            continue
        name = _name(flow, row)
        if is_integer_name(str(dtype)) and len(flow.shape(row)) == 1:
            if is_length(name) and low >= 1:
                yield row, _behind_lengths
        elif is_mask(name) or _is_of_attention(flow, row):
            are_flags = 0 <= low <= high <= 1 and inf <= 0 and nan <= 0
            yield row, _hidden_by_name if are_flags else _hidden_by_sum
        elif high == 0 and (low <= thresholds.MASKED_SCORE or inf > 0) and nan <= 0:
            # No other value is zero or a number so far below it.
            yield row, _hidden_by_sum


def _is_of_attention(flow: Flow, row: int) -> bool:
    """Whether an attention is given it, as yes or no for each token."""
    is_bool = str(flow.result["right_dtype"][row]) == "bool"
    return is_bool and (is_attention(str(flow.site["path"][row])) or _is_filled(flow, row))


def _is_filled(flow: Flow, row: int) -> bool:
    """Whether it says where scores are filled with a number."""
    node = flow.node_of.get(row)
    return node is not None and node.word == "maskedfill"


def _name(flow: Flow, row: int) -> str:
    """What a value is called where it was given."""
    slot = str(flow.site["slot"][row])
    return slot if slot and not slot.isdigit() else str(flow.site["path"][row])


def _hidden_by_sum(flow: Flow, row: int, mask: np.ndarray) -> np.ndarray | None:
    """Tokens whose scores are lowered beyond use."""
    hides = mask <= thresholds.MASKED_SCORE
    return _of_keys(hides) if hides.any() and bool((hides | (mask == 0)).all()) else None


def _hidden_by_name(flow: Flow, row: int, mask: np.ndarray) -> np.ndarray | None:
    """Tokens that a mask of zeros and ones hides, if its name or a full sample says which they are.

    No sample is padding altogether, and the longest one has none as a rule.
    """
    is_of_queries = mask.ndim > 2 and bool((mask != mask[..., :1, :]).any())
    ones = None if is_of_queries else _of_keys(mask != 0)
    if ones is None or not np.isin(mask, (0, 1)).all() or not _ends_rows(ones):
        return None
    full, empty = bool(ones.all(1).any()), bool((~ones.any(1)).any())
    name = _name(flow, row)
    is_padding = is_padding_mask(name) or _is_filled(flow, row)
    if full == empty:  # frameworks do not agree on what true says of a bool
        is_clear = is_padding or (is_attention(name) and mask.dtype.kind != "b")
        return (ones if is_padding else ~ones) if is_clear and not full else None
    if is_padding and full:
        return None
    return ones if empty else ~ones


def _of_keys(hides: np.ndarray) -> np.ndarray | None:
    """What a mask says of the keys of each sample, whatever the query: shape (samples, tokens)."""
    if hides.ndim == 4 and hides.shape[1] == 1:
        hides = hides[:, 0]
    if hides.ndim == 3:
        return np.asarray(hides.all(1))
    return hides if hides.ndim == 2 and not _is_by_distance(hides) else None


def _is_by_distance(hides: np.ndarray) -> bool:
    """Whether a mask of queries and keys, as a causal one, says the same of all as far apart."""
    rows, columns = hides.shape
    return rows == columns > 1 and bool((hides[1:, 1:] == hides[:-1, :-1]).all())


def _ends_rows(ones: np.ndarray) -> bool:
    """Whether each row changes once: what is to be predicted is hidden here and there."""
    return bool((np.abs(np.diff(ones.astype(np.int8), axis=1)).sum(1) <= 1).all())


def _behind_lengths(flow: Flow, row: int, lengths: np.ndarray) -> np.ndarray | None:
    """Tokens behind the lengths of the samples; None where no input is so long."""
    place, samples, most = flow.place(row), len(lengths), int(lengths.max())
    shapes = [flow.shape(other) for other in flow.external if flow.place(other) == place]
    counts = {one[1] for one in shapes if len(one) > 1 and one[0] == samples and one[1] >= most}
    return np.arange(counts.pop()) >= lengths[:, None] if len(counts) == 1 else None
