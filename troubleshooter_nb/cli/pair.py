"""``tnb pair A B -o map.yaml``: which entries belong together, as a file to look at and edit."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from troubleshooter_nb.cli import exit_codes, options
from troubleshooter_nb.cli.compare import METHODS
from troubleshooter_nb.cli.grammar import Grammar, one_of
from troubleshooter_nb.messages import Message

if TYPE_CHECKING:
    from troubleshooter_nb.analysis.align import PairingMethod

_KINDS = ("data", "layer", "cell", "api")


def grammar() -> Grammar:
    """The words of the verb."""
    examples = (
        "tnb pair ms_run torch_run -o map.yaml",
        "tnb compare ms_run torch_run --mapping map.yaml",
    )
    words = Grammar("pair", Message("command.pair_does"), examples)
    options.add_sides(words)
    options.add_outputs(words)
    kinds = Message("command.kind")
    words.option("--kind", value="KIND", meaning=kinds, read=one_of(*_KINDS), default="data")
    reads = one_of(*METHODS)
    words.option("--pairing", value="METHOD", meaning=Message("command.pairing"), read=reads)
    options.add_mappings(words)
    words.switch("--fuzzy", meaning=Message("command.fuzzy"))
    options.add_places(words)
    return words


def run(asked: argparse.Namespace) -> int:
    """Print and write the pairs; whether every entry has its partner."""
    from troubleshooter_nb.analysis.align import pair_dumps
    from troubleshooter_nb.analysis.progress import watched
    from troubleshooter_nb.cli.answer import give
    from troubleshooter_nb.cli.inputs import chosen_sides, mappings
    from troubleshooter_nb.cli.outputs import planned
    from troubleshooter_nb.formats.pairing_writer import write_mapping
    from troubleshooter_nb.pairing import Pairing

    def write(pairing: Pairing, path: Path) -> Path:
        return write_mapping(pairing, path, kind=asked.kind)

    inputs = (asked.left, asked.right, *asked.mapping)
    writers = dict.fromkeys((".yaml", ".yml"), write)
    outputs = planned(asked.output, Pairing, force=asked.force, inputs=inputs, writers=writers)
    sides, given = chosen_sides(asked), mappings(asked)
    method: PairingMethod = asked.pairing or "auto"
    with watched(None) as watch:
        watch.begin(Message("comparisons.pairing"))
        found = pair_dumps(*sides, method=method, mapping=given, fuzzy=asked.fuzzy)
    give(asked, found, outputs)
    if not found.matched:
        return exit_codes.UNDECIDED
    alone = (found.columns["method"] == "unmatched") & ~found.columns["expected"]
    return exit_codes.DIFFERS if alone.any() else exit_codes.PASSED
