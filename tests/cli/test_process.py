"""The command as a process: in pipes and terminals, with its streams closed, interrupted."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import COMMAND, environment, in_terminal, interrupted, piped
from troubleshooter_nb.render.lines import width

pytestmark = pytest.mark.once

COLOUR = re.compile(r"\x1b\[(\d*)m")
# A comparison whose reading is slow, which says by a file that it is amid it.
SLOW = """
import sys, time
from pathlib import Path
from troubleshooter_nb.cli.main import main
from troubleshooter_nb.formats import file_source, npy_file
from troubleshooter_nb.analysis import measuring
read = measuring.read_in
def slowly(values, source, start):
    amid.count += 1
    if amid.count > 3:
        amid.path.touch()
        time.sleep(0.4)
    read(values, source, start)
class amid:
    count, path = 0, Path(sys.argv[1])
measuring.read_in = slowly
measuring.BATCH_PAIRS = 1
measuring.threads = lambda: 1
from troubleshooter_nb.analysis import engine
engine.threads = lambda: 1
sys.exit(main(sys.argv[2:]))
"""


def without_progress(shown):
    """What stays on the screen: a busy machine shows what is being done meanwhile."""
    return shown.rpartition("\r\x1b[K")[2]


def test_the_installed_commands_are_this_one():
    for name in ("tnb", "troubleshooter-nb"):
        command = shutil.which(name, path=str(Path(sys.executable).parent))
        assert command is not None
        assert piped("--version", command=[command]) == piped("--version")


def test_a_pipe_gets_plain_text(runs):
    code, out, err = piped("compare", runs / "left", runs / "right")
    assert (code, err) == (1, "")
    assert "\x1b" not in out
    assert max(map(width, out.splitlines())) <= 100


@pytest.mark.parametrize(("right", "code", "colour"), [("right", 1, "31"), ("left", 0, "32")])
def test_a_terminal_gets_the_verdict_in_colour_and_nothing_else(runs, right, code, colour):
    ended, shown = in_terminal("compare", runs / "left", runs / right, columns=40)
    shown = without_progress(shown)
    assert ended == code
    assert COLOUR.findall(shown) == [colour, "0"]
    assert re.match(rf"\x1b\[{colour}m[✓✗] \d of 5 pairs", shown)
    plain = COLOUR.sub("", shown)
    assert max(map(width, plain.splitlines())) <= 40


@pytest.mark.parametrize("switch", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_gets_no_colour_that_is_not_wanted(runs, switch):
    code, shown = in_terminal("compare", runs / "left", runs / "right", **switch)
    assert code == 1
    assert "\x1b" not in without_progress(shown)


def test_progress_is_shown_on_a_terminal_alone_and_leaves_no_trace(runs, tmp_path):
    slow = [sys.executable, "-c", SLOW, str(tmp_path / "amid")]
    words = ("compare", runs / "left", runs / "right", "--no-diagnose")
    code, shown = in_terminal(*words, command=slow, columns=24)
    assert code == 1
    line, _, rest = shown.rpartition("\r\x1b[K")
    assert "comparing:" in line
    assert all(width(part) < 24 for part in line.replace("\x1b[K", "").split("\r"))
    assert COLOUR.sub("", rest).startswith("✗ 1 of 5 pairs")


def test_a_reader_that_has_seen_enough_is_no_error(runs, tmp_path):
    words = [*COMMAND, "compare", str(runs / "left"), str(runs / "right"), "-o", "a.csv"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, cwd=tmp_path, env=environment(), **pipes) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 1
    assert (tmp_path / "a.csv").exists()


def test_closed_streams_are_no_error(runs):
    line = f"exec '{sys.executable}' -m troubleshooter_nb compare '{runs}/left' '{runs}/right'"
    for closed in (">&-", ">&- 2>&-"):
        assert subprocess.run(f"{line} {closed}", shell=True, env=environment()).returncode == 1


@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_an_encoding_lacks_is_written_as_its_number(runs, language):
    coded = {"PYTHONIOENCODING": "ascii", "TNB_LANGUAGE": language}
    code, out, err = piped("compare", runs / "left", runs / "right", **coded)
    assert (code, err) == (1, "")
    assert out.isascii()
    assert out.startswith("x 1 of 5 pairs differ" if language == "en" else "x 5 \\u5bf9")


def test_ctrl_c_keeps_what_was_measured(runs, tmp_path):
    words = ("compare", runs / "left", runs / "right", "-o", tmp_path / "kept.json")
    code, out, err = interrupted(SLOW, tmp_path / "amid", *words, after=tmp_path / "amid")
    assert code == 2, err
    assert "Traceback" not in err
    assert re.search(r"interrupted: \d of 5 pairs were not measured", err)
    assert f"written: {tmp_path / 'kept.json'}" in out
    kept = json.loads((tmp_path / "kept.json").read_text("utf-8"))
    states = [row["reason_id"] for row in kept["pairs"]]
    assert 0 < states.count("interrupted") < 5
    assert not kept["passed"]


def test_ctrl_c_before_anything_could_be_kept_is_one_line(runs, tmp_path):
    waiting = """
import sys, time
from pathlib import Path
from troubleshooter_nb.cli import main as command
import troubleshooter_nb.formats as formats
import troubleshooter_nb.analysis.engine as engine
def wait(*sides):
    Path(sys.argv[1]).touch()
    time.sleep(60)
engine.as_dumps = wait
sys.exit(command.main(sys.argv[2:]))
"""
    words = ("compare", runs / "left", runs / "right", "-o", tmp_path / "a.csv")
    code, out, err = interrupted(waiting, tmp_path / "amid", *words, after=tmp_path / "amid")
    assert (code, out) == (2, "")
    assert err == "tnb: interrupted before anything could be kept\n"
    assert not (tmp_path / "a.csv").exists()
