"""Attention between recorded projections: which heads, which packing, which mask, which scale."""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.between.earlier_values import EarlierValues, Source
from troubleshooter_nb.analysis.causes.case import Fit, Operands
from troubleshooter_nb.analysis.causes.fits import half_width, misfit, ranked
from troubleshooter_nb.analysis.causes.sampling import spread
from troubleshooter_nb.analysis.causes.searches.attention import fit_attention
from troubleshooter_nb.messages import Message, joined
from troubleshooter_nb.metrics.operators.attention import causal, probabilities
from troubleshooter_nb.naming.evidence import evidence_word

# Softmaxes over another axis than the keys, and the longest sequences in which they are tried.
_OTHER_AXES = {"queries": -2, "heads": -3}
_LONGEST_TEXT = 200


@dataclass(frozen=True)
class Structure:
    """Query, key and value with axes items, heads, rows, size, and what they were made of."""

    said: dict[str, Any]
    query: np.ndarray
    key: np.ndarray
    value: np.ndarray


def attention_fits(earlier: EarlierValues) -> list[Fit]:
    """How attention over earlier values made the target, its heads beside each other.

    Returns
    -------
    list of Fit
        Settings: ``formula`` "attention", ``sources``, ``packing``, ``heads``, ``axis`` of the
        softmax ("keys", "queries", "heads"), those of `fit_attention`, ``mask_source`` (the name of
        a recorded mask, "found" for keys at an end of the items, empty without a mask) and
        ``hidden``, the places that such a mask hides.
        Empty where the target is no sequence.
    """
    target = earlier.target
    if (
        target.ndim != 3
        or not 4 <= target.shape[1] <= thresholds.LONGEST_ATTENTION
        or target.shape[2] < 8
    ):
        return []
    if not np.isfinite(target).any() or not np.any(np.nan_to_num(target)):
        return []
    likely = itertools.islice(structures(earlier), thresholds.STRUCTURES)
    first = [
        (s, _first_look(earlier, s, n < thresholds.STRUCTURES_TURNED)) for n, s in enumerate(likely)
    ]
    first = [pair for pair in first if pair[1] < thresholds.OTHER_HEADS]
    first.sort(key=lambda pair: pair[1])
    fits: list[Fit] = []
    for structure, _ in first[: thresholds.STRUCTURES_FITTED]:
        found = _fits(earlier, structure)
        fits += found
        if found and found[0].residual <= 4.0 * earlier.floor:
            break
    return ranked(fits, limit=0.5)[: thresholds.HEADS_FITS]


def structures(earlier: EarlierValues) -> Iterator[Structure]:
    """Structures, the likelier first."""
    items, rows, width = earlier.shape
    sequences = [s for s in earlier.sources if s.values.shape[:2] == (items, rows)]
    sequences = [s for s in sequences if s.values.ndim == 3]
    headed = [s for s in earlier.sources if s.values.ndim == 4 and len(s.values) == items]
    headed = [s for s in headed if s.values.shape[2] == rows]
    yield from _separate(earlier, headed, sequences)
    # Earlier blocks have packed projections, too.
    for source in [s for s in sequences if s.values.shape[2] == 3 * width][:1]:
        yield from _packed(source, width)
    # Projections of one width: the inputs of the block are among them.
    plain = [s for s in sequences if s.values.shape[2] <= width and width % s.values.shape[2] == 0]
    yield from _projected(earlier, plain)


