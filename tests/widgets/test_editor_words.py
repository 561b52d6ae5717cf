"""What the editor says of others' sentences in Chinese: no English is left but names and code."""

from __future__ import annotations

import itertools
import re
import warnings

import numpy as np
import pytest

from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.errors import TroubleshooterError, WeightMapError
from troubleshooter_nb.formats.pairing_writer import unsaid_in_mapping, write_mapping
from troubleshooter_nb.messages import Message, message_of, told
from troubleshooter_nb.naming import Site
from troubleshooter_nb.options import option_context
from troubleshooter_nb.pairing import Match, Pairing
from troubleshooter_nb.weight_map import KINDS, Spec, Transform, WeightMap, WeightRow
from troubleshooter_nb.widgets.editing import open_session
from troubleshooter_nb.widgets.words import editor_word

F4 = np.dtype("f4")
# What stays as it is: names of transforms, of kinds of files and of parts, and code.
_KEPT = {*KINDS, *("api cell data layer rank yaml json dtype scalar".split())}
_CODE = re.compile(r"'[^']*'|[\w.]+\([^()]*\)|\w+\.\w[\w.]*|\w+=\S*|float\d+|int\d+|~\S+")
TRANSFORMS = (
    "concat(0) concat(5) add permute(0) permute(0,0) permute(0,9) permute(a) reshape reshape(3) "
    "reshape(-1,-1) split split(0) split(0,1) split(9,1) expand_dims expand_dims(9) squeeze(0) "
    "squeeze(9) squeeze(-9) transpose weight_norm weight_norm(0) weight_norm(0,7) "
    "weight_norm(1,2,3) cast(foo) cast(3) copy(1) Transpose trnspose !!"
).split()
SHAPES = [(), (4, 2), (1, 2), (2, 3, 4)]


def english_in(text):
    """Words of English that are neither names nor code."""
    found = re.findall(r"[A-Za-z_]{2,}", _CODE.sub(" ", text))
    return [word for word in found if word not in _KEPT]


def said_of(transform, *shapes):
    try:
        Transform.parse(transform).specs([Spec(shape, F4) for shape in shapes])
    except WeightMapError as error:
        return message_of(error)
    return ""


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_why_a_transform_does_not_fit_is_said_in_chinese(transform):
    said = {
        said_of(transform, *shapes)
        for count in (1, 2, 3)
        for shapes in itertools.product(SHAPES, repeat=count)
    } - {""}
    assert said
    for text in said:
        assert not english_in(told(text, "zh")), text
        assert told(text, "en") == text
        assert "Spec(" not in text


SPECS = {"a": Spec((4, 2), F4), "b": Spec((4, 2), F4), "g": Spec((8,), F4)}
SEVERAL = WeightMap(
    (WeightRow(("a",), ("x",)), WeightRow(("a",), ("y",)), WeightRow(("b",), ("z",))),
    SPECS,
    {name: Spec((4, 2), F4) for name in "xyzw"},
    "net.pth",
    "net.ckpt",
)
PARTS = {f"fc.weight_{part}": Spec(shape, F4) for part, shape in (("g", (4, 1)), ("v", (4, 2)))}
NORMED = WeightMap((), PARTS, {"fc.weight": Spec((4, 2), F4)})
CALLS = {
    "several in a row": lambda: SEVERAL.pair("a", ["x", "x"], "split(0, 2, 2)"),
    "goes to others": lambda: SEVERAL.pair("a", "w"),
    "goes to several": lambda: SEVERAL.transform("a", "copy"),
    "no row": lambda: SEVERAL.transform("nope", "copy"),
    "no name": lambda: SEVERAL.pair("nope", "x"),
    "no suggestion": lambda: SEVERAL.accept("a"),
    "another shape": lambda: SEVERAL.pair("b", "w", "transpose"),
    "a part": lambda: NORMED.pair("fc.weight_v", "fc.weight"),
}


@pytest.mark.parametrize("case", CALLS)
def test_why_a_row_is_not_made_is_said_in_chinese(case):
    with pytest.raises(TroubleshooterError, match=r".") as caught:
        CALLS[case]()
    text = told(message_of(caught.value), "zh")
    assert not english_in(text), text


