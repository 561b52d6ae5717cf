"""Which tensor of one call belongs to which of its counterpart: by place, by shape, by meaning."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from troubleshooter_nb.analysis.api_names import (
    NODE_ORDER,
    ApiRow,
    argument_position,
    backward_note,
    rows_between,
)
from troubleshooter_nb.analysis.call_pairs import RunCallPair
from troubleshooter_nb.analysis.calls_of_run import RunCall, torch_leaf
from troubleshooter_nb.analysis.search import Item, shapes_differ
from troubleshooter_nb.messages import Message, joined
from troubleshooter_nb.pairing import Match
from troubleshooter_nb.shapes import Shape
from troubleshooter_nb.thresholds import APART, DOUBTFUL, FITTING, SUREST

_ROLES = ("input", "parameter", "output", "gradient", "buffer", "")
_Found = tuple[Item, Item, Match]


@dataclass
class Leaves:
    """The pairs of entries in two calls, and what to know about those left alone."""

    pairs: list[_Found] = field(default_factory=list)
    alone: tuple[dict[int, str], dict[int, str]] = field(default_factory=lambda: ({}, {}))


def pair_leaves(
    pair: RunCallPair, *, is_cross: bool, given: tuple[set[int], set[int]] = (set(), set())
) -> Leaves:
    """The entries of two calls that belong together.

    Parameters
    ----------
    pair : VisitPair
    is_cross : bool
        Whether the runs are of two frameworks, which record other gradients for some operators.
    given : pair of sets of int
        Rows of both sides whose partner is known: they are in none of these pairs, and what
        would have been theirs belongs to what is left of the same role and shape.
    """
    if "split" in (pair.left.bundle, pair.right.bundle):
        found = list(_of_split(pair))
    elif pair.left.members or pair.right.members:
        found = list(_of_chain(pair))
    else:
        found = list(_of_calls(pair, is_cross=is_cross))
    free = [f for f in found if f[0].row not in given[0] and f[1].row not in given[1]]
    if len(free) < len(found) and not (pair.left.members or pair.right.members):
        free += _displaced(pair, free, given)
    return Leaves(free, _alone(pair, free))


def _of_calls(pair: RunCallPair, *, is_cross: bool) -> Iterator[_Found]:
    left, right = pair.left, pair.right
    note = ""
    if is_cross and not left.is_module:
        note = backward_note(left.op, right.op)
    for direction in ("forward", "backward"):
        for role in _ROLES:
            sides = left.leaves(direction, role), right.leaves(direction, role)
            if not sides[0] or not sides[1]:
                continue
            if direction == "backward" and role == "output" and note:
                yield from _by_meaning(pair, _labelled([left]), _labelled([right]), note)
            else:
                yield from _by_place(pair, *sides, _argument_names(left, right, direction, role))


def _by_place(
    pair: RunCallPair,
    left: Sequence[Item],
    right: Sequence[Item],
    places: Callable[[Item, int], Hashable],
) -> Iterator[_Found]:
    """Equal places first, then what remains by shape in its order."""
    theirs = {places(item, 1): item for item in right}
    same_op = pair.left.is_module or pair.left.bare == pair.right.bare
    taken: tuple[set[int], set[int]] = set(), set()
    for item in left:
        other = theirs.get(places(item, 0))
        if other is None or _nature(item) != _nature(other):
            continue
        if shapes_differ(item, other) and not same_op:
            continue
        taken[0].add(item.row)
        taken[1].add(other.row)
        yield _found(pair, item, other)
    rest = [
        [item for item in side if item.row not in taken[k] and _nature(item) == "tensor"]
        for k, side in enumerate((left, right))
    ]
    yield from _by_shape(pair, *rest)


def _by_shape(pair: RunCallPair, left: Sequence[Item], right: Sequence[Item]) -> Iterator[_Found]:
    """Equal shapes in their order."""
    waiting: dict[Shape | None, list[Item]] = defaultdict(list)
    for item in right:
        waiting[item.shape].append(item)
    mine = Counter(item.shape for item in left)
    only = {shape for shape, found in waiting.items() if mine[shape] == len(found) == 1}
    for item in left:
        others = waiting.get(item.shape)
        if item.shape is not None and others:
            sure = FITTING if item.shape in only else DOUBTFUL
            yield _found(pair, item, others.pop(0), "shape", sure)


def _displaced(
    pair: RunCallPair, found: Iterable[_Found], given: tuple[set[int], set[int]]
) -> Iterator[_Found]:
    """What lost its partner to a given pair, by shape; gradients that leave are no guess."""
    taken = set(given[0]), set(given[1])
    for left, right, _ in found:
        taken[0].add(left.row)
        taken[1].add(right.row)
    for direction in ("forward", "backward"):
        for role in _ROLES:
            if (direction, role) == ("backward", "output"):
                continue
            rest = [
                [i for i in run_call.leaves(direction, role) if i.row not in rows]
                for run_call, rows in zip((pair.left, pair.right), taken, strict=True)
            ]
            yield from _by_shape(pair, *([i for i in s if _nature(i) == "tensor"] for s in rest))


def _argument_names(
    left: RunCall, right: RunCall, direction: str, role: str
) -> Callable[[Item, int], Hashable]:
    """How to call the places of both sides so that equal ones belong together."""
    if role == "parameter":
        return lambda item, _: torch_leaf(item)
    is_argument = (direction, role) in (("forward", "input"), ("backward", "output"))
    rows = rows_between(left.op, right.op) if is_argument and not left.is_module else []
    ops = left.op, right.op
    if not rows:
        if not is_argument or left.is_module or left.bare != right.bare:
            return lambda item, _: _slot(item)
        return lambda item, side: argument_position(ops[side], _slot(item))
    given = {argument_position(left.op, _slot(i)) for i in left.leaves("forward", "input")}
    row, is_forth = max(rows, key=lambda r: len(given & set(_arguments(r[0], r[1])[0])))
    mine, theirs = _arguments(row, is_forth)
    names: list[dict[str, Hashable]] = [
        {place: ("argument", k) for k, place in enumerate(mine)},
        {place: ("argument", k) for k, place in enumerate(theirs)},
    ]
    if direction == "backward":
        # Gradients are numbered by themselves, in the order of the arguments they are of.
        names = [{str(n): of[place] for n, place in enumerate(sorted(of))} for of in names]

    def place_of(item: Item, side: int) -> Hashable:
        slot = argument_position(ops[side], _slot(item))
        return names[side].get(slot, slot)

    return place_of


def _arguments(row: ApiRow, is_forth: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if is_forth:
        return row.torch_arguments, row.mindspore_arguments
    return row.mindspore_arguments, row.torch_arguments


def _of_split(pair: RunCallPair) -> Iterator[_Found]:
    """What goes into layers side by side goes into the one as wide as all of them."""
    mine, theirs = pair.left.outer_inputs[:1], pair.right.outer_inputs[:1]
    for a, b in zip(mine, theirs, strict=False):
        yield _found(pair, a, b, sure=SUREST, note=_fused_note(pair))


def _of_chain(pair: RunCallPair) -> Iterator[_Found]:
    """What goes into and comes out of a fused operator and the chain it stands for."""
    left, right = pair.left, pair.right
    note = _fused_note(pair)
    mine, theirs = left.outer_inputs, right.outer_inputs
    if [item.shape for item in mine] == [item.shape for item in theirs]:
        for a, b in zip(mine, theirs, strict=True):
            yield _found(pair, a, b, note=note)
    else:
        found = list(_by_place(pair, mine, theirs, lambda item, side: (side, item.row)))
        yield from found
        yield from _turned(pair, mine, theirs, found)
    last = [run_call.members[-1] if run_call.members else run_call for run_call in (left, right)]
    for direction, role in (("forward", "output"), ("backward", "input")):
        ends = [
            [i for i in run_call.leaves(direction, role) if i.shape is not None]
            for run_call in last
        ]
        for a, b in zip(*ends, strict=False):
            if not shapes_differ(a, b):
                yield _found(pair, a, b, note=note)
    said = backward_note(left.op, right.op) or Message(
        "calls.defined_differently", what=Message("calls.fused_gradients")
    )
    labels = [_labelled(run_call.members or [run_call]) for run_call in (left, right)]
    yield from _by_meaning(pair, labels[0], labels[1], said)


def _turned(
    pair: RunCallPair, left: Sequence[Item], right: Sequence[Item], found: Iterable[_Found]
) -> Iterator[_Found]:
    """The weight, where one side's operator takes it transposed."""
    taken = {a.row for a, _, _ in found}, {b.row for _, b, _ in found}
    rest = [[i for i in s if i.row not in taken[k]] for k, s in enumerate((left, right))]
    if len(rest[0]) != 1 or len(rest[1]) != 1:
        return
    [a], [b] = rest
    axes = a.shape or (), b.shape or ()
    if len(axes[0]) == 2 and axes[0] == axes[1][::-1]:
        note = Message("calls.defined_differently", what=Message("calls.turned"))
        yield _found(pair, a, b, sure=DOUBTFUL, note=note)


