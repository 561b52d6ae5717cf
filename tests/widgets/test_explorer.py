"""The explorer without a page: which rows a view shows, what an opened row reads and says."""

from __future__ import annotations

import gc
import json
import math
import threading
import weakref
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.metrics.places import TILE_COLUMNS, TILE_ROWS
from troubleshooter_nb.naming import Site
from troubleshooter_nb.widgets.drill_down import (
    located,
    located_alone,
    located_entry,
    part,
    plane_of,
    precision,
)
from troubleshooter_nb.widgets.opened_row import opened_entry, opened_pair, said_part, shortest
from troubleshooter_nb.widgets.packed_table import PackedTable, View
from troubleshooter_nb.widgets.words import words_of

DATA = Path(__file__).parents[1] / "data"


class Counting:
    """A source that remembers which flat ranges were read."""

    def __init__(self, array):
        self.array = np.ascontiguousarray(array)
        self.shape, self.dtype = array.shape, array.dtype
        self.size_bytes = array.nbytes
        self.reads = []

    def read(self, start, stop, into=None):
        self.reads.append((start, stop))
        return self.array.reshape(-1)[start:stop]

    @property
    def count(self):
        return sum(stop - start for start, stop in self.reads)


def entry(name, array, *, order, role="output", step=0, **known):
    source = None if array is None else ArrayInMemory(np.asarray(array))
    site = Site("module", name, 0, "forward", role, "")
    return Entry(name, site, source, order=order, step=step, **known)


STATISTICS = {"min": 0.0, "max": 1.0, "mean": 0.5, "l2": 2.0}


@pytest.fixture(scope="module")
def dumps():
    rng = np.random.default_rng(3)
    names = ["layers.2.attn", "layers.10.attn", "Layers.1.MLP", "shape", "recorded", "alone"]
    arrays = [rng.normal(size=(20, 30)).astype(np.float32) for _ in names]
    wrong = [array.copy() for array in arrays]
    wrong[1][4, 7] += 5
    wrong[2][3, 2] = np.nan
    wrong[3] = wrong[3][:10]
    roles = ["input", "output", "parameter", "output", "output", "output"]
    left, right = [], []
    for side, values in ((left, wrong), (right, arrays)):
        for order, (name, value, role) in enumerate(zip(names, values, roles, strict=True)):
            known = {}
            if name == "recorded":
                value, known = None, {"statistics": STATISTICS, "shape": (2, 2), "dtype": "float32"}
            side.append(entry(name, value, order=order, role=role, step=order % 2, **known))
    return Dump.from_entries(left, label="new"), Dump.from_entries(right[:-1], label="old")


@pytest.fixture(scope="module")
def cmp(dumps):
    return tnb.compare(*dumps)


@pytest.fixture(scope="module")
def table(cmp):
    return PackedTable.of_result(cmp.result)


def names(cmp, rows):
    return [str(name) for name in cmp.result["left"].values[rows]]


def test_without_filters_all_rows_are_shown_in_order(cmp, table):
    assert table.numbers[table.rows(View())].tolist() == list(range(len(cmp)))


def test_every_word_of_the_text_must_stand_in_a_name_in_any_case(cmp, table):
    assert names(cmp, table.rows(View(text="LAYERS attn"))) == ["layers.2.attn", "layers.10.attn"]
    assert names(cmp, table.rows(View(text="mlp"))) == ["Layers.1.MLP"]
    assert names(cmp, table.rows(View(text="mlp attn"))) == []


def test_names_sort_naturally_and_verdicts_as_in_the_truth_table(cmp, table):
    shown = names(cmp, table.rows(View(text="layers", sort="left")))
    assert shown == ["Layers.1.MLP", "layers.2.attn", "layers.10.attn"]
    verdicts = cmp.result["verdict"].values[table.rows(View(sort="verdict"))]
    assert list(dict.fromkeys(verdicts)) == [
        "identical",
        "differs",
        "nan",
        "shape",
        "missing",
        "undecidable",
    ]


@pytest.mark.parametrize("descending", [False, True])
def test_rows_without_a_figure_come_last_in_both_directions(cmp, table, descending):
    rows = table.rows(View(sort="rel_l2_error", descending=descending))
    values = cmp.result["rel_l2_error"].values[rows]
    known = values[~np.isnan(values)]
    assert np.isnan(values[len(known) :]).all()
    assert known.tolist() == sorted(known.tolist(), reverse=descending)


def test_columns_and_pair_numbers_filter_together(cmp, table):
    view = View().changed(step=1, role=["output", "input"], between=(1, 5))
    rows = table.rows(view)
    assert set(cmp.result["step"].values[rows]) == {1}
    assert set(cmp.result["role"].values[rows]) <= {"output", "input"}
    assert all(1 <= number <= 5 for number in table.numbers[rows])


def test_a_filter_is_taken_back_by_none_and_an_unknown_one_is_refused():
    view = View().changed(verdict="differs")
    assert view.where == {"verdict": ["differs"]}
    assert view.changed(verdict=None) == View(where={})
    with pytest.raises(tnb.OptionError, match="cannot filter by 'verdicts'"):
        view.changed(verdicts="differs")


def test_none_takes_every_filter_back():
    view = View(text="a", between=(1, 2), sort="left", descending=True).changed(
        text=None, between=None, sort=None, descending=None, verdict=None
    )
    assert view == View(where={})


@pytest.mark.parametrize(
    ("between", "expected"),
    [((0.5, 2.5), (1, 2)), ((None, 2), (0, 2)), ((1, None), (1, 2**31 - 1))],
)
def test_bounds_are_the_whole_numbers_between_them(between, expected):
    assert View().changed(between=between).between == expected
    assert View.of({"between": list(between)}).between == expected


