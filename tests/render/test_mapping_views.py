"""Reprs of weight maps and pairings: how much stands open, and which rows values speak against."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest

from troubleshooter_nb import (
    Dump,
    draft_weight_map,
    option_context,
    pair_dumps,
    read_weight_map,
    write_weight_map,
)
from troubleshooter_nb.messages import Message, joined
from troubleshooter_nb.weight_map import Spec, WeightMap
from troubleshooter_nb.weight_map.doubts import is_contradicted
from troubleshooter_nb.widgets.editing import open_session

F4 = np.dtype("f4")


class _Lines(HTMLParser):
    """Counts the lines that are seen before anything is opened, and all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = self.all = 0
        self._blocks: list[bool] = []  # whether each block around is open
        self._summary = False

    def handle_starttag(self, tag, attrs):
        if tag == "details":
            self._blocks.append("open" in dict(attrs))
        if tag in ("tr", "summary", "h3", "h4", "p"):
            self.all += 1
            # A summary is seen where the blocks around its own are open.
            around = self._blocks[:-1] if tag == "summary" else self._blocks
            self.seen += all(around)

    def handle_endtag(self, tag):
        if tag == "details":
            self._blocks.pop()


def lines_of(value):
    lines = _Lines()
    with option_context(html_bytes=100_000):
        lines.feed(value._repr_html_())
    return lines


def large(edits):
    """400 rows of 40 blocks under other names, so many of them transposed by hand."""
    source = {f"model.layers.{k // 10}.part{k % 10}.weight": Spec((64, 64), F4) for k in range(400)}
    target = {name.replace("model.layers", "net.blocks"): spec for name, spec in source.items()}
    drawn = WeightMap((), source, target, "net.pth", "net.ckpt").match_rest()
    for name in list(source)[:edits]:
        drawn = drawn.transform(name, "transpose")
    return drawn


@pytest.mark.parametrize("edits", [0, 1, 100])
def test_a_large_map_stays_below_the_height_at_which_notebook_7_scrolls(edits):
    lines = lines_of(large(edits))
    # 100 lines are 1,820 pixels; the editor takes up to 1,050 of them and a row 24.
    assert lines.seen <= 30
    assert lines.all > 200


def test_the_first_rows_are_seen_and_the_others_are_counted():
    text = large(100)._repr_html_()
    assert '<summary style="display:list-item">94 more</summary>' in text
    assert '<summary style="display:list-item">34 more</summary>' in text
    before, _, _ = text.partition('<summary style="display:list-item">94 more</summary>')
    assert before.count("<tr") == 1 + 6
    assert "model.layers.0.part5.weight" in before
    with option_context(language="zh"):
        assert '<summary style="display:list-item">另有 94 项</summary>' in large(100)._repr_html_()


def test_a_large_pairing_stays_below_it_as_well():
    arrays = {f"layers.{k}.weight": np.ones((2, k + 1), np.float32) for k in range(60)}
    pairing = pair_dumps(Dump.from_arrays(arrays), Dump.from_arrays(arrays))
    for name in list(arrays)[:30]:
        pairing = pairing.unpair(name)
    for name in list(arrays)[30:40]:
        pairing = pairing.unpair(name).pair(name, name)
    lines = lines_of(pairing)
    assert lines.seen <= 30
    assert lines.all > 70
    text = pairing._repr_html_()
    assert text.count('<summary style="display:list-item">24 more</summary>') == 2
    assert '<summary style="display:list-item">4 more</summary>' in text


def test_a_small_map_stands_open():
    source = {f"a{k}": Spec((4,), F4) for k in range(6)}
    drawn = WeightMap((), source, {f"{name}.w": spec for name, spec in source.items()})
    for name in source:
        drawn = drawn.pair(name, f"{name}.w")
    lines = lines_of(drawn)
    assert lines.seen == lines.all


_TURNED = {"relation": "the target is the source, transposed", "residual": 0.0}


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        (joined(["renamed", Message("weight_maps.values_related", **_TURNED)]), True),
        (Message("weight_maps.values_of_other", name="b", how="", also=""), True),
        (Message("weight_maps.values_differ", found=""), True),
        (Message("weight_maps.by_values", **_TURNED), False),
        (joined(["renamed", Message("weight_maps.by_values", **_TURNED)]), False),
        (Message("values.equal"), False),
        ("values differ, as a person typed", False),
        ("", False),
    ],
)
def test_values_speak_against_a_row_where_its_note_says_so(note, expected):
    assert is_contradicted(note) is expected


def test_rows_that_values_made_or_prove_bear_no_warning_in_the_editor():
    rng = np.random.default_rng(0)
    source = {f"l.{name}.weight": rng.normal(size=(24, 24)).astype("f4") for name in "qkvo"}
    target = dict(source)
    target["l.q.weight"] = np.ascontiguousarray(source["l.q.weight"].T)
    drafted = draft_weight_map(source, target)
    taken = drafted.accept("l.q.weight")
    for value, wrong in ((drafted, ["l.q.weight"]), (taken, [])):
        session = open_session(value)
        rows = session.answer({"op": "ready"})["rows"]
        assert [session.name("left", row[1][0]) for row in rows if row[6]] == wrong
    assert taken["l.q.weight"].note.startswith("by values: ")


def taken(order):
    ranges = ", ".join(map(str, order))
    specs = {"embedding": Spec((len(order), 4), F4)}
    return WeightMap((), specs, dict(specs), "net.pth", "net.ckpt").pair(
        "embedding", "embedding", f"transpose | take(1, {ranges}) | transpose"
    )


@pytest.mark.parametrize("ascii", [False, True])
def test_a_transform_of_many_arguments_is_shortened_and_its_last_step_shown(ascii, tmp_path):
    order = [*range(999, -1, -1)]
    drawn = taken(order)
    end = "..." if ascii else "…"
    with option_context(ascii=ascii):
        text = repr(drawn)
    wanted = f"transpose | take(1, 999, 998, 997, 996, 995, 994, 993, {end}) | transpose"
    assert wanted in text
    assert "take(1, 999, 998, 997, 996, 995, 994, 993, …) | transpose" in drawn._repr_html_()
    # What is read by programs, and files, have all of it.
    assert drawn.to_dataframe()["transform"][0].count(",") == 1000
    again = read_weight_map(write_weight_map(drawn, tmp_path / "map.yaml"))
    assert again.rows[0].transform == drawn.rows[0].transform


def test_of_many_joined_names_the_text_shows_the_first_and_the_last():
    specs = {f"experts.{k}.weight": Spec((8, 4), F4) for k in range(16)}
    drawn = WeightMap((), specs, {"experts.weight": Spec((16, 8, 4), F4)}).pair(
        list(specs), "experts.weight", "stack(0)"
    )
    line = "experts.0.weight + … + experts.15.weight -> experts.weight  stack(0)"
    assert line in repr(drawn)
    back = WeightMap((), drawn.target, specs).pair("experts.weight", list(specs), "unstack(0, 16)")
    line = "experts.weight -> experts.0.weight + … + experts.15.weight  unstack(0, 16)"
    assert line in repr(back)
