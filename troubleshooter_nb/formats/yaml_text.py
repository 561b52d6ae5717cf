"""Plain values as yaml, and back.

Apart from the files that hold them, because importing yaml takes longer than any module of ours.
"""

from __future__ import annotations

from typing import Any

import yaml

from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.yaml_nodes import whole
from troubleshooter_nb.messages import Foreign, Message


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
    """What a yaml holds, no key of which may stand twice.

    Raises
    ------
    FormatError
        If one does, or if it is no yaml.
    """
    try:
        return yaml.load(content, _Loader)
    except FormatError:
        raise
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        why = Foreign(" ".join(str(error).split())[:200])
        raise FormatError(Message("mappings.no_weight_map", why=why)) from None


class _Dumper(yaml.SafeDumper):
    """The safe dumper, which here quotes and escapes what a yaml could change."""

    def represent_str(self, text: str) -> yaml.ScalarNode:
        """A scalar; without escapes some characters are breaks of lines, and come back as such."""
        text = whole(text)
        if text.isprintable():
            return super().represent_str(text)
        return self.represent_scalar("tag:yaml.org,2002:str", text, style='"')


_Dumper.add_representer(str, _Dumper.represent_str)
_Dumper.add_multi_representer(str, _Dumper.represent_str)  # messages


class _Loader(yaml.SafeLoader):
    """The safe loader, which here refuses a key that stands twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping of a node."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                where = {"key": key.value, "line": key.start_mark.line + 1}
                raise FormatError(Message("mappings.key_twice", **where))
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else "")
        return super().construct_mapping(node, deep=deep)
