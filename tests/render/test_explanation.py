"""Where a difference comes from and why, as reprs show it: mark, picture, call-out, explanation."""

from __future__ import annotations

import base64
import html
import re
from dataclasses import replace

import numpy as np
import pytest

import troubleshooter_nb as tnb
from tests.analysis.runs import Recorder, chain, linear
from troubleshooter_nb.findings import Check, Finding
from troubleshooter_nb.messages.explanations import MESSAGES as EXPLANATIONS
from troubleshooter_nb.metrics.index_sets import by_sample, described
from troubleshooter_nb.metrics.relations import relation_said
from troubleshooter_nb.render.explanation import check_line, observed_sentences, place_sentence


def with_nan(x):
    y = np.maximum(x, 0)
    y[3, 5] = np.nan
    return y


@pytest.fixture(scope="module")
def cmp():
    """Another activation in act1 and, further on, NaN out of act3."""
    return tnb.compare(chain(changed={"act1": np.tanh, "act3": with_nan}), chain())


@pytest.fixture(scope="module")
def within():
    """A fault below the tolerance."""
    right = chain()
    left = chain(changed={"fc1": lambda x, weight, bias: linear(x, weight, bias * (1 + 1e-5))})
    return tnb.compare(left, right, rtol=1e-2, atol=1e-2)


@pytest.fixture(scope="module")
def weight():
    """A transposed weight, and settings that were not the same."""
    done = tnb.compare(chain(weights={"fc1": lambda w: w.T.copy()}), chain())
    setting = Check("settings", "bad", {"count": 9, "apart": 1, "names": "fc1.eps 1 / <2>"})
    return replace(done, preflight=(*done.preflight, setting))


def visible(text):
    text = re.sub(r"<style>.*?</style>", "", text, flags=re.S)
    return re.sub(r"\s+", " ", html.unescape(re.sub("<[^>]+>", "", text)))


def pictures(text):
    codes = re.findall(r"svg\+xml;base64,([^\"]+)", text)
    return [base64.b64decode(code).decode() for code in codes]


def short(value):
    mantissa, power = f"{value:.1e}".split("e")
    return f"{mantissa}e{int(power)}"


def test_the_verdict_counts_what_created_and_what_carried(cmp):
    differing = cmp.result["verdict"].isin(["differs", "unrelated", "reduced", "nan"])
    count = int(differing.sum())
    assert cmp.verdict.startswith(
        f"✗ {count} of {len(cmp)} pairs differ: 2 created the error, {count - 2} carried it · "
        "➤ first at act1 output 0 ("
    )
    with tnb.option_context(language="zh"):
        assert f"不一致：2 对为误差源头，{count - 2} 对为传播" in cmp.verdict
        assert "激活函数不同、缺失或重复。输出是" in visible(cmp._repr_html_())


def test_the_call_out_says_where_how_much_why_and_what_to_do(cmp):
    text = visible(cmp._repr_html_())
    row = cmp["act1 output 0"].row
    error, growth = (short(row[name].item()) for name in ("rel_l2_error", "growth"))
    assert "➤ First difference: act1 output 0" in text
    figures = f"its inputs are equal, its output differs by {error}, growth ×{growth} over rounding"
    assert f"Created here: {figures}." in text
    assert "So the cause is inside this layer or its weights, not upstream." in text
    assert re.search(r"Likely cause \(\d\d% sure\): Another activation, or none", text)
    assert "left tanh, right relu" in text
    assert "What to do: Use the same function" in text
    assert "cmp['act1 output 0']" in text
    assert "cmp.explain()" in text


def test_rows_show_what_was_created_and_what_was_carried(cmp):
    text = cmp._repr_html_()
    rows = {
        number: visible(row)
        for number, row in re.findall(r"<tr><td>(\d+)</td>(.*?)</tr>", text, flags=re.S)
    }
    for i in range(len(cmp)):
        origin = str(cmp.result["origin"].values[i])
        if origin == "created":
            assert rows[str(i)].startswith("✗ created")
        elif origin == "carried" and not cmp.result["passed"].values[i]:
            assert rows[str(i)].startswith("↳ carried")
    assert any("new NaN" in row for row in rows.values())
    assert ">growth</th>" in text
    assert "✗ 1 created" in visible(text)


def test_worst_lists_what_created_a_difference_first(cmp):
    origins = list(cmp.worst(5).result["origin"].values)
    assert origins == ["created", "created", "carried", "carried", "carried"]


