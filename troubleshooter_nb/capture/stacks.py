"""Where a call stands in the user's code."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
from functools import cache
from types import CodeType, FrameType

_MOST_FRAMES = 40
# Packages whose lines say nothing about the user's code; behind the last ones nothing else does.
_SKIPPED = ("torch", "mindspore", "troubleshooter_nb", "contextlib.py")
_ENDS = ("IPython", "ipykernel", "runpy.py", "nbclient")


class Stacks:
    """Numbers stacks, each distinct one once."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[CodeType, int], ...], int] = {}

    def number(self, frame: FrameType | None) -> tuple[int, str | None]:
        """Number of the stack that ends in a frame, and its text if it is a new one."""
        lines: list[tuple[CodeType, int]] = []
        while frame is not None and len(lines) < _MOST_FRAMES:
            kind = _kind(frame.f_code.co_filename)
            if kind == "end":
                break
            if kind == "shown":
                lines.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back
        key = tuple(lines)
        known = self._known.get(key)
        if known is not None:
            return known, None
        number = self._known[key] = len(self._known)
        return number, "\n".join(_line(code, line) for code, line in key)


def _line(code: CodeType, number: int) -> str:
    """One frame as msprobe writes it."""
    source = linecache.getline(code.co_filename, number).strip()
    place = f"File {_shown(code.co_filename)}, line {number}, in {code.co_name}, "
    return f"{place}\n {source}"


@cache
def _roots() -> tuple[str, ...]:
    """Folders that say nothing about a file in them, longest first."""
    paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    paths |= {path for path in sys.path if path.endswith(("site-packages", "dist-packages"))}
    return tuple(sorted(filter(None, paths), key=len, reverse=True))


@cache
def _within(file: str) -> str:
    """The path of a file below site-packages; "" for any other."""
    root = next((root for root in _roots() if file.startswith(root + os.sep)), "")
    return file[len(root) + 1 :] if root else ""


@cache
def _kind(file: str) -> str:
    first = (_within(file) or _own(file) or os.path.basename(file)).partition(os.sep)[0]
    if first in _ENDS:
        return "end"
    return "skipped" if first in _SKIPPED or file.startswith("<frozen") else "shown"


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _own(file: str) -> str:
    """The name of this package for its files, which may lie anywhere."""
    return "troubleshooter_nb" if file.startswith(_PACKAGE + os.sep) else ""


@cache
def _shown(file: str) -> str:
    """A path that names no user and no machine."""
    if inside := _within(file):
        return inside
    if "ipykernel_" in file or file.startswith("<ipython-input"):
        return "notebook cell"
    if not os.path.isabs(file):
        return file
    near = os.path.relpath(file, os.getcwd())
    return os.path.basename(file) if near.startswith("..") else near