def _labelled(run_calls: Sequence[RunCall]) -> list[tuple[str, Item]]:
    """Gradients that leave these calls, with what each is the gradient of where that is known."""
    found = []
    made = [
        item.shape for run_call in run_calls[:-1] for item in run_call.leaves("forward", "output")
    ]
    for k, run_call in enumerate(run_calls):
        items = run_call.leaves("backward", "output")
        labels = NODE_ORDER.get(run_call.bare, ())
        if run_call.bare == "matmul" and len(run_calls) > 1:
            labels = NODE_ORDER["matmul of a layer"]
        if len(items) != len(labels):
            labels = ("",) * len(items)
        for label, item in zip(labels, items, strict=True):
            inner = k > 0 and (label == "input" or (not label and item.shape in made))
            if item.shape is not None and not inner:
                found.append((label, item))
    return found


def _by_meaning(
    pair: RunCallPair,
    left: Sequence[tuple[str, Item]],
    right: Sequence[tuple[str, Item]],
    note: str,
) -> Iterator[_Found]:
    """Gradients that are defined differently: by what they are of, else by their shape."""
    waiting = list(right)
    for strict in (True, False):
        rest = []
        for label, item in left:
            for k, (name, other) in enumerate(waiting):
                same = label.removesuffix(".T") == name.removesuffix(".T")
                fits = item.shape == other.shape
                turned = other.shape is not None and item.shape == other.shape[::-1]
                if (fits or turned) and (not strict or (label and same)):
                    del waiting[k]
                    is_turned = label.endswith(".T") or name.endswith(".T") or not fits
                    of: str = (label or name).removesuffix(".T") or Message("calls.gradient")
                    of = Message("calls.gradient_turned", name=of) if is_turned else of
                    yield _found(pair, item, other, sure=DOUBTFUL, note=joined([note, of]))
                    break
            else:
                rest.append((label, item))
        left = rest