def test_the_picture_and_its_words_name_the_origins_and_the_first_nan(cmp):
    text = cmp._repr_html_()
    (alt,) = re.findall(r'alt="(Largest absolute error[^"]*)"', text)
    numbers = [int(n) for n in np.flatnonzero(cmp.result["origin"].values == "created")]
    assert f"created at #{numbers[0]} act1 output 0, #{numbers[1]} act3 output 0" in alt
    assert f"NaN or Inf first at #{numbers[1]} act3 output 0" in alt
    (picture,) = pictures(text)
    assert f"#{numbers[0]} act1 output 0" in picture
    assert f"NaN/Inf #{numbers[1]} act3 output 0" in picture


def test_text_holds_the_whole_answer_in_25_lines(cmp, weight):
    for one, cause in ((cmp, "Another activation"), (weight, "Linear weight transposed")):
        for language in ("en", "zh"):
            with tnb.option_context(language=language):
                lines = repr(one).splitlines()
            assert len(lines) <= 25
            assert sum("✗" in line or "↳" in line for line in lines) >= 4
        assert cause in repr(one)
        assert "What to do:" in repr(one)
        with tnb.option_context(ascii=True):
            assert repr(one).isascii()
            assert str(one.explain()).isascii()


def test_a_check_that_does_not_hold_is_spelled_out_and_escaped(weight):
    text = weight._repr_html_()
    assert "✗\N{NO-BREAK SPACE}1 of 9 layer settings differ: fc1.eps 1 / &lt;2&gt;" in text
    assert "✓ inputs equal (1)" in visible(text)
    assert "✗ parameters differ, 7 of 8 equal: fc1.weight" in visible(text)
    assert "✗ 1 of 9 layer settings differ" in repr(weight)
    # What holds is not worth a line of text.
    assert "inputs equal" not in repr(weight)


def test_a_difference_within_the_tolerance_is_called_so(within):
    assert within.passed
    assert within.verdict.startswith(f"✓ {len(within)} of {len(within)} pairs agree · ➤ within the")
    assert "a difference begins at fc1 output 0" in within.verdict
    text = visible(within._repr_html_())
    assert "➤ Within the tolerance a difference begins: fc1 output 0" in text
    assert "✗" not in text


def test_without_diagnosis_nothing_is_said_of_origins():
    cmp = tnb.compare(chain(changed={"act1": np.tanh}), chain(), diagnose=False)
    text = visible(cmp._repr_html_())
    for words in ("created", "carried", "growth", "Likely cause", "comparable", "No known cause"):
        assert words not in text
    assert "still agrees: act1 input 0" in text
    assert "compare(..., diagnose=True)" in str(cmp.explain())


def test_an_explanation_answers_four_questions_in_order(cmp):
    text = str(cmp.explain())
    headings = ["Can the runs be compared?", "Where", "Why", "What to do", "Findings"]
    lines = text.splitlines()
    assert [line for line in lines if line in headings] == headings
    assert all(len(line) <= 100 for line in lines)
    assert "(activation_changed, " in text
    assert "left tanh, right relu" in text
    page = cmp.explain()._repr_html_()
    assert all(word in visible(page) for word in headings)
    assert visible(page).count("What to do") == 1


def test_an_explanation_of_equal_runs_says_that_nothing_begins():
    text = str(tnb.compare(chain(), chain()).explain())
    assert "✓ parameters equal (8)" in text
    assert "No difference begins anywhere." in text


def test_no_cause_is_said_where_none_is_known(cmp):
    text = visible(replace(cmp, findings=())._repr_html_())
    assert "No known cause explains its values." in text
    assert "What to do" not in text


def part(indices, size, axis=0, name=""):
    return {"axis": axis, "name": name, **described(np.array(indices), size)}


def where(*parts):
    return {"kind": "indices", "parts": [*parts]}


