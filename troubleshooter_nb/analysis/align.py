"""The matchers behind a `Pairing`: names, parameter names, saving order, shapes."""

from __future__ import annotations

import difflib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np

from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import PairingError
from troubleshooter_nb.naming import canonical_parameter, natural_key, parameter_leaf
from troubleshooter_nb.pairing import Match, Pairing

PairingMethod = Literal["auto", "name", "order", "shape"]

# Beyond this many cells an alignment is split at shapes that occur once on each side.
_MOST_CELLS = 1_000_000
_CANDIDATES = 3
_MOST_CANDIDATE_ROWS = 200


@dataclass(frozen=True)
class _Item:
    """One entry as the matchers see it."""

    row: int
    name: str
    path: str
    call: int
    order: int
    shape: str
    parameter: str | None = None
    short_parameter: str | None = None


def pair_dumps(
    left: Dump,
    right: Dump,
    *,
    method: PairingMethod = "auto",
    mapping: Mapping[str, str | None] | Iterable[tuple[str | None, str | None]] | None = None,
) -> Pairing:
    """Find which entries of two dumps belong together.

    Parameters
    ----------
    left, right : Dump
    method : {"auto", "name", "order", "shape"}
        ``auto``: equal stems first, then parameter names in either framework's spelling, then
        what remains by saving order, shape and name likeness together. ``name``: equal entry
        names only. ``order``: first with first. ``shape``: shape edit distance with the costs
        of TroubleShooter (delete 1, insert 1, replace 5).
    mapping : dict or list of pairs, optional
        ``{left name: right name}`` for pairs that are known; None on a side declares that a
        partner is expected to be missing. Names may end in ``.npy``. The method pairs the rest.

    Returns
    -------
    Pairing
        Every entry of both dumps occurs in exactly one row. Only entries of the same step and
        rank are paired.

    Raises
    ------
    PairingError
        If the mapping names an entry that does not exist or names one twice.
    """
    matchers: dict[str, Callable[[list[_Item], list[_Item]], list[Match]]] = {
        "auto": _by_everything,
        "name": _by_name,
        "order": _by_order,
        "shape": _by_shape,
    }
    if method not in matchers:
        msg = f"unknown pairing {method!r}; choose one of {', '.join(matchers)}"
        raise PairingError(msg)
    given = _given_matches(left, right, mapping)
    used = ({m.left for m in given}, {m.right for m in given})
    groups = _groups(left, used[0]), _groups(right, used[1])
    matches = list(given)
    for place in sorted(groups[0].keys() | groups[1].keys()):
        mine, theirs = groups[0].get(place, []), groups[1].get(place, [])
        found = matchers[method](mine, theirs)
        matches += found + _rest(mine, theirs, found)
    return Pairing.from_matches(left, right, _in_left_order(matches, left, right))


def shape_edit_distance(
    left: Sequence[str], right: Sequence[str], *, delete: int = 1, insert: int = 1, replace: int = 5
) -> list[tuple[int, int]]:
    """Pairs of positions that align two sequences of shapes at the least cost.

    Equal shapes cost nothing, a pair of different ones `replace`. Among equally cheap alignments
    runs of equal shapes bind to the head on both sides, so swapping the sides mirrors the result.

    Notes
    -----
    Source: spec/troubleshooter.md 3.2 and acceptance case 8. TroubleShooter itself binds to the
    tail when its first side is the shorter one.
    """
    n, m = len(left), len(right)
    rest = np.zeros((n + 1, m + 1), np.int64)
    rest[:, m] = np.arange(n, -1, -1) * delete
    rest[n, :] = np.arange(m, -1, -1) * insert
    for i in range(n - 1, -1, -1):
        for j in range(m - 1, -1, -1):
            match = rest[i + 1, j + 1] + (0 if left[i] == right[j] else replace)
            rest[i, j] = min(match, rest[i + 1, j] + delete, rest[i, j + 1] + insert)
    pairs, i, j = [], 0, 0
    while i < n and j < m:
        cost = 0 if left[i] == right[j] else replace
        if rest[i, j] == rest[i + 1, j + 1] + cost:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif rest[i, j] == rest[i + 1, j] + delete:
            i += 1
        else:
            j += 1
    return pairs


