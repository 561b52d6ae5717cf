"""What is written to a terminal, a pipe or a file, and how wide and coloured it may be."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO

from troubleshooter_nb.cli.exit_codes import DIFFERS, PASSED, UNDECIDED
from troubleshooter_nb.messages import Message, told
from troubleshooter_nb.options import get_options
from troubleshooter_nb.render.lines import COLUMNS, spaced, wrapped

_FEWEST = 20
# Codes of a terminal for green, red and yellow, which the verdict's words say as well.
_COLOURS = {PASSED: "32", DIFFERS: "31", UNDECIDED: "33"}
# Marks and a Chinese character: what can be written of these can be written of all we say.
_MARKS = {"en": "✓✗➤·≤", "zh": "✓✗➤·≤层"}


def say(lines: str | Iterable[str]) -> None:
    """Write lines to where a program writes its answer."""
    _write(sys.stdout, lines)


def complain(lines: str | Iterable[str]) -> None:
    """Write lines to where a program writes what went wrong, and what is not its answer."""
    _write(sys.stderr, lines)


def settle() -> None:
    """Write out what is still held back, before the program ends."""
    for stream in (sys.stdout, sys.stderr):
        _write(stream, ())


def _write(stream: TextIO | None, lines: str | Iterable[str]) -> None:
    if stream is None:  # was closed before the program began
        return
    shown = [lines] if isinstance(lines, str) else lines
    try:
        for line in shown:
            stream.write(f"{line}\n")
        stream.flush()
    except BrokenPipeError:  # whoever reads has seen enough; files are written nevertheless
        _forget(stream)


def _forget(stream: TextIO) -> None:
    """Let whatever else is written go nowhere, also what Python writes out at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def columns(stream: TextIO | None = None) -> int:
    """How wide lines may be: of a terminal its width, at most that of all our text.

    Parameters
    ----------
    stream : file, optional
        Default standard output.
    """
    stream = sys.stdout if stream is None else stream
    if not is_terminal(stream):
        return COLUMNS
    told_of = os.environ.get("COLUMNS", "")
    if told_of.isdecimal() and int(told_of):
        wide = int(told_of)
    else:
        try:
            wide = os.get_terminal_size(stream.fileno()).columns or COLUMNS
        except (OSError, ValueError, AttributeError):
            wide = COLUMNS
    return max(_FEWEST, min(wide, COLUMNS))


def is_terminal(stream: TextIO | None) -> bool:
    """Whether somebody looks at it, as far as can be told."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def paragraph(text: str, *, indent: int = 0, stream: TextIO | None = None) -> list[str]:
    """A text as lines that fit; what is no character to be seen comes escaped."""
    return wrapped(told(text), get_options(), indent=indent, columns=columns(stream))


def unbroken(text: str) -> list[str]:
    """A text as one line, however long, for programs that read lines; escaped as in `paragraph`."""
    return wrapped(told(text), get_options(), columns=sys.maxsize)


def rewrapped(text: str) -> list[str]:
    """Lines of a text repr, as they are where they fit, else cut under their own beginnings."""
    found = []
    for line in text.splitlines():
        bare = line.lstrip(" ")
        wide = columns()
        indent = min(len(line) - len(bare), wide // 2)
        found += wrapped(bare, get_options(), indent=indent, columns=wide)
    return found


def verdict_lines(text: str, code: int) -> list[str]:
    """A verdict as lines; on a terminal its first part has the colour of what it means."""
    lines = paragraph(text)
    if not has_colours(sys.stdout):
        return lines
    separator = " | " if get_options()["ascii"] else " · "
    head, rest = lines[0].partition(separator)[0], lines[1:]
    tail = lines[0][len(head) :]
    return [f"\x1b[{_COLOURS[code]}m{head}\x1b[0m{tail}", *rest]


def has_colours(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal that takes colours, and nobody asked for none."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return wanted and is_terminal(stream)


def can_show_marks(language: str) -> bool:
    """Whether what is written may hold more than ASCII."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        _MARKS[language].encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def escape_what_cannot_be_shown() -> None:
    """Have streams write what their encoding lacks as its number, where they would fail."""
    for stream in (sys.stdout, sys.stderr):
        change = getattr(stream, "reconfigure", None)
        if change is not None:
            change(errors="backslashreplace")


@contextmanager
def warnings_told() -> Iterator[None]:
    """Warnings as lines of their own on standard error, each once."""
    seen: set[str] = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        text = str(message)
        if text not in seen:
            seen.add(text)
            note = Message("pages.note", text=text)
            complain(paragraph(note, stream=sys.stderr))

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def with_name(name: str, text: str) -> list[str]:
    """What went wrong behind the name of the command; one line, which only a terminal has cut."""
    said = spaced(f"{name}:", told(text))
    wide = columns(sys.stderr) if is_terminal(sys.stderr) else sys.maxsize
    return wrapped(said, get_options(), columns=wide)
