"""Sentences as values: an id and what fills its gaps, told in English or Chinese from one table.

To change or add a sentence, go to the file of its subject in this folder: ``zips.ends_before`` is
the key ``ends_before`` of ``zips.py``. `tests/messages` holds the rules.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import PurePath
from typing import Any

from troubleshooter_nb.messages.sentences import SENTENCES

Language = str  # "en" or "zh"

# Characters that a terminal acts on or that turn text around, and halves of characters, of which
# UTF-8 has no bytes. Tabs and new lines are text.
ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_JOINED = {";": "lists.semicolon", ",": "lists.comma", " ": "lists.blank"}
# Set by `options`; here because an error asks for the language that is in force.
options_in_force: ContextVar[Mapping[str, object] | None] = ContextVar(
    "troubleshooter_nb_options", default=None
)


def language_in_force() -> Language:
    """The language that `options.set_options` chose, "en" where it did not."""
    return str((options_in_force.get() or {}).get("language", "en"))


class Message(str):
    """A sentence, which as a string is English.

    It travels wherever a string does (a column, a note, an error), and code asks for its `id`,
    never how the text begins. A string made of it, as by an f-string, is a plain string and only
    English: put messages into the gaps of a message, or use `joined`.
    yaml's safe dumper takes plain strings only: give it ``str(message)``.

    Parameters
    ----------
    id : str
        ``subject.key``.
    **values
        What fills the gaps, by name. Texts and messages are shown as they are; numbers take the
        format that the template gives, or ``{count:row|rows}``, the word for one and for others.
        A list is a list of names, see `_Names`; a tuple is a shape, shown as Python does. An
        exception stands for what it says, see `message_of`. None and others are shown by `str`.

    Raises
    ------
    KeyError
        If there is no such id, or the template a gap that no value fills.
    """

    id: str
    values: Mapping[str, Any]

    def __new__(cls, id: str, /, **values: Any) -> Message:
        """The English text with what it is made of."""
        kept = {name: _kept(value) for name, value in values.items()}
        message = super().__new__(cls, _told(id, kept, "en"))
        message.id = id
        message.values = kept
        return message

    def told(self, language: Language) -> str:
        """The sentence in a language."""
        return str(self) if language == "en" else _told(self.id, self.values, language)

    def __repr__(self) -> str:
        """Quoted in the language in force, as in the repr of what holds it."""
        return repr(told(self))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled and copied as id and values."""
        return _again, (self.id, dict(self.values))

    def __deepcopy__(self, memo: object) -> Message:
        """Itself, as of any text."""
        return self


class Foreign(str):
    """Words that are not ours, of a file, another library or the system: shown as they are."""


def visible(text: str) -> str:
    """Text of others that may be shown anywhere: characters that do something come escaped."""
    return text if text.isprintable() else ACTING.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def told(text: str, language: Language | None = None) -> str:
    """A message in a language (None: the one in force); any other text as it is."""
    if isinstance(text, Message):
        return text.told(language or language_in_force())
    return str(text)


def joined(parts: Iterable[str], by: str = ";") -> str:
    """Several messages as one, with ``;``, ``,`` or a blank between; empty ones are left out."""
    kept = [part for part in parts if part]
    if len(kept) < 2:
        return kept[0] if kept else ""
    return Message(_JOINED[by], parts=kept)


def parts_of(text: str) -> list[str]:
    """What `joined` put together; of any other text itself, nothing of an empty one."""
    if isinstance(text, Message) and text.id in _JOINED.values():
        return [part for one in text.values["parts"] for part in parts_of(one)]
    return [text] if text else []


def of_one_class(texts: Sequence[str]) -> list[str]:
    """Texts of a column; where one is a message, all are: netcdf takes values of one class only."""
    if not any(isinstance(text, Message) for text in texts):
        return list(texts)
    plain = {text: Message("lists.plain", text=text) for text in {*texts}}
    return [text if isinstance(text, Message) else plain[text] for text in texts]


def ids_of(text: str) -> list[str]:
    """The ids of a message, or of those that it joins; none of a plain text."""
    return [part.id for part in parts_of(text) if isinstance(part, Message)]


def messages_in(text: str) -> list[Message]:
    """A message and all that stand in its gaps, outermost first; none of any other text."""
    if not isinstance(text, Message):
        return []
    found = [text]
    for value in text.values.values():
        inner = value if isinstance(value, list | tuple) else [value]
        found += [one for part in inner if isinstance(part, str) for one in messages_in(part)]
    return found


