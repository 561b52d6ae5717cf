"""Mapping files that say which entries of two dumps belong together, as rules with their lines."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import NoReturn, get_args

from troubleshooter_nb.errors import FormatError, MappingFileError
from troubleshooter_nb.formats.file_source import opened
from troubleshooter_nb.formats.missing_path import not_there
from troubleshooter_nb.formats.pairing_rules import (
    MISSING,
    ROOTS,
    ApiRule,
    MappingFile,
    MappingKind,
    NameRule,
    Position,
)
from troubleshooter_nb.formats.yaml_nodes import (
    Items,
    Node,
    Table,
    Text,
    mapping_error,
    read_nodes,
    shown,
)
from troubleshooter_nb.naming import parse_row_name

_LARGEST = 16 * 1024**2  # bytes
_API_KEYS = {
    "ms_api": ("left", "api"),
    "pt_api": ("right", "api"),
    "ms_args": ("left", "inputs"),
    "pt_args": ("right", "inputs"),
    "ms_output": ("left", "outputs"),
    "ms_outputs": ("left", "outputs"),
    "pt_output": ("right", "outputs"),
    "pt_outputs": ("right", "outputs"),
}
_MOST_DIGITS = 6


def read_mapping(path: str | PathLike[str], *, kind: MappingKind | None = None) -> MappingFile:
    """The rules of a mapping file of msprobe, or of a list of pairs of names.

    Parameters
    ----------
    path : str or path-like
        Yaml or json, at most 16 MiB. ``api``: ``ms_api``, ``pt_api``, ``ms_args``, ``pt_args``,
        ``ms_output(s)``, ``pt_output(s)``, one mapping or a list of them. ``cell``:
        ``{fc2.Dense: fc2.Linear}`` or ``{Dense: Linear}``. ``layer``: ``{parent: {attribute:
        attribute}}``. ``data``: ``{row: row}`` or ``[[row, row]]``; ``N/A`` (without quotes in
        yaml) or null on one side for a row that has no partner.
    kind : {"api", "cell", "data", "layer"}, optional
        Which of them it is; default: what it looks like.

    Raises
    ------
    MappingFileError
        If it is none of them; names file, line and key, and says what to do.
    FileNotFoundError
        If it does not exist.
    OSError
        If it cannot be opened.
    TypeError
        If `path` is none.

    Notes
    -----
    Source: msprobe's documentation. Unlike msprobe this accepts a single api mapping and the plural
    keys, as documented, and refuses keys that it does not know or that stand there twice.
    """
    if kind is not None and kind not in get_args(MappingKind):
        msg = f"unknown kind {kind!r} of mapping; choose one of {', '.join(get_args(MappingKind))}"
        raise MappingFileError(msg)
    if not isinstance(path, (str, PathLike)):
        msg = f"read_mapping takes the path of a yaml or json file, got {type(path).__name__}"
        raise TypeError(msg)
    path = Path(path)
    if not path.exists():
        msg = (
            f"mapping: {not_there(path)}; a mapping is the path of a yaml or json file, "
            "{left name: right name}, or a list of such pairs"
        )
        raise FileNotFoundError(msg)
    try:
        with opened(path) as (stream, (size, _)):
            if size > _LARGEST:
                msg = f"{path.name}: {size:,} bytes are too many for a mapping file"
                raise MappingFileError(msg)
            content = stream.read(_LARGEST + 1)
    except FormatError as error:
        msg = f"{path.name}: {error}; a mapping file is a yaml or json file"
        raise MappingFileError(msg) from None
    reader = _Reader(path.name, all_quoted=path.suffix == ".json")
    root = read_nodes(content, path.name)
    kind = kind or kind_of(root)
    if kind == "api":
        return MappingFile(kind, path.name, apis=tuple(reader.apis(root)))
    if kind == "layer":
        return reader.layer(root)
    names = tuple(reader.pairs(root))
    if kind == "cell":
        reader.check_cells(names)
    reader.check_single([rule for rule in names if kind == "data" or _is_exact(rule)])
    return MappingFile(kind, path.name, names)


def kind_of(root: Node) -> MappingKind:
    """The kind that the content looks like; ``data`` where it says nothing else."""
    if isinstance(root, Items):
        first = root.items[0] if root.items else None
        return "api" if isinstance(first, Table) and _is_api(first) else "data"
    if not isinstance(root, Table):
        return "data"
    if _is_api(root):
        return "api"
    if any(isinstance(value, Table) for _, value in root.pairs):
        return "layer"
    sides = [text for key, value in root.pairs for text in (key, value)]
    names = [text.value for text in sides if isinstance(text, Text)]
    if len(names) == len(sides) and all(map(_is_class, names)):
        return "cell"
    # Of a layer mapping without any rename.
    roots = all(isinstance(v, Text) and v.is_null and k.value in ROOTS for k, v in root.pairs)
    return "layer" if root.pairs and roots else "data"


def _is_api(table: Table) -> bool:
    return any(key.value in _API_KEYS for key, _ in table.pairs)


def _is_class(name: str) -> bool:
    """Whether it may be ``path.Class``, or a class alone."""
    last = name.rpartition(".")[2]
    return last[:1].isupper() and parse_row_name(name) is None and name != MISSING


def _is_exact(rule: NameRule) -> bool:
    return "." in (rule.left or "") and "." in (rule.right or "")


@dataclass(frozen=True)
class _Reader:
    file: str
    all_quoted: bool = False

    def is_missing(self, node: Node) -> bool:
        """Whether it stands for no partner; in quotes, which json always has, it is a name."""
        if not isinstance(node, Text):
            return False
        return node.is_null or (node.value == MISSING and (node.plain or self.all_quoted))

    def fail(self, line: int, key: str, text: str) -> NoReturn:
        raise mapping_error(self.file, line, key, text)

    def pairs(self, root: Node) -> Iterator[NameRule]:
        """The rules of a flat table or of a list of pairs."""
        if isinstance(root, Table):
            for key, value in root.pairs:
                if isinstance(value, Items) and self.is_missing(key):
                    for item in value.items:
                        yield NameRule(item.line, None, self.name(item, MISSING))
                else:
                    yield self.pair(key, value)
        elif isinstance(root, Items):
            for item in root.items:
                if isinstance(item, Table):
                    yield from self.pairs(item)
                elif isinstance(item, Items) and len(item.items) == 2:
                    yield self.pair(*item.items)
                else:
                    self.fail(item.line, _said(item), "expected [left name, right name]")
        else:
            self.fail(root.line, root.value, "a mapping file is a table or a list of pairs")

    def pair(self, left: Node, right: Node) -> NameRule:
        names = []
        for side in (left, right):
            other = left if side is right else right
            names.append(None if self.is_missing(side) else self.name(side, _said(other)))
        if names == [None, None]:
            self.fail(left.line, "", "neither side has a name; remove the row")
        return NameRule(left.line, names[0], names[1])

    def name(self, node: Node, key: str) -> str:
        if not isinstance(node, Text):
            what = "a table" if isinstance(node, Table) else "a list"
            self.fail(node.line, key, f"expected one name, got {what}")
        if not node.value or node.is_null:
            self.fail(node.line, key, "expected a name, got nothing")
        return node.value

    def check_cells(self, rules: Sequence[NameRule]) -> None:
        for rule in rules:
            if rule.left is None or rule.right is None:
                text = "a cell mapping names both sides; a row without a partner is data mapping"
                self.fail(rule.line, rule.left or rule.right or "", text)

    def check_single(self, rules: Iterable[NameRule]) -> None:
        """That no two rules end in, or begin from, one name."""
        left: dict[tuple[str, str], NameRule] = {}
        right: dict[tuple[str, str], NameRule] = {}
        for rule in rules:
            for side, name in ((left, rule.left), (right, rule.right)):
                if name is None:
                    continue
                first = side.setdefault((rule.parent, name), rule)
                if first is not rule:
                    text = f"{shown(name)} stands in line {first.line} already; keep one of the two"
                    self.fail(rule.line, rule.left or MISSING, text)

    def layer(self, root: Node) -> MappingFile:
        if not isinstance(root, Table):
            self.fail(root.line, "", "a layer mapping is a table {parent: {attribute: attribute}}")
        rules: list[NameRule] = []
        parents = []
        for key, value in root.pairs:
            parents.append((key.value, key.line))
            if isinstance(value, Text) and value.is_null:
                continue
            if not isinstance(value, Table):
                text = "expected {attribute: attribute} below it; indent the names of this layer"
                self.fail(value.line, key.value, text)
            for attribute, other in value.pairs:
                names = self.name(attribute, key.value), self.name(other, attribute.value)
                for name in names:
                    if "" in name.split("."):
                        self.fail(
                            attribute.line, attribute.value, "a dot at an end or two in a row"
                        )
                rules.append(NameRule(attribute.line, *names, key.value))
        lines = dict(parents)
        if set(ROOTS) <= lines.keys():
            line = lines["Cell"]
            self.fail(line, "Cell", "TopLayer and Cell are both the outermost network; keep one")
        self.check_single(rules)
        return MappingFile("layer", self.file, tuple(rules), parents=tuple(parents))

    def apis(self, root: Node) -> Iterator[ApiRule]:
        items = root.items if isinstance(root, Items) else (root,)
        lines: dict[tuple[str, str], int] = {}
        for item in items:
            if not isinstance(item, Table):
                self.fail(item.line, _said(item), "expected ms_api, pt_api and their arguments")
            rule = self.api(item)
            first = lines.setdefault((rule.left, rule.right), rule.line)
            if first != rule.line:
                text = f"{rule.left} and {rule.right} are mapped in line {first} already"
                self.fail(rule.line, "ms_api", f"{text}; keep one of the two")
            yield rule

    def api(self, table: Table) -> ApiRule:
        found: dict[tuple[str, str], tuple[Text, Node]] = {}
        for key, value in table.pairs:
            if key.value not in _API_KEYS:
                close = difflib.get_close_matches(key.value, _API_KEYS, n=1, cutoff=0.5)
                hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(_API_KEYS)}"
                self.fail(key.line, key.value, f"unknown key; {hint}")
            meaning = _API_KEYS[key.value]
            if meaning in found:
                other = found[meaning][0]
                text = f"says the same as {other.value!r} in line {other.line}; keep one of the two"
                self.fail(key.line, key.value, text)
            found[meaning] = key, value
        for key_name in ("ms_api", "pt_api"):
            if _API_KEYS[key_name] not in found:
                self.fail(table.line, key_name, "this key is missing; name the operator")
        names = [found[side, "api"] for side in ("left", "right")]
        left, right = (self.name(value, key.value) for key, value in names)
        inputs, outputs = (self.positions(found, part) for part in ("inputs", "outputs"))
        lines = names[0][1].line, names[1][1].line
        return ApiRule(table.line, left, right, inputs, outputs, lines)

    def positions(
        self, found: dict[tuple[str, str], tuple[Text, Node]], part: str
    ) -> tuple[Position, ...] | None:
        sides = [found.get((side, part)) for side in ("left", "right")]
        left, right = sides
        if left is None and right is None:
            return None
        if left is None or right is None:
            key = (left or right or found["left", "api"])[0]
            missing = key.value.replace("ms_", "pt_") if left else key.value.replace("pt_", "ms_")
            self.fail(key.line, key.value, f"{missing!r} is missing; both lists or none")
        lists = [self.numbers(*side) for side in (left, right)]
        if len(lists[0]) != len(lists[1]):
            text = (
                f"{len(lists[0])} numbers, but {len(lists[1])} in {right[0].value!r} (line "
                f"{right[0].line}); the n-th of one belongs to the n-th of the other"
            )
            self.fail(left[0].line, left[0].value, text)
        keys = left[0].value, right[0].value
        return tuple(
            Position(mine, theirs, (line, other), keys)
            for (mine, line), (theirs, other) in zip(*lists, strict=True)
        )

    def numbers(self, key: Text, value: Node) -> list[tuple[int, int]]:
        if not isinstance(value, Items):
            self.fail(value.line, key.value, "expected a list of positions such as [0, 1]")
        lines: dict[int, int] = {}
        for item in value.items:
            text = item.value if isinstance(item, Text) else _said(item)
            digits = text.removeprefix("-")
            if not (isinstance(item, Text) and digits.isascii() and digits.isdigit()):
                what = f"{shown(text)} is no position; expected whole numbers from 0"
                self.fail(item.line, key.value, what)
            if text != digits or len(digits) > _MOST_DIGITS:
                self.fail(
                    item.line, key.value, f"{text[:20]} is out of range; positions count from 0"
                )
            if int(text) in lines:
                what = f"{text} stands there twice (line {lines[int(text)]}); remove one"
                self.fail(item.line, key.value, what)
            lines[int(text)] = item.line
        return list(lines.items())


def _said(node: Node) -> str:
    """What a key or value looks like, for messages."""
    if isinstance(node, Text):
        return node.value
    return "{...}" if isinstance(node, Table) else "[...]"
