"""What is taken out of a record: places of this machine, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from troubleshooter_nb.templates.private import clean, cleaner


@pytest.fixture
def by(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setattr(sys, "prefix", "/opt/venv-of-me")
    return cleaner(Path("/home/me/work"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/me/work/run1", "./run1"),
        ("in '/home/me/work'.", "in '.'."),
        ("/home/me.", "~."),
        ("a /home/me/x\n/home/me/y", "a ~/x\n~/y"),
        ("\x1b[32m/opt/venv-of-me/lib/a.py\x1b[0m", "\x1b[32m.../lib/a.py\x1b[0m"),
        (r"'a\n/home/me/x'", r"'a\n~/x'"),
        ("file:///home/me/work/a", "file://./a"),
        ("/home/mela /home/me-too /home/me.d/x", "/home/mela /home/me-too /home/me.d/x"),
        ("/srv/home/me x/home/me", "/srv/home/me x/home/me"),
        ("无法读取/home/me/x中", "无法读取~/x中"),
        ("在/home/me中", "在~中"),
        ("gcc -I/home/me/inc", "gcc -I~/inc"),
        (r"\u001b[32m/home/me \u4e2d/home/me \f/home/me", r"\u001b[32m~ \u4e2d~ \f~"),
        (r"\/home\/me\/x %2Fhome%2Fme//x", r"~\/x ~//x"),
        ("\x1b[K/home/me", "\x1b[K~"),
        ("/tmp/ipykernel_20480/3193479888.py:1", "/tmp/ipykernel/cell.py:1"),
        ("", ""),
    ],
)
def test_places_are_told_without_whose_they_are(by, text, expected):
    assert by(text) == expected


def test_every_text_of_an_output_is_cleaned_and_no_picture(by):
    output = {"data": {"image/png": "/home/me", "text/html": ["<b>/home/me</b>"], "n": 3}}
    drawn = {"image/svg+xml": "<text>/home/me</text>", "/home/me/k": 1}
    assert clean(drawn, by) == {"image/svg+xml": "<text>~</text>", "~/k": 1}
    assert clean(output, by) == {
        "data": {"image/png": "/home/me", "text/html": ["<b>~</b>"], "n": 3}
    }


def test_the_root_is_no_secret(monkeypatch):
    monkeypatch.setenv("HOME", "/")
    assert cleaner(Path("/"))("/srv/a /") == "/srv/a /"
