"""Weight maps as files: TroubleShooter's json, and a yaml to read and edit."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import yaml

from troubleshooter_nb.errors import FormatError, TroubleshooterWarning, WeightMapError
from troubleshooter_nb.formats.file_source import named, opened, written_whole
from troubleshooter_nb.formats.yaml_nodes import whole
from troubleshooter_nb.weight_map import Spec, Transform, WeightMap, WeightRow, miscounted

_LARGEST = 64 * 1024**2  # bytes
# The function that TroubleShooter's maps name for values, and what it does. Its own reader
# imported and called whatever function a map named.
_PEER_FUNCTION = "troubleshooter.migrator.mapping_relation.weight_adapter.trans_conv1d_weight_value"
_PEER_TRANSFORM = Transform("expand_dims", (2,))
_KEYS = ("from", "to", "transform", "note")
_MOST_NAMED = 3


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
        ``.json`` as TroubleShooter's ``get_weight_map`` saves it, ``[{torch: MindSpore}, {torch:
        function}]``; or ``.yaml`` as `write_weight_map` does.
    source, target : mapping of str to Spec, optional
        What is known of the two sides; `convert_weights` takes the source's from the file itself.

    Raises
    ------
    FormatError
        If the file is no weight map, or names a function or transform that is not in the closed
        list; the message names the row. No function of a file is ever called.
    OSError
        If it cannot be opened.
    """
    path = Path(path)
    with named(path):
        with opened(path) as (file, (size, _)):
            if size > _LARGEST:
                msg = f"{size:,} bytes are too many for a weight map"
                raise FormatError(msg)
            content = file.read(size)
        labels: dict[str, str] = {}
        if path.suffix in (".yaml", ".yml"):
            rows, labels = _of_yaml(content)
        else:
            rows = _of_json(content)
    read = WeightMap(tuple(rows), source or {}, target)
    return replace(
        read,
        source_label=labels.get("source_label", read.source_label),
        target_label=labels.get("target_label", read.target_label),
    )


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
    """
    path = Path(path)
    if path.suffix not in (".json", ".yaml", ".yml"):
        msg = f"cannot write a weight map as {path.suffix or 'a file without suffix'!r}; use .yaml"
        raise ValueError(msg)
    for row in weight_map.rows:
        _check_names(row, blank=path.suffix == ".json")
    if path.suffix == ".json":
        text = json.dumps(peer_parts([row for row in weight_map.rows if row.targets]))
        for said in unsaid_in_weight_map(weight_map, path):
            warnings.warn(f"{path.name} {said}", TroubleshooterWarning, stacklevel=2)
    else:
        rows = [_plain(row) for row in weight_map.rows]
        labels = {"source": weight_map.source_label, "target": weight_map.target_label}
        text = yaml.dump(
            {**labels, "weights": rows},
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=True,
            width=float("inf"),
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as stream:
        stream.write(text.encode())
    return path


def unsaid_in_weight_map(weight_map: WeightMap, path: str | PathLike[str]) -> list[str]:
    """What a file of this name leaves out of a map: sentences that go on from its name.

    Rows that drop a tensor have no word in the ``.json``. The ``.yaml`` leaves out nothing.
    """
    dropped = [" + ".join(row.sources) for row in weight_map.rows if not row.targets]
    if Path(path).suffix != ".json" or not dropped:
        return []
    what = f"{len(dropped)} dropped tensors" if len(dropped) > 1 else "1 dropped tensor"
    some = ", ".join([*map(repr, dropped[:_MOST_NAMED]), *["..."] * (len(dropped) > _MOST_NAMED)])
    return [
        f"was written without {what}, which the json cannot name ({some}); the yaml holds "
        f"{'them' if len(dropped) > 1 else 'it'}"
    ]


def _check_names(row: WeightRow, *, blank: bool) -> None:
    """Raise unless the names come back from a file as they are."""
    for name in (*row.sources, *row.targets):
        if whole(name) != name:
            msg = f"{name!a} holds half of a character, which no file can hold; rename it"
            raise WeightMapError(msg)
        if not blank and not name.strip():
            msg = f"{name!r} is blank, which no file takes for a name; rename it"
            raise WeightMapError(msg)


class _Dumper(yaml.SafeDumper):
    """The safe dumper, which here quotes and escapes what a yaml could change."""

    def represent_str(self, text: str) -> yaml.ScalarNode:
        """A scalar; without escapes some characters are breaks of lines, and come back as such."""
        text = whole(text)
        if text.isprintable():
            return super().represent_str(text)
        return self.represent_scalar("tag:yaml.org,2002:str", text, style='"')


_Dumper.add_representer(str, _Dumper.represent_str)


def peer_parts(rows: Sequence[WeightRow]) -> list[dict[str, str]]:
    """The two objects of TroubleShooter's map; raises as `write_weight_map` does."""
    names: dict[str, str] = {}
    functions: dict[str, str] = {}
    for row in rows:
        if len(row.sources) != 1 or len(row.targets) != 1:
            msg = f"{' + '.join(row.sources)}: the json knows one name on each side; use .yaml"
            if row.transform.kind == "weight_norm":
                msg += ", or call torch.nn.utils.remove_weight_norm(layer) before"
            raise WeightMapError(msg)
        source, target = row.sources[0], row.targets[0]
        if source in names:
            msg = (
                f"{source} goes to {names[source]} and to {target}: the json knows one target "
                "for a name; use .yaml"
            )
            raise WeightMapError(msg)
        names[source] = target
        if row.transform == _PEER_TRANSFORM:
            functions[source] = _PEER_FUNCTION
        elif row.transform.kind != "copy":
            msg = f"{source}: the json does not know {row.transform}; use .yaml"
            raise WeightMapError(msg)
    return [names, functions]


