"""Mapping files that say which entries of two dumps belong together, as rules with their lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import NoReturn, get_args

from troubleshooter_nb.collector import uncollected
from troubleshooter_nb.errors import (
    ArgumentTypeError,
    FormatError,
    MappingFileError,
    PathNotFoundError,
    path_of,
)
from troubleshooter_nb.formats.file_source import opened
from troubleshooter_nb.formats.limits import beyond, most
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
    Text,
    YamlMapping,
    mapping_error,
    read_nodes,
    shown,
)
from troubleshooter_nb.messages import Message, message_of
from troubleshooter_nb.naming import parse_row_name
from troubleshooter_nb.naming.closeness import closest

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


@uncollected()
def read_mapping(path: str | PathLike[str], *, kind: MappingKind | None = None) -> MappingFile:
    """The rules of a mapping file of msprobe, or of a list of pairs of names.

    Parameters
    ----------
    path : str or path-like
        Yaml or json, at most 16 MiB times the option ``limits``. ``api``: ``ms_api``, ``pt_api``,
        ``ms_args``, ``pt_args``, ``ms_output(s)``, ``pt_output(s)``, one mapping or a list of
        them. ``cell``: ``{fc2.Dense: fc2.Linear}`` or ``{Dense: Linear}``. ``layer``: ``{parent:
        {attribute: attribute}}``. ``data``: ``{row: row}`` or ``[[row, row]]``; ``N/A`` (without
        quotes in yaml) or null on one side for a row that has no partner.
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
        kinds = list(get_args(MappingKind))
        raise MappingFileError(Message("mappings.no_kind", kind=repr(kind), kinds=kinds))
    if not isinstance(path, (str, PathLike)):
        raise ArgumentTypeError(Message("mappings.no_path", got=type(path).__name__))
    path = path_of(path)
    if not path.exists():
        raise PathNotFoundError(Message("mappings.not_there", why=not_there(path)))
    try:
        with opened(path) as (stream, (size, _)):
            if size > most("mapping"):
                said = Message("mappings.too_large", file=path.name, size=size)
                raise MappingFileError(beyond("mapping", said, size))
            content = stream.read(size)
    except FormatError as error:
        said = Message("mappings.not_opened", file=path.name, why=message_of(error))
        raise MappingFileError(said) from None
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
        return "api" if isinstance(first, YamlMapping) and _is_api(first) else "data"
    if not isinstance(root, YamlMapping):
        return "data"
    if _is_api(root):
        return "api"
    if any(isinstance(value, YamlMapping) for _, value in root.pairs):
        return "layer"
    sides = [text for key, value in root.pairs for text in (key, value)]
    names = [text.value for text in sides if isinstance(text, Text)]
    if len(names) == len(sides) and all(map(_is_class, names)):
        return "cell"
    # Of a layer mapping without any rename.
    roots = all(isinstance(v, Text) and v.is_null and k.value in ROOTS for k, v in root.pairs)
    return "layer" if root.pairs and roots else "data"


