"""Every cause that is found has an entry, every entry is found, whole and of known rules."""

import ast
import string
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import troubleshooter_nb
from tests.messages.rules import CHINESE, english_in
from troubleshooter_nb import catalogue
from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.layers import LAYERS
from troubleshooter_nb.analysis.diagnosis import findings_of
from troubleshooter_nb.catalogue import CAUSES, FAMILIES, words
from troubleshooter_nb.catalogue.proofs import alike, becomes, except_for, leaves, recomputed
from troubleshooter_nb.render.explanation import cause_proof, cause_repair, cause_title

pytestmark = pytest.mark.once

PACKAGE = Path(troubleshooter_nb.__file__).parent
# Where causes are found; everything else asks their entries.
DETECTORS = ("analysis/causes/", "analysis/self_noise.py", "catalogue/")
GENERAL = ("analysis/causes/confidence.py", "analysis/causes/training/updates.py")
# Words of other rooms that are called as a cause is: an option, a setting, a format.
OF_OTHERS = {"learning_rate", "pad_mode", "tf32"}


def trees() -> Iterator[ast.Module]:
    for path in sorted((PACKAGE / "analysis").rglob("*.py")):
        yield ast.parse(path.read_text("utf-8"))


def texts(node: ast.AST) -> set[str]:
    constants = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant))
    return {value for value in constants if isinstance(value, str)}


def first_text(call: ast.Call) -> set[str]:
    """The first argument of a call, also as the first of a starred tuple."""
    first = call.args[0] if call.args else None
    if isinstance(first, ast.Starred) and isinstance(first.value, ast.Tuple):
        first = first.value.elts[0]
    return {first.value} if isinstance(first, ast.Constant) else set()


