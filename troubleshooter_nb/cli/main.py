"""The command line as a whole: which verb is meant, in which language, and how it ends."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Protocol, cast

from troubleshooter_nb.cli import exit_codes
from troubleshooter_nb.cli.grammar import (
    LANGUAGES,
    NAME,
    Grammar,
    WrongWords,
    before_the_end,
    no_verb,
    one_of,
    overview_lines,
)
from troubleshooter_nb.cli.terminal import (
    can_show_marks,
    complain,
    escape_what_cannot_be_shown,
    paragraph,
    say,
    settle,
    unbroken,
    warnings_told,
    with_name,
)
from troubleshooter_nb.errors import TroubleshooterError, UnknownFormatError
from troubleshooter_nb.messages import Message, ids_of, joined, message_of, told
from troubleshooter_nb.options import option_context
from troubleshooter_nb.version import VERSION

# Each is a module of this folder, imported when it is asked for; the help lists them like this.
VERBS = {
    "compare": Message("command.compare"),
    "open": Message("command.open"),
    "verify": Message("command.verify"),
    "diff": Message("command.diff"),
    "convert": Message("command.convert"),
    "pair": Message("command.pair"),
    "html": Message("command.html"),
    "recorder": Message("command.recorder"),
    "causes": Message("command.causes"),
    "notebook": Message("command.notebook"),
}
_HELP = ("-h", "--help", "help")


class Verb(Protocol):
    """What the module of a verb has."""

    def grammar(self) -> Grammar:
        """The words that it takes."""

    def run(self, asked: argparse.Namespace) -> int:
        """Do it; the exit code."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words behind the name of the command; default those of this process.

    Returns
    -------
    int
        0 passed, 1 differs, 2 could not be compared or decided, 3 wrong words.
    """
    words = [*(sys.argv[1:] if arguments is None else arguments)]
    escape_what_cannot_be_shown()
    wrong: WrongWords | None = None
    language = _of_environment()
    try:
        language, words = _language_and_rest(words, language)
    except WrongWords as error:
        wrong = error
    with option_context(language=language, ascii=not can_show_marks(language)):
        code = _refused(wrong, words) if wrong is not None else _ended(words)
        settle()
        return code


def _ended(words: Sequence[str]) -> int:
    """The exit code, whatever happens; what went wrong is a line, a fault of ours its traceback."""
    try:
        with warnings_told():
            return _run(words)
    except WrongWords as error:
        return _refused(error, words)
    except KeyboardInterrupt:
        complain(with_name(NAME, Message("command.interrupted")))
    except (TroubleshooterError, OSError) as error:
        complain(_error_lines(error, words))
    except Exception:  # a fault of this program must not look like a difference
        complain(traceback.format_exc().rstrip().splitlines())
        complain(with_name(NAME, Message("command.fault")))
    return exit_codes.UNDECIDED


def _run(words: Sequence[str]) -> int:
    from troubleshooter_nb.compat.msprobe.compare import command

    if command.is_documented(words):
        return _run_documented(words)
    if not words:
        complain(overview_lines(VERBS))
        return exit_codes.WRONG_WORDS
    first, *rest = words
    if first == "--version":
        say(f"{NAME} {VERSION}")
        return exit_codes.PASSED
    if first in _HELP and not (first == "help" and rest):
        say(overview_lines(VERBS))
        return exit_codes.PASSED
    if first == "help":
        first, rest = rest[0], ["--help"]
    if first not in VERBS:
        raise no_verb(first, VERBS)
    return _run_verb(cast(Verb, importlib.import_module(f"{__package__}.{first}")), rest)


def _run_documented(words: Sequence[str]) -> int:
    """A command of msprobe's documents: 0 where files were written, whatever they say."""
    from troubleshooter_nb.compat.msprobe.compare import command

    try:
        command.run(words, lambda line: say(unbroken(line)))
    except command.WrongUse as error:
        raise WrongWords(message_of(error)) from None
    return exit_codes.PASSED


def _run_verb(verb: Verb, words: Sequence[str]) -> int:
    grammar = verb.grammar()
    if not {"-h", "--help"}.isdisjoint(before_the_end(words)):
        say(grammar.help_lines())
        return exit_codes.PASSED
    return verb.run(grammar.parse(words))


def _refused(error: WrongWords, words: Sequence[str]) -> int:
    """Say what is wrong with the words, and where the right ones are told."""
    verb = f" {words[0]}" if words and words[0] in VERBS else ""
    hint = Message("command.see_help", command=f"{NAME}{verb} --help")
    complain(with_name(f"{NAME}{verb}", message_of(error)))
    complain(paragraph(hint, stream=sys.stderr))
    return exit_codes.WRONG_WORDS


def _error_lines(error: BaseException, words: Sequence[str]) -> list[str]:
    """What went wrong, in one paragraph; of a path that nothing opens, all that was tried."""
    said = message_of(error)
    notes = [str(note) for note in getattr(error, "__notes__", ())]
    if isinstance(error, UnknownFormatError) and "files.not_recognised" in ids_of(said):
        if words[0] == "open":
            first, *others = *told(said).splitlines(), *notes
            lines = [paragraph(line.lstrip(), indent=2, stream=sys.stderr) for line in others]
            return [*with_name(NAME, first), *(line for some in lines for line in some)]
        path = cast(Message, said).values["path"]
        said = Message("command.not_recognised", path=path, command=f"{NAME} open")
    elif isinstance(error, OSError) and error.filename is not None and said is not None:
        said = _with_file(error, said)
    return with_name(NAME, " ".join(told(joined([said, *notes])).split("\n")))


def _with_file(error: OSError, said: str) -> str:
    """The system's answer with the file that it is about."""
    if isinstance(error, TroubleshooterError):
        return said
    return Message("files.in_file", file=os.fsdecode(error.filename), what=said)


def _of_environment() -> str:
    """The language that the environment asks for."""
    own = os.environ.get("TNB_LANGUAGE")
    names = ("LC_ALL", "LC_MESSAGES", "LANG")
    wanted = own or next(filter(None, map(os.environ.get, names)), "")
    return "zh" if wanted.lower().startswith("zh") else "en"


def _language_and_rest(words: Sequence[str], default: str) -> tuple[str, list[str]]:
    """The language that is asked for anywhere, and the words without it."""
    language, rest = default, list[str]()
    read = one_of(*LANGUAGES)
    given = iter(words)
    for word in given:
        if word == "--":
            return language, [*rest, word, *given]
        flag, is_joined, value = word.partition("=")
        if flag != "--language":
            rest.append(word)
            continue
        if not is_joined:
            value = next(given, "")
        language = read(flag, value)
    return language, rest