def _found(
    pair: RunCallPair,
    left: Item,
    right: Item,
    method: str = "",
    sure: float = 1.0,
    note: str = "",
) -> _Found:
    confidence = min(pair.confidence, sure)
    texts = [note, pair.note]
    if shapes_differ(left, right):
        confidence = min(confidence, APART)
        texts.append(Message("calls.other_shape"))
    if not method:
        method = pair.method
        role = left.site.role if left.site else ""
        if role == "parameter" and _slot(left) != _slot(right):
            method = "parameter"
        elif method == "name" and left.name != right.name:
            method = "site"
    match = Match(left.row, right.row, method, round(confidence, 2), joined(texts))
    return left, right, match


def _alone(pair: RunCallPair, found: Iterable[_Found]) -> tuple[dict[int, str], dict[int, str]]:
    """A word about every entry of both calls that found no partner."""
    taken: tuple[set[int], set[int]] = set(), set()
    for left, right, _ in found:
        taken[0].add(left.row)
        taken[1].add(right.row)
    notes: tuple[dict[int, str], dict[int, str]] = {}, {}
    sides = (pair.left, pair.right), (pair.right, pair.left)
    for k, (run_call, other) in enumerate(sides):
        for item in run_call.items:
            if item.row in taken[k]:
                continue
            if run_call.members:
                id = "calls.beside_fused" if run_call.bundle == "split" else "calls.inside_fused"
                notes[k][item.row] = Message(id, call=_title(other))
            elif other.members:
                notes[k][item.row] = Message("calls.work_of", count=len(other.members))
            else:
                id = "calls.null_here" if _nature(item) == "null" else "calls.nothing_like_it"
                notes[k][item.row] = Message(id, call=_title(other))
    return notes


def _fused_note(pair: RunCallPair) -> Message:
    fused, parts = (pair.right, pair.left) if pair.left.members else (pair.left, pair.right)
    names = [_title(member) for member in parts.members]
    return Message("calls.fused_of", call=_title(fused), parts=names)


def _title(run_call: RunCall) -> str:
    text = run_call.path if run_call.is_module else run_call.op
    return f"{text}.{run_call.call}" if not run_call.is_module or run_call.call else text


def _slot(item: Item) -> str:
    return item.site.slot if item.site else ""


def _nature(item: Item) -> str:
    if item.shape is not None or not (item.site and item.site.value):
        return "tensor"
    return "null" if item.site.value == "null" else "value"