def peer_rows(parts: object) -> list[WeightRow]:
    """The rows of a loaded TroubleShooter map; raises as `read_weight_map` does."""
    if not isinstance(parts, (list, tuple)) or len(parts) != 2:
        msg = "a weight map is a list of two objects, of names and of value functions"
        raise FormatError(msg)
    names, functions = (_texts(part) for part in parts)
    if strangers := sorted(set(functions) - set(names)):
        msg = f"value functions for names it does not map: {', '.join(strangers[:4])}"
        raise FormatError(msg)
    for source, function in functions.items():
        if function != _PEER_FUNCTION:
            msg = (
                f"{source!r}: the function {function[:120]!r} is not called; the only one known "
                f"is {_PEER_FUNCTION}"
            )
            raise FormatError(msg)
    return [
        WeightRow(
            (source,),
            (target,),
            _PEER_TRANSFORM if source in functions else Transform(),
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
        msg = f"not a weight map: {error}"
        raise FormatError(msg) from None
    return peer_rows(parts)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs, none of whose names may stand twice."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        name = whole(key)
        if name in found:
            msg = f"the name {name!r} stands twice; keep one of the two"
            raise FormatError(msg)
        found[name] = whole(value) if isinstance(value, str) else value
    return found


class _Loader(yaml.SafeLoader):
    """The safe loader, which here refuses a key that stands twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping of a node."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                msg = f"the key {key.value!r} stands twice, again in line {key.start_mark.line + 1}"
                raise FormatError(msg)
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else "")
        return super().construct_mapping(node, deep=deep)


def _of_yaml(content: bytes) -> tuple[list[WeightRow], dict[str, str]]:
    """The rows, and the labels of both sides."""
    try:
        loaded = yaml.load(content, _Loader)
    except FormatError:
        raise
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        msg = f"not a weight map: {' '.join(str(error).split())[:200]}"
        raise FormatError(msg) from None
    rows = loaded.get("weights") if isinstance(loaded, dict) else None
    if not isinstance(rows, list):
        msg = "not a weight map: it has no list 'weights'"
        raise FormatError(msg)
    labels = {
        f"{side}_label": whole(loaded[side])
        for side in ("source", "target")
        if isinstance(loaded.get(side), str) and loaded[side]
    }
    return [_row(number, row) for number, row in enumerate(rows)], labels


def _row(number: int, row: Any) -> WeightRow:
    if not isinstance(row, dict) or "from" not in row or set(row) - set(_KEYS):
        msg = f"row {number} of the weights is {str(row)[:80]}; expected from, to, transform, note"
        raise FormatError(msg)
    sources, targets = (_listed(number, row.get(key)) for key in ("from", "to"))
    if "to" not in row:
        msg = (
            f"row {number} of the weights ({', '.join(sources)}) has no 'to'; "
            "write 'to: null' to drop the tensor"
        )
        raise FormatError(msg)
    text = row.get("transform", "copy" if targets else "drop")
    try:
        transform = Transform.parse(str(text))
        _counted(transform, sources, targets)
        note = whole(str(row.get("note", "")))
        return WeightRow(sources, targets, transform, how="imported", note=note)
    except WeightMapError as error:
        msg = f"row {number} of the weights ({', '.join(sources)}): {error}"
        raise FormatError(msg) from None


def _counted(transform: Transform, sources: Sequence[str], targets: Sequence[str]) -> None:
    """Raise unless a transform takes and gives as many tensors as there are names."""
    if not all(name.strip() for name in (*sources, *targets)):
        msg = f"a name is empty or blank: {', '.join(map(repr, (*sources, *targets)))}"
        raise WeightMapError(msg)
    if wrong := miscounted(transform, len(sources), targets):
        raise WeightMapError(wrong)


def _listed(number: int, names: Any) -> tuple[str, ...]:
    listed = [] if names is None else names if isinstance(names, list) else [names]
    if not all(isinstance(name, str) for name in listed):
        msg = f"row {number} of the weights: {str(names)[:80]} are no names; put them in quotes"
        raise FormatError(msg)
    return tuple(map(whole, listed))


def _plain(row: WeightRow) -> dict[str, Any]:
    def names(listed: tuple[str, ...]) -> Any:
        return listed[0] if len(listed) == 1 else list(listed) or None

    plain: dict[str, Any] = {"from": names(row.sources), "to": names(row.targets)}
    if row.transform.kind not in (("copy",) if row.targets else ("copy", "drop")):
        plain["transform"] = str(row.transform)
    return plain | ({"note": row.note} if row.note else {})


def _texts(part: object) -> dict[str, str]:
    if isinstance(part, dict) and all(
        isinstance(text, str) for pair in part.items() for text in pair
    ):
        return part
    msg = "a weight map holds objects of names only"
    raise FormatError(msg)
