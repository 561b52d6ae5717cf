"""Whatever is proved here can be told in Chinese and travels: every word of it, with none left."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping

import pytest

from tests.messages.rules import english_in
from troubleshooter_nb.analysis.causes.case import Fit, Suspicion
from troubleshooter_nb.catalogue import WORDS
from troubleshooter_nb.messages import Message, plain, restored, told
from troubleshooter_nb.render.explanation import cause_proof, cause_repair, shown_value

# Facts and settings that hold names of tensors, layers, settings and transforms.
NAMES = set(
    "other equal duplicates norm part setting meant gates layer names sources mask_source family "
    "transform function addend left_class right_class".split()
)
# Functions, arguments, data sets and formats are called so in every language.
TERMS = set(
    "adam sgd betas epsilon momentum erf gelu silu relu relu6 elu celu leaky_relu tanh sigmoid "
    "quick hardswish hardtanh softplus mish inf nan same zero ImageNet CLIP MNIST x n - "
    "align_corners half_pixel asymmetric replicate circular reflect constant truncated".split()
)
_NEUTRAL = re.compile(
    r"-?[\d.]\S*|-?inf|(?:bfloat|float|uint|int|tf|hf)\d\w*|CIFAR-10|[ifgo]{4}|[rzn]{3}|1?/?sqrt\(.*\)"
)
MADE: list[Suspicion] = []
SETTINGS: dict[tuple[str, str], None] = {}


@pytest.fixture(scope="session", autouse=True)
def _recorded() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for kind, record in ((Suspicion, MADE.append), (Fit, _record_settings)):
            patch.setattr(kind, "__init__", _recording(kind.__init__, record))
        yield


def _recording(made, record):
    def __init__(self, *values, **named):
        made(self, *values, **named)
        if sys._getframe(1).f_globals["__name__"].startswith("troubleshooter_nb"):
            record(self)

    return __init__


def _record_settings(fit):
    SETTINGS.update(((k, v), None) for k, v in fit.settings.items() if isinstance(v, str))


@pytest.fixture(autouse=True)
def _told() -> Iterator[None]:
    """Look at everything that a test made."""
    MADE.clear()
    SETTINGS.clear()
    yield
    for suspicion in MADE:
        finding = {"cause": suspicion.cause, "evidence": dict(suspicion.evidence)}
        facts = [v for k, v in suspicion.evidence.items() if k not in NAMES]
        facts = [value for value in facts if not isinstance(value, Mapping)]
        texts = [cause_proof(finding, "zh"), cause_repair(finding, "zh")]
        texts += [shown_value(value, "zh") for value in facts]
        assert [text for text in texts if english_in(text)] == []
    words = [*SETTINGS, *(word for one in MADE for word in _words(one.evidence))]
    assert [(name, word) for name, word in words if not _has_chinese(name, word)] == []
    for _, word in words:
        back = restored(json.loads(json.dumps(plain(word))))
        assert (back, told(back, "zh")) == (word, told(word, "zh"))


def _words(facts: Mapping) -> Iterator[tuple[str, str]]:
    for name, value in facts.items():
        if name in NAMES:
            continue
        if isinstance(value, Mapping):
            yield from _words(value)
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(one, str):
                yield name, one


def _has_chinese(name: str, word: str) -> bool:
    if isinstance(word, Message) or word in WORDS or name in NAMES:
        return True
    parts = re.split(r"[ ,*]+", word)
    return all(part in TERMS or not part or _NEUTRAL.fullmatch(part) for part in parts)
