"""The configuration of msprobe's recorder: its file, and the arguments that beat it."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from troubleshooter_nb.compat.msprobe.selection import EVERYTHING, Wanted
from troubleshooter_nb.errors import (
    ArgumentError,
    FormatError,
    NotOfferedError,
    PathNotFoundError,
    path_of,
)
from troubleshooter_nb.formats.file_source import opened
from troubleshooter_nb.messages import Message, message_of

TASKS = ("statistics", "tensor", "structure", "overflow_check")
LEVELS = ("L0", "L1", "mix", "debug")
_RISKS = ("ALL", "FOCUS")
_DEFAULT_PATH = "./dump_path"

# What is not built, with what to use in its place.
_OTHER_TASKS = {
    "acc_check": "compare",
    "run_ut": "compare",
    "diff_check": "compare",
    "free_benchmark": "compare",
    "grad_probe": "record",
    "exception_dump": "watch",
    "nan_check": "watch",
}
_OTHER_OPTIONS = {
    "async_dump": "leaving_out",
    "precision": "leaving_out",
    "enable_dataloader": "step",
    "load": "record",
    "custom_op_namespaces": "leaving_out",
    "bench_path": "compare",
    "diff_nums": "compare",
    "request_id": "leaving_out",
    "device": "leaving_out",
    "file_format": "kernel",
    "check_mode": "leaving_out",
    "statistics_mode": "leaving_out",
}
# These ask for what is done anyway.
_HARMLESS = {"async_dump": (False,), "precision": ("low",), "enable_dataloader": (False,)}
_HARMLESS |= {
    "file_format": ("npy",),
    "check_mode": ("all",),
    "diff_nums": (1,),
    "device": ("host",),
}
_TOP = ("task", "dump_path", "rank", "step", "level", "extra_info", "dump_enable", "risk_level")
_OF_TASK = ("scope", "list", "tensor_list", "data_mode", "summary_mode", "slice", "overflow_nums")
_MODES = ("all", "forward", "backward", "input", "output")
_SUMMARIES = ("statistics", "md5")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


@dataclass(frozen=True)
class Config:
    """What is recorded, and where to.

    Attributes
    ----------
    task, level : str
    dump_path : Path
    ranks, steps : frozenset of int
        Empty for all.
    wanted : Wanted
    checksums : bool
        `summary_mode` is ``md5``.
    slices : tuple of mapping
    overflows : int
        Calls that are written by ``overflow_check``, -1 for all.
    extra_info : bool
    keeps_harmless : bool or None
        None where it is not said.
    file : Path or None
        Which is read again while the run goes on, for ``dump_enable``.
    """

    task: str
    level: str
    dump_path: Path
    ranks: frozenset[int] = frozenset()
    steps: frozenset[int] = frozenset()
    wanted: Wanted = EVERYTHING
    checksums: bool = False
    slices: tuple[Mapping[str, int], ...] = ()
    overflows: int = 0
    extra_info: bool = True
    keeps_harmless: bool | None = None
    file: Path | None = None

    def is_enabled(self) -> bool:
        """What ``dump_enable`` of the file says now; true where it says nothing."""
        if self.file is None:
            return True
        try:
            said = read_file(self.file).get("dump_enable")
        except (OSError, ValueError):  # while somebody writes it
            return True
        return said is not False


def config_of(
    config_path: str | PathLike[str] | None,
    task: str | None = None,
    dump_path: str | PathLike[str] | None = None,
    level: str | None = None,
    step: Any = None,
) -> Config:
    """The configuration of a file, in which arguments that are given take the place of its keys.

    Raises
    ------
    PathNotFoundError
        If there is no such file.
    FormatError
        If it is no configuration.
    ArgumentError
        For a value that cannot be.
    NotOfferedError
        For a task or option that is not built; the message says what to use.
    """
    file = None if config_path is None else path_of(config_path)
    content = {} if file is None else read_file(file)
    given = {"task": task, "dump_path": dump_path, "level": level, "step": step}
    top = {**content, **{key: value for key, value in given.items() if value is not None}}
    task = _word("task", top.get("task") or "statistics", TASKS, _OTHER_TASKS)
    level = _word("level", top.get("level") or "L1", LEVELS, {"L2": "kernel"})
    if level == "debug" and task not in ("statistics", "tensor"):
        raise ArgumentError(Message("debugger.debug_task", task=task))
    of_task = _section(top.get(task), task)
    tasks = (*TASKS, *_OTHER_TASKS)
    _refuse_others({k: v for k, v in top.items() if k not in tasks}, _TOP)
    _refuse_others(of_task, _OF_TASK)
    _truth("dump_enable", top.get("dump_enable"), default=True)
    risk = top.get("risk_level")
    if risk is not None:
        _word("risk_level", risk, _RISKS, {"CORE": "list"})
    return Config(
        task,
        level,
        path_of(top.get("dump_path") or _DEFAULT_PATH),
        _numbers("rank", top.get("rank")),
        _numbers("step", top.get("step")),
        _wanted_of(of_task, task),
        _summary(of_task) == "md5",
        _slices(of_task.get("slice")),
        _overflows(of_task) if task == "overflow_check" else 0,
        _truth("extra_info", top.get("extra_info"), default=True),
        None if risk is None else risk == "ALL",
        file,
    )


def read_file(file: Path) -> dict[str, Any]:
    """The keys and values of a configuration.

    Raises
    ------
    PathNotFoundError, FormatError
        As `config_of`.
    """
    try:
        with opened(file) as (stream, _):
            content = json.loads(stream.read())
    except FileNotFoundError:
        raise PathNotFoundError(Message("debugger.no_config", file=os.fspath(file))) from None
    except (OSError, ValueError, RecursionError) as error:
        broken = Message("debugger.config_broken", file=file.name, why=message_of(error))
        raise FormatError(broken) from error
    if not isinstance(content, dict):
        why = Message("debugger.no_object")
        raise FormatError(Message("debugger.config_broken", file=file.name, why=why))
    return content


def _instead(word: str) -> Message:
    return Message(f"debugger.instead_of_{word}")


def _word(name: str, given: Any, known: tuple[str, ...], others: Mapping[str, str]) -> str:
    if isinstance(given, str) and given in known:
        return given
    if isinstance(given, str) and given in others:
        instead = _instead(others[given])
        if name == "task":
            raise NotOfferedError(Message("debugger.task_not_built", task=given, instead=instead))
        said = f"{name} {given!r}"
        raise NotOfferedError(Message("debugger.option_not_built", name=said, instead=instead))
    raise ArgumentError(Message("recorder.word", name=name, known=[*known], given=repr(given)))


def _section(content: Any, task: str) -> Mapping[str, Any]:
    if content is None:
        return {}
    if not isinstance(content, dict):
        why = Message("debugger.no_object")
        raise ArgumentError(Message("debugger.config_broken", file=task, why=why))
    return content


def _refuse_others(content: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Refuse options that are not built, unless they ask for what is done anyway."""
    for name, value in content.items():
        if name in known or value in (None, [], "", *_HARMLESS.get(name, ())):
            continue
        if name in _OTHER_OPTIONS:
            instead = _instead(_OTHER_OPTIONS[name])
            raise NotOfferedError(Message("debugger.option_not_built", name=name, instead=instead))
        raise ArgumentError(Message("debugger.option_unknown", name=name, known=[*known]))


