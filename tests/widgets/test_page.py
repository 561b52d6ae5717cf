"""What a page has made of the changes that it was told is what a new page is told at once."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import troubleshooter_nb as tnb
from troubleshooter_nb.weight_map import Spec, Transform, WeightMap, WeightRow
from troubleshooter_nb.widgets.editing import open_session

F4 = np.dtype("f4")
NAMES = [f"layers.{k}.w" for k in range(4)]
SPECS = {name: Spec((2, 2), F4) for name in NAMES}
ROWS = tuple(WeightRow((name,), (name.replace("layers", "blocks"),)) for name in NAMES)
JOINED = WeightRow(("a", "b"), ("ab",), Transform("concat", (0,)))
BETTER = WeightRow((NAMES[1],), (NAMES[2],)), WeightRow((NAMES[2],), (NAMES[1],))
VALUES = {
    "target not known": lambda: WeightMap(ROWS, SPECS),
    "nothing known": lambda: WeightMap((*ROWS, JOINED), {}),
    "tied": lambda: WeightMap((*ROWS, WeightRow((NAMES[0],), ("head.w",))), SPECS),
    "both known": lambda: WeightMap(
        tuple(WeightRow((name,), (name,)) for name in NAMES), SPECS, SPECS, suggestions=BETTER
    ),
    "pairing": lambda: tnb.pair_dumps(
        {"a": np.ones(2), "b": np.ones(3), "c": np.ones(3)},
        {"a": np.ones(2), "x": np.ones(3), "y": np.ones(4)},
    ),
}


class Page:
    """What `mapping_editor.js` keeps: the state, and what `changed` makes of it."""

    def __init__(self, state):
        self.state = json.loads(json.dumps(state))

    def hear(self, answer):
        answer = json.loads(json.dumps(answer))
        if answer["type"] == "state":
            self.state = answer
        if answer["type"] != "rows":
            return
        state = self.state
        for side, number, name, shape, is_there in answer["names"]:
            if shape not in state["shapes"]:
                state["shapes"].append(shape)
            word = ("left", "right")[side]
            names, shapes = state[word], state[f"{word}_shapes"]
            if number == len(names):
                names.append(None)
                shapes.append(None)
            names[number], shapes[number] = name, state["shapes"].index(shape)
            absent = {*state["absent"][side]} - {number}
            state["absent"][side] = sorted(absent | (set() if is_there else {number}))
        kept = [row for row in state["rows"] if row[0] not in answer["gone"]]
        put = {row[0]: row for row in answer["put"]}
        state["rows"] = [row for row in kept if row[0] not in put] + [*put.values()]
        for key in ("undo", "redo", "expected", "summary"):
            state[key] = answer[key]

    def shown(self):
        shown = {key: self.state[key] for key in self.state.keys() - {"re", "first", "revision"}}
        return shown | {"rows": sorted(self.state["rows"])}

    def there(self):
        """The names that are there, with whether they have a partner, in any order."""
        sides = zip(("left", "right"), (1, 2), self.state["absent"], strict=True)
        return [
            {
                (name, any(number in row[at] for row in self.state["rows"]))
                for number, name in enumerate(self.state[side])
                if number not in absent
            }
            for side, at, absent in sides
        ]


def message_of(state, kind, a, b):
    """A message about something that is there, as far as there is anything."""
    rows, left, right = state["rows"], state["left"], state["right"]
    key = rows[a % len(rows)][0] if rows else ""
    numbers = {"left": a % max(len(left), 1), "right": b % max(len(right), 1)}
    return {
        "name": {"left": numbers["left"], "name": f"new.{b}"},
        "rename to old": {"op": "name", "left": numbers["left"], "name": (*right, "x")[b % 4]},
        "transform": {"key": key, "transform": ("transpose", "copy", "reshape(2, 2)")[b % 3]},
        "unpair": {"key": key},
        "accept": {"key": key},
        "pair": {**numbers, "key": None},
        "drop on row": {"op": "pair", **numbers, "key": key},
        "aside": {"side": ("left", "right")[b % 2], "number": a % 4},
        "rest": {},
        "undo": {},
        "redo": {},
    }[kind]


def act(session, page, kind, a, b):
    if kind == "outside":
        if page.state["kind"] == "pairing":
            return
        rows = tuple(session.value)[a % 2 :]
        value = WeightMap(rows, session.value.source, session.value.target)
        page.hear(session.replace(value, "set"))
        if value.target is None:
            page.hear(session.replace(session.value.rename(prefix=f"p{b}"), "set"))
        return
    message = message_of(page.state, kind, a, b)
    page.hear(session.answer({"op": kind, **message, "numbering": page.state["numbering"]}))


KINDS = (
    "name, rename to old, transform, unpair, accept, pair, drop on row, aside, rest, undo, redo, "
    "outside"
).split(", ")
STEPS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 9), st.integers(0, 9)), max_size=25
)


@pytest.mark.parametrize("value", VALUES)
@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_after_any_edits_a_page_has_what_a_new_one_is_told(value, steps):
    session = open_session(VALUES[value]())
    page = Page(session.answer({"op": "ready"}))
    for step in steps:
        act(session, page, *step)
        whole = Page(session.answer({"op": "ready"}))
        assert page.shown() == whole.shown()


@pytest.mark.parametrize("value", VALUES)
@settings(max_examples=30, deadline=None)
@given(steps=STEPS)
def test_what_is_undone_is_as_it_was_with_the_names_it_had(value, steps):
    session = open_session(VALUES[value]())
    page = Page(session.answer({"op": "ready"}))
    before = page.there(), sorted(page.state["rows"])
    for step in steps:
        act(session, page, *step)
    after = page.there(), sorted(page.state["rows"])
    count = 0
    while page.state["undo"] is not None:
        page.hear(session.answer({"op": "undo"}))
        count += 1
    assert (page.there(), sorted(page.state["rows"])) == before
    for _ in range(count):
        page.hear(session.answer({"op": "redo"}))
    assert (page.there(), sorted(page.state["rows"])) == after


def large():
    specs = {f"layers.{k}.attention.weight": Spec((4, 4), F4) for k in range(2000)}
    rows = tuple(WeightRow((name,), (name.replace("layers", "blocks"),)) for name in specs)
    return WeightMap(rows, specs)


def test_a_rename_among_two_thousand_rows_sends_the_change_alone():
    session = open_session(large())
    page = Page(session.answer({"op": "ready"}))
    for number in (700, 1999, 0):
        parted = session.answer({"op": "unpair", "key": f"{number}>{number}"})
        named = session.answer({"op": "name", "left": number, "name": f"other.{number}.weight"})
        undone, redone = session.answer({"op": "undo"}), session.answer({"op": "redo"})
        for answer in (parted, named, undone, redone):
            assert len(json.dumps(answer).encode()) < 1000  # a page is told 2,000 names in 230 KB
            page.hear(answer)
        assert named["summary"] == ["2,000 of 2,000 matched"]
        assert undone["summary"][1:] == ["1 unmatched left", "1 unmatched right"]
    assert page.shown() == Page(session.answer({"op": "ready"})).shown()


def test_a_target_that_was_renamed_is_there_no_more_until_that_is_undone():
    session = open_session(VALUES["target not known"]())
    page = Page(session.answer({"op": "ready"}))
    act(session, page, "unpair", 0, 0)
    assert ("blocks.0.w", False) in page.there()[1]
    page.hear(session.answer({"op": "name", "left": 0, "name": "made.up"}))
    assert page.there()[1] == {("made.up", True), *((f"blocks.{k}.w", True) for k in (1, 2, 3))}
    # A second name takes the place of the first one, whether it is parted before or not.
    page.hear(session.answer({"op": "name", "left": 0, "name": "made.up.again"}))
    assert "made.up" not in dict(page.there()[1])
    assert session.summary() == ["4 of 4 matched"]
    for _ in range(2):
        page.hear(session.answer({"op": "undo"}))
    assert ("blocks.0.w", False) in page.there()[1]
    assert session.answer({"op": "fits", "side": "left", "number": 0})["former"] == "blocks.0.w"
    # A name that is there already is no new one: what it takes the place of may be paired again.
    page.hear(session.answer({"op": "name", "left": 0, "name": "blocks.1.w"}))
    assert ("blocks.0.w", False) in page.there()[1]
    page.hear(session.answer({"op": "rest"}))
    assert ("blocks.0.w", False) in page.there()[1]


def test_targets_that_python_renames_leave_no_old_names():
    session = open_session(VALUES["tied"]())
    session.answer({"op": "ready"})
    told = session.replace(session.value.rename(prefix="net"), "set")
    assert told["type"] == "rows"
    assert told["summary"] == ["4 of 4 matched"]
    # One that is unpaired there is still on offer.
    told = session.replace(session.value.unpair("net.blocks.3.w"), "set")
    assert told["summary"][1:] == ["1 unmatched left", "1 unmatched right"]
    assert session.answer({"op": "rest"})["said"] == "pairs made: 1"
    assert session.value["net.blocks.3.w"].sources == (NAMES[3],)


def test_a_name_that_joins_several_is_kept_while_one_of_them_is_left():
    session = open_session(VALUES["nothing known"]())
    page = Page(session.answer({"op": "ready"}))
    joint = next(row[0] for row in page.state["rows"] if len(row[1]) == 2)
    page.hear(session.answer({"op": "unpair", "key": joint}))
    numbers = {name: number for number, name in enumerate(page.state["left"])}
    page.hear(session.answer({"op": "name", "left": numbers["a"], "name": "a.alone"}))
    assert ("ab", False) in page.there()[1]
    assert ("b", False) in page.there()[0]
    page.hear(session.answer({"op": "name", "left": numbers["b"], "name": "b.alone"}))
    assert "ab" not in dict(page.there()[1])


def test_every_message_of_changed_names_is_one_that_the_page_reads():
    """The page reads names by these places; see `know` of mapping_editor.js."""
    session = open_session(VALUES["target not known"]())
    session.answer({"op": "ready"})
    named = session.answer({"op": "name", "left": 0, "name": "made.up"})
    assert named["names"] == [[1, 0, "blocks.0.w", "", False], [1, 4, "made.up", "", True]]
    assert named["put"][0][:3] == ("0>4", [0], [4])
    assert named["gone"] == ["0>0"]
