"""An interrupt at any moment leaves what was measured and found, and says so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from dataclasses import dataclass, field

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.analysis import diagnosis, engine, measuring
from troubleshooter_nb.analysis.interrupts import Interrupts
from troubleshooter_nb.columns.pairs import PAIR_FIGURES
from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.errors import IncompleteWarning
from troubleshooter_nb.naming import site_of_npy_stem


@dataclass
class Reads:
    """Counts reads, and interrupts one of them."""

    interrupted: int = -1
    count: int = 0
    names: list[str] = field(default_factory=list)

    def next(self, name: str) -> None:
        self.count += 1
        self.names.append(name)
        if self.count == self.interrupted:
            raise KeyboardInterrupt


class Here(ArrayInMemory):
    """Values that are measured where they lie, in the calling thread."""

    def read(self, start, stop, into=None):
        self.reads.next(self.name)
        return super().read(start, stop, into)


class Elsewhere:
    """Values that are read like a file's, by the tasks."""

    def __init__(self, array):
        self.array = array
        self.shape, self.dtype, self.size_bytes = array.shape, array.dtype, array.nbytes

    def files(self):
        return ()

    def read(self, start, stop, into=None):
        self.reads.next(self.name)
        return self.array.reshape(-1)[start:stop]


def dumps(kind, reads):
    """Two dumps of a small network of which the second layer's weight differs."""
    rng = np.random.default_rng(0)
    names = [f"fc{n}.{leaf}" for n in range(4) for leaf in ("weight", "bias")]
    right = {name: rng.standard_normal((8, 16)).astype(np.float32) for name in names}
    left = right | {"fc1.weight": right["fc1.weight"] * 1.5, "fc2.bias": -right["fc2.bias"]}
    sides = []
    for arrays in (left, right):
        entries = []
        for order, (name, values) in enumerate(arrays.items()):
            source = kind(values)
            object.__setattr__(source, "reads", reads)
            object.__setattr__(source, "name", name)
            entries.append(Entry(name, site_of_npy_stem(name), source, order=order))
        sides.append(Dump.from_entries(entries))
    return sides


def compared(kind, at=-1):
    """A comparison that is interrupted at a read, its warnings, and how many reads there were."""
    reads = Reads(at)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = tnb.compare(*dumps(kind, reads))
    return found, [w for w in caught if w.category is IncompleteWarning], reads.count


@pytest.mark.parametrize("kind", [Here, Elsewhere])
def test_an_interrupt_at_any_read_keeps_what_was_measured(kind, monkeypatch):
    monkeypatch.setattr(measuring, "BATCH_PAIRS", 2)
    whole, told, count = compared(kind)
    assert not told
    figures = [name for name in PAIR_FIGURES if name != "identical"]
    ended = set()
    for at in range(1, count + 1):
        found, told, _ = compared(kind, at)
        assert len(told) == 1, at
        unmeasured = found.result["reason_id"].values == "interrupted"
        ended.add("measuring" if unmeasured.any() else "later")
        kept = np.flatnonzero(~unmeasured)
        assert str(told[0].message) == str(found.notes[-1])
        for name in figures:
            values = found.result[name].values[kept], whole.result[name].values[kept]
            np.testing.assert_array_equal(*values, err_msg=f"{name} after read {at}")
    assert ended == {"measuring", "later"}


