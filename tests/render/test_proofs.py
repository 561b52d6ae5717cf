"""What is said of findings: every cause, in both languages, whatever its evidence."""

import math
import string

import pytest

from troubleshooter_nb.catalogue import CAUSES
from troubleshooter_nb.render.explanation import (
    cause_proof,
    cause_repair,
    cause_sentences,
    cause_title,
    finding_parts,
    shown_value,
)

# What detectors put into the gaps, by name.
EVIDENCE = {
    "left": "tanh",
    "right": 1e-05,
    "side": "left",
    "sides": ["left"],
    "tied": "right",
    "longer": "left",
    "late": "right",
    "clipped": "left",
    "unbiased": "right",
    "text": "blocks of 64 rows in the order 1, 0",
    "kind": "permute",
    "axes": [1, 0],
    "axis": 2,
    "norm": "bn1",
    "layer": "bn1",
    "other": "layers.10.weight",
    "form": "relu",
    "format": "bfloat16",
    "what": "rows permuted",
    "how": "modulo 2**32",
    "name": "world size",
    "names": ["world size"],
    "part": "encoder",
    "filler": "zeros",
    "drawn": "normal, 0.02",
    "content": "zeros",
    "value": 0.0,
    "recipes": ["ImageNet, 0..1 against 0..255"],
    "factor_name": "255",
    "gradients": "recorded",
    "left_rule": "adam, eps 1e-08",
    "right_rule": "adam, eps 1e-06",
    "first_zero": True,
    "never": False,
    "self_noise": 3.2e-7,
    "first": 1.5e-7,
    "later": 0.12,
}
NUMBER = 0.0123456789
FIGURES = {"before": 4.643934e-4, "residual": 6.04e-8, "rival": 0.0718, "pairs": [3]}


def gaps(template):
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}


def finding(cause, evidence, confidence=0.9, pair=3):
    return {"cause": cause, "pair": pair, "confidence": confidence, "evidence": evidence}


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("cause", sorted(CAUSES))
def test_evidence_fills_the_words_of_every_cause(cause, language):
    one = CAUSES[cause]
    template = one.proof[language == "zh"]
    wanted = gaps(template) | gaps(one.repair[language == "zh"])
    evidence = {name: EVIDENCE.get(name, NUMBER) for name in wanted} | FIGURES
    found = finding(cause, evidence)
    said = [cause_title(cause, language)]
    said += [cause_proof(found, language), cause_repair(found, language)]
    assert all(text and not {"{", "}", "–"} & set(text) for text in said), said
    assert "None" not in " ".join(said)
    # Its own sentence is used, not a general one.
    assert said[1].startswith(template.partition("{")[0])
    if "before" in gaps(template):
        assert "4.6e-4" in said[1]


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("cause", sorted(CAUSES))
def test_no_evidence_at_all_gives_dashes_and_no_error(cause, language):
    one = finding(cause, {})
    assert "–" in cause_proof(one, language)
    assert cause_repair(one, language)
    assert finding_parts(one, language)[0].startswith("#3 ")


@pytest.mark.parametrize("value", [None, math.nan, "some text", [1.5, 2.5], {"a": 1}])
def test_gaps_with_a_format_take_whatever_the_evidence_holds(value):
    one = finding("bn_momentum_convention", {**FIGURES, "ratio": value, "tensors": 4})
    assert cause_proof(one, "en")


def test_one_cause_may_be_proved_in_several_ways():
    layout = finding("rope_interleave", {**FIGURES, "heads": 4, "head_size": 16})
    assert "4 heads of 16 rows" in cause_proof(layout, "en")
    call = finding("rope_interleave", {**FIGURES, "left": "halves", "right": "pairs"})
    assert "left halves, right pairs" in cause_proof(call, "en")
    assert "4.6e-4" in cause_proof(call, "en")
    shift = finding("position_offset", {**FIGURES, "offset": 2.0, "kind": "constant"})
    assert "(offset 2)" in cause_proof(shift, "en")


def test_numbers_are_short_and_sides_are_chinese_words():
    assert shown_value(1e-05) == "1e-5"
    assert shown_value(0.9990000001) == "0.999"
    assert shown_value(True) == "yes"
    assert shown_value([1.0, 2.0] * 4) == "1, 2, 1, 2, 1, 2 …"
    text = cause_proof(finding("bn_momentum_zero", {**FIGURES, "side": "left", "tensors": 2}), "zh")
    assert text.startswith("左侧的 2 个")


def test_a_cause_below_its_threshold_is_called_possible_or_not_named():
    evidence = FIGURES | {"left": 1e-3, "right": 1e-5}
    sure, maybe, hardly = (
        [said.whole for said in cause_sentences([finding("norm_eps", evidence, c)], "en", 3)]
        for c in (0.9, 0.2, 0.19)
    )
    assert sure[0].startswith("Likely cause (90% sure): The normalisation uses another eps. Fitted")
    assert sure[1].startswith("What to do: Set the same value")
    assert maybe[0].startswith("Possible cause (20% sure): ")
    assert hardly == ["No known cause explains its values."]


def test_a_cause_that_acts_elsewhere_says_where_and_others_are_named():
    found = [
        finding("norm_eps", FIGURES | {"left": 1e-3, "right": 1e-5, "pairs": [7, 9]}, pair=7),
        finding("kernel_fault", FIGURES, 0.4, pair=9),
    ]
    said = [one.whole for one in cause_sentences(found, "en", 8)]
    assert "It acts at #7." in said[0]
    assert "The same at 2 pairs (#7, #9)." in said[0]
    assert said[2] == "Also possible: One side's kernel is not exact (40%, #9)."
    # What acts behind the first difference does not explain it.
    said = [one.whole for one in cause_sentences(found[:1], "en", 3)]
    assert said[0] == "No known cause explains its values."
    assert "#7" in said[1]
