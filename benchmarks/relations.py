"""How surely `metrics.relations` names what one tensor is of another, over seeded plantings.

Each planting draws a kind, a shape (8 to 4,096 rows, also square), values as trained or as drawn,
and noise or rounding on one side. A relation counts as right when its kind is the planted one and
applying it to left gives right. Unrelated pairs must give nothing. Exits 1 when a bar is missed.
``--quick`` takes a fifth.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable

import ml_dtypes
import numpy as np

from troubleshooter_nb.metrics.compositions import find_composition
from troubleshooter_nb.metrics.relations import find_relation

PLANTINGS, QUICK_PLANTINGS = 200, 40
RIGHT_BAR = 0.99
SIDES = (8, 12, 24, 48, 64, 96, 256, 384, 768, 1024, 2048, 4096)
Planting = tuple[np.ndarray, np.ndarray, set[str]]
Random = np.random.Generator


def drawn(random: Random, shape: tuple[int, ...]) -> np.ndarray:
    """Normal values, or normal rows of unequal scale as training leaves them."""
    values = random.standard_normal(shape, np.float32)
    if random.random() < 0.4:
        scales = np.exp(0.5 * random.standard_normal(shape[0]))
        values *= scales.astype(np.float32).reshape(-1, *[1] * (len(shape) - 1))
    return values * np.float32(random.choice([1.0, 0.02]))


def disturbed(random: Random, values: np.ndarray) -> np.ndarray:
    """The same, with noise of 1e-3, or stored in a shorter float, or untouched."""
    way = random.integers(4)
    if way == 1:
        noise = random.standard_normal(values.shape, np.float32)
        return values + np.float32(1e-3 * values.std()) * noise
    if way > 1:
        return values.astype([np.float16, ml_dtypes.bfloat16][way - 2])
    return values


def matrix(random: Random) -> np.ndarray:
    """Square in a third of the cases, and never a vector."""
    rows = int(random.choice(SIDES))
    columns = rows if random.random() < 0.33 else int(random.choice(SIDES))
    return drawn(random, (rows, columns))


def vector_or_matrix(random: Random) -> np.ndarray:
    """One in four is a bias."""
    return drawn(random, (int(random.choice(SIDES)),)) if random.random() < 0.25 else matrix(random)


def kernel(random: Random) -> np.ndarray:
    """A kernel of a convolution, sometimes with equal sides."""
    side = int(random.choice([1, 3, 5]))
    channels = random.choice([8, 16, 64, 128], 2)
    return drawn(random, (int(channels[0]), int(channels[1]), side, side))


def same(random: Random) -> Planting:
    """One tensor on both sides."""
    values = vector_or_matrix(random)
    return values, values, {"identical", "cast", "close"}


def transpose(random: Random) -> Planting:
    """A dense weight stored the other way."""
    values = matrix(random)
    return values, values.T, {"transpose"}


def permute(random: Random) -> Planting:
    """A kernel with its axes in another order."""
    values = kernel(random)
    axes = random.choice([(2, 3, 1, 0), (1, 0, 2, 3), (0, 2, 3, 1), (3, 2, 0, 1)])
    expected = {"permute"} | ({"reshape"} if values.shape[2] == 1 else set())
    return values, values.transpose(axes), expected


def flip(random: Random) -> Planting:
    """Reversed along one axis."""
    values = vector_or_matrix(random)
    return values, np.flip(values, int(random.integers(values.ndim))), {"flip"}


def reshape(random: Random) -> Planting:
    """Another shape, the same order."""
    values = matrix(random)
    rows, columns = values.shape
    shape = random.choice([0, 1, 2])
    shapes = [(rows, columns, 1), (rows // 4, 4, columns), (rows * columns,)]
    return values, values.reshape(shapes[shape]), {"reshape"}


def scale(random: Random) -> Planting:
    """Times one number."""
    values = vector_or_matrix(random)
    factor = np.float32(random.choice([0.125, 2.0, -1.0, 3.7, 255.0]))
    return values, values * factor, {"scale"}


def offset(random: Random) -> Planting:
    """Plus one number, as norms stored as 1 + w."""
    values = vector_or_matrix(random)
    return values, values + np.float32(random.choice([1.0, -0.5]) * values.std()), {"offset"}


def rotary(random: Random) -> Planting:
    """Halves of each head interleaved, or back."""
    values = vector_or_matrix(random)
    rows = values.shape[0]
    head = int(random.choice([p for p in (8, 12, 64, 128) if rows % p == 0]))
    shape = (-1, 2, head // 2) if random.random() < 0.5 else (-1, head // 2, 2)
    order = np.arange(rows).reshape(shape).swapaxes(1, 2).reshape(-1)
    return values, values[order], {"row_permutation"}


def rows(random: Random) -> Planting:
    """Rows or columns in any order."""
    values = matrix(random)
    axis = int(random.integers(2))
    order = random.permutation(values.shape[axis])
    return values, values.take(order, axis), {"row_permutation", "blocks"}


def gates(random: Random) -> Planting:
    """Blocks of rows in another order."""
    values = vector_or_matrix(random)
    count = int(random.choice([2, 3, 4]))
    count = count if values.shape[0] % count == 0 else 2
    order = np.roll(np.arange(count), 1)
    blocks = values.reshape(count, -1, *values.shape[1:])[order]
    return values, blocks.reshape(values.shape), {"blocks"}


def repeat(random: Random) -> Planting:
    """Heads of keys repeated for the queries of their group."""
    values = vector_or_matrix(random)
    values = values[: max(len(values) // 4, 8)]
    block = len(values) // int(random.choice([1, 2, 4]))
    repeated = values.reshape(-1, 1, block, *values.shape[1:]).repeat(3, axis=1)
    return values, repeated.reshape(-1, *values.shape[1:]), {"repeat"}


def part(random: Random) -> Planting:
    """Some of the rows, or a vocabulary that was padded."""
    values = vector_or_matrix(random)
    count = max(len(values) * 3 // 4, 4)
    start = int(random.integers(len(values) - count + 1))
    piece = values[start : start + count]
    return (values, piece, {"slice"}) if random.random() < 0.5 else (piece, values, {"pad"})


KINDS = [same, transpose, permute, flip, reshape, scale, offset]
KINDS += [rotary, rows, gates, repeat, part]


def related(random: Random, plant: Callable[[Random], Planting]) -> tuple[bool, str]:
    """Whether the planted relation is found, and applied to left gives right; and what was said."""
    left, right, expected = plant(random)
    left, right = left.copy(), right.copy()
    if random.random() < 0.5:
        right = disturbed(random, right)
    else:
        left = disturbed(random, left)
    found = find_relation(left, right)
    if found is None:
        return False, f"{plant.__name__} {left.shape} {left.dtype} {right.dtype}: nothing"
    made = found.apply(left).astype(np.float64)
    wanted = right.astype(np.float64)
    if found.kind == "pad":
        wanted = np.where(made == 0.0, 0.0, wanted)
    near = made.shape == wanted.shape and np.linalg.norm(made - wanted) <= 0.011 * np.linalg.norm(
        wanted
    )
    text = f"{plant.__name__} {left.shape} {left.dtype} {right.dtype}: {found.text}"
    return found.kind in expected and bool(near), text


def packed(random: Random) -> tuple[bool, str]:
    """The same of a tensor made of several others, among parts that have no share in it."""
    width = int(random.choice([8, 64, 768]))
    heads = int(random.choice([2, 4, 8]))
    size = heads * int(random.choice([8, 16, 64]))
    shape = (size, width) if random.random() < 0.75 else (size,)
    names = [["q", "k", "v"], ["gate", "up"], ["e0", "e1", "e2", "e3"]][random.integers(3)]
    parts = {name: drawn(random, shape) for name in names}
    order = list(random.permutation(names))
    if names[0] == "e0":
        kind, whole = "stack", np.stack([parts[name] for name in order])
    else:
        groups = int(random.choice([1, heads, size]))
        kind = "concat" if groups == 1 else "interleave"
        pieces = [parts[name].reshape(groups, -1, *shape[1:]) for name in order]
        whole = np.concatenate(pieces, axis=1).reshape(-1, *shape[1:])
    others = {f"other{i}": drawn(random, shape) for i in range(4)}
    found = find_composition(others | parts, disturbed(random, whole))
    text = f"packed {kind} {shape} {order}: {found.text if found else 'nothing'}"
    return found is not None and (found.kind, list(found.parts)) == (kind, order), text


def false_claims(pairs: int) -> list[str]:
    """What is said of unrelated pairs, half of them of one shape."""
    claims = []
    for seed in range(pairs):
        random = np.random.default_rng(10_000 + seed)
        left = vector_or_matrix(random)
        right = drawn(random, left.shape) if seed % 2 else vector_or_matrix(random)
        if found := find_relation(left, disturbed(random, right)):
            claims.append(f"unrelated {left.shape} {right.shape}: {found.text}")
        parts = {"a": left, "b": drawn(random, left.shape)}
        if made := find_composition(parts, drawn(random, (2 * len(left), *left.shape[1:]))):
            claims.append(f"unrelated parts {left.shape}: {made.text}")
    return claims


def main() -> int:
    """Print the share per kind and the time; 0 when both bars are met."""
    # Here, because tests load this file for its plantings, without its folder on the path.
    from measuring.bars import Bar, Case, concluded

    count = QUICK_PLANTINGS if "--quick" in sys.argv[1:] else PLANTINGS
    outcomes: dict[str, list[bool]] = defaultdict(list)
    seconds = []
    for seed in range(count):
        random = np.random.default_rng(seed)
        place = seed % (len(KINDS) + 3)
        start = time.perf_counter()
        right, text = packed(random) if place >= len(KINDS) else related(random, KINDS[place])
        seconds.append(time.perf_counter() - start)
        outcomes[text.split(" ", 1)[0]].append(right)
        if not right:
            print(f"missed, seed {seed}: {text}")
    for name, rights in outcomes.items():
        print(f"{name:10} {sum(rights):3} of {len(rights)}")
    share = sum(map(sum, outcomes.values())) / count
    print(f"{np.mean(seconds):.3f} s each with the drawing, slowest {max(seconds):.2f} s")
    start = time.perf_counter()
    claims = false_claims(count)
    print(*claims, sep="\n", end="\n" if claims else "")
    print(f"{(time.perf_counter() - start) / count:.3f} s each with the drawing")
    bars = (
        Bar("share named right", share, least=RIGHT_BAR),
        Bar("claims on as many unrelated pairs", len(claims), most=0),
    )
    return concluded([Case(f"{count} planted relations", bars=bars)])


if __name__ == "__main__":
    sys.exit(main())
