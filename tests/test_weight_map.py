"""The weight map: transforms and their inverses, edits, problems, history, files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from troubleshooter_nb import read_weight_map, write_weight_map
from troubleshooter_nb.columns.weight_maps import WEIGHT_MAP_COLUMNS
from troubleshooter_nb.errors import (
    AmbiguousEntryError,
    EntryNotFoundError,
    FormatError,
    TroubleshooterWarning,
    WeightMapError,
)
from troubleshooter_nb.formats.mapping_file import unsaid_in_weight_map
from troubleshooter_nb.messages import Message, ids_of, joined, told
from troubleshooter_nb.metrics.floats import dtype_from_token
from troubleshooter_nb.options import option_context
from troubleshooter_nb.weight_map import (
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
        ("transpos", "closest: 'transpose'"),
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
        (
            f"weights:\n  - {{from: [a, b], to: c, transform: concat({'9' * 5000})}}",
            r"row 0 .*not concat\(9{113}\.\.\.$",
        ),
        (f"weights:\n  - {{from: {'a' * 5000}}}", r"row 0 .*\(a{120}\.\.\.\) has no 'to'"),
        ("weights:\n  - {from: [a, '', b, c, d, e, f, g, h, i], to: q}", r"g.*, .*\.\.\."),
        (
            f"weights:\n  - {{from: a, to: b, transform: {'q' * 5000}}}",
            r"row 0 .*no transform 'q{120}'",
        ),
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


TIED = WeightMap(
    (WeightRow(("emb",), ("e1",)), WeightRow(("emb",), ("head",)), WeightRow(("b",), ("b",))),
    {"emb": Spec((2, 2), F4), "b": Spec((2, 2), F4)},
    {name: Spec((2, 2), F4) for name in ("e1", "head", "b", "free")},
)


def said(weight_map):
    return [(row.sources[0], *row.targets, str(row.transform)) for row in weight_map]


def test_of_a_source_with_two_targets_one_row_is_changed():
    assert TIED.problems() == []
    rest = [("emb", "e1", "copy"), ("b", "b", "copy")]
    changed = [rest[0], ("emb", "head", "transpose"), rest[1]]
    assert said(TIED.transform("head", "transpose")) == changed
    assert said(TIED.transform("emb", "transpose", target="head")) == changed
    assert said(TIED.pair("emb", "head", "transpose")) == changed
    assert said(TIED.unpair("emb", target="head")) == said(TIED.unpair("head")) == rest
    assert TIED["emb", "head"] is TIED["head"] is TIED.rows[1]
    assert TIED.preview("emb", "transpose", target="e1") == "2x2 -> 2x2"


def test_a_source_with_two_targets_names_no_row_of_its_own():
    both = r"'emb' goes to several: 'e1', 'head'; name the row by its target too: target='e1'"
    for act in (
        lambda: TIED.transform("emb", "transpose"),
        lambda: TIED.unpair("emb"),
        lambda: TIED.preview("emb", "transpose"),
        lambda: TIED["emb"],
    ):
        with pytest.raises(AmbiguousEntryError, match=both):
            act()
    with pytest.raises(AmbiguousEntryError, match=r"'emb' goes to 'e1', 'head', and not to 'free'"):
        TIED.pair("emb", "free")
    with pytest.raises(EntryNotFoundError, match=r"no row of 'emb -> had'.*closest: 'emb -> head'"):
        TIED.unpair("emb", target="had")
    twice = WeightMap((WeightRow(("a",), ("x",)), WeightRow(("b",), ("x",))), {})
    with pytest.raises(AmbiguousEntryError, match=r"'x' is the target of several: 'a', 'b'"):
        twice.unpair("x")
    assert said(twice.unpair("b", target="x")) == [("a", "x", "copy")]


def test_rows_whose_names_are_crossed_are_told_apart_by_both():
    crossed = WeightMap((WeightRow(("a",), ("b",)), WeightRow(("b",), ("a",))), {})
    assert said(crossed.unpair("b", target="a")) == [("a", "b", "copy")]
    assert said(crossed.unpair("a", target="b")) == [("b", "a", "copy")]


def test_tied_weights_keep_their_other_rows():
    one = TIED.unpair("head")
    assert said(one.pair("emb", "free"))[0] == ("emb", "free", "copy")
    assert one.pair("emb", "free").unmatched_targets == ["e1", "head"]
    assert said(one.pair("emb", "head", tied=True)) == said(TIED)
    assert len(TIED.pair("emb", "free", tied=True)) == 4
    assert said(TIED.drop("emb")) == [("emb", "drop"), ("b", "b", "copy")]
    assert said(TIED.drop("emb").pair("emb", "head"))[0] == ("emb", "head", "copy")


def test_a_suggestion_for_one_of_two_targets_leaves_the_other():
    instead = WeightRow(("emb",), ("head",), Transform("transpose"))
    suggested = WeightMap(TIED.rows, TIED.source, TIED.target, suggestions=(instead,))
    assert suggested.table["suggestion"].values.tolist() == ["", "transpose", ""]
    assert said(suggested.accept("emb"))[:2] == [
        ("emb", "e1", "copy"),
        ("emb", "head", "transpose"),
    ]


def test_a_source_with_two_targets_is_no_json(tmp_path):
    path = tmp_path / "map.json"
    with pytest.raises(WeightMapError, match=r"emb goes to e1 and to head: .*use .yaml"):
        write_weight_map(TIED, path)
    assert not path.exists()
    assert said(read_weight_map(write_weight_map(TIED, tmp_path / "map.yaml"))) == said(TIED)


def test_what_a_json_leaves_out_can_be_asked_for_before(tmp_path):
    dropped = MAP.drop("q").drop("bn.weight")
    assert unsaid_in_weight_map(dropped, "map.yaml") == unsaid_in_weight_map(MAP, "m.json") == []
    (lost,) = unsaid_in_weight_map(dropped, "map.json")
    assert lost.startswith("map.json was written without 2 dropped or kept tensors")
    assert "('bn.weight', 'q')" in lost
    with pytest.warns(TroubleshooterWarning) as warned:
        write_weight_map(dropped, tmp_path / "map.json")
    assert [str(one.message) for one in warned] == [lost]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("m.json", r'[{"a\ud800": "\ud83d\ude00"}, {}]'),
        ("m.yaml", r'{source: "\udfff", weights: [{from: "a\ud800", to: "\ud83d\ude00"}]}'),
    ],
)
def test_half_a_character_in_a_file_comes_escaped_as_in_dumps(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content)
    read = read_weight_map(path)
    assert (read.rows[0].sources, read.rows[0].targets) == (("a\\ud800",), ("\U0001f600",))
    (repr(read) + read._repr_html_()).encode()
    assert said(read_weight_map(write_weight_map(read, path))) == said(read)


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_a_name_that_would_not_come_back_is_not_written(tmp_path, suffix):
    for name in ("a\udcffb", "\t") if suffix == ".yaml" else ("a\udcffb",):
        row = WeightRow((name,), ("x",))
        with pytest.raises(WeightMapError, match="rename it") as refused:
            write_weight_map(WeightMap((row,), {}), tmp_path / f"m{suffix}")
        assert repr(name) in str(refused.value)


def test_a_name_that_stands_twice_in_a_json_is_refused(tmp_path):
    path = tmp_path / "m.json"
    path.write_text('[{"emb": "e1", "emb": "head"}, {}]')
    with pytest.raises(FormatError, match=r"m.json: the name 'emb' stands twice"):
        read_weight_map(path)


NAMES = st.text(min_size=1, max_size=30) | st.sampled_from(
    [
        *("a\nb", "a\r\nb", "a\x85b", "a\u2028b", "a\u2029b", "\ufeffa", "a\x00b", "a\x7f"),
        *(" a", "a ", "a  b", "\u3000a", "\xa0", "null", "true", "on", "~", "=", "1e3", "1.0"),
        *("0x10", "2026-01-01", "- x", "-", "? x", "{a}", "{a: b}", "[a]", "'q'", '"q"', "a: b"),
        *("a:", "a #c", "# c", "&a", "*a", "!a", "%a", "@a", "`a`", "|", ">", "<<", "---", "..."),
        *(
            "\\n",
            "\\",
            "中文 名",
            "\U0001f600",
            "e\u0301",
            "\u202eabc",
            "\ue000",
            "\uffff",
            "a + b",
        ),
        *("word " * 60, "x" * 3000, "a\tb", "\x1b[31m", "<b>"),
    ]
)


@given(st.lists(NAMES.filter(str.strip), min_size=3, max_size=3), st.text(max_size=9))
def test_any_names_survive_being_written_as_yaml(tmp_path_factory, names, note):
    row = WeightRow((names[0],), (names[1],), note=note)
    both = WeightRow((names[0], names[2]), (names[2],), Transform("add"))
    labels = names[0], names[1]
    path = tmp_path_factory.mktemp("m") / "m.yaml"
    read = read_weight_map(write_weight_map(WeightMap((row, both), {}, None, *labels), path))
    assert [(r.sources, r.targets, r.transform, r.note) for r in read] == [
        (r.sources, r.targets, r.transform, r.note) for r in (row, both)
    ]
    assert (read.source_label, read.target_label) == labels


def test_the_same_transform_again_changes_nothing():
    noted = MAP.with_rows(
        [WeightRow(("bn.weight",), ("bn.gamma",), note="auto-matched: same name")]
    )
    assert noted.transform("bn.weight", "copy") is noted
    changed = noted.transform("bn.weight", "reshape(4)")["bn.weight"]
    assert (changed.how, changed.note) == ("edited", "")
    wrong = MAP.with_rows([WeightRow(("q",), ("bn.gamma",))])
    with pytest.raises(WeightMapError):
        wrong.transform("q", "copy")


def test_what_was_edited_stands_first_in_both_reprs():
    names = [f"layers.{k}.w" for k in range(500)]
    specs = {name: Spec((2, 2), F4) for name in names}
    drafted = WeightMap(tuple(WeightRow((n,), (n,), note="by rule") for n in names), specs, specs)
    edited = drafted.transform(names[400], "transpose")
    lines = repr(edited).splitlines()
    at = next(k for k, line in enumerate(lines) if line.strip() == "Edited (1 of 1)")
    assert lines[at + 1].split()[:4] == [names[400], "->", names[400], "transpose"]
    assert lines[-1].strip().startswith("... ")
    html = edited._repr_html_()
    assert html.index(names[400]) < html.index(names[0])
    assert "Edited" not in repr(drafted) + drafted._repr_html_()
    # What was matched by names alone is no edit of a person.
    assert "Edited" not in repr(WeightMap((), specs, specs).match_rest())


QKV = WeightMap(
    (),
    {"qkv": Spec((48, 4), F4), "g": Spec((4, 1, 1), F4), "v": Spec((4, 2, 3), F4)}
    | {f"s{k}": Spec((16, 4), F4) for k in "qkv"}
    | {"half": Spec((16, 4), np.dtype("f2"))},
    {f"t{k}": Spec((16, 4), F4) for k in "qkv"}
    | {"all": Spec((48, 4), F4), "wide": Spec((16, 12), F4), "sum": Spec((16, 4), F4)}
    | {"conv": Spec((4, 2, 3), F4), "conv2d": Spec((4, 2, 1, 3), F4)},
)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("qkv", ["tq", "tk", "tv"], ["split(0, 16, 16, 16)"]),
        ("qkv", ["tq", "tk"], []),
        ("qkv", ["tq", "tk", "conv"], []),
        (["sq", "sk", "sv"], "all", ["concat(0)"]),
        (["sq", "sk", "sv"], "wide", ["concat(1)"]),
        (["sq", "sk"], "sum", ["add"]),
        (["sq", "half"], "sum", []),  # of two dtypes
        (["g", "v"], "conv", ["weight_norm(0)"]),
        (["g", "v"], "conv2d", ["weight_norm(0, 2)"]),
        (["sq", "sk"], ["tq", "tk"], []),
        ("sq", ["tq"], ["copy"]),
    ],
)
def test_several_names_are_split_joined_or_added_where_shapes_say_so(source, target, expected):
    found = [str(one) for one in QKV.fitting(source, target)]
    assert found == expected
    assert bool(QKV.misfit(source, target)) == (not expected)
    for one in found:
        assert QKV.pair(source, target, one).problems() == []


def test_of_several_names_it_is_said_why_nothing_fits_and_what_would_be():
    assert QKV.misfit("qkv", ["tq", "tk"]) == (
        "192 values (48×4) against 64 values (16×4) + 64 values (16×4)"
    )
    assert "only one dtype is joined, not float32, float16" in QKV.misfit(["sq", "half"], "sum")
    assert "choose one on either side" in QKV.misfit(["sq", "sk"], ["tq", "tk"])
    names = ["tq", "tk", "tv"]
    assert QKV.preview_pair("qkv", names, "split(0, 16, 16, 16)") == "48x4 -> 16x4 + 16x4 + 16x4"
    with pytest.raises(
        WeightMapError, match=r"^concat\(0\) does not fit 4x1x1, 4x2x3: .* in other axes than 0"
    ):
        QKV.preview_pair(["g", "v"], "conv", "concat(0)")
    with pytest.raises(EntryNotFoundError, match="no 'strange' in target"):
        QKV.preview_pair("qkv", "strange", "copy")


def test_several_names_of_a_target_that_is_not_known_are_parts_of_equal_size():
    free = WeightMap((), QKV.source)
    assert [str(one) for one in free.fitting("qkv", list("abc"))] == ["split(0, 16, 16, 16)"]
    assert free.fitting("qkv", list("abcde")) == []
    assert free.misfit("qkv", list("abcde")) == "no axis of 48x4 has 5 equal parts"
    joined = [str(one) for one in free.fitting(["sq", "sk"], "x")]
    assert joined == ["concat(0)", "concat(1)", "stack(0)", "add"]
    assert free.misfit(["g", "qkv"], "x") == "no axis joins 4x1x1, 48x4"
    nothing = WeightMap((), {})
    assert [str(one) for one in nothing.fitting(["a", "b"], "x")] == ["concat(0)"]
    assert nothing.fitting("x", ["a", "b"]) == []  # of sizes that nobody knows


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("text", "sources", "targets", "reason"),
    [
        ("add", ["a"], ["x"], "add takes several sources, got 1"),
        ("concat(0)", ["a"], ["x"], r"concat\(0\) takes several sources, got 1"),
        ("copy", ["a", "b"], ["x"], "copy takes one source, got 2"),
        ("split(0, 2, 2)", ["a"], ["x"], r"split\(0, 2, 2\) gives 2 tensors for 1 name$"),
        ("split(0, 4)", ["a"], ["x", "y"], r"split\(0, 4\) gives 1 tensor for 2 names"),
        ("copy", ["a"], ["x", "y"], "copy gives 1 tensor for 2 names"),
        ("drop", ["a"], ["x"], "drop needs no target"),
        ("transpose", ["a"], [], "transpose needs a target"),
        ("copy", ["a"], [], "copy needs a target"),
        ("weight_norm(0)", ["a"], ["x"], "takes the sources g and v in this order, got 1 source"),
    ],
)
def test_tensors_are_counted_before_their_shapes_are_known(
    tmp_path, text, sources, targets, reason, known
):
    specs = {name: Spec((4, 2), F4) for name in "ab"} if known else {}
    row = WeightRow(tuple(sources), tuple(targets), Transform.parse(text))
    counted = WeightMap((row,), specs)
    with pytest.raises(WeightMapError, match=reason):
        counted.check()
    with pytest.raises(WeightMapError, match=reason):
        counted.pair(sources, targets, text)
    with pytest.raises(WeightMapError, match=reason):
        counted.preview(0, text)
    # What is refused here is what a file with it could not be read for.
    with pytest.raises(FormatError, match=reason.removesuffix("$")):
        read_weight_map(write_weight_map(counted, tmp_path / "map.yaml"))


def test_a_sum_has_the_dtype_that_its_values_have():
    arrays = [np.ones(2, "f2"), np.full(2, 1e6, F4)]
    add = Transform.parse("add")
    (spec,) = add.specs([Spec(array.shape, array.dtype) for array in arrays])
    (total,) = add.apply(arrays)
    assert (spec.dtype, total.dtype, float(total[0])) == (F4, F4, 1000001.0)
    halves = [np.ones(2, dtype_from_token(name)) for name in ("float16", "bfloat16")]
    (spec,) = add.specs([Spec(array.shape, array.dtype) for array in halves])
    (total,) = add.apply(halves)
    assert (spec.dtype, total.dtype, float(total[0])) == (F4, F4, 2.0)


def test_a_cast_rounds_once():
    given = [np.array([1 + 2**-8 + 2**-40])]
    assert float(Transform.parse("cast(bfloat16)").apply(given)[0][0]) == 1.0078125


def test_the_shapes_of_a_cast_take_no_memory():
    import tracemalloc

    tracemalloc.start()
    try:
        made = Transform.parse("cast(float16)").specs([Spec((1 << 12, 1 << 12), F4)])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert made == [Spec((1 << 12, 1 << 12), np.dtype("f2"))]
    assert most < 1 << 20  # the array itself has 32 MiB


def test_rows_that_fill_one_target_say_so_in_the_table_and_the_repr():
    rows = (WeightRow(("a",), ("x",)), WeightRow(("b",), ("y",)), WeightRow(("c",), ("x",)))
    for source in ({}, {name: Spec((2,), F4) for name in "abc"}):
        twice = WeightMap(rows, source)
        said = "'x' is the target of several: a, c"
        assert twice.filled_twice() == {0: said, 2: said}
        assert twice.table["problem"].values.tolist() == [said, "", said]
        assert twice.problems() == [said]
        assert "✓" not in repr(twice)
    assert WeightMap(rows[:2], {}).filled_twice() == {}


def test_rows_that_say_the_same_twice_are_told_apart_by_their_place():
    same = (WeightRow(("a",), ("x",)), WeightRow(("a",), ("x",), Transform("transpose")))
    twice = WeightMap(same, {"a": Spec((2, 2), F4)})
    assert said(twice.unpair(1)) == [("a", "x", "copy")]
    assert said(twice.transform(0, "reshape(2, 2)"))[1] == ("a", "x", "transpose")
    assert twice[1] is same[1]
    assert twice.preview(1, "copy") == "2x2 -> 2x2"
    with pytest.raises(EntryNotFoundError, match="no row 2 in a weight map of 2 rows"):
        twice.unpair(2)


def in_each_others_place():
    """Three tensors that lie in a ring of each other's places, and one that is transposed."""
    names = ["a", "b", "c", "own"]
    specs = {name: Spec((3, 3), F4) for name in names}
    rows = tuple(WeightRow((name,), (name,)) for name in names)
    ring = [WeightRow((s,), (t,)) for s, t in ("ab", "bc", "ca")]
    other = WeightRow(("own",), ("own",), Transform("transpose"))
    return WeightMap(rows, specs, specs, suggestions=(*ring, other))


