"""Every kind of transform keeps what its entry says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.messages.rules import english_in
from troubleshooter_nb import read_weight_map, write_weight_map
from troubleshooter_nb.dump import ArrayInMemory
from troubleshooter_nb.errors import WeightMapError
from troubleshooter_nb.formats.transformed_source import TransformedSource, transformed
from troubleshooter_nb.messages import Message, told
from troubleshooter_nb.ranges import read_rows
from troubleshooter_nb.transforms import (
    KINDS,
    Spec,
    Transform,
    fitting,
    of_troubleshooter,
)
from troubleshooter_nb.weight_map import WeightMap, WeightRow

F4 = np.dtype("f4")
EXAMPLES = [
    pytest.param(Transform.parse(text), shapes, id=text)
    for kind in KINDS.values()
    for text, shapes in kind.examples.items()
]
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
each_example = pytest.mark.parametrize(("transform", "shapes"), EXAMPLES)


def specs_of(shapes):
    return tuple(Spec(shape, F4) for shape in shapes)


def arrays_of(shapes):
    random = np.random.default_rng(0)
    return [random.normal(size=shape).astype(F4) for shape in shapes]


def row_of(transform, shapes):
    """A row with as many names as the transform takes and gives."""
    count = len(transform.specs(specs_of(shapes)))
    names = [
        tuple(f"{side}.{k}" for k in range(n)) for side, n in (("s", len(shapes)), ("t", count))
    ]
    return WeightRow(*names, transform)


@each_kind
def test_an_entry_stands_under_its_name_and_shows_how_it_is_written(kind):
    assert KINDS[kind.name] is kind
    assert kind.examples
    assert {Transform.parse(text).kind for text in kind.examples} == {kind.name}


@each_example
def test_what_is_written_is_read_again(transform, shapes):
    assert Transform.parse(str(transform)) == transform
    assert Transform(transform.kind, transform.arguments) == transform
    # As numpy counts, and as JSON stores evidence.
    counted = tuple(np.int64(n) if isinstance(n, int) else n for n in transform.arguments)
    assert Transform(transform.kind, counted) == transform


@each_kind
@pytest.mark.parametrize("words", ["(nonsense!)", "(1.5.2)", "(True, None)"])
def test_arguments_of_another_kind_are_refused_with_an_example(kind, words):
    with pytest.raises(WeightMapError, match=rf"^(unknown dtype|{kind.name} takes)") as refused:
        Transform.parse(kind.name + words)
    if "dtype" not in str(refused.value):
        assert next(iter(kind.examples)) in str(refused.value)
    assert not english_in(refused.value.args[0].told("zh"))


@each_example
def test_shapes_and_dtypes_are_said_before_anything_is_read(transform, shapes):
    for dtype in (F4, np.dtype("i2")):
        specs = [Spec(shape, dtype) for shape in shapes]
        arrays = [np.ones(shape, dtype) for shape in shapes]
        if dtype != F4 and transform.kind in ("scale", "offset"):
            with pytest.raises(WeightMapError, match=dtype.name):
                transform.apply(arrays)
            continue
        made = transform.apply(arrays)
        assert [Spec(array.shape, array.dtype) for array in made] == transform.specs(specs)
        assert transform.miscounted(len(shapes), len(made)) == ""


@each_example
def test_what_is_undone_gives_the_sources_back_bit_for_bit(transform, shapes):
    arrays, specs = arrays_of(shapes), specs_of(shapes)
    back = transform.inverse(specs)
    if back is None:
        is_lossy = bool(transform.loss(specs))
        assert is_lossy or transform.entry.inverse is None
        return
    returned = back.apply(transform.apply(arrays))
    assert [array.tobytes() for array in returned] == [array.tobytes() for array in arrays]
    assert [array.shape for array in returned] == list(shapes)


@each_example
def test_values_keep_their_flat_order_where_the_entry_says_so(transform, shapes):
    arrays = [np.arange(math.prod(shape), dtype=F4).reshape(shape) for shape in shapes]
    made = [array.tobytes() for array in transform.apply(arrays)]
    if transform.keeps_order:
        assert made == [array.tobytes() for array in arrays]


@each_example
def test_tensors_are_counted(transform, shapes):
    given = len(transform.specs(specs_of(shapes)))
    assert transform.miscounted(0)
    assert transform.miscounted(len(shapes), given + 1)
    if transform.entry.sources.most is not None:
        too_many = [*shapes, *[shapes[-1]] * transform.entry.sources.most]
        assert str(transform) in transform.miscounted(len(too_many))
        with pytest.raises(WeightMapError, match="takes"):
            transform.apply(arrays_of(too_many))


@each_example
def test_a_shape_of_many_more_axes_fits_or_is_refused_with_words(transform, shapes):
    odd = [(*shape, 7) for shape in shapes]
    try:
        made = transform.specs(specs_of(odd))
    except WeightMapError:
        with pytest.raises(WeightMapError, match="does not fit") as refused:
            transform.apply(arrays_of(odd))
        assert str(refused.value).startswith(str(transform))
        assert not english_in(refused.value.args[0].told("zh"))
    else:
        assert [array.shape for array in transform.apply(arrays_of(odd))] == [s.shape for s in made]


@each_example
def test_proposals_make_what_they_are_proposed_for(transform, shapes):
    specs = specs_of(shapes)
    wanted = tuple(spec.shape for spec in transform.specs(specs))
    for targets in (wanted, (None,) * len(wanted)):
        found = fitting(specs, targets, everything=True)
        assert len(set(found)) == len(found)
        for one in found:
            made = [spec.shape for spec in one.specs(specs)]
            assert all(shape in (None, out) for shape, out in zip(targets, made, strict=True))
            assert one.miscounted(len(specs), len(targets)) == ""


@each_kind
def test_a_kind_is_proposed_for_some_of_its_examples_or_never(kind):
    """One that proposes nothing is only ever typed, or proved by values."""
    proposed = set()
    for text, given in kind.examples.items():
        specs = specs_of(given)
        made = Transform.parse(text).specs(specs)
        shapes = tuple(spec.shape for spec in made)
        for wanted in (shapes, (None,) * len(made)):
            proposed |= {one.kind for one in fitting(specs, wanted, everything=True)}
            if kind.is_asked_for:
                assert kind.name not in {one.kind for one in fitting(specs, wanted)}
    is_silent = type(kind).__dataclass_fields__["proposals"].default is kind.proposals
    assert (kind.name in proposed) != is_silent


@each_kind
def test_what_is_proposed_blindly_takes_and_gives_the_counts_asked_for(kind):
    blind = fitting((None,) * kind.sources.least, (None,))
    assert [one.arguments for one in blind if one.kind == kind.name] == list(kind.blind)


@each_kind
def test_what_it_does_is_said_in_both_languages(kind):
    said = set()
    for text in kind.examples:
        words = Transform.parse(text).words
        assert isinstance(words, Message)
        assert told(words, "zh") != told(words, "en")
        assert not english_in(told(words, "zh"))
        said.add(words)
    assert len(said) == len(kind.examples)  # other arguments, other words


@each_example
def test_a_yaml_holds_it(transform, shapes, tmp_path):
    row = row_of(transform, shapes)
    (read,) = read_weight_map(write_weight_map(WeightMap((row,), {}), tmp_path / "m.yaml"))
    assert (read.sources, read.targets, read.transform) == (row.sources, row.targets, transform)


@each_example
def test_the_json_of_troubleshooter_holds_it_or_says_that_it_cannot(transform, shapes, tmp_path):
    row = row_of(transform, shapes)
    value = WeightMap((row,), {})
    if transform.troubleshooter is not None:
        (read,) = read_weight_map(write_weight_map(value, tmp_path / "m.json"))
        assert (read.sources, read.targets, read.transform) == (row.sources, row.targets, transform)
        assert of_troubleshooter().get(transform.troubleshooter, Transform()) == transform
    elif row.targets:
        with pytest.raises(WeightMapError, match="json"):
            write_weight_map(value, tmp_path / "m.json")


def test_functions_of_troubleshooter_are_told_apart():
    named = [f for kind in KINDS.values() for f in kind.troubleshooter.values() if f]
    assert sorted(named) == sorted(of_troubleshooter())


@each_example
def test_what_is_lost_is_a_message(transform, shapes):
    for dtype in (F4, np.dtype("i1")):
        loss = transform.loss([Spec(shape, dtype) for shape in shapes])
        assert loss == "" or (isinstance(loss, Message) and not english_in(told(loss, "zh")))


@each_example
def test_a_map_with_it_has_no_problem(transform, shapes):
    row = row_of(transform, shapes)
    source = dict(zip(row.sources, specs_of(shapes), strict=True))
    made = transform.specs(specs_of(shapes))
    target = dict(zip(row.targets, made, strict=True))
    whole = WeightMap((row,), source, target)
    assert whole.problems() == []
    assert whole.table["transform"].values.tolist() == [str(transform)]
    if row.targets:
        for one in whole.fitting(row.sources, row.targets):
            assert whole.transform(0, str(one)).problems() == []
        assert whole.preview(0, str(transform)).count(" -> ") == 1


def test_a_split_without_sizes_is_told_what_it_gives():
    assert "gives 0 tensors for 3 names" in Transform.parse("split(0)").miscounted(1, 3)
    assert "needs no target" in Transform.parse("drop").miscounted(1, 1)


@each_example
def test_some_values_are_those_of_all(transform, shapes):
    arrays = arrays_of(shapes)
    sources = [ArrayInMemory(array) for array in arrays]
    for made, whole in zip(transformed(sources, transform), transform.apply(arrays), strict=True):
        places = np.random.default_rng(1).permutation(whole.size)[: whole.size // 2 + 1]
        expected = np.ascontiguousarray(whole).reshape(-1)[places]
        if isinstance(made, TransformedSource):
            found = read_rows(made, places, 1).reshape(-1)
            in_part = transform.keeps_order or transform.entry.gives != "whole"
            assert made.is_read_in_part == in_part
            assert found.dtype == whole.dtype
            assert np.array_equal(found, expected, equal_nan=True)