def _numbers(name: str, given: Any) -> frozenset[int]:
    found: set[int] = set()
    listed = [] if given is None else given
    if not isinstance(listed, list | tuple | range):
        raise ArgumentError(Message("debugger.numbers", name=name, given=repr(given)))
    for one in listed:
        match = _RANGE.fullmatch(str(one)) if not isinstance(one, bool) else None
        if match is None or not isinstance(one, int | str):
            raise ArgumentError(Message("debugger.numbers", name=name, given=repr(given)))
        numbers = range(int(match[1]), int(match[2] or match[1]) + 1)
        if not numbers:
            raise ArgumentError(Message("debugger.numbers", name=name, given=repr(given)))
        found.update(numbers)
    return frozenset(found)


def _texts(content: Mapping[str, Any], name: str) -> tuple[str, ...]:
    given = content.get(name) or []
    if not isinstance(given, list | tuple) or not all(isinstance(one, str) for one in given):
        raise ArgumentError(Message("debugger.texts", name=name, given=repr(given)))
    return tuple(given)


def _wanted_of(content: Mapping[str, Any], task: str) -> Wanted:
    scope = _texts(content, "scope")
    if len(scope) > 2:
        raise ArgumentError(Message("debugger.scope", given=[*scope]))
    modes = set(_modes(content)) - {"all"}
    directions = modes & {"forward", "backward"} or {"forward", "backward"}
    sections = modes & {"input", "output"} or {"input", "output"}
    return Wanted(
        scope,
        _texts(content, "list"),
        frozenset(directions),
        frozenset(sections),
        # Task tensor stores those of all calls.
        _texts(content, "tensor_list") if task == "statistics" else (),
    )


def _modes(content: Mapping[str, Any]) -> tuple[str, ...]:
    given = _texts(content, "data_mode")
    for one in given:
        if one not in _MODES:
            known = [*_MODES]
            raise ArgumentError(
                Message("recorder.word", name="data_mode", known=known, given=repr(one))
            )
    return given


def _summary(content: Mapping[str, Any]) -> str:
    given = content.get("summary_mode") or "statistics"
    return _word("summary_mode", given, _SUMMARIES, {"xor": "md5"})


def _slices(given: Any) -> tuple[Mapping[str, int], ...]:
    listed = given or []
    fits = isinstance(listed, list) and all(_is_slice(one) for one in listed)
    if not fits:
        raise ArgumentError(Message("debugger.slices", given=repr(given)))
    return tuple(listed)


def _is_slice(one: Any) -> bool:
    if not isinstance(one, dict) or not one.keys() <= {"dim", "size", "begin", "end"}:
        return False
    whole = all(isinstance(n, int) and not isinstance(n, bool) for n in one.values())
    begin, end = one.get("begin", 0), one.get("end", math.inf)
    return whole and one.get("dim", 0) >= 0 and one.get("size", 0) >= 0 and 0 <= begin < end


def _overflows(content: Mapping[str, Any]) -> int:
    given = content.get("overflow_nums", 1)
    if not isinstance(given, int) or isinstance(given, bool) or (given < 1 and given != -1):
        raise ArgumentError(Message("debugger.overflow_nums", given=repr(given)))
    return given


def _truth(name: str, given: Any, *, default: bool) -> bool:
    if given is None:
        return default
    if not isinstance(given, bool):
        raise ArgumentError(Message("debugger.truth", name=name, given=repr(given)))
    return given