def message_of(error: BaseException) -> str:
    """What an exception says: its message, the system's reason, or the words of others."""
    first = error.args[0] if error.args else ""
    if isinstance(first, Message):
        return first
    if isinstance(error, OSError) and error.strerror:
        id = _SYSTEM.get(error.errno or 0)
        return Message(id) if id else Foreign(error.strerror)
    return Foreign(str(error) or type(error).__name__)


def plain(text: str) -> str | dict[str, Any]:
    """A message as JSON holds it, and `restored` reads it; any other text as it is."""
    if not isinstance(text, Message):
        return str(text)
    values = {name: _plain_value(value) for name, value in text.values.items()}
    # The text is what a reader shows that does not know the id.
    return {"message": text.id, "values": values, "text": str(text)}


def restored(stored: Any) -> str:
    """What `plain` was given; its English text where this version has no such message."""
    if not isinstance(stored, Mapping):
        return str(stored)
    try:
        values = {name: _restored_value(value) for name, value in stored["values"].items()}
        return Message(stored["message"], **values)
    except (KeyError, AttributeError, TypeError, ValueError, IndexError):
        return str(stored.get("text", ""))


def _again(id: str, values: dict[str, Any]) -> Message:
    return Message(id, **values)


def _told(id: str, values: Mapping[str, Any], language: Language) -> str:
    template = SENTENCES[id][language == "zh"]
    if "{" not in template:
        return template
    return template.format(**{name: _shown(value, language) for name, value in values.items()})


def _kept(value: Any) -> Any:
    if isinstance(value, BaseException):
        return message_of(value)
    if isinstance(value, (str, bool, int, float)) or value is None:
        return value
    if isinstance(value, (list, tuple)):
        return type(value)(map(_kept, value)) if type(value) in (list, tuple) else [*value]
    if isinstance(value, PurePath):
        return os.fspath(value)
    item = getattr(value, "item", None)  # a number of numpy
    return item() if callable(item) and getattr(value, "ndim", 1) == 0 else str(value)


def _shown(value: Any, language: Language) -> Any:
    if isinstance(value, Message):
        return value.told(language)
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list):
        return _Names([_shown(one, language) for one in value], language)
    if isinstance(value, int) and not isinstance(value, bool):
        return _Number(value)
    return tuple(value) if isinstance(value, tuple) else value


class _Number(int):
    def __format__(self, form: str) -> str:
        one, bar, others = form.partition("|")
        return (one if self == 1 else others) if bar else super().__format__(form)


class _Names:
    """A list in a gap.

    ``{names}`` puts commas between, ``{names:r}`` quotes each, ``{names:;}`` puts semicolons,
    ``{names:+}`` plus signs, ``{names:&}`` "and", ``{names:/}`` slashes, ``{names: }`` blanks, a newline as format newlines;
    ``{names:3}`` and ``{names:r3}`` show the first three and how many more there are.
    """

    def __init__(self, names: list[Any], language: Language) -> None:
        self._names, self._language = names, language

    def __format__(self, form: str) -> str:
        most = int("".join(filter(str.isdigit, form)) or 0)
        names = [repr(str(name)) if "r" in form else visible(str(name)) for name in self._names]
        shown = names[:most] if most else names
        chinese = self._language == "zh"
        between = {
            ";": ("; ", "；"),
            "+": (" + ", " + "),
            "/": (" / ", " / "),
            "&": (" and ", "、"),
            " ": (" ", " "),
            "\n": ("\n", "\n"),
        }
        text = between.get(form, (", ", "、"))[chinese].join(shown)
        if len(shown) == len(names):
            return text
        return _told(
            "lists.more", {"shown": text, "count": len(names) - len(shown)}, self._language
        )


def _plain_value(value: Any) -> Any:
    if isinstance(value, Message):
        return plain(value)
    if isinstance(value, tuple):
        return {"shape": [_plain_value(one) for one in value]}
    if isinstance(value, list):
        return [_plain_value(one) for one in value]
    return value


def _restored_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple(map(_restored_value, value["shape"])) if "shape" in value else restored(value)
    return [_restored_value(one) for one in value] if isinstance(value, list) else value


_SYSTEM = {
    errno.ENOENT: "system.no_such_file",
    errno.EPERM: "system.not_permitted",
    errno.EACCES: "system.permission_denied",
    errno.EEXIST: "system.exists",
    errno.ENOTDIR: "system.not_a_folder",
    errno.EISDIR: "system.is_a_folder",
    errno.ENOSPC: "system.no_space",
    errno.EROFS: "system.read_only",
    errno.ENAMETOOLONG: "system.name_too_long",
}
