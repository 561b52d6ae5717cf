"""``tnb diff A B``: what differs between two checkpoints, by structure and by value."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from troubleshooter_nb.cli import exit_codes, options
from troubleshooter_nb.cli.grammar import Grammar, any_number
from troubleshooter_nb.messages import Message

if TYPE_CHECKING:
    from troubleshooter_nb.checkpoint_diff import CheckpointDiff


def grammar() -> Grammar:
    """The words of the verb."""
    examples = (
        "tnb diff net.ckpt net.pth -o diff.xlsx",
        "tnb diff large.ckpt large.safetensors --no-values",
    )
    words = Grammar("diff", Message("command.diff_does"), examples)
    options.add_sides(words)
    options.add_outputs(words)
    options.add_tolerances(words)
    options.add_mappings(words)
    words.switch("--no-values", meaning=Message("command.no_values"))
    meaning = Message("command.learning_rate")
    words.option("--learning-rate", value="NUMBER", meaning=meaning, read=any_number)
    return words


def run(asked: argparse.Namespace) -> int:
    """Print and write the difference; whether there is one."""
    from troubleshooter_nb.analysis.checkpoints import diff_checkpoints
    from troubleshooter_nb.checkpoint_diff import CheckpointDiff
    from troubleshooter_nb.cli.answer import give
    from troubleshooter_nb.cli.inputs import mappings
    from troubleshooter_nb.cli.outputs import planned

    inputs = (asked.left, asked.right, *asked.mapping)
    outputs = planned(asked.output, CheckpointDiff, force=asked.force, inputs=inputs)
    found = diff_checkpoints(
        asked.left,
        asked.right,
        rtol=asked.rtol,
        atol=asked.atol,
        equal_nan=asked.equal_nan,
        integer_tolerance=asked.integers,
        values=not asked.no_values,
        learning_rate=asked.learning_rate,
        mapping=mappings(asked),
    )
    give(asked, found, outputs)
    return exit_code_of(found)


def exit_code_of(found: CheckpointDiff) -> int:
    """The exit code of a difference of checkpoints.

    1 as soon as structures or values differ; 2 if what can be told is equal, but something cannot
    be read, or an interrupt came.
    """
    from troubleshooter_nb.analysis.engine import interruptions

    compared = found.comparison
    if compared is not None and interruptions(compared):
        return exit_codes.UNDECIDED
    if found.passed:
        return exit_codes.PASSED
    structure = found.table["structure"].values
    alone = (structure == "left_only") | (structure == "right_only")
    broken = (alone & ~found.table["expected"].values) | (structure == "shape")
    differs = broken.any() or (compared is not None and compared.exit_code == exit_codes.DIFFERS)
    return exit_codes.DIFFERS if differs else exit_codes.UNDECIDED
