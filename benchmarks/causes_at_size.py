"""Whether causes are found in tensors of any size, and what finding them costs.

Plants one fault at a time in a tensor of so many elements, writes both sides as files, compares
them by the default call in a process of its own, and holds the first finding, its place and its
cost to what is true. Exits 1 when an answer is wrong or a cost is above its bar.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch
from at_size.cases import CASES
from at_size.judging import BARS_FROM, MOST_MIB, MOST_READINGS, Outcome, carried_out
from at_size.tables import growth, heading, line, size_of, totals
from measuring.bars import Bar, concluded
from measuring.bars import Case as Measured

SIZES, LARGE_SIZES, QUICK_SIZES = ("1M", "16M"), ("1M", "16M", "64M"), ("64K",)
# One of each way of reading in part; what `make bench` runs.
FEW = (
    *("layer_norm_eps", "linear_bias", "attention_scale", "convolution_padding_mode"),
    *("weight_transposed", "weight_gradient_of_half", "residual_left_out", "right_norm"),
)
FEW_SIZES = ("16M",)
_UNITS = {"K": 10, "M": 20, "G": 30}


def elements_of(text: str) -> int:
    """``16M`` as 2^24."""
    unit = text[-1:].upper()
    try:
        count = round(float(text[:-1]) * (1 << _UNITS[unit])) if unit in _UNITS else int(text)
    except ValueError as error:
        message = f"{text} is no number of elements such as 4096, 16M or 0.5G"
        raise argparse.ArgumentTypeError(message) from error
    if count < 1 << 12:
        message = f"{text} elements are fewer than 4096, which the cases need"
        raise argparse.ArgumentTypeError(message)
    return count


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--elements", nargs="+", type=elements_of, metavar="SIZE", help="1M is 2^20; default 1M 16M"
    )
    parser.add_argument("--large", action="store_true", help="1M, 16M and 64M")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="cases with a word")
    parser.add_argument("--few", action="store_true", help="some cases of 16M, as in make bench")
    parser.add_argument("--quick", action="store_true", help="the same cases of 64K")
    parser.add_argument("--json", type=Path, help="write all figures here")
    return parser.parse_args()


def chosen(options: argparse.Namespace) -> tuple[list[str], list[int]]:
    """Names of cases, and sizes."""
    is_few = options.few or options.quick
    default = QUICK_SIZES if options.quick else FEW_SIZES if is_few else SIZES
    sizes = options.elements or [
        elements_of(s) for s in (LARGE_SIZES if options.large else default)
    ]
    names = [
        name
        for name in (FEW if is_few else CASES)
        if not options.only or any(word in name for word in options.only)
    ]
    return names, sizes


def bars(outcome: Outcome) -> Measured:
    """A case of the table of all scripts."""
    found = [
        Bar("the answer is right", int(outcome.is_right), least=1),
        Bar("the place is right", int(outcome.place_right), least=1),
    ]
    if outcome.elements >= BARS_FROM:
        found += [
            Bar("diagnosis over reading both", outcome.readings, most=MOST_READINGS),
            Bar("memory above the comparison", outcome.mib, most=MOST_MIB, unit="MiB"),
        ]
    return Measured(f"{outcome.name} in {size_of(outcome.elements)} elements", bars=tuple(found))


def report(outcomes: Sequence[Outcome]) -> None:
    """Print what stands below the lines of the cases."""
    print("", *totals(outcomes), sep="\n")
    if lines := growth(outcomes):
        print("", *lines, sep="\n")


def main() -> int:
    """Carry out the cases; 0 when all answers are right and cost no more than they may."""
    options = arguments()
    names, sizes = chosen(options)
    torch.set_num_threads(os.cpu_count() or 1)
    print(heading(), flush=True)
    outcomes, start = [], time.perf_counter()
    for elements in sizes:
        for name in names:
            outcomes.append(carried_out(CASES[name], elements))
            print(line(outcomes[-1]), flush=True)
    report(outcomes)
    print(f"\n{len(outcomes)} cases in {time.perf_counter() - start:.0f} s\n")
    if options.json:
        options.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    if options.few or options.quick:
        return concluded([bars(outcome) for outcome in outcomes])
    is_met = all(o.meets_bars for o in outcomes if o.elements >= BARS_FROM)
    return int(not (is_met and all(o.is_right and o.place_right for o in outcomes)))


if __name__ == "__main__":
    sys.exit(main())
