"""The nodes of a yaml file, made of the events of its parser.

Apart from `yaml_nodes`, because importing yaml takes longer than any module of ours, and most calls
read none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from troubleshooter_nb.formats.limits import beyond, most
from troubleshooter_nb.formats.yaml_nodes import (
    Items,
    Node,
    Text,
    YamlMapping,
    mapping_error,
    whole,
)
from troubleshooter_nb.messages import Foreign, Message

_DEEPEST = 32
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PLAIN_TAGS = {None, *(f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "map", "seq"))}
_HALF = "invalid Unicode character escape code"


def nodes_of(content: bytes, file: str) -> Node:
    """What `yaml_nodes.read_nodes` gives, and raises."""
    if content.lstrip()[:1] in (b"{", b"["):
        # Tabs between the parts of a json file, which yaml does not take; in its texts are none.
        content = content.replace(b"\t", b" ")
    builder = _Builder(file)
    try:
        try:
            builder.take_all(content, _LOADER)
        except yaml.MarkedYAMLError as error:
            if _LOADER is yaml.SafeLoader or _HALF not in str(error.problem):
                raise
            # The halves that json makes of a character beyond 16 bits, and the C parser refuses.
            builder = _Builder(file)
            builder.take_all(content, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        why = Foreign(" ".join(filter(None, (error.context, error.problem))))
        raise mapping_error(file, line, "", Message("mappings.no_yaml", why=why)) from None
    except (yaml.YAMLError, UnicodeError) as error:
        why = Foreign(" ".join(str(error).split())[:120])
        raise mapping_error(file, 1, "", Message("mappings.no_text", why=why)) from None
    if builder.root is None:
        raise mapping_error(file, 1, "", Message("mappings.only_comments"))
    return builder.root


@dataclass
class _Frame:
    """A list or table whose end has not come yet."""

    line: int
    is_table: bool
    anchor: str | None
    nodes: list[Node] = field(default_factory=list)
    weight: int = 1


class _Builder:
    """Makes nodes of events, without recursion."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.root: Node | None = None
        self.frames: list[_Frame] = []
        self.anchors: dict[str, tuple[Node, int]] = {}
        self.documents = 0
        self.most = most("yaml_values")

    def take_all(self, content: bytes, loader: Any) -> None:
        for event in yaml.parse(content, Loader=loader):
            self.take(event)

    def take(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark else 1
        # Nearly all events are texts.
        if isinstance(event, yaml.ScalarEvent):
            text = _text(event, line)
            if event.tag is not None:
                self._check_tag(event, line)
            if event.anchor is not None:
                self.anchors[event.anchor] = text, 1
            self._put(text, 1, line)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._check_tag(event, line)
            if len(self.frames) >= _DEEPEST:
                said = Message("mappings.too_deep", most=_DEEPEST)
                raise mapping_error(self.file, line, "", said)
            is_table = isinstance(event, yaml.MappingStartEvent)
            self.frames.append(_Frame(line, is_table, event.anchor))
        elif isinstance(event, yaml.CollectionEndEvent):
            frame = self.frames.pop()
            node: Node = Items(frame.line, tuple(frame.nodes))
            if frame.is_table:
                node = YamlMapping(frame.line, tuple(self._pairs(frame.nodes)))
            if frame.anchor is not None:
                self.anchors[frame.anchor] = node, frame.weight
            self._put(node, frame.weight, line)
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in self.anchors:
                said = Message("mappings.no_anchor")
                raise mapping_error(self.file, line, f"*{event.anchor}", said)
            self._put(*self.anchors[event.anchor], line)
        elif isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise mapping_error(self.file, line, "---", Message("mappings.second_document"))

    def _put(self, node: Node, weight: int, line: int) -> None:
        if not self.frames:
            self.root = node
            return
        frame = self.frames[-1]
        frame.nodes.append(node)
        frame.weight += weight
        # Aliases repeat what they stand for: a few lines can stand for billions.
        if frame.weight > self.most:
            said = Message("mappings.too_many_nodes", most=self.most)
            raise mapping_error(self.file, line, "", beyond("yaml_values", said))

    def _check_tag(self, event: Any, line: int) -> None:
        if event.tag not in _PLAIN_TAGS and event.tag != "!":
            raise mapping_error(self.file, line, event.tag, Message("mappings.tag"))

    def _pairs(self, nodes: list[Node]) -> Iterator[tuple[Text, Node]]:
        lines: dict[str, int] = {}
        for key, value in zip(nodes[::2], nodes[1::2], strict=True):
            if not isinstance(key, Text):
                raise mapping_error(self.file, key.line, "", Message("mappings.no_key"))
            if key.value == "<<" and key.plain:
                raise mapping_error(self.file, key.line, "<<", Message("mappings.merged"))
            if key.value in lines:
                said = Message("mappings.key_in_line", line=lines[key.value])
                raise mapping_error(self.file, key.line, key.value, said)
            lines[key.value] = key.line
            yield key, value


def _text(event: yaml.ScalarEvent, line: int) -> Text:
    value = event.value
    if not value.isascii():
        value = whole(value)
    # The style of what has no quotes is None of one parser and empty of the other. A text that has
    # a tag is what the tag says.
    return Text(line, value, not event.style and event.tag is None)
