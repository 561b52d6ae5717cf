"""The markdown pages of README and docs: their blocks of code, run as a reader would run them.

What a page says to the test stands in comments of html, which a reader does not see:

``<!-- needs: torch mindspore -->``  marks of the page, once
``<!-- run: code -->``               python that is run in its turn: what a block takes for granted,
                                     or what must be true behind it
``<!-- not run: reason -->``         the next block cannot be run here
``<!-- file: NAME -->``              the next block is written to this file instead
``<!-- warns -->``                   a warning of the package in the next block is meant

Blocks run in their order in one folder and one namespace: ``python`` as it stands; ``sh`` line by
line, where only ``tnb``, ``troubleshooter-nb``, ``python FILE`` and ``cat FILE`` are known;
``yaml`` and ``json`` are parsed. A comment ``# 1: ...`` behind a command is its exit code; without
one, 0 and 1 are answers. A block ``text`` is what the block before it printed: ``...`` alone on a
line leaves lines out; numbers with a point or a percent sign, a count in parentheses at the end of
a line, bars and spaces may differ.
``UPDATE_SNAPSHOTS=1`` writes such blocks anew.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import linecache
import os
import re
import runpy
import shlex
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import yaml

from troubleshooter_nb.cli.main import main

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("README*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
DIRECTIVE = re.compile(r"<!-- (needs|run|not run|file|warns)(?::\s*|\s*)(.*?)\s*-->", re.DOTALL)
FENCE = re.compile(r"^( *)```(\S*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
BARS = re.compile(r"[·▁▂▃▄▅▆▇█]+")
NUMBER = re.compile(r"[-−]?\d+\.\d+(e[-+]?\d+)?%?|\d+e[-+]?\d+|\d+%|\d+(\.\d+)? (ms|s)\b|line \d+")

# Whether sums of a layer are equal to the bit is the processor's; so is where the line ends then.
CREATED = re.compile(
    r"its inputs (are equal, its output differs|differ by \S+ only, its output) by .*$"
)
# How many settings of a run are alike, if any, depends on the frameworks that are loaded.
COUNT = re.compile(r"[(（]\d+[)）]$")
SETTINGS = ("✓ run settings", "✓ 运行设置")


@dataclass(frozen=True)
class Step:
    """One thing that a page does: a block of code, or what a comment says."""

    kind: str  # the language of a block, or "run"
    code: str
    line: int  # of its first line of code
    span: tuple[int, int]  # of the code in the text of the page
    reason: str = ""  # why it is not run
    file: str = ""
    warns: bool = False


def needs_of(text: str) -> list[str]:
    """The marks that a page says it needs."""
    return [
        word for kind, said in DIRECTIVE.findall(text) if kind == "needs" for word in said.split()
    ]


def steps_of(text: str) -> list[Step]:
    """All steps of a page in their order."""
    steps: list[Step] = []
    pending: dict[str, str] = {}
    fences = list(FENCE.finditer(text))
    inside = [one.span() for one in fences]
    said = [
        one
        for one in DIRECTIVE.finditer(text)
        if not any(start < one.start() < end for start, end in inside)
    ]
    for found in sorted([*said, *fences], key=lambda one: one.start()):
        if found.re is DIRECTIVE:
            kind, value = found.groups()
            if kind == "run":
                line = text.count("\n", 0, found.start(2)) + 1
                steps.append(Step("run", value + "\n", line, found.span(2)))
            elif kind != "needs":
                pending[kind] = value
            continue
        indent, language, code = found.groups()
        if indent:
            code = re.sub(f"^{indent}", "", code, flags=re.MULTILINE)
        line = text.count("\n", 0, found.start(3)) + 1
        step = Step(
            language,
            code,
            line,
            found.span(3),
            pending.pop("not run", ""),
            pending.pop("file", ""),
            "warns" in pending,
        )
        pending.pop("warns", None)
        steps.append(step)
    assert not pending, f"a comment without a block behind it: {pending}"
    return steps


def run_page(page: Path, folder: Path, *, in_shell: bool = False) -> None:
    """Run a page in a folder, which is the current one and on the path.

    Commands run in this process, which is faster, or as their line stands in a shell.
    """
    text = page.read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": "page"}
    printed = None
    written = []
    for step in steps_of(text):
        where = f"{page.relative_to(ROOT)}:{step.line}"
        if step.reason:
            printed = None
            continue
        try:
            if step.file:
                (folder / step.file).parent.mkdir(parents=True, exist_ok=True)
                (folder / step.file).write_text(step.code, encoding="utf-8")
            elif step.kind in ("python", "run"):
                said = run_python(step, page, names)
                printed = printed if step.kind == "run" else said
            elif step.kind in ("sh", "shell"):
                run = run_in_shell if in_shell else run_command
                printed = "".join(run(line) for line in commands_of(step.code))
            elif step.kind == "yaml":
                yaml.safe_load(step.code)
            elif step.kind == "json":
                json.loads(step.code)
            elif step.kind == "text":
                assert printed is not None, "output without a block before it"
                if os.environ.get("UPDATE_SNAPSHOTS") == "1" and "\n...\n" not in step.code:
                    written.append((step.span, tidy(printed)))
                else:
                    hold(step.code, printed)
            else:
                msg = f"nothing is known of a block {step.kind!r}: say why it is not run"
                raise AssertionError(msg)
        except BaseException as error:
            error.add_note(f"in the block of {where}")
            raise
    for (start, end), output in reversed(written):
        text = text[:start] + output + text[end:]
    if written:
        page.write_text(text, encoding="utf-8")


def run_python(step: Step, page: Path, names: dict[str, object]) -> str:
    """Run one block; what it printed, and the text of its last expression."""
    # Tracebacks, and what is recorded of the user's code, show the lines of the page.
    linecache.checkcache(str(page))
    tree = ast.parse("\n" * (step.line - 1) + step.code, str(page))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    out = io.StringIO()
    with contextlib.redirect_stdout(out), warnings.catch_warnings():
        if step.warns:
            warnings.simplefilter("ignore")
        exec(compile(tree, str(page), "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), str(page), "eval"), names)
            if value is not None:
                out.write(f"{value!r}\n")
    return out.getvalue()


def commands_of(code: str) -> list[str]:
    """The commands of a block; one that ends with a backslash goes on in the next line."""
    return [line for line in code.replace("\\\n", " ").splitlines() if line.strip()]


def run_command(line: str) -> str:
    """Run one line of a shell; what it printed."""
    words = shlex.split(line, comments=True)
    if not words:
        return ""
    target = None
    if ">" in words:
        words, (target,) = words[: words.index(">")], words[words.index(">") + 1 :]
    program, *rest = words
    # With bytes below, as the output of a process has.
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    if program in ("tnb", "troubleshooter-nb"):
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(rest)
    elif program == "python":
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run_script(rest)
    elif program == "cat":
        out.write("".join(Path(name).read_text(encoding="utf-8") for name in rest))
        code = 0
    else:
        msg = f"nothing is known of the command {program!r}: say why it is not run"
        raise AssertionError(msg)
    out.seek(0)
    said = out.read()
    check_code(line, code, said + err.getvalue())
    if target:
        Path(target).write_text(said, encoding="utf-8")
        return ""
    return said


def run_in_shell(line: str) -> str:
    """Run one line of a shell in a shell; what it printed."""
    done = subprocess.run(line, shell=True, capture_output=True, encoding="utf-8", check=False)
    check_code(line, done.returncode, done.stdout + done.stderr)
    return done.stdout


def check_code(line: str, code: int, said: str) -> None:
    """Raise where a command did not end as its comment says."""
    wanted = re.search(r" # *(\d):", line)
    allowed = {int(wanted[1])} if wanted else {0, 1}
    assert code in allowed, f"{line}\nended with {code}\n{said}"


def run_script(words: list[str]) -> int:
    """What ``python FILE ...`` does, in this process, which has the frameworks; its exit code."""
    arguments, sys.argv = sys.argv, words
    try:
        runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        sys.argv = arguments
    return 0


def tidy(printed: str) -> str:
    """What was printed, as it is written into a page."""
    return "".join(line.rstrip() + "\n" for line in printed.strip("\n").splitlines())


def plain(line: str) -> str:
    """A line without what may differ from machine to machine."""
    line = CREATED.sub("created here", line).strip().removeprefix("So ")
    line = COUNT.sub("", NUMBER.sub("#", BARS.sub("", line)))
    return re.sub(r"[\s─]+", " ", line).strip()


def counts(line: str) -> bool:
    """Whether a line must be the same everywhere."""
    return bool(line.strip()) and not line.strip().startswith(SETTINGS)


def hold(wanted: str, printed: str) -> None:
    """Raise where the lines of a page are not those that were printed."""
    got = [plain(line) for line in printed.splitlines() if counts(line)]
    at = 0
    skips = False
    for line in wanted.splitlines():
        if line.strip() == "...":
            skips = True
            continue
        if not counts(line):
            continue
        said = plain(line)
        assert said in got[at:] if skips else got[at : at + 1] == [said], (
            f"the page says\n  {line}\nprinted was\n{printed}"
        )
        at = got.index(said, at) + 1
        skips = False
    assert skips or at == len(got), f"the page ends before\n  {got[at]}\nprinted was\n{printed}"


if __name__ == "__main__":  # tests/first_hour.sh runs a page in the current folder
    sys.path.insert(0, os.getcwd())
    run_page(Path(sys.argv[1]), Path(), in_shell=True)
