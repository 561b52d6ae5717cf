"""Planted faults: whether their origin and cause are found, and how sure the answer is."""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "notebooks"))

from faulty.judging import Outcome, judged, judged_files
from faulty.plan import draw, draw_way
from faulty.sampled import BASE, forced
from faulty.summarised import SIDES, summarised
from faulty.tables import is_surely_wrong, print_tables
from faulty.way_tables import print_ways
from faulty.ways import MEMORY, WAYS

# Every way that writes files.
ALL = "all"


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
    parser.add_argument(
        "--ways",
        nargs="+",
        default=[MEMORY],
        choices=[MEMORY, *WAYS, ALL],
        metavar="WAY",
        help=f"how runs are recorded, which share --runs: {MEMORY} (default), {', '.join(WAYS)}; "
        f"{ALL}: every one that writes files",
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes that carry out the runs")
    parser.add_argument("--table", action="store_true", help="print one line per run as well")
    parser.add_argument(
        "--sampled",
        type=int,
        nargs="?",
        const=BASE,
        metavar="ELEMENTS",
        help=f"read no tensor of more elements whole, default {BASE}: what large ones rely on",
    )
    parser.add_argument(
        "--statistics",
        choices=SIDES,
        help=f"of runs in {MEMORY}: what keeps statistics and fingerprints alone",
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
        f"{o.run:4} {marks} {o.family:11} {o.cause:26} {o.hard:18} "
        f"{o.level if o.way == MEMORY else o.way:6} {o.keep:10} {o.origin or '-'} | {top}"
        f"{f' | {o.error[:90]}' if o.error else ''}"
    )


def shares(ways: Sequence[str], runs: int) -> list[tuple[str, int]]:
    """The number of each run with its way; all ways advance together."""
    names = list(dict.fromkeys(n for way in ways for n in (WAYS if way == ALL else (way,))))
    weights = {name: WAYS[name].share if name in WAYS else 1.0 for name in names}
    counts = {n: round(runs * w / sum(weights.values())) for n, w in weights.items()}
    found = [(n, number) for n, count in counts.items() for number in range(count)]
    return sorted(found, key=lambda one: (one[1] / max(counts[one[0]], 1), names.index(one[0])))


def carried_out(way: str, number: int, options: argparse.Namespace) -> Outcome:
    """Draw a run and judge it."""
    torch.set_num_threads(1)
    with forced(options.sampled) if options.sampled else contextlib.nullcontext():
        if way == MEMORY:
            run = draw(number, options.seed, options.only, options.family, options.mindspore)
            return judged(summarised(run, options.statistics) if options.statistics else run)
        with tempfile.TemporaryDirectory(prefix="faults_") as folder:
            place = Path(folder)
            run = draw_way(WAYS[way], number, options.seed, place, options.only, options.family)
            return judged_files(run)


def outcomes_of(options: argparse.Namespace) -> Iterator[Outcome]:
    """One after the other, or several at once, in the same order."""
    wanted = shares(options.ways, options.runs)
    if options.run is not None:
        wanted = [(way, options.run) for way in dict.fromkeys(way for way, _ in wanted)]
    if options.jobs < 2:
        yield from (carried_out(way, number, options) for way, number in wanted)
        return
    # MindSpore does not survive a fork.
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=spawned) as pool:
        waiting = [pool.submit(carried_out, way, number, options) for way, number in wanted]
        yield from (one.result() for one in waiting)


def main() -> int:
    """Carry out the runs and print the tables; 1 if a bar is missed."""
    options = arguments()
    torch.set_num_threads(1)
    outcomes, start = [], time.perf_counter()
    for outcome in outcomes_of(options):
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
    if options.ways == [MEMORY]:
        return int(not print_tables(outcomes))
    return int(not print_ways(outcomes))


if __name__ == "__main__":
    sys.exit(main())
