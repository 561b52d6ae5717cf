"""Texts of the evidence in Chinese sentences: nothing English but names, dtypes and terms.

``findings.json`` holds what the fault benchmark found, one finding for each cause and kind of
evidence: ``faulty.plan.draw(n, 3, cause)`` for n from 0 to 5 of all causes in ``faulty.registry``,
without the settings of all fits.
"""

import json
import re
from pathlib import Path

import pytest

from troubleshooter_nb.render.causes import WORDS
from troubleshooter_nb.render.causes.evidence import _EXACT, _PATTERNS, evidence_text
from troubleshooter_nb.render.explanation import (
    cause_proof,
    cause_repair,
    cause_sentences,
    finding_parts,
)

FINDINGS = json.loads(Path(__file__).with_name("findings.json").read_text("utf-8"))
# Functions, arguments and formats are called so in every language.
TERMS = set(
    "adam sgd betas eps erf gelu silu relu elu leaky_relu tanh sigmoid softmax inf nan NaN fan_in "
    "sqrt token BGR ImageNet align_corners half_pixel replicate circular qkv kqv vkq gamma var "
    "GELU hidden Nesterov epsilon momentum".split()
)
_NAME = re.compile(r"[\w*#]+(?:\.[\w*#]+)+(?: (?:input|output) \d)?")  # layers.0.attn output 0
_TYPE = re.compile(r"(?:bfloat|float|uint|int|tf)\d[\w]*|fp\d\w*|CIFAR-10|2\*\*\d+")


def english(text):
    """Words of a Chinese sentence that are neither names nor dtypes nor terms."""
    words = re.findall(r"[A-Za-z_]{2,}", _TYPE.sub("", _NAME.sub("", text)))
    return [word for word in words if word not in TERMS]


@pytest.mark.parametrize(
    "finding", FINDINGS, ids=[f"{i}-{f['cause']}" for i, f in enumerate(FINDINGS)]
)
def test_the_chinese_proof_of_a_real_finding_has_no_english_words(finding):
    layer = str(finding["evidence"].get("layer", ""))
    assert set(english(cause_proof(finding, "zh"))) <= {*re.findall(r"[A-Za-z_]{2,}", layer)}
    (said, *_) = cause_sentences([finding], "zh")
    assert english(said.lead.replace(WORDS[finding["cause"]].title[1], "")) == []
    *_, rest = finding_parts(finding, "zh")
    # The name of each fact is that of the evidence; its value is in words.
    values = [fact.partition(" ")[2] for fact in rest.split("; ")]
    names = ("other", "equal", "norm", "duplicates", "part", "setting", "layer", "meant", "names")
    for fact, value in zip(rest.split("; "), values, strict=True):
        if not fact.startswith((*names, "family", "formula")):
            assert english(value) == [], fact


def test_the_findings_are_of_most_causes():
    assert len({finding["cause"] for finding in FINDINGS}) >= 0.9 * len(WORDS)


def test_at_least_80_texts_are_known_and_all_are_in_chinese():
    assert len(_EXACT) + len(_PATTERNS) >= 80
    for text, shown in _EXACT.items():
        assert re.search("[\u4e00-\u9fff]", shown), text
        assert english(shown.replace("True", "").replace("False", "").replace("alpha", "")) == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "right is left with its 3 blocks along axis 0 in order (1, 0, 2)",
            "右侧等于左侧沿轴 0 的 3 块按 (1, 0, 2) 的顺序排列",
        ),
        (
            "right is left with axes in order (1, 0), then reshaped to (4, 8)",
            "右侧等于左侧的轴按 (1, 0) 排列，再变形为 (4, 8)",
        ),
        (
            "right is left with axes in order (3, 2, 0, 1), reversed along axes (0, 1)",
            "右侧等于左侧的轴按 (3, 2, 0, 1) 排列，并沿轴 (0, 1) 反转",
        ),
        (
            "right is left with every 48 rows along axis 0 taken as (3, 2, 8) instead of (2, 3, 8)",
            "右侧等于左侧沿轴 0 每 48 行按 (3, 2, 8) 而非 (2, 3, 8) 取用",
        ),
        ("parts of heads, kqv", "先分 q、k、v 再分头，kqv"),
        ("part 2 of 3, heads, keys transposed", "3 份中的第 2 份，头，键转置"),
        ("none; 6-9; none", "无；6-9；无"),
        (
            "adam, rate 0.01, betas 0.9, 0.99, eps 1.0e-08 outside, decay 0.1 in the gradient",
            "adam，学习率 0.01，betas 0.9, 0.99，eps 1.0e-08（根号外），衰减 0.1（加到梯度）",
        ),
        ("uniform, bound 0.0884 = 1/sqrt(fan_in)", "均匀分布，上界 0.0884 = 1/sqrt(fan_in)"),
        ("1 rows, 2 columns in front", "前端 1 行 2 列"),
        ("batch size 4 times sequence length 10", "批大小 4 乘以 序列长度 10"),
        ("clip to [-65504, 65504]", "截断到 [-65504, 65504]"),
        ("one bit flipped: 2.3e-10 for 0.98", "有一位翻转：2.3e-10 而非 0.98"),
    ],
)
def test_numbers_are_kept_and_lists_are_shown_part_by_part(text, shown):
    assert evidence_text(text, "zh") == shown
    assert evidence_text(text, "en") == text


@pytest.mark.parametrize(
    "text", ["", "layers.1.norm1 output 0", "a, b", "a text that nobody wrote", "tanh", "float16"]
)
def test_what_is_not_known_stays_as_it_is(text):
    assert evidence_text(text, "zh") == text


def test_names_of_tensors_are_never_translated():
    evidence = {"other": "sum", "side": "left", "tied": "left", "before": 1.0, "residual": 0.0}
    finding = {"cause": "tied_weights_broken", "pair": 3, "confidence": 0.9, "evidence": evidence}
    assert "它与 sum 相同" in cause_proof(finding, "zh")
    assert "other sum" in finding_parts(finding, "zh")[2]


@pytest.mark.parametrize("cause", ["qkv_packing", "gate_up_order", "conv_axes_permuted"])
def test_chinese_says_the_order_and_the_axis_as_english_does(cause):
    (one, *_) = [f for f in FINDINGS if f["cause"] == cause and "text" in f["evidence"]]
    figures = re.findall(r"\d+", one["evidence"]["text"])
    for language in ("en", "zh"):
        assert set(figures) <= set(re.findall(r"\d+", cause_proof(one, language)))


def test_no_space_follows_a_full_stop_where_a_cause_acts_at_several_pairs():
    evidence = {"left": True, "right": False, "before": 0.3, "residual": 2e-8, "pairs": [3, 4, 5]}
    finding = {"cause": "eval_train_mode", "pair": 3, "confidence": 0.9, "evidence": evidence}
    said = cause_sentences([finding], "zh", 3)[0].whole
    assert said.endswith("。共 3 对如此。")
    elsewhere = cause_sentences([finding], "zh", 9)[0].whole
    assert "。作用于 #3。" in elsewhere
    assert "。 " not in said + elsewhere + cause_repair(finding, "zh")
    english_text = cause_sentences([finding], "en", 3)[0].whole
    assert english_text.endswith("is left. The same at 3 pairs.")