@pytest.mark.parametrize("between", [3, (1,), ("a", "b")])
def test_bounds_that_are_no_two_numbers_are_refused(between):
    with pytest.raises(tnb.OptionError, match="between takes two numbers"):
        View().changed(between=between)


def test_an_unknown_order_or_verdict_is_refused(table):
    table.check(View(sort="growth" if "growth" in table.columns else "left"))
    table.check(View().changed(verdict="nan"))
    with pytest.raises(tnb.OptionError, match="cannot sort by 'size of it'"):
        table.check(View(sort="size of it"))
    with pytest.raises(tnb.OptionError, match="no verdict 'difers'; known: "):
        table.check(View().changed(verdict="difers"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"step": "abc"}, "there is no step 'abc'; known: 0, 1"),
        ({"step": [0, 2]}, "there is no step 2; known: 0, 1"),
        ({"role": "bogus"}, "there is no role 'bogus'; known: input, output, parameter"),
        ({"step": [[1]]}, r"there is no step \[1\]; known"),
        ({"text": 5}, "text takes a text, got 5"),
        ({"sort": 5}, "sort takes a text, got 5"),
        ({"descending": "no"}, "descending takes True or False, got 'no'"),
        ({"dtype": "float32"}, "there is no dtype 'float32'; known: none"),
    ],
)
def test_what_no_row_can_have_is_refused_with_what_there_is(table, changes, message):
    with pytest.raises(tnb.OptionError, match=message):
        table.check(View().changed(**changes))


def test_a_view_survives_the_way_to_the_page_and_back():
    view = View().changed(text="a", step=[0, np.int64(2)], between=(1, 9), sort="left")
    assert View.of(json.loads(json.dumps(view.message()))) == view


def test_columns_are_packed_as_the_page_unpacks_them(cmp, table):
    described, buffers = table.message("en")
    assert len(described) == len(buffers)
    for column, buffer in zip(described, buffers, strict=True):
        if column["texts"] is None:
            values = np.frombuffer(buffer, "<f8")
        else:
            values = np.array(column["texts"], object)[np.frombuffer(buffer, "<i4")]
        if column["name"] == "left":
            assert values.tolist() == cmp.result["left"].values.tolist()
        if column["name"] == "max_abs_error":
            np.testing.assert_array_equal(values, cmp.result["max_abs_error"].values)


def test_the_page_shows_the_columns_that_say_something(dumps, table):
    # Of one rank nothing is told, nor of one direction.
    names = ["number", "verdict", "origin", "left_display", "step", "max_abs_error", "rel_l2_error"]
    names += ["one_minus_cosine", "allclose_ratio", "growth", "left_shape", "role"]
    assert table.shown == names
    same = {"x": np.zeros(2)}
    equal = PackedTable.of_result(tnb.compare(same, same).result)
    assert equal.shown == [one for one in names if one not in ("origin", "step", "growth", "role")]
    unread = PackedTable.of_index(dumps[1].select(name=["layers.2.attn", "layers.10.attn"]).index)
    assert unread.shown == ["number", "verdict", "left_display", "step", "shape", "dtype", "role"]


def test_a_dump_has_its_health_in_place_of_a_verdict(dumps):
    dump = dumps[0].summarise()
    table = PackedTable.of_index(dump.index)
    column = table.columns["verdict"]
    assert column.texts[column.values[2]] == "nan"
    assert table.columns["largest"].values[1] == np.abs(dump.array("layers.10.attn")).max()
    assert table.rows(View().changed(verdict="nan")).tolist() == [2]


def origins_of(*rows):
    """The column of a comparison whose pairs have these verdicts and origins."""
    side = {f"x{i}": np.zeros(2) for i in range(len(rows))}
    result = tnb.compare(side, side).result.copy()
    for name, values in zip(("verdict", "origin"), zip(*rows, strict=True), strict=True):
        result[name] = ("pair", np.array(values, object))
    column = PackedTable.of_result(result).columns["origin"]
    return [column.texts[code] for code in column.values]


def test_the_origin_is_what_the_headline_counts_a_pair_as():
    expected = {
        ("differs", "created"): "created",
        ("nan", "carried"): "carried",
        ("shape", ""): "without_effect",
        ("pass", "created"): "within",
        ("undecidable", "created"): "within",
        ("pass", "carried"): "",
        ("identical", ""): "",
        ("missing", ""): "",
    }
    assert origins_of(*expected) == list(expected.values())


def test_nothing_is_without_effect_where_no_origin_is_known():
    assert origins_of(("differs", ""), ("pass", "")) == ["", ""]


def test_filters_by_origin_find_as_many_as_the_headline_says():
    cases = DATA / "msprobe" / "v26_2_0" / "metric_cases"
    cmp = tnb.compare(cases / "target_stat", cases / "golden_stat")
    table = PackedTable.of_result(cmp.result)
    said = {
        "created": "created the error,",
        "without_effect": "without effect",
    }
    for origin, words in said.items():
        count = len(table.rows(View().changed(origin=origin)))
        assert count
        assert f"{count} {words}" in cmp.verdict
    # Sorted by what one looks for first.
    assert table.columns["origin"].texts == (*said, "")


def test_the_share_within_tolerance_sorts(cmp, table):
    rows = table.rows(View(sort="allclose_ratio"))
    values = cmp.result["allclose_ratio"].values[rows]
    known = values[~np.isnan(values)]
    assert known.tolist() == sorted(known.tolist())
    assert known.min() < 1


def test_an_empty_table_shows_nothing():
    assert (
        PackedTable.of_index(Dump.from_entries([]).index).rows(View(text="a", sort="left")).tolist()
        == []
    )


