"""Modules of two networks: equal paths, then paths behind one renaming found from sure pairs."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import accumulate

from troubleshooter_nb.analysis.call_order import in_order
from troubleshooter_nb.analysis.call_pairs import RunCallPair, order_confidence, unpaired
from troubleshooter_nb.analysis.calls_of_run import RunCall
from troubleshooter_nb.analysis.fused import with_fused
from troubleshooter_nb.analysis.layer_kinds import kinds_differ, one_may_replace
from troubleshooter_nb.messages import Message
from troubleshooter_nb.thresholds import (
    APART,
    CALLS_AMONG,
    DEEPEST_RENAMING,
    DOUBTFUL,
    FITTING,
    LOOSE,
    NAMED,
    RENAMED,
    RENAMING_SHARE,
    STRAYED,
    SUREST,
)

_NUMBER = re.compile(r"[0-9]+")
_Key = tuple[str, int]


def pair_modules(left: Sequence[RunCall], right: Sequence[RunCall]) -> list[RunCallPair]:
    """The calls of modules that belong together.

    Parameters
    ----------
    left, right : sequence of RunCall
        Calls of modules, in the order in which they began.

    Returns
    -------
    list of VisitPair
        Equal paths first; where the same path is another layer on the other side, or none at all,
        leaves of the tree by order and signature, then by the renaming that these pairs make;
        then the modules around them.
    """
    pairs = _doubting_crossed(_equal_paths(left, right))
    rest = unpaired(left, right, pairs)
    if not rest[0] or not rest[1]:
        return pairs
    inner = _inner_paths(left), _inner_paths(right)
    leaves = [
        with_fused(
            [v for v in side if v.path not in inner[k]],
            [v for v in other if v.path not in inner[1 - k]],
        )
        for k, (side, other) in enumerate(((rest[0], rest[1]), (rest[1], rest[0])))
    ]
    found = _leaves_in_order(leaves[0], leaves[1], pairs)
    found = _by_renaming(found, leaves, pairs)
    pairs += found
    pairs += _containers(rest, inner, pairs)
    return [*pairs, *_same_path_at_least(*unpaired(left, right, pairs))]


def _equal_paths(left: Sequence[RunCall], right: Sequence[RunCall]) -> list[RunCallPair]:
    calls = Counter(v.path for v in left), Counter(v.path for v in right)
    theirs = {(v.path, v.call): v for v in right}
    numbers = _numbers(left), _numbers(right)
    sure_of: dict[str, float] = {}
    for pattern in numbers[0].keys() & numbers[1].keys():
        mine, others = numbers[0][pattern], numbers[1][pattern]
        # With blocks 0 to 11 here and 0 to 12 there, the additional one need not be the last.
        one_more = CALLS_AMONG if mine <= others or others <= mine else APART
        sure_of[pattern] = 1.0 if mine == others else one_more
    pairs = []
    for a in left:
        b = theirs.get((a.path, a.call))
        if b is None or calls[0][a.path] != calls[1][a.path] or _contradict(a, b):
            continue
        sure = sure_of[_NUMBER.sub("#", a.path)]
        if a.layer != b.layer or a.signature != b.signature:
            sure = min(sure, NAMED)
        pairs.append(RunCallPair(a, b, "name", sure))
    return pairs


def _doubting_crossed(pairs: list[RunCallPair]) -> list[RunCallPair]:
    """The pairs, less sure where layers of one kind ran in another order than their names say.

    ``ln1`` and ``ln2`` may have changed their names, or their places.
    """
    groups: dict[Hashable, list[RunCallPair]] = defaultdict(list)
    for pair in pairs:
        groups[pair.left.core].append(pair)
    crossed: set[int] = set()
    for group in groups.values():
        group.sort(key=lambda pair: pair.left.position)
        places = [pair.right.position for pair in group]
        before = list(accumulate(places, max))
        behind = list(accumulate(reversed(places), min))[::-1]
        crossed.update(
            id(pair)
            for k, pair in enumerate(group)
            if before[k] > places[k] or behind[k] < places[k]
        )
    return [
        replace(pair, confidence=min(pair.confidence, FITTING)) if id(pair) in crossed else pair
        for pair in pairs
    ]


def _same_path_at_least(left: Sequence[RunCall], right: Sequence[RunCall]) -> list[RunCallPair]:
    """Leftovers of equal paths: a layer of another size, one visited less often, one replaced."""
    theirs = {(v.path, v.call): v for v in right}
    pairs = []
    for run_call in left:
        other = theirs.get((run_call.path, run_call.call))
        if other is None:
            continue
        if not kinds_differ(run_call.layer, other.layer):
            pairs.append(RunCallPair(run_call, other, "name", DOUBTFUL))
        elif run_call.outputs == other.outputs:
            note = Message("calls.other_class", left=run_call.layer, right=other.layer)
            is_kept = bool(run_call.inputs) and run_call.inputs == other.inputs
            if is_kept or one_may_replace(run_call.layer, other.layer):
                sure = FITTING if is_kept else DOUBTFUL
                pairs.append(RunCallPair(run_call, other, "name", sure, note))
    return pairs


def _numbers(run_calls: Iterable[RunCall]) -> dict[str, set[tuple[str, ...]]]:
    found: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for run_call in run_calls:
        found[_NUMBER.sub("#", run_call.path)].add(tuple(_NUMBER.findall(run_call.path)))
    return found


def _contradict(left: RunCall, right: RunCall) -> bool:
    """Whether they cannot be the same layer: known classes or shapes of parameters differ."""
    if kinds_differ(left.layer, right.layer):
        return True
    mine, theirs = dict(left.parameters), dict(right.parameters)
    shared = mine.keys() & theirs.keys()
    return any(mine[leaf] != theirs[leaf] for leaf in shared if mine[leaf] and theirs[leaf])


def _inner_paths(run_calls: Iterable[RunCall]) -> set[str]:
    """Paths of modules that have others inside."""
    return {prefix for run_call in run_calls for prefix in _around(run_call.path)}


def _around(path: str) -> list[str]:
    """What a path lies in, from the outermost to the innermost."""
    ends = [match.start() for match in re.finditer(r"\.", path)]
    return [path[:end] for end in ends[:DEEPEST_RENAMING]]


def _leaves_in_order(
    left: Sequence[RunCall], right: Sequence[RunCall], known: Sequence[RunCallPair]
) -> list[RunCallPair]:
    """Leaves by order, inside the stretches between the pairs already known."""
    found: list[RunCallPair] = []
    for mine, theirs in _stretches(left, right, known):
        pairs = in_order(mine, theirs)
        sure = order_confidence(mine, theirs, pairs)
        found += [
            RunCallPair(mine[i], theirs[j], "site", confidence)
            for (i, j, _), confidence in zip(pairs, sure, strict=True)
        ]
    return found


def _stretches(
    left: Sequence[RunCall], right: Sequence[RunCall], known: Sequence[RunCallPair]
) -> list[tuple[list[RunCall], list[RunCall]]]:
    """Calls between the same known pairs, of those that ran in the same order."""
    ordered = sorted(known, key=lambda pair: pair.left.position)
    bounds: list[tuple[int, int]] = []
    for pair in ordered:
        if not bounds or pair.right.position > bounds[-1][1]:
            bounds.append((pair.left.position, pair.right.position))
    found = []
    i = j = 0
    for a, b in [*bounds, (1 << 62, 1 << 62)]:
        mine, theirs = [], []
        while i < len(left) and left[i].position < a:
            mine.append(left[i])
            i += 1
        while j < len(right) and right[j].position < b:
            theirs.append(right[j])
            j += 1
        if mine and theirs:
            found.append((mine, theirs))
    return found


def _by_renaming(
    found: list[RunCallPair], leaves: Sequence[Sequence[RunCall]], known: Sequence[RunCallPair]
) -> list[RunCallPair]:
    """The pairs with what the renaming they make says of each: surer, doubtful, or another one."""
    steady = [pair for pair in found if pair.confidence > DOUBTFUL]
    layers = _partner_layers([*known, *steady])
    names: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for pair in (*known, *steady):
        names[_generic(pair.left.path)][pair.right.path.rpartition(".")[2]] += 1
    back: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for pair in (*known, *steady):
        back[_generic(pair.right.path)][pair.left.path.rpartition(".")[2]] += 1

    def renamed(path: str) -> tuple[str, int]:
        """The path on the right by the renaming, and how many pairs speak for it."""
        parent, _, _ = path.rpartition(".")
        votes = names.get(_generic(path))
        if not votes or (parent and parent not in layers):
            return "", 0
        name, count = votes.most_common(1)[0]
        if count < RENAMING_SHARE * votes.total():
            return "", 0
        return f"{layers[parent]}.{name}" if parent else name, count

    checked, dropped = [], []
    for pair in found:
        wanted, count = renamed(pair.left.path)
        mirror = back.get(_generic(pair.right.path), Counter())
        agrees = wanted == pair.right.path and (
            mirror[pair.left.path.rpartition(".")[2]] >= RENAMING_SHARE * mirror.total()
        )
        if agrees and pair.confidence >= SUREST and count > 1:
            checked.append(replace(pair, method="renamed", confidence=RENAMED))
        elif agrees or not wanted:
            checked.append(replace(pair, method="renamed" if agrees else pair.method))
        elif pair.confidence <= DOUBTFUL:
            dropped.append(pair)
        else:
            checked.append(replace(pair, confidence=min(pair.confidence, STRAYED)))
    rest = unpaired(leaves[0], leaves[1], checked)
    theirs = {(v.path, v.call): v for v in rest[1]}
    taken: set[_Key] = set()
    for run_call in rest[0]:
        path, count = renamed(run_call.path)
        other = theirs.get((path, run_call.call))
        if other and (path, run_call.call) not in taken and not _contradict(run_call, other):
            same = run_call.signature == other.signature and count > 1
            checked.append(RunCallPair(run_call, other, "renamed", SUREST if same else LOOSE))
            taken.add((path, run_call.call))
    rest = unpaired(rest[0], rest[1], checked)
    mine, theirs_left = set(map(id, rest[0])), set(map(id, rest[1]))
    checked += [p for p in dropped if id(p.left) in mine and id(p.right) in theirs_left]
    return [*checked, *_only_ones(unpaired(*rest, checked), layers)]


def _only_ones(
    rest: tuple[list[RunCall], list[RunCall]], layers: dict[str, str]
) -> list[RunCallPair]:
    """Leftovers that are the only ones of their signature in layers that belong together."""

    def key(run_call: RunCall, parent: str) -> tuple[object, ...]:
        return parent, run_call.signature

    sides: list[dict[tuple[object, ...], list[RunCall]]] = [defaultdict(list), defaultdict(list)]
    for run_call in rest[0]:
        parent = run_call.path.rpartition(".")[0]
        if parent in layers or not parent:
            sides[0][key(run_call, layers.get(parent, ""))].append(run_call)
    for run_call in rest[1]:
        sides[1][key(run_call, run_call.path.rpartition(".")[0])].append(run_call)
    return [
        RunCallPair(mine[0], sides[1][k][0], "site", LOOSE, Message("calls.only_ones"))
        for k, mine in sides[0].items()
        if len(mine) == 1 and len(sides[1].get(k, ())) == 1
    ]


def _generic(path: str) -> tuple[str, str]:
    """The path around a module without its numbers, and the module's own name."""
    parent, _, name = path.rpartition(".")
    return _NUMBER.sub("#", parent), name