SAMPLES = np.array([[0, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]], bool)
PLACES = [
    (where(part([5], 12, 2)), "at position 5 of 12 along axis 2", "位置 5（共 12 个，第 2 轴）"),
    (where(part([2, 3, 4], 12)), "at positions 2 to 4 of 12 along", "位置 2 至 4（共 12 个"),
    (where(part([0, 1], 9, 1, "token")), "at the first 2 of 9 tokens", "前 2 个token（共 9 个）"),
    (where(part([7, 8], 9, 1, "line")), "at the last 2 of 9 lines", "后 2 个行（共 9 个）"),
    (where(part([3, 7], 16, 0, "sample")), "at samples 3 and 7 of 16", "样本 3 和 7（共 16 个）"),
    (
        where(part([0, 2, 4, 6], 8, 1, "head")),
        "at every second head (0, 2, 4 and 6 of 8)",
        "每 2 个取一个的头（0、2、4 和 6，共 8 个）",
    ),
    (
        where(part([1, 6, 11, 16], 20)),
        "at every 5th position (1, 6, 11 and 16",
        "每 5 个取一个的位置",
    ),
    (
        where(part([*range(20), 30, 50], 64, 1, "channel")),
        "at 22 of 64 channels (0, 1, 2, 3, 4, 5, 6, 7, …)",
        "64 个通道中的 22 个（0、1、2、3、4、5、6、7 等）",
    ),
    (
        where(part([2], 4, 0, "sample"), part([1], 10, 1, "token")),
        "at sample 2 of 4, token 1 of 10",
        "样本 2（共 4 个）、token 1（共 10 个）",
    ),
    (
        {"kind": "tokens", **by_sample(SAMPLES)},
        "3 of 12 tokens, in 2 of 3 samples (sample 1: the last 2 of 4 tokens; sample 2: token 3",
        "12 个 token 中的 3 个，位于 3 个样本中的 2 个（样本 1：后 2 个token",
    ),
    ({"kind": "border", "width": 2}, "a border 2 wide of the last two axes", "宽 2 的边缘"),
    (
        {"valid": True, **where(part([1], 10, 1, "token"))},
        "Padded tokens left aside, the sides differ",
        "不计填充的 token",
    ),
]


@pytest.mark.parametrize(("place", "english", "chinese"), PLACES)
def test_every_kind_of_place_has_a_sentence(place, english, chinese):
    observed = {"pair": 7, "place": {**place, "share": 0.0312}}
    assert english in place_sentence(observed, 7, "en")
    assert chinese in place_sentence(observed, 7, "zh")
    for language in ("en", "zh"):
        assert "3.12%" in place_sentence(observed, 7, language)
        assert place_sentence(observed, 8, language) == ""
    assert place_sentence({}, 7, "en") == ""


def one_column(x):
    y = np.maximum(x, 0)
    y[:, 5] = np.random.default_rng(3).standard_normal(len(y))
    return y


@pytest.mark.parametrize("beside", [True, False])
def test_the_place_is_told_where_no_cause_is_proved_and_beside_what_else_is_seen(beside):
    found = tnb.compare(chain(changed={"act1": one_column}), chain())
    assert [one["axis"] for one in found.observed["place"]["parts"]] == [1]
    assert "scale" in found.observed
    seen = {k: value for k, value in found.observed.items() if beside or k != "scale"}
    found = replace(found, observed=seen)
    said = "only at position 5 of"
    text = " ".join(str(found.explain()).split())
    assert text.index("Created here") < text.index(said) < text.index("No known cause")
    assert said in visible(found.explain()._repr_html_())
    assert said in " ".join(repr(found).split())
    # The page of the comparison has it from the evidence, and says it once.
    page = visible(found._repr_html_())
    assert "on axis 1." in page
    assert said not in page
    assert said in visible(replace(found, evidence={})._repr_html_())
    assert ("But the values show: a factor" in text) == beside
    with tnb.option_context(language="zh"):
        assert "仅在位置 5（共" in "".join(str(found.explain()).split("\n  "))


def test_every_second_head_is_told_where_the_pair_is_opened():
    random = np.random.default_rng(0)
    right = random.standard_normal((2, 8, 16, 4)).astype(np.float32)
    left = right.copy()
    left[:, ::2] += random.standard_normal((2, 4, 16, 4)).astype(np.float32)
    found = tnb.compare({"x": left}, {"x": right}, progress=False)
    said = "every second position (0, 2, 4 and 6 of 8 along axis 1)"
    for shown in (repr(found["x"]), visible(found["x"]._repr_html_()), str(found.explain())):
        assert said in " ".join(shown.split())


def test_a_relation_that_is_seen_is_told_in_the_language():
    relation = {"text": relation_said("flip", {"axes": (0,)}), "residual": 0.0}
    ((_, _, english),) = observed_sentences({"pair": 3, "relation": relation}, "en")
    ((_, _, chinese),) = observed_sentences({"pair": 3, "relation": relation}, "zh")
    assert english == "But the values show: right is left reversed along axes (0,), to 0."
    assert chinese == "但数值显示：右侧等于左侧沿轴 (0,) 反转，余差 0。"