def _given_matches(
    left: Dump,
    right: Dump,
    mapping: Mapping[str, str | None] | Iterable[tuple[str | None, str | None]] | None,
) -> list[Match]:
    if mapping is None:
        return []
    pairs = list(mapping.items() if isinstance(mapping, Mapping) else mapping)
    rows = [_rows_by_name(left), _rows_by_name(right)]
    used: list[set[str]] = [set(), set()]
    matches = []
    for number, pair in enumerate(pairs):
        if isinstance(pair, str) or len(pair) != 2 or pair == (None, None):
            msg = f"row {number} of the mapping is {pair!r}; expected (left name, right name)"
            raise PairingError(msg)
        found: list[dict[tuple[int, int], int]] = []
        for side, dump in enumerate((left, right)):
            name = pair[side]
            if name is None:
                found.append({})
                continue
            known = name if name in rows[side] else name.removesuffix(".npy")
            if known not in rows[side]:
                close = difflib.get_close_matches(known, list(rows[side]), n=2, cutoff=0.4)
                hint = f"; closest: {', '.join(map(repr, close))}" if close else ""
                where = "left" if side == 0 else "right"
                msg = f"row {number} of the mapping: no {name!r} in {where} {dump.label!r}{hint}"
                raise PairingError(msg)
            if known in used[side]:
                msg = f"row {number} of the mapping names {name!r} a second time"
                raise PairingError(msg)
            used[side].add(known)
            found.append(rows[side][known])
        if pair[0] is None or pair[1] is None:
            side = 0 if pair[1] is None else 1
            for row in found[side].values():
                alone = (row, -1) if side == 0 else (-1, row)
                matches.append(Match(*alone, "unmatched", np.nan, expected=True))
            continue
        for place in sorted(found[0].keys() & found[1].keys()):
            matches.append(Match(found[0][place], found[1][place], "user", 1.0))
    return matches


def _rows_by_name(dump: Dump) -> dict[str, dict[tuple[int, int], int]]:
    rows: dict[str, dict[tuple[int, int], int]] = defaultdict(dict)
    for place, items in _groups(dump, set()).items():
        for item in items:
            rows[item.name][place] = item.row
    return dict(rows)


def _groups(dump: Dump, skip: set[int]) -> dict[tuple[int, int], list[_Item]]:
    """Entries by (step, rank), in the order of saving; unordered ones last, by name."""
    columns = {
        name: dump.index[name].values
        for name in ("name", "path", "call", "direction", "order", "shape", "step", "rank")
    }
    groups: dict[tuple[int, int], list[_Item]] = defaultdict(list)
    for row in range(len(dump)):
        if row in skip:
            continue
        path = str(columns["path"][row])
        backward = "<backward>" if columns["direction"][row] == "backward" else ""
        item = _Item(
            row=row,
            name=str(columns["name"][row]),
            path=path + ("" if parameter_leaf(re.sub(r"_\d+$", "", path)) else backward),
            call=int(columns["call"][row]),
            order=int(columns["order"][row]),
            shape=str(columns["shape"][row]),
        )
        groups[int(columns["step"][row]), int(columns["rank"][row])].append(item)
    for place, items in groups.items():
        items.sort(key=lambda item: (item.order < 0, item.order, natural_key(item.name)))
        groups[place] = _with_parameter_names(items)
    return dict(groups)


def _with_parameter_names(items: list[_Item]) -> list[_Item]:
    """Entries whose names end in a parameter's leaf get that name in torch's spelling.

    Once as it stands, but for the position that ``get_pt_grads`` appends (``fc.weight_0``), and
    once without what all entries of the dump have in front of it (``torch_grads.``).
    """
    paths = [re.sub(r"_\d+$", "", item.path) for item in items]
    prefix = _common_prefix(paths)
    full = _torch_spelling([(path, item.call) for path, item in zip(paths, items, strict=True)])
    short = _torch_spelling(
        [(path[len(prefix) :], item.call) for path, item in zip(paths, items, strict=True)]
    )
    return [
        replace(item, parameter=full[i], short_parameter=short[i]) for i, item in enumerate(items)
    ]


def _torch_spelling(places: list[tuple[str, int]]) -> list[str | None]:
    """Canonical names; two entries that would get the same one keep their own spelling."""
    names = [canonical_parameter(path) for path, _ in places]
    counts = Counter((name, call) for name, (_, call) in zip(names, places, strict=True))
    return [
        name if name is None or counts[name, call] == 1 else path
        for name, (path, call) in zip(names, places, strict=True)
    ]


