"""The words that a verb takes, how they are read, and the help about them."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Any, NoReturn

from troubleshooter_nb.cli.terminal import columns
from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.messages import Message, told
from troubleshooter_nb.options import get_options
from troubleshooter_nb.render.lines import padded, spaced, width, wrapped

NAME = "tnb"
LANGUAGES = ("en", "zh")
# What stands left of the explanations may take so many columns.
_WIDEST = 28
Reader = Callable[[str, str], Any]


class WrongWords(ArgumentError):
    """The command line says what no verb takes."""


class _Refused(Exception):
    """What argparse found wrong, which it says in English only."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Refused(message)


@dataclass(frozen=True)
class _Word:
    """An operand or option as the help shows it."""

    shown: str
    meaning: Message
    flags: tuple[str, ...] = ()
    takes_value: bool = False


class Grammar:
    """The operands and options of one verb.

    Parameters
    ----------
    verb : str
    does : Message
        What the verb does, in a sentence.
    examples : sequence of str
        Whole command lines; the first stands in what is said of wrong words.
    """

    def __init__(self, verb: str, does: Message, examples: Sequence[str]) -> None:
        self.verb, self.does, self.examples = verb, does, tuple(examples)
        self._parser = _Parser(prog=f"{NAME} {verb}", add_help=False, allow_abbrev=False)
        self._operands: list[_Word] = []
        self._options: list[_Word] = []
        self._readers: dict[str, tuple[str, Reader]] = {}
        self._pairs: dict[str, tuple[str, str]] = {}
        self.switch("-h", "--help", meaning=Message("command.help"))
        self.option("--language", value="LANG", meaning=Message("command.language"))

    def operand(self, name: str, meaning: Message, *, may_lack: bool = False) -> None:
        """Take a word that has its place; the last ones may be left out."""
        self._parser.add_argument(name.lower(), nargs="?" if may_lack else None)
        self._operands.append(_Word(f"[{name}]" if may_lack else name, meaning))

    def option(
        self,
        *flags: str,
        value: str,
        meaning: Message,
        read: Reader | None = None,
        default: Any = None,
        several: bool = False,
    ) -> None:
        """Take an option with a value, which `read` makes of flag and text; maybe several."""
        action = "append" if several else "store"
        taken = self._parser.add_argument(*flags, action=action, default=[] if several else default)
        self._options.append(_Word(f"{', '.join(flags)} {value}", meaning, flags, True))
        if read is not None:
            self._readers[taken.dest] = flags[-1], read

    def switch(self, *flags: str, meaning: Message) -> None:
        """Take an option that is there or not."""
        self._parser.add_argument(*flags, action="store_true")
        self._options.append(_Word(", ".join(flags), meaning, flags))

    def pairs(self, *flags: str, value: str, meaning: Message) -> None:
        """Take an option with two values, a name and whatever follows; any number of times."""
        self._options.append(_Word(f"{', '.join(flags)} {value}", meaning, flags, True))
        name = flags[-1].lstrip("-").replace("-", "_")
        self._pairs |= {flag: (name, self._options[-1].shown) for flag in flags}

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """What the words say.

        Raises
        ------
        WrongWords
            For an option or value that the verb does not take, and for operands that are missing
            or too many; the message says what is meant perhaps.
        """
        words, pairs = self._without_pairs(words)
        try:
            options, rest = self._parser.parse_known_args(self._with_values_joined(words))
        except _Refused:
            raise WrongWords(self._fault(words)) from None
        if rest:
            raise WrongWords(self._unknown(words) or self._too_many(rest))
        for name, (flag, read) in self._readers.items():
            if isinstance(value := getattr(options, name), str):
                setattr(options, name, read(flag, value))
        for name, given in pairs.items():
            setattr(options, name, given)
        return options

    def _without_pairs(
        self, words: Sequence[str]
    ) -> tuple[list[str], dict[str, list[tuple[str, str]]]]:
        """The words without options of two values, and those: a value may begin with a dash."""
        found: dict[str, list[tuple[str, str]]] = {name: [] for name, _ in self._pairs.values()}
        flags = {flag for one in self._options for flag in one.flags} | {"--"}
        rest: list[str] = []
        given = iter(words)
        for word in given:
            if word == "--":
                return [*rest, word, *given], found
            if word not in self._pairs:
                rest.append(word)
                continue
            name, shown = self._pairs[word]
            both = [*islice(given, 2)]
            if len(both) < 2 or not flags.isdisjoint(both):
                raise WrongWords(Message("command.needs_value", option=shown))
            found[name].append((both[0], both[1]))
        return rest, found

    def _with_values_joined(self, words: Sequence[str]) -> list[str]:
        """``--atol -1e-3`` as ``--atol=-1e-3``, which argparse takes for an option otherwise."""
        found: list[str] = []
        with_value = {flag for one in self._options if one.takes_value for flag in one.flags}
        for word in words:
            if found and found[-1] in with_value and "--" not in found[:-1] and _is_number(word):
                found[-1] += f"={word}" if found[-1].startswith("--") else word
            else:
                found.append(word)
        return found

    def help_lines(self) -> list[str]:
        """The help: how it is called, what it does, every word of it, examples."""
        operands = " ".join(one.shown for one in self._operands)
        called = " ".join(filter(None, (NAME, self.verb, operands, told(Message("command.some")))))
        lines = [*_text(_usage(called)), "", *_text(self.does)]
        lines += ["", *_table(self._operands)] if self._operands else []
        lines += ["", *_text(Message("command.options")), *_table(self._options)]
        lines += ["", *_text(Message("command.examples"))]
        return [*lines, *(f"  {example}" for example in self.examples)]

    def _fault(self, words: Sequence[str]) -> Message:
        """What is wrong with words that argparse refused."""
        if unknown := self._unknown(words):
            return unknown
        flags = {flag: one for one in self._options for flag in one.flags}
        given = [*before_the_end(words)]
        for word, following in zip_longest(given, given[1:], fillvalue="-"):
            flag, is_joined, _ = word.partition("=")
            option = flags.get(flag)
            if option is None:
                continue
            if is_joined and not option.takes_value:
                return Message("command.no_value", flag=flag)
            if option.takes_value and not is_joined and following.startswith("-"):
                return Message("command.needs_value", option=option.shown)
        needed = [one.shown for one in self._operands]
        return Message("command.operands", verb=self.verb, names=needed, example=self.examples[0])

    def _unknown(self, words: Sequence[str]) -> Message | None:
        """The first option that the verb does not have."""
        flags = [flag for one in self._options for flag in one.flags]
        short = {flag for flag in flags if not flag.startswith("--")}
        for word in before_the_end(words):
            flag = word.partition("=")[0]
            is_option = len(word) > 1 and word.startswith("-") and not _is_number(word)
            if is_option and flag not in flags and (word[:2] == "--" or word[:2] not in short):
                return Message(
                    "command.no_option", flag=flag, verb=self.verb, closest=_closest(flag, flags)
                )
        return None

    def _too_many(self, rest: Sequence[str]) -> Message:
        needed = [one.shown for one in self._operands]
        return Message("command.too_many", words=[*rest], verb=self.verb, names=needed)


