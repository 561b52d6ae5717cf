"""The editor without a browser: what it answers, the versions it keeps, and its static twin."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.convert.row_evidence import row_evidence
from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.errors import ExtraMissingError, TroubleshooterWarning, WeightMapError
from troubleshooter_nb.formats import as_dump
from troubleshooter_nb.naming import Site
from troubleshooter_nb.naming.closeness import NameIndex, rest_pairs
from troubleshooter_nb.undo import History
from troubleshooter_nb.weight_map import Spec, Transform, WeightMap, WeightRow
from troubleshooter_nb.widgets import edit
from troubleshooter_nb.widgets.editing import open_session

F4 = np.dtype("f4")
SOURCE = {
    "net.0.fc.weight": Spec((4, 2), F4),
    "net.0.norm.weight": Spec((4,), F4),
    "net.1.fc.weight": Spec((4, 2), F4),
    "counter": Spec((), np.dtype("i8")),
}
TARGET = {
    "body.0.fc.weight": Spec((2, 4), F4),
    "body.0.norm.gamma": Spec((4,), F4),
    "body.1.fc.weight": Spec((2, 4), F4),
    "head": Spec((3, 3), F4),
}
MAP = WeightMap((), SOURCE, TARGET, "net.pth", "net.ckpt")
HOSTILE = '</script><img src=x onerror="alert(1)">'


@pytest.fixture
def session():
    opened = open_session(MAP)
    opened.answer({"op": "ready", "re": 1})
    return opened


@pytest.fixture
def pairing():
    left = Dump.from_arrays({"a": np.ones((2, 3)), "b": np.ones(4), "c": np.ones(5)}, label="l")
    right = Dump.from_arrays({"a": np.ones((2, 3)), "z": np.ones(4), "y": np.ones(6)}, label="r")
    return tnb.pair_dumps(left, right, method="name")


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ((4, 2), (4, 2), ["copy"]),
        ((3, 3), (3, 3), ["copy", "transpose"]),
        ((4, 2), (2, 4), ["transpose", "reshape(2, 4)"]),
        ((4, 2, 3), (4, 2, 1, 3), ["expand_dims(2)", "reshape(4, 2, 1, 3)"]),
        ((4, 1), (4,), ["squeeze(1)", "reshape(4)"]),
        ((2, 3, 4), (3, 2, 4), ["permute(1, 0, 2)", "reshape(3, 2, 4)"]),
        ((4, 2), (3, 3), []),
    ],
)
def test_transforms_that_fit_give_the_shape_of_the_target(source, target, expected):
    pair = WeightMap((), {"s": Spec(source, F4)}, {"t": Spec(target, F4)})
    found = pair.fitting("s", "t")
    assert [str(one) for one in found] == expected
    for one in found:
        assert one.specs([Spec(source, F4)])[0].shape == target
    assert bool(pair.misfit("s", "t")) == (not expected)


def test_candidates_are_the_closest_names_and_say_why_they_fail():
    taken = MAP.pair("net.1.fc.weight", "body.1.fc.weight", "transpose")
    found = taken.candidates("net.0.fc.weight")
    assert found[0] == ("body.0.fc.weight", "fits by transpose", True)
    why = {one.name: one.why for one in found}
    assert why["body.1.fc.weight"] == "fits by transpose; paired with net.1.fc.weight"
    assert "8 values (4×2) against 4 values" in why["body.0.norm.gamma"]


def test_no_candidate_is_listed_twice():
    # One name is close; what fills the list up must not hold it again.
    target = {"a.weight": Spec((2,), F4), "zzz": Spec((2,), F4)}
    alike = WeightMap((), {"a.weight": Spec((2,), F4)}, target)
    assert [one.name for one in alike.candidates("a.weight")] == ["a.weight", "zzz"]


def test_the_rest_is_matched_by_names_and_shapes_and_says_how():
    matched = MAP.match_rest()
    assert matched.names == {
        "net.0.fc.weight": "body.0.fc.weight",
        "net.0.norm.weight": "body.0.norm.gamma",
        "net.1.fc.weight": "body.1.fc.weight",
    }
    assert all(row.note.startswith("auto-matched: ") for row in matched)
    assert str(matched["net.0.fc.weight"].transform) == "transpose"
    assert matched.unmatched_targets == ["head"]
    assert matched.match_rest() is matched


def test_names_that_are_equally_close_are_not_matched():
    names = ["x.weight"], ["a.weight", "b.weight"]
    assert rest_pairs(*names, ([1], [1, 1]), lambda i, j: True) == []
    assert rest_pairs(*names, ([1], [1, 2]), lambda i, j: True)[0][:2] == (0, 0)


def test_the_closest_name_shares_numbers_and_its_last_word():
    index = NameIndex(["blocks.1.fc.weight", "blocks.11.fc.weight", "blocks.1.fc.bias"])
    found = index.closest("layers.1.fc.weight")
    assert found[0] == (0, pytest.approx(3 / 4 + 0.25 + 0.25))
    assert index.closest("layers.1.fc.weight", 1) == found[:1]
    assert index.closest("zzz") == []


def test_a_preview_gives_shapes_or_says_why_not():
    paired = MAP.pair("net.0.fc.weight", "body.0.fc.weight", "transpose")
    assert paired.preview("net.0.fc.weight", "reshape(2, 4)") == "4x2 -> 2x4"
    with pytest.raises(WeightMapError, match=r"\(4, 2\) for 'body.0.fc.weight' of shape \(2, 4\)"):
        paired.preview("net.0.fc.weight", "copy")


@pytest.mark.parametrize(
    ("transform", "expected"),
    [("transpose", "values are equal"), ("reshape(2, 32)", "values are no more alike than chance")],
)
def test_values_say_which_transform_is_right(transform, expected):
    array = np.random.default_rng(0).normal(size=(32, 2)).astype(F4)
    row = WeightRow(("s",), ("t",), Transform.parse(transform))
    said = row_evidence(row, Dump.from_arrays({"s": array}), Dump.from_arrays({"t": array.T}))
    assert said.startswith(expected)


@pytest.mark.parametrize("transform", ["transpose", "permute(1, 0)", "copy"])
def test_large_rows_are_judged_by_some_elements_of_both_sides(transform, monkeypatch):
    for name, value in {"LARGEST_LOOK": 1 << 10, "LOOK_SAMPLE": 256, "LOOK_RUNS": 16}.items():
        monkeypatch.setattr(f"troubleshooter_nb.convert.row_evidence.{name}", value)
    array = np.random.default_rng(0).normal(size=(40, 40)).astype(F4)
    row = WeightRow(("s",), ("t",), Transform.parse(transform))
    said = row_evidence(row, Dump.from_arrays({"s": array}), Dump.from_arrays({"t": array.T}))
    right = transform != "copy"
    expected = "values are equal" if right else "values are no more alike than chance"
    assert said.startswith(f"in 256 of 1,600 elements of both sides: {expected}")
    g, v = np.ones((40, 1), F4), array
    row = WeightRow(("g", "v"), ("t",), Transform.parse("weight_norm(0)"))
    said = row_evidence(row, Dump.from_arrays({"g": g, "v": v}), Dump.from_arrays({"t": v}))
    assert said == "no values compared: they depend on all of more than 512 elements"


def test_values_that_are_not_there_are_no_evidence():
    row = WeightRow(("s",), ("t",))
    said = row_evidence(row, Dump.from_arrays({}), Dump.from_arrays({"t": np.ones(9)}))
    assert said.startswith("no values to compare")


def test_the_rest_of_a_pairing_is_matched_by_the_user(pairing):
    assert pairing.candidates("b")[0] == ("z", "same shape", True)
    assert pairing.candidates("z")[0] == ("b", "same shape", True)
    assert pairing.candidates("b")[-1].why == "shape 6"
    matched = pairing.match_rest()
    row = matched.to_dataframe().set_index("left").loc["b"]
    assert (row["right"], row["method"], row["confidence"]) == ("z", "user", 1.0)
    assert row["note"] == "auto-matched: the only ones of this shape"
    assert (matched.unmatched_left, matched.unmatched_right) == (["c"], ["y"])
    assert matched.match_rest() is matched


def test_what_is_expected_to_be_missing_is_not_matched_and_may_be_named_by_side(pairing):
    expected = pairing.expect_missing("z", side="right")
    assert expected.match_rest() is expected
    with pytest.raises(tnb.EntryNotFoundError, match="on the left"):
        pairing.expect_missing("z", side="left")


def test_a_history_goes_back_and_forth_and_forgets_what_was_undone():
    history = History("a")
    history.do("b", "to b")
    history.do("c", "to c")
    assert (history.undo(), history.undo(), history.undo()) == ("b", "a", "a")
    assert (history.redo_of, history.redo()) == ("to b", "b")
    history.do("d", "to d")
    assert (history.redo_of, history.redo(), history.undo_of) == (None, "d", "to d")


def test_a_pair_is_answered_with_the_changed_rows_only(session):
    answer = session.answer({"op": "pair", "left": 0, "right": 0, "re": 7})
    assert (answer["type"], answer["re"], answer["gone"]) == ("rows", 7, [])
    assert answer["put"] == [("0>0", [0], [0], "transpose", "4x2 → 2x4", "", "", "")]
    assert session.value.names == {"net.0.fc.weight": "body.0.fc.weight"}
    again = session.answer({"op": "pair", "left": 1, "right": 1})
    assert [row[0] for row in again["put"]] == ["1>1"]
    undone = session.answer({"op": "undo"})
    assert (undone["put"], undone["gone"]) == ([], ["1>1"])
    assert undone["undo"] == "pair net.0.fc.weight with body.0.fc.weight"
    assert session.answer({"op": "redo"})["put"] == again["put"]


def test_a_pair_that_cannot_be_is_a_sentence_and_changes_nothing(session):
    answer = session.answer({"op": "pair", "left": 0, "right": 3})
    assert answer["type"] == "error"
    expected = "net.0.fc.weight cannot become head: 8 values (4×2) against 9 values (3×3)"
    assert answer["text"] == expected
    assert session.value is MAP


@pytest.mark.parametrize(
    "message",
    [
        {"op": "pair", "left": 99, "right": 0},
        {"op": "pair", "left": "x", "right": 0},
        {"op": "unpair", "key": "none"},
        {"op": "row", "key": "none"},
        {"op": "fits", "side": "up", "number": 0},
        {"op": "save", "path": " "},
        {"op": "save", "path": "map.txt"},
        {"op": "__init__"},
        {},
    ],
)
def test_whatever_a_page_sends_is_answered(session, message):
    answer = session.answer({**message, "re": 3})
    assert (answer["type"], answer["re"]) == ("error", 3)
    assert session.value is MAP


def test_fits_are_told_before_a_drop(session):
    answer = session.answer({"op": "fits", "side": "left", "number": 0})
    said = dict(zip(session.page.shapes, answer["fits"], strict=True))
    assert (said["2x4"], said["4"], said["3x3"]) == ("transpose", "!8 ≠ 4 values", "!8 ≠ 9 values")
    assert answer["candidates"][0] == [0, "fits by transpose", "fits"]
    back = session.answer({"op": "fits", "side": "right", "number": 1})
    assert back["candidates"][0] == [1, "same shape", "fits"]


def test_transforms_are_changed_previewed_and_refused(session):
    session.answer({"op": "pair", "left": 0, "right": 0})
    shown = session.answer({"op": "row", "key": "0>0"})
    assert shown["transforms"] == ["transpose", "reshape(2, 4)"]
    bad = session.answer({"op": "preview", "key": "0>0", "transform": "transposed"})
    assert (bad["ok"], "closest: 'transpose'" in bad["text"]) == (False, True)
    assert session.answer({"op": "transform", "key": "0>0", "transform": "copy"})["type"] == "error"
    session.answer({"op": "transform", "key": "0>0", "transform": "reshape(2, 4)"})
    assert str(session.value["net.0.fc.weight"].transform) == "reshape(2, 4)"


def test_a_suggestion_of_values_is_taken():
    row = WeightRow(("s",), ("t",))
    better = WeightRow(("s",), ("t",), Transform("transpose"))
    specs = {"s": Spec((3, 3), F4)}, {"t": Spec((3, 3), F4)}
    session = open_session(WeightMap((row,), *specs, suggestions=(better,)))
    cells = session.answer({"op": "ready"})["rows"][0]
    assert (cells[6], cells[7]) == ("warn", "t by transpose")
    changed = session.answer({"op": "accept", "key": "0>0"})["put"][0]
    assert (changed[3], changed[6], changed[7]) == ("transpose", "", "")


def test_a_map_of_which_nothing_is_known_is_edited_as_well():
    session = open_session(WeightMap((WeightRow(("a",), ("b",)),), {}))
    assert session.answer({"op": "ready"})["left"] == ["a"]
    session.answer({"op": "unpair", "key": "0>0"})
    assert len(session.value) == 0
    fits = session.answer({"op": "fits", "side": "left", "number": 0})
    assert fits["candidates"] == [[0, "shape not known", "open"]]
    assert fits["fits"] == ["?"]
    assert session.answer({"op": "pair", "left": 0, "right": 0})["type"] == "rows"


def test_a_pairing_is_edited_by_entries(pairing):
    session = open_session(pairing)
    state = session.answer({"op": "ready"})
    assert [row[0] for row in state["rows"]] == ["0>0"]
    answer = session.answer({"op": "pair", "left": 1, "right": 2})
    assert answer["put"][0][6] == "bad"
    assert "1 of different shape" in answer["summary"]
    assert session.answer({"op": "row", "key": "0>0"})["evidence"].startswith("values are equal")
    session.answer({"op": "unpair", "key": "1>2"})
    aside = session.answer({"op": "aside", "side": "left", "number": 2})
    assert aside["expected"] == [[2], []]
    assert session.answer({"op": "fits", "side": "left", "number": 1})["type"] == "fits"


def test_another_pairing_brings_its_own_names_and_can_be_undone(pairing):
    session = open_session(pairing)
    session.answer({"op": "ready"})
    other = tnb.pair_dumps({"q": np.ones(3), "a": np.ones(2)}, {"q": np.ones(3)})
    answer = session.replace(other, "set from Python")
    assert answer["type"] == "state"
    assert answer["left"] == ["q", "a"]
    assert answer["rows"][0][0] == "0>0"
    back = session.answer({"op": "undo"})
    assert back["type"] == "state"
    assert back["left"] == ["a", "b", "c"]
    assert session.answer({"op": "pair", "left": 1, "right": 1})["type"] == "rows"


def of_steps(name, steps):
    site = Site("module", name, 0, "forward", "output", "")
    return Dump.from_entries(
        [
            Entry(name, site, ArrayInMemory(np.ones(2)), order=k, step=step)
            for k, step in enumerate(steps)
        ]
    )


def test_entries_of_several_steps_say_where_they_are():
    dumps = of_steps("a", range(2)), of_steps("a", range(2))
    state = open_session(tnb.pair_dumps(*dumps)).answer({"op": "ready"})
    assert state["places"] == [{"step": 0}, {"step": 1}]  # one rank alone is not said
    assert state["left_places"] == state["right_places"] == [0, 1]


def test_entries_of_different_steps_are_not_paired_and_the_sentence_says_so():
    dumps = of_steps("a", range(2)), of_steps("b", range(2))
    session = open_session(tnb.pair_dumps(*dumps, method="name"))
    session.answer({"op": "ready"})
    answer = session.answer({"op": "pair", "left": 0, "right": 1})
    assert answer["text"].startswith("a is of step 0, rank 0 and b of step 1, rank 0; only entries")
    assert session.answer({"op": "pair", "left": 1, "right": 1})["type"] == "rows"


def test_one_step_on_either_side_is_the_same_step_whatever_its_number():
    session = open_session(tnb.pair_dumps(of_steps("a", [0]), of_steps("b", [5]), method="name"))
    assert session.answer({"op": "ready"})["places"] == []
    fits = session.answer({"op": "fits", "side": "right", "number": 0})
    assert fits["candidates"] == [[0, "same shape", "fits"]]
    assert session.answer({"op": "pair", "left": 0, "right": 0})["type"] == "rows"
    assert session.answer({"op": "unpair", "key": "0>0"})["gone"] == ["0>0"]


def test_the_summary_is_complete_before_a_page_asks():
    row = WeightRow(("s",), ("t",))
    value = WeightMap((row,), {"s": Spec((3,), F4)}, {"t": Spec((4,), F4)})
    assert open_session(value).summary() == ["1 of 1 matched", "1 cannot be converted"]


@pytest.mark.parametrize(
    ("stem", "kind", "expected"),
    [
        ("player", None, "data"),
        ("net_layer", None, "layer"),
        ("net.layer", None, "layer"),
        ("layer", None, "layer"),
        ("pairs", "cell", "cell"),
        ("layer", "data", "data"),
    ],
)
def test_a_pairing_is_saved_as_the_kind_that_is_meant(
    pairing, tmp_path, monkeypatch, stem, kind, expected
):
    written = []
    monkeypatch.setattr(
        "troubleshooter_nb.widgets.editing.pairing_session.write_mapping",
        lambda value, path, *, kind: written.append((path, kind)) or path,
    )
    session = "troubleshooter_nb.widgets.editing.pairing_session"
    monkeypatch.setattr(f"{session}.unsaid_in_mapping", lambda *_: [])
    monkeypatch.setenv("HOME", str(tmp_path))
    answer = open_session(pairing).answer({"op": "save", "path": f"~/{stem}.yaml", "kind": kind})
    assert answer["text"] == f"saved {stem}.yaml"
    assert written == [(tmp_path / f"{stem}.yaml", expected)]


def test_a_weight_map_has_no_kinds(session, tmp_path):
    with pytest.raises(ValueError, match="a weight map has no kinds"):
        session.write(tmp_path / "map.yaml", "cell")


def test_saving_writes_what_can_be_read_again(session, pairing, tmp_path):
    session.answer({"op": "rest"})
    saved = session.answer({"op": "save", "path": str(tmp_path / "map.yaml")})
    assert saved["text"] == "saved map.yaml"
    assert tnb.read_weight_map(tmp_path / "map.yaml").names == session.value.names
    refused = session.answer({"op": "save", "path": str(tmp_path / "map.json")})
    assert "the json does not know transpose; use .yaml" in refused["text"]
    other = open_session(pairing)
    other.answer({"op": "save", "path": str(tmp_path / "pairs.yaml")})
    assert tnb.read_mapping(tmp_path / "pairs.yaml").kind == "data"


TIED = WeightMap(
    (
        WeightRow(("emb",), ("tok",)),
        WeightRow(("emb",), ("head",), Transform("transpose")),
        WeightRow(("out",), (), Transform("drop")),
    ),
    {"emb": Spec((4, 4), F4), "out": Spec((2,), F4)},
    {"tok": Spec((4, 4), F4), "head": Spec((4, 4), F4), "third": Spec((4, 4), F4)},
)


def test_rows_of_one_source_are_told_apart_by_their_targets():
    session = open_session(TIED)
    rows = session.answer({"op": "ready"})["rows"]
    assert [row[0] for row in rows] == ["0>0", "0>1", "1>"]
    assert session.answer({"op": "row", "key": "0>0"})["text"] == "4x4 -> 4x4"
    assert str(session.value["emb", "head"].transform) == "transpose"
    preview = session.answer({"op": "preview", "key": "0>1", "transform": "reshape(2, 8)"})
    assert "for 'head' of shape (4, 4)" in preview["text"]
    changed = session.answer({"op": "transform", "key": "0>1", "transform": "copy"})["put"]
    assert [(row[0], row[3]) for row in changed] == [("0>1", "copy")]
    assert session.answer({"op": "unpair", "key": "0>1"})["gone"] == ["0>1"]
    assert session.value.names == {"emb": "tok"}
    assert session.answer({"op": "unpair", "key": "1>"})["gone"] == ["1>"]


def test_a_name_dropped_on_a_row_changes_that_row_alone():
    session = open_session(TIED)
    session.answer({"op": "ready"})
    answer = session.answer({"op": "pair", "left": 0, "right": 2, "key": "0>1"})
    assert ([row[0] for row in answer["put"]], answer["gone"]) == (["0>2"], ["0>1"])
    # Without a row it is one more target of a source that has several.
    session.answer({"op": "undo"})
    answer = session.answer({"op": "pair", "left": 0, "right": 2, "key": None})
    assert ([row[0] for row in answer["put"]], answer["gone"]) == (["0>2"], [])


def test_a_suggestion_stands_at_the_row_it_is_meant_for():
    better = WeightRow(("emb",), ("head",))
    session = open_session(replace(TIED, suggestions=(better,)))
    rows = {row[0]: row[7] for row in session.answer({"op": "ready"})["rows"]}
    assert rows == {"0>0": "", "0>1": "head by copy", "1>": ""}


def test_unknown_shapes_are_not_called_the_same_and_names_are_offered_all_the_same():
    rows = tuple(WeightRow((f"a.{k}.w",), (f"b.{k}.w",)) for k in range(3))
    drafted = WeightMap(rows, {f"a.{k}.w": Spec((k + 1, 2), F4) for k in range(3)})  # no target
    session = open_session(drafted)
    session.answer({"op": "ready"})
    session.answer({"op": "unpair", "key": "1>1"})
    for side in ("left", "right"):
        fits = session.answer({"op": "fits", "side": side, "number": 1})
        assert set(fits["fits"]) == {"?"}
        assert fits["candidates"][0] == [1, "shape not known", "open"]
        assert "shape not known; paired with" in fits["candidates"][1][1]
    answer = session.answer({"op": "pair", "left": 1, "right": 1})
    assert [row[0] for row in answer["put"]] == ["1>1"]


def test_entries_of_unknown_shape_are_not_called_the_same():
    def dump(names):
        known = {"statistics": {"min": 0.0, "max": 1.0, "mean": 0.5, "l2": 1.0}, "dtype": "float32"}
        site = {name: Site("module", name, 0, "forward", "output", "") for name in names}
        return Dump.from_entries(
            [Entry(name, site[name], None, order=k, **known) for k, name in enumerate(names)]
        )

    session = open_session(tnb.pair_dumps(dump(["a", "b"]), dump(["a", "z"]), method="name"))
    session.answer({"op": "ready"})
    fits = session.answer({"op": "fits", "side": "left", "number": 1})
    assert set(fits["fits"]) == {"?"}
    assert fits["candidates"][0] == [1, "shape not known", "open"]


def test_a_map_from_a_file_takes_names_and_shapes_from_the_files_of_both_sides(tmp_path):
    np.savez(tmp_path / "l.npz", a=np.ones((4, 3), F4), b=np.ones(5, F4), n=np.ones(7, F4))
    np.savez(tmp_path / "r.npz", a=np.ones((3, 4), F4), b=np.ones(5, F4), m=np.ones(7, F4))
    (tmp_path / "m.yaml").write_text("weights:\n- {from: a, to: a}\n- {from: b, to: b}\n")
    read = tnb.read_weight_map(tmp_path / "m.yaml")
    sides = [as_dump(tmp_path / f"{one}.npz", "source") for one in "lr"]
    session = open_session(read, *sides)
    state = session.answer({"op": "ready"})
    assert (state["left"], state["right"]) == (["a", "b", "n"], ["a", "b", "m"])
    assert state["rows"][0][6] == "bad"  # a copy of 4x3 is no 3x4
    assert session.summary()[1:3] == ["1 unmatched left", "1 unmatched right"]
    fits = session.answer({"op": "fits", "side": "left", "number": 2})
    assert fits["candidates"][0] == [2, "same shape", "fits"]
    assert session.answer({"op": "row", "key": "1>1"})["evidence"].startswith("values are equal")
    # What is assigned later is completed as well; what the map says itself stays.
    session.replace(read, "set")
    assert session.value.unmatched_sources == ["n"]
    known = WeightMap((), {"x": Spec((1,), F4)}, {})
    assert open_session(known, *sides).value is known


def test_what_a_file_leaves_out_is_said_when_it_is_saved(session, pairing, tmp_path):
    session.replace(MAP.drop("counter"), "")
    saved = session.answer({"op": "save", "path": str(tmp_path / "m.json")})
    assert (saved["text"], len(saved["left_out"])) == ("saved m.json", 1)
    assert "without 1 dropped or kept tensor" in saved["left_out"][0]
    assert session.answer({"op": "save", "path": str(tmp_path / "m.yaml")})["left_out"] == []
    parted = open_session(pairing)
    parted.answer({"op": "ready"})
    parted.answer({"op": "unpair", "key": "0>0"})
    saved = parted.answer({"op": "save", "path": str(tmp_path / "p.yaml")})
    assert "may pair again: a: a" in saved["left_out"][0]


def test_large_and_lost_values_of_a_pair_are_a_sentence(tmp_path, monkeypatch):
    for side in "lr":
        (tmp_path / side).mkdir()
        np.save(tmp_path / side / "w.npy", np.ones((30, 30)))
    session = open_session(tnb.pair_dumps(tmp_path / "l", tmp_path / "r"))
    session.answer({"op": "ready"})
    asked = {"op": "row", "key": "0>0"}
    assert session.answer(asked)["evidence"].startswith("values are equal")
    with monkeypatch.context() as patch:
        for name, value in {"LARGEST_LOOK": 1 << 10, "LOOK_SAMPLE": 64, "LOOK_RUNS": 4}.items():
            patch.setattr(f"troubleshooter_nb.convert.row_evidence.{name}", value)
        said = "in 64 of 900 elements of both sides: values are equal, every one"
        assert session.answer(asked)["evidence"] == said
    (tmp_path / "l" / "w.npy").unlink()
    answer = session.answer(asked)
    assert answer["type"] == "row"
    assert answer["evidence"] == "no values to compare: w.npy: No such file or directory"


def test_other_labels_are_told_with_the_whole_state(session):
    answer = session.replace(replace(MAP, source_label="old.pth"), "")
    assert (answer["type"], answer["labels"]) == ("state", ["old.pth", "net.ckpt"])
    assert session.replace(session.value.match_rest(), "")["type"] == "rows"
    session.answer({"op": "undo"})
    assert session.answer({"op": "undo"})["labels"] == ["net.pth", "net.ckpt"]


def test_what_the_session_says_is_said_in_chinese_too(tmp_path):
    session = open_session(MAP, language="zh")
    session.answer({"op": "ready"})
    assert session.summary()[0] == "已匹配 0 / 4"
    fits = session.answer({"op": "fits", "side": "left", "number": 0})
    assert fits["candidates"][0] == [0, "经 transpose 后匹配", "fits"]
    assert "!8 ≠ 9 个值" in fits["fits"]
    refused = session.answer({"op": "pair", "left": 0, "right": 3})
    assert refused["text"].startswith("net.0.fc.weight 无法变为 head：8 个值（4×2） ≠ 9 个值")
    assert session.answer({"op": "pair", "left": 0, "right": 0})["undo"].startswith("将 net.0")
    saved = session.answer({"op": "save", "path": str(tmp_path / "m.yaml")})
    assert saved["text"] == "已保存 m.yaml"
    assert session.answer({"op": "save", "path": ""})["text"].startswith("请填写文件名")


def test_evidence_problems_and_refusals_are_chinese_in_a_chinese_editor(pairing, tmp_path):
    array = np.arange(128.0).reshape(16, 8).astype(F4)
    sides = [Dump.from_arrays({"w": one}) for one in (array, array.T)]
    value = WeightMap(
        (WeightRow(("w",), ("w",)),), {"w": Spec((16, 8), F4)}, {"w": Spec((8, 16), F4)}
    )
    session = open_session(value, *sides, language="zh")
    wrong = session.answer({"op": "ready"})["rows"][0]
    assert wrong[5] == "得到形状 (16, 8)，而 'w' 的形状为 (8, 16)"
    said = session.answer({"op": "preview", "key": "0>0", "transform": "transpose"})
    assert said["evidence"] == "所有值都相等"
    said = session.answer({"op": "preview", "key": "0>0", "transform": "transposed"})["text"]
    assert said.startswith("没有名为 'transposed' 的变换；可用：copy、")
    assert "最接近：'transpose'" in said
    session.answer({"op": "transform", "key": "0>0", "transform": "transpose"})
    refused = {
        path: session.answer({"op": "save", "path": str(tmp_path / path)})["text"]
        for path in ("m.txt", "m.json")
    }
    assert refused == {
        "m.txt": "权重映射不能写为 '.txt'；请用 .yaml",
        "m.json": "w：json 无法表示 transpose；请用 .yaml",
    }
    session = open_session(pairing.pair("c", "y"), language="zh")
    rows = {row[0]: row[5] for row in session.answer({"op": "ready"})["rows"]}
    assert rows["2>2"] == "形状不同"
    noted = tnb.pair_dumps({"a": np.ones(2)}, {"a": np.ones(3)})
    for language, remark in (("zh", "形状不同"), ("en", "shapes differ")):
        rows = open_session(noted, language=language).answer({"op": "ready"})["rows"]
        assert rows[0][5] == remark  # once, though the pair's note says it as well


def test_sizes_are_said_with_the_shape_where_it_says_more():
    session = open_session(
        WeightMap(
            (),
            {"s": Spec((), F4), "v": Spec((3,), F4)},
            {"t": Spec((3,), F4), "u": Spec((2, 4), F4)},
        )
    )
    session.answer({"op": "ready"})
    texts = [session.answer({"op": "pair", "left": k, "right": 1})["text"] for k in range(2)]
    assert texts == [
        "s cannot become u: 1 value (scalar) against 8 values (2×4)",
        "v cannot become u: 3 values against 8 values (2×4)",
    ]
    assert session.value.misfit("s", "t") == "1 value (scalar) against 3 values"


def test_matching_the_rest_says_what_it_did_and_why_nothing(session, pairing):
    assert session.answer({"op": "rest"})["said"] == "pairs made: 3"
    again = session.answer({"op": "rest"})
    expected = "no pair made: of what is left no two belong together by name and shape"
    assert (again["said"], again["undo"]) == (expected, "auto-match the rest")
    session.answer({"op": "aside", "side": "left", "number": 3})
    assert session.answer({"op": "rest"})["said"] == "no pair made: nothing is left on the left"
    other = open_session(pairing)
    other.answer({"op": "ready"})
    assert other.answer({"op": "rest"})["said"] == "pairs made: 1"
    other.answer({"op": "aside", "side": "right", "number": 2})
    assert other.answer({"op": "rest"})["said"] == "no pair made: nothing is left on the right"
    whole = open_session(tnb.pair_dumps({"a": np.ones(2)}, {"a": np.ones(2)}))
    assert whole.answer({"op": "rest"})["said"] == "no pair made: every name has a partner already"


def test_transforms_of_several_steps_and_other_orders_are_offered_previewed_and_taken(tmp_path):
    rng = np.random.default_rng(0)
    rows, joined = rng.random((512, 4)).astype(F4), rng.random((8, 24)).astype(F4)
    order = rng.permutation(512)
    parts = {f"part{k}": joined.T[8 * k : 8 * k + 8] for k in range(3)}
    sides = {"rows": rows, "joined": joined}, {"rows": rows[order], **parts}
    source, target = (Dump.from_arrays(one) for one in sides)
    session = open_session(tnb.draft_weight_map(source, target), source, target)
    drawn = {row[0]: row for row in session.answer({"op": "ready"})["rows"]}
    assert drawn["1>1+2+3"][3] == "split(1, 8, 8, 8) | transpose"
    suggestion = drawn["0>0"][7]
    assert suggestion.startswith("rows by take(0, ")
    assert suggestion.endswith(", …)")
    row = session.answer({"op": "row", "key": "0>0"})
    whole = str(session.value.suggestions[0].transform)
    # All of it can be chosen, and is previewed.
    assert row["transforms"][:3] == [whole, "copy", "blocks(0, 1, 0)"]
    assert row["words"]["blocks(0, 1, 0)"] == "puts the equal blocks of axis 0 in the order 1, 0"
    assert len(row["words"][whole]) < 100
    said = session.answer({"op": "preview", "key": "0>0", "transform": whole})
    assert (said["ok"], said["evidence"]) == (True, "values are equal, every one")
    typed = "transpose | split(0, 8, 8, 8)"
    said = session.answer({"op": "preview", "key": "1>1+2+3", "transform": typed})
    assert (said["ok"], said["evidence"]) == (True, "values are equal, every one")
    session.answer({"op": "transform", "key": "1>1+2+3", "transform": typed})
    assert str(session.value["joined"].transform) == typed
    done = session.answer({"op": "transform", "key": "0>0", "transform": whole})
    assert len(done["undo"]) < 100
    session.answer({"op": "save", "path": str(tmp_path / "map.yaml")})
    assert str(tnb.read_weight_map(tmp_path / "map.yaml")["rows"].transform) == whole
    wrong = session.answer({"op": "preview", "key": "0>0", "transform": "transpose | splitt(0)"})
    assert not wrong["ok"]


def test_a_transform_that_is_there_already_changes_nothing(session):
    session.answer({"op": "rest"})
    before = session.value
    answer = session.answer({"op": "transform", "key": "0>0", "transform": " transpose "})
    assert (answer["put"], answer["said"]) == ([], "nothing changed: transpose was applied already")
    assert session.value is before
    assert before["net.0.fc.weight"].note.startswith("auto-matched")
    assert answer["undo"] == "auto-match the rest"


def test_all_is_sent_to_a_new_view_alone(session):
    answer = session.answer({"op": "ready"})
    assert (answer["type"], answer["first"]) == ("state", True)
    other = session.replace(replace(MAP, source_label="old.pth"), "")
    assert (other["type"], other.get("first")) == ("state", None)


def test_what_is_asked_of_an_older_numbering_does_nothing_and_says_so(session):
    before = session.answer({"op": "ready"})["numbering"]
    pair = {"op": "pair", "left": 0, "right": 0}
    assert session.answer(pair | {"numbering": before})["type"] == "rows"
    key = next(iter(session.rows()))
    turned = dict(reversed(SOURCE.items()))
    told = session.replace(WeightMap(session.value.rows, turned, TARGET), "set")
    assert told["numbering"] > before
    for message in (
        pair | {"left": 1, "right": 1},
        {"op": "together", "left": [0], "right": [1, 2]},
        {"op": "fits", "side": "left", "number": 0},
        {"op": "aside", "side": "left", "number": 0},
        {"op": "name", "left": 0, "name": "x"},
        *({"op": op, "key": key, "transform": "copy"} for op in ("row", "unpair", "preview")),
        *({"op": op, "key": key, "transform": "copy"} for op in ("transform", "accept")),
    ):
        value = session.value
        answer = session.answer(message | {"numbering": before})
        assert answer["type"] == "error"
        assert answer["text"] == "the names changed meanwhile: choose again"
        assert session.value is value
    # Undo numbers them anew once more; without a number the present one is meant.
    again = session.answer({"op": "undo"})
    assert again["numbering"] > told["numbering"]
    assert session.answer(pair | {"left": 1, "right": 1})["type"] == "rows"


def test_a_file_of_somebody_else_is_overwritten_when_it_is_asked_for_twice(session, tmp_path):
    path = tmp_path / "map.yaml"
    path.write_text("precious: yes\n")
    ask = {"op": "save", "path": str(path)}
    said = session.answer(ask)
    assert said["type"] == "exists"
    assert (
        said["text"] == f"{path} is there already, from elsewhere; press Save again to overwrite it"
    )
    session.answer({"op": "rest"})  # what would be saved is another one now
    assert session.answer(ask)["type"] == "exists"
    assert path.read_text() == "precious: yes\n"
    assert session.answer(ask)["type"] == "saved"
    session.answer({"op": "undo"})
    assert session.answer(ask)["type"] == "saved"  # ours by now
    path.write_text("precious: again\n")
    assert session.answer(ask)["type"] == "exists"
    assert session.write(path) == path  # whoever writes code means it


def test_what_cannot_be_saved_is_said_of_the_path_that_was_given(session, pairing, tmp_path):
    (tmp_path / "file.yaml").write_text("")
    given = str(tmp_path / "file.yaml" / "map.yaml")
    for one in (session, open_session(pairing)):
        assert one.answer({"op": "save", "path": given})["text"] == f"{given}: Not a directory"
    given = f"{tmp_path}/{'x' * 300}.yaml"
    assert session.answer({"op": "save", "path": given})["text"] == f"{given}: File name too long"
    given = "/proc/map.yaml"
    assert session.answer({"op": "save", "path": given})["text"].startswith(f"{given}: ")
    with pytest.raises(OSError, match=r": '/proc/map\.yaml'$"):
        session.saved(given)


def of_unknown_target():
    source = {"bn.weight": Spec((4,), F4), "bn.bias": Spec((4,), F4), "fc": Spec((4, 2), F4)}
    rows = (
        WeightRow(("bn.weight",), ("bn.gamma",)),
        WeightRow(("bn.bias",), ("bn.beta",)),
        WeightRow(("fc",), ("fc",), Transform("expand_dims", (2,))),
    )
    return WeightMap(rows, source)


def test_a_target_that_is_not_known_can_be_named():
    session = open_session(of_unknown_target())
    assert session.answer({"op": "ready"})["open_target"]
    parted = session.answer({"op": "unpair", "key": "0>0"})
    assert parted["summary"][:3] == ["2 of 3 matched", "1 unmatched left", "1 unmatched right"]
    # A new editor does not know the name: it is typed.
    other = open_session(session.value)
    assert other.answer({"op": "ready"})["right"] == ["bn.beta", "fc"]
    fits = other.answer({"op": "fits", "side": "left", "number": 0})
    assert fits["former"] == ""
    assert other.answer({"op": "name", "left": 0, "name": " "})["type"] == "error"
    named = other.answer({"op": "name", "left": 0, "name": " bn.gamma "})
    assert named["type"] == "rows"
    assert named["names"] == [[1, 2, "bn.gamma", "", True]]
    assert other.value["bn.weight"].targets == ("bn.gamma",)
    assert other.value.problems() == []
    undone = other.answer({"op": "undo"})
    assert (undone["type"], len(other.value)) == ("rows", 2)


def test_what_was_parted_of_a_target_that_is_not_known_goes_together_as_it_was():
    session = open_session(of_unknown_target())
    session.answer({"op": "ready"})
    for key in ("0>0", "2>2"):
        session.answer({"op": "unpair", "key": key})
    assert session.answer({"op": "fits", "side": "left", "number": 2})["former"] == "fc"
    assert session.answer({"op": "rest"})["said"] == "pairs made: 2"
    assert session.value["bn.weight"].targets == ("bn.gamma",)
    assert str(session.value["fc"].transform) == "expand_dims(2)"
    session.answer({"op": "undo"})
    session.answer({"op": "pair", "left": 2, "right": 2})
    assert str(session.value["fc"].transform) == "expand_dims(2)"
    named = session.answer({"op": "name", "left": 0, "name": "other.gamma"})
    assert named["names"] == [[1, 0, "bn.gamma", "", False], [1, 3, "other.gamma", "", True]]
    # Another map has names of its own.
    assert session.replace(of_unknown_target(), "")["right"] == ["bn.gamma", "bn.beta", "fc"]


def test_no_name_is_typed_where_all_are_known(session, pairing):
    refused = session.answer({"op": "name", "left": 0, "name": "stranger"})
    assert "no 'stranger' in net.ckpt" in refused["text"]
    other = open_session(pairing)
    assert other.answer({"op": "name", "left": 0, "name": "z"})["type"] == "error"


def test_rows_that_fill_one_target_are_broken_rows():
    rows = (WeightRow(("a",), ("x",)), WeightRow(("b",), ("x",)))
    specs = {name: Spec((2,), F4) for name in "ab"}
    for source, target in ((specs, {"x": Spec((2,), F4)}), ({}, None)):
        session = open_session(WeightMap(rows, source, target))
        cells = session.answer({"op": "ready"})["rows"]
        assert [(row[5], row[6]) for row in cells] == [
            ("'x' is the target of several: a, b", "bad")
        ] * 2
        assert session.summary()[-1] == "2 cannot be converted"
        # When one goes, the other is right again, and told so.
        answer = session.answer({"op": "unpair", "key": "1>0"})
        assert (answer["gone"], [(row[0], row[6]) for row in answer["put"]]) == (
            ["1>0"],
            [("0>0", "")],
        )
        assert session.value.problems() == []
    chinese = open_session(WeightMap(rows, {}), language="zh")
    assert chinese.answer({"op": "ready"})["rows"][0][5] == "'x' 有多个来源：a、b"


def test_rows_that_say_the_same_twice_are_each_edited_where_they_stand():
    rows = (WeightRow(("a",), ("x",)), WeightRow(("a",), ("x",), Transform("transpose")))
    specs = {"a": Spec((4, 4), F4)}, {"x": Spec((4, 4), F4)}
    session = open_session(WeightMap(rows, *specs))
    assert [row[0] for row in session.answer({"op": "ready"})["rows"]] == ["0>0", "0>0#1"]
    assert session.answer({"op": "row", "key": "0>0#1"})["transform"] == "transpose"
    session.answer({"op": "transform", "key": "0>0#1", "transform": "reshape(4, 4)"})
    assert [str(row.transform) for row in session.value] == ["copy", "reshape(4, 4)"]
    assert session.answer({"op": "unpair", "key": "0>0#1"})["gone"] == ["0>0#1"]
    assert [str(row.transform) for row in session.value] == ["copy"]


@pytest.mark.parametrize("known", [True, False])
def test_a_transform_of_another_count_is_refused_and_what_is_not_known_has_no_tick(known):
    value = WeightMap((WeightRow(("a",), ("x",)),), {"a": Spec((16,), F4)} if known else {})
    session = open_session(value)
    session.answer({"op": "ready"})
    for text in ("add", "split(0, 8, 8)"):
        asked = {"key": "0>0", "transform": text}
        assert not session.answer({"op": "preview", **asked})["ok"]
        assert session.answer({"op": "transform", **asked})["type"] == "error"
    fine = session.answer({"op": "preview", "key": "0>0", "transform": "cast(float16)"})
    said = ("16 -> 16", "") if known else ("", "the shapes of the source are not known")
    assert (fine["ok"], fine["text"], fine["evidence"]) == (True, *said)
    assert session.value is value


BIASES = WeightMap(
    (),
    {"in_proj": Spec((48,), F4)} | {f"s{k}": Spec((4, 8), F4) for k in "qkv"},
    {f"{k}.bias": Spec((16,), F4) for k in "qkv"} | {"qkv": Spec((12, 8), F4)},
)


def test_one_name_is_split_into_several():
    session = open_session(BIASES)
    session.answer({"op": "ready"})
    asked = {"left": [0], "right": [0, 1, 2]}
    answer = session.answer({"op": "together", **asked, "re": 4})
    assert answer == {
        "type": "together",
        **asked,
        "transforms": ["split(0, 16, 16, 16)"],
        "words": {"split(0, 16, 16, 16)": "splits axis 0 into parts of 16, 16, 16"},
        "ok": True,
        "text": "48 -> 16 + 16 + 16",
        "evidence": "",
        "re": 4,
        "revision": 0,
    }
    made = session.answer({"op": "pair", **asked})
    assert made["put"][0][:5] == (
        "0>0+1+2",
        [0],
        [0, 1, 2],
        "split(0, 16, 16, 16)",
        "48 → 16 + 16 + 16",
    )
    assert made["undo"] == "pair in_proj with q.bias + k.bias + v.bias"
    assert session.answer({"op": "row", "key": "0>0+1+2"})["transforms"] == answer["transforms"]


def test_several_names_are_joined_and_a_joined_row_that_was_parted_is_joined_again():
    session = open_session(BIASES)
    session.answer({"op": "ready"})
    asked = {"left": [1, 2, 3], "right": 3}
    assert session.answer({"op": "together", **asked})["text"] == "4x8 + 4x8 + 4x8 -> 12x8"
    session.answer({"op": "pair", **asked})
    session.answer({"op": "unpair", "key": "1>3"})
    assert len(session.value) == 0
    answer = session.answer({"op": "pair", **asked, "transform": " concat(0) "})
    assert [row[0] for row in answer["put"]] == ["1>3"]
    assert session.value["sq"].sources == ("sq", "sk", "sv")
    # The order of the names is that in which they are joined.
    session.answer({"op": "pair", "left": [3, 1, 2], "right": [3]})
    assert session.value["sq"].sources == ("sv", "sq", "sk")


def test_names_that_nothing_makes_of_each_other_are_told_so_in_both_languages(pairing):
    texts = {}
    for language in ("en", "zh"):
        session = open_session(BIASES, language=language)
        session.answer({"op": "ready"})
        asked = {"op": "together", "left": [0], "right": [0, 1]}
        answer = session.answer(asked)
        assert (answer["ok"], answer["transforms"]) == (False, [])
        refused = session.answer(asked | {"op": "pair"})["text"]
        several = session.answer({"op": "pair", "left": [1, 2], "right": [0, 1]})["text"]
        wrong = session.answer(asked | {"op": "pair", "transform": "split(0, 8, 8)"})["text"]
        none = session.answer(asked | {"left": []})["text"]
        texts[language] = answer["text"], refused, several, none
        assert "split(0, 8, 8)" in wrong
        assert session.value is BIASES
    assert texts["en"] == (
        "48 values against 16 values + 16 values",
        "in_proj cannot become q.bias + k.bias: 48 values against 16 values + 16 values",
        "sq + sk cannot become q.bias + k.bias: no transform makes several of several; choose one "
        "on either side",
        "choose a name on the left first",
    )
    assert texts["zh"][0] == "48 个值 ≠ 16 个值 + 16 个值"
    assert texts["zh"][2].endswith("没有变换能由多个得到多个；请在某一侧只选一个")
    other = open_session(pairing)
    other.answer({"op": "ready"})
    asked = {"op": "together", "left": [1, 2], "right": [1]}
    refused = "a pair has one entry on each side; choose one of each"
    assert (other.answer(asked)["ok"], other.answer(asked)["text"]) == (False, refused)
    assert other.answer(asked | {"op": "pair"})["text"] == refused
    alone = other.answer({"op": "together", "left": [1], "right": [1]})
    assert (alone["ok"], alone["text"]) == (True, "4 -> 4")
    assert not other.answer({"op": "together", "left": [1], "right": [2]})["ok"]


def test_a_joined_row_of_unknown_shapes_goes_together_as_it_was():
    rows = (WeightRow(("a", "b"), ("x",), Transform("concat", (1,))),)
    session = open_session(WeightMap(rows, {}))
    session.answer({"op": "ready"})
    session.answer({"op": "unpair", "key": "0>0"})
    answer = session.answer({"op": "together", "left": [0, 1], "right": [0]})
    assert answer["transforms"] == ["concat(1)", "concat(0)"]
    assert (answer["text"], answer["evidence"]) == ("", "the shapes of the source are not known")
    session.answer({"op": "pair", "left": [0, 1], "right": [0]})
    assert str(session.value["a"].transform) == "concat(1)"


def swapped():
    specs = {name: Spec((3, 3), F4) for name in "qk"}
    rows = tuple(WeightRow((name,), (name,)) for name in "qk")
    better = WeightRow(("q",), ("k",), Transform("transpose")), WeightRow(("k",), ("q",))
    return WeightMap(rows, specs, specs, suggestions=better)


def test_tensors_that_lie_in_each_others_place_are_put_right_by_one_act():
    session = open_session(swapped())
    session.answer({"op": "ready"})
    answer = session.answer({"op": "accept", "key": "1>1"})
    assert session.value.names == {"q": "k", "k": "q"}
    assert answer["summary"] == ["2 of 2 matched", "1 transformed"]
    session.answer({"op": "undo"})
    assert session.value.names == {"q": "q", "k": "k"}


def test_what_values_suggest_is_the_first_candidate_and_how_it_is_paired():
    session = open_session(swapped())
    session.answer({"op": "ready"})
    session.answer({"op": "unpair", "key": "0>0"})
    fits = session.answer({"op": "fits", "side": "left", "number": 0})
    expected = [1, "values suggest it by transpose; paired with k", "not"]
    assert fits["candidates"][0] == expected
    # Of the other side as well: q is in the source too, and is meant as a target here.
    fits = session.answer({"op": "fits", "side": "right", "number": 0})
    assert fits["candidates"][0] == [1, "values suggest it by copy; paired with k", "not"]
    together = session.answer({"op": "together", "left": [0], "right": [1]})
    assert together["transforms"][:2] == ["transpose", "copy"]
    session.answer({"op": "pair", "left": 0, "right": 1})
    assert str(session.value["q"].transform) == "transpose"


def test_what_is_expected_to_be_missing_can_be_wanted_again(pairing):
    session = open_session(pairing)
    session.answer({"op": "ready"})
    aside = {"op": "aside", "side": "left", "number": 2}
    assert session.answer(aside)["expected"] == [[2], []]
    again = session.answer(aside)
    assert (again["expected"], again["undo"]) == ([[], []], "expect a partner of c")
    assert session.value.table["note"].values.tolist().count("expected to be missing") == 0
    expected = pairing.expect_missing("c")
    assert expected.expect_missing("c") is expected
    assert expected.expect_missing("c", expected=False).unmatched_left == ["b", "c"]


@pytest.fixture
def editor():
    pytest.importorskip("anywidget")
    made = edit(MAP)
    made.heard = []
    made.send = made.heard.append
    return made


@pytest.mark.notebook
def test_the_value_is_a_complete_frozen_object_after_every_message(editor):
    editor._heard(editor, {"op": "ready", "re": 1})
    editor._heard(editor, {"op": "pair", "left": 0, "right": 0, "re": 2})
    assert isinstance(editor.value, WeightMap)
    assert editor.value.names == {"net.0.fc.weight": "body.0.fc.weight"}
    assert [answer["re"] for answer in editor.heard] == [1, 2]
    editor.value = editor.value.match_rest()
    assert editor.heard[-1]["re"] is None
    assert len(editor.undo()) == 1
    assert len(editor.redo()) == 3
    with pytest.raises(TypeError, match="edits a WeightMap, got a int"):
        editor.value = 3


@pytest.mark.notebook
def test_halves_of_surrogate_pairs_are_sent_escaped():
    pytest.importorskip("anywidget")
    specs = {"a\ud800b": Spec((2,), F4), "c": Spec((3,), F4)}
    made, sent = edit(WeightMap((), specs, specs, "l\udc80")), []
    twin = made._twin(made.value.pair("a\ud800b", "a\ud800b"))
    assert all("a\\ud800b" in text for text in twin.values())
    made.send = lambda answer: sent.append(json.dumps(answer, ensure_ascii=False).encode())
    for number, message in enumerate(
        [
            {"op": "ready"},
            {"op": "fits", "side": "left", "number": 0},
            {"op": "pair", "left": 0, "right": 1},  # refused by a sentence with its name
            {"op": "pair", "left": 0, "right": 0},
            {"op": "row", "key": "0>0"},
        ]
    ):
        made._heard(made, {**message, "re": number})
    assert len(sent) == 5
    assert json.loads(sent[0])["left"] == ["a\\ud800b", "c"]
    assert json.loads(sent[0])["labels"][0] == "l\\udc80"
    assert made.value.names == {"a\ud800b": "a\ud800b"}


@pytest.mark.notebook
def test_the_state_that_a_notebook_saves_is_small_and_holds_no_names(editor):
    names = {f"layers.{k}.weight": Spec((4, 4), F4) for k in range(2000)}
    large = edit(WeightMap((), names, names).match_rest())
    state = json.dumps(large.get_state(), default=str)
    assert len(state.encode()) < 100_000
    assert "layers.7.weight" not in state


@pytest.mark.notebook
def test_the_twin_of_a_large_map_or_pairing_follows_edits_that_are_far_down():
    names = [f"layers.{k}.w" for k in range(2000)]
    specs = {name: Spec((4, 4), F4) for name in names}
    value = WeightMap((), specs, specs).match_rest()
    swapped = value.unpair(names[1500]).unpair(names[1600])
    swapped = swapped.pair(names[1500], names[1600]).pair(names[1600], names[1500])
    dumps = [Dump.from_arrays({f"{s}{k}.w": np.full(2, k) for k in range(600)}) for s in "ab"]
    pairing = tnb.pair_dumps(*dumps)
    moved = pairing.pair("a400.w", "b500.w")
    shapes = {"html": 100_000}
    for before, after, seen in (
        (value, swapped, names[1500]),
        (value, value.transform(names[1700], "transpose"), names[1700]),
        (pairing, moved, "a400.w"),
    ):
        made = edit(before)
        twins = made._twin(before), made._twin(after)
        for kind in ("text/plain", "text/html"):
            text = re.sub("<[^>]+>", "", twins[1][kind])
            assert seen in text
            assert "1 of 1" in text or "2 of 2" in text
        assert len(twins[1]["text/html"].encode()) <= shapes["html"]
    # Of more edits than there is room for it says how many there are.
    renamed = replace(value, target=None).rename(prefix="net")
    many = replace(renamed, rows=tuple(replace(row, note="") for row in renamed))
    text = re.sub("<[^>]+>", "", edit(many)._twin(many)["text/html"])
    shown = re.search(r"Edited \((\d+) of 2,000\)", text)
    assert shown
    assert 20 < int(shown[1]) <= 200
    assert re.search(r"Edited \((\d+) of 2,000\)", repr(many))


@pytest.mark.notebook
def test_where_no_widget_can_be_shown_stands_a_sentence(editor):
    bundle, _ = editor._repr_mimebundle_()
    assert "run this cell" in bundle["text/html"]
    assert "run this cell" in bundle["text/plain"]
    assert "<script" not in bundle["text/html"]


@pytest.fixture
def shown(monkeypatch):
    """What is displayed, one after the other."""
    shown = []

    class Handle:
        def update(self, bundle, *, raw):
            shown.append(bundle["text/html"])

    def display(bundle, *, raw, display_id=None):
        shown.append(bundle["text/html"])
        return Handle() if display_id else None

    monkeypatch.setattr("troubleshooter_nb.widgets.mapping_editor.display", display)
    return shown


@pytest.mark.notebook
def test_the_twin_is_an_output_of_its_own_and_follows_every_change(editor, shown):
    editor._ipython_display_()
    assert "application/vnd" not in shown[1]
    editor._heard(editor, {"op": "rest", "re": 1})
    assert len(shown) == 3
    assert "auto-matched" in shown[2]
    editor._heard(editor, {"op": "fits", "side": "left", "number": 3, "re": 2})
    assert len(shown) == 3


@pytest.mark.notebook
def test_what_python_changes_is_in_the_twin_before_the_cell_ends(editor, shown):
    editor._ipython_display_()

    async def cell():  # a kernel runs cells inside a loop
        editor.value = editor.value.match_rest()
        return list(shown)

    at_the_end = asyncio.run(cell())
    assert len(at_the_end) == 3
    assert "auto-matched" in at_the_end[2]
    said = [(one["type"], one.get("due")) for one in editor.heard]
    assert said == [("rows", True), ("drawn", None)]
    editor.undo()
    assert len(shown) == 4


@pytest.mark.notebook
def test_the_page_is_told_when_the_twin_of_its_change_is_drawn(editor, shown, monkeypatch):
    monkeypatch.setattr("troubleshooter_nb.widgets.mapping_editor._QUIET", 0.05)
    editor._ipython_display_()

    async def page():
        editor._heard(editor, {"op": "rest", "re": 1})
        assert (editor.heard[-1]["due"], len(shown)) == (True, 2)
        for number in range(20):  # questions that come all the time put it off, but not for ever
            await asyncio.sleep(0.1)
            editor._heard(editor, {"op": "fits", "side": "left", "number": 3, "re": 2 + number})
            if len(shown) > 2:
                break
        return editor.heard[-2]["type"], editor.heard[-1]["due"]

    assert asyncio.run(page()) == ("drawn", False)
    assert "auto-matched" in shown[2]


@pytest.mark.notebook
def test_the_twin_keeps_the_options_under_which_the_editor_was_made():
    matched = MAP.match_rest()
    with tnb.option_context(ascii=True, html_bytes=2500):
        editor = edit(matched)
    # Messages of the page come in a context of their own, as this one.
    twin = editor._twin(matched)
    assert "·" in edit(matched)._twin(matched)["text/plain"]
    assert twin["text/plain"].isascii()
    assert repr(editor).isascii()
    assert "·" in repr(edit(matched))
    assert len(twin["text/html"]) < len(edit(matched)._twin(matched)["text/html"])


@pytest.mark.notebook
def test_a_twin_that_cannot_be_drawn_says_why(editor, shown, monkeypatch):
    def broken(self):
        msg = "no room <b>"
        raise ValueError(msg)

    monkeypatch.setattr(WeightMap, "_repr_html_", broken)
    editor._ipython_display_()
    assert "WeightMap: ValueError: no room &lt;b&gt;" in shown[1]


@pytest.mark.notebook
def test_the_twin_says_what_to_do_where_no_editor_is_shown(editor):
    html = editor._twin(editor.value)["text/html"]
    assert "lacks anywidget: pip install &#x27;troubleshooter_nb[notebook]&#x27;" in html


@pytest.mark.notebook
def test_a_fault_of_the_kernel_is_answered_and_not_called_silence(editor, monkeypatch):
    def broken(message):
        raise KeyError

    monkeypatch.setattr(editor._session, "answer", broken)
    with pytest.raises(KeyError):
        editor._heard(editor, {"op": "ready", "re": 1})
    assert (editor.heard[0]["type"], editor.heard[0]["re"]) == ("error", 1)
    assert editor.heard[0]["text"].startswith("the kernel met an error")


@pytest.mark.notebook
def test_saving_from_python_warns_where_the_cell_stands(editor, tmp_path):
    editor.value = MAP.drop("counter")
    with pytest.warns(TroubleshooterWarning, match="without 1 dropped or kept tensor") as caught:
        assert editor.save(tmp_path / "m.json") == tmp_path / "m.json"
    assert caught[0].filename == __file__


@pytest.mark.notebook
def test_an_executed_notebook_holds_the_last_state(tmp_path):
    nbclient = pytest.importorskip("nbclient")
    from nbformat.v4 import new_code_cell, new_notebook

    (tmp_path / "m.yaml").write_text("weights:\n- {from: l0, to: r0}\n- {from: l1, to: r1}\n")
    cells = [
        "import numpy as np, troubleshooter_nb as tnb\n"
        "left, right = ({f'{s}{k}': np.full(2 + k, 1.0) for k in range(4)} for s in 'lr')\n"
        "editor = tnb.edit(tnb.read_weight_map('m.yaml'), source=left, target=right)\neditor",
        "editor.value = editor.value.match_rest()",
        "editor.save('again.yaml')\n"
        "again = tnb.edit(tnb.read_weight_map('again.yaml'), source=left, target=right)\n"
        "print(again.value.names == editor.value.names, again.value.problems())\nagain",
    ]
    notebook = new_notebook(cells=[new_code_cell(text) for text in cells])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute(cwd=tmp_path)
    twins = [notebook.cells[k].outputs[-1].data["text/plain"] for k in (0, 2)]
    assert all("4 rows" in twin for twin in twins)
    assert notebook.cells[2].outputs[0].text == "True []\n"


@pytest.mark.notebook
def test_names_of_files_are_escaped_in_the_twin():
    specs = {HOSTILE: Spec((2,), F4)}
    made = edit(WeightMap((), specs, specs).match_rest())
    assert "<img" not in made._twin(made.value)["text/html"].partition("</style>")[2]


def test_without_anywidget_the_door_says_what_to_do(monkeypatch):
    monkeypatch.setattr("troubleshooter_nb.widgets.find_spec", lambda name: None)
    with pytest.raises(ExtraMissingError, match=r"edit\(\) needs anywidget and ipywidgets") as info:
        edit(MAP)
    assert info.value._render_traceback_() == [str(info.value)]


@pytest.mark.notebook
@pytest.mark.parametrize("value", ["map.yaml", None, 3])
def test_only_maps_and_pairings_are_edited(value):
    with pytest.raises(TypeError, match=r"edit\(\) takes a WeightMap or a Pairing"):
        edit(value)


def test_importing_the_door_loads_nothing_of_jupyter():
    code = (
        "import sys, troubleshooter_nb.widgets;"
        "sys.exit(any(m in sys.modules for m in ('anywidget', 'ipywidgets', 'IPython')))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0
