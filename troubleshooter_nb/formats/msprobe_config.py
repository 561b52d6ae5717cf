"""The configuration of msprobe, which lies beside its dumps and is none."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.file_source import head_of
from troubleshooter_nb.formats.msprobe_layout import places_of
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming.characters import printable

_LARGEST = 1 << 20  # bytes; lists of names of calls may be long
_PATH = "dump_path"
# Beside the path at least one of these; a dump has "data" instead.
_OTHERS = {"task", "level", "rank", "step", "statistics", "tensor"}
_LONGEST = 200


def refuse_configuration(path: Path) -> None:
    """Refuse the ``config.json`` that a run was given, and name what it dumped.

    Raises
    ------
    FormatError
        If it is one, whatever it is called.
    """
    if path.suffix != ".json":
        return
    head = head_of(path, _LARGEST + 1)
    if len(head) > _LARGEST or f'"{_PATH}"'.encode() not in head:
        return
    try:
        content = json.loads(head)
    except (ValueError, RecursionError):
        return
    if not isinstance(content, dict) or "data" in content or not _OTHERS & content.keys():
        return
    said = content.get(_PATH)
    said = said if isinstance(said, str) else ""
    instead = _dump(path, said)
    raise FormatError(Message("msprobe.configuration", file=path.name, instead=instead))


def _dump(path: Path, said: str) -> str:
    """The dump of a configuration where it is found, else where it should be."""
    for folder in _candidates(path, said):
        try:
            if places_of(folder, []):
                return Message("msprobe.configured", folder=printable(os.fspath(folder)))
        except (OSError, ValueError):
            continue
    if said:
        return Message("msprobe.its_folder_said", key=_PATH, said=printable(said)[:_LONGEST])
    return Message("msprobe.its_folder")


def _candidates(path: Path, said: str) -> Iterator[Path]:
    if said:
        # Seen from where the run was started, which is perhaps here.
        yield from dict.fromkeys((Path(said), path.parent / said))
    yield path.parent