@pytest.mark.parametrize(
    "path", ["m.txt", "m", "none\0.yaml", "~nobodyx/m.yaml", "two.json", "half.yaml", "blank.yaml"]
)
def test_why_a_map_is_not_saved_is_said_in_chinese(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    names = {"half.yaml": "b\ud800", "blank.yaml": " "}
    name = names.get(path, "b")
    rows = SEVERAL.rows if path == "two.json" else (WeightRow((name,), ("x",)),)
    session = open_session(
        WeightMap(rows, SPECS | {name: SPECS["b"]}, SEVERAL.target), None, None, "zh"
    )
    answer = session.answer({"op": "save", "path": path})
    assert answer["type"] == "error"
    assert not english_in(answer["text"].replace("\ud800", "")), answer["text"]


def test_what_the_json_leaves_out_is_said_in_chinese(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = (WeightRow(("a",), ("x",)), WeightRow(("b",), (), Transform("drop")))
    session = open_session(WeightMap(rows, SPECS, SEVERAL.target), None, None, "zh")
    answer = session.answer({"op": "save", "path": "m.json"})
    assert answer["type"] == "saved"
    assert not english_in(answer["left_out"][0]), answer["left_out"]


def dump(kind, *names, steps=(0,), layer="Dense"):
    """Each name as one output in every step."""
    entries = [
        Entry(
            name,
            Site(kind, name, call, "forward", "output", "0"),
            ArrayInMemory(np.ones(2)),
            order=k,
            step=step,
            layer=layer,
        )
        for step in steps
        for k, (name, call) in enumerate((one, 0) if isinstance(one, str) else one for one in names)
    ]
    return Dump.from_entries(entries)


def paired(left, right, *rows, **facts):
    return Pairing.from_matches(left, right, [Match(*row, "user", 1.0, **facts) for row in rows])


_STEPS = dump("module", "a", "c", steps=(0, 1))
PAIRINGS = {
    "other step": ("data", paired(_STEPS, _STEPS, (0, 0), (1, 1), (2, 3), (3, 2))),
    "half": ("data", paired(dump("file", "b\ud800"), dump("file", "a"), (0, 0))),
    "nothing": ("layer", paired(dump("file", "a"), dump("file", "a"), (0, 0))),
    "no module": ("cell", paired(dump("file", "a"), dump("file", "a"), (0, 0))),
    "no operator": ("api", paired(dump("file", "a"), dump("file", "a"), (0, 0))),
    "small class": (
        "cell",
        paired(dump("module", "a", layer="dense"), dump("module", "a", layer="dense"), (0, 0)),
    ),
    "two partners": ("cell", paired(_STEPS, _STEPS, (0, 0), (1, 0))),
    "calls": ("api", paired(dump("api", ("F.a", 0)), dump("api", ("F.a", 3)), (0, 0))),
}


@pytest.mark.parametrize("case", PAIRINGS)
def test_why_a_mapping_is_not_written_is_said_in_chinese(tmp_path, case):
    kind, pairing = PAIRINGS[case]
    answer = open_session(pairing, language="zh").answer(
        {"op": "save", "path": str(tmp_path / "m.yaml"), "kind": kind}
    )
    assert answer["type"] == "error"
    said = re.sub(r"F\.a|\ud800", "", answer["text"])
    assert not english_in(said), answer["text"]


def test_what_a_mapping_leaves_out_is_said_in_chinese(tmp_path):
    left, right = dump("module", "a", "b", "c", "d"), dump("module", "a", "b", "c", "d")
    rows = [
        Match(0, 0, "name", 1.0),
        Match(1, -1, "unmatched", np.nan),
        Match(-1, 1, "unmatched", np.nan),
    ]
    note = Message("pairings.expected")
    rows += [Match(2, -1, "unmatched", np.nan, note, expected=True), Match(3, 2, "user", 1.0)]
    rows += [Match(-1, 3, "unmatched", np.nan, note, expected=True)]
    pairing = Pairing.from_matches(left, right, rows)
    lines = unsaid_in_mapping(pairing, "layer")
    assert len(lines) >= 4
    for line in lines:
        assert not english_in(told(line, "zh")), line
        unsaid = editor_word("unsaid", "zh", kind="layer", count=1, first=line)
        assert not english_in(unsaid), line
    for kind in ("data", "layer"):
        with warnings.catch_warnings(record=True) as caught, option_context(language="zh"):
            warnings.simplefilter("always")
            write_mapping(pairing, tmp_path / "m.yaml", kind=kind)
        assert "无法表示这些未配对" in str(caught[0].message)
        assert not english_in(str(caught[0].message)), caught[0].message


def test_what_is_expected_in_one_step_alone_is_said_in_chinese(tmp_path):
    left, right = dump("file", "a", "b", steps=(0, 1)), dump("file", "a", steps=(0, 1))
    rows = [Match(0, 0, "name", 1.0), Match(1, -1, "unmatched", np.nan, expected=True)]
    rows += [Match(2, 1, "name", 1.0), Match(3, -1, "unmatched", np.nan)]
    answer = open_session(Pairing.from_matches(left, right, rows), language="zh").answer(
        {"op": "save", "path": str(tmp_path / "m.yaml"), "kind": "data"}
    )
    assert answer["type"] == "saved"
    (said,) = [text for text in answer["left_out"] if "因此未写入" in text]
    assert said.endswith("左侧 b")
    assert not english_in(said), said
    sides = ["left", "right", "left", "right", "left", "right"]
    names = [
        Message(f"pairings.on_{side}", name=n) for side, n in zip(sides, "abcdef", strict=True)
    ]
    both = Message("mappings.cannot_say_in_part", file="m.yaml", names=names)
    assert both.endswith("at all: a on the left, b on the right, c on the left and 3 more")
    assert told(both, "zh").endswith("左侧 a、右侧 b、左侧 c，另有 3 项")
