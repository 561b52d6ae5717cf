"""What the tool compares with each other: the lines of one call, read from its text file."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from troubleshooter_nb.compat.ptdbg_ascend.releases import Release
from troubleshooter_nb.compat.torch_npu.hooks.matching import pairs_of
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.file_source import named, opened
from troubleshooter_nb.formats.hooks_file import is_real_pickle
from troubleshooter_nb.formats.hooks_lines import Line, lines_of
from troubleshooter_nb.formats.hooks_stacks import stacks_of
from troubleshooter_nb.messages import Message, joined
from troubleshooter_nb.naming.hooks import HookName, format_hook_name, parse_hook_name

_FLOATS = ("torch.float16", "torch.bfloat16", "torch.float32")


@dataclass(frozen=True)
class CallLines:
    """Lines that are matched as a whole.

    `names` are those of the lines, as they are matched; `stack` has one frame a line, and is empty
    where the file has none.
    """

    lines: tuple[Line, ...]
    names: tuple[str, ...]
    stack: str = ""


def calls_of_file(path: Path, *, fuzzy: bool) -> list[CallLines]:
    """The calls of a text file; nothing is unpickled.

    A call ends behind its last output, and at its call stack. What has no output belongs to the
    call that follows, and is left out at the end of the file.

    Parameters
    ----------
    path : Path
    fuzzy : bool
        Match names without the number of the call.

    Raises
    ------
    FormatError
        For a real pickle, a file without lines, and a line that is none of ptdbg_ascend, with its
        number.
    OSError
        If the file cannot be opened.
    """
    with named(path):
        if is_real_pickle(path):
            raise FormatError(Message("hooks.real_pickle"))
        with opened(path) as (file, stamp):
            lines = [_checked(line) for line in lines_of(path, file, stamp)]
        if not lines:
            raise FormatError(joined([Message("hooks.no_lines"), Message("dumps.dump_again")]))
    hooks = {line.number: parse_hook_name(line.name) for line in lines}
    stacks = stacks_of(lines, hooks)
    calls = []
    for group in _groups(lines, hooks):
        last = hooks[group[-1].number]
        stack = stacks.get((last.api, last.call, last.direction), "") if last else ""
        names = tuple(_matched_name(line, hooks[line.number], fuzzy=fuzzy) for line in group)
        calls.append(CallLines(tuple(group), names, stack))
    return calls


def pairs_of_calls(
    left: Sequence[CallLines], right: Sequence[CallLines], release: Release
) -> Iterator[tuple[CallLines, CallLines | None]]:
    """Every call of the left side in its order, with its partner or None.

    Notes
    -----
    Source: documents and runs of ptdbg_ascend. The search is that of the tool before it, see
    `matched_groups`; calls of the right side without partner are told of by nobody.
    """
    with_shapes = release.alike is not None

    def key(call: CallLines) -> Hashable:
        return (call.names, _kind(call)) if with_shapes else call.names

    def fit(one: CallLines, other: CallLines) -> bool:
        lines = zip(one.lines, other.lines, strict=True)
        return not with_shapes or all(_alike(a.dtype, b.dtype, release) for a, b in lines)

    passed = 0
    places = {id(call): place for place, call in enumerate(left)}
    for actual, benchmark in pairs_of(iter(left), iter(right), key, fit):
        place = places[id(actual)]
        yield from ((call, None) for call in left[passed:place])
        yield actual, benchmark
        passed = place + 1
    yield from ((call, None) for call in left[passed:])


def _checked(line: Line) -> Line:
    """The line, if it is one of ptdbg_ascend."""
    fault = line.fault
    if not fault and line.mode is None and not line.is_pair:
        fault = Message("ptdbg_ascend.line_of_hooks")
    if not fault and line.count:
        fault = Message("ptdbg_ascend.line_of_prototype")
    if fault:
        problem = Message("dumps.line", line=line.number, problem=fault)
        raise FormatError(joined([problem, Message("ptdbg_ascend.dump_again_or_open")]))
    return line


def _groups(lines: Sequence[Line], hooks: dict[int, HookName | None]) -> Iterator[list[Line]]:
    group: list[Line] = []
    has_output = False
    for line in lines:
        hook = hooks[line.number]
        io = hook.io if hook else "output" if "output" in line.name else ""
        if has_output and io != "output":
            yield group
            group, has_output = [], False
        if not line.is_pair:
            group.append(line)
            has_output = io == "output"
    if has_output:
        yield group


def _matched_name(line: Line, hook: HookName | None, *, fuzzy: bool) -> str:
    return format_hook_name(replace(hook, call=None)) if fuzzy and hook else line.name


def _kind(call: CallLines) -> Hashable:
    """Shapes and dtypes; of the floats that may pair with each other, one."""
    dtypes = ("float" if line.dtype in _FLOATS else line.dtype for line in call.lines)
    return tuple(dtypes), tuple(line.shape for line in call.lines)


def _alike(left: str, right: str, release: Release) -> bool:
    return left == right or any({left, right} == one for one in release.alike or ())
