"""RunCard: what is recorded, what never is, and the difference of two."""

from __future__ import annotations

import getpass
import os
import socket

import troubleshooter_nb as tnb


def test_the_current_card_names_versions_and_no_person_or_machine():
    card = tnb.RunCard.current(seed=3)
    text = " ".join(f"{k} {v}" for k, v in card.to_dict().items())
    assert card.facts["seed"] == 3
    assert "numpy" in card.facts
    for private in (os.path.expanduser("~"), socket.gethostname()):
        assert private not in text
    assert getpass.getuser() not in card.to_dict().values()


def test_the_difference_lists_only_facts_that_differ():
    left, right = (
        tnb.RunCard({"seed": 1, "device": "cpu"}),
        tnb.RunCard({"seed": 2, "device": "cpu"}),
    )
    table = left.difference(right)
    assert table.values.tolist() == [["seed", 1, 2]]
    assert len(left.difference(left)) == 0


def test_a_fact_only_one_card_has_is_a_difference():
    assert tnb.RunCard({"a": 1}).difference(tnb.RunCard()).values.tolist() == [["a", 1, ""]]


def test_a_card_from_a_file_keeps_plain_values_only():
    card = tnb.RunCard.from_dict({"a": 1, "b": [1], "c": {"d": 1}, "e": "x" * 1000, 5: None})
    assert set(card.facts) == {"a", "e", "5"}
    assert len(card.facts["e"]) == 200


def test_markup_in_a_card_is_escaped():
    html = tnb.RunCard({"<b>": "<script>alert(1)</script>"})._repr_html_()
    assert "<script" not in html
    assert "&lt;script" in html


def test_an_empty_card_says_so():
    assert "nothing recorded" in repr(tnb.RunCard())
    assert not tnb.RunCard()
