"""A small yaml file as texts, lists and tables that know their lines; nothing is constructed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from troubleshooter_nb.errors import MappingFileError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming.characters import printable

_SHOWN = 80


class Text(NamedTuple):
    """A scalar; `plain` where it stands without quotes, so that it may mean a number or null."""

    line: int
    value: str
    plain: bool = True

    @property
    def is_null(self) -> bool:
        """Whether it stands for nothing."""
        return self.plain and self.value in ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True)
class Items:
    """A list."""

    line: int
    items: tuple[Node, ...]


@dataclass(frozen=True)
class YamlMapping:
    """A mapping with texts as keys, none of them twice."""

    line: int
    pairs: tuple[tuple[Text, Node], ...]


Node = Text | Items | YamlMapping


def mapping_error(file: str, line: int, key: str, text: str) -> MappingFileError:
    """The error for a place in a mapping file; without the file's name where it is said before."""
    where: dict[str, object] = {"line": line, "text": text}
    if key:
        where["key"] = shown(key)
    if file:
        where["file"] = file
        return MappingFileError(Message("mappings.at_key" if key else "mappings.in_line", **where))
    return MappingFileError(
        Message("mappings.key_alone" if key else "mappings.line_alone", **where)
    )


def shown(text: str) -> str:
    """A text from a file, quoted and cut, for a message."""
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")


def read_nodes(content: bytes, file: str) -> Node:
    """The one document of a yaml or json file.

    Parameters
    ----------
    content : bytes
        In UTF-8, or UTF-16 with a mark.
    file : str
        Name for messages.

    Raises
    ------
    MappingFileError
        If it is no yaml, empty or several documents; has a key twice, tags, or a key that is no
        text; is nested deeper than 32; or stands for more than 4 million nodes (times the option
        ``limits``) by its aliases.
    """
    from troubleshooter_nb.formats.yaml_events import nodes_of  # brings yaml, which is slow

    return nodes_of(content, file)


def whole(text: str) -> str:
    """A text of a file as dumps have it in their names.

    A character beyond 16 bits is two halves in json, which become one; half of one that stands
    alone comes escaped.
    """
    if text.isascii():
        return text
    return printable(text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass"))
