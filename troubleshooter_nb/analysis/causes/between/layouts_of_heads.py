"""The ways to lay a value out in another shape: heads, parts, flattened features."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from troubleshooter_nb.messages import Message, joined
from troubleshooter_nb.thresholds import MOST_PARTS, MOST_POOL

_AS_IT_IS = Message("evidence_words.as it is")
_FOR_ALL = Message("evidence_words.for all items")
_HEADS = Message("evidence_words.heads")
_KEYS = Message("evidence_words.keys transposed")
NOT_TRANSPOSED = Message("evidence_words.heads not transposed")
# Each is called with the values alone; the rest are defaults.
View = tuple[str, Callable[..., np.ndarray]]


def views(source: tuple[int, ...], target: tuple[int, ...]) -> Iterator[View]:
    """Layouts as messages, words joined by commas, each with the function that gives it.

    Notes
    -----
    ``as it is``, ``part 1 of 2`` (of the last axis), ``every 2nd from 0`` (interleaved parts),
    ``heads``, ``heads not transposed``, ``keys transposed``, ``part 0 of 3, heads`` (parts outside
    heads), ``heads, part 0 of 3`` (parts inside heads), ``heads, every 2 from 0`` (interleaved
    inside heads), ``transposed`` (the last two axes),
    ``channels first``, ``channels last`` (flattened features), with ``, pooled to 2`` behind where
    features are averaged first.
    """
    if _bare(source) == _bare(target):
        yield _AS_IT_IS, lambda values: values.reshape(target)
        return
    if source == target[1:] and len(source) > 1:
        yield _FOR_ALL, lambda values: np.broadcast_to(values, target)
        return
    yield from _parts(source, target)
    if len(target) == 4 and len(source) == 3:
        yield from _heads(source, target)
    if len(source) == len(target) >= 3 and source == (*target[:-2], target[-1], target[-2]):
        yield Message("evidence_words.transposed"), lambda values: values.swapaxes(-1, -2)
    if len(source) == len(target) == 4:
        yield from _repeated(source, target)
    if len(source) == 4 and len(target) in (2, 3):
        yield from _flattened(source, target)
    if len(source) == 4 and len(target) == 3:
        yield from _merged(source, target)


def _listed(*words: str) -> str:
    return joined(words, by=",")


def _part(part: int, count: int) -> str:
    return Message("evidence.part_of", part=part, count=count)


def _every(count: int, part: int) -> str:
    return Message("evidence.every_from", count=count, part=part)


def _repeated(source: tuple[int, ...], target: tuple[int, ...]) -> Iterator[View]:
    """Heads given to several queries: each to neighbours, or all in turn."""
    for word, shape in (("", target), (_KEYS, (*target[:2], target[3], target[2]))):
        times, rest = divmod(shape[1], source[1])
        if rest or times < 2 or (source[0], *source[2:]) != (shape[0], *shape[2:]):
            continue
        turned = bool(word)
        yield (
            _listed(Message("evidence_words.heads repeated each"), word),
            lambda v, n=times, t=turned: _turned(np.repeat(v, n, axis=1), t),
        )
        yield (
            _listed(Message("evidence_words.heads repeated in turn"), word),
            lambda v, n=times, t=turned: _turned(np.concatenate([v] * n, axis=1), t),
        )


def _turned(values: np.ndarray, turned: bool) -> np.ndarray:
    return values.swapaxes(-1, -2) if turned else values


def _bare(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def _parts(source: tuple[int, ...], target: tuple[int, ...]) -> Iterator[View]:
    """Parts of a last axis that holds several."""
    if source[:-1] != target[:-1] or not source or source[-1] % target[-1]:
        return
    count, size = source[-1] // target[-1], target[-1]
    if not 2 <= count <= MOST_PARTS:
        return
    for part in range(count):
        yield _part(part, count), lambda v, p=part: v[..., p * size : (p + 1) * size]
    for part in range(count):
        yield _every(count, part), lambda v, p=part: v[..., p::count]


def _heads(source: tuple[int, ...], target: tuple[int, ...]) -> Iterator[View]:
    items, rows, width = source
    for word, heads, size in (
        ("", target[1], target[3]),
        (_KEYS, target[1], target[2]),
    ):
        turned = bool(word)
        places = target[3] if turned else target[2]
        if (items, rows) != (target[0], places):
            continue
        for name, view in _split(width, heads, size):
            yield _listed(name, word), lambda v, f=view, t=turned: _turned(f(v), t)
        for shared in (n for n in range(1, heads) if heads % n == 0 and n * size == width):
            laid = (items, shared, rows, size)
            for name, view in _repeated(laid, (items, heads, rows, size)):
                yield (
                    _listed(name, word),
                    lambda v, f=view, t=turned, n=shared, d=size: _turned(
                        f(v.reshape(items, rows, n, d).swapaxes(1, 2)), t
                    ),
                )


def _split(width: int, heads: int, size: int) -> Iterator[View]:
    """To (items, heads, rows, size)."""
    whole = heads * size
    if width == whole:
        yield _HEADS, lambda v: v.reshape(*v.shape[:2], heads, size).swapaxes(1, 2)
        yield NOT_TRANSPOSED, lambda v: v.reshape(len(v), heads, -1, size)
        return
    if width % whole == 0 and 2 <= width // whole <= 3:
        count = width // whole
        for part in range(count):
            yield (
                _listed(_part(part, count), _HEADS),
                lambda v, p=part: v.reshape(*v.shape[:2], count, heads, size)[:, :, p].swapaxes(
                    1, 2
                ),
            )
        for part in range(count):
            yield (
                _listed(_HEADS, _part(part, count)),
                lambda v, p=part: v.reshape(*v.shape[:2], heads, count, size)[:, :, :, p].swapaxes(
                    1, 2
                ),
            )
        for part in range(count):
            yield (
                _listed(_HEADS, _every(count, part)),
                lambda v, p=part: v.reshape(*v.shape[:2], heads, size, count)[..., p].swapaxes(
                    1, 2
                ),
            )
        return
    if width % size:
        return
    # Fewer heads for key and value behind those of the query, in one product.
    for start in range(0, width - whole + 1, size):
        if start in (0, width - whole, width - 2 * whole):
            yield (
                Message("evidence.heads_from", head=start // size),
                lambda v, s=start: (
                    v[..., s : s + whole].reshape(*v.shape[:2], heads, size).swapaxes(1, 2)
                ),
            )


def _flattened(source: tuple[int, ...], target: tuple[int, ...]) -> Iterator[View]:
    """Features (items, channels, height, width) in one row, averaged to fewer places or not."""
    items, channels, high, wide = source
    if items != target[0] or math.prod(target[1:]) % channels:
        return
    places = math.prod(target[1:]) // channels
    side = math.isqrt(places)
    sizes = [(high, wide)] if places == high * wide else []
    if side * side == places and side <= MOST_POOL and places < high * wide:
        sizes.append((side, side))
    for size in sizes:
        word = "" if size == (high, wide) else Message("evidence.pooled_to", size=size[0])
        if places == 1:
            averaged = Message("evidence_words.averaged")
            yield _listed(averaged, word), lambda v, s=size: pooled(v, s).reshape(target)
            continue
        if len(target) == 2 or target[1] == channels:
            first = Message("evidence_words.channels first")
            yield _listed(first, word), lambda v, s=size: pooled(v, s).reshape(target)
        if len(target) == 2 or target[2] == channels:
            yield (
                _listed(Message("evidence_words.channels last"), word),
                lambda v, s=size: pooled(v, s).transpose(0, 2, 3, 1).reshape(target),
            )


def _merged(source: tuple[int, ...], target: tuple[int, ...]) -> Iterator[View]:
    """Heads (items, heads, rows, size) put beside each other again."""
    items, heads, rows, size = source
    if target == (items, rows, heads * size):
        yield Message("evidence_words.heads merged"), lambda v: v.swapaxes(1, 2).reshape(target)
        yield NOT_TRANSPOSED, lambda v: v.reshape(target)


def pooled(values: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Averages over the last two axes to a size, as adaptive pooling takes them."""
    if values.shape[-2:] == size:
        return values
    values = np.asarray(values, np.float64)
    for axis, count in zip((-2, -1), size, strict=True):
        length = values.shape[axis]
        pieces = [
            np.take(
                values, range(n * length // count, -(-(n + 1) * length // count)), axis=axis
            ).mean(axis=axis, keepdims=True)
            for n in range(count)
        ]
        values = np.concatenate(pieces, axis=axis)
    return values
