"""``tnb causes [ID]``: the causes that can be proved, how, and what to do about them."""

from __future__ import annotations

import argparse
import json
from string import Formatter

from troubleshooter_nb.catalogue import CAUSES
from troubleshooter_nb.cli import exit_codes
from troubleshooter_nb.cli.grammar import Grammar, WrongWords
from troubleshooter_nb.cli.terminal import paragraph, say
from troubleshooter_nb.messages import Message, language_in_force


def grammar() -> Grammar:
    """The words of the verb."""
    words = Grammar(
        "causes", Message("command.causes_does"), ("tnb causes", "tnb causes bias_missing")
    )
    words.operand("ID", Message("command.id"), may_lack=True)
    words.switch("--json", meaning=Message("command.json"))
    return words


def run(asked: argparse.Namespace) -> int:
    """Print all causes, or all about one."""
    if asked.id is not None and asked.id not in CAUSES:
        from troubleshooter_nb.naming.closeness import closest

        near = closest(asked.id, CAUSES)
        raise WrongWords(Message("command.no_cause", id=asked.id, closest=near))
    shown = [asked.id] if asked.id is not None else [*CAUSES]
    if asked.json:
        say(json.dumps([cause(id) for id in shown], indent=1, ensure_ascii=False))
    elif asked.id is not None:
        say(_all_about(cause(asked.id)))
    else:
        for id in shown:
            say(paragraph(Message("command.entry", name=id, why=cause(id)["title"])))
    return exit_codes.PASSED


def cause(id: str) -> dict[str, str]:
    """What is said of a cause, its gaps by their names in angle brackets."""
    one, chinese = CAUSES[id], language_in_force() == "zh"
    said = {name: getattr(one, name)[chinese] for name in ("title", "proof", "repair")}
    return {"id": id, **{name: _with_names(text) for name, text in said.items()}}


def _with_names(template: str) -> str:
    parts = Formatter().parse(template)
    return "".join(text + (f"<{name}>" if name else "") for text, name, _, _ in parts)


def _all_about(told: dict[str, str]) -> list[str]:
    lines = paragraph(Message("command.entry", name=told["id"], why=told["title"]))
    parts = (("command.proved_by", "proof"), ("explanations.part_repair", "repair"))
    for title, part in parts:
        if told[part]:
            lines += [*paragraph(Message(title)), *paragraph(told[part], indent=2)]
    return lines