def _counts(width: int) -> list[int]:
    low, high = thresholds.HEAD_SIZES
    counts = [n for n in range(1, width + 1) if width % n == 0 and low <= width // n <= high]
    # Sizes of heads are multiples of 8 nearly always.
    return sorted(counts, key=lambda n: ((width // n) % 8 != 0, n == 1, n))


def _packed(source: Source, width: int) -> Iterator[Structure]:
    values = source.values
    items, rows = values.shape[:2]
    for order in itertools.permutations(range(3)):
        for heads in _counts(width):
            size = width // heads
            outside = values.reshape(items, rows, 3, heads, size).transpose(2, 0, 3, 1, 4)
            inside = values.reshape(items, rows, heads, 3, size).transpose(3, 0, 2, 1, 4)
            name = "".join("qkv"[part] for part in order)
            for word, parts in (("parts of heads", outside), ("heads of parts", inside)):
                if word == "heads of parts" and (heads == 1 or name not in ("qkv", "kqv")):
                    continue
                query, key, value = (parts[order.index(n)] for n in range(3))
                packing = joined([evidence_word(word), name], by=",")
                said = {"sources": (source.name,), "packing": packing, "heads": heads}
                yield Structure(said, query, key, value)


def _separate(
    earlier: EarlierValues, headed: list[Source], sequences: list[Source]
) -> Iterator[Structure]:
    """Query and key in heads already, as after a rotation."""
    width = earlier.shape[2]
    for query, key in itertools.permutations(headed[:6], 2):
        q, k = query.values, key.values
        heads, size = q.shape[1], q.shape[3]
        fits = q.shape[3] == k.shape[3] and heads % k.shape[1] == 0 and heads * size == width
        # Where both are alike the query is made first.
        if not fits or (q.shape == k.shape and query.row > key.row):
            continue
        wide = k.shape[1] * size
        for value in [*headed, *sequences]:
            v = value.values
            if v.ndim == 4 and v.shape == k.shape and value not in (query, key):
                laid = v
            elif v.ndim == 3 and v.shape[2] == wide:
                laid = v.reshape(*v.shape[:2], k.shape[1], size).swapaxes(1, 2)
            else:
                continue
            names = (query.name, key.name, value.name)
            yield Structure({"sources": names, "packing": "apart", "heads": heads}, q, k, laid)


def _projected(earlier: EarlierValues, sequences: list[Source]) -> Iterator[Structure]:
    width = earlier.shape[2]
    for query, key, value in itertools.permutations(sequences[:7], 3):
        q, k, v = query.values, key.values, value.values
        made = all(source.word == "linear" for source in (query, key, value))
        if not made or q.shape[2] != width or k.shape != v.shape or query.row > key.row > value.row:
            continue
        for heads in _counts(width):
            size = width // heads
            if k.shape[2] % size:
                continue
            laid = [a.reshape(*a.shape[:2], -1, size).swapaxes(1, 2) for a in (q, k, v)]
            names = (query.name, key.name, value.name)
            yield Structure({"sources": names, "packing": "apart", "heads": heads}, *laid)


def _first_look(earlier: EarlierValues, structure: Structure, turned: bool) -> float:
    """The least residual over the usual scales and masks, at a few rows of an item.

    With `turned`, also over the other axes of the softmax.
    """
    heads = structure.query.shape[1]
    shared = structure.key.shape[1]
    item = earlier.shape[0] - 1
    rows = spread(earlier.shape[1], thresholds.TRIAL_ROWS)
    size = structure.query.shape[3]
    target = earlier.target[item].reshape(earlier.shape[1], heads, size).swapaxes(0, 1)[:, rows]
    if not np.isfinite(target).all():
        return 0.5
    chosen = spread(heads, 3)
    best = math.inf
    for group in {tuple(np.arange(heads) * shared // heads), tuple(np.arange(heads) % shared)}:
        pick = np.array(group)[chosen]
        q = structure.query[item, chosen][:, rows].astype(np.float64)
        k = structure.key[item, pick].astype(np.float64)
        v = structure.value[item, pick].astype(np.float64)
        raw = q @ k.swapaxes(-1, -2)
        wanted = target[chosen].astype(np.float64)
        norm = float(np.linalg.norm(wanted)) or 1.0
        seen = causal(rows, earlier.shape[1], earlier.shape[1], "top left")
        for scale in (1 / math.sqrt(size), 1.0, 1 / size):
            for mask in (seen, None):
                formula = probabilities(scale * raw, mask) @ v
                best = min(best, float(np.linalg.norm(formula - wanted)) / norm)
    if best > thresholds.OTHER_SOFTMAX:
        best = min(best, _free_look(earlier, structure, item))
    if turned and best > thresholds.OTHER_SOFTMAX and earlier.shape[1] <= thresholds.LONGEST_TURNED:
        best = min(best, _turned_look(earlier, structure, item))
    return best


def _free_look(earlier: EarlierValues, structure: Structure, item: int) -> float:
    """As `_first_look`, whatever keys a window hides or a dropout takes.

    The first queries see no more keys than a value has numbers, so that what share each key had is
    solved for; of the shares that are there the ratios are those of a softmax.
    """
    heads, shared, size = structure.query.shape[1], structure.key.shape[1], structure.query.shape[3]
    keys = min(earlier.shape[1], int(thresholds.SOLVED_KEYS * size))
    rows, chosen = np.arange(2, min(thresholds.FREE_ROWS + 2, keys)), spread(heads, 3)
    target = earlier.target[item].reshape(earlier.shape[1], heads, size).swapaxes(0, 1)
    target = target[chosen][:, rows].astype(np.float64)
    if not len(rows) or not np.isfinite(target).all():
        return math.inf
    pick = chosen * shared // heads
    query = structure.query[item, chosen][:, rows].astype(np.float64)
    key, value = (
        one[item, pick][:, :keys].astype(np.float64) for one in (structure.key, structure.value)
    )
    shares = target @ np.linalg.pinv(value)
    kept = shares > thresholds.SHARE_SOLVED
    formula = probabilities(query @ key.swapaxes(-1, -2) / math.sqrt(size), kept) @ value
    formula *= np.where(kept, shares, 0.0).sum(-1, keepdims=True)
    apart = np.linalg.norm(formula - target, axis=-1) / np.linalg.norm(target, axis=-1)
    # Two shares fit any ratio.
    apart = apart[(kept.sum(-1) > 2) & np.isfinite(apart)]
    # Behind a window of later keys not all is solved for.
    return float(np.quantile(apart, 0.25)) if len(apart) >= thresholds.FREE_ROWS else math.inf


def _turned_look(earlier: EarlierValues, structure: Structure, item: int) -> float:
    """As `_first_look`, of softmaxes over queries and over heads."""
    heads, length = structure.query.shape[1], earlier.shape[1]
    target = earlier.target[item].reshape(length, heads, -1).swapaxes(0, 1)
    every, best = np.arange(length), math.inf
    for axis, (chosen, rows) in {
        "queries": (spread(heads, 1), every),
        "heads": (np.arange(heads), spread(length, 3)),
    }.items():
        raw, value = _products(structure, np.array([item]), chosen, rows)
        for mask in (causal(rows, length, length, "top left"), None):
            formula = _over(_OTHER_AXES[axis], raw, mask) @ value
            best = min(best, misfit(target[None, chosen][:, :, rows], formula))
    return best


def _products(
    structure: Structure, items: np.ndarray, heads: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Scaled scores (items, heads, rows, keys), neighbours sharing a key; and the values."""
    pick = heads * structure.key.shape[1] // structure.query.shape[1]
    query = structure.query[items][:, heads][:, :, rows].astype(np.float64)
    key = structure.key[items][:, pick].astype(np.float64)
    value = structure.value[items][:, pick].astype(np.float64)
    return query @ key.swapaxes(-1, -2) / math.sqrt(query.shape[-1]), value


def _over(axis: int, scores: np.ndarray, seen: np.ndarray | None) -> np.ndarray:
    """Softmax over an axis; what sees nothing along it is shared evenly."""
    filled = scores if seen is None else np.where(seen, scores, thresholds.HIDDEN_SCORE)
    powers = np.exp(filled - filled.max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


def _turned_fits(earlier: EarlierValues, structure: Structure, output: np.ndarray) -> Iterator[Fit]:
    """Softmaxes over queries and over heads, at the usual scale."""
    items, heads, length, size = output.shape
    if length > thresholds.LONGEST_TURNED:
        return
    some = spread(items, 2)
    raw, value = _products(structure, some, np.arange(heads), np.arange(length))
    later = causal(np.arange(length), length, length, "top left")
    for source, mask in [*_masks(earlier, structure), ("", None)]:
        shape = (items, heads, length, length)
        wide = np.zeros(shape, bool) if mask is None else np.broadcast_to(mask != 0, shape)
        ways = {"": ~wide[some]}
        if mask is not None:
            ways = {"true is dropped": ~wide[some], "true is kept": wide[some]}
        for meaning, is_causal in itertools.product(ways, (True, False)):
            seen = ways[meaning] & later if is_causal else ways[meaning]
            for axis, number in _OTHER_AXES.items():
                formula = _over(number, raw, seen) @ value
                said = {
                    "formula": "attention",
                    **structure.said,
                    "axis": axis,
                    "last_token": "as the others",
                    **_hiding(source, mask, meaning),
                    "mask": "ignored" if mask is None else "used",
                    "scale": 1 / math.sqrt(size),
                    "causal": is_causal,
                }
                yield Fit(said, misfit(output[some], formula, earlier.roundoff))


def _fits(earlier: EarlierValues, structure: Structure) -> list[Fit]:
    items, rows, _ = earlier.shape
    heads, size = structure.query.shape[1], structure.query.shape[3]
    output = earlier.target.reshape(items, rows, heads, size).swapaxes(1, 2)
    last = _last_token(earlier, structure, output)
    if last is not None:
        return [last]
    best: list[Fit] = []
    for source, mask in _masks(earlier, structure):
        arrays = [structure.query, structure.key, structure.value, mask]
        # A sum and a softmax round more than once.
        fits = fit_attention(Operands(arrays, {}, output, earlier.roundoff))
        fits = [fit for fit in fits if fit.settings["layout"] == "heads first"]
        named = [_named(earlier, fit, structure, source, mask) for fit in fits]
        best += named
        if named and named[0].residual <= 4.0 * earlier.floor:
            break
    if not best or min(fit.residual for fit in best) > 8.0 * earlier.floor:
        best += _padded_fits(earlier, structure, output)
    if not best or min(fit.residual for fit in best) > 8.0 * earlier.floor:
        best += _turned_fits(earlier, structure, output)
    return sorted(best, key=lambda fit: fit.residual)


def _last_token(earlier: EarlierValues, structure: Structure, output: np.ndarray) -> Fit | None:
    """Causal attention whose last token alone does not see all before it."""
    rows, size = output.shape[2], output.shape[3]
    heads, shared = structure.query.shape[1], structure.key.shape[1]
    group = np.arange(heads) * shared // heads
    if rows > thresholds.LONGEST_DECODED:
        return None
    key = structure.key[:, group].astype(np.float64)
    value = structure.value[:, group].astype(np.float64)
    raw = structure.query.astype(np.float64) @ key.swapaxes(-1, -2) / math.sqrt(size)
    seen = causal(np.arange(rows), rows, rows, "top left")
    formula = probabilities(raw[..., :-1, :], seen[:-1]) @ value
    if misfit(output[..., :-1, :], formula, earlier.roundoff) > 8.0 * earlier.floor:
        return None
    wanted = output[..., -1:, :]

    def left(hidden: int, width: int) -> float:
        kept = np.ones((1, rows), bool)
        kept[0, hidden : hidden + width] = False
        return misfit(wanted, probabilities(raw[..., -1:, :], kept) @ value, earlier.roundoff)

    if left(0, 0) <= 8.0 * earlier.floor:
        return None
    trials = {(n, 1): left(n, 1) for n in range(rows)}
    trials |= {(0, n): left(0, n) for n in range(2, rows)}
    (start, width), residual = min(trials.items(), key=lambda item: item[1])
    if residual > 8.0 * earlier.floor:
        return None
    said = {
        "formula": "attention",
        **structure.said,
        "last_token": Message("evidence.not_seen", count=width, token=start),
        "scale": 1 / math.sqrt(size),
        "causal": True,
    }
    return Fit(said, residual)


def _named(
    earlier: EarlierValues, fit: Fit, structure: Structure, source: str, mask: np.ndarray | None
) -> Fit:
    settings = {k: v for k, v in fit.settings.items() if k != "layout"}
    usual = {"axis": "keys", "last_token": "as the others"}
    hiding = _hiding(source, mask, settings.get("mask_meaning", ""))
    known = {"formula": "attention", **structure.said, **usual, **hiding, **settings}
    # What was computed before may be less exact than the target is stored.
    width = half_width(float(settings["scale"]), fit.residual, earlier.floor)
    doubts = {**fit.uncertainty, "scale": max(width, fit.uncertainty.get("scale", 0.0))}
    return replace(fit, settings=known, uncertainty=doubts)


def _hiding(source: str, mask: np.ndarray | None, meaning: str) -> dict[str, str]:
    """Which mask, and what it hides: the keys of each item, or how many places."""
    if mask is None or not meaning:
        return {"mask_source": "", "hidden": "nothing"}
    hides = mask == 0 if meaning == "true is kept" else mask != 0
    text = joined(map(_ranges, hides[:, 0, 0])) if hides.shape[1:3] == (1, 1) else ""
    if not 0 < len(text) <= _LONGEST_TEXT:
        checksum = f"{zlib.crc32(np.packbits(hides).tobytes()):08x}"
        text = Message("evidence.places", count=hides.sum(), checksum=checksum)
    return {"mask_source": source, "hidden": text}


def _ranges(hides: np.ndarray) -> str:
    """Where it is true: ``0-2, 7``."""
    bounds = np.flatnonzero(np.diff(hides.astype(np.int8), prepend=0, append=0))
    spans = [(int(a), int(b) - 1) for a, b in bounds.reshape(-1, 2)]
    shown = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
    return shown or Message("evidence_words.none")


def _masks(earlier: EarlierValues, structure: Structure) -> Iterator[tuple[str, np.ndarray | None]]:
    """Masks that containers were given, over keys or over queries and keys; then none."""
    items, rows, _ = earlier.shape
    used = False
    for source in earlier.masks:
        values = source.values
        shapes = {(items, rows), (items, 1, 1, rows), (items, 1, rows, rows), (rows, rows)}
        if values.shape in shapes and values.min() >= 0 and values.max() <= 1 and rows > 1:
            laid = values[:, None, None] if values.shape == (items, rows) else values
            if laid.any() and not laid.all():
                used = True
                yield source.name, laid
    if not used:
        yield "", None


def _padded_fits(earlier: EarlierValues, structure: Structure, output: np.ndarray) -> list[Fit]:
    """Keys at an end of the items that are hidden, where no mask was recorded."""
    items, rows, _ = earlier.shape
    hidden = np.zeros((items, 1, 1, rows), bool)
    for item in range(items):
        hidden[item, 0, 0] = _hidden_keys(structure, output, item)
    if not hidden.any():
        return []
    arrays = [structure.query, structure.key, structure.value, hidden]
    fits = fit_attention(Operands(arrays, {}, output, earlier.roundoff))
    fits = [fit for fit in fits if fit.settings["layout"] == "heads first"]
    used = [fit for fit in fits if fit.settings.get("mask") == "used"]
    return [_named(earlier, fit, structure, "found", hidden) for fit in used]


def _hidden_keys(structure: Structure, output: np.ndarray, item: int) -> np.ndarray:
    """Which keys of an item the last queries do not see, if they lie at an end."""
    rows, size = output.shape[2], output.shape[3]
    heads, shared = structure.query.shape[1], structure.key.shape[1]
    head = spread(heads, 2)
    pick = head * shared // heads
    some = np.arange(max(rows - 4, 0), rows)
    raw = structure.query[item, head][:, some].astype(np.float64) @ (
        structure.key[item, pick].astype(np.float64).swapaxes(-1, -2)
    )
    raw /= math.sqrt(size)
    value = structure.value[item, pick].astype(np.float64)
    wanted = output[item, head][:, some]
    best, found = math.inf, np.zeros(rows, bool)
    for is_causal in (True, False):
        allowed = causal(some, rows, rows, "top left") if is_causal else np.ones((4, rows), bool)
        allowed = allowed[: len(some)]
        for count in range(rows // 2 + 1):
            for at_start in (True, False):
                mask = np.zeros(rows, bool)
                if count:
                    mask[:count] = at_start
                    mask[rows - count :] |= not at_start
                seen = allowed & ~mask
                if not seen.any(axis=1).all():
                    continue
                left = float(np.linalg.norm(probabilities(raw, seen) @ value - wanted))
                # Of masks that do as well the smallest.
                if left < 0.9 * best:
                    best, found = left, mask
    return found
