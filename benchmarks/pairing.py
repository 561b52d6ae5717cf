"""Pairing across frameworks against the truth of the module objects, and its time per entry.

Exits 1 when a bar is missed. ``--quick`` times a tenth of the entries; ``-v`` prints more of the
wrong pairs.
"""

from __future__ import annotations

import gc
import importlib.util
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

from measuring.bars import Bar, Case, concluded

from troubleshooter_nb import Dump, pair_dumps
from troubleshooter_nb.dump import Entry
from troubleshooter_nb.naming import Site

RECALL, SECONDS, RATIO = 0.99, 10.0, 1.5
SIZES, ROUNDS = (5_000, 50_000), 3
TRUTH = Path(__file__).parents[1] / "tests" / "analysis" / "pairing_truth.py"


def truth_module() -> Any:
    """The runs of twin networks that the tests use as well."""
    spec = importlib.util.spec_from_file_location("pairing_truth", TRUTH)
    module = importlib.util.module_from_spec(spec)
    sys.modules["pairing_truth"] = module
    spec.loader.exec_module(module)
    return module


def large(entries: int, ranks: int, prefix: str, containers: tuple[str, str]) -> Dump:
    """A run of linear layers in blocks, with as many entries in all."""
    found = []
    outer, inner = containers
    roles = (("input", "0"), ("parameter", "weight"), ("parameter", "bias"), ("output", "0"))
    sections = {"input": "input", "parameter": "parameters", "output": "output"}
    layer = {"Module": "Linear", "Cell": "Dense"}[prefix]
    for rank in range(ranks):
        for n in range(entries // ranks):
            visit, leaf = divmod(n, len(roles))
            block, part = divmod(visit, 6)
            path = f"{outer}.{block}.{inner}{part}"
            role, slot = roles[leaf]
            width = 8 * (part + 1)
            shape = {"input": (4, 8), "parameter": (width, 8), "output": (4, width)}[role]
            name = f"{prefix}.{path}.{layer}.forward.0.{sections[role]}.{slot}"
            site = Site("module", path, 0, "forward", role, slot)
            shape = shape[:1] if slot == "bias" else shape
            found.append(Entry(name, site, rank=rank, order=n, shape=shape, layer=layer))
    return Dump.from_entries(found, label=prefix)


def timed(
    right: tuple[str, tuple[str, str]], mapping: str, sizes: tuple[int, int]
) -> list[tuple[float, int]]:
    """Best of some times of a small and of a large dump, and how many pairs there are.

    In turns, so that a slow moment of the machine meets both.
    """
    times: dict[int, list[float]] = {size: [] for size in sizes}
    matched = dict.fromkeys(sizes, 0)
    dumps = {
        size: (large(size, 8, "Module", ("layers", "fc")), large(size, 8, *right)) for size in sizes
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "layers.yaml"
        file.write_text(mapping)
        for _ in range(ROUNDS):
            for size in sizes:
                gc.collect()
                # Of this process alone: the machine is shared.
                start = time.process_time()
                pairing = pair_dumps(*dumps[size], mapping=file if mapping else None)
                times[size].append(time.process_time() - start)
                matched[size] = pairing.matched
    return [(min(times[size]), matched[size]) for size in sizes]


def main() -> int:
    """Print recall, wrong pairs and times; 1 if a bar is missed."""
    truth = truth_module()
    sizes = (SIZES[0] // 10, SIZES[1] // 10) if "--quick" in sys.argv else SIZES
    worst, total_found, total_wanted = 1.0, 0, 0
    wrong_by = dict.fromkeys(("<=0.5", "<=0.9", ">0.9"), 0)
    for net, level, (title, left, right) in product(
        ("gpt", "resnet"), ("module", "api"), truth.variations()
    ):
        result = truth.measure(net, level, left, right)
        certain = [w for w in result.wrong if w[0] > 0.9]
        for confidence, *_ in result.wrong:
            key = "<=0.5" if confidence <= 0.5 else "<=0.9" if confidence <= 0.9 else ">0.9"
            wrong_by[key] += 1
        total_found += result.found
        total_wanted += result.wanted
        print(
            f"{net:6} {level:6} {title:28} {result.found:4} of {result.wanted:4} "
            f"({result.recall:6.1%})  wrong: {len(result.wrong)}, above 0.9: {len(certain)}"
        )
        for row in result.wrong[:4] if "-v" in sys.argv else certain[:4]:
            print("      ", *row)
        worst = min(worst, result.recall)
    print(f"wrong pairs by confidence: {wrong_by}")
    found = (
        Bar("share found of the worst network", worst, least=RECALL),
        Bar("wrong above 0.9", wrong_by[">0.9"], most=0),
    )
    cases = [Case(f"pair two frameworks, {total_found:,} of {total_wanted:,} found", bars=found)]
    for title, right, mapping in (
        ("equal names", ("Module", ("layers", "fc")), ""),
        ("other framework, equal paths", ("Cell", ("layers", "fc")), ""),
        ("renamed", ("Cell", ("blocks", "dense")), ""),
        ("layer mapping", ("Cell", ("blocks", "fc")), "Cell:\n  blocks: layers\n"),
    ):
        few, many = timed(right, mapping, sizes)
        ratio = many[0] / sizes[1] / (few[0] / sizes[0])
        bars = (
            Bar("seconds of CPU", many[0], most=SECONDS, unit="s"),
            Bar(f"time per entry, over that of {sizes[0]:,}", ratio, most=RATIO),
            Bar("entries matched", many[1], least=sizes[1]),
        )
        cases.append(Case(f"pair {sizes[1]:,} entries, {title}", bars=bars))
    return concluded(cases)


if __name__ == "__main__":
    sys.exit(main())
