"""What is shown of work while it lasts, and that nothing stays of it."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.analysis import progress
from troubleshooter_nb.analysis.progress import reporter, watched
from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming import Site

WAIT = 20.0  # seconds until a test gives up


class Seen:
    """A line that remembers what it showed."""

    def __init__(self) -> None:
        self.texts, self.is_cleared = [], False
        self.changed = threading.Condition()

    def show(self, text, share):
        with self.changed:
            self.texts.append(text)
            self.changed.notify_all()

    def clear(self):
        self.is_cleared = True

    def waits_for(self, part):
        with self.changed:
            return self.changed.wait_for(lambda: any(part in t for t in self.texts), WAIT)


@pytest.fixture
def seen(monkeypatch):
    line = Seen()
    monkeypatch.setattr(progress, "_line", lambda: line)
    monkeypatch.setattr(progress, "_SHOW_AFTER", 0.01)
    monkeypatch.setattr(progress, "_EVERY", 0.01)
    return line


def test_a_stage_is_shown_though_nothing_advances(seen):
    before = threading.active_count()
    with watched(None) as watch:
        watch.begin(Message("comparisons.pairing"))
        assert seen.waits_for("pairing the entries")
        watch.count(2_000_000_000)
        watch.advance(1_000_000_000)
        assert seen.waits_for("50%, 1.00 of 2.00 GB")
    assert seen.is_cleared
    assert threading.active_count() == before


def test_a_stage_is_shown_in_the_language_in_force(seen):
    with tnb.option_context(language="zh"), watched(None) as watch:
        watch.begin(Message("comparisons.pairing"))
        assert seen.waits_for("配对两侧条目")


def test_what_is_soon_done_shows_nothing(seen, monkeypatch):
    monkeypatch.setattr(progress, "_SHOW_AFTER", 3600.0)
    with watched(None) as watch:
        watch.begin(Message("comparisons.opening"))
        watch.count(1)
        watch.advance(1)
    assert seen.texts == []
    assert not seen.is_cleared


def test_a_function_hears_of_bytes_alone(seen):
    heard = []
    with watched(lambda done, total: heard.append((done, total))) as watch:
        watch.begin(Message("comparisons.opening"))
        watch.count(3)
        watch.advance(1)
        watch.advance(2)
        watch.begin(Message("comparisons.diagnosing"))
    assert heard == [(1, 3), (3, 3)]
    assert seen.texts == []


def test_nothing_is_shown_to_whom_it_was_denied(seen):
    with watched(False) as watch:
        watch.begin(Message("comparisons.opening"))
    with reporter(False, 3) as advance:
        advance(3)
    assert seen.texts == []


def test_where_nothing_can_be_erased_a_tenth_is_a_line(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_EVERY", 0.0)
    with reporter(True, 100) as advance:
        for _ in range(100):
            advance(1)
    assert len(capsys.readouterr().err.splitlines()) == 11


class Waiting(ArrayInMemory):
    """Values that come when a text was shown."""

    def read(self, start, stop, into=None):
        assert self.seen.waits_for(self.text)
        return super().read(start, stop, into)


def held(seen, text, values):
    source = Waiting(values)
    object.__setattr__(source, "seen", seen)
    object.__setattr__(source, "text", text)
    site = Site("file", "x", 0, "", "output")
    return Dump.from_entries([Entry("x", site, source, order=0)])


def test_comparing_shows_its_diagnosis(seen, monkeypatch):
    def waits(measured, *_, **__):
        assert seen.waits_for("looking for where and why")
        return measured

    monkeypatch.setattr("troubleshooter_nb.analysis.diagnosis.diagnosed", waits)
    tnb.compare({"x": np.ones(3)}, {"x": np.zeros(3)})
    assert seen.is_cleared


def test_comparing_shows_where_it_locates(seen):
    other = Dump.from_entries([Entry("x", Site("file", "x"), ArrayInMemory(np.zeros(3)), order=0)])
    left = held(seen, "comparing:", np.ones(3))
    assert not tnb.compare(left, other, diagnose=False).passed
    assert seen.is_cleared