def test_tensors_in_each_others_place_are_taken_together():
    ring = in_each_others_place()
    assert ring.accept("b").unmatched_sources == ["c"]
    put_right = ring.accept("b", together=True)
    assert put_right.names == {"a": "b", "b": "c", "c": "a", "own": "own"}
    assert put_right.unmatched_sources == put_right.unmatched_targets == []
    assert [row.sources for row in put_right.suggestions] == [("own",)]
    assert len(ring.accept("own", together=True).suggestions) == 3
    assert ring.accept(together=True).suggestions == ()  # all, as without it


def test_what_values_suggest_of_an_unmatched_name_is_its_first_candidate():
    one = in_each_others_place().accept("b")  # which leaves c without a row
    assert one.candidates("c")[0] == ("a", "values suggest it by copy; paired with a", False)
    assert one.suggested_for("c").targets == ("a",)
    assert one.unpair("a").candidates("a", side="target")[0].name == "c"
    matched = one.candidates("own")  # has a row, which says what is suggested
    assert not any("values" in candidate.why for candidate in matched)


def test_names_of_a_target_that_is_not_known_are_given_to_match_and_to_find_candidates():
    specs = {f"l{k}.w": Spec((4, 2), F4) for k in range(3)}
    rows = tuple(WeightRow((f"l{k}.w",), (f"m{k}.w",), Transform("transpose")) for k in range(3))
    parted = WeightMap(rows, specs).unpair("l1.w")
    near = parted.candidates("l1.w", targets=["m0.w", "m1.w", "m2.w"])
    assert near[0] == ("m1.w", "shape not known", True)
    assert near[1] == ("m0.w", "shape not known; paired with l0.w", False)
    assert parted.candidates("m1.w", targets=["m1.w"])[0] == ("l1.w", "shape not known", True)
    with pytest.raises(EntryNotFoundError, match=r"no 'm1.w' in target; closest"):
        parted.candidates("m1.w", side="target")
    assert parted.match_rest() is parted  # nothing says that there is an m1.w
    assert said(parted.match_rest(targets=["m1.w"]))[1] == ("l1.w", "m1.w", "copy")
    again = parted.match_rest(targets=["m1.w"], former=rows)
    assert said(again)[1] == ("l1.w", "m1.w", "transpose")
    # That two are left over says nothing where shapes are not known.
    assert parted.match_rest(targets=["entirely.else"]) is parted
    nothing = WeightMap((), {}, None).match_rest(sources=["a.w"], targets=["a.w"])
    assert nothing.names == {"a.w": "a.w"}