@pytest.mark.parametrize("shape", [(), (1,), (300,), (70, 300), (3, 40, 50), (2, 3, 4, 5)])
def test_the_whole_picture_holds_the_largest_error_of_every_tile(shape):
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(2, *shape))
    plane = plane_of(shape)
    found = part(ArrayInMemory(left), ArrayInMemory(right), plane)
    error = np.abs(left - right).reshape(plane.rows, plane.columns)
    rows, columns = found.tile_max.shape
    assert (rows, columns) == (min(plane.rows, TILE_ROWS), min(plane.columns, TILE_COLUMNS))
    for r in range(rows):
        top, bottom = (math.ceil(k * plane.rows / rows) for k in (r, r + 1))
        for c in range(columns):
            start, stop = (math.ceil(k * plane.columns / columns) for k in (c, c + 1))
            assert found.tile_max[r, c] == error[top:bottom, start:stop].max()


@pytest.mark.parametrize(
    ("rows", "columns"), [((5, 9), (100, 140)), ((0, 64), (0, 128)), ((69, 70), (0, 1))]
)
def test_a_window_gives_single_values(rows, columns):
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(2, 70, 300)).astype(np.float32)
    found = part(ArrayInMemory(left), ArrayInMemory(right), plane_of((70, 300)), rows, columns)
    window = (slice(*rows), slice(*columns))
    np.testing.assert_array_equal(found.left, left[window])
    np.testing.assert_array_equal(found.right, right[window])
    wide = left[window].astype(float) - right[window].astype(float)
    np.testing.assert_array_equal(found.tile_max, np.abs(wide))


def test_only_the_window_is_read_of_a_wide_tensor():
    left, right = Counting(np.zeros((50, 100_000), np.float32)), Counting(np.ones((50, 100_000)))
    part(left, right, plane_of((50, 100_000)), (10, 14), (500, 540))
    assert left.count == right.count == 2 * 4 * 40  # once for the tiles, once for the values
    assert all(start >= 10 * 100_000 + 500 for start, _ in left.reads)


def test_a_slice_of_leading_axes_is_read_alone():
    values = np.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5)
    left, right = Counting(values), Counting(values + 1)
    plane = plane_of(values.shape, (1, 2))
    found = part(left, right, plane)
    np.testing.assert_array_equal(found.left, values[1, 2])
    assert {read for read in left.reads} == {(100, 120)}
    assert plane.index(3, 4) == (1, 2, 3, 4)


def test_a_window_counts_what_is_not_finite_on_both_sides():
    left = np.array([[1.0, np.nan], [np.inf, 2.0]])
    right = np.array([[1.0, np.nan], [2.0, 2.0]])
    found = part(ArrayInMemory(left), ArrayInMemory(right), plane_of((2, 2)))
    assert found.tile_mismatch.tolist() == [[0, 0], [1, 0]]


@pytest.mark.parametrize(
    ("shape", "lead"), [((4, 5), (0,)), ((2, 4, 5), (2,)), ((2, 4, 5), (0, 0))]
)
def test_a_slice_that_does_not_fit_is_refused(shape, lead):
    with pytest.raises(ValueError, match="a slice of shape"):
        plane_of(shape, lead)


def test_an_empty_window_and_an_empty_tensor_are_refused():
    source = ArrayInMemory(np.zeros((4, 5)))
    with pytest.raises(ValueError, match="no rows in"):
        part(source, source, plane_of((4, 5)), (4, 9), (0, 5))
    with pytest.raises(ValueError, match="no elements"):
        plane_of((0, 5))


def figures_of(said):
    """Figures of an opened row by the name that the result has for them."""
    return {name: text for _, text, name in said["figures"]}


def strict_json(said):
    """JSON as the widget's channel asks for it: no NaN, no numpy."""
    return json.loads(json.dumps(said, allow_nan=False))


def test_an_opened_pair_says_where_the_planted_error_sits(cmp):
    diff = cmp["layers.10.attn"]
    said, buffers = opened_pair(diff, located(diff), "en")
    said = strict_json(said)
    assert said["worst"][0][0] == "[4, 7]"
    assert said["places"][0] == 4 * 30 + 7
    tiles = np.frombuffer(buffers[0], "<f8").reshape(said["map"]["tiles"])
    assert np.unravel_index(tiles.argmax(), tiles.shape) == (4, 7)
    assert [one["axis"] for one in said["profiles"] if one["concentrated"]] == [0, 1]
    assert len(buffers) == 4  # tiles, mismatches, and the values of a tensor this small


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("shape", "shapes differ"), ("recorded", "Only statistics"), ("alone", "no partner")],
)
def test_what_cannot_be_drawn_says_so_in_a_sentence(cmp, name, sentence):
    diff = cmp[name]
    said, buffers = opened_pair(diff, located(diff), "en")
    assert sentence in strict_json(said)["sentence"]
    assert "map" not in said
    assert buffers == []


@pytest.mark.parametrize(("name", "sides"), [("shape", ["left", "right"]), ("alone", ["left"])])
def test_each_side_of_what_cannot_be_compared_is_drawn_alone(cmp, name, sides):
    diff = cmp[name]
    alone = located_alone(diff)
    assert list(alone) == sides
    for asked_for in (None, *sides):
        said, buffers = opened_pair(diff, located(diff), "en", alone, asked_for)
        side = asked_for or sides[0]
        array = diff.sources[0 if side == "left" else 1].array
        said = strict_json(said)
        assert (said["side"], [one for one, _ in said["sides"]]) == (side, sides)
        place = np.unravel_index(np.abs(array).argmax(), array.shape)
        assert said["worst"][0][0] == f"[{place[0]}, {place[1]}]"
        assert said["shape"] == list(array.shape)
        tiles = np.frombuffer(buffers[0], "<f8").reshape(said["map"]["tiles"])
        assert tiles.max() == np.abs(array).max()
        # Statistics of every side that is there, also of the one not drawn.
        assert [line[1] != "–" for line in said["statistics"]] == [
            one in sides for one in ("left", "right")
        ]


