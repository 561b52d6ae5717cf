"""The weight map: transforms and their inverses, edits, problems, history, files."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from troubleshooter_nb import read_weight_map, write_weight_map
from troubleshooter_nb.errors import EntryNotFoundError, FormatError, WeightMapError
from troubleshooter_nb.weight_map import (
    WEIGHT_MAP_COLUMNS,
    Spec,
    Transform,
    WeightMap,
    WeightMapHistory,
    WeightRow,
)

F4 = np.dtype("f4")
SOURCE = {
    "conv.weight": Spec((4, 2, 3), F4),
    "bn.weight": Spec((4,), F4),
    "q": Spec((6, 3), F4),
    "k": Spec((6, 3), F4),
}
TARGET = {
    "conv.weight": Spec((4, 2, 1, 3), F4),
    "bn.gamma": Spec((4,), F4),
    "qk": Spec((12, 3), F4),
    "own": Spec((1,), F4),
}
ROWS = (
    WeightRow(("conv.weight",), ("conv.weight",), Transform("expand_dims", (2,)), "Conv1d"),
    WeightRow(("bn.weight",), ("bn.gamma",)),
)
MAP = WeightMap(ROWS, SOURCE, TARGET, "net.pth", "net.ckpt")

UNDONE = [
    ("copy", [(2, 3)]),
    ("transpose", [(2, 3)]),
    ("transpose", [(2, 3, 4)]),
    ("permute(2, 0, 1)", [(2, 3, 4)]),
    ("reshape(3, 2)", [(2, 3)]),
    ("expand_dims(2)", [(2, 3, 4)]),
    ("squeeze(1)", [(2, 1, 4)]),
    ("split(0, 2, 3, 1)", [(6, 2)]),
    ("split(1, 1, 1)", [(6, 2)]),
    ("concat(0)", [(2, 3), (4, 3)]),
    ("concat(-1)", [(2, 3), (2, 1), (2, 2)]),
]


@pytest.mark.parametrize(("text", "shapes"), UNDONE)
def test_the_inverse_gives_back_the_sources_bit_for_bit(text, shapes):
    rng = np.random.default_rng(0)
    sources = [rng.normal(size=shape).astype(F4) for shape in shapes]
    transform = Transform.parse(text)
    specs = [Spec(array.shape, array.dtype) for array in sources]
    made = transform.apply(sources)
    assert [array.shape for array in made] == [spec.shape for spec in transform.specs(specs)]
    back = transform.inverse(specs)
    returned = back.apply(made)
    assert all(np.array_equal(a, b) for a, b in zip(returned, sources, strict=True))
    assert Transform.parse(str(transform)) == transform


def test_what_cannot_be_undone_says_so():
    for text in ("add", "cast(float16)", "drop"):
        assert Transform.parse(text).inverse([Spec((2,), F4)]) is None
    total = Transform.parse("add").apply([np.ones(2, F4), np.full(2, 2, F4)])
    np.testing.assert_array_equal(total[0], [3, 3])
    assert Transform.parse("cast(bfloat16)").specs([Spec((2,), F4)])[0].dtype.name == "bfloat16"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("os.system", "is no transform"),
        ("transpos", "did you mean transpose"),
        ("permute", "does not fit"),
        ("expand_dims", "takes one argument"),
        ("expand_dims(a)", "takes one argument"),
        ("cast(2)", "takes one argument"),
        ("cast(float7)", "unknown dtype 'float7'"),
        ("copy(1)", "takes no arguments"),
        ("reshape(5)", "does not fit"),
        ("split(0, 1)", "sizes"),
        ("squeeze(0)", "does not fit"),
        ("concat(0)", "several sources|takes"),
    ],
)
def test_a_wrong_transform_is_refused_with_words(text, reason):
    with pytest.raises(WeightMapError, match=reason):
        Transform.parse(text).apply([np.ones((2, 3), F4)])


@given(st.text(max_size=40))
def test_no_text_does_anything_but_parse_or_refuse(text):
    try:
        transform = Transform.parse(text)
    except WeightMapError:
        return
    assert Transform.parse(str(transform)) == transform


def test_what_is_left_over_is_named():
    assert MAP.unmatched_sources == ["q", "k"]
    assert MAP.unmatched_targets == ["qk", "own"]
    assert MAP.coverage == pytest.approx(28 / 64)
    assert MAP.names == {"conv.weight": "conv.weight", "bn.weight": "bn.gamma"}
    assert MAP.problems() == []
    MAP.check()


def test_edits_give_new_maps():
    paired = MAP.pair(["q", "k"], "qk", "concat(0)")
    assert len(MAP) == 2
    assert paired["qk"].sources == ("q", "k")
    assert paired["q"].how == "edited"
    assert paired.coverage == 1.0
    assert paired.unpair("qk").unmatched_sources == ["q", "k"]
    dropped = MAP.drop("q").drop("k")
    assert dropped["q"].targets == ()
    assert dropped.coverage == 1.0
    assert [row.sources[0] for row in dropped] == ["conv.weight", "bn.weight", "q", "k"]
    moved = MAP.pair("bn.weight", "bn.gamma")
    assert len(moved) == 2


def test_renaming_by_prefix_pattern_and_function():
    free = WeightMap(ROWS, SOURCE)
    assert free.rename(prefix="net.")["bn.weight"].targets == ("net.bn.gamma",)
    assert free.rename(pattern=(r"^bn\.", "norm."))["bn.weight"].targets == ("norm.gamma",)
    assert free.rename(func=lambda names: names)["bn.weight"].how == "drafted"
    with pytest.raises(WeightMapError, match="is no regular expression"):
        free.rename(pattern=("(", ""))
    with pytest.raises(WeightMapError, match=r"gives 'x' to several: conv.weight, bn.weight"):
        free.rename(func=lambda names: dict.fromkeys(names, "x"))
    with pytest.raises(WeightMapError, match="rows that the map does not have: new"):
        free.rename(func=lambda names: names | {"new": "new"})


def test_problems_name_their_parameter():
    rows = (
        WeightRow(("gone",), ("bn.gamma",)),
        WeightRow(("bn.weight",), ("bn.gamma",)),
        WeightRow(("conv.weight",), ("conv.weight",)),
        WeightRow(("q",), ("nowhere",)),
    )
    broken = WeightMap(rows, SOURCE, TARGET, "net.pth", "net.ckpt")
    found = "\n".join(broken.problems())
    assert "'bn.gamma' is the target of several: gone, bn.weight" in found
    assert "gone -> bn.gamma: 'gone' is not in net.pth" in found
    assert "(4, 2, 3) for 'conv.weight' of shape (4, 2, 1, 3)" in found
    assert "q -> nowhere: 'nowhere' is not in net.ckpt" in found
    with pytest.raises(WeightMapError, match=r"cannot be converted:\n  'bn.gamma'"):
        broken.check()
    with pytest.raises(
        EntryNotFoundError, match=r"no 'bn.wieght' in net.pth; closest: 'bn.weight'"
    ):
        MAP.pair("bn.wieght", "bn.gamma")
    with pytest.raises(WeightMapError, match=r"\(6, 3\) for 'own' of shape \(1,\)"):
        MAP.pair("q", "own")
    with pytest.raises(EntryNotFoundError, match=r"no row of 'bn.gama' .* closest: 'bn.gamma'"):
        MAP["bn.gama"]


def test_undo_and_redo_walk_through_the_versions():
    history = WeightMapHistory(MAP)
    second = history.do(MAP.drop("q"))
    third = history.do(second.drop("k"))
    assert history.undo() is second
    assert history.redo() is third
    assert history.undo() is second
    assert history.undo() is MAP
    assert history.undo() is MAP
    history.do(third)
    assert history.redo() is third
    assert history.value is third


def test_yaml_holds_everything(tmp_path):
    full = MAP.pair(["q", "k"], "qk", "concat(0)").drop("bn.weight")
    path = write_weight_map(full, tmp_path / "new/map.yaml")
    again = read_weight_map(path, source=SOURCE, target=TARGET)
    assert [(r.sources, r.targets, r.transform) for r in again] == [
        (r.sources, r.targets, r.transform) for r in full
    ]
    assert again.problems() == []
    assert again["q"].how == "imported"


def test_json_of_the_old_tool_holds_what_it_can(tmp_path):
    path = write_weight_map(MAP, tmp_path / "map.json")
    again = read_weight_map(path)
    assert [(r.sources, r.targets, r.transform) for r in again] == [
        (r.sources, r.targets, r.transform) for r in MAP
    ]
    with pytest.raises(WeightMapError, match=r"q \+ k: the json knows one name on each side"):
        write_weight_map(MAP.pair(["q", "k"], "qk", "concat(0)"), path)
    with pytest.raises(ValueError, match=r"as '.txt'; use .yaml"):
        write_weight_map(MAP, tmp_path / "map.txt")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("a: [", "not a weight map"),
        ("- 1", "no list 'weights'"),
        ("weights:\n  - from: a\n    too: b", r"row 0 of the weights is .*expected from, to"),
        ("weights:\n  - {from: 1, to: b}", "row 0 .*no names; put them in quotes"),
        ("weights:\n  - {from: a, to: b, transform: os.system}", r"row 0 .*\(a\): .*no transform"),
        ("weights: !!python/object/apply:os.system ['true']", "not a weight map"),
    ],
)
def test_a_yaml_that_is_no_map_says_where(tmp_path, content, reason):
    path = tmp_path / "map.yaml"
    path.write_text(content)
    with pytest.raises(FormatError, match=rf"^map.yaml: .*{reason}"):
        read_weight_map(path)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_reprs_are_bounded_and_escaped(language):
    from troubleshooter_nb import option_context

    specs = {f"layers.{i}.<b>": Spec((2,), F4) for i in range(700)}
    rows = tuple(WeightRow((n,), (n.replace("layers", "blocks"),)) for n in specs)
    big = WeightMap(rows, specs, notes=tuple(f"note {i}" for i in range(30)))
    with option_context(language=language):
        assert len(repr(big).splitlines()) <= 25
        assert max(map(len, repr(big).splitlines())) <= 100
        html = big._repr_html_()
    assert len(html) < 150_000
    assert "<b></" not in html.replace("<b><samp>", "")
    assert "&lt;b&gt;" in html
    assert list(big.table.data_vars) == list(WEIGHT_MAP_COLUMNS)
    assert len(big.to_dataframe()) == 700


def test_a_name_of_both_sides_is_only_replaced_on_its_own():
    specs = {"a": Spec((2,), F4), "b": Spec((2,), F4)}
    rows = tuple(WeightRow((name,), (name,)) for name in specs)
    crossed = WeightMap(rows, specs, specs).pair("a", "b").pair("b", "a")
    assert crossed.names == {"a": "b", "b": "a"}
