"""What notebooks show: nothing an untrusted viewer drops, bounded, escaped, the same every time."""

from __future__ import annotations

import base64
import html
import io
import os
import re
import socket
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import troubleshooter_nb as tnb
from troubleshooter_nb.messages.sentences import SENTENCES
from troubleshooter_nb.metrics.verdict import TRUTH_TABLE
from troubleshooter_nb.naming.site import place_text
from troubleshooter_nb.render import words
from troubleshooter_nb.render.html import Markup, element, join, style_sheet
from troubleshooter_nb.render.rows import Entries, block_of

SNAPSHOTS = Path(__file__).parents[1] / "snapshots"
HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m&amp;\"'"
# Tags and CSS properties that survive untrusted Jupyter (measured).
KEPT_TAGS = set(
    [
        "style",
        "div",
        "p",
        "b",
        "small",
        "span",
        "samp",
        "code",
        "details",
        "summary",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "img",
        "br",
    ]
)
KEPT_PROPERTIES = set(
    [
        "display",  # nbclassic alone keeps it, and needs it for triangles: the others have them
        "color",
        "background",
        "width",
        "min-width",
        "font-size",
        "font-family",
        "font-weight",
        "white-space",
        "text-align",
        "vertical-align",
        "border",
        "border-left",
        "border-top",
        "border-collapse",
        "opacity",
        "padding",
        "margin",
        "line-height",
        "max-width",
    ]
)


def network(blocks, per_block=8, *, wrong_from=None, size=(8, 16), seed=0):
    """Outputs of a made-up network on both sides; from one on, the left side is off."""
    rng = np.random.default_rng(seed)
    left, right = {}, {}
    for i in range(blocks * per_block):
        name = f"layers.{i // per_block}.part{i % per_block}"
        right[name] = rng.normal(size=size).astype(np.float32)
        off = 1e-2 if wrong_from is not None and i >= wrong_from else 1e-7
        left[name] = (right[name] + off * rng.normal(size=size)).astype(np.float32)
    dumps = tnb.Dump.from_arrays(left, label="left"), tnb.Dump.from_arrays(right, label="right")
    return tnb.compare(*dumps)


@pytest.fixture(scope="module")
def failing():
    return network(25, wrong_from=63)


@pytest.fixture(scope="module")
def passing():
    return network(2, 5)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    root = tmp_path_factory.mktemp("mixed")
    left = {
        "a": np.arange(6.0).reshape(2, 3),
        "n": np.array([1, np.nan]),
        "s": np.ones(3),
        "alone": np.ones(2),
        "deep/inner": np.ones((3, 4, 5), np.float16),
    }
    right = {
        "a": np.ones((2, 3)),
        "n": np.ones(2),
        "s": np.ones(4),
        "deep/inner": np.zeros((3, 4, 5), np.float16),
    }
    paths = tnb.save_dump(left, root / "l"), tnb.save_dump(right, root / "r")
    (root / "l" / "broken_float32_9.npy").write_bytes(b"nothing")
    return tnb.compare(*paths)


def objects(cmp):
    found = {
        "comparison": cmp,
        "pairing": cmp.pairing,
        "dump": cmp.pairing.left.summarise(),
        "card": tnb.RunCard.current(),
    }
    return found | {f"diff{i}": cmp[i] for i in range(min(len(cmp), 6))}