def test_sides_that_can_be_compared_are_not_read_alone(cmp):
    assert located_alone(cmp["layers.10.attn"]) == {}
    assert located_alone(cmp["recorded"]) == {}


def test_a_side_that_is_gone_is_a_sentence_and_the_other_is_drawn(tmp_path):
    arrays = {"x": np.ones((3, 4))}, {"x": np.ones((3, 5))}
    paths = [tnb.save_dump(side, tmp_path / name) for side, name in zip(arrays, "lr", strict=True)]
    diff = tnb.compare(*paths)["x"]
    for file in (tmp_path / "l").rglob("*.npy"):
        file.unlink()
    said, _ = opened_pair(diff, located(diff), "en", located_alone(diff))
    assert said["side"] == "right"
    assert "The shapes differ" in said["sentence"]
    assert "can no longer be read" in said["sentence"]


def test_values_without_elements_are_not_drawn_alone():
    diff = tnb.compare({"x": np.ones((0, 3))}, {"x": np.ones((3, 0))})["x"]
    said, buffers = opened_pair(diff, located(diff), "en", located_alone(diff))
    assert (buffers, "side" in said) == ([], False)


def test_a_value_and_nothing_at_all_are_not_called_statistics():
    flag = {"value": "true", "dtype": "bool", "shape": ()}
    entries = [entry("flag", None, order=0, **flag), entry("bare", None, order=1, shape=(2, 2))]
    dump = Dump.from_entries(entries)
    for row, words in enumerate(("a single value and no tensor", "Neither values nor statistics")):
        said, _ = opened_entry(dump, row, located_entry(dump, row), "en")
        assert words in said["sentence"]
    cmp = tnb.compare(dump, dump)
    for row, words in enumerate(("a single value and no tensor", "Neither values nor statistics")):
        said, _ = opened_pair(cmp[row], located(cmp[row]), "en")
        assert words in said["sentence"]


def test_an_entry_that_was_not_read_has_its_figures_when_it_is_opened(tmp_path):
    array = np.array([[1.0, -3.0], [0.0, np.nan]])
    np.save(tmp_path / "w.npy", array)
    dump = tnb.open_dump(tmp_path)
    said, _ = opened_entry(dump, 0, located_entry(dump, 0), "en")
    read = dump.summarise()
    known, _ = opened_entry(read, 0, located_entry(read, 0), "en")
    assert said["figures"] == known["figures"]
    assert figures_of(said) | {"min": "-3", "nan_count": "1"} == figures_of(said)


@pytest.mark.parametrize("size", [4, 4096])
def test_no_figure_is_rounded_up_to_perfect(size):
    right = np.random.default_rng(0).normal(size=(size, size)).astype(np.float32)
    left = right.copy()
    left[1, 2] += 1
    diff = tnb.compare({"x": left}, {"x": right})["x"]
    figures = figures_of(opened_pair(diff, located(diff), "en")[0])
    assert figures["allclose_ratio"] == ("93.75%" if size == 4 else "99.99%")
    if size == 4:
        return
    for name in ("cosine", "correlation"):
        text = figures[name]
        assert text.startswith("1 − ")
        assert float(text[4:]) == pytest.approx(1 - float(diff.row[name]), rel=0.05)


def test_figures_of_equal_sides_are_perfect():
    diff = tnb.compare({"x": np.arange(3.0)}, {"x": np.arange(3.0)})["x"]
    figures = figures_of(opened_pair(diff, located(diff), "en")[0])
    assert (figures["allclose_ratio"], figures["cosine"]) == ("100%", "1")


def test_figures_have_words_in_both_languages_and_units():
    diff = tnb.compare({"x": np.array([1.0, 2.0])}, {"x": np.array([1.0, 4.0])})["x"]
    english, chinese = (
        {
            name: (word, text)
            for word, text, name in opened_pair(diff, "empty", language)[0]["figures"]
        }
        for language in ("en", "zh")
    )
    assert english["mape"] == ("MAPE", "25%")
    assert english["zero_reference_count"][0] == "right is 0"
    assert chinese["zero_reference_count"][0] == "右侧为 0"
    assert not [name for name, (word, _) in english.items() if word == name and "_" in word]
    facts = [opened_pair(diff, "empty", language)[0]["facts"] for language in ("en", "zh")]
    assert facts == ["left float64 2 · right float64 2", "左 float64 2 · 右 float64 2"]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (np.nan, 1.0, ["nan", "1", "nan", "nan"]),
        (1.0, np.nan, ["1", "nan", "nan", "nan"]),
        (np.inf, 1.0, ["inf", "1", "inf", "inf"]),
        (1.0, -np.inf, ["1", "-inf", "inf", "inf"]),
    ],
)
def test_the_distance_from_what_is_not_finite(left, right, expected):
    diff = tnb.compare({"x": np.array([left, 2.0])}, {"x": np.array([right, 2.0])})["x"]
    said, _ = opened_pair(diff, located(diff), "en")
    assert said["worst"] == [["[0]", *expected]]


def profile_texts(left, right):
    diff = tnb.compare({"x": left}, {"x": right})["x"]
    return [one["text"] for one in opened_pair(diff, located(diff), "en")[0]["profiles"]]