SAID = joined(
    [
        Message("weight_maps.guessed", kind="Conv1d"),
        Message("weight_maps.by_values", relation=Message("values.the_source"), residual=1e-9),
        "typed by hand: 'x'",
    ]
)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_saved_note_is_read_in_either_language(tmp_path, language):
    rows = (WeightRow(("q",), ("own",), note=SAID), WeightRow(("k",), ("qk",), note="by hand"))
    with option_context(language=language):
        path = write_weight_map(WeightMap(rows, {}), tmp_path / "map.yaml")
    text = path.read_text()
    assert "note: 'guessed: Conv1d; by values: the source, residual 1.0e-09; typed by" in text
    assert text.count("said: ") == 1  # what a person typed needs none
    read = read_weight_map(path)
    assert [row.note for row in read] == [SAID, "by hand"]
    assert ids_of(read["q"].note) == ids_of(SAID)
    with option_context(language="zh"):
        assert told(read["q"].note).startswith("推测：Conv1d；由数值得出：源，残差 1.0e-09；typed")
        assert "推测：Conv1d" in repr(read)
    assert "guessed: Conv1d" in repr(read)


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("  note: 'guessed: Conv2d'", "guessed: Conv2d"),  # edited by a person
        ("", ""),  # taken out
    ],
)
def test_an_edited_note_counts_more_than_what_it_was(tmp_path, line, becomes):
    row = WeightRow(("q",), ("own",), note=Message("weight_maps.guessed", kind="Conv1d"))
    path = write_weight_map(WeightMap((row,), {}), tmp_path / "map.yaml")
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line if "note:" in one else one for one in lines))
    (read,) = read_weight_map(path)
    assert (read.note, ids_of(read.note)) == (becomes, [])


