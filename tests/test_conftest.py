"""The switches of conftest.py, each on a small test folder in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[1]
CASES = {
    "test_plain.py": """
import pytest
def test_runs(): pass
@pytest.mark.xfail(strict=True)
def test_expected_failure(): assert False
@pytest.mark.long
def test_long(): pass
""",
    "test_cases.py": """
import pytest
@pytest.mark.few(2)
@pytest.mark.parametrize("case", range(10))
def test_slow_cases(case): assert case in (0, 5)
""",
    "test_skip.py": """
import pytest
def test_skips(): pytest.skip("no reason")
""",
    "test_module_skip.py": """
import pytest
pytest.importorskip("no_such_module")
""",
    "test_marked.py": """
import pytest
@pytest.mark.torch
@pytest.mark.notebook
def test_marked(): raise AssertionError
""",
    "test_tells.py": """
import pytest
import troubleshooter_nb as tnb
from troubleshooter_nb.messages import Message
def test_tells():
    Message("files.path_empty")
    with pytest.raises(FileNotFoundError):
        tnb.open_dump("nowhere")
""",
}


@pytest.fixture
def outcome(tmp_path):
    """Runs some of the cases under the given switches; returns exit code and output."""
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)

    def run(*names: str, workers: int = 0, **switches: str) -> tuple[int, str]:
        for name in names:
            (tmp_path / name).write_text(CASES[name])
        clean = {key: value for key, value in os.environ.items() if not key.startswith("TNB_")}
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"-n{workers}"]
        done = subprocess.run(
            [*command, *names],
            cwd=tmp_path,
            env=clean | switches,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    return run


def test_require_all_leaves_passes_and_expected_failures_alone(outcome):
    code, text = outcome("test_plain.py", TNB_REQUIRE_ALL="1")
    assert code == 0
    assert "1 passed, 1 deselected, 1 xfailed" in text


def test_the_long_switch_selects_long_tests(outcome):
    assert "2 passed, 1 xfailed" in outcome("test_plain.py", TNB_LONG="1")[1]


def test_of_slow_cases_some_run_spread_over_all(outcome):
    assert "2 passed, 8 deselected" in outcome("test_cases.py")[1]
    assert "8 failed, 2 passed" in outcome("test_cases.py", TNB_LONG="1")[1]


def test_require_all_turns_a_skip_into_a_failure(outcome):
    names = "test_skip.py", "test_module_skip.py"
    assert "2 skipped" in outcome(*names)[1]
    code, text = outcome(*names, workers=1, TNB_REQUIRE_ALL="1")
    assert code not in (0, 5)
    assert "1 failed, 1 error in" in text
    assert text.count("TNB_REQUIRE_ALL=1 allows no skip; Skipped: ") >= 2


def test_the_core_switch_deselects_marked_tests(outcome):
    assert "1 deselected" in outcome("test_marked.py", TNB_CORE="1", TNB_REQUIRE_ALL="1")[1]


def test_what_the_package_tells_is_noted_with_the_test_and_not_what_a_test_does(outcome, tmp_path):
    folder = tmp_path / "told"
    code, said = outcome("test_tells.py", TNB_TOLD=str(folder))
    assert code == 0, said
    (file,) = folder.glob("*.jsonl")
    told = {id: test for id, _, test in map(json.loads, file.read_text().splitlines())}
    assert told["files.not_there"] == "test_tells.py::test_tells"
    assert "files.path_empty" not in told
