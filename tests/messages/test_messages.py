"""Messages as values: gaps, lists, travel, errors."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest

from troubleshooter_nb import messages
from troubleshooter_nb.errors import EntryNotFoundError, FormatError, ReadError
from troubleshooter_nb.messages import (
    Foreign,
    Message,
    ids_of,
    joined,
    message_of,
    parts_of,
    plain,
    restored,
    told,
)
from troubleshooter_nb.options import option_context

pytestmark = pytest.mark.once

MORE = Message("lists.more", shown="a", count=1234)


def test_a_message_is_english_text_that_knows_its_id():
    assert MORE == "a and 1,234 more"
    assert str(MORE) == "a and 1,234 more"
    assert MORE.id == "lists.more"
    assert MORE.told("zh") == "a，另有 1,234 项"


def test_an_unknown_id_and_a_missing_value_are_errors():
    with pytest.raises(KeyError, match=r"lists\.nothing"):
        Message("lists.nothing")
    with pytest.raises(KeyError, match="count"):
        Message("lists.more", shown="a")


def test_numbers_of_numpy_and_messages_fill_gaps():
    message = Message("lists.more", shown=MORE, count=np.int64(3))
    assert message == "a and 1,234 more and 3 more"
    assert message.told("zh") == "a，另有 1,234 项，另有 3 项"
    assert type(message.values["count"]) is int


@pytest.mark.parametrize(
    ("form", "english", "chinese"),
    [
        ("", "a, b, c", "a、b、c"),
        ("r", "'a', 'b', 'c'", "'a'、'b'、'c'"),
        (";", "a; b; c", "a；b；c"),
        ("+", "a + b + c", "a + b + c"),
        (" ", "a b c", "a b c"),
        ("\n", "a\nb\nc", "a\nb\nc"),
        ("&", "a and b and c", "a、b、c"),
        ("2", "a, b and 1 more", "a、b，另有 1 项"),
        ("r2", "'a', 'b' and 1 more", "'a'、'b'，另有 1 项"),
        ("3", "a, b, c", "a、b、c"),
    ],
)
def test_lists_are_shown_as_the_template_says(monkeypatch, form, english, chinese):
    template = f"{{names:{form}}}"
    known = {**messages.SENTENCES, "test.names": (template, template)}
    monkeypatch.setattr(messages, "SENTENCES", known)
    message = Message("test.names", names=["a", "b", "c"])
    assert (message, message.told("zh")) == (english, chinese)


@pytest.mark.parametrize(("count", "said"), [(0, "0 rows"), (1, "1 row"), (2000, "2,000 rows")])
def test_a_number_chooses_its_word(monkeypatch, count, said):
    template = "{count:,} {count:row|rows}"
    monkeypatch.setattr(messages, "SENTENCES", {"test.rows": (template, template)})
    assert Message("test.rows", count=count) == said


def test_what_is_joined_can_be_taken_apart():
    both = joined([MORE, "", joined(["typed by hand", Message("system.exists")])])
    assert both == "a and 1,234 more; typed by hand; File exists"
    assert told(both, "zh") == "a，另有 1,234 项；typed by hand；已有同名文件"
    assert [str(part) for part in parts_of(both)] == [MORE, "typed by hand", "File exists"]
    assert ids_of(both) == ["lists.more", "system.exists"]
    assert joined(["", MORE]) is MORE
    assert joined([]) == ""


def test_messages_travel_as_json_pickle_and_copies():
    message = joined([Message("lists.more", shown=MORE, count=2), "by hand"])
    back = restored(json.loads(json.dumps(plain(message))))
    for one in (back, pickle.loads(pickle.dumps(message)), copy.deepcopy(message)):
        assert one == message
        assert one.id == message.id
        assert told(one, "zh") == told(message, "zh")
    assert restored(plain("by hand")) == "by hand"


def test_a_message_of_another_version_is_shown_by_its_text():
    stored = {"message": "lists.of_tomorrow", "values": {}, "text": "something new"}
    assert restored(stored) == "something new"
    assert restored({**stored, "message": "lists.more"}) == "something new"


def test_errors_are_shown_in_the_language_in_force():
    error = FormatError(MORE)
    assert str(error) == "a and 1,234 more"
    with option_context(language="zh"):
        assert str(error) == "a，另有 1,234 项"
        assert str(EntryNotFoundError(MORE)) == "a，另有 1,234 项"
        assert str(ReadError(MORE)) == "a，另有 1,234 项"
    assert pickle.loads(pickle.dumps(error)).args[0].id == "lists.more"


def test_an_exception_stands_for_what_it_says(tmp_path):
    assert message_of(FormatError(MORE)) is MORE
    with pytest.raises(OSError, match="No such file") as caught:
        (tmp_path / "nothing").read_bytes()
    assert told(message_of(caught.value), "zh") == "没有该文件或文件夹"
    assert isinstance(message_of(ValueError("of numpy")), Foreign)
    assert Message("lists.more", shown=ValueError("of numpy"), count=2) == "of numpy and 2 more"
