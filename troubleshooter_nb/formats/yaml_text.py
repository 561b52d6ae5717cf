"""Plain values as yaml, and back.

Apart from the files that hold them, because importing yaml takes longer than any module of ours.
"""

from __future__ import annotations

from typing import Any

import yaml

from troubleshooter_nb.errors import FormatError, MappingFileError
from troubleshooter_nb.formats.yaml_events import nodes_of
from troubleshooter_nb.formats.yaml_nodes import Node, Text, YamlMapping, whole
from troubleshooter_nb.messages import Foreign, Message, message_of

_TEXT = "tag:yaml.org,2002:str"


def dumped(content: dict[str, Any]) -> str:
    """A yaml of texts, lists and tables, each text on one line, in the order given."""
    text: str = yaml.dump(
        content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=float("inf")
    )
    return text


def quoted(text: str) -> str:
    """A text in quotes, as yaml."""
    made: str = yaml.safe_dump(text, default_style='"', allow_unicode=True, width=float("inf"))
    return made.strip()


def loaded_once(content: bytes) -> Any:
    """What a yaml holds: texts, numbers and so on, lists, and tables with texts as keys.

    Raises
    ------
    FormatError
        If a key stands twice, if it is no yaml, or for anything else that `nodes_of` refuses.
    """
    try:
        return _Meaning().of(nodes_of(content, ""))
    except MappingFileError as error:
        why: Any = message_of(error)
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        why = Foreign(" ".join(str(error).split())[:200])
    raise FormatError(Message("mappings.no_weight_map", why=why)) from None


class _Meaning:
    """Turns nodes into plain values; what aliases stand for is one object."""

    def __init__(self) -> None:
        self._resolver = yaml.resolver.Resolver()
        self._constructor = yaml.constructor.SafeConstructor()
        self._known: dict[int, Any] = {}

    def of(self, node: Node) -> Any:
        if isinstance(node, Text):
            return self._scalar(node)
        known = self._known.get(id(node))
        if known is None:
            if isinstance(node, YamlMapping):
                known = {key.value: self.of(value) for key, value in node.pairs}
            else:
                known = [self.of(one) for one in node.items]
            self._known[id(node)] = known
        return known

    def _scalar(self, text: Text) -> Any:
        if not text.plain:
            return text.value
        resolved: Any = self._resolver.resolve  # is not typed
        tag = resolved(yaml.ScalarNode, text.value, (True, False))
        if tag == _TEXT:
            return text.value
        return self._constructor.construct_object(yaml.ScalarNode(tag, text.value))


class _Dumper(yaml.SafeDumper):
    """The safe dumper, which here quotes and escapes what a yaml could change."""

    def represent_str(self, text: str) -> yaml.ScalarNode:
        """A scalar; without escapes some characters are breaks of lines, and come back as such."""
        text = whole(text)
        if text.isprintable():
            return super().represent_str(text)
        return self.represent_scalar(_TEXT, text, style='"')


_Dumper.add_representer(str, _Dumper.represent_str)
_Dumper.add_multi_representer(str, _Dumper.represent_str)  # messages
