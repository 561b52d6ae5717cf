"""The documented scripts, run as their users run them: one process each, files in a new folder."""

from __future__ import annotations

import csv
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
DATA = TESTS / "data/snippets/s001"
NETS = TESTS / "data/compat/troubleshooter/nets"

pytestmark = pytest.mark.torch


def run(script: str, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Run one of the stored scripts; its output folder is its first argument."""
    program = [sys.executable, str(DATA / f"{script}.py"), str(out), *more]
    unset = {key: value for key, value in os.environ.items() if key != "TNB_HOOKS_COLUMNS"}
    folder = out if out.is_dir() else out.parent
    done = subprocess.run(
        program, capture_output=True, text=True, cwd=folder, env=unset, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done


def expected(name: str) -> str:
    return (DATA / "expected" / name).read_text()


def assert_alike(got: str, want: str) -> None:
    """The same text, in which numbers may differ by their last bits: processors add differently."""
    number = re.compile(r"-?[0-9]+\.[0-9]+(?:e-?[0-9]+)?")
    assert number.sub("", got) == number.sub("", want)
    found, wanted = ([*map(float, number.findall(text))] for text in (got, want))
    assert found == pytest.approx(wanted, rel=2**-18, abs=1e-7)


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(text.splitlines()))


def assert_same_figures(got: list[list[str]], want: list[list[str]]) -> None:
    """The same rows; figures to 1e-4, as processors sum in other orders: some are differences."""
    assert [row[:6] for row in got] == [row[:6] for row in want]
    for ours, theirs in zip(got[1:], want[1:], strict=True):
        for cell, other in zip(ours[6:], theirs[6:], strict=True):
            number, wanted = (float(one.rstrip("%") or "nan") for one in (cell, other))
            slack = {"rel_tol": 1e-4, "abs_tol": 1e-4 if other.endswith("%") else 1e-9}
            both_nan = math.isnan(number) and math.isnan(wanted)
            assert both_nan or math.isclose(number, wanted, **slack), (ours, theirs)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("arguments", "table"),
    [([], "s001_accuracy_sampled.csv"), (["--full", "--shapes"], "s001_accuracy_full.csv")],
    ids=["sampled", "full"],
)
def test_seed_001_dumps_a_net_twice_and_compares(tmp_path, arguments, table):
    done = run("s001_accuracy", tmp_path, *arguments)
    assert (done.stdout, done.stderr) == ("", "")
    got = rows((tmp_path / "module_result.csv").read_text())
    assert_same_figures(got, rows(expected(table)))
    if not arguments:
        assert_alike((tmp_path / "bench_op.pkl").read_text(), expected("s001_bench_op_sampled.pkl"))
        lines = run("s001_read_lines", tmp_path / "bench_op.pkl", "2").stdout
        assert_alike(lines, expected("s001_read_lines.txt"))


@pytest.mark.long
def test_seed_001_compares_two_copies_of_a_residual_net(tmp_path):
    run("s001_accuracy_resnet", tmp_path, str(NETS))
    got = []
    for row in rows((tmp_path / "resnet_result.csv").read_text())[1:]:
        assert row[0] == row[1]
        is_one = row[6] != "nan" and abs(float(row[6]) - 1) < 1e-12
        got.append(f"{row[0]} | {row[4]} | {'1' if is_one else row[6]}")
    want = [line for line in expected("s001_accuracy_resnet.txt").splitlines() if line[0] != "#"]
    assert len(want) == 765
    assert got == want


@pytest.mark.long
def test_seed_001_dumps_the_steps_of_a_schedule(tmp_path):
    assert run("s001_schedule", tmp_path).stdout == expected("s001_schedule.txt")


@pytest.mark.long
def test_seed_001_dumps_arrays(tmp_path):
    done = run("s001_async", tmp_path)
    assert_alike(done.stdout, expected("s001_async.txt"))
    assert done.stderr.count("TroubleshooterWarning") == 1


def test_seed_001_stops_at_an_overflow(tmp_path):
    printed = run("s001_overflow", tmp_path).stdout
    said, _, lines = expected("s001_overflow.txt").partition("# lines of the file:")
    time = r"[0-9]{8}_[0-9]{6}"
    assert re.fullmatch(re.escape(said).replace(r"\{YYYYmmdd_HHMMSS\}", time), printed)
    (file,) = tmp_path.iterdir()
    written = file.read_text().splitlines()
    values = [line for line in written if "_stack_info." not in line]
    assert values == lines.splitlines()[1:]
    stack = written[: -len(values)]
    assert [f"_stack_info.{k}" in line for k, line in enumerate(stack)] == [True] * len(stack)
    assert "function='<module>'" in stack[-1]
