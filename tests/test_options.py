"""Options: closed names and values, scoped changes."""

from __future__ import annotations

import threading

import pytest

import troubleshooter_nb as tnb


def test_a_context_puts_the_old_values_back():
    with tnb.option_context(language="zh", ascii=True):
        assert tnb.get_options()["language"] == "zh"
    assert tnb.get_options()["language"] == "en"


def test_an_unknown_name_or_value_changes_nothing():
    for wrong in ({"langauge": "en"}, {"language": "de"}, {"worst_rows": 0}, {"html_bytes": "9"}):
        with pytest.raises(tnb.OptionError):
            tnb.set_options(**({"ascii": True} | wrong))
    assert tnb.get_options()["ascii"] is False


def test_options_of_one_thread_do_not_reach_another():
    seen = []
    with tnb.option_context(language="zh"):
        thread = threading.Thread(target=lambda: seen.append(tnb.get_options()["language"]))
        thread.start()
        thread.join()
    assert seen == ["en"]