def found_causes(tree: ast.Module) -> Iterator[str]:
    """Causes that a module tells: to a suspicion, or as ``cause=``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in ("Suspicion", "suspicion", "_suspicion"):
                yield from first_text(node)
            given = [one.value for one in node.keywords if one.arg == "cause"]
            yield from (one.value for one in given if isinstance(one, ast.Constant) and one.value)


def causes_of_laws() -> Iterator[str]:
    """Causes that the laws and searches of layers name for a setting."""
    for layer in LAYERS:
        for cause in layer.causes.values():
            yield from (cause,) if isinstance(cause, str) else (cause.cause, cause.usual)


def gaps(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}


def test_every_cause_that_is_found_has_an_entry():
    found = {cause for tree in trees() for cause in found_causes(tree)} | {*causes_of_laws()}
    assert len(found) > 70
    assert found - CAUSES.keys() == set()


def test_every_entry_is_found_somewhere():
    named = set().union(*map(texts, trees()))
    assert CAUSES.keys() - named == set()


def test_what_only_weighs_and_shows_causes_names_none():
    files = [(path, path.relative_to(PACKAGE).as_posix()) for path in PACKAGE.rglob("*.py")]
    general = [path for path, name in files if name in GENERAL or not name.startswith(DETECTORS)]
    named = {path: texts(ast.parse(path.read_text("utf-8"))) & CAUSES.keys() for path in general}
    assert {path: causes for path, causes in named.items() if causes - OF_OTHERS} == {}
    assert len(general) > 300


def test_no_cause_is_in_two_families():
    assert sum(len(family.CAUSES) for family in FAMILIES) == len(CAUSES)


def test_no_word_stands_twice():
    tables = [words.WORDS, *(getattr(family, "WORDS", {}) for family in FAMILIES)]
    counted = Counter(word for table in tables for word in table)
    counted.update(word for one in CAUSES.values() for word in one.words)
    assert [word for word, count in counted.items() if count > 1] == []
    assert counted.keys() == catalogue.WORDS.keys()


@pytest.mark.parametrize("cause", CAUSES)
def test_an_entry_says_the_same_in_both_languages(cause):
    one = CAUSES[cause]
    for english, chinese in (one.title, one.proof, one.repair):
        assert english.strip()
        assert english.isascii()
        assert CHINESE.search(chinese)
        assert english_in(chinese) == ""
        assert gaps(english) == gaps(chinese)
    assert gaps(one.proof[0])
    assert not gaps(one.title[0])
    for texts_of, ends in ((one.proof, ".。"), (one.repair, ".。")):
        assert all(text.endswith(end) for text, end in zip(texts_of, ends, strict=True))


def test_rules_speak_of_causes_that_there_are():
    wholes = Counter(one.is_part_of for one in CAUSES.values())
    lacking = Counter(name for one in CAUSES.values() for name in one.lacks)
    assert min(wholes.values()) > 1
    assert max(lacking.values()) == 1
    for cause, one in CAUSES.items():
        assert set(one.excludes) <= CAUSES.keys() - {cause}
        assert 0 < one.at_most <= 1


def test_a_parameter_that_a_side_lacks_has_its_cause():
    assert catalogue.of_lacking("bias") == catalogue.of_lacking("beta") == "bias_missing"
    assert catalogue.of_lacking("gamma") == "bn_gamma_ignored"
    assert catalogue.of_lacking("running_mean") is None


def test_a_cause_that_another_version_found_has_no_words_and_no_rules():
    found = {"cause": "of_later", "evidence": {"left": 1, "right": 2, "before": 1.0}}
    assert cause_title("of_later", "zh") == "of_later"
    assert "left 1" in cause_proof(found, "en")
    assert cause_repair(found, "en") == ""
    assert catalogue.of("of_later").explains


def confidence_of(cause: str, *others: str) -> float:
    """How sure a cause is beside others that explain the same pair as well."""
    one, *rest = (Suspicion(id, 1e-2, 1e-7, 1e-2, 1e-7, pair=3) for id in (cause, *others))
    (finding,) = [found for found in findings_of([one, *rest], 3) if found.cause == cause] or [None]
    return finding.confidence if finding else 0.0


def test_parts_of_one_whole_are_no_rivals_and_others_are():
    sure = confidence_of("learning_rate")
    assert confidence_of("learning_rate", "weight_decay_coupling") == sure > 0.9
    assert confidence_of("learning_rate", "loss_reduction") < 0.5
    # No two causes without a whole are parts of the same.
    assert confidence_of("softmax_axis", "gelu_variant") < 0.5


def test_a_cause_that_explains_nothing_is_no_rival_and_never_likely():
    assert confidence_of("softmax_axis", "kernel_fault") == confidence_of("softmax_axis") > 0.9
    assert confidence_of("kernel_fault") == 0.2
    assert confidence_of("kernel_fault", "softmax_axis") == 0.0


@pytest.mark.parametrize(
    ("proof", "english", "chinese"),
    [
        (
            recomputed("the mask", "掩码"),
            "Recomputed in float64 from each side's own inputs, the mask: left {left}, right "
            "{right}; that leaves {residual} of {before}.",
            "分别用两侧自己的输入以 float64 重算，掩码：左侧 {left}，右侧 {right}；由此差异由 "
            "{before} 降到 {residual}。",
        ),
        (
            leaves("The shift is {left} and {right}", "偏移"),
            "The shift is {left} and {right}; that leaves {residual} of {before}.",
            "偏移：左侧 {left}，右侧 {right}；由此差异由 {before} 降到 {residual}。",
        ),
        (
            alike("Paths", "路径", "by one path", "统一路径后"),
            "Paths: left {left}, right {right}. Relative error {before}; by one path {residual} is "
            "left.",
            "路径：左侧 {left}，右侧 {right}。相对误差 {before}；统一路径后剩余 {residual}。",
        ),
        (
            becomes("Axes {axes}", "轴 {axes}"),
            "Axes {axes}: {before} becomes {residual}.",
            "轴 {axes}：误差由 {before} 降到 {residual}。",
        ),
        (
            except_for("{count} are inf", "{count} 个为 inf"),
            "{count} are inf; the others differ by {residual}.",
            "{count} 个为 inf；其余相差 {residual}。",
        ),
    ],
)
def test_a_proof_says_its_own_and_what_many_share(proof, english, chinese):
    assert proof == (english, chinese)
