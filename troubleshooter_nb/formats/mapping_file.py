"""Weight maps as files: TroubleShooter's json, and a yaml to read and edit."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

from troubleshooter_nb.collector import uncollected
from troubleshooter_nb.errors import (
    ArgumentError,
    FormatError,
    PathNotFoundError,
    TroubleshooterWarning,
    WeightMapError,
    check_kind,
    path_of,
)
from troubleshooter_nb.formats.aside import written_whole
from troubleshooter_nb.formats.file_source import named, opened
from troubleshooter_nb.formats.limits import beyond, most
from troubleshooter_nb.formats.missing_path import not_there
from troubleshooter_nb.formats.yaml_nodes import whole
from troubleshooter_nb.messages import (
    Message,
    ids_of,
    joined,
    message_of,
    plain,
    restored,
    told,
)
from troubleshooter_nb.transforms import Spec, Transform, of_troubleshooter
from troubleshooter_nb.weight_map import WeightMap, WeightRow

_HEAD = 1 << 16  # bytes in which the key of the rows of a weight map begins
_WEIGHTS = re.compile(rb"^weights:\s*(\[\]\s*)?$", re.MULTILINE)
# Of a row with targets, and of one without.
_UNSAID, _DROPPED = str(Transform()), str(Transform("drop"))
_LONGEST_SHOWN, _MOST_SHOWN = 120, 8  # letters of a name, and names, in a message
_KEYS = ("from", "to", "transform", "note", "said")


@uncollected()
def read_weight_map(
    path: str | PathLike[str],
    *,
    source: Mapping[str, Spec] | None = None,
    target: Mapping[str, Spec] | None = None,
) -> WeightMap:
    """A weight map from a file, whichever of the two kinds it is.

    Parameters
    ----------
    path : str or path-like
        As TroubleShooter's ``get_weight_map`` saves it, json under any name, ``[{torch:
        MindSpore}, {torch: function}]``; or ``.yaml`` as `write_weight_map` does.
    source, target : mapping of str to Spec, optional
        What is known of the two sides; `convert_weights` takes the source's from the file itself.

    Raises
    ------
    FormatError
        If the file is no weight map, or names a function or transform that is not in the closed
        list; the message names the row. No function of a file is ever called.
    PathNotFoundError
        If it does not exist.
    OSError
        If it cannot be opened.
    """
    path = path_of(path)
    if not path.exists():
        raise PathNotFoundError(not_there(path))
    with named(path, otherwise=""):  # a map is written by hand: no copy mends it
        with opened(path) as (file, (size, _)):
            if size > most("weight_map"):
                said = Message("mappings.map_too_large", size=size)
                raise FormatError(beyond("weight_map", said, size))
            content = file.read(size)
        # The old tool wrote its json under any name; a yaml map never begins so.
        if path.suffix in (".yaml", ".yml") and not content.lstrip().startswith(b"["):
            read = _of_yaml(content)
        else:
            read = WeightMap(tuple(_of_json(content)), {})
    return replace(read, source=source or {}, target=target)


def is_weight_map(path: str | PathLike[str]) -> bool:
    """Whether a file is a weight map as `write_weight_map` writes it as yaml, by its beginning.

    False as well of what cannot be read.
    """
    path = path_of(path)
    if path.suffix not in (".yaml", ".yml") or not path.is_file():
        return False
    try:
        with opened(path) as (file, (size, _)):
            head = file.read(min(size, _HEAD))
    except (FormatError, OSError):
        return False
    return _WEIGHTS.search(head) is not None


def write_weight_map(weight_map: WeightMap, path: str | PathLike[str]) -> Path:
    """Write a map as ``.yaml``, or as TroubleShooter's ``.json``.

    Raises
    ------
    WeightMapError
        If the json cannot hold a row: it knows one name on each side, one target for a source and
        one value function. The yaml holds everything but a blank name; neither holds half a
        character.
    ValueError
        For another suffix.

    Warns
    -----
    TroubleshooterWarning
        About what the file leaves out, see `unsaid_in_weight_map`.

    Notes
    -----
    The yaml is to be edited by hand. Beside a note that this package wrote stands what it is made
    of, as ``said``: so it is read in either language. It counts only while the note stands as it
    was written, and may be taken out.
    """
    check_kind("weight_map", weight_map, WeightMap)
    path = path_of(path)
    if path.suffix not in (".json", ".yaml", ".yml"):
        raise ArgumentError(not_written_as("weight_map", path))
    for row in weight_map.rows:
        _check_names(row, blank=path.suffix == ".json")
    if path.suffix == ".json":
        text = json.dumps(peer_parts([row for row in weight_map.rows if row.targets]))
        for said in unsaid_in_weight_map(weight_map, path):
            warnings.warn(told(said), TroubleshooterWarning, stacklevel=2)
    else:
        rows = [_plain(row) for row in weight_map.rows]
        labels = {"source": weight_map.source_label, "target": weight_map.target_label}
        from troubleshooter_nb.formats.yaml_text import dumped  # brings yaml, which is slow

        kept = {"keep": list(weight_map.kept)} if weight_map.kept else {}
        text = dumped({**labels, **kept, "weights": rows})
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as stream:
        stream.write(text.encode())
    return path


def not_written_as(what: str, path: Path) -> Message:
    """That a file of this name is written neither as a weight map nor as a mapping."""
    if path.suffix:
        return Message(f"mappings.{what}_not_as", suffix=path.suffix)
    return Message(f"mappings.{what}_without_suffix")


def unsaid_in_weight_map(weight_map: WeightMap, path: str | PathLike[str]) -> list[Message]:
    """What a file of this name leaves out of a map, a sentence each.

    Rows that drop a tensor, and what the target keeps, have no word in the ``.json``. The ``.yaml``
    leaves out nothing.
    """
    dropped = [" + ".join(row.sources) for row in weight_map.rows if not row.targets]
    dropped += weight_map.kept
    if Path(path).suffix != ".json" or not dropped:
        return []
    named_so = {"file": Path(path).name, "count": len(dropped), "names": dropped}
    return [Message("mappings.json_leaves_out", **named_so)]


def _check_names(row: WeightRow, *, blank: bool) -> None:
    """Raise unless the names come back from a file as they are."""
    for name in (*row.sources, *row.targets):
        if whole(name) != name:
            raise WeightMapError(Message("mappings.half_character", name=ascii(name)))
        if not blank and not name.strip():
            raise WeightMapError(Message("mappings.blank_name", name=name))


def peer_parts(rows: Sequence[WeightRow]) -> list[dict[str, str]]:
    """The two objects of TroubleShooter's map; raises as `write_weight_map` does."""
    names: dict[str, str] = {}
    functions: dict[str, str] = {}
    for row in rows:
        if len(row.sources) != 1 or len(row.targets) != 1:
            id = "json_no_norm" if row.transform.takes_parts else "json_one_name"
            raise WeightMapError(Message(f"mappings.{id}", names=list(row.sources)))
        source, target = row.sources[0], row.targets[0]
        if source in names:
            said = {"source": source, "first": names[source], "second": target}
            raise WeightMapError(Message("mappings.json_one_target", **said))
        names[source] = target
        function = row.transform.troubleshooter
        if function is None:
            how = {"source": source, "transform": row.transform}
            raise WeightMapError(Message("mappings.json_no_transform", **how))
        if function:
            functions[source] = function
    return [names, functions]


