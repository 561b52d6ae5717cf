"""Lines of text: ASCII marks, gaps between texts, and where Chinese may be cut."""

from __future__ import annotations

import pytest

import troubleshooter_nb as tnb
from tests.analysis.runs import chain
from troubleshooter_nb.render.lines import fitted, gap, spaced, wrapped

ASCII = {"ascii": True, "language": "en"}
ZH = {"ascii": False, "language": "zh"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a · b", "a | b"),
        (
            "pass = |left − right| ≤ 1.0e-4 + 1.0e-4·|right| everywhere · in float64",
            "pass = |left - right| <= 1.0e-4 + 1.0e-4*|right| everywhere; in float64",
        ),
        ("  · names: a → b", "  - names: a -> b"),
        ("right = left × 2", "right = left x 2"),
    ],
)
def test_ascii_keeps_the_meaning_of_every_mark(text, shown):
    assert fitted([text], ASCII) == shown
    assert " ".join(wrapped(text, ASCII)) == shown.strip() or text.startswith(" ")


def test_the_criterion_is_true_in_ascii():
    with tnb.option_context(ascii=True):
        text = repr(tnb.compare(chain(), chain()))
    assert "|left - right| <= 1.0e-4 + 1.0e-4*|right| everywhere; figures in float64" in text
    assert "||" not in text


def test_chinese_marks_bring_their_own_space():
    assert spaced("首个差异：", "fc1") == "首个差异：fc1"
    assert spaced("first at", "fc1", "", "(#3)") == "first at fc1 (#3)"
    assert spaced("", "") == ""
    assert (gap("。"), gap("a")) == ("", " ")


def test_no_line_begins_with_a_closing_mark_or_ends_with_an_opening_one():
    text = "两侧都取归一化之前的张量作残差（apply_residual_connection_post_layernorm）。" * 6
    for shift in range(12):
        for line in wrapped("一" * shift + text, ZH, indent=2):
            assert not line.strip().startswith(("。", "）", "，"))
            assert not line.endswith("（")
    assert "".join(line.strip() for line in wrapped(text, ZH)) == text