_NO_SUCH = '{"message": "no.such", "values": {}}'


@pytest.mark.parametrize("said", ["1", "'{'", "{message: x}", f"'{_NO_SUCH}'", "[a, b]"])
def test_a_broken_said_leaves_the_note(tmp_path, said):
    path = tmp_path / "map.yaml"
    path.write_text(f"weights:\n- from: a\n  to: b\n  note: as it is\n  said: {said}\n")
    (row,) = read_weight_map(path)
    assert (row.note, ids_of(row.note)) == ("as it is", [])


def test_a_yaml_of_an_earlier_version_is_read(tmp_path):
    path = tmp_path / "map.yaml"
    path.write_text("source: a\ntarget: b\nweights:\n- {from: a, to: b, note: 'guessed: Conv1d'}\n")
    (row,) = read_weight_map(path)
    assert row.note == "guessed: Conv1d"


def test_a_map_says_everything_in_chinese():
    drafted = replace(MAP, notes=(Message("weight_maps.values_agree", agreeing=2, total=3),))
    said = "可比较的 3 行中有 2 行的值一致"
    assert "values agree in 2 of 3 rows that can be compared" in repr(drafted)
    with option_context(language="zh"):
        assert said in repr(drafted)
        assert said in drafted._repr_html_()
        whys = [told(one.why) for one in MAP.candidates("q")]
        assert "18 个值（6×3） ≠ 36 个值（12×3）" in whys
        with pytest.raises(WeightMapError, match=r"得到形状 .*，而 'own' 的形状为"):
            MAP.pair("q", "own")
        assert repr(WeightMapHistory(MAP)).startswith("WeightMapHistory：第 1 版，共 1 版")