def _common_prefix(paths: list[str]) -> str:
    if len(paths) < 2:
        return ""
    # The first and last in sorting order have in common what all have.
    first, last = min(paths), max(paths)
    length = next((i for i, (a, b) in enumerate(zip(first, last)) if a != b), len(first))  # noqa: B905
    common = first[:length]
    end = max(common.rfind("."), common.rfind("/")) + 1
    # The oldest naming joins the file name to the key with "_".
    return common[: end or common.rfind("_") + 1]


def _by_name(left: list[_Item], right: list[_Item]) -> list[Match]:
    names = {item.name: item for item in right}
    return [
        Match(item.row, names[item.name].row, "name", 1.0) for item in left if item.name in names
    ]


def _by_order(left: list[_Item], right: list[_Item]) -> list[Match]:
    return [
        Match(a.row, b.row, "order", 0.9 if a.shape == b.shape and a.shape else 0.2)
        for a, b in zip(left, right, strict=False)
    ]


def _by_shape(left: list[_Item], right: list[_Item]) -> list[Match]:
    pairs = shape_edit_distance([a.shape for a in left], [b.shape for b in right])
    return [
        Match(left[i].row, right[j].row, "shape", 0.6 if left[i].shape == right[j].shape else 0.2)
        for i, j in pairs
    ]


def _by_everything(left: list[_Item], right: list[_Item]) -> list[Match]:
    matches: list[Match] = []
    for method, key in (
        ("name", lambda item: (item.path, item.call)),
        ("parameter", lambda item: (item.parameter, item.call) if item.parameter else None),
        (
            "parameter",
            lambda item: (item.short_parameter, item.call) if item.short_parameter else None,
        ),
    ):
        found = _by_key(left, right, key, method)
        matches += found
        left, right = _unused(left, right, found)
    return matches + _by_alignment(left, right)


def _by_key(
    left: list[_Item],
    right: list[_Item],
    key: Callable[[_Item], tuple[str | None, int] | None],
    method: str,
) -> list[Match]:
    index: dict[object, list[_Item]] = defaultdict(list)
    for item in right:
        if (k := key(item)) is not None:
            index[k].append(item)
    mine = Counter(key(item) for item in left)
    matches = []
    for item in left:
        k = key(item)
        if k is None or mine[k] > 1 or len(index.get(k, ())) != 1:
            continue
        partner = index[k][0]
        same = item.shape == partner.shape
        confidence = (1.0 if method == "name" else 0.98) if same else 0.8
        note = "" if same or not (item.shape and partner.shape) else "same name, other shape"
        matches.append(Match(item.row, partner.row, method, confidence, note))
    return matches


def _unused(
    left: list[_Item], right: list[_Item], found: list[Match]
) -> tuple[list[_Item], list[_Item]]:
    lefts, rights = {m.left for m in found}, {m.right for m in found}
    return (
        [item for item in left if item.row not in lefts],
        [item for item in right if item.row not in rights],
    )


def _by_alignment(left: list[_Item], right: list[_Item]) -> list[Match]:
    """Align what names could not pair: equal shapes in the same order, likeness as tie breaker."""
    if not left or not right:
        return []
    matches = []
    for mine, theirs in _split_at_anchors(left, right):
        rank = _confidence_of_shapes(mine, theirs)
        for i, j in _monotone_alignment(mine, theirs):
            matches.append(Match(mine[i].row, theirs[j].row, "order", rank[mine[i].shape]))
    return matches


def _split_at_anchors(
    left: list[_Item], right: list[_Item]
) -> list[tuple[list[_Item], list[_Item]]]:
    """Cut both sequences at shapes that occur once on each, while the table would be too large."""
    if len(left) * len(right) <= _MOST_CELLS:
        return [(left, right)]
    mine, theirs = Counter(i.shape for i in left), Counter(i.shape for i in right)
    place = {item.shape: j for j, item in enumerate(right) if theirs[item.shape] == 1}
    anchors = [
        (i, place[item.shape])
        for i, item in enumerate(left)
        if mine[item.shape] == 1 and item.shape in place
    ]
    kept: list[tuple[int, int]] = []
    for anchor in anchors:
        if not kept or anchor[1] > kept[-1][1]:
            kept.append(anchor)
    if not kept:
        half = len(left) // 2, len(right) // 2
        pieces = [(left[: half[0]], right[: half[1]]), (left[half[0] :], right[half[1] :])]
        return [part for piece in pieces for part in _split_at_anchors(*piece)]
    bounds = [(0, 0), *[(i + 1, j + 1) for i, j in kept], (len(left), len(right))]
    return [
        part
        for (i0, j0), (i1, j1) in pairwise(bounds)
        if i1 > i0 and j1 > j0
        for part in _split_at_anchors(left[i0:i1], right[j0:j1])
    ]


