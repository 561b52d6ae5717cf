"""``tnb diff A B``: what differs between two checkpoints, by structure and by value, and why."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from troubleshooter_nb.cli import options
from troubleshooter_nb.cli.grammar import Grammar, any_number
from troubleshooter_nb.messages import Message, told

if TYPE_CHECKING:
    from troubleshooter_nb.checkpoint_diff import CheckpointDiff

_MOST_BLOCK_LINES = 24


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
    options.add_diagnosis(words)
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
        diagnose=not asked.no_diagnose,
        budget=1.0 if asked.budget is None else asked.budget,
    )
    give(asked, found, outputs, _lines)
    return _exit_code(found)


def _lines(found: CheckpointDiff) -> list[str]:
    """The verdict, what changed and by how much, why, and what was not compared."""
    from troubleshooter_nb.cli import summary
    from troubleshooter_nb.cli.terminal import paragraph, rewrapped, verdict_lines
    from troubleshooter_nb.render.checkpoint_view import answers, block_lines
    from troubleshooter_nb.render.text import criterion

    explained, compared = found.explain(), found.comparison
    facts = explained.facts
    sides = {side: facts[f"{side}_label"] for side in ("left", "right")}
    lines = verdict_lines(found.verdict, _exit_code(found))
    said, of_blocks = answers(found.table, facts), found.shown_blocks()
    # Of headers alone the first of them is the verdict.
    said = said[1:] if compared is None else [criterion(facts), *said]
    for text in [told(Message("pages.sides", **sides)), *said]:
        lines += paragraph(text, indent=2)
    lines += [] if compared is None else summary.explained_lines(explained)
    lines += rewrapped("\n".join(block_lines(of_blocks, facts, _MOST_BLOCK_LINES)))
    lines += [] if compared is None else summary.not_compared_lines(compared)
    return [*lines, *summary.notes_lines(tuple(facts["notes"]))]


def _exit_code(found: CheckpointDiff) -> int:
    """The exit code of the comparison; without values what headers alone prove."""
    from troubleshooter_nb.cli.summary import exit_code_of

    return found.exit_code if found.comparison is None else exit_code_of(found.comparison)