def peer_rows(parts: object) -> list[WeightRow]:
    """The rows of a loaded TroubleShooter map; raises as `read_weight_map` does."""
    if not isinstance(parts, (list, tuple)) or len(parts) != 2:
        raise FormatError(Message("mappings.two_objects"))
    names, functions = (_texts(part) for part in parts)
    if strangers := sorted(set(functions) - set(names)):
        raise FormatError(Message("mappings.strange_functions", names=strangers[:4]))
    known = of_troubleshooter()
    for source, function in functions.items():
        if function not in known:
            said = {"source": source, "function": function[:120]}
            called = Message("mappings.called", known=list(known))
            raise FormatError(joined([Message("mappings.not_called", **said), called]))
    unchanged = Transform()
    return [
        WeightRow(
            (source,),
            (target,),
            known[functions[source]] if source in functions else unchanged,
            how="imported",
        )
        for source, target in names.items()
    ]


def _of_json(content: bytes) -> list[WeightRow]:
    try:
        parts = json.loads(content, object_pairs_hook=_once)
    except FormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise FormatError(Message("mappings.no_weight_map", why=error)) from None
    return peer_rows(parts)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs, none of whose names may stand twice."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        name = whole(key)
        if name in found:
            twice = Message("mappings.name_twice", name=name)
            raise FormatError(joined([twice, Message("mappings.keep_one")]))
        found[name] = whole(value) if isinstance(value, str) else value
    return found