def test_the_table_of_messages_goes_to_netcdf(tmp_path):
    pytest.importorskip("netCDF4")
    rows = (WeightRow(("q",), ("own",), note=SAID), WeightRow(("k",), ("qk",)))
    table = WeightMap(rows, {}).to_dataset()
    table.to_netcdf(tmp_path / "x.nc", engine="netcdf4")
    assert [type(note) for note in table["note"].values] == [Message, Message]


def test_what_is_not_declared_is_a_doubt(tmp_path):
    weights = {"a": Spec((2, 3), F4), "b": Spec((3,), F4), "empty": Spec((0, 3), F4)}
    wanted = {"a": Spec((2, 3), F4), "empty": Spec((0, 3), F4), "own": Spec((4,), F4)}
    rows = tuple(WeightRow((name,), (name,)) for name in ("a", "empty"))
    doubtful = WeightMap(rows, weights, wanted)
    assert [said.id.partition(".")[2] for said in doubtful.doubts()] == [
        "unfilled",
        "without_a_place",
        "no_elements",
    ]
    assert "33.3% of its elements" in doubtful.doubts()[1]
    declared = doubtful.drop("b").keep("own").drop("empty").keep("empty")
    assert declared.doubts() == []
    assert declared.kept == ("own", "empty")
    assert doubtful.keep("a").unmatched_sources == ["a", "b"]
    read = read_weight_map(write_weight_map(declared, tmp_path / "m.yaml"))
    assert read.kept == declared.kept
    with pytest.raises(EntryNotFoundError, match="own"):
        doubtful.keep("owm")
    (tmp_path / "bad.yaml").write_text("keep: own\nweights: []\n")
    with pytest.raises(FormatError, match="keep takes a list"):
        read_weight_map(tmp_path / "bad.yaml")