def test_a_profile_says_only_where_its_squares_lie():
    ones = np.ones(4)
    assert profile_texts(ones, ones) == ["no finite error"]
    assert profile_texts(np.array([np.nan, 1.0, 1.0, 1.0]), ones) == ["no finite error"]
    # Squares of 1, 4, 9 and 16: nowhere near even, and 99 % of them needs all four.
    rising = profile_texts(ones + np.arange(1.0, 5.0), ones)
    assert rising == ["99 % of the squared error in [0:4] of 4"]
    assert profile_texts(np.array([1e-200, 1.0]), np.array([0.0, 1.0])) == [
        "squares too small for a picture"
    ]


def test_a_profile_of_one_side_speaks_of_its_values():
    dump = Dump.from_entries([entry("x", np.zeros(3), order=0), entry("y", np.eye(3), order=1)])
    texts = []
    for row in range(2):
        said, _ = opened_entry(dump, row, located_entry(dump, row), "en")
        texts.append(said["profiles"][0]["text"])
    assert texts == [
        "no finite value other than 0",
        "99 % of the squares in [0:3] of 3",
    ]


def error_histogram(left, right):
    diff = tnb.compare({"x": np.asarray(left)}, {"x": np.asarray(right)})["x"]
    return opened_pair(diff, located(diff), "en")[0]["histograms"][1]


def test_every_error_is_in_a_bar_whose_range_holds_it():
    errors = np.array([0.0, 0.0, 0.75, 1.0, 1.5, 16.0, 240.0])
    found = error_histogram(errors, np.zeros(7))
    assert found["title"] == (
        "|Δ|, 5.0e-1 to 2.6e2, log scale · height √count · 2 equal elements in none"
    )
    # Powers of two from 2**-1 to 2**8, one a bar.
    expected = [1, 2, 0, 0, 0, 1, 0, 0, 1]
    assert found["series"][0]["counts"] == [str(count) for count in expected]
    assert found["ranges"][:2] == ["5.0e-1 to 1.0e0", "1.0e0 to 2.0e0"]
    assert len(found["ranges"]) == len(expected)


def test_errors_far_apart_stay_in_few_bars_with_open_ends():
    found = error_histogram(np.array([1e-300, 2e300, 1.0]), np.zeros(3))
    counts = [int(count) for count in found["series"][0]["counts"]]
    assert sum(counts) == 3
    assert len(counts) == len(found["ranges"]) <= 20
    assert found["ranges"][0].startswith("0 to ")
    assert found["ranges"][-1].endswith(" to 2.0e300")


def test_equal_sides_have_no_bars_of_errors():
    found = error_histogram([1.0, 2.0], [1.0, 2.0])
    assert found == {
        "title": "|Δ|: none is finite and other than 0",
        "ranges": [],
        "series": [],
    }


def test_bars_of_values_say_what_lies_in_them():
    diff = tnb.compare({"x": np.array([0.0, 10.0])}, {"x": np.array([0.0, 10.0])})["x"]
    found = opened_pair(diff, located(diff), "en")[0]["histograms"][0]
    assert found["ranges"][0] == "0 to 1.0e0"
    assert found["ranges"][9] == "9.0e0 to 1.0e1"
    assert "height √count" in found["title"]


