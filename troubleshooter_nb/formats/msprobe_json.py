"""The JSON files of msprobe's dumps, read with care: whatever they hold, one of our errors."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.file_source import opened
from troubleshooter_nb.formats.limits import beyond, most
from troubleshooter_nb.messages import Foreign, Message, joined, message_of
from troubleshooter_nb.naming.characters import printable

DEEPEST = 400  # how deep msprobe itself goes
_ADVICE = Message("msprobe.incomplete")


@dataclass(frozen=True)
class Document:
    """A ``dump.json`` or ``debug.json``: its header, its entries, and the names it has twice."""

    facts: dict[str, str] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    repeated: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stacks:
    """The stack of each call as one text; `is_shared` where the file lists names per stack."""

    texts: dict[str, str] = field(default_factory=dict)
    is_shared: bool | None = None


def read_document(file: Path) -> Document:
    """The entries of a ``dump.json`` or ``debug.json``, in the order of the file.

    ``NaN`` and ``Infinity`` are numbers, as msprobe writes them.

    Raises
    ------
    FormatError
        If it is no JSON, truncated, larger than 2 GiB, nested deeper than 400, or has no ``data``.
    """
    content, repeated = load_json(file)
    data = content.get("data") if isinstance(content, dict) else None
    if not isinstance(content, dict) or not isinstance(data, dict):
        raise _fault(file, joined([Message("msprobe.no_table_data"), _ADVICE]))
    header = ("task", "level", "framework")
    facts = {key: printable(content[key]) for key in header if isinstance(content.get(key), str)}
    return Document(facts, data, tuple(name for name in repeated if name in data))


def load_json(file: Path) -> tuple[Any, list[str]]:
    """The content of a JSON file, and the keys that one of its tables has twice.

    Raises
    ------
    FormatError
        As `read_document` does.
    """
    repeated: list[str] = []

    def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            seen = Counter(key for key, _ in pairs)
            repeated.extend(key for key, count in seen.items() if count > 1)
        return made

    try:
        with opened(file) as (stream, stamp):
            if stamp[0] > most("msprobe_json"):
                said = Message("msprobe.too_large", size=stamp[0])
                raise FormatError(beyond("msprobe_json", said, stamp[0]))
            content = stream.read()
        return json.loads(content, object_pairs_hook=table), repeated
    except json.JSONDecodeError as error:
        where = {"line": error.lineno, "column": error.colno, "character": error.pos}
        invalid = Message("msprobe.invalid_at", **where, problem=Foreign(error.msg))
        problem = joined([invalid, _ADVICE])
    except UnicodeDecodeError as error:
        problem = joined([Message("msprobe.no_text", begin=error.start), _ADVICE])
    except RecursionError:
        problem = Message("msprobe.too_deep", levels=DEEPEST)
    except FormatError as error:
        problem = message_of(error)
    except ValueError as error:  # a number of more digits than Python reads
        invalid = Message("msprobe.invalid", problem=Foreign(str(error)[:120]))
        problem = joined([invalid, _ADVICE])
    except OSError as error:
        problem = Message("msprobe.not_opened", problem=error)
    raise _fault(file, problem) from None


def _fault(file: Path, problem: str) -> FormatError:
    return FormatError(Message("files.in_file", file=printable(file.name), what=problem))


def read_stacks(file: Path, shared: dict[str, str]) -> Stacks:
    """The stack of each call, innermost frame first, from either layout of ``stack.json``.

    Parameters
    ----------
    file : Path
    shared : dict
        Texts seen before, so that equal ones are one object over all ranks; texts are added.

    Raises
    ------
    FormatError
        If it is no JSON or no table.
    """
    content = _table(file)
    # Since 8.3.3 calls with the same stack share a record {"0": [names, frames]}.
    records = [value for value in content.values() if _is_shared_record(value)]
    if content and len(records) == len(content):
        pairs = [(name, frames) for names, frames in records for name in names]
    else:
        pairs = list(content.items())
    texts = {}
    for name, frames in pairs:
        lines = frames if isinstance(frames, list) else [frames]
        text = "\n".join(line.strip() for line in lines if isinstance(line, str))
        if isinstance(name, str) and text:
            text = printable(text)
            texts[name] = shared.setdefault(text, text)
    return Stacks(texts, len(records) == len(content) if content else None)


def read_parents(file: Path) -> dict[str, str]:
    """The calls a ``construct.json`` names and the one each ran in; empty text for none.

    Raises
    ------
    FormatError
        If it is no JSON or no table.
    """
    return {
        name: printable(parent) if isinstance(parent, str) else ""
        for name, parent in _table(file).items()
    }


def _table(file: Path) -> dict[str, Any]:
    content, _ = load_json(file)
    if not isinstance(content, dict):
        raise _fault(file, joined([Message("msprobe.no_table"), _ADVICE]))
    return content


def _is_shared_record(value: Any) -> bool:
    return (
        isinstance(value, Sequence)
        and len(value) == 2
        and all(isinstance(part, list) for part in value)
    )