def _partner_layers(pairs: Iterable[RunCallPair]) -> dict[str, str]:
    """For each layer on the left the one on the right that nearly all pairs in both lie in."""
    mine, theirs = Counter[str](), Counter[str]()
    both = Counter[tuple[str, str]]()
    for pair in pairs:
        around = _around(pair.left.path), _around(pair.right.path)
        mine.update(around[0])
        theirs.update(around[1])
        both.update((a, b) for a in around[0] for b in around[1])
    best: dict[str, tuple[float, int, str]] = {}
    for (a, b), votes in both.items():
        share = votes / max(mine[a], theirs[b])
        if share > RENAMING_SHARE:
            # Of several around the same leaves the one as deep as this one, else the innermost.
            depth = -abs(a.count(".") - b.count("."))
            best[a] = max(best.get(a, (0.0, -99, "")), (share, depth, b))
    return {a: b for a, (_, _, b) in best.items()}


def _containers(
    rest: tuple[list[RunCall], list[RunCall]],
    inner: tuple[set[str], set[str]],
    pairs: Sequence[RunCallPair],
) -> list[RunCallPair]:
    """Modules around others: those around the same pairs belong together."""
    layers = _partner_layers(pairs)
    mirrored = _partner_layers([replace(p, left=p.right, right=p.left) for p in pairs])
    shaky = {
        path for pair in pairs if pair.confidence <= DOUBTFUL for path in _around(pair.left.path)
    }
    taken = {id(pair.right) for pair in pairs}
    theirs = {(v.path, v.call): v for v in rest[1] if v.path in inner[1]}
    counts = [Counter(v.path for v in side) for side in rest]
    found = []
    for run_call in rest[0]:
        path = layers.get(run_call.path, "")
        other = theirs.get((path, run_call.call)) if run_call.path in inner[0] else None
        if other is None or id(other) in taken or _contradict(run_call, other):
            continue
        agrees = mirrored.get(path) == run_call.path and counts[0][run_call.path] == counts[1][path]
        same = run_call.outputs == other.outputs
        sure = RENAMED if agrees and same else LOOSE
        found.append(
            RunCallPair(run_call, other, "renamed", DOUBTFUL if run_call.path in shaky else sure)
        )
        taken.add(id(other))
    return found
