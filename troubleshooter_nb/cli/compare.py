"""``tnb compare LEFT RIGHT``: where two runs part, why, and what to do."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from troubleshooter_nb.cli import exit_codes, options
from troubleshooter_nb.cli.grammar import Grammar, one_of
from troubleshooter_nb.messages import Message

if TYPE_CHECKING:
    from troubleshooter_nb.analysis.series import SeriesComparison
    from troubleshooter_nb.comparison import Comparison
    from troubleshooter_nb.dump import Dump

METHODS = ("auto", "name", "order", "shape")  # of pairing, see `pair_dumps`


def grammar() -> Grammar:
    """The words of the verb."""
    examples = (
        "tnb compare ms_run torch_run -o record.html",
        "tnb compare new.ckpt old.pth --rtol 1e-3 --json",
        "tnb compare ms/loss.log torch/loss.log",
    )
    words = Grammar("compare", Message("command.compare_does"), examples)
    options.add_sides(words)
    options.add_outputs(words)
    options.add_tolerances(words)
    options.add_mappings(words)
    options.add_layers(words)
    reads = one_of(*METHODS)
    words.option("--pairing", value="METHOD", meaning=Message("command.pairing"), read=reads)
    words.switch("--fuzzy", meaning=Message("command.fuzzy"))
    options.add_places(words)
    options.add_diagnosis(words)
    return words


def run(asked: argparse.Namespace) -> int:
    """Compare, print the summary and write the files; the exit code of the comparison."""
    from troubleshooter_nb.cli.answer import give
    from troubleshooter_nb.cli.outputs import planned
    from troubleshooter_nb.cli.summary import exit_code_of, summary_lines
    from troubleshooter_nb.comparison import Comparison

    inputs = (asked.left, asked.right, *asked.mapping)
    outputs = planned(asked.output, Comparison, force=asked.force, inputs=inputs)
    found = _compared(asked)
    if isinstance(found, Comparison):
        give(asked, found, outputs, summary_lines)
        return exit_code_of(found)
    code = exit_codes.PASSED if found.passed else exit_codes.DIFFERS
    give(asked, found, outputs, lambda curves: _curve_lines(curves, code))
    return code


def _compared(asked: argparse.Namespace) -> Comparison | SeriesComparison:
    """The comparison of two dumps or, where a side is none but a curve, of two series."""
    from troubleshooter_nb.cli.inputs import chosen_sides, series_sides
    from troubleshooter_nb.dump import Dump
    from troubleshooter_nb.errors import UnknownFormatError

    try:
        return _of_dumps(asked, *chosen_sides(asked))
    except UnknownFormatError:
        sides = series_sides(asked)
        if sides is None:
            raise
    left, right = sides
    if isinstance(left, Dump) and isinstance(right, Dump):  # checkpoints of several steps
        return _of_dumps(asked, left, right)
    from troubleshooter_nb.analysis.series import compare_series

    return compare_series(left, right)


def _of_dumps(asked: argparse.Namespace, left: Dump | str, right: Dump | str) -> Comparison:
    from troubleshooter_nb.analysis.engine import compare
    from troubleshooter_nb.cli.inputs import layers, mappings

    return compare(
        left,
        right,
        rtol=asked.rtol,
        atol=asked.atol,
        equal_nan=asked.equal_nan,
        integer_tolerance=asked.integers,
        pairing=asked.pairing,
        mapping=mappings(asked),
        fuzzy=asked.fuzzy,
        layers=layers(asked),
        diagnose=not asked.no_diagnose,
        budget=1.0 if asked.budget is None else asked.budget,
    )


def _curve_lines(curves: SeriesComparison, code: int) -> list[str]:
    from troubleshooter_nb.cli.terminal import rewrapped, verdict_lines

    first, *rest = repr(curves).splitlines()
    return [*verdict_lines(first, code), *rewrapped("\n".join(rest))]
