"""Whether a drafted weight map expresses what one checkpoint is of another, over seeded plantings.

Each planting writes two small checkpoints in memory: some tensors that agree, and one that went
through a transform, or two composed, drawn from all kinds; half of them under one name on both
sides, half under names that say nothing. A planting counts as right when the map that
`draft_weight_map(...).accept()` gives makes the target of the source, bit for bit (scales, shifts
and sums but for a rounding), and its inverse, where nothing was lost, the source of the target.
Pairs without a relation must get no transform but what names propose. Exits 1 when a bar is missed.
``--quick`` takes a tenth; ``--seed N`` begins elsewhere.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable

import numpy as np

import troubleshooter_nb as tnb
from troubleshooter_nb.transforms import Spec
from troubleshooter_nb.weight_map import WeightMap

PLANTINGS, QUICK_PLANTINGS = 400, 40
UNRELATED, QUICK_UNRELATED = 200, 20
RIGHT_BAR = 0.99
ROUNDING = 2e-6  # of computed values, relative to the largest
Random = np.random.Generator
Arrays = dict[str, np.ndarray]
Step = Callable[[Random, np.ndarray], np.ndarray]
SIDES = (16, 24, 32, 48, 64, 96)


def drawn(random: Random, *shape: int) -> np.ndarray:
    """Values as a training leaves them: rows of unequal size."""
    rows = np.exp(0.3 * random.standard_normal(shape[0])).astype(np.float32)
    values = random.standard_normal(shape, np.float32) * rows.reshape(-1, *[1] * (len(shape) - 1))
    return values * np.float32(0.05)


def transposed(random: Random, values: np.ndarray) -> np.ndarray:
    """Its axes reversed."""
    return values.T


def axes(random: Random, values: np.ndarray) -> np.ndarray:
    """Its axes in any other order."""
    order = random.permutation(values.ndim)
    while (order == np.arange(values.ndim)).all():
        order = random.permutation(values.ndim)
    return values.transpose(order)


def reshaped(random: Random, values: np.ndarray) -> np.ndarray:
    """Two axes as one, or one as two."""
    if values.ndim > 2:
        return values.reshape(values.shape[0], -1)
    return values.reshape(values.shape[0] // 4, 4, *values.shape[1:])


def flipped(random: Random, values: np.ndarray) -> np.ndarray:
    """Reversed along one axis."""
    return np.flip(values, int(random.integers(values.ndim)))


def blocks(random: Random, values: np.ndarray) -> np.ndarray:
    """Equal blocks of an axis in another order, as gates or halves."""
    axis = int(random.integers(values.ndim))
    count = int(random.choice([n for n in (2, 3, 4, 6) if values.shape[axis] % n == 0] or [1]))
    order = np.roll(np.arange(count), 1 + int(random.integers(max(count - 1, 1))))
    parts = np.split(values, count, axis)
    return np.concatenate([parts[place] for place in order], axis)


def unequal_blocks(random: Random, values: np.ndarray) -> np.ndarray:
    """Blocks of unequal length in another order, as ranks' shards of grouped heads."""
    rows = len(values)
    cuts = [rows // 2, rows // 2 + rows // 4]
    first, second, third = np.split(values, cuts)
    return np.concatenate([third, first, second])


def heads(random: Random, values: np.ndarray) -> np.ndarray:
    """Halves of each head interleaved, or back, as rotary embeddings want them."""
    head = 8
    shape = (-1, 2, head // 2) if random.random() < 0.5 else (-1, head // 2, 2)
    order = np.arange(len(values)).reshape(shape).swapaxes(1, 2).reshape(-1)
    return values[order]


def shuffled(random: Random, values: np.ndarray) -> np.ndarray:
    """Rows in any order."""
    return values[random.permutation(len(values))]


def part(random: Random, values: np.ndarray) -> np.ndarray:
    """Some neighbouring rows, as of a padded vocabulary."""
    count = len(values) * 3 // 4
    start = int(random.choice([0, len(values) - count, 2]))
    return values[start : start + count]


def repeated(random: Random, values: np.ndarray) -> np.ndarray:
    """Heads of keys repeated for their group."""
    block = len(values) // int(random.choice([1, 2, 4]))
    cut = values.reshape(-1, 1, block, *values.shape[1:]).repeat(2, axis=1)
    return cut.reshape(-1, *values.shape[1:])


def thinned(random: Random, values: np.ndarray) -> np.ndarray:
    """One of each repeated head: every second block of rows."""
    block = len(values) // 8
    return values.reshape(-1, 2, block, *values.shape[1:])[:, 0].reshape(-1, *values.shape[1:])


def scaled(random: Random, values: np.ndarray) -> np.ndarray:
    """Times one number."""
    factor = np.float32(random.choice([0.125, 2.0, -1.0, 3.7, 64**0.5, 128**-0.5]))
    return (values * factor).astype(values.dtype)


def shifted(random: Random, values: np.ndarray) -> np.ndarray:
    """Plus one number, as norms stored as 1 + w."""
    return (values + np.float32(random.choice([1.0, -0.5, 0.01]))).astype(values.dtype)


def rounded(random: Random, values: np.ndarray) -> np.ndarray:
    """In half precision."""
    return values.astype(np.float16)


SINGLE: tuple[Step, ...] = (
    *(transposed, axes, reshaped, flipped, blocks, unequal_blocks, heads, shuffled),
    *(part, repeated, thinned, scaled, shifted, rounded),
)
EXACT_BACK = {
    transposed,
    axes,
    reshaped,
    flipped,
    blocks,
    unequal_blocks,
    heads,
    shuffled,
    repeated,
}


def joined(random: Random, turned: bool) -> tuple[Arrays, Arrays]:
    """Several tensors side by side, in turns, or stacked; each transposed first, if so."""
    width = int(random.choice(SIDES))
    way = int(random.integers(4))
    if way == 0:
        parts = [drawn(random, rows, width) for rows in (32, 16, 16)]
    elif way == 1:
        parts = [drawn(random, 24, width) for _ in range(2)]
    else:
        parts = [drawn(random, 32, width) for _ in range(4 if way == 2 else 3)]
    stored = [np.ascontiguousarray(one.T) for one in parts] if turned else parts
    sources = dict(zip("qkve" if way == 2 else "qkv", stored, strict=False))
    if way == 2:
        whole = np.stack(parts)
    elif way == 3:
        whole = np.concatenate([one.reshape(4, -1, width) for one in parts], 1).reshape(-1, width)
    else:
        whole = np.concatenate(parts)
    return {f"mlp.{name}.weight": one for name, one in sources.items()}, {"mlp.whole.weight": whole}


def added(random: Random) -> tuple[Arrays, Arrays]:
    """Two biases of a recurrent layer as one."""
    one, other = drawn(random, 64), drawn(random, 64)
    return {"rnn.bias_a": one, "rnn.bias_b": other}, {"rnn.bias": one + other}


def planted(random: Random, number: int) -> tuple[str, Arrays, Arrays, bool]:
    """What was planted in words, both sides, and whether the way back must be exact."""
    place = number % 20
    if place >= 16:
        turned = bool(random.integers(2))
        ours, theirs = joined(random, turned) if place < 19 else added(random)
        said = "sum" if place == 19 else f"joined{' transposed' * turned}"
        if place == 17 or place == 18:
            return f"parted{' transposed' * turned}", theirs, ours, True
        return said, ours, theirs, place != 19
    first = SINGLE[(number // 20 * 16 + place) % len(SINGLE)]
    steps: list[Step] = [first]
    if number % 2:
        others = [step for step in SINGLE if step is not first]
        steps.append(others[int(random.integers(len(others)))])
    while True:
        shape = [int(side) for side in random.choice(SIDES, 2)]
        values = drawn(random, *shape, *([3, 5] if axes in steps else []))
        made = values
        try:
            for step in steps:
                made = np.ascontiguousarray(step(random, made))
        except (ValueError, ZeroDivisionError):  # rows that do not divide so
            continue
        if made.shape != values.shape or not np.array_equal(made, values):
            break
    names = ("proj.weight", "proj.weight") if random.random() < 0.5 else ("a7.w", "blk.lin.kernel")
    exact = all(step in EXACT_BACK for step in steps)
    return " + ".join(s.__name__ for s in steps), {names[0]: values}, {names[1]: made}, exact


def beside(random: Random) -> Arrays:
    """Tensors that agree on both sides."""
    return {
        **{f"blocks.{k}.fc.weight": drawn(random, 20 + k, 28) for k in range(4)},
        **{f"blocks.{k}.fc.bias": drawn(random, 20 + k) for k in range(4)},
    }


def drafted(ours: Arrays, theirs: Arrays, common: Arrays) -> WeightMap:
    """The map with everything that values prove."""
    return tnb.draft_weight_map({**common, **ours}, {**common, **theirs}).accept()


def expressed(value: WeightMap, ours: Arrays, theirs: Arrays, exact: bool) -> str:
    """Why the map does not make the targets of the sources, or nothing."""
    rows = [row for row in value if set(row.targets) & set(theirs)]
    if {name for row in rows for name in row.targets} != set(theirs):
        return f"no row for {sorted(set(theirs) - {n for row in rows for n in row.targets})}"
    for row in rows:
        if not set(row.sources) <= set(ours):
            return f"made of {row.sources}"
        given = [ours[name] for name in row.sources]
        try:
            made = row.transform.apply(given)
        except tnb.TroubleshooterError as error:
            return f"{row.transform}: {error}"
        for name, one in zip(row.targets, made, strict=True):
            wanted = theirs[name]
            if one.shape != wanted.shape:
                return f"{row.transform}: {one.shape} for {wanted.shape}"
            one = one.astype(wanted.dtype)
            apart = np.abs(one.astype(np.float64) - wanted.astype(np.float64)).max()
            step = ROUNDING if wanted.dtype == np.float32 else 2.0**-10
            if apart > (0.0 if exact else step * np.abs(wanted).max()):
                return f"{row.transform}: {apart:.1e} apart"
        if exact:
            back = row.transform.inverse([Spec(one.shape, one.dtype) for one in given])
            if back is None:
                return f"{row.transform}: no way back"
            returned = back.apply(made)
            if any(a.tobytes() != b.tobytes() for a, b in zip(returned, given, strict=True)):
                return f"{row.transform}: {back} is not the way back"
    return ""


def claimed(random: Random) -> str:
    """A transform that values are said to prove between tensors without a relation, or nothing."""
    shape = [int(side) for side in random.choice(SIDES, 2)]
    other = shape if random.random() < 0.5 else [int(side) for side in random.choice(SIDES, 2)]
    same = random.random() < 0.5
    ours = {"proj.weight" if same else "a7.w": drawn(random, *shape)}
    theirs = {"proj.weight" if same else "blk.lin.kernel": drawn(random, *other)}
    value = tnb.draft_weight_map({**beside(random), **ours}, {**beside(random), **theirs})
    proved = [row for row in (*value.rows, *value.suggestions) if "residual" in row.note]
    named = [row for row in proved if set(row.targets) & set(theirs)]
    return f"{shape} {other}: {named[0].note}" if named else ""


def main() -> int:
    """Print the share per kind; 0 when both bars are met."""
    # Here, because tests load this file for its plantings, without its folder on the path.
    from measuring.bars import Bar, Case, concluded

    arguments = sys.argv[1:]
    quick = "--quick" in arguments
    base = int(arguments[arguments.index("--seed") + 1]) if "--seed" in arguments else 0
    count = QUICK_PLANTINGS if quick else PLANTINGS
    outcomes: dict[str, list[bool]] = defaultdict(list)
    for number in range(count):
        random = np.random.default_rng([base, number])
        said, ours, theirs, exact = planted(random, number)
        common = beside(random)
        try:
            wrong = expressed(drafted(ours, theirs, common), ours, theirs, exact)
        except Exception as error:  # counted, and shown
            wrong = repr(error)
        outcomes[said.split(" + ", 1)[0]].append(not wrong)
        if wrong:
            print(f"missed, {base}/{number}: {said}: {wrong}")
    for name, rights in sorted(outcomes.items()):
        print(f"{name:16} {sum(rights):3} of {len(rights)}")
    pairs = QUICK_UNRELATED if quick else UNRELATED
    claims = [claimed(np.random.default_rng([base, 10_000 + k])) for k in range(pairs)]
    print(*filter(None, claims), sep="\n")
    bars = (
        Bar("share expressed", sum(map(sum, outcomes.values())) / count, least=RIGHT_BAR),
        Bar("claims on unrelated pairs", sum(map(bool, claims)), most=0),
    )
    return concluded([Case(f"{count} planted transforms", bars=bars)])


if __name__ == "__main__":
    sys.exit(main())
