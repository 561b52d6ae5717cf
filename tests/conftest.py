"""The switches of the test run.

TNB_REQUIRE_ALL=1  a skipped test is a failure: CI must not pass because something is missing.
TNB_CORE=1         the environment without frameworks and Jupyter: tests marked for them, and those
                   marked `once`, are deselected, which is not a skip; of a test of many cases
                   some are run, for what another numpy changes shows in some.
TNB_LONG=1         also the tests marked `long`, all cases, and far more random ones.
TNB_TOLD=FOLDER    writes there which sentence of the package was told in which test first, for
                   `benchmarks/sentences.py --told FOLDER`.

Of a test marked `few(n)`, whose cases are slow, n are run without TNB_LONG, spread over all.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
import sys
from collections import defaultdict
from pathlib import Path

import hypothesis
import pytest

# Before any framework or pyplot is imported: both read these only once.
os.environ.setdefault("GLOG_v", "4")
os.environ.setdefault("MPLBACKEND", "Agg")

REQUIRE_ALL = os.environ.get("TNB_REQUIRE_ALL") == "1"
CORE = os.environ.get("TNB_CORE") == "1"
LONG = os.environ.get("TNB_LONG") == "1"
TOLD = os.environ.get("TNB_TOLD")

# Modules that each environment mark stands for.
NEEDS = {
    "torch": ["torch"],
    "mindspore": ["mindspore"],
    "notebook": ["ipykernel", "ipywidgets", "anywidget", "jupyterlab", "nbclient", "nbconvert"],
    "browser": ["playwright"],
    "extra": ["distributed", "nh3"],
    "node": [],
}
# Of a test in the core environment.
FIRST_CASES, EVERY_CASE = 2, 15
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
NODE = shutil.which("node")

# No deadline: two busy cores say nothing about our speed. CI must be repeatable.
hypothesis.settings.register_profile("local", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)
hypothesis.settings.register_profile("long", deadline=None, max_examples=2000)
hypothesis.settings.load_profile("long" if LONG else "ci" if "CI" in os.environ else "local")


def missing() -> dict[str, str]:
    """Why tests with a mark cannot run here, by mark."""
    reasons = {}
    for mark, modules in NEEDS.items():
        absent = [name for name in modules if importlib.util.find_spec(name) is None]
        if absent:
            reasons[mark] = f"not installed: {', '.join(absent)}"
    if not CHROMIUM:
        reasons.setdefault("browser", "chromium not found (apt-get install chromium)")
    if not NODE:
        reasons["node"] = "node not found (apt-get install nodejs)"
    return reasons


@pytest.fixture
def seeds_undone():
    """What a test seeds is as before when it ends."""
    from troubleshooter_nb import seed_all

    with seed_all(99):
        yield


UNSAID: list[str] = []  # errors of the package that are no messages, since the last test


def pytest_configure():
    """Look at every error that the package makes: it is a message, and Chinese in Chinese."""
    from tests.messages.rules import english_left
    from troubleshooter_nb.errors import TroubleshooterError
    from troubleshooter_nb.messages import Message

    def __init__(self, *args, **named):
        super(TroubleshooterError, self).__init__(*args, **named)
        raised_in = sys._getframe(1).f_globals.get("__name__", "")
        if args and raised_in.startswith("troubleshooter_nb"):
            if not isinstance(args[0], Message):
                UNSAID.append(f"{raised_in}: {args[0]!r} is no message")
            elif words := english_left(args[0]):
                UNSAID.append(f"{raised_in}: {args[0].id} has English in Chinese: {words!r}")

    TroubleshooterError.__init__ = __init__
    look_at_dumps()
    if TOLD:
        note_what_is_told(Path(TOLD))


def look_at_dumps():
    """Look at what every dump that a reader makes says: notes and reasons are messages too."""
    from tests.messages.rules import english_left
    from troubleshooter_nb.dump import Dump
    from troubleshooter_nb.messages import Foreign, Message

    made = Dump.__init__

    def __init__(self, *args, **named):
        made(self, *args, **named)
        frame = sys._getframe(1)
        while frame and ".formats." not in frame.f_globals.get("__name__", ""):
            frame = frame.f_back
        for text in [*self.notes, *self.index["reason"].values] if frame else ():
            if text and not isinstance(text, Message | Foreign):
                UNSAID.append(f"{self.format}: {text!r} is no message")
            elif text and isinstance(text, Message) and (words := english_left(text)):
                UNSAID.append(f"{self.format}: {text.id} has English in Chinese: {words!r}")

    Dump.__init__ = __init__


def note_what_is_told(folder):
    """Write every sentence that the package makes, with its id and test, when it is the first.

    A file for each process; a line of it is json. Sentences that a test makes itself, and those of
    the tests that make all of them, do not count.
    """
    from troubleshooter_nb.messages import Message

    made, known = Message.__new__, set()
    folder.mkdir(parents=True, exist_ok=True)
    lines = (folder / f"{os.getpid()}.jsonl").open("a", encoding="utf-8")

    def __new__(cls, id, /, **values):
        message = made(cls, id, **values)
        test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0]
        maker = sys._getframe(1).f_globals.get("__name__", "")
        is_told = maker.startswith("troubleshooter_nb") and not test.startswith("tests/messages")
        if is_told and test and id not in known:
            known.add(id)
            with contextlib.suppress(OSError):  # the disk that a test fills is this one, too
                print(json.dumps([id, str(message), test]), file=lines, flush=True)
        return message

    Message.__new__ = __new__


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    UNSAID.clear()
    result = yield
    assert UNSAID == []
    return result


def pytest_report_header():
    if CORE:
        return "troubleshooter_nb: core environment, framework and notebook tests deselected"
    return [f"troubleshooter_nb: {mark} tests cannot run: {why}" for mark, why in missing().items()]


def pytest_collection_modifyitems(config, items):
    unwanted = ({*NEEDS, "once"} if CORE else set()) | (set() if LONG else {"long"})
    wanted = [item for item in items if not unwanted & {mark.name for mark in item.iter_markers()}]
    if not LONG:
        wanted = some_cases(wanted)
    if gone := [*{*items} - {*wanted}]:
        config.hook.pytest_deselected(items=gone)
        items[:] = wanted
    reasons = missing()
    for item in items:
        for mark in {mark.name for mark in item.iter_markers()} & set(reasons):
            item.add_marker(pytest.mark.skip(reason=reasons[mark]))


def some_cases(items):
    """What a test is marked for; in the core the first cases of others, and every so many."""
    cases = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    chosen = set()
    for some in cases.values():
        if mark := some[0].get_closest_marker("few"):
            count = min(mark.args[0], len(some))
            chosen.update(some[number * len(some) // count] for number in range(count))
        elif CORE:
            chosen.update([*some[:FIRST_CASES], *some[FIRST_CASES - 1 :: EVERY_CASE]])
        else:
            chosen.update(some)
    return [item for item in items if item in chosen]


def fail_if_skipped(report):
    """Turn a skip into a failure under TNB_REQUIRE_ALL=1; an expected failure stays one."""
    if not REQUIRE_ALL or not report.skipped or hasattr(report, "wasxfail"):
        return
    _, _, reason = report.longrepr
    modules = "|".join(name for names in NEEDS.values() for name in names)
    # A whole file behind importorskip("torch") cannot be deselected by mark: it never ran.
    if CORE and report.when == "collect" and re.search(f"could not import '({modules})", reason):
        return
    report.outcome = "failed"
    report.longrepr = f"TNB_REQUIRE_ALL=1 allows no skip; {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    report = yield
    fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    report = yield
    report.when = "collect"
    fail_if_skipped(report)
    return report


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of the browser; only for tests marked `browser`, which do not run without one."""
    assert CHROMIUM
    return CHROMIUM
