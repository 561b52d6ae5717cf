"""Operators that do on one side the work of several on the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from troubleshooter_nb.analysis.api_names import FORM_ONLY
from troubleshooter_nb.analysis.visits import Visit
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


def with_fused(visits: Sequence[Visit], others: Sequence[Visit]) -> list[Visit]:
    """The calls with those drawn together whose work the other side does in one.

    Only where the other side has more of the fused operator than this one, and the shapes of all
    that goes in and comes out are those of one of its calls.

    Parameters
    ----------
    visits, others : sequence of Visit
        Of both sides, in order.

    Returns
    -------
    list of Visit
        In order; what is drawn together has `members`.
    """
    return _sides_by_side(_reshaped(_chained(list(visits), others), others), others)


def _chained(visits: list[Visit], others: Sequence[Visit]) -> list[Visit]:
    mine = Counter(visit.bare for visit in visits if not visit.is_module)
    theirs = Counter(visit.bare for visit in others if not visit.is_module)
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
        found: list[Visit] = []
        i = 0
        while i < len(visits):
            end, members = _chain_at(visits, i, chain)
            if members:
                fused = drawn_together(members, op, "chain")
                if _outside(fused) in wanted:
                    inside = set(map(id, members))
                    found += [fused, *(v for v in visits[i:end] if id(v) not in inside)]
                    i = end
                    continue
            found.append(visits[i])
            i += 1
        visits = found
    return visits


def _outside(visit: Visit) -> tuple[int, int]:
    """What a change of form outside of a fused operator leaves as it is."""
    return len(visit.inputs), visit.size


def _reshaped(visits: list[Visit], others: Sequence[Visit]) -> list[Visit]:
    """The calls with the changes of form around them, where the other side needs none."""
    known = {_form(visit) for visit in others if not visit.is_module}
    mine = {_form(visit) for visit in visits}
    if known <= mine:
        return visits
    found: list[Visit] = []
    at = 0
    while at < len(visits):
        for first, last in ((0, 3), (0, 2), (1, 3)):
            # With a change of form in front, behind, or both.
            core = at + (first == 0)
            part = visits[at : at + last - first]
            if len(part) < last - first or core >= len(visits):
                continue
            kernel = visits[core]
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
            found.append(visits[at])
            at += 1
    return found


def _form(visit: Visit) -> tuple[object, ...]:
    return visit.word, tuple(sorted(visit.inputs)), visit.outputs


def _linked(visits: Sequence[Visit]) -> bool:
    return all(set(a.outputs) & set(b.inputs) for a, b in pairwise(visits))


def _chain_at(visits: Sequence[Visit], start: int, chain: _Chain) -> tuple[int, list[Visit]]:
    """The members of the chain that begins here, and the position behind; none if it does not."""
    members: list[Visit] = []
    at, part, between = start, 0, 0
    while part < len(chain.parts) and at < len(visits):
        visit = visits[at]
        ways = [part]
        while ways[-1] in chain.optional:
            ways.append(ways[-1] + 1)
        hit = next((k for k in ways if visit.bare in chain.parts[k] and not visit.members), None)
        linked = not members or bool(set(members[-1].outputs) & set(visit.inputs))
        if hit is not None and linked:
            members.append(visit)
            part, between = hit + 1, 0
        elif members and visit.bare in FORM_ONLY and between < MOST_BETWEEN_FUSED:
            between += 1
        else:
            break
        at += 1
    if all(k in chain.optional for k in range(part, len(chain.parts))) and len(members) > 1:
        return at, members
    return start, []


def _sides_by_side(visits: list[Visit], others: Sequence[Visit]) -> list[Visit]:
    """Linear layers of one input drawn together, where the other side has one as wide as all."""
    widest = Counter(key for visit in others if (key := _width(visit)))
    widest.subtract(key for visit in visits if (key := _width(visit)))
    wanted = Counter({key: count for key, count in widest.items() if count > 0})
    if not wanted:
        return visits
    example = {key: visit for visit in others if (key := _width(visit))}
    counts = Counter(map(_width, visits)), Counter(map(_width, others))
    found: list[Visit] = []
    i = 0
    while i < len(visits):
        for members in _runs_at(visits, i):
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
            found.append(visits[i])
            i += 1
    return found


def _runs_at(visits: Sequence[Visit], start: int) -> Iterator[list[Visit]]:
    """Three or two linear layers in a row from here on, all with the same input."""
    first = visits[start]
    if not _is_linear(first) or first.bundle == "split":
        return
    for length in (3, 2):
        run = list(visits[start : start + length])
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


def _figures_agree(left: Visit, right: Visit) -> bool:
    """Whether the first inputs may be one tensor by what is known of their values."""
    first = [v.leaves("forward", "input")[:1] for v in (left, right)]
    sites = [items[0].site for items in first if items]
    if len(sites) < 2 or not (sites[0] and sites[1]):
        return True
    figures = [site.figures for site in sites if site]
    if any(f != f for one in figures for f in one):
        return True
    return all(abs(a - b) <= 1e-6 * max(abs(a), abs(b)) for a, b in zip(*figures, strict=True))


def _is_linear(visit: Visit) -> bool:
    """Whether it is a linear layer or the operator of one."""
    return visit.word == "linear" if visit.is_module else visit.bare in _LINEAR | _MATMUL


def _width(visit: Visit) -> tuple[object, ...]:
    """What a linear layer takes and gives; nothing for any other call."""
    if not _is_linear(visit) or len(visit.outputs) != 1:
        return ()
    # Of operators the weight is an input; only the first is the same for all side by side.
    if not visit.inputs or visit.outputs[0] is None:
        return ()
    return *visit.inputs[:1], visit.outputs[0]


def drawn_together(members: Sequence[Visit], op: str, bundle: Literal["chain", "split"]) -> Visit:
    """The calls as one that does the work of operator `op`, one after the other or side by side."""
    items = tuple(item for member in members for item in member.items)
    return replace(
        members[0],
        items=items,
        members=tuple(members),
        bundle=bundle,
        stands_for=op,
    )
