"""Texts of the evidence in both languages; what is proved is looked at in tests/analysis/causes."""

import copy
import json
import pickle
import re

import numpy as np
import pytest

import troubleshooter_nb as tnb
from tests.analysis.runs import chain
from tests.messages.rules import english_in
from troubleshooter_nb.analysis.causes.between.layouts_of_heads import views
from troubleshooter_nb.analysis.causes.training.rule_words import rule_text
from troubleshooter_nb.analysis.causes.training.rules import Rule
from troubleshooter_nb.catalogue import WORDS
from troubleshooter_nb.messages import Message, plain, restored, told
from troubleshooter_nb.metrics.compositions import find_composition
from troubleshooter_nb.metrics.initialisers import initialiser_of
from troubleshooter_nb.metrics.relations import find_relation
from troubleshooter_nb.naming.evidence import evidence_word, fact_name
from troubleshooter_nb.render.explanation import (
    cause_proof,
    cause_repair,
    cause_sentences,
    finding_parts,
)

FIGURES = {"before": 1.0, "residual": 0.0, "rival": 1.0}
CHINESE = re.compile("[\u4e00-\u9fff]")


def draw(*shape):
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def finding(cause, evidence):
    return {"cause": cause, "pair": 3, "confidence": 0.9, "evidence": FIGURES | evidence}


def test_every_word_has_chinese_and_is_english_as_it_is():
    assert [word for word, shown in WORDS.items() if not CHINESE.search(shown)] == []
    for word in WORDS:
        assert evidence_word(word) == word
        assert told(evidence_word(word), "zh") == WORDS[word]


@pytest.mark.parametrize("text", ["", "layers.1.norm1 output 0", "a, b", "tanh", "float16"])
def test_what_is_no_word_stays_as_it_is(text):
    assert evidence_word(text) is text
    assert fact_name(text) is text


def test_names_of_tensors_are_never_translated():
    one = finding("tied_weights_broken", {"other": "sum", "side": "left", "tied": "left"})
    assert "它与 sum 相同" in cause_proof(one, "zh")
    one = finding("tied_weights_broken", {"other": "sum", "form": "gelu"})
    assert "另一项 sum" in finding_parts(one, "zh")[2]


@pytest.mark.parametrize(
    ("turn", "english", "chinese"),
    [
        (lambda x: x, "right is identical to left", "右侧与左侧完全相同"),
        (lambda x: x.T, "right is left transposed", "右侧等于左侧的转置"),
        (lambda x: x * 2, "right is left times 2", "右侧等于左侧乘以 2"),
        (
            lambda x: x.astype(np.float16),
            "right is the other one rounded to float16",
            "右侧是另一侧舍入为 float16 的结果",
        ),
        (
            lambda x: np.concatenate([x[8:16], x[:8], x[16:]]),
            "right is left with its 3 blocks along axis 0 in order (1, 0, 2)",
            "右侧等于左侧沿轴 0 的 3 块按 (1, 0, 2) 的顺序排列",
        ),
        (
            lambda x: x.T.reshape(8, 48),
            "right is left with axes in order (1, 0), then reshaped to (8, 48)",
            "右侧等于左侧的轴按 (1, 0) 排列，再变形为 (8, 48)",
        ),
        (
            lambda x: x.reshape(12, 2, 16).swapaxes(0, 1).reshape(24, 16),
            "right is left with every 24 rows along axis 0 taken as (2, 12, 1) instead of "
            "(12, 2, 1)",
            "右侧等于左侧沿轴 0 每 24 行按 (2, 12, 1) 而非 (12, 2, 1) 取用",
        ),
        (
            lambda x: x[4:9],
            "right is the part of left of shape (5, 16) that starts at (4, 0)",
            "右侧是左侧中从 (4, 0) 开始、形状为 (5, 16) 的部分",
        ),
    ],
)
def test_a_relation_is_told_with_all_its_figures(turn, english, chinese):
    text = find_relation(values := draw(24, 16), turn(values)).text
    assert text == english
    assert text.told("zh") == chinese


def test_steps_of_an_order_nest():
    found = find_relation(values := draw(4, 5, 6, 7), values.transpose(3, 2, 0, 1)[::-1])
    assert found.text == "right is left with axes in order (3, 2, 0, 1), reversed along axes (0,)"
    assert found.text.told("zh") == "右侧等于左侧的轴按 (3, 2, 0, 1) 排列，并沿轴 (0,) 反转"