class Tags(HTMLParser):
    """Collects tags, attributes and inline styles, and checks that everything is closed."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.styles, self.text = [], set(), set(), [], []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.styles += [value for name, value in attrs if name == "style"]
        if tag not in ("img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text.append(data)


def parsed(text):
    tags = Tags()
    tags.feed(text)
    tags.close()
    assert not tags.open
    return tags


@pytest.mark.parametrize("which", ["failing", "passing", "mixed"])
def test_only_tags_attributes_and_styles_that_untrusted_notebooks_keep(which, request):
    for name, obj in objects(request.getfixturevalue(which)).items():
        tags = parsed(obj._repr_html_())
        assert tags.tags <= KEPT_TAGS, name
        assert tags.attributes <= {
            "style",
            "class",
            "scope",
            "open",
            "alt",
            "width",
            "height",
            "src",
            "colspan",
        }, name
        for style in tags.styles:
            properties = {part.split(":")[0].strip() for part in style.split(";") if part}
            assert properties <= KEPT_PROPERTIES, (name, style)


@pytest.mark.parametrize("which", ["failing", "passing", "mixed"])
def test_the_same_object_gives_the_same_bytes_and_no_private_fact(which, request):
    for name, obj in objects(request.getfixturevalue(which)).items():
        text = obj._repr_html_()
        assert text == obj._repr_html_(), name
        assert repr(obj) == repr(obj)
        for private in (str(Path.home()), socket.gethostname(), "/tmp/", "uuid", " id="):
            assert private not in text, name


def test_two_runs_on_the_same_values_give_the_same_bytes():
    first, second = network(3, wrong_from=10), network(3, wrong_from=10)
    assert first._repr_html_() == second._repr_html_()


def test_names_from_files_are_escaped_and_control_characters_made_visible():
    dumps = [
        tnb.Dump.from_arrays({HOSTILE: np.full(4, float(i)), "x": np.ones(2)}, label=HOSTILE)
        for i in (0, 1)
    ]
    cmp = tnb.compare(*dumps)
    for name, obj in objects(cmp).items():
        text = obj._repr_html_()
        assert "<img src=x" not in text, name
        assert "onerror=alert(1)>" not in text.replace(html.escape(HOSTILE), ""), name
        assert "\x1b" not in repr(obj), name
    assert "\\x1b" in repr(cmp)


@pytest.mark.parametrize("which", ["failing", "passing", "mixed"])
def test_text_is_at_most_25_lines_of_100_columns(which, request):
    for name, obj in objects(request.getfixturevalue(which)).items():
        if name == "card":
            continue
        lines = repr(obj).splitlines()
        assert len(lines) <= 25, name
        assert max(map(len, lines)) <= 100, name


def test_ascii_text_has_ascii_only(failing, mixed):
    with tnb.option_context(ascii=True):
        for cmp in (failing, mixed):
            assert repr(cmp).isascii(), [c for c in repr(cmp) if not c.isascii()]


def test_200_rows_stay_below_150_kilobytes_and_10_passing_ones_below_4(failing, passing):
    assert len(failing._repr_html_().encode()) <= 150_000
    text = passing._repr_html_()
    assert len(text.encode()) - len(style_sheet()) <= 4_000
    # Folded, not left out.
    assert all(f"layers.1.part{i}" in text for i in range(5))


def test_10_000_rows_stay_below_150_kilobytes_and_still_name_the_first():
    cmp = network(1250, wrong_from=6001, size=(4,))
    text = cmp._repr_html_()
    assert len(text.encode()) <= 150_000
    assert "layers.750.part1" in text
    assert "cmp.to_dataframe() has all 10,000" in text
    assert "3999 of 10000 pairs differ" in cmp.verdict


def test_a_smaller_budget_drops_rows_before_the_answer(failing):
    with tnb.option_context(html_bytes=40_000):
        text = failing._repr_html_()
    assert len(text.encode()) <= 40_000
    assert "layers.7.part7" in text
    assert "Rows left out" in text


def test_the_verdict_line_and_the_first_difference_lead(failing):
    text = " ".join(parsed(failing._repr_html_()).text)
    text = re.sub(r"\s+", " ", text)
    head = "✗ 137 of 200 pairs differ : 1 created the error, 136 carried it · ➤ first at layers.7"
    assert text.strip().startswith(head)
    assert "(#63)" in text
    assert "still agrees: layers.7.part6" in text


def test_every_failed_row_is_on_the_page_with_its_figures(failing):
    text = failing._repr_html_()
    shown = set(re.findall(r"<tr><td>(\d+)</td>", text))
    assert {str(i) for i in range(63, 200)} <= shown


def test_pictures_say_in_words_what_they_show(failing):
    for alt in re.findall(r'alt="([^"]*)"', failing._repr_html_()):
        assert len(alt) > 20
    assert re.search(
        r"Heat map of the absolute error of layers\.7\.part7, 8x16", failing._repr_html_()
    )


def test_unmatched_entries_are_listed_with_reasons(mixed):
    text = mixed._repr_html_()
    assert "alone" in text
    assert "no partner in the right dump" in text
    assert "not a .npy file" in text


def test_what_is_alone_as_expected_is_no_warning():
    left = {"a": np.ones(3, "f4"), "b": np.ones(3, "f4"), "c": np.ones(2, "f4")}
    cmp = tnb.compare(left, {"a": left["a"]}, mapping={"b": None})
    text = cmp._repr_html_()
    assert "○ 1 without a partner" in text
    assert "1 alone as expected" in text
    assert "○\N{NO-BREAK SPACE}1\N{NO-BREAK SPACE}alone as expected" in text  # b, in its block
    fine = tnb.compare({"a": left["a"], "b": left["b"]}, {"a": left["a"]}, mapping={"b": None})
    assert "without a partner" not in fine._repr_html_()
    assert "○ 1 alone as expected" in fine._repr_html_()


def test_every_verdict_has_a_word_in_both_languages():
    named = {
        id.removeprefix("verdicts.name_") for id in SENTENCES if id.startswith("verdicts.name_")
    }
    assert named == {*TRUTH_TABLE, "created", "within", "carried", "alone"}
    assert all(words.word(name, "en") and words.word(name, "zh") for name in TRUTH_TABLE)


def test_chinese_reprs_name_the_verdict_in_chinese(failing, mixed):
    with tnb.option_context(language="zh"):
        assert "不一致" in failing.verdict
        assert "200 对中 137 对不一致" in failing._repr_html_()
        assert all(len(line) <= 100 for line in repr(mixed).splitlines())
        assert "缺失" in mixed._repr_html_()


def test_the_palest_share_is_never_rounded_up_to_all():
    assert words.percent(1 - 1e-9) == "99.99%"
    assert words.percent(1.0) == "100%"


def test_the_style_sheet_is_small():
    assert len(style_sheet()) <= 2600


def test_element_escapes_everything_but_markup():
    assert element("td", "<b>", element("b", "&"), title='"x"') == (
        '<td title="&quot;x&quot;">&lt;b&gt;<b>&amp;</b></td>'
    )
    assert join(["<", Markup("<br>"), None]) == "&lt;<br>"


def test_a_dump_shows_its_health_first():
    arrays = {
        "fine": np.arange(4.0),
        "bad": np.array([np.nan, 1.0]),
        "zero": np.zeros(3),
        "same": np.full(5, 2.0),
        "text": np.array(["a"]),
    }
    dump = tnb.Dump.from_arrays(arrays, label="d").summarise()
    head = repr(dump).splitlines()[1:5]
    assert [line.strip().split(",")[0] for line in head] == [
        "! 1 not readable",
        "◇ 1 with NaN",
        "▲ 1 all zero",
        "▲ 1 constant",
    ]
    assert "with NaN" in dump._repr_html_()


def test_tensors_that_were_not_read_are_not_called_well():
    dump = tnb.Dump.from_arrays({"a": np.arange(4.0), "b": np.arange(3.0), "c": np.arange(2.0)})
    assert Entries.of(dump.index).kinds.tolist() == ["not_read"] * 3
    assert Entries.of(dump.summarise().index).kinds.tolist() == ["ok"] * 3
    assert "not read " not in repr(dump).replace("values not read yet", "")
    empty = tnb.Dump.from_arrays({"e": np.zeros((0, 3))})
    assert Entries.of(empty.index).kinds.tolist() == ["ok"]  # there is nothing to read
    mixed = dump.summarise()
    columns = mixed.index.copy(deep=True)
    for name in ("min", "max", "mean", "l2"):
        columns[name].values[1] = np.nan
    for name in ("nan_count", "inf_count", "zero_count"):
        columns[name].values[1] = -1
    mixed = replace(mixed, index=columns)
    assert Entries.of(mixed.index).kinds.tolist() == ["ok", "not_read", "ok"]
    lines = repr(mixed).splitlines()
    assert lines[1].strip() == "○ 1 of 3 not read yet: dump.summarise() adds statistics"
    assert [line.split()[0] for line in lines if line.endswith("○ not read")] == ["b"]
    page = mixed._repr_html_()
    assert "1 of 3 not read yet" in page
    assert "○ not read" in page
    assert "▲" not in page
    with tnb.option_context(language="zh"):
        assert "○ 3 个中有 1 个尚未读取" in repr(mixed)
        assert "○ 未读取" in mixed._repr_html_()


@pytest.mark.extra
def test_after_a_strict_sanitiser_the_answer_and_every_figure_are_still_there(failing, mixed):
    import nh3

    # The allow-list of a code host: no style, no class.
    tags = set(
        "details summary table thead tbody tr th td p b small samp code br img span div".split()
    )
    attributes = {"*": {"alt", "width", "height", "colspan", "scope"}, "img": {"src"}}
    for cmp in (failing, mixed):
        text = nh3.clean(
            cmp._repr_html_(),
            tags=tags,
            attributes=attributes,
            clean_content_tags={"style", "script"},
            url_schemes={"data", "https"},
        )
        words_left = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", text)))
        # No stray words in front: what a sanitiser leaves of a dropped element would stand here.
        assert words_left.strip().startswith("✗")
        first = cmp.first_divergence
        assert str(first.row["left_display"].values) in words_left
        for name in ("max_abs_error", "rel_l2_error"):
            for i in range(len(cmp)):
                value = float(cmp.result[name].values[i])
                if np.isfinite(value):
                    assert words.scientific(value) in words_left


@pytest.mark.few(1)
@pytest.mark.parametrize("where", [(0, 0), (2000, 2000), (4095, 4095), (17, 3901)])
def test_a_planted_outlier_has_the_darkest_colour_in_the_heat_map(where):
    rng = np.random.default_rng(0)
    right = rng.normal(size=(4096, 4096)).astype(np.float32)
    left = right.copy()
    left[where] += 50
    cmp = tnb.compare({"x": left}, {"x": right})
    assert cmp["x"].worst_elements()["index"][0] == where
    encoded = re.search(r'alt="Heat map[^>]*base64,([^"]+)"', cmp._repr_html_())[1]
    with Image.open(io.BytesIO(base64.b64decode(encoded))) as picture:
        pixels = np.array(picture)
    tile = where[0] * pixels.shape[0] // 4096, where[1] * pixels.shape[1] // 4096
    # 14 shades: the last of them is the largest error; one more stands for NaN.
    assert pixels[tile] == 13
    assert pixels.max() == 13


@pytest.mark.parametrize("name", ["comparison", "pairing", "dump", "diff"])
def test_the_html_is_the_one_in_the_snapshot(name):
    right = {"blocks.0.w": np.array([1.0, 2.0]), "blocks.1.w": np.array([3.0, 4.0])}
    left = right | {"blocks.1.w": np.array([3.0, 4.5]), "extra": np.zeros(3)}
    cmp = tnb.compare(left, right)
    obj = {
        "comparison": cmp,
        "pairing": cmp.pairing,
        "dump": cmp.pairing.left.summarise(),
        "diff": cmp["blocks.1.w"],
    }[name]
    # Compressed pictures depend on the zlib of the machine; the style sheet is one long line.
    text = re.sub(r"base64,[^\"]+", "base64,...", obj._repr_html_())
    text = re.sub(r"<style>.*?</style>", "<style>...</style>\n", text)
    text = re.sub(r"(</(?:p|tr|summary|details|table|div|thead)>)", r"\1\n", text)
    path = SNAPSHOTS / f"{name}.html"
    if os.environ.get("UPDATE_SNAPSHOTS") == "1":
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")


def test_every_repr_keeps_its_size_budget():
    arrays = {f"{'k' * 180}.{i}.w{i * 7919 % 1000}": np.full(2, float(i)) for i in range(600)}
    others = {f"{'q' * 180}.{i}.v": np.ones(3) for i in range(300)}
    left = tnb.Dump.from_arrays(arrays, label="l").summarise()
    pairing = tnb.pair_dumps(left, tnb.Dump.from_arrays(others, label="r"))
    for obj in (left, pairing):
        assert len(obj._repr_html_().encode()) <= 150_000


def test_complex_errors_are_moduli_of_differences_also_in_the_worst_elements():
    cmp = tnb.compare({"a": np.array([1 + 0j, 5])}, {"a": np.array([-1 + 0j, 5.5])})
    assert cmp["a"].worst_elements()["abs_error"].tolist() == [2.0, 0.5]
    assert "2.0e0" in repr(cmp["a"])


def test_a_lone_nan_is_not_called_spread_evenly():
    left = np.ones((6, 6))
    left[2, 3] = np.nan
    cmp = tnb.compare({"w": left}, {"w": np.ones((6, 6))})
    assert "spread evenly" not in cmp._repr_html_()
    assert "[2, 3]" in cmp._repr_html_()


def test_dumps_without_a_label_are_called_left_and_right():
    text = repr(tnb.compare(tnb.Dump.from_arrays({"a": [1.0]}), tnb.Dump.from_arrays({"a": [2.0]})))
    assert "left against right, the reference" in text


def test_chinese_marks_of_a_dump_are_whole_words():
    with tnb.option_context(language="zh"):
        dump = tnb.Dump.from_arrays({"z": np.zeros(3), "c": np.ones(4)}).summarise()
        assert "▲ 全为零" in repr(dump)
        assert "▲ 常数" in repr(dump)
        assert "首个差异" not in repr(dump)


@pytest.mark.parametrize(
    ("direction", "role", "slot"),
    [
        ("forward", "input", "0"),
        ("forward", "output", "a.b"),
        ("forward", "buffer", "running_mean"),
        ("forward", "parameter", "weight"),
        ("backward", "input", "0"),
        ("backward", "gradient", "0"),
        ("backward", "parameter", "weight"),
    ],
)
@pytest.mark.parametrize("call", [0, 2])
def test_all_that_belongs_to_a_call_lies_in_the_block_of_its_layer(call, direction, role, slot):
    assert block_of(place_text("module", "bn", call, direction, role, slot)) == "bn"
    assert block_of(place_text("module", "blocks.3.bn", call, direction, role, slot)) == "blocks.3"