def no_verb(word: str, verbs: Collection[str]) -> WrongWords:
    """That there is no such verb, and which it may have been."""
    if word.startswith("-"):
        return WrongWords(Message("command.no_verb_first", word=word, verbs=[*verbs]))
    return WrongWords(
        Message("command.no_verb", word=word, verbs=[*verbs], closest=_closest(word, verbs))
    )


def overview_lines(verbs: Mapping[str, Message]) -> list[str]:
    """The help of the whole command: its verbs, languages and exit codes."""
    words = [_Word(verb, does) for verb, does in verbs.items()]
    words.append(_Word("--version", Message("command.version")))
    return [
        *_text(_usage(f"{NAME} VERB ...")),
        "",
        *_text(Message("command.what")),
        "",
        *_table(words),
        "",
        *_text(Message("command.more_help", example=f"{NAME} compare --help")),
        *_text(Message("command.language_of_all")),
        *_text(Message("command.exit_codes")),
        "",
        *_text(Message("command.examples")),
        f"  {NAME} compare ms_run torch_run -o record.html",
    ]


def any_number(flag: str, text: str) -> float:
    """Whatever is a number."""
    try:
        return float(text)
    except ValueError:
        raise WrongWords(Message("arguments.no_number", name=flag, value=repr(text))) from None


def number(flag: str, text: str) -> float:
    """A tolerance or budget: 0 or larger; a budget may be infinite."""
    value = any_number(flag, text)
    is_budget = flag == "--budget"
    if not value >= 0 or (math.isinf(value) and not is_budget):
        told_of = {"value": repr(text)} if is_budget else {"name": flag, "value": repr(text)}
        raise WrongWords(Message(f"arguments.{'budget' if is_budget else 'tolerance'}", **told_of))
    return value


def numbers(flag: str, text: str) -> tuple[range, ...]:
    """Steps or ranks, ``0,2-4`` as ranges: of one number each, or of all from one to another."""
    found = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        last = last or first
        if not (_is_short_number(first) and _is_short_number(last) and int(first) <= int(last)):
            raise WrongWords(Message("command.no_numbers", flag=flag, value=repr(text)))
        found.append(range(int(first), int(last) + 1))
    return tuple(found)


def one_of(*known: str) -> Reader:
    """What reads a word of a closed list."""

    def read(flag: str, text: str) -> str:
        if text not in known:
            said = {"name": flag, "known": [*known], "value": repr(text)}
            raise WrongWords(Message("arguments.choice", **said))
        return text

    return read


def _is_short_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 18


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return word.startswith("-")


def before_the_end(words: Sequence[str]) -> Sequence[str]:
    """The words that may be options: those before ``--``."""
    return words[: words.index("--")] if "--" in words else words


def _closest(word: str, known: Collection[str]) -> str:
    # Brings numpy, for which only a slip of the pen asks.
    from troubleshooter_nb.naming.closeness import closest

    return closest(word, known)


def _usage(called: str) -> str:
    return spaced(told(Message("command.usage")), called)


def _text(text: str) -> list[str]:
    return wrapped(told(text), get_options(), columns=columns())


def _table(words: Sequence[_Word]) -> list[str]:
    """Words with what they mean beside them, or below where there is no room."""
    wide = columns()
    left = min(max(width(one.shown) for one in words), _WIDEST) + 4
    if wide - left < _WIDEST:
        left = 6
    lines: list[str] = []
    for one in words:
        meaning = wrapped(told(one.meaning), get_options(), indent=left, columns=wide)
        head = f"  {one.shown}"
        if width(head) + 2 <= left:
            lines.append(padded(head, left) + meaning[0].lstrip())
            lines += meaning[1:]
        else:
            lines += [head, *meaning]
    return lines