def test_what_a_tensor_is_put_together_from_is_told():
    parts = {"q": draw(8, 16), "k": draw(9, 16)[1:] * 2}
    found = find_composition(parts, np.concatenate([parts["q"].T, parts["k"].T], 1))
    assert found.text == "q, k, each transposed, one after the other along axis 1"
    assert found.text.told("zh") == "q、k（各自转置）沿轴 1 依次拼接"


@pytest.mark.parametrize(
    ("bound", "chinese"),
    [
        (1 / 20, "均匀分布，上界 0.05 = 1/sqrt(fan_in)"),
        (1 / 10, "均匀分布，上界 0.1 = 1/sqrt(fan_in)（按转置布局）"),
    ],
)
def test_an_initialiser_is_told(bound, chinese):
    values = np.random.default_rng(1).uniform(-bound, bound, (100, 400)).astype(np.float32)
    assert initialiser_of(values).told("zh") == chinese


def test_layouts_are_lists_of_words():
    names = [name for name, _ in views((2, 5, 24), (2, 2, 4, 5))]
    assert "heads, part 1 of 3, keys transposed" in names
    assert told(names[names.index("part 2 of 3, heads, keys transposed")], "zh") == (
        "3 份中的第 2 份、头、键转置"
    )


def test_a_rule_of_an_optimizer_is_told():
    rule = Rule("adam", momentum=0.9, beta=0.99, rates=(0.01,), decay=(0.1, 0.1))
    assert rule_text(rule) == (
        "adam, rate 0.01, betas 0.9, 0.99, eps 1.0e-08 outside, decay 0.1 in the gradient"
    )
    assert told(rule_text(rule), "zh") == (
        "adam、学习率 0.01、betas 0.9, 0.99、eps 1.0e-08（根号外）、衰减 0.1（加到梯度）"
    )


def test_evidence_of_earlier_versions_is_shown_as_it_was_written():
    one = finding("qkv_packing", {"kind": "blocks", "text": "right is left in another order"})
    for language in ("en", "zh"):
        assert "ight is left in another order" in cause_proof(one, language)


@pytest.fixture(scope="module")
def transposed():
    """A transposed weight, and more parameters that differ than are named."""
    names = ("fc0", "fc2", "fc3")
    weights = {name: lambda w: w * np.float32(1.25) for name in names}
    return tnb.compare(chain(weights={"fc1": lambda w: w.T.copy(), **weights}), chain())


def test_findings_travel_and_are_told_in_chinese_where_they_arrive(transposed):
    (one,) = [f for f in transposed.findings if f.cause == "linear_transposed"]
    text = one.evidence["text"]
    for there in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert there == one
        assert there.evidence["text"].told("zh") == "右侧等于左侧的转置"
    assert restored(json.loads(json.dumps(plain(text)))).told("zh") == "右侧等于左侧的转置"


def test_an_exported_finding_is_plain_text(transposed, tmp_path):
    tnb.export(transposed, tmp_path / "found.json")
    content = json.loads((tmp_path / "found.json").read_text("utf-8"))
    evidence = [f["evidence"] for f in content["findings"] if f["cause"] == "linear_transposed"]
    assert evidence[0]["text"] == "right is left transposed"


def test_what_is_checked_beforehand_is_told_in_chinese(transposed):
    assert "fc2.weight, … (4)" in str(transposed.explain())
    with tnb.option_context(language="zh"):
        said = str(transposed.explain())
    assert "fc0.weight、fc1.weight、fc2.weight……（共 4 项）" in said
    assert english_in(said.partition("发现")[0]) == ""


def test_what_the_values_show_is_told_in_chinese():
    turned = chain(changed={"act2": lambda x: np.maximum(x, 0)[:, ::-1]})
    found = tnb.compare(turned, chain())
    assert isinstance(found.observed["relation"]["text"], Message)
    with tnb.option_context(language="zh"):
        assert "但数值显示：右侧等于左侧" in str(found.explain())


def test_no_space_follows_a_full_stop_where_a_cause_acts_at_several_pairs():
    evidence = {"left": True, "right": False, "before": 0.3, "residual": 2e-8, "pairs": [3, 4, 5]}
    one = finding("eval_train_mode", evidence)
    said = cause_sentences([one], "zh", 3)[0].whole
    assert said.endswith("。共 3 对如此（#3, #4, #5）。")
    elsewhere = cause_sentences([one], "zh", 9)[0].whole
    assert "。作用于 #3。" in elsewhere
    assert "。 " not in said + elsewhere + cause_repair(one, "zh")
    english_text = cause_sentences([one], "en", 3)[0].whole
    assert english_text.endswith("is left. The same at 3 pairs (#3, #4, #5).")