def test_an_interrupted_diagnosis_leaves_the_measured_comparison(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(diagnosis, "diagnosed", interrupted)
    found, told, _ = compared(Here)
    assert [str(one.message) for one in told] == [str(found.notes[-1])]
    assert "all pairs were measured" in found.notes[-1]
    assert found.findings == ()
    assert found.evidence
    measured = tnb.compare(*dumps(Here, Reads()), diagnose=False)
    assert found.result.identical(measured.result)


def test_an_interrupt_in_the_drill_down_keeps_what_was_located(monkeypatch):
    located = []

    def second_is_interrupted(*asked):
        located.append(asked)
        if len(located) == 2:
            raise KeyboardInterrupt
        return locate(*asked)

    locate = engine.locate_pair
    monkeypatch.setattr(engine, "locate_pair", second_is_interrupted)
    found, told, _ = compared(Here)
    assert len(told) == 1
    assert len(found.evidence) <= 1
    assert not (found.result["reason_id"].values == "interrupted").any()
    assert "all pairs were measured" in found.notes[-1]


def test_the_table_is_made_though_an_interrupt_comes_amid_it(monkeypatch):
    table, calls = engine.pair_table, []

    def first_is_interrupted(*asked):
        calls.append(asked)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return table(*asked)

    monkeypatch.setattr(engine, "pair_table", first_is_interrupted)
    found, told, _ = compared(Here)
    assert len(calls) == 2
    assert len(told) == 1
    assert not (found.result["reason_id"].values == "interrupted").any()


def test_a_second_interrupt_is_obeyed(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "pair_table", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compared(Here)


SCRIPT = """
import sys, time, warnings
import numpy as np
import troubleshooter_nb as tnb
from troubleshooter_nb.analysis import diagnosis, engine, measuring
from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.naming import site_of_npy_stem

warnings.simplefilter("ignore")
measuring.BATCH_PAIRS = 1


def wait():
    print("now", flush=True)
    time.sleep(60)


class Waiting(ArrayInMemory):
    def read(self, start, stop, into=None):
        wait()


def waits(*asked, **options):
    wait()


if sys.argv[1] == "diagnosing":
    diagnosis.diagnosed = waits
sides = []
for factor in (1, 2):
    entries = []
    for order in range(4):
        kind = Waiting if order == 2 and sys.argv[1] == "measuring" else ArrayInMemory
        values = kind(np.full(9, float(order + factor)))
        entries.append(Entry(f"x{order}", site_of_npy_stem(f"x{order}"), values, order=order))
    sides.append(Dump.from_entries(entries))
found = tnb.compare(*sides)
print(sorted(found.result["reason_id"].values), found.notes[-1], flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.parametrize(
    ("stage", "said"),
    [
        ("measuring", "interrupted: 2 of 4 pairs were not measured"),
        ("diagnosing", "interrupted: all pairs were measured"),
    ],
)
def test_a_signal_returns_the_comparison(stage, said):
    child = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, stage], stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout.readline() == "now\n"
        child.send_signal(signal.SIGINT)
        answer, _ = child.communicate(timeout=50)
    finally:
        child.kill()
    assert said in answer
    assert child.returncode == 0
    assert answer.count("'interrupted'") == (2 if stage == "measuring" else 0)


class Pressed:
    """Presses Ctrl-C before the n-th line that runs in the analysis once a pair was measured."""

    def __init__(self, at=-1):
        self.at, self.count, self.is_on = at, 0, False

    def progress(self, done, total):
        self.is_on = self.is_on or done > 0

    def __call__(self, frame, event, _):
        if not frame.f_code.co_filename.startswith(ANALYSIS):
            return None
        if event == "line" and self.is_on:
            self.count += 1
            if self.count == self.at:
                signal.raise_signal(signal.SIGINT)
        return self


ANALYSIS = os.path.dirname(engine.__file__)
PRESSES = 60


def pressed(at=-1):
    press = Pressed(at)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IncompleteWarning)
        before = sys.gettrace()
        sys.settrace(press)
        try:
            found = tnb.compare(*dumps(Here, Reads()), progress=press.progress)
        finally:
            sys.settrace(before)
    return found, press


@pytest.mark.parametrize("part", range(4))
def test_ctrl_c_after_the_first_pair_always_gives_what_was_measured(part, monkeypatch):
    monkeypatch.setattr(measuring, "BATCH_PAIRS", 1)
    whole, press = pressed()
    rng = np.random.default_rng(part)
    said = set()
    for at in rng.integers(1, press.count, PRESSES // 4):
        found, _ = pressed(int(at))
        kept = np.flatnonzero(found.result["reason_id"].values != "interrupted")
        assert len(kept) >= 1, at
        for name in ("max_abs_error", "cosine"):
            values = found.result[name].values[kept], whole.result[name].values[kept]
            np.testing.assert_array_equal(*values)
        said |= {getattr(note, "id", "") for note in found.notes}
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert "comparisons.interrupted_after" in said


def test_presses_wait_between_parts_and_one_too_many_does_not():
    with Interrupts() as interrupts:
        assert interrupts.part(lambda: 1) == (1, True)
        signal.raise_signal(signal.SIGINT)
        assert interrupts.part(lambda: 2) == (None, False)
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), Interrupts():
        signal.raise_signal(signal.SIGINT)


def test_who_handles_interrupts_keeps_to_do_so():
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        with Interrupts() as interrupts:
            signal.raise_signal(signal.SIGINT)
            assert interrupts.part(lambda: 1) == (1, True)
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [1]
