"""What a recording lacks, as an object."""

from __future__ import annotations

import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.capture.missing import KINDS, Missing, MissingRow
from troubleshooter_nb.errors import ArgumentTypeError

ROWS = (
    ("parameter_without_gradient", ["fc.bias"], 1),
    ("compiled", ["net.body"], 1),
    ("no_values", ["rope"], 2, "meta"),
    ("compiled", ["net.body", "net.head"], 2),
)


def test_rows_of_a_kind_are_put_together_and_the_worst_kinds_come_first():
    missing = Missing(ROWS)
    assert [*missing] == [
        MissingRow("compiled", ("net.body", "net.head"), 3),
        MissingRow("no_values", ("rope",), 2, "meta"),
        MissingRow("parameter_without_gradient", ("fc.bias",), 1),
    ]
    assert len(missing) == 3
    assert missing.of_kind("compiled") == ("net.body", "net.head")
    assert missing.of_kind("raised") == ()


def test_nothing_missing_is_false_and_equal_to_nothing():
    assert not Missing()
    assert Missing(ROWS)
    assert Missing() == Missing(()) != Missing(ROWS)
    assert Missing(ROWS[:2]) == Missing(ROWS[1::-1])
    assert repr(Missing()) == "✓ nothing is missing: all that was asked for was recorded"


def test_a_row_can_be_unpacked():
    ((kind, where, count, detail),) = Missing(ROWS[2:3])
    assert (kind, where, count, detail) == ("no_values", ("rope",), 2, "meta")


def test_lines_of_a_record_may_lack_keys_and_have_others():
    missing = Missing.of_events(
        [
            {"kind": "not_called", "where": ["a", "b"]},
            {"kind": "raised", "where": "c", "count": None, "detail": "ValueError", "x": 1},
            {"kind": "open"},
            {"kind": "of_tomorrow", "where": ["d"], "count": 4},
        ]
    )
    assert [(row.kind, row.where, row.count) for row in missing] == [
        ("raised", ("c",), 1),
        ("open", (), 1),
        ("not_called", ("a", "b"), 2),
        ("of_tomorrow", ("d",), 4),
    ]
    assert "was not recorded: of_tomorrow" in repr(missing)


@pytest.mark.parametrize("row", ["compiled", ("compiled",), 3, None])
def test_what_is_no_row_is_refused(row):
    with pytest.raises(ArgumentTypeError, match=r"what is missing is \(kind, where, count"):
        Missing((row,))


def test_the_table_says_what_to_do_in_the_language_in_force():
    table = Missing(ROWS).to_dataframe()
    assert table.columns.tolist() == ["kind", "where", "count", "detail", "what", "cure", "code"]
    assert table["code"].tolist()[0] == 'tnb.record(net, compiled="eager")'
    assert table["what"].tolist()[1] == "had no values to read (meta)"
    with tnb.option_context(language="zh"):
        assert Missing(ROWS).to_dataframe()["cure"].tolist()[0] == "以非编译方式记录："
    assert Missing().to_dataframe().columns.tolist() == table.columns.tolist()


def test_every_kind_has_its_own_words():
    table = Missing(tuple((kind, ["a"]) for kind in KINDS)).to_dataframe()
    assert table["kind"].tolist() == list(KINDS)
    assert table["what"].is_unique
    # Code stands behind the sentence that leads to it, and nowhere else.
    assert [text.endswith(":") for text in table["cure"]] == [bool(code) for code in table["code"]]


def test_code_of_cures_is_python():
    for kind in KINDS.values():
        code = kind.code if not kind.code.startswith("return") else f"def f(): {kind.code}"
        compile(code, "cure", "exec")
