"""Options that several verbs take, each in one place."""

from __future__ import annotations

from troubleshooter_nb.cli.grammar import Grammar, number, numbers
from troubleshooter_nb.messages import Message


def add_sides(grammar: Grammar) -> None:
    """Take the two sides."""
    grammar.operand("LEFT", Message("command.left"))
    grammar.operand("RIGHT", Message("command.right"))


def add_outputs(grammar: Grammar, *, is_for_machines: bool = True) -> None:
    """Take the files to write, and whether the answer is for machines."""
    grammar.option("-o", "--output", value="FILE", meaning=Message("command.output"), several=True)
    grammar.switch("--force", meaning=Message("command.force"))
    if is_for_machines:
        grammar.switch("--json", meaning=Message("command.json"))


def add_tolerances(grammar: Grammar) -> None:
    """Take what may differ."""
    for flag, id in (("--rtol", "command.rtol"), ("--atol", "command.atol")):
        grammar.option(flag, value="NUMBER", meaning=Message(id), read=number, default=1e-4)
    meaning = Message("command.integer_tolerance")
    grammar.option("--integers", value="NUMBER", meaning=meaning, read=number, default=0.0)
    grammar.switch("--equal-nan", meaning=Message("command.equal_nan"))


def add_mappings(grammar: Grammar) -> None:
    """Take what is known of which belongs to which."""
    grammar.option("--mapping", value="FILE", meaning=Message("command.mapping"), several=True)


def add_diagnosis(grammar: Grammar) -> None:
    """Take how much is asked about causes."""
    grammar.option("--budget", value="NUMBER", meaning=Message("command.budget"), read=number)
    grammar.switch("--no-diagnose", meaning=Message("command.no_diagnose"))


def add_layers(grammar: Grammar) -> None:
    """Take what is known of classes of layers."""
    meaning = Message("command.layer")
    grammar.option("--layer", value="PLACE=CLASS", meaning=meaning, several=True)


def add_places(grammar: Grammar) -> None:
    """Take the steps and ranks to look at."""
    for flag, id in (("--step", "command.step"), ("--rank", "command.rank")):
        grammar.option(flag, value="LIST", meaning=Message(id), read=numbers)