def _monotone_alignment(left: list[_Item], right: list[_Item]) -> list[tuple[int, int]]:
    """Longest in-order alignment of equal shapes; among equals, the likest names, then the head."""
    shapes = {shape: k for k, shape in enumerate({item.shape for item in (*left, *right)})}
    mine = np.array([shapes[item.shape] for item in left])
    theirs = np.array([shapes[item.shape] for item in right])
    unknown = shapes.get("", -1)
    tokens = [[frozenset(_words(item.path)) for item in side] for side in (left, right)]
    score = np.zeros((len(left) + 1, len(right) + 1), np.float32)
    gain = np.full((len(left), len(right)), -1.0, np.float32)
    for i in range(len(left) - 1, -1, -1):
        fits = (theirs == mine[i]) & (theirs != unknown)
        # A whole match always outweighs any number of likenesses below it.
        likeness = np.zeros(len(right), np.float32)
        for j in np.flatnonzero(fits):
            likeness[j] = _likeness(tokens[0][i], tokens[1][j])
        gain[i] = np.where(fits, 1.0 + 0.25 * likeness, -1.0)
        take = np.where(fits, score[i + 1, 1:] + gain[i], 0.0)
        best = np.maximum(score[i + 1, :-1], take)
        score[i, :-1] = np.maximum.accumulate(best[::-1])[::-1]
    pairs, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        here = score[i, j]
        if gain[i, j] > 0 and here == np.float32(score[i + 1, j + 1] + gain[i, j]):
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif here == score[i, j + 1]:
            j += 1
        else:
            i += 1
    return pairs


def _confidence_of_shapes(left: list[_Item], right: list[_Item]) -> dict[str, float]:
    """How sure a pair of this shape is: equal counts on both sides, or a shape seen once."""
    mine, theirs = Counter(i.shape for i in left), Counter(i.shape for i in right)
    return {
        shape: 0.9
        if mine[shape] == theirs[shape] == 1
        else 0.7
        if mine[shape] == theirs[shape]
        else 0.4
        for shape in mine
    }


def _words(path: str) -> list[str]:
    leaf = parameter_leaf(path)
    words = re.findall(r"[A-Za-z]+|\d+", path)
    return [*words[:-1], leaf] if leaf and words else words


def _likeness(left: frozenset[str], right: frozenset[str]) -> float:
    union = len(left | right)
    return len(left & right) / union if union else 0.0


def _rest(left: list[_Item], right: list[_Item], found: list[Match]) -> list[Match]:
    """A row for every entry without a partner, with its closest candidates."""
    alone_left, alone_right = _unused(left, right, found)
    rows = []
    for count, item in enumerate(alone_left):
        few = count < _MOST_CANDIDATE_ROWS
        text = _candidates(item, right, {m.right for m in found}) if few else ""
        rows.append(Match(item.row, -1, "unmatched", np.nan, candidates=text))
    for count, item in enumerate(alone_right):
        few = count < _MOST_CANDIDATE_ROWS
        text = _candidates(item, left, {m.left for m in found}) if few else ""
        rows.append(Match(-1, item.row, "unmatched", np.nan, candidates=text))
    return rows


def _candidates(item: _Item, others: list[_Item], taken: set[int]) -> str:
    words = frozenset(_words(item.path))
    ranked = sorted(
        ((_likeness(words, frozenset(_words(other.path))), other) for other in others),
        key=lambda pair: (-(pair[0] + (pair[1].shape == item.shape)), pair[1].order),
    )
    texts = []
    for likeness, other in ranked[:_CANDIDATES]:
        if likeness < 0.2 and other.shape != item.shape:
            continue
        why = []
        if other.shape != item.shape:
            why.append(f"shape {other.shape or 'unknown'}")
        if other.row in taken:
            why.append("taken")
        texts.append(other.name + (f" ({', '.join(why)})" if why else ""))
    return "; ".join(texts)


def _in_left_order(matches: list[Match], left: Dump, right: Dump) -> list[Match]:
    """Left entries in their own sequence; entries only on the right follow their step and rank."""

    def key(match: Match) -> tuple[int, int, int, int]:
        dump, row = (left, match.left) if match.left >= 0 else (right, match.right)
        index = dump.index
        step, rank = int(index["step"].values[row]), int(index["rank"].values[row])
        return step, rank, int(match.left < 0), row

    return sorted(matches, key=key)