def _of_yaml(content: bytes) -> WeightMap:
    """The rows, the labels of both sides, and what the target keeps."""
    from troubleshooter_nb.formats.yaml_text import loaded_once  # brings yaml, which is slow

    loaded = loaded_once(content)
    rows = loaded.get("weights") if isinstance(loaded, dict) else None
    if not isinstance(rows, list):
        raise FormatError(Message("mappings.no_weight_map", why=Message("mappings.no_weights")))
    labels = {
        side: whole(loaded[side])
        for side in ("source", "target")
        if isinstance(loaded.get(side), str) and loaded[side]
    }
    kept = loaded.get("keep") or []
    if not isinstance(kept, list) or not all(isinstance(name, str) for name in kept):
        raise FormatError(Message("mappings.keep_names", got=str(kept)[:80]))
    parsed = cache(Transform.parse)  # most rows say the same
    read = tuple(_row(number, row, parsed) for number, row in enumerate(rows))
    return WeightMap(
        read,
        {},
        source_label=labels.get("source", "source"),
        target_label=labels.get("target", "target"),
        kept=tuple(map(whole, kept)),
    )


def _row(number: int, row: Any, parsed: Callable[[str], Transform]) -> WeightRow:
    if not isinstance(row, dict) or "from" not in row or set(row) - set(_KEYS):
        wrong = Message("mappings.no_row", number=number, row=str(row)[:80])
        raise FormatError(joined([wrong, Message("mappings.row_keys")]))
    sources, targets = (_listed(number, row.get(key)) for key in ("from", "to"))
    where = {"number": number, "names": _in_brief(sources)}
    if "to" not in row:
        wrong = Message("mappings.row_without_to", **where)
        raise FormatError(joined([wrong, Message("mappings.write_to_null")]))
    text = row.get("transform", _unsaid_transform(targets))
    try:
        note = _said(row.get("said"), whole(str(row.get("note", ""))))
        transform = parsed(str(text))
        return _counted(WeightRow(sources, targets, transform, how="imported", note=note))
    except WeightMapError as error:
        why = message_of(error)
        raise FormatError(Message("mappings.wrong_row", **where, why=why)) from None


def _unsaid_transform(targets: Sequence[str]) -> str:
    """What a row goes through that says nothing of it."""
    return _UNSAID if targets else _DROPPED


def _said(stored: object, note: str) -> str:
    """The message that a note is, where it still stands as it was written; else the note."""
    try:
        message = restored(json.loads(str(stored))) if note and stored else note
    except (ValueError, RecursionError):
        return note
    return message if message == note else note


def _counted(row: WeightRow) -> WeightRow:
    """The row, if its transform takes and gives as many tensors as there are names."""
    names = [*row.sources, *row.targets]
    if not all(name.strip() for name in names):
        raise WeightMapError(Message("mappings.empty_name", names=_in_brief(names)))
    if wrong := row.miscounted():
        raise WeightMapError(wrong)
    return row


def _in_brief(names: Sequence[str]) -> list[str]:
    """Names of a file as a message has them: a few, none as long as a damaged file may make it."""
    cut = [name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}..." for name in names]
    return cut if len(cut) <= _MOST_SHOWN else [*cut[:_MOST_SHOWN], "..."]


def _listed(number: int, names: Any) -> tuple[str, ...]:
    listed = [] if names is None else names if isinstance(names, list) else [names]
    if not all(isinstance(name, str) for name in listed):
        wrong = Message("mappings.no_names", number=number, names=str(names)[:80])
        raise FormatError(joined([wrong, Message("mappings.quote")]))
    return tuple(map(whole, listed))


def _plain(row: WeightRow) -> dict[str, Any]:
    def names(listed: tuple[str, ...]) -> Any:
        return listed[0] if len(listed) == 1 else list(listed) or None

    kept: dict[str, Any] = {"from": names(row.sources), "to": names(row.targets)}
    if str(row.transform) != _unsaid_transform(row.targets):
        kept["transform"] = str(row.transform)
    if row.note:
        kept["note"] = row.note
    if ids_of(row.note):
        kept["said"] = json.dumps(_without_text(plain(row.note)), ensure_ascii=False)
    return kept


def _without_text(stored: Any) -> Any:
    """A message as JSON without its English texts: the note has them."""
    if isinstance(stored, list):
        return [_without_text(one) for one in stored]
    if not isinstance(stored, dict):
        return stored
    return {key: _without_text(one) for key, one in stored.items() if key != "text"}


def _texts(part: object) -> dict[str, str]:
    if isinstance(part, dict) and all(
        isinstance(text, str) for pair in part.items() for text in pair
    ):
        return part
    raise FormatError(Message("mappings.names_only"))
