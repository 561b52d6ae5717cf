"""Every sentence of the package keeps the rules."""

from __future__ import annotations

from tests.messages.rules import catalogue_faults, source_faults


def test_the_catalogue_is_whole_in_both_languages():
    assert catalogue_faults() == []


def test_every_sentence_comes_from_the_catalogue_and_is_said():
    assert source_faults() == []
