"""Transforms of several steps, and those that relations of values are."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.messages.rules import english_in
from troubleshooter_nb import read_weight_map, write_weight_map
from troubleshooter_nb.dump import ArrayInMemory
from troubleshooter_nb.errors import WeightMapError
from troubleshooter_nb.formats.transformed_source import transformed
from troubleshooter_nb.messages import told
from troubleshooter_nb.metrics.compositions import find_composition
from troubleshooter_nb.metrics.relations import find_relation
from troubleshooter_nb.ranges import read_rows
from troubleshooter_nb.transforms import (
    RELATIONS,
    Spec,
    Transform,
    chained,
    fitting,
    of_relation,
)
from troubleshooter_nb.weight_map import WeightMap, WeightRow

F4 = np.dtype("f4")
# The text, and the shapes of its sources.
CHAINS = {
    "split(1, 24, 8, 8) | transpose": [(7, 40)],
    "transpose | concat(0)": [(7, 5), (7, 6)],
    "reshape(4, -1, 6) | concat(1) | reshape(-1, 6)": [(32, 6), (8, 6), (8, 6)],
    "reshape(4, -1, 6) | split(1, 8, 2, 2) | reshape(-1, 6)": [(48, 6)],
    "reshape(-1, 2, 4, 6) | permute(0, 2, 1, 3) | reshape(32, 6)": [(32, 6)],
    "unstack(0, 3) | transpose": [(3, 4, 5)],
    "transpose | stack(0)": [(4, 5), (4, 5)],
    "take(0, 4:6, 0:4) | blocks(1, 1, 0)": [(6, 8)],
    "flip(0) | flip(1)": [(5, 3)],
    "repeat(0, 3, 2) | transpose": [(4, 3)],
}
each_chain = pytest.mark.parametrize(("text", "shapes"), CHAINS.items(), ids=list(CHAINS))


def arrays_of(shapes):
    random = np.random.default_rng(0)
    return [random.normal(size=shape).astype(F4) for shape in shapes]


def specs_of(shapes):
    return [Spec(tuple(shape), F4) for shape in shapes]


@each_chain
def test_a_chain_is_read_written_and_undone(text, shapes, tmp_path):
    transform, arrays = Transform.parse(text), arrays_of(shapes)
    assert str(transform) == text
    made = transform.apply(arrays)
    assert [Spec(one.shape, one.dtype) for one in made] == transform.specs(specs_of(shapes))
    back = transform.inverse(specs_of(shapes))
    returned = back.apply(made)
    assert [one.tobytes() for one in returned] == [one.tobytes() for one in arrays]
    names = [
        tuple(f"{side}{k}" for k in range(n)) for side, n in (("s", len(shapes)), ("t", len(made)))
    ]
    row = WeightRow(*names, transform)
    (read,) = read_weight_map(write_weight_map(WeightMap((row,), {}), tmp_path / "m.yaml"))
    assert read.transform == transform
    with pytest.raises(WeightMapError, match="json"):
        write_weight_map(WeightMap((row,), {}), tmp_path / "m.json")
    said = told(transform.words, "zh")
    assert not english_in(said)
    assert told(transform.words, "en").count("; then ") == len(transform.steps) - 1


@each_chain
def test_parts_of_what_a_chain_gives_are_read_alone(text, shapes):
    transform, arrays = Transform.parse(text), arrays_of(shapes)
    random = np.random.default_rng(1)
    sources = transformed([ArrayInMemory(one) for one in arrays], transform)
    for source, whole in zip(sources, transform.apply(arrays), strict=True):
        flat = np.ascontiguousarray(whole).reshape(-1)
        assert source.shape == whole.shape
        for _ in range(8):
            start, stop = sorted(random.integers(0, flat.size + 1, 2).tolist())
            assert np.array_equal(source.read(start, stop), flat[start:stop])
        starts = random.integers(0, flat.size - 2, 9)
        assert np.array_equal(read_rows(source, starts, 3), flat[starts[:, None] + np.arange(3)])


def test_rows_in_another_order_are_read_in_ranges_of_any_length():
    values = np.arange(4096 * 70, dtype=F4).reshape(4096, 70)
    order = np.random.default_rng(0).permutation(4096)
    for text in (
        "take(0, 0:1000, 3000:4096, 1000:3000)",
        f"take(0, {', '.join(map(str, order))})",
        "blocks(1, 1, 0)",
        "flip(1)",
        "repeat(0, 2, 1024)",
    ):
        transform = Transform.parse(text)
        (source,) = transformed([ArrayInMemory(values)], transform)
        flat = np.ascontiguousarray(transform.apply([values])[0]).reshape(-1)
        for start, stop in [(0, flat.size), (69, 71), (5, 140_003), (flat.size - 3, flat.size)]:
            assert np.array_equal(source.read(start, stop), flat[start:stop])
        found = read_rows(source, [7, 100_000, 3], 2000)
        assert np.array_equal(found, np.stack([flat[s : s + 2000] for s in (7, 100_000, 3)]))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("concat(0) | concat(0)", "concat.0. takes several sources"),
        ("split(0, 2, 2) | add | split(0, 1)", "does not fit"),
        ("transpose | nonsense", "no transform 'nonsense'"),
        ("transpose | ", "is no transform"),
        (" | ".join(["transpose"] * 17), "at most 16 steps, not 17"),
        ("take(0, 3:1)", "take takes"),
        ("take(0, -1)", "take takes"),
        ("scale(inf)", "scale takes"),
        ("blocks(0, 1, 1)", "does not fit"),
        ("take(0, 0:9)", "rows 0 to 4"),
        ("drop | transpose", "takes one source"),
    ],
)
def test_chains_that_are_none_are_refused(text, said):
    with pytest.raises(WeightMapError, match=said):
        Transform.parse(text).specs(specs_of([(4, 3)] * (2 if text.startswith("concat") else 1)))


def test_what_leaves_the_values_as_they_are_is_no_step():
    assert Transform.parse("copy | transpose | copy") == Transform("transpose")
    assert chained([]) == Transform()


def test_only_who_asks_is_offered_what_shapes_do_not_say():
    specs = (Spec((7, 5), F4), Spec((7, 6), F4))
    offered = fitting(specs, ((11, 7),), everything=True)
    assert Transform.parse("transpose | concat(0)") in offered
    assert fitting(specs, ((11, 7),)) == ()
    whole = (Spec((7, 40), F4),)
    assert Transform.parse("split(1, 20, 20) | transpose") in fitting(
        whole, ((20, 7), (20, 7)), everything=True
    )
    assert fitting((Spec((6, 3), F4),), ((4, 3),)) == ()
    said = [str(one) for one in fitting((Spec((6, 3), F4),), ((4, 3),), everything=True)]
    assert said == ["take(0, 0:4)", "take(0, 2:6)"]


def left_matrix():
    return np.random.default_rng(3).normal(size=(24, 16)).astype(F4)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda a: a.copy(), "copy"),
        (lambda a: a.T, "transpose"),
        (lambda a: a * np.float32(0.125), "scale(0.125)"),
        (lambda a: a + np.float32(1), "offset(1.0)"),
        (lambda a: a[:, ::-1], "flip(1)"),
        (lambda a: a.reshape(6, 4, 16), "reshape(6, 4, 16)"),
        (lambda a: np.concatenate([a[12:], a[:12]]), "blocks(0, 1, 0)"),
        (lambda a: np.concatenate([a[20:], a[:20]]), None),
        (lambda a: a[3:19], "take(0, 3:19)"),
        (lambda a: a.repeat(3, 0), "repeat(0, 3, 1)"),
        (lambda a: a.astype("f2"), "cast(float16)"),
        (
            lambda a: a.reshape(3, 2, 4, 16).swapaxes(1, 2).reshape(24, 16),
            "reshape(-1, 2, 4, 16) | permute(0, 2, 1, 3) | reshape(24, 16)",
        ),
        (
            lambda a: a.reshape(6, 4, 16).transpose(2, 0, 1)[:, ::-1],
            "reshape(6, 4, 16) | permute(2, 0, 1) | flip(1)",
        ),
    ],
)
def test_a_relation_is_the_transform_that_makes_right_of_left(change, text):
    left = left_matrix()
    right = np.ascontiguousarray(change(left))
    relation = find_relation(left, right)
    transform = of_relation(relation.kind, relation.arguments, [Spec(left.shape, left.dtype)])
    assert text in (None, str(transform))
    (made,) = transform.apply([left])
    assert made.dtype == right.dtype
    assert np.array_equal(made, right)


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("stacked", [False, True])
def test_a_composition_is_a_transform_either_way(groups, turned, stacked):
    random = np.random.default_rng(7)
    rows = (16, 16, 16) if stacked else (32, 8, 8)
    parts = {
        name: random.normal(size=(n, 12)).astype(F4) for name, n in zip("qkv", rows, strict=True)
    }
    if stacked:
        whole = np.stack([*parts.values()])
    else:
        cut = [one.reshape(groups, -1, 12) for one in parts.values()]
        whole = np.concatenate(cut, 1).reshape(-1, 12)
    given = {n: np.ascontiguousarray(p.T) if turned else p for n, p in parts.items()}
    found = find_composition(given, whole)
    assert found.parts == ("q", "k", "v")
    specs = [Spec(one.shape, one.dtype) for one in given.values()]
    join = of_relation(found.kind, found.arguments, specs)
    assert np.array_equal(join.apply([*given.values()])[0], whole)
    seen_from_whole = {"stack": "unstack"}.get(found.kind, "part")
    part = of_relation(seen_from_whole, found.arguments, [Spec(whole.shape, whole.dtype)])
    for made, wanted in zip(part.apply([whole]), given.values(), strict=True):
        assert np.array_equal(made, wanted)


def test_other_relations_are_none():
    assert of_relation("pad", {"starts": (0,), "sizes": (4,)}, [Spec((2,), F4)]) is None
    assert "pad" not in RELATIONS
    fits_not = {"axis": 0, "blocks": 2, "order": (1, 0)}
    assert of_relation("blocks", fits_not, [Spec((3,), F4)]) is None


def test_numbers_computed_by_hand():
    weight = np.array([[1, 2], [3, 4]], F4)
    down, up = np.array([[1, 1]], F4), np.array([[1], [2]], F4)
    (merged,) = Transform.parse("lora(0.5)").apply([weight, down, up])
    assert merged.tolist() == [[1.5, 2.5], [4.0, 5.0]]
    ones, mean, variance = np.ones(2, F4), np.array([1, 2], F4), np.array([3, 15], F4)
    folded, bias = Transform.parse("fold_batch_norm(1.0)").apply(
        [weight, 2 * ones, ones, mean, variance]
    )
    assert folded.tolist() == [[1.0, 2.0], [1.5, 2.0]]
    assert bias.tolist() == [0.0, 0.0]
    for number, text in itertools.product((2.0, -0.5), ("scale", "offset")):
        (made,) = Transform(text, (number,)).apply([weight])
        assert np.array_equal(made, weight * number if text == "scale" else weight + number)
