"""Planted faults: whether their origin and cause are found, and how sure the answer is."""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import time
from dataclasses import asdict
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "notebooks"))

from faulty.judging import Outcome, judged
from faulty.plan import draw
from faulty.sampled import BASE, forced
from faulty.tables import is_surely_wrong, print_tables


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="a cause, a fault's name, control or outside")
    parser.add_argument("--family", default="")
    parser.add_argument("--mindspore", type=float, default=0.0, help="share of the runs, 0 to 1")
    parser.add_argument("--run", type=int, default=None, help="this run alone, with its details")
    parser.add_argument("--failures", type=Path, help="write the runs that went wrong here")
    parser.add_argument("--table", action="store_true", help="print one line per run as well")
    parser.add_argument(
        "--sampled",
        type=int,
        nargs="?",
        const=BASE,
        metavar="ELEMENTS",
        help=f"read no tensor of more elements whole, default {BASE}: what large ones rely on",
    )
    return parser.parse_args()


def is_failure(outcome: Outcome) -> bool:
    """Whether a run is to be looked at."""
    wrong_cause = outcome.decides and outcome.expected["causes"] and not outcome.top_right
    return not outcome.origin_right or bool(wrong_cause) or is_surely_wrong(outcome)


def line(o: Outcome) -> str:
    """One run in one line."""
    marks = "".join(
        mark if right else "."
        for mark, right in (("o", o.origin_right), ("t", o.top_right), ("r", o.old_right))
    )
    top = f"{o.findings[0][0]} {o.findings[0][1]:.2f}" if o.findings else "-"
    return (
        f"{o.run:4} {marks} {o.family:11} {o.cause:26} {o.hard:18} {o.level:6} {o.keep:10} "
        f"{o.origin or '-'} | {top}"
    )


def main() -> int:
    """Carry out the runs and print the tables; 1 if a bar is missed."""
    options = arguments()
    torch.set_num_threads(1)
    numbers = range(options.runs) if options.run is None else [options.run]
    outcomes, start = [], time.perf_counter()
    for number in numbers:
        run = draw(number, options.seed, options.only, options.family, options.mindspore)
        with forced(options.sampled) if options.sampled else contextlib.nullcontext():
            outcome = judged(run)
        outcomes.append(outcome)
        if options.table:
            print(line(outcome), flush=True)
        if options.run is not None:
            print(json.dumps(asdict(outcome), indent=1, default=str))
    if options.failures:
        failed = [asdict(o) for o in outcomes if is_failure(o)]
        options.failures.write_text(json.dumps(failed, indent=1, default=str))
    if options.run is not None:
        return 0
    middle = statistics.median(outcome.seconds for outcome in outcomes)
    print(f"{time.perf_counter() - start:.0f} s in all; median of a comparison {middle:.3f} s")
    return int(not print_tables(outcomes))


if __name__ == "__main__":
    sys.exit(main())