def test_files_that_are_gone_are_a_sentence(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {f"x{i}": rng.normal(size=(200, 200)).astype(np.float32) for i in range(12)}
    moved = {name: array + np.float32(i) for i, (name, array) in enumerate(arrays.items())}
    paths = tnb.save_dump(moved, tmp_path / "l"), tnb.save_dump(arrays, tmp_path / "r")
    cmp = tnb.compare(*paths)
    unstored = next(row for row in range(len(cmp)) if row not in cmp.evidence)
    for file in tmp_path.rglob("*.npy"):
        file.unlink()
    diff = cmp[int(cmp.result["order"].values[unstored])]
    said, _ = opened_pair(diff, located(diff), "en")
    assert said["sentence"].startswith("The values can no longer be read: ")
    # The evidence of the worst is stored: no file is needed for it.
    kept = next(iter(cmp.evidence))
    diff = cmp[int(cmp.result["order"].values[kept])]
    said, buffers = opened_pair(diff, located(diff), "en")
    assert "map" in said
    assert len(buffers) == 2


def values_of(said, buffers):
    """The single values of both sides as the page takes them from the buffers."""
    return [np.frombuffer(b, kind) for b, kind in zip(buffers[2:], said["kinds"], strict=True)]


@pytest.mark.parametrize(
    ("left", "right", "kind", "line"),
    [
        # By hand: float64 holds no odd number beyond 2**53.
        (
            np.array([2**53 + 1, -5]),
            np.array([2**53 + 3, -5]),
            "<i8",
            ["[0]", "9007199254740993", "9007199254740995", "2"],
        ),
        (
            np.array([2**64 - 1, 1], np.uint64),
            np.array([2**64 - 2, 1], np.uint64),
            "<u8",
            ["[0]", "18446744073709551615", "18446744073709551614", "1"],
        ),
        # Both have the modulus 1; the distance of the two is sqrt(2).
        (np.array([1 + 0j, 2j]), np.array([0 - 1j, 2j]), "<c16", ["[0]", "1+0j", "0-1j", "1.4e0"]),
        (np.array([True, False]), np.array([True, True]), "<i8", ["[1]", "0", "1", "1"]),
        (np.array([0.5], "f4"), np.array([0.25], "f4"), "<f8", ["[0]", "0.5", "0.25", "2.5e-1"]),
    ],
)
def test_integers_and_complex_numbers_are_shown_as_they_are(left, right, kind, line):
    diff = tnb.compare({"x": left}, {"x": right})["x"]
    said, buffers = opened_pair(diff, located(diff), "en")
    assert said["worst"][0][:4] == line
    assert said["map"]["kinds"] == [kind, kind]
    for got, given in zip(values_of(said["map"], buffers), (left, right), strict=True):
        assert got.tolist() == given.tolist()


@pytest.mark.parametrize(
    ("dtype", "most"), [("f8", 17), ("f4", 9), ("f2", 5), (ml_dtypes.bfloat16, 4), ("c8", 9)]
)
def test_digits_tell_a_value_from_all_others_of_its_dtype(dtype, most):
    rng = np.random.default_rng(0)
    dtype = np.dtype(dtype)
    part = np.dtype("f4") if dtype.kind == "c" else dtype
    values = (rng.normal(size=500) * 10.0 ** rng.integers(-4, 5, 500)).astype(part)
    for value in values:
        text = shortest(float(value), precision(dtype))
        assert np.float64(text).astype(part) == value
        digits = text.lstrip("-").split("e")[0].replace(".", "").lstrip("0")
        assert len(digits.rstrip("0")) <= most
        if part.kind == "f" and part.itemsize > 2:
            # numpy's own shortest digits; it writes exponents with a zero or a plus.
            assert float(str(value)) == float(text)
            assert len(digits) <= len(str(value).lstrip("-").split("e")[0].replace(".", ""))


@pytest.mark.parametrize(
    ("value", "bits", "text"),
    [
        (0.0, 53, "0"),
        (-0.0, 24, "-0"),
        (math.nan, 53, "nan"),
        (-math.inf, 11, "-inf"),
        (float(np.float32(0.1)), 24, "0.1"),
        (float(np.float32(0.1)), 53, "0.10000000149011612"),
        (2.0**-149, 24, "1e-45"),  # the smallest float32
        (5e-324, 53, "5e-324"),
        (float(np.finfo("f4").max), 24, "3.4028235e38"),
        (65504.0, 11, "65500"),  # the next float16 is 65472
        (1e16, 53, "1e16"),
        (1e15, 53, "1000000000000000"),
        (0.00001, 53, "1e-5"),
        (7.0, 0, "7"),
        (2.0**60, 0, "1.15292e+18"),  # of an integer, and float64 holds few so large
    ],
)
def test_numbers_are_written_with_the_fewest_digits(value, bits, text):
    assert shortest(value, bits) == text


# Looking for a scale that explains the difference overflows; what is found is nan.
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_a_pair_of_nan_alone_has_no_range_and_a_distance_too_large_is_infinite():
    left = {"nan": np.full((3, 4), np.nan), "far": np.array([[1e308, 1.0]])}
    right = {"nan": np.full((3, 4), np.nan), "far": np.array([[-1e308, 1.0]])}
    cmp = tnb.compare(left, right)
    said, _ = opened_pair(cmp["nan"], located(cmp["nan"]), "en")
    assert said["histograms"][0]["title"] == "Values: none is finite"
    said, _ = opened_pair(cmp["far"], located(cmp["far"]), "en")
    assert said["worst"] == [["[0, 0]", "1e308", "-1e308", "inf", "2.0e0"]]
    assert figures_of(said)["max_abs_error"] == "inf"


def test_values_that_are_gone_are_shown_as_the_evidence_keeps_them(tmp_path):
    for side, value in (("l", 2**53 + 1), ("r", 2**53 + 3)):
        (tmp_path / side).mkdir()
        np.save(tmp_path / side / "x.npy", np.array([value, 1]))
    diff = tnb.compare(tmp_path / "l", tmp_path / "r")["x"]
    found = located(diff)
    (tmp_path / "l" / "x.npy").unlink()
    said, _ = opened_pair(diff, found, "en")
    assert said["worst"][0][3] == "2.0e0"


def test_an_opened_entry_shows_its_largest_values_before_and_after_a_summary(dumps):
    for dump in (dumps[0], dumps[0].summarise()):
        said, buffers = opened_entry(dump, 1, located_entry(dump, 1), "en")
        array = dump.array("layers.10.attn")
        place = np.unravel_index(np.abs(array).argmax(), array.shape)
        assert strict_json(said)["worst"][0][0] == f"[{place[0]}, {place[1]}]"
        assert len(buffers) == 3
    said, _ = opened_entry(dump, 4, located_entry(dump, 4), "en")
    assert "Only statistics" in said["sentence"]


def test_a_part_says_its_place_and_shape():
    values = np.arange(12.0).reshape(3, 4)
    said, buffers = said_part(part(ArrayInMemory(values), None, plane_of((3, 4)), (1, 3), (0, 2)))
    assert (said["rows"], said["columns"], said["tiles"]) == ([1, 3], [0, 2], [2, 2])
    np.testing.assert_array_equal(np.frombuffer(buffers[0], "<f8"), [4, 5, 8, 9])
    assert len(buffers) == 3


def test_the_page_gets_its_words_in_its_language():
    assert words_of("explorer", "zh")["close"] == "关闭"
    assert words_of("explorer", "en").keys() == words_of("explorer", "zh").keys()


@pytest.fixture
def explorer(cmp, monkeypatch):
    pytest.importorskip("anywidget")
    from troubleshooter_nb.widgets.explorer import Explorer

    sent = []
    monkeypatch.setattr(
        Explorer, "send", lambda self, content, buffers=None: sent.append((content, buffers))
    )
    made = Explorer(cmp)
    made.sent = sent
    return made


def asked(explorer, **question):
    explorer._heard(explorer, {"id": 1, "from": "page", **question}, None)
    content, buffers = explorer.sent[-1]
    assert (content["kind"], content["id"], content["from"]) == ("answer", 1, "page")
    return strict_json(content), buffers


@pytest.mark.notebook
def test_what_the_page_tells_is_known_in_python(explorer):
    view = {"text": "layers", "where": {}, "between": None, "sort": "left", "descending": True}
    asked(explorer, kind="tell", view=view, selected=[2, 1])
    assert explorer.selected == (1, 2)
    assert explorer.shown == explorer._table.numbers[explorer._table.rows(View.of(view))].tolist()
    assert len(explorer.value) == 2
    assert isinstance(explorer.value, tnb.Comparison)
    # Other pages hear of it.
    states = [content for content, _ in explorer.sent if content["kind"] == "state"]
    assert [sorted(state) for state in states] == [["kind", "view"], ["kind", "selected"]]


@pytest.mark.notebook
def test_a_page_tells_what_changed_there_and_the_rest_stays(explorer):
    explorer.show(verdict="differs", text="layers")
    explorer.selected = [1, 2]
    answer, _ = asked(explorer, kind="tell", view={"text": "attn", "where": {"step": [0]}})
    assert explorer.view.message()["where"] == {"verdict": ["differs"], "step": [0]}
    assert (explorer.view.text, explorer.selected) == ("attn", (1, 2))
    assert answer.keys() == {"kind", "from", "id"}
    asked(explorer, kind="tell", view={"where": {"verdict": []}})
    assert explorer.view.message()["where"] == {"step": [0]}
    asked(explorer, kind="tell", selected=[])
    assert (explorer.view.text, explorer.selected) == ("attn", ())


@pytest.mark.notebook
def test_the_page_hears_of_python_what_changed_and_no_more(explorer):
    explorer.show(verdict="differs", text="layers")
    explorer.selected = [1, 2]
    explorer.show(verdict=None, sort="rel_l2_error")
    states = [{k: v for k, v in content.items() if k != "kind"} for content, _ in explorer.sent]
    assert states == [
        {"view": {"text": "layers", "where": {"verdict": ["differs"]}}},
        {"selected": [1, 2]},
        {"view": {"where": {"verdict": []}, "sort": "rel_l2_error"}},
    ]


@pytest.mark.notebook
def test_a_page_is_heard_before_or_after_what_a_cell_shows(explorer, monkeypatch):
    turns = []

    def meanwhile(_view):
        # Another thread, as that of a kernel which hears the page while a cell runs.
        other = threading.Thread(
            target=lambda: turns.append(explorer._turn.acquire(blocking=False))
        )
        other.start()
        other.join()

    monkeypatch.setattr(type(explorer._table), "check", lambda _table, view: meanwhile(view))
    explorer.show(text="layers")
    monkeypatch.setattr(
        type(explorer), "send", lambda _self, content, buffers=None: meanwhile(content)
    )
    explorer._heard(explorer, {"kind": "tell", "view": {"text": "attn"}}, None)
    assert turns == [False, False, False]  # in show(), while it is told, and answered


@pytest.mark.notebook
def test_what_an_observer_makes_of_what_was_told_is_the_answer(explorer):
    def only_one(_change):
        explorer.selected = explorer.selected[:1]
        explorer.show(text="conv")

    explorer.observe(only_one, "selected")
    answer, _ = asked(explorer, kind="tell", view={"text": "layers"}, selected=[3, 1])
    assert (answer["selected"], answer["view"]) == ([1], {"text": "conv"})
    explorer.unobserve_all("selected")
    with pytest.raises(tnb.EntryNotFoundError):
        asked(explorer, kind="tell", selected=[99])
    content, _ = explorer.sent[-1]
    assert (content["kind"], content["selected"]) == ("answer", [1])


@pytest.mark.notebook
def test_what_python_sets_is_told_to_the_page(explorer):
    explorer.show(verdict="differs", sort="max_abs_error", descending=True)
    explorer.selected = [3, 0, 3]
    (view, _), (chosen, _) = explorer.sent
    assert view["kind"] == chosen["kind"] == "state"
    assert chosen["selected"] == [0, 3]
    assert view["view"]["where"] == {"verdict": ["differs"]}


@pytest.mark.notebook
def test_a_number_that_is_not_there_cannot_be_selected(explorer):
    with pytest.raises(tnb.EntryNotFoundError, match="no row numbered 99"):
        explorer.selected = [99]
    assert explorer.selected == ()


@pytest.mark.notebook
@pytest.mark.parametrize(
    "given", [{3, 1}, np.array([3, 1, 3]), range(1, 4, 2), (np.int64(1), 3), iter([3, 1])]
)
def test_any_collection_of_numbers_selects(explorer, given):
    explorer.selected = given
    assert explorer.selected == (1, 3)
    assert [type(number) for number in explorer.selected] == [int, int]


@pytest.mark.notebook
@pytest.mark.parametrize("given", [[1.5], [True], np.array([False, True]), "12", ["1"], 3, None])
def test_what_is_no_collection_of_numbers_selects_nothing(explorer, given):
    explorer.selected = [2]
    with pytest.raises(tnb.OptionError, match="selected takes row numbers"):
        explorer.selected = given
    assert explorer.selected == (2,)


@pytest.mark.notebook
def test_its_repr_says_what_is_shown_and_selected(explorer, cmp):
    explorer.show(text="layers")
    explorer.selected = [1]
    assert repr(explorer) == f"Explorer({cmp.verdict!r}, 3 of 6 rows shown, 1 selected)"


@pytest.mark.notebook
def test_an_explorer_keeps_the_language_it_was_made_in(explorer, cmp, monkeypatch):
    shown = []
    monkeypatch.setattr(
        "troubleshooter_nb.widgets.explorer.display", lambda data, raw: shown.append(data)
    )
    english = explorer.static_html()
    with tnb.option_context(language="zh"):
        answer, _ = asked(explorer, kind="ready")
        assert explorer.static_html() == english
        explorer._ipython_display_()
    assert answer["title"] == cmp.verdict
    assert shown[1] == {"text/plain": repr(cmp), "text/html": english}


@pytest.mark.notebook
def test_every_kind_of_row_opens(explorer, cmp):
    for row in range(len(cmp)):
        said, _ = asked(explorer, kind="open", row=row)
        assert "map" in said or "sentence" in said
        assert ("map" in said and "sentence" in said) == ("side" in said)


@pytest.mark.notebook
def test_a_question_that_fails_is_answered_all_the_same(explorer):
    with pytest.raises(ValueError, match="a slice"):
        explorer._heard(
            explorer, {"id": 7, "from": "page", "kind": "part", "row": 0, "lead": [9]}, None
        )
    content, _ = explorer.sent[-1]
    assert content["id"] == 7
    assert "could not answer" in content["sentence"]


@pytest.mark.notebook
def test_halves_of_surrogate_pairs_are_sent_and_sought_escaped(monkeypatch):
    pytest.importorskip("anywidget")
    from troubleshooter_nb.widgets.explorer import Explorer

    sent = []
    monkeypatch.setattr(
        Explorer,
        "send",
        lambda self, said, buffers=None: sent.append(json.dumps(said, ensure_ascii=False).encode()),
    )
    side = {"a\ud800b": np.ones(3), "c": np.ones(2)}
    made = Explorer(tnb.compare(side, side))
    made._heard(made, {"id": 1, "from": "page", "kind": "ready"}, None)
    made._heard(made, {"id": 2, "from": "page", "kind": "open", "row": 0}, None)
    columns = {one["name"]: one["texts"] for one in json.loads(sent[0])["columns"]}
    assert columns["left"] == ["a\\ud800b", "c"]
    assert "a\\ud800b" in made.static_html()
    assert json.loads(sent[1])["name"] == "a\\ud800b"
    for text in ("a\ud800", "a\\ud800b"):
        made.show(text=text)
        assert made.shown == [0]


@pytest.mark.notebook
def test_the_saved_state_holds_no_rows(explorer, cmp):
    state = explorer.get_state()
    assert len(json.dumps(state, default=str)) < 200_000
    assert "layers.10.attn" not in json.dumps(state, default=str)


@pytest.mark.notebook
def test_the_static_record_is_the_repr_folded_under_the_verdict(explorer, cmp):
    page = explorer.static_html()
    assert cmp._repr_html_() in page
    assert page.index("<summary") < page.index("<style>")
    assert "<script" not in page


@pytest.mark.notebook
def test_the_record_says_what_to_do_where_no_table_is_shown(explorer):
    assert "lacks anywidget: pip install" in explorer.static_html()


@pytest.mark.notebook
def test_a_closed_explorer_lets_go_of_what_it_showed():
    pytest.importorskip("anywidget")
    side = {"x": np.ones(3)}
    shown = tnb.compare(side, side)
    kept = weakref.ref(shown)
    explorer = tnb.explore(shown)
    del shown
    explorer.close()
    del explorer
    gc.collect()
    assert kept() is None


@pytest.mark.notebook
def test_a_refused_filter_leaves_the_view_as_it_is(explorer):
    before = explorer.view
    with pytest.raises(tnb.OptionError, match="there is no role 'bogus'"):
        explorer.show(role="bogus")
    assert explorer.view is before


@pytest.mark.notebook
def test_displaying_gives_the_widget_and_the_record(explorer, cmp, monkeypatch):
    shown = []
    monkeypatch.setattr(
        "troubleshooter_nb.widgets.explorer.display", lambda data, raw: shown.append(data)
    )
    explorer._ipython_display_()
    assert "application/vnd.jupyter.widget-view+json" in shown[0]
    assert "running kernel" in shown[0]["text/plain"]
    assert shown[1] == {"text/plain": repr(cmp), "text/html": explorer.static_html()}


@pytest.mark.notebook
def test_a_dump_can_be_explored(dumps):
    pytest.importorskip("anywidget")
    from troubleshooter_nb.widgets.explorer import make_explorer

    explorer = make_explorer(dumps[0])
    explorer.selected = [1, 3]
    assert explorer.value.names == ["layers.10.attn", "shape"]


@pytest.mark.notebook
def test_a_dump_of_statistics_has_no_bytes_in_its_headline():
    pytest.importorskip("anywidget")
    known = {"statistics": STATISTICS, "shape": (2, 2), "dtype": "float32"}
    recorded = Dump.from_entries([entry("x", None, order=0, **known)], label="small")
    made = tnb.explore(recorded)
    assert made._answer({"kind": "ready"})[0]["title"] == "small: 1 tensor"
    assert "small" in repr(recorded)
    assert " B" not in repr(recorded).splitlines()[0]


@pytest.mark.notebook
def test_entries_that_were_not_read_are_neither_sick_nor_well(tmp_path):
    pytest.importorskip("anywidget")
    from troubleshooter_nb.widgets.explorer import make_explorer

    np.save(tmp_path / "w.npy", np.array([np.nan, 1.0]))
    made = make_explorer(tnb.open_dump(tmp_path))
    made.show(verdict="not_read")
    assert made.shown == [0]
    answer, _ = made._answer({"kind": "ready"})
    assert answer["marks"]["not_read"] == ["○", "unread", "not read"]
    # In the chart they share a mark with those that could not be read, and with no others.
    tones = {name: mark[1] for name, mark in answer["marks"].items()}
    assert [name for name in tones if tones[name] == "unread"] == ["unreadable", "not_read"]


@pytest.mark.notebook
def test_only_a_comparison_or_a_dump_can_be_explored():
    pytest.importorskip("anywidget")
    from troubleshooter_nb.widgets.explorer import make_explorer

    with pytest.raises(TypeError, match="takes a Comparison or a Dump, got list"):
        make_explorer([])
