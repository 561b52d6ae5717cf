"""Operators that do on one side the work of several on the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from troubleshooter_nb.analysis.api_names import FORM_ONLY
from troubleshooter_nb.analysis.calls_of_run import RunCall
from troubleshooter_nb.thresholds import MOST_BETWEEN_FUSED

_MATMUL = frozenset(("matmul", "mm", "bmm", "batchmatmul"))
_ADD = frozenset(("add", "biasadd", "iadd", "radd"))
_SCALE = frozenset(("mul", "div", "truediv", "realdiv", "muls"))
_SOFTMAX = frozenset(("softmax",))
_LINEAR = frozenset(("linear", "dense"))
_ATTENTION = frozenset(
    (
        "scaleddotproductattention",
        "flashattentionscore",
        "npufusionattention",
        "promptflashattention",
    )
)
_RESHAPES = frozenset(("reshape", "view", "flatten", "expanddims", "squeeze", "unsqueeze"))


@dataclass(frozen=True)
class _Chain:
    """A fused operator and the ones it stands for, by their bare names; optional ones may lack."""

    fused: frozenset[str]
    parts: tuple[frozenset[str], ...]
    optional: frozenset[int] = frozenset()


_CHAINS = (
    _Chain(
        _ATTENTION,
        (_MATMUL, _SCALE, _ADD, _SOFTMAX, frozenset(("dropout",)), _MATMUL),
        frozenset((1, 2, 4)),
    ),
    _Chain(_LINEAR, (_MATMUL, _ADD)),
    _Chain(frozenset(("addmm", "baddbmm", "addbmm")), (_MATMUL, _ADD)),
    _Chain(frozenset(("conv2d", "conv1d", "conv3d")), (frozenset(("conv2d", "conv3d")), _ADD)),
    _Chain(
        frozenset(("crossentropy",)),
        (frozenset(("logsoftmax",)), frozenset(("nllloss",))),
    ),
    _Chain(frozenset(("silu",)), (frozenset(("sigmoid",)), frozenset(("mul",)))),
    _Chain(frozenset(("logsoftmax",)), (_SOFTMAX, frozenset(("log",)))),
    _Chain(
        frozenset(("rmsnorm", "npurmsnorm")),
        (
            frozenset(("pow", "square")),
            frozenset(("mean", "reducemean")),
            _ADD,
            frozenset(("rsqrt",)),
            frozenset(("mul",)),
            frozenset(("mul",)),
        ),
        frozenset((5,)),
    ),
)


def with_fused(run_calls: Sequence[RunCall], others: Sequence[RunCall]) -> list[RunCall]:
    """The calls with those drawn together whose work the other side does in one.

    Only where the other side has more of the fused operator than this one, and the shapes of all
    that goes in and comes out are those of one of its calls.

    Parameters
    ----------
    visits, others : sequence of RunCall
        Of both sides, in order.

    Returns
    -------
    list of RunCall
        In order; what is drawn together has `members`.
    """
    return _sides_by_side(_reshaped(_chained(list(run_calls), others), others), others)


def _chained(run_calls: list[RunCall], others: Sequence[RunCall]) -> list[RunCall]:
    mine = Counter(run_call.bare for run_call in run_calls if not run_call.is_module)
    theirs = Counter(run_call.bare for run_call in others if not run_call.is_module)
    for chain in _CHAINS:
        # A convolution with its bias bears the name of the one without.
        names = [
            name
            for name in chain.fused
            if theirs[name] > (0 if name in chain.parts[0] else mine[name])
        ]
        if not names or not chain.parts[0] & mine.keys():
            continue
        # How many there are is not asked: those that find no partner are taken apart again.
        wanted = {_outside(v) for v in others if v.bare in names}
        op = next(v.op for v in others if v.bare in names)
        found: list[RunCall] = []
        i = 0
        while i < len(run_calls):
            end, members = _chain_at(run_calls, i, chain)
            if members:
                fused = drawn_together(members, op, "chain")
                if _outside(fused) in wanted:
                    inside = set(map(id, members))
                    found += [fused, *(v for v in run_calls[i:end] if id(v) not in inside)]
                    i = end
                    continue
            found.append(run_calls[i])
            i += 1
        run_calls = found
    return run_calls


def _outside(run_call: RunCall) -> tuple[int, int]:
    """What a change of form outside of a fused operator leaves as it is."""
    return len(run_call.inputs), run_call.size


def _reshaped(run_calls: list[RunCall], others: Sequence[RunCall]) -> list[RunCall]:
    """The calls with the changes of form around them, where the other side needs none."""
    known = {_form(run_call) for run_call in others if not run_call.is_module}
    mine = {_form(run_call) for run_call in run_calls}
    if known <= mine:
        return run_calls
    found: list[RunCall] = []
    at = 0
    while at < len(run_calls):
        for first, last in ((0, 3), (0, 2), (1, 3)):
            # With a change of form in front, behind, or both.
            core = at + (first == 0)
            part = run_calls[at : at + last - first]
            if len(part) < last - first or core >= len(run_calls):
                continue
            kernel = run_calls[core]
            around = [v for v in part if v is not kernel]
            if kernel.is_module or kernel.bare in FORM_ONLY or kernel.bundle == "split":
                continue
            if any(v.bare not in _RESHAPES or v.members for v in around):
                continue
            members = [m for v in part for m in (v.members or (v,))]
            whole = drawn_together(members, kernel.op, "chain")
            if _linked(part) and _form(whole) in known and _form(kernel) not in known:
                found.append(whole)
                at += len(part)
                break
        else:
            found.append(run_calls[at])
            at += 1
    return found


def _form(run_call: RunCall) -> tuple[object, ...]:
    return run_call.word, tuple(sorted(run_call.inputs)), run_call.outputs


def _linked(run_calls: Sequence[RunCall]) -> bool:
    return all(set(a.outputs) & set(b.inputs) for a, b in pairwise(run_calls))


def _chain_at(run_calls: Sequence[RunCall], start: int, chain: _Chain) -> tuple[int, list[RunCall]]:
    """The members of the chain that begins here, and the position behind; none if it does not."""
    members: list[RunCall] = []
    at, part, between = start, 0, 0
    while part < len(chain.parts) and at < len(run_calls):
        run_call = run_calls[at]
        ways = [part]
        while ways[-1] in chain.optional:
            ways.append(ways[-1] + 1)
        hit = next(
            (k for k in ways if run_call.bare in chain.parts[k] and not run_call.members), None
        )
        linked = not members or bool(set(members[-1].outputs) & set(run_call.inputs))
        if hit is not None and linked:
            members.append(run_call)
            part, between = hit + 1, 0
        elif members and run_call.bare in FORM_ONLY and between < MOST_BETWEEN_FUSED:
            between += 1
        else:
            break
        at += 1
    if all(k in chain.optional for k in range(part, len(chain.parts))) and len(members) > 1:
        return at, members
    return start, []


def _sides_by_side(run_calls: list[RunCall], others: Sequence[RunCall]) -> list[RunCall]:
    """Linear layers of one input drawn together, where the other side has one as wide as all."""
    widest = Counter(key for run_call in others if (key := _width(run_call)))
    widest.subtract(key for run_call in run_calls if (key := _width(run_call)))
    wanted = Counter({key: count for key, count in widest.items() if count > 0})
    if not wanted:
        return run_calls
    example = {key: run_call for run_call in others if (key := _width(run_call))}
    counts = Counter(map(_width, run_calls)), Counter(map(_width, others))
    found: list[RunCall] = []
    i = 0
    while i < len(run_calls):
        for members in _runs_at(run_calls, i):
            own = members[0].layer if members[0].is_module else members[0].op
            key = _width(drawn_together(members, own, "split"))
            # The other side has the wide one instead of these, not beside them.
            is_instead = all(counts[0][_width(m)] > counts[1][_width(m)] for m in members)
            if key and wanted[key] and is_instead:
                like = example[key]
                wanted[key] -= 1
                op = like.layer if like.is_module else like.op
                found.append(drawn_together(members, op, "split"))
                i += len(members)
                break
        else:
            found.append(run_calls[i])
            i += 1
    return found


def _runs_at(run_calls: Sequence[RunCall], start: int) -> Iterator[list[RunCall]]:
    """Three or two linear layers in a row from here on, all with the same input."""
    first = run_calls[start]
    if not _is_linear(first) or first.bundle == "split":
        return
    for length in (3, 2):
        run = list(run_calls[start : start + length])
        same = all(
            v.word == first.word
            and v.inputs[:1] == first.inputs[:1]
            and v.bundle != "split"
            and (v.path != first.path or not v.is_module or v is first)
            and _figures_agree(v, first)
            for v in run
        )
        if len(run) == length and same:
            yield run


def _figures_agree(left: RunCall, right: RunCall) -> bool:
    """Whether the first inputs may be one tensor by what is known of their values."""
    first = [v.leaves("forward", "input")[:1] for v in (left, right)]
    sites = [items[0].site for items in first if items]
    if len(sites) < 2 or not (sites[0] and sites[1]):
        return True
    figures = [site.figures for site in sites if site]
    if any(f != f for one in figures for f in one):
        return True
    return all(abs(a - b) <= 1e-6 * max(abs(a), abs(b)) for a, b in zip(*figures, strict=True))


def _is_linear(run_call: RunCall) -> bool:
    """Whether it is a linear layer or the operator of one."""
    return run_call.word == "linear" if run_call.is_module else run_call.bare in _LINEAR | _MATMUL


def _width(run_call: RunCall) -> tuple[object, ...]:
    """What a linear layer takes and gives; nothing for any other call."""
    if not _is_linear(run_call) or len(run_call.outputs) != 1:
        return ()
    # Of operators the weight is an input; only the first is the same for all side by side.
    if not run_call.inputs or run_call.outputs[0] is None:
        return ()
    return *run_call.inputs[:1], run_call.outputs[0]


def drawn_together(
    members: Sequence[RunCall], op: str, bundle: Literal["chain", "split"]
) -> RunCall:
    """The calls as one that does the work of operator `op`, one after the other or side by side."""
    items = tuple(item for member in members for item in member.items)
    return replace(
        members[0],
        items=items,
        members=tuple(members),
        bundle=bundle,
        stands_for=op,
    )
