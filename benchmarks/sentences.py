"""Every sentence the diagnosis says over the planted faults, each with the run that made it.

Prints the sentences of explanations, reasons, notes and causes by their ids, with the first run
that said them, and the ids that no run said: to be read, by people who did not write them. What no
planted fault brings about may be said in a test, which `TNB_TOLD=FOLDER make test` writes down.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "notebooks"))

from faulty.plan import Run, draw, draw_way
from faulty.registry import FAULTS
from faulty.ways import WAYS

import troubleshooter_nb as tnb
from troubleshooter_nb.catalogue import CAUSES
from troubleshooter_nb.messages import Language, Message, explanations, places, verdicts

TABLES = {"explanations": explanations, "places": places, "verdicts": verdicts}
Said = dict[str, tuple[str, str]]  # by id: what was said first, and the run that made it


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--controls", type=int, default=2, help="right runs of each way")
    parser.add_argument("--language", default="en", choices=["en", "zh"])
    parser.add_argument(
        "--told", type=Path, metavar="FOLDER", help="what the tests said, by TNB_TOLD=FOLDER"
    )
    return parser.parse_args()


def runs(seed: int, controls: int, folder: Path) -> Iterator[tuple[str, Run]]:
    """Each fault in memory and in one way that can hold it, and right runs of each way."""
    ways = [way for way in WAYS.values() if not way.is_wide]
    for number, fault in enumerate(FAULTS):
        # Some cannot be drawn in memory, or in the nets of a way.
        with contextlib.suppress(RuntimeError, SystemExit):
            yield f"{fault.name}, in memory", draw(number, seed, fault.name)
        able = [way for way in ways if way.can(fault)]
        if able:
            way = able[number % len(able)]
            with contextlib.suppress(RuntimeError, SystemExit):
                run = draw_way(way, number, seed, folder / f"{number}", fault.name)
                yield f"{fault.name}, {way.name}", run
    for way in ways:
        for number in range(controls):
            place = folder / f"{way.name}{number}"
            yield f"right, {way.name}", draw_way(way, number, seed, place, "control")


def listen(said: Said, made_by: list[str]) -> None:
    """Note every message that is told from now on as of the run that `made_by` ends with."""
    original = Message.told

    def told(self: Message, language: Language) -> str:
        text = original(self, language)
        said.setdefault(self.id, (text, made_by[-1]))
        return text

    Message.told = told  # type: ignore[method-assign]


def told_in_tests(folder: Path) -> Said:
    """What each test said first, in English; `tests/conftest.py` writes it."""
    said: Said = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            id, text, test = json.loads(line)
            said.setdefault(id, (text, test))
    return said


def main() -> int:
    """Print what was said, and what was not."""
    options = arguments()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    said: Said = {}
    proofs: Said = {}
    made_by = ["being drawn"]  # also a run that is drawn says something
    listen(said, made_by)
    with tempfile.TemporaryDirectory() as folder, tnb.option_context(language=options.language):
        for name, run in runs(options.seed, options.controls, Path(folder)):
            made_by.append(name)
            sides = [str(one.path) for one in run.files] if run.files else [run.left, run.right]
            found = tnb.compare(*sides, progress=False)
            explained = str(found.explain())
            str(found), found._repr_html_()
            for finding in found.findings:
                proofs.setdefault(finding.cause, (explained, name))
    if options.told:
        said = told_in_tests(options.told) | said
    for table, messages in TABLES.items():
        ids = [f"{table}.{key}" for key in messages.MESSAGES]
        print(f"== {table}: {sum(id in said for id in ids)} of {len(ids)}")
        for id in ids:
            if id in said:
                text, run_name = said[id]
                print(
                    *textwrap.wrap(f"{id} [{run_name}]: {text}", 110, subsequent_indent="    "),
                    sep="\n",
                )
        print("not said:", ", ".join(id for id in ids if id not in said) or "none", "\n")
    print(f"== causes: {len(proofs)} of {len(CAUSES)}")
    for cause, (explained, run_name) in sorted(proofs.items()):
        print(f"{cause} [{run_name}]\n{textwrap.indent(explained, '    ')}")
    print("not told:", ", ".join(cause for cause in CAUSES if cause not in proofs) or "none")
    return 0


if __name__ == "__main__":
    sys.exit(main())