def test_an_empty_selection_says_of_how_many(cmp):
    empty = cmp.select(verdict="shape")
    said = f"nothing selected: none of {len(cmp)} pairs"
    assert said in empty.verdict
    assert said in visible(empty._repr_html_())
    with tnb.option_context(language="zh"):
        assert f"未选中任何项：共 {len(cmp)} 对" in empty.verdict


def test_other_causes_are_named_with_their_confidence(cmp):
    other = Finding("kernel_fault", 7, 0.31, {"before": 1e-3, "residual": 1e-4, "rival": 1e-3})
    text = visible(replace(cmp, findings=(*cmp.findings, other))._repr_html_())
    assert "Also possible: One side's kernel is not exact (31%, #7)." in text


def test_a_pair_says_its_own_origin(cmp):
    created, carried = cmp["act1 output 0"], cmp["fc2 input 0"]
    for show in (repr, lambda pair: visible(pair._repr_html_())):
        assert "Created here: its inputs are equal" in show(created)
        assert "It carries on what it was given" in show(carried)


def test_names_from_files_are_escaped_in_what_was_found(cmp):
    hostile = "<img src=x>"
    found = Finding("wrong_layer_loaded", 3, 0.9, {"side": "left", "other": hostile, "before": 1.0})
    one = replace(cmp, findings=(found,))
    for text in (one._repr_html_(), one.explain()._repr_html_()):
        assert hostile not in text
        assert html.escape(hostile) in text


@pytest.mark.parametrize("key", sorted(k for k in EXPLANATIONS if k.startswith("check_")))
def test_every_check_has_a_sentence_its_values_fill(key):
    _, what, status = key.split("_")
    names = ("count", "equal", "names", "of", "kinds", "apart", "alone")
    values = {name: f"<{name}>" for name in names}
    for language in ("en", "zh"):
        text = check_line({"what": what, "status": status, "values": values}, language)
        assert "{" not in text
        assert text != key


def test_an_unknown_check_is_named_rather_than_hidden():
    assert check_line({"what": "moon", "status": "bad", "values": {}}, "en") == "check_moon_bad"


def test_without_a_known_cause_it_says_what_was_tried_and_what_would_decide_it():
    def own(x, weight, bias):
        made = linear(x, weight, bias)
        return made + np.float32(0.2) * np.sin(37.0 * made).astype(np.float32)

    found = tnb.compare(chain(changed={"fc1": own}), chain())
    assert found.first_divergence.row["right_display"].values == "fc1 output 0"
    assert found.findings == () or found.findings[0].confidence < 0.5
    text = str(found.explain())
    (tried,) = found.observed["tried"]
    assert tried["as"] == "Linear"
    assert float(tried["left"]) > 1e3
    assert float(tried["right"]) < 10
    assert "Computed again as Linear: on the left it gives nothing like it, on the" in " ".join(
        text.split()
    )
    given = found.observed["given"]
    assert found[given].row["right_display"].values == "fc1 input 0"
    assert f"cmp[{given}].right.values" in " ".join(text.split())


def test_outputs_alone_are_to_be_recorded_with_their_inputs():
    random = np.random.default_rng(0)
    values = {f"{n}_h": random.standard_normal((8, 8)).astype(np.float32) for n in range(4)}
    changed = {**values, "2_h": values["2_h"] * np.sin(values["1_h"])}
    found = tnb.compare(changed, values)
    assert "tnb.record(net, to=...)" in " ".join(str(found.explain()).split())


def test_the_row_of_the_answer_is_in_the_table_however_many_are_worse():
    left, right = chain(layers=12, changed={"act1": np.tanh}), chain(layers=12)
    found = tnb.compare(left, right)
    (number,) = [f.pair for f in found.findings[:1]]
    with tnb.option_context(worst_rows=3):
        table = str(found).split("\n   #", 1)[1] if "\n   #" in str(found) else str(found)
        rows = [int(line.split()[0]) for line in table.splitlines() if line[:5].strip().isdigit()]
    assert number in rows
    assert len(rows) == 3


def test_where_says_the_step():
    def run(factor):
        recorder = Recorder()
        for step in (0, 1):
            values = np.random.default_rng(step).standard_normal((8, 8)).astype(np.float32)
            values = values * np.float32(factor if step else 1)
            recorder.add(f"s{step}.fc.out", "fc", "forward", "output", "0", values, step=step)
        return recorder.dump()

    assert "step 1: " in str(tnb.compare(run(1.5), run(1.0)).explain())