def _is_api(table: YamlMapping) -> bool:
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

    def fail(self, line: int, key: str, id: str, /, **values: object) -> NoReturn:
        raise mapping_error(self.file, line, key, Message(f"mappings.{id}", **values))

    def pairs(self, root: Node) -> Iterator[NameRule]:
        """The rules of a flat table or of a list of pairs."""
        if isinstance(root, YamlMapping):
            for key, value in root.pairs:
                if isinstance(value, Items) and self.is_missing(key):
                    for item in value.items:
                        yield NameRule(item.line, None, self.name(item, MISSING))
                else:
                    yield self.pair(key, value)
        elif isinstance(root, Items):
            for item in root.items:
                if isinstance(item, YamlMapping):
                    yield from self.pairs(item)
                elif isinstance(item, Items) and len(item.items) == 2:
                    yield self.pair(*item.items)
                else:
                    self.fail(item.line, _said(item), "wants_pair")
        else:
            self.fail(root.line, root.value, "wants_table_or_list")

    def pair(self, left: Node, right: Node) -> NameRule:
        names = []
        for side in (left, right):
            other = left if side is right else right
            names.append(None if self.is_missing(side) else self.name(side, _said(other)))
        if names == [None, None]:
            self.fail(left.line, "", "neither_side")
        return NameRule(left.line, names[0], names[1])

    def name(self, node: Node, key: str) -> str:
        if not isinstance(node, Text):
            what = "table" if isinstance(node, YamlMapping) else "list"
            self.fail(node.line, key, f"name_is_a_{what}")
        if not node.value or node.is_null:
            self.fail(node.line, key, "name_is_nothing")
        return node.value

    def check_cells(self, rules: Sequence[NameRule]) -> None:
        for rule in rules:
            if rule.left is None or rule.right is None:
                self.fail(rule.line, rule.left or rule.right or "", "cell_names_both")

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
                    said = {"name": shown(name), "line": first.line}
                    self.fail(rule.line, rule.left or MISSING, "name_in_line", **said)

    def layer(self, root: Node) -> MappingFile:
        if not isinstance(root, YamlMapping):
            self.fail(root.line, "", "layer_is_table")
        rules: list[NameRule] = []
        parents = []
        for key, value in root.pairs:
            parents.append((key.value, key.line))
            if isinstance(value, Text) and value.is_null:
                continue
            if not isinstance(value, YamlMapping):
                self.fail(value.line, key.value, "wants_attributes")
            for attribute, other in value.pairs:
                names = self.name(attribute, key.value), self.name(other, attribute.value)
                for name in names:
                    if "" in name.split("."):
                        self.fail(attribute.line, attribute.value, "misplaced_dot")
                rules.append(NameRule(attribute.line, *names, key.value))
        lines = dict(parents)
        if set(ROOTS) <= lines.keys():
            line = lines["Cell"]
            self.fail(line, "Cell", "two_roots")
        # Several operators may be one of the other framework; modules that meet are refused later.
        return MappingFile("layer", self.file, tuple(rules), parents=tuple(parents))

    def apis(self, root: Node) -> Iterator[ApiRule]:
        items = root.items if isinstance(root, Items) else (root,)
        lines: dict[tuple[str, str], int] = {}
        for item in items:
            if not isinstance(item, YamlMapping):
                self.fail(item.line, _said(item), "wants_api")
            rule = self.api(item)
            first = lines.setdefault((rule.left, rule.right), rule.line)
            if first != rule.line:
                said = {"left": rule.left, "right": rule.right, "line": first}
                self.fail(rule.line, "ms_api", "api_in_line", **said)
            yield rule

    def api(self, table: YamlMapping) -> ApiRule:
        found: dict[tuple[str, str], tuple[Text, Node]] = {}
        for key, value in table.pairs:
            if key.value not in _API_KEYS:
                said = {"known": list(_API_KEYS), "closest": closest(key.value, _API_KEYS)}
                self.fail(key.line, key.value, "unknown_key", **said)
            meaning = _API_KEYS[key.value]
            if meaning in found:
                other = found[meaning][0]
                first = {"other": other.value, "line": other.line}
                self.fail(key.line, key.value, "same_key", **first)
            found[meaning] = key, value
        for key_name in ("ms_api", "pt_api"):
            if _API_KEYS[key_name] not in found:
                self.fail(table.line, key_name, "no_operator_key")
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
            self.fail(key.line, key.value, "both_lists", missing=missing)
        lists = [self.numbers(*side) for side in (left, right)]
        if len(lists[0]) != len(lists[1]):
            counts = {"count": len(lists[0]), "others": len(lists[1])}
            said = {"other": right[0].value, "line": right[0].line}
            self.fail(left[0].line, left[0].value, "other_count", **counts, **said)
        keys = left[0].value, right[0].value
        return tuple(
            Position(mine, theirs, (line, other), keys)
            for (mine, line), (theirs, other) in zip(*lists, strict=True)
        )

    def numbers(self, key: Text, value: Node) -> list[tuple[int, int]]:
        if not isinstance(value, Items):
            self.fail(value.line, key.value, "wants_positions")
        lines: dict[int, int] = {}
        for item in value.items:
            text = item.value if isinstance(item, Text) else _said(item)
            digits = text.removeprefix("-")
            if not (isinstance(item, Text) and digits.isascii() and digits.isdigit()):
                self.fail(item.line, key.value, "no_position", text=shown(text))
            if text != digits or len(digits) > _MOST_DIGITS:
                self.fail(item.line, key.value, "position_beyond", text=text[:20])
            if int(text) in lines:
                said = {"text": text, "line": lines[int(text)]}
                self.fail(item.line, key.value, "position_twice", **said)
            lines[int(text)] = item.line
        return list(lines.items())


def _said(node: Node) -> str:
    """What a key or value looks like, for messages."""
    if isinstance(node, Text):
        return node.value
    return "{...}" if isinstance(node, YamlMapping) else "[...]"
