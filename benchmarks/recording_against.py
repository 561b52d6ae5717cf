"""What it costs to compare with a reference while a network is recorded, next to recording alone.

A transformer of 6 layers, width 256, batch 8 x 64, forward and backward, one thread. The step
alone, recorded, and recorded ``against=`` a folder of the same steps take turns in one process, and
each counts in its best one. Of the references one has the same bits, one was rounded otherwise, as
another framework would, and one holds statistics alone. Exits 1 when a bar is missed. ``--quick``
takes a small network, one round.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import torch
from measuring.bars import DEFAULT, FLOOR, Bar, Case, concluded
from measuring.transformer import Size, Training

import troubleshooter_nb as tnb

SIZE, SMALL = Size(width=256, batch=8), Size(width=64, batch=2)
ROUNDS, STEPS = 3, 2
# Over the step as it is recorded alone.
MOST = 1.5
SAME, ROUNDED, FIGURES = "the same bits", "other rounding", "statistics"
ROUNDING = 2e-7  # relative, of the weights


def step_seconds(training: Training, count: int, options: Mapping[str, object] | None) -> float:
    """CPU seconds of a step after the first one; None records nothing."""
    if options is None:
        training.learn()
        start = time.process_time()
        for _ in range(count):
            training.learn()
        return (time.process_time() - start) / count
    with tnb.record(training.net, **options) as rec:
        training.learn()
        rec.step()
        rec.flush()
        start = time.process_time()
        for _ in range(count):
            training.learn()
            rec.step()
        rec.flush()
        seconds = (time.process_time() - start) / count
    if "against" in options and not rec.differences.passed:
        raise RuntimeError(repr(rec.differences))
    shutil.rmtree(options["to"])
    return seconds


def references(training: Training, folder: Path, count: int) -> dict[str, Path]:
    """Recordings of as many steps, whose values are the same or differ by rounding."""
    found = {}
    for kind, keep in ((SAME, "tensor"), (ROUNDED, "tensor"), (FIGURES, "statistics")):
        found[kind] = folder / kind.replace(" ", "_")
        kept = [p.detach().clone() for p in training.net.parameters()]
        if kind == ROUNDED:
            with torch.no_grad():
                for p in training.net.parameters():
                    p.mul_(1 + ROUNDING * torch.randn_like(p))
        with tnb.record(training.net, to=found[kind], keep=keep) as rec:
            for _ in range(count + 1):
                training.learn()
                rec.step()
        with torch.no_grad():
            for p, values in zip(training.net.parameters(), kept, strict=True):
                p.copy_(values)
    return found


def cases(*, quick: bool) -> list[Case]:
    """Each way to keep values beside each reference."""
    torch.set_num_threads(1)
    training = Training(SMALL if quick else SIZE)
    rounds, count = (1, 1) if quick else (ROUNDS, STEPS)
    best: dict[tuple[str, str], float] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        against = references(training, folder, count)
        to = folder / "recorded"
        ways: dict[tuple[str, str], dict[str, object] | None] = {("", ""): None}
        for keep in ("statistics", "tensor"):
            ways[keep, ""] = {"to": to, "keep": keep}
            for kind, reference in against.items():
                ways[keep, kind] = {"to": to, "keep": keep, "against": reference}
        for _ in range(rounds):
            for way, options in ways.items():
                seconds = step_seconds(training, count, options)
                best[way] = min(seconds, best.get(way, seconds))
    plain = best["", ""]
    found = []
    for keep, kind in (way for way in ways if way[1]):
        alone, seconds = best[keep, ""], best[keep, kind]
        bars = [
            Bar("over recording alone", seconds / alone, most=MOST),
            Bar("extra time over that of recording alone", (seconds - plain) / (alone - plain)),
        ]
        name = f"record {keep} against {kind}; floor: recorded alone"
        found.append(Case(name, {DEFAULT: seconds, FLOOR: alone}, bars))
    return found


def main() -> int:
    """Print the table; 0 when the bars are met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    return concluded(cases(quick=parser.parse_args().quick))


if __name__ == "__main__":
    sys.exit(main())
