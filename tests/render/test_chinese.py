"""Chinese reprs: headings, notes and counts in Chinese, names and columns as they are."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import numpy as np
import pytest

import troubleshooter_nb as tnb
from tests.analysis.runs import chain


def visible(text):
    text = re.sub(r"<style>.*?</style>", "", text, flags=re.S)
    return re.sub(r"\s+", " ", html.unescape(re.sub("<[^>]+>", "", text)))


@pytest.fixture(scope="module")
def diff(tmp_path_factory):
    folder = tmp_path_factory.mktemp("diff")
    left = {f"l.{i}.w": np.full((2, 2), i, np.float32) for i in range(4)}
    right = {**left, "l.1.w": left["l.1.w"] + 1, "x": np.ones(3, np.float32)}
    del right["l.3.w"]
    left = tnb.save_dump(left, folder / "a.safetensors")
    right = tnb.save_dump(right, folder / "b.safetensors")
    return tnb.diff_checkpoints(left, right)


@pytest.mark.parametrize(
    ("count", "english", "chinese"),
    [
        (2, "", ""),
        (3, "1 more note, on either dump", "另有 1 条说明（任一侧）"),
        (4, "2 more notes, on either dump", "另有 2 条说明（任一侧）"),
    ],
)
def test_notes_of_a_difference_are_counted_in_words(diff, count, english, chinese):
    noted = replace(diff, notes=tuple(f"note {i}" for i in range(count)))
    text = repr(noted)
    assert "  note: note 1" in text
    assert english in text
    assert ("more note" in text) == bool(english)
    with tnb.option_context(language="zh"):
        text = repr(noted)
        assert "  说明：note 1" in text
        assert chinese in text
        assert "more" not in text
        assert "说明：note 0" in visible(noted._repr_html_())


def test_a_difference_is_titled_and_its_structure_named_in_chinese(diff):
    lines = repr(diff).splitlines()
    assert lines[0] == "CheckpointDiff 'a.safetensors' against 'b.safetensors'"
    assert any(line.startswith("  only on the left ") for line in lines)
    with tnb.option_context(language="zh"):
        text = repr(diff)
    lines = text.splitlines()
    assert lines[0] == "权重差异：'a.safetensors' 对比基准 'b.safetensors'"
    assert lines[1].startswith("  ✗ 3 对中 1 对不一致：")
    assert lines[1].endswith("➤ 首个差异：l.1.w (#1) · 2 项没有对应")
    assert any(
        line.startswith("  ▲ 结构不同：共 5 项，配对 3 项，仅左侧有 1 项，仅右侧有 1 项")
        for line in lines
    )
    assert any(line.split() == ["仅左侧", "l.3.w", "2×2"] for line in lines)
    assert any(line.split() == ["仅右侧", "x", "3"] for line in lines)
    assert not re.search("against|left_only|right_only|： ", text)


def test_an_answer_of_a_difference_fits_two_lines_of_100_columns(diff):
    renamed = {f"l.{i}.w": np.full((2, 2), i, np.float32) for i in range(40)}
    other = {f"网络的第{i}层.权重.{i}": values for i, values in enumerate(renamed.values())}
    long = tnb.compare(renamed, other)
    noted = replace(diff, notes=("很长的说明" * 40,))
    with tnb.option_context(language="zh"):
        for one in (noted, long):
            for line in repr(one).splitlines():
                assert sum(2 if c > "\u2e80" else 1 for c in line) <= 101


def test_pairings_maps_and_dumps_are_titled_in_chinese():
    left = {f"l.{i}.w": np.full((2, 2), i, np.float32) for i in range(40)}
    right = {**left, "y": np.ones(7)}
    pairing = tnb.pair_dumps({**left, "z": np.ones(5)}, right)
    with tnb.option_context(language="zh"):
        text = repr(pairing)
        assert text.startswith("配对：'left' 与 'right'")
        assert re.search(r"另有 \d+ 项：pairing\.to_dataframe\(\)", text)
        assert "more" not in text
        dump = tnb.compare(left, right).pairing.left
        assert repr(dump).startswith("数据 'left' · 40 个张量")
        assert re.search(r"另有 \d+ 项：dump\.to_dataframe\(\)", repr(dump))
    assert repr(pairing).startswith("Pairing of 'left' with 'right'")
    assert "more: pairing.to_dataframe()" in repr(pairing)


def test_a_map_is_titled_in_chinese(tmp_path):
    names = {f"l.{i}.gamma": np.full(4, i, np.float32) for i in range(3)}
    source = tnb.save_dump(names, tmp_path / "a.ckpt")
    drafted = tnb.draft_weight_map(source, "torch")
    with tnb.option_context(language="zh"):
        assert re.match(r"权重映射：'a\.ckpt' -> '\S+' · 3 行\n", repr(drafted))
    assert re.match(r"WeightMap 'a\.ckpt' -> '\S+' · 3 rows\n", repr(drafted))


def test_no_space_follows_a_full_width_mark_in_a_comparison():
    cmp = tnb.compare(chain(changed={"act1": np.tanh}), chain())
    cmp = replace(cmp, notes=("merged",))
    with tnb.option_context(language="zh"):
        shown = [repr(cmp), str(cmp.explain()), cmp.verdict]
        shown += [visible(one._repr_html_()) for one in (cmp, cmp.explain())]
    for text in shown:
        assert not re.search(r"[：。，；] (?! )", text), re.findall(r".{9}[：。，；] .{9}", text)
    assert "说明：merged" in shown[0]
    assert "首个差异：act1 output 0" in shown[2]


def test_settings_of_the_runs_are_not_said_to_be_all_that_the_cards_hold():
    cards = {"framework": "mindspore", "seed": 1}, {"framework": "torch", "seed": 1}
    dumps = [replace(chain(), card=tnb.RunCard(card)) for card in cards]
    cmp = tnb.compare(*dumps)
    page = visible(cmp._repr_html_())
    assert "run settings (seeds, switches) alike (1)" in page
    assert "the two runs differ in framework" in page
    assert "cards alike" not in page
