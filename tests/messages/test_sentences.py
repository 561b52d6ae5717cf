"""Every sentence of the package keeps the rules."""

from __future__ import annotations

import pytest

from tests.messages.rules import sentence_faults, source_faults

pytestmark = pytest.mark.once


def test_every_sentence_is_whole_in_both_languages():
    assert sentence_faults() == []


def test_every_sentence_comes_from_its_table_and_is_said():
    assert source_faults() == []
