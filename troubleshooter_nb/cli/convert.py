"""``tnb convert A B``: weights of one framework as those of the other, with the proof of it."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from troubleshooter_nb.cli import exit_codes, options
from troubleshooter_nb.cli.grammar import Grammar, WrongWords, one_of
from troubleshooter_nb.messages import Message

if TYPE_CHECKING:
    from troubleshooter_nb.cli.outputs import Outputs, Writer
    from troubleshooter_nb.comparison import Comparison
    from troubleshooter_nb.weight_map import WeightMap

_MAPS = (".yaml", ".yml", ".json")
# What a file of this name is loaded by, where nobody says it.
_LOADED_BY = {".ckpt": "mindspore", ".pth": "torch", ".pt": "torch"}


def grammar() -> Grammar:
    """The words of the verb."""
    examples = (
        "tnb convert net.pth net.ckpt",
        "tnb convert net.pth map.yaml --like ms_net.ckpt",
        "tnb convert net.pth net.ckpt --map map.yaml -o proof.html",
    )
    words = Grammar("convert", Message("command.convert_does"), examples)
    words.operand("SOURCE", Message("command.source"))
    words.operand("DESTINATION", Message("command.destination"))
    words.option("--map", value="FILE", meaning=Message("command.map"))
    words.option("--like", value="PATH", meaning=Message("command.like"))
    reads = one_of("mindspore", "mint", "torch")
    words.option("--to", value="FRAMEWORK", meaning=Message("command.to"), read=reads)
    words.switch("--accept", meaning=Message("command.accept"))
    words.option("--drop", value="NAME", meaning=Message("command.drop"), several=True)
    words.option("--keep", value="NAME", meaning=Message("command.keep"), several=True)
    words.option("--save-map", value="FILE", meaning=Message("command.save_map"))
    options.add_outputs(words)
    return words


def run(asked: argparse.Namespace) -> int:
    """Draft a map or take the one given, write it or what it makes, and print the proof."""
    from troubleshooter_nb.cli.terminal import complain, rewrapped, say

    if asked.to is not None and (asked.map or asked.like):
        raise WrongWords(Message("command.one_target"))
    if asked.accept and asked.map and not asked.like:
        raise WrongWords(Message("command.accept_needs_like"))
    is_draft = Path(asked.destination).suffix.lower() in _MAPS
    maps, proofs = _planned(asked, is_draft=is_draft)
    weight_map = _declared(asked, _map_of(asked))
    tell = complain if asked.json else say
    if is_draft or asked.map is None:
        tell(rewrapped(repr(weight_map)))
    tell(maps.write(weight_map))
    if is_draft:
        doubts = _said_of(weight_map)
        return exit_codes.DIFFERS if weight_map.problems() or doubts else exit_codes.PASSED
    return _converted(asked, weight_map, proofs)


def _planned(asked: argparse.Namespace, *, is_draft: bool) -> tuple[Outputs, Outputs]:
    """The files of the map and of the proof; the weights' own is looked at as well."""
    from troubleshooter_nb.cli.outputs import planned
    from troubleshooter_nb.comparison import Comparison
    from troubleshooter_nb.formats.mapping_file import write_weight_map
    from troubleshooter_nb.weight_map import WeightMap

    if is_draft and (asked.output or asked.save_map):
        raise WrongWords(Message("command.map_alone", file=asked.destination))
    inputs = [path for path in (asked.source, asked.map, asked.like) if path is not None]
    saved = [asked.destination] if is_draft else [asked.save_map] if asked.save_map else []
    drawn = dict.fromkeys(_MAPS, write_weight_map)
    maps = planned(saved, WeightMap, force=asked.force, inputs=inputs, writers=drawn)
    proofs = planned(asked.output, Comparison, force=asked.force, inputs=inputs)
    if not is_draft:
        later = _check_destination(asked.destination)
        planned([asked.destination], Comparison, force=asked.force, inputs=inputs, writers=later)
    return maps, proofs


def _check_destination(name: str) -> dict[str, Writer]:
    """Refuse a file that weights are not written to; the suffixes of those that they are."""
    from troubleshooter_nb.formats.checkpoint_save import WRITERS

    path = Path(name)
    if path.suffix.lower() not in WRITERS:
        suffixes = [*WRITERS, *_MAPS]
        raise WrongWords(Message("weight_maps.cannot_write", name=path.name, suffixes=suffixes))
    return dict.fromkeys(WRITERS, _written_later)


def _written_later(weights: object, path: Path) -> None:
    """Nothing: `convert_weights` writes them itself."""


def _converted(asked: argparse.Namespace, weight_map: WeightMap, proofs: Outputs) -> int:
    """Write the weights, and the proof of them."""
    from troubleshooter_nb.cli.answer import give
    from troubleshooter_nb.cli.summary import exit_code_of
    from troubleshooter_nb.cli.terminal import complain, paragraph, say
    from troubleshooter_nb.convert.apply import convert_weights
    from troubleshooter_nb.errors import TroubleshooterWarning
    from troubleshooter_nb.weight_map.doubts import has_doubts

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TroubleshooterWarning)  # they are the proof's first notes
        proof = convert_weights(asked.source, asked.destination, weight_map)
    tell = complain if asked.json else say
    tell(paragraph(Message("command.written", file=asked.destination)))
    give(asked, proof, proofs, _proof_lines)
    return exit_code_of(proof) or (exit_codes.DIFFERS if has_doubts(proof.notes) else 0)


def _proof_lines(proof: Comparison) -> list[str]:
    from troubleshooter_nb.cli.summary import exit_code_of, notes_lines
    from troubleshooter_nb.cli.terminal import paragraph, verdict_lines

    lines = paragraph(Message("command.proof"))
    return [*lines, *verdict_lines(proof.verdict, exit_code_of(proof)), *notes_lines(proof.notes)]


def _map_of(asked: argparse.Namespace) -> WeightMap:
    """The map that is given, or a draft for what is wanted."""
    from troubleshooter_nb.convert.draft import draft_weight_map, held_against
    from troubleshooter_nb.formats.mapping_file import read_weight_map

    if asked.map is not None:
        read = read_weight_map(asked.map)
        return read if asked.like is None else held_against(read, asked.source, asked.like)
    loaded_by = _LOADED_BY.get(Path(asked.destination).suffix.lower())
    return draft_weight_map(asked.source, asked.like or asked.to or loaded_by)


def _declared(asked: argparse.Namespace, weight_map: WeightMap) -> WeightMap:
    """The map with what its user says: what is accepted, goes nowhere or stays as it is."""
    if asked.accept:
        weight_map = weight_map.accept()
    sources = weight_map.source or [name for row in weight_map for name in row.sources]
    targets = weight_map.target or [name for row in weight_map for name in row.targets]
    for pattern in asked.drop:
        weight_map = weight_map.drop(*_meant(pattern, sources))
    for pattern in asked.keep:
        weight_map = weight_map.keep(*_meant(pattern, targets))
    return weight_map


def _meant(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that a pattern means; one that means none stands for itself."""
    return [name for name in names if fnmatchcase(name, pattern)] or [pattern]


def _said_of(weight_map: WeightMap) -> list[Message]:
    """The doubts of a map, which are printed."""
    from troubleshooter_nb.cli.terminal import complain, paragraph

    doubts = weight_map.doubts()
    for said in doubts:
        complain(paragraph(said))
    return doubts
